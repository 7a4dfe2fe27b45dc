/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Why something failed: the completion's vendor_err, and what the log is told of it. */
#include <string.h>

#include "rnic_bed.h"

static int post_keys(struct bed *b, uint32_t opcode, uint32_t lkey, uint64_t from, uint32_t rkey,
		     uint64_t to, uint32_t len)
{
	struct rnic_sge sge = {.addr = from, .length = len, .lkey = lkey};
	struct rnic_send_wr wr = {.wr_id = 1,
				  .sge = &sge,
				  .num_sge = 1,
				  .opcode = opcode,
				  .remote_addr = to,
				  .rkey = rkey};

	return rnic_post_send(b->side[0].qp, &wr, b->now);
}

static uint64_t mem(struct bed *b, int side)
{
	return (uintptr_t)b->side[side].mem;
}

static uint32_t good(struct bed *b, int side)
{
	return rnic_mr_rkey(b->side[side].mr);
}

/* The side's failure, and the vendor_err of its first completion if it is the requester's. */
static void expect_cause(struct bed *b, int side, enum rnic_cause cause, bool by_peer)
{
	struct bed_side *s = &b->side[side];

	assert_int_equal(s->failures, 1);
	assert_int_equal(s->failure.cause, cause);
	assert_int_equal(s->failure.by_peer, by_peer);
	assert_int_equal(s->failure.qpn, rnic_qp_num(s->qp));
	assert_int_equal(s->failure.dest_qpn, rnic_qp_num(b->side[!side].qp));
	assert_int_equal(s->failure.peer->raw[15], !side + 1);
	if (!by_peer) {
		struct rnic_wc wc = bed_wc(b, side, false);

		assert_int_equal(wc.vendor_err, cause);
		assert_int_not_equal(wc.status, RNIC_WC_SUCCESS);
		assert_int_equal(s->failure.wr_id, 1);
	}
}

/* A write or read whose local key is bad: nothing goes out. */
static void local_cause(enum rnic_cause cause, uint32_t opcode, uint32_t access, int64_t by,
			bool other_pd, uint32_t key_xor)
{
	struct bed *b = bed_open(NULL);
	struct bed_side *s = &b->side[0];
	struct rnic_pd *pd = s->pd;
	struct rnic_mr *mr;

	if (other_pd)
		assert_int_equal(rnic_pd_create(s->rnic, &pd), 0);
	assert_int_equal(rnic_mr_create(pd, s->mem, 4096, (uintptr_t)s->mem, access, &mr), 0);
	assert_int_equal(post_keys(b, opcode, rnic_mr_lkey(mr) ^ key_xor, mem(b, 0) + (uint64_t)by,
				   good(b, 1), mem(b, 1), 100),
			 0);
	bed_run(b);
	expect_cause(b, 0, cause, false);
	assert_int_equal(s->failure.opcode, opcode);
	assert_int_equal(s->failure.key, rnic_mr_lkey(mr) ^ key_xor);
	assert_int_equal(s->failure.va, mem(b, 0) + (uint64_t)by);
	assert_int_equal(s->failure.len, 100);
	assert_int_equal(b->side[1].failures, 0);
	assert_int_equal(rnic_mr_destroy(mr), 0);
	if (other_pd)
		assert_int_equal(rnic_pd_destroy(pd), 0);
	bed_close(b);
}

static void a_bad_local_key_says_what_is_wrong_with_it(void **state)
{
	(void)state;
	local_cause(RNIC_CAUSE_LKEY_UNKNOWN, RNIC_WR_RDMA_WRITE, 0, 0, false, 0x5500);
	local_cause(RNIC_CAUSE_LKEY_UNKNOWN, RNIC_WR_RDMA_WRITE, 0, 0, false, 1); /* stale */
	local_cause(RNIC_CAUSE_LKEY_PD, RNIC_WR_RDMA_WRITE, 0, 0, true, 0);
	local_cause(RNIC_CAUSE_LKEY_BOUNDS, RNIC_WR_RDMA_WRITE, 0, 4000, false, 0);
	local_cause(RNIC_CAUSE_LKEY_BOUNDS, RNIC_WR_RDMA_WRITE, 0, -1, false, 0);
	local_cause(RNIC_CAUSE_LKEY_ACCESS, RNIC_WR_RDMA_READ, 0, 0, false, 0);
}

