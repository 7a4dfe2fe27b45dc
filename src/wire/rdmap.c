/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "wire/rdmap.h"

#include <errno.h>

#include "base/cursor.h"

/* Of a Terminate's control word, the third byte. */
#define HAS_LEN	    0x80u
#define HAS_DDP	    0x40u
#define HAS_REQUEST 0x20u

static const struct {
	bool tagged;
	uint8_t qn;
} kinds[RDMAP_OPCODES] = {
	[RDMAP_WRITE] = {.tagged = true},
	[RDMAP_READ_RESPONSE] = {.tagged = true},
	[RDMAP_READ_REQUEST] = {.qn = DDP_QN_READ_REQUEST},
	[RDMAP_ATOMIC_REQUEST] = {.qn = DDP_QN_READ_REQUEST},
	[RDMAP_ATOMIC_RESPONSE] = {.qn = DDP_QN_ATOMIC_RESPONSE},
	[RDMAP_TERMINATE] = {.qn = DDP_QN_TERMINATE},
	[RDMAP_SEND] = {.qn = DDP_QN_SEND},
	[RDMAP_SEND_INVALIDATE] = {.qn = DDP_QN_SEND},
	[RDMAP_SEND_SE] = {.qn = DDP_QN_SEND},
	[RDMAP_SEND_SE_INVALIDATE] = {.qn = DDP_QN_SEND},
	[RDMAP_IMMEDIATE] = {.qn = DDP_QN_SEND},
	[RDMAP_IMMEDIATE_SE] = {.qn = DDP_QN_SEND},
};

bool rdmap_kind(uint8_t opcode, bool *ret_tagged, uint32_t *ret_qn)
{
	if (opcode >= RDMAP_OPCODES)
		return false;
	*ret_tagged = kinds[opcode].tagged;
	*ret_qn = kinds[opcode].qn;
	return true;
}

static void get_read_request(struct cursor *c, struct rdmap_read_request *ret)
{
	ret->sink_stag = cursor_be32(c);
	ret->sink_to = cursor_be64(c);
	ret->size = cursor_be32(c);
	ret->source_stag = cursor_be32(c);
	ret->source_to = cursor_be64(c);
}

static void put_read_request(struct wcursor *w, const struct rdmap_read_request *r)
{
	wcursor_be32(w, r->sink_stag);
	wcursor_be64(w, r->sink_to);
	wcursor_be32(w, r->size);
	wcursor_be32(w, r->source_stag);
	wcursor_be64(w, r->source_to);
}

void rdmap_read_request_get(struct rdmap_read_request *ret,
			    const uint8_t from[RDMAP_READ_REQUEST_LEN])
{
	struct cursor c = cursor_init(from, RDMAP_READ_REQUEST_LEN);

	get_read_request(&c, ret);
}

void rdmap_read_request_put(uint8_t to[RDMAP_READ_REQUEST_LEN], const struct rdmap_read_request *r)
{
	struct wcursor w = wcursor_init(to, RDMAP_READ_REQUEST_LEN);

	put_read_request(&w, r);
}

void rdmap_atomic_request_get(struct rdmap_atomic_request *ret,
			      const uint8_t from[RDMAP_ATOMIC_REQUEST_LEN])
{
	struct cursor c = cursor_init(from, RDMAP_ATOMIC_REQUEST_LEN);

	ret->op = cursor_be32(&c) & 0x0f;
	ret->id = cursor_be32(&c);
	ret->stag = cursor_be32(&c);
	ret->to = cursor_be64(&c);
	ret->data = cursor_be64(&c);
	ret->data_mask = cursor_be64(&c);
	ret->compare = cursor_be64(&c);
	ret->compare_mask = cursor_be64(&c);
}

void rdmap_atomic_request_put(uint8_t to[RDMAP_ATOMIC_REQUEST_LEN],
			      const struct rdmap_atomic_request *r)
{
	st_be32(to, r->op & 0x0fu);
	st_be32(to + 4, r->id);
	st_be32(to + 8, r->stag);
	st_be64(to + 12, r->to);
	st_be64(to + 20, r->data);
	st_be64(to + 28, r->data_mask);
	st_be64(to + 36, r->compare);
	st_be64(to + 44, r->compare_mask);
}

void rdmap_atomic_response_get(struct rdmap_atomic_response *ret,
			       const uint8_t from[RDMAP_ATOMIC_RESPONSE_LEN])
{
	struct cursor c = cursor_init(from, RDMAP_ATOMIC_RESPONSE_LEN);

	ret->id = cursor_be32(&c);
	ret->value = cursor_be64(&c);
}

