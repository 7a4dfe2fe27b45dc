/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Regions that change, windows of type 1, windows on UC, null regions, on-demand memory. */
#include "rnic_bed.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define LEN 3000u /* three packets */

enum {
	LOCAL = RNIC_ACCESS_LOCAL_WRITE,
	WRITE = RNIC_ACCESS_REMOTE_WRITE,
	READ = RNIC_ACCESS_REMOTE_READ,
};

static int write_with(struct bed *b, uint64_t wr_id, uint32_t rkey, uint64_t va, uint32_t len)
{
	struct rnic_sge sge = bed_sge(b, 0, 0, len);
	struct rnic_send_wr wr = {
		.wr_id = wr_id,
		.sge = &sge,
		.num_sge = 1,
		.opcode = RNIC_WR_RDMA_WRITE,
		.remote_addr = va,
		.rkey = rkey,
	};

	return rnic_post_send(b->side[0].qp, &wr, b->now);
}

/* ---- rereg ----------------------------------------------------------------------------------- */

static struct rnic_mr *mr_of(struct bed *b, int side, uint32_t off, uint32_t len, uint32_t access)
{
	struct bed_side *s = &b->side[side];
	struct rnic_mr *mr;

	assert_int_equal(rnic_mr_create(s->pd, s->mem + off, len, bed_remote_addr(b, side, off),
					access, &mr),
			 0);
	return mr;
}

static void a_region_moves_while_packets_for_it_are_on_the_way(void **state)
{
	struct bed *b = bed_open(NULL);
	struct rnic_mr *mr = mr_of(b, 1, 0, LEN, LOCAL | WRITE);
	uint32_t rkey = rnic_mr_rkey(mr);
	struct rnic_mr_attr a;

	(void)state;
	bed_fill(b, 0, 0, LEN, 1);
	assert_int_equal(write_with(b, 1, rkey, bed_remote_addr(b, 1, 0), LEN), 0);
	bed_deliver(b, bed_tx1(b, 0));
	/* Elsewhere, at the same addresses as before: the rest of the message goes there. */
	rnic_mr_query(mr, &a);
	assert_ptr_equal(a.addr, b->side[1].mem);
	assert_int_equal(a.access, LOCAL | WRITE);
	a.addr = b->side[1].mem + 50000;
	assert_int_equal(rnic_mr_rereg(mr, &a), 0);
	assert_int_equal(rnic_mr_rkey(mr), rkey);
	bed_run(b);
	bed_expect(b, 0, false, 1, RNIC_WC_SUCCESS);
	assert_memory_equal(b->side[1].mem, b->side[0].mem, 1024);
	assert_int_equal(b->side[1].mem[1024], 0);
	assert_memory_equal(b->side[1].mem + 51024, b->side[0].mem + 1024, LEN - 1024);
	assert_int_equal(rnic_mr_destroy(mr), 0);
	bed_close(b);
}

static void what_a_region_does_not_allow_any_more_is_refused_in_the_middle(void **state)
{
	struct bed *b = bed_open(NULL);
	struct rnic_mr *mr = mr_of(b, 1, 0, LEN, LOCAL | WRITE);
	struct rnic_mr_attr a;

	(void)state;
	assert_int_equal(write_with(b, 1, rnic_mr_rkey(mr), bed_remote_addr(b, 1, 0), LEN), 0);
	bed_deliver(b, bed_tx1(b, 0));
	rnic_mr_query(mr, &a);
	a.access = LOCAL | READ;
	assert_int_equal(rnic_mr_rereg(mr, &a), 0);
	bed_run(b);
	bed_expect(b, 0, false, 1, RNIC_WC_REM_ACCESS_ERR);
	assert_int_equal(rnic_mr_destroy(mr), 0);
	bed_close(b);
}

static void a_region_changes_its_domain_and_is_the_new_ones(void **state)
{
	struct bed *b = bed_open(NULL);
	struct rnic_pd *pd, *old = b->side[1].pd;
	struct rnic_mr *mr = mr_of(b, 1, 0, LEN, LOCAL | WRITE);
	struct rnic_mr_attr a;

	(void)state;
	assert_int_equal(rnic_pd_create(b->side[1].rnic, &pd), 0);
	rnic_mr_query(mr, &a);
	a.pd = pd;
	assert_int_equal(rnic_mr_rereg(mr, &a), 0);
	assert_int_equal(rnic_pd_destroy(pd), -EBUSY);
	assert_int_equal(write_with(b, 1, rnic_mr_rkey(mr), bed_remote_addr(b, 1, 0), 8), 0);
	bed_run(b);
	bed_expect(b, 0, false, 1, RNIC_WC_REM_ACCESS_ERR);
	a.pd = old;
	assert_int_equal(rnic_mr_rereg(mr, &a), 0);
	assert_int_equal(rnic_pd_destroy(pd), 0);
	assert_int_equal(rnic_mr_destroy(mr), 0);
	bed_close(b);
}

