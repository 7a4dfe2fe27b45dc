/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * XRC: an initiator on side 0, a target on side 1 with two shared receive queues in its domain,
 * each with a CQ and a protection domain of its own.
 */
#include "rnic_bed.h"

#include <errno.h>
#include <string.h>

#define LEN 3000u /* three packets */

static struct {
	struct rnic_xrcd *xrcd;
	struct rnic_pd *pd; /* of the second SRQ */
	struct rnic_cq *cq;
	struct rnic_mr *mr;
	struct rnic_srq *srq[2];
} x;

static void modify(struct bed *b, int side, enum rnic_qp_state to, uint32_t mask)
{
	struct rnic_qp_attr a = {
		.state = to,
		.access_flags = b->opts.access,
		.port_num = 1,
		.path_mtu = b->opts.mtu,
		.dest_qpn = rnic_qp_num(b->side[!side].qp),
		.max_dest_rd_atomic = 4,
		.max_rd_atomic = 4,
		.min_rnr_timer = b->opts.min_rnr_timer,
		.timeout = b->opts.timeout,
		.retry_cnt = b->opts.retry_cnt,
		.rnr_retry = b->opts.rnr_retry,
	};

	bed_flows(b, side, &a);
	/* None of what is required may be missing. */
	for (uint32_t bit = 2; bit <= mask; bit <<= 1)
		if (mask & bit)
			assert_int_equal(rnic_qp_modify(b->side[side].qp, &a,
							(mask & ~bit) | RNIC_QP_STATE, b->now),
					 -EINVAL);
	assert_int_equal(rnic_qp_modify(b->side[side].qp, &a, mask | RNIC_QP_STATE, b->now), 0);
}

static void connect_pair(struct bed *b)
{
	const uint32_t init = RNIC_QP_PKEY_INDEX | RNIC_QP_PORT | RNIC_QP_ACCESS_FLAGS;
	const uint32_t path = RNIC_QP_AV | RNIC_QP_PATH_MTU | RNIC_QP_DEST_QPN | RNIC_QP_RQ_PSN;

	modify(b, 0, RNIC_QPS_INIT, init);
	modify(b, 0, RNIC_QPS_RTR, path);
	modify(b, 0, RNIC_QPS_RTS,
	       RNIC_QP_SQ_PSN | RNIC_QP_TIMEOUT | RNIC_QP_RETRY_CNT | RNIC_QP_RNR_RETRY |
		       RNIC_QP_MAX_QP_RD_ATOMIC);
	modify(b, 1, RNIC_QPS_INIT, init);
	modify(b, 1, RNIC_QPS_RTR, path | RNIC_QP_MAX_DEST_RD_ATOMIC | RNIC_QP_MIN_RNR_TIMER);
}

static struct rnic_srq *srq_open(struct bed *b, struct rnic_xrcd *xrcd, struct rnic_pd *pd,
				 struct rnic_cq *cq)
{
	struct rnic_srq_attr a = {.max_wr = 64, .max_sge = 2};
	struct rnic_srq *srq;

	assert_int_equal(rnic_xrc_srq_create(pd, &a, xrcd, cq, &b->side[1], &srq), 0);
	return srq;
}

static struct bed *xrc_open_with(struct bed_opts opts)
{
	struct bed *b = bed_open(&opts);
	struct bed_side *i = &b->side[0], *t = &b->side[1];
	struct rnic_qp_init init = {.type = RNIC_QPT_XRC_SEND,
				    .send_cq = i->scq,
				    .cap = b->opts.cap,
				    .sq_sig_all = true,
				    .qp_user = i};

	assert_int_equal(rnic_qp_destroy(i->qp), 0);
	assert_int_equal(rnic_qp_destroy(t->qp), 0);
	assert_int_equal(rnic_xrcd_create(t->rnic, &x.xrcd), 0);
	assert_int_equal(rnic_pd_create(t->rnic, &x.pd), 0);
	assert_int_equal(rnic_cq_create(t->rnic, 4, t, &x.cq), 0);
	assert_int_equal(rnic_mr_create(x.pd, t->mem, BED_MEM, (uintptr_t)t->mem, 0xf, &x.mr), 0);
	x.srq[0] = srq_open(b, x.xrcd, t->pd, t->rcq);
	x.srq[1] = srq_open(b, x.xrcd, x.pd, x.cq);
	assert_int_equal(rnic_qp_create(i->pd, &init, &i->qp), 0);
	init = (struct rnic_qp_init){
		.type = RNIC_QPT_XRC_RECV, .xrcd = x.xrcd, .cap = b->opts.cap, .qp_user = t};
	assert_int_equal(rnic_qp_create(NULL, &init, &t->qp), 0);
	connect_pair(b);
	return b;
}

