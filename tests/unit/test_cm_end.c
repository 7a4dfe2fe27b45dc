/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* How a CM ends connections, and what it refuses. */
#include <errno.h>
#include <stdlib.h>

#include "cm_bed.h"

/* ---- DREQ, DREP
 * ----------------------------------------------------------------------------------- */

static void a_dreq_is_repeated_and_given_up(void **state)
{
	struct fixture *f = accepted(state);

	assert_int_equal(cm_dreq(f->id, f->now), 0);
	get_from(f, CM_ATTR_DREQ);
	for (int i = 0; i < 15; i++) {
		pass(f, RESPONSE);
		assert_int_equal(get_from(f, CM_ATTR_DREQ).dreq.remote_qpn, PEER_QPN);
	}
	assert_int_equal(f->events, 2);
	pass(f, RESPONSE);
	assert_int_equal(f->last.type, CM_EV_DISCONNECTED);
	assert_true(f->last.unanswered);
	pass(f, (4096ull << 19) - 1);
	assert_int_equal(f->events, 3);
	pass(f, 1);
	assert_int_equal(f->last.type, CM_EV_TIMEWAIT_EXIT);
	assert_int_equal(f->id->state, CM_IDLE);
	assert_int_equal(cm_counters(f->cm)->gave_up, 1);
}

static void a_repeated_dreq_gets_a_drep_in_timewait_and_after(void **state)
{
	struct fixture *f = accepted(state);

	give_dreq(f, OUR_QPN);
	give_dreq(f, OUR_QPN); /* while the consumer thinks */
	get_nothing(f);
	assert_int_equal(f->events, 3);
	assert_int_equal(cm_drep(f->id, f->now), 0);
	assert_int_equal(get_from(f, CM_ATTR_DREP).hdr.tid, 0x77);
	give_dreq(f, OUR_QPN);
	get_from(f, CM_ATTR_DREP);
	pass(f, 60 * SEC);
	assert_int_equal(f->last.type, CM_EV_TIMEWAIT_EXIT);
	cm_id_destroy(f->id, f->now);
	give_dreq(f, OUR_QPN);
	assert_int_equal(get_from(f, CM_ATTR_DREP).drep.local_comm_id, replied_id);
}

static void a_dreq_before_our_rtu_ends_the_connection(void **state)
{
	struct fixture *f = connecting(state);

	give_rep(f, PEER_ID);
	give_dreq(f, OUR_QPN);
	assert_int_equal(f->last.type, CM_EV_DREQ);
	assert_int_equal(cm_rtu(f->id, f->now), -EINVAL);
	assert_int_equal(cm_drep(f->id, f->now), 0);
	get_from(f, CM_ATTR_DREP);
}

static void a_dreq_for_another_qpn_is_ignored(void **state)
{
	struct fixture *f = accepted(state);

	give_dreq(f, OUR_QPN + 1);
	assert_int_equal(f->id->state, CM_ESTABLISHED);
	get_nothing(f);
}

static void dreqs_that_cross_end_both_sides(void **state)
{
	struct fixture *f = connected(state);

	assert_int_equal(cm_dreq(f->id, f->now), 0);
	get_from(f, CM_ATTR_DREQ);
	give_dreq(f, OUR_QPN);
	get_from(f, CM_ATTR_DREP);
	assert_int_equal(f->last.type, CM_EV_DISCONNECTED);
	give_drep(f);
	assert_int_equal(f->events, 2); /* REP, DISCONNECTED */
}

static void destroying_a_live_connection_disconnects_it_in_bounded_time(void **state)
{
	struct fixture *f = accepted(state);
	uint64_t begin = f->now;
	int dreqs = 0;

	cm_id_destroy(f->id, f->now);
	assert_true(cm_busy(f->cm) > 0);
	while (cm_busy(f->cm)) {
		get_from(f, CM_ATTR_DREQ);
		dreqs++;
		get_nothing(f);
		pass(f, cm_next_deadline(f->cm) - f->now);
	}
	assert_int_equal(dreqs, 8);
	assert_true(f->now - begin < 10 * SEC);
	assert_int_equal(f->events, 2);
	pass(f, 10 * SEC);
	assert_int_equal(f->cm->handles.live, 1);
	assert_int_equal(cm_next_deadline(f->cm), DEADLINE_NEVER);
}

