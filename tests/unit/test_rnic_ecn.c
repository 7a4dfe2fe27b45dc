/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Congestion that the network tells of: what packets say of themselves, and notifications. */
#include <string.h>

#include "rnic/cc/cc.h"
#include "rnic_bed.h"

#define CE	(0x60 | FLOW_ECN_CE)
#define CNP_GAP (50 * US)

static uint8_t tos_of_first(const struct cc_ops *cc, enum rnic_qp_type type)
{
	struct bed *b = bed_open(&(struct bed_opts){.cc = cc, .type = type});
	uint8_t tos;

	assert_int_equal(bed_rdma(b, 0, 1, RNIC_WR_RDMA_WRITE, 0, 0, 16), 0);
	tos = bed_tx1(b, 0)->flow.tos;
	bed_close(b);
	return tos;
}

static void who_answers_to_marks_says_so(void **state)
{
	(void)state;
	assert_int_equal(tos_of_first(&cc_dcqcn, RNIC_QPT_RC), FLOW_ECN_ECT0);
	assert_int_equal(tos_of_first(&cc_dcqcn, RNIC_QPT_UC), FLOW_ECN_ECT0);
	assert_int_equal(tos_of_first(&cc_halving, RNIC_QPT_RC), 0);
	assert_int_equal(tos_of_first(&cc_none, RNIC_QPT_RC), 0);
}

/* Its traffic class is no IP's: nobody marks it, nor is it taken for marked. */
static void rocev1_knows_no_marks(void **state)
{
	struct bed *b = bed_open(&(struct bed_opts){.cc = &cc_dcqcn, .rocev1 = true});
	struct bed_pkt *p;

	(void)state;
	assert_int_equal(bed_rdma(b, 0, 1, RNIC_WR_RDMA_WRITE, 0, 0, 16), 0);
	p = bed_tx1(b, 0);
	assert_int_equal(p->flow.tos, 0);
	p->flow.tos = CE;
	bed_deliver(b, p);
	bed_run(b);
	bed_expect(b, 0, false, 1, RNIC_WC_SUCCESS);
	assert_int_equal(bed_counters(b, 1)->rx_ecn_marked, 0);
	assert_int_equal(bed_counters(b, 1)->tx_cnp, 0);
	bed_close(b);
}

/* A WRITE of side 0 whose packet the network marks. */
static void marked(struct bed *b, uint64_t id)
{
	struct bed_pkt *p;

	assert_int_equal(bed_rdma(b, 0, id, RNIC_WR_RDMA_WRITE, 0, 0, 16), 0);
	p = bed_tx1(b, 0);
	assert_non_null(p);
	p->flow.tos = CE;
	bed_deliver(b, p);
}

static void a_mark_is_told_of_and_not_too_often(void **state)
{
	struct bed *b = bed_open(&(struct bed_opts){.cc = &cc_none});
	const uint32_t peer = rnic_qp_num(b->side[0].qp);
	const uint8_t want[28] = {
		0x81,	      0, 0xff, 0xff, 0x40, (uint8_t)(peer >> 16), (uint8_t)(peer >> 8),
		(uint8_t)peer};
	struct bed_pkt *p;

	(void)state;
	for (int i = 0; i < 3; i++) {
		marked(b, 2 * (uint64_t)i);
		p = bed_tx1(b, 1);
		assert_int_equal(p->len, sizeof(want));
		assert_memory_equal(p->data, want, sizeof(want));
		assert_int_equal(p->flow.tos, 48 << 2);
		assert_true(gid_equal(&p->flow.dgid, &b->side[0].bed->log[0].flow.sgid));
		bed_deliver(b, p);
		assert_int_equal(bed_counters(b, 0)->rx_cnp, i + 1);
		b->now += CNP_GAP - 1;
		marked(b, 2 * (uint64_t)i + 1);
		bed_run(b);
		assert_int_equal(bed_counters(b, 1)->tx_cnp, i + 1);
		assert_int_equal(bed_counters(b, 1)->rx_ecn_marked, 2 * (i + 1));
		b->now++;
	}
	assert_int_equal(bed_counters(b, 0)->rx_cnp, 3);
	for (uint64_t i = 0; i < 6; i++)
		bed_expect(b, 0, false, i, RNIC_WC_SUCCESS);
	bed_close(b);
}