static struct bed *xrc_open(void)
{
	return xrc_open_with((struct bed_opts){0});
}

static void xrc_close(struct bed *b)
{
	for (int i = 0; i < 2; i++)
		if (x.srq[i])
			assert_int_equal(rnic_srq_destroy(x.srq[i]), 0);
	for (int i = 0; i < 2; i++) {
		if (b->side[i].qp)
			assert_int_equal(rnic_qp_destroy(b->side[i].qp), 0);
		b->side[i].qp = NULL;
	}
	assert_int_equal(rnic_xrcd_destroy(x.xrcd), 0);
	assert_int_equal(rnic_mr_destroy(x.mr), 0);
	assert_int_equal(rnic_cq_destroy(x.cq), 0);
	assert_int_equal(rnic_pd_destroy(x.pd), 0);
	bed_close(b);
}

static int recv_on(struct bed *b, int n, uint64_t wr_id, uint32_t off, uint32_t len)
{
	struct rnic_sge sge = bed_sge(b, 1, off, len);
	struct rnic_recv_wr wr = {.wr_id = wr_id, .sge = &sge, .num_sge = 1};

	if (n)
		sge.lkey = rnic_mr_lkey(x.mr);
	return rnic_post_srq_recv(x.srq[n], &wr);
}

/* To the SRQ of this number; what the operation reaches in memory stands at the same offset. */
static void post(struct bed *b, uint64_t wr_id, uint32_t opcode, uint32_t srqn, uint32_t off,
		 uint32_t len)
{
	bool second = x.srq[1] && srqn == rnic_srq_num(x.srq[1]);
	struct rnic_sge sge = bed_sge(b, 0, off, len);
	struct rnic_send_wr wr = {
		.wr_id = wr_id,
		.sge = &sge,
		.num_sge = 1,
		.opcode = opcode,
		.imm_or_rkey = 0x12345678,
		.remote_addr = bed_remote_addr(b, 1, off),
		.rkey = rnic_mr_rkey(second ? x.mr : b->side[1].mr),
		.xrc_srqn = srqn,
		.compare_add = 5,
		.swap = 9,
	};

	assert_int_equal(rnic_post_send(b->side[0].qp, &wr, b->now), 0);
}

static uint32_t num(int n)
{
	return rnic_srq_num(x.srq[n]);
}

static struct rnic_wc wc_of(struct rnic_cq *cq)
{
	struct rnic_wc wc;

	assert_int_equal(rnic_cq_poll(cq, &wc, 1), 1);
	return wc;
}

static void an_initiator_binds_and_invalidates(void **state)
{
	struct bed *b = xrc_open();
	struct bed_side *s = &b->side[0];

	(void)state;
	for (int type = RNIC_MW_TYPE_1; type <= RNIC_MW_TYPE_2; type++) {
		struct rnic_send_wr wr = {.wr_id = 1, .opcode = RNIC_WR_BIND_MW};
		struct rnic_mw *mw;

		assert_int_equal(rnic_mw_create(s->pd, (enum rnic_mw_type)type, &mw), 0);
		wr.bind.mw = mw;
		wr.bind.mr = s->mr;
		wr.bind.rkey = rnic_mw_rkey(mw) ^ 1;
		wr.bind.addr = bed_remote_addr(b, 0, 0);
		wr.bind.length = 100;
		wr.bind.access = RNIC_ACCESS_REMOTE_READ;
		assert_int_equal(rnic_post_send(s->qp, &wr, b->now), 0);
		bed_run(b);
		bed_expect(b, 0, false, 1, RNIC_WC_SUCCESS);
		assert_int_equal(rnic_mw_rkey(mw), wr.bind.rkey);
		assert_int_equal(rnic_mr_destroy(s->mr), -EBUSY);
		if (type == RNIC_MW_TYPE_1)
			wr.bind.length = 0;
		else
			wr = (struct rnic_send_wr){.wr_id = 1,
						   .opcode = RNIC_WR_LOCAL_INV,
						   .imm_or_rkey = rnic_mw_rkey(mw)};
		assert_int_equal(rnic_post_send(s->qp, &wr, b->now), 0);
		bed_run(b);
		bed_expect(b, 0, false, 1, RNIC_WC_SUCCESS);
		assert_int_equal(rnic_mw_destroy(mw), 0);
	}
	assert_int_equal(b->nlog, 0);
	xrc_close(b);
}

