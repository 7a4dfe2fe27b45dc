/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Queues, and what comes on them. */
#include <assert.h>

#include "nvmf/target/internal.h"

/* --- what the admin plane makes of a report ------------------------------------------------ */

static void leave(struct target_queue *q)
{
	struct target_ctrl *c = q->owner;

	q->left = true;
	tls_leave(q);
	if (q->parts)
		ctrl_put(q->parts);
	q->parts = NULL;
	if (q->why[0] && !(c && q->qid == 0))
		target_emit(q->target, &(struct target_event){.type = TARGET_EVENT_QUEUE_FAILED,
							      .ctrl = c,
							      .queue = q,
							      .peer = q->raddr,
							      .why = q->why});
	auth_end(q);
	if (c) {
		ctrl_forget_queue(c, q);
		if (q->qid == 0) {
			ctrl_abort_aers(c, NVME_SC_ABORT_QUEUE);
			ctrl_destroy(c, q->why[0] ? q->why : NULL);
		}
		ctrl_put(c);
	}
	held_abort_all(q, NVME_SC_ABORT_QUEUE);
}

/* I/O of the same host waits for what an association that has ended still does. */
static void note_remains(struct target_queue *q, const uint32_t busy_ns[TARGET_NS_MAX / 32])
{
	struct target *t = q->target;
	bool any = false;

	for (unsigned i = 0; i < ARRAY_SIZE(q->busy_ns); i++)
		any |= busy_ns[i] != 0;
	list_remove(&q->remains);
	memcpy(q->busy_ns, busy_ns, sizeof(q->busy_ns));
	if (any && q->subsys && !q->owner)
		list_push_tail(&t->remains, &q->remains);
	atomic_store_explicit(&t->left_work, !list_empty(&t->remains), memory_order_relaxed);
}

static void reported(struct target_msg *m)
{
	struct target_queue *q = container_of(m, struct target_queue, report.msg);
	struct target_subsys *s = q->subsys;
	struct target *t = q->target;

	if (q->report.disconnected && !q->left)
		leave(q);
	note_remains(q, q->report.busy_ns);
	if (q->report.over && s) {
		q->subsys = NULL;
		s->queues--;
		subsys_settle(s);
	}
	held_go_on(t);
	queue_answer_report(q);
}

/* --- what transports call ------------------------------------------------------------------ */

void target_queue_init(struct target_queue *q, struct target *t, uint64_t now_ns)
{
	assert(q->ops->mdts <= TARGET_MDTS && q->ops->sgl_max <= TARGET_SGL_MAX);
	assert(q->entries_max <= q->ops->entries_max &&
	       q->ops->entries_max <= TARGET_QUEUE_ENTRIES_MAX);
	q->target = t;
	if (!q->group)
		q->group = &t->group;
	q->ctrl = q->owner = q->parts = NULL;
	q->subsys = NULL;
	q->parting = NULL;
	q->parted = false;
	q->entries = q->sqhd = 0;
	q->connecting = q->no_sq_flow = q->authenticated = false;
	q->auth = NULL;
	q->proved = q->unproved = false;
	list_init(&q->unbound);
	q->auth_tries = 0;
	q->late_qid = q->qid == TARGET_QID_UNKNOWN;
	q->ending = q->disconnected = q->left = false;
	q->live = 0;
	q->first = NULL;
	q->first_failed = false;
	q->counts = (struct target_counts){0};
	q->shown.on = false;
	q->report = (struct target_report){.handle = reported};
	q->order = q->next_order = (struct target_order){0};
	q->report_out = q->report_again = false;
	q->order_out = q->order_again = q->answer_waits = false;
	list_init(&q->reqs);
	list_init(&q->remains);
	list_push_tail(&q->group->queues, &q->link);
	q->connect_timer = (struct timer){0};
	timer_arm(&q->group->connect_timers, &q->connect_timer, now_ns + TARGET_CONNECT_NS);
}

struct target_group *target_group_next(struct target *t)
{
	struct list *next = t->turn->link.next;

	t->turn = list_entry(next == &t->groups ? next->next : next, struct target_group, link);
	return t->turn;
}

struct target_group *target_group_for(const struct target_queue *q, const void *sqe, size_t sqe_len)
{
	struct cursor c = cursor_init(sqe, sqe_len);
	struct target *t = q->target;
	struct nvmf_connect co;
	struct nvme_sqe s;

