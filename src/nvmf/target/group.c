/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include <assert.h>

#include "nvmf/target/internal.h"

/* What goes to another thread is pushed onto a stack, which is turned round when it is taken. */
void group_tell(struct target_group *from, struct target_group *to, struct target_msg *m,
		void (*deliver)(struct target_msg *m))
{
	struct target_msg *head;

	m->deliver = deliver;
	if (from == to) {
		deliver(m);
		return;
	}
	head = atomic_load_explicit(&to->inbox, memory_order_relaxed);
	do
		m->next = head;
	while (!atomic_compare_exchange_weak_explicit(&to->inbox, &head, m, memory_order_release,
						      memory_order_relaxed));
	if (!head && to->wake)
		to->wake(to->ctx);
}

static struct target_msg *take_all(struct target_group *g)
{
	struct target_msg *m, *first = NULL;

	if (!atomic_load_explicit(&g->inbox, memory_order_relaxed))
		return NULL;
	m = atomic_exchange_explicit(&g->inbox, NULL, memory_order_acquire);
	while (m) {
		struct target_msg *next = m->next;

		m->next = first;
		first = m;
		m = next;
	}
	return first;
}

bool group_deliver(struct target_group *g)
{
	struct target_msg *m = take_all(g), *next;
	bool any = m != NULL;

	for (; m; m = next) {
		next = m->next; /* it may be sent on when it is delivered */
		m->deliver(m);
	}
	return any;
}

void target_group_init(struct target_group *g, struct target *t, struct target_counters *counters,
		       void (*wake)(void *ctx), void *ctx, uint64_t now_ns)
{
	*g = (struct target_group){.target = t, .wake = wake, .ctx = ctx, .now_ns = now_ns};
	g->counters = counters ? counters : &g->own_counters;
	list_for_each(o, &t->groups, const struct target_group, link)
		g->index++;
	list_init(&g->queues);
	list_init(&g->later);
	list_push_tail(&t->groups, &g->link);
}

bool target_group_idle(const struct target_group *g)
{
	return list_empty(&g->queues);
}

void target_group_fini(struct target_group *g)
{
	assert(target_group_idle(g) && !atomic_load(&g->inbox));
	list_remove(&g->link);
	if (g->target->turn == g)
		g->target->turn = &g->target->group;
}