static void a_message_goes_to_the_srq_it_names(void **state)
{
	struct bed *b = xrc_open();
	struct rnic_wc wc;

	(void)state;
	assert_int_not_equal(num(0), num(1));
	bed_fill(b, 0, 0, 2 * LEN, 7);
	assert_int_equal(recv_on(b, 0, 100, 10000, LEN), 0);
	assert_int_equal(recv_on(b, 1, 200, 20000, LEN), 0);
	post(b, 1, RNIC_WR_SEND, num(1), 0, LEN);
	post(b, 2, RNIC_WR_SEND_WITH_IMM, num(0), LEN, LEN);
	bed_run(b);
	bed_expect(b, 0, false, 1, RNIC_WC_SUCCESS);
	bed_expect(b, 0, false, 2, RNIC_WC_SUCCESS);
	wc = wc_of(x.cq);
	assert_int_equal(wc.wr_id, 200);
	assert_int_equal(wc.byte_len, LEN);
	assert_int_equal(wc.qp_num, rnic_qp_num(b->side[1].qp));
	assert_int_equal(wc.src_qp, rnic_qp_num(b->side[0].qp));
	assert_int_equal(wc.wc_flags, 0);
	wc = bed_wc(b, 1, true);
	assert_int_equal(wc.wr_id, 100);
	assert_int_equal(wc.wc_flags, RNIC_WC_WITH_IMM);
	assert_int_equal(wc.imm_or_rkey, 0x12345678);
	assert_memory_equal(b->side[1].mem + 20000, b->side[0].mem, LEN);
	assert_memory_equal(b->side[1].mem + 10000, b->side[0].mem + LEN, LEN);
	for (uint32_t n = 0; n < b->nlog; n++) {
		assert_int_equal(b->log[n].h.bth.opcode & SERVICE_MASK, SERVICE_XRC);
		if (b->log[n].from == 0)
			assert_int_equal(b->log[n].h.xrc_srqn, num(n < 3 ? 1 : 0));
	}
	assert_int_equal(bed_sent(b, 0, OPCODE_XRC_SEND_MIDDLE), 2);
	xrc_close(b);
}

/* Every operation, while of each seven packets one is lost. */
static bool lose_one_of_seven(struct bed *b, struct bed_pkt *p)
{
	uint32_t *n = b->filter_arg;

	(void)p;
	return ++*n % 7 != 3;
}

