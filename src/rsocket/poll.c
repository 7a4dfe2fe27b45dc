// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/* rpoll() and rselect(), over rsockets and ordinary descriptors together. */
#include <rdma/rsocket.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/time.h"
#include "rsocket/stream.h"
#include "rsocket/svc.h"

/* ---- one stream ------------------------------------------------------------------------------ */

static short connected_events(struct stream *s, enum stream_state state)
{
	short got = 0;

	if (stream_can_recv(s))
		got |= POLLIN | POLLRDNORM;
	if (stream_can_send(s))
		got |= POLLOUT | POLLWRNORM;
	if (!atomic_load(&s->readable) || stream_ended(state))
		got |= POLLRDHUP;
	/* Not before the last byte is read: programs take it for the end, and so did TCP's peer,
	 * who closed, leave us without it. */
	if (stream_ended(state) && !stream_has_data(s))
		got |= POLLHUP;
	if (atomic_load(&s->err))
		got |= POLLERR;
	return got;
}

static bool has_accepted(struct stream *s)
{
	bool any;

	svc_lock();
	any = !list_empty(&s->accepted);
	svc_unlock();
	return any;
}

short stream_poll(struct stream *s, short events)
{
	enum stream_state state = atomic_load(&s->state);
	short got = 0;

	switch (state) {
	case STREAM_LISTENING:
		got = has_accepted(s) ? POLLIN | POLLRDNORM : 0;
		break;
	case STREAM_CONNECTING:
		break;
	case STREAM_CONNECT_FAILED:
		got = POLLIN | POLLRDNORM | POLLOUT | POLLWRNORM | POLLERR | POLLHUP;
		break;
	case STREAM_INIT:
	case STREAM_BOUND: /* as TCP has it */
		got = POLLOUT | POLLWRNORM | POLLHUP;
		break;
	default:
		stream_progress(s);
		got = connected_events(s, atomic_load(&s->state));
		break;
	}
	return got & (events | POLLERR | POLLHUP);
}

/* ---- any socket ------------------------------------------------------------------------------ */

static struct stream *stream_of(struct sock *s)
{
	return container_of(s, struct stream, sock);
}

static short sock_poll(struct sock *s, short events)
{
	if (sock_inherited(s))
		return POLLNVAL;
	return stream_poll(stream_of(s), events);
}

/* The descriptor besides the eventfd that tells of events from now on; -1 if there is none. */
static int sock_arm(struct sock *s)
{
	struct stream *t = stream_of(s);

	if (atomic_load(&t->state) < STREAM_CONNECTED)
		return -1;
	(void)stream_arm(t);
	return t->channel->fd;
}

static void sock_taken(struct sock *s)
{
	stream_take_event(stream_of(s));
}

/* ---- sets of them ---------------------------------------------------------------------------- */

static int check(struct pollfd *fds, nfds_t n)
{
	int count = 0;

	for (nfds_t i = 0; i < n; i++) {
		struct sock *s = sock_lookup(fds[i].fd);

		if (s)
			fds[i].revents = sock_poll(s, fds[i].events);
		else if (poll(&fds[i], 1, 0) < 0)
			return -errno;
		count += !!fds[i].revents;
	}
	return count;
}

/* Each socket has two places in the kernel's set, side by side. */
static void arm(const struct pollfd *fds, nfds_t n, struct pollfd *kernel)
{
	for (nfds_t i = 0; i < n; i++) {
		struct sock *s = sock_lookup(fds[i].fd);
		struct pollfd *k = &kernel[2 * i];

		k[0] = (struct pollfd){.fd = fds[i].fd, .events = s ? POLLIN : fds[i].events};
		k[1] = (struct pollfd){.fd = s ? sock_arm(s) : -1, .events = POLLIN};
	}
}

static void take_events(const struct pollfd *fds, nfds_t n, const struct pollfd *kernel)
{
	eventfd_t count;

	for (nfds_t i = 0; i < n; i++) {
		struct sock *s = sock_lookup(fds[i].fd);

		if (!s)
			continue;
		if (kernel[2 * i].revents)
			(void)!eventfd_read(s->fd, &count);
		if (kernel[2 * i + 1].revents)
			sock_taken(s);
	}
}

static void count_waiting(const struct pollfd *fds, nfds_t n, int by)
{
	for (nfds_t i = 0; i < n; i++) {
		struct sock *s = sock_lookup(fds[i].fd);

		if (s)
			atomic_fetch_add(&s->waiters, by);
	}
}

