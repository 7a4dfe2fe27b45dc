// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/* poll() and select(). Sets without a stream among them are the C library's. */
#include <stdlib.h>
#include <sys/resource.h>

#include "base/time.h"
#include "rsocket/probe.h"
#include "sockets/real.h"
#include "sockets/sockets.h"

#pragma GCC visibility push(default)

/* ---- poll ------------------------------------------------------------------------------------ */

struct set {
	struct poll_item *items;
	struct entry **entries; /* held */
	const struct pollfd *fds;
	nfds_t n;
};

static int set_begin(struct set *set, const struct pollfd *fds, nfds_t n)
{
	*set = (struct set){.items = calloc(n, sizeof(*set->items)),
			    .entries = calloc(n, sizeof(struct entry *)),
			    .fds = fds,
			    .n = n};
	if (n && (!set->items || !set->entries)) {
		free(set->items);
		free(set->entries);
		return -ENOMEM;
	}
	for (nfds_t i = 0; i < n; i++) {
		struct entry *e = entry_get(fds[i].fd);
		struct stream *s;
		int number;

		if (e)
			entry_claim(e);
		s = e ? entry_stream(e) : NULL;
		set->entries[i] = e;
		set->items[i] = (struct poll_item){s ? &s->sock : NULL,
						   s ? e->kernel_fd : fds[i].fd, fds[i].events, 0};
		if (!e && (number = epoll_poll_begin(fds[i].fd)) >= 0)
			set->items[i].fd = number;
	}
	return 0;
}

/* An epoll set with streams in it; for us it has another number, which is the kernel's alone. */
static bool is_set(const struct set *set, nfds_t i)
{
	return !set->items[i].sock && set->items[i].fd != set->fds[i].fd;
}

static void set_end(void *arg)
{
	struct set *set = arg;

	for (nfds_t i = 0; i < set->n; i++) {
		if (set->entries[i])
			entry_put(set->entries[i]);
		else if (is_set(set, i))
			epoll_poll_end(set->fds[i].fd);
	}
	free(set->items);
	free(set->entries);
}

/* Has a connection that was not made by RDMA gone to the kernel meanwhile? Then once more. */
static bool changed(const struct set *set)
{
	for (nfds_t i = 0; i < set->n; i++) {
		if (set->entries[i] && set->items[i].sock &&
		    entry_stream(set->entries[i]) !=
			    container_of(set->items[i].sock, struct stream, sock))
			return true;
	}
	return false;
}

/* Of so many it is not asked whether they are too many. */
enum { FEW = 32 };

/* What the kernel would refuse is the kernel's. */
static bool tracked(struct pollfd *fds, nfds_t n)
{
	struct rlimit most;
	bool any = false;

	if (n > FEW && (getrlimit(RLIMIT_NOFILE, &most) || n > most.rlim_cur))
		return false;
	if (!probe_readable(fds, n * sizeof(*fds)))
		return false;

	for (nfds_t i = 0; i < n && !any; i++) {
		struct entry *e = entry_get(fds[i].fd);

		if (!e) {
			any = epoll_is_ours(fds[i].fd);
			continue;
		}
		entry_claim(e);
		any = entry_stream(e);
		entry_put(e);
	}
	return any;
}

/* Epoll sets of whose streams there was news, and of which none is ready after all. */
static int without_idle_sets(struct set *set, int count)
{
	for (nfds_t i = 0; i < set->n; i++) {
		struct poll_item *it = &set->items[i];

		if (!is_set(set, i) || !it->revents || epoll_poll_ready(set->fds[i].fd))
			continue;
		it->revents = 0;
		count--;
	}
	return count;
}

static int poll_tracked(struct pollfd *fds, nfds_t n, const struct poll_how *how)
{
	const uint64_t start = time_now_ns();
	struct poll_how left = *how;
	bool again;
	int rc;

	do {
		struct guard guard;
		struct set set;
		int told;

		rc = set_begin(&set, fds, n);
		if (rc)
			return rc;
		guard_begin(&guard, set_end, &set);
		told = rc = pollset_wait(set.items, n, &left);
		guard_end(&guard);
		again = rc > 0 && changed(&set);
		if (rc > 0 && !again) {
			rc = without_idle_sets(&set, told);
			again = !rc && told;
		}
		if (how->timeout_ns >= 0) {
			left.timeout_ns = max_of(how->timeout_ns - (int64_t)(time_now_ns() - start),
						 (int64_t)0);
			again &= rc > 0 || left.timeout_ns > 0;
		}
		for (nfds_t i = 0; rc >= 0 && i < n; i++)
			fds[i].revents = set.items[i].revents;
		set_end(&set);
	} while (again);
	return rc;
}

