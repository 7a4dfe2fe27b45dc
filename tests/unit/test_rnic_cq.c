/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Completion queues: notifications, also held back, times of completions, CQs that may run over. */
#include <errno.h>
#include <string.h>

#include "rnic_bed.h"

#define PERIOD (100 * US)

static void complete_one(struct bed *b)
{
	assert_int_equal(bed_rdma(b, 0, 1, RNIC_WR_RDMA_WRITE, 0, 0, 8), 0);
	bed_run(b);
}

static void an_armed_cq_notifies_once(void **state)
{
	struct bed *b = bed_open(NULL);
	struct bed_side *s = &b->side[0];

	(void)state;
	assert_int_equal(bed_rdma(b, 0, 1, RNIC_WR_RDMA_WRITE, 0, 0, 8), 0);
	bed_run(b);
	assert_int_equal(s->notified, 0);
	rnic_cq_arm(s->scq, false); /* what is in it does not count */
	assert_int_equal(s->notified, 0);
	for (uint64_t i = 0; i < 3; i++)
		assert_int_equal(bed_rdma(b, 0, i, RNIC_WR_RDMA_WRITE, 0, 0, 8), 0);
	bed_run(b);
	assert_int_equal(s->notified, 1);
	bed_close(b);
}

static void a_solicited_arming_waits_for_solicited_or_failed(void **state)
{
	struct bed *b = bed_open(NULL);
	struct bed_side *s = &b->side[1];
	struct rnic_sge sge = bed_sge(b, 0, 0, 8);
	struct rnic_send_wr wr = {.sge = &sge, .num_sge = 1, .opcode = RNIC_WR_SEND};

	(void)state;
	for (uint64_t i = 0; i < 8; i++)
		assert_int_equal(bed_recv(b, 1, i, 0, 8), 0);
	rnic_cq_arm(s->rcq, true);
	assert_int_equal(rnic_post_send(b->side[0].qp, &wr, b->now), 0);
	bed_run(b);
	assert_int_equal(s->notified, 0);
	wr.flags = RNIC_SEND_SOLICITED;
	assert_int_equal(rnic_post_send(b->side[0].qp, &wr, b->now), 0);
	bed_run(b);
	assert_int_equal(s->notified, 1);
	rnic_cq_arm(s->rcq, false);
	rnic_cq_arm(s->rcq, true); /* does not weaken it */
	wr.flags = 0;
	assert_int_equal(rnic_post_send(b->side[0].qp, &wr, b->now), 0);
	bed_run(b);
	assert_int_equal(s->notified, 2);
	rnic_cq_arm(s->rcq, true);
	assert_int_equal(bed_modify(b, 1, RNIC_QPS_ERR), 0);
	assert_int_equal(s->notified, 3);
	bed_close(b);
}

static void take(struct bed *b, int side, bool recv, unsigned count)
{
	struct rnic_wc wc;

	for (unsigned i = 0; i < count; i++)
		assert_int_equal(rnic_cq_poll(recv ? b->side[side].rcq : b->side[side].scq, &wc, 1),
				 1);
}

/* Writes that complete at once. */
static void complete(struct bed *b, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		complete_one(b);
}

static void arming_tells_of_what_is_there_already(void **state)
{
	struct bed *b = bed_open(NULL);
	struct bed_side *s = &b->side[0];

	(void)state;
	rnic_cq_arm_or_notify(s->scq, false); /* nothing is */
	assert_int_equal(s->notified, 0);
	complete(b, 1);
	assert_int_equal(s->notified, 1);
	take(b, 0, false, 1);
	/* What came while it was not armed. */
	complete(b, 1);
	assert_int_equal(s->notified, 1);
	rnic_cq_arm_or_notify(s->scq, false);
	assert_int_equal(s->notified, 2);
	complete(b, 1); /* and that was it, for this arming */
	assert_int_equal(s->notified, 2);
	/* Some are polled, the rest is told of again, each time somebody asks. */
	complete(b, 8);
	for (unsigned i = 0; i < 4; i++) {
		take(b, 0, false, 2);
		rnic_cq_arm_or_notify(s->scq, false);
		assert_int_equal(s->notified, 3 + i);
	}
	rnic_cq_arm_or_notify(s->scq, false); /* two are left still */
	assert_int_equal(s->notified, 7);
	take(b, 0, false, 2);
	rnic_cq_arm_or_notify(s->scq, false);
	assert_int_equal(s->notified, 7);
	bed_close(b);
}

