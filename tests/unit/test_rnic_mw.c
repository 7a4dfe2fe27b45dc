/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Memory windows: binding, what they grant, and how they close. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "rnic_bed.h"

static int bind(struct bed *b, struct rnic_mw *mw, uint32_t rkey, uint32_t off, uint32_t len,
		uint32_t access)
{
	struct rnic_send_wr wr = {.wr_id = 50, .opcode = RNIC_WR_BIND_MW};

	wr.bind.mw = mw;
	wr.bind.mr = b->side[1].mr;
	wr.bind.rkey = rkey;
	wr.bind.addr = bed_remote_addr(b, 1, off);
	wr.bind.length = len;
	wr.bind.access = access;
	return rnic_post_send(b->side[1].qp, &wr, b->now);
}

static int write_with(struct bed *b, uint32_t rkey, uint64_t va, uint32_t len)
{
	struct rnic_sge sge = bed_sge(b, 0, 0, len);
	struct rnic_send_wr wr = {.wr_id = 1,
				  .sge = &sge,
				  .num_sge = 1,
				  .opcode = RNIC_WR_RDMA_WRITE,
				  .remote_addr = va,
				  .rkey = rkey};

	return rnic_post_send(b->side[0].qp, &wr, b->now);
}

/* A window of 100 bytes at offset 1000 of side 1, bound with a key ending in 0x77. */
static struct rnic_mw *bound_window(struct bed *b, uint32_t access)
{
	struct rnic_mw *mw;

	assert_int_equal(rnic_mw_create(b->side[1].pd, RNIC_MW_TYPE_2, &mw), 0);
	assert_int_equal(bind(b, mw, (rnic_mw_rkey(mw) & ~0xffu) | 0x77, 1000, 100, access), 0);
	bed_run(b);
	bed_expect(b, 1, false, 50, RNIC_WC_SUCCESS);
	assert_int_equal(rnic_mw_rkey(mw) & 0xff, 0x77);
	return mw;
}

static void end_refused(struct bed *b, struct rnic_mw *mw)
{
	bed_run(b);
	bed_expect(b, 0, false, 1, RNIC_WC_REM_ACCESS_ERR);
	assert_int_equal(rnic_mw_destroy(mw), 0);
	bed_close(b);
}

static void a_window_opens_a_part_of_a_region(void **state)
{
	struct bed *b = bed_open(NULL);
	struct rnic_mw *mw = bound_window(b, RNIC_ACCESS_REMOTE_WRITE);

	(void)state;
	bed_fill(b, 0, 0, 100, 5);
	assert_int_equal(write_with(b, rnic_mw_rkey(mw), bed_remote_addr(b, 1, 1000), 100), 0);
	bed_run(b);
	bed_expect(b, 0, false, 1, RNIC_WC_SUCCESS);
	assert_memory_equal(b->side[0].mem, b->side[1].mem + 1000, 100);
	assert_int_equal(rnic_mr_destroy(b->side[1].mr), -EBUSY);
	assert_int_equal(write_with(b, rnic_mw_rkey(mw), bed_remote_addr(b, 1, 1001), 100), 0);
	end_refused(b, mw);
}

static void a_zero_based_window_counts_from_zero(void **state)
{
	struct bed *b = bed_open(NULL);
	struct rnic_mw *mw = bound_window(b, RNIC_ACCESS_REMOTE_WRITE | RNIC_ACCESS_ZERO_BASED);

	(void)state;
	bed_fill(b, 0, 0, 100, 5);
	assert_int_equal(write_with(b, rnic_mw_rkey(mw), 0, 100), 0);
	bed_run(b);
	bed_expect(b, 0, false, 1, RNIC_WC_SUCCESS);
	assert_memory_equal(b->side[0].mem, b->side[1].mem + 1000, 100);
	assert_int_equal(write_with(b, rnic_mw_rkey(mw), 1, 100), 0);
	end_refused(b, mw);
}

static void a_window_grants_only_its_own_rights(void **state)
{
	struct bed *b = bed_open(NULL);
	struct rnic_mw *mw = bound_window(b, RNIC_ACCESS_REMOTE_READ);

	(void)state;
	assert_int_equal(write_with(b, rnic_mw_rkey(mw), bed_remote_addr(b, 1, 1000), 8), 0);
	end_refused(b, mw);
}

