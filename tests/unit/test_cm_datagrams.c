/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The CM service's port spaces of datagrams. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>
#include <cmocka.h>

#include "cm_world.h"
#include "wire/cm_ip.h"
#include "wire/cm_mad.h"

#define PORT	7174
#define QKEY	0x01234567
#define REQ_MAX 180
#define REP_MAX 136

#define KIND(ps_, datagrams_) ((struct kind){.ps = (ps_), .datagrams = (datagrams_)})

static int connect_with(struct client *c, uint32_t id, const struct gid *dst, uint32_t len)
{
	struct host *h = c->host;
	struct broker_cm_connect r = {
		.msg.type = BROKER_CM_CONNECT,
		.id = id,
		.param = {.src = gid_is_ipv4(dst) ? h->v4 : h->v6,
			  .dst = *dst,
			  .dst_port = PORT,
			  .tos = 0x20,
			  .private_len = len,
			  .private_data = "hello"},
	};

	return ask(c, &r, sizeof(r));
}

static int accept_with(struct client *c, uint32_t id, uint32_t len)
{
	struct broker_cm_connect r = {
		.msg.type = BROKER_CM_ACCEPT,
		.id = id,
		.user = 0x33,
		.param = {.qpn = 0x020022, .qkey = QKEY, .private_len = len, .private_data = "hi!"},
	};

	return ask(c, &r, sizeof(r));
}

static void ask_and_answer(struct world *w, const struct gid *from, const struct gid *to)
{
	struct broker_cm_event ev;
	struct pair p;
	uint16_t port;

	begin(&p, w, UDP, PORT);
	assert_int_equal(connect_with(&p.user, p.active, to, 5), 0);
	ev = event(&p.server, BROKER_CM_EV_CONNECT_REQUEST);
	assert_int_equal(ev.listen_id, p.listen);
	assert_int_equal(ev.user, LISTENER_USER);
	assert_true(gid_equal(&ev.param.src, to) && gid_equal(&ev.param.dst, from));
	assert_int_equal(ev.param.src_port, PORT);
	port = ev.param.dst_port;
	assert_in_range(port, 32768, 60999);
	assert_int_equal(ev.param.tos, 0x20);
	assert_int_equal(ev.param.qpn, 0);
	assert_int_equal(ev.param.private_len, REQ_MAX);
	assert_memory_equal(ev.param.private_data, "hello\0\0", 8);

	assert_int_equal(accept_with(&p.server, ev.id, 3), 0);
	assert_int_equal(accept_with(&p.server, ev.id, 3), -EINVAL);
	ev = event(&p.user, BROKER_CM_EV_ESTABLISHED);
	assert_int_equal(ev.id, p.active);
	assert_int_equal(ev.status, 0);
	assert_int_equal(ev.param.qpn, 0x020022);
	assert_int_equal(ev.param.qkey, QKEY);
	assert_int_equal(ev.param.flow_label, (31u * port + PORT) & 0xfffff);
	assert_true(gid_equal(&ev.param.src, from) && gid_equal(&ev.param.dst, to));
	assert_int_equal(ev.param.private_len, REP_MAX);
	assert_memory_equal(ev.param.private_data, "hi!\0", 5);

	/* That was all: no more events, and nothing to disconnect. */
	pass(w, 60 * SEC);
	no_event(&p.server);
	no_event(&p.user);
	assert_int_equal(connect_with(&p.user, p.active, to, 5), -EINVAL);
	assert_int_equal(ASK(&p.user, BROKER_CM_DISCONNECT, id, .id = p.active), 0);
	assert_int_equal(ASK(&p.user, BROKER_CM_ESTABLISH, id, .id = p.active), -EINVAL);
	no_event(&p.server);
	end(&p);
}

static void a_queue_pair_is_asked_for_and_told(void **state)
{
	struct world *w = *state;

	ask_and_answer(w, &w->host[1].v4, &w->host[0].v4);
	ask_and_answer(w, &w->host[1].v6, &w->host[0].v6);
}

