/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Forwarding tables. Of the ports that lead on to a LID a switch takes the one that carries the
 * least, of those the lowest: the same network has the same tables. What a port carries is counted
 * from the adapters that send by it to each LID, the farthest switches first: to count LIDs at each
 * switch by itself would spread a second time what comes there by one way only because it was
 * spread before, and use a part of a fat tree alone. Adapters come first, for the ways to switches
 * carry next to nothing and are not to unbalance theirs.
 */
#include "subnet/graph.h"

#include <errno.h>
#include <string.h>

static int make_tables(struct net *net)
{
	size_t len = net->top_lid / NET_BLOCK_LIDS * NET_BLOCK_LIDS + NET_BLOCK_LIDS;

	for (unsigned i = 0; i < net->n; i++) {
		struct net_node *node = net->nodes[i];

		if (!node->can_forward)
			continue;
		node->forward = net->ops.alloc(net->ops.ctx, len);
		if (!node->forward)
			return -ENOMEM;
		memset(node->forward, NET_NO_PORT, len);
	}
	return 0;
}

static unsigned farthest(const struct graph *g)
{
	unsigned most = 0;

	for (unsigned at = 0; at < g->n; at++)
		if (g->cost[at] != GRAPH_FAR)
			most = max_of(most, g->cost[at]);
	return most;
}

/* The way of a LID that is at the switch that was aimed at, on from another. */
static void lead_on(const struct graph *g, unsigned at, uint16_t lid)
{
	const struct net_node *node = g->net->nodes[g->nodes[at]];
	unsigned best = 0;

	for (unsigned port = 1; port <= node->shown.ports; port++)
		if ((!best || node->ports[port].load < node->ports[best].load) &&
		    graph_leads(g, at, port))
			best = port;
	if (!best)
		return;
	node->forward[lid] = (uint8_t)best;
	node->ports[best].load += g->carried[at];
	g->carried[graph_next(g, at, best)] += g->carried[at];
}

static void lead_to(const struct graph *g, uint16_t lid)
{
	memcpy(g->carried, g->adapters, g->n * sizeof(*g->carried));
	for (unsigned cost = farthest(g); cost > 0; cost--)
		for (unsigned at = 0; at < g->n; at++)
			if (g->cost[at] == cost)
				lead_on(g, at, lid);
}

static void lead_to_adapters(struct graph *g, unsigned at)
{
	const struct net *net = g->net;
	const struct net_node *node = net->nodes[g->nodes[at]];

	graph_aim(g, at);
	for (unsigned port = 1; port <= node->shown.ports; port++) {
		const struct net_node *peer;

		if (!net_peer(net, g->nodes[at], port))
			continue;
		peer = net->nodes[node->ports[port].peer];
		if (peer->shown.is_switch || !peer->shown.lid)
			continue;
		node->forward[peer->shown.lid] = (uint8_t)port;
		lead_to(g, peer->shown.lid);
	}
}

int net_find_ways(struct net *net, const struct subnet_config *config)
{
	struct graph g;
	int rc = make_tables(net);

	if (rc == 0)
		rc = graph_init(&g, net);
	if (rc < 0)
		return rc;
	if (config->routing == SUBNET_UP_DOWN)
		graph_direct(&g, config->roots, config->n_roots);
	for (unsigned at = 0; at < g.n; at++)
		if (g.adapters[at])
			lead_to_adapters(&g, at);
	for (unsigned at = 0; at < g.n; at++) {
		const struct net_node *node = net->nodes[g.nodes[at]];

		if (!node->shown.lid)
			continue;
		graph_aim(&g, at);
		node->forward[node->shown.lid] = 0;
		lead_to(&g, node->shown.lid);
	}
	graph_fini(&g);
	return 0;
}
