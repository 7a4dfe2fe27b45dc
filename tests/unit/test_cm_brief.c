/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Consumers that have another way to go: they hear soon that nobody is there, and only then. */
#include <errno.h>

#include "cm_bed.h"

#define ASKED_EVERY (50 * MSEC)
#define ASKED	    6

static struct cm_msg last_req; /* as it went out */

static struct fixture *brief(void **state)
{
	struct fixture *f = *state;
	struct flow to_peer = {.sgid = to_us.dgid, .dgid = to_us.sgid};
	struct cm_req req = {.service_id = SERVICE,
			     .local_ca_guid = 9,
			     .local_qpn = OUR_QPN,
			     .path_mtu = 3,
			     .primary.local_ack_timeout = 19};

	assert_int_equal(cm_id_create(f->cm, f, &f->id), 0);
	cm_id_brief(f->id);
	assert_int_equal(cm_req_send(f->id, &to_peer, &req, "hello", 5, f->now), 0);
	last_req = get_from(f, CM_ATTR_REQ);
	replied_id = last_req.req.local_comm_id;
	transaction = last_req.hdr.tid;
	return f;
}

static bool absent(struct fixture *f)
{
	return cm_absent(f->cm, &to_us.sgid, f->now);
}

static void give_mra(struct fixture *f, uint8_t timeout)
{
	struct cm_msg m = msg(CM_ATTR_MRA);

	m.mra.local_comm_id = PEER_ID;
	m.mra.remote_comm_id = replied_id;
	m.mra.service_timeout = timeout;
	give(f, &m);
}

static void stay_silent(struct fixture *f)
{
	for (int i = 1; i < ASKED; i++) {
		assert_int_equal(cm_next_deadline(f->cm), f->now + ASKED_EVERY);
		pass(f, ASKED_EVERY);
		assert_int_equal(get_from(f, CM_ATTR_REQ).req.local_comm_id, replied_id);
		get_nothing(f);
		assert_int_equal(f->events, 0);
	}
	pass(f, ASKED_EVERY);
}

static void silence_is_over_in_300_ms_and_remembered_for_a_minute(void **state)
{
	struct fixture *f = brief(state);
	uint64_t begun = f->now;

	assert_false(absent(f));
	stay_silent(f);
	assert_int_equal(f->now - begun, 300 * MSEC);
	assert_int_equal(f->events, 1);
	assert_int_equal(f->last.type, CM_EV_TIMEOUT);
	assert_int_equal(f->id->state, CM_IDLE);
	assert_int_equal(get_from(f, CM_ATTR_REJ).rej.reason, CM_REJ_TIMEOUT);
	assert_true(absent(f));
	assert_false(cm_absent(f->cm, &to_us.dgid, f->now));
	pass(f, 59 * SEC);
	assert_true(absent(f));
	pass(f, SEC);
	assert_false(absent(f));
}

static void it_asks_for_an_answer_at_once(void **state)
{
	uint8_t mad[MAD_LEN];

	brief(state);
	cm_msg_encode(&last_req, mad);
	assert_true(cm_patience_ns(mad) < 2 * MSEC);
	last_req = req_msg();
	cm_msg_encode(&last_req, mad);
	assert_int_equal(cm_patience_ns(mad), RESPONSE);
}

static void any_message_from_there_ends_the_memory(void **state)
{
	struct fixture *f = brief(state);
	struct cm_msg m = msg(CM_ATTR_DREP);

	stay_silent(f);
	assert_true(absent(f));
	give(f, &m); /* of nothing that is known here */
	assert_false(absent(f));
}

/* How long it goes on asking, to the end. */
static uint64_t ask_to_the_end(struct fixture *f, unsigned *reqs, uint64_t *longest)
{
	uint64_t begun = f->now;

	*reqs = 0;
	*longest = 0;
	while (f->id->state == CM_REQ_SENT) {
		uint64_t wait = cm_next_deadline(f->cm) - f->now;

		*longest = max_of(*longest, wait);
		pass(f, wait);
		*reqs += f->id->state == CM_REQ_SENT;
		get_from(f, f->id->state == CM_REQ_SENT ? CM_ATTR_REQ : CM_ATTR_REJ);
	}
	return f->now - begun;
}

static void a_sign_of_life_gives_it_the_usual_time(void **state)
{
	struct fixture *f = brief(state);
	uint64_t took, longest;
	unsigned reqs;

	pass(f, ASKED_EVERY);
	get_from(f, CM_ATTR_REQ);
	give_mra(f, 24);
	/* It asks on: an answer that is lost comes again only when asked for. */
	took = ask_to_the_end(f, &reqs, &longest);
	assert_int_equal(reqs, 15);
	assert_int_equal(longest, RESPONSE);
	assert_in_range(took, 20 * SEC, 70 * SEC);
	assert_int_equal(f->last.type, CM_EV_TIMEOUT);
	assert_false(absent(f)); /* somebody is */
}