static void a_refused_change_changes_nothing(void **state)
{
	struct bed *b = bed_open(NULL);
	struct rnic_mr *mr = mr_of(b, 1, 0, LEN, LOCAL | WRITE), *null;
	struct rnic_mr_attr before, a, after;

	(void)state;
	rnic_mr_query(mr, &before);
	a = before;
	a.access = WRITE;
	assert_int_equal(rnic_mr_rereg(mr, &a), -EINVAL);
	a = before;
	a.length = SIZE_MAX;
	assert_int_equal(rnic_mr_rereg(mr, &a), -EINVAL);
	a = before;
	a.pd = b->side[0].pd; /* another device */
	assert_int_equal(rnic_mr_rereg(mr, &a), -EINVAL);
	rnic_mr_query(mr, &after);
	assert_true(after.pd == before.pd && after.addr == before.addr &&
		    after.length == before.length && after.iova == before.iova &&
		    after.access == before.access);
	assert_int_equal(rnic_mr_create_null(b->side[1].pd, RNIC_ACCESS_LOCAL_WRITE, &null), 0);
	assert_int_equal(rnic_mr_rereg(null, &before), -EINVAL);
	assert_int_equal(rnic_mr_destroy(null), 0);
	assert_int_equal(rnic_mr_destroy(mr), 0);
	bed_close(b);
}

/* ---- windows of type 1 ----------------------------------------------------------------------- */

static int bind(struct bed *b, struct rnic_mw *mw, struct rnic_mr *mr, uint32_t off, uint32_t len,
		uint32_t access)
{
	struct rnic_send_wr wr = {.wr_id = 50, .opcode = RNIC_WR_BIND_MW};
	uint32_t key = rnic_mw_rkey(mw);

	wr.bind.mw = mw;
	wr.bind.mr = mr;
	wr.bind.rkey = (key & ~0xffu) | ((key + 1) & 0xff);
	wr.bind.addr = mr ? bed_remote_addr(b, 1, off) : 0;
	wr.bind.length = len;
	wr.bind.access = access;
	return rnic_post_send(b->side[1].qp, &wr, b->now);
}

static void bound(struct bed *b, struct rnic_mw *mw, uint32_t off, uint32_t len, uint32_t access)
{
	assert_int_equal(bind(b, mw, b->side[1].mr, off, len, access), 0);
	bed_run(b);
	bed_expect(b, 1, false, 50, RNIC_WC_SUCCESS);
}

static struct rnic_mw *window1(struct bed *b)
{
	struct rnic_mw *mw;

	assert_int_equal(rnic_mw_create(b->side[1].pd, RNIC_MW_TYPE_1, &mw), 0);
	return mw;
}

static void a_window_of_type_1_is_bound_again_and_again(void **state)
{
	struct bed *b = bed_open(NULL);
	struct rnic_mw *mw = window1(b);
	uint32_t first = rnic_mw_rkey(mw);

	(void)state;
	bed_fill(b, 0, 0, 100, 3);
	for (uint32_t i = 1; i <= 300; i++) { /* its low byte comes round */
		bound(b, mw, i * 100, 100, WRITE);
		assert_int_equal(rnic_mw_rkey(mw), (first & ~0xffu) | ((first + i) & 0xff));
	}
	assert_int_equal(write_with(b, 1, rnic_mw_rkey(mw), bed_remote_addr(b, 1, 30000), 100), 0);
	bed_run(b);
	bed_expect(b, 0, false, 1, RNIC_WC_SUCCESS);
	assert_memory_equal(b->side[1].mem + 30000, b->side[0].mem, 100);
	assert_int_equal(rnic_mr_destroy(b->side[1].mr), -EBUSY);
	/* Where it was bound before it is not any more. */
	assert_int_equal(write_with(b, 2, rnic_mw_rkey(mw), bed_remote_addr(b, 1, 29900), 100), 0);
	bed_run(b);
	bed_expect(b, 0, false, 2, RNIC_WC_REM_ACCESS_ERR);
	assert_int_equal(rnic_mw_destroy(mw), 0);
	bed_close(b);
}

