/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What the CM service gives its clients: channels, addresses, rights; and bad requests. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "broker/cm_service_priv.h"
#include "cm_rc.h"
#include "wire/bth.h"
#include "wire/cm_ip.h"
#include "wire/cm_mad.h"

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

static void requests_of_one_peer_do_not_keep_out_another_s(void **state)
{
	struct world *w = *state;
	const struct gid *from[] = {&w->host[1].v4, &w->host[1].v6};
	const struct gid *to[] = {&w->host[0].v4, &w->host[0].v6};
	static const struct {
		int of, come, taken;
	} rounds[] = {{0, 6, 4}, {1, 6, 2}, {0, 1, 0}};
	uint32_t got[6];
	struct pair p;
	int n = 0;

	begin(&p, w, TCP, PORT); /* backlog 4 */
	for (int r = 0; r < (int)ARRAY_SIZE(rounds); r++) {
		int of = rounds[r].of;

		for (int i = 0; i < rounds[r].come; i++)
			assert_int_equal(
				connect_to(&p.user, create(&p.user, TCP), from[of], to[of], PORT),
				0);
		carry(w);
	}
	for (int r = 0; r < (int)ARRAY_SIZE(rounds); r++)
		for (int i = 0; i < rounds[r].taken; i++) {
			struct broker_cm_event ev = event(&p.server, BROKER_CM_EV_CONNECT_REQUEST);

			assert_memory_equal(&ev.param.dst, from[rounds[r].of], sizeof(struct gid));
			got[n++] = ev.id;
		}
	no_event(&p.server);
	assert_int_equal(n, ARRAY_SIZE(got));
	for (int i = 0; i < n; i++)
		assert_int_equal(accept_it(&p.server, got[i]), 0);
	for (int i = 0; i < n; i++)
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

/* And so does what becomes of them. */
static void a_request_that_moves_to_another_channel_stays_there(void **state)
{
	struct world *w = *state;
	struct pair p;
	uint32_t old;
	int old_fd;

	begin(&p, w, TCP, PORT);
	assert_int_equal(connect_to(&p.user, p.active, &w->host[1].v4, &w->host[0].v4, PORT), 0);
	carry(w);
	old = p.server.channel;
	old_fd = p.server.fd;
	assert_int_equal(cm_client_channel(p.server.c, &p.server.channel, &p.server.fd), 0);
	assert_int_equal(fcntl(p.server.fd, F_SETFL, O_NONBLOCK), 0);
	assert_int_equal(ASK(&p.server, BROKER_CM_MIGRATE, migrate, .id = p.listen,
			     .channel = p.server.channel, .user = LISTENER_USER),
			 0);
	p.passive = event(&p.server, BROKER_CM_EV_CONNECT_REQUEST).id;
	assert_int_equal(accept_it(&p.server, p.passive), 0);
	event(&p.user, BROKER_CM_EV_CONNECT_RESPONSE);
	assert_int_equal(on_id(&p.user, BROKER_CM_ESTABLISH, p.active), 0);
	event(&p.server, BROKER_CM_EV_ESTABLISHED);
	assert_int_equal(ASK(&p.server, BROKER_CM_CLOSE_CHANNEL, id, .id = old), 0);
	close(old_fd);
	assert_int_equal(on_id(&p.user, BROKER_CM_DISCONNECT, p.active), 0);
	event(&p.server, BROKER_CM_EV_DISCONNECTED);
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

/* And is known by it, also where it listens nowhere else. */
static void one_listens_at_a_port_of_tcp(void **state)
{
	struct world *w = *state;
	struct host *h = &w->host[0];
	struct client a;
	uint32_t both, tcp;

	open_client(&a, h);
	both = create(&a, TCP);
	tcp = create(&a, TCP);
	assert_int_equal(bind_to(&a, both, &h->v4, PORT), PORT);
	assert_int_equal(bind_to(&a, tcp, &h->v4, PORT + 1), PORT + 1);
	assert_int_equal(ASK(&a, BROKER_CM_LISTEN, listen, .id = tcp, .tcp_only = 1), -EINVAL);
	assert_int_equal(ASK(&a, BROKER_CM_LISTEN, listen, .id = both, .tcp_port = PORT), 0);
	assert_int_equal(
		ASK(&a, BROKER_CM_LISTEN, listen, .id = tcp, .tcp_port = 99, .tcp_only = 1), 0);
	assert_int_equal(h->by_tcp, 2);
	assert_int_equal(cm_service_tcp_port(h->svc, &h->v4, PORT, w->now), PORT);
	assert_int_equal(cm_service_tcp_port(h->svc, &h->v4, PORT + 1, w->now), 99);
	assert_int_equal(cm_service_tcp_port(h->svc, &h->v6, PORT, w->now), 0);
	assert_int_equal(cm_service_tcp_port(h->svc, &h->v4, PORT + 2, w->now), 0);
	/* Once more, at another. */
	assert_int_equal(
		ASK(&a, BROKER_CM_LISTEN, listen, .id = tcp, .tcp_port = 98, .tcp_only = 1), 0);
	assert_int_equal(cm_service_tcp_port(h->svc, &h->v4, PORT + 1, w->now), 98);
	assert_int_equal(h->by_tcp, 2);
	assert_int_equal(on_id(&a, BROKER_CM_DESTROY_ID, both), 0);
	assert_int_equal(h->by_tcp, 1);
	assert_int_equal(cm_service_tcp_port(h->svc, &h->v4, PORT, w->now), 0);
	close_client(&a);
	assert_int_equal(h->by_tcp, 0);
}

static void ports_below_1024_are_for_the_privileged(void **state)
{
	struct world *w = *state;
	struct client root, user;

	open_client(&root, &w->host[0]);
	w->uid = 60000;
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

/* Of a group nobody can be, and what is answered there goes to many. */
static void what_is_from_a_group_or_to_one_is_nobodys(void **state)
{
	static const struct gid groups[] = {{{[10] = 0xff, [11] = 0xff, 224, 0, 0, 1}},
					    {{0xff, 0x02, [15] = 1}}};
	struct world *w = *state;
	struct pair p;

	for (int i = 0; i < 4; i++) {
		struct packet *packet;

		begin(&p, w, TCP, PORT);
		assert_int_equal(
			connect_to(&p.user, p.active, &w->host[1].v4, &w->host[0].v4, 4421), 0);
		packet = list_entry(list_pop_head(&w->wire), struct packet, list);
		*(i & 1 ? &packet->flow.sgid : &packet->flow.dgid) = groups[i / 2];
		w->sent = 0;
		cm_service_rx(w->host[0].svc,
			      &(struct packet_rx){.flow = packet->flow,
						  .data = packet->data,
						  .len = packet->len},
			      w->now);
		pass(w, SEC);
		assert_int_equal(w->sent, 0);
		free(packet);
		end(&p);
	}
}

/* Each would be answered if it were one. */
static void what_is_no_mad_for_queue_pair_1_is_dropped(void **state)
{
	struct change {
		size_t at;
		uint8_t xor ;
		int longer;
	};
	static const struct change changes[] = {
		{.at = 0, .xor = 1},			   /* another opcode */
		{.at = 1, .xor = 0x10},			   /* padding */
		{.at = 7, .xor = 1},			   /* for queue pair 0 */
		{.at = 5, .xor = 1},			   /* for a client's */
		{.at = BTH_LEN, .xor = 1},		   /* the Q_Key */
		{.at = 0, .longer = 4},			   /* than a MAD */
		{.at = 0, .longer = -4},		   /* shorter */
		{.at = 0, .longer = -256},		   /* nothing but headers */
		{.at = 0, .longer = -270},		   /* not even these */
		{.at = 0, .longer = -1000},		   /* nothing */
		{.at = BTH_LEN + DETH_LEN, .xor = 2},	   /* the MAD's version */
		{.at = BTH_LEN + DETH_LEN + 1, .xor = 6},  /* its class */
		{.at = BTH_LEN + DETH_LEN + 2, .xor = 1},  /* and the class's version */
		{.at = BTH_LEN + DETH_LEN + 3, .xor = 1},  /* no Send */
		{.at = BTH_LEN + DETH_LEN + 16, .xor = 1}, /* no such attribute */
	};
	struct world *w = *state;

	for (size_t i = 0; i <= ARRAY_SIZE(changes); i++) {
		struct packet *packet;
		struct packet_rx rx;
		struct pair p;

		begin(&p, w, TCP, PORT);
		assert_int_equal(
			connect_to(&p.user, p.active, &w->host[1].v4, &w->host[0].v4, 4421), 0);
		packet = list_entry(list_pop_head(&w->wire), struct packet, list);
		rx = (struct packet_rx){
			.flow = packet->flow, .data = packet->data, .len = packet->len};
		if (i < ARRAY_SIZE(changes)) {
			packet->data[changes[i].at] ^= changes[i].xor ;
			rx.len = (size_t)max_of((int)rx.len + changes[i].longer, 0);
		}
		w->sent = 0;
		cm_service_rx(w->host[0].svc, &rx, w->now);
		pass(w, SEC);
		assert_int_equal(w->sent, i == ARRAY_SIZE(changes)); /* the one unchanged */
		free(packet);
		end(&p);
	}
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
	struct packet_rx rx;

	begin(&p, w, TCP, PORT);
	assert_int_equal(connect_to(&p.user, p.active, &w->host[1].v4, &w->host[0].v4, PORT), 0);
	good = list_entry(w->wire.next, struct packet, list);
	rx = (struct packet_rx){.flow = good->flow, .data = good->data, .len = good->len};
	for (size_t len = 0; len < good->len; len++) {
		uint8_t *cut = malloc(len + 1); /* of its size, for the sanitizer */

		memcpy(cut, good->data, len);
		cm_service_rx(w->host[0].svc,
			      &(struct packet_rx){.flow = good->flow, .data = cut, .len = len},
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

/* ---- pipes of a client's own making -----------------------------------------------------------
 */

/* It can write there, too: anything, and more as soon as there is room. */
static void what_a_client_writes_into_its_pipe_is_its_own_affair(void **state)
{
	struct broker_cm_event forged = {.type = BROKER_CM_EV_CONNECT_REQUEST};
	struct world *w = *state;
	struct client mallory;
	struct svc_id *unread;
	struct cm_channel *of;
	uint32_t id, channel;
	struct pair p;
	int fd[2], other;

	begin(&p, w, TCP, PORT);
	assert_int_equal(connect_to(&p.user, p.active, &w->host[1].v4, &w->host[0].v4, PORT), 0);
	carry(w);
	unread = list_entry(p.server.c->ids.prev, struct svc_id, list);
	of = unread->request_channel;
	assert_non_null(of);
	forged.id = unread->handle;

	open_client(&mallory, &w->host[0]);
	assert_int_equal(pipe2(fd, O_DIRECT | O_NONBLOCK), 0);
	assert_int_equal(cm_client_resume_channel(mallory.c, 77, fd[0]), 0);
	assert_int_equal(write(fd[1], &forged, sizeof(forged)), sizeof(forged));
	mallory.channel = 77;
	id = create(&mallory, TCP);
	assert_int_equal(cm_client_channel(mallory.c, &channel, &other), 0);
	assert_int_equal(ASK(&mallory, BROKER_CM_MIGRATE, migrate, .id = id, .channel = channel),
			 0);
	assert_ptr_equal(unread->request_channel, of);
	close(fd[0]);
	close(fd[1]);
	close(other);
	close_client(&mallory);
	event(&p.server, BROKER_CM_EV_CONNECT_REQUEST);
	end(&p);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)
	const struct CMUnitTest tests[] = {
		T(the_descriptor_polls_for_reading_only),
		T(no_event_is_lost_when_nobody_reads_for_a_while),
		T(waiting_events_of_an_id_go_with_it_or_move_with_it),
		T(a_backlog_bounds_unread_requests_and_later_ones_are_not_lost),
		T(requests_of_one_peer_do_not_keep_out_another_s),
		T(requests_that_move_to_another_channel_all_come_there),
		T(a_request_that_moves_to_another_channel_stays_there),
		T(binding_follows_the_port_space_and_the_devices),
		T(one_listens_at_a_port_of_tcp),
		T(ports_below_1024_are_for_the_privileged),
		T(a_listener_takes_only_what_is_for_its_address),
		T(addresses_within_a_req_must_be_the_packets),
		T(what_is_from_a_group_or_to_one_is_nobodys),
		T(what_is_no_mad_for_queue_pair_1_is_dropped),
		T(connecting_checks_what_it_is_given),
		T(a_client_reaches_only_its_own_ids),
		T(requests_of_a_wrong_length_or_type_are_refused),
		T(limits_hold),
		T(what_a_client_posts_is_bounded_over_all_its_channels),
		T(an_address_is_resolved_when_the_neighbour_is_known_or_the_time_is_over),
		T(a_device_that_goes_is_told),
		T(packets_that_are_no_mads_for_qp1_are_dropped),
		T(what_a_client_writes_into_its_pipe_is_its_own_affair),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
