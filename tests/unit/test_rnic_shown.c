/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What the core counts where others can look, of itself and of each queue pair; and its traces. */
#include <stdlib.h>
#include <string.h>

#include "rnic/core.h"
#include "rnic_bed.h"

static void a_queue_pair_has_a_row_while_it_lives(void **state)
{
	struct bed *b = bed_open(&(struct bed_opts){.rows = 2});
	struct rnic_qp *old[2];
	struct rnic_qp_row *row = b->side[0].rows;

	(void)state;
	assert_int_equal(row[0].qpn, rnic_qp_num(b->side[0].qp));
	assert_int_equal(row[0].peer_qpn, rnic_qp_num(b->side[1].qp));
	assert_int_equal(row[0].state, RNIC_QPS_RTS);
	assert_int_equal(row[0].type, RNIC_QPT_RC);
	assert_int_equal(row[0].path_mtu, 1024);
	assert_int_equal(row[0].peer_gid_low, 0xffff0a000002ull);
	assert_int_equal(row[0].own_gid_low, 0xffff0a000001ull);
	assert_int_equal(row[1].qpn, 0);
	bed_second_pair(b, old);
	assert_int_equal(row[1].qpn, rnic_qp_num(b->side[0].qp));
	assert_int_equal(bed_rdma(b, 0, 1, RNIC_WR_RDMA_WRITE, 0, 0, 3000), 0);
	bed_run(b);
	bed_expect(b, 0, false, 1, RNIC_WC_SUCCESS);
	assert_int_equal(row[1].tx_packets, 3);
	assert_int_equal(row[1].tx_bytes, 3000);
	assert_int_equal(row[1].rx_packets, 1);
	assert_int_equal(b->side[1].rows[1].rx_bytes, 3000);
	assert_int_equal(row[0].tx_packets, 0);
	assert_int_equal(row[1].inflight, 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(rnic_qp_destroy(old[i]), 0);
	assert_int_equal(row[0].qpn, 0);
	assert_int_equal(row[0].state, 0);
	bed_close(b);
}

static void those_that_find_no_row_work_without(void **state)
{
	struct bed *b = bed_open(&(struct bed_opts){.rows = 1});
	struct rnic_qp *old[2];

	(void)state;
	bed_second_pair(b, old);
	assert_int_equal(bed_rdma(b, 0, 1, RNIC_WR_RDMA_WRITE, 0, 0, 3000), 0);
	bed_run(b);
	bed_expect(b, 0, false, 1, RNIC_WC_SUCCESS);
	assert_int_equal(b->side[0].rows[0].tx_packets, 0);
	assert_int_equal(b->side[0].rows[1].qpn, 0);
	assert_int_equal(b->side[0].seen.tx_packets, 3);
	assert_int_equal(b->side[0].seen.qps_unseen, 1);
	for (int i = 0; i < 2; i++)
		assert_int_equal(rnic_qp_destroy(old[i]), 0);
	assert_int_equal(b->side[0].seen.qps_unseen_gone, 0); /* it was another that went */
	assert_int_equal(rnic_qp_destroy(b->side[0].qp), 0);
	assert_int_equal(b->side[0].seen.qps_unseen_gone, 1);
	b->side[0].qp = NULL;
	bed_close(b);
}

static void a_loss_is_told_on_both_sides(void **state)
{
	struct bed *b = bed_open(&(struct bed_opts){.rows = 1});
	struct bed_drop d = {.side = 0, .opcode = OPCODE_RC_WRITE_MIDDLE, .from = 3, .count = 1};
	struct rnic_qp_row *tx = &b->side[0].rows[0], *rx = &b->side[1].rows[0];
	uint64_t whole = tx->window;

	(void)state;
	bed_drop(b, &d);
	assert_int_equal(bed_rdma(b, 0, 1, RNIC_WR_RDMA_WRITE, 0, 0, 20480), 0);
	bed_run(b);
	bed_expect(b, 0, false, 1, RNIC_WC_SUCCESS);
	assert_int_equal(rx->tx_nak_sequence, 1);
	assert_int_equal(tx->rx_nak_sequence, 1);
	assert_true(tx->tx_retransmit > 0);
	assert_int_equal(tx->tx_packets, 20 + tx->tx_retransmit);
	assert_true(rx->rx_out_of_sequence > 0);
	assert_true(tx->window < whole);
	assert_int_equal(tx->rx_packets, b->side[0].seen.rx_packets);
	assert_int_equal(b->side[0].seen.tx_retransmit, tx->tx_retransmit);
	assert_int_equal(b->side[0].seen.rx_nak_sequence, 1);
	bed_close(b);
}

/* Such that changes its table with a loss, too. */
static void its_congestion_control_is_shown_whatever_becomes_of_it(void **state)
{
	static const struct cc_ops *const all[] = {&cc_halving, &cc_dcqcn, &cc_delay, &cc_none};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		struct bed *b = bed_open(&(struct bed_opts){.rows = 1, .cc = all[i]});
		struct bed_drop d = {.side = 0, .opcode = OPCODE_RC_WRITE_MIDDLE, .count = 1};
		const uint64_t *shown = &b->side[0].rows[0].congestion_control;

		assert_int_equal(*shown, cc_number(all[i]));
		bed_drop(b, &d);
		assert_int_equal(bed_rdma(b, 0, 1, RNIC_WR_RDMA_WRITE, 0, 0, 20480), 0);
		bed_run(b);
		bed_expect(b, 0, false, 1, RNIC_WC_SUCCESS);
		assert_int_equal(bed_modify(b, 0, RNIC_QPS_ERR), 0);
		assert_int_equal(*shown, cc_number(all[i]));
		bed_close(b);
	}
}