static void a_new_binding_makes_the_old_key_stale(void **state)
{
	struct bed *b = bed_open(NULL);
	struct rnic_mw *mw = window1(b);
	uint32_t old;

	(void)state;
	bound(b, mw, 0, 100, WRITE);
	old = rnic_mw_rkey(mw);
	bound(b, mw, 0, 100, WRITE);
	assert_int_equal(write_with(b, 1, old, bed_remote_addr(b, 1, 0), 8), 0);
	bed_run(b);
	bed_expect(b, 0, false, 1, RNIC_WC_REM_ACCESS_ERR);
	assert_int_equal(rnic_mw_destroy(mw), 0);
	bed_close(b);
}

static void a_binding_of_no_length_closes_a_window_of_type_1(void **state)
{
	(void)state;
	for (int with_mr = 0; with_mr < 2; with_mr++) {
		struct bed *b = bed_open(NULL);
		struct rnic_mw *mw = window1(b);

		bound(b, mw, 0, 100, WRITE);
		assert_int_equal(bind(b, mw, with_mr ? b->side[1].mr : NULL, 0, 0, 0), 0);
		bed_run(b);
		bed_expect(b, 1, false, 50, RNIC_WC_SUCCESS);
		assert_int_equal(write_with(b, 1, rnic_mw_rkey(mw), bed_remote_addr(b, 1, 0), 8),
				 0);
		bed_run(b);
		bed_expect(b, 0, false, 1, RNIC_WC_REM_ACCESS_ERR);
		assert_int_equal(rnic_mr_destroy(b->side[1].mr), 0); /* nothing is bound to it */
		b->side[1].mr = NULL;
		assert_int_equal(rnic_mw_destroy(mw), 0);
		bed_close(b);
	}
}

static void a_window_of_type_1_is_its_domains_and_outlives_the_qp(void **state)
{
	struct bed *b = bed_open(NULL);
	struct rnic_mw *mw = window1(b);
	struct rnic_qp *old[2];

	(void)state;
	bed_fill(b, 0, 0, 100, 3);
	bound(b, mw, 1000, 100, WRITE);
	bed_second_pair(b, old);
	for (int i = 0; i < 2; i++)
		assert_int_equal(rnic_qp_destroy(old[i]), 0);
	assert_int_equal(write_with(b, 1, rnic_mw_rkey(mw), bed_remote_addr(b, 1, 1000), 100), 0);
	bed_run(b);
	bed_expect(b, 0, false, 1, RNIC_WC_SUCCESS);
	assert_memory_equal(b->side[1].mem + 1000, b->side[0].mem, 100);
	assert_int_equal(rnic_mw_destroy(mw), 0);
	bed_close(b);
}

static void a_window_of_type_1_cannot_be_invalidated(void **state)
{
	struct bed *b = bed_open(NULL);
	struct rnic_mw *mw = window1(b);
	struct rnic_send_wr wr = {.wr_id = 1, .opcode = RNIC_WR_SEND_WITH_INV};
	struct rnic_send_wr inv = {.wr_id = 60, .opcode = RNIC_WR_LOCAL_INV};

	(void)state;
	bound(b, mw, 0, 100, WRITE);
	wr.imm_or_rkey = inv.imm_or_rkey = rnic_mw_rkey(mw);
	assert_int_equal(rnic_post_send(b->side[1].qp, &inv, b->now), 0);
	bed_run(b);
	bed_expect(b, 1, false, 60, RNIC_WC_MW_BIND_ERR);
	for (int i = 0; i < 2; i++)
		assert_int_equal(bed_modify(b, i, RNIC_QPS_RESET), 0);
	bed_connect(b);
	assert_int_equal(bed_recv(b, 1, 9, 0, 8), 0);
	assert_int_equal(rnic_post_send(b->side[0].qp, &wr, b->now), 0);
	bed_run(b);
	bed_expect(b, 0, false, 1, RNIC_WC_REM_ACCESS_ERR);
	bed_expect(b, 1, true, 9, RNIC_WC_REM_INV_REQ_ERR);
	assert_int_equal(rnic_mw_destroy(mw), 0);
	bed_close(b);
}

