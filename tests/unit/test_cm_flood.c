/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Floods of requests from sources that are none, and what becomes meanwhile of who is where he
 * says.
 */
#include <stdlib.h>

#include "base/bytes.h"
#include "cm_bed.h"

#define FLOOD 20000 /* in a second */

struct flood {
	struct fixture *f;
	uint32_t nr;
	unsigned sent[CM_ATTR_APR + 1], all;
	/* To a peer that is really there, at to_us.sgid. */
	struct cm_msg got[64];
	unsigned gots;
};

static void take(struct flood *fl)
{
	struct fixture *f = fl->f;
	struct flow flow;
	uint8_t mad[MAD_LEN];
	struct cm_msg m;

	while (cm_tx(f->cm, &flow, mad, f->now)) {
		assert_int_equal(cm_msg_decode(&m, mad), 0);
		fl->sent[m.hdr.attr_id]++;
		fl->all++;
		if (gid_equal(&flow.dgid, &to_us.sgid) && fl->gots < 64)
			fl->got[fl->gots++] = m;
	}
}

static void from_nowhere(struct flood *fl, struct cm_msg *m)
{
	struct flow flow = to_us;
	uint8_t mad[MAD_LEN];

	fl->nr++;
	st_be32(flow.sgid.raw + 12, 0x0b000000 + fl->nr);
	cm_msg_encode(m, mad);
	cm_rx(fl->f->cm, &flow, mad, fl->f->now);
}

static void forged_req(struct flood *fl)
{
	struct cm_msg m = req_msg();

	m.req.local_comm_id = 0x1000000 + fl->nr;
	m.req.local_qpn = fl->nr & 0xffffff;
	from_nowhere(fl, &m);
}

/* Goes on for that long. Every request that comes to the consumer is accepted at once. */
static void flood(struct flood *fl, uint64_t ns)
{
	struct fixture *f = fl->f;

	for (uint64_t end = f->now + ns; f->now < end; f->now += SEC / FLOOD) {
		int events = f->events;
		struct cm_rep rep = our_rep();

		forged_req(fl);
		if (f->events != events && f->last.type == CM_EV_REQ && !f->destroy_in_upcall)
			assert_int_equal(cm_rep_send(f->id, &rep, NULL, 0, f->now), 0);
		cm_tick(f->cm, f->now);
		take(fl);
	}
}

/* As every CM does to a DREQ for a connection it does not have. */
static void answer_question(struct flood *fl)
{
	struct cm_msg drep = msg(CM_ATTR_DREP);
	const struct cm_msg *dreq = &fl->got[0];

	assert_int_equal(fl->gots, 1);
	assert_int_equal(dreq->hdr.attr_id, CM_ATTR_DREQ);
	fl->gots = 0;
	drep.hdr.tid = dreq->hdr.tid;
	drep.drep.local_comm_id = dreq->dreq.remote_comm_id;
	drep.drep.remote_comm_id = dreq->dreq.local_comm_id;
	give(fl->f, &drep);
}

static void who_is_where_he_says_connects_while_a_flood_runs(void **state)
{
	struct flood *fl = calloc(1, sizeof(*fl));
	struct fixture *f = fl->f = *state;
	struct cm_rep rep = our_rep();
	struct cm_msg m = req_msg();

	flood(fl, SEC);
	f->events = 0;
	give(f, &m);
	take(fl);
	assert_int_equal(f->events, 0);
	flood(fl, 5 * MSEC); /* so long the question and its answer are on the way */
	answer_question(fl);
	assert_int_equal(f->events, 1);
	assert_int_equal(f->last.type, CM_EV_REQ);
	assert_int_equal(cm_rep_send(f->id, &rep, NULL, 0, f->now), 0);
	m = get_from(f, CM_ATTR_REP);
	flood(fl, 5 * MSEC);
	replied_id = m.rep.local_comm_id;
	give_rtu(f);
	assert_int_equal(f->last.type, CM_EV_RTU);
	/* Now it is known: the next is not asked about. */
	m = req_msg();
	m.req.local_comm_id++;
	m.req.local_qpn++;
	fl->gots = 0;
	f->events = 0;
	give(f, &m);
	assert_int_equal(f->events, 1);
	free(fl);
}

static void a_flood_reaches_the_consumer_in_drops_and_costs_little(void **state)
{
	struct flood *fl = calloc(1, sizeof(*fl));
	struct fixture *f = fl->f = *state;
	long blocks = f->blocks;

	flood(fl, 10 * SEC);
	assert_in_range(f->events, 1, CM_HALF_OPEN_CALM);
	assert_in_range(f->blocks - blocks, 1, CM_HALF_OPEN_CALM + 16);
	assert_in_range(fl->all, 1, 10 * CM_ASKS_PER_SEC + CM_BURST + CM_HALF_OPEN_CALM * 5);
	/* And when it is over nothing is left. */
	while (cm_next_deadline(f->cm) != DEADLINE_NEVER) {
		f->now = cm_next_deadline(f->cm);
		cm_tick(f->cm, f->now);
		take(fl);
	}
	assert_int_equal(f->cm->waiting_count + f->cm->replied_count, 0);
	free(fl);
}

