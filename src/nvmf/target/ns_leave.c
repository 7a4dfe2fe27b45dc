/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* A namespace that leaves is asked for in each group, one after the other, until nothing is under
 * way for it. */
#include "nvmf/target/internal.h"

static struct target_ns *msg_ns(struct target_msg *m)
{
	return container_of(m, struct target_ns, msg);
}

static void count_next(struct target_ns *ns);

static void counted(struct target_msg *m)
{
	count_next(msg_ns(m));
}

/* The group's: how much is under way in it, and one more while this is counted. */
static void count(struct target_msg *m)
{
	struct target_ns *ns = msg_ns(m);
	struct target_group *g = ns->at;

	/* One that waits for its other half could wait for ever. */
	list_for_each(q, &g->queues, struct target_queue, link)
		if (q->first && q->first->ns == ns)
			fused_abort_first(q, NULL, FAIL(NVME_SC_INVALID_NS));
	ns->busy = 1;
	list_for_each(q, &g->queues, const struct target_queue, link)
		list_for_each(r, &q->reqs, const struct target_req, link)
			ns->busy += r->ns == ns;
	if (g == &g->target->group) {
		list_for_each(c, &ns->leaves->ctrls, const struct target_ctrl, link)
			ns->busy += c->shutdown_ns == ns;
		list_for_each(c, &ns->leaves->flushing, const struct target_ctrl, link)
			ns->busy += c->shutdown_ns == ns;
	}
	atomic_store_explicit(&ns->counting, g, memory_order_relaxed);
	ns_put(ns, g);
}

static void count_next(struct target_ns *ns)
{
	struct target_subsys *s = ns->leaves;
	struct target *t = s->target;
	struct list *next = ns->at ? ns->at->link.next : t->groups.next;

	if (next == &t->groups) {
		marks_forget(ns, t);
		ns->gone(ns);
		s->leaving--;
		subsys_settle(s);
		return;
	}
	ns->at = list_entry(next, struct target_group, link);
	group_tell(&t->group, ns->at, &ns->msg, count);
}

void ns_leave(struct target_ns *ns, struct target_subsys *s, void (*gone)(struct target_ns *ns))
{
	ns->leaves = s;
	s->leaving++;
	ns->gone = gone;
	ns->counted = counted;
	ns->at = NULL;
	count_next(ns);
}
