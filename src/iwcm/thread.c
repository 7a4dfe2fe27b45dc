/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The thread: it waits for sockets and timers, and tells what has come of connections. */
#include <errno.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/time.h"
#include "iwcm/iwcm_priv.h"

#define EVENTS_MAX 32
#define AGAIN_MS   20 /* until something is tried again that could not be told */

/* The stream of one who has called. */
static void begin(struct iwcm_link *l)
{
	int rc;

	link_was_told(l, BEGIN);
	rc = link_begin(l);
	if (!rc) {
		/* It may have ended already, and have said so. */
		link_says(l, IWCM_ESTABLISHED, 0);
		link_free_if_over(l);
		return;
	}
	link_says(l, IWCM_FAILED, rc);
	link_over(l, true);
}

/* It cannot be told, now or ever: there is nobody to be told. */
static bool in_vain(int rc)
{
	return rc == -ENOENT || rc == -EINVAL || rc == -EIO;
}

/* What is to be tried again stands in later then. */
static void tell(struct iwcm_link *l, int what, struct list *later)
{
	const uint64_t nr = l->s.nr;
	const uint32_t id = l->id;
	const int status = l->status;
	struct socket_of *s;
	int rc;

	iwcm_unlock();
	rc = iwcm.ops->tell(id, nr, (enum iwcm_said)what, status);
	iwcm_lock();
	s = socket_find(nr); /* it may have gone meanwhile */
	if (!s)
		return;
	l = container_of(s, struct iwcm_link, s);
	if (!rc || in_vain(rc)) {
		link_was_told(l, what);
		return;
	}
	list_remove(&l->told);
	list_push_tail(later, &l->told);
}

/* False: something is left. One that is not to be told now keeps no other waiting. */
static bool tell_all(void)
{
	struct list later, *n;
	struct iwcm_link *l;
	int what;

	list_init(&later);

	while ((l = link_next_told(&what))) {
		if (what == BEGIN) {
			begin(l);
		} else if (!l->owned && what != IWCM_REQUEST) {
			link_was_told(l, what);
			link_free_if_over(l);
		} else {
			tell(l, what, &later);
		}
	}
	if (list_empty(&later))
		return true;
	while ((n = list_pop_head(&later)))
		list_push_tail(&iwcm.tells, n);
	return false;
}

static int wait_ms(bool again)
{
	const uint64_t next = timer_heap_next(&iwcm.timers), now = time_now_ns();
	uint64_t ms;

	if (next == DEADLINE_NEVER)
		return again ? AGAIN_MS : -1;
	ms = next <= now ? 0 : (next - now) / NSEC_PER_MSEC + 1;
	return (int)min_of(ms, (uint64_t)(again ? AGAIN_MS : 3600 * 1000));
}

static void look_after(uint64_t nr)
{
	struct socket_of *s = socket_find(nr);
	uint64_t rung;

	if (nr == 0)
		(void)!syscall(SYS_read, iwcm.wake, &rung, sizeof(rung));
	else if (s && s->fd >= 0 && s->listens)
		listener_ready(container_of(s, struct iwcm_listener, s));
	else if (s && s->fd >= 0)
		link_ready(container_of(s, struct iwcm_link, s));
}

static void late(struct socket_of *s)
{
	if (s->listens)
		listener_late(container_of(s, struct iwcm_listener, s));
	else
		link_late(container_of(s, struct iwcm_link, s));
}

static void take_ended(void)
{
	struct iwcm_link *l = __atomic_exchange_n(&iwcm.ended, NULL, __ATOMIC_ACQUIRE), *before;

	for (; l; l = before) {
		before = l->ended_before;
		/* It is yet to be said that it stands; who is at that wakes us. */
		if (l->busy) {
			link_ended(l);
			continue;
		}
		l->phase = OVER;
		if (l->owned)
			link_says(l, IWCM_ENDED, 0);
		link_free_if_over(l);
	}
}

static void *run(void *arg)
{
	struct epoll_event e[EVENTS_MAX];
	struct timer *t;

	(void)arg;
	iwcm_lock();
	for (;;) {
		int ms, n;

		take_ended();
		ms = wait_ms(!tell_all());
		iwcm_unlock();
		n = (int)syscall(SYS_epoll_pwait, iwcm.epoll, e, EVENTS_MAX, ms, NULL, 0);
		iwcm_lock();
		for (int i = 0; i < n; i++)
			look_after(e[i].data.u64);
		while ((t = timer_pop_due(&iwcm.timers, time_now_ns())))
			late(container_of(t, struct socket_of, timer));
	}
	return NULL;
}

static int open_epoll(void)
{
	struct epoll_event wake = {.events = EPOLLIN};

	iwcm.epoll = epoll_create1(EPOLL_CLOEXEC);
	iwcm.wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (iwcm.epoll < 0 || iwcm.wake < 0 ||
	    epoll_ctl(iwcm.epoll, EPOLL_CTL_ADD, iwcm.wake, &wake))
		return -errno;
	for (size_t i = 0; i < BUCKETS; i++)
		list_init(&iwcm.buckets[i]);
	list_init(&iwcm.tells);
	list_init(&iwcm.closing);
	iwcm.closing_count = 0;
	return 0;
}

static void close_epoll(void)
{
	if (iwcm.epoll >= 0)
		(void)syscall(SYS_close, iwcm.epoll);
	if (iwcm.wake >= 0)
		(void)syscall(SYS_close, iwcm.wake);
	iwcm.epoll = iwcm.wake = -1;
}

/* In a child its parent's connections are not its own: copies of their sockets would keep them. */
static void in_child(void)
{
	for (size_t i = 0; iwcm.epoll >= 0 && i < BUCKETS; i++) {
		list_for_each(s, &iwcm.buckets[i], struct socket_of, node) {
			timer_cancel(&iwcm.timers, &s->timer);
			socket_close_copy(s);
			list_remove(&s->node);
			if (s->listens)
				continue;
			link_let_go(container_of(s, struct iwcm_link, s));
			list_remove(&container_of(s, struct iwcm_link, s)->told);
		}
	}
	iwcm.ended = NULL;
	close_epoll();
	iwcm_unlock();
}

/* The lock is held over the fork, so that the child's copy of the table is whole. */
__attribute__((constructor)) static void watch_forks(void)
{
	pthread_atfork(iwcm_lock, iwcm_unlock, in_child);
}

int iwcm_open(const struct iwcm_ops *ops)
{
	sigset_t all, old;
	pthread_t thread;
	int rc = 0;

	iwcm_lock();
	if (!iwcm.ops) /* the thread reads it without the lock */
		iwcm.ops = ops;
	if (iwcm.epoll < 0) {
		rc = open_epoll();
		/* The application's signals are for its own threads. */
		sigfillset(&all);
		pthread_sigmask(SIG_SETMASK, &all, &old);
		if (!rc)
			rc = -pthread_create(&thread, NULL, run, NULL);
		pthread_sigmask(SIG_SETMASK, &old, NULL);
		if (rc)
			close_epoll();
		else
			pthread_detach(thread);
	}
	iwcm_unlock();
	return rc;
}