/* One that rejects at once has none that are half-open. */
static void a_consumer_that_rejects_is_not_flooded_either(void **state)
{
	struct flood *fl = calloc(1, sizeof(*fl));
	struct fixture *f = fl->f = *state;
	long blocks = f->blocks;

	f->destroy_in_upcall = true;
	flood(fl, 10 * SEC);
	assert_in_range(f->events, 1, CM_HALF_OPEN_CALM + 10 * CM_UNASKED_PER_SEC + 1);
	assert_in_range(f->blocks - blocks, 1, CM_HALF_OPEN_CALM + 10 * CM_UNASKED_PER_SEC + 1);
	free(fl);
}

static void a_question_is_answered_only_by_who_was_asked(void **state)
{
	struct flood *fl = calloc(1, sizeof(*fl));
	struct fixture *f = fl->f = *state;
	struct cm_msg m = req_msg();

	flood(fl, 100 * MSEC);
	f->events = 0;
	give(f, &m);
	take(fl);
	m = msg(CM_ATTR_DREP);
	for (uint32_t i = 0; i < 2 * CM_ASKED; i++) { /* guessed */
		m.hdr.tid = i;
		give(f, &m);
	}
	m.hdr.tid = fl->got[0].hdr.tid;
	from_nowhere(fl, &m); /* not from there */
	assert_int_equal(f->events, 0);
	answer_question(fl);
	assert_int_equal(f->events, 1);
	f->events = 0;
	give(f, &m); /* once is enough */
	assert_int_equal(f->events, 0);
	free(fl);
}

/* In the name of a source that is known. */
static void forged_in_the_peers_name(struct flood *fl)
{
	struct cm_msg m = req_msg();

	m.req.local_comm_id += 1 + fl->nr;
	m.req.local_qpn += 1 + fl->nr++;
	fl->f->id = NULL;
	fl->f->now += MSEC;
	give(fl->f, &m);
}

static void requests_of_a_source_that_wait_for_their_consumer_are_bounded(void **state)
{
	struct flood *fl = calloc(1, sizeof(*fl));
	struct fixture *f = fl->f = accepted(state);
	struct cm_id *first = NULL;

	for (uint32_t i = 0; i < 2 * CM_WAITING_FROM; i++) {
		forged_in_the_peers_name(fl);
		if (!first)
			first = f->id;
		assert_true((f->id != NULL) == (i < CM_WAITING_FROM));
	}
	assert_int_equal(f->cm->waiting_count, CM_WAITING_FROM);
	/* They are still there, and each that is answered makes room. */
	assert_int_equal(first->state, CM_REQ_RCVD);
	assert_int_equal(cm_reject(first, 28, NULL, 0, NULL, 0, f->now), 0);
	forged_in_the_peers_name(fl);
	assert_non_null(f->id);
	free(fl);
}

/* One that answers them all at once has none that wait, and something else to do. */
static void requests_of_a_source_are_so_many_in_a_second(void **state)
{
	struct flood *fl = calloc(1, sizeof(*fl));
	struct fixture *f = fl->f = accepted(state);
	int before = f->events;

	f->destroy_in_upcall = true;
	for (uint32_t i = 0; i < 5 * FLOOD; i++) {
		forged_in_the_peers_name(fl);
		take(fl);
		f->now += SEC / FLOOD - MSEC;
	}
	assert_in_range(f->events - before, CM_REQS_FROM_PER_SEC,
			5 * CM_REQS_FROM_PER_SEC + CM_BURST + 1);
	free(fl);
}

static void of_a_sources_unanswered_replies_the_oldest_goes(void **state)
{
	struct flood *fl = calloc(1, sizeof(*fl));
	struct fixture *f = fl->f = accepted(state);
	struct cm_rep rep = our_rep();
	struct cm_id *first = NULL;

	for (uint32_t i = 0; i < 2 * CM_REPLIED_FROM; i++) {
		forged_in_the_peers_name(fl);
		assert_non_null(f->id);
		if (!first)
			first = f->id;
		if (i == CM_REPLIED_FROM)
			assert_int_equal(first->state, CM_REP_SENT);
		assert_int_equal(cm_rep_send(f->id, &rep, NULL, 0, f->now), 0);
		take(fl);
		if (i < CM_REPLIED_FROM)
			continue;
		assert_int_equal(f->last.type, CM_EV_TIMEOUT);
		assert_true(i > CM_REPLIED_FROM || f->last.id == first);
		assert_int_equal(f->last.id->state, CM_IDLE);
		cm_id_destroy(f->last.id, f->now);
	}
	assert_int_equal(f->cm->replied_count, CM_REPLIED_FROM);
	assert_int_equal(cm_counters(f->cm)->crowded_out, CM_REPLIED_FROM);
	free(fl);
}

