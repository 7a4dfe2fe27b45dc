/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* How a CM makes connections, packet by packet: REQ, REP, RTU, REJ, stale connections. */
#include <errno.h>

#include "base/bytes.h"
#include "cm_bed.h"

/* ---- REQ
 * ----------------------------------------------------------------------------------------- */

static void a_req_nobody_listens_for_is_rejected_with_invalid_service_id(void **state)
{
	struct fixture *f = *state;
	struct cm_msg m = req_msg(), rej;

	m.req.service_id++;
	give(f, &m);
	rej = get_from(f, CM_ATTR_REJ);
	assert_int_equal(rej.rej.reason, CM_REJ_INVALID_SERVICE_ID);
	assert_int_equal(rej.rej.message_rejected, CM_MSG_REQ);
	assert_int_equal(rej.rej.remote_comm_id, PEER_ID);
	assert_int_equal(rej.rej.local_comm_id, 0);
	assert_int_equal(rej.hdr.tid, 0x77);
	assert_int_equal(f->events, 0);
}

static void a_req_for_another_transport_or_mtu_is_rejected(void **state)
{
	struct fixture *f = *state;
	struct cm_msg m = req_msg();

	m.req.transport_service = 1;
	give(f, &m);
	assert_int_equal(get_from(f, CM_ATTR_REJ).rej.reason, CM_REJ_INVALID_TRANSPORT_TYPE);
	m = req_msg();
	m.req.path_mtu = 6;
	give(f, &m);
	assert_int_equal(get_from(f, CM_ATTR_REJ).rej.reason, CM_REJ_INVALID_MTU);
	assert_int_equal(f->events, 0);
}

static bool match_second_byte(void *user, const uint8_t *private_data, uint32_t scope)
{
	(void)user;
	(void)scope;
	return private_data[1] == 1;
}

static void of_several_listeners_the_one_that_matches_gets_the_req(void **state)
{
	struct fixture *f = *state;
	struct cm_id *picky;
	struct cm_msg m = req_msg();

	cm_id_destroy(f->listener, f->now);
	assert_int_equal(cm_id_create(f->cm, f, &picky), 0);
	assert_int_equal(cm_listen(picky, SERVICE & ~0xffull, ~0xffull, match_second_byte), 0);
	f->listener = picky;
	give(f, &m);
	assert_int_equal(get_from(f, CM_ATTR_REJ).rej.reason, CM_REJ_INVALID_SERVICE_ID);
	m.req.private_data[1] = 1;
	m.req.service_id ^= 0x11; /* masked out */
	give(f, &m);
	assert_int_equal(f->last.type, CM_EV_REQ);
}

static void a_repeated_req_gets_an_mra_while_the_consumer_thinks(void **state)
{
	struct fixture *f = requested(state);
	struct cm_msg m = req_msg(), mra;

	give(f, &m);
	assert_int_equal(f->events, 1);
	mra = get_from(f, CM_ATTR_MRA);
	assert_int_equal(mra.mra.message_mraed, CM_MSG_REQ);
	assert_int_equal(mra.mra.remote_comm_id, PEER_ID);
	assert_int_equal(mra.mra.service_timeout, 24);
}

static void a_repeated_req_gets_the_same_rep(void **state)
{
	struct fixture *f = replied(state);
	struct cm_msg m = req_msg(), rep;

	give(f, &m);
	rep = get_from(f, CM_ATTR_REP);
	assert_int_equal(rep.rep.local_comm_id, replied_id);
	assert_int_equal(rep.rep.local_qpn, OUR_QPN);
	assert_memory_equal(rep.rep.private_data, "hi", 3);
	assert_int_equal(f->events, 1);
}

