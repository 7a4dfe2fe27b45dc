/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The target's side as a whole: its beginning, its turns, its end. */
#include "nvmf/tcp/target.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/errno_text.h"

#define EVENT_BATCH 64

static int op_fd(const struct transport_target *t)
{
	return tcp_target_of(t)->epoll_fd;
}

static uint64_t op_next_deadline(const struct transport_target *t)
{
	const struct tcp_target *tt = tcp_target_of(t);
	uint64_t deadline = timer_heap_next(&tt->timers), linger = tcp_linger_deadline(tt);

	if (shares_pump_due(tt->shares) || !list_empty(&tt->sending))
		return 0; /* by a store, between two calls of process */
	deadline = min_of(deadline, tt->resume_ns);
	return min_of(deadline, linger);
}

static bool handle_events(struct tcp_target *tt)
{
	struct epoll_event ev[EVENT_BATCH];
	int n = epoll_wait(tt->epoll_fd, ev, EVENT_BATCH, 0);

	for (int i = 0; i < n; i++) {
		struct tcp_watch *w = ev[i].data.ptr;

		w->ready(w, ev[i].events);
	}
	return n > 0;
}

static bool op_process(struct transport_target *t, uint64_t now_ns, bool sleepy)
{
	struct tcp_target *tt = tcp_target_of(t);
	struct timer *tm;
	bool any;

	(void)sleepy; /* what comes makes the descriptor readable as it is */
	tt->now_ns = now_ns;
	tcp_flush_all(tt); /* what stores had ready */
	any = handle_events(tt);
	while ((tm = timer_pop_due(&tt->timers, now_ns)))
		tcp_queue_tick(container_of(tm, struct tcp_queue, timer));
	if (now_ns >= tt->resume_ns)
		tcp_listeners_enable(tt, true);
	any |= shares_pump(tt->shares);
	tcp_flush_all(tt);
	tcp_bury_dying(tt);
	return any;
}

static void op_shutdown(struct transport_target *t)
{
	struct tcp_target *tt = tcp_target_of(t);

	tt->shutting_down = true;
	tcp_listeners_close(tt);
	tcp_flush_all(tt);
	list_for_each(q, &tt->queues, struct tcp_queue, link)
		tcp_queue_kill(q);
	list_for_each(q, &tt->lingering, struct tcp_queue, link)
		q->linger_ns = 0;
	tcp_bury_dying(tt);
}

static bool op_idle(const struct transport_target *t)
{
	const struct tcp_target *tt = tcp_target_of(t);

	return list_empty(&tt->queues) && list_empty(&tt->dying) && list_empty(&tt->lingering) &&
	       list_empty(&tt->over) && !tt->arriving;
}

static void op_destroy(struct transport_target *t)
{
	struct tcp_target *tt = tcp_target_of(t);

	assert(op_idle(t) && list_empty(&tt->others));
	list_remove(&tt->link);
	tcp_listeners_free(tt);
	if (tt->epoll_fd >= 0)
		close(tt->epoll_fd);
	tcp_tls_context_destroy(tt->tls);
	free(tt);
}

static const struct transport_target_ops target_ops = {
	.listen = tcp_listen_on,
	.unlisten = tcp_unlisten,
	.fd = op_fd,
	.process = op_process,
	.next_deadline = op_next_deadline,
	.shutdown = op_shutdown,
	.idle = op_idle,
	.destroy = op_destroy,
};

int tcp_target_create(struct target_group *g, struct shares *shares, struct transport_target *first,
		      struct transport_target **ret, char *why, size_t room)
{
	struct tcp_target *tt = calloc(1, sizeof(*tt));
	int error;

	if (!tt) {
		snprintf(why, room, "out of memory");
		return -ENOMEM;
	}
	tt->transport.ops = &target_ops;
	tt->group = g;
	tt->shares = shares;
	tt->flush = tcp_flush;
	tt->arrived = tcp_arrived;
	tt->resume_ns = DEADLINE_NEVER;
	list_init(&tt->listeners);
	list_init(&tt->queues);
	list_init(&tt->dying);
	list_init(&tt->lingering);
	list_init(&tt->over);
	list_init(&tt->sending);
	list_init(&tt->others);
	list_init(&tt->link);
	tt->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (tt->epoll_fd < 0) {
		error = -errno;
		snprintf(why, room, "TCP cannot be used: %s", errno_text(errno));
		free(tt);
		return error;
	}
	if (first)
		list_push_tail(&tcp_target_of(first)->others, &tt->link);
	*ret = &tt->transport;
	return 0;
}
