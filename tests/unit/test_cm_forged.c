/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What somebody can do to a CM who may put any source address into his packets, but sees nothing
 * of what others send: end connections of others, have others sent what they never asked for.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "cm_bed.h"

struct sent {
	unsigned all, of[CM_ATTR_APR + 1];
	struct cm_msg last_dreq;
};

/* What the CM has to send now, all of it; most is lost. */
static void take(struct fixture *f, struct sent *s)
{
	struct flow flow;
	uint8_t mad[MAD_LEN];
	struct cm_msg m;

	while (cm_tx(f->cm, &flow, mad, f->now)) {
		assert_int_equal(cm_msg_decode(&m, mad), 0);
		s->all++;
		s->of[m.hdr.attr_id]++;
		if (m.hdr.attr_id == CM_ATTR_DREQ)
			s->last_dreq = m;
	}
}

/* Lets time pass with all that comes due in it. */
static void live(struct fixture *f, uint64_t ns, struct sent *s)
{
	uint64_t end = f->now + ns;

	take(f, s);
	while (cm_next_deadline(f->cm) <= end) {
		f->now = cm_next_deadline(f->cm);
		cm_tick(f->cm, f->now);
		take(f, s);
	}
	f->now = end;
}

/* ---- connections of others -------------------------------------------------------------------
 */

static struct cm_msg req_of_another_life(uint32_t nr)
{
	struct cm_msg m = req_msg();

	m.req.local_comm_id = PEER_ID + 1 + nr;
	return m;
}

/* One who has guessed GUID and queue pair of the peer, as whoever tries them all has. */
static void survive_forged_reqs(struct fixture *f)
{
	struct sent sent = {0};
	int events = f->events;

	for (uint32_t i = 0; i < 5000; i++) {
		struct cm_msg m = req_of_another_life(i);

		give(f, &m);
		live(f, MSEC, &sent);
	}
	assert_int_equal(f->id->state, CM_ESTABLISHED);
	/* The peer was asked whether it lives, and not for each of them. */
	assert_in_range(sent.of[CM_ATTR_DREQ], 1, 5);
	live(f, 300 * SEC, &sent);
	assert_int_equal(f->id->state, CM_ESTABLISHED);
	assert_int_equal(f->events, events);
	assert_in_range(sent.of[CM_ATTR_DREQ], 1, 8);
	assert_int_equal(cm_next_deadline(f->cm), DEADLINE_NEVER);
}

static void a_live_connection_survives_any_number_of_forged_reqs(void **state)
{
	survive_forged_reqs(accepted(state));
}

static void so_does_one_that_we_began(void **state)
{
	survive_forged_reqs(connected(state));
}

/* The question is one that a live peer lets pass: about a queue pair that is not its. */
static void the_question_whether_a_peer_lives_hurts_no_live_one(void **state)
{
	struct fixture *f = accepted(state);
	struct cm_msg m = req_of_another_life(0), dreq;

	give(f, &m);
	assert_int_equal(get_from(f, CM_ATTR_REJ).rej.reason, CM_REJ_STALE_CONN);
	dreq = get_from(f, CM_ATTR_DREQ);
	assert_int_equal(dreq.dreq.local_comm_id, replied_id);
	assert_int_equal(dreq.dreq.remote_comm_id, PEER_ID);
	assert_int_equal(dreq.dreq.remote_qpn, 0);
	/* A CM of ours in the peer's place. */
	dreq.dreq.local_comm_id = PEER_ID;
	dreq.dreq.remote_comm_id = replied_id;
	give(f, &dreq);
	get_nothing(f);
	assert_int_equal(f->id->state, CM_ESTABLISHED);
	assert_int_equal(f->events, 2);
}

static void a_drep_that_does_not_answer_the_question_ends_nothing(void **state)
{
	struct fixture *f = accepted(state);
	struct cm_msg m = req_of_another_life(0);

	give_drep(f); /* nobody has asked */
	give(f, &m);
	give_drep(f); /* of another transaction */
	assert_int_equal(f->id->state, CM_ESTABLISHED);
	assert_int_equal(f->events, 2);
}

static void a_half_open_connection_is_in_nobodys_way(void **state)
{
	struct fixture *f = replied(state);
	struct cm_msg m = req_of_another_life(0);
	struct cm_id *first = f->id;

	give(f, &m);
	get_nothing(f);
	assert_int_equal(f->last.type, CM_EV_REQ);
	assert_ptr_not_equal(f->id, first);
	assert_int_equal(first->state, CM_REP_SENT);
	give_rtu(f);
	assert_int_equal(first->state, CM_ESTABLISHED);
}