static void a_window_that_is_used_up_is_counted(void **state)
{
	struct bed *b = bed_open(&(struct bed_opts){.rows = 1, .window_bytes = 4096});
	struct rnic_qp_row *row = &b->side[0].rows[0];

	(void)state;
	assert_int_equal(bed_rdma(b, 0, 1, RNIC_WR_RDMA_WRITE, 0, 0, 3000), 0);
	bed_run(b);
	assert_int_equal(row->window_stalls, 0);
	assert_int_equal(bed_rdma(b, 0, 2, RNIC_WR_RDMA_WRITE, 0, 0, 30000), 0);
	while (bed_tx1(b, 0))
		;
	assert_int_equal(row->window_stalls, 1);
	assert_int_equal(row->window, 4096);
	assert_int_equal(row->inflight, 4096);
	bed_close(b);
}

static void a_queue_pair_that_failed_says_why(void **state)
{
	struct bed *b = bed_open(&(struct bed_opts){.rows = 1, .zero_rnr_retry = true});

	(void)state;
	assert_int_equal(bed_send(b, 0, 1, 0, 10), 0);
	bed_run(b);
	bed_expect(b, 0, false, 1, RNIC_WC_RNR_RETRY_EXC_ERR);
	assert_int_equal(b->side[0].rows[0].state, RNIC_QPS_ERR);
	assert_int_equal(b->side[0].rows[0].cause, RNIC_CAUSE_RNR_RETRY);
	assert_int_equal(b->side[0].rows[0].rx_rnr_nak, 1);
	assert_int_equal(b->side[1].rows[0].tx_rnr_nak, 1);
	bed_close(b);
}

/* ---- traces ---------------------------------------------------------------------------------- */

static struct {
	int count[TRACE_EVENTS];
	uint64_t on[TRACE_EVENTS];
} traced;

static void take_trace(void *ctx, int event, uint32_t qpn, uint64_t a, uint64_t b)
{
	(void)ctx;
	(void)qpn;
	(void)a;
	(void)b;
	traced.count[event]++;
}

static void *plain_alloc(void *ctx, size_t bytes)
{
	(void)ctx;
	return calloc(1, bytes);
}

static void plain_free(void *ctx, void *p)
{
	(void)ctx;
	free(p);
}

static uint32_t plain_random(void *ctx)
{
	(void)ctx;
	return 7;
}

static void states_of_one(const uint64_t *on)
{
	static const struct rnic_ops ops = {.alloc = plain_alloc,
					    .free = plain_free,
					    .random = plain_random,
					    .trace = take_trace};
	struct rnic_config config = {.slot = 1, .traced = on};
	struct rnic_qp_attr a = {.state = RNIC_QPS_INIT, .port_num = 1};
	struct rnic_qp_init init = {.type = RNIC_QPT_RC, .cap = {1, 1, 1, 1, 0}};
	struct rnic_pd *pd;
	struct rnic *r;
	struct rnic_cq *cq;
	struct rnic_qp *qp;

	assert_int_equal(rnic_create(&r, &config, &ops, NULL), 0);
	assert_int_equal(rnic_pd_create(r, &pd), 0);
	assert_int_equal(rnic_cq_create(r, 1, NULL, &cq), 0);
	init.send_cq = init.recv_cq = cq;
	assert_int_equal(rnic_qp_create(pd, &init, &qp), 0);
	assert_int_equal(rnic_qp_modify(qp, &a,
					RNIC_QP_STATE | RNIC_QP_PKEY_INDEX | RNIC_QP_PORT |
						RNIC_QP_ACCESS_FLAGS,
					0),
			 0);
	assert_int_equal(rnic_qp_destroy(qp), 0);
	assert_int_equal(rnic_cq_destroy(cq), 0);
	assert_int_equal(rnic_pd_destroy(pd), 0);
	rnic_destroy(r);
}

static void an_event_is_traced_while_it_is_switched_on(void **state)
{
	(void)state;
	states_of_one(NULL);
	assert_int_equal(traced.count[TRACE_qp_state], 1);
	states_of_one(traced.on);
	assert_int_equal(traced.count[TRACE_qp_state], 1);
	traced.on[TRACE_rx] = 1;
	states_of_one(traced.on);
	assert_int_equal(traced.count[TRACE_qp_state], 1);
	traced.on[TRACE_qp_state] = 12345;
	states_of_one(traced.on);
	assert_int_equal(traced.count[TRACE_qp_state], 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_queue_pair_has_a_row_while_it_lives),
		cmocka_unit_test(those_that_find_no_row_work_without),
		cmocka_unit_test(a_loss_is_told_on_both_sides),
		cmocka_unit_test(its_congestion_control_is_shown_whatever_becomes_of_it),
		cmocka_unit_test(a_window_that_is_used_up_is_counted),
		cmocka_unit_test(a_queue_pair_that_failed_says_why),
		cmocka_unit_test(an_event_is_traced_while_it_is_switched_on),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
