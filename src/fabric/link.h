/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A link: any number of ends, each with an address, and between them what a network does to
 * packets. It loses, repeats, reorders, corrupts, marks and delays them. Before each end there may
 * be a queue, where what comes from several others waits for the end's own line.
 */
#ifndef WEFT_FABRIC_LINK_H
#define WEFT_FABRIC_LINK_H

#include "fabric/world.h"
#include "port/sim/sim_port.h"

struct link_queue {
	uint64_t ns_per_byte_x1000; /* of the line behind it; 0: there is no queue */
	uint32_t bytes_max;	    /* what is more is lost */
	/* Of packets that are ready for it (ECT) none are marked up to there, up to the second
	 * figure more and more, at last so many, and all beyond. Bytes, and parts per million. */
	uint32_t mark_from, mark_all, mark_ppm;
};

/* Chances are parts per million of the packets. */
struct link_nature {
	uint32_t loss_ppm, duplicate_ppm, reorder_ppm, corrupt_ppm;
	uint64_t delay_ns;	    /* every packet */
	uint64_t jitter_ns;	    /* up to so much more, order kept */
	uint64_t reorder_ns;	    /* a reordered packet: up to so much more, order not kept */
	uint64_t ns_per_byte_x1000; /* of the sender's line */
	uint32_t mark_ppm;	    /* of those that are ready for it */
	struct link_queue queue;
};

struct link_counters {
	uint64_t sent, lost, duplicated, reordered, corrupted, unroutable, marked, overflowed;
};

struct link;
struct link_end;

int link_create(struct link **ret, struct fabric *, const struct link_nature *) must_use;
/* Its ends go with it. */
void link_destroy(struct link *);
const struct link_counters *link_counters(const struct link *);

/* arrive owns each packet that comes for the address. */
int link_attach(struct link *, const struct gid *, void (*arrive)(void *ctx, struct sim_packet *),
		void *ctx, struct link_end **ret) must_use;
/* It shares its address with others: what comes for this slot (bits 23:16 of the QPN) is its. */
void link_share(struct link_end *, uint8_t slot);
/* From an end, to whom the packet's flow says. */
void link_carry(struct link_end *, struct sim_packet *);
/* The most that has been in the queue before the end since this was asked, bytes. */
uint64_t link_queue_peak(struct link_end *);
/* When the end's line has sent what it was given. */
uint64_t link_free_ns(const struct link_end *);

#endif
