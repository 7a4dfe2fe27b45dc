/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The CM service by its requests and events, and by what leaves for the wire. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "cm_world.h"
#include "wire/bth.h"
#include "wire/cm_ip.h"
#include "wire/cm_mad.h"

enum { PORT = 4420 };

static int connect_to(struct client *c, uint32_t id, const struct gid *src, const struct gid *dst,
		      uint16_t port)
{
	struct broker_cm_connect r = {
		.msg.type = BROKER_CM_CONNECT,
		.id = id,
		.param = req_param(src, dst, port),
	};

	/* Each its own queue pair, or they would be stale. */
	r.param.qpn += id >> 16;
	r.param.flow_control = 1;
	r.param.tos = 0x20;
	r.param.private_len = 5;
	memcpy(r.param.private_data, "hello", 5);
	return ask(c, &r, sizeof(r));
}

static int accept_it(struct client *c, uint32_t id)
{
	struct broker_cm_connect r = {
		.msg.type = BROKER_CM_ACCEPT,
		.id = id,
		.user = 0x33,
		.param = {.qpn = 0x020022 + (id >> 16),
			  .starting_psn = 0x654321,
			  .responder_resources = 5,
			  .initiator_depth = 2,
			  .rnr_retry_count = 4,
			  .private_len = 3,
			  .private_data = "hi!"},
	};

	return ask(c, &r, sizeof(r));
}

static void request(struct pair *p)
{
	struct host *a = p->user.host, *b = p->server.host;

	assert_int_equal(connect_to(&p->user, p->active, &a->v4, &b->v4, PORT), 0);
	p->passive = event(&p->server, BROKER_CM_EV_CONNECT_REQUEST).id;
}

static void establish(struct pair *p)
{
	request(p);
	assert_int_equal(accept_it(&p->server, p->passive), 0);
	event(&p->user, BROKER_CM_EV_CONNECT_RESPONSE);
	assert_int_equal(on_id(&p->user, BROKER_CM_ESTABLISH, p->active), 0);
	event(&p->server, BROKER_CM_EV_ESTABLISHED);
}

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

/* ---- channels ---------------------------------------------------------------------------------
 */

static void the_descriptor_polls_for_reading_only(void **state)
{
	struct world *w = *state;
	struct pair p;
	struct pollfd fd = {.events = POLLIN | POLLOUT};

	begin(&p, w, TCP, PORT);
	fd.fd = p.server.fd;
	assert_int_equal(poll(&fd, 1, 0), 0);
	assert_int_equal(connect_to(&p.user, p.active, &w->host[1].v4, &w->host[0].v4, PORT), 0);
	carry(w);
	assert_int_equal(poll(&fd, 1, 0), 1);
	assert_int_equal(fd.revents, POLLIN);
	end(&p);
}

static void no_event_is_lost_when_nobody_reads_for_a_while(void **state)
{
	enum { N = 500 };
	struct world *w = *state;
	struct broker_cm_event ev;
	struct pair p;
	int got = 0;

	begin(&p, w, TCP, PORT);
	for (int i = 0; i < N; i++)
		assert_int_equal(ASK(&p.user, BROKER_CM_POST, post, .id = p.active,
				     .type = BROKER_CM_EV_ADDR_RESOLVED, .status = i),
				 0);
	while (got < N) {
		int before = got;

		while (read(p.user.fd, &ev, sizeof(ev)) == sizeof(ev)) {
			assert_int_equal(ev.type, BROKER_CM_EV_ADDR_RESOLVED);
			assert_int_equal(ev.id, p.active);
			assert_int_equal(ev.user, ACTIVE_USER);
			assert_int_equal(ev.status, got++);
		}
		assert_true(got > before);
		pass(w, SEC / 100); /* the service looks again by itself */
	}
	assert_int_equal(cm_service_next_deadline(w->host[1].svc), DEADLINE_NEVER);
	assert_int_equal(ASK(&p.user, BROKER_CM_POST, post, .id = p.active,
			     .type = BROKER_CM_EV_ESTABLISHED),
			 -EINVAL);
	end(&p);
}