static void a_bad_binding_leaves_a_window_of_type_1_as_it_was(void **state)
{
	struct bed *b = bed_open(NULL);
	struct rnic_mw *mw = window1(b);
	struct rnic_mr *plain = mr_of(b, 1, 0, LEN, LOCAL), *null, *gone;
	uint32_t rkey;

	(void)state;
	assert_int_equal(rnic_mr_create_null(b->side[1].pd, RNIC_ACCESS_LOCAL_WRITE, &null), 0);
	gone = mr_of(b, 1, 0, LEN, LOCAL | RNIC_ACCESS_MW_BIND);
	bound(b, mw, 0, 100, WRITE);
	rkey = rnic_mw_rkey(mw);
	for (int i = 0; i < 5; i++) {
		struct rnic_mr *mr = b->side[1].mr;
		uint32_t off = 0, access = WRITE;

		if (i == 0)
			mr = plain; /* not to be bound to */
		else if (i == 1)
			mr = null;
		else if (i == 2)
			mr = gone; /* by the time it is executed */
		else if (i == 3)
			off = BED_MEM - 50; /* out of range */
		else
			access |= RNIC_ACCESS_ZERO_BASED;
		assert_int_equal(bind(b, mw, mr, off, 100, access), 0);
		if (i == 2)
			assert_int_equal(rnic_mr_destroy(gone), 0);
		bed_run(b);
		bed_expect(b, 1, false, 50, RNIC_WC_MW_BIND_ERR);
		assert_int_equal(rnic_mw_rkey(mw), rkey);
		for (int j = 0; j < 2; j++)
			assert_int_equal(bed_modify(b, j, RNIC_QPS_RESET), 0);
		bed_connect(b);
	}
	assert_int_equal(write_with(b, 1, rkey, bed_remote_addr(b, 1, 0), 100), 0);
	bed_run(b);
	bed_expect(b, 0, false, 1, RNIC_WC_SUCCESS);
	assert_int_equal(rnic_mw_destroy(mw), 0);
	assert_int_equal(rnic_mr_destroy(plain), 0);
	assert_int_equal(rnic_mr_destroy(null), 0);
	bed_close(b);
}

static void a_region_with_windows_stays_as_it_is(void **state)
{
	struct bed *b = bed_open(NULL);
	struct rnic_mw *mw = window1(b);
	struct rnic_mr_attr a;

	(void)state;
	bound(b, mw, 0, 100, WRITE);
	rnic_mr_query(b->side[1].mr, &a);
	assert_int_equal(rnic_mr_rereg(b->side[1].mr, &a), -EBUSY);
	assert_int_equal(rnic_mw_destroy(mw), 0);
	assert_int_equal(rnic_mr_rereg(b->side[1].mr, &a), 0);
	bed_close(b);
}

/* ---- windows on UC --------------------------------------------------------------------------- */

static void windows_open_and_close_on_uc(void **state)
{
	struct bed *b = bed_open(&(struct bed_opts){.type = RNIC_QPT_UC});
	struct rnic_send_wr inv = {.wr_id = 60, .opcode = RNIC_WR_LOCAL_INV};

	(void)state;
	for (int type = RNIC_MW_TYPE_1; type <= RNIC_MW_TYPE_2; type++) {
		uint32_t off = 1000u * (uint32_t)type;
		struct rnic_mw *mw;

		assert_int_equal(rnic_mw_create(b->side[1].pd, (enum rnic_mw_type)type, &mw), 0);
		bound(b, mw, off, LEN, WRITE);
		bed_fill(b, 0, 0, LEN, (uint8_t)type);
		assert_int_equal(
			write_with(b, 1, rnic_mw_rkey(mw), bed_remote_addr(b, 1, off), LEN), 0);
		bed_run(b);
		bed_expect(b, 0, false, 1, RNIC_WC_SUCCESS);
		assert_memory_equal(b->side[1].mem + off, b->side[0].mem, LEN);
		inv.imm_or_rkey = rnic_mw_rkey(mw);
		if (type == RNIC_MW_TYPE_1)
			assert_int_equal(bind(b, mw, NULL, 0, 0, 0), 0);
		else
			assert_int_equal(rnic_post_send(b->side[1].qp, &inv, b->now), 0);
		bed_run(b);
		assert_int_equal(bed_wc(b, 1, false).status, RNIC_WC_SUCCESS);
		/* Nobody is told that it is closed, but nothing comes through. */
		bed_fill(b, 0, 0, LEN, 77);
		assert_int_equal(
			write_with(b, 2, rnic_mw_rkey(mw), bed_remote_addr(b, 1, off), LEN), 0);
		bed_run(b);
		bed_expect(b, 0, false, 2, RNIC_WC_SUCCESS);
		assert_memory_not_equal(b->side[1].mem + off, b->side[0].mem, 100);
		assert_int_equal(rnic_mw_destroy(mw), 0);
	}
	bed_close(b);
}

