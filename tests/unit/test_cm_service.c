/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The connections of the CM service, by its requests and events, and what becomes of them when a
 * client dies. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>
#include <cmocka.h>

#include "cm_rc.h"
#include "wire/bth.h"
#include "wire/cm_ip.h"
#include "wire/cm_mad.h"

/* ---- path MTUs ---------------------------------------------------------------------------------
 */

static void the_smaller_path_mtu_wins_without_the_application(void **state)
{
	struct world *w = *state;
	struct broker_cm_event ev;
	struct pair p;

	begin(&p, w, TCP, PORT);
	p.server.host->path_mtu = 1; /* two less than connect_to() asks for */
	request(&p);
	assert_int_equal(accept_it(&p.server, p.passive), 0);
	ev = event(&p.user, BROKER_CM_EV_CONNECT_RESPONSE);
	assert_int_equal(ev.param.path_mtu, 1);
	no_event(&p.server);
	end(&p);
}

/* ---- connections ------------------------------------------------------------------------------
 */

static void a_connection_is_made_and_unmade_with_every_field_told(void **state)
{
	struct world *w = *state;
	struct gid *a = &w->host[1].v4, *b = &w->host[0].v4;
	struct broker_cm_event ev;
	struct pair p;
	uint16_t port;
	int r;

	begin(&p, w, TCP, PORT);
	r = bind_to(&p.user, p.active, a, 0);
	assert_in_range(r, 32768, 60999);
	port = (uint16_t)r;
	assert_int_equal(connect_to(&p.user, p.active, a, b, PORT), 0);
	ev = event(&p.server, BROKER_CM_EV_CONNECT_REQUEST);
	p.passive = ev.id;
	assert_int_equal(ev.listen_id, p.listen);
	assert_int_equal(ev.user, LISTENER_USER);
	assert_true(gid_equal(&ev.param.src, b) && gid_equal(&ev.param.dst, a));
	assert_int_equal(ev.param.src_port, PORT);
	assert_int_equal(ev.param.dst_port, port);
	assert_int_equal(ev.param.qpn, 0x010011 + (p.active >> 16));
	assert_int_equal(ev.param.starting_psn, 0x123456);
	assert_int_equal(ev.param.path_mtu, 3);
	assert_int_equal(ev.param.responder_resources, 5); /* what the peer will initiate */
	assert_int_equal(ev.param.initiator_depth, 2);
	assert_int_equal(ev.param.retry_count, 7);
	assert_int_equal(ev.param.rnr_retry_count, 6);
	assert_int_equal(ev.param.flow_control, 1);
	assert_int_equal(ev.param.tos, 0x20);
	assert_int_equal(ev.param.local_ack_timeout, 17);
	assert_int_equal(ev.param.flow_label, (31u * port + PORT) & 0xfffff);
	assert_int_equal(ev.param.private_len, 56);
	assert_memory_equal(ev.param.private_data, "hello\0\0", 8);

	assert_int_equal(accept_it(&p.server, p.passive), 0);
	ev = event(&p.user, BROKER_CM_EV_CONNECT_RESPONSE);
	assert_int_equal(ev.id, p.active);
	assert_int_equal(ev.user, ACTIVE_USER);
	assert_true(gid_equal(&ev.param.src, a) && gid_equal(&ev.param.dst, b));
	assert_int_equal(ev.param.src_port, port);
	assert_int_equal(ev.param.dst_port, PORT);
	assert_int_equal(ev.param.qpn, 0x020022 + (p.passive >> 16));
	assert_int_equal(ev.param.starting_psn, 0x654321);
	assert_int_equal(ev.param.responder_resources, 2);
	assert_int_equal(ev.param.initiator_depth, 5);
	assert_int_equal(ev.param.rnr_retry_count, 4);
	assert_int_equal(ev.param.path_mtu, 3);
	assert_int_equal(ev.param.flow_label, (31u * port + PORT) & 0xfffff);
	assert_int_equal(ev.param.private_len, 196);
	assert_memory_equal(ev.param.private_data, "hi!\0", 5);
	no_event(&p.server);

	assert_int_equal(on_id(&p.user, BROKER_CM_ESTABLISH, p.active), 0);
	ev = event(&p.server, BROKER_CM_EV_ESTABLISHED);
	assert_int_equal(ev.id, p.passive);
	assert_int_equal(ev.user, 0x33);

	assert_int_equal(on_id(&p.user, BROKER_CM_DISCONNECT, p.active), 0);
	event(&p.server, BROKER_CM_EV_DISCONNECTED);
	no_event(&p.user);
	assert_int_equal(on_id(&p.server, BROKER_CM_DISCONNECT, p.passive), 0);
	event(&p.user, BROKER_CM_EV_DISCONNECTED);
	pass(w, 5 * SEC);
	event(&p.server, BROKER_CM_EV_TIMEWAIT_EXIT);
	event(&p.user, BROKER_CM_EV_TIMEWAIT_EXIT);
	assert_int_equal(on_id(&p.user, BROKER_CM_DISCONNECT, p.active), 0); /* nothing to do */
	assert_int_equal(on_id(&p.server, BROKER_CM_DISCONNECT, p.listen), -EINVAL);
	assert_int_equal(on_id(&p.user, BROKER_CM_DESTROY_ID, p.active), 0);
	assert_int_equal(on_id(&p.user, BROKER_CM_DESTROY_ID, p.active), -ENOENT);
	end(&p);
}

