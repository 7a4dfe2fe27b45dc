/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Compare and Write, the fused operation: a Compare and a Write of one block, which follow one
 * another on a queue and are carried out as one, or not at all. Base 2.0 section 3.4.2.
 *
 * The first half waits for the second, without memory. When the data of both are there they wait
 * for their turn (request.c); then it is compared, the Compare is answered, and it is written.
 *
 * Nobody has a turn whose data are still at a host: one that sends none holds up nobody.
 */
#include "nvmf/target/internal.h"

#define SQE_FLAGS 1
#define SQE_NSID  4
#define SQE_SLBA  40
#define SQE_NLB	  48

static bool is_second(const struct target_req *r)
{
	return (r->sqe.flags & NVME_SQE_FUSE_MASK) == NVME_SQE_FUSE_SECOND;
}

/* Its data are there, or it was not to go on. */
static void ready(struct target_req *r)
{
	struct target_req *second = is_second(r) ? r : r->pair;

	if (r->doom) {
		req_complete(r, r->doom);
		return;
	}
	r->ready = true;
	if (r->pair->ready)
		req_hold(second);
}

/* The blocks of both are the same, or neither is carried out. */
static uint16_t check_second(struct target_req *first, struct target_req *r)
{
	if (r->sqe.opcode != NVME_IO_WRITE)
		return req_fail_at(r, 0, FAIL(NVME_SC_INVALID_FIELD));
	if (r->sqe.nsid != first->sqe.nsid)
		return req_fail_at(r, SQE_NSID, FAIL(NVME_SC_INVALID_FIELD));
	if (nvme_rw_slba(&r->sqe) != nvme_rw_slba(&first->sqe))
		return req_fail_at(r, SQE_SLBA, FAIL(NVME_SC_INVALID_FIELD));
	if (nvme_rw_nlb(&r->sqe) != nvme_rw_nlb(&first->sqe))
		return req_fail_at(r, SQE_NLB, FAIL(NVME_SC_INVALID_FIELD));
	return NVME_SC_SUCCESS;
}

static void begin(struct target_req *r, struct target_req *pair)
{
	r->pair = pair;
	r->then = r->execute;
	r->execute = ready;
	r->state = TARGET_REQ_EXECUTE;
}

static void come_second(struct target_req *first, struct target_req *r, uint16_t status)
{
	if (status) {
		req_complete(first, NVME_SC_FUSED_FAIL);
		req_complete(r, status);
		return;
	}
	status = check_second(first, r);
	if (status) {
		first->error_location = r->error_location;
		req_complete(first, status);
		req_complete(r, status);
		return;
	}
	begin(first, r);
	begin(r, first);
	req_begin(first);
	if (r->doom)
		req_complete(r, r->doom);
	else
		req_begin(r);
}

static uint16_t check_first(struct target_req *r)
{
	if (r->sqe.opcode != NVME_IO_COMPARE)
		return req_fail_at(r, SQE_FLAGS, FAIL(NVME_SC_INVALID_FIELD));
	if (nvme_rw_nlb(&r->sqe) > TARGET_ACWU)
		return req_fail_at(r, SQE_NLB, FAIL(NVME_SC_AWU_EXCEEDED));
	return NVME_SC_SUCCESS;
}

static void come_first(struct target_req *r, uint16_t status)
{
	if (!status)
		status = check_first(r);
	r->queue->first_failed = status != NVME_SC_SUCCESS;
	if (status) {
		req_complete(r, status);
		return;
	}
	r->state = TARGET_REQ_HELD;
	r->queue->first = r;
}

bool fused_recv(struct target_req *r, uint16_t status)
{
	struct target_queue *q = r->queue;
	struct target_req *first = q->first;
	bool failed = q->first_failed;

	if (!q->qid || !q->ctrl)
		return false;
	q->first = NULL;
	q->first_failed = false;
	if (is_second(r)) {
		if (first)
			come_second(first, r, status);
		else
			req_complete(r, failed ? NVME_SC_FUSED_FAIL : NVME_SC_FUSED_MISSING);
		return true;
	}
	if (first)
		req_complete(first, NVME_SC_FUSED_MISSING);
	if ((r->sqe.flags & NVME_SQE_FUSE_MASK) != NVME_SQE_FUSE_FIRST)
		return false;
	come_first(r, status);
	return true;
}

bool fused_abort_first(struct target_queue *q, const struct target_req *r, uint16_t status)
{
	struct target_req *first = q->first;

	if (!first || (r && first != r))
		return false;
	q->first = NULL;
	q->first_failed = true;
	req_complete(first, status);
	return true;
}
