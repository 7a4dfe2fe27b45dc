/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What a port has on top of a line where that is InfiniBand's: lanes, each with a buffer at the
 * other end and credits for it, and turns among them as the subnet's manager has set them.
 *
 * A lane stops when its credits are less than the longest frame, though a shorter one could go: so
 * its first does not wait for another reason than the others. What a receiver has room for again is
 * told when it is worth a frame, and the rest 65,536 symbols later. A real link tells it as often
 * even if it is nothing new: here only one that loses frames does, and for a while after the last.
 */
#ifndef WEFT_FABRIC_NET_IBLINK_H
#define WEFT_FABRIC_NET_IBLINK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "fabric/net/arbiter.h"
#include "fabric/net/credits.h"
#include "fabric/net/netport.h"
#include "subnet/agent.h"

struct iblink_nature {
	unsigned lanes;	    /* that it has buffers for */
	uint32_t bytes;	    /* of each lane's buffer: at least a frame */
	uint32_t frame_max; /* of the longest frame */
};

struct iblink {
	struct netport *port;
	struct agent *agent;
	unsigned number; /* of the port, for the agent: from 1 */
	struct iblink_nature nature;
	struct credit_tx tx[PRIORITIES];
	struct credit_rx rx[PRIORITIES];
	struct arbiter arbiter;
	struct happening again;
	unsigned repeats;  /* that are still to come */
	uint64_t overruns; /* frames that came without credits */
};

void iblink_init(struct iblink *, struct netport *, struct agent *, unsigned number,
		 const struct iblink_nature *);
void iblink_fini(struct iblink *);
/* Its line is joined: both ends tell what they have room for. */
void iblink_up(struct iblink *);
/* The manager has set something of it. */
void iblink_set(struct iblink *);
/* Credits have come. */
void iblink_heed(struct iblink *, const struct frame *);
/* A frame has come and takes room in its lane's buffer; false: it has none. */
bool iblink_take(struct iblink *, const struct frame *) must_use;
void iblink_release(struct iblink *, unsigned lane, uint32_t bytes);
/* A frame leaves its queue for the line. */
void iblink_leaves(struct iblink *, const struct frame *);
/* No buffer of its holds anything, and where nothing is lost its peer may fill all of it. */
bool iblink_is_idle(const struct iblink *, const struct iblink *peer);

#endif
