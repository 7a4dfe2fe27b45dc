/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Shared receive queues: who takes what, the limit, the last receive. */
#include "rnic_bed.h"

#include <errno.h>
#include <string.h>

#define LEN 3000u /* three packets */

/* A second pair of QPs between the same sides, which shares side 1's SRQ. */
static struct rnic_qp *second[2];

static void second_open(struct bed *b)
{
	struct rnic_qp *first[2] = {b->side[0].qp, b->side[1].qp};

	for (int i = 0; i < 2; i++) {
		struct bed_side *s = &b->side[i];
		struct rnic_qp_init init = {.type = RNIC_QPT_RC,
					    .cap = b->opts.cap,
					    .sq_sig_all = true,
					    .send_cq = s->scq,
					    .recv_cq = s->rcq,
					    .srq = s->srq,
					    .qp_user = s};

		assert_int_equal(rnic_qp_create(s->pd, &init, &second[i]), 0);
		s->qp = second[i];
	}
	bed_connect(b);
	for (int i = 0; i < 2; i++)
		b->side[i].qp = first[i];
}

static void second_close(void)
{
	assert_int_equal(rnic_qp_destroy(second[0]), 0);
	assert_int_equal(rnic_qp_destroy(second[1]), 0);
}

static void messages_that_arrive_side_by_side_take_a_receive_each(void **state)
{
	struct bed *b = bed_open(&(struct bed_opts){.srq = true});
	struct rnic_qp *first = b->side[0].qp;
	struct bed_pkt *p;
	struct rnic_wc wc;

	(void)state;
	second_open(b);
	bed_fill(b, 0, 0, 2 * LEN, 7);
	for (uint32_t i = 0; i < 2; i++)
		assert_int_equal(bed_recv(b, 1, 100 + i, 10000 + i * LEN, LEN), 0);
	assert_int_equal(bed_send(b, 0, 1, 0, LEN), 0);
	p = bed_tx1(b, 0); /* the first packet of the first message only */
	bed_deliver(b, p);
	b->side[0].qp = second[0];
	assert_int_equal(bed_send(b, 0, 2, LEN, LEN), 0);
	b->side[0].qp = first;
	/* All of the second message before the rest of the first. */
	struct bed_pkt rest[2];
	for (int n = 0; n < 2; n++) {
		p = bed_tx1(b, 0);
		assert_int_equal(p->h.bth.dqpn, rnic_qp_num(b->side[1].qp));
		rest[n] = *p;
		rest[n].payload = rest[n].data + (p->payload - p->data);
	}
	while ((p = bed_tx1(b, 0)))
		bed_deliver(b, p);
	bed_deliver(b, &rest[0]);
	bed_deliver(b, &rest[1]);

	assert_int_equal(rnic_cq_poll(b->side[1].rcq, &wc, 1), 1);
	assert_int_equal(wc.wr_id, 101);
	assert_int_equal(wc.qp_num, rnic_qp_num(second[1]));
	assert_int_equal(rnic_cq_poll(b->side[1].rcq, &wc, 1), 1);
	assert_int_equal(wc.wr_id, 100);
	assert_int_equal(wc.qp_num, rnic_qp_num(b->side[1].qp));
	assert_memory_equal(b->side[1].mem + 10000, b->side[0].mem, 2 * LEN);
	second_close();
	bed_close(b);
}

static void an_empty_srq_is_a_receiver_not_ready(void **state)
{
	struct bed *b = bed_open(&(struct bed_opts){.srq = true});

	(void)state;
	assert_int_equal(bed_send(b, 0, 1, 0, 10), 0);
	bed_run(b);
	bed_expect_none(b, 0);
	assert_int_equal(rnic_counters(b->side[1].rnic)->tx_rnr_nak, 1);
	assert_int_equal(bed_recv(b, 1, 5, 0, 10), 0);
	bed_sleep(b, 10 * MS);
	bed_expect(b, 1, true, 5, RNIC_WC_SUCCESS);
	bed_expect(b, 0, false, 1, RNIC_WC_SUCCESS);
	bed_close(b);
}

static void the_limit_is_reported_once_when_it_is_reached(void **state)
{
	struct bed *b = bed_open(&(struct bed_opts){.srq = true});
	struct bed_side *s = &b->side[1];
	struct rnic_srq_attr a;

	(void)state;
	for (uint32_t i = 0; i < 4; i++)
		assert_int_equal(bed_recv(b, 1, i, 0, 10), 0);
	assert_int_equal(rnic_srq_set_limit(s->srq, 65), -EINVAL);
	assert_int_equal(rnic_srq_set_limit(s->srq, 3), 0);
	assert_int_equal(bed_send(b, 0, 1, 0, 10), 0);
	bed_run(b);
	assert_int_equal(s->nevents, 0);
	rnic_srq_query(s->srq, &a);
	assert_int_equal(a.limit, 3);
	assert_int_equal(bed_send(b, 0, 2, 0, 10), 0);
	assert_int_equal(bed_send(b, 0, 3, 0, 10), 0);
	bed_run(b);
	assert_int_equal(s->nevents, 1);
	assert_int_equal(s->events[0], RNIC_EVENT_SRQ_LIMIT_REACHED);
	rnic_srq_query(s->srq, &a);
	assert_int_equal(a.limit, 0);
	/* Armed above what is left: at once. */
	assert_int_equal(rnic_srq_set_limit(s->srq, 2), 0);
	assert_int_equal(s->nevents, 2);
	bed_close(b);
}

