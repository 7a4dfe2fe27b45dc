/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The subnet management agent of an InfiniBand node: it answers the manager's packets (SMPs) and
 * keeps what they set, by which the node's links then work: LIDs, the states of its ports, the
 * forwarding table, which lane a service level takes, and how lanes take turns.
 *
 * Directed SMPs have permissive LIDs at both ends: parts of the way that are routed by LID are
 * not known. There is no M_Key, one partition (its table can be set, and is not enforced), no
 * LMC, no multicast.
 *
 * It knows no time and sends nothing by itself.
 */
#ifndef WEFT_SUBNET_AGENT_H
#define WEFT_SUBNET_AGENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "wire/smp.h"

#define AGENT_PORTS_MAX 254

struct agent_nature {
	bool is_switch;
	unsigned ports;		 /* without a switch's port 0 */
	uint64_t node_guid;	 /* of a switch's port 0, too; port n of an adapter has this + n */
	unsigned lanes;		 /* for data that each port has: 1, 2, 4 or 8 */
	unsigned mtu_code;	 /* the most it can: 1 (256) to 5 (4096), as PortInfo has it */
	unsigned width_code;	 /* of its links, as PortInfo has it: one bit */
	unsigned speed_code;	 /* likewise: 1, 2 or 4 for 2.5, 5 or 10 Gb/s a lane */
	unsigned speed_ext_code; /* faster: 1, 2, 4 or 8 for 14, 25, 50 or 100; 0: it is not */
	unsigned lids;		 /* entries of a switch's forwarding table; 0: for all LIDs */
	const char *description; /* NodeDescription, at most 64 bytes */
};

struct agent_ops {
	void *(*alloc)(void *ctx, size_t); /* zeroed */
	void (*free)(void *ctx, void *);
	/* Something of this port was set: its LID, its state, or a table. 0: a switch's forwarding
	   table, or its port 0. May be NULL. */
	void (*changed)(void *ctx, unsigned port);
};

struct agent;

/* -EINVAL: there is no such nature; -ENOMEM. */
int agent_create(struct agent **ret, const struct agent_nature *, const struct agent_ops *,
		 void *ctx) must_use;
void agent_destroy(struct agent *);
/* The link at a port (from 1) is there, or is gone: Initialize, or Down. */
void agent_link(struct agent *, unsigned port, bool up);

#define AGENT_DROPS -1
/*
 * An SMP has come by a port (0: from the node's own manager). What becomes of it lies in the same
 * bytes afterwards; returns the port that it leaves by, 0 for the node's own manager, or
 * AGENT_DROPS. An answer to one that was routed by LID leaves by the port that this came by: a
 * switch forwards it as it does any frame.
 */
int agent_take(struct agent *, uint8_t mad[MAD_LEN], unsigned port);
/* What a switch tells its manager when the state of a link has changed (trap 128): an SMP to this
 * LID. False: it has nothing to tell, or no manager has given it a LID. */
bool agent_trap(struct agent *, uint8_t mad[MAD_LEN], uint16_t *ret_dlid);

/* Of a switch's port 0, too, which is always active. */
uint16_t agent_lid(const struct agent *, unsigned port);
enum smp_port_state agent_state(const struct agent *, unsigned port);
uint8_t agent_mtu_code(const struct agent *, unsigned port); /* as the manager has set it */
/* The lanes that may be used at a port, as the manager has set them: 1, 2, 4 or 8. */
unsigned agent_lanes(const struct agent *, unsigned port);
/* The port that frames to a LID leave a switch by, 0 for itself; AGENT_NO_PORT: none. */
#define AGENT_NO_PORT 255
unsigned agent_forward(const struct agent *, uint16_t dlid);
/* The lane of a service level between two ports; an adapter has in 0. 15 is no lane for data: what
 * would take it is dropped. */
unsigned agent_lane(const struct agent *, unsigned in, unsigned out, unsigned sl);
/* How lanes take turns at a port. Owned by the agent. */
const struct smp_vl_arbitration *agent_arbitration(const struct agent *, unsigned port, bool high);
uint8_t agent_high_limit(const struct agent *, unsigned port);
/* By PortInfo: 4.096 us * 2^n; 20 and more: for ever. */
uint8_t agent_hoq_life(const struct agent *, unsigned port);
/* After so many frames in a row that a lane has dropped for their age it drops all for a while; 0:
 * never. */
uint8_t agent_stall_count(const struct agent *, unsigned port);

#endif
