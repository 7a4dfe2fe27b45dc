/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Queues and the life of a request on them. */
#include <assert.h>
#include <errno.h>

#include "nvmf/target/internal.h"

void target_queue_init(struct target_queue *q, struct target *t, uint64_t now_ns)
{
	q->target = t;
	q->ctrl = NULL;
	q->subsys = NULL;
	q->entries = q->sqhd = 0;
	q->no_sq_flow = q->disconnected = false;
	q->live = 0;
	list_init(&q->reqs);
	list_push_tail(&t->queues, &q->link);
	q->connect_timer = (struct timer){0};
	timer_arm(&t->connect_timers, &q->connect_timer, now_ns + TARGET_CONNECT_NS);
}

static void leave_ctrl(struct target_queue *q)
{
	struct target_ctrl *c = q->ctrl;

	if (!c)
		return;
	q->ctrl = NULL;
	q->target->left_work |= q->live != 0;
	c->queues[q->qid] = NULL;
	if (q->qid == 0)
		ctrl_destroy(c, q->why[0] ? q->why : NULL);
	else
		c->io_queues--;
}

static struct target_req *first_held(const struct target_queue *q)
{
	list_for_each(r, &q->target->held, struct target_req, held)
		if (r->queue == q)
			return r;
	return NULL;
}

void target_queue_disconnected(struct target_queue *q)
{
	struct target_req *held;

	if (q->disconnected)
		return;
	q->disconnected = true;
	if (q->why[0] && !(q->ctrl && q->qid == 0))
		target_emit(q->target, &(struct target_event){.type = TARGET_EVENT_QUEUE_FAILED,
							      .ctrl = q->ctrl,
							      .queue = q,
							      .peer = q->raddr,
							      .why = q->why});
	timer_cancel(&q->target->connect_timers, &q->connect_timer);
	if (q->ctrl && q->qid == 0)
		ctrl_abort_aers(q->ctrl, NVME_SC_ABORT_QUEUE);
	leave_ctrl(q);
	while ((held = first_held(q)))
		held_abort(held, NVME_SC_ABORT_QUEUE);
	if (!q->live)
		list_remove(&q->link);
}

/* --- I/O that waits for older I/O ------------------------------------------------------------ */

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

/* Whether an association of r's host that has ended still has something done to r's namespace. */
static bool must_wait(struct target_req *r)
{
	struct target *t = r->queue->target;
	bool any = false;

	list_for_each(q, &t->queues, const struct target_queue, link) {
		if (!q->subsys || q->ctrl || !q->live)
			continue;
		any = true;
		if (q->subsys != r->queue->subsys || q == r->queue ||
		    memcmp(q->hostid, r->queue->hostid, sizeof(q->hostid)) != 0)
			continue;
		list_for_each(old, &q->reqs, const struct target_req, link)
			if (old->ns == r->ns && old->state != TARGET_REQ_HELD)
				return true;
	}
	t->left_work = any;
	return false;
}

static void hold(struct target_req *r)
{
	r->state = TARGET_REQ_HELD;
	list_push_tail(&r->queue->target->held, &r->held);
}

void held_abort(struct target_req *r, uint16_t status)
{
	list_remove(&r->held);
	req_complete(r, status);
}

static struct target_req *first_to_go_on(const struct target *t)
{
	list_for_each(r, &t->held, struct target_req, held)
		if (!must_wait(r))
			return r;
	return NULL;
}

/* What goes on may be done at once, and come here again. */
static void held_go_on(struct target *t)
{
	struct target_req *r;

	if (t->going_on)
		return;
	t->going_on = true;
	while ((r = first_to_go_on(t))) {
		list_remove(&r->held);
		r->state = TARGET_REQ_EXECUTE;
		if (r->queue->ctrl)
			go_on(r);
		else
			req_complete(r, NVME_SC_ABORT_QUEUE);
	}
	t->going_on = false;
}

/* --- completion ----------------------------------------------------------------------------- */