static void a_bad_binding_on_uc_stops_the_send_queue(void **state)
{
	struct bed *b = bed_open(&(struct bed_opts){.type = RNIC_QPT_UC});
	struct rnic_send_wr inv = {.wr_id = 60, .opcode = RNIC_WR_LOCAL_INV};
	struct rnic_send_wr with_inv = {.wr_id = 61, .opcode = RNIC_WR_SEND_WITH_INV};

	(void)state;
	/* There is no packet of UC that invalidates. */
	assert_int_equal(rnic_post_send(b->side[0].qp, &with_inv, b->now), -EINVAL);
	inv.imm_or_rkey = rnic_mr_rkey(b->side[0].mr);
	assert_int_equal(rnic_post_send(b->side[0].qp, &inv, b->now), 0);
	assert_int_equal(bed_send(b, 0, 62, 0, 8), 0);
	bed_run(b);
	bed_expect(b, 0, false, 60, RNIC_WC_MW_BIND_ERR);
	bed_expect(b, 0, false, 62, RNIC_WC_WR_FLUSH_ERR);
	assert_int_equal(bed_state(b, 0), RNIC_QPS_SQE);
	assert_int_equal(b->nlog, 0);
	bed_close(b);
}

static void uc_in_sqd_begins_no_binding(void **state)
{
	struct bed *b = bed_open(&(struct bed_opts){.type = RNIC_QPT_UC});
	struct rnic_mw *mw = window1(b);

	(void)state;
	assert_int_equal(bed_modify(b, 1, RNIC_QPS_SQD), 0);
	assert_int_equal(bind(b, mw, b->side[1].mr, 0, 100, WRITE), 0);
	bed_run(b);
	bed_expect_none(b, 1);
	assert_int_equal(bed_modify(b, 1, RNIC_QPS_RTS), 0);
	bed_run(b);
	bed_expect(b, 1, false, 50, RNIC_WC_SUCCESS);
	assert_int_equal(rnic_mw_destroy(mw), 0);
	bed_close(b);
}

/* ---- null regions ---------------------------------------------------------------------------- */

static void a_null_region_reads_as_zeros_and_keeps_nothing(void **state)
{
	static const uint8_t zeros[LEN];
	struct bed *b = bed_open(NULL);
	struct rnic_sge sge[2] = {bed_sge(b, 0, 0, 100), {12345, LEN - 100, 0}};
	struct rnic_send_wr wr = {.wr_id = 1, .sge = sge, .num_sge = 2, .opcode = RNIC_WR_SEND};
	struct rnic_mr *null[2];

	(void)state;
	for (int i = 0; i < 2; i++)
		assert_int_equal(
			rnic_mr_create_null(b->side[i].pd, RNIC_ACCESS_LOCAL_WRITE, &null[i]), 0);
	sge[1].lkey = rnic_mr_lkey(null[0]);
	bed_fill(b, 0, 0, LEN, 1);
	bed_fill(b, 1, 5000, LEN, 9);
	assert_int_equal(bed_recv(b, 1, 2, 5000, LEN), 0);
	assert_int_equal(rnic_post_send(b->side[0].qp, &wr, b->now), 0);
	bed_run(b);
	bed_expect(b, 0, false, 1, RNIC_WC_SUCCESS);
	bed_expect(b, 1, true, 2, RNIC_WC_SUCCESS);
	assert_memory_equal(b->side[1].mem + 5000, b->side[0].mem, 100);
	assert_memory_equal(b->side[1].mem + 5100, zeros, LEN - 100);
	/* Read into it, and send from it again: still zeros. */
	wr.opcode = RNIC_WR_RDMA_READ;
	wr.remote_addr = bed_remote_addr(b, 1, 5000);
	wr.rkey = rnic_mr_rkey(b->side[1].mr);
	bed_fill(b, 1, 5000, LEN, 33);
	assert_int_equal(rnic_post_send(b->side[0].qp, &wr, b->now), 0);
	wr.opcode = RNIC_WR_RDMA_WRITE;
	assert_int_equal(rnic_post_send(b->side[0].qp, &wr, b->now), 0);
	bed_run(b);
	bed_expect(b, 0, false, 1, RNIC_WC_SUCCESS);
	bed_expect(b, 0, false, 1, RNIC_WC_SUCCESS);
	assert_memory_equal(b->side[1].mem + 5100, zeros, LEN - 100);
	/* To a peer it is nothing. */
	assert_int_equal(write_with(b, 3, rnic_mr_rkey(null[1]), 0, 8), 0);
	bed_run(b);
	bed_expect(b, 0, false, 3, RNIC_WC_REM_ACCESS_ERR);
	for (int i = 0; i < 2; i++)
		assert_int_equal(rnic_mr_destroy(null[i]), 0);
	bed_close(b);
}