static void waiting_events_of_an_id_go_with_it_or_move_with_it(void **state)
{
	struct world *w = *state;
	struct broker_cm_event ev;
	struct client other;
	struct pair p;
	uint32_t gone;
	int fd, n = 0, of_gone = 0;
	uint32_t channel;

	begin(&p, w, TCP, PORT);
	gone = create(&p.user, TCP);
	for (int i = 0; i < 200; i++)
		assert_int_equal(ASK(&p.user, BROKER_CM_POST, post, .id = i % 2 ? p.active : gone,
				     .type = BROKER_CM_EV_ROUTE_RESOLVED),
				 0);
	assert_int_equal(on_id(&p.user, BROKER_CM_DESTROY_ID, gone), 0);
	assert_int_equal(cm_client_channel(p.user.c, &channel, &fd), 0);
	other = p.user;
	other.fd = fd;
	assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
	assert_int_equal(ASK(&p.user, BROKER_CM_MIGRATE, migrate, .id = p.active,
			     .channel = channel, .user = 0x44),
			 0);
	while (read(p.user.fd, &ev, sizeof(ev)) == sizeof(ev)) {
		assert_int_equal(ev.id, gone);
		of_gone++;
	}
	assert_true(of_gone > 0 && of_gone < 100); /* those that lay in the pipe already */
	pass(w, SEC);
	while (read(fd, &ev, sizeof(ev)) == sizeof(ev)) {
		assert_int_equal(ev.id, p.active);
		n++;
		pass(w, SEC / 100);
	}
	assert_int_equal(n, 100);
	assert_int_equal(ASK(&p.user, BROKER_CM_POST, post, .id = p.active,
			     .type = BROKER_CM_EV_ROUTE_RESOLVED),
			 0);
	assert_int_equal(event(&other, BROKER_CM_EV_ROUTE_RESOLVED).user, 0x44);
	close(fd);
	end(&p);
}

static void a_backlog_bounds_unread_requests_and_later_ones_are_not_lost(void **state)
{
	struct world *w = *state;
	struct pair p;
	uint32_t id[6], got[6];
	int n = 0;

	begin(&p, w, TCP, PORT); /* backlog 4 */
	for (int i = 0; i < 6; i++) {
		id[i] = create(&p.user, TCP);
		assert_int_equal(connect_to(&p.user, id[i], &w->host[1].v4, &w->host[0].v4, PORT),
				 0);
	}
	for (; n < 4; n++)
		got[n] = event(&p.server, BROKER_CM_EV_CONNECT_REQUEST).id;
	no_event(&p.server);
	/* Reading made room, though none is accepted yet; the peers ask again. */
	pass(w, 5 * SEC);
	for (; n < 6; n++)
		got[n] = event(&p.server, BROKER_CM_EV_CONNECT_REQUEST).id;
	for (int i = 0; i < 6; i++)
		assert_int_equal(accept_it(&p.server, got[i]), 0);
	for (int i = 0; i < 6; i++)
		event(&p.user, BROKER_CM_EV_CONNECT_RESPONSE);
	end(&p);
}

/* The pipe that they were in had grown. */
static void requests_that_move_to_another_channel_all_come_there(void **state)
{
	enum { REQUESTS = 40 };
	struct world *w = *state;
	struct pair p;
	uint32_t old;
	int old_fd;

	begin(&p, w, TCP, PORT);
	assert_int_equal(
		ASK(&p.server, BROKER_CM_LISTEN, listen, .id = p.listen, .backlog = REQUESTS), 0);
	for (int i = 0; i < REQUESTS; i++)
		assert_int_equal(connect_to(&p.user, create(&p.user, TCP), &w->host[1].v4,
					    &w->host[0].v4, PORT),
				 0);
	carry(w);
	old = p.server.channel;
	old_fd = p.server.fd;
	assert_int_equal(cm_client_channel(p.server.c, &p.server.channel, &p.server.fd), 0);
	assert_int_equal(fcntl(p.server.fd, F_SETFL, O_NONBLOCK), 0);
	assert_int_equal(ASK(&p.server, BROKER_CM_MIGRATE, migrate, .id = p.listen,
			     .channel = p.server.channel, .user = LISTENER_USER),
			 0);
	for (int i = 0; i < REQUESTS; i++) {
		event(&p.server, BROKER_CM_EV_CONNECT_REQUEST);
		pass(w, SEC / 100);
	}
	no_event(&p.server);
	/* The old channel has nothing to do with them any more. */
	assert_int_equal(ASK(&p.server, BROKER_CM_CLOSE_CHANNEL, id, .id = old), 0);
	close(old_fd);
	pass(w, SEC / 100);
	no_event(&p.user);
	end(&p);
}

