/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The datagrams by which a weft host finds out what path MTU the way to another carries, where no
 * ICMP echo does: to UDP port 4791, as long as a full packet of the path MTU, and answered by
 * the peer's broker with one as long, in the traffic class that the question asks for. The answer
 * says what arrived, and who wants to know more of the peer (weft doctor) asks for it. Byte 1 has a
 * transport header version that no RNIC knows, so that one which meets such a datagram drops it as
 * the standard says.
 */
#ifndef WEFT_WIRE_PATH_PROBE_H
#define WEFT_WIRE_PATH_PROBE_H

#include <stdbool.h>

#include "base/bytes.h"
#include "wire/bth.h"

#define PATH_PROBE_ASK	  0xffff773fu /* the first four bytes */
#define PATH_PROBE_ANSWER 0xffff7721u
#define PATH_PROBE_LEN	  20u /* the rest is zeroes, but where more is told */
#define PATH_PROBE_TOLD	  40u /* of a datagram that has room for that */
#define PATH_PROBE_MAX	  (4096u + FULL_PACKET_HEADERS)

struct path_probe {
	uint32_t kind;
	uint16_t id;	/* of who asks */
	uint8_t mtu;	/* as the standard codes it */
	uint64_t token; /* comes back: who answers has seen the question */
	bool more;	/* the question is for what follows, and the answer has it */
	uint8_t tos; /* a question: what the answer is to have; an answer: what the question had */
};

/* What stands behind that, in answers that have more and the room. */
struct path_probe_told {
	uint32_t mtu;  /* of the interface by which the question came; 0: not known */
	uint32_t room; /* of the receive buffers, as SO_RCVBUF has it; 0: not known */
};

/* The IP packet's length that a probe for a path MTU has. */
static inline size_t path_probe_ip_len(uint8_t mtu)
{
	return (128u << mtu) + FULL_PACKET_HEADERS;
}

static inline void path_probe_encode(const struct path_probe *p, uint8_t buf[PATH_PROBE_LEN])
{
	st_be32(buf, p->kind);
	st_be32(buf + 4, 0); /* byte 5 is the slot: the broker's */
	buf[4] = p->more;
	st_be16(buf + 8, p->id);
	buf[10] = p->mtu;
	buf[11] = p->tos;
	st_be64(buf + 12, p->token);
}

/* Behind the encoded probe. */
static inline void path_probe_tell(const struct path_probe_told *t, uint8_t buf[PATH_PROBE_TOLD])
{
	st_be32(buf + PATH_PROBE_LEN, t->mtu);
	st_be32(buf + PATH_PROBE_LEN + 4, t->room);
}

static inline struct path_probe_told path_probe_hear(const uint8_t buf[PATH_PROBE_TOLD])
{
	return (struct path_probe_told){(uint32_t)ld_be32(buf + PATH_PROBE_LEN),
					(uint32_t)ld_be32(buf + PATH_PROBE_LEN + 4)};
}

static inline bool path_probe_decode(struct path_probe *ret, const uint8_t *buf, size_t len)
{
	if (len < PATH_PROBE_LEN)
		return false;
	*ret = (struct path_probe){(uint32_t)ld_be32(buf),
				   (uint16_t)ld_be16(buf + 8),
				   buf[10],
				   ld_be64(buf + 12),
				   buf[4] == 1,
				   buf[11]};
	return ret->mtu >= 1 && ret->mtu <= 5;
}

#endif
