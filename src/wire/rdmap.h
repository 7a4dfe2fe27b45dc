/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * RDMAP, what peers ask of each other: RFC 5040; atomics and immediate data: RFC 7306. Its control
 * byte stands in DDP's header (wire/ddp.h); here are the opcodes and what some of them carry behind
 * that.
 */
#ifndef WEFT_WIRE_RDMAP_H
#define WEFT_WIRE_RDMAP_H

#include "wire/ddp.h"

enum rdmap_opcode {
	RDMAP_WRITE = 0x0,
	RDMAP_READ_REQUEST = 0x1,
	RDMAP_READ_RESPONSE = 0x2,
	RDMAP_SEND = 0x3,
	RDMAP_SEND_INVALIDATE = 0x4,
	RDMAP_SEND_SE = 0x5, /* with solicited event */
	RDMAP_SEND_SE_INVALIDATE = 0x6,
	RDMAP_TERMINATE = 0x7,
	RDMAP_IMMEDIATE = 0x8,
	RDMAP_IMMEDIATE_SE = 0x9,
	RDMAP_ATOMIC_REQUEST = 0xa,
	RDMAP_ATOMIC_RESPONSE = 0xb,
	RDMAP_OPCODES,
};

/* Whether messages of the opcode are tagged, and if not, their queue. False: there is no such
 * opcode. */
bool rdmap_kind(uint8_t opcode, bool *ret_tagged, uint32_t *ret_qn);

/* --- messages with a layout of their own ------------------------------------------------------ */

struct rdmap_read_request {
	uint32_t sink_stag;
	uint64_t sink_to;
	uint32_t size; /* bytes */
	uint32_t source_stag;
	uint64_t source_to;
};
#define RDMAP_READ_REQUEST_LEN 28

void rdmap_read_request_get(struct rdmap_read_request *ret,
			    const uint8_t from[RDMAP_READ_REQUEST_LEN]);
void rdmap_read_request_put(uint8_t to[RDMAP_READ_REQUEST_LEN], const struct rdmap_read_request *r);

enum rdmap_atomic {
	RDMAP_FETCH_ADD = 0,
	RDMAP_COMPARE_SWAP = 2,
};

/* The operands are of eight bytes; a masked one works on what its mask has set (RFC 7306
 * section 5.1). */
struct rdmap_atomic_request {
	uint8_t op; /* four bits */
	uint32_t id;
	uint32_t stag;
	uint64_t to;
	uint64_t data, data_mask; /* to add, or to swap in */
	uint64_t compare, compare_mask;
};
#define RDMAP_ATOMIC_REQUEST_LEN 52

void rdmap_atomic_request_get(struct rdmap_atomic_request *ret,
			      const uint8_t from[RDMAP_ATOMIC_REQUEST_LEN]);
void rdmap_atomic_request_put(uint8_t to[RDMAP_ATOMIC_REQUEST_LEN],
			      const struct rdmap_atomic_request *r);

struct rdmap_atomic_response {
	uint32_t id;	/* of the request */
	uint64_t value; /* that was there */
};
#define RDMAP_ATOMIC_RESPONSE_LEN 12

void rdmap_atomic_response_get(struct rdmap_atomic_response *ret,
			       const uint8_t from[RDMAP_ATOMIC_RESPONSE_LEN]);
void rdmap_atomic_response_put(uint8_t to[RDMAP_ATOMIC_RESPONSE_LEN],
			       const struct rdmap_atomic_response *r);

#define RDMAP_IMMEDIATE_LEN 8

/* --- Terminate -------------------------------------------------------------------------------- */

/* The last message of a side: what it found wrong. RFC 5040 section 4.8. */

#define RDMAP_TERM(layer, type, code) ((uint16_t)((layer) << 12 | (type) << 8 | (code)))

/* Layer, error type and code as they stand on the wire: RFC 5040 section 7, RFC 5041 section 8.2,
 * RFC 5044 section 8, RFC 6581 section 8. */