/* ---- addresses, rights, bad requests ----------------------------------------------------------
 */

static void binding_follows_the_port_space_and_the_devices(void **state)
{
	struct world *w = *state;
	struct client a, b;
	uint32_t x, y;

	open_client(&a, &w->host[0]);
	open_client(&b, &w->host[0]);
	x = create(&a, TCP);
	y = create(&b, TCP);
	assert_int_equal(bind_to(&a, x, &w->host[1].v4, 1), -EADDRNOTAVAIL);
	assert_int_equal(bind_to(&a, x, &w->host[0].v4, PORT), PORT);
	assert_int_equal(bind_to(&a, x, &w->host[0].v4, 4421), -EINVAL);
	assert_int_equal(bind_to(&b, y, NULL, PORT), -EADDRNOTAVAIL);
	assert_int_equal(bind_to(&b, y, &w->host[0].v4, PORT), -EADDRINUSE);
	assert_int_equal(ASK(&b, BROKER_CM_LISTEN, listen, .id = y), -EINVAL); /* not bound */
	assert_int_equal(on_id(&a, BROKER_CM_DESTROY_ID, x), 0);
	assert_int_equal(bind_to(&b, y, NULL, PORT), PORT);
	assert_int_equal(ASK(&b, BROKER_CM_LISTEN, listen, .id = y), 0);
	assert_int_equal(connect_to(&b, y, &w->host[0].v4, &w->host[1].v4, 1), -EINVAL);
	close_client(&a);
	close_client(&b);
}

static void ports_below_1024_are_for_the_privileged(void **state)
{
	struct world *w = *state;
	struct client root, user;

	open_client(&root, &w->host[0]);
	w->unprivileged = true;
	open_client(&user, &w->host[0]);
	assert_int_equal(bind_to(&user, create(&user, TCP), &w->host[0].v4, 1023), -EACCES);
	assert_int_equal(bind_to(&user, create(&user, TCP), NULL, 1), -EACCES);
	assert_int_equal(bind_to(&user, create(&user, TCP), NULL, 1024), 1024);
	assert_true(bind_to(&user, create(&user, TCP), NULL, 0) > 1024);
	assert_int_equal(bind_to(&root, create(&root, TCP), &w->host[0].v4, 1023), 1023);
	close_client(&user);
	close_client(&root);
}

static void a_listener_takes_only_what_is_for_its_address(void **state)
{
	struct world *w = *state;
	struct pair p;
	uint32_t id;

	begin(&p, w, TCP, PORT);
	id = create(&p.server, TCP);
	assert_int_equal(bind_to(&p.server, id, &w->host[0].v4, 5000), 5000);
	assert_int_equal(ASK(&p.server, BROKER_CM_LISTEN, listen, .id = id), 0);
	assert_int_equal(connect_to(&p.user, p.active, &w->host[1].v6, &w->host[0].v6, 5000), 0);
	pass(w, SEC / 5);
	assert_int_equal(event(&p.user, BROKER_CM_EV_REJECTED).status, 8);
	id = create(&p.user, TCP);
	assert_int_equal(connect_to(&p.user, id, &w->host[1].v4, &w->host[0].v4, 5000), 0);
	event(&p.server, BROKER_CM_EV_CONNECT_REQUEST);
	end(&p);
}

static void addresses_within_a_req_must_be_the_packets(void **state)
{
	struct world *w = *state;
	struct pair p;
	struct packet *packet;

	begin(&p, w, TCP, PORT);
	assert_int_equal(connect_to(&p.user, p.active, &w->host[1].v4, &w->host[0].v4, PORT), 0);
	packet = list_entry(w->wire.next, struct packet, list);
	packet->data[BTH_LEN + DETH_LEN + MAD_HDR_LEN + 140 +
		     19]++; /* the IP CM header's source address */
	assert_int_equal(event(&p.user, BROKER_CM_EV_REJECTED).status, CM_REJ_INVALID_GID);
	no_event(&p.server);
	end(&p);
}

