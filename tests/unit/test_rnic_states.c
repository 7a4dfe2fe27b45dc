/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* QP states, and object lifetimes. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "rnic_bed.h"

/* ---- states --------------------------------------------------------------------------------- */

#define A(x) RNIC_QP_##x

static const uint32_t init_attrs = A(PKEY_INDEX) | A(PORT) | A(ACCESS_FLAGS);
static const uint32_t rtr_attrs =
	A(AV) | A(PATH_MTU) | A(DEST_QPN) | A(RQ_PSN) | A(MAX_DEST_RD_ATOMIC) | A(MIN_RNR_TIMER);
static const uint32_t rts_attrs =
	A(TIMEOUT) | A(RETRY_CNT) | A(RNR_RETRY) | A(SQ_PSN) | A(MAX_QP_RD_ATOMIC);

static int modify(struct bed *b, enum rnic_qp_state to, uint32_t mask)
{
	struct rnic_qp_attr a = {.state = to,
				 .path_mtu = RNIC_MTU_1024,
				 .access_flags = 0xf,
				 .dest_qpn = 1,
				 .port_num = 1};

	return rnic_qp_modify(b->side[0].qp, &a, mask | A(STATE), b->now);
}

/* Brings the QP of side 0, wherever it is, to a state. */
static void bring_to(struct bed *b, enum rnic_qp_state to)
{
	assert_int_equal(modify(b, RNIC_QPS_RESET, 0), 0);
	if (to == RNIC_QPS_RESET)
		return;
	assert_int_equal(modify(b, RNIC_QPS_INIT, init_attrs), 0);
	if (to == RNIC_QPS_INIT)
		return;
	if (to == RNIC_QPS_ERR) {
		assert_int_equal(modify(b, RNIC_QPS_ERR, 0), 0);
		return;
	}
	assert_int_equal(modify(b, RNIC_QPS_RTR, rtr_attrs), 0);
	if (to == RNIC_QPS_RTR)
		return;
	assert_int_equal(modify(b, RNIC_QPS_RTS, rts_attrs), 0);
	if (to == RNIC_QPS_SQD)
		assert_int_equal(modify(b, RNIC_QPS_SQD, 0), 0);
}

