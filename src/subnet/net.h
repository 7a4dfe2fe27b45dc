/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What a sweep has found: nodes, their ports, and which port a link leads to; and what it makes of
 * it: LIDs and forwarding tables. A switch is one node, each port of an adapter is one. What is
 * told by the network has been looked at before it comes in here, so that numbers of nodes and
 * ports are good as indices.
 */
#ifndef WEFT_SUBNET_NET_H
#define WEFT_SUBNET_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "subnet/manager.h"

#define NET_NO_NODE    UINT16_MAX
#define NET_NO_PORT    255
#define NET_BUCKETS    (2 * SUBNET_NODES_MAX)
#define NET_BLOCK_LIDS SMP_DATA_LEN /* of a forwarding table, in one SMP */

struct net_port {
	struct smp_port_info info;
	bool is_known; /* info was told */
	uint16_t peer; /* NET_NO_NODE: none is known */
	uint8_t peer_port;
	uint32_t load; /* adapters that send by it, once for each LID */
};

struct net_node {
	struct subnet_node shown;
	uint64_t key; /* what tells it from others */
	uint16_t parent;
	uint8_t parent_port, depth; /* by which way it was found: depth hops */
	bool can_forward;	    /* a switch whose table is large enough */
	struct smp_switch_info switch_info;
	struct net_port *ports; /* of a switch from 0; of an adapter the one */
	uint8_t *forward;	/* of a switch that can: to the end of the last block */
};

struct net_ops {
	void *(*alloc)(void *ctx, size_t);
	void (*free)(void *ctx, void *);
	void *ctx;
};

struct net {
	struct net_ops ops;
	unsigned n;
	uint16_t top_lid;
	struct net_node *nodes[SUBNET_NODES_MAX];
	uint16_t by_key[NET_BUCKETS]; /* number + 1 */
	uint16_t by_lid[LID_UNICAST_MAX + 1];
};

struct net *net_create(const struct net_ops *);
void net_destroy(struct net *);
/* The number of a new node, or -ENOSPC, -ENOMEM. */
int net_add(struct net *, const struct smp_node_info *, uint16_t parent,
	    uint8_t parent_port) must_use;
/* NET_NO_NODE: it is new. */
uint16_t net_find(const struct net *, const struct smp_node_info *);
struct net_port *net_port(const struct net *, uint16_t node, unsigned port);
/* False: one of them has another link. */
bool net_connect(struct net *, uint16_t a, uint8_t a_port, uint16_t b, uint8_t b_port) must_use;
/* Both ends are known and not down: the peer, or NULL. */
struct net_port *net_peer(const struct net *, uint16_t node, unsigned port);
/* The ports by which a node is reached from the manager's: path[1] to path[depth]. */
void net_path(const struct net *, uint16_t node, uint8_t path[SMP_PATH_LEN]);

/* Its ports are shown.port to this one. */
static inline unsigned net_last_port(const struct net_node *node)
{
	return node->shown.is_switch ? node->shown.ports : node->shown.port;
}

/*
 * Each node's LID: the one that it has if it is its own, or else the lowest that is free. Of two
 * that have the same, the one that had it before (NULL: nobody knows) keeps it. A switch with a
 * table too small for all of them is left out. -ENOSPC: some have none.
 */
int net_give_lids(struct net *, const struct net *before);
/* Tables of all switches. -ENOMEM. */
int net_find_ways(struct net *, const struct subnet_config *) must_use;

#endif