static void connecting_checks_what_it_is_given(void **state)
{
	struct world *w = *state;
	struct gid *us = &w->host[1].v4, *them = &w->host[0].v4, any = {{0}};
	struct pair p;

	begin(&p, w, TCP, PORT);
	assert_int_equal(connect_to(&p.user, p.active, them, us, PORT), -EADDRNOTAVAIL);
	assert_int_equal(connect_to(&p.user, p.active, us, &w->host[0].v6, PORT), -EINVAL);
	assert_int_equal(connect_to(&p.user, p.active, us, &any, PORT), -EINVAL);
	assert_int_equal(ASK(&p.user, BROKER_CM_CONNECT, connect, .id = p.active,
			     .param = {.src = *us, .dst = *them, .path_mtu = 3, .private_len = 57}),
			 -EINVAL);
	assert_int_equal(ASK(&p.user, BROKER_CM_CONNECT, connect, .id = p.active,
			     .param = {.src = *us, .dst = *them, .path_mtu = 3, .qpn = 1 << 24}),
			 -EINVAL);
	assert_int_equal(ASK(&p.user, BROKER_CM_CONNECT, connect, .id = p.active,
			     .param = {.src = *us, .dst = *them, .path_mtu = 6}),
			 -EINVAL);
	assert_int_equal(on_id(&p.user, BROKER_CM_ESTABLISH, p.active), -EINVAL);
	assert_int_equal(on_id(&p.user, BROKER_CM_DISCONNECT, p.active), -EINVAL);
	request(&p);
	assert_int_equal(connect_to(&p.user, p.active, us, them, PORT), -EINVAL);
	assert_int_equal(ASK(&p.server, BROKER_CM_ACCEPT, connect, .id = p.passive,
			     .param.private_len = 197),
			 -EINVAL);
	assert_int_equal(ASK(&p.server, BROKER_CM_REJECT, reject, .id = p.passive, .reason = 28,
			     .private_len = 149),
			 -EINVAL);
	assert_int_equal(accept_it(&p.server, p.passive), 0);
	assert_int_equal(accept_it(&p.server, p.passive), -EINVAL);
	end(&p);
}

static void a_client_reaches_only_its_own_ids(void **state)
{
	struct world *w = *state;
	struct client thief;
	struct pair p;

	begin(&p, w, TCP, PORT);
	open_client(&thief, &w->host[0]);
	request(&p);
	assert_int_equal(accept_it(&thief, p.passive), -ENOENT);
	assert_int_equal(on_id(&thief, BROKER_CM_DESTROY_ID, p.passive), -ENOENT);
	assert_int_equal(on_id(&thief, BROKER_CM_DESTROY_ID, p.listen), -ENOENT);
	assert_int_equal(on_id(&thief, BROKER_CM_DISCONNECT, p.passive), -ENOENT);
	assert_int_equal(on_id(&thief, BROKER_CM_CLOSE_CHANNEL, p.server.channel + 7), -ENOENT);
	assert_int_equal(accept_it(&p.server, p.passive), 0);
	close_client(&thief);
	end(&p);
}

static void requests_of_a_wrong_length_or_type_are_refused(void **state)
{
	struct world *w = *state;
	struct broker_cm_connect r = {.msg.type = BROKER_CM_LISTEN};
	struct broker_msg short_one = {.type = BROKER_CM_DESTROY_ID};
	uint8_t reply[BROKER_CM_REPLY_MAX];
	struct client c;

	open_client(&c, &w->host[0]);
	assert_int_equal(ask(&c, &r, sizeof(r)), -EINVAL);
	assert_int_equal(ask(&c, &short_one, sizeof(short_one)), -EINVAL);
	short_one.type = 9999;
	assert_int_equal(ask(&c, &short_one, sizeof(short_one)), -EOPNOTSUPP);
	short_one.type = 3;
	assert_int_equal(ask(&c, &short_one, sizeof(short_one)), -EOPNOTSUPP);
	assert_int_equal(cm_client_request(c.c, &r, 3, reply, w->now), sizeof(struct broker_msg));
	assert_int_equal(
		ASK(&c, BROKER_CM_CREATE_ID, create_id, .channel = c.channel, .ps = 0x0107),
		-EINVAL);
	assert_int_equal(
		ASK(&c, BROKER_CM_CREATE_ID, create_id, .channel = c.channel + 1, .ps = CM_PS_TCP),
		-ENOENT);
	close_client(&c);
}

