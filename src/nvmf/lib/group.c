/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Turns, and what to wait on between them.
 *
 * Who polls makes no system call that the transports do not make. Who waits in weft_group_wait()
 * waits on the transports' descriptors themselves. Only who wants one descriptor has a set of them
 * (epoll), with a timer in it; the timer is set anew only where it would come too late.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/heap.h" /* DEADLINE_NEVER */
#include "base/time.h"
#include "nvmf/lib/internal.h"

enum { EVENTS = 16, POLLED_MAX = 64 };

int weft_group_create(struct weft_group **ret)
{
	struct weft_group *g = calloc(1, sizeof(*g));
	int error;

	if (!g)
		return -ENOMEM;
	g->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (g->wake_fd < 0) {
		error = -errno;
		free(g);
		return error;
	}
	list_init(&g->ctrls);
	g->epoll_fd = g->timer_fd = -1;
	g->timer_ns = DEADLINE_NEVER;
	*ret = g;
	return 0;
}

int weft_group_destroy(struct weft_group *g)
{
	if (!g)
		return 0;
	if (g->depth || !list_empty(&g->ctrls))
		return -EBUSY;
	if (g->epoll_fd >= 0)
		close(g->epoll_fd);
	if (g->timer_fd >= 0)
		close(g->timer_fd);
	close(g->wake_fd);
	free(g);
	return 0;
}

/* --- turns ------------------------------------------------------------------------------------ */

/* A transport looks for itself when it is told that something may have come. */
static void tell_polled(struct weft_ctrl *c)
{
	struct pollfd fds[TRANSPORT_HOST_FDS];
	unsigned int n = c->transport->ops->pollfds(c->transport, fds);

	for (unsigned int i = 0; i < n; i++)
		fds[i].revents = POLLIN;
	c->transport->ops->polled(c->transport, fds, n);
}

/*
 * What made the descriptor readable. Once: transports take in the turn what they are told of here,
 * and until then it would be told over and over. Of more than fit the others are told in turns to
 * come, as the descriptor stays readable.
 */
static void take_events(struct weft_group *g)
{
	struct epoll_event ev[EVENTS];
	uint64_t expirations;
	int n;

	g->armed = false;
	n = epoll_wait(g->epoll_fd, ev, EVENTS, 0);
	for (int i = 0; i < n; i++) {
		if (ev[i].data.ptr) {
			tell_polled(ev[i].data.ptr);
			continue;
		}
		if (read(g->timer_fd, &expirations, sizeof(expirations)) > 0)
			g->timer_ns = DEADLINE_NEVER;
	}
}

static bool turn(struct weft_group *g, bool sleepy)
{
	uint64_t now_ns = time_now_ns();
	bool any = false;

	if (g->armed)
		take_events(g);
	g->depth++;
	g->now_ns = now_ns;
	list_for_each(c, &g->ctrls, struct weft_ctrl, link)
		any |= ctrl_turn(c, now_ns, sleepy);
	g->depth--;
	return any;
}

static uint64_t deadline(const struct weft_group *g)
{
	uint64_t next_ns = DEADLINE_NEVER;

	list_for_each(c, &g->ctrls, struct weft_ctrl, link) {
		uint64_t at_ns = ctrl_deadline(c);

		next_ns = min_of(next_ns, at_ns);
	}
	return next_ns;
}

int weft_group_poll(struct weft_group *g)
{
	return g->depth ? -EBUSY : turn(g, false);
}

/* --- one descriptor --------------------------------------------------------------------------- */

int weft_group_fd(struct weft_group *g)
{
	struct epoll_event ev = {.events = EPOLLIN};
	int error;

	if (g->epoll_fd >= 0)
		return g->epoll_fd;
	g->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	g->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (g->epoll_fd >= 0 && g->timer_fd >= 0 &&
	    epoll_ctl(g->epoll_fd, EPOLL_CTL_ADD, g->timer_fd, &ev) == 0)
		return g->epoll_fd;
	error = -errno;
	if (g->epoll_fd >= 0)
		close(g->epoll_fd);
	if (g->timer_fd >= 0)
		close(g->timer_fd);
	g->epoll_fd = g->timer_fd = -1;
	return error;
}

static void unwatch(struct weft_group *g, struct weft_ctrl *c)
{
	/* One that was closed has left the set by itself. */
	for (unsigned int i = 0; i < c->watched_count; i++)
		(void)epoll_ctl(g->epoll_fd, EPOLL_CTL_DEL, c->watched[i], NULL);
	c->watched_count = 0;
}

void group_unwatch(struct weft_ctrl *c)
{
	if (c->group->epoll_fd >= 0)
		unwatch(c->group, c);
}

/* First those go that are no longer: a new one may have the number of one that was closed. Nor is
 * there anybody to take what comes for a controller that has ended. */
static int watch(struct weft_group *g)
{
	list_for_each(c, &g->ctrls, struct weft_ctrl, link)
		if (c->watched_count && (ctrl_ended(c) || c->fds_seen != c->transport->fds_changed))
			unwatch(g, c);
	list_for_each(c, &g->ctrls, struct weft_ctrl, link) {
		struct epoll_event ev = {.events = EPOLLIN, .data.ptr = c};
		struct pollfd fds[TRANSPORT_HOST_FDS];
		unsigned int n;

		if (c->watched_count || ctrl_ended(c))
			continue;
		n = c->transport->ops->pollfds(c->transport, fds);
		for (unsigned int i = 0; i < n; i++) {
			if (epoll_ctl(g->epoll_fd, EPOLL_CTL_ADD, fds[i].fd, &ev) != 0)
				return -errno;
			c->watched[c->watched_count++] = fds[i].fd;
		}
		c->fds_seen = c->transport->fds_changed;
	}
	return 0;
}

