/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A switch's packet buffer: one for all its ports, by the rules that data-centre switches have.
 *
 * By where a frame came in: each port and priority has a little of its own (reserve), and takes of
 * the shared part as long as it has less there than alpha times what is free of it. One that is
 * lossless and has more than that is to be paused; what still comes, is on the way already, goes
 * into its headroom, and only what finds none there is lost.
 *
 * By where it goes out: the queue of a lossy priority may be as long as another alpha times what is
 * free of the shared part.
 *
 * Pure bookkeeping: it knows no time and sends nothing.
 */
#ifndef WEFT_FABRIC_NET_BUFFER_H
#define WEFT_FABRIC_NET_BUFFER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "fabric/net/frame.h"

struct buffer_nature {
	uint64_t bytes;		   /* all of it */
	uint64_t reserve;	   /* of each port and priority */
	uint64_t headroom;	   /* of each port and lossless priority */
	double alpha, alpha_lossy; /* see above */
	uint64_t resume_below;	   /* so far below where it is paused it is to go on */
	uint8_t lossless;	   /* the priorities, a bit each */
};

struct buffer_share {	   /* of a port that frames come by, and a priority */
	uint64_t used;	   /* of the reserve and the shared part */
	uint64_t headroom; /* used */
};

struct buffer {
	struct buffer_nature nature;
	uint64_t shared, shared_used; /* what is nobody's own */
	unsigned ports;
	struct buffer_share (*share)[PRIORITIES];
	uint64_t (*queued)[PRIORITIES]; /* by the port that they leave by */
};

/* -ENOMEM; -ENOSPC: reserves and headrooms are more than there is. */
int buffer_init(struct buffer *, const struct buffer_nature *, unsigned ports) must_use;
void buffer_fini(struct buffer *);

/* A frame has come and is to wait; false: there is no room for it. */
bool buffer_take(struct buffer *, struct frame *, unsigned from, unsigned to) must_use;
void buffer_leave(struct buffer *, struct frame *, unsigned from, unsigned to);
/* Is who sends there to pause, or to go on? Neither, in between. */
bool buffer_is_high(const struct buffer *, unsigned from, unsigned priority);
bool buffer_is_low(const struct buffer *, unsigned from, unsigned priority);
/* Does it have more than its reserve, so that something of it is still to leave? */
bool buffer_is_over(const struct buffer *, unsigned from, unsigned priority);
bool buffer_is_empty(const struct buffer *);

#endif