static void every_operation_survives_loss(void **state)
{
	static const uint32_t ops[] = {
		RNIC_WR_SEND,	   RNIC_WR_RDMA_WRITE,		RNIC_WR_RDMA_READ,
		RNIC_WR_RDMA_READ, RNIC_WR_ATOMIC_CMP_AND_SWP,	RNIC_WR_RDMA_WRITE_WITH_IMM,
		RNIC_WR_SEND,	   RNIC_WR_ATOMIC_FETCH_AND_ADD};
	struct bed *b = xrc_open();
	uint32_t n = 0, value = 5;

	(void)state;
	b->filter = lose_one_of_seven;
	b->filter_arg = &n;
	for (uint32_t round = 0; round < 20; round++) {
		uint64_t *word = (uint64_t *)(void *)(b->side[1].mem + 4 * LEN);

		bed_fill(b, 0, 0, 2 * LEN, (uint8_t)round);
		bed_fill(b, 1, 2 * LEN, 2 * LEN, (uint8_t)(round + 100));
		*word = value;
		for (int i = 0; i < 3; i++)
			assert_int_equal(recv_on(b, i & 1, 10 + (uint64_t)i, 20000, LEN), 0);
		for (uint32_t i = 0; i < ARRAY_SIZE(ops); i++) {
			bool atomic = ops[i] == RNIC_WR_ATOMIC_CMP_AND_SWP ||
				      ops[i] == RNIC_WR_ATOMIC_FETCH_AND_ADD;

			post(b, i, ops[i], num(i == 5),
			     atomic			   ? 4 * LEN
			     : ops[i] == RNIC_WR_RDMA_READ ? 2 * LEN
							   : 0,
			     atomic ? 8 : LEN);
		}
		bed_sleep(b, 3000 * MS);
		for (uint32_t i = 0; i < ARRAY_SIZE(ops); i++)
			bed_expect(b, 0, false, i, RNIC_WC_SUCCESS);
		bed_expect(b, 1, true, 10, RNIC_WC_SUCCESS);
		bed_expect(b, 1, true, 12, RNIC_WC_SUCCESS);
		assert_int_equal(wc_of(x.cq).opcode, RNIC_WC_RECV_RDMA_WITH_IMM);
		assert_memory_equal(b->side[1].mem, b->side[0].mem, LEN);
		assert_memory_equal(b->side[1].mem + 20000, b->side[0].mem, LEN);
		assert_memory_equal(b->side[0].mem + 2 * LEN, b->side[1].mem + 2 * LEN, LEN);
		assert_int_equal(*word, 9 + 5);
		assert_int_equal(*(uint64_t *)(void *)(b->side[0].mem + 4 * LEN), 9);
		bed_expect_none(b, 0);
		bed_expect_none(b, 1);
	}
	assert_true(b->dropped > 50);
	xrc_close(b);
}

static void expect_refusal(struct bed *b, enum rnic_wc_status status, uint8_t syndrome,
			   enum rnic_event event)
{
	struct bed_pkt *p;

	bed_run(b);
	bed_expect(b, 0, false, 1, status);
	p = bed_nth(b, 1, OPCODE_XRC_ACKNOWLEDGE, bed_sent(b, 1, OPCODE_XRC_ACKNOWLEDGE) - 1);
	assert_int_equal(p->h.aeth.syndrome, syndrome);
	assert_int_equal(bed_state(b, 0), RNIC_QPS_ERR);
	assert_int_equal(bed_state(b, 1), RNIC_QPS_ERR);
	assert_true(bed_saw_event(b, 1, event));
	/* No SRQ is a target's own: its last receive is nothing to report. */
	assert_false(bed_saw_event(b, 1, RNIC_EVENT_QP_LAST_WQE_REACHED));
	bed_expect_none(b, 1);
	assert_true(rnic_cq_empty(x.cq));
	xrc_close(b);
}

static void a_number_that_nobody_has_is_an_invalid_request(void **state)
{
	static const uint32_t ops[] = {RNIC_WR_SEND, RNIC_WR_RDMA_WRITE, RNIC_WR_RDMA_READ};

	(void)state;
	for (uint32_t i = 0; i < ARRAY_SIZE(ops); i++) {
		struct bed *b = xrc_open();

		assert_int_equal(recv_on(b, 0, 1, 0, LEN), 0);
		/* Another process's, or one of ours that is not taken. */
		post(b, 1, ops[i], i == 1 ? num(0) ^ 0x10000 : num(0) ^ (num(0) ^ num(1)) ^ 0x8000,
		     0, 100);
		expect_refusal(b, RNIC_WC_REM_INV_REQ_ERR, 0x61, RNIC_EVENT_QP_REQ_ERR);
	}
}

static void another_domain_is_out_of_reach(void **state)
{
	struct bed *b = xrc_open();
	struct rnic_xrcd *other;
	struct rnic_srq *srq;

	(void)state;
	assert_int_equal(rnic_xrcd_create(b->side[1].rnic, &other), 0);
	srq = srq_open(b, other, b->side[1].pd, b->side[1].rcq);
	post(b, 1, RNIC_WR_RDMA_WRITE, rnic_srq_num(srq), 0, 100);
	bed_run(b);
	assert_int_equal(rnic_srq_destroy(srq), 0);
	assert_int_equal(rnic_xrcd_destroy(other), 0);
	assert_int_equal(b->side[1].mem[1], 0);
	expect_refusal(b, RNIC_WC_REM_ACCESS_ERR, 0x62, RNIC_EVENT_QP_ACCESS_ERR);
}

