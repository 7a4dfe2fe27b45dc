/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* From a command to its parser. */
#include "nvmf/target/internal.h"

struct admin_cmd {
	target_parse_fn *parse;
	bool discovery; /* also of a discovery controller */
};

static const struct admin_cmd admin_cmds[256] = {
#define ADMIN(opcode, parse, discovery) [opcode] = {parse, discovery},
#include "nvmf/target/commands.def"
};

static target_parse_fn *const io_cmds[256] = {
#define IO(opcode, parse, effects) [opcode] = parse,
#include "nvmf/target/commands.def"
};

enum fabrics_where {
	FABRICS_ADMIN, /* on admin queues */
	FABRICS_FIRST, /* before there is a controller */
	FABRICS_ANY,   /* on any queue of one */
	FABRICS_AUTH,  /* on any queue, before it is authenticated, too */
};

struct fabrics_cmd {
	target_parse_fn *parse;
	enum fabrics_where where;
};

static const struct fabrics_cmd fabrics_cmds[256] = {
#define FABRICS(type, parse, where) [type] = {parse, where},
#include "nvmf/target/commands.def"
};

static uint16_t parse_fabrics(struct target_req *r)
{
	const struct fabrics_cmd *cmd = &fabrics_cmds[nvmf_fctype(&r->sqe)];

	if (cmd->where != FABRICS_FIRST && !r->queue->ctrl)
		return FAIL(NVME_SC_CMD_SEQ_ERROR);
	if (!cmd->parse || (cmd->where == FABRICS_ADMIN && r->queue->qid))
		return req_fail_at(r, 4, FAIL(NVME_SC_INVALID_OPCODE));
	return cmd->parse(r);
}

/* Of a controller whose host has to prove who it is first. */
static bool too_early(const struct target_req *r)
{
	const struct target_queue *q = r->queue;

	return q->ctrl && !q->authenticated &&
	       (r->sqe.opcode != NVME_FABRICS ||
		fabrics_cmds[nvmf_fctype(&r->sqe)].where != FABRICS_AUTH);
}

static uint16_t parse_admin(struct target_req *r)
{
	const struct admin_cmd *cmd = &admin_cmds[r->sqe.opcode];

	if (!cmd->parse || (r->queue->ctrl->subsys->discovery && !cmd->discovery))
		return FAIL(NVME_SC_INVALID_OPCODE);
	return cmd->parse(r);
}

static uint16_t parse_io(struct target_req *r)
{
	target_parse_fn *parse = io_cmds[r->sqe.opcode];
	uint16_t status;

	if (!parse)
		return FAIL(NVME_SC_INVALID_OPCODE);
	status = req_find_ns(r);
	return status ? status : parse(r);
}

uint16_t req_parse(struct target_req *r)
{
	const struct target_ctrl *c = r->queue->ctrl;

	uint8_t fuse = r->sqe.flags & NVME_SQE_FUSE_MASK;

	if (fuse == NVME_SQE_FUSE_MASK ||
	    (fuse && (!r->queue->qid || r->sqe.opcode == NVME_FABRICS)))
		return req_fail_at(r, 1, FAIL(NVME_SC_INVALID_FIELD));
	if ((r->sqe.flags & NVME_SQE_PSDT_MASK) != NVME_SQE_PSDT_SGL)
		return req_fail_at(r, 1, FAIL(NVME_SC_INVALID_FIELD));
	if (too_early(r))
		return FAIL(NVME_SC_AUTH_REQUIRED);
	if (r->sqe.opcode == NVME_FABRICS)
		return parse_fabrics(r);
	if (!c)
		return FAIL(NVME_SC_CMD_SEQ_ERROR);
	/* An I/O queue is of a controller that is ready, until it hears otherwise. */
	if (r->queue->qid)
		return r->queue->ending ? FAIL(NVME_SC_CMD_SEQ_ERROR) : parse_io(r);
	if (!(c->cc & NVME_CC_EN) || !(c->csts & NVME_CSTS_RDY))
		return FAIL(NVME_SC_CMD_SEQ_ERROR);
	return parse_admin(r);
}