/* Event, arm, poll: what most programs do. */
static void one_completion_is_one_event_also_when_armed_before_it_is_polled(void **state)
{
	struct bed *b = bed_open(NULL);
	struct bed_side *s = &b->side[0];

	(void)state;
	rnic_cq_arm_or_notify(s->scq, false);
	for (uint32_t i = 1; i <= 20; i++) {
		complete(b, 1);
		assert_int_equal(s->notified, i);
		rnic_cq_arm_or_notify(s->scq, false);
		assert_int_equal(s->notified, i);
		if (i == 10) /* which counts its entries anew */
			assert_int_equal(rnic_cq_resize(s->scq, 100), 0);
		take(b, 0, false, 1);
	}
	/* Another that came in between may be the one that is left. */
	complete(b, 2);
	assert_int_equal(s->notified, 21);
	rnic_cq_arm_or_notify(s->scq, false);
	assert_int_equal(s->notified, 22);
	bed_close(b);
}

static void what_a_moderated_event_was_for_is_told_of_again(void **state)
{
	struct bed *b = bed_open(NULL);
	struct bed_side *s = &b->side[0];

	(void)state;
	rnic_cq_moderate(s->scq, 4, PERIOD);
	rnic_cq_arm_or_notify(s->scq, false);
	complete(b, 4);
	assert_int_equal(s->notified, 1);
	take(b, 0, false, 3); /* one is left, and nothing came since */
	rnic_cq_arm_or_notify(s->scq, false);
	assert_int_equal(s->notified, 2);
	bed_close(b);
}

static void arming_for_solicited_ones_tells_of_those_only(void **state)
{
	struct bed *b = bed_open(NULL);
	struct bed_side *s = &b->side[1];
	struct rnic_sge sge = bed_sge(b, 0, 0, 8);
	struct rnic_send_wr wr = {.sge = &sge, .num_sge = 1, .opcode = RNIC_WR_SEND};

	(void)state;
	for (uint64_t i = 0; i < 8; i++)
		assert_int_equal(bed_recv(b, 1, i, 0, 8), 0);
	for (int i = 0; i < 5; i++) {
		wr.flags = i == 2 ? RNIC_SEND_SOLICITED : 0;
		assert_int_equal(rnic_post_send(b->side[0].qp, &wr, b->now), 0);
	}
	bed_run(b);
	take(b, 1, true, 2);
	rnic_cq_arm_or_notify(s->rcq, true);
	assert_int_equal(s->notified, 1);
	take(b, 1, true, 1); /* the solicited one: two are left */
	rnic_cq_arm_or_notify(s->rcq, true);
	assert_int_equal(s->notified, 1);
	assert_int_equal(rnic_cq_resize(s->rcq, 100), 0);
	rnic_cq_arm_or_notify(s->rcq, true);
	assert_int_equal(s->notified, 1);
	rnic_cq_arm_or_notify(s->rcq, false);
	assert_int_equal(s->notified, 2);
	bed_close(b);
}

/* Their wr_id may point to what the program gives up with it. What is of others in the same CQ
 * stays, in its order. */
static void a_destroyed_qp_takes_its_completions_along(void **state)
{
	struct bed *b = bed_open(NULL);
	struct bed_side *s = &b->side[0];
	struct rnic_qp *first[2], *second;

	(void)state;
	bed_second_pair(b, first);
	second = s->qp;
	for (uint64_t i = 0; i < 6; i++) {
		s->qp = i % 2 ? second : first[0];
		assert_int_equal(bed_rdma(b, 0, i, RNIC_WR_RDMA_WRITE, 0, 0, 8), 0);
		bed_run(b);
	}
	for (uint64_t i = 10; i < 13; i++) {
		s->qp = first[0];
		assert_int_equal(bed_recv(b, 0, i, 0, 8), 0);
	}
	assert_int_equal(bed_modify(b, 0, RNIC_QPS_ERR), 0);
	assert_false(rnic_cq_empty(s->rcq));
	assert_int_equal(rnic_qp_destroy(first[0]), 0);
	assert_int_equal(rnic_qp_destroy(first[1]), 0);
	s->qp = second;
	assert_true(rnic_cq_empty(s->rcq));
	rnic_cq_arm_or_notify(s->scq, false); /* what is left is told of */
	assert_int_equal(s->notified, 1);
	for (uint64_t i = 1; i < 6; i += 2)
		bed_expect(b, 0, false, i, RNIC_WC_SUCCESS);
	assert_true(rnic_cq_empty(s->scq));
	rnic_cq_arm_or_notify(s->scq, false); /* and what it took along is not */
	assert_int_equal(s->notified, 1);
	bed_close(b);
}