void req_complete(struct target_req *r, uint16_t status)
{
	struct target_queue *q = r->queue;
	struct target_ctrl *c = q->ctrl;
	struct target *t = q->target;

	assert(r->state != TARGET_REQ_FREE);
	if (status != NVME_SC_SUCCESS && c) {
		ctrl_log_error(c, r, status);
		status |= NVME_STATUS_MORE;
	}
	if (q->entries)
		q->sqhd = (uint16_t)((q->sqhd + 1u) % q->entries);
	r->cqe.cid = r->sqe.cid;
	r->cqe.sqid = q->qid;
	r->cqe.sqhd = q->no_sq_flow ? 0xffff : q->sqhd;
	r->cqe.status = status;
	r->state = TARGET_REQ_FREE;
	list_remove(&r->link);
	q->live--;
	if (q->disconnected && !q->live)
		list_remove(&q->link);
	q->ops->respond(r);
	if (q->subsys && !q->ctrl)
		held_go_on(t);
}

uint16_t req_fail_at(struct target_req *r, uint16_t offset, uint16_t status)
{
	r->error_location = offset;
	return status;
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
	case -ENOMEM:
	case -EAGAIN:
		return NVME_SC_INTERNAL;
	}
	return FAIL(opcode == STORE_READ ? NVME_SC_READ_ERROR : NVME_SC_WRITE_FAULT);
}

/* --- parsing -------------------------------------------------------------------------------- */

/*
 * SGL descriptors: a keyed data block names the host's memory; a data block with an offset
 * names the capsule's own data (host to controller only; ICDOFF is 0); a last segment with an
 * offset names a list in the capsule, of keyed data blocks. NVMe RDMA Transport 1.0 section 3.1.
 *
 * A descriptor of no bytes is a valid one. That descriptors name the same memory twice is the
 * host's affair: the data go there one after the other.
 */
#define SQE_SGL_ADDR 24
#define SQE_SGL_LEN  32
#define SQE_SGL_TYPE 39

static bool is_keyed(const struct target_req *r, const struct nvme_sgl *g)
{
	return r->queue->ops->keyed_sgl && g->type == NVME_SGL_KEYED_DATA_BLOCK &&
	       (g->subtype == NVME_SGL_ADDRESS || g->subtype == NVME_SGL_INVALIDATE);
}

static bool is_in_capsule(const struct target_req *r, const struct nvme_sgl *g)
{
	return g->addr <= r->capsule_len && g->len <= r->capsule_len - g->addr;
}

struct nvme_sgl target_req_sgl(const struct target_req *r, uint32_t i)
{
	struct cursor c;
	struct nvme_sgl g;

	assert(i < r->sgl_count);
	if (!r->sgl_list)
		return r->sqe.sgl;
	c = cursor_init(r->sgl_list + (size_t)i * NVME_SGL_LEN, NVME_SGL_LEN);
	nvme_sgl_get(&c, &g);
	return g;
}

static uint16_t parse_sgl_list(struct target_req *r)
{
	const struct nvme_sgl *s = &r->sqe.sgl;

	if (!s->len || s->len % NVME_SGL_LEN)
		return req_fail_at(r, SQE_SGL_LEN, FAIL(NVME_SC_SGL_INVALID_LAST));
	if (s->len / NVME_SGL_LEN > TARGET_SGL_MAX)
		return req_fail_at(r, SQE_SGL_LEN, FAIL(NVME_SC_SGL_INVALID_COUNT));
	if (!is_in_capsule(r, s))
		return req_fail_at(r, SQE_SGL_ADDR, FAIL(NVME_SC_SGL_INVALID_OFFSET));
	r->sgl_list = r->capsule + s->addr;
	r->sgl_count = s->len / NVME_SGL_LEN;
	for (uint32_t i = 0; i < r->sgl_count; i++) {
		struct nvme_sgl g = target_req_sgl(r, i);

		/* Behind a last segment there is none. */
		if (g.type == NVME_SGL_SEGMENT || g.type == NVME_SGL_LAST_SEGMENT)
			return req_fail_at(r, SQE_SGL_ADDR, FAIL(NVME_SC_SGL_INVALID_LAST));
		if (!is_keyed(r, &g))
			return req_fail_at(r, SQE_SGL_ADDR, FAIL(NVME_SC_SGL_INVALID_TYPE));
		r->sgl_len += g.len;
	}
	return NVME_SC_SUCCESS;
}

