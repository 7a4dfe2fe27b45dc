/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What is refused, by whom, with which status on either side, and what is left of the QPs. */
#include <errno.h>
#include <string.h>

#include "rnic_bed.h"

#define ACK OPCODE_RC_ACKNOWLEDGE

/* A request fails at the responder: status at the requester, NAK, event; both QPs are in ERR. */
static void expect_refusal(struct bed *b, enum rnic_wc_status status, uint8_t syndrome,
			   enum rnic_event event)
{
	struct bed_pkt *p;

	bed_run(b);
	bed_expect(b, 0, false, 1, status);
	bed_expect_none(b, 0);
	p = bed_nth(b, 1, ACK, bed_sent(b, 1, ACK) - 1);
	assert_int_equal(p->h.aeth.syndrome, syndrome);
	assert_int_equal(bed_state(b, 0), RNIC_QPS_ERR);
	assert_int_equal(bed_state(b, 1), RNIC_QPS_ERR);
	assert_true(bed_saw_event(b, 1, event));
	assert_int_equal(b->side[1].nevents, 1);
	assert_int_equal(b->side[0].nevents, 0);
	bed_close(b);
}

static int post(struct bed *b, uint32_t opcode, uint32_t rkey, uint64_t va, uint32_t len)
{
	struct rnic_sge sge = bed_sge(b, 0, 0, len);
	struct rnic_send_wr wr = {.wr_id = 1,
				  .sge = &sge,
				  .num_sge = 1,
				  .opcode = opcode,
				  .remote_addr = va,
				  .rkey = rkey};

	return rnic_post_send(b->side[0].qp, &wr, b->now);
}

static struct rnic_mr *mr_with(struct bed *b, int side, uint32_t access)
{
	struct bed_side *s = &b->side[side];
	struct rnic_mr *mr;

	assert_int_equal(rnic_mr_create(s->pd, s->mem, 4096, (uintptr_t)s->mem, access, &mr), 0);
	return mr;
}

/* The extra region lives until the bed closes. */
static void refused_with_region(uint32_t opcode, uint32_t access, uint32_t len)
{
	struct bed *b = bed_open(NULL);
	struct rnic_mr *mr = mr_with(b, 1, access);

	assert_int_equal(post(b, opcode, rnic_mr_rkey(mr), bed_remote_addr(b, 1, 0), len), 0);
	bed_run(b);
	assert_int_equal(rnic_mr_destroy(mr), 0);
	for (uint32_t i = 0; i < len; i++)
		assert_int_equal(b->side[1].mem[i], 0);
	expect_refusal(b, RNIC_WC_REM_ACCESS_ERR, 0x62, RNIC_EVENT_QP_ACCESS_ERR);
}

static void a_region_grants_only_its_rights(void **state)
{
	uint32_t lw = RNIC_ACCESS_LOCAL_WRITE, rw = RNIC_ACCESS_REMOTE_WRITE,
		 rr = RNIC_ACCESS_REMOTE_READ, ra = RNIC_ACCESS_REMOTE_ATOMIC;

	(void)state;
	refused_with_region(RNIC_WR_RDMA_WRITE, lw | rr | ra, 100);
	refused_with_region(RNIC_WR_RDMA_WRITE, lw | rr | ra, 3000);
	refused_with_region(RNIC_WR_RDMA_READ, lw | rw | ra, 100);
	refused_with_region(RNIC_WR_ATOMIC_FETCH_AND_ADD, lw | rw | rr, 8);
	refused_with_region(RNIC_WR_ATOMIC_CMP_AND_SWP, lw | rw | rr, 8);
}

static void refused_by_qp(uint32_t opcode, uint32_t access, uint32_t len)
{
	struct bed *b = bed_open(&(struct bed_opts){.access = access});

	assert_int_equal(
		post(b, opcode, rnic_mr_rkey(b->side[1].mr), bed_remote_addr(b, 1, 0), len), 0);
	expect_refusal(b, RNIC_WC_REM_INV_REQ_ERR, 0x61, RNIC_EVENT_QP_REQ_ERR);
}

