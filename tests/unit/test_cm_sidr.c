/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Service ID resolution between two CMs; the test is the wire. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "cm/cm_priv.h"

#define SERVICE	 0x0000000001111234ull
#define SEC	 NSEC_PER_SEC
#define RESPONSE (4096ull << 20)

struct end {
	struct cm *cm;
	struct gid gid;
	struct cm_id *id;
	struct cm_event last; /* pointers in it are stale */
	struct cm_sidr_rep rep;
	uint8_t private_data[CM_SIDR_REQ_PRIVATE];
	int events;
	uint32_t random;
	long blocks;
};

struct fixture {
	struct end a, b; /* a asks, b answers */
	struct cm_id *listener;
	uint64_t now;
};

static void *do_alloc(void *ctx, size_t bytes)
{
	((struct end *)ctx)->blocks++;
	return calloc(1, bytes);
}

static void do_free(void *ctx, void *p)
{
	((struct end *)ctx)->blocks--;
	free(p);
}

static uint32_t do_random(void *ctx)
{
	struct end *e = ctx;

	return e->random = e->random * 1664525 + 1013904223;
}

static void on_event(void *ctx, void *id_user, const struct cm_event *ev)
{
	struct end *e = ctx;

	assert_ptr_equal(id_user, e);
	e->events++;
	e->last = *ev;
	if (ev->private_len)
		memcpy(e->private_data, ev->private_data, ev->private_len);
	if (ev->type == CM_EV_SIDR_REQ)
		e->id = ev->id;
	if (ev->type == CM_EV_SIDR_REP)
		e->rep = *ev->sidr_rep;
}

static const struct cm_ops ops = {do_alloc, do_free, do_random, on_event};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	f->now = SEC;
	f->a.random = 7;
	f->b.random = 8;
	f->a.gid = (struct gid){{[10] = 0xff, [11] = 0xff, 10, 0, 0, 1}};
	f->b.gid = (struct gid){{[10] = 0xff, [11] = 0xff, 10, 0, 0, 2}};
	if (cm_create(&f->a.cm, &ops, &f->a) < 0 || cm_create(&f->b.cm, &ops, &f->b) < 0 ||
	    cm_id_create(f->b.cm, &f->b, &f->listener) < 0 ||
	    cm_listen(f->listener, SERVICE, UINT64_MAX, NULL) < 0 ||
	    cm_id_create(f->a.cm, &f->a, &f->a.id) < 0)
		return -1;
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;
	long left;

	cm_destroy(f->a.cm);
	cm_destroy(f->b.cm);
	left = f->a.blocks + f->b.blocks;
	free(f);
	return left != 0;
}

/* The one MAD that an end has to send; with `to` it gets there. */
static struct cm_msg take(struct fixture *f, struct end *from, struct end *to)
{
	uint8_t mad[MAD_LEN], more[MAD_LEN];
	struct flow flow, none;
	struct cm_msg m;

	assert_true(cm_tx(from->cm, &flow, mad, f->now));
	assert_false(cm_tx(from->cm, &none, more, f->now));
	assert_int_equal(cm_msg_decode(&m, mad), 0);
	if (to)
		cm_rx(to->cm, &flow, mad, f->now);
	return m;
}

static void nothing_sent(struct fixture *f, struct end *e)
{
	uint8_t mad[MAD_LEN];
	struct flow flow;

	assert_false(cm_tx(e->cm, &flow, mad, f->now));
}

static void pass(struct fixture *f, uint64_t ns)
{
	f->now += ns;
	cm_tick(f->a.cm, f->now);
	cm_tick(f->b.cm, f->now);
}

static void ask(struct fixture *f, uint64_t service_id)
{
	const struct cm_sidr_req req = {.service_id = service_id, .pkey = 0xffff};
	const struct flow flow = {.sgid = f->a.gid, .dgid = f->b.gid, .tos = 0x20};

	assert_int_equal(cm_sidr_req_send(f->a.id, &flow, &req, "who", 4, f->now), 0);
}

static int answer(struct fixture *f, uint8_t status)
{
	const struct cm_sidr_rep rep = {.status = status, .qpn = 0x010022, .qkey = 0x01234567};

	return cm_sidr_rep_send(f->b.id, &rep, "me", 3, f->now);
}