uint16_t req_sgl(struct target_req *r)
{
	const struct nvme_sgl *g = &r->sqe.sgl;

	r->sgl_list = NULL;
	r->sgl_len = 0;
	if (g->type == NVME_SGL_LAST_SEGMENT && g->subtype == NVME_SGL_OFFSET &&
	    r->queue->ops->keyed_sgl)
		return parse_sgl_list(r);
	r->sgl_len = g->len;
	if (is_keyed(r, g)) {
		r->sgl_count = 1;
		return NVME_SC_SUCCESS;
	}
	if (g->type != NVME_SGL_DATA_BLOCK || g->subtype != NVME_SGL_OFFSET)
		return req_fail_at(r, SQE_SGL_TYPE, FAIL(NVME_SC_SGL_INVALID_TYPE));
	if (r->dir != NVMF_DIR_TO_CTRL)
		return req_fail_at(r, SQE_SGL_ADDR, FAIL(NVME_SC_INVALID_FIELD));
	if (!is_in_capsule(r, g))
		return req_fail_at(r, SQE_SGL_ADDR, FAIL(NVME_SC_SGL_INVALID_OFFSET));
	r->in_capsule = true;
	r->data = r->capsule + g->addr;
	return NVME_SC_SUCCESS;
}

uint16_t req_expects(struct target_req *r, uint32_t len)
{
	uint16_t status;

	if (len > TARGET_DATA_MAX)
		return req_fail_at(r, 40, FAIL(NVME_SC_INVALID_FIELD));
	status = req_sgl(r);
	if (status)
		return status;
	if (r->sgl_len != len)
		return req_fail_at(r, SQE_SGL_LEN, FAIL(NVME_SC_SGL_INVALID_DATA));
	r->data_len = len;
	return NVME_SC_SUCCESS;
}

uint16_t req_expects_part(struct target_req *r, uint32_t len, uint64_t present)
{
	uint16_t status = req_expects(r, len);

	if (!status && present < len) {
		r->data_len = (uint32_t)present;
		r->zero_len = len - r->data_len;
	}
	return status;
}

uint16_t req_find_ns(struct target_req *r)
{
	struct target_subsys *s = r->queue->ctrl->subsys;
	uint32_t nsid = r->sqe.nsid;

	if (nsid == 0 || nsid > s->nn || !s->ns[nsid - 1])
		return req_fail_at(r, 4, FAIL(NVME_SC_INVALID_NS));
	r->ns = s->ns[nsid - 1];
	return NVME_SC_SUCCESS;
}

static uint16_t parse(struct target_req *r)
{
	struct target_ctrl *c = r->queue->ctrl;

	if (r->sqe.flags & NVME_SQE_FUSE_MASK)
		return req_fail_at(r, 1, FAIL(NVME_SC_INVALID_FIELD));
	if ((r->sqe.flags & NVME_SQE_PSDT_MASK) != NVME_SQE_PSDT_SGL)
		return req_fail_at(r, 1, FAIL(NVME_SC_INVALID_FIELD));
	if (r->sqe.opcode == NVME_FABRICS)
		return parse_fabrics(r);
	if (!c)
		return FAIL(NVME_SC_CMD_SEQ_ERROR);
	if (!(c->cc & NVME_CC_EN) || !(c->csts & NVME_CSTS_RDY))
		return FAIL(NVME_SC_CMD_SEQ_ERROR);
	return r->queue->qid == 0 ? parse_admin(r) : parse_io(r);
}

void target_req_recv(struct target_queue *q, struct target_req *r, const void *sqe, size_t sqe_len,
		     void *data, size_t data_len, uint64_t now_ns)
{
	struct cursor c = cursor_init(sqe, sqe_len);
	uint16_t status;

	q->target->now_ns = now_ns;
	*r = (struct target_req){.queue = q,
				 .state = TARGET_REQ_EXECUTE,
				 .capsule = data,
				 .capsule_len = min_of(data_len, (size_t)q->capsule_data_max),
				 .received_ns = now_ns};
	nvme_sqe_get(&c, &r->sqe);
	list_push_tail(&q->reqs, &r->link);
	q->live++;
	if (c.overrun) {
		target_emit(q->target, &(struct target_event){.type = TARGET_EVENT_BAD_CAPSULE,
							      .ctrl = q->ctrl,
							      .queue = q,
							      .peer = q->raddr});
		q->ops->disconnect(q);
		req_complete(r, FAIL(NVME_SC_INVALID_FIELD));
		return;
	}
	if (q->ctrl)
		q->ctrl->traffic = true;
	r->dir = nvmf_dir_of(&r->sqe);
	status = q->disconnected ? NVME_SC_ABORT_QUEUE : parse(r);
	if (status != NVME_SC_SUCCESS) {
		req_complete(r, status);
		return;
	}
	if (q->target->left_work && q->qid && r->ns && must_wait(r))
		hold(r);
	else
		go_on(r);
}

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
