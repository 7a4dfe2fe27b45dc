/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The datagrams by which a weft host finds out what path MTU the way to another carries, where no
 * ICMP echo does: to UDP port 4791, as long as a full packet of the path MTU, and answered by
 * the peer's broker with one as long. Byte 1 has a transport header version that no RNIC knows, so
 * that one which meets such a datagram drops it as the standard says.
 */
#ifndef WEFT_WIRE_PATH_PROBE_H
#define WEFT_WIRE_PATH_PROBE_H

#include <stdbool.h>

#include "base/bytes.h"
#include "wire/bth.h"

#define PATH_PROBE_ASK	  0xffff773fu /* the first four bytes */
#define PATH_PROBE_ANSWER 0xffff7721u
#define PATH_PROBE_LEN	  20u /* the rest is zeroes */
#define PATH_PROBE_MAX	  (4096u + FULL_PACKET_HEADERS)

struct path_probe {
	uint32_t kind;
	uint16_t id;	/* of who asks */
	uint8_t mtu;	/* as the standard codes it */
	uint64_t token; /* comes back: who answers has seen the question */
};

/* The IP packet's length that a probe for a path MTU has. */
static inline size_t path_probe_ip_len(uint8_t mtu)
{
	return (128u << mtu) + FULL_PACKET_HEADERS;
}

static inline void path_probe_encode(const struct path_probe *p, uint8_t buf[PATH_PROBE_LEN])
{
	st_be32(buf, p->kind);
	st_be32(buf + 4, 0);
	st_be16(buf + 8, p->id);
	buf[10] = p->mtu;
	buf[11] = 0;
	st_be64(buf + 12, p->token);
}

static inline bool path_probe_decode(struct path_probe *ret, const uint8_t *buf, size_t len)
{
	if (len < PATH_PROBE_LEN)
		return false;
	*ret = (struct path_probe){(uint32_t)ld_be32(buf), (uint16_t)ld_be16(buf + 8), buf[10],
				   ld_be64(buf + 12)};
	return ret->mtu >= 1 && ret->mtu <= 5;
}

#endif