static void an_answer_says_queue_pair_and_key(void **state)
{
	struct fixture *f = *state;
	struct cm_msg m;

	ask(f, SERVICE);
	m = take(f, &f->a, &f->b);
	assert_int_equal(m.hdr.attr_id, CM_ATTR_SIDR_REQ);
	assert_int_equal(m.sidr_req.pkey, 0xffff);
	assert_int_equal(m.sidr_req.request_id, (uint32_t)m.hdr.tid);
	assert_int_equal(f->b.last.type, CM_EV_SIDR_REQ);
	assert_ptr_equal(f->b.last.listener, f->listener);
	assert_int_equal(f->b.last.private_len, CM_SIDR_REQ_PRIVATE);
	assert_string_equal((char *)f->b.private_data, "who");
	assert_true(gid_equal(&f->b.last.flow.dgid, &f->a.gid));

	assert_int_equal(answer(f, CM_SIDR_SUCCESS), 0);
	assert_int_equal(answer(f, CM_SIDR_SUCCESS), -EINVAL);
	m = take(f, &f->b, &f->a);
	assert_int_equal(m.sidr_rep.service_id, SERVICE);
	assert_int_equal(f->a.last.type, CM_EV_SIDR_REP);
	assert_int_equal(f->a.rep.status, CM_SIDR_SUCCESS);
	assert_int_equal(f->a.rep.qpn, 0x010022);
	assert_int_equal(f->a.rep.qkey, 0x01234567);
	assert_string_equal((char *)f->a.private_data, "me");

	/* All is said: no timer of the asking side's runs, and the other forgets in time. */
	assert_int_equal(f->a.id->state, CM_IDLE);
	assert_int_equal(cm_next_deadline(f->a.cm), DEADLINE_NEVER);
	pass(f, 20 * SEC);
	assert_int_equal(f->b.id->state, CM_IDLE);
	assert_int_equal(f->a.events, 1);
	assert_int_equal(f->b.events, 1);
}

static void a_lost_request_is_repeated(void **state)
{
	struct fixture *f = *state;

	ask(f, SERVICE);
	take(f, &f->a, NULL);
	pass(f, RESPONSE - 1);
	nothing_sent(f, &f->a);
	pass(f, 1);
	take(f, &f->a, &f->b);
	assert_int_equal(f->b.events, 1);
	assert_int_equal(answer(f, CM_SIDR_SUCCESS), 0);
	take(f, &f->b, &f->a);
	assert_int_equal(f->a.rep.status, CM_SIDR_SUCCESS);
}

static void a_request_repeated_while_the_consumer_thinks_is_one_request(void **state)
{
	struct fixture *f = *state;

	ask(f, SERVICE);
	take(f, &f->a, &f->b);
	pass(f, RESPONSE);
	take(f, &f->a, &f->b);
	nothing_sent(f, &f->b);
	assert_int_equal(f->b.events, 1);
}

static void a_lost_answer_is_repeated_and_a_second_one_ignored(void **state)
{
	struct fixture *f = *state;

	ask(f, SERVICE);
	take(f, &f->a, &f->b);
	assert_int_equal(answer(f, CM_SIDR_SUCCESS), 0);
	take(f, &f->b, NULL);
	pass(f, RESPONSE);
	take(f, &f->a, &f->b); /* asks again, and is answered without the consumer */
	assert_int_equal(f->b.events, 1);
	take(f, &f->b, &f->a);
	assert_int_equal(f->a.events, 1);
	assert_int_equal(f->a.rep.qpn, 0x010022);

	cm_repeat_last(f->b.id);
	take(f, &f->b, &f->a);
	assert_int_equal(f->a.events, 1);
	assert_int_equal(cm_counters(f->a.cm)->rx_unknown, 1);
}

