/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The switches that forward as a graph, in which ways are found: how far each is from one of them,
 * by the shortest way or by one that goes down only after it has gone up.
 *
 * Up and down is an order of all switches: by rank, which is the distance from the roots, and of
 * one rank by GUID. Tables do not know where a frame has come from; so a switch by which another
 * goes down goes down itself, even if it were shorter to go up. No cycle of links can then wait
 * for each other: upward links depend on others nearer to the top alone, and downward ones on
 * those farther from it.
 */
#ifndef WEFT_SUBNET_GRAPH_H
#define WEFT_SUBNET_GRAPH_H

#include "subnet/net.h"

#define GRAPH_FAR UINT16_MAX

/* By which links a switch is to go on. */
enum graph_way { GRAPH_ANY, GRAPH_UP, GRAPH_DOWN };

struct graph {
	const struct net *net;
	unsigned n;
	uint16_t *nodes;       /* their numbers in the net, by GUID */
	uint16_t *place_of;    /* of a node of the net among these; GRAPH_FAR: none */
	uint16_t *rank;	       /* of up and down */
	uint16_t *by_rank;     /* places, from the top */
	uint16_t *height;      /* of a place: where in by_rank it is; 0 is the top */
	uint16_t *far, *queue; /* while distances are found */
	uint16_t *cost;	       /* links from each to the one asked for; GRAPH_FAR: no way */
	uint8_t *way;	       /* enum graph_way */
	uint32_t *adapters;    /* at each */
	uint32_t *carried;     /* while ways are found: the adapters that send by it */
	bool directed;	       /* up and down counts */
};

int graph_init(struct graph *, const struct net *) must_use; /* -ENOMEM */
void graph_fini(struct graph *);
/* Finds the order of up and down; roots as subnet_config has them. */
void graph_direct(struct graph *, const uint64_t *roots, unsigned n);
/* cost and way of each to this one. */
void graph_aim(struct graph *, unsigned at);
/* The switch behind a port, a place; GRAPH_FAR: none. */
unsigned graph_next(const struct graph *, unsigned from, unsigned port);
/* Is the port one by which the way to what was aimed at goes on? */
bool graph_leads(const struct graph *, unsigned from, unsigned port);

#endif
