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

/* So many need no memory, which a signal's handler could not ask for, nor is it asked whether they
 * are too many. */
enum { FEW = 32 };

struct set {
	struct poll_item *items;
	struct entry **entries; /* held */
	const struct pollfd *fds;
	nfds_t n;
	bool any; /* is one of them ours? */
	struct poll_item few_items[FEW];
	struct entry *few_entries[FEW];
};

static void free_set(struct set *set)
{
	if (set->items != set->few_items)
		free(set->items);
	if (set->entries != set->few_entries)
		free(set->entries);
}

static int set_begin(struct set *set, const struct pollfd *fds, nfds_t n)
{
	set->fds = fds;
	set->n = n;
	set->any = false;
	set->items = n <= FEW ? set->few_items : calloc(n, sizeof(*set->items));
	set->entries = n <= FEW ? set->few_entries : calloc(n, sizeof(struct entry *));
	if (!set->items || !set->entries) {
		free_set(set);
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
		set->any |= s || set->items[i].fd != fds[i].fd;
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
	free_set(set);
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

/* What the kernel would refuse is the kernel's. */
static bool is_sound(struct pollfd *fds, nfds_t n)
{
	struct rlimit most;

	if (n > FEW && (getrlimit(RLIMIT_NOFILE, &most) || n > most.rlim_cur))
		return false;
	return probe_readable(fds, n * sizeof(*fds));
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

/* All of it is the kernel's. */
enum { NOT_OURS = -ENOSYS };

static int poll_tracked(struct pollfd *fds, nfds_t n, const struct poll_how *how)
{
	const uint64_t start = time_now_ns();
	struct poll_how left = *how;
	bool again = false;
	int rc;

	if (!is_sound(fds, n))
		return NOT_OURS;
	pthread_testcancel();
	do {
		struct guard guard;
		struct set set;
		int told;

		inside_begin();
		rc = set_begin(&set, fds, n);
		if (!rc && !set.any && !again) {
			set_end(&set);
			rc = NOT_OURS;
		}
		if (rc) {
			inside_end();
			return rc;
		}
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
		inside_end();
	} while (again);
	return rc;
}

int poll(struct pollfd *fds, nfds_t n, int timeout)
{
	const struct poll_how how = {timeout < 0 ? -1 : timeout * (int64_t)NSEC_PER_MSEC};
	int rc = poll_tracked(fds, n, &how);

	return rc == NOT_OURS ? real()->poll(fds, n, timeout) : (int)answer(rc);
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
	int rc = NOT_OURS;

	if (sound(timeout))
		rc = poll_tracked(fds, n, &(struct poll_how){to_ns(timeout), mask});
	return rc == NOT_OURS ? real()->ppoll(fds, n, timeout, mask) : (int)answer(rc);
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

	return rc < 0 ? rc : poll_to_select(fds, n, rd, wr, ex);
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
	if (timeout)
		ns = timeout->tv_sec * (int64_t)NSEC_PER_SEC + timeout->tv_usec * 1000;
	rc = select_tracked(fds, n, rd, wr, ex, ns, NULL);
	if (rc == NOT_OURS)
		return real()->select(nfds, rd, wr, ex, timeout);
	if (timeout) { /* Linux tells what is left */
		spent = time_now_ns() - start;
		ns = (int64_t)spent < ns ? ns - (int64_t)spent : 0;
		timeout->tv_sec = ns / (int64_t)NSEC_PER_SEC;
		timeout->tv_usec = ns % (int64_t)NSEC_PER_SEC / 1000;
	}
	return (int)answer(rc);
}

int pselect(int nfds, fd_set *rd, fd_set *wr, fd_set *ex, const struct timespec *timeout,
	    const sigset_t *mask)
{
	struct pollfd fds[FD_SETSIZE];
	int rc;

	if (nfds < 0 || nfds > FD_SETSIZE || !sets_sound(nfds, rd, wr, ex) || !sound(timeout))
		return real()->pselect(nfds, rd, wr, ex, timeout, mask);
	rc = select_tracked(fds, select_to_poll(nfds, rd, wr, ex, fds), rd, wr, ex, to_ns(timeout),
			    mask);
	return rc == NOT_OURS ? real()->pselect(nfds, rd, wr, ex, timeout, mask) : (int)answer(rc);
}
