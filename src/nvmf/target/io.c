/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * I/O commands of the NVM command set. NVM command set 1.0 section 3.
 *
 * A command that takes several store operations (Compare, Dataset Management) runs them one
 * after the other in run_steps(): a store may answer before submit returns, and a loop there
 * instead of recursion keeps the stack flat. What stores do so is counted, and where it is much
 * the command goes on in the group's next turn, when others have had theirs.
 */
#include <errno.h>

#include "nvmf/target/internal.h"

#define SQE_SLBA 40
#define SQE_NLB	 48

/* --- stores ----------------------------------------------------------------------------------- */

static struct target_req *op_req(struct store_op *op)
{
	return container_of(op, struct target_req, op);
}

static void op_done(struct store_op *op, int error)
{
	struct target_req *r = op_req(op);

	r->store_ns = 0;
	if (error && (op->opcode == STORE_FLUSH || op->flags & STORE_FUA))
		ns_flush_failed(r->ns, r->queue->group, error);
	if (!error && r->aborting && op->opcode == STORE_READ) {
		req_complete(r, r->aborting);
		return;
	}
	if (!error && op->opcode == STORE_WRITE)
		marks_written(r);
	else
		req_complete(r, req_store_status(r, error, op->opcode));
}

/* The blocks of a command, in bytes. */
static uint64_t rw_bytes(const struct target_req *r)
{
	return (uint64_t)nvme_rw_nlb(&r->sqe) << r->ns->lba_shift;
}

static uint32_t fua_flag(const struct target_req *r)
{
	const struct target_ctrl *c = r->queue->ctrl;

	/* With the write cache switched off every write is one that goes through. */
	return r->sqe.cdw12 & NVME_RW_FUA ||
			       (c && !atomic_load_explicit(&c->write_cache, memory_order_relaxed))
		       ? STORE_FUA
		       : 0;
}

static void make_op(struct target_req *r, enum store_opcode opcode, uint32_t flags)
{
	r->op_iov = (struct iovec){r->data, r->data_len};
	r->op = (struct store_op){
		.opcode = opcode,
		.flags = flags,
		.offset = nvme_rw_slba(&r->sqe) << r->ns->lba_shift,
		.len = rw_bytes(r),
		.iov = r->loan ? r->loan->iov : &r->op_iov,
		.iov_count = r->loan ? r->loan->count : 1,
		.loan = r->loan,
		.done = op_done,
	};
}

/* --- checks ----------------------------------------------------------------------------------- */

static uint16_t check_range(struct target_req *r, uint64_t slba, uint64_t nlb)
{
	if (slba > r->ns->nlb || nlb > r->ns->nlb - slba)
		return req_fail_at(r, SQE_SLBA, FAIL(NVME_SC_LBA_RANGE));
	return NVME_SC_SUCCESS;
}

static uint16_t check_rw(struct target_req *r)
{
	return check_range(r, nvme_rw_slba(&r->sqe), nvme_rw_nlb(&r->sqe));
}

static uint16_t check_writable(struct target_req *r)
{
	return ns_write_protected(r->ns) ? FAIL(NVME_SC_NS_WRITE_PROTECTED) : NVME_SC_SUCCESS;
}

/* Of the blocks that a command changes. */
static uint16_t check_changed(struct target_req *r)
{
	uint16_t status = check_rw(r);

	return status ? status : check_writable(r);
}

/* The data of Read, Write and Compare; no more of it than MDTS allows. */
static uint16_t expect_blocks(struct target_req *r)
{
	uint64_t len = rw_bytes(r);

	if (len > data_max(r->queue))
		return req_fail_at(r, SQE_NLB, FAIL(NVME_SC_INVALID_FIELD));
	return req_expects(r, (uint32_t)len);
}

/* --- Read, Write, Flush ----------------------------------------------------------------------- */

static void wrote(struct target_req *r)
{
	struct target_ctrl *c = r->queue->ctrl;
	uint32_t i = (r->ns->nsid - 1) / 32, bit = 1u << (r->ns->nsid - 1) % 32;

	if (c && !(atomic_load_explicit(&c->written_ns[i], memory_order_relaxed) & bit))
		atomic_fetch_or_explicit(&c->written_ns[i], bit, memory_order_relaxed);
}