static void memory_is_that_of_the_srqs_protection_domain(void **state)
{
	struct bed *b = xrc_open();
	struct rnic_sge sge = bed_sge(b, 0, 0, 100);
	struct rnic_send_wr wr = {
		.wr_id = 1,
		.sge = &sge,
		.num_sge = 1,
		.opcode = RNIC_WR_RDMA_WRITE,
		.remote_addr = bed_remote_addr(b, 1, 0),
		.rkey = rnic_mr_rkey(x.mr),
		.xrc_srqn = num(0),
	};

	(void)state;
	assert_int_equal(rnic_post_send(b->side[0].qp, &wr, b->now), 0);
	expect_refusal(b, RNIC_WC_REM_ACCESS_ERR, 0x62, RNIC_EVENT_QP_ACCESS_ERR);
}

static void an_empty_srq_is_a_receiver_not_ready_whatever_the_others_hold(void **state)
{
	struct bed *b = xrc_open();

	(void)state;
	assert_int_equal(recv_on(b, 0, 7, 0, 100), 0);
	post(b, 1, RNIC_WR_SEND, num(1), 0, 100);
	bed_run(b);
	assert_int_equal(rnic_counters(b->side[1].rnic)->tx_rnr_nak, 1);
	bed_expect_none(b, 1);
	assert_int_equal(recv_on(b, 1, 8, 0, 100), 0);
	bed_sleep(b, 10 * MS);
	bed_expect(b, 0, false, 1, RNIC_WC_SUCCESS);
	assert_int_equal(wc_of(x.cq).wr_id, 8);
	xrc_close(b);
}

static void the_limit_is_the_srqs_own(void **state)
{
	struct bed *b = xrc_open();

	(void)state;
	for (int i = 0; i < 2; i++) {
		assert_int_equal(recv_on(b, 0, 1, 0, 100), 0);
		assert_int_equal(recv_on(b, 1, 1, 0, 100), 0);
	}
	assert_int_equal(rnic_srq_set_limit(x.srq[1], 2), 0);
	post(b, 1, RNIC_WR_SEND, num(0), 0, 100);
	bed_run(b);
	assert_false(bed_saw_event(b, 1, RNIC_EVENT_SRQ_LIMIT_REACHED));
	post(b, 2, RNIC_WR_SEND, num(1), 0, 100);
	bed_run(b);
	assert_true(bed_saw_event(b, 1, RNIC_EVENT_SRQ_LIMIT_REACHED));
	xrc_close(b);
}

static void a_message_may_not_change_its_srq(void **state)
{
	static const uint8_t first[] = {OPCODE_XRC_SEND_FIRST, OPCODE_XRC_WRITE_FIRST};
	static const uint8_t data[1024];

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct bed *b = xrc_open();
		struct pkt_hdr h = {.bth = {.opcode = first[i]}, .xrc_srqn = num(0)};

		assert_int_equal(recv_on(b, 0, 7, 0, LEN), 0);
		assert_int_equal(recv_on(b, 1, 8, 0, LEN), 0);
		h.reth.rkey = rnic_mr_rkey(b->side[1].mr);
		h.reth.va = bed_remote_addr(b, 1, 0);
		h.reth.dma_len = LEN;
		bed_forge(b, 0, h, data, 1024);
		assert_int_equal(bed_state(b, 1), RNIC_QPS_RTR);
		h.bth.opcode++; /* middle */
		h.bth.psn = 1;
		h.xrc_srqn = num(1);
		bed_forge(b, 0, h, data, 1024);
		assert_int_equal(bed_state(b, 1), RNIC_QPS_ERR);
		/* What was taken is the first SRQ's and ends in its CQ. */
		if (i == 0)
			bed_expect(b, 1, true, 7, RNIC_WC_WR_FLUSH_ERR);
		assert_true(rnic_cq_empty(b->side[1].rcq));
		assert_true(rnic_cq_empty(x.cq));
		xrc_close(b);
	}
}