static void a_cq_keeps_its_entries_when_resized(void **state)
{
	struct bed *b = bed_open(&(struct bed_opts){.cqe = 8});
	struct bed_side *s = &b->side[0];

	(void)state;
	assert_true(rnic_cq_capacity(s->scq) >= 8);
	for (uint64_t i = 0; i < 6; i++)
		assert_int_equal(bed_rdma(b, 0, i, RNIC_WR_RDMA_WRITE, 0, 0, 8), 0);
	bed_run(b);
	bed_expect(b, 0, false, 0, RNIC_WC_SUCCESS);
	assert_int_equal(rnic_cq_resize(s->scq, 4), -EINVAL);
	assert_int_equal(rnic_cq_resize(s->scq, 100), 0);
	assert_true(rnic_cq_capacity(s->scq) >= 100);
	for (uint64_t i = 6; i < 60; i++)
		assert_int_equal(bed_rdma(b, 0, i, RNIC_WR_RDMA_WRITE, 0, 0, 8), 0);
	bed_run(b);
	for (uint64_t i = 1; i < 60; i++)
		bed_expect(b, 0, false, i, RNIC_WC_SUCCESS);
	assert_int_equal(rnic_cq_resize(s->scq, 1), 0);
	bed_close(b);
}

static void moderation_notifies_at_the_count(void **state)
{
	struct bed *b = bed_open(NULL);
	struct bed_side *s = &b->side[0];

	(void)state;
	rnic_cq_moderate(s->scq, 4, PERIOD);
	for (uint32_t round = 1; round <= 3; round++) {
		rnic_cq_arm(s->scq, false);
		for (int i = 0; i < 3; i++)
			complete_one(b);
		assert_int_equal(s->notified, round - 1);
		complete_one(b);
		assert_int_equal(s->notified, round);
		complete_one(b); /* not armed: this one does not count */
		bed_sleep(b, 10 * PERIOD);
		assert_int_equal(s->notified, round);
	}
	bed_close(b);
}

static void moderation_notifies_when_the_period_is_over(void **state)
{
	struct bed *b = bed_open(NULL);
	struct bed_side *s = &b->side[0];

	(void)state;
	rnic_cq_moderate(s->scq, 100, PERIOD);
	rnic_cq_arm(s->scq, false);
	bed_sleep(b, 10 * PERIOD); /* it runs from the first completion */
	complete_one(b);
	bed_sleep(b, PERIOD / 2);
	complete_one(b); /* and does not begin anew with the second */
	assert_int_equal(s->notified, 0);
	bed_sleep(b, PERIOD / 2 - 1);
	assert_int_equal(s->notified, 0);
	bed_sleep(b, 1);
	assert_int_equal(s->notified, 1);
	bed_sleep(b, 10 * PERIOD);
	assert_int_equal(s->notified, 1);
	bed_close(b);
}

static void moderation_does_not_hold_back_failures(void **state)
{
	struct bed *b = bed_open(NULL);

	(void)state;
	rnic_cq_moderate(b->side[0].scq, 100, PERIOD);
	rnic_cq_arm(b->side[0].scq, false);
	complete_one(b);
	assert_int_equal(b->side[0].notified, 0);
	assert_int_equal(bed_rdma(b, 0, 2, RNIC_WR_RDMA_WRITE, 0, BED_MEM, 8), 0);
	bed_run(b);
	assert_int_equal(b->side[0].notified, 1);
	bed_sleep(b, 10 * PERIOD);
	assert_int_equal(b->side[0].notified, 1);
	bed_close(b);
}

