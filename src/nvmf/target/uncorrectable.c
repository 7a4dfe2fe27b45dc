/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Write Uncorrectable: blocks that a host has marked read as an error of the medium until they are
 * written again. NVM command set 1.0 section 3.2.7.
 *
 * The marks of a namespace are the admin plane's. A group knows by one word whether there are any:
 * only then what reads asks first, and what has written tells before its host hears of it, both by
 * message. A write that fails has healed nothing; one that succeeds cannot fail for its marks.
 *
 * Deallocating writes nothing, and leaves marks as they are.
 */
#include "nvmf/target/internal.h"

/* True if one of the blocks is marked; which is the first goes into the error log. */
static bool is_marked(struct target_req *r, uint64_t slba, uint64_t nlb)
{
	r->error_lba_known = marks_first(r->ns, slba, nlb, &r->error_lba);
	return r->error_lba_known;
}

static bool reads_marked(struct target_req *r)
{
	if (r->sqe.opcode != NVME_IO_COPY)
		return is_marked(r, nvme_rw_slba(&r->sqe), nvme_rw_nlb(&r->sqe));
	for (uint32_t i = 0; i < NVME_COPY_NR(r->sqe.cdw12); i++) {
		struct nvme_copy_range range = req_copy_range(r, i);

		if (is_marked(r, range.slba, range.nlb + 1u))
			return true;
	}
	return false;
}

/* The group's. */
static void looked(struct target_msg *m)
{
	struct target_req *r = msg_req(m);

	if (r->cqe.status)
		req_complete(r, r->cqe.status);
	else if (r->aborting)
		req_complete(r, r->aborting);
	else
		r->execute(r);
}

static void look(struct target_msg *m)
{
	struct target_req *r = msg_req(m);

	r->cqe.status = reads_marked(r) ? FAIL(NVME_SC_READ_ERROR) : NVME_SC_SUCCESS;
	group_tell(&r->queue->target->group, r->queue->group, m, looked);
}

void marks_ask(struct target_req *r, void (*then)(struct target_req *r))
{
	if (!atomic_load_explicit(&r->ns->marked, memory_order_acquire)) {
		then(r);
		return;
	}
	r->execute = then;
	group_tell(r->queue->group, &r->queue->target->group, &r->msg, look);
}

/* The group's. */
static void told(struct target_msg *m)
{
	req_complete(msg_req(m), msg_req(m)->cqe.status);
}

/* All of a command's, be it the last of several operations: but Copy's is the whole write, and how
 * much that is its SQE does not say. */
static uint64_t written_nlb(const struct target_req *r)
{
	return r->sqe.opcode == NVME_IO_COPY ? r->op.len >> r->ns->lba_shift : nvme_rw_nlb(&r->sqe);
}

static void heal(struct target_msg *m)
{
	struct target_req *r = msg_req(m);

	marks_clear(r->ns, r->queue->target, nvme_rw_slba(&r->sqe), written_nlb(r));
	r->cqe.status = NVME_SC_SUCCESS;
	group_tell(&r->queue->target->group, r->queue->group, m, told);
}

void marks_written(struct target_req *r)
{
	if (!atomic_load_explicit(&r->ns->marked, memory_order_acquire))
		req_complete(r, NVME_SC_SUCCESS);
	else
		group_tell(r->queue->group, &r->queue->target->group, &r->msg, heal);
}

static void mark(struct target_msg *m)
{
	struct target_req *r = msg_req(m);
	struct target *t = r->queue->target;
	int error = marks_set(r->ns, t, nvme_rw_slba(&r->sqe), nvme_rw_nlb(&r->sqe));

	r->cqe.status = errno_to_status(error, STORE_WRITE);
	group_tell(&t->group, r->queue->group, m, told);
}

void execute_write_uncorrectable(struct target_req *r)
{
	group_tell(r->queue->group, &r->queue->target->group, &r->msg, mark);
}
