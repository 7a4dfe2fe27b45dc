/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* flows, all-to-all: messages between given hosts, a given number of times. */
#include <errno.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "fabric/traffic/each.h"

struct pair {
	struct group *group;
	struct conn conn;
	unsigned left;	    /* messages to begin */
	unsigned under_way; /* of CONN_DEPTH_MAX */
	bool late;	    /* one is due that has no room yet */
	struct happening begins;
};

struct flows {
	size_t n, open;
	struct pair pair[];
};

static void is_done(struct item *i, bool good);

static void begin(struct pair *p)
{
	struct group *g = p->group;

	p->left--;
	p->under_way++;
	p->late = false;
	play_post(g, &p->conn, g->traffic->bytes, true, is_done, p);
	if (p->left && g->traffic->every_ns)
		fabric_put(g->play->fabric, &p->begins,
			   fabric_now(g->play->fabric) + g->traffic->every_ns);
	if (!p->left && --((struct flows *)g->own)->open == 0)
		g->over = true;
}

static void begins(struct happening *h)
{
	struct pair *p = container_of(h, struct pair, begins);

	if (p->under_way < CONN_DEPTH_MAX)
		begin(p);
	else
		p->late = true;
}

static void is_done(struct item *i, bool good)
{
	struct pair *p = i->ctx;

	p->under_way--;
	if (!good && p->left) { /* its queue pair has failed: there is no more to come */
		p->left = 0;
		happening_cancel(&p->begins);
		if (--((struct flows *)p->group->own)->open == 0)
			p->group->over = true;
	} else if (p->left && (p->late || !p->group->traffic->every_ns)) {
		begin(p);
	}
}

static int start(struct group *g)
{
	const struct traffic *t = g->traffic;
	struct play *p = g->play;
	size_t pairs = traffic_pairs(t);
	struct flows *f;

	f = calloc(1, sizeof(*f) + pairs * sizeof(f->pair[0]));
	if (!f)
		return -ENOMEM;
	g->own = f;
	f->open = pairs;
	g->over = !pairs;
	for (unsigned a = 0; a < t->from.n; a++)
		for (unsigned b = 0; b < t->to.n; b++) {
			struct pair *one = &f->pair[f->n];
			unsigned depth = t->every_ns ? CONN_DEPTH_MAX : 1;

			if (!traffic_meets(t, a, b))
				continue;
			one->group = g;
			one->left = t->count;
			happening_init(&one->begins, begins);
			if (conn_open(&one->conn, network_host(p->network, t->from.v[a]),
				      network_host(p->network, t->to.v[b]), depth, t->dscp,
				      &p->random, fabric_now(p->fabric)))
				return -ENOMEM;
			f->n++;
			begin(one);
		}
	return 0;
}

static void fini(struct group *g)
{
	struct flows *f = g->own;

	for (size_t i = 0; i < f->n; i++) {
		happening_cancel(&f->pair[i].begins);
		conn_close(&f->pair[i].conn);
	}
}

const struct kind kind_flows = {start, fini};
const struct kind kind_all_to_all = {start, fini};