static void a_qp_grants_only_its_rights(void **state)
{
	uint32_t lw = RNIC_ACCESS_LOCAL_WRITE, rw = RNIC_ACCESS_REMOTE_WRITE,
		 rr = RNIC_ACCESS_REMOTE_READ, ra = RNIC_ACCESS_REMOTE_ATOMIC;

	(void)state;
	refused_by_qp(RNIC_WR_RDMA_WRITE, lw | rr | ra, 100);
	refused_by_qp(RNIC_WR_RDMA_READ, lw | rw | ra, 100);
	refused_by_qp(RNIC_WR_ATOMIC_FETCH_AND_ADD, lw | rw | rr, 8);
}

static void keys_and_ranges_are_checked(void **state)
{
	struct bed *b;
	struct rnic_mr *mr;
	struct rnic_pd *pd;
	uint32_t key;

	(void)state;
	b = bed_open(NULL); /* one byte beyond the end */
	assert_int_equal(post(b, RNIC_WR_RDMA_WRITE, rnic_mr_rkey(b->side[1].mr),
			      bed_remote_addr(b, 1, BED_MEM - 99), 100),
			 0);
	expect_refusal(b, RNIC_WC_REM_ACCESS_ERR, 0x62, RNIC_EVENT_QP_ACCESS_ERR);

	b = bed_open(NULL); /* one byte before the beginning */
	assert_int_equal(post(b, RNIC_WR_RDMA_READ, rnic_mr_rkey(b->side[1].mr),
			      bed_remote_addr(b, 1, 0) - 1, 100),
			 0);
	expect_refusal(b, RNIC_WC_REM_ACCESS_ERR, 0x62, RNIC_EVENT_QP_ACCESS_ERR);

	b = bed_open(NULL); /* around the end of the address space */
	assert_int_equal(
		post(b, RNIC_WR_RDMA_WRITE, rnic_mr_rkey(b->side[1].mr), UINT64_MAX - 10, 100), 0);
	expect_refusal(b, RNIC_WC_REM_ACCESS_ERR, 0x62, RNIC_EVENT_QP_ACCESS_ERR);

	b = bed_open(NULL); /* a region that is gone */
	mr = mr_with(b, 1, 0xf);
	key = rnic_mr_rkey(mr);
	assert_int_equal(rnic_mr_destroy(mr), 0);
	assert_int_equal(post(b, RNIC_WR_RDMA_WRITE, key, bed_remote_addr(b, 1, 0), 100), 0);
	expect_refusal(b, RNIC_WC_REM_ACCESS_ERR, 0x62, RNIC_EVENT_QP_ACCESS_ERR);

	b = bed_open(NULL); /* of another protection domain */
	assert_int_equal(rnic_pd_create(b->side[1].rnic, &pd), 0);
	assert_int_equal(rnic_mr_create(pd, b->side[1].mem, 4096, 0, 0xf, &mr), 0);
	assert_int_equal(post(b, RNIC_WR_RDMA_WRITE, rnic_mr_rkey(mr), 0, 100), 0);
	bed_run(b);
	assert_int_equal(rnic_pd_destroy(pd), -16);
	assert_int_equal(rnic_mr_destroy(mr), 0);
	assert_int_equal(rnic_pd_destroy(pd), 0);
	expect_refusal(b, RNIC_WC_REM_ACCESS_ERR, 0x62, RNIC_EVENT_QP_ACCESS_ERR);
}

