/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * One list of fields makes the reader and the writer of a structure, so that the two cannot
 * differ. A list is a macro FIELDS(V) of lines V(type, member) in the order of the wire:
 * u8, le16, le32, le64, le128 (struct nvme_u128), bytes (an array, as it is), and
 * V(zero, n) for n reserved bytes: skipped when read, zero when written.
 * For the NVMe codecs alone.
 */
#ifndef WEFT_WIRE_NVME_SCHEMA_H
#define WEFT_WIRE_NVME_SCHEMA_H

#include "base/cursor.h"

#define NVME_GET(type, m) NVME_GET_##type(m)
#define NVME_GET_u8(m)	  s->m = cursor_u8(c);
#define NVME_GET_le16(m)  s->m = cursor_le16(c);
#define NVME_GET_le32(m)  s->m = cursor_le32(c);
#define NVME_GET_le64(m)  s->m = cursor_le64(c);
#define NVME_GET_bytes(m) cursor_bytes(c, s->m, sizeof(s->m));
#define NVME_GET_le128(m)         \
	s->m.lo = cursor_le64(c); \
	s->m.hi = cursor_le64(c);
#define NVME_GET_zero(n) cursor_skip(c, n);

#define NVME_PUT(type, m) NVME_PUT_##type(m)
#define NVME_PUT_u8(m)	  wcursor_u8(c, s->m);
#define NVME_PUT_le16(m)  wcursor_le16(c, s->m);
#define NVME_PUT_le32(m)  wcursor_le32(c, s->m);
#define NVME_PUT_le64(m)  wcursor_le64(c, s->m);
#define NVME_PUT_bytes(m) wcursor_bytes(c, s->m, sizeof(s->m));
#define NVME_PUT_le128(m)         \
	wcursor_le64(c, s->m.lo); \
	wcursor_le64(c, s->m.hi);
#define NVME_PUT_zero(n) wcursor_zero(c, n);

/* Defines prefix_get() and prefix_put() of struct prefix. */
#define NVME_CODEC(prefix, FIELDS)                                   \
	void prefix##_get(struct cursor *c, struct prefix *s)        \
	{                                                            \
		FIELDS(NVME_GET)                                     \
	}                                                            \
	void prefix##_put(struct wcursor *c, const struct prefix *s) \
	{                                                            \
		FIELDS(NVME_PUT)                                     \
	}

#endif
