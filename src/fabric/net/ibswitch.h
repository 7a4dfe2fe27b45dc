/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * An InfiniBand switch: a frame stays in the buffer of the lane that it came by until it leaves, in
 * the order in which frames for a port and lane have come, so that none waits for one that goes
 * elsewhere. Its forwarding table says the port, by the destination's LID, and its mapping the
 * lane. A frame that is at the head of a queue for longer than that port's limit is dropped; after
 * seven in a row the lane is stalled, and for eight times the limit all is dropped that is for it.
 */
#ifndef WEFT_FABRIC_NET_IBSWITCH_H
#define WEFT_FABRIC_NET_IBSWITCH_H

#include <stdint.h>

#include "base/compiler.h"
#include "fabric/net/ibnode.h"

struct ibswitch_counters {
	uint64_t unroutable; /* no port, or no lane, for it */
	uint64_t expired;    /* too long at the head of a queue */
};

struct ibswitch;

int ibswitch_create(struct ibswitch **ret, struct fabric *, struct frame_pool *, unsigned ports,
		    const struct ibnode_nature *, uint64_t latency_ns, uint64_t guid,
		    const char *name) must_use;
void ibswitch_destroy(struct ibswitch *);
struct netport *ibswitch_port(struct ibswitch *, unsigned i);
struct ibnode *ibswitch_node(struct ibswitch *);
const struct ibswitch_counters *ibswitch_counters(const struct ibswitch *);
/* Nothing waits in it. */
bool ibswitch_is_idle(const struct ibswitch *);

#endif