static void ipv6_and_two_clients_on_one_host_work_the_same(void **state)
{
	struct world *w = *state;
	struct host *h = &w->host[0];
	struct client server, user;
	struct broker_cm_event ev;
	uint32_t id;

	open_client(&server, h);
	open_client(&user, h);
	listener(&server, TCP, 7174, 0);
	id = create(&user, TCP);
	assert_int_equal(connect_to(&user, id, &h->v6, &h->v6, 7174), 0);
	ev = event(&server, BROKER_CM_EV_CONNECT_REQUEST);
	assert_true(gid_equal(&ev.param.dst, &h->v6));
	assert_int_equal(accept_it(&server, ev.id), 0);
	event(&user, BROKER_CM_EV_CONNECT_RESPONSE);
	assert_int_equal(on_id(&user, BROKER_CM_ESTABLISH, id), 0);
	event(&server, BROKER_CM_EV_ESTABLISHED);
	close_client(&user);
	event(&server, BROKER_CM_EV_DISCONNECTED);
	close_client(&server);
}

static void early_data_establishes_the_passive_side(void **state)
{
	struct world *w = *state;
	struct pair p;

	begin(&p, w, TCP, PORT);
	request(&p);
	assert_int_equal(accept_it(&p.server, p.passive), 0);
	event(&p.user, BROKER_CM_EV_CONNECT_RESPONSE);
	w->cut = true;
	assert_int_equal(on_id(&p.user, BROKER_CM_ESTABLISH, p.active), 0);
	w->cut = false;
	assert_int_equal(on_id(&p.server, BROKER_CM_ESTABLISH, p.passive), 0);
	event(&p.server, BROKER_CM_EV_ESTABLISHED);
	assert_int_equal(on_id(&p.server, BROKER_CM_ESTABLISH, p.passive), -EISCONN);
	end(&p);
}

static void a_reject_carries_its_reason_and_data(void **state)
{
	struct world *w = *state;
	struct broker_cm_event ev;
	struct pair p;

	begin(&p, w, TCP, PORT);
	request(&p);
	assert_int_equal(ASK(&p.server, BROKER_CM_REJECT, reject, .id = p.passive, .reason = 28,
			     .private_len = 2, .private_data = "no"),
			 0);
	ev = event(&p.user, BROKER_CM_EV_REJECTED);
	assert_int_equal(ev.status, 28);
	assert_int_equal(ev.param.private_len, 148);
	assert_memory_equal(ev.param.private_data, "no", 3);
	pass(w, 60 * SEC);
	no_event(&p.server); /* no timewait of what was never up */
	end(&p);
}

static void a_request_that_comes_just_before_its_listener_is_heard(void **state)
{
	struct world *w = *state;
	struct pair p;

	begin(&p, w, TCP, PORT);
	assert_int_equal(connect_to(&p.user, p.active, &w->host[1].v4, &w->host[0].v4, 4421), 0);
	pass(w, SEC / 20);
	no_event(&p.user);
	listener(&p.server, TCP, 4421, 1);
	event(&p.server, BROKER_CM_EV_CONNECT_REQUEST);
	/* Taken in once: nothing is left to be rejected. */
	pass(w, SEC / 5);
	no_event(&p.user);
	no_event(&p.server);
	end(&p);
}

