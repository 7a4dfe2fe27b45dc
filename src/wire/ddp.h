/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * DDP, which places data (RFC 5041), with the control byte of RDMAP (RFC 5040) that each of its
 * headers carries: the header of a segment. A tagged one names where its payload goes, an untagged
 * one a queue of the receiver's, and of that queue's buffers which, and where in it.
 */
#ifndef WEFT_WIRE_DDP_H
#define WEFT_WIRE_DDP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

#define DDP_TAGGED_LEN	 14
#define DDP_UNTAGGED_LEN 18
#define DDP_HDR_MAX	 DDP_UNTAGGED_LEN
#define DDP_VERSION	 1
#define RDMAP_VERSION	 1

/* Queues of untagged segments: RFC 5040 section 4.2, RFC 7306 section 4. */
enum ddp_queue {
	DDP_QN_SEND = 0,
	DDP_QN_READ_REQUEST = 1, /* and atomic requests */
	DDP_QN_TERMINATE = 2,
	DDP_QN_ATOMIC_RESPONSE = 3,
	DDP_QUEUES,
};

struct ddp_hdr {
	bool tagged, last;
	uint8_t dv;	  /* DDP_VERSION, if it is well */
	uint8_t rv;	  /* RDMAP_VERSION */
	uint8_t opcode;	  /* enum rdmap_opcode; four bits */
	uint32_t stag;	  /* tagged: of the sink; of a Send with invalidate: what it invalidates */
	uint64_t to;	  /* tagged: tagged offset */
	uint32_t qn, msn; /* untagged; messages of a queue are counted from 1 */
	uint32_t mo;	  /* where in the message the payload begins, bytes */
};

/* How long the header is of which the first byte is this. */
static inline size_t ddp_hdr_len(uint8_t first)
{
	return first & 0x80 ? DDP_TAGGED_LEN : DDP_UNTAGGED_LEN;
}

/* The header of a ULPDU of len bytes, whose length is returned. -EBADMSG: it is cut off. Versions
 * and opcode are whatever came; bits that are reserved are not looked at. */
int ddp_hdr_get(struct ddp_hdr *ret, const uint8_t *from, size_t len) must_use;
/* Returns its length. */
size_t ddp_hdr_put(uint8_t to[DDP_HDR_MAX], const struct ddp_hdr *h);

#endif