/* Who connects and leaves by the thousand has none of the others' identifiers. */
static void what_rests_after_its_end_gives_way_when_ids_run_low(void **state)
{
	struct fixture *f = accepted(state);
	struct cm_id *other;
	uint32_t live;

	for (uint32_t i = 0; i < CM_MAX_IDS / 2; i++)
		assert_int_equal(cm_id_create(f->cm, f, &other), 0);
	live = f->cm->handles.live;
	cm_id_destroy(f->id, f->now);
	get_from(f, CM_ATTR_DREQ);
	give_drep(f);
	pass(f, 0);
	assert_int_equal(f->cm->handles.live, live - 1);
}

static void destroying_a_disconnecting_id_hurries_its_dreq(void **state)
{
	struct fixture *f = accepted(state);

	assert_int_equal(cm_dreq(f->id, f->now), 0);
	get_from(f, CM_ATTR_DREQ);
	cm_id_destroy(f->id, f->now);
	get_from(f, CM_ATTR_DREQ);
	assert_true(cm_next_deadline(f->cm) <= f->now + 100 * MSEC);
	give_drep(f);
	assert_int_equal(cm_busy(f->cm), 0);
}

static void destroying_an_unanswered_dreq_answers_it(void **state)
{
	struct fixture *f = accepted(state);

	give_dreq(f, OUR_QPN);
	cm_id_destroy(f->id, f->now);
	get_from(f, CM_ATTR_DREP);
}

/* As Linux repeats it, twice; then nobody waits for it any more. */
static void a_peer_whose_drep_was_lost_may_ask_again(void **state)
{
	struct fixture *f = accepted(state);

	give_dreq(f, OUR_QPN);
	cm_id_destroy(f->id, f->now);
	get_from(f, CM_ATTR_DREP);
	for (int i = 0; i < 2; i++) {
		pass(f, RESPONSE + RESPONSE / 64);
		assert_true(cm_busy(f->cm) > 0);
	}
	assert_int_equal(f->cm->handles.live, 1); /* the listener */
	give_dreq(f, OUR_QPN);
	get_from(f, CM_ATTR_DREP);
	pass(f, RESPONSE);
	assert_int_equal(cm_busy(f->cm), 0);
	assert_int_equal(cm_next_deadline(f->cm), DEADLINE_NEVER);
}

static void destroying_a_replied_id_rejects_and_disconnects(void **state)
{
	struct fixture *f = replied(state);

	cm_id_destroy(f->id, f->now);
	assert_int_equal(get_from(f, CM_ATTR_REJ).rej.message_rejected, CM_MSG_OTHER);
	pass(f, SEC);
	get_from(f, CM_ATTR_REJ); /* whether anybody is there is not known */
	give_rtu(f);		  /* crossed, or the REJ was lost */
	get_from(f, CM_ATTR_REJ);
	get_from(f, CM_ATTR_DREQ);
	give_drep(f);
	assert_int_equal(cm_busy(f->cm), 0);
	assert_int_equal(f->events, 1);
}

static void an_id_may_be_destroyed_in_its_upcall(void **state)
{
	struct fixture *f = *state;
	struct cm_msg m = req_msg();

	f->destroy_in_upcall = true;
	give(f, &m); /* REQ */
	assert_int_equal(get_from(f, CM_ATTR_REJ).rej.reason, CM_REJ_CONSUMER_DEFINED);
	f->destroy_in_upcall = false;
	connecting(state);
	f->destroy_in_upcall = true;
	give_rej(f, CM_MSG_REQ, 28);
	f->destroy_in_upcall = false;
	pass(f, 60 * SEC);
	accepted(state);
	f->destroy_in_upcall = true;
	give_dreq(f, OUR_QPN);
	get_from(f, CM_ATTR_DREP);
	pass(f, 60 * SEC);
	assert_int_equal(f->cm->handles.live, 1);
}