static void a_port_without_listener_rejects_with_reason_8(void **state)
{
	struct world *w = *state;
	struct pair p;

	begin(&p, w, TCP, PORT);
	assert_int_equal(connect_to(&p.user, p.active, &w->host[1].v4, &w->host[0].v4, 4421), 0);
	pass(w, SEC / 5);
	assert_int_equal(event(&p.user, BROKER_CM_EV_REJECTED).status, 8);
	end(&p);
}

static void a_dead_host_is_unreachable_after_16_tries(void **state)
{
	struct world *w = *state;
	struct pair p;

	begin(&p, w, TCP, PORT);
	w->cut = true;
	assert_int_equal(connect_to(&p.user, p.active, &w->host[1].v4, &w->host[0].v4, PORT), 0);
	pass(w, 60 * SEC);
	no_event(&p.user);
	pass(w, 10 * SEC);
	assert_int_equal(event(&p.user, BROKER_CM_EV_UNREACHABLE).status, -ETIMEDOUT);
	assert_int_equal(w->sent, 17); /* and one that withdraws it */
	end(&p);
	w->cut = false;
}

/* ---- death ------------------------------------------------------------------------------------
 */

static void a_dead_client_disconnects_its_peers_and_frees_its_ports(void **state)
{
	struct world *w = *state;
	struct pair p;
	uint32_t id;

	begin(&p, w, TCP, PORT);
	establish(&p);
	close_client(&p.server);
	event(&p.user, BROKER_CM_EV_DISCONNECTED);
	assert_int_equal(on_id(&p.user, BROKER_CM_DISCONNECT, p.active), 0);
	carry(w);
	assert_int_equal(cm_service_busy(w->host[0].svc), 0);
	open_client(&p.server, &w->host[0]); /* the port is free, and a new pair connects at once */
	p.listen = listener(&p.server, TCP, PORT, 1);
	id = p.active;
	p.active = create(&p.user, TCP);
	establish(&p);
	assert_int_equal(on_id(&p.user, BROKER_CM_DESTROY_ID, id), 0);
	end(&p);
}

/* Not with a DREQ, and not with a REJ of what nobody has read: another broker gets them all. */
static void who_is_left_is_not_said_to_have_gone(void **state)
{
	struct world *w = *state;
	struct pair p;
	uint32_t unread;

	begin(&p, w, TCP, PORT);
	establish(&p);
	unread = create(&p.user, TCP);
	assert_int_equal(connect_to(&p.user, unread, &w->host[1].v4, &w->host[0].v4, PORT), 0);
	carry(w);
	w->sent = 0;
	cm_client_leave(p.server.c);
	close(p.server.fd);
	pass(w, SEC / 100);
	assert_int_equal(w->sent, 0);
	no_event(&p.user);
	close_client(&p.user);
}

static void a_watcher_is_told_of_a_peer_that_died_and_not_of_one_that_left(void **state)
{
	struct world *w = *state;
	struct broker_cm_event ev;
	struct client watch;
	struct pair p;

	for (int died = 0; died < 2; died++) {
		begin(&p, w, TCP, PORT);
		watch = p.user;
		assert_int_equal(cm_client_channel(watch.c, &watch.channel, &watch.fd), 0);
		assert_int_equal(fcntl(watch.fd, F_SETFL, O_NONBLOCK), 0);
		assert_int_equal(on_id(&p.user, BROKER_CM_WATCH, 99), -ENOENT);
		assert_int_equal(on_id(&p.user, BROKER_CM_WATCH, watch.channel), 0);
		establish(&p);
		if (!died)
			assert_int_equal(on_id(&p.server, BROKER_CM_DESTROY_ID, p.passive), 0);
		close_client(&p.server);
		event(&p.user, BROKER_CM_EV_DISCONNECTED);
		if (died) {
			ev = event(&watch, BROKER_CM_EV_PEER_DIED);
			assert_int_equal(ev.param.qpn, 0x010011 + (p.active >> 16));
		}
		no_event(&watch);
		close(watch.fd);
		close_client(&p.user);
	}
}

static void a_client_that_dies_connecting_withdraws(void **state)
{
	struct world *w = *state;
	struct pair p;

	begin(&p, w, TCP, PORT);
	request(&p);
	close_client(&p.user);
	assert_int_equal(event(&p.server, BROKER_CM_EV_REJECTED).status, 4);
	close_client(&p.server);
}

