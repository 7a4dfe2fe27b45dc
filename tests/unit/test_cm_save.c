/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Identifiers that come back after their CM has ended, from whoever says that they were his. */
#include <errno.h>
#include <stdlib.h>

#include "cm_bed.h"

/* Takes the identifier out of the CM, as what is saved of it. */
static struct cm_saved lift(struct fixture *f)
{
	struct cm_saved s;

	cm_id_save(f->id, &s);
	cm_id_drop(f->id);
	f->id = NULL;
	return s;
}

static int restore(struct fixture *f, const struct cm_saved *s)
{
	return cm_id_restore(f->cm, s, f, &f->id, f->now);
}

static unsigned sent(struct fixture *f)
{
	uint8_t mad[MAD_LEN];
	struct flow flow;
	unsigned n = 0;

	while (cm_tx(f->cm, &flow, mad, f->now))
		n++;
	return n;
}

/* As long as anything comes due. */
static unsigned sent_ever(struct fixture *f)
{
	unsigned n = sent(f);

	while (cm_next_deadline(f->cm) != DEADLINE_NEVER) {
		f->now = cm_next_deadline(f->cm);
		cm_tick(f->cm, f->now);
		n += sent(f);
	}
	return n;
}

static void connections_go_on(void **state)
{
	struct fixture *f = accepted(state);
	struct cm_saved s = lift(f);

	assert_int_equal(restore(f, &s), 0);
	assert_int_equal(f->id->state, CM_ESTABLISHED);
	give_dreq(f, OUR_QPN);
	assert_int_equal(f->id->state, CM_DREQ_RCVD);
}

static void one_that_took_many_tries_goes_on(void **state)
{
	struct fixture *f = connecting(state);
	struct cm_saved s;

	for (int i = 0; i < 10; i++) {
		pass(f, RESPONSE);
		get_from(f, CM_ATTR_REQ);
	}
	give_rep(f, PEER_ID);
	s = lift(f);
	assert_int_equal(restore(f, &s), 0);
	assert_int_equal(cm_rtu(f->id, f->now), 0);
	get_from(f, CM_ATTR_RTU);
}

static void what_is_remembered_is_counted_once(void **state)
{
	struct fixture *f = requested(state);

	assert_int_equal(cm_reject(f->id, CM_REJ_CONSUMER_DEFINED, NULL, 0, NULL, 0, f->now), 0);
	sent(f);
	assert_int_equal(f->id->state, CM_TIMEWAIT);
	assert_int_equal(f->cm->memories, 1);
	(void)lift(f);
	assert_int_equal(f->cm->memories, 0);
}

static void none_stays_for_ever_when_its_owner_is_gone(void **state)
{
	struct fixture *f = accepted(state);
	struct cm_saved s = lift(f);
	uint32_t live = f->cm->handles.live;

	s.heard = 0;
	if (restore(f, &s) == 0) {
		cm_id_destroy(f->id, f->now);
		sent_ever(f);
	}
	f->id = NULL;
	assert_int_equal(f->cm->handles.live, live);
}

static void a_stranger_gets_no_more_by_it(void **state)
{
	struct fixture *f = replied(state);
	struct cm_saved s;

	assert_int_equal(sent(f), 0);
	s = lift(f);
	s.unheard_sent = CM_UNHEARD_MAX;
	if (restore(f, &s) == 0) {
		cm_id_destroy(f->id, f->now);
		assert_in_range(sent_ever(f), 0, CM_UNHEARD_MAX);
	}
	f->id = NULL;
}

static void what_is_repeated_is_ours(void **state)
{
	struct fixture *f = connecting(state);
	struct cm_saved s = lift(f), other = s;

	/* Version, class, its version, method; attribute; our communication id. */
	static const size_t places[] = {0, 1, 2, 3, 16, 17, MAD_HDR_LEN};

	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		other = s;
		other.last[places[i]] ^= 0x7f;
		assert_int_equal(restore(f, &other), -EINVAL);
	}
	other = s;
	other.last_attr = CM_ATTR_DREQ;
	assert_int_equal(restore(f, &other), -EINVAL);
	assert_int_equal(restore(f, &s), 0);
	pass(f, RESPONSE);
	get_from(f, CM_ATTR_REQ);
}

/* Two managers of one secret, the tables of which give the same places. */
static void one_whose_place_is_taken_meanwhile_goes_on(void **state)
{
	struct fixture *f = accepted(state), *heir;
	struct cm_saved s = lift(f);
	struct cm_id *newcomer;
	void *other;

	assert_int_equal(setup(&other), 0);
	heir = other;
	assert_memory_equal(heir->cm->scramble, f->cm->scramble, sizeof(f->cm->scramble));
	heir->random = 99;
	assert_int_equal(cm_id_create(heir->cm, heir, &newcomer), 0);
	assert_int_not_equal(newcomer->local_comm_id, s.local_comm_id);
	assert_int_equal(restore(heir, &s), 0);
	assert_int_equal(newcomer->key >> CM_GEN_BITS, heir->id->key >> CM_GEN_BITS);
	assert_ptr_equal(cm_find_local(heir->cm, s.local_comm_id), heir->id);
	assert_ptr_equal(cm_find_local(heir->cm, newcomer->local_comm_id), newcomer);
	give_dreq(heir, OUR_QPN);
	assert_int_equal(heir->id->state, CM_DREQ_RCVD);
	assert_int_equal(teardown(&other), 0);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(connections_go_on),
		T(one_that_took_many_tries_goes_on),
		T(what_is_remembered_is_counted_once),
		T(none_stays_for_ever_when_its_owner_is_gone),
		T(a_stranger_gets_no_more_by_it),
		T(what_is_repeated_is_ours),
		T(one_whose_place_is_taken_meanwhile_goes_on),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