enum rdmap_term_cause {
	RDMAP_TERM_LOCAL = RDMAP_TERM(0, 0, 0x00), /* local catastrophic error */
	RDMAP_TERM_STAG = RDMAP_TERM(0, 1, 0x00),
	RDMAP_TERM_BOUNDS = RDMAP_TERM(0, 1, 0x01),
	RDMAP_TERM_ACCESS = RDMAP_TERM(0, 1, 0x02),
	RDMAP_TERM_STAG_OF_OTHERS = RDMAP_TERM(0, 1, 0x03), /* not associated with the stream */
	RDMAP_TERM_WRAP = RDMAP_TERM(0, 1, 0x04),
	RDMAP_TERM_INVALIDATE = RDMAP_TERM(0, 1, 0x09), /* the STag cannot be invalidated */
	RDMAP_TERM_PROTECTION = RDMAP_TERM(0, 1, 0xff),
	RDMAP_TERM_VERSION = RDMAP_TERM(0, 2, 0x05),
	RDMAP_TERM_OPCODE = RDMAP_TERM(0, 2, 0x06),
	RDMAP_TERM_STREAM = RDMAP_TERM(0, 2, 0x07), /* catastrophic, of this stream */
	RDMAP_TERM_ALL_STREAMS = RDMAP_TERM(0, 2, 0x08),
	RDMAP_TERM_OP_INVALIDATE = RDMAP_TERM(0, 2, 0x09),
	RDMAP_TERM_OPERATION = RDMAP_TERM(0, 2, 0xff),

	DDP_TERM_LOCAL = RDMAP_TERM(1, 0, 0x00),
	DDP_TERM_STAG = RDMAP_TERM(1, 1, 0x00), /* tagged buffers */
	DDP_TERM_BOUNDS = RDMAP_TERM(1, 1, 0x01),
	DDP_TERM_STAG_OF_OTHERS = RDMAP_TERM(1, 1, 0x02),
	DDP_TERM_WRAP = RDMAP_TERM(1, 1, 0x03),
	DDP_TERM_VERSION = RDMAP_TERM(1, 1, 0x04),
	DDP_TERM_QN = RDMAP_TERM(1, 2, 0x01), /* untagged buffers */
	DDP_TERM_NO_BUFFER = RDMAP_TERM(1, 2, 0x02),
	DDP_TERM_MSN = RDMAP_TERM(1, 2, 0x03),
	DDP_TERM_MO = RDMAP_TERM(1, 2, 0x04),
	DDP_TERM_TOO_LONG = RDMAP_TERM(1, 2, 0x05),
	DDP_TERM_UNTAGGED_VERSION = RDMAP_TERM(1, 2, 0x06),

	MPA_TERM_CLOSED = RDMAP_TERM(2, 0, 0x01), /* TCP's connection closed, terminated or lost */
	MPA_TERM_CRC = RDMAP_TERM(2, 0, 0x02),
	MPA_TERM_MARKER = RDMAP_TERM(2, 0, 0x03), /* marker and length do not agree */
	MPA_TERM_START = RDMAP_TERM(2, 0, 0x04),  /* request or reply are not understood */
	MPA_TERM_LOCAL = RDMAP_TERM(2, 0, 0x05),
	MPA_TERM_IRD = RDMAP_TERM(2, 0, 0x06), /* insufficient */
	MPA_TERM_RTR = RDMAP_TERM(2, 0, 0x07), /* none that both can */
};

struct rdmap_terminate {
	uint16_t cause;
	bool has_len;	  /* segment_len is there */
	bool has_ddp;	  /* ddp is there */
	bool has_request; /* request is there, of the READ that could not be answered */
	uint16_t segment_len;
	struct ddp_hdr ddp; /* of the segment that was wrong */
	struct rdmap_read_request request;
};
#define RDMAP_TERMINATE_MAX (4 + 2 + DDP_HDR_MAX + RDMAP_READ_REQUEST_LEN)

/* What stands behind the DDP header of a Terminate. -EBADMSG: it is cut off. */
int rdmap_terminate_get(struct rdmap_terminate *ret, const uint8_t *from, size_t len) must_use;
/* Returns how much it is. */
size_t rdmap_terminate_put(uint8_t to[RDMAP_TERMINATE_MAX], const struct rdmap_terminate *t);

/* "invalid STag", for a person; "unknown error" if it is none of the standards'. */
const char *rdmap_term_name(uint16_t cause);

#endif