static void a_change_of_moderation_holds_for_what_is_held(void **state)
{
	struct bed *b = bed_open(NULL);
	struct bed_side *s = &b->side[0];

	(void)state;
	rnic_cq_moderate(s->scq, 4, PERIOD);
	rnic_cq_arm(s->scq, false);
	for (int i = 0; i < 3; i++)
		complete_one(b);
	rnic_cq_moderate(s->scq, 3, PERIOD);
	assert_int_equal(s->notified, 1);

	rnic_cq_arm(s->scq, false);
	complete_one(b);
	rnic_cq_moderate(s->scq, 3, PERIOD / 10);
	bed_sleep(b, PERIOD / 10);
	assert_int_equal(s->notified, 2);

	rnic_cq_arm(s->scq, false);
	complete_one(b);
	rnic_cq_moderate(s->scq, 0, PERIOD); /* either 0 turns it off */
	assert_int_equal(s->notified, 3);
	rnic_cq_arm(s->scq, false);
	complete_one(b);
	assert_int_equal(s->notified, 4);
	rnic_cq_moderate(s->scq, 4, 0);
	rnic_cq_arm(s->scq, false);
	complete_one(b);
	assert_int_equal(s->notified, 5);
	bed_close(b);
}

static void a_moderated_cq_may_go_with_its_timer_running(void **state)
{
	struct bed *b = bed_open(NULL);
	struct bed_side *s = &b->side[0];

	(void)state;
	rnic_cq_moderate(s->scq, 100, PERIOD);
	rnic_cq_arm(s->scq, false);
	complete_one(b);
	assert_int_equal(rnic_qp_destroy(s->qp), 0);
	assert_int_equal(rnic_cq_destroy(s->scq), 0);
	rnic_tick(s->rnic, b->now + 10 * PERIOD);
	assert_int_equal(s->notified, 0);
	s->qp = NULL;
	assert_int_equal(rnic_cq_create(s->rnic, 1, s, &s->scq), 0);
	bed_close(b);
}

static void completions_bear_the_time_they_came_at(void **state)
{
	struct bed *b = bed_open(NULL);
	struct bed_side *s = &b->side[0];
	uint64_t began = b->now;

	(void)state;
	for (int i = 0; i < 3; i++) {
		complete_one(b);
		bed_sleep(b, 7 * MS);
	}
	assert_int_equal(rnic_cq_resize(s->scq, 300), 0); /* which takes the times along */
	for (uint64_t i = 0; i < 3; i++) {
		bed_expect(b, 0, false, 1, RNIC_WC_SUCCESS);
		assert_int_equal(rnic_cq_polled_at(s->scq), began + i * 7 * MS);
	}
	bed_close(b);
}

static void a_cq_told_to_ignore_it_runs_over_in_silence(void **state)
{
	struct bed *b = bed_open(&(struct bed_opts){.cqe = 4});
	struct bed_side *s = &b->side[0];

	(void)state;
	rnic_cq_ignore_overrun(s->scq);
	for (uint64_t i = 0; i < 7; i++)
		assert_int_equal(bed_rdma(b, 0, i, RNIC_WR_RDMA_WRITE, 0, 0, 8), 0);
	bed_run(b);
	for (uint64_t i = 3; i < 7; i++)
		bed_expect(b, 0, false, i, RNIC_WC_SUCCESS);
	bed_expect_none(b, 0);
	assert_int_equal(s->nevents, 0);
	assert_int_equal(bed_state(b, 0), RNIC_QPS_RTS);
	bed_close(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_armed_cq_notifies_once),
		cmocka_unit_test(a_solicited_arming_waits_for_solicited_or_failed),
		cmocka_unit_test(arming_tells_of_what_is_there_already),
		cmocka_unit_test(one_completion_is_one_event_also_when_armed_before_it_is_polled),
		cmocka_unit_test(what_a_moderated_event_was_for_is_told_of_again),
		cmocka_unit_test(arming_for_solicited_ones_tells_of_those_only),
		cmocka_unit_test(a_destroyed_qp_takes_its_completions_along),
		cmocka_unit_test(a_cq_keeps_its_entries_when_resized),
		cmocka_unit_test(moderation_notifies_at_the_count),
		cmocka_unit_test(moderation_notifies_when_the_period_is_over),
		cmocka_unit_test(moderation_does_not_hold_back_failures),
		cmocka_unit_test(a_change_of_moderation_holds_for_what_is_held),
		cmocka_unit_test(a_moderated_cq_may_go_with_its_timer_running),
		cmocka_unit_test(completions_bear_the_time_they_came_at),
		cmocka_unit_test(a_cq_told_to_ignore_it_runs_over_in_silence),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