static void count_io(struct target_req *r, bool write)
{
	struct target_counts *n = &r->queue->counts;

	count_add(write ? &n->writes : &n->reads, 1);
	count_add(write ? &n->sectors_written : &n->sectors_read, r->data_len >> 9);
}

static void committed(struct store_op *op, int error)
{
	struct target_req *r = op_req(op);

	r->store_ns = 0;
	if (error)
		op_done(op, error);
	else if (r->aborting)
		req_complete(r, r->aborting);
	else
		r->execute(r);
}

static void execute_read(struct target_req *r);
static void execute_compare(struct target_req *r);
static void execute_verify(struct target_req *r);

/* Force Unit Access of commands that read: first the cache is committed, then they are executed. */
static void execute_commit(struct target_req *r)
{
	r->execute = r->sqe.opcode == NVME_IO_READ     ? execute_read
		     : r->sqe.opcode == NVME_IO_VERIFY ? execute_verify
						       : execute_compare;
	r->op = (struct store_op){.opcode = STORE_FLUSH, .done = committed};
	req_submit(r);
}

static bool commits_first(const struct target_req *r)
{
	return r->sqe.cdw12 & NVME_RW_FUA && r->ns->store->volatile_cache && !r->ns->read_only;
}

static void submit_read(struct target_req *r)
{
	make_op(r, STORE_READ, 0);
	if (r->data_len >= STORE_LOAN_MIN && r->queue->ops->sends_pieces && !r->zero_len)
		r->loan = store_lend(req_store(r), &r->op, r->data);
	if (r->loan)
		req_complete(r, NVME_SC_SUCCESS);
	else
		req_submit(r);
}

static void execute_read(struct target_req *r)
{
	count_io(r, false);
	marks_ask(r, submit_read);
}

uint16_t parse_read(struct target_req *r)
{
	uint16_t status = check_rw(r);

	r->execute = commits_first(r) ? execute_commit : execute_read;
	return status ? status : expect_blocks(r);
}

static void execute_write(struct target_req *r)
{
	count_io(r, true);
	wrote(r);
	make_op(r, STORE_WRITE, fua_flag(r));
	req_submit(r);
}

void target_req_lend(struct target_req *r)
{
	if (r->execute != execute_write)
		return;
	make_op(r, STORE_WRITE, 0);
	r->loan = store_lend(req_store(r), &r->op, r->data);
}

uint16_t parse_write(struct target_req *r)
{
	uint16_t status = check_changed(r);

	r->execute = execute_write;
	return status ? status : expect_blocks(r);
}

/*
 * A store says once that what was written has not got to the disk, to whoever asks first: be it a
 * flush beside this one, another controller's since, or a command with Force Unit Access.
 */
static bool missed_failure(const struct target_req *r, uint32_t last)
{
	const struct target_ctrl *c = r->queue->ctrl;

	return c &&
	       (last != r->failure_before ||
		last > max_of(c->failures_before, atomic_load(&c->failure_told[r->ns->nsid - 1])));
}

static void flushed(struct store_op *op, int error)
{
	struct target_req *r = op_req(op);
	struct target_ctrl *c = r->queue->ctrl;
	uint16_t status;
	uint32_t last;

	r->store_ns = 0;
	if (error)
		ns_flush_failed(r->ns, r->queue->group, error);
	last = atomic_load(&r->ns->flush_failure);
	status = !error && missed_failure(r, last) ? FAIL(NVME_SC_WRITE_FAULT)
						   : req_store_status(r, error, STORE_FLUSH);
	if (c && status & NVME_STATUS_DNR)
		atomic_store(&c->failure_told[r->ns->nsid - 1], last);
	req_complete(r, status);
}

static void execute_flush(struct target_req *r)
{
	if (r->ns->read_only || !r->ns->store->volatile_cache) {
		req_complete(r, NVME_SC_SUCCESS);
		return;
	}
	r->failure_before = atomic_load(&r->ns->flush_failure);
	r->op = (struct store_op){.opcode = STORE_FLUSH, .done = flushed};
	req_submit(r);
}

uint16_t parse_flush(struct target_req *r)
{
	r->execute = execute_flush;
	return NVME_SC_SUCCESS;
}

uint16_t parse_write_uncorrectable(struct target_req *r)
{
	uint16_t status = check_changed(r);

	r->execute = execute_write_uncorrectable;
	return status;
}