static int sleep_and_check(struct pollfd *fds, nfds_t n, struct pollfd *kernel, uint64_t end)
{
	int count;

	for (;;) {
		int timeout = settings_default()->wake_up_ms;

		arm(fds, n, kernel);
		count = check(fds, n);
		if (count)
			return count;
		if (end != UINT64_MAX) {
			uint64_t now = time_now_ns();

			if (now >= end)
				return 0;
			timeout = (int)min_of((uint64_t)timeout,
					      (end - now + NSEC_PER_MSEC - 1) / NSEC_PER_MSEC);
		}
		if (poll(kernel, 2 * n, timeout) < 0)
			return -errno;
		take_events(fds, n, kernel);
	}
}

static int poll_until(struct pollfd *fds, nfds_t n, uint64_t end)
{
	enum { ON_STACK = 32 };
	struct pollfd few[2 * ON_STACK], *kernel = few;
	int rc;

	if (n > ON_STACK) {
		kernel = calloc(n, 2 * sizeof(*kernel));
		if (!kernel)
			return -ENOMEM;
	}
	count_waiting(fds, n, 1);
	rc = sleep_and_check(fds, n, kernel, end);
	count_waiting(fds, n, -1);
	if (kernel != few)
		free(kernel);
	return rc;
}

static int poll_all(struct pollfd *fds, nfds_t n, int64_t timeout_ns)
{
	const uint64_t spin = settings_default()->polling_us * NSEC_PER_USEC;
	uint64_t start = 0, now = 0;

	do {
		int count = check(fds, n);

		if (count || !timeout_ns)
			return count;
		now = time_now_ns();
		if (!start)
			start = now;
	} while (now - start < spin);
	return poll_until(fds, n, timeout_ns < 0 ? UINT64_MAX : start + (uint64_t)timeout_ns);
}

int rpoll(struct pollfd *fds, nfds_t nfds, int timeout)
{
	int rc = poll_all(fds, nfds, timeout < 0 ? -1 : timeout * (int64_t)NSEC_PER_MSEC);

	if (rc >= 0)
		return rc;
	errno = -rc;
	return -1;
}

/* ---- rselect --------------------------------------------------------------------------------- */

static nfds_t from_sets(int nfds, fd_set *rd, fd_set *wr, fd_set *ex, struct pollfd *fds)
{
	nfds_t n = 0;

	for (int fd = 0; fd < nfds; fd++) {
		short events = 0;

		if (rd && FD_ISSET(fd, rd))
			events |= POLLIN;
		if (wr && FD_ISSET(fd, wr))
			events |= POLLOUT;
		if (ex && FD_ISSET(fd, ex))
			events |= POLLPRI;
		if (events)
			fds[n++] = (struct pollfd){.fd = fd, .events = events};
	}
	return n;
}

static int into_set(fd_set *set, const struct pollfd *fds, nfds_t n, short asked, short got)
{
	int count = 0;

	if (!set)
		return 0;
	FD_ZERO(set);
	for (nfds_t i = 0; i < n; i++) {
		if ((fds[i].events & asked) && (fds[i].revents & got)) {
			FD_SET(fds[i].fd, set);
			count++;
		}
	}
	return count;
}

int rselect(int nfds, fd_set *rd, fd_set *wr, fd_set *ex, struct timeval *timeout)
{
	struct pollfd fds[FD_SETSIZE];
	int64_t ns = -1;
	nfds_t n;
	int rc;

	if (nfds < 0 || nfds > FD_SETSIZE) {
		errno = EINVAL;
		return -1;
	}
	n = from_sets(nfds, rd, wr, ex, fds);
	if (timeout)
		ns = timeout->tv_sec * (int64_t)NSEC_PER_SEC + timeout->tv_usec * 1000;
	rc = poll_all(fds, n, ns);
	for (nfds_t i = 0; rc > 0 && i < n; i++)
		if (fds[i].revents & POLLNVAL)
			rc = -EBADF;
	if (rc < 0) {
		errno = -rc;
		return -1;
	}
	return into_set(rd, fds, n, POLLIN, POLLIN | POLLHUP | POLLERR) +
	       into_set(wr, fds, n, POLLOUT, POLLOUT | POLLERR) +
	       into_set(ex, fds, n, POLLPRI, POLLPRI);
}