static void a_window_is_good_for_its_qp_alone(void **state)
{
	struct bed *b = bed_open(NULL);
	struct bed_side *s = &b->side[1];
	struct rnic_mw *mw = bound_window(b, RNIC_ACCESS_REMOTE_WRITE);
	struct rnic_qp_init init = {
		.type = RNIC_QPT_RC, .send_cq = s->scq, .recv_cq = s->rcq, .cap = {4, 4, 1, 1, 0}};
	struct rnic_qp *bound_to = s->qp, *qp;

	(void)state;
	/* Another QP of the same PD takes the place of the one it is bound to. */
	assert_int_equal(rnic_qp_create(s->pd, &init, &qp), 0);
	s->qp = qp;
	assert_int_equal(bed_modify(b, 0, RNIC_QPS_RESET), 0);
	bed_connect(b);
	assert_int_equal(write_with(b, rnic_mw_rkey(mw), bed_remote_addr(b, 1, 1000), 8), 0);
	bed_run(b);
	bed_expect(b, 0, false, 1, RNIC_WC_REM_ACCESS_ERR);
	assert_int_equal(rnic_qp_destroy(bound_to), 0);
	assert_int_equal(rnic_mr_destroy(s->mr), 0); /* unbound with its QP */
	s->mr = NULL;
	assert_int_equal(rnic_mw_destroy(mw), 0);
	bed_close(b);
}

static void a_window_closed_by_its_owner_is_closed(void **state)
{
	struct bed *b = bed_open(NULL);
	struct rnic_mw *mw = bound_window(b, RNIC_ACCESS_REMOTE_WRITE);
	struct rnic_send_wr inv = {.wr_id = 60, .opcode = RNIC_WR_LOCAL_INV};
	uint32_t old = rnic_mw_rkey(mw);

	(void)state;
	inv.imm_or_rkey = old;
	assert_int_equal(rnic_post_send(b->side[1].qp, &inv, b->now), 0);
	bed_run(b);
	bed_expect(b, 1, false, 60, RNIC_WC_SUCCESS);
	/* Bound again under another key the old one stays stale. */
	assert_int_equal(bind(b, mw, old + 1, 1000, 100, RNIC_ACCESS_REMOTE_WRITE), 0);
	bed_run(b);
	bed_expect(b, 1, false, 50, RNIC_WC_SUCCESS);
	assert_int_equal(write_with(b, old + 1, bed_remote_addr(b, 1, 1000), 8), 0);
	bed_run(b);
	bed_expect(b, 0, false, 1, RNIC_WC_SUCCESS);
	assert_int_equal(write_with(b, old, bed_remote_addr(b, 1, 1000), 8), 0);
	end_refused(b, mw);
}

static void a_window_closed_by_the_peers_send_is_closed(void **state)
{
	struct bed *b = bed_open(NULL);
	struct rnic_mw *mw = bound_window(b, RNIC_ACCESS_REMOTE_WRITE);
	struct rnic_sge sge = bed_sge(b, 0, 0, 2000);
	struct rnic_send_wr wr = {
		.wr_id = 2, .sge = &sge, .num_sge = 1, .opcode = RNIC_WR_SEND_WITH_INV};
	struct rnic_wc wc;

	(void)state;
	wr.imm_or_rkey = rnic_mw_rkey(mw);
	assert_int_equal(bed_recv(b, 1, 9, 0, 2000), 0);
	assert_int_equal(rnic_post_send(b->side[0].qp, &wr, b->now), 0);
	bed_run(b);
	bed_expect(b, 0, false, 2, RNIC_WC_SUCCESS);
	wc = bed_wc(b, 1, true);
	assert_int_equal(wc.wc_flags, RNIC_WC_WITH_INV);
	assert_int_equal(wc.imm_or_rkey, rnic_mw_rkey(mw));
	assert_int_equal(wc.byte_len, 2000);
	assert_int_equal(write_with(b, rnic_mw_rkey(mw), bed_remote_addr(b, 1, 1000), 8), 0);
	end_refused(b, mw);
}

static void a_send_can_not_invalidate_a_region(void **state)
{
	struct bed *b = bed_open(NULL);
	struct rnic_send_wr wr = {.wr_id = 1, .opcode = RNIC_WR_SEND_WITH_INV};

	(void)state;
	wr.imm_or_rkey = rnic_mr_rkey(b->side[1].mr);
	assert_int_equal(bed_recv(b, 1, 9, 0, 8), 0);
	assert_int_equal(rnic_post_send(b->side[0].qp, &wr, b->now), 0);
	bed_run(b);
	bed_expect(b, 0, false, 1, RNIC_WC_REM_ACCESS_ERR);
	bed_expect(b, 1, true, 9, RNIC_WC_REM_INV_REQ_ERR);
	bed_close(b);
}