/* The same of a remote key: the requester knows that it was refused, the responder why. */
static void remote_cause(enum rnic_cause cause, uint32_t access, int64_t by, bool other_pd,
			 uint32_t key_xor)
{
	struct bed *b = bed_open(NULL);
	struct bed_side *s = &b->side[1];
	struct rnic_pd *pd = s->pd;
	struct rnic_mr *mr;

	if (other_pd)
		assert_int_equal(rnic_pd_create(s->rnic, &pd), 0);
	assert_int_equal(rnic_mr_create(pd, s->mem, 4096, (uintptr_t)s->mem, access, &mr), 0);
	assert_int_equal(post_keys(b, RNIC_WR_RDMA_WRITE, good(b, 0), mem(b, 0),
				   rnic_mr_rkey(mr) ^ key_xor, mem(b, 1) + (uint64_t)by, 100),
			 0);
	bed_run(b);
	expect_cause(b, 0, RNIC_CAUSE_NAK_ACCESS, false);
	expect_cause(b, 1, cause, true);
	assert_int_equal(s->failure.opcode, OPCODE_RC_WRITE_ONLY);
	assert_int_equal(s->failure.key, rnic_mr_rkey(mr) ^ key_xor);
	assert_int_equal(s->failure.va, mem(b, 1) + (uint64_t)by);
	assert_int_equal(s->failure.len, 100);
	assert_int_equal(rnic_mr_destroy(mr), 0);
	if (other_pd)
		assert_int_equal(rnic_pd_destroy(pd), 0);
	bed_close(b);
}

static void a_bad_remote_key_says_what_is_wrong_with_it(void **state)
{
	const uint32_t rw = RNIC_ACCESS_LOCAL_WRITE | RNIC_ACCESS_REMOTE_WRITE;

	(void)state;
	remote_cause(RNIC_CAUSE_RKEY_UNKNOWN, rw, 0, false, 0x5500);
	remote_cause(RNIC_CAUSE_RKEY_PD, rw, 0, true, 0);
	remote_cause(RNIC_CAUSE_RKEY_BOUNDS, rw, 4000, false, 0);
	remote_cause(RNIC_CAUSE_RKEY_ACCESS, RNIC_ACCESS_REMOTE_READ, 0, false, 0);
}

static void refused_requests_say_why_at_both_ends(void **state)
{
	struct bed *b = bed_open(&(struct bed_opts){.access = RNIC_ACCESS_LOCAL_WRITE});
	struct rnic_wc wc;

	(void)state;
	assert_int_equal(bed_rdma(b, 0, 1, RNIC_WR_RDMA_WRITE, 0, 0, 8), 0);
	bed_run(b);
	expect_cause(b, 0, RNIC_CAUSE_NAK_INVALID, false);
	expect_cause(b, 1, RNIC_CAUSE_OPERATION, true);
	assert_int_equal(b->side[1].failure.len, 0); /* nothing to do with memory */
	bed_close(b);

	b = bed_open(NULL);
	assert_int_equal(bed_recv(b, 1, 9, 0, 8), 0);
	assert_int_equal(bed_recv(b, 1, 10, 0, 8), 0);
	assert_int_equal(bed_send(b, 0, 1, 0, 100), 0);
	bed_run(b);
	expect_cause(b, 0, RNIC_CAUSE_NAK_INVALID, false);
	expect_cause(b, 1, RNIC_CAUSE_RECV_LENGTH, true);
	wc = bed_wc(b, 1, true);
	assert_int_equal(wc.status, RNIC_WC_LOC_LEN_ERR);
	assert_int_equal(wc.vendor_err, RNIC_CAUSE_RECV_LENGTH);
	wc = bed_wc(b, 1, true); /* those that are flushed bear the cause, too */
	assert_int_equal(wc.status, RNIC_WC_WR_FLUSH_ERR);
	assert_int_equal(wc.vendor_err, RNIC_CAUSE_RECV_LENGTH);
	bed_close(b);
}

static void retries_that_ran_out_say_which(void **state)
{
	struct bed *b = bed_open(&(struct bed_opts){.retry_cnt = 1});
	struct bed_drop all = {.side = 0, .opcode = -1, .count = UINT32_MAX};
	struct rnic_wc wc;

	(void)state;
	bed_drop(b, &all);
	assert_int_equal(bed_rdma(b, 0, 1, RNIC_WR_RDMA_WRITE, 0, 0, 8), 0);
	assert_int_equal(bed_rdma(b, 0, 2, RNIC_WR_RDMA_WRITE, 0, 0, 8), 0);
	bed_sleep(b, 10000 * MS);
	expect_cause(b, 0, RNIC_CAUSE_RETRY, false);
	wc = bed_wc(b, 0, false);
	assert_int_equal(wc.status, RNIC_WC_WR_FLUSH_ERR);
	assert_int_equal(wc.vendor_err, RNIC_CAUSE_RETRY);
	bed_close(b);

	b = bed_open(&(struct bed_opts){.rnr_retry = 1});
	assert_int_equal(bed_send(b, 0, 1, 0, 8), 0);
	bed_sleep(b, 10000 * MS);
	expect_cause(b, 0, RNIC_CAUSE_RNR_RETRY, false);
	assert_int_equal(b->side[1].failures, 0);
	bed_close(b);
}

static void reads_that_may_not_be_sent_say_so(void **state)
{
	struct bed *b = bed_open(&(struct bed_opts){.zero_rd_atomic = true});

	(void)state;
	assert_int_equal(bed_rdma(b, 0, 1, RNIC_WR_RDMA_READ, 0, 0, 8), 0);
	bed_run(b);
	expect_cause(b, 0, RNIC_CAUSE_NO_READS, false);
	bed_close(b);
}