/* --- commands in steps ------------------------------------------------------------------------ */

/*
 * The steps that are left end with the connection: the host has given the command up, and may
 * have new data in its blocks by now through another one. Just so they end when it is aborted.
 *
 * Prepares the operation of r->step, or returns false if that step needs none. A step's verdict
 * on what the last operation brought goes to *status.
 */
typedef bool next_step_fn(struct target_req *r, uint16_t *status);

/* The least that an operation counts for. */
#define STEP_COST 4096u

/* Of an operation that was done before submit returned. None counts for more than a turn: what a
 * store does in a moment it says itself, be it much that was not there. */
static void spend(struct target_group *g, const struct store_op *op)
{
	uint64_t cost = min_of(op->len, (uint64_t)TARGET_TURN_MAX);

	g->spent += max_of(cost, (uint64_t)STEP_COST);
}

static void go_on_later(struct target_req *r)
{
	list_push_tail(&r->queue->group->later, &r->later);
}

static void run_steps(struct target_req *r)
{
	struct target_group *g = r->queue->group;
	uint16_t status = NVME_SC_SUCCESS;

	while (r->step <= r->steps) {
		bool operation;

		if (r->step < r->steps && g->spent >= TARGET_TURN_MAX) {
			go_on_later(r);
			return;
		}
		operation = r->next(r, &status);
		if (!status && r->step < r->steps && r->queue->disconnected)
			status = NVME_SC_ABORT_QUEUE;
		else if (!status && r->step < r->steps && r->aborting)
			status = r->aborting;
		if (status) {
			req_complete(r, status);
			return;
		}
		r->step += r->part == 0;
		if (!operation)
			continue;
		r->again = false;
		r->submitting = true;
		req_submit(r);
		r->submitting = false;
		if (!r->again)
			return; /* comes back later */
		spend(g, &r->op);
	}
	if (r->op.opcode == STORE_WRITE || r->op.opcode == STORE_ZERO)
		marks_written(r);
	else
		req_complete(r, status);
}

static void begin_steps(struct target_req *r, next_step_fn *next)
{
	r->next = next;
	r->op = (struct store_op){0};
	run_steps(r);
}

static void step_done(struct store_op *op, int error)
{
	struct target_req *r = op_req(op);

	r->store_ns = 0; /* the admin plane may have it next, for as long as that takes */
	if (error && op->flags & STORE_FUA)
		ns_flush_failed(r->ns, r->queue->group, error);
	/* Deallocation is a hint: a store that cannot has taken note of it. */
	op->result = error == -EOPNOTSUPP && op->opcode == STORE_DISCARD ? 0 : error;
	if (r->submitting)
		r->again = true; /* the loop goes on */
	else
		run_steps(r);
}

bool steps_go_on(struct target_group *g)
{
	bool any = !list_empty(&g->later);
	struct list *l;

	g->spent = 0;
	while (g->spent < TARGET_TURN_MAX && (l = list_pop_head(&g->later)))
		run_steps(list_entry(l, struct target_req, later));
	return any;
}

/* What the step's range of blocks has left, as much as the store does in a moment. */
static bool range_step(struct target_req *r, enum store_opcode opcode, uint32_t flags,
		       uint64_t slba, uint64_t nlb)
{
	uint64_t at = (slba << r->ns->lba_shift) + r->part;
	uint64_t left = (nlb << r->ns->lba_shift) - r->part;
	uint64_t len = left ? store_moment(req_store(r), at, left) : 0;

	r->op = (struct store_op){
		.opcode = opcode, .flags = flags, .offset = at, .len = len, .done = step_done};
	r->part = len < left ? r->part + len : 0;
	return left != 0;
}

static bool zero_step(struct target_req *r, uint16_t *status)
{
	uint32_t unmap = r->sqe.cdw12 & NVME_WZ_DEAC ? STORE_UNMAP : 0;

	*status = req_store_status(r, r->op.result, STORE_ZERO);
	if (*status || r->step == r->steps)
		return false;
	return range_step(r, STORE_ZERO, fua_flag(r) | unmap, nvme_rw_slba(&r->sqe),
			  nvme_rw_nlb(&r->sqe));
}

