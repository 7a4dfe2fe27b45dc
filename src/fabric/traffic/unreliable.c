/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* datagrams, unreliable: who sends and hears nothing of what has become of it. What counts is what
 * arrives, when it does. */
#include <errno.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "fabric/traffic/each.h"

#define GRH_ROOM 40 /* before what a datagram carries */

struct sender {
	struct taker taker;
	struct group *group;
	struct conn conn;
	unsigned from;
};

struct senders {
	size_t n;
	struct sender sender[];
};

static void take_next(struct sender *s)
{
	uint32_t room = (uint32_t)s->group->traffic->bytes + GRH_ROOM;

	if (conn_expect(&s->conn, room, &s->taker))
		play_fail(s->group->play, "traffic '%s': host%u cannot post a receive",
			  s->group->traffic->name, host_number(s->conn.to));
}

static void took(struct taker *t, const struct rnic_wc *wc)
{
	struct sender *s = container_of(t, struct sender, taker);

	if (wc->status != RNIC_WC_SUCCESS)
		return; /* its queue pair is gone */
	play_arrived(s->group, s->from, s->group->traffic->bytes);
	take_next(s);
}

static void goes_on(struct item *i, bool good)
{
	struct sender *s = i->ctx;
	struct group *g = s->group;
	uint64_t stop = g->traffic->stop_ns;

	g->over = stop && play_now(g->play) >= stop;
	if (good && !g->over)
		play_post(g, &s->conn, g->traffic->bytes, false, goes_on, s);
}

static int open_one(struct group *g, struct sender *s, unsigned from, unsigned to)
{
	const struct traffic *t = g->traffic;
	struct play *p = g->play;
	const enum rnic_qp_type type = t->kind == TRAFFIC_DATAGRAMS ? RNIC_QPT_UD : RNIC_QPT_UC;

	s->group = g;
	s->from = from;
	s->taker.took = took;
	if (conn_open_as(&s->conn, type, network_host(p->network, from),
			 network_host(p->network, to), t->depth, t->dscp, &p->random,
			 fabric_now(p->fabric)))
		return -ENOMEM;
	for (unsigned k = 0; k < CONN_RECVS; k++)
		take_next(s);
	for (unsigned k = 0; k < t->depth; k++)
		play_post(g, &s->conn, t->bytes, false, goes_on, s);
	return 0;
}

static int unreliable_start(struct group *g)
{
	const struct traffic *t = g->traffic;
	struct senders *all = calloc(1, sizeof(*all) + traffic_pairs(t) * sizeof(all->sender[0]));

	if (!all)
		return -ENOMEM;
	g->own = all;
	g->over = false;
	for (unsigned a = 0; a < t->from.n; a++)
		for (unsigned b = 0; b < t->to.n; b++) {
			if (!traffic_meets(t, a, b))
				continue;
			if (open_one(g, &all->sender[all->n], t->from.v[a], t->to.v[b]))
				return -ENOMEM;
			all->n++;
		}
	return 0;
}

static void unreliable_fini(struct group *g)
{
	struct senders *all = g->own;

	for (size_t i = 0; i < all->n; i++)
		conn_close(&all->sender[i].conn);
}

const struct kind kind_unreliable = {unreliable_start, unreliable_fini};