static void an_answer_outlives_its_handle(void **state)
{
	struct fixture *f = *state;

	ask(f, SERVICE);
	take(f, &f->a, &f->b);
	assert_int_equal(answer(f, CM_SIDR_SUCCESS), 0);
	take(f, &f->b, NULL);
	cm_id_destroy(f->b.id, f->now);
	pass(f, RESPONSE);
	take(f, &f->a, &f->b);
	take(f, &f->b, &f->a);
	assert_int_equal(f->a.rep.status, CM_SIDR_SUCCESS);
	pass(f, 20 * SEC);
	assert_ptr_equal(f->b.cm->ids.next, &f->listener->all);
	assert_ptr_equal(f->b.cm->ids.prev, &f->listener->all);
}

static void a_host_that_does_not_answer_is_given_up_after_16_requests(void **state)
{
	struct fixture *f = *state;
	int sent = 0;

	ask(f, SERVICE);
	for (int i = 0; i < 20; i++) {
		uint8_t mad[MAD_LEN];
		struct flow flow;

		sent += cm_tx(f->a.cm, &flow, mad, f->now);
		pass(f, RESPONSE);
	}
	assert_int_equal(sent, 16);
	assert_int_equal(f->a.events, 1);
	assert_int_equal(f->a.last.type, CM_EV_TIMEOUT);
	assert_int_equal(f->a.id->state, CM_IDLE);
	assert_int_equal(cm_counters(f->a.cm)->gave_up, 1);
}

static void a_service_that_nobody_has_is_unsupported(void **state)
{
	struct fixture *f = *state;
	uint8_t mad[MAD_LEN];
	struct flow flow;

	ask(f, SERVICE + 1);
	assert_true(cm_tx(f->a.cm, &flow, mad, f->now));
	assert_true(cm_unheard(f->b.cm, &flow, mad));
	cm_rx(f->b.cm, &flow, mad, f->now);
	take(f, &f->b, &f->a);
	assert_int_equal(f->b.events, 0);
	assert_int_equal(f->a.rep.status, CM_SIDR_UNSUPPORTED);
	assert_int_equal(f->a.rep.service_id, SERVICE + 1);
}

static void a_rejection_says_its_status_and_data(void **state)
{
	struct fixture *f = *state;

	ask(f, SERVICE);
	take(f, &f->a, &f->b);
	assert_int_equal(answer(f, CM_SIDR_REJECT), 0);
	take(f, &f->b, &f->a);
	assert_int_equal(f->a.rep.status, CM_SIDR_REJECT);
	assert_string_equal((char *)f->a.private_data, "me");
}

static void a_request_nobody_will_answer_is_rejected(void **state)
{
	struct fixture *f = *state;

	ask(f, SERVICE);
	take(f, &f->a, &f->b);
	cm_id_destroy(f->b.id, f->now);
	take(f, &f->b, &f->a);
	assert_int_equal(f->a.rep.status, CM_SIDR_REJECT);
}

static void a_forgotten_request_comes_again(void **state)
{
	struct fixture *f = *state;

	ask(f, SERVICE);
	take(f, &f->a, &f->b);
	cm_id_forget(f->b.id);
	pass(f, RESPONSE);
	take(f, &f->a, &f->b);
	assert_int_equal(f->b.events, 2);
}

static void an_answer_of_somebody_else_is_not_taken(void **state)
{
	struct fixture *f = *state;
	struct cm_msg m, rep;
	uint8_t mad[MAD_LEN];
	struct flow flow = {.sgid = f->b.gid, .dgid = f->a.gid};

	ask(f, SERVICE);
	m = take(f, &f->a, &f->b);
	cm_msg_begin(&rep, CM_ATTR_SIDR_REP, m.hdr.tid);
	rep.sidr_rep.request_id = m.sidr_req.request_id ^ 1;
	cm_msg_encode(&rep, mad);
	cm_rx(f->a.cm, &flow, mad, f->now);
	rep.sidr_rep.request_id ^= 1;
	cm_msg_encode(&rep, mad);
	flow.sgid.raw[15] = 3;
	cm_rx(f->a.cm, &flow, mad, f->now);
	assert_int_equal(f->a.events, 0);
	flow.sgid = f->b.gid;
	cm_rx(f->a.cm, &flow, mad, f->now);
	assert_int_equal(f->a.events, 1);
}