/* ---- queues in the caller's memory ------------------------------------------------------------
 */

static void queues_move_with_all_that_is_in_them(void **state)
{
	struct bed *b = bed_open(&(struct bed_opts){.srq = true});
	struct bed_side *s = &b->side[1];
	size_t sizes[3] = {rnic_qp_mem_size(s->qp), rnic_cq_mem_size(s->rcq),
			   rnic_srq_mem_size(s->srq)};
	void *mem[3];
	long before;

	(void)state;
	for (int i = 0; i < 3; i++)
		mem[i] = aligned_alloc(RNIC_MEM_ALIGN, (sizes[i] + 63) & ~(size_t)63);
	bed_fill(b, 0, 0, LEN, 1);
	bed_fill(b, 1, 0, LEN, 99);
	assert_int_equal(bed_recv(b, 1, 1, 10000, LEN), 0);
	assert_int_equal(bed_recv(b, 1, 2, 20000, LEN), 0);
	assert_int_equal(bed_send(b, 0, 1, 0, LEN), 0);
	assert_int_equal(bed_send(b, 1, 5, 0, LEN), 0);
	assert_int_equal(bed_recv(b, 0, 6, 10000, LEN), 0);
	for (int i = 0; i < 2; i++)
		bed_deliver(b, bed_tx1(b, i)); /* one message is half in, one half out */
	before = s->allocs;
	rnic_qp_use_mem(s->qp, mem[0]);
	rnic_cq_use_mem(s->rcq, mem[1]);
	rnic_srq_use_mem(s->srq, mem[2]);
	assert_int_equal(s->allocs, before - 4); /* two of the QP */
	bed_run(b);
	assert_int_equal(bed_send(b, 0, 2, 0, LEN), 0);
	bed_run(b);
	for (uint64_t id = 1; id <= 2; id++) {
		bed_expect(b, 0, false, id, RNIC_WC_SUCCESS);
		bed_expect(b, 1, true, id, RNIC_WC_SUCCESS);
		assert_memory_equal(s->mem + id * 10000, b->side[0].mem, LEN);
	}
	bed_expect(b, 1, false, 5, RNIC_WC_SUCCESS);
	bed_expect(b, 0, true, 6, RNIC_WC_SUCCESS);
	assert_memory_equal(b->side[0].mem + 10000, s->mem, LEN);
	/* Resized they are in memory of our own again. */
	assert_int_equal(rnic_cq_resize(s->rcq, 512), 0);
	assert_int_equal(rnic_srq_resize(s->srq, 128), 0);
	assert_int_equal(s->allocs, before - 2);
	memset(mem[1], 0xff, sizes[1]);
	memset(mem[2], 0xff, sizes[2]);
	assert_int_equal(bed_recv(b, 1, 3, 30000, LEN), 0);
	assert_int_equal(bed_send(b, 0, 3, 0, LEN), 0);
	bed_run(b);
	bed_expect(b, 1, true, 3, RNIC_WC_SUCCESS);
	bed_close(b);
	for (int i = 0; i < 3; i++)
		free(mem[i]);
}

/* ---- on-demand memory ------------------------------------------------------------------------ */

/* Both regions of the bed, on demand from now on. */
static struct bed *open_paged(const struct bed_opts *opts)
{
	struct bed *b = bed_open(opts);

	for (int i = 0; i < 2; i++) {
		struct rnic_mr_attr a;

		rnic_mr_query(b->side[i].mr, &a);
		a.access |= RNIC_ACCESS_ON_DEMAND;
		assert_int_equal(rnic_mr_rereg(b->side[i].mr, &a), 0);
	}
	return b;
}