static void an_srq_may_go_while_a_message_arrives_or_a_read_is_answered(void **state)
{
	struct bed *b = xrc_open();

	(void)state;
	assert_int_equal(recv_on(b, 1, 7, 0, LEN), 0);
	post(b, 1, RNIC_WR_SEND, num(1), 0, LEN);
	bed_deliver(b, bed_tx1(b, 0));
	assert_int_equal(rnic_srq_destroy(x.srq[1]), 0);
	x.srq[1] = NULL;
	expect_refusal(b, RNIC_WC_REM_INV_REQ_ERR, 0x61, RNIC_EVENT_QP_REQ_ERR);

	b = xrc_open();
	post(b, 1, RNIC_WR_RDMA_READ, num(1), 0, LEN);
	bed_deliver(b, bed_tx1(b, 0));
	bed_deliver(b, bed_tx1(b, 1));
	assert_int_equal(rnic_srq_destroy(x.srq[1]), 0);
	x.srq[1] = NULL;
	expect_refusal(b, RNIC_WC_REM_ACCESS_ERR, 0x62, RNIC_EVENT_QP_ACCESS_ERR);
}

static void a_read_is_answered_from_its_own_srqs_domain(void **state)
{
	struct bed *b = xrc_open();

	(void)state;
	bed_fill(b, 1, 0, LEN, 3);
	assert_int_equal(recv_on(b, 0, 7, 20000, LEN), 0);
	post(b, 1, RNIC_WR_RDMA_READ, num(1), 0, LEN);
	post(b, 2, RNIC_WR_SEND, num(0), 8000, LEN);
	/* All requests before any answer. */
	for (struct bed_pkt *p; (p = bed_tx1(b, 0));)
		bed_deliver(b, p);
	bed_run(b);
	bed_expect(b, 0, false, 1, RNIC_WC_SUCCESS);
	bed_expect(b, 0, false, 2, RNIC_WC_SUCCESS);
	bed_expect(b, 1, true, 7, RNIC_WC_SUCCESS);
	assert_memory_equal(b->side[0].mem, b->side[1].mem, LEN);
	xrc_close(b);
}

static void each_half_takes_only_what_is_for_it(void **state)
{
	struct bed *b = xrc_open();
	struct pkt_hdr h = {.bth = {.opcode = OPCODE_XRC_SEND_ONLY}, .xrc_srqn = num(0)};
	struct rnic_sge sge = bed_sge(b, 1, 0, 10);
	struct rnic_send_wr send = {.sge = &sge, .num_sge = 1, .opcode = RNIC_WR_SEND};
	struct rnic_recv_wr recv = {.sge = &sge, .num_sge = 1};

	(void)state;
	assert_int_equal(recv_on(b, 0, 7, 0, LEN), 0);
	bed_forge(b, 1, h, "12345678", 8); /* a request for the initiator */
	h.bth.opcode = OPCODE_XRC_ACKNOWLEDGE;
	bed_forge(b, 0, h, NULL, 0); /* a response for the target */
	h.bth.opcode = OPCODE_RC_SEND_ONLY;
	bed_forge(b, 0, h, "12345678", 8); /* of another service */
	assert_int_equal(rnic_counters(b->side[0].rnic)->rx_drop_service, 1);
	assert_int_equal(rnic_counters(b->side[1].rnic)->rx_drop_service, 2);
	assert_null(bed_tx1(b, 0));
	assert_null(bed_tx1(b, 1));
	assert_int_equal(rnic_post_recv(b->side[0].qp, &recv), -EINVAL);
	assert_int_equal(rnic_post_recv(b->side[1].qp, &recv), -EINVAL);
	modify(b, 1, RNIC_QPS_RTS, RNIC_QP_SQ_PSN | RNIC_QP_TIMEOUT);
	assert_int_equal(rnic_post_send(b->side[1].qp, &send, b->now), -EINVAL);
	bed_expect_none(b, 1);
	xrc_close(b);
}