	if (q->group != &t->group || q->live || q->entries || q->disconnected)
		return q->group;
	nvme_sqe_get(&c, &s);
	if (c.overrun || s.opcode != NVME_FABRICS || nvmf_fctype(&s) != NVMF_CONNECT)
		return q->group;
	nvmf_connect_from_sqe(&co, &s);
	return co.qid ? target_group_next(t) : q->group;
}

static void handed(struct target_msg *m)
{
	struct target_queue *q = container_of(m, struct target_queue, report.msg);

	q->ops->arrive(q);
}

/* No report is under way of a queue on which nothing was. */
void target_queue_hand(struct target_queue *q, struct target_group *to)
{
	struct target_group *from = q->group;

	assert(from == &q->target->group && to != from && !q->live && !q->entries);
	timer_cancel(&from->connect_timers, &q->connect_timer);
	list_remove(&q->link);
	q->group = to;
	group_tell(from, to, &q->report.msg, handed);
}

static struct target_req *first_in_fetch(const struct target_queue *q)
{
	list_for_each(r, &q->reqs, struct target_req, link)
		if (r->state == TARGET_REQ_FETCH)
			return r;
	return NULL;
}

void target_queue_disconnected(struct target_queue *q)
{
	struct target_req *r;

	if (q->disconnected)
		return;
	q->disconnected = true;
	q->ctrl = NULL;
	timer_cancel(&q->group->connect_timers, &q->connect_timer);
	queue_report(q);
	fused_abort_first(q, NULL, NVME_SC_ABORT_QUEUE);
	while ((r = first_in_fetch(q)))
		target_req_ready(r, NVME_SC_ABORT_QUEUE);
}

/* False: it is no command, and is answered. */
static bool begin(struct target_queue *q, struct target_req *r, const void *sqe, size_t sqe_len,
		  void *data, size_t data_len, uint64_t now_ns)
{
	struct cursor c = cursor_init(sqe, sqe_len);

	q->group->now_ns = now_ns;
	*r = (struct target_req){.queue = q,
				 .state = TARGET_REQ_EXECUTE,
				 .since_ns = now_ns,
				 .capsule = data,
				 .capsule_len = min_of(data_len, (size_t)q->capsule_data_max)};
	nvme_sqe_get(&c, &r->sqe);
	if (list_empty(&q->reqs))
		q->busy_since_ns = now_ns;
	list_push_tail(&q->reqs, &r->link);
	q->live++;
	if (c.overrun) {
		q->group->counters->bad_capsules++;
		queue_end(q, "a capsule of the wrong size");
		req_complete(r, FAIL(NVME_SC_INVALID_FIELD));
		return false;
	}
	count_add(&q->counts.commands, 1);
	r->dir = nvmf_dir_of(&r->sqe);
	return true;
}

void target_req_recv(struct target_queue *q, struct target_req *r, const void *sqe, size_t sqe_len,
		     void *data, size_t data_len, uint64_t now_ns)
{
	uint16_t status;

	if (!begin(q, r, sqe, sqe_len, data, data_len, now_ns))
		return;
	status = q->disconnected ? NVME_SC_ABORT_QUEUE : req_parse(r);
	if ((q->first || q->first_failed || r->sqe.flags & NVME_SQE_FUSE_MASK) &&
	    fused_recv(r, status))
		return;
	if (status != NVME_SC_SUCCESS)
		req_complete(r, status);
	else
		req_begin(r);
}

void target_req_damaged(struct target_queue *q, struct target_req *r, const void *sqe,
			size_t sqe_len, uint64_t now_ns)
{
	uint16_t status = q->disconnected ? NVME_SC_ABORT_QUEUE : NVME_SC_TRANSIENT_TRANSPORT;

	if (!begin(q, r, sqe, sqe_len, NULL, 0, now_ns))
		return;
	if ((q->first || q->first_failed || r->sqe.flags & NVME_SQE_FUSE_MASK) &&
	    fused_recv(r, status))
		return;
	req_complete(r, status);
}

uint64_t target_group_next_deadline(const struct target_group *g)
{
	return list_empty(&g->later) ? timer_heap_next(&g->connect_timers) : 0;
}

bool target_group_process(struct target_group *g, uint64_t now_ns)
{
	struct timer *tm;
	bool any;

	g->now_ns = now_ns;
	any = group_deliver(g);
	any |= steps_go_on(g);
	while ((tm = timer_pop_due(&g->connect_timers, now_ns))) {
		struct target_queue *q = container_of(tm, struct target_queue, connect_timer);

		any = true;
		queue_end(q, q->parted	  ? NULL
			     : q->entries ? TARGET_UNPROVED
					  : "no Connect command came");
	}
	return any;
}