static void on_demand_memory_is_brought_in_as_it_is_used(void **state)
{
	struct bed *b = open_paged(NULL);

	(void)state;
	bed_fill(b, 0, 0, LEN, 1);
	assert_int_equal(bed_rdma(b, 0, 1, RNIC_WR_RDMA_WRITE, 0, 0, LEN), 0);
	bed_deliver(b, bed_tx1(b, 0));
	assert_int_equal(b->side[0].paged_in, 1); /* what this packet takes, and no more */
	assert_int_equal(b->side[1].paged_in, 1);
	bed_run(b);
	assert_int_equal(b->side[0].paged_in, 3);
	assert_int_equal(b->side[1].paged_in, 3);
	assert_int_equal(bed_rdma(b, 0, 2, RNIC_WR_RDMA_READ, 8192, 0, LEN), 0);
	assert_int_equal(bed_atomic(b, 0, 3, RNIC_WR_ATOMIC_FETCH_AND_ADD, 20000, 20000, 1, 0), 0);
	bed_run(b);
	for (uint64_t id = 1; id <= 3; id++)
		bed_expect(b, 0, false, id, RNIC_WC_SUCCESS);
	assert_memory_equal(b->side[0].mem + 8192, b->side[0].mem, LEN);
	assert_int_equal(b->side[1].paged_in, 3 + 3 + 1);
	bed_close(b);
}

static void gone_on_demand_memory_is_an_error_of_whose_it_is(void **state)
{
	static const struct {
		uint32_t opcode;
		int side; /* whose memory is gone */
		bool read_only;
		enum rnic_wc_status send, recv; /* SUCCESS of a recv: there is none */
	} cases[] = {
		{RNIC_WR_SEND, 0, false, RNIC_WC_LOC_PROT_ERR, 0},
		{RNIC_WR_SEND, 1, false, RNIC_WC_REM_OP_ERR, RNIC_WC_LOC_PROT_ERR},
		{RNIC_WR_SEND, 1, true, RNIC_WC_REM_OP_ERR, RNIC_WC_LOC_PROT_ERR},
		{RNIC_WR_RDMA_WRITE, 1, false, RNIC_WC_REM_ACCESS_ERR, 0},
		{RNIC_WR_RDMA_WRITE, 1, true, RNIC_WC_REM_ACCESS_ERR, 0},
		{RNIC_WR_RDMA_READ, 0, true, RNIC_WC_LOC_PROT_ERR, 0},
		{RNIC_WR_RDMA_READ, 1, false, RNIC_WC_REM_ACCESS_ERR, 0},
		{RNIC_WR_ATOMIC_FETCH_AND_ADD, 1, true, RNIC_WC_REM_ACCESS_ERR, 0},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct bed *b = open_paged(NULL);
		struct bed_side *s = &b->side[cases[i].side];

		if (cases[i].read_only)
			s->read_only = s->mem + 2000;
		else
			s->gone = s->mem + 2000; /* in the second packet */
		if (cases[i].opcode == RNIC_WR_SEND) {
			assert_int_equal(bed_recv(b, 1, 9, 0, LEN), 0);
			assert_int_equal(bed_send(b, 0, 1, 0, LEN), 0);
		} else if (cases[i].opcode == RNIC_WR_ATOMIC_FETCH_AND_ADD) {
			assert_int_equal(bed_atomic(b, 0, 1, cases[i].opcode, 0, 2400, 1, 0), 0);
		} else {
			assert_int_equal(bed_rdma(b, 0, 1, cases[i].opcode, 0, 0, LEN), 0);
		}
		bed_run(b);
		bed_expect(b, 0, false, 1, cases[i].send);
		if (cases[i].recv)
			bed_expect(b, 1, true, 9, cases[i].recv);
		bed_close(b);
	}
}

static void a_window_on_on_demand_memory_is_on_demand(void **state)
{
	struct bed *b = open_paged(NULL);
	struct rnic_mw *mw = window1(b);

	(void)state;
	bound(b, mw, 0, 100, WRITE);
	b->side[1].gone = b->side[1].mem;
	assert_int_equal(write_with(b, 1, rnic_mw_rkey(mw), bed_remote_addr(b, 1, 0), 100), 0);
	bed_run(b);
	bed_expect(b, 0, false, 1, RNIC_WC_REM_ACCESS_ERR);
	assert_int_equal(rnic_mw_destroy(mw), 0);
	bed_close(b);
}

