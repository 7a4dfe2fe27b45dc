/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "wire/ddp.h"

#include <errno.h>

#include "base/cursor.h"

#define TAGGED	0x80u
#define LAST	0x40u
#define VERSION 0x03u /* of the first byte, DDP's */

int ddp_hdr_get(struct ddp_hdr *ret, const uint8_t *from, size_t len)
{
	struct cursor c = cursor_init(from, len);
	uint8_t ddp = cursor_u8(&c), rdmap = cursor_u8(&c);

	*ret = (struct ddp_hdr){
		.tagged = ddp & TAGGED,
		.last = ddp & LAST,
		.dv = ddp & VERSION,
		.rv = rdmap >> 6,
		.opcode = rdmap & 0x0f,
		.stag = cursor_be32(&c),
	};
	if (ret->tagged) {
		ret->to = cursor_be64(&c);
	} else {
		ret->qn = cursor_be32(&c);
		ret->msn = cursor_be32(&c);
		ret->mo = cursor_be32(&c);
	}
	return c.overrun ? -EBADMSG : (int)(c.p - from);
}

size_t ddp_hdr_put(uint8_t to[DDP_HDR_MAX], const struct ddp_hdr *h)
{
	struct wcursor w = wcursor_init(to, DDP_HDR_MAX);

	wcursor_u8(&w,
		   (uint8_t)((h->tagged ? TAGGED : 0) | (h->last ? LAST : 0) | (h->dv & VERSION)));
	wcursor_u8(&w, (uint8_t)(h->rv << 6 | (h->opcode & 0x0f)));
	wcursor_be32(&w, h->stag);
	if (h->tagged) {
		wcursor_be64(&w, h->to);
	} else {
		wcursor_be32(&w, h->qn);
		wcursor_be32(&w, h->msn);
		wcursor_be32(&w, h->mo);
	}
	return (size_t)(w.p - to);
}
