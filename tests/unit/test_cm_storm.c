/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Four clients of two CM services ask for whatever comes into their heads, of ids that are theirs,
 * were, or never will be, over a wire that loses; they die, and others come. Nobody sees another's
 * events, and when all have gone nothing is left. `test_cm_storm SEED` replays one.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <cmocka.h>

#include "cm_world.h"
#include "wire/cm_ip.h"

#define SEEDS	 300
#define STEPS	 1200
#define CLIENTS	 4
#define KNOWN	 6
#define CHANNELS 3
#define PORTS	 2

struct mind {
	struct client c;
	uint64_t user; /* of all its ids */
	uint32_t known[KNOWN];
	uint32_t channel[CHANNELS];
	int fd[CHANNELS]; /* -1: closed */
};

struct storm {
	struct world *w;
	struct mind mind[CLIENTS];
	uint64_t lives;
	unsigned up; /* connections ever */
};

static uint32_t rnd(struct storm *s, uint32_t n)
{
	return world_random(s->w) % n;
}

static void be_born(struct storm *s, unsigned i)
{
	struct mind *m = &s->mind[i];

	*m = (struct mind){.user = ++s->lives << 8 | i};
	open_client(&m->c, &s->w->host[i / 2]);
	m->channel[0] = m->c.channel;
	m->fd[0] = m->c.fd;
	for (int k = 1; k < CHANNELS; k++)
		m->fd[k] = -1;
}

static void die(struct mind *m)
{
	cm_client_destroy(m->c.c, m->c.host->w->now);
	for (int k = 0; k < CHANNELS; k++)
		if (m->fd[k] >= 0)
			close(m->fd[k]);
}

static void learn(struct storm *s, struct mind *m, uint32_t id)
{
	m->known[rnd(s, KNOWN)] = id;
}

/* Mostly one of its own. */
static uint32_t some_id(struct storm *s, struct mind *m)
{
	struct mind *whose = rnd(s, 20) ? m : &s->mind[rnd(s, CLIENTS)];

	return rnd(s, 50) ? whose->known[rnd(s, KNOWN)] : world_random(s->w);
}

static struct broker_cm_param some_param(struct storm *s, struct mind *m)
{
	struct host *own = m->c.host, *to = &s->w->host[rnd(s, 2)];
	bool v6 = rnd(s, 2);

	return (struct broker_cm_param){
		.src = v6 ? own->v6 : own->v4,
		.dst = v6 ? to->v6 : to->v4,
		.dst_port = (uint16_t)(5000 + rnd(s, PORTS)),
		.qpn = rnd(s, 4) ? rnd(s, 1 << 24) : 0x17, /* often the same: stale */
		.path_mtu = (uint8_t)(rnd(s, 40) ? 3 : 0),
		.private_len = rnd(s, 40) ? 20 : 300,
	};
}

/* What a program does next. It may be refused: the id may have gone meanwhile. */
static void go_on(struct storm *s, struct mind *m, const struct broker_cm_event *ev)
{
	if (ev->type == BROKER_CM_EV_CONNECT_REQUEST)
		(void)ASK(&m->c, BROKER_CM_ACCEPT, connect, .id = ev->id, .user = m->user,
			  .param = some_param(s, m));
	if (ev->type == BROKER_CM_EV_CONNECT_RESPONSE)
		(void)ASK(&m->c, BROKER_CM_ESTABLISH, id, .id = ev->id);
	if (ev->type == BROKER_CM_EV_DISCONNECTED)
		(void)ASK(&m->c, BROKER_CM_DISCONNECT, id, .id = ev->id);
}

static void read_events(struct storm *s, struct mind *m, unsigned max)
{
	struct broker_cm_event ev;

	for (int k = 0; k < CHANNELS; k++)
		for (unsigned n = 0; n < max && m->fd[k] >= 0; n++) {
			if (read(m->fd[k], &ev, sizeof(ev)) != sizeof(ev))
				break;
			assert_int_equal(ev.user, m->user);
			if (ev.type == BROKER_CM_EV_CONNECT_REQUEST)
				learn(s, m, ev.id);
			if (rnd(s, 3)) /* sense */
				go_on(s, m, &ev);
			s->up += ev.type == BROKER_CM_EV_ESTABLISHED;
		}
}

static void open_channel(struct storm *s, struct mind *m)
{
	unsigned k = rnd(s, CHANNELS);

	if (m->fd[k] >= 0)
		return;
	assert_int_equal(cm_client_channel(m->c.c, &m->channel[k], &m->fd[k]), 0);
	assert_int_equal(fcntl(m->fd[k], F_SETFL, O_NONBLOCK), 0);
}

static void close_channel(struct storm *s, struct mind *m)
{
	unsigned k = rnd(s, CHANNELS);

	if (rnd(s, 2) && m->fd[k] >= 0) { /* without a word */
		close(m->fd[k]);
		m->fd[k] = -1;
	}
	(void)ASK(&m->c, BROKER_CM_CLOSE_CHANNEL, id, .id = m->channel[k]);
	if (m->fd[k] >= 0)
		close(m->fd[k]);
	m->fd[k] = -1;
}

