/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The bottom of a request's life: what it waits for once it is parsed, and how it ends. Whatever
 * parses and executes stands above.
 */
#include <assert.h>
#include <errno.h>

#include "nvmf/target/internal.h"

#define NO_BLOCK UINT64_MAX

/* --- turns of fused operations ---------------------------------------------------------------
 *
 * Of a namespace there is one pair at a time, and while it has its turn its block is in the
 * namespace (fused_lba). Whoever would write there sees that and is held, in whatever group. Those
 * who began before are waited for, in one group after the other: a group that was asked begins no
 * more.
 */

/* Of commands with several ranges nobody looks which: fused operations are few and short. */
static bool writes_block(const struct target_req *r, uint64_t lba)
{
	uint64_t slba = nvme_rw_slba(&r->sqe);

	switch (r->sqe.opcode) {
	case NVME_IO_WRITE:
	case NVME_IO_WRITE_ZEROES:
	case NVME_IO_WRITE_UNCORRECTABLE:
		return lba >= slba && lba - slba < nvme_rw_nlb(&r->sqe);
	case NVME_IO_DSM:
		return r->sqe.cdw11 & NVME_DSM_AD;
	case NVME_IO_COPY:
		return lba >= slba && lba - slba < TARGET_SCRATCH_MAX >> r->ns->lba_shift;
	}
	return false;
}

static bool fused_in_the_way(const struct target_req *r)
{
	uint64_t lba;

	if (!r->ns || !r->queue->qid)
		return false;
	lba = atomic_load_explicit(&r->ns->fused_lba, memory_order_acquire);
	return lba != NO_BLOCK && !r->guards && writes_block(r, lba);
}

static bool fused_must_wait(const struct target_req *r)
{
	return r->ready && r->pair && r->ns->fused;
}

/* The pair's group. */
static void run_pair(struct target_msg *m)
{
	struct target_req *second = msg_req(m), *first = second->pair;

	second->state = TARGET_REQ_EXECUTE;
	if (second->queue->ctrl)
		first->then(first);
	else
		req_complete(first, NVME_SC_ABORT_QUEUE);
}

static void ask_next(struct target_ns *ns);

static void asked(struct target_msg *m)
{
	ask_next(msg_req(m)->ns);
}

static void fused_put(struct target_ns *ns, struct target_group *g)
{
	if (--ns->fused_busy == 0)
		group_tell(g, &g->target->group, &ns->fused->msg, asked);
}

/* The group's: who writes there, and one more while this is counted. */
static void ask(struct target_msg *m)
{
	struct target_ns *ns = msg_req(m)->ns;
	struct target_group *g = ns->fused_at;
	uint64_t lba = nvme_rw_slba(&ns->fused->sqe);

	ns->fused_busy = 1;
	list_for_each(q, &g->queues, const struct target_queue, link)
		list_for_each(r, &q->reqs, struct target_req, link)
			if (r->ns == ns && r->state == TARGET_REQ_EXECUTE && !r->pair && q->qid &&
			    writes_block(r, lba)) {
				r->counted = true;
				ns->fused_busy++;
			}
	fused_put(ns, g);
}

static void ask_next(struct target_ns *ns)
{
	struct target_req *second = ns->fused;
	struct target *t = second->queue->target;
	struct list *next = ns->fused_at ? ns->fused_at->link.next : t->groups.next;

	if (next == &t->groups) {
		group_tell(&t->group, second->queue->group, &second->msg, run_pair);
		return;
	}
	ns->fused_at = list_entry(next, struct target_group, link);
	group_tell(&t->group, ns->fused_at, &second->msg, ask);
}

static void fused_turn(struct target_req *second)
{
	struct target_ns *ns = second->ns;

	assert(!ns->fused);
	ns->fused = second;
	ns->fused_at = NULL;
	second->guards = true;
	atomic_store_explicit(&ns->fused_lba, nvme_rw_slba(&second->sqe), memory_order_release);
	ask_next(ns);
}

/* --- from data to execution ---------------------------------------------------------------------
 */

static void execute(struct target_req *r)
{
	if (fused_in_the_way(r))
		req_hold(r);
	else
		r->execute(r);
}

void target_req_ready(struct target_req *r, uint16_t status)
{
	assert(r->state == TARGET_REQ_FETCH);
	r->state = TARGET_REQ_EXECUTE;
	if (status == NVME_SC_SUCCESS && r->queue->disconnected)
		status = NVME_SC_ABORT_QUEUE;
	r->fetched = true;
	if (status == NVME_SC_SUCCESS && r->aborting)
		status = r->aborting;
	if (status != NVME_SC_SUCCESS)
		req_complete(r, status);
	else
		execute(r);
}