static const enum cm_attr_id of_a_connection[] = {CM_ATTR_REP, CM_ATTR_RTU,  CM_ATTR_REJ,
						  CM_ATTR_MRA, CM_ATTR_DREQ, CM_ATTR_DREP};

/* All of them have the ids at the same place. */
static void give_with_ids(struct fixture *f, enum cm_attr_id attr, uint32_t theirs, uint32_t ours)
{
	struct cm_msg m = msg(attr);
	uint8_t mad[MAD_LEN];

	if (attr == CM_ATTR_DREQ)
		m.dreq.remote_qpn = OUR_QPN;
	if (attr == CM_ATTR_REJ)
		m.rej.reason = CM_REJ_CONSUMER_DEFINED;
	cm_msg_encode(&m, mad);
	st_be32(mad + MAD_HDR_LEN, theirs);
	st_be32(mad + MAD_HDR_LEN + 4, ours);
	cm_rx(f->cm, &to_us, mad, f->now);
}

/* From the peer's address, to the queue pair, and with one of the two ids, whichever. */
static void who_knows_one_id_reaches_no_connection(void **state)
{
	struct fixture *(*const made[])(void **) = {replied, accepted, connected};

	for (size_t i = 0; i < ARRAY_SIZE(made); i++) {
		struct fixture *f = made[i](state);
		enum cm_state before = f->id->state;
		uint64_t deadline = cm_next_deadline(f->cm);
		struct sent sent = {0};
		int events = f->events;

		for (size_t k = 0; k < ARRAY_SIZE(of_a_connection); k++)
			for (uint32_t guess = 1; guess < 1000; guess++) {
				give_with_ids(f, of_a_connection[k], PEER_ID + guess, replied_id);
				give_with_ids(f, of_a_connection[k], PEER_ID, replied_id + guess);
				give_with_ids(f, of_a_connection[k], 0, replied_id);
				give_with_ids(f, of_a_connection[k], PEER_ID, 0);
			}
		take(f, &sent);
		assert_int_equal(f->id->state, before);
		assert_int_equal(f->events, events);
		assert_true(cm_next_deadline(f->cm) == deadline);
		teardown(state);
		setup(state);
	}
}

/* The sender of a REQ may withdraw it without knowing our id; of a connection it knows it. */
static void a_connection_is_not_withdrawn_as_a_req_is(void **state)
{
	struct fixture *f = accepted(state);
	struct cm_msg m = msg(CM_ATTR_REJ);

	m.rej.reason = CM_REJ_TIMEOUT;
	m.rej.local_comm_id = PEER_ID;
	m.rej.reject_info_len = 8;
	st_be64(m.rej.ari, PEER_GUID);
	give(f, &m);
	assert_int_equal(f->id->state, CM_ESTABLISHED);
	assert_int_equal(f->events, 2);
}

/* Before the REP the peer's id is not known, but the REQ's transaction is. */
static void an_answer_to_a_req_must_be_of_its_transaction(void **state)
{
	struct fixture *f = connecting(state);
	struct cm_msg rep = msg(CM_ATTR_REP), rej = msg(CM_ATTR_REJ), mra = msg(CM_ATTR_MRA);
	uint64_t deadline = cm_next_deadline(f->cm);

	rep.hdr.tid = rej.hdr.tid = mra.hdr.tid = f->id->tid ^ 1ull << 60;
	rep.rep.local_comm_id = rej.rej.local_comm_id = mra.mra.local_comm_id = PEER_ID;
	rep.rep.remote_comm_id = rej.rej.remote_comm_id = mra.mra.remote_comm_id = replied_id;
	rep.rep.local_qpn = PEER_QPN;
	rej.rej.reason = CM_REJ_CONSUMER_DEFINED;
	mra.mra.service_timeout = 24;
	give(f, &rep);
	give(f, &rej);
	give(f, &mra);
	assert_int_equal(f->id->state, CM_REQ_SENT);
	assert_int_equal(cm_next_deadline(f->cm), deadline);
	assert_int_equal(f->events, 0);
}

/* ---- what a stranger has others sent --------------------------------------------------------- */

/* The most packets, of the length of his own, that one packet of a stranger's makes us send. */
#define AMPLIFICATION_MAX 5