static void execute_write_zeroes(struct target_req *r)
{
	wrote(r);
	r->steps = 1;
	begin_steps(r, zero_step);
}

uint16_t parse_write_zeroes(struct target_req *r)
{
	uint16_t status = check_changed(r);

	r->execute = execute_write_zeroes;
	return status;
}

/*
 * Compare and Verify: the store's data comes into the scratch memory, a stretch at a time. The one
 * looks at it beside the host's, to the other it is enough that it comes.
 */
static bool compare_step(struct target_req *r, uint16_t *status)
{
	uint64_t base = nvme_rw_slba(&r->sqe) << r->ns->lba_shift, len = rw_bytes(r);
	uint64_t at = (uint64_t)r->step * TARGET_SCRATCH_MAX;

	if (r->step) {
		uint64_t last = at - TARGET_SCRATCH_MAX;

		if (r->op.result)
			*status = req_store_status(r, r->op.result, STORE_READ);
		else if (r->data_len &&
			 memcmp((const uint8_t *)r->data + last, r->scratch, r->op.len) != 0)
			*status = FAIL(NVME_SC_COMPARE_FAILED);
	}
	if (*status || r->step == r->steps)
		return false;
	r->op_iov = (struct iovec){r->scratch, min_of(len - at, (uint64_t)TARGET_SCRATCH_MAX)};
	r->op = (struct store_op){
		.opcode = STORE_READ,
		.offset = base + at,
		.len = r->op_iov.iov_len,
		.iov = &r->op_iov,
		.iov_count = 1,
		.done = step_done,
	};
	return true;
}

static void run_compare(struct target_req *r)
{
	r->steps = (uint32_t)((rw_bytes(r) + TARGET_SCRATCH_MAX - 1) / TARGET_SCRATCH_MAX);
	begin_steps(r, compare_step);
}

static void execute_compare(struct target_req *r)
{
	count_io(r, false);
	marks_ask(r, run_compare);
}

uint16_t parse_compare(struct target_req *r)
{
	uint16_t status = check_rw(r);

	if (!status)
		status = expect_blocks(r);
	r->scratch_len = min_of(r->data_len, TARGET_SCRATCH_MAX);
	r->execute = commits_first(r) ? execute_commit : execute_compare;
	return status;
}

/* What was read, but no command that reads: NVM command set 1.0 tells the two apart. */
static void execute_verify(struct target_req *r)
{
	count_add(&r->queue->counts.sectors_read, rw_bytes(r) >> 9);
	marks_ask(r, run_compare);
}

uint16_t parse_verify(struct target_req *r)
{
	uint16_t status = check_rw(r);

	r->scratch_len = (uint32_t)min_of(rw_bytes(r), (uint64_t)TARGET_SCRATCH_MAX);
	r->execute = commits_first(r) ? execute_commit : execute_verify;
	return status;
}

/* Dataset Management: of its hints only "deallocate" does something. */
static struct nvme_dsm_range dsm_range(const struct target_req *r, uint32_t i)
{
	struct cursor c =
		cursor_init((const uint8_t *)r->data + i * NVME_DSM_RANGE_LEN, NVME_DSM_RANGE_LEN);
	struct nvme_dsm_range range;

	nvme_dsm_range_get(&c, &range);
	return range;
}

static bool dsm_step(struct target_req *r, uint16_t *status)
{
	struct nvme_dsm_range range;

	*status = req_store_status(r, r->op.result, STORE_DISCARD);
	if (*status || r->step == r->steps)
		return false;
	range = dsm_range(r, r->step);
	return range_step(r, STORE_DISCARD, 0, range.slba, range.nlb);
}

static void execute_dsm(struct target_req *r)
{
	r->steps = NVME_DSM_NR(r->sqe.cdw10);
	for (uint32_t i = 0; i < r->steps; i++) {
		struct nvme_dsm_range range = dsm_range(r, i);
		uint16_t status = check_range(r, range.slba, range.nlb);

		if (status) {
			req_complete(r, status);
			return;
		}
	}
	if (r->sqe.cdw11 & NVME_DSM_AD) {
		wrote(r);
		begin_steps(r, dsm_step);
	} else {
		req_complete(r, NVME_SC_SUCCESS);
	}
}