static void transitions_are_those_of_the_standard(void **state)
{
	static const struct {
		enum rnic_qp_state from, to;
		uint32_t mask;
	} legal[] = {
		{RNIC_QPS_RESET, RNIC_QPS_RESET, 0},
		{RNIC_QPS_RESET, RNIC_QPS_INIT, A(PKEY_INDEX) | A(PORT) | A(ACCESS_FLAGS)},
		{RNIC_QPS_INIT, RNIC_QPS_RESET, 0},
		{RNIC_QPS_INIT, RNIC_QPS_INIT, 0},
		{RNIC_QPS_INIT, RNIC_QPS_ERR, 0},
		{RNIC_QPS_INIT, RNIC_QPS_RTR,
		 A(AV) | A(PATH_MTU) | A(DEST_QPN) | A(RQ_PSN) | A(MAX_DEST_RD_ATOMIC) |
			 A(MIN_RNR_TIMER)},
		{RNIC_QPS_RTR, RNIC_QPS_RESET, 0},
		{RNIC_QPS_RTR, RNIC_QPS_ERR, 0},
		{RNIC_QPS_RTR, RNIC_QPS_RTS,
		 A(TIMEOUT) | A(RETRY_CNT) | A(RNR_RETRY) | A(SQ_PSN) | A(MAX_QP_RD_ATOMIC)},
		{RNIC_QPS_RTS, RNIC_QPS_RESET, 0},
		{RNIC_QPS_RTS, RNIC_QPS_ERR, 0},
		{RNIC_QPS_RTS, RNIC_QPS_RTS, 0},
		{RNIC_QPS_RTS, RNIC_QPS_SQD, 0},
		{RNIC_QPS_SQD, RNIC_QPS_RESET, 0},
		{RNIC_QPS_SQD, RNIC_QPS_ERR, 0},
		{RNIC_QPS_SQD, RNIC_QPS_RTS, 0},
		{RNIC_QPS_SQD, RNIC_QPS_SQD, 0},
		{RNIC_QPS_ERR, RNIC_QPS_RESET, 0},
		{RNIC_QPS_ERR, RNIC_QPS_ERR, 0},
	};
	static const enum rnic_qp_state states[] = {RNIC_QPS_RESET, RNIC_QPS_INIT, RNIC_QPS_RTR,
						    RNIC_QPS_RTS,   RNIC_QPS_SQD,  RNIC_QPS_ERR};
	struct bed *b = bed_open(NULL);

	(void)state;
	for (size_t f = 0; f < ARRAY_SIZE(states); f++)
		for (int to = RNIC_QPS_RESET; to <= RNIC_QPS_ERR; to++) {
			bool is_legal = false;
			uint32_t mask = 0;

			for (size_t i = 0; i < ARRAY_SIZE(legal); i++)
				if (legal[i].from == states[f] && (int)legal[i].to == to) {
					is_legal = true;
					mask = legal[i].mask;
				}
			bring_to(b, states[f]);
			assert_int_equal(modify(b, (enum rnic_qp_state)to, mask),
					 is_legal ? 0 : -EINVAL);
			assert_int_equal(bed_state(b, 0), is_legal ? to : (int)states[f]);
			if (!is_legal || !mask)
				continue;
			/* Without any one of what is required it is refused. */
			for (uint32_t bit = 1; bit <= mask; bit <<= 1) {
				if (!(mask & bit))
					continue;
				bring_to(b, states[f]);
				assert_int_equal(modify(b, (enum rnic_qp_state)to, mask & ~bit),
						 -EINVAL);
				assert_int_equal(bed_state(b, 0), states[f]);
			}
		}
	bed_close(b);
}

static void a_query_tells_where_the_psns_stand(void **state)
{
	struct bed *b = bed_open(&(struct bed_opts){.psn = {0xffffff, 100}});
	struct rnic_qp_attr q;

	(void)state;
	rnic_qp_query(b->side[0].qp, &q, NULL);
	assert_int_equal(q.sq_psn, 0xffffff);
	assert_int_equal(q.rq_psn, 100);
	assert_int_equal(bed_rdma(b, 0, 1, RNIC_WR_RDMA_WRITE, 0, 0, 2500), 0);
	assert_int_equal(bed_rdma(b, 1, 2, RNIC_WR_RDMA_WRITE, 0, 0, 10), 0);
	bed_run(b);
	rnic_qp_query(b->side[0].qp, &q, NULL);
	assert_int_equal(q.sq_psn, 2);
	assert_int_equal(q.rq_psn, 101);
	bed_close(b);
	b = bed_open(&(struct bed_opts){.type = RNIC_QPT_UD, .mtu = RNIC_MTU_2048});
	rnic_qp_query(b->side[0].qp, &q, NULL);
	assert_int_equal(q.path_mtu, RNIC_MTU_2048);
	bed_close(b);
}

static void a_forbidden_attribute_changes_nothing(void **state)
{
	struct bed *b = bed_open(NULL);
	struct rnic_qp_attr a = {.state = RNIC_QPS_RTS, .min_rnr_timer = 3, .path_mtu = 1}, q;

	(void)state;
	assert_int_equal(rnic_qp_modify(b->side[0].qp, &a, A(MIN_RNR_TIMER) | A(PATH_MTU), b->now),
			 -EINVAL);
	rnic_qp_query(b->side[0].qp, &q, NULL);
	assert_int_equal(q.min_rnr_timer, 12);
	assert_int_equal(q.path_mtu, RNIC_MTU_1024);
	assert_int_equal(rnic_qp_modify(b->side[0].qp, &a, A(MIN_RNR_TIMER), b->now), 0);
	rnic_qp_query(b->side[0].qp, &q, NULL);
	assert_int_equal(q.min_rnr_timer, 3);
	a.cur_state = RNIC_QPS_SQD; /* it is not */
	assert_int_equal(rnic_qp_modify(b->side[0].qp, &a, A(STATE) | A(CUR_STATE), b->now),
			 -EINVAL);
	a.min_rnr_timer = 32; /* five bits */
	assert_int_equal(rnic_qp_modify(b->side[0].qp, &a, A(MIN_RNR_TIMER), b->now), -EINVAL);
	bed_close(b);
}

