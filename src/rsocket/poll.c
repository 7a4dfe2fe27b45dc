// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/* What a stream has for poll(2), and waiting for many of them and ordinary descriptors together. */
#include <stdlib.h>
#include <sys/eventfd.h>

#include "base/time.h"
#include "rsocket/dgram.h"
#include "rsocket/pollset.h"
#include "rsocket/stream.h"
#include "rsocket/svc.h"

/* ---- one stream ------------------------------------------------------------------------------ */

short stream_events(struct stream *s)
{
	const enum stream_state state = atomic_load(&s->state);
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
		got = stream_events(s);
		break;
	}
	return got & (events | POLLERR | POLLHUP);
}

/* ---- any socket ------------------------------------------------------------------------------ */

static struct stream *stream_of(struct sock *s)
{
	return container_of(s, struct stream, sock);
}

static struct dgram *dgram_of(struct sock *s)
{
	return container_of(s, struct dgram, sock);
}

short sock_poll(struct sock *s, short events)
{
	if (sock_inherited(s))
		return POLLNVAL;
	return s->type == SOCK_STREAM ? stream_poll(stream_of(s), events)
				      : dgram_poll(dgram_of(s), events);
}

int sock_arm(struct sock *s)
{
	struct stream *t;

	if (s->type != SOCK_STREAM)
		return dgram_arm(dgram_of(s));
	t = stream_of(s);
	if (atomic_load(&t->state) < STREAM_CONNECTED)
		return -1;
	(void)stream_arm(t);
	return t->channel->fd;
}

void sock_taken(struct sock *s)
{
	if (s->type == SOCK_STREAM)
		stream_take_event(stream_of(s));
	else
		dgram_taken(dgram_of(s));
}

/* ---- sets of them ---------------------------------------------------------------------------- */

/* The ordinary descriptors by one call, where there are any. */
static int check(struct poll_item *items, nfds_t n, struct pollfd *kernel)
{
	nfds_t plain = 0;
	int count = 0;

	for (nfds_t i = 0; i < n; i++) {
		if (items[i].fd >= 0)
			kernel[plain++] =
				(struct pollfd){.fd = items[i].fd, .events = items[i].events};
	}
	if (plain && poll(kernel, plain, 0) < 0)
		return -errno;
	plain = 0;
	for (nfds_t i = 0; i < n; i++) {
		struct poll_item *it = &items[i];

		it->revents = it->sock ? sock_poll(it->sock, it->events) : 0;
		if (it->fd >= 0)
			it->revents |= kernel[plain++].revents;
		count += !!it->revents;
	}
	return count;
}

/* An item has three places in the kernel's set, side by side. */
static void arm(const struct poll_item *items, nfds_t n, struct pollfd *kernel)
{
	for (nfds_t i = 0; i < n; i++) {
		struct sock *s = items[i].sock;
		struct pollfd *k = &kernel[3 * i];

		k[0] = (struct pollfd){.fd = items[i].fd, .events = items[i].events};
		k[1] = (struct pollfd){.fd = s ? s->fd : -1, .events = POLLIN};
		k[2] = (struct pollfd){.fd = s ? sock_arm(s) : -1, .events = POLLIN};
	}
}

static void take_events(const struct poll_item *items, nfds_t n, const struct pollfd *kernel)
{
	eventfd_t count;

	for (nfds_t i = 0; i < n; i++) {
		if (kernel[3 * i + 1].revents)
			(void)!eventfd_read(items[i].sock->fd, &count);
		if (kernel[3 * i + 2].revents)
			sock_taken(items[i].sock);
	}
}

static void count_waiting(const struct poll_item *items, nfds_t n, int by)
{
	for (nfds_t i = 0; i < n; i++)
		if (items[i].sock)
			atomic_fetch_add(&items[i].sock->waiters, by);
}

static int sleep_and_check(struct poll_item *items, nfds_t n, struct pollfd *kernel,
			   struct pollfd *plain, uint64_t end)
{
	int count;

	for (;;) {
		int timeout = settings_default()->wake_up_ms;

		arm(items, n, kernel);
		count = check(items, n, plain);
		if (count)
			return count;
		if (end != UINT64_MAX) {
			uint64_t now = time_now_ns();

			if (now >= end)
				return 0;
			timeout = (int)min_of((uint64_t)timeout,
					      (end - now + NSEC_PER_MSEC - 1) / NSEC_PER_MSEC);
		}
		if (poll(kernel, 3 * n, timeout) < 0)
			return -errno;
		take_events(items, n, kernel);
	}
}

static int spin_then_sleep(struct poll_item *items, nfds_t n, int64_t timeout_ns,
			   struct pollfd *kernel)
{
	const uint64_t spin = settings_default()->polling_us * NSEC_PER_USEC;
	struct pollfd *plain = kernel + 3 * n;
	uint64_t start = 0, now = 0;
	int count;

	do {
		count = check(items, n, plain);
		if (count || !timeout_ns)
			return count;
		now = time_now_ns();
		if (!start)
			start = now;
	} while (now - start < spin);
	count_waiting(items, n, 1);
	count = sleep_and_check(items, n, kernel, plain,
				timeout_ns < 0 ? UINT64_MAX : start + (uint64_t)timeout_ns);
	count_waiting(items, n, -1);
	return count;
}

int pollset_wait(struct poll_item *items, nfds_t n, int64_t timeout_ns)
{
	enum { ON_STACK = 32 };
	struct pollfd few[4 * ON_STACK], *kernel = few;
	int rc;

	if (n > ON_STACK) {
		kernel = calloc(n, 4 * sizeof(*kernel));
		if (!kernel)
			return -ENOMEM;
	}
	rc = spin_then_sleep(items, n, timeout_ns, kernel);
	if (kernel != few)
		free(kernel);
	return rc;
}