static void a_repeated_req_gets_the_same_rej_and_no_second_request(void **state)
{
	struct fixture *f = requested(state);
	struct cm_msg m = req_msg(), rej;

	assert_int_equal(cm_reject(f->id, 28, NULL, 0, "no", 2, f->now), 0);
	rej = get_from(f, CM_ATTR_REJ);
	assert_int_equal(rej.rej.message_rejected, CM_MSG_REQ);
	assert_int_equal(rej.rej.local_comm_id, 0);
	cm_id_destroy(f->id, f->now);
	pass(f, RESPONSE); /* ours was lost */
	give(f, &m);
	rej = get_from(f, CM_ATTR_REJ);
	assert_int_equal(rej.rej.reason, 28);
	assert_memory_equal(rej.rej.private_data, "no", 3);
	assert_int_equal(f->events, 1);
	pass(f, 60 * SEC); /* but not for ever */
	assert_int_equal(f->cm->handles.live, 1);
}

/* Who sends REQs by the thousand, each from another queue pair, and has them all rejected. */
static void rejections_remembered_do_not_fill_the_table(void **state)
{
	struct fixture *f = accepted(state); /* it is known, or it would be asked */
	struct cm_msg m = req_msg();

	for (uint32_t i = 0; i < 2 * CM_MEMORY_MAX; i++) {
		m.req.local_comm_id = PEER_ID + 1 + i;
		m.req.local_qpn = PEER_QPN + 1 + i;
		f->id = NULL;
		give(f, &m);
		pass(f, MSEC / 2);
		assert_non_null(f->id);
		assert_int_equal(cm_reject(f->id, 28, NULL, 0, NULL, 0, f->now), 0);
		get_from(f, CM_ATTR_REJ);
		cm_id_destroy(f->id, f->now);
	}
	/* There is room for who has better to do, here and at the peers. */
	for (uint32_t i = 0; i < CM_MAX_IDS / 4; i++)
		assert_int_equal(cm_id_create(f->cm, f, &f->id), 0);
	/* The first ones are remembered nevertheless. */
	m.req.local_comm_id = PEER_ID + 1;
	m.req.local_qpn = PEER_QPN + 1;
	f->events = 0;
	give(f, &m);
	get_from(f, CM_ATTR_REJ);
	assert_int_equal(f->events, 0);
}

static void a_forgotten_req_comes_again(void **state)
{
	struct fixture *f = requested(state);
	struct cm_msg m = req_msg();

	cm_id_forget(f->id);
	get_nothing(f);
	give(f, &m);
	assert_int_equal(f->events, 2);
	assert_int_equal(f->last.type, CM_EV_REQ);
}

static void an_unanswered_req_is_repeated_15_times_and_withdrawn(void **state)
{
	struct fixture *f = connecting(state);
	struct cm_msg rej;

	for (int i = 0; i < 15; i++) {
		assert_int_equal(cm_next_deadline(f->cm), f->now + RESPONSE);
		pass(f, RESPONSE);
		assert_int_equal(get_from(f, CM_ATTR_REQ).req.local_comm_id, replied_id);
		get_nothing(f);
	}
	assert_int_equal(f->events, 0);
	pass(f, RESPONSE);
	assert_int_equal(f->last.type, CM_EV_TIMEOUT);
	rej = get_from(f, CM_ATTR_REJ);
	assert_int_equal(rej.rej.reason, CM_REJ_TIMEOUT);
	assert_int_equal(rej.rej.reject_info_len, 8);
	assert_int_equal(ld_be64(rej.rej.ari), 9);
	assert_int_equal(f->id->state, CM_IDLE);
	assert_int_equal(cm_next_deadline(f->cm), DEADLINE_NEVER);
	give_rep(f, PEER_ID); /* too late */
	assert_int_equal(get_from(f, CM_ATTR_REJ).rej.reason, CM_REJ_INVALID_COMM_ID);
}

