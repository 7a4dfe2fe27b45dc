/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The target's side as a whole: its beginning, its turns, its end. */
#include "nvmf/rdma/target.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/errno_text.h"
#include "base/heap.h" /* DEADLINE_NEVER */

/* While completions keep coming, connection events are looked for every so many rounds. */
#define EVENT_ROUNDS 64

static int op_fd(const struct transport_target *t)
{
	return rdma_target_of(t)->epoll_fd;
}

static struct rdma_queue *first_silent(const struct rdma_target *rt)
{
	return list_empty(&rt->silent) ? NULL
				       : list_entry(rt->silent.next, struct rdma_queue, silent);
}

static uint64_t op_next_deadline(const struct transport_target *t)
{
	const struct rdma_target *rt = rdma_target_of(t);
	const struct rdma_queue *q = first_silent(rt);
	uint64_t timers = timer_heap_next(&rt->timers);

	if (rt->deaf.is && !rt->shutting_down)
		timers = min_of(timers, rt->deaf.look_ns);
	timers = min_of(timers, rt->relisten_ns);
	if (shares_pump_due(rt->shares) || !list_empty(&rt->pumping))
		return 0; /* by a store, between two calls of process */
	return q ? min_of(q->nudge_ns, timers) : timers;
}

static void nudge_the_silent(struct rdma_target *rt)
{
	struct rdma_queue *q;

	while ((q = first_silent(rt)) && q->nudge_ns <= rt->now_ns) {
		list_remove(&q->silent);
		rdma_queue_nudge(q);
	}
}

static bool op_process(struct transport_target *t, uint64_t now_ns, bool sleepy)
{
	struct rdma_target *rt = rdma_target_of(t);
	struct timer *tm;
	bool any;

	rt->now_ns = now_ns;
	rdma_pump_all(rt); /* what stores had ready */
	any = rdma_poll_all(rt);
	rdma_pump_all(rt);
	if (sleepy || ++rt->quiet_rounds >= EVENT_ROUNDS) {
		rt->quiet_rounds = 0;
		any |= rdma_take_events(rt);
	}
	nudge_the_silent(rt);
	if (now_ns >= rt->relisten_ns)
		rdma_listen_again(rt);
	while ((tm = timer_pop_due(&rt->timers, now_ns)))
		rdma_queue_tick(container_of(tm, struct rdma_queue, timer));
	rdma_bury_dying(rt);
	any |= shares_pump(rt->shares);
	rdma_pump_all(rt);
	if (sleepy && !any) {
		/* What came between the poll and the arming would wake nobody. */
		rdma_arm_all(rt);
		any = rdma_poll_all(rt);
		rdma_pump_all(rt);
		rdma_bury_dying(rt);
		rdma_free_gone_devices(rt);
	}
	return any;
}

static void op_shutdown(struct transport_target *t)
{
	struct rdma_target *rt = rdma_target_of(t);

	rt->shutting_down = true;
	rdma_listeners_close(rt);
	rdma_pump_all(rt);
	list_for_each(q, &rt->queues, struct rdma_queue, link)
		rdma_queue_kill(q);
	rdma_bury_dying(rt);
}

static bool op_idle(const struct transport_target *t)
{
	const struct rdma_target *rt = rdma_target_of(t);

	return list_empty(&rt->queues) && list_empty(&rt->dying) && !rt->arriving;
}

static void op_destroy(struct transport_target *t)
{
	struct rdma_target *rt = rdma_target_of(t);

	assert(op_idle(t) && list_empty(&rt->others));
	list_remove(&rt->link);
	rdma_listeners_free(rt);
	list_for_each(d, &rt->devs, struct rdma_dev, link)
		rdma_dev_free(d);
	if (rt->events)
		rdma_destroy_event_channel(rt->events);
	if (rt->epoll_fd >= 0)
		close(rt->epoll_fd);
	munmap(rt->zeroes, TARGET_DATA_MAX);
	free(rt);
}

static const struct transport_target_ops target_ops = {
	.listen = rdma_listen_on,
	.unlisten = rdma_unlisten,
	.fd = op_fd,
	.process = op_process,
	.next_deadline = op_next_deadline,
	.shutdown = op_shutdown,
	.idle = op_idle,
	.destroy = op_destroy,
};

int rdma_target_create(struct target_group *g, struct shares *shares,
		       struct transport_target *first, struct transport_target **ret, char *why,
		       size_t room)
{
	struct rdma_target *rt;
	int error;

	rt = calloc(1, sizeof(*rt));
	if (rt)
		rt->zeroes =
			mmap(NULL, TARGET_DATA_MAX, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (!rt || rt->zeroes == MAP_FAILED) {
		free(rt);
		snprintf(why, room, "out of memory");
		return -ENOMEM;
	}
	rt->transport.ops = &target_ops;
	rt->group = g;
	rt->shares = shares;
	rt->relisten_ns = DEADLINE_NEVER;
	list_init(&rt->link);
	list_init(&rt->others);
	list_init(&rt->devs);
	list_init(&rt->listeners);
	list_init(&rt->queues);
	list_init(&rt->dying);
	list_init(&rt->silent);
	list_init(&rt->pumping);
	rt->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	rt->events = rdma_create_event_channel();
	if (rt->epoll_fd < 0 || !rt->events) {
		error = -errno;
		snprintf(why, room, "RDMA cannot be used: %s%s", errno_text(errno),
			 errno == ENODEV ? " (no rdma_cm; is the module rdma_ucm loaded?)" : "");
		goto fail;
	}
	error = rdma_nonblocking(rt->events->fd);
	if (!error)
		error = rdma_watch(rt, rt->events->fd);
	if (error) {
		snprintf(why, room, "RDMA cannot be used: %s", errno_text(-error));
		goto fail;
	}
	if (first)
		list_push_tail(&rdma_target_of(first)->others, &rt->link);
	*ret = &rt->transport;
	return 0;
fail:
	op_destroy(&rt->transport);
	return error;
}