static void an_operation_of_no_bytes_needs_no_key(void **state)
{
	struct bed *b = bed_open(NULL);

	(void)state;
	assert_int_equal(post(b, RNIC_WR_RDMA_WRITE, 0x12345678, 99, 0), 0);
	assert_int_equal(post(b, RNIC_WR_RDMA_READ, 0x12345678, 99, 0), 0);
	bed_run(b);
	bed_expect(b, 0, false, 1, RNIC_WC_SUCCESS);
	bed_expect(b, 0, false, 1, RNIC_WC_SUCCESS);
	assert_int_equal(bed_nth(b, 0, OPCODE_RC_WRITE_ONLY, 0)->h.reth.dma_len, 0);
	assert_int_equal(bed_sent(b, 1, OPCODE_RC_READ_RESPONSE_ONLY), 1);
	bed_close(b);
}

static void a_misaligned_atomic_is_invalid(void **state)
{
	struct bed *b = bed_open(NULL);

	(void)state;
	assert_int_equal(post(b, RNIC_WR_ATOMIC_FETCH_AND_ADD, rnic_mr_rkey(b->side[1].mr),
			      bed_remote_addr(b, 1, 4), 8),
			 0);
	expect_refusal(b, RNIC_WC_REM_INV_REQ_ERR, 0x61, RNIC_EVENT_QP_REQ_ERR);
}

static void a_refusal_does_not_overtake_what_was_read_before(void **state)
{
	struct bed *b = bed_open(NULL);

	(void)state;
	bed_fill(b, 1, 0, 3000, 4);
	assert_int_equal(bed_rdma(b, 0, 5, RNIC_WR_RDMA_READ, 0, 0, 3000), 0);
	assert_int_equal(post(b, RNIC_WR_RDMA_WRITE, 0x12345678, 99, 10), 0);
	bed_run(b);
	bed_expect(b, 0, false, 5, RNIC_WC_SUCCESS);
	assert_memory_equal(b->side[0].mem, b->side[1].mem, 3000);
	expect_refusal(b, RNIC_WC_REM_ACCESS_ERR, 0x62, RNIC_EVENT_QP_ACCESS_ERR);
}

static void a_region_that_goes_while_it_is_read_ends_the_read(void **state)
{
	struct bed *b = bed_open(NULL);
	struct rnic_mr *mr = mr_with(b, 1, RNIC_ACCESS_REMOTE_READ);

	(void)state;
	assert_int_equal(
		post(b, RNIC_WR_RDMA_READ, rnic_mr_rkey(mr), bed_remote_addr(b, 1, 0), 4096), 0);
	bed_deliver(b, bed_tx1(b, 0));
	bed_deliver(b, bed_tx1(b, 1));
	assert_int_equal(rnic_mr_destroy(mr), 0);
	bed_run(b);
	assert_int_equal(bed_nth(b, 1, ACK, 0)->h.bth.psn, 1);
	expect_refusal(b, RNIC_WC_REM_ACCESS_ERR, 0x62, RNIC_EVENT_QP_ACCESS_ERR);
}

static void more_reads_than_agreed_are_invalid(void **state)
{
	struct bed *b = bed_open(NULL); /* 4 */
	struct pkt_hdr h = {.bth = {.opcode = OPCODE_RC_READ_REQUEST}};

	(void)state;
	h.reth.rkey = rnic_mr_rkey(b->side[1].mr);
	h.reth.va = bed_remote_addr(b, 1, 0);
	h.reth.dma_len = 10;
	for (h.bth.psn = 0; h.bth.psn < 4; h.bth.psn++)
		bed_forge(b, 0, h, NULL, 0);
	assert_int_equal(bed_state(b, 1), RNIC_QPS_RTS);
	bed_forge(b, 0, h, NULL, 0);
	assert_int_equal(bed_state(b, 1), RNIC_QPS_ERR);
	assert_true(bed_saw_event(b, 1, RNIC_EVENT_QP_REQ_ERR));
	bed_close(b);
}

