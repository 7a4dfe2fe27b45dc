/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "cm_bed.h"

#include <stdlib.h>

const struct flow to_us = {
	.sgid = {{[10] = 0xff, [11] = 0xff, 10, 0, 0, 2}},
	.dgid = {{[10] = 0xff, [11] = 0xff, 10, 0, 0, 1}},
	.sport = 55410,
};

static void *do_alloc(void *ctx, size_t bytes)
{
	((struct fixture *)ctx)->blocks++;
	return calloc(1, bytes);
}

static void do_free(void *ctx, void *p)
{
	((struct fixture *)ctx)->blocks--;
	free(p);
}

static uint32_t do_random(void *ctx)
{
	struct fixture *f = ctx;

	f->random = f->random * 1664525 + 1013904223;
	return f->random;
}

static void on_event(void *ctx, void *id_user, const struct cm_event *ev)
{
	struct fixture *f = ctx;

	assert_ptr_equal(id_user, f);
	f->events++;
	f->last = *ev;
	if (ev->type == CM_EV_REQ) {
		assert_ptr_equal(ev->listener, f->listener);
		f->id = ev->id;
	}
	if (ev->type == CM_EV_REJ)
		f->rej_reason = ev->rej->reason;
	if (f->destroy_in_upcall)
		cm_id_destroy(ev->id, f->now);
}

static const struct cm_ops ops = {do_alloc, do_free, do_random, on_event};

int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	f->random = 7;
	transaction = 0x77;
	f->now = SEC;
	if (cm_create(&f->cm, &ops, f) < 0 || cm_id_create(f->cm, f, &f->listener) < 0 ||
	    cm_listen(f->listener, SERVICE, UINT64_MAX, NULL) < 0)
		return -1;
	*state = f;
	return 0;
}

int teardown(void **state)
{
	struct fixture *f = *state;
	long left;

	cm_destroy(f->cm);
	left = f->blocks;
	free(f);
	return left != 0;
}

/* ---- playing the other side --------------------------------------------------------------- */

void give(struct fixture *f, const struct cm_msg *m)
{
	uint8_t mad[MAD_LEN];

	cm_msg_encode(m, mad);
	cm_rx(f->cm, &to_us, mad, f->now);
}

uint64_t transaction;

struct cm_msg msg(enum cm_attr_id attr)
{
	struct cm_msg m;

	cm_msg_begin(&m, attr, transaction);
	return m;
}

struct cm_msg req_msg(void)
{
	struct cm_msg m = msg(CM_ATTR_REQ);

	m.req.local_comm_id = PEER_ID;
	m.req.service_id = SERVICE;
	m.req.local_ca_guid = PEER_GUID;
	m.req.local_qpn = PEER_QPN;
	m.req.remote_cm_response_timeout = m.req.local_cm_response_timeout = 20;
	m.req.max_cm_retries = 15;
	m.req.path_mtu = 3;
	m.req.primary.local_ack_timeout = 19;
	m.req.private_data[0] = 0x5a;
	return m;
}

struct cm_msg get_from(struct fixture *f, enum cm_attr_id attr)
{
	struct cm_msg m;
	struct flow flow;
	uint8_t mad[MAD_LEN];

	assert_true(cm_tx(f->cm, &flow, mad, f->now));
	assert_int_equal(cm_msg_decode(&m, mad), 0);
	assert_int_equal(m.hdr.attr_id, attr);
	assert_int_equal(m.hdr.method, CM_METHOD_SEND);
	assert_true(gid_equal(&flow.dgid, &to_us.sgid));
	assert_true(gid_equal(&flow.sgid, &to_us.dgid));
	assert_int_equal(flow.sport, flow_sport(0, GSI_QPN, GSI_QPN));
	return m;
}

void get_nothing(struct fixture *f)
{
	struct flow flow;
	uint8_t mad[MAD_LEN];

	assert_false(cm_tx(f->cm, &flow, mad, f->now));
}

void pass(struct fixture *f, uint64_t ns)
{
	f->now += ns;
	cm_tick(f->cm, f->now);
}