static void being_asked_back_is_a_sign_of_life(void **state)
{
	struct fixture *f = brief(state);
	struct cm_msg m;

	transaction = 0x1234567812345678ull;
	m = msg(CM_ATTR_DREQ); /* cm_strangers.c's question */
	m.dreq.local_comm_id = 0x999;
	m.dreq.remote_comm_id = replied_id;
	give(f, &m);
	assert_int_equal(get_from(f, CM_ATTR_DREP).hdr.tid, transaction);
	transaction = last_req.hdr.tid;
	for (int i = 0; i < 2 * ASKED; i++) {
		pass(f, cm_next_deadline(f->cm) - f->now);
		get_from(f, CM_ATTR_REQ);
	}
	give_rep(f, PEER_ID);
	assert_int_equal(f->last.type, CM_EV_REP);
}

static void who_answers_late_is_connected(void **state)
{
	struct fixture *f = brief(state);

	pass(f, 60 * MSEC);
	get_from(f, CM_ATTR_REQ);
	give_mra(f, 24);
	for (int i = 0; i < 4; i++) {
		pass(f, cm_next_deadline(f->cm) - f->now);
		get_from(f, CM_ATTR_REQ);
	}
	assert_int_equal(f->events, 0);
	give_rep(f, PEER_ID);
	assert_int_equal(f->last.type, CM_EV_REP);
	assert_int_equal(cm_rtu(f->id, f->now), 0);
	get_from(f, CM_ATTR_RTU);
	assert_int_equal(f->id->state, CM_ESTABLISHED);
}

/* ---- what ICMP says -------------------------------------------------------------------------- */

static const struct gid *const peer = &to_us.sgid;

static void quote(struct fixture *f, const struct gid *of, const struct cm_msg *m, size_t len)
{
	uint8_t mad[MAD_LEN];

	cm_msg_encode(m, mad);
	cm_unreachable(f->cm, of, mad, len, f->now);
}

static void an_unreachable_port_ends_it_at_once_and_is_remembered_for_a_second(void **state)
{
	struct fixture *f = brief(state);

	quote(f, peer, &last_req, MAD_LEN);
	assert_int_equal(f->events, 1);
	assert_int_equal(f->last.type, CM_EV_TIMEOUT);
	assert_int_equal(f->id->state, CM_IDLE);
	assert_int_equal(cm_next_deadline(f->cm), DEADLINE_NEVER);
	assert_true(absent(f));
	quote(f, peer, &last_req, MAD_LEN); /* of what is over */
	assert_int_equal(f->events, 1);
	pass(f, SEC);
	assert_false(absent(f));
}

static void who_has_not_seen_the_req_cannot_say_that_a_port_is_unreachable(void **state)
{
	struct fixture *f = brief(state);
	struct cm_msg m = last_req;

	m.hdr.tid ^= 1;
	quote(f, peer, &m, MAD_LEN);
	m = last_req;
	m.req.local_comm_id ^= 1;
	quote(f, peer, &m, MAD_LEN);
	quote(f, &to_us.dgid, &last_req, MAD_LEN);
	for (size_t len = 0; len < MAD_HDR_LEN + 4; len++)
		quote(f, peer, &last_req, len);
	assert_int_equal(f->events, 0);
	assert_false(absent(f));
	quote(f, peer, &last_req, MAD_HDR_LEN + 4);
	assert_int_equal(f->events, 1);
}

static void icmp_ends_no_other_connection(void **state)
{
	struct fixture *f = connecting(state);
	uint8_t mad[MAD_LEN];

	memcpy(mad, f->id->last, sizeof(mad));
	cm_unreachable(f->cm, peer, mad, sizeof(mad), f->now);
	assert_int_equal(f->id->state, CM_REQ_SENT);
	give_rep(f, PEER_ID);
	cm_unreachable(f->cm, peer, mad, sizeof(mad), f->now);
	assert_int_equal(f->last.type, CM_EV_REP);
	assert_int_equal(f->events, 1);
	assert_false(absent(f));
}

static void icmp_says_nothing_against_a_sign_of_life(void **state)
{
	struct fixture *f = brief(state);

	give_mra(f, 20);
	quote(f, peer, &last_req, MAD_LEN);
	assert_int_equal(f->id->state, CM_REQ_SENT);
	assert_int_equal(f->events, 0);
	assert_false(absent(f));
}

static void under_the_next_cm_it_stays_brief(void **state)
{
	struct fixture *f = brief(state);
	struct cm_saved s;

	cm_id_save(f->id, &s);
	cm_id_drop(f->id);
	assert_int_equal(cm_id_restore(f->cm, &s, f, &f->id, f->now), 0);
	stay_silent(f);
	assert_int_equal(f->last.type, CM_EV_TIMEOUT);
	get_from(f, CM_ATTR_REJ);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(silence_is_over_in_300_ms_and_remembered_for_a_minute),
		T(it_asks_for_an_answer_at_once),
		T(any_message_from_there_ends_the_memory),
		T(a_sign_of_life_gives_it_the_usual_time),
		T(being_asked_back_is_a_sign_of_life),
		T(who_answers_late_is_connected),
		T(an_unreachable_port_ends_it_at_once_and_is_remembered_for_a_second),
		T(who_has_not_seen_the_req_cannot_say_that_a_port_is_unreachable),
		T(icmp_ends_no_other_connection),
		T(icmp_says_nothing_against_a_sign_of_life),
		T(under_the_next_cm_it_stays_brief),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