static void bind_fails(uint32_t (*spoil)(struct bed *, struct rnic_send_wr *))
{
	struct bed *b = bed_open(NULL);
	struct rnic_mr *plain;
	struct rnic_mw *mw;
	struct rnic_send_wr wr = {.wr_id = 50, .opcode = RNIC_WR_BIND_MW};

	assert_int_equal(rnic_mw_create(b->side[1].pd, RNIC_MW_TYPE_2, &mw), 0);
	assert_int_equal(rnic_mr_create(b->side[1].pd, b->side[1].mem, 4096,
					bed_remote_addr(b, 1, 0), RNIC_ACCESS_LOCAL_WRITE, &plain),
			 0);
	wr.bind.mw = mw;
	wr.bind.mr = b->side[1].mr;
	wr.bind.rkey = rnic_mw_rkey(mw) + (rnic_mw_rkey(mw) & 0xff ? -1u : 1);
	wr.bind.addr = bed_remote_addr(b, 1, 0);
	wr.bind.length = 100;
	wr.bind.access = RNIC_ACCESS_REMOTE_WRITE;
	if (spoil)
		spoil(b, &wr);
	else
		wr.bind.mr = plain; /* without the right to bind */
	assert_int_equal(rnic_post_send(b->side[1].qp, &wr, b->now), 0);
	bed_run(b);
	bed_expect(b, 1, false, 50, RNIC_WC_MW_BIND_ERR);
	assert_int_equal(bed_state(b, 1), RNIC_QPS_ERR);
	assert_int_equal(rnic_mw_destroy(mw), 0);
	assert_int_equal(rnic_mr_destroy(plain), 0);
	bed_close(b);
}

static uint32_t other_index(struct bed *b, struct rnic_send_wr *wr)
{
	(void)b;
	return wr->bind.rkey ^= 0x100;
}

static uint32_t too_long(struct bed *b, struct rnic_send_wr *wr)
{
	(void)b;
	return (uint32_t)(wr->bind.length = BED_MEM + 1);
}

static uint32_t no_length(struct bed *b, struct rnic_send_wr *wr)
{
	(void)b;
	return (uint32_t)(wr->bind.length = 0);
}

static uint32_t before_the_region(struct bed *b, struct rnic_send_wr *wr)
{
	(void)b;
	return (uint32_t)(wr->bind.addr -= 1);
}

static uint32_t bound_already(struct bed *b, struct rnic_send_wr *wr)
{
	assert_int_equal(rnic_post_send(b->side[1].qp, wr, b->now), 0);
	bed_run(b);
	bed_expect(b, 1, false, 50, RNIC_WC_SUCCESS);
	return wr->bind.rkey ^= 1;
}

static uint32_t no_region(struct bed *b, struct rnic_send_wr *wr)
{
	(void)b;
	wr->bind.mr = NULL;
	return 0;
}

static void a_bad_bind_fails(void **state)
{
	(void)state;
	bind_fails(NULL);
	bind_fails(other_index);
	bind_fails(too_long);
	bind_fails(no_length);
	bind_fails(before_the_region);
	bind_fails(bound_already);
	bind_fails(no_region);
}

static void a_bind_of_what_is_gone_fails_when_its_turn_comes(void **state)
{
	struct bed *b = bed_open(NULL);
	struct rnic_mw *mw, *next;

	(void)state;
	assert_int_equal(rnic_mw_create(b->side[1].pd, RNIC_MW_TYPE_2, &mw), 0);
	assert_int_equal(bind(b, mw, rnic_mw_rkey(mw) ^ 1, 0, 100, RNIC_ACCESS_REMOTE_READ), 0);
	assert_int_equal(rnic_mw_destroy(mw), 0);
	assert_int_equal(rnic_mw_create(b->side[1].pd, RNIC_MW_TYPE_2, &next), 0);
	bed_run(b);
	bed_expect(b, 1, false, 50, RNIC_WC_MW_BIND_ERR);
	assert_int_equal(rnic_mw_destroy(next), 0);
	bed_close(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_window_opens_a_part_of_a_region),
		cmocka_unit_test(a_zero_based_window_counts_from_zero),
		cmocka_unit_test(a_window_grants_only_its_own_rights),
		cmocka_unit_test(a_window_is_good_for_its_qp_alone),
		cmocka_unit_test(a_window_closed_by_its_owner_is_closed),
		cmocka_unit_test(a_window_closed_by_the_peers_send_is_closed),
		cmocka_unit_test(a_send_can_not_invalidate_a_region),
		cmocka_unit_test(a_bad_bind_fails),
		cmocka_unit_test(a_bind_of_what_is_gone_fails_when_its_turn_comes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