/* Memory for its data, the data, and then what it is there for. */
static void go_on(struct target_req *r)
{
	struct target_queue *q = r->queue;

	if (!r->data_len && !r->scratch_len) {
		execute(r);
		return;
	}
	r->state = TARGET_REQ_FETCH;
	if (r->in_capsule && !r->scratch_len)
		target_req_ready(r, NVME_SC_SUCCESS);
	else
		q->ops->fetch(r);
}

/* --- I/O that waits for other I/O: the admin plane's --------------------------------------- */

/* Whether an association of r's host that has ended still has something done to r's namespace. */
static bool left_work(const struct target_req *r)
{
	const struct target_queue *mine = r->queue;

	list_for_each(q, &mine->target->remains, const struct target_queue, remains)
		if (q != mine && q->subsys == mine->subsys &&
		    memcmp(q->hostid, mine->hostid, sizeof(q->hostid)) == 0 &&
		    ns_bit_get(q->busy_ns, r->ns->nsid))
			return true;
	return false;
}

/* The group's again. */
static void resume(struct target_msg *m)
{
	struct target_req *r = msg_req(m);

	r->state = TARGET_REQ_EXECUTE;
	if (!r->queue->ctrl)
		req_complete(r, NVME_SC_ABORT_QUEUE);
	else if (r->fetched)
		execute(r);
	else
		go_on(r);
}

static bool must_wait(const struct target_req *r)
{
	return left_work(r) || fused_in_the_way(r) || fused_must_wait(r);
}

static void let_go(struct target_req *r)
{
	if (r->ready && r->pair)
		fused_turn(r);
	else
		group_tell(&r->queue->target->group, r->queue->group, &r->msg, resume);
}

static void hold(struct target_msg *m)
{
	struct target_req *r = msg_req(m);
	struct target *t = r->queue->target;

	if (must_wait(r)) {
		t->counters->held += left_work(r);
		list_push_tail(&t->held, &r->held);
	} else {
		let_go(r);
	}
}

/* The group's. */
void req_hold(struct target_req *r)
{
	r->state = TARGET_REQ_HELD;
	group_tell(r->queue->group, &r->queue->target->group, &r->msg, hold);
}

/* The group's. */
void req_begin(struct target_req *r)
{
	struct target_queue *q = r->queue;
	struct target *t = q->target;

	if (q->qid && r->ns && atomic_load_explicit(&t->left_work, memory_order_relaxed))
		req_hold(r);
	else
		go_on(r);
}

static void end_held(struct target_msg *m)
{
	struct target_req *r = msg_req(m);

	req_complete(r, r->cqe.status);
}

void held_abort(struct target_req *r, uint16_t status)
{
	list_remove(&r->held);
	r->cqe.status = status;
	group_tell(&r->queue->target->group, r->queue->group, &r->msg, end_held);
}

static struct target_req *first_held(const struct target_queue *q)
{
	list_for_each(r, &q->target->held, struct target_req, held)
		if (r->queue == q)
			return r;
	return NULL;
}

void held_abort_all(struct target_queue *q, uint16_t status)
{
	struct target_req *r;

	while ((r = first_held(q)))
		held_abort(r, status);
}

static struct target_req *first_to_go_on(const struct target *t)
{
	list_for_each(r, &t->held, struct target_req, held)
		if (!must_wait(r))
			return r;
	return NULL;
}

/* What goes on may be done at once, and come here again. */
void held_go_on(struct target *t)
{
	struct target_req *r;

	if (t->going_on)
		return;
	t->going_on = true;
	while ((r = first_to_go_on(t))) {
		list_remove(&r->held);
		let_go(r);
	}
	t->going_on = false;
}

void fused_init(struct target_ns *ns)
{
	ns->fused = NULL;
	atomic_store_explicit(&ns->fused_lba, NO_BLOCK, memory_order_relaxed);
}

static void turn_over(struct target_msg *m)
{
	struct target_ns *ns = container_of(m, struct target_ns, fused_msg);
	struct target *t = ns->fused_of;

	fused_init(ns);
	held_go_on(t);
}