/* The same number of two hosts, and of a connection, are different things. */
static void requests_are_told_apart_by_their_sender(void **state)
{
	struct fixture *f = *state;
	struct flow flow = {.sgid = f->a.gid, .dgid = f->b.gid};
	struct cm_msg m, req;
	uint8_t mad[MAD_LEN];

	ask(f, SERVICE);
	m = take(f, &f->a, &f->b);
	flow.sgid.raw[15] = 3;
	cm_msg_encode(&m, mad);
	cm_rx(f->b.cm, &flow, mad, f->now);
	assert_int_equal(f->b.events, 2);

	cm_msg_begin(&req, CM_ATTR_REQ, 1);
	req.req.service_id = SERVICE;
	req.req.local_comm_id = m.sidr_req.request_id;
	req.req.path_mtu = 3;
	cm_msg_encode(&req, mad);
	cm_rx(f->b.cm, &flow, mad, f->now);
	assert_int_equal(f->b.events, 3);
	assert_int_equal(f->b.last.type, CM_EV_REQ);
}

static void calls_out_of_order_change_nothing(void **state)
{
	const struct cm_sidr_rep too_much = {.info_len = CM_SIDR_REP_INFO + 1};
	const struct cm_sidr_req req = {.service_id = SERVICE};
	struct fixture *f = *state;
	const struct flow flow = {.sgid = f->a.gid, .dgid = f->b.gid};

	assert_int_equal(cm_sidr_req_send(f->listener, &flow, &req, NULL, 0, f->now), -EINVAL);
	assert_int_equal(cm_sidr_req_send(f->a.id, &flow, &req, "", 217, f->now), -EINVAL);
	assert_int_equal(cm_sidr_rep_send(f->a.id, &(struct cm_sidr_rep){0}, NULL, 0, f->now),
			 -EINVAL);
	ask(f, SERVICE);
	assert_int_equal(cm_sidr_req_send(f->a.id, &flow, &req, NULL, 0, f->now), -EINVAL);
	assert_int_equal(cm_reject(f->a.id, 28, NULL, 0, NULL, 0, f->now), -EINVAL);
	assert_int_equal(cm_rtu(f->a.id, f->now), -EINVAL);
	take(f, &f->a, &f->b);
	assert_int_equal(cm_rep_send(f->b.id, &(struct cm_rep){0}, NULL, 0, f->now), -EINVAL);
	assert_int_equal(cm_reject(f->b.id, 28, NULL, 0, NULL, 0, f->now), -EINVAL);
	assert_int_equal(cm_mra(f->b.id, 20, f->now), -EINVAL);
	assert_int_equal(cm_dreq(f->b.id, f->now), -EINVAL);
	assert_int_equal(cm_sidr_rep_send(f->b.id, &too_much, NULL, 0, f->now), -EINVAL);
	assert_int_equal(cm_sidr_rep_send(f->b.id, &(struct cm_sidr_rep){0}, "", 137, f->now),
			 -EINVAL);
	nothing_sent(f, &f->b);
	assert_int_equal(f->b.id->state, CM_SIDR_REQ_RCVD);
}

static void destroying_an_asking_id_ends_its_asking(void **state)
{
	struct fixture *f = *state;

	ask(f, SERVICE);
	take(f, &f->a, NULL);
	cm_id_destroy(f->a.id, f->now);
	nothing_sent(f, &f->a);
	assert_int_equal(cm_next_deadline(f->a.cm), DEADLINE_NEVER);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(an_answer_says_queue_pair_and_key),
		T(a_lost_request_is_repeated),
		T(a_request_repeated_while_the_consumer_thinks_is_one_request),
		T(a_lost_answer_is_repeated_and_a_second_one_ignored),
		T(an_answer_outlives_its_handle),
		T(a_host_that_does_not_answer_is_given_up_after_16_requests),
		T(a_service_that_nobody_has_is_unsupported),
		T(a_rejection_says_its_status_and_data),
		T(a_request_nobody_will_answer_is_rejected),
		T(a_forgotten_request_comes_again),
		T(an_answer_of_somebody_else_is_not_taken),
		T(requests_are_told_apart_by_their_sender),
		T(calls_out_of_order_change_nothing),
		T(destroying_an_asking_id_ends_its_asking),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