static void ask_something(struct storm *s, struct mind *m)
{
	struct client *c = &m->c;
	struct host *own = c->host;
	uint32_t id = some_id(s, m), channel = m->channel[rnd(s, CHANNELS)];
	uint16_t port = (uint16_t)(rnd(s, 3) ? 5000 + rnd(s, PORTS) : 0);
	bool datagrams = rnd(s, 4) == 0;
	struct broker_cm_create_id create = {.msg.type = BROKER_CM_CREATE_ID,
					     .channel = channel,
					     .user = m->user,
					     .ps = datagrams ? CM_PS_UDP : CM_PS_TCP,
					     .datagrams = datagrams};
	static const struct gid any;

	switch (rnd(s, 16)) {
	case 0:
	case 1:
		if (ask(c, &create, sizeof(create)) == 0)
			learn(s, m, create.id);
		return;
	case 2:
		(void)ASK(c, BROKER_CM_DESTROY_ID, id, .id = id);
		return;
	case 3:
	case 4:
		(void)ASK(c, BROKER_CM_BIND, bind, .id = id, .port = port, .reuse = rnd(s, 2),
			  .addr = rnd(s, 2) ? any : own->v4);
		return;
	case 5:
	case 6:
		(void)ASK(c, BROKER_CM_LISTEN, listen, .id = id, .backlog = rnd(s, 4));
		return;
	case 7:
	case 8:
		(void)ASK(c, BROKER_CM_CONNECT, connect, .id = id, .param = some_param(s, m));
		return;
	case 9:
	case 10:
		(void)ASK(c, BROKER_CM_ACCEPT, connect, .id = id, .user = m->user,
			  .param = some_param(s, m));
		return;
	case 11:
		(void)ASK(c, BROKER_CM_ESTABLISH, id, .id = id);
		return;
	case 12:
		(void)ASK(c, BROKER_CM_REJECT, reject, .id = id, .reason = 28,
			  .private_len = rnd(s, 300));
		return;
	case 13:
		(void)ASK(c, BROKER_CM_DISCONNECT, id, .id = id);
		return;
	case 14:
		(void)ASK(c, BROKER_CM_MIGRATE, migrate, .id = id, .channel = channel,
			  .user = m->user);
		return;
	default:
		for (unsigned n = rnd(s, 40); n; n--)
			(void)ASK(c, BROKER_CM_POST, post, .id = id,
				  .type = BROKER_CM_EV_ADDR_RESOLVED);
		return;
	}
}

static void step(struct storm *s)
{
	struct mind *m = &s->mind[rnd(s, CLIENTS)];

	if (rnd(s, 400) == 0) {
		die(m);
		be_born(s, (unsigned)(m - s->mind));
		return;
	}
	if (rnd(s, 20) == 0)
		open_channel(s, m);
	if (rnd(s, 300) == 0)
		close_channel(s, m);
	if (rnd(s, 200) == 0)
		cm_service_device_changed(m->c.host->svc, m->c.host->nr, BROKER_DEVICE_REMOVED,
					  s->w->now);
	ask_something(s, m);
	if (rnd(s, 3) == 0)
		read_events(s, m, rnd(s, 30));
	if (rnd(s, 4) == 0)
		pass(s->w, rnd(s, 10) ? rnd(s, 1000) * 1000000ull : 10 * SEC);
}

static unsigned one_seed(uint32_t seed)
{
	struct storm *s = calloc(1, sizeof(*s));
	void *world;
	unsigned up;

	assert_int_equal(world_setup(&world), 0);
	s->w = world;
	s->w->random = seed * 2654435761u;
	s->w->loss = seed % 3 * 10;
	for (unsigned i = 0; i < CLIENTS; i++)
		be_born(s, i);
	for (int i = 0; i < STEPS; i++)
		step(s);
	for (unsigned i = 0; i < CLIENTS; i++) {
		read_events(s, &s->mind[i], 1000000);
		die(&s->mind[i]);
	}
	assert_int_equal(world_teardown(&world), 0);
	up = s->up;
	free(s);
	return up;
}

static uint32_t seed_now;

static void whatever_clients_do_their_events_are_theirs_and_nothing_is_left(void **state)
{
	unsigned up = 0;

	(void)state;
	for (seed_now = 1; seed_now <= SEEDS; seed_now++)
		up += one_seed(seed_now);
	assert_true(up > SEEDS); /* some of it made sense */
}

static int say_how_to_replay(void **state)
{
	(void)state;
	if (seed_now <= SEEDS)
		fprintf(stderr, "replay: tests/unit/test_cm_storm %u\n", seed_now);
	return 0;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(
			whatever_clients_do_their_events_are_theirs_and_nothing_is_left,
			say_how_to_replay),
	};

	if (argc > 1) {
		one_seed((uint32_t)strtoul(argv[1], NULL, 0));
		return 0;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