/* ---- bad input
 * ------------------------------------------------------------------------------------ */

static void what_the_state_does_not_allow_is_einval_and_changes_nothing(void **state)
{
	struct fixture *f = requested(state);
	struct flow flow = to_us;
	struct cm_req req = {0};

	assert_int_equal(cm_rtu(f->id, f->now), -EINVAL);
	assert_int_equal(cm_dreq(f->id, f->now), -EINVAL);
	assert_int_equal(cm_drep(f->id, f->now), -EINVAL);
	assert_int_equal(cm_established(f->id, f->now), -EINVAL);
	assert_int_equal(cm_req_send(f->id, &flow, &req, NULL, 0, f->now), -EINVAL);
	assert_int_equal(cm_rep_send(f->id, &(struct cm_rep){0}, "", 197, f->now), -EINVAL);
	assert_int_equal(cm_reject(f->id, 28, "", 73, NULL, 0, f->now), -EINVAL);
	assert_int_equal(cm_reject(f->id, 28, NULL, 0, "", 149, f->now), -EINVAL);
	assert_int_equal(cm_mra(f->id, 32, f->now), -EINVAL);
	assert_int_equal(cm_listen(f->id, SERVICE, UINT64_MAX, NULL), -EINVAL);
	assert_int_equal(cm_reject(f->listener, 28, NULL, 0, NULL, 0, f->now), -EINVAL);
	get_nothing(f);
	assert_int_equal(f->id->state, CM_REQ_RCVD);
}

static void garbage_is_counted_and_dropped(void **state)
{
	struct fixture *f = *state;
	uint8_t mad[MAD_LEN] = {0};

	cm_rx(f->cm, &to_us, mad, f->now);
	assert_int_equal(cm_counters(f->cm)->rx_bad, 1);
	srand(3);
	for (int i = 0; i < 20000; i++) {
		for (size_t k = 0; k < MAD_LEN; k++)
			mad[k] = (uint8_t)rand();
		mad[0] = 1;
		mad[1] = CM_CLASS;
		mad[2] = CM_CLASS_VERSION;
		mad[3] = CM_METHOD_SEND;
		mad[16] = 0;
		mad[17] = (uint8_t)(0x10 + i % 8);
		cm_rx(f->cm, &to_us, mad, f->now);
		for (struct flow flow; cm_tx(f->cm, &flow, mad, f->now);)
			;
	}
	assert_int_equal(f->events, 0);
}

static void comm_ids_are_distinct_and_do_not_count_up(void **state)
{
	struct fixture *f = *state;
	struct cm_id *id[64];
	int neighbours = 0;

	for (int i = 0; i < 64; i++) {
		assert_int_equal(cm_id_create(f->cm, f, &id[i]), 0);
		for (int k = 0; k < i; k++) {
			uint32_t a = id[i]->local_comm_id, b = id[k]->local_comm_id;

			assert_int_not_equal(a, b);
			neighbours += a >> 16 == b >> 16 || (a & 0xffff) == (b & 0xffff);
		}
		assert_ptr_equal(cm_find_local(f->cm, id[i]->local_comm_id), id[i]);
	}
	assert_true(neighbours < 8);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(a_dreq_is_repeated_and_given_up),
		T(a_repeated_dreq_gets_a_drep_in_timewait_and_after),
		T(a_dreq_before_our_rtu_ends_the_connection),
		T(a_dreq_for_another_qpn_is_ignored),
		T(dreqs_that_cross_end_both_sides),
		T(destroying_a_live_connection_disconnects_it_in_bounded_time),
		T(what_rests_after_its_end_gives_way_when_ids_run_low),
		T(destroying_a_disconnecting_id_hurries_its_dreq),
		T(destroying_an_unanswered_dreq_answers_it),
		T(a_peer_whose_drep_was_lost_may_ask_again),
		T(destroying_a_replied_id_rejects_and_disconnects),
		T(an_id_may_be_destroyed_in_its_upcall),
		T(what_the_state_does_not_allow_is_einval_and_changes_nothing),
		T(garbage_is_counted_and_dropped),
		T(comm_ids_are_distinct_and_do_not_count_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
