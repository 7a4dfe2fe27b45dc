/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Nodes by their GUIDs, and the links between them. */
#include "subnet/net.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

struct net *net_create(const struct net_ops *ops)
{
	struct net *net = ops->alloc(ops->ctx, sizeof(*net));

	if (net)
		net->ops = *ops;
	return net;
}

void net_destroy(struct net *net)
{
	struct net_ops ops;

	if (!net)
		return;
	ops = net->ops;
	for (unsigned i = 0; i < net->n; i++) {
		if (net->nodes[i]->forward)
			ops.free(ops.ctx, net->nodes[i]->forward);
		ops.free(ops.ctx, net->nodes[i]->ports);
		ops.free(ops.ctx, net->nodes[i]);
	}
	ops.free(ops.ctx, net);
}

/* ---- by GUID ------------------------------------------------------------------------------- */

static uint64_t key_of(const struct smp_node_info *info)
{
	return info->node_type == SMP_NODE_SWITCH ? info->node_guid : info->port_guid;
}

/* The bucket that has it, or the empty one where it would be. */
static unsigned bucket_of(const struct net *net, uint64_t key)
{
	unsigned b = (unsigned)(key * 0x9e3779b97f4a7c15u >> 32) % NET_BUCKETS;

	while (net->by_key[b] && net->nodes[net->by_key[b] - 1]->key != key)
		b = (b + 1) % NET_BUCKETS;
	return b;
}

uint16_t net_find(const struct net *net, const struct smp_node_info *info)
{
	uint16_t found = net->by_key[bucket_of(net, key_of(info))];

	return found ? (uint16_t)(found - 1) : NET_NO_NODE;
}

int net_add(struct net *net, const struct smp_node_info *info, uint16_t parent, uint8_t parent_port)
{
	bool is_switch = info->node_type == SMP_NODE_SWITCH;
	size_t ports = is_switch ? info->ports + 1u : 1;
	struct net_node *node;

	if (net->n == SUBNET_NODES_MAX)
		return -ENOSPC;
	node = net->ops.alloc(net->ops.ctx, sizeof(*node));
	if (!node)
		return -ENOMEM;
	*node = (struct net_node){
		.shown = {.guid = info->node_guid,
			  .port_guid = info->port_guid,
			  .is_switch = is_switch,
			  .port = is_switch ? 0 : info->local_port,
			  .ports = info->ports},
		.key = key_of(info),
		.parent = parent,
		.parent_port = parent_port,
	};
	if (parent != NET_NO_NODE)
		node->depth = (uint8_t)(net->nodes[parent]->depth + 1);
	node->ports = net->ops.alloc(net->ops.ctx, ports * sizeof(*node->ports));
	if (!node->ports) {
		net->ops.free(net->ops.ctx, node);
		return -ENOMEM;
	}
	for (size_t i = 0; i < ports; i++)
		node->ports[i].peer = NET_NO_NODE;
	net->nodes[net->n++] = node;
	net->by_key[bucket_of(net, node->key)] = (uint16_t)net->n;
	return (int)net->n - 1;
}

/* ---- links --------------------------------------------------------------------------------- */

struct net_port *net_port(const struct net *net, uint16_t i, unsigned port)
{
	const struct net_node *node = net->nodes[i];

	if (node->shown.is_switch) {
		assert(port <= node->shown.ports);
		return &node->ports[port];
	}
	assert(port == node->shown.port);
	return node->ports;
}

bool net_connect(struct net *net, uint16_t a, uint8_t a_port, uint16_t b, uint8_t b_port)
{
	struct net_port *pa = net_port(net, a, a_port), *pb = net_port(net, b, b_port);

	if (pa == pb)
		return false;
	if (pa->peer != NET_NO_NODE || pb->peer != NET_NO_NODE)
		return pa->peer == b && pa->peer_port == b_port && pb->peer == a &&
		       pb->peer_port == a_port;
	pa->peer = b;
	pa->peer_port = b_port;
	pb->peer = a;
	pb->peer_port = a_port;
	return true;
}

struct net_port *net_peer(const struct net *net, uint16_t node, unsigned port)
{
	const struct net_port *p = net_port(net, node, port);
	struct net_port *peer;

	if (p->peer == NET_NO_NODE || !p->is_known || p->info.state <= SMP_PORT_DOWN)
		return NULL;
	peer = net_port(net, p->peer, p->peer_port);
	return peer->is_known && peer->info.state > SMP_PORT_DOWN ? peer : NULL;
}

void net_path(const struct net *net, uint16_t i, uint8_t path[SMP_PATH_LEN])
{
	const struct net_node *node = net->nodes[i];

	memset(path, 0, SMP_PATH_LEN);
	for (; node->parent != NET_NO_NODE; node = net->nodes[node->parent])
		path[node->depth] = node->parent_port;
}