static void reads_need_resources_on_both_sides(void **state)
{
	struct bed *b = bed_open(&(struct bed_opts){.zero_rd_atomic = true});
	struct pkt_hdr h = {.bth = {.opcode = OPCODE_RC_READ_REQUEST}};

	(void)state;
	assert_int_equal(bed_rdma(b, 0, 1, RNIC_WR_RDMA_READ, 0, 0, 10), 0);
	bed_run(b);
	bed_expect(b, 0, false, 1, RNIC_WC_LOC_QP_OP_ERR);
	bed_forge(b, 0, h, NULL, 0);
	assert_true(bed_saw_event(b, 1, RNIC_EVENT_QP_REQ_ERR));
	bed_close(b);
}

/* ---- SEND and RECV -------------------------------------------------------------------------- */

static void a_send_longer_than_its_receive_fails_on_both_sides(void **state)
{
	(void)state;
	for (uint32_t len = 100; len < 5000; len += 3000) {
		struct bed *b = bed_open(NULL);

		assert_int_equal(bed_recv(b, 1, 7, 0, len - 1), 0);
		assert_int_equal(bed_recv(b, 1, 8, 0, 100), 0);
		assert_int_equal(bed_send(b, 0, 1, 0, len), 0);
		bed_run(b);
		bed_expect(b, 0, false, 1, RNIC_WC_REM_INV_REQ_ERR);
		bed_expect(b, 1, true, 7, RNIC_WC_LOC_LEN_ERR);
		bed_expect(b, 1, true, 8, RNIC_WC_WR_FLUSH_ERR);
		assert_int_equal(bed_state(b, 1), RNIC_QPS_ERR);
		bed_close(b);
	}
}

static void a_receive_with_a_bad_key_fails_on_both_sides(void **state)
{
	struct bed *b = bed_open(NULL);
	struct rnic_mr *mr = mr_with(b, 1, 0); /* may not be written */
	struct rnic_sge sge[] = {bed_sge(b, 1, 0, 40),
				 {bed_remote_addr(b, 1, 40), 60, rnic_mr_lkey(mr)}};
	struct rnic_recv_wr wr = {.wr_id = 7, .sge = sge, .num_sge = 2};

	(void)state;
	bed_fill(b, 0, 0, 100, 1);
	assert_int_equal(rnic_post_recv(b->side[1].qp, &wr), 0);
	assert_int_equal(bed_send(b, 0, 1, 0, 100), 0);
	bed_run(b);
	bed_expect(b, 0, false, 1, RNIC_WC_REM_OP_ERR);
	bed_expect(b, 1, true, 7, RNIC_WC_LOC_PROT_ERR);
	assert_int_equal(bed_nth(b, 1, ACK, 0)->h.aeth.syndrome, 0x63);
	assert_memory_equal(b->side[1].mem, (uint8_t[40]){0}, 40); /* nothing of the packet */
	assert_int_equal(rnic_mr_destroy(mr), 0);
	bed_close(b);
}

/* ---- at home -------------------------------------------------------------------------------- */

static void local_keys_are_checked(void **state)
{
	struct bed *b = bed_open(NULL);
	struct rnic_sge sge = bed_sge(b, 0, BED_MEM - 50, 51);
	struct rnic_send_wr wr = {.wr_id = 1, .sge = &sge, .num_sge = 1, .opcode = RNIC_WR_SEND};
	struct rnic_mr *mr;

	(void)state;
	assert_int_equal(rnic_post_send(b->side[0].qp, &wr, b->now), 0);
	bed_run(b);
	bed_expect(b, 0, false, 1, RNIC_WC_LOC_PROT_ERR);
	assert_int_equal(b->nlog, 0);
	assert_int_equal(bed_state(b, 1), RNIC_QPS_RTS);
	bed_close(b);

	b = bed_open(NULL); /* a READ into what may not be written */
	mr = mr_with(b, 0, RNIC_ACCESS_REMOTE_READ);
	sge = (struct rnic_sge){bed_remote_addr(b, 0, 0), 8, rnic_mr_lkey(mr)};
	wr.opcode = RNIC_WR_RDMA_READ;
	wr.rkey = rnic_mr_rkey(b->side[1].mr);
	wr.remote_addr = bed_remote_addr(b, 1, 0);
	assert_int_equal(rnic_post_send(b->side[0].qp, &wr, b->now), 0);
	bed_run(b);
	bed_expect(b, 0, false, 1, RNIC_WC_LOC_PROT_ERR);
	assert_int_equal(rnic_mr_destroy(mr), 0);
	bed_close(b);

	b = bed_open(NULL); /* an atomic wants eight bytes */
	assert_int_equal(post(b, RNIC_WR_ATOMIC_FETCH_AND_ADD, rnic_mr_rkey(b->side[1].mr),
			      bed_remote_addr(b, 1, 0), 16),
			 0);
	bed_run(b);
	bed_expect(b, 0, false, 1, RNIC_WC_LOC_LEN_ERR);
	bed_close(b);
}