uint16_t parse_dsm(struct target_req *r)
{
	uint32_t need = NVME_DSM_NR(r->sqe.cdw10) * NVME_DSM_RANGE_LEN;
	uint16_t status = r->sqe.cdw11 & NVME_DSM_AD ? check_writable(r) : NVME_SC_SUCCESS;

	if (status)
		return status;
	status = req_sgl(r);
	if (status)
		return status;
	/* Hosts send whole pages of ranges and count only the first. */
	if (r->sgl_len < need || r->sgl_len > NVME_DSM_RANGES * NVME_DSM_RANGE_LEN)
		return req_fail_at(r, 32, FAIL(NVME_SC_SGL_INVALID_DATA));
	r->execute = execute_dsm;
	return req_expects(r, (uint32_t)r->sgl_len);
}

/*
 * Copy: all that is copied is read into the scratch memory first, so that it does not matter
 * whether the ranges overlap, and what cannot be read changes nothing. It is then written at once.
 */
/* Each range in turn, and then the write; op_iov is where the last one went. */
static bool copy_step(struct target_req *r, uint16_t *status)
{
	uint8_t *at = r->scratch;
	bool write = r->step == r->steps - 1;

	if (r->step) {
		*status = req_store_status(r, r->op.result, r->op.opcode);
		at = (uint8_t *)r->op_iov.iov_base + r->op_iov.iov_len;
	}
	if (*status || r->step == r->steps)
		return false;
	r->op = (struct store_op){.opcode = write ? STORE_WRITE : STORE_READ,
				  .flags = write ? fua_flag(r) : 0,
				  .iov = &r->op_iov,
				  .iov_count = 1,
				  .done = step_done};
	if (write) {
		wrote(r);
		r->op_iov = (struct iovec){r->scratch, (size_t)(at - (uint8_t *)r->scratch)};
		r->op.offset = nvme_rw_slba(&r->sqe) << r->ns->lba_shift;
	} else {
		struct nvme_copy_range range = req_copy_range(r, r->step);

		r->op_iov = (struct iovec){at, (range.nlb + 1u) << r->ns->lba_shift};
		r->op.offset = range.slba << r->ns->lba_shift;
	}
	r->op.len = r->op_iov.iov_len;
	return true;
}

static void run_copy(struct target_req *r)
{
	begin_steps(r, copy_step);
}

static uint16_t check_copy(struct target_req *r)
{
	uint64_t total = 0;

	for (uint32_t i = 0; i < r->steps - 1; i++) {
		struct nvme_copy_range range = req_copy_range(r, i);
		uint16_t status = check_range(r, range.slba, range.nlb + 1u);

		if (status)
			return status;
		total += range.nlb + 1u;
	}
	if (total << r->ns->lba_shift > TARGET_SCRATCH_MAX)
		return FAIL(NVME_SC_IO_CMD_SIZE);
	return check_range(r, nvme_rw_slba(&r->sqe), total);
}

static void execute_copy(struct target_req *r)
{
	uint16_t status;

	r->steps = NVME_COPY_NR(r->sqe.cdw12) + 1;
	status = check_copy(r);
	if (status) {
		req_complete(r, status);
		return;
	}
	count_add(&r->queue->counts.reads, 1);
	marks_ask(r, run_copy);
}

uint16_t parse_copy(struct target_req *r)
{
	uint32_t ranges = NVME_COPY_NR(r->sqe.cdw12), need = ranges * NVME_COPY_RANGE_LEN;
	uint16_t status = check_writable(r);

	if (status)
		return status;
	if (NVME_COPY_FORMAT(r->sqe.cdw12) != 0)
		return req_fail_at(r, SQE_NLB, FAIL(NVME_SC_INVALID_FIELD));
	if (ranges > TARGET_COPY_RANGES)
		return req_fail_at(r, SQE_NLB, FAIL(NVME_SC_IO_CMD_SIZE));
	status = req_sgl(r);
	if (status)
		return status;
	if (r->sgl_len < need || r->sgl_len > TARGET_COPY_RANGES * NVME_COPY_RANGE_LEN)
		return req_fail_at(r, 32, FAIL(NVME_SC_SGL_INVALID_DATA));
	r->scratch_len = TARGET_SCRATCH_MAX;
	r->execute = execute_copy;
	return req_expects(r, (uint32_t)r->sgl_len);
}