static void a_qp_in_error_reports_its_last_receive_and_leaves_the_others(void **state)
{
	struct bed *b = bed_open(&(struct bed_opts){.srq = true});
	struct rnic_wc wc;

	(void)state;
	assert_int_equal(bed_recv(b, 1, 1, 0, LEN), 0);
	assert_int_equal(bed_recv(b, 1, 2, 0, LEN), 0);
	assert_int_equal(bed_send(b, 0, 1, 0, LEN), 0);
	bed_deliver(b, bed_tx1(b, 0)); /* a message that stops after its first packet */
	assert_int_equal(bed_modify(b, 1, RNIC_QPS_ERR), 0);
	assert_true(bed_saw_event(b, 1, RNIC_EVENT_QP_LAST_WQE_REACHED));
	bed_expect(b, 1, true, 1, RNIC_WC_WR_FLUSH_ERR);
	assert_int_equal(rnic_cq_poll(b->side[1].rcq, &wc, 1), 0); /* 2 stays for other QPs */
	bed_close(b);
}

static void what_a_destroyed_qp_has_not_taken_stays_for_others(void **state)
{
	struct bed *b = bed_open(&(struct bed_opts){.srq = true});

	(void)state;
	second_open(b);
	for (uint32_t i = 1; i <= 3; i++)
		assert_int_equal(bed_recv(b, 1, i, 0, 10), 0);
	assert_int_equal(bed_send(b, 0, 1, 0, 10), 0);
	bed_run(b);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(rnic_qp_destroy(b->side[i].qp), 0);
		b->side[i].qp = second[i];
	}
	assert_true(rnic_cq_empty(b->side[1].rcq)); /* 1 went with who took it */
	assert_int_equal(bed_send(b, 0, 2, 0, 10), 0);
	bed_run(b);
	bed_expect(b, 1, true, 2, RNIC_WC_SUCCESS);
	bed_close(b);
}

static void receives_survive_a_resize_in_order(void **state)
{
	struct bed *b = bed_open(&(struct bed_opts){.srq = true});
	struct rnic_srq_attr a;

	(void)state;
	for (uint32_t i = 0; i < 64; i++)
		assert_int_equal(bed_recv(b, 1, i, 0, 10), 0);
	assert_int_equal(bed_recv(b, 1, 64, 0, 10), -ENOMEM);
	assert_int_equal(rnic_srq_resize(b->side[1].srq, 32), -EINVAL);
	assert_int_equal(rnic_srq_resize(b->side[1].srq, 100), 0);
	rnic_srq_query(b->side[1].srq, &a);
	assert_int_equal(a.max_wr, 128);
	assert_int_equal(bed_recv(b, 1, 64, 0, 10), 0);
	for (uint32_t i = 0; i < 65; i++) {
		assert_int_equal(bed_send(b, 0, i, 0, 10), 0);
		bed_run(b);
		bed_expect(b, 1, true, i, RNIC_WC_SUCCESS);
		bed_expect(b, 0, false, i, RNIC_WC_SUCCESS);
	}
	bed_close(b);
}

static void an_srq_in_use_stays_and_its_qps_take_no_receives_of_their_own(void **state)
{
	struct bed *b = bed_open(&(struct bed_opts){.srq = true});
	struct rnic_sge sge = bed_sge(b, 1, 0, 10);
	struct rnic_recv_wr wr = {.wr_id = 1, .sge = &sge, .num_sge = 1};
	struct rnic_qp_attr a;
	struct rnic_qp_cap cap;

	(void)state;
	assert_int_equal(rnic_srq_destroy(b->side[1].srq), -EBUSY);
	assert_int_equal(rnic_post_recv(b->side[1].qp, &wr), -EINVAL);
	rnic_qp_query(b->side[1].qp, &a, &cap);
	assert_int_equal(cap.max_recv_wr, 0);
	wr.num_sge = 5;
	assert_int_equal(rnic_post_srq_recv(b->side[1].srq, &wr), -EINVAL);
	bed_close(b);
}

static void a_message_too_long_for_the_shared_receive_ends_the_qp(void **state)
{
	struct bed *b = bed_open(&(struct bed_opts){.srq = true});

	(void)state;
	assert_int_equal(bed_recv(b, 1, 1, 0, 9), 0);
	assert_int_equal(bed_send(b, 0, 1, 0, 10), 0);
	bed_run(b);
	bed_expect(b, 1, true, 1, RNIC_WC_LOC_LEN_ERR);
	bed_expect(b, 0, false, 1, RNIC_WC_REM_INV_REQ_ERR);
	assert_int_equal(bed_state(b, 1), RNIC_QPS_ERR);
	bed_close(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(messages_that_arrive_side_by_side_take_a_receive_each),
		cmocka_unit_test(an_empty_srq_is_a_receiver_not_ready),
		cmocka_unit_test(the_limit_is_reported_once_when_it_is_reached),
		cmocka_unit_test(a_qp_in_error_reports_its_last_receive_and_leaves_the_others),
		cmocka_unit_test(what_a_destroyed_qp_has_not_taken_stays_for_others),
		cmocka_unit_test(receives_survive_a_resize_in_order),
		cmocka_unit_test(an_srq_in_use_stays_and_its_qps_take_no_receives_of_their_own),
		cmocka_unit_test(a_message_too_long_for_the_shared_receive_ends_the_qp),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