static void a_region_that_goes_before_it_is_resent_fails_the_request(void **state)
{
	struct bed *b = bed_open(NULL);
	struct rnic_mr *mr = mr_with(b, 0, 0);
	struct rnic_sge sge = {bed_remote_addr(b, 0, 0), 100, rnic_mr_lkey(mr)};
	struct rnic_send_wr wr = {.wr_id = 1,
				  .sge = &sge,
				  .num_sge = 1,
				  .opcode = RNIC_WR_RDMA_WRITE,
				  .rkey = rnic_mr_rkey(b->side[1].mr),
				  .remote_addr = bed_remote_addr(b, 1, 0)};

	(void)state;
	assert_int_equal(rnic_post_send(b->side[0].qp, &wr, b->now), 0);
	assert_non_null(bed_tx1(b, 0)); /* lost */
	assert_int_equal(rnic_mr_destroy(mr), 0);
	bed_sleep(b, 10 * MS);
	bed_expect(b, 0, false, 1, RNIC_WC_LOC_PROT_ERR);
	bed_close(b);
}

static void an_error_waits_for_what_was_posted_before(void **state)
{
	struct bed *b = bed_open(NULL);
	struct rnic_sge sge = {bed_remote_addr(b, 0, 0), 8, 0x12345678};
	struct rnic_send_wr wr = {.wr_id = 2, .sge = &sge, .num_sge = 1, .opcode = RNIC_WR_SEND};

	(void)state;
	assert_int_equal(bed_rdma(b, 0, 1, RNIC_WR_RDMA_WRITE, 0, 0, 10000), 0);
	assert_int_equal(rnic_post_send(b->side[0].qp, &wr, b->now), 0);
	assert_int_equal(bed_rdma(b, 0, 3, RNIC_WR_RDMA_WRITE, 0, 0, 10), 0);
	while (bed_tx1(b, 0))
		;
	assert_int_equal(b->nlog, 10);
	bed_expect_none(b, 0);
	assert_int_equal(bed_state(b, 0), RNIC_QPS_RTS);
	for (uint32_t i = 0; i < 10; i++)
		bed_deliver(b, &b->log[i]);
	bed_run(b);
	bed_expect(b, 0, false, 1, RNIC_WC_SUCCESS);
	bed_expect(b, 0, false, 2, RNIC_WC_LOC_PROT_ERR);
	bed_expect(b, 0, false, 3, RNIC_WC_WR_FLUSH_ERR);
	bed_close(b);
}