static void fused_done(struct target_req *second)
{
	struct target *t = second->queue->target;

	second->ns->fused_of = t;
	group_tell(second->queue->group, &t->group, &second->ns->fused_msg, turn_over);
}

/* --- completion ----------------------------------------------------------------------------- */

static void count(struct target_counters *n, const struct target_req *r, uint16_t status)
{
	bool io = r->queue->qid && r->sqe.opcode != NVME_FABRICS;

	if (req_waited_in_vain(r))
		return;
	n->commands++;
	if (status != NVME_SC_SUCCESS) {
		n->errors++;
	} else if (io && r->dir == NVMF_DIR_TO_HOST) {
		n->reads++;
		n->read_bytes += r->data_len;
	} else if (io && r->dir == NVMF_DIR_TO_CTRL) {
		n->writes++;
		n->written_bytes += r->data_len;
	}
}

static void finish(struct target_req *r)
{
	struct target_queue *q = r->queue;

	count(q->group->counters, r, r->cqe.status);
	if (q->shown.on)
		figures_count(q->group->figures, q, r);
	if (q->entries)
		q->sqhd = (uint16_t)((q->sqhd + 1u) % q->entries);
	r->cqe.cid = r->sqe.cid;
	r->cqe.sqid = q->qid == TARGET_QID_UNKNOWN ? 0 : q->qid;
	r->cqe.sqhd = q->no_sq_flow ? 0xffff : q->sqhd;
	r->state = TARGET_REQ_FREE;
	list_remove(&r->link);
	q->live--;
	if (list_empty(&q->reqs) && q->group->now_ns > q->busy_since_ns)
		count_add(&q->counts.busy_ns, q->group->now_ns - q->busy_since_ns);
	if (r->counted)
		fused_put(r->ns, q->group);
	if (r->guards)
		fused_done(r);
	if (r->ns)
		ns_put(r->ns, q->group);
	q->ops->respond(r);
	if (q->parting && list_is_single(&q->reqs))
		q->parting->execute(q->parting);
	if (q->disconnected || (q->entries && !q->ctrl))
		queue_report(q);
}

static void logged(struct target_msg *m)
{
	finish(msg_req(m));
}

/* The admin plane's. */
static void tell_of_store(const struct target_req *r, enum target_event_type type)
{
	const struct target_queue *q = r->queue;
	struct target *t = q->target;
	bool failed = type == TARGET_EVENT_STORE_FAILED;
	uint64_t now = max_of(t->group.now_ns, r->stall_ns);

	target_emit(t, &(struct target_event){.type = type,
					      .ctrl = q->owner,
					      .queue = q,
					      .peer = q->raddr,
					      .nsid = r->ns->nsid,
					      .ns = r->ns,
					      .opcode = failed ? r->op.opcode : r->stall_opcode,
					      .waited_ns = failed ? 0 : now - r->stall_ns,
					      .error = failed ? r->store_error : 0});
}

/* The admin plane's: the entry is there before the host is told to look for it. */
static void log_error(struct target_msg *m)
{
	struct target_req *r = msg_req(m);
	const struct target_queue *q = r->queue;
	struct target_ctrl *c = q->owner;

	if (r->store_error)
		tell_of_store(r, TARGET_EVENT_STORE_FAILED);
	if (r->stall_ns)
		tell_of_store(r, TARGET_EVENT_STALL_OVER);
	if (c && r->cqe.status) {
		const uint64_t before = c->error_count++;

		c->errlog[before % TARGET_ERRLOG_ENTRIES] = (struct nvme_error_entry){
			.error_count = c->error_count,
			.sqid = q->qid,
			.cid = r->sqe.cid,
			.status = (uint16_t)(r->cqe.status << 1),
			.parm_error_location = r->error_location ? r->error_location : 0xffff,
			.nsid = r->sqe.opcode == NVME_FABRICS ? 0 : r->sqe.nsid,
			.lba = r->error_lba_known ? r->error_lba
			       : q->qid		  ? nvme_rw_slba(&r->sqe)
						  : 0,
			.trtype = q->ops->trtype,
		};
		c->subsys->media_errors += (r->cqe.status & NVME_STATUS_CODE) == NVME_SC_READ_ERROR;
		r->cqe.status |= NVME_STATUS_MORE;
	}
	group_tell(&q->target->group, q->group, m, logged);
}

static void answer(struct target_req *r)
{
	struct target_queue *q = r->queue;

	if ((r->cqe.status && q->ctrl) || r->store_error || r->stall_ns)
		group_tell(q->group, &q->target->group, &r->msg, log_error);
	else
		finish(r);
}

