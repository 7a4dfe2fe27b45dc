/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "subnet/graph.h"

#include <errno.h>
#include <string.h>

/* ---- life ---------------------------------------------------------------------------------- */

static const struct net_node *switch_at(const struct graph *g, unsigned at)
{
	return g->net->nodes[g->nodes[at]];
}

static void sift_down(struct graph *g, unsigned at, unsigned n)
{
	for (unsigned child; (child = 2 * at + 1) < n; at = child) {
		uint16_t lower = g->nodes[at];

		if (child + 1 < n &&
		    switch_at(g, child + 1)->shown.guid > switch_at(g, child)->shown.guid)
			child++;
		if (g->net->nodes[lower]->shown.guid >= switch_at(g, child)->shown.guid)
			return;
		g->nodes[at] = g->nodes[child];
		g->nodes[child] = lower;
	}
}

/* A heap sort: no order of GUIDs, which strangers choose, makes it slow. */
static void sort_by_guid(struct graph *g)
{
	for (unsigned at = g->n / 2; at-- > 0;)
		sift_down(g, at, g->n);
	for (unsigned n = g->n; n > 1; n--) {
		uint16_t last = g->nodes[n - 1];

		g->nodes[n - 1] = g->nodes[0];
		g->nodes[0] = last;
		sift_down(g, 0, n - 1);
	}
}

static void find_adapters(struct graph *g, unsigned at)
{
	const struct net_node *sw = switch_at(g, at);

	for (unsigned port = 1; port <= sw->shown.ports; port++) {
		uint16_t peer = sw->ports[port].peer;

		if (net_peer(g->net, g->nodes[at], port) && !g->net->nodes[peer]->shown.is_switch)
			g->adapters[at]++;
	}
}

int graph_init(struct graph *g, const struct net *net)
{
	uint16_t **of_all[] = {&g->nodes,  &g->place_of, &g->rank,  &g->by_rank,
			       &g->height, &g->far,	 &g->queue, &g->cost};
	size_t all = max_of(net->n, 1u);
	bool short_of_memory = false;

	*g = (struct graph){.net = net};
	for (size_t i = 0; i < ARRAY_SIZE(of_all); i++) {
		*of_all[i] = net->ops.alloc(net->ops.ctx, all * sizeof(uint16_t));
		short_of_memory |= !*of_all[i];
	}
	g->way = net->ops.alloc(net->ops.ctx, all);
	g->adapters = net->ops.alloc(net->ops.ctx, all * sizeof(*g->adapters));
	g->carried = net->ops.alloc(net->ops.ctx, all * sizeof(*g->carried));
	if (short_of_memory || !g->way || !g->adapters || !g->carried) {
		graph_fini(g);
		return -ENOMEM;
	}
	for (unsigned i = 0; i < net->n; i++) {
		g->place_of[i] = GRAPH_FAR;
		if (net->nodes[i]->can_forward)
			g->nodes[g->n++] = (uint16_t)i;
	}
	sort_by_guid(g);
	for (unsigned at = 0; at < g->n; at++) {
		g->place_of[g->nodes[at]] = (uint16_t)at;
		find_adapters(g, at);
	}
	return 0;
}

void graph_fini(struct graph *g)
{
	void *all[] = {g->nodes, g->place_of, g->rank, g->by_rank,  g->height, g->far,
		       g->queue, g->cost,     g->way,  g->adapters, g->carried};

	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		if (all[i])
			g->net->ops.free(g->net->ops.ctx, all[i]);
}

unsigned graph_next(const struct graph *g, unsigned from, unsigned port)
{
	const struct net_port *p = net_port(g->net, g->nodes[from], port);

	return port && net_peer(g->net, g->nodes[from], port) ? g->place_of[p->peer] : GRAPH_FAR;
}

/* ---- distances ----------------------------------------------------------------------------- */

static bool is_above(const struct graph *g, unsigned a, unsigned b)
{
	return g->height[a] < g->height[b];
}

/*
 * From the first n of the queue, whose distance is 0 or more and is set, to all others; those that
 * have one keep it. Only upward: each step goes to a switch from which the last is below.
 */
static void spread(struct graph *g, uint16_t *far, unsigned n, bool only_upward)
{
	for (unsigned i = 0; i < n; i++) {
		unsigned at = g->queue[i];

		for (unsigned port = 1; port <= switch_at(g, at)->shown.ports; port++) {
			unsigned next = graph_next(g, at, port);

			if (next == GRAPH_FAR || far[next] != GRAPH_FAR ||
			    (only_upward && !is_above(g, next, at)))
				continue;
			far[next] = (uint16_t)(far[at] + 1);
			g->queue[n++] = (uint16_t)next;
		}
	}
}

static void forget(const struct graph *g, uint16_t *far)
{
	for (unsigned at = 0; at < g->n; at++)
		far[at] = GRAPH_FAR;
}

/* Links to what was aimed at by way of the best neighbour above. */
static unsigned cost_upward(const struct graph *g, unsigned at)
{
	unsigned least = GRAPH_FAR;

	for (unsigned port = 1; port <= switch_at(g, at)->shown.ports; port++) {
		unsigned next = graph_next(g, at, port);

		if (next != GRAPH_FAR && is_above(g, next, at) && g->cost[next] != GRAPH_FAR)
			least = min_of(least, g->cost[next] + 1u);
	}
	return least;
}

