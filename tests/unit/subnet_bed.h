/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A subnet for tests: agents, links that carry SMPs between them in virtual time, and a manager at
 * one of the nodes. SMPs may be lost or changed on the way, by chance from a seed.
 */
#ifndef WEFT_TESTS_SUBNET_BED_H
#define WEFT_TESTS_SUBNET_BED_H

#include <stdbool.h>
#include <stdint.h>

#include "subnet/agent.h"
#include "subnet/manager.h"

#define BED_NODES   128
#define BED_PORTS   36
#define BED_FLYING  512
#define BED_NO_NODE -1

struct bed_port {
	int peer; /* BED_NO_NODE: none */
	unsigned peer_port;
	bool up;
};

struct bed_node {
	struct agent *agent;
	struct agent_nature nature;
	struct bed_port ports[BED_PORTS + 1];
	bool dead; /* says nothing, passes nothing on */
};

struct bed_flying {
	uint64_t at;
	uint8_t mad[MAD_LEN];
};

struct bed {
	struct bed_node nodes[BED_NODES];
	int n;
	int home; /* of the manager */
	struct subnet_manager *manager;
	uint64_t now, rnd;
	struct bed_flying flying[BED_FLYING];
	unsigned n_flying;
	unsigned loss_percent, flip_percent; /* of SMPs; of answers, a few bits of each */
	/* Changes an answer that has come home; returns whether it comes at all. May be NULL. */
	bool (*tamper)(struct bed *, struct smp *);
	int tampered;
	unsigned sweeps;
	int rc;
	const char *why;
	int allocations;
	int fails_at; /* the allocation that fails, from 1; 0: none */
	int made;
};

struct bed *bed_new(uint64_t seed);
void bed_end(struct bed *);
uint32_t bed_random(struct bed *, uint32_t below);

/* What nodes are like unless a test says otherwise; ports and kind are set by bed_add(). */
extern const struct agent_nature bed_nature;
int bed_add(struct bed *, bool is_switch, unsigned ports, const struct agent_nature *);
void bed_link(struct bed *, int a, unsigned a_port, int b, unsigned b_port);
void bed_set_link(struct bed *, int node, unsigned port, bool up);
/* A link between the first free ports of both. */
void bed_join(struct bed *, int a, int b);

extern const struct subnet_config bed_config;
void bed_manage(struct bed *, int home, const struct subnet_config *);
void bed_unmanage(struct bed *); /* the manager is gone */
/* Sweeps until the manager rests. */
void bed_sweep(struct bed *);
void bed_run(struct bed *);

/* ---- shapes -------------------------------------------------------------------------------------
 */

/* Of each the first node, at home to the manager, is an adapter; of the bare ring a switch. */
void bed_pair(struct bed *);
void bed_star(struct bed *);
#define BED_LEAVES     4
#define BED_SPINES     4
#define BED_LEAF_HOSTS 4
void bed_leaf_spine(struct bed *);
/* k = 4: pods of two and two, four at the core, sixteen adapters. */
void bed_fat_tree(struct bed *);
void bed_ring(struct bed *);
void bed_ring_with_adapters(struct bed *);
/* A hub, and a rim whose switches have links to both neighbours and to the hub. */
void bed_wheel(struct bed *);
/* Connected, with links beside links, and adapters with two ports at two switches. */
void bed_random_net(struct bed *);

/* ---- what has come of it -------------------------------------------------------------------- */

/* A node with a LID: a switch, or the port of an adapter. */
struct bed_place {
	int node;
	unsigned port;
};
int bed_ends(const struct bed *, struct bed_place ret[2 * BED_NODES]);
uint16_t bed_lid(const struct bed *, struct bed_place);
/* All links that are up are active at both ends, and each end has a LID that nobody else has. */
void bed_check_active(const struct bed *);
/* Links on the way that frames take by the tables; -1: they do not arrive. */
int bed_walk(const struct bed *, struct bed_place from, struct bed_place to);
/* The least there can be; -1: there is no way. */
int bed_least(const struct bed *, struct bed_place from, struct bed_place to);
/* Can what adapters send each other come to wait in a circle? */
bool bed_has_circle(const struct bed *);

#endif