static void an_mra_makes_the_active_side_wait_longer(void **state)
{
	struct fixture *f = connecting(state);
	struct cm_msg m = msg(CM_ATTR_MRA);

	pass(f, SEC);
	m.mra.local_comm_id = PEER_ID;
	m.mra.remote_comm_id = replied_id;
	m.mra.service_timeout = 23;
	give(f, &m);
	assert_int_equal(cm_next_deadline(f->cm), f->now + (4096ull << 23) + RESPONSE);
	give_rep(f, PEER_ID);
	assert_int_equal(f->last.type, CM_EV_REP);
}

static void a_withdrawn_req_is_found_by_the_guid_in_the_rej(void **state)
{
	struct fixture *f = requested(state);
	struct cm_msg m = msg(CM_ATTR_REJ);

	m.rej.local_comm_id = PEER_ID;
	m.rej.message_rejected = CM_MSG_OTHER;
	m.rej.reason = CM_REJ_TIMEOUT;
	m.rej.reject_info_len = 8;
	st_be64(m.rej.ari, PEER_GUID + 1); /* another's */
	give(f, &m);
	assert_int_equal(f->events, 1);
	st_be64(m.rej.ari, PEER_GUID);
	give(f, &m);
	assert_int_equal(f->last.type, CM_EV_REJ);
	assert_int_equal(f->rej_reason, CM_REJ_TIMEOUT);
	assert_int_equal(cm_rep_send(f->id, &(struct cm_rep){0}, NULL, 0, f->now), -EINVAL);
}

static void destroying_an_unanswered_connect_withdraws_it(void **state)
{
	struct fixture *f = connecting(state);
	struct cm_msg rej;

	cm_id_destroy(f->id, f->now);
	rej = get_from(f, CM_ATTR_REJ);
	assert_int_equal(rej.rej.reason, CM_REJ_TIMEOUT);
	assert_int_equal(rej.rej.local_comm_id, replied_id);
	assert_int_equal(rej.rej.remote_comm_id, 0);
	assert_int_equal(cm_next_deadline(f->cm), DEADLINE_NEVER);
	assert_int_equal(f->cm->handles.live, 1); /* the listener */
}

/* ---- REP, RTU
 * ------------------------------------------------------------------------------------- */

static void a_lost_rep_is_repeated_until_the_rtu_comes(void **state)
{
	struct fixture *f = replied(state);

	pass(f, RESPONSE);
	assert_int_equal(get_from(f, CM_ATTR_REP).rep.local_comm_id, replied_id);
	give_rtu(f);
	assert_int_equal(f->last.type, CM_EV_RTU);
	assert_int_equal(cm_next_deadline(f->cm), DEADLINE_NEVER);
	give_rtu(f); /* a duplicate */
	assert_int_equal(f->events, 2);
	get_nothing(f);
}

static void a_rep_nobody_answers_is_given_up_with_a_rej(void **state)
{
	struct fixture *f = replied(state);
	struct cm_msg rej;

	for (int i = 0; i < CM_REP_REPEATS; i++) {
		pass(f, RESPONSE << i);
		get_from(f, CM_ATTR_REP);
	}
	pass(f, RESPONSE << CM_REP_REPEATS);
	assert_int_equal(f->last.type, CM_EV_TIMEOUT);
	rej = get_from(f, CM_ATTR_REJ);
	assert_int_equal(rej.rej.reason, CM_REJ_TIMEOUT);
	assert_int_equal(rej.rej.remote_comm_id, PEER_ID);
	pass(f, SEC);
	pass(f, 60 * SEC);
	get_nothing(f);
	assert_int_equal(f->events, 2);
	assert_int_equal(f->id->state, CM_IDLE);
}

static void an_mra_of_the_rep_extends_its_wait(void **state)
{
	struct fixture *f = replied(state);
	struct cm_msg m = msg(CM_ATTR_MRA);

	m.mra.local_comm_id = PEER_ID;
	m.mra.remote_comm_id = replied_id;
	m.mra.message_mraed = CM_MSG_REP;
	m.mra.service_timeout = 22;
	give(f, &m);
	assert_int_equal(cm_next_deadline(f->cm), f->now + (4096ull << 22) + RESPONSE);
}