/* Who may not send for a while tells of marks, and of what has come, all the same. */
static void a_notification_waits_for_no_pacer(void **state)
{
	struct bed *b = bed_open(&(struct bed_opts){.rate_mbps = 10});

	(void)state;
	assert_int_equal(bed_rdma(b, 1, 9, RNIC_WR_RDMA_WRITE, 0, 0, 128 << 10), 0);
	while (bed_tx1(b, 1))
		;
	marked(b, 1);
	assert_int_equal(bed_tx1(b, 1)->h.bth.opcode, OPCODE_CNP);
	assert_int_equal(bed_tx1(b, 1)->h.bth.opcode, OPCODE_RC_ACKNOWLEDGE);
	assert_null(bed_tx1(b, 1));
	bed_close(b);
}

static void who_failed_tells_no_more(void **state)
{
	struct bed *b = bed_open(&(struct bed_opts){0});

	(void)state;
	marked(b, 1);
	assert_int_equal(bed_modify(b, 1, RNIC_QPS_ERR), 0);
	assert_null(bed_tx1(b, 1));
	assert_int_equal(bed_counters(b, 1)->tx_cnp, 0);
	bed_close(b);
}

static void the_class_and_the_gap_can_be_set(void **state)
{
	struct cc_params params = cc_defaults;
	uint32_t least, most;
	struct bed *b;

	(void)state;
	assert_int_equal(cc_set_param(&params, "np_cnp_dscp", 11, 46, &least, &most), 0);
	assert_int_equal(cc_set_param(&params, "np_min_time_between_cnps=0", 24, 0, &least, &most),
			 0);
	b = bed_open(&(struct bed_opts){.cc_params = &params});
	for (uint64_t i = 0; i < 2; i++) {
		struct bed_pkt *p;

		marked(b, i);
		p = bed_tx1(b, 1);
		assert_int_equal(p->h.bth.opcode, OPCODE_CNP);
		assert_int_equal(p->flow.tos, 46 << 2);
	}
	bed_close(b);
}

static void has_its_instances(struct bed *b, uint64_t id)
{
	struct bed_pkt *p;

	assert_int_equal(bed_rdma(b, 0, id, RNIC_WR_RDMA_WRITE, 0, 0, 16), 0);
	p = bed_tx1(b, 0);
	assert_int_equal(p->flow.tos, 0);
	p->flow.tos = CE;
	bed_deliver(b, p);
	p = bed_tx1(b, 1);
	assert_int_equal(p->h.bth.opcode, OPCODE_CNP);
	assert_int_equal(p->flow.tos, 48 << 2);
	bed_run(b);
	bed_expect(b, 0, false, id, RNIC_WC_SUCCESS);
}

static void a_queue_pair_may_have_its_own(void **state)
{
	struct cc_params params = cc_defaults;
	struct rnic_qp *old[2];
	uint32_t least, most;
	struct bed_pkt *p;
	struct bed *b;

	(void)state;
	assert_int_equal(cc_set_param(&params, "np_cnp_dscp", 11, 46, &least, &most), 0);
	b = bed_open(&(struct bed_opts){.qp_cc = &cc_dcqcn, .qp_cc_params = &params});
	assert_int_equal(bed_rdma(b, 0, 1, RNIC_WR_RDMA_WRITE, 0, 0, 16), 0);
	p = bed_tx1(b, 0);
	assert_int_equal(p->flow.tos, FLOW_ECN_ECT0);
	p->flow.tos = CE;
	bed_deliver(b, p);
	p = bed_tx1(b, 1);
	assert_int_equal(p->h.bth.opcode, OPCODE_CNP);
	assert_int_equal(p->flow.tos, 46 << 2);
	bed_deliver(b, p);
	bed_run(b);
	bed_expect(b, 0, false, 1, RNIC_WC_SUCCESS);
	/* Others beside it have not, nor has itself in another life. */
	b->opts.qp_cc = NULL;
	b->opts.qp_cc_params = NULL;
	bed_second_pair(b, old);
	has_its_instances(b, 2);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(rnic_qp_destroy(b->side[i].qp), 0);
		b->side[i].qp = old[i];
		assert_int_equal(bed_modify(b, i, RNIC_QPS_RESET), 0);
	}
	bed_connect(b);
	has_its_instances(b, 3);
	bed_close(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_answers_to_marks_says_so),
		cmocka_unit_test(rocev1_knows_no_marks),
		cmocka_unit_test(a_mark_is_told_of_and_not_too_often),
		cmocka_unit_test(a_notification_waits_for_no_pacer),
		cmocka_unit_test(who_failed_tells_no_more),
		cmocka_unit_test(the_class_and_the_gap_can_be_set),
		cmocka_unit_test(a_queue_pair_may_have_its_own),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
