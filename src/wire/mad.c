/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The header common to all MADs: reader and writer. */
#include "wire/mad.h"

void mad_hdr_decode(struct mad_hdr *h, struct cursor *c)
{
	h->base_version = cursor_u8(c);
	h->mgmt_class = cursor_u8(c);
	h->class_version = cursor_u8(c);
	h->method = cursor_u8(c);
	h->status = cursor_be16(c);
	h->class_specific = cursor_be16(c);
	h->tid = cursor_be64(c);
	h->attr_id = cursor_be16(c);
	cursor_skip(c, 2);
	h->attr_mod = cursor_be32(c);
}

void mad_hdr_encode(const struct mad_hdr *h, struct wcursor *c)
{
	wcursor_u8(c, h->base_version);
	wcursor_u8(c, h->mgmt_class);
	wcursor_u8(c, h->class_version);
	wcursor_u8(c, h->method);
	wcursor_be16(c, h->status);
	wcursor_be16(c, h->class_specific);
	wcursor_be64(c, h->tid);
	wcursor_be16(c, h->attr_id);
	wcursor_zero(c, 2);
	wcursor_be32(c, h->attr_mod);
}
