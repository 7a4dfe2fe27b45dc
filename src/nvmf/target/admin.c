/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Admin commands: the table of what there is, Keep Alive, Asynchronous Event Request, Abort.
 * Identify, Get Log Page and the features have files of their own.
 */
#include <assert.h>

#include "nvmf/target/internal.h"

static void execute_keep_alive(struct target_req *r)
{
	ctrl_arm_kato(r->queue->ctrl);
	req_complete(r, NVME_SC_SUCCESS);
}

static uint16_t parse_keep_alive(struct target_req *r)
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

static uint16_t parse_async_event(struct target_req *r)
{
	if (r->queue->ctrl->aer_count == TARGET_AER_MAX)
		return FAIL(NVME_SC_ASYNC_LIMIT);
	r->execute = execute_async_event;
	return NVME_SC_SUCCESS;
}

/* --- Abort -----------------------------------------------------------------------------------
 *
 * A held request and a command that waits for memory can still be aborted; one whose data
 * is moving or that a store works on runs to its end, and the result says so.
 */

static bool abort_held(struct target_ctrl *c, struct target_req *victim)
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

static bool abort_one(struct target_ctrl *c, struct target_queue *q, struct target_req *victim)
{
	if (victim->state == TARGET_REQ_HELD && q->qid) {
		held_abort(victim, NVME_SC_ABORT_REQ);
		return true;
	}
	if (victim->state == TARGET_REQ_HELD)
		return abort_held(c, victim);
	if (victim->state != TARGET_REQ_FETCH || !q->ops->cancel(victim))
		return false;
	victim->state = TARGET_REQ_EXECUTE;
	req_complete(victim, NVME_SC_ABORT_REQ);
	return true;
}

#define ABORT_NOT_DONE 1u /* bit 0 of the result */

static void execute_abort(struct target_req *r)
{
	struct target_ctrl *c = r->queue->ctrl;
	uint16_t sqid = (uint16_t)r->sqe.cdw10, cid = (uint16_t)(r->sqe.cdw10 >> 16);
	struct target_queue *q = sqid <= TARGET_IO_QUEUES_MAX ? c->queues[sqid] : NULL;

	r->cqe.result = ABORT_NOT_DONE;
	if (q) {
		list_for_each(victim, &q->reqs, struct target_req, link) {
			if (victim->sqe.cid != cid || victim == r)
				continue;
			if (abort_one(c, q, victim))
				r->cqe.result = 0;
			break;
		}
	}
	req_complete(r, NVME_SC_SUCCESS);
}

static uint16_t parse_abort(struct target_req *r)
{
	r->execute = execute_abort;
	return NVME_SC_SUCCESS;
}

/* --- the table ------------------------------------------------------------------------------- */

struct admin_cmd {
	target_parse_fn *parse;
	bool discovery; /* also of a discovery controller */
};

static const struct admin_cmd admin_cmds[256] = {
	[NVME_ADMIN_GET_LOG_PAGE] = {parse_get_log, true},
	[NVME_ADMIN_IDENTIFY] = {parse_identify, true},
	[NVME_ADMIN_ABORT] = {parse_abort, false},
	[NVME_ADMIN_SET_FEATURES] = {parse_set_features, true},
	[NVME_ADMIN_GET_FEATURES] = {parse_get_features, true},
	[NVME_ADMIN_ASYNC_EVENT] = {parse_async_event, true},
	[NVME_ADMIN_KEEP_ALIVE] = {parse_keep_alive, true},
};

static const struct admin_cmd *admin_find(uint8_t opcode, bool discovery)
{
	const struct admin_cmd *cmd = &admin_cmds[opcode];

	return cmd->parse && (cmd->discovery || !discovery) ? cmd : NULL;
}

uint32_t admin_effects(uint8_t opcode, bool discovery)
{
	return admin_find(opcode, discovery) ? NVME_EFFECT_CSUPP : 0;
}

uint16_t parse_admin(struct target_req *r)
{
	const struct admin_cmd *cmd = admin_find(r->sqe.opcode, r->queue->ctrl->subsys->discovery);

	if (!cmd)
		return FAIL(NVME_SC_INVALID_OPCODE);
	return cmd->parse(r);
}