/* What the shortest way down goes on by has to go down, too. */
static void need_below(struct graph *g, unsigned at)
{
	for (unsigned port = 1; port <= switch_at(g, at)->shown.ports; port++) {
		unsigned next = graph_next(g, at, port);

		if (next != GRAPH_FAR && g->far[next] + 1 == g->far[at] && is_above(g, at, next))
			g->way[next] = GRAPH_DOWN;
	}
}

/* far is the distance downward alone. All above have their ways, and have said whether they need
 * this one's downward. */
static void go_up_or_down(struct graph *g, unsigned at)
{
	unsigned up = cost_upward(g, at);

	if (g->far[at] != GRAPH_FAR && (g->way[at] == GRAPH_DOWN || g->far[at] <= up)) {
		g->way[at] = GRAPH_DOWN;
		g->cost[at] = g->far[at];
		need_below(g, at);
	} else if (up != GRAPH_FAR) {
		g->way[at] = GRAPH_UP;
		g->cost[at] = (uint16_t)up;
	}
}

/* The rest goes on to any neighbour that has a way: to one of less cost, so that no way comes
 * round, if not always by the shortest. */
static void go_anyhow(struct graph *g)
{
	unsigned n = 0;

	for (unsigned at = 0; at < g->n; at++)
		if (g->cost[at] != GRAPH_FAR)
			g->queue[n++] = (uint16_t)at;
	if (n < g->n)
		spread(g, g->cost, n, false);
}

void graph_aim(struct graph *g, unsigned at)
{
	uint16_t *far = g->directed ? g->far : g->cost;

	forget(g, g->cost);
	forget(g, far);
	memset(g->way, GRAPH_ANY, g->n);
	far[at] = 0;
	g->queue[0] = (uint16_t)at;
	spread(g, far, 1, g->directed);
	if (!g->directed)
		return;
	for (unsigned i = 0; i < g->n; i++)
		go_up_or_down(g, g->by_rank[i]);
	go_anyhow(g);
}

bool graph_leads(const struct graph *g, unsigned from, unsigned port)
{
	unsigned next = graph_next(g, from, port);

	if (next == GRAPH_FAR || g->cost[from] == GRAPH_FAR || g->cost[next] + 1 != g->cost[from])
		return false;
	switch (g->way[from]) {
	case GRAPH_DOWN:
		return is_above(g, from, next) && g->way[next] == GRAPH_DOWN;
	case GRAPH_UP:
		return is_above(g, next, from) && g->way[next] != GRAPH_ANY;
	default:
		return true;
	}
}

/* ---- up and down --------------------------------------------------------------------------- */

static unsigned take_named(struct graph *g, const uint64_t *roots, unsigned n)
{
	unsigned found = 0;

	for (unsigned at = 0; at < g->n; at++)
		for (unsigned i = 0; i < n; i++)
			if (switch_at(g, at)->shown.guid == roots[i]) {
				g->queue[found++] = (uint16_t)at;
				break;
			}
	return found;
}

/* Those farthest from adapters; all that have some, if none has not. */
static unsigned take_farthest(struct graph *g)
{
	unsigned n = 0;
	uint16_t most = 0;

	forget(g, g->far);
	for (unsigned at = 0; at < g->n; at++)
		if (g->adapters[at]) {
			g->far[at] = 0;
			g->queue[n++] = (uint16_t)at;
		}
	spread(g, g->far, n, false);
	for (unsigned at = 0; at < g->n; at++)
		if (g->far[at] != GRAPH_FAR)
			most = max_of(most, g->far[at]);
	n = 0;
	for (unsigned at = 0; at < g->n; at++)
		if (g->far[at] == most)
			g->queue[n++] = (uint16_t)at;
	return n;
}

/* From the first n of the queue, which are the roots. What they do not reach has others. */
static void rank_from(struct graph *g, unsigned n)
{
	unsigned place = 0;

	forget(g, g->rank);
	for (unsigned i = 0; i < n; i++)
		g->rank[g->queue[i]] = 0;
	spread(g, g->rank, n, false);
	for (unsigned at = 0; at < g->n; at++)
		if (g->rank[at] == GRAPH_FAR) {
			g->rank[at] = 0;
			g->queue[0] = (uint16_t)at;
			spread(g, g->rank, 1, false);
		}
	for (unsigned rank = 0; place < g->n; rank++)
		for (unsigned at = 0; at < g->n; at++)
			if (g->rank[at] == rank)
				g->by_rank[place++] = (uint16_t)at;
	for (unsigned i = 0; i < g->n; i++)
		g->height[g->by_rank[i]] = (uint16_t)i;
}

/* Does what adapters send reach each other, going down after up? */
static bool adapters_meet(struct graph *g)
{
	for (unsigned to = 0; to < g->n; to++) {
		if (!g->adapters[to])
			continue;
		graph_aim(g, to);
		for (unsigned from = 0; from < g->n; from++)
			if (g->adapters[from] && g->cost[from] != GRAPH_FAR &&
			    g->way[from] == GRAPH_ANY)
				return false;
	}
	return true;
}

/* Leaves the roots in the queue. */
static unsigned take_roots(struct graph *g, const uint64_t *roots, unsigned n)
{
	unsigned found = take_named(g, roots, n);

	if (!found)
		found = take_farthest(g);
	if (!found)
		g->queue[found++] = 0;
	return found;
}

void graph_direct(struct graph *g, const uint64_t *roots, unsigned n)
{
	if (!g->n)
		return;
	g->directed = true;
	rank_from(g, take_roots(g, roots, n));
	if (adapters_meet(g))
		return;
	/* Below a single root is everybody. */
	take_roots(g, roots, n);
	rank_from(g, 1);
}
