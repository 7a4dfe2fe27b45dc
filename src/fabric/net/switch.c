/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "fabric/net/switch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"

#define QUANTA_FULL 65535

/* A pause runs out by itself: while it is to go on, it is said again in time. */
struct giver {
	struct netswitch *of;
	unsigned port;
	uint8_t stops; /* the priorities that it has stopped */
	struct happening again;
};

struct netswitch {
	struct fabric *fabric;
	struct frame_pool *pool;
	char *name;
	struct switch_nature nature;
	const struct routes *routes;
	unsigned node; /* its number in the routes */
	unsigned ports;
	struct netport *port;
	struct giver *giver; /* one for each port */
	struct buffer buffer;
	struct switch_counters counters;
	struct frame_queue late; /* what has come and is not yet in a queue: latency_ns */
	struct happening late_due;
};

/* ---- pauses ---------------------------------------------------------------------------------- */

static void say_again_later(struct giver *g)
{
	struct netport *p = &g->of->port[g->port];

	fabric_put(g->of->fabric, &g->again,
		   fabric_now(g->of->fabric) + netport_quanta_ns(p, QUANTA_FULL) / 2);
}

static void says_again(struct happening *h)
{
	struct giver *g = container_of(h, struct giver, again);

	netport_send_pause(&g->of->port[g->port], g->stops, QUANTA_FULL);
	say_again_later(g);
}

static void stop(struct netswitch *s, unsigned port, unsigned priority)
{
	struct giver *g = &s->giver[port];
	uint8_t bit = (uint8_t)(1u << priority);

	if (g->stops & bit)
		return;
	g->stops |= bit;
	netport_send_pause(&s->port[port], bit, QUANTA_FULL);
	if (!happening_is_due(&g->again))
		say_again_later(g);
}

static void go_on(struct netswitch *s, unsigned port, unsigned priority)
{
	struct giver *g = &s->giver[port];
	uint8_t bit = (uint8_t)(1u << priority);

	if (!(g->stops & bit))
		return;
	g->stops &= (uint8_t)~bit;
	if (!g->stops)
		happening_cancel(&g->again);
	netport_send_pause(&s->port[port], bit, 0);
}

/* The threshold moves with what is free of the shared part, so others may be low enough now. */
static void look_who_may_go_on(struct netswitch *s)
{
	for (unsigned i = 0; i < s->ports; i++)
		for (unsigned p = 0; s->giver[i].stops >> p; p++)
			if (s->giver[i].stops >> p & 1 && buffer_is_low(&s->buffer, i, p))
				go_on(s, i, p);
}

/* ---- frames ---------------------------------------------------------------------------------- */

static void drop(struct netswitch *s, struct frame *f)
{
	frame_free(s->pool, f);
}

/* Each switch has another, so that all do not choose alike; on any machine it is the same. */
static uint32_t hash_of(const struct netswitch *s, const struct flow *f)
{
	const uint64_t a = ld_le64(f->sgid.raw + 8), b = ld_le64(f->dgid.raw + 8);
	uint64_t h = 0x9e3779b97f4a7c15ull * (s->node + 1);

	h = (h ^ a) * 0xbf58476d1ce4e5b9ull;
	h = (h ^ h >> 29 ^ b) * 0x94d049bb133111ebull;
	h = (h ^ h >> 32 ^ f->sport) * 0xbf58476d1ce4e5b9ull;
	return (uint32_t)(h >> 33);
}

static void forward(struct netswitch *s, struct frame *f)
{
	unsigned from = f->from;
	const struct route *r = routes_find(s->routes, s->node, &f->flow.dgid);
	struct netport *to;

	if (!r || !r->n) {
		s->counters.unroutable++;
		drop(s, f);
		return;
	}
	if (--f->ttl == 0) {
		s->counters.expired++;
		drop(s, f);
		return;
	}
	to = &s->port[r->port[r->n == 1 ? 0 : hash_of(s, &f->flow) % r->n]];
	if (netport_is_too_long(to, f)) {
		s->counters.dropped++;
		to->counters.dropped++;
		drop(s, f);
		return;
	}
	if (!buffer_take(&s->buffer, f, from, to->index)) {
		s->counters.dropped++;
		s->counters.dropped_lossless += s->nature.buffer.lossless >> f->priority & 1;
		to->counters.dropped++;
		/* A headroom of less than a frame is never used, and so does not say stop. When
		 * something leaves, go on may be said again. */
		if (s->nature.buffer.lossless >> f->priority & 1 &&
		    buffer_is_over(&s->buffer, from, f->priority))
			stop(s, from, f->priority);
		drop(s, f);
		return;
	}
	if (buffer_is_high(&s->buffer, from, f->priority))
		stop(s, from, f->priority);
	netport_send(to, f);
}