static void posting_is_allowed_where_the_state_allows_it(void **state)
{
	struct bed *b = bed_open(NULL);

	(void)state;
	bring_to(b, RNIC_QPS_RESET);
	assert_int_equal(bed_send(b, 0, 1, 0, 8), -EINVAL);
	assert_int_equal(bed_recv(b, 0, 1, 0, 8), -EINVAL);
	bring_to(b, RNIC_QPS_INIT);
	assert_int_equal(bed_send(b, 0, 1, 0, 8), -EINVAL);
	assert_int_equal(bed_recv(b, 0, 1, 0, 8), 0);
	bring_to(b, RNIC_QPS_RTR);
	assert_int_equal(bed_send(b, 0, 1, 0, 8), -EINVAL);
	assert_int_equal(bed_recv(b, 0, 1, 0, 8), 0);
	bring_to(b, RNIC_QPS_RTS);
	assert_int_equal(bed_send(b, 0, 1, 0, 8), 0);
	bring_to(b, RNIC_QPS_RESET);
	bed_expect_none(b, 0); /* RESET forgets without a word */
	bed_close(b);
}

static void reset_takes_back_what_the_qp_has_completed_and_no_others(void **state)
{
	struct bed *b = bed_open(NULL);
	struct rnic_qp *old[2];
	struct rnic_wc wc;

	(void)state;
	for (uint64_t id = 1; id <= 3; id++) /* of three packets each, in turn from two QPs */
		assert_int_equal(bed_rdma(b, 0, id, RNIC_WR_RDMA_WRITE, 0, 0, 3000), 0);
	bed_second_pair(b, old);
	for (uint64_t id = 11; id <= 13; id++)
		assert_int_equal(bed_rdma(b, 0, id, RNIC_WR_RDMA_WRITE, 0, 0, 3000), 0);
	bed_run(b);
	assert_int_equal(bed_modify(b, 0, RNIC_QPS_RESET), 0);
	for (uint64_t id = 1; id <= 3; id++) {
		assert_int_equal(rnic_cq_poll(b->side[0].scq, &wc, 1), 1);
		assert_int_equal(wc.wr_id, id);
		assert_int_equal(wc.qp_num, rnic_qp_num(old[0]));
	}
	bed_expect_none(b, 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(rnic_qp_destroy(old[i]), 0);
	bed_close(b);
}

static void a_queue_takes_what_it_was_made_for(void **state)
{
	struct bed *b = bed_open(&(struct bed_opts){.cap = {3, 5, 2, 3, 20}});
	struct rnic_sge sge[33] = {0};
	struct rnic_send_wr wr = {.sge = sge, .num_sge = 3, .opcode = RNIC_WR_SEND};
	struct rnic_recv_wr rwr = {.sge = sge, .num_sge = 4};
	struct rnic_qp_attr a;
	struct rnic_qp_cap cap;
	uint32_t n = 0;

	(void)state;
	rnic_qp_query(b->side[0].qp, &a, &cap);
	assert_true(cap.max_send_wr >= 3 && cap.max_recv_wr >= 5 && cap.max_send_sge >= 2 &&
		    cap.max_recv_sge >= 3 && cap.max_inline_data >= 20);
	assert_int_equal(rnic_post_send(b->side[0].qp, &wr, b->now), -EINVAL);
	assert_int_equal(rnic_post_recv(b->side[0].qp, &rwr), -EINVAL);
	wr.num_sge = 33;
	wr.flags = RNIC_SEND_INLINE;
	assert_int_equal(rnic_post_send(b->side[0].qp, &wr, b->now), -EINVAL);
	wr.num_sge = 1;
	sge[0] = bed_sge(b, 0, 0, cap.max_inline_data + 1);
	assert_int_equal(rnic_post_send(b->side[0].qp, &wr, b->now), -EINVAL);
	wr.opcode = 99;
	assert_int_equal(rnic_post_send(b->side[0].qp, &wr, b->now), -EINVAL);
	wr.opcode = RNIC_WR_RDMA_READ; /* has nothing to send inline */
	sge[0].length = 4;
	assert_int_equal(rnic_post_send(b->side[0].qp, &wr, b->now), -EINVAL);
	while (bed_send(b, 0, n, 0, 8) == 0)
		n++;
	assert_int_equal(n, cap.max_send_wr);
	assert_int_equal(bed_send(b, 0, n, 0, 8), -ENOMEM);
	for (n = 0; bed_recv(b, 0, n, 0, 8) == 0; n++)
		;
	assert_int_equal(n, cap.max_recv_wr);
	bed_close(b);
}

static void the_first_packet_in_rtr_is_announced_once(void **state)
{
	struct bed *b = bed_open(NULL);

	(void)state;
	assert_int_equal(bed_modify(b, 1, RNIC_QPS_RESET), 0);
	assert_int_equal(bed_modify(b, 1, RNIC_QPS_INIT), 0);
	assert_int_equal(bed_rdma(b, 0, 1, RNIC_WR_RDMA_WRITE, 0, 0, 8), 0);
	bed_run(b); /* not ready: dropped */
	assert_int_equal(b->side[1].nevents, 0);
	assert_int_equal(bed_modify(b, 1, RNIC_QPS_RTR), 0);
	bed_sleep(b, 20 * MS);
	bed_expect(b, 0, false, 1, RNIC_WC_SUCCESS);
	assert_int_equal(bed_rdma(b, 0, 2, RNIC_WR_RDMA_WRITE, 0, 0, 8), 0);
	bed_run(b);
	assert_true(bed_saw_event(b, 1, RNIC_EVENT_COMM_EST));
	assert_int_equal(b->side[1].nevents, 1);
	bed_close(b);
}

static void draining_finishes_what_was_begun(void **state)
{
	struct bed *b = bed_open(NULL);
	struct rnic_qp_attr a = {.state = RNIC_QPS_SQD, .en_sqd_async_notify = true}, q;

	(void)state;
	assert_int_equal(bed_rdma(b, 0, 1, RNIC_WR_RDMA_WRITE, 0, 0, 5000), 0);
	assert_int_equal(bed_rdma(b, 0, 2, RNIC_WR_RDMA_WRITE, 0, 0, 10), 0);
	bed_deliver(b, bed_tx1(b, 0));
	assert_int_equal(
		rnic_qp_modify(b->side[0].qp, &a, A(STATE) | A(EN_SQD_ASYNC_NOTIFY), b->now), 0);
	rnic_qp_query(b->side[0].qp, &q, NULL);
	assert_true(q.sq_draining);
	assert_int_equal(b->side[0].nevents, 0);
	bed_run(b);
	bed_expect(b, 0, false, 1, RNIC_WC_SUCCESS);
	bed_expect_none(b, 0);
	assert_true(bed_saw_event(b, 0, RNIC_EVENT_SQ_DRAINED));
	rnic_qp_query(b->side[0].qp, &q, NULL);
	assert_false(q.sq_draining);
	/* The responder goes on, and posting, too. */
	assert_int_equal(bed_rdma(b, 1, 3, RNIC_WR_RDMA_READ, 0, 0, 10), 0);
	assert_int_equal(bed_rdma(b, 0, 4, RNIC_WR_RDMA_WRITE, 0, 0, 10), 0);
	bed_run(b);
	bed_expect(b, 1, false, 3, RNIC_WC_SUCCESS);
	bed_expect_none(b, 0);
	assert_int_equal(bed_modify(b, 0, RNIC_QPS_RTS), 0);
	bed_run(b);
	bed_expect(b, 0, false, 2, RNIC_WC_SUCCESS);
	bed_expect(b, 0, false, 4, RNIC_WC_SUCCESS);
	assert_int_equal(b->side[0].nevents, 1);
	bed_close(b);
}

/* The mask says that the value counts, and the value whether there is an event. */
static void who_says_no_to_the_event_gets_none(void **state)
{
	const uint32_t notify = A(STATE) | A(EN_SQD_ASYNC_NOTIFY);
	struct rnic_qp_attr a = {.state = RNIC_QPS_SQD};
	struct bed *b = bed_open(NULL);
	struct rnic_qp *qp = b->side[0].qp;

	(void)state;
	assert_int_equal(rnic_qp_modify(qp, &a, notify, b->now), 0);
	assert_int_equal(b->side[0].nevents, 0);
	assert_int_equal(bed_modify(b, 0, RNIC_QPS_RTS), 0);
	a.state = RNIC_QPS_RTS; /* there it is no attribute, whatever it says */
	assert_int_equal(rnic_qp_modify(qp, &a, notify, b->now), -EINVAL);
	a = (struct rnic_qp_attr){.state = RNIC_QPS_SQD, .en_sqd_async_notify = true};
	assert_int_equal(rnic_qp_modify(qp, &a, notify, b->now), 0);
	assert_int_equal(b->side[0].nevents, 1);
	assert_true(bed_saw_event(b, 0, RNIC_EVENT_SQ_DRAINED));
	bed_close(b);
}

static void a_reset_pair_starts_anew(void **state)
{
	struct bed *b = bed_open(NULL);

	(void)state;
	for (int i = 0; i < 3; i++) {
		assert_int_equal(bed_recv(b, 1, 2, 0, 8000), 0);
		assert_int_equal(bed_send(b, 0, 1, 0, 8000), 0);
		for (int k = 0; k < i; k++)
			bed_deliver(b, bed_tx1(b, 0)); /* left in the middle */
		assert_int_equal(bed_modify(b, 0, RNIC_QPS_RESET), 0);
		assert_int_equal(bed_modify(b, 1, RNIC_QPS_RESET), 0);
		bed_connect(b);
		assert_int_equal(bed_recv(b, 1, 4, 0, 3000), 0);
		assert_int_equal(bed_send(b, 0, 3, 0, 3000), 0);
		bed_run(b);
		bed_expect(b, 0, false, 3, RNIC_WC_SUCCESS);
		bed_expect(b, 1, true, 4, RNIC_WC_SUCCESS);
	}
	bed_close(b);
}

/* ---- objects -------------------------------------------------------------------------------- */

static void what_is_in_use_can_not_be_destroyed(void **state)
{
	struct bed *b = bed_open(NULL);
	struct bed_side *s = &b->side[0];

	(void)state;
	assert_int_equal(rnic_cq_destroy(s->scq), -EBUSY);
	assert_int_equal(rnic_cq_destroy(s->rcq), -EBUSY);
	assert_int_equal(rnic_pd_destroy(s->pd), -EBUSY);
	bed_close(b);
}

static void a_qp_may_go_with_packets_on_the_way(void **state)
{
	struct bed *b = bed_open(NULL);

	(void)state;
	assert_int_equal(bed_recv(b, 1, 1, 0, 5000), 0);
	assert_int_equal(bed_send(b, 0, 1, 0, 5000), 0);
	assert_int_equal(bed_rdma(b, 1, 1, RNIC_WR_RDMA_READ, 0, 0, 5000), 0);
	bed_deliver(b, bed_tx1(b, 1));
	bed_deliver(b, bed_tx1(b, 0));
	assert_int_equal(rnic_qp_destroy(b->side[1].qp), 0);
	b->side[1].qp = NULL;
	for (struct bed_pkt *p; (p = bed_tx1(b, 0));)
		bed_deliver(b, p);
	assert_false(rnic_tx_pending(b->side[1].rnic));
	assert_int_equal(rnic_next_deadline(b->side[1].rnic), DEADLINE_NEVER);
	b->filter = bed_drop_all;
	bed_sleep(b, 1000 * MS);
	bed_expect(b, 0, false, 1, RNIC_WC_RETRY_EXC_ERR);
	bed_close(b);
}

static void creation_survives_every_failed_allocation(void **state)
{
	struct bed *b = bed_open(NULL);
	struct bed_side *s = &b->side[0];
	struct rnic_qp_init init = {
		.type = RNIC_QPT_RC, .send_cq = s->scq, .recv_cq = s->rcq, .cap = {4, 4, 1, 1, 0}};
	long allocs = s->allocs;
	struct rnic_qp *qp;
	struct rnic_cq *cq;
	struct rnic_mr *mr;
	struct rnic_mw *mw;
	struct rnic_pd *pd;

	(void)state;
	for (long n = 0; n < 3; n++) {
		s->allocs_left = n;
		assert_int_equal(rnic_qp_create(s->pd, &init, &qp), -ENOMEM);
		assert_int_equal(s->allocs, allocs);
	}
	for (long n = 0; n < 2; n++) {
		s->allocs_left = n;
		assert_int_equal(rnic_cq_create(s->rnic, 8, NULL, &cq), -ENOMEM);
		assert_int_equal(s->allocs, allocs);
	}
	s->allocs_left = 0;
	assert_int_equal(rnic_cq_resize(s->scq, 8), -ENOMEM);
	assert_int_equal(rnic_mr_create(s->pd, s->mem, 8, 0, 0, &mr), -ENOMEM);
	assert_int_equal(rnic_mw_create(s->pd, RNIC_MW_TYPE_2, &mw), -ENOMEM);
	assert_int_equal(rnic_pd_create(s->rnic, &pd), -ENOMEM);
	assert_int_equal(s->allocs, allocs);
	s->allocs_left = -1;
	bed_close(b);
}

static void a_region_is_checked_when_it_is_made(void **state)
{
	struct bed *b = bed_open(NULL);
	struct bed_side *s = &b->side[0];
	struct rnic_mr *mr;

	(void)state;
	assert_int_equal(rnic_mr_create(s->pd, s->mem, 8, 0, RNIC_ACCESS_REMOTE_WRITE, &mr),
			 -EINVAL);
	assert_int_equal(rnic_mr_create(s->pd, s->mem, 8, 0, RNIC_ACCESS_REMOTE_ATOMIC, &mr),
			 -EINVAL);
	assert_int_equal(rnic_mr_create(s->pd, s->mem, SIZE_MAX, 0, 0, &mr), -EINVAL);
	assert_int_equal(rnic_mr_create(s->pd, s->mem, 100, UINT64_MAX - 50, 0, &mr), -EINVAL);
	bed_close(b);
}

static int by_value(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

static void keys_are_scattered_and_go_stale(void **state)
{
	struct bed *b = bed_open(NULL);
	struct bed_side *s = &b->side[0];
	enum { N = 1000 };
	static struct rnic_mr *mr[N];
	static uint32_t key[2 * N];
	uint32_t near = 0;

	(void)state;
	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < N; i++) {
			assert_int_equal(rnic_mr_create(s->pd, s->mem, 8, 0, 0, &mr[i]), 0);
			key[round * N + i] = rnic_mr_lkey(mr[i]);
			assert_int_equal(rnic_mr_lkey(mr[i]), rnic_mr_rkey(mr[i]));
			near += i && (key[i] >> 8) - (key[i - 1] >> 8) + 16 < 32;
		}
		for (int i = 0; i < N; i++)
			assert_int_equal(rnic_mr_destroy(mr[i]), 0);
	}
	assert_true(near < 10);
	qsort(key, 2 * N, sizeof(*key), by_value);
	for (int i = 1; i < 2 * N; i++)
		assert_int_not_equal(key[i], key[i - 1]);
	bed_close(b);
}