static void a_queue_that_ran_over_says_so_of_all_who_have_it(void **state)
{
	struct bed *b = bed_open(&(struct bed_opts){.cqe = 4});

	(void)state;
	for (uint64_t i = 0; i < 8; i++)
		assert_int_equal(bed_rdma(b, 0, i, RNIC_WR_RDMA_WRITE, 0, 0, 8), 0);
	bed_run(b);
	expect_cause(b, 0, RNIC_CAUSE_CQ_OVERRUN, true);
	bed_close(b);
}

/* Who takes a queue pair down by himself is told nothing, in no log and in no completion. */
static void what_the_application_wants_is_no_failure(void **state)
{
	struct bed *b = bed_open(NULL);
	struct rnic_wc wc;

	(void)state;
	for (uint64_t i = 0; i < 3; i++)
		assert_int_equal(bed_rdma(b, 0, i, RNIC_WR_RDMA_WRITE, 0, 0, 8), 0);
	bed_run(b);
	for (int i = 0; i < 3; i++)
		assert_int_equal(bed_wc(b, 0, false).vendor_err, 0);
	assert_int_equal(bed_recv(b, 0, 9, 0, 8), 0);
	assert_int_equal(bed_modify(b, 0, RNIC_QPS_ERR), 0);
	wc = bed_wc(b, 0, true);
	assert_int_equal(wc.status, RNIC_WC_WR_FLUSH_ERR);
	assert_int_equal(wc.vendor_err, RNIC_CAUSE_NONE);
	assert_int_equal(b->side[0].failures, 0);
	assert_int_equal(b->side[1].failures, 0);
	bed_close(b);
}

/* What failed it in its last life is no cause of what fails in the next one. */
static void a_queue_pair_that_was_reset_has_no_cause(void **state)
{
	struct bed *b = bed_open(&(struct bed_opts){.rnr_retry = 1});

	(void)state;
	assert_int_equal(bed_send(b, 0, 1, 0, 8), 0);
	bed_sleep(b, 10000 * MS);
	expect_cause(b, 0, RNIC_CAUSE_RNR_RETRY, false);
	for (int i = 0; i < 2; i++)
		assert_int_equal(bed_modify(b, i, RNIC_QPS_RESET), 0);
	bed_connect(b);
	assert_int_equal(bed_recv(b, 0, 9, 0, 8), 0);
	assert_int_equal(bed_modify(b, 0, RNIC_QPS_ERR), 0);
	assert_int_equal(bed_wc(b, 0, true).vendor_err, RNIC_CAUSE_NONE);
	bed_close(b);
}

/* What a dead peer's flushes say, after so many of the packets of its two-packet message but for
 * those that are lost. */
static enum rnic_cause cause_after(uint32_t packets, uint32_t lost)
{
	struct bed *b = bed_open(NULL);
	struct rnic_wc wc;

	assert_int_equal(bed_recv(b, 1, 9, 0, 8), 0);
	assert_int_equal(bed_rdma(b, 0, 1, RNIC_WR_RDMA_WRITE, 0, 0, 2048), 0);
	for (uint32_t i = 0; i < packets; i++) {
		struct bed_pkt *p = bed_tx1(b, 0);

		assert_non_null(p);
		if (i >= lost)
			bed_deliver(b, p);
	}
	rnic_qp_peer_died(b->side[1].qp, b->now);
	assert_int_equal(bed_state(b, 1), RNIC_QPS_ERR);
	wc = bed_wc(b, 1, true);
	assert_int_equal(wc.status, RNIC_WC_WR_FLUSH_ERR);
	assert_int_equal(b->side[1].failures, 0);
	rnic_qp_peer_died(b->side[1].qp, b->now);
	bed_expect_none(b, 1);
	bed_close(b);
	return (enum rnic_cause)wc.vendor_err;
}

static void a_peer_that_died_is_the_cause_if_nothing_of_its_is_missing(void **state)
{
	(void)state;
	assert_int_equal(cause_after(0, 0), RNIC_CAUSE_PEER_DIED);
	assert_int_equal(cause_after(2, 0), RNIC_CAUSE_PEER_DIED);
	assert_int_equal(cause_after(1, 0), RNIC_CAUSE_NONE);
	assert_int_equal(cause_after(2, 1), RNIC_CAUSE_NONE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_bad_local_key_says_what_is_wrong_with_it),
		cmocka_unit_test(a_bad_remote_key_says_what_is_wrong_with_it),
		cmocka_unit_test(refused_requests_say_why_at_both_ends),
		cmocka_unit_test(retries_that_ran_out_say_which),
		cmocka_unit_test(reads_that_may_not_be_sent_say_so),
		cmocka_unit_test(a_queue_that_ran_over_says_so_of_all_who_have_it),
		cmocka_unit_test(what_the_application_wants_is_no_failure),
		cmocka_unit_test(a_queue_pair_that_was_reset_has_no_cause),
		cmocka_unit_test(a_peer_that_died_is_the_cause_if_nothing_of_its_is_missing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