static void everything_posted_is_flushed_in_order(void **state)
{
	struct bed *b = bed_open(&(struct bed_opts){.not_all_signaled = true});

	(void)state;
	for (uint64_t i = 0; i < 5; i++) {
		assert_int_equal(bed_send(b, 0, i, 0, 10), 0);
		assert_int_equal(bed_recv(b, 0, i, 0, 10), 0);
	}
	bed_run(b); /* nobody receives: the first is under way */
	assert_int_equal(bed_modify(b, 0, RNIC_QPS_ERR), 0);
	for (uint64_t i = 0; i < 5; i++) {
		bed_expect(b, 0, false, i, RNIC_WC_WR_FLUSH_ERR);
		bed_expect(b, 0, true, i, RNIC_WC_WR_FLUSH_ERR);
	}
	/* What comes now is flushed, too. */
	assert_int_equal(bed_send(b, 0, 6, 0, 10), 0);
	assert_int_equal(bed_recv(b, 0, 7, 0, 10), 0);
	bed_expect(b, 0, false, 6, RNIC_WC_WR_FLUSH_ERR);
	bed_expect(b, 0, true, 7, RNIC_WC_WR_FLUSH_ERR);
	bed_expect_none(b, 0);
	assert_false(bed_tx1(b, 0));
	bed_close(b);
}

static void what_was_done_before_the_error_is_not_flushed(void **state)
{
	struct bed *b = bed_open(&(struct bed_opts){.not_all_signaled = true});

	(void)state;
	assert_int_equal(bed_rdma(b, 0, 1, RNIC_WR_RDMA_WRITE, 0, 0, 8), 0);
	bed_run(b);
	assert_int_equal(bed_rdma(b, 0, 2, RNIC_WR_RDMA_WRITE, 0, 0, 8), 0);
	assert_int_equal(bed_modify(b, 0, RNIC_QPS_ERR), 0);
	bed_expect(b, 0, false, 2, RNIC_WC_WR_FLUSH_ERR);
	bed_expect_none(b, 0);
	bed_close(b);
}

static void a_cq_that_runs_over_says_so_and_ends_its_qps(void **state)
{
	struct bed *b = bed_open(&(struct bed_opts){.cqe = 4});

	(void)state;
	for (uint64_t i = 0; i < 4; i++)
		assert_int_equal(bed_rdma(b, 0, i, RNIC_WR_RDMA_WRITE, 0, 0, 8), 0);
	bed_run(b);
	assert_int_equal(b->side[0].nevents, 0);
	assert_int_equal(bed_rdma(b, 0, 4, RNIC_WR_RDMA_WRITE, 0, 0, 8), 0);
	bed_run(b);
	assert_true(bed_saw_event(b, 0, RNIC_EVENT_CQ_ERR));
	assert_int_equal(b->side[0].nevents, 1);
	assert_int_equal(bed_state(b, 0), RNIC_QPS_ERR);
	for (uint64_t i = 0; i < 4; i++)
		bed_expect(b, 0, false, i, RNIC_WC_SUCCESS);
	bed_expect_none(b, 0);
	assert_int_equal(bed_state(b, 1), RNIC_QPS_RTS);
	bed_close(b);
}

/* ---- requests no good peer sends ------------------------------------------------------------ */

static void forged_is_invalid(struct pkt_hdr h, uint32_t len)
{
	static const uint8_t data[4096];
	struct bed *b = bed_open(NULL);

	assert_int_equal(bed_recv(b, 1, 7, 0, 100000), 0);
	h.reth.rkey = rnic_mr_rkey(b->side[1].mr);
	h.reth.va = bed_remote_addr(b, 1, 0);
	bed_forge(b, 0, h, data, len);
	assert_int_equal(bed_state(b, 1), RNIC_QPS_ERR);
	assert_true(bed_saw_event(b, 1, RNIC_EVENT_QP_REQ_ERR));
	bed_expect(b, 1, true, 7, RNIC_WC_WR_FLUSH_ERR);
	assert_int_equal(bed_tx1(b, 1)->h.aeth.syndrome, 0x61);
	assert_null(bed_tx1(b, 1));
	bed_close(b);
}