static void a_rejection_is_unreachable_with_its_status_and_data(void **state)
{
	struct world *w = *state;
	struct broker_cm_event ev;
	struct pair p;

	begin(&p, w, UDP, PORT);
	assert_int_equal(connect_with(&p.user, p.active, &w->host[0].v4, 0), 0);
	ev = event(&p.server, BROKER_CM_EV_CONNECT_REQUEST);
	assert_int_equal(
		ASK(&p.server, BROKER_CM_REJECT, reject, .id = ev.id, .private_len = REP_MAX + 1),
		-EINVAL);
	assert_int_equal(ASK(&p.server, BROKER_CM_REJECT, reject, .id = ev.id, .reason = 28,
			     .private_len = 2, .private_data = "no"),
			 0);
	ev = event(&p.user, BROKER_CM_EV_UNREACHABLE);
	assert_int_equal(ev.status, CM_SIDR_REJECT);
	assert_memory_equal(ev.param.private_data, "no", 3);
	end(&p);
}

static void a_port_without_listener_is_unsupported(void **state)
{
	struct world *w = *state;
	struct pair p;

	begin(&p, w, UDP, PORT);
	assert_int_equal(ASK(&p.server, BROKER_CM_DESTROY_ID, id, .id = p.listen), 0);
	assert_int_equal(connect_with(&p.user, p.active, &w->host[0].v4, 0), 0);
	pass(w, SEC / 5);
	assert_int_equal(event(&p.user, BROKER_CM_EV_UNREACHABLE).status, CM_SIDR_UNSUPPORTED);
	end(&p);
}

static void a_request_that_comes_just_before_its_listener_is_heard(void **state)
{
	struct world *w = *state;
	struct pair p;

	begin(&p, w, UDP, PORT);
	assert_int_equal(ASK(&p.server, BROKER_CM_DESTROY_ID, id, .id = p.listen), 0);
	assert_int_equal(connect_with(&p.user, p.active, &w->host[0].v4, 0), 0);
	pass(w, SEC / 20);
	listener(&p.server, UDP, PORT, 0);
	event(&p.server, BROKER_CM_EV_CONNECT_REQUEST);
	pass(w, SEC / 5);
	no_event(&p.user);
	end(&p);
}

static void a_dead_host_is_unreachable_after_16_tries(void **state)
{
	struct world *w = *state;
	struct pair p;

	begin(&p, w, UDP, PORT);
	w->cut = true;
	assert_int_equal(connect_with(&p.user, p.active, &w->host[0].v4, 0), 0);
	pass(w, 70 * SEC);
	assert_int_equal(event(&p.user, BROKER_CM_EV_UNREACHABLE).status, -ETIMEDOUT);
	assert_int_equal(w->sent, 16);
	w->cut = false;
	end(&p);
}

static void on_a_bad_wire_there_is_one_request_and_one_answer(void **state)
{
	struct world *w = *state;
	struct broker_cm_event ev;
	struct pair p;
	int asked = 0, told = 0;

	begin(&p, w, UDP, PORT);
	w->loss = 30;
	assert_int_equal(connect_with(&p.user, p.active, &w->host[0].v4, 0), 0);
	for (int i = 0; i < 10; i++) {
		pass(w, 5 * SEC);
		while (read(p.server.fd, &ev, sizeof(ev)) == sizeof(ev)) {
			assert_int_equal(accept_with(&p.server, ev.id, 0), 0);
			asked++;
		}
		while (read(p.user.fd, &ev, sizeof(ev)) == sizeof(ev))
			told += ev.type == BROKER_CM_EV_ESTABLISHED;
	}
	w->loss = 0;
	assert_int_equal(asked, 1);
	assert_int_equal(told, 1);
	end(&p);
}

static void a_client_that_dies_rejects_what_it_was_asked(void **state)
{
	struct world *w = *state;
	struct pair p;

	begin(&p, w, UDP, PORT);
	assert_int_equal(connect_with(&p.user, p.active, &w->host[0].v4, 0), 0);
	event(&p.server, BROKER_CM_EV_CONNECT_REQUEST);
	close_client(&p.server);
	assert_int_equal(event(&p.user, BROKER_CM_EV_UNREACHABLE).status, CM_SIDR_REJECT);
	close_client(&p.user);
}

