/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Who gets which LID. */
#include "subnet/net.h"

#include <errno.h>
#include <string.h>

static struct net_port *lid_port(const struct net *net, unsigned i)
{
	return net_port(net, (uint16_t)i, net->nodes[i]->shown.port);
}

static void give(struct net *net, unsigned i, uint16_t lid)
{
	net->nodes[i]->shown.lid = lid;
	net->by_lid[lid] = (uint16_t)(i + 1);
	net->top_lid = max_of(net->top_lid, lid);
}

static bool had_it(const struct net *before, const struct net_node *node, uint16_t lid)
{
	return before && before->by_lid[lid] &&
	       before->nodes[before->by_lid[lid] - 1]->key == node->key;
}

/* The highest LID for which there is room in all tables. One entry, of LID 0, is of no use. */
static uint16_t highest_lid(struct net *net)
{
	uint16_t most = LID_UNICAST_MAX;

	for (unsigned i = 0; i < net->n; i++) {
		struct net_node *node = net->nodes[i];

		node->can_forward = node->shown.is_switch && node->switch_info.linear_cap > net->n;
		if (node->can_forward)
			most = min_of(most, (uint16_t)(node->switch_info.linear_cap - 1));
	}
	return most;
}

int net_give_lids(struct net *net, const struct net *before)
{
	uint16_t most = highest_lid(net), lid, next = 1;

	for (int turn = 0; turn < 2; turn++)
		for (unsigned i = 0; i < net->n; i++) {
			lid = lid_port(net, i)->info.lid;
			if (!net->nodes[i]->shown.lid && lid && lid <= most && !net->by_lid[lid] &&
			    (turn == 1 || had_it(before, net->nodes[i], lid)))
				give(net, i, lid);
		}
	for (unsigned i = 0; i < net->n; i++) {
		if (net->nodes[i]->shown.lid || !lid_port(net, i)->is_known)
			continue;
		while (next <= most && net->by_lid[next])
			next++;
		if (next > most)
			return -ENOSPC;
		give(net, i, next);
	}
	return 0;
}
