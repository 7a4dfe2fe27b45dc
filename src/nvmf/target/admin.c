/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Admin commands: Keep Alive, Asynchronous Event Request, Abort. Identify, Get Log Page and the
 * features have files of their own.
 */
#include <assert.h>

#include "nvmf/target/internal.h"

static void execute_keep_alive(struct target_req *r)
{
	ctrl_arm_kato(r->queue->ctrl);
	req_complete(r, NVME_SC_SUCCESS);
}

uint16_t parse_keep_alive(struct target_req *r)
{
	r->execute = execute_keep_alive;
	return NVME_SC_SUCCESS;
}

static void execute_async_event(struct target_req *r)
{
	struct target_ctrl *c = r->queue->ctrl;

	r->state = TARGET_REQ_HELD;
	c->aer[c->aer_count++] = r;
	ctrl_send_events(c);
}

uint16_t parse_async_event(struct target_req *r)
{
	if (r->queue->ctrl->aer_count == TARGET_AER_MAX)
		return FAIL(NVME_SC_ASYNC_LIMIT);
	r->execute = execute_async_event;
	return NVME_SC_SUCCESS;
}

/* --- Abort -----------------------------------------------------------------------------------
 *
 * What is held, waits for memory or waits in the store ends at once. One whose data are moving ends
 * when they are there; one of several steps, or that reads, when the store is done with what it has
 * begun: the result says that it was not at once. What a store has begun to write is written, and
 * its status says so: data that could come later still would undo what the host writes next.
 */

static bool abort_event(struct target_ctrl *c, struct target_req *victim)
{
	for (uint32_t i = 0; i < c->aer_count; i++) {
		if (c->aer[i] != victim)
			continue;
		c->aer[i] = c->aer[--c->aer_count];
		req_complete(victim, NVME_SC_ABORT_REQ);
		return true;
	}
	return false;
}

/* It waited in the store, and does so no more. */
static bool in_store(const struct target_queue *q, struct target_req *victim)
{
	return q->qid && victim->ns && store_cancel(req_store(victim), &victim->op);
}

bool req_abort(struct target_req *victim, uint16_t status)
{
	struct target_queue *q = victim->queue;

	if (victim->state == TARGET_REQ_HELD && q->qid)
		return fused_abort_first(q, victim, status);
	if (victim->state == TARGET_REQ_HELD)
		return abort_event(q->ctrl, victim);
	if (victim->state == TARGET_REQ_FETCH ? !q->ops->cancel(victim) : !in_store(q, victim)) {
		victim->aborting = status;
		return false;
	}
	victim->state = TARGET_REQ_EXECUTE;
	victim->store_ns = 0; /* the admin plane may have it next, as after any operation */
	req_complete(victim, status);
	return true;
}

#define ABORT_NOT_DONE 1u /* bit 0 of the result */

static uint16_t abort_cid(const struct target_req *r)
{
	return (uint16_t)(r->sqe.cdw10 >> 16);
}

static void aborted(struct target_msg *m)
{
	req_complete(msg_req(m), NVME_SC_SUCCESS);
}

/* Of the group whose command it is. */
static void abort_there(struct target_msg *m)
{
	struct target_req *r = msg_req(m);
	struct target_queue *q = r->abort_on;

	list_for_each(victim, &q->reqs, struct target_req, link) {
		if (victim->sqe.cid != abort_cid(r) || victim == r)
			continue;
		if (req_abort(victim, NVME_SC_ABORT_REQ))
			r->cqe.result = 0;
		break;
	}
	group_tell(q->group, &q->target->group, m, aborted);
}

static struct target_req *find_held(const struct target_queue *q, uint16_t cid)
{
	list_for_each(r, &q->target->held, struct target_req, held)
		if (r->queue == q && r->sqe.cid == cid)
			return r;
	return NULL;
}

static void execute_abort(struct target_req *r)
{
	uint16_t sqid = (uint16_t)r->sqe.cdw10;
	struct target *t = r->queue->target;
	struct target_req *held = NULL;

	r->abort_on = sqid <= TARGET_IO_QUEUES_MAX ? r->queue->ctrl->queues[sqid] : NULL;
	if (r->abort_on)
		held = find_held(r->abort_on, abort_cid(r));
	r->cqe.result = held ? 0 : ABORT_NOT_DONE;
	if (held)
		held_abort(held, NVME_SC_ABORT_REQ);
	if (r->abort_on && !held)
		group_tell(&t->group, r->abort_on->group, &r->msg, abort_there);
	else
		req_complete(r, NVME_SC_SUCCESS);
}

uint16_t parse_abort(struct target_req *r)
{
	r->execute = execute_abort;
	return NVME_SC_SUCCESS;
}