static int set_timer(struct weft_group *g, uint64_t at_ns)
{
	struct itimerspec when = {0};

	if (at_ns >= g->timer_ns)
		return 0;
	/* At 0 it would never come. */
	at_ns = max_of(at_ns, (uint64_t)1);
	when.it_value.tv_sec = (time_t)(at_ns / NSEC_PER_SEC);
	when.it_value.tv_nsec = (long)(at_ns % NSEC_PER_SEC);
	if (timerfd_settime(g->timer_fd, TFD_TIMER_ABSTIME, &when, NULL) != 0)
		return -errno;
	g->timer_ns = at_ns;
	return 0;
}

int weft_group_arm(struct weft_group *g)
{
	int fd, error;

	if (g->depth)
		return -EBUSY;
	fd = weft_group_fd(g);
	if (fd < 0)
		return fd;
	if (turn(g, true))
		return 1;
	error = watch(g);
	if (!error)
		error = set_timer(g, deadline(g));
	if (!error)
		g->armed = true;
	return error;
}

/* --- waiting here ----------------------------------------------------------------------------- */

/* The descriptors of as many controllers as there is room for; *ret_all: that is all of them. */
static unsigned int gather(struct weft_group *g, struct pollfd *fds, unsigned int room,
			   bool *ret_all)
{
	unsigned int n = 0;

	*ret_all = true;
	list_for_each(c, &g->ctrls, struct weft_ctrl, link) {
		if (ctrl_ended(c))
			continue;
		if (n + TRANSPORT_HOST_FDS > room) {
			*ret_all = false;
			break;
		}
		n += c->transport->ops->pollfds(c->transport, fds + n);
	}
	return n;
}

static void tell(struct weft_group *g, struct pollfd *fds)
{
	struct pollfd own[TRANSPORT_HOST_FDS];
	unsigned int n = 0;

	list_for_each(c, &g->ctrls, struct weft_ctrl, link) {
		unsigned int count;

		if (ctrl_ended(c))
			continue;
		count = c->transport->ops->pollfds(c->transport, own);
		c->transport->ops->polled(c->transport, fds + n, count);
		n += count;
	}
}

/* Until something may have come, somebody interrupts, or the time is over; -EINTR: of a signal; 1:
 * something has come, and was taken. */
static int sleep_until(struct weft_group *g, uint64_t until_ns)
{
	struct pollfd fds[1 + POLLED_MAX];
	uint64_t now_ns = time_now_ns(), timeout_ns;
	struct timespec ts;
	unsigned int n;
	bool all;
	int r;

	timeout_ns = until_ns > now_ns ? until_ns - now_ns : 0;
	timeout_ns = min_of(timeout_ns, 3600 * NSEC_PER_SEC);
	ts = (struct timespec){.tv_sec = (time_t)(timeout_ns / NSEC_PER_SEC),
			       .tv_nsec = (long)(timeout_ns % NSEC_PER_SEC)};
	/* Whoever interrupts after the last look at that is not slept over. */
	fds[0] = (struct pollfd){.fd = g->wake_fd, .events = POLLIN};
	n = gather(g, fds + 1, POLLED_MAX, &all);
	if (!all) {
		/* So many that the set is cheaper, too. */
		r = weft_group_arm(g);
		if (r)
			return r;
		fds[1] = (struct pollfd){.fd = g->epoll_fd, .events = POLLIN};
		n = 1;
	}
	r = ppoll(fds, 1 + n, &ts, NULL);
	if (r < 0)
		return -errno;
	if (r > 0 && fds[0].revents)
		(void)!read(g->wake_fd, &now_ns, sizeof(now_ns));
	if (r > 0 && all)
		tell(g, fds + 1);
	return 0;
}

/* The flag is what counts; the descriptor ends the sleep. */
void weft_group_interrupt(struct weft_group *g)
{
	const uint64_t one = 1;
	const int before = errno; /* which the handler of a signal is to leave as it was */

	g->interrupted = 1;
	(void)!write(g->wake_fd, &one, sizeof(one));
	errno = before;
}

bool group_interrupted(struct weft_group *g)
{
	return atomic_exchange(&g->interrupted, 0);
}

int group_wait(struct weft_group *g, int64_t timeout_ns)
{
	uint64_t until_ns = DEADLINE_NEVER;

	if (g->depth)
		return -EBUSY;
	if (timeout_ns >= 0)
		until_ns = time_now_ns() + (uint64_t)timeout_ns;
	for (;;) {
		uint64_t next_ns;
		int r;

		if (g->interrupted)
			return -EINTR;
		if (turn(g, true))
			return 1;
		if (until_ns != DEADLINE_NEVER && time_now_ns() >= until_ns)
			return 0;
		next_ns = deadline(g);
		r = sleep_until(g, min_of(next_ns, until_ns));
		if (r)
			return r;
	}
}

int weft_group_wait(struct weft_group *g, int64_t timeout_ns)
{
	int r = group_wait(g, timeout_ns);

	if (r == -EINTR)
		(void)group_interrupted(g);
	return r;
}

int group_wait_for(struct weft_ctrl *c, const bool *done)
{
	bool interrupted = false;

	while (!*done) {
		int r = group_wait(c->group, -1);

		if (r < 0 && r != -EINTR) {
			if (r != -EBUSY)
				ctrl_abandon(c);
			return r;
		}
		/* The request is the host's until it is over: nobody wants its answer any more. */
		if (group_interrupted(c->group)) {
			interrupted = true;
			weft_ctrl_shutdown(c);
		}
	}
	return interrupted ? -EINTR : 0;
}
