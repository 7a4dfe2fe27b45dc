/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The bottom of a request's life: what it waits for once it is parsed, and how it ends. Whatever
 * parses and executes stands above.
 */
#include <assert.h>
#include <errno.h>

#include "nvmf/target/internal.h"

void target_req_ready(struct target_req *r, uint16_t status)
{
	assert(r->state == TARGET_REQ_FETCH);
	r->state = TARGET_REQ_EXECUTE;
	if (status == NVME_SC_SUCCESS && r->queue->disconnected)
		status = NVME_SC_ABORT_QUEUE;
	if (status != NVME_SC_SUCCESS)
		req_complete(r, status);
	else
		r->execute(r);
}

/* Memory for its data, the data, and then what it is there for. */
static void go_on(struct target_req *r)
{
	struct target_queue *q = r->queue;

	if (!r->data_len && !r->scratch_len) {
		r->execute(r);
		return;
	}
	r->state = TARGET_REQ_FETCH;
	if (r->in_capsule && !r->scratch_len)
		target_req_ready(r, NVME_SC_SUCCESS);
	else
		q->ops->fetch(r);
}

/* --- I/O that waits for older I/O: the admin plane's --------------------------------------- */

/* Whether an association of r's host that has ended still has something done to r's namespace. */
static bool must_wait(const struct target_req *r)
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
	if (r->queue->ctrl)
		go_on(r);
	else
		req_complete(r, NVME_SC_ABORT_QUEUE);
}

static void hold(struct target_msg *m)
{
	struct target_req *r = msg_req(m);
	struct target *t = r->queue->target;

	if (must_wait(r)) {
		t->counters->held++;
		list_push_tail(&t->held, &r->held);
	} else {
		group_tell(&t->group, r->queue->group, m, resume);
	}
}

/* The group's. */
void req_begin(struct target_req *r)
{
	struct target_queue *q = r->queue;
	struct target *t = q->target;

	if (q->qid && r->ns && atomic_load_explicit(&t->left_work, memory_order_relaxed)) {
		r->state = TARGET_REQ_HELD;
		group_tell(q->group, &t->group, &r->msg, hold);
	} else {
		go_on(r);
	}
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
		group_tell(&t->group, r->queue->group, &r->msg, resume);
	}
	t->going_on = false;
}

/* --- completion ----------------------------------------------------------------------------- */

static void count(struct target_counters *n, const struct target_req *r, uint16_t status)
{
	bool io = r->queue->qid && r->sqe.opcode != NVME_FABRICS;

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
	if (q->entries)
		q->sqhd = (uint16_t)((q->sqhd + 1u) % q->entries);
	r->cqe.cid = r->sqe.cid;
	r->cqe.sqid = q->qid == TARGET_QID_UNKNOWN ? 0 : q->qid;
	r->cqe.sqhd = q->no_sq_flow ? 0xffff : q->sqhd;
	r->state = TARGET_REQ_FREE;
	list_remove(&r->link);
	q->live--;
	if (r->ns)
		ns_put(r->ns, q->group);
	q->ops->respond(r);
	if (q->disconnected || (q->entries && !q->ctrl))
		queue_report(q);
}

static void logged(struct target_msg *m)
{
	finish(msg_req(m));
}

/* The admin plane's: the entry is there before the host is told to look for it. */
static void log_error(struct target_msg *m)
{
	struct target_req *r = msg_req(m);
	const struct target_queue *q = r->queue;
	struct target_ctrl *c = q->owner;

	if (c) {
		c->errlog[c->error_count++ % TARGET_ERRLOG_ENTRIES] = (struct nvme_error_entry){
			.error_count = c->error_count,
			.sqid = q->qid,
			.cid = r->sqe.cid,
			.status = (uint16_t)(r->cqe.status << 1),
			.parm_error_location = r->error_location ? r->error_location : 0xffff,
			.nsid = r->sqe.opcode == NVME_FABRICS ? 0 : r->sqe.nsid,
			.lba = q->qid ? nvme_rw_slba(&r->sqe) : 0,
			.trtype = q->ops->trtype,
		};
		r->cqe.status |= NVME_STATUS_MORE;
	}
	group_tell(&q->target->group, q->group, m, logged);
}

void req_complete(struct target_req *r, uint16_t status)
{
	struct target_queue *q = r->queue;

	assert(r->state != TARGET_REQ_FREE);
	r->cqe.status = status;
	if (status != NVME_SC_SUCCESS && q->ctrl)
		group_tell(q->group, &q->target->group, &r->msg, log_error);
	else
		finish(r);
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

uint16_t errno_to_status(int error, enum store_opcode opcode)
{
	switch (error) {
	case 0:
		return NVME_SC_SUCCESS;
	case -ENOSPC:
	case -EDQUOT:
		return FAIL(NVME_SC_CAP_EXCEEDED);
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
