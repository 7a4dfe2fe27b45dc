/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A bounds-checked walk over wire bytes with a sticky overrun flag: read or write a whole
 * header, then check cur->overrun once. After an overrun reads return zero and writes go
 * nowhere, so no check is needed between fields.
 */
#ifndef WEFT_BASE_CURSOR_H
#define WEFT_BASE_CURSOR_H

#include <stdbool.h>
#include <stddef.h>

#include "base/bytes.h"

/* Reader: borrows the bytes; they must outlive it. */
struct cursor {
	const uint8_t *p;
	const uint8_t *end;
	bool overrun;
};

static inline struct cursor cursor_init(const void *buf, size_t len)
{
	const uint8_t *p = buf;

	return (struct cursor){.p = p, .end = len ? p + len : p}; /* NULL takes no sum */
}

static inline size_t cursor_left(const struct cursor *c)
{
	return (size_t)(c->end - c->p);
}

/* The next n bytes, or NULL (and the overrun flag) if there are fewer. */
static inline const uint8_t *cursor_take(struct cursor *c, size_t n)
{
	const uint8_t *p = c->p;

	if (c->overrun || cursor_left(c) < n) {
		c->overrun = true;
		return NULL;
	}
	c->p += n;
	return p;
}

static inline void cursor_skip(struct cursor *c, size_t n)
{
	(void)cursor_take(c, n);
}

static inline void cursor_bytes(struct cursor *c, void *dst, size_t n)
{
	const uint8_t *p = cursor_take(c, n);

	if (p)
		memcpy(dst, p, n);
	else
		memset(dst, 0, n);
}

static inline uint8_t cursor_u8(struct cursor *c)
{
	const uint8_t *p = cursor_take(c, 1);
	return p ? *p : 0;
}

#define WEFT_CURSOR_GET(name, type, bytes)                 \
	static inline type cursor_##name(struct cursor *c) \
	{                                                  \
		const uint8_t *p = cursor_take(c, bytes);  \
		return p ? ld_##name(p) : 0;               \
	}
WEFT_CURSOR_GET(be16, uint16_t, 2)
WEFT_CURSOR_GET(be24, uint32_t, 3)
WEFT_CURSOR_GET(be32, uint32_t, 4)
WEFT_CURSOR_GET(be64, uint64_t, 8)
WEFT_CURSOR_GET(le16, uint16_t, 2)
WEFT_CURSOR_GET(le32, uint32_t, 4)
WEFT_CURSOR_GET(le64, uint64_t, 8)
#undef WEFT_CURSOR_GET

/* Writer: borrows the room. */
struct wcursor {
	uint8_t *p;
	uint8_t *end;
	bool overrun;
};

static inline struct wcursor wcursor_init(void *buf, size_t len)
{
	return (struct wcursor){.p = buf, .end = (uint8_t *)buf + len};
}

static inline uint8_t *wcursor_take(struct wcursor *c, size_t n)
{
	uint8_t *p = c->p;

	if (c->overrun || (size_t)(c->end - c->p) < n) {
		c->overrun = true;
		return NULL;
	}
	c->p += n;
	return p;
}

static inline void wcursor_zero(struct wcursor *c, size_t n)
{
	uint8_t *p = wcursor_take(c, n);

	if (p)
		memset(p, 0, n);
}

static inline void wcursor_bytes(struct wcursor *c, const void *src, size_t n)
{
	uint8_t *p = wcursor_take(c, n);

	if (p)
		memcpy(p, src, n);
}

static inline void wcursor_u8(struct wcursor *c, uint8_t v)
{
	uint8_t *p = wcursor_take(c, 1);

	if (p)
		*p = v;
}

#define WEFT_CURSOR_PUT(name, type, bytes)                           \
	static inline void wcursor_##name(struct wcursor *c, type v) \
	{                                                            \
		uint8_t *p = wcursor_take(c, bytes);                 \
		if (p)                                               \
			st_##name(p, v);                             \
	}
WEFT_CURSOR_PUT(be16, uint16_t, 2)
WEFT_CURSOR_PUT(be24, uint32_t, 3)
WEFT_CURSOR_PUT(be32, uint32_t, 4)
WEFT_CURSOR_PUT(be64, uint64_t, 8)
WEFT_CURSOR_PUT(le16, uint16_t, 2)
WEFT_CURSOR_PUT(le32, uint32_t, 4)
WEFT_CURSOR_PUT(le64, uint64_t, 8)
#undef WEFT_CURSOR_PUT

#endif
