/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A frame on a simulated link: a RoCEv2 packet with the headers that switches look at, or a PFC
 * frame (IEEE 802.1Q, clause 36). The memory of simulated hosts is zeros, and so are payloads: what
 * a frame has of its own are its headers, and the payloads that have a meaning to the transport.
 */
#ifndef WEFT_FABRIC_NET_FRAME_H
#define WEFT_FABRIC_NET_FRAME_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "wire/packet.h"

#define PRIORITIES 8

/* Ethernet: addresses and type, FCS; and on the line before and behind each frame. */
#define FRAME_ETHERNET 18u
#define FRAME_IP_UDP   28u
#define FRAME_GAP      20u /* preamble, and the pause between frames */
#define FRAME_MIN      64u
/* A longer payload is zeros: one that says something, as a selective acknowledgement's does, is
 * not. */
#define FRAME_SAYS_MAX 128u

struct frame {
	struct frame *next; /* of where it waits */
	struct flow flow;
	uint64_t at_ns; /* on a line: when it is at the other end */
	uint32_t bytes; /* as Ethernet counts them, FCS and all, without the gap */
	uint16_t from;	/* in a switch: the port that it came by */
	uint8_t priority;
	uint8_t ttl;
	bool is_pause;
	bool is_data;		     /* it has a payload that somebody wants */
	uint8_t mask;		     /* of a pause: the priorities that it is for */
	uint16_t quanta[PRIORITIES]; /* of 512 bits' time; 0: go on */
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

/* Of a packet that a core sends. */
void frame_of_packet(struct frame *, const struct packet_tx *);
/* What the receiver's core gets, in a piece of memory that has room for it (FRAME_ROOM) and whose
 * zeros it leaves. Borrowed until the next call with it. */
#define FRAME_ROOM (PKT_HDR_MAX + 4096 + 8)
void frame_to_packet(const struct frame *, uint8_t *room, struct packet_rx *ret);
/* A PFC frame for these priorities. */
void frame_of_pause(struct frame *, uint8_t mask, uint16_t quanta);

#endif