static void destroying_a_listener_rejects_what_was_not_read(void **state)
{
	struct world *w = *state;
	struct pair p;

	begin(&p, w, UDP, PORT);
	assert_int_equal(connect_with(&p.user, p.active, &w->host[0].v4, 0), 0);
	carry(w);
	assert_int_equal(ASK(&p.server, BROKER_CM_DESTROY_ID, id, .id = p.listen), 0);
	assert_int_equal(event(&p.user, BROKER_CM_EV_UNREACHABLE).status, CM_SIDR_REJECT);
	end(&p);
}

static void each_port_space_has_ports_of_its_own(void **state)
{
	struct world *w = *state;
	struct client c, user;
	uint32_t id;

	open_client(&c, &w->host[0]);
	open_client(&user, &w->host[1]);
	listener(&c, TCP, PORT, 0);
	listener(&c, UDP, PORT, 0);
	listener(&c, KIND(CM_PS_IPOIB, true), PORT, 0);
	listener(&c, KIND(CM_PS_IB, true), PORT, 0);
	id = create(&c, KIND(CM_PS_IB, false));
	assert_int_equal(ASK(&c, BROKER_CM_BIND, bind, .id = id, .port = PORT), -EADDRNOTAVAIL);

	id = create(&user, KIND(CM_PS_IPOIB, true));
	assert_int_equal(connect_with(&user, id, &w->host[0].v4, 0), 0);
	assert_int_equal(accept_with(&c, event(&c, BROKER_CM_EV_CONNECT_REQUEST).id, 0), 0);
	event(&user, BROKER_CM_EV_ESTABLISHED);

	/* What has no sense is refused. */
	assert_int_equal(try_create(&c, KIND(CM_PS_TCP, true), &id), -EINVAL);
	assert_int_equal(try_create(&c, KIND(CM_PS_UDP, false), &id), -EINVAL);
	assert_int_equal(try_create(&c, KIND(CM_PS_IPOIB, false), &id), -EINVAL);
	assert_int_equal(try_create(&c, KIND((enum cm_port_space)0x0107, true), &id), -EINVAL);
	close_client(&user);
	close_client(&c);
}

/* The one port space that both may use. */
static void in_ps_ib_a_request_must_be_of_the_listeners_kind(void **state)
{
	struct world *w = *state;
	struct client c, user;
	uint32_t id;

	open_client(&c, &w->host[0]);
	open_client(&user, &w->host[1]);
	listener(&c, KIND(CM_PS_IB, false), PORT, 0);
	id = create(&user, KIND(CM_PS_IB, true));
	assert_int_equal(connect_with(&user, id, &w->host[0].v4, 0), 0);
	assert_int_equal(event(&user, BROKER_CM_EV_UNREACHABLE).status, CM_SIDR_REJECT);
	no_event(&c);
	close_client(&user);
	close_client(&c);
}

static void private_data_have_their_limits(void **state)
{
	struct world *w = *state;
	struct broker_cm_event ev;
	struct pair p;

	begin(&p, w, UDP, PORT);
	assert_int_equal(connect_with(&p.user, p.active, &w->host[0].v4, REQ_MAX + 1), -EINVAL);
	assert_int_equal(connect_with(&p.user, p.active, &w->host[0].v4, REQ_MAX), 0);
	ev = event(&p.server, BROKER_CM_EV_CONNECT_REQUEST);
	assert_int_equal(accept_with(&p.server, ev.id, REP_MAX + 1), -EINVAL);
	assert_int_equal(accept_with(&p.server, ev.id, REP_MAX), 0);
	event(&p.user, BROKER_CM_EV_ESTABLISHED);
	end(&p);
}

#define T(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(a_queue_pair_is_asked_for_and_told),
		T(a_rejection_is_unreachable_with_its_status_and_data),
		T(a_port_without_listener_is_unsupported),
		T(a_request_that_comes_just_before_its_listener_is_heard),
		T(a_dead_host_is_unreachable_after_16_tries),
		T(on_a_bad_wire_there_is_one_request_and_one_answer),
		T(a_client_that_dies_rejects_what_it_was_asked),
		T(destroying_a_listener_rejects_what_was_not_read),
		T(each_port_space_has_ports_of_its_own),
		T(in_ps_ib_a_request_must_be_of_the_listeners_kind),
		T(private_data_have_their_limits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