enum consumer { ACCEPTS, ACCEPTS_AND_LEAVES, REJECTS, LEAVES, THINKS, CONSUMERS };

static void consume(struct fixture *f, enum consumer consumer)
{
	struct cm_rep rep = our_rep();
	static const struct cm_sidr_rep sidr = {.qpn = OUR_QPN};
	bool datagram = f->last.type == CM_EV_SIDR_REQ;

	if (consumer == ACCEPTS || consumer == ACCEPTS_AND_LEAVES)
		assert_int_equal(datagram ? cm_sidr_rep_send(f->last.id, &sidr, NULL, 0, f->now)
					  : cm_rep_send(f->id, &rep, NULL, 0, f->now),
				 0);
	else if (consumer == REJECTS && !datagram)
		assert_int_equal(cm_reject(f->id, 28, NULL, 0, NULL, 0, f->now), 0);
	if (consumer == LEAVES || consumer == ACCEPTS_AND_LEAVES)
		cm_id_destroy(f->last.id, f->now);
}

static void one_req_has_few_answers(void **state)
{
	struct fixture *f = *state;

	for (enum consumer c = ACCEPTS; c < CONSUMERS; c++)
		for (int timeout = 0; timeout < 32; timeout++) {
			struct cm_msg m = req_msg();
			struct sent sent = {0};

			m.req.local_comm_id += 100u * c + (unsigned)timeout;
			m.req.local_qpn = (uint32_t)(timeout + 1);
			m.req.local_cm_response_timeout = (uint8_t)timeout;
			m.req.remote_cm_response_timeout = (uint8_t)timeout;
			m.req.max_cm_retries = 15;
			give(f, &m);
			assert_int_equal(f->last.type, CM_EV_REQ);
			consume(f, c);
			live(f, 5000 * SEC, &sent);
			assert_in_range(sent.all, c == THINKS ? 0 : 1, AMPLIFICATION_MAX);
			assert_int_equal(sent.of[CM_ATTR_DREQ], 0);
		}
}

static void one_sidr_req_has_one_answer(void **state)
{
	struct fixture *f = *state;

	for (enum consumer c = ACCEPTS; c < CONSUMERS; c++) {
		struct cm_msg m = msg(CM_ATTR_SIDR_REQ);
		struct sent sent = {0};

		m.sidr_req.request_id = 100 + c;
		m.sidr_req.service_id = SERVICE;
		give(f, &m);
		assert_int_equal(f->last.type, CM_EV_SIDR_REQ);
		consume(f, c);
		live(f, 5000 * SEC, &sent);
		assert_int_equal(sent.all, c == THINKS || c == REJECTS ? 0 : 1);
	}
}

static void any_other_message_has_one_answer_at_most(void **state)
{
	struct fixture *f = *state;
	unsigned answers = 0;

	for (unsigned attr = 0; attr < 0x40; attr++)
		for (unsigned class = 0; class < 256; class ++)
			for (unsigned method = 0; method < 256; method += method == 3 ? 0x7e : 1) {
				struct sent sent = {0};
				uint8_t mad[MAD_LEN] = {[0] = MAD_BASE_VERSION,
							[1] = (uint8_t) class,
							[2] = CM_CLASS_VERSION,
							[3] = (uint8_t)method};

				st_be16(mad + 16, (uint16_t)attr);
				for (int i = MAD_HDR_LEN; i < MAD_LEN; i++)
					mad[i] = (uint8_t)i;
				cm_rx(f->cm, &to_us, mad, f->now);
				live(f, 100 * SEC, &sent);
				assert_in_range(sent.all, 0, 1);
				answers += sent.all;
			}
	/* REQ, SIDR_REQ, REP, RTU, DREQ: of no other class, by no other method */
	cm_id_destroy(f->listener, f->now);
	assert_in_range(answers, 3, 5);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(a_live_connection_survives_any_number_of_forged_reqs),
		T(so_does_one_that_we_began),
		T(the_question_whether_a_peer_lives_hurts_no_live_one),
		T(a_drep_that_does_not_answer_the_question_ends_nothing),
		T(a_half_open_connection_is_in_nobodys_way),
		T(who_knows_one_id_reaches_no_connection),
		T(a_connection_is_not_withdrawn_as_a_req_is),
		T(an_answer_to_a_req_must_be_of_its_transaction),
		T(one_req_has_few_answers),
		T(one_sidr_req_has_one_answer),
		T(any_other_message_has_one_answer_at_most),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
