/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What ends, and who hears of it. A queue's group reports to the admin plane, and does what that
 * orders; each answers the other, so that both know when they may forget a queue or a controller.
 */
#include "nvmf/target/internal.h"

/* --- subsystems and controllers: the admin plane's ----------------------------------------- */

void subsys_settle(struct target_subsys *s)
{
	if (!s->gone || s->queues || s->leaving || !list_empty(&s->ctrls) ||
	    !list_empty(&s->flushing))
		return;
	for (uint32_t i = 0; i < s->nn; i++)
		if (s->ns[i])
			marks_forget(s->ns[i], s->target);
	s->gone(s);
}

void ctrl_put(struct target_ctrl *c)
{
	struct target_subsys *s = c->subsys;
	struct target *t = s->target;

	if (--c->attached)
		return;
	list_remove(&c->link);
	t->ctrl_count--;
	t->discovery_count -= s->discovery;
	t->env.free(t->env.ctx, c);
	subsys_settle(s);
}

/* --- queues: reports ----------------------------------------------------------------------- */

static struct target_queue *report_queue(struct target_msg *m)
{
	return container_of(m, struct target_queue, report.msg);
}

void queue_report(struct target_queue *q)
{
	struct target_report *rep = &q->report;

	if (q->report_out) {
		q->report_again = true;
		return;
	}
	q->report_out = true;
	q->live++;
	rep->disconnected = q->disconnected;
	rep->over = q->disconnected && list_empty(&q->reqs);
	memset(rep->busy_ns, 0, sizeof(rep->busy_ns));
	list_for_each(r, &q->reqs, const struct target_req, link)
		if (r->ns && r->state != TARGET_REQ_HELD)
			ns_bit_set(rep->busy_ns, r->ns->nsid);
	group_tell(q->group, &q->target->group, &rep->msg, rep->handle);
}

/* The group's. When the last report is answered, the queue is the transport's again. */
static void report_answered(struct target_msg *m)
{
	struct target_queue *q = report_queue(m);

	q->report_out = false;
	q->live--;
	if (q->report.over) {
		if (q->group->figures)
			figures_queue_end(q->group->figures, q);
		list_remove(&q->link);
	} else if (q->report_again) {
		q->report_again = false;
		queue_report(q);
	}
}

void queue_answer_report(struct target_queue *q)
{
	if (q->order_out)
		q->answer_waits = true;
	else
		group_tell(&q->target->group, q->group, &q->report.msg, report_answered);
}

/* --- queues: orders ------------------------------------------------------------------------ */

static struct target_queue *order_queue(struct target_msg *m)
{
	return container_of(m, struct target_queue, order.msg);
}

/* When it is disconnected, why stands: the admin plane may be telling of it. */
void queue_end(struct target_queue *q, const char *why)
{
	if (why && !q->why[0] && !q->disconnected) {
		size_t n = min_of(strlen(why), sizeof(q->why) - 1);

		memcpy(q->why, why, n);
		q->why[n] = '\0';
	}
	q->ops->disconnect(q);
}

static void give_order(struct target_queue *q);

static void order_answered(struct target_msg *m)
{
	struct target_queue *q = order_queue(m);

	q->order_out = false;
	if (q->order.drop)
		ctrl_put(q->order.drop);
	if (q->order_again) {
		q->order_again = false;
		give_order(q);
	} else if (q->answer_waits) {
		q->answer_waits = false;
		queue_answer_report(q); /* it may be gone from here on */
	}
}

/* The group's. */
static void obey(struct target_msg *m)
{
	struct target_queue *q = order_queue(m);
	const struct target_order *o = &q->order;

	q->ending = true;
	if (o->drop && q->ctrl) {
		q->ctrl = NULL;
		queue_report(q);
	}
	queue_end(q, o->why);
	group_tell(q->group, &q->target->group, m, order_answered);
}

static void give_order(struct target_queue *q)
{
	q->order = q->next_order;
	q->next_order = (struct target_order){0};
	q->order_out = true;
	group_tell(&q->target->group, q->group, &q->order.msg, obey);
}

void queue_order(struct target_queue *q, struct target_ctrl *drop, const char *why)
{
	if (drop)
		q->next_order.drop = drop;
	if (!q->next_order.why)
		q->next_order.why = why;
	if (q->order_out)
		q->order_again = true;
	else
		give_order(q);
}

/* --- namespaces ---------------------------------------------------------------------------- */

void ns_put(struct target_ns *ns, struct target_group *g)
{
	if (atomic_load_explicit(&ns->counting, memory_order_relaxed) != g || --ns->busy)
		return;
	atomic_store_explicit(&ns->counting, NULL, memory_order_relaxed);
	group_tell(g, &g->target->group, &ns->msg, ns->counted);
}