static void limits_hold(void **state)
{
	struct world *w = *state;
	struct broker_cm_create_id r = {.ps = CM_PS_TCP};
	struct client c;
	int n = 0, err;

	open_client(&c, &w->host[0]);
	for (;; n++) {
		r.msg.type = BROKER_CM_CREATE_ID;
		r.channel = c.channel;
		err = ask(&c, &r, sizeof(r));
		if (err)
			break;
	}
	assert_int_equal(err, -EMFILE);
	assert_int_equal(n, 16384);
	close_client(&c);
}

/* One that posts and does not read takes no more of the broker's memory by way of many channels. */
static void what_a_client_posts_is_bounded_over_all_its_channels(void **state)
{
	enum { CHANNELS = 64, MOST = 65536, IN_PIPE = 64 };
	struct broker_cm_post post = {.type = BROKER_CM_EV_ROUTE_RESOLVED};
	struct world *w = *state;
	int fd[CHANNELS], rc;
	struct client c;

	open_client(&c, &w->host[0]);
	for (int i = 0; i < CHANNELS; i++)
		assert_int_equal(cm_client_channel(c.c, &c.channel, &fd[i]), 0);
	/* Whichever it is. */
	for (int i = 0; i < 2; i++) {
		int n = 0;

		post.id = create(&c, TCP);
		do {
			post.msg.type = BROKER_CM_POST;
			rc = ask(&c, &post, sizeof(post));
		} while (rc == 0 && ++n < 2 * MOST / CHANNELS);
		assert_int_equal(rc, -ENOBUFS);
		assert_true(n >= 16 && n <= MOST / CHANNELS + IN_PIPE);
		c.channel--;
	}
	close_client(&c);
	for (int i = 0; i < CHANNELS; i++)
		close(fd[i]);
}

static void an_address_is_resolved_when_the_neighbour_is_known_or_the_time_is_over(void **state)
{
	struct world *w = *state;
	struct host *h = &w->host[0];
	struct client c;
	uint32_t id[2];

	open_client(&c, h);
	id[0] = create(&c, TCP);
	id[1] = create(&c, TCP);
#define RESOLVE(id_, ms)                                                               \
	ASK(&c, BROKER_CM_POST, post, .id = (id_), .type = BROKER_CM_EV_ADDR_RESOLVED, \
	    .src = h->v4, .dst = w->host[1].v4, .timeout_ms = (ms))
	assert_int_equal(RESOLVE(id[0], 1000), 0); /* known */
	assert_int_equal(event(&c, BROKER_CM_EV_ADDR_RESOLVED).status, 0);
	h->neighbour = -EAGAIN;
	h->probes = 0;
	assert_int_equal(RESOLVE(id[0], 1000), 0);
	assert_int_equal(RESOLVE(id[1], 2000), 0);
	assert_int_equal(h->probes, 2); /* once for each */
	pass(w, SEC - 1);
	no_event(&c);
	pass(w, 2);
	assert_int_equal(event(&c, BROKER_CM_EV_ADDR_RESOLVED).status, -ETIMEDOUT);
	assert_in_range(h->probes, 4, 5); /* and now and then again */
	h->neighbour = 0;
	pass(w, SEC / 10);
	assert_int_equal(event(&c, BROKER_CM_EV_ADDR_RESOLVED).status, 0);
	no_event(&c);
	/* One that waits can go. */
	h->neighbour = -EAGAIN;
	assert_int_equal(RESOLVE(id[0], 1000), 0);
	assert_int_equal(RESOLVE(id[1], 1000), 0);
	assert_int_equal(on_id(&c, BROKER_CM_DESTROY_ID, id[0]), 0);
	close_client(&c);
}