static struct target_req *fused_part(struct target_req *r, uint16_t status)
{
	struct target_req *pair = r->pair;

	r->pair = pair->pair = NULL;
	if (status != NVME_SC_SUCCESS)
		pair->doom = status == NVME_SC_ABORT_QUEUE ? status : NVME_SC_FUSED_FAIL;
	return pair;
}

static void fused_go_on(struct target_req *pair)
{
	if (!pair->doom)
		pair->then(pair);
	else if (pair->ready)
		req_complete(pair, pair->doom);
}

void req_complete(struct target_req *r, uint16_t status)
{
	struct target_req *pair = r->pair ? fused_part(r, status) : NULL;

	assert(r->state != TARGET_REQ_FREE);
	r->cqe.status = status;
	if (r->telling)
		r->over = true;
	else
		answer(r);
	if (pair)
		fused_go_on(pair);
}

/* --- stores that fail, or take long --------------------------------------------------------- */

void req_submit(struct target_req *r)
{
	r->store_ns = max_of(r->queue->group->now_ns, (uint64_t)1);
	store_submit(req_store(r), &r->op);
}

/* The group's. */
static void stall_told(struct target_msg *m)
{
	struct target_req *r = container_of(m, struct target_req, stall_msg);

	r->telling = false;
	if (r->over)
		answer(r);
}

static void tell_stall(struct target_msg *m)
{
	struct target_req *r = container_of(m, struct target_req, stall_msg);
	const struct target_queue *q = r->queue;

	tell_of_store(r, TARGET_EVENT_STALLED);
	group_tell(&q->target->group, q->group, m, stall_told);
}

static bool is_stalled(const struct target_req *r, uint64_t now_ns)
{
	return r->state == TARGET_REQ_EXECUTE && r->store_ns && !r->stall_ns &&
	       r->store_ns + TARGET_STALL_NS <= now_ns;
}

void target_group_watch(struct target_group *g, uint64_t now_ns)
{
	g->now_ns = now_ns;
	list_for_each(q, &g->queues, struct target_queue, link)
		list_for_each(r, &q->reqs, struct target_req, link) {
			if (r->since_ns + TARGET_STALL_NS > now_ns)
				break; /* those behind it came later */
			if (!q->qid || !is_stalled(r, now_ns))
				continue;
			r->stall_ns = r->store_ns;
			r->stall_opcode = r->op.opcode;
			r->telling = true;
			group_tell(g, &g->target->group, &r->stall_msg, tell_stall);
		}
}

uint16_t req_fail_at(struct target_req *r, uint16_t offset, uint16_t status)
{
	r->error_location = offset;
	return status;
}

uint16_t req_find_ns(struct target_req *r)
{
	struct target_subsys *s = r->queue->ctrl->subsys;
	uint32_t nsid = r->sqe.nsid;

	if (nsid && nsid <= TARGET_NS_MAX)
		r->ns = atomic_load_explicit(&s->ns[nsid - 1], memory_order_acquire);
	return r->ns ? NVME_SC_SUCCESS : req_fail_at(r, 4, FAIL(NVME_SC_INVALID_NS));
}

uint16_t req_store_status(struct target_req *r, int error, enum store_opcode opcode)
{
	r->store_error = error == -ERANGE ? 0 : error; /* of which the disk knows nothing */
	return errno_to_status(error, opcode);
}

uint16_t errno_to_status(int error, enum store_opcode opcode)
{
	switch (error) {
	case 0:
		return NVME_SC_SUCCESS;
	case -ENOSPC:
	case -EDQUOT:
		return FAIL(NVME_SC_CAP_EXCEEDED);
	case -ERANGE: /* it has become smaller since the command was looked at */
		return FAIL(NVME_SC_LBA_RANGE);
	case -EROFS:
	case -EPERM:
	case -EACCES:
		return FAIL(NVME_SC_NS_WRITE_PROTECTED);
	case -EOPNOTSUPP:
		return FAIL(NVME_SC_INVALID_OPCODE);
	case -ENOTCONN: /* for now: the host may try again */
		return NVME_SC_NS_NOT_READY;
	case -ENOMEM:
	case -EAGAIN:
		return NVME_SC_INTERNAL;
	}
	return FAIL(opcode == STORE_READ ? NVME_SC_READ_ERROR : NVME_SC_WRITE_FAULT);
}
