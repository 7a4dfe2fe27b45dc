/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "wire/cm_ip.h"

#include <errno.h>

#include "base/cursor.h"

/* On the wire an address is 16 bytes; IPv4 stands in the last four, the others are zero. */
static struct gid addr_decode(struct cursor *c, uint8_t ip_version)
{
	struct gid g;

	cursor_bytes(c, g.raw, sizeof(g.raw));
	if (ip_version == 4) {
		memset(g.raw, 0, 10);
		memset(g.raw + 10, 0xff, 2);
	}
	return g;
}

static void addr_encode(struct wcursor *c, const struct gid *g, uint8_t ip_version)
{
	if (ip_version == 4) {
		wcursor_zero(c, 12);
		wcursor_bytes(c, g->raw + 12, 4);
	} else {
		wcursor_bytes(c, g->raw, sizeof(g->raw));
	}
}

int cm_ip_hdr_decode(struct cm_ip_hdr *h, const uint8_t buf[CM_IP_HDR_LEN])
{
	struct cursor c = cursor_init(buf, CM_IP_HDR_LEN);

	h->version = cursor_u8(&c);
	h->ip_version = cursor_u8(&c) >> 4;
	if (h->version != 0 || (h->ip_version != 4 && h->ip_version != 6))
		return -EBADMSG;
	h->port = cursor_be16(&c);
	h->src = addr_decode(&c, h->ip_version);
	h->dst = addr_decode(&c, h->ip_version);
	return 0;
}

void cm_ip_hdr_encode(const struct cm_ip_hdr *h, uint8_t buf[CM_IP_HDR_LEN])
{
	struct wcursor c = wcursor_init(buf, CM_IP_HDR_LEN);

	wcursor_u8(&c, h->version);
	wcursor_u8(&c, (uint8_t)(h->ip_version << 4));
	wcursor_be16(&c, h->port);
	addr_encode(&c, &h->src, h->ip_version);
	addr_encode(&c, &h->dst, h->ip_version);
}
