/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Connections of XRC in the CM service: what their messages say, as Linux writes them. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>
#include <cmocka.h>

#include "cm_world.h"
#include "wire/bth.h"
#include "wire/cm_ip.h"
#include "wire/cm_mad.h"

#define PORT	  7471
#define INITIATOR 0x010011
#define TARGET	  0x020022

#define KIND(ps_, datagrams_, xrc_) \
	((struct kind){.ps = (ps_), .datagrams = (datagrams_), .xrc = (xrc_)})
#define XRC KIND(CM_PS_IB, false, true)

static void connect_to(struct client *c, uint32_t id, const struct host *to)
{
	struct broker_cm_connect r = {
		.msg.type = BROKER_CM_CONNECT,
		.id = id,
		.param = req_param(&c->host->v4, &to->v4, PORT),
	};

	r.param.srq = 1;
	assert_int_equal(ask(c, &r, sizeof(r)), 0);
}

static void accept_it(struct client *c, uint32_t id)
{
	struct broker_cm_connect r = {
		.msg.type = BROKER_CM_ACCEPT,
		.id = id,
		.param = {.qpn = TARGET,
			  .starting_psn = 0x654321,
			  .responder_resources = 4,
			  .initiator_depth = 3,
			  .flow_control = 1,
			  .rnr_retry_count = 5},
	};

	assert_int_equal(ask(c, &r, sizeof(r)), 0);
}

/* The message that is on the wire, alone. */
static struct cm_msg on_the_wire(struct world *w, uint16_t attr_id)
{
	struct packet *p = list_entry(w->wire.next, struct packet, list);
	struct cm_msg m;

	assert_false(list_empty(&w->wire));
	assert_true(p->list.next == &w->wire);
	assert_int_equal(cm_msg_decode(&m, p->data + BTH_LEN + DETH_LEN), 0);
	assert_int_equal(m.hdr.attr_id, attr_id);
	return m;
}

static void a_connection_of_xrc_is_written_as_linux_writes_it(void **state)
{
	struct world *w = *state;
	struct client server, user;
	struct broker_cm_event ev;
	uint32_t active, passive;
	struct cm_msg m;

	open_client(&server, &w->host[0]);
	open_client(&user, &w->host[1]);
	listener(&server, XRC, PORT, 0);
	active = create(&user, XRC);
	connect_to(&user, active, &w->host[0]);
	m = on_the_wire(w, CM_ATTR_REQ);
	assert_int_equal(m.req.service_id, CM_SERVICE_ID(CM_PS_IB, PORT));
	assert_int_equal(m.req.transport_service, 3);
	assert_int_equal(m.req.extended_transport_type, 1);
	assert_int_equal(m.req.local_qpn, INITIATOR);
	assert_int_equal(m.req.initiator_depth, 5);
	/* What a responder would say of itself. */
	assert_int_equal(m.req.responder_resources, 0);
	assert_int_equal(m.req.retry_count, 0);
	assert_int_equal(m.req.rnr_retry_count, 0);
	assert_false(m.req.srq);

	ev = event(&server, BROKER_CM_EV_CONNECT_REQUEST);
	passive = ev.id;
	assert_int_equal(ev.param.qpn, INITIATOR);
	assert_int_equal(ev.param.responder_resources, 5);
	assert_int_equal(ev.param.initiator_depth, 0);
	accept_it(&server, passive);
	m = on_the_wire(w, CM_ATTR_REP);
	assert_int_equal(m.rep.local_eecn, TARGET);
	assert_int_equal(m.rep.local_qpn, 0);
	assert_true(m.rep.srq);
	assert_int_equal(m.rep.responder_resources, 4);
	assert_int_equal(m.rep.initiator_depth, 0);
	assert_false(m.rep.end_to_end_flow_control);
	assert_int_equal(m.rep.rnr_retry_count, 5);

	ev = event(&user, BROKER_CM_EV_CONNECT_RESPONSE);
	assert_int_equal(ev.param.qpn, TARGET);
	assert_int_equal(ev.param.initiator_depth, 4);
	assert_int_equal(ASK(&user, BROKER_CM_ESTABLISH, id, .id = active), 0);
	event(&server, BROKER_CM_EV_ESTABLISHED);
	assert_int_equal(ASK(&user, BROKER_CM_DISCONNECT, id, .id = active), 0);
	m = on_the_wire(w, CM_ATTR_DREQ);
	assert_int_equal(m.dreq.remote_qpn, TARGET);
	event(&server, BROKER_CM_EV_DISCONNECTED);
	assert_int_equal(ASK(&server, BROKER_CM_DISCONNECT, id, .id = passive), 0);
	event(&user, BROKER_CM_EV_DISCONNECTED);
	close_client(&user);
	close_client(&server);
}

static void requests_of_another_transport_are_rejected(void **state)
{
	struct world *w = *state;

	for (int xrc = 0; xrc < 2; xrc++) {
		struct client server, user;

		open_client(&server, &w->host[0]);
		open_client(&user, &w->host[1]);
		listener(&server, KIND(CM_PS_IB, false, xrc), PORT, 0);
		connect_to(&user, create(&user, KIND(CM_PS_IB, false, !xrc)), &w->host[0]);
		assert_int_equal(event(&user, BROKER_CM_EV_REJECTED).status,
				 CM_REJ_CONSUMER_DEFINED);
		close_client(&user);
		close_client(&server);
		pass(w, 60 * SEC);
	}
}

static void xrc_is_of_infinibands_port_space_and_connections(void **state)
{
	struct world *w = *state;
	struct client c;
	uint32_t id;

	open_client(&c, &w->host[0]);
	assert_int_equal(try_create(&c, KIND(CM_PS_TCP, false, true), &id), -EINVAL);
	assert_int_equal(try_create(&c, KIND(CM_PS_UDP, true, true), &id), -EINVAL);
	assert_int_equal(try_create(&c, KIND(CM_PS_IB, true, true), &id), -EINVAL);
	assert_int_equal(try_create(&c, KIND(CM_PS_IB, false, true), &id), 0);
	close_client(&c);
}

#define T(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(a_connection_of_xrc_is_written_as_linux_writes_it),
		T(requests_of_another_transport_are_rejected),
		T(xrc_is_of_infinibands_port_space_and_connections),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