static void qpns_are_scattered_within_the_slot_and_rest(void **state)
{
	struct bed *b = bed_open(NULL);
	struct bed_side *s = &b->side[1];
	enum { N = 5000 };
	static uint32_t qpn[N];
	uint32_t near = 0;

	(void)state;
	for (int i = 0; i < N; i++) {
		struct rnic_qp_init init = {.type = RNIC_QPT_RC,
					    .send_cq = s->scq,
					    .recv_cq = s->rcq,
					    .cap = {1, 1, 1, 1, 0}};
		struct rnic_qp *qp;

		assert_int_equal(rnic_qp_create(s->pd, &init, &qp), 0);
		qpn[i] = rnic_qp_num(qp);
		assert_int_equal(qpn[i] >> 16, 2);
		near += i && qpn[i] - qpn[i - 1] + 16 < 32;
		assert_int_equal(rnic_qp_destroy(qp), 0);
	}
	assert_true(near < 30);
	qsort(qpn, N, sizeof(*qpn), by_value);
	for (int i = 1; i < N; i++)
		assert_int_not_equal(qpn[i], qpn[i - 1]);
	bed_close(b);
}

static void a_qp_of_an_unknown_service_or_beyond_the_limits_is_refused(void **state)
{
	struct bed *b = bed_open(NULL);
	struct rnic_qp_init init = {.type = RNIC_QPT_UD + 1,
				    .send_cq = b->side[0].scq,
				    .recv_cq = b->side[0].rcq,
				    .cap = {1, 1, 1, 1, 0}};
	struct rnic_qp *qp;

	(void)state;
	assert_int_equal(rnic_qp_create(b->side[0].pd, &init, &qp), -EOPNOTSUPP);
	init.type = RNIC_QPT_RC;
	init.cap.max_send_wr = RNIC_MAX_QP_WR + 1;
	assert_int_equal(rnic_qp_create(b->side[0].pd, &init, &qp), -EINVAL);
	bed_close(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(transitions_are_those_of_the_standard),
		cmocka_unit_test(a_query_tells_where_the_psns_stand),
		cmocka_unit_test(a_forbidden_attribute_changes_nothing),
		cmocka_unit_test(posting_is_allowed_where_the_state_allows_it),
		cmocka_unit_test(reset_takes_back_what_the_qp_has_completed_and_no_others),
		cmocka_unit_test(a_queue_takes_what_it_was_made_for),
		cmocka_unit_test(the_first_packet_in_rtr_is_announced_once),
		cmocka_unit_test(draining_finishes_what_was_begun),
		cmocka_unit_test(who_says_no_to_the_event_gets_none),
		cmocka_unit_test(a_reset_pair_starts_anew),
		cmocka_unit_test(what_is_in_use_can_not_be_destroyed),
		cmocka_unit_test(a_qp_may_go_with_packets_on_the_way),
		cmocka_unit_test(creation_survives_every_failed_allocation),
		cmocka_unit_test(a_region_is_checked_when_it_is_made),
		cmocka_unit_test(keys_are_scattered_and_go_stale),
		cmocka_unit_test(qpns_are_scattered_within_the_slot_and_rest),
		cmocka_unit_test(a_qp_of_an_unknown_service_or_beyond_the_limits_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
