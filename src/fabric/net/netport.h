/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A port of a switch or an adapter: queues by priority, a scheduler, the line that what they hold
 * leaves by, and the port at its other end. It heeds the pauses that come from there.
 *
 * What is in the queues goes one after the other: the link's own frames first, then the strict
 * priorities, the highest first, then the others by their weights (deficit round robin, as ETS has
 * it). Where the line is InfiniBand's, priorities are its lanes, an arbiter says what is next, and
 * credits say what may leave (iblink.h).
 */
#ifndef WEFT_FABRIC_NET_NETPORT_H
#define WEFT_FABRIC_NET_NETPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "fabric/net/frame.h"
#include "fabric/world.h"

struct netport;
struct arbiter;

struct line_nature {
	uint64_t rate_mbps, delay_ns;
	uint32_t loss_ppb;   /* of its frames, a part in 10^9 */
	uint64_t drop_every; /* of its data packets the last of each so many is lost; 0: none */
	uint32_t mtu;	     /* longer IP packets do not go over it; 0: all do (Ethernet) */
};

struct scheduler_nature {
	uint8_t strict;		    /* priorities, a bit each */
	uint8_t weight[PRIORITIES]; /* of the others; 0 is as 1 */
	uint64_t watchdog_ns;	    /* so long a pause is believed; 0: always */
	uint64_t restore_ns;	    /* and after so long without one it is believed again */
};

struct netport_ops {					   /* of whom it is a part */
	void (*arrived)(struct netport *, struct frame *); /* is its from now on */
	/* It leaves its queue, in which there was so much with it. */
	void (*leaves)(struct netport *, struct frame *, uint64_t queued);
	/* It has left; done with it otherwise, before the line takes it. */
	void (*left)(struct netport *, struct frame *);
	/* The watchdog does not believe the pause any more: what waits is lost. */
	void (*dropped)(struct netport *, struct frame *);
	void (*pause_changed)(struct netport *); /* of which priorities are stopped */
};

struct netport_counters {
	uint64_t frames, bytes, lost, pauses_sent, pauses_got, paused_ns, watchdog, dropped, marked;
	uint64_t queue_most; /* since somebody has set it to 0 */
};

struct netport {
	struct fabric *fabric;
	struct frame_pool *pool;
	const struct netport_ops *ops;
	void *owner;
	unsigned index; /* among its owner's */
	unsigned node;	/* its owner's number in the topology */
	struct netport *peer;
	const char *name;
	struct line_nature line;
	struct scheduler_nature scheduler;
	uint32_t gap;		       /* bytes of the line's between frames */
	uint64_t fs_per_byte, rest_fs; /* femtoseconds; what the last frame's end is late by */
	/* Who wants to see what it sends, and when that has gone. */
	void (*watch)(void *ctx, const struct netport *, const struct frame *, uint64_t at_ns);
	void *watch_ctx;

	struct frame_queue control, queue[PRIORITIES];
	uint64_t queued; /* bytes, of all priorities */
	int64_t deficit[PRIORITIES];
	unsigned turn;		 /* whose turn among those with weights */
	struct arbiter *arbiter; /* says what is next instead (InfiniBand); NULL: none */
	bool choosing;
	struct frame *sending;
	struct happening sent;

	struct frame_queue flight;
	struct happening arrives;

	uint8_t stopped, unbelieved; /* priorities */
	uint64_t stopped_until[PRIORITIES], stopped_since[PRIORITIES], pause_seen[PRIORITIES];
	uint64_t any_stopped_since;
	struct happening resumes, watchdog;

	uint64_t data_frames; /* for drop_every */
	struct netport_counters counters;
};

void netport_init(struct netport *, struct fabric *, struct frame_pool *,
		  const struct netport_ops *, void *owner, unsigned index);
void netport_fini(struct netport *);
/* Two become the ends of one link. */
void netport_join(struct netport *, struct netport *, const struct line_nature *);

void netport_send(struct netport *, struct frame *);
/* Is it longer than the line's MTU? Then whoever would have sent it drops it. */
static inline bool netport_is_too_long(const struct netport *p, const struct frame *f)
{
	return p->line.mtu && f->bytes > p->line.mtu + FRAME_ETHERNET;
}
void netport_send_pause(struct netport *, uint8_t mask, uint16_t quanta);
/* Of the link itself: before all else. */
void netport_send_link(struct netport *, struct frame *);
/* These priorities, and no others, may send nothing. */
void netport_stop(struct netport *, uint8_t stopped);
/* The first of a queue is lost. */
void netport_drop(struct netport *, unsigned priority);
/* A PFC frame has come. */
void netport_heed(struct netport *, const struct frame *);
/* What is counted begins again at 0. */
void netport_count_anew(struct netport *);
/* Frames that wait and may leave. */
uint32_t netport_ready(const struct netport *);
/* How long a full pause lasts on its line. */
uint64_t netport_quanta_ns(const struct netport *, uint32_t quanta);
bool netport_is_idle(const struct netport *);

#endif