static void what_is_in_use_stays(void **state)
{
	struct bed *b = xrc_open();
	struct rnic_qp_init bad[] = {
		{.type = RNIC_QPT_XRC_RECV},
		{.type = RNIC_QPT_XRC_RECV, .xrcd = x.xrcd, .recv_cq = x.cq},
		{.type = RNIC_QPT_XRC_SEND},
		{.type = RNIC_QPT_XRC_SEND, .send_cq = x.cq, .recv_cq = x.cq},
		{.type = RNIC_QPT_XRC_SEND, .send_cq = x.cq, .srq = x.srq[0]},
	};
	struct rnic_qp *qp;

	(void)state;
	assert_int_equal(rnic_cq_destroy(x.cq), -EBUSY);
	assert_int_equal(rnic_pd_destroy(x.pd), -EBUSY);
	assert_int_equal(rnic_xrcd_destroy(x.xrcd), -EBUSY);
	for (uint32_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_int_equal(rnic_qp_create(bad[i].xrcd ? NULL : x.pd, &bad[i], &qp), -EINVAL);
	xrc_close(b);
}

/* The receives are the SRQs', whose CQs are nothing of the target's. */
static void what_a_target_has_received_stays_when_it_goes(void **state)
{
	struct bed *b = xrc_open();

	(void)state;
	for (uint32_t i = 0; i < 2; i++) {
		assert_int_equal(recv_on(b, 1, 200 + i, 20000, LEN), 0);
		post(b, i, RNIC_WR_SEND, num(1), 0, LEN);
	}
	bed_run(b);
	assert_int_equal(rnic_qp_destroy(b->side[1].qp), 0);
	assert_int_equal(rnic_qp_destroy(b->side[0].qp), 0);
	b->side[0].qp = b->side[1].qp = NULL;
	assert_int_equal(wc_of(x.cq).wr_id, 200);
	assert_int_equal(wc_of(x.cq).wr_id, 201);
	assert_true(rnic_cq_empty(b->side[0].scq)); /* the initiator's are its own */
	xrc_close(b);
}

static void a_cq_that_runs_over_ends_who_completes_there(void **state)
{
	struct bed *b = xrc_open();

	(void)state;
	for (uint32_t i = 0; i < 5; i++) {
		assert_int_equal(recv_on(b, 1, i, 0, 100), 0);
		post(b, i, RNIC_WR_SEND, num(1), 0, 100);
	}
	bed_run(b);
	assert_true(bed_saw_event(b, 1, RNIC_EVENT_CQ_ERR));
	assert_int_equal(bed_state(b, 1), RNIC_QPS_ERR);
	for (uint32_t i = 0; i < 4; i++)
		assert_int_equal(wc_of(x.cq).wr_id, i);
	assert_true(rnic_cq_empty(x.cq));
	xrc_close(b);
}

static void creation_survives_the_loss_of_any_allocation(void **state)
{
	struct bed *b = xrc_open();
	struct bed_side *t = &b->side[1];
	struct rnic_srq_attr a = {.max_wr = 8, .max_sge = 1};
	struct rnic_qp_init init = {.type = RNIC_QPT_XRC_RECV, .xrcd = x.xrcd, .qp_user = t};
	struct rnic_xrcd *xrcd;
	struct rnic_srq *srq;
	struct rnic_qp *qp;

	(void)state;
	for (long n = 0; n < 2; n++) {
		t->allocs_left = n;
		assert_int_equal(rnic_xrc_srq_create(t->pd, &a, x.xrcd, t->rcq, t, &srq), -ENOMEM);
		t->allocs_left = n;
		assert_int_equal(rnic_qp_create(NULL, &init, &qp), -ENOMEM);
	}
	t->allocs_left = 0;
	assert_int_equal(rnic_xrcd_create(t->rnic, &xrcd), -ENOMEM);
	t->allocs_left = -1;
	xrc_close(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_message_goes_to_the_srq_it_names),
		cmocka_unit_test(an_initiator_binds_and_invalidates),
		cmocka_unit_test(every_operation_survives_loss),
		cmocka_unit_test(a_number_that_nobody_has_is_an_invalid_request),
		cmocka_unit_test(another_domain_is_out_of_reach),
		cmocka_unit_test(memory_is_that_of_the_srqs_protection_domain),
		cmocka_unit_test(an_empty_srq_is_a_receiver_not_ready_whatever_the_others_hold),
		cmocka_unit_test(the_limit_is_the_srqs_own),
		cmocka_unit_test(a_message_may_not_change_its_srq),
		cmocka_unit_test(an_srq_may_go_while_a_message_arrives_or_a_read_is_answered),
		cmocka_unit_test(a_read_is_answered_from_its_own_srqs_domain),
		cmocka_unit_test(each_half_takes_only_what_is_for_it),
		cmocka_unit_test(what_is_in_use_stays),
		cmocka_unit_test(what_a_target_has_received_stays_when_it_goes),
		cmocka_unit_test(a_cq_that_runs_over_ends_who_completes_there),
		cmocka_unit_test(creation_survives_the_loss_of_any_allocation),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