static void late_is_due(struct happening *h)
{
	struct netswitch *s = container_of(h, struct netswitch, late_due);
	struct frame *f = frame_queue_pop(&s->late);

	if (s->late.first)
		fabric_put(s->fabric, &s->late_due, s->late.first->at_ns);
	forward(s, f);
}

static void arrived(struct netport *p, struct frame *f)
{
	struct netswitch *s = p->owner;

	if (f->kind == FRAME_PAUSE) {
		netport_heed(p, f);
		frame_free(s->pool, f);
		return;
	}
	f->from = (uint16_t)p->index;
	if (!s->nature.latency_ns) {
		forward(s, f);
		return;
	}
	f->at_ns = fabric_now(s->fabric) + s->nature.latency_ns;
	frame_queue_push(&s->late, f);
	if (!happening_is_due(&s->late_due))
		fabric_put(s->fabric, &s->late_due, f->at_ns);
}

static void leaves(struct netport *p, struct frame *f, uint64_t queued)
{
	struct netswitch *s = p->owner;
	uint8_t ecn = f->flow.tos & FLOW_ECN_MASK;
	uint32_t ppm;

	if (!ecn || !(s->nature.marked >> f->priority & 1))
		return;
	ppm = mark_chance(&s->nature.mark, queued);
	if (!prng_chance(fabric_prng(s->fabric), ppm) || ecn == FLOW_ECN_CE)
		return;
	f->flow.tos |= FLOW_ECN_CE;
	s->counters.marked++;
	p->counters.marked++;
}

static void left(struct netport *p, struct frame *f)
{
	struct netswitch *s = p->owner;

	buffer_leave(&s->buffer, f, f->from, p->index);
	look_who_may_go_on(s);
}

static void dropped(struct netport *p, struct frame *f)
{
	struct netswitch *s = p->owner;

	s->counters.dropped++;
	left(p, f);
	drop(s, f);
}

static const struct netport_ops port_ops = {
	.arrived = arrived,
	.leaves = leaves,
	.left = left,
	.dropped = dropped,
};

/* ---- its life -------------------------------------------------------------------------------- */

int netswitch_create(struct netswitch **ret, struct fabric *f, struct frame_pool *pool,
		     unsigned ports, const char *name)
{
	struct netswitch *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->fabric = f;
	s->pool = pool;
	s->ports = ports;
	s->name = strdup(name);
	s->port = calloc(ports, sizeof(*s->port));
	s->giver = calloc(ports, sizeof(*s->giver));
	if (!s->port || !s->giver || !s->name) {
		free(s->name);
		free(s->giver);
		free(s->port);
		free(s);
		return -ENOMEM;
	}
	happening_init(&s->late_due, late_is_due);
	for (unsigned i = 0; i < ports; i++) {
		netport_init(&s->port[i], f, pool, &port_ops, s, i);
		s->giver[i] = (struct giver){.of = s, .port = i};
		happening_init(&s->giver[i].again, says_again);
	}
	*ret = s;
	return 0;
}

int netswitch_start(struct netswitch *s, const struct switch_nature *n, const struct routes *r,
		    unsigned node)
{
	s->nature = *n;
	s->routes = r;
	s->node = node;
	for (unsigned i = 0; i < s->ports; i++)
		s->port[i].scheduler = n->scheduler;
	return buffer_init(&s->buffer, &n->buffer, s->ports);
}

void netswitch_destroy(struct netswitch *s)
{
	struct frame *f;

	happening_cancel(&s->late_due);
	while ((f = frame_queue_pop(&s->late)))
		frame_free(s->pool, f);
	for (unsigned i = 0; i < s->ports; i++) {
		happening_cancel(&s->giver[i].again);
		netport_fini(&s->port[i]);
	}
	buffer_fini(&s->buffer);
	free(s->name);
	free(s->giver);
	free(s->port);
	free(s);
}

struct netport *netswitch_port(struct netswitch *s, unsigned i)
{
	return &s->port[i];
}

const char *netswitch_name(const struct netswitch *s)
{
	return s->name;
}

const struct switch_counters *netswitch_counters(const struct netswitch *s)
{
	return &s->counters;
}

bool netswitch_is_idle(const struct netswitch *s)
{
	if (!buffer_is_empty(&s->buffer) || s->late.first)
		return false;
	for (unsigned i = 0; i < s->ports; i++)
		if (s->giver[i].stops || !netport_is_idle(&s->port[i]))
			return false;
	return true;
}

uint64_t netswitch_headroom(const struct line_nature *l, uint32_t frame_max, uint64_t latency_ns)
{
	/* There and back; a frame that has begun at either end, with the pause behind ours; and the
	 * one that takes it over the threshold. */
	return (2 * l->delay_ns + latency_ns) * l->rate_mbps / 8000 +
	       4ull * (frame_max + FRAME_GAP) + 2ull * FRAME_MIN;
}