static void a_device_that_goes_is_told(void **state)
{
	struct world *w = *state;
	struct pair p;

	begin(&p, w, TCP, PORT);
	establish(&p);
	cm_service_device_changed(w->host[0].svc, 77, BROKER_DEVICE_REMOVED, w->now);
	no_event(&p.server);
	cm_service_device_changed(w->host[0].svc, w->host[0].nr, BROKER_DEVICE_MAC_CHANGE, w->now);
	assert_int_equal(event(&p.server, BROKER_CM_EV_ADDR_CHANGE).id, p.passive);
	cm_service_device_changed(w->host[0].svc, w->host[0].nr, BROKER_DEVICE_REMOVED, w->now);
	assert_int_equal(event(&p.server, BROKER_CM_EV_DEVICE_REMOVAL).id, p.passive);
	no_event(&p.server); /* the wildcard listener is on no device */
	assert_int_equal(ASK(&p.server, BROKER_CM_DISCONNECT, id, .id = p.passive), -EIO);
	assert_int_equal(ASK(&p.server, BROKER_CM_DESTROY_ID, id, .id = p.passive), 0);
	end(&p);
}

static void packets_that_are_no_mads_for_qp1_are_dropped(void **state)
{
	struct world *w = *state;
	struct pair p;
	struct packet *good;
	struct rnic_rx rx;

	begin(&p, w, TCP, PORT);
	assert_int_equal(connect_to(&p.user, p.active, &w->host[1].v4, &w->host[0].v4, PORT), 0);
	good = list_entry(w->wire.next, struct packet, list);
	rx = (struct rnic_rx){.flow = good->flow, .data = good->data, .len = good->len};
	for (size_t len = 0; len < good->len; len++) {
		uint8_t *cut = malloc(len + 1); /* of its size, for the sanitizer */

		memcpy(cut, good->data, len);
		cm_service_rx(w->host[0].svc,
			      &(struct rnic_rx){.flow = good->flow, .data = cut, .len = len},
			      w->now);
		free(cut);
	}
	good->data[15] ^= 1; /* Q_Key */
	cm_service_rx(w->host[0].svc, &rx, w->now);
	good->data[15] ^= 1;
	good->data[7] ^= 2; /* destination QPN */
	cm_service_rx(w->host[0].svc, &rx, w->now);
	good->data[7] ^= 2;
	good->data[0] ^= 1; /* opcode */
	cm_service_rx(w->host[0].svc, &rx, w->now);
	good->data[0] ^= 1;
	{
		struct broker_cm_event ev;

		assert_int_equal(read(p.server.fd, &ev, sizeof(ev)), -1);
	}
	event(&p.server, BROKER_CM_EV_CONNECT_REQUEST);
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
		T(a_watcher_is_told_of_a_peer_that_died_and_not_of_one_that_left),
		T(a_client_that_dies_connecting_withdraws),
		T(a_disconnect_that_nobody_answers_says_so),
		T(a_dead_peer_keeps_the_broker_for_seconds_only),
		T(destroying_a_listener_rejects_what_was_not_read),
		T(closing_a_channel_rejects_what_was_not_read),
		T(who_reads_a_closed_channel_waits_on),
		T(a_reader_that_has_gone_is_no_listener),
		T(the_descriptor_polls_for_reading_only),
		T(no_event_is_lost_when_nobody_reads_for_a_while),
		T(waiting_events_of_an_id_go_with_it_or_move_with_it),
		T(a_backlog_bounds_unread_requests_and_later_ones_are_not_lost),
		T(requests_that_move_to_another_channel_all_come_there),
		T(binding_follows_the_port_space_and_the_devices),
		T(ports_below_1024_are_for_the_privileged),
		T(a_listener_takes_only_what_is_for_its_address),
		T(addresses_within_a_req_must_be_the_packets),
		T(connecting_checks_what_it_is_given),
		T(a_client_reaches_only_its_own_ids),
		T(requests_of_a_wrong_length_or_type_are_refused),
		T(limits_hold),
		T(what_a_client_posts_is_bounded_over_all_its_channels),
		T(an_address_is_resolved_when_the_neighbour_is_known_or_the_time_is_over),
		T(a_device_that_goes_is_told),
		T(packets_that_are_no_mads_for_qp1_are_dropped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