static void a_disconnect_that_nobody_answers_says_so(void **state)
{
	struct world *w = *state;
	struct pair p;

	begin(&p, w, TCP, PORT);
	establish(&p);
	assert_int_equal(on_id(&p.user, BROKER_CM_DISCONNECT, p.active), 0);
	event(&p.server, BROKER_CM_EV_DISCONNECTED);
	assert_int_equal(on_id(&p.server, BROKER_CM_DISCONNECT, p.passive), 0);
	assert_int_equal(event(&p.user, BROKER_CM_EV_DISCONNECTED).status, 0);
	end(&p);

	begin(&p, w, TCP, PORT);
	establish(&p);
	w->cut = true;
	assert_int_equal(on_id(&p.user, BROKER_CM_DISCONNECT, p.active), 0);
	pass(w, 80 * SEC);
	assert_int_equal(event(&p.user, BROKER_CM_EV_DISCONNECTED).status, -ETIMEDOUT);
	w->cut = false;
	end(&p);
}

static void a_dead_peer_keeps_the_broker_for_seconds_only(void **state)
{
	struct world *w = *state;
	struct pair p;

	begin(&p, w, TCP, PORT);
	establish(&p);
	w->cut = true;
	end(&p);
	assert_true(cm_service_busy(w->host[0].svc) > 0);
	pass(w, 10 * SEC);
	assert_int_equal(cm_service_busy(w->host[0].svc), 0);
	assert_int_equal(cm_service_busy(w->host[1].svc), 0);
}

static void destroying_a_listener_rejects_what_was_not_read(void **state)
{
	struct world *w = *state;
	struct pair p;
	uint32_t second;

	begin(&p, w, TCP, PORT);
	request(&p); /* read */
	second = create(&p.user, TCP);
	assert_int_equal(connect_to(&p.user, second, &w->host[1].v4, &w->host[0].v4, PORT), 0);
	carry(w);
	assert_int_equal(on_id(&p.server, BROKER_CM_DESTROY_ID, p.listen), 0);
	assert_int_equal(event(&p.user, BROKER_CM_EV_REJECTED).id, second);
	/* What was read is the application's. */
	assert_int_equal(accept_it(&p.server, p.passive), 0);
	assert_int_equal(event(&p.user, BROKER_CM_EV_CONNECT_RESPONSE).id, p.active);
	end(&p);
}

static void closing_a_channel_rejects_what_was_not_read(void **state)
{
	struct world *w = *state;
	struct pair p;

	begin(&p, w, TCP, PORT);
	assert_int_equal(connect_to(&p.user, p.active, &w->host[1].v4, &w->host[0].v4, PORT), 0);
	carry(w);
	assert_int_equal(on_id(&p.server, BROKER_CM_CLOSE_CHANNEL, p.server.channel), 0);
	assert_int_equal(on_id(&p.server, BROKER_CM_CLOSE_CHANNEL, p.server.channel), -ENOENT);
	event(&p.user, BROKER_CM_EV_REJECTED);
	/* Nobody hears of requests any more: as if nobody listened. */
	p.active = create(&p.user, TCP);
	assert_int_equal(connect_to(&p.user, p.active, &w->host[1].v4, &w->host[0].v4, PORT), 0);
	pass(w, SEC / 5);
	assert_int_equal(event(&p.user, BROKER_CM_EV_REJECTED).status, 8);
	end(&p);
}

static void who_reads_a_closed_channel_waits_on(void **state)
{
	struct world *w = *state;
	struct client c;
	struct pollfd fd = {.events = POLLIN};
	int extra;
	uint32_t channel;

	open_client(&c, &w->host[0]);
	fd.fd = c.fd;
	assert_int_equal(on_id(&c, BROKER_CM_CLOSE_CHANNEL, c.channel), 0);
	assert_int_equal(poll(&fd, 1, 0), 0); /* no end of the pipe */
	for (int i = 0; i < 10000; i++) {
		assert_int_equal(cm_client_channel(c.c, &channel, &extra), 0);
		close(extra);
		assert_int_equal(on_id(&c, BROKER_CM_CLOSE_CHANNEL, channel), 0);
	}
	close_client(&c);
}