void rdmap_atomic_response_put(uint8_t to[RDMAP_ATOMIC_RESPONSE_LEN],
			       const struct rdmap_atomic_response *r)
{
	struct wcursor w = wcursor_init(to, RDMAP_ATOMIC_RESPONSE_LEN);

	wcursor_be32(&w, r->id);
	wcursor_be64(&w, r->value);
}

int rdmap_terminate_get(struct rdmap_terminate *ret, const uint8_t *from, size_t len)
{
	struct cursor c = cursor_init(from, len);
	uint32_t control = cursor_be32(&c);
	uint8_t has = (uint8_t)(control >> 8);

	*ret = (struct rdmap_terminate){
		.cause = (uint16_t)(control >> 16),
		.has_len = has & HAS_LEN,
		.has_ddp = has & HAS_DDP,
		.has_request = has & HAS_REQUEST,
	};
	if (ret->has_len || ret->has_ddp)
		ret->segment_len = cursor_be16(&c);
	if (ret->has_ddp) {
		int n = ddp_hdr_get(&ret->ddp, c.p, cursor_left(&c));

		if (n < 0)
			return n;
		cursor_skip(&c, (size_t)n);
	}
	if (ret->has_request)
		get_read_request(&c, &ret->request);
	return c.overrun ? -EBADMSG : 0;
}

size_t rdmap_terminate_put(uint8_t to[RDMAP_TERMINATE_MAX], const struct rdmap_terminate *t)
{
	struct wcursor w = wcursor_init(to, RDMAP_TERMINATE_MAX);
	uint32_t has = (t->has_len ? HAS_LEN : 0) | (t->has_ddp ? HAS_DDP : 0) |
		       (t->has_request ? HAS_REQUEST : 0);
	uint8_t hdr[DDP_HDR_MAX];

	wcursor_be32(&w, (uint32_t)t->cause << 16 | has << 8);
	if (t->has_len || t->has_ddp)
		wcursor_be16(&w, t->segment_len);
	if (t->has_ddp)
		wcursor_bytes(&w, hdr, ddp_hdr_put(hdr, &t->ddp));
	if (t->has_request)
		put_read_request(&w, &t->request);
	return (size_t)(w.p - to);
}

const char *rdmap_term_name(uint16_t cause)
{
	switch ((enum rdmap_term_cause)cause) {
	case RDMAP_TERM_LOCAL:
	case DDP_TERM_LOCAL:
	case MPA_TERM_LOCAL:
		return "local catastrophic error";
	case RDMAP_TERM_STAG:
	case DDP_TERM_STAG:
		return "invalid STag";
	case RDMAP_TERM_BOUNDS:
	case DDP_TERM_BOUNDS:
		return "base or bounds violation";
	case RDMAP_TERM_ACCESS:
		return "access rights violation";
	case RDMAP_TERM_STAG_OF_OTHERS:
	case DDP_TERM_STAG_OF_OTHERS:
		return "STag not associated with the stream";
	case RDMAP_TERM_WRAP:
	case DDP_TERM_WRAP:
		return "tagged offset wrap";
	case RDMAP_TERM_INVALIDATE:
	case RDMAP_TERM_OP_INVALIDATE:
		return "STag cannot be invalidated";
	case RDMAP_TERM_PROTECTION:
		return "unspecified remote protection error";
	case RDMAP_TERM_VERSION:
		return "invalid RDMAP version";
	case RDMAP_TERM_OPCODE:
		return "unexpected opcode";
	case RDMAP_TERM_STREAM:
		return "catastrophic error of the stream";
	case RDMAP_TERM_ALL_STREAMS:
		return "catastrophic error of all streams";
	case RDMAP_TERM_OPERATION:
		return "unspecified remote operation error";
	case DDP_TERM_VERSION:
	case DDP_TERM_UNTAGGED_VERSION:
		return "invalid DDP version";
	case DDP_TERM_QN:
		return "invalid queue number";
	case DDP_TERM_NO_BUFFER:
		return "no buffer available";
	case DDP_TERM_MSN:
		return "message sequence number out of range";
	case DDP_TERM_MO:
		return "invalid message offset";
	case DDP_TERM_TOO_LONG:
		return "message too long for the buffer";
	case MPA_TERM_CLOSED:
		return "TCP connection closed or lost";
	case MPA_TERM_CRC:
		return "CRC error";
	case MPA_TERM_MARKER:
		return "marker and length do not agree";
	case MPA_TERM_START:
		return "invalid MPA request or reply";
	case MPA_TERM_IRD:
		return "insufficient IRD";
	case MPA_TERM_RTR:
		return "no matching RTR message";
	}
	return "unknown error";
}