/* As if all had answered the question. */
static void forged_and_welcome(struct flood *fl)
{
	struct fixture *f = fl->f;
	unsigned asked = fl->sent[CM_ATTR_DREQ];

	f->id = NULL;
	forged_req(fl);
	take(fl);
	if (fl->sent[CM_ATTR_DREQ] != asked) {
		struct cm_asked *a = &f->cm->asked[(f->cm->next_asked - 1) % CM_ASKED];
		struct flow back = {.sgid = a->flow.dgid, .dgid = a->flow.sgid}, flow;
		uint8_t mad[MAD_LEN];

		assert_true(cm_welcome_after_all(f->cm, &back, a->tid, &flow, mad));
		cm_rx(f->cm, &flow, mad, f->now);
	}
	f->now += MSEC;
}

static void half_open_connections_are_bounded_in_all(void **state)
{
	struct flood *fl = calloc(1, sizeof(*fl));
	struct fixture *f = fl->f = *state;
	struct cm_rep rep = our_rep();

	for (uint32_t i = 0; i < CM_REPLIED_MAX + 1000; i++) {
		forged_and_welcome(fl);
		assert_non_null(f->id);
		assert_int_equal(cm_rep_send(f->id, &rep, NULL, 0, f->now), 0);
		if (f->last.type == CM_EV_TIMEOUT)
			cm_id_destroy(f->last.id, f->now);
	}
	assert_int_equal(f->cm->replied_count, CM_REPLIED_MAX);
	for (uint32_t i = 0; i < CM_WAITING_MAX + 1000; i++)
		forged_and_welcome(fl);
	assert_int_equal(f->cm->waiting_count, CM_WAITING_MAX);
	free(fl);
}

static void answers_to_strangers_are_so_many_in_a_second(void **state)
{
	static const enum cm_attr_id attrs[] = {CM_ATTR_REQ, CM_ATTR_SIDR_REQ, CM_ATTR_REP,
						CM_ATTR_RTU, CM_ATTR_DREQ};
	struct flood *fl = calloc(1, sizeof(*fl));
	struct fixture *f = fl->f = *state;

	for (unsigned i = 0; i < 100000; i++) {
		struct cm_msg m = msg(attrs[i % ARRAY_SIZE(attrs)]);

		if (i % ARRAY_SIZE(attrs) == 0)
			m.req.service_id = SERVICE + 1;
		from_nowhere(fl, &m);
		take(fl);
		f->now += SEC / 100000;
	}
	assert_in_range(fl->all, CM_ANSWERS_PER_SEC, CM_ANSWERS_PER_SEC + CM_BURST + 1);
	assert_int_equal(cm_counters(f->cm)->withheld, 100000 - fl->all);
	free(fl);
}

/* Repeated requests, each of which asks for the same answer once more. */
static void so_are_answers_given_once_more(void **state)
{
	struct fixture *f = replied(state);
	struct flood *fl = calloc(1, sizeof(*fl));
	struct cm_msg m = req_msg();

	fl->f = f;
	for (unsigned i = 0; i < 100000; i++) {
		give(f, &m);
		take(fl);
		f->now += SEC / 100000;
	}
	assert_in_range(fl->all, CM_ANSWERS_PER_SEC, CM_ANSWERS_PER_SEC + CM_BURST + 1);
	free(fl);
}

static void floods_of_service_ids_are_asked_about_too(void **state)
{
	struct flood *fl = calloc(1, sizeof(*fl));
	struct fixture *f = fl->f = *state;
	struct cm_msg m = msg(CM_ATTR_SIDR_REQ);

	m.sidr_req.service_id = SERVICE;
	for (uint32_t i = 0; i < 10000; i++) {
		m.sidr_req.request_id = i;
		from_nowhere(fl, &m);
		take(fl);
		f->now += SEC / FLOOD;
	}
	assert_in_range(f->events, 1, CM_HALF_OPEN_CALM);
	m.sidr_req.request_id = 77;
	f->events = 0;
	give(f, &m);
	take(fl);
	answer_question(fl);
	assert_int_equal(f->events, 1);
	assert_int_equal(f->last.type, CM_EV_SIDR_REQ);
	free(fl);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(who_is_where_he_says_connects_while_a_flood_runs),
		T(a_flood_reaches_the_consumer_in_drops_and_costs_little),
		T(a_consumer_that_rejects_is_not_flooded_either),
		T(a_question_is_answered_only_by_who_was_asked),
		T(requests_of_a_source_that_wait_for_their_consumer_are_bounded),
		T(requests_of_a_source_are_so_many_in_a_second),
		T(of_a_sources_unanswered_replies_the_oldest_goes),
		T(half_open_connections_are_bounded_in_all),
		T(answers_to_strangers_are_so_many_in_a_second),
		T(so_are_answers_given_once_more),
		T(floods_of_service_ids_are_asked_about_too),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