static void a_reader_that_has_gone_is_no_listener(void **state)
{
	struct world *w = *state;
	struct pair p;

	begin(&p, w, TCP, PORT);
	close(p.server.fd);
	assert_int_equal(connect_to(&p.user, p.active, &w->host[1].v4, &w->host[0].v4, PORT), 0);
	event(&p.user, BROKER_CM_EV_REJECTED);
	p.server.fd = open("/dev/null", O_RDONLY);
	end(&p);
}

static int resolve_at_once(struct pair *p, uint32_t id)
{
	return ASK(&p->user, BROKER_CM_POST, post, .id = id, .type = BROKER_CM_EV_ADDR_RESOLVED,
		   .at_once = 1, .src = p->user.host->v4, .dst = p->server.host->v4,
		   .timeout_ms = 100);
}

static void who_need_not_wait_for_a_neighbour_is_told_without_an_event(void **state)
{
	struct world *w = *state;
	struct pair p;

	begin(&p, w, TCP, PORT);
	assert_int_equal(resolve_at_once(&p, p.active), -EALREADY);
	no_event(&p.user);
	w->host[1].neighbour = -EAGAIN;
	assert_int_equal(resolve_at_once(&p, p.active), 0);
	no_event(&p.user);
	w->host[1].neighbour = 0;
	pass(w, SEC / 10);
	assert_int_equal(event(&p.user, BROKER_CM_EV_ADDR_RESOLVED).status, 0);
	end(&p);
}

/* ---- brief ones ------------------------------------------------------------------------------
 */

/* As a program that would as soon have TCP does it; the error. */
static int resolve_briefly(struct pair *p, uint32_t id)
{
	int err = ASK(&p->user, BROKER_CM_POST, post, .id = id, .type = BROKER_CM_EV_ADDR_RESOLVED,
		      .brief = 1, .src = p->user.host->v4, .dst = p->server.host->v4,
		      .timeout_ms = 100);

	if (!err)
		event(&p->user, BROKER_CM_EV_ADDR_RESOLVED);
	return err;
}

static int connect_briefly(struct pair *p, uint32_t id, uint16_t port)
{
	int err = resolve_briefly(p, id);

	return err ? err : connect_to(&p->user, id, &p->user.host->v4, &p->server.host->v4, port);
}

static void a_host_without_a_cm_costs_one_brief_attempt_300_ms_and_the_next_nothing(void **state)
{
	struct world *w = *state;
	struct pair p;

	begin(&p, w, TCP, PORT);
	w->cut = true;
	assert_int_equal(connect_briefly(&p, p.active, PORT), 0);
	pass(w, SEC / 4);
	no_event(&p.user);
	pass(w, SEC / 20);
	assert_int_equal(event(&p.user, BROKER_CM_EV_UNREACHABLE).status, -ETIMEDOUT);
	assert_int_equal(resolve_briefly(&p, create(&p.user, TCP)), -EHOSTUNREACH);
	/* Who has no other way asks as ever. */
	w->cut = false;
	assert_int_equal(
		connect_to(&p.user, create(&p.user, TCP), &w->host[1].v4, &w->host[0].v4, PORT), 0);
	assert_int_equal(accept_it(&p.server, event(&p.server, BROKER_CM_EV_CONNECT_REQUEST).id),
			 0);
	event(&p.user, BROKER_CM_EV_CONNECT_RESPONSE);
	/* And now it is known that there is one. */
	assert_int_equal(resolve_briefly(&p, create(&p.user, TCP)), 0);
	end(&p);
}

static void an_icmp_message_that_quotes_the_request_ends_a_brief_attempt_at_once(void **state)
{
	struct world *w = *state;
	struct packet *sent;
	struct pair p;

	begin(&p, w, TCP, PORT);
	assert_int_equal(connect_briefly(&p, p.active, PORT), 0);
	sent = list_entry(list_pop_head(&w->wire), struct packet, list);
	for (size_t len = 0; len < BTH_LEN + DETH_LEN + 28; len++)
		cm_service_refused(w->host[1].svc, &w->host[0].v4, sent->data, len, w->now);
	no_event(&p.user);
	cm_service_refused(w->host[1].svc, &w->host[0].v4, sent->data, sent->len, w->now);
	free(sent);
	event(&p.user, BROKER_CM_EV_UNREACHABLE);
	assert_int_equal(resolve_briefly(&p, create(&p.user, TCP)), -EHOSTUNREACH);
	end(&p);
}

