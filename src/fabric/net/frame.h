/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A frame on a simulated link: a packet of the core's with the headers that switches look at, those
 * of RoCEv2 or of InfiniBand's link; or what links say for themselves: a PFC frame (IEEE 802.1Q,
 * clause 36), credits, or a packet of the subnet's management (an SMP). The memory of simulated
 * hosts is zeros, and so are payloads: what a frame has of its own are its headers, and the
 * payloads that have a meaning to the transport.
 */
#ifndef WEFT_FABRIC_NET_FRAME_H
#define WEFT_FABRIC_NET_FRAME_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "wire/lrh.h"
#include "wire/packet.h"
#include "wire/smp.h"

#define PRIORITIES 8

/* Ethernet: addresses and type, FCS; and on the line before and behind each frame. */
#define FRAME_ETHERNET 18u
#define FRAME_IP_UDP   28u
#define FRAME_GAP      20u /* preamble, and the pause between frames */
#define FRAME_MIN      64u
/* InfiniBand: LRH and VCRC; and the symbols before and behind. */
#define FRAME_IB     (LRH_LEN + VCRC_LEN)
#define FRAME_IB_GAP 4u
/* A longer payload is zeros: one that says something, as a selective acknowledgement's does, is
 * not. */
#define FRAME_SAYS_MAX 128u

enum frame_kind { FRAME_PACKET, FRAME_PAUSE, FRAME_CREDIT, FRAME_MANAGEMENT };

struct frame {
	struct frame *next; /* of where it waits */
	struct flow flow;
	uint64_t at_ns;	  /* on a line: when it is at the other end */
	uint32_t bytes;	  /* as its link counts them, from the first header to the last CRC */
	uint16_t from;	  /* in a switch: the port that it came by */
	uint8_t priority; /* InfiniBand: the lane */
	uint8_t ttl;
	uint8_t kind;		     /* enum frame_kind */
	bool is_data;		     /* it has a payload that somebody wants */
	uint8_t sl, from_lane;	     /* InfiniBand; in a switch: the lane that it came by */
	uint16_t slid, dlid;	     /* InfiniBand */
	uint8_t mask;		     /* of a pause: the priorities that it is for */
	uint16_t quanta[PRIORITIES]; /* of 512 bits' time; 0: go on */
	struct credit credit;
	uint8_t *mad; /* of MAD_LEN bytes, its own; NULL: it is no management's */
	uint8_t hdr_len, pad;
	uint32_t payload_len;
	uint8_t hdr[PKT_HDR_MAX];
	uint8_t says[FRAME_SAYS_MAX];
};

/* In the order in which they came. */
struct frame_queue {
	struct frame *first, *last;
	uint64_t bytes;
	uint32_t frames;
};

static inline void frame_queue_push(struct frame_queue *q, struct frame *f)
{
	f->next = NULL;
	if (q->last)
		q->last->next = f;
	else
		q->first = f;
	q->last = f;
	q->bytes += f->bytes;
	q->frames++;
}

static inline struct frame *frame_queue_pop(struct frame_queue *q)
{
	struct frame *f = q->first;

	if (!f)
		return NULL;
	q->first = f->next;
	if (!q->first)
		q->last = NULL;
	q->bytes -= f->bytes;
	q->frames--;
	return f;
}

/* Frames that are free, of one network. */
struct frame_pool {
	struct frame *free;
	uint64_t out; /* so many are not */
};

struct frame *frame_alloc(struct frame_pool *);
void frame_free(struct frame_pool *, struct frame *);
void frame_pool_fini(struct frame_pool *);

/* Of a packet that a core sends: on Ethernet, and on InfiniBand, with an LRH and without a GRH. */
void frame_of_packet(struct frame *, const struct packet_tx *);
void frame_of_ib_packet(struct frame *, const struct packet_tx *);
/* What the receiver's core gets, in a piece of memory that has room for it (FRAME_ROOM) and whose
 * zeros it leaves. Borrowed until the next call with it. */
#define FRAME_ROOM (PKT_HDR_MAX + 4096 + 8)
void frame_to_packet(const struct frame *, uint8_t *room, struct packet_rx *ret);
/* A PFC frame for these priorities. */
void frame_of_pause(struct frame *, uint8_t mask, uint16_t quanta);
void frame_of_credit(struct frame *, const struct credit *);
void frame_of_management(struct frame *, const uint8_t mad[MAD_LEN]);

/* Does it belong to the link itself, and not to whoever sends by it? */
static inline bool frame_is_links(const struct frame *f)
{
	return f->kind != FRAME_PACKET;
}

#endif
