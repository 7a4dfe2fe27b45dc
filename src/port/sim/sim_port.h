/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The simulated port: any number of cores on one wire, in virtual time, from one seed. It does
 * what a port does (frames with the ICRC, checks and cuts it off), and to the packets on the wire
 * what a network does: it loses, repeats, reorders, corrupts and delays them. The same seed gives
 * the same run.
 *
 * The owner drives it: sim_step() runs the next event, and time stands still in between. After
 * work was posted to a core, sim_kick() lets the port see to it.
 */
#ifndef WEFT_PORT_SIM_SIM_PORT_H
#define WEFT_PORT_SIM_SIM_PORT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "port/sim/prng.h"
#include "rnic/rnic.h"

#define SIM_NODES_MAX 16

/* Chances are parts per million of the packets. */
struct sim_wire {
	uint32_t loss_ppm, duplicate_ppm, reorder_ppm, corrupt_ppm;
	uint64_t delay_ns;	    /* every packet */
	uint64_t jitter_ns;	    /* up to so much more, order kept */
	uint64_t reorder_ns;	    /* a reordered packet: up to so much more, order not kept */
	uint64_t tx_lag_ns;	    /* a node begins to send up to so long after it could */
	uint64_t tick_lag_ns;	    /* and serves its timers up to so long after they are due */
	uint64_t ns_per_byte_x1000; /* of the sender's line */
};

struct sim_counters {
	uint64_t sent, delivered, lost, duplicated, reordered, corrupted, icrc_dropped, unroutable;
};

struct sim;

int sim_create(struct sim **ret, uint64_t seed, const struct sim_wire *) must_use;
/* The cores stay the caller's. */
void sim_destroy(struct sim *);
struct prng *sim_prng(struct sim *);
uint64_t sim_now(const struct sim *);
const struct sim_counters *sim_counters(const struct sim *);
void sim_set_wire(struct sim *, const struct sim_wire *);

/* Puts a core on the wire under the address; returns its node number or -ENOSPC. */
int sim_add(struct sim *, struct rnic *, const struct gid *) must_use;
/* The node is gone for good: what it had on the wire still arrives, nothing reaches it. */
void sim_vanish(struct sim *, int node);
/* Something was posted to the node's core, or its QPs changed. */
void sim_kick(struct sim *, int node);

/* Runs the next event if it is due before `until`, else moves time there. False for the latter. */
bool sim_step(struct sim *, uint64_t until);

#endif