static void a_brief_attempt_is_rejected_at_once_where_nobody_listens(void **state)
{
	struct world *w = *state;
	struct pair p;

	begin(&p, w, TCP, PORT);
	assert_int_equal(connect_briefly(&p, p.active, 4421), 0);
	assert_int_equal(event(&p.user, BROKER_CM_EV_REJECTED).status, 8);
	end(&p);
}

static void a_brief_attempt_waits_for_who_is_slow_to_answer(void **state)
{
	struct world *w = *state;
	struct pair p;

	begin(&p, w, TCP, PORT);
	assert_int_equal(connect_briefly(&p, p.active, PORT), 0);
	p.passive = event(&p.server, BROKER_CM_EV_CONNECT_REQUEST).id;
	pass(w, 10 * SEC);
	no_event(&p.user);
	no_event(&p.server);
	assert_int_equal(accept_it(&p.server, p.passive), 0);
	event(&p.user, BROKER_CM_EV_CONNECT_RESPONSE);
	end(&p);
}

static void a_lost_rejection_of_a_brief_attempt_comes_again(void **state)
{
	struct world *w = *state;
	struct pair p;

	begin(&p, w, TCP, PORT);
	assert_int_equal(connect_briefly(&p, p.active, PORT), 0);
	p.passive = event(&p.server, BROKER_CM_EV_CONNECT_REQUEST).id;
	pass(w, SEC);
	w->cut = true;
	assert_int_equal(ASK(&p.server, BROKER_CM_REJECT, reject, .id = p.passive, .reason = 28),
			 0);
	w->cut = false;
	pass(w, 2 * SEC);
	assert_int_equal(event(&p.user, BROKER_CM_EV_REJECTED).status, 28);
	end(&p);
}

/* Of a hundred packets, ten are lost. */
static void losses_seldom_look_like_nobody(void **state)
{
	enum { ATTEMPTS = 2000 };
	struct world *w = *state;
	unsigned unreachable = 0;
	struct pair p;

	begin(&p, w, TCP, PORT);
	w->loss = 10;
	for (int i = 0; i < ATTEMPTS; i++) {
		uint32_t id = create(&p.user, TCP);
		struct broker_cm_event ev;

		if (connect_briefly(&p, id, 4421) == 0) {
			pass(w, SEC / 2);
			assert_int_equal(read(p.user.fd, &ev, sizeof(ev)), sizeof(ev));
			unreachable += ev.type == BROKER_CM_EV_UNREACHABLE;
		} else {
			unreachable++;
		}
		on_id(&p.user, BROKER_CM_DESTROY_ID, id);
	}
	w->loss = 0;
	assert_in_range(unreachable, 0, ATTEMPTS / 1000);
	end(&p);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)
	const struct CMUnitTest tests[] = {
		T(the_smaller_path_mtu_wins_without_the_application),
		T(a_connection_is_made_and_unmade_with_every_field_told),
		T(ipv6_and_two_clients_on_one_host_work_the_same),
		T(early_data_establishes_the_passive_side),
		T(a_reject_carries_its_reason_and_data),
		T(a_request_that_comes_just_before_its_listener_is_heard),
		T(a_port_without_listener_rejects_with_reason_8),
		T(a_dead_host_is_unreachable_after_16_tries),
		T(a_dead_client_disconnects_its_peers_and_frees_its_ports),
		T(who_is_left_is_not_said_to_have_gone),
		T(a_watcher_is_told_of_a_peer_that_died_and_not_of_one_that_left),
		T(a_client_that_dies_connecting_withdraws),
		T(a_disconnect_that_nobody_answers_says_so),
		T(a_dead_peer_keeps_the_broker_for_seconds_only),
		T(destroying_a_listener_rejects_what_was_not_read),
		T(closing_a_channel_rejects_what_was_not_read),
		T(who_reads_a_closed_channel_waits_on),
		T(a_reader_that_has_gone_is_no_listener),
		T(who_need_not_wait_for_a_neighbour_is_told_without_an_event),
		T(a_host_without_a_cm_costs_one_brief_attempt_300_ms_and_the_next_nothing),
		T(an_icmp_message_that_quotes_the_request_ends_a_brief_attempt_at_once),
		T(a_brief_attempt_is_rejected_at_once_where_nobody_listens),
		T(a_brief_attempt_waits_for_who_is_slow_to_answer),
		T(a_lost_rejection_of_a_brief_attempt_comes_again),
		T(losses_seldom_look_like_nobody),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
