/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A small subnet manager: it finds the nodes of an InfiniBand subnet by directed-route SMPs, gives
 * LIDs, finds ways and sets the forwarding tables, maps service levels to lanes, and makes the
 * ports active. It sweeps again when it is told of a change, and by time.
 *
 * Each sweep asks and sets everything. A LID that a node has stays its own, so that another
 * manager after this one renumbers nobody. What does not answer, or makes no sense, is left out,
 * and the sweep's end says so. There are at most 4096 nodes, each at most 63 hops away; an
 * adapter with several ports counts for several.
 *
 * It knows no clock and sends by who has made it: time is handed in. It is the only manager, keeps
 * no state beyond its life, and knows no partitions, no multicast and no LMC.
 */
#ifndef WEFT_SUBNET_MANAGER_H
#define WEFT_SUBNET_MANAGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "wire/smp.h"

#define SUBNET_NODES_MAX  4096
#define SUBNET_WINDOW_MAX 256
#define SUBNET_ROOTS_MAX  64

enum subnet_routing {
	SUBNET_MIN_HOP, /* the shortest ways, spread over the ports that lead there */
	/*
	 * The shortest ways that go down only after they have gone up, so that no cycle waits: what
	 * adapters send each other can have no deadlock. Some are longer than they need be, for a
	 * table has one way for all who come by. A way to a switch itself, which is for management
	 * alone, may do otherwise if there is no such.
	 */
	SUBNET_UP_DOWN,
};

struct subnet_config {
	enum subnet_routing routing;
	/* GUIDs of the switches that are up most; 0 of them: those farthest from adapters. */
	uint64_t roots[SUBNET_ROOTS_MAX];
	unsigned n_roots;
	unsigned lanes; /* that are to be used, at most: 1, 2, 4 or 8 */
	/* A link with fewer lanes takes it modulo these. */
	uint8_t lane_of_sl[16];
	struct smp_vl_arbitration high, low;
	uint8_t high_limit;
	uint8_t hoq_life;    /* of switches' ports; see agent.h */
	uint64_t timeout_ns; /* of a request, before it is sent again */
	unsigned retries;
	unsigned window;   /* requests on the way at once: 1 to SUBNET_WINDOW_MAX */
	uint64_t sweep_ns; /* between sweeps; 0: only when something changes */
};

struct subnet_counters {
	uint64_t sent, received, resent, unanswered, bad, sweeps, traps;
};

struct subnet_manager;

struct subnet_ops {
	void *(*alloc)(void *ctx, size_t); /* zeroed */
	void (*free)(void *ctx, void *);
	/* To the agent of its own node. An answer may come at once, by subnet_rx(). */
	void (*send)(void *ctx, const uint8_t mad[MAD_LEN]);
	/*
	 * A sweep is done: all that answered are set. rc: 0, or of the first that went wrong:
	 * -ENODEV: something did not answer, -EPROTO: something answered what makes no sense,
	 * -EIO: something would not be set, -ENOSPC: there are more nodes or LIDs than there can
	 * be, -ENOMEM: something had to be left out; why: in words. It may begin another sweep,
	 * and does not destroy the manager.
	 */
	void (*swept)(void *ctx, int rc, const char *why);
};

/* -EINVAL: no such configuration; -ENOMEM. */
int subnet_create(struct subnet_manager **ret, const struct subnet_config *,
		  const struct subnet_ops *, void *ctx) must_use;
void subnet_destroy(struct subnet_manager *);
/* Begins a sweep; one that is under way begins anew. */
void subnet_sweep(struct subnet_manager *, uint64_t now);
/* An answer, or a trap: the sweep that follows one follows the sweep that is under way. */
void subnet_rx(struct subnet_manager *, const uint8_t mad[MAD_LEN], uint64_t now);
void subnet_tick(struct subnet_manager *, uint64_t now);
uint64_t subnet_next_deadline(const struct subnet_manager *); /* DEADLINE_NEVER: none */
bool subnet_is_sweeping(const struct subnet_manager *);
const struct subnet_counters *subnet_counters(const struct subnet_manager *);

/* What it knows, of the last sweep that was done, in the order in which it was found. */
struct subnet_node {
	uint64_t guid, port_guid;
	bool is_switch;
	unsigned port; /* of an adapter: the one that this is about; of a switch 0 */
	uint16_t lid;  /* 0: it could have none */
	unsigned ports;
	char description[65]; /* the node's own bytes, whatever they are */
};
unsigned subnet_nodes(const struct subnet_manager *);
const struct subnet_node *subnet_node(const struct subnet_manager *, unsigned i);
/* As a PathRecord has it. 0, or -ENOENT: it does not know both LIDs, -ENETUNREACH: there is no
 * way. */
struct subnet_path {
	uint16_t slid, dlid;
	uint8_t sl, mtu_code, rate_code;
	uint8_t hops; /* links on the way */
};
int subnet_path(const struct subnet_manager *, uint16_t slid, uint16_t dlid, uint8_t sl,
		struct subnet_path *ret) must_use;

#endif