static void malformed_messages_are_invalid(void **state)
{
	struct pkt_hdr h = {0};

	(void)state;
	h.bth.opcode = OPCODE_RC_SEND_MIDDLE; /* of nothing */
	forged_is_invalid(h, 1024);
	h.bth.opcode = OPCODE_RC_WRITE_LAST;
	forged_is_invalid(h, 10);
	h.bth.opcode = OPCODE_RC_SEND_FIRST; /* short, long */
	forged_is_invalid(h, 1000);
	h.bth.opcode = OPCODE_RC_SEND_ONLY;
	forged_is_invalid(h, 1028);
	h.bth.opcode = OPCODE_RC_WRITE_ONLY; /* not what it announces */
	h.reth.dma_len = 50;
	forged_is_invalid(h, 40);
	h.reth.dma_len = 30;
	forged_is_invalid(h, 40);
	h.bth.opcode = OPCODE_RC_WRITE_FIRST;
	h.reth.dma_len = 1024; /* should have been an only */
	forged_is_invalid(h, 1024);
	h.reth.dma_len = 0x80000001; /* longer than a message may be */
	forged_is_invalid(h, 1024);
	h.bth.opcode = OPCODE_RC_READ_REQUEST;
	forged_is_invalid(h, 0);
	h.reth.dma_len = 10; /* a READ request carries nothing */
	forged_is_invalid(h, 8);
}

/* 2 GiB are a message, if there is so much; a byte more is none, in however many pieces. */
static void a_message_has_at_most_2_gib(void **state)
{
	static const uint32_t too_long[][4] = {
		{0x80000001},
		{0x80000000, 1},
		{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
		{0x80000000, 0x80000000, 0, 1}, /* 1, as 32 bits count */
	};
	static const uint8_t data[1024];
	struct pkt_hdr h = {.bth = {.opcode = OPCODE_RC_WRITE_FIRST}};
	struct bed *b = bed_open(NULL);
	struct rnic_sge sge[4];
	struct rnic_send_wr wr = {.sge = sge, .num_sge = 4};
	struct rnic_recv_wr recv = {.sge = sge, .num_sge = 4};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(too_long); i++) {
		for (int k = 0; k < 4; k++)
			sge[k] = bed_sge(b, 0, 0, too_long[i][k]);
		for (wr.opcode = RNIC_WR_RDMA_WRITE; wr.opcode <= RNIC_WR_RDMA_READ; wr.opcode++)
			assert_int_equal(rnic_post_send(b->side[0].qp, &wr, b->now), -EINVAL);
		/* No more than that comes into a receive, however long it is. */
		assert_int_equal(rnic_post_recv(b->side[0].qp, &recv), 0);
	}
	h.reth.rkey = rnic_mr_rkey(b->side[1].mr);
	h.reth.va = bed_remote_addr(b, 1, 0);
	h.reth.dma_len = 0x80000000;
	bed_forge(b, 0, h, data, sizeof(data));
	assert_int_equal(bed_tx1(b, 1)->h.aeth.syndrome, 0x62); /* the region is not so long */
	bed_close(b);
}

static void messages_may_not_be_mixed(void **state)
{
	struct bed *b = bed_open(NULL);
	struct pkt_hdr h = {.bth = {.opcode = OPCODE_RC_SEND_FIRST}};
	static const uint8_t data[1024];

	(void)state;
	assert_int_equal(bed_recv(b, 1, 7, 0, 100000), 0);
	bed_forge(b, 0, h, data, 1024);
	h.bth.opcode = OPCODE_RC_WRITE_MIDDLE;
	h.bth.psn = 1;
	bed_forge(b, 0, h, data, 1024);
	assert_true(bed_saw_event(b, 1, RNIC_EVENT_QP_REQ_ERR));
	bed_close(b);
}

