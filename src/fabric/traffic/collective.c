/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * allreduce: each of n hosts has as many bytes, and wants the sum of them all.
 *
 * By a ring, each host sends an n-th to its neighbour 2 (n - 1) times, and sends on what it has got
 * once it has it (Patarasuk and Yuan, 2009). By a tree, binary, each sends all of it up to its
 * parent once it has that of its children, and then it comes down again.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "fabric/traffic/each.h"

struct member {
	struct conn next;    /* ring: to the neighbour */
	struct conn up;	     /* tree: to the parent */
	struct conn down[2]; /* tree: to the children */
	unsigned sent, got;  /* ring: pieces; tree: what the children have sent */
	bool busy;	     /* ring: a piece is on its way */
};

struct collective {
	struct group *group;
	unsigned n, done, round;
	struct member member[];
};

static void begin_round(struct collective *c);

static void member_is_done(struct collective *c)
{
	if (++c->done < c->n)
		return;
	if (++c->round < c->group->traffic->count)
		begin_round(c);
	else
		c->group->over = true;
}

/* ---- ring ------------------------------------------------------------------------------------ */

static void ring_arrived(struct item *i, bool good);

/* One piece at a time: its own first, and then what has come. */
static void ring_send(struct collective *c, unsigned k)
{
	struct member *m = &c->member[k];
	const uint64_t piece = max_of(c->group->traffic->bytes / c->n, (uint64_t)1);

	if (m->busy || m->sent == 2 * (c->n - 1) || m->sent > m->got)
		return;
	m->busy = true;
	m->sent++;
	play_post(c->group, &m->next, piece, true, ring_arrived, m);
}

/* A piece is at the neighbour, who sends on what was got with it. */
static void ring_arrived(struct item *i, bool good)
{
	struct collective *c = i->group->own;
	struct member *m = i->ctx;
	unsigned k = (unsigned)(m - c->member), next = (k + 1) % c->n;

	m->busy = false;
	if (!good)
		return;
	c->member[next].got++;
	ring_send(c, k);
	ring_send(c, next);
	if (c->member[next].got == 2 * (c->n - 1))
		member_is_done(c);
}

/* ---- tree ------------------------------------------------------------------------------------ */

static unsigned children(const struct collective *c, unsigned k)
{
	return 2 * k + 2 < c->n ? 2 : 2 * k + 1 < c->n ? 1 : 0;
}

static void came_down(struct item *i, bool good);
static void came_up(struct item *i, bool good);

static void send_down(struct collective *c, unsigned k)
{
	struct member *m = &c->member[k];

	for (unsigned i = 0; i < children(c, k); i++)
		play_post(c->group, &m->down[i], c->group->traffic->bytes, true, came_down,
			  &c->member[2 * k + 1 + i]);
	member_is_done(c);
}

static void came_down(struct item *i, bool good)
{
	struct collective *c = i->group->own;

	if (good)
		send_down(c, (unsigned)((struct member *)i->ctx - c->member));
}

static void send_up(struct collective *c, unsigned k)
{
	if (k)
		play_post(c->group, &c->member[k].up, c->group->traffic->bytes, true, came_up,
			  &c->member[(k - 1) / 2]);
	else
		send_down(c, 0);
}

static void came_up(struct item *i, bool good)
{
	struct collective *c = i->group->own;
	struct member *parent = i->ctx;
	unsigned k = (unsigned)(parent - c->member);

	if (good && ++parent->got == children(c, k))
		send_up(c, k);
}

/* ---- both ------------------------------------------------------------------------------------ */

static void begin_round(struct collective *c)
{
	c->done = 0;
	for (unsigned k = 0; k < c->n; k++)
		c->member[k].sent = c->member[k].got = 0;
	for (unsigned k = 0; k < c->n; k++) {
		if (!c->group->traffic->tree)
			ring_send(c, k);
		else if (!children(c, k))
			send_up(c, k);
	}
}

static int open_to(struct collective *c, struct conn *conn, unsigned from, unsigned to)
{
	const struct traffic *t = c->group->traffic;
	struct play *p = c->group->play;

	return conn_open(conn, network_host(p->network, t->from.v[from]),
			 network_host(p->network, t->from.v[to]), 2, t->dscp, &p->random,
			 fabric_now(p->fabric));
}

static int start(struct group *g)
{
	const struct traffic *t = g->traffic;
	struct collective *c = calloc(1, sizeof(*c) + t->from.n * sizeof(c->member[0]));
	int rc = 0;

	if (!c)
		return -ENOMEM;
	g->own = c;
	g->over = false;
	c->group = g;
	c->n = t->from.n;
	for (unsigned k = 0; k < c->n && !rc; k++) {
		struct member *m = &c->member[k];

		if (!t->tree) {
			rc = open_to(c, &m->next, k, (k + 1) % c->n);
			continue;
		}
		if (k)
			rc = open_to(c, &m->up, k, (k - 1) / 2);
		for (unsigned i = 0; i < children(c, k) && !rc; i++)
			rc = open_to(c, &m->down[i], k, 2 * k + 1 + i);
	}
	if (!rc)
		begin_round(c);
	return rc;
}

static void fini(struct group *g)
{
	struct collective *c = g->own;

	for (unsigned k = 0; k < c->n; k++) {
		struct member *m = &c->member[k];

		conn_close(&m->next);
		conn_close(&m->up);
		conn_close(&m->down[0]);
		conn_close(&m->down[1]);
	}
}

const struct kind kind_allreduce = {start, fini};
