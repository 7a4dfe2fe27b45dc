/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "fabric/net/ibswitch.h"

#include <errno.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "base/heap.h" /* DEADLINE_NEVER */

#define LIFE_UNIT_NS 4096 /* 4.096 us, times two to the power of what PortInfo says */
#define LIFE_FOREVER 20
#define STALL_LIVES  8

/* When what is first in each queue of a port has come to be that. */
struct heads {
	struct ibswitch *of;
	unsigned port;
	uint64_t since_ns[PRIORITIES];
	uint64_t stalled_until_ns[PRIORITIES];
	uint8_t in_a_row[PRIORITIES]; /* that were dropped */
	struct happening expires;
};

struct ibswitch {
	struct fabric *fabric;
	struct frame_pool *pool;
	unsigned ports;
	uint64_t latency_ns;
	struct netport *port;
	struct heads *heads; /* one for each port */
	struct ibnode *node;
	struct frame_queue late; /* what has come and is not yet in a queue: latency_ns */
	struct happening late_due;
	struct ibswitch_counters counters;
};

/* ---- how long a frame may be first ----------------------------------------------------------- */

/* 0: for ever. */
static uint64_t life_ns(const struct ibswitch *s, unsigned port)
{
	uint8_t code = agent_hoq_life(s->node->agent, port + 1);

	return code >= LIFE_FOREVER ? 0 : (uint64_t)LIFE_UNIT_NS << code;
}

static void await_expiry(struct heads *h)
{
	struct ibswitch *s = h->of;
	uint64_t life = life_ns(s, h->port), next = DEADLINE_NEVER;

	for (unsigned i = 0; life && i < PRIORITIES; i++)
		if (s->port[h->port].queue[i].first)
			next = min_of(next, h->since_ns[i] + life);
	if (next == DEADLINE_NEVER)
		happening_cancel(&h->expires);
	else if (!happening_is_due(&h->expires) || h->expires.at_ns != next)
		fabric_put(s->fabric, &h->expires, next);
}

static void expire(struct heads *h, unsigned lane)
{
	h->of->counters.expired++;
	netport_drop(&h->of->port[h->port], lane);
}

static void stall(struct heads *h, unsigned lane, uint64_t until_ns)
{
	h->in_a_row[lane] = 0;
	h->stalled_until_ns[lane] = until_ns;
	while (h->of->port[h->port].queue[lane].first)
		expire(h, lane);
}

static void expires(struct happening *happening)
{
	struct heads *h = container_of(happening, struct heads, expires);
	struct ibswitch *s = h->of;
	struct netport *p = &s->port[h->port];
	uint64_t now = fabric_now(s->fabric), life = life_ns(s, h->port);
	const uint8_t most = agent_stall_count(s->node->agent, h->port + 1);

	for (unsigned i = 0; life && i < PRIORITIES; i++)
		if (p->queue[i].first && now >= h->since_ns[i] + life) {
			h->since_ns[i] = now;
			expire(h, i);
			if (most && ++h->in_a_row[i] >= most)
				stall(h, i, now + STALL_LIVES * life);
		}
	await_expiry(h);
}

/* ---- frames ---------------------------------------------------------------------------------- */

static void release(struct ibswitch *s, const struct frame *f)
{
	iblink_release(&s->node->links[f->from], f->from_lane, f->bytes);
}

static void drop(struct ibswitch *s, struct frame *f)
{
	release(s, f);
	frame_free(s->pool, f);
}

static void forward(struct ibswitch *s, struct frame *f)
{
	const struct agent *a = s->node->agent;
	unsigned to = agent_forward(a, f->dlid), lane;
	struct netport *p;
	struct heads *h;

	if (!to || to > s->ports ||
	    (lane = agent_lane(a, f->from + 1u, to, f->sl)) >= agent_lanes(a, to)) {
		s->counters.unroutable++;
		drop(s, f);
		return;
	}
	f->priority = (uint8_t)lane;
	p = &s->port[to - 1];
	h = &s->heads[to - 1];
	if (fabric_now(s->fabric) < h->stalled_until_ns[lane]) {
		s->counters.expired++;
		p->counters.dropped++;
		drop(s, f);
		return;
	}
	if (!p->queue[lane].first)
		h->since_ns[lane] = fabric_now(s->fabric);
	netport_send(p, f);
	await_expiry(h);
}