static void a_response_of_the_wrong_length_is_bad(void **state)
{
	struct bed *b = bed_open(NULL);
	struct pkt_hdr h = {.bth = {.opcode = OPCODE_RC_READ_RESPONSE_ONLY},
			    .aeth = {.syndrome = 0x1f}};
	static const uint8_t data[64];

	(void)state;
	assert_int_equal(bed_rdma(b, 0, 1, RNIC_WR_RDMA_READ, 0, 0, 60), 0);
	assert_non_null(bed_tx1(b, 0));
	bed_forge(b, 1, h, data, 64);
	bed_expect(b, 0, false, 1, RNIC_WC_BAD_RESP_ERR);
	bed_close(b);
}

static void only_the_connected_peer_is_heard(void **state)
{
	struct bed *b = bed_open(NULL);
	const struct rnic_counters *c = rnic_counters(b->side[1].rnic);
	struct bed_pkt p, *sent;

	(void)state;
	assert_int_equal(bed_rdma(b, 0, 1, RNIC_WR_RDMA_WRITE, 0, 0, 10), 0);
	sent = bed_tx1(b, 0);
	p = *sent;
	p.flow.sgid.raw[15] ^= 1; /* another host */
	bed_deliver(b, &p);
	assert_int_equal(c->rx_drop_flow, 1);
	p = *sent;
	p.flow.dgid.raw[15] ^= 1; /* to another address of ours */
	bed_deliver(b, &p);
	assert_int_equal(c->rx_drop_flow, 2);
	p = *sent;
	p.data[2] = 0x12; /* P_Key */
	bed_deliver(b, &p);
	assert_int_equal(c->rx_drop_flow, 3);
	p = *sent;
	p.data[7] ^= 1; /* QPN */
	bed_deliver(b, &p);
	assert_int_equal(c->rx_drop_no_qp, 1);
	p = *sent;
	p.data[5] ^= 1; /* slot */
	bed_deliver(b, &p);
	assert_int_equal(c->rx_drop_no_qp, 2);
	p = *sent;
	p.data[0] |= SERVICE_UC;
	bed_deliver(b, &p);
	assert_int_equal(c->rx_drop_service, 1);
	p = *sent;
	p.len = 11;
	bed_deliver(b, &p);
	assert_int_equal(c->rx_drop_malformed, 1);
	assert_int_equal(c->rx_bytes, 0);
	bed_deliver(b, sent);
	bed_run(b);
	bed_expect(b, 0, false, 1, RNIC_WC_SUCCESS);
	bed_close(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_region_grants_only_its_rights),
		cmocka_unit_test(a_qp_grants_only_its_rights),
		cmocka_unit_test(keys_and_ranges_are_checked),
		cmocka_unit_test(an_operation_of_no_bytes_needs_no_key),
		cmocka_unit_test(a_misaligned_atomic_is_invalid),
		cmocka_unit_test(a_refusal_does_not_overtake_what_was_read_before),
		cmocka_unit_test(a_region_that_goes_while_it_is_read_ends_the_read),
		cmocka_unit_test(more_reads_than_agreed_are_invalid),
		cmocka_unit_test(reads_need_resources_on_both_sides),
		cmocka_unit_test(a_send_longer_than_its_receive_fails_on_both_sides),
		cmocka_unit_test(a_receive_with_a_bad_key_fails_on_both_sides),
		cmocka_unit_test(local_keys_are_checked),
		cmocka_unit_test(a_region_that_goes_before_it_is_resent_fails_the_request),
		cmocka_unit_test(an_error_waits_for_what_was_posted_before),
		cmocka_unit_test(everything_posted_is_flushed_in_order),
		cmocka_unit_test(what_was_done_before_the_error_is_not_flushed),
		cmocka_unit_test(a_cq_that_runs_over_says_so_and_ends_its_qps),
		cmocka_unit_test(malformed_messages_are_invalid),
		cmocka_unit_test(a_message_has_at_most_2_gib),
		cmocka_unit_test(messages_may_not_be_mixed),
		cmocka_unit_test(a_response_of_the_wrong_length_is_bad),
		cmocka_unit_test(only_the_connected_peer_is_heard),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