struct cm_rep our_rep(void)
{
	return (struct cm_rep){.local_qpn = OUR_QPN, .starting_psn = 5, .local_ca_guid = 9};
}

/* Passive: their REQ has arrived. */
struct fixture *requested(void **state)
{
	struct fixture *f = *state;
	struct cm_msg m = req_msg();

	give(f, &m);
	assert_int_equal(f->last.type, CM_EV_REQ);
	get_nothing(f);
	return f;
}

uint32_t replied_id;

struct fixture *replied(void **state)
{
	struct fixture *f = requested(state);
	struct cm_rep rep = our_rep();

	assert_int_equal(cm_rep_send(f->id, &rep, "hi", 2, f->now), 0);
	replied_id = get_from(f, CM_ATTR_REP).rep.local_comm_id;
	return f;
}

void give_rtu(struct fixture *f)
{
	struct cm_msg m = msg(CM_ATTR_RTU);

	m.rtu.local_comm_id = PEER_ID;
	m.rtu.remote_comm_id = replied_id;
	give(f, &m);
}

struct fixture *accepted(void **state)
{
	struct fixture *f = replied(state);

	give_rtu(f);
	assert_int_equal(f->last.type, CM_EV_RTU);
	assert_int_equal(f->id->state, CM_ESTABLISHED);
	return f;
}

void give_dreq(struct fixture *f, uint32_t qpn)
{
	struct cm_msg m = msg(CM_ATTR_DREQ);

	m.dreq.local_comm_id = PEER_ID;
	m.dreq.remote_comm_id = replied_id;
	m.dreq.remote_qpn = qpn;
	give(f, &m);
}

void give_drep(struct fixture *f)
{
	struct cm_msg m = msg(CM_ATTR_DREP);

	m.drep.local_comm_id = PEER_ID;
	m.drep.remote_comm_id = replied_id;
	give(f, &m);
}

void give_rej(struct fixture *f, enum cm_msg_answered what, uint16_t reason)
{
	struct cm_msg m = msg(CM_ATTR_REJ);

	m.rej.local_comm_id = PEER_ID;
	m.rej.remote_comm_id = replied_id;
	m.rej.message_rejected = what;
	m.rej.reason = reason;
	give(f, &m);
}

/* Active: our REQ is on its way; replied_id is our comm id. */
struct fixture *connecting(void **state)
{
	struct fixture *f = *state;
	struct flow to_peer = {.sgid = to_us.dgid, .dgid = to_us.sgid};
	struct cm_req req = {.service_id = SERVICE,
			     .local_ca_guid = 9,
			     .local_qpn = OUR_QPN,
			     .path_mtu = 3,
			     .primary.local_ack_timeout = 19};
	struct cm_msg m;

	assert_int_equal(cm_id_create(f->cm, f, &f->id), 0);
	assert_int_equal(cm_req_send(f->id, &to_peer, &req, "hello", 5, f->now), 0);
	m = get_from(f, CM_ATTR_REQ);
	assert_int_equal(m.req.remote_cm_response_timeout, 20);
	assert_int_equal(m.req.local_cm_response_timeout, 20);
	assert_int_equal(m.req.max_cm_retries, 15);
	assert_memory_equal(m.req.private_data, "hello", 6);
	replied_id = m.req.local_comm_id;
	transaction = m.hdr.tid;
	assert_int_not_equal(replied_id, 0);
	return f;
}

void give_rep(struct fixture *f, uint32_t peer_id)
{
	struct cm_msg m = msg(CM_ATTR_REP);

	m.rep.local_comm_id = peer_id;
	m.rep.remote_comm_id = replied_id;
	m.rep.local_qpn = PEER_QPN;
	m.rep.local_ca_guid = PEER_GUID;
	give(f, &m);
}

struct fixture *connected(void **state)
{
	struct fixture *f = connecting(state);

	give_rep(f, PEER_ID);
	assert_int_equal(f->last.type, CM_EV_REP);
	assert_int_equal(cm_rtu(f->id, f->now), 0);
	get_from(f, CM_ATTR_RTU);
	return f;
}
