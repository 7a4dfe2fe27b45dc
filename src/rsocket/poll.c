// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/* What a stream has for poll(2), and waiting for many of them and ordinary descriptors together. */
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/time.h"
#include "rsocket/attend.h"
#include "rsocket/dgram.h"
#include "rsocket/guard.h"
#include "rsocket/pollset.h"
#include "rsocket/stream.h"
#include "rsocket/svc.h"

/* ---- one stream ------------------------------------------------------------------------------ */

/* As TCP has it: both directions have ended, of which a peer that closes is but one. */
static bool stream_hung_up(struct stream *s)
{
	return stream_is_over(s) ||
	       (atomic_load(&s->ours_said) &&
		(!atomic_load(&s->readable) || stream_ended(atomic_load(&s->state))));
}

short stream_events(struct stream *s)
{
	const enum stream_state state = atomic_load(&s->state);
	short got = 0;

	if (stream_has_enough(s) || stream_at_end(s))
		got |= POLLIN | POLLRDNORM;
	if (stream_can_send(s))
		got |= POLLOUT | POLLWRNORM;
	if (!atomic_load(&s->readable) || stream_ended(state))
		got |= POLLRDHUP;
	/* rsockets' programs take it for the end: not before the last byte is read. */
	if (s->tcp ? stream_hung_up(s) : stream_ended(state) && !stream_has_data(s))
		got |= POLLHUP;
	if (atomic_load(&s->err) || atomic_load(&s->zerocopies) != atomic_load(&s->zerocopies_told))
		got |= POLLERR;
	return got;
}

/* Something to do for who accepts. */
static bool has_comers(struct stream *s)
{
	bool any;

	svc_lock();
	any = !list_empty(&s->accepted) || !list_empty(&s->asking);
	svc_unlock();
	return any;
}