static void a_repeated_rep_gets_an_mra_before_and_the_rtu_after_the_consumer_answered(void **state)
{
	struct fixture *f = connecting(state);

	give_rep(f, PEER_ID);
	give_rep(f, PEER_ID);
	assert_int_equal(get_from(f, CM_ATTR_MRA).mra.message_mraed, CM_MSG_REP);
	assert_int_equal(f->events, 1);
	assert_int_equal(cm_rtu(f->id, f->now), 0);
	get_from(f, CM_ATTR_RTU);
	give_rep(f, PEER_ID);
	assert_int_equal(get_from(f, CM_ATTR_RTU).rtu.remote_comm_id, PEER_ID);
	assert_int_equal(f->events, 1);
}

static void a_rep_of_another_passive_id_is_rejected(void **state)
{
	struct fixture *f = connected(state);
	struct cm_msg rej;

	give_rep(f, PEER_ID + 1);
	rej = get_from(f, CM_ATTR_REJ);
	assert_int_equal(rej.rej.reason, CM_REJ_INVALID_COMM_ID);
	assert_int_equal(rej.rej.message_rejected, CM_MSG_REP);
	assert_int_equal(rej.rej.remote_comm_id, PEER_ID + 1);
	assert_int_equal(f->id->state, CM_ESTABLISHED);
}

static void early_data_stands_for_a_lost_rtu(void **state)
{
	struct fixture *f = replied(state);

	assert_int_equal(cm_established(f->id, f->now), 0);
	assert_int_equal(f->last.type, CM_EV_RTU);
	assert_int_equal(cm_established(f->id, f->now), -EISCONN);
	give_rtu(f); /* late */
	assert_int_equal(f->events, 2);
	assert_int_equal(cm_next_deadline(f->cm), DEADLINE_NEVER);
}

static void a_dreq_stands_for_a_lost_rtu(void **state)
{
	struct fixture *f = replied(state);

	give_dreq(f, OUR_QPN);
	assert_int_equal(f->last.type, CM_EV_DREQ);
	assert_int_equal(cm_drep(f->id, f->now), 0);
	get_from(f, CM_ATTR_DREP);
	pass(f, 60 * SEC);
	assert_int_equal(f->last.type, CM_EV_TIMEWAIT_EXIT);
}

static void an_rtu_for_an_unknown_connection_is_rejected(void **state)
{
	struct fixture *f = *state;

	replied_id = 0x1234;
	give_rtu(f);
	assert_int_equal(get_from(f, CM_ATTR_REJ).rej.reason, CM_REJ_INVALID_COMM_ID);
}

static void messages_from_another_address_do_not_find_the_connection(void **state)
{
	struct fixture *f = replied(state);
	struct cm_msg m = msg(CM_ATTR_RTU);
	struct flow elsewhere = to_us;
	uint8_t mad[MAD_LEN];

	m.rtu.local_comm_id = PEER_ID;
	m.rtu.remote_comm_id = replied_id;
	cm_msg_encode(&m, mad);
	elsewhere.sgid.raw[15]++;
	cm_rx(f->cm, &elsewhere, mad, f->now);
	assert_int_equal(f->id->state, CM_REP_SENT);
}

static bool known(struct fixture *f, const struct cm_msg *m)
{
	uint8_t mad[MAD_LEN];

	cm_msg_encode(m, mad);
	return cm_rx(f->cm, &to_us, mad, f->now);
}

