/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The shapes that a network can have, and what its parts are like. */
#ifndef WEFT_FABRIC_NET_TOPOLOGY_H
#define WEFT_FABRIC_NET_TOPOLOGY_H

#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "fabric/net/host.h"
#include "fabric/net/switch.h"
#include "subnet/manager.h"

enum topology_kind {
	TOPOLOGY_PAIR,	      /* two hosts and a link */
	TOPOLOGY_STAR,	      /* hosts at one switch */
	TOPOLOGY_DUMBBELL,    /* hosts at two switches that are joined by one link */
	TOPOLOGY_PARKING_LOT, /* a row of switches, each with hosts */
	TOPOLOGY_RING,	      /* and that row closed: packets go clockwise */
	TOPOLOGY_LEAF_SPINE,  /* each leaf has hosts and a link to each spine */
	TOPOLOGY_FAT_TREE,    /* pods of edge and aggregation switches, and a core */
};

struct topology_nature {
	enum topology_kind kind;
	unsigned hosts;	   /* of all, of a star; of each switch that has some otherwise */
	unsigned switches; /* of a row or a ring */
	unsigned leaves, spines;
	unsigned pods, edges, aggregations, cores; /* edges and aggregations of each pod */
	int looped; /* ring: packets to this host go round for ever; -1: to none */
};

/* A link that is not as the others of its kind are. */
struct link_override {
	char *end[2]; /* "host3", "leaf1" */
	struct line_nature line;
	int file_line;
};

/* Links and switches are InfiniBand's, and a manager at the first host sets them up. */
struct subnet_nature {
	bool is_there;
	struct ibnode_nature node;
	uint64_t latency_ns;   /* of a switch */
	uint64_t head_life_ns; /* 0: for ever; config has it as PortInfo says it */
	struct subnet_config config;
};

struct network_nature {
	struct topology_nature topology;
	struct line_nature link;   /* of hosts */
	struct line_nature uplink; /* between switches */
	struct link_override *overrides;
	size_t noverrides;
	struct host_nature host;
	struct subnet_nature subnet;
	struct switch_nature netswitch; /* of Ethernet */
	uint64_t headroom; /* of each port and lossless priority; UINT64_MAX: by its link */
};

/* The links of a shape, one after the other, by numbers: hosts from 0, switches behind them. */
struct topology {
	unsigned hosts, switches;
	unsigned *ports; /* of each switch */
	struct routes_link *links;
	size_t nlinks;
	char (*names)[24]; /* of hosts, then switches */
};

int topology_create(struct topology **ret, const struct topology_nature *) must_use; /* -ENOMEM */
void topology_destroy(struct topology *);

#endif
