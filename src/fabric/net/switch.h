/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A switch: store and forward, with one buffer for all its ports. It finds the port that a frame
 * leaves by in its routes, by the flow's hash where there are several; marks by the length of the
 * queue that a frame leaves; and pauses who sends more than it has room for.
 */
#ifndef WEFT_FABRIC_NET_SWITCH_H
#define WEFT_FABRIC_NET_SWITCH_H

#include <stdint.h>

#include "base/compiler.h"
#include "fabric/net/buffer.h"
#include "fabric/net/mark.h"
#include "fabric/net/netport.h"
#include "fabric/net/routes.h"

struct switch_nature {
	struct buffer_nature buffer;
	struct mark_nature mark;
	uint8_t marked; /* priorities of which frames are */
	struct scheduler_nature scheduler;
	uint64_t latency_ns; /* from a frame's end to its place in a queue */
};

struct switch_counters {
	uint64_t dropped, marked, expired, unroutable;
	uint64_t dropped_lossless; /* of these: of a priority that should not lose any */
};

struct netswitch;

int netswitch_create(struct netswitch **ret, struct fabric *, struct frame_pool *, unsigned ports,
		     const char *name) must_use;
void netswitch_destroy(struct netswitch *);
struct netport *netswitch_port(struct netswitch *, unsigned i);
const char *netswitch_name(const struct netswitch *);
/* When its ports are joined and its routes are known. 0, -ENOMEM, or -ENOSPC: its buffer is less
 * than its ports have of their own. */
int netswitch_start(struct netswitch *, const struct switch_nature *, const struct routes *,
		    unsigned node) must_use;
const struct switch_counters *netswitch_counters(const struct netswitch *);
/* Nothing waits in it, and it keeps nobody from sending. */
bool netswitch_is_idle(const struct netswitch *);
/* What still comes after it has said stop: what is on the way until that is heard, what is being
 * sent at both ends, and what has come and is not in a queue yet. */
uint64_t netswitch_headroom(const struct line_nature *, uint32_t frame_max, uint64_t latency_ns);

#endif