static void late_is_due(struct happening *h)
{
	struct ibswitch *s = container_of(h, struct ibswitch, late_due);
	struct frame *f = frame_queue_pop(&s->late);

	if (s->late.first)
		fabric_put(s->fabric, &s->late_due, s->late.first->at_ns);
	forward(s, f);
}

static void arrived(struct netport *p, struct frame *f)
{
	struct ibswitch *s = p->owner;

	if (!ibnode_arrived(s->node, p, f))
		return;
	f->from = (uint16_t)p->index;
	f->from_lane = f->priority;
	if (!s->latency_ns) {
		forward(s, f);
		return;
	}
	f->at_ns = fabric_now(s->fabric) + s->latency_ns;
	frame_queue_push(&s->late, f);
	if (!happening_is_due(&s->late_due))
		fabric_put(s->fabric, &s->late_due, f->at_ns);
}

static void leaves(struct netport *p, struct frame *f, uint64_t queued)
{
	struct ibswitch *s = p->owner;

	(void)queued;
	s->heads[p->index].since_ns[f->priority] = fabric_now(s->fabric);
	s->heads[p->index].in_a_row[f->priority] = 0;
	iblink_leaves(&s->node->links[p->index], f);
}

static void left(struct netport *p, struct frame *f)
{
	struct ibswitch *s = p->owner;

	release(s, f);
	await_expiry(&s->heads[p->index]);
}

static void dropped(struct netport *p, struct frame *f)
{
	drop(p->owner, f);
}

static const struct netport_ops port_ops = {
	.arrived = arrived,
	.leaves = leaves,
	.left = left,
	.dropped = dropped,
};

/* ---- its life -------------------------------------------------------------------------------- */

static struct netport *port_of(void *owner, unsigned i)
{
	struct ibswitch *s = owner;

	return &s->port[i];
}

int ibswitch_create(struct ibswitch **ret, struct fabric *f, struct frame_pool *pool,
		    unsigned ports, const struct ibnode_nature *nature, uint64_t latency_ns,
		    uint64_t guid, const char *name)
{
	struct ibswitch *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->fabric = f;
	s->pool = pool;
	s->latency_ns = latency_ns;
	happening_init(&s->late_due, late_is_due);
	s->port = calloc(ports, sizeof(*s->port));
	s->heads = calloc(ports, sizeof(*s->heads));
	if (!s->port || !s->heads)
		goto failed;
	s->ports = ports;
	for (unsigned i = 0; i < ports; i++) {
		netport_init(&s->port[i], f, pool, &port_ops, s, i);
		s->heads[i] = (struct heads){.of = s, .port = i};
		happening_init(&s->heads[i].expires, expires);
	}
	if (ibnode_create(&s->node, nature, true, ports, guid, name, port_of, s))
		goto failed;
	*ret = s;
	return 0;
failed:
	ibswitch_destroy(s);
	return -ENOMEM;
}

void ibswitch_destroy(struct ibswitch *s)
{
	struct frame *f;

	happening_cancel(&s->late_due);
	while ((f = frame_queue_pop(&s->late)))
		frame_free(s->pool, f);
	for (unsigned i = 0; i < s->ports; i++) {
		happening_cancel(&s->heads[i].expires);
		netport_fini(&s->port[i]);
	}
	if (s->node)
		ibnode_destroy(s->node);
	free(s->heads);
	free(s->port);
	free(s);
}

struct netport *ibswitch_port(struct ibswitch *s, unsigned i)
{
	return &s->port[i];
}

struct ibnode *ibswitch_node(struct ibswitch *s)
{
	return s->node;
}

const struct ibswitch_counters *ibswitch_counters(const struct ibswitch *s)
{
	return &s->counters;
}

bool ibswitch_is_idle(const struct ibswitch *s)
{
	for (unsigned i = 0; i < s->ports; i++)
		if (!netport_is_idle(&s->port[i]))
			return false;
	return !s->late.first;
}