int poll(struct pollfd *fds, nfds_t n, int timeout)
{
	if (!tracked(fds, n))
		return real()->poll(fds, n, timeout);
	return (int)answer(poll_tracked(
		fds, n, &(struct poll_how){timeout < 0 ? -1 : timeout * (int64_t)NSEC_PER_MSEC}));
}

static bool sound(const struct timespec *ts)
{
	return !ts || (probe_readable(ts, sizeof(*ts)) && ts->tv_sec >= 0 && ts->tv_nsec >= 0 &&
		       ts->tv_nsec < (long)NSEC_PER_SEC);
}

static int64_t to_ns(const struct timespec *ts)
{
	return ts ? ts->tv_sec * (int64_t)NSEC_PER_SEC + ts->tv_nsec : -1;
}

int ppoll(struct pollfd *fds, nfds_t n, const struct timespec *timeout, const sigset_t *mask)
{
	if (!sound(timeout) || !tracked(fds, n))
		return real()->ppoll(fds, n, timeout, mask);
	return (int)answer(poll_tracked(fds, n, &(struct poll_how){to_ns(timeout), mask}));
}

int __poll_chk(struct pollfd *fds, nfds_t n, int timeout, size_t size);
int __ppoll_chk(struct pollfd *fds, nfds_t n, const struct timespec *timeout, const sigset_t *mask,
		size_t size);
void __chk_fail(void) __attribute__((noreturn));

int __poll_chk(struct pollfd *fds, nfds_t n, int timeout, size_t size)
{
	if (size / sizeof(*fds) < n)
		__chk_fail();
	return poll(fds, n, timeout);
}

int __ppoll_chk(struct pollfd *fds, nfds_t n, const struct timespec *timeout, const sigset_t *mask,
		size_t size)
{
	if (size / sizeof(*fds) < n)
		__chk_fail();
	return ppoll(fds, n, timeout, mask);
}

/* ---- select ---------------------------------------------------------------------------------- */

static bool sets_sound(int nfds, const fd_set *rd, const fd_set *wr, const fd_set *ex)
{
	const size_t n = ((size_t)nfds + 7) / 8;

	return probe_readable(rd, rd ? n : 0) && probe_readable(wr, wr ? n : 0) &&
	       probe_readable(ex, ex ? n : 0);
}

static int select_tracked(struct pollfd *fds, nfds_t n, fd_set *rd, fd_set *wr, fd_set *ex,
			  int64_t timeout_ns, const sigset_t *mask)
{
	int rc = poll_tracked(fds, n, &(struct poll_how){timeout_ns, mask});

	return (int)answer(rc < 0 ? rc : poll_to_select(fds, n, rd, wr, ex));
}

int select(int nfds, fd_set *rd, fd_set *wr, fd_set *ex, struct timeval *timeout)
{
	struct pollfd fds[FD_SETSIZE];
	uint64_t start = time_now_ns(), spent;
	int64_t ns = -1;
	nfds_t n;
	int rc;

	if (nfds < 0 || nfds > FD_SETSIZE || !sets_sound(nfds, rd, wr, ex) ||
	    (timeout && (!probe_readable(timeout, sizeof(*timeout)) || timeout->tv_sec < 0 ||
			 timeout->tv_usec < 0)))
		return real()->select(nfds, rd, wr, ex, timeout);
	n = select_to_poll(nfds, rd, wr, ex, fds);
	if (!tracked(fds, n))
		return real()->select(nfds, rd, wr, ex, timeout);
	if (timeout)
		ns = timeout->tv_sec * (int64_t)NSEC_PER_SEC + timeout->tv_usec * 1000;
	rc = select_tracked(fds, n, rd, wr, ex, ns, NULL);
	if (timeout) { /* Linux tells what is left */
		spent = time_now_ns() - start;
		ns = (int64_t)spent < ns ? ns - (int64_t)spent : 0;
		timeout->tv_sec = ns / (int64_t)NSEC_PER_SEC;
		timeout->tv_usec = ns % (int64_t)NSEC_PER_SEC / 1000;
	}
	return rc;
}

int pselect(int nfds, fd_set *rd, fd_set *wr, fd_set *ex, const struct timespec *timeout,
	    const sigset_t *mask)
{
	struct pollfd fds[FD_SETSIZE];
	nfds_t n;

	if (nfds < 0 || nfds > FD_SETSIZE || !sets_sound(nfds, rd, wr, ex) || !sound(timeout))
		return real()->pselect(nfds, rd, wr, ex, timeout, mask);
	n = select_to_poll(nfds, rd, wr, ex, fds);
	if (!tracked(fds, n))
		return real()->pselect(nfds, rd, wr, ex, timeout, mask);
	return select_tracked(fds, n, rd, wr, ex, to_ns(timeout), mask);
}