/* Only these teach the port how their sender numbers its packets. */
static void who_names_both_ids_of_a_connection_is_its_peer_and_nobody_else_is(void **state)
{
	struct fixture *f = replied(state);
	struct cm_msg req = req_msg(), sidr = msg(CM_ATTR_SIDR_REQ), rtu = msg(CM_ATTR_RTU), dreq;

	assert_false(known(f, &req)); /* anybody may ask */
	assert_false(known(f, &sidr));
	rtu.rtu.local_comm_id = PEER_ID + 1;
	rtu.rtu.remote_comm_id = replied_id;
	assert_false(known(f, &rtu));
	rtu.rtu.local_comm_id = PEER_ID;
	rtu.rtu.remote_comm_id = replied_id + 1;
	assert_false(known(f, &rtu));
	rtu.rtu.remote_comm_id = replied_id;
	assert_true(known(f, &rtu));
	dreq = msg(CM_ATTR_DREQ);
	dreq.dreq.local_comm_id = PEER_ID;
	dreq.dreq.remote_comm_id = replied_id;
	dreq.dreq.remote_qpn = OUR_QPN + 1;
	assert_false(known(f, &dreq));
	dreq.dreq.remote_qpn = OUR_QPN;
	assert_true(known(f, &dreq));
}

/* ---- REJ
 * ------------------------------------------------------------------------------------------ */

static void a_rejected_connect_is_idle_and_may_connect_again_under_a_new_comm_id(void **state)
{
	struct fixture *f = connecting(state);
	struct flow flow = {.sgid = to_us.dgid, .dgid = to_us.sgid};
	struct cm_req req = {.path_mtu = 3};

	give_rej(f, CM_MSG_REQ, CM_REJ_CONSUMER_DEFINED);
	assert_int_equal(f->last.type, CM_EV_REJ);
	assert_int_equal(f->rej_reason, 28);
	assert_int_equal(f->last.private_len, CM_REJ_PRIVATE);
	assert_int_equal(cm_next_deadline(f->cm), DEADLINE_NEVER);
	assert_int_equal(cm_req_send(f->id, &flow, &req, NULL, 0, f->now), 0);
	assert_int_not_equal(get_from(f, CM_ATTR_REQ).req.local_comm_id, replied_id);
}

static void a_req_rejected_for_its_path_mtu_is_sent_again_with_less(void **state)
{
	struct fixture *f = connecting(state);
	uint32_t first = replied_id;
	struct cm_msg m;

	for (uint8_t mtu = 2; mtu >= 1; mtu--) {
		give_rej(f, CM_MSG_REQ, CM_REJ_INVALID_MTU);
		m = get_from(f, CM_ATTR_REQ);
		assert_int_equal(m.req.path_mtu, mtu);
		assert_int_equal(m.req.service_id, SERVICE);
		assert_int_equal(m.req.local_qpn, OUR_QPN);
		assert_memory_equal(m.req.private_data, "hello", 6);
		assert_int_not_equal(m.req.local_comm_id, replied_id);
		assert_int_equal(f->events, 0);
		replied_id = m.req.local_comm_id;
		transaction = m.hdr.tid;
	}
	assert_int_not_equal(replied_id, first);
	give_rep(f, PEER_ID);
	assert_int_equal(f->last.type, CM_EV_REP);
	assert_int_equal(cm_id_path_mtu(f->id), 1);
}

static void a_req_that_cannot_ask_for_less_is_rejected_for_good(void **state)
{
	struct fixture *f = connecting(state);
	struct cm_msg m;

	for (int i = 0; i < 2; i++) {
		give_rej(f, CM_MSG_REQ, CM_REJ_INVALID_MTU);
		m = get_from(f, CM_ATTR_REQ);
		replied_id = m.req.local_comm_id;
		transaction = m.hdr.tid;
	}
	give_rej(f, CM_MSG_REQ, CM_REJ_INVALID_MTU);
	assert_int_equal(f->last.type, CM_EV_REJ);
	assert_int_equal(f->rej_reason, CM_REJ_INVALID_MTU);
	assert_int_equal(cm_next_deadline(f->cm), DEADLINE_NEVER);
}