short stream_poll(struct stream *s, short events)
{
	enum stream_state state = atomic_load(&s->state);
	short got = 0;

	switch (state) {
	case STREAM_LISTENING:
		got = has_comers(s) ? POLLIN | POLLRDNORM : 0;
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
		if (attend_usable())
			stream_arm(s);
		else
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
	stream_arm(t);
	return stream_event_fd(t);
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

/*
 * A thread that sleeps here is woken by a descriptor of its own. Its places in the kernel's set:
 * that, the RNIC's, and two of each item side by side.
 */
struct waker {
	int fd;
	unsigned int generation;
	const void *self;
};
enum { WAKER, RNIC, ITEMS };

struct watch {
	struct sock_watcher watcher;
	struct waker *waker;
};

static pthread_key_t waker_key;

static void waker_free(void *arg)
{
	struct waker *w = arg;

	close(w->fd);
	free(w);
}

static void waker_key_create(void)
{
	pthread_key_create(&waker_key, waker_free);
}

/* This thread's; NULL with errno set. */
static struct waker *waker_get(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct waker *w;

	pthread_once(&once, waker_key_create);
	w = pthread_getspecific(waker_key);
	if (w && w->generation == sock_generation())
		return w;
	if (w) /* the parent's */
		waker_free(w);
	w = malloc(sizeof(*w));
	if (w)
		*w = (struct waker){eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC), sock_generation(),
				    attend_self()};
	if (!w || w->fd < 0) {
		free(w);
		w = NULL;
	}
	pthread_setspecific(waker_key, w);
	return w;
}

static _Thread_local bool came; /* by the polling thread itself, since it armed them */

static void told(struct sock_watcher *watcher)
{
	const struct waker *w = container_of(watcher, struct watch, watcher)->waker;

	if (w->self == attend_self())
		came = true;
	else
		(void)!eventfd_write(w->fd, 1);
}

static void arm(const struct poll_item *items, nfds_t n, struct pollfd *kernel)
{
	for (nfds_t i = 0; i < n; i++) {
		struct sock *s = items[i].sock;
		struct pollfd *k = &kernel[ITEMS + 2 * i];

		k[0] = (struct pollfd){.fd = items[i].fd, .events = items[i].events};
		k[1] = (struct pollfd){.fd = s ? sock_arm(s) : -1, .events = POLLIN};
	}
}

static void take_events(const struct poll_item *items, nfds_t n, const struct pollfd *kernel)
{
	eventfd_t count;

	if (kernel[WAKER].revents)
		(void)!eventfd_read(kernel[WAKER].fd, &count);
	for (nfds_t i = 0; i < n; i++)
		if (kernel[ITEMS + 2 * i + 1].revents)
			sock_taken(items[i].sock);
}

static void left_attending(void *attendance)
{
	attend_end(attendance, false);
}

static int sleep_and_check(struct poll_item *items, nfds_t n, struct pollfd *kernel,
			   struct pollfd *plain, uint64_t end, const struct poll_how *how)
{
	struct attendance a;
	struct guard guard;
	int count;

	for (;;) {
		int timeout = settings_default()->wake_up_ms, rc;

		came = false;
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
		attend_look();
		kernel[RNIC] = (struct pollfd){.fd = attend_begin(&a, true), .events = POLLIN};
		guard_begin(&guard, left_attending, &a);
		/* One that was looked at may have had something since, while others were. */
		rc = sock_sleep_on(kernel, ITEMS + 2 * n, a.come || came ? 0 : timeout, how->mask,
				   how->restarts);
		guard_end(&guard);
		attend_end(&a, !rc && kernel[RNIC].revents);
		if (rc)
			return rc;
		take_events(items, n, kernel);
	}
}

struct watching {
	const struct poll_item *items;
	struct watch *watches;
	nfds_t n;
};

static void unwatch(void *arg)
{
	const struct watching *w = arg;

	for (nfds_t i = 0; i < w->n; i++)
		if (w->items[i].sock)
			sock_unwatch(w->items[i].sock, &w->watches[i].watcher);
}

static int watch_and_sleep(struct poll_item *items, nfds_t n, struct pollfd *kernel,
			   struct pollfd *plain, struct watch *watches, uint64_t end,
			   const struct poll_how *how)
{
	struct watching w = {items, watches, n};
	struct waker *waker = waker_get();
	struct guard guard;
	int count;

	if (!waker)
		return -errno;
	kernel[WAKER] = (struct pollfd){.fd = waker->fd, .events = POLLIN};
	for (nfds_t i = 0; i < n; i++) {
		watches[i] = (struct watch){.watcher.told = told, .waker = waker};
		if (items[i].sock)
			sock_watch(items[i].sock, &watches[i].watcher);
	}
	guard_begin(&guard, unwatch, &w);
	count = sleep_and_check(items, n, kernel, plain, end, how);
	guard_end(&guard);
	unwatch(&w);
	return count;
}

/* Room for n items. */
struct room {
	struct pollfd *kernel; /* ITEMS and two of each */
	struct pollfd *plain;  /* one of each */
	struct watch *watches;
};

/* Signals that the mask lets through count even where nobody sleeps. */
static int pending(const struct poll_how *how)
{
	return how->mask ? sock_sleep_on(NULL, 0, 0, how->mask, false) : 0;
}

static void free_room(void *arg)
{
	struct room *room = arg;

	free(room->kernel);
	free(room->plain);
	free(room->watches);
}

static int spin_then_sleep(struct poll_item *items, nfds_t n, const struct poll_how *how,
			   const struct room *room)
{
	const uint64_t spin = settings_default()->polling_us * NSEC_PER_USEC;
	uint64_t start = 0, now = 0;
	int count;

	do {
		if (attend_usable())
			attend_progress();
		count = check(items, n, room->plain);
		if (count)
			return count;
		if (!how->timeout_ns)
			return pending(how);
		now = time_now_ns();
		if (!start)
			start = now;
	} while (now - start < spin);
	return watch_and_sleep(items, n, room->kernel, room->plain, room->watches,
			       how->timeout_ns < 0 ? UINT64_MAX : start + (uint64_t)how->timeout_ns,
			       how);
}

int pollset_wait(struct poll_item *items, nfds_t n, const struct poll_how *how)
{
	enum { ON_STACK = 32 };
	struct pollfd kernel[ITEMS + 2 * ON_STACK], plain[ON_STACK];
	struct watch watches[ON_STACK];
	struct room room = {kernel, plain, watches}, big = {0};
	struct guard guard;
	int rc = -ENOMEM;

	if (n > ON_STACK)
		room = big = (struct room){calloc(ITEMS + 2 * n, sizeof(*kernel)),
					   calloc(n, sizeof(*plain)), calloc(n, sizeof(*watches))};
	guard_begin(&guard, free_room, &big);
	if (room.kernel && room.plain && room.watches)
		rc = spin_then_sleep(items, n, how, &room);
	guard_end(&guard);
	free_room(&big);
	return rc;
}