static void an_implicit_region_has_every_address(void **state)
{
	struct bed *b = bed_open(NULL);
	struct rnic_mr *all;
	struct rnic_sge sge = {bed_remote_addr(b, 0, 100), LEN, 0};
	struct rnic_send_wr wr = {.wr_id = 1, .sge = &sge, .num_sge = 1, .opcode = RNIC_WR_SEND};

	(void)state;
	assert_int_equal(
		rnic_mr_create(b->side[0].pd, NULL, SIZE_MAX, 0, RNIC_ACCESS_ON_DEMAND, &all), 0);
	sge.lkey = rnic_mr_lkey(all);
	bed_fill(b, 0, 100, LEN, 5);
	assert_int_equal(bed_recv(b, 1, 9, 0, LEN), 0);
	assert_int_equal(rnic_post_send(b->side[0].qp, &wr, b->now), 0);
	bed_run(b);
	bed_expect(b, 1, true, 9, RNIC_WC_SUCCESS);
	assert_memory_equal(b->side[1].mem, b->side[0].mem + 100, LEN);
	assert_int_equal(rnic_mr_destroy(all), 0);
	bed_close(b);
}

static void on_demand_memory_is_found_by_its_key(void **state)
{
	struct bed *b = open_paged(NULL);
	struct bed_side *s = &b->side[0];
	struct rnic_mr *plain = mr_of(b, 0, 0, LEN, LOCAL), *reads;
	uint64_t va = bed_remote_addr(b, 0, 0);
	uint32_t lkey = rnic_mr_lkey(s->mr);
	struct rnic_pd *pd;
	void *p;

	(void)state;
	reads = mr_of(b, 0, 0, LEN, RNIC_ACCESS_ON_DEMAND);
	assert_int_equal(rnic_pd_create(s->rnic, &pd), 0);
	assert_int_equal(rnic_mr_locate(s->pd, lkey, va + 7, 10, true, &p), 0);
	assert_ptr_equal(p, s->mem + 7);
	assert_int_equal(rnic_mr_locate(s->pd, lkey, va, BED_MEM + 1, false, &p), -EFAULT);
	assert_int_equal(rnic_mr_locate(s->pd, lkey, va - 1, 1, false, &p), -EFAULT);
	assert_int_equal(rnic_mr_locate(s->pd, lkey + 1, va, 1, false, &p), -ENOENT);
	assert_int_equal(rnic_mr_locate(s->pd, rnic_mr_lkey(plain), va, 1, false, &p), -ENOENT);
	assert_int_equal(rnic_mr_locate(pd, lkey, va, 1, false, &p), -EPERM);
	assert_int_equal(rnic_mr_locate(s->pd, rnic_mr_lkey(reads), va, 1, true, &p), -EPERM);
	assert_int_equal(rnic_mr_locate(s->pd, rnic_mr_lkey(reads), va, 1, false, &p), 0);
	assert_int_equal(rnic_pd_destroy(pd), 0);
	assert_int_equal(rnic_mr_destroy(plain), 0);
	assert_int_equal(rnic_mr_destroy(reads), 0);
	bed_close(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_region_moves_while_packets_for_it_are_on_the_way),
		cmocka_unit_test(what_a_region_does_not_allow_any_more_is_refused_in_the_middle),
		cmocka_unit_test(a_region_changes_its_domain_and_is_the_new_ones),
		cmocka_unit_test(a_refused_change_changes_nothing),
		cmocka_unit_test(a_window_of_type_1_is_bound_again_and_again),
		cmocka_unit_test(a_new_binding_makes_the_old_key_stale),
		cmocka_unit_test(a_binding_of_no_length_closes_a_window_of_type_1),
		cmocka_unit_test(a_window_of_type_1_is_its_domains_and_outlives_the_qp),
		cmocka_unit_test(a_window_of_type_1_cannot_be_invalidated),
		cmocka_unit_test(a_bad_binding_leaves_a_window_of_type_1_as_it_was),
		cmocka_unit_test(a_region_with_windows_stays_as_it_is),
		cmocka_unit_test(windows_open_and_close_on_uc),
		cmocka_unit_test(a_bad_binding_on_uc_stops_the_send_queue),
		cmocka_unit_test(uc_in_sqd_begins_no_binding),
		cmocka_unit_test(a_null_region_reads_as_zeros_and_keeps_nothing),
		cmocka_unit_test(queues_move_with_all_that_is_in_them),
		cmocka_unit_test(on_demand_memory_is_brought_in_as_it_is_used),
		cmocka_unit_test(gone_on_demand_memory_is_an_error_of_whose_it_is),
		cmocka_unit_test(a_window_on_on_demand_memory_is_on_demand),
		cmocka_unit_test(an_implicit_region_has_every_address),
		cmocka_unit_test(on_demand_memory_is_found_by_its_key),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