static void a_rej_ends_a_reply_and_a_live_connection(void **state)
{
	struct fixture *f = replied(state);

	give_rej(f, CM_MSG_REP, CM_REJ_CONSUMER_DEFINED);
	assert_int_equal(f->last.type, CM_EV_REJ);
	assert_int_equal(f->id->state, CM_TIMEWAIT);
	cm_id_destroy(f->id, f->now);
	pass(f, 60 * SEC);
	connected(state);
	give_rej(f, CM_MSG_OTHER, CM_REJ_TIMEOUT);
	assert_int_equal(f->last.type, CM_EV_REJ);
	assert_int_equal(f->id->state, CM_TIMEWAIT);
}

static void rejecting_a_rep_answers_its_repetitions(void **state)
{
	struct fixture *f = connecting(state);
	struct cm_msg rej;

	give_rep(f, PEER_ID);
	assert_int_equal(cm_reject(f->id, 28, "a", 1, "b", 1, f->now), 0);
	rej = get_from(f, CM_ATTR_REJ);
	assert_int_equal(rej.rej.message_rejected, CM_MSG_REP);
	assert_int_equal(rej.rej.local_comm_id, replied_id);
	assert_int_equal(rej.rej.remote_comm_id, PEER_ID);
	assert_int_equal(rej.rej.reject_info_len, 1);
	give_rep(f, PEER_ID);
	assert_int_equal(get_from(f, CM_ATTR_REJ).rej.reason, 28);
}

/* ---- stale connections
 * ---------------------------------------------------------------------------- */

static void a_req_of_a_live_connections_qpn_has_its_peer_asked(void **state)
{
	struct fixture *f = accepted(state);
	struct cm_msg m = req_msg(), rej, dreq;

	m.req.local_comm_id = PEER_ID + 1; /* the peer has restarted */
	give(f, &m);
	rej = get_from(f, CM_ATTR_REJ);
	assert_int_equal(rej.rej.reason, CM_REJ_STALE_CONN);
	assert_int_equal(rej.rej.remote_comm_id, PEER_ID + 1);
	dreq = get_from(f, CM_ATTR_DREQ);
	assert_int_equal(dreq.dreq.remote_comm_id, PEER_ID);
	transaction = dreq.hdr.tid;
	give_drep(f); /* as any CM answers for an unknown connection */
	assert_int_equal(f->last.type, CM_EV_DISCONNECTED);
	give(f, &m); /* and now it is welcome */
	assert_int_equal(f->last.type, CM_EV_REQ);
}

/* Of two that name one queue pair the second came up: that much its peer has said. */
static void a_connection_that_comes_up_has_an_older_ones_peer_asked(void **state)
{
	struct fixture *f = replied(state);
	struct cm_msg m = req_msg(), dreq;
	struct cm_id *old = f->id;
	struct cm_rep rep = our_rep();
	uint32_t old_id = replied_id;

	m.req.local_comm_id = PEER_ID + 1;
	give(f, &m);
	give_rtu(f);
	assert_int_equal(old->state, CM_ESTABLISHED);
	assert_int_equal(cm_rep_send(f->id, &rep, NULL, 0, f->now), 0);
	m = msg(CM_ATTR_RTU);
	m.rtu.local_comm_id = PEER_ID + 1;
	m.rtu.remote_comm_id = get_from(f, CM_ATTR_REP).rep.local_comm_id;
	give(f, &m);
	assert_int_equal(f->id->state, CM_ESTABLISHED);
	dreq = get_from(f, CM_ATTR_DREQ);
	assert_int_equal(dreq.dreq.local_comm_id, old_id);
	transaction = dreq.hdr.tid;
	give_drep(f);
	assert_int_equal(old->state, CM_TIMEWAIT);
	assert_ptr_equal(f->last.id, old);
	assert_int_equal(f->id->state, CM_ESTABLISHED);
}

static void a_rep_from_a_live_connections_qpn_is_rejected_and_the_peer_asked(void **state)
{
	struct fixture *f = connected(state);
	struct cm_id *old = f->id;

	connecting(state);
	give_rep(f, PEER_ID + 1);
	assert_int_equal(get_from(f, CM_ATTR_DREQ).dreq.remote_comm_id, PEER_ID);
	assert_int_equal(get_from(f, CM_ATTR_REJ).rej.reason, CM_REJ_STALE_CONN);
	assert_int_equal(f->last.type, CM_EV_REJ);
	assert_ptr_equal(f->last.id, f->id);
	assert_int_equal(f->rej_reason, CM_REJ_STALE_CONN);
	assert_int_equal(old->state, CM_ESTABLISHED);
}

static void the_same_guid_and_qpn_at_another_address_are_another_peer(void **state)
{
	struct fixture *f = accepted(state);
	struct flow elsewhere = to_us;
	struct cm_msg m = req_msg();
	uint8_t mad[MAD_LEN];

	elsewhere.sgid.raw[15]++;
	cm_msg_encode(&m, mad);
	cm_rx(f->cm, &elsewhere, mad, f->now);
	assert_int_equal(f->last.type, CM_EV_REQ);
	get_nothing(f);
}

static void a_req_of_a_connection_in_timewait_is_stale(void **state)
{
	struct fixture *f = accepted(state);
	struct cm_msg m = req_msg();

	give_dreq(f, OUR_QPN);
	assert_int_equal(cm_drep(f->id, f->now), 0);
	get_from(f, CM_ATTR_DREP);
	give(f, &m); /* a late duplicate */
	assert_int_equal(get_from(f, CM_ATTR_REJ).rej.reason, CM_REJ_STALE_CONN);
	assert_int_equal(f->last.type, CM_EV_DREQ);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(a_req_nobody_listens_for_is_rejected_with_invalid_service_id),
		T(a_req_for_another_transport_or_mtu_is_rejected),
		T(of_several_listeners_the_one_that_matches_gets_the_req),
		T(a_repeated_req_gets_an_mra_while_the_consumer_thinks),
		T(a_repeated_req_gets_the_same_rep),
		T(a_repeated_req_gets_the_same_rej_and_no_second_request),
		T(rejections_remembered_do_not_fill_the_table),
		T(a_forgotten_req_comes_again),
		T(an_unanswered_req_is_repeated_15_times_and_withdrawn),
		T(an_mra_makes_the_active_side_wait_longer),
		T(a_withdrawn_req_is_found_by_the_guid_in_the_rej),
		T(destroying_an_unanswered_connect_withdraws_it),
		T(a_lost_rep_is_repeated_until_the_rtu_comes),
		T(a_rep_nobody_answers_is_given_up_with_a_rej),
		T(an_mra_of_the_rep_extends_its_wait),
		T(a_repeated_rep_gets_an_mra_before_and_the_rtu_after_the_consumer_answered),
		T(a_rep_of_another_passive_id_is_rejected),
		T(early_data_stands_for_a_lost_rtu),
		T(a_dreq_stands_for_a_lost_rtu),
		T(an_rtu_for_an_unknown_connection_is_rejected),
		T(messages_from_another_address_do_not_find_the_connection),
		T(who_names_both_ids_of_a_connection_is_its_peer_and_nobody_else_is),
		T(a_rejected_connect_is_idle_and_may_connect_again_under_a_new_comm_id),
		T(a_req_rejected_for_its_path_mtu_is_sent_again_with_less),
		T(a_req_that_cannot_ask_for_less_is_rejected_for_good),
		T(a_rej_ends_a_reply_and_a_live_connection),
		T(rejecting_a_rep_answers_its_repetitions),
		T(a_req_of_a_live_connections_qpn_has_its_peer_asked),
		T(a_connection_that_comes_up_has_an_older_ones_peer_asked),
		T(a_rep_from_a_live_connections_qpn_is_rejected_and_the_peer_asked),
		T(the_same_guid_and_qpn_at_another_address_are_another_peer),
		T(a_req_of_a_connection_in_timewait_is_stale),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
