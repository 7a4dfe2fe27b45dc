/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Memory in pieces, as struct iovec names it, walked from some byte on. Who walks knows how many
 * bytes there are; pieces of no bytes may lie in between.
 */
#ifndef WEFT_BASE_PIECES_H
#define WEFT_BASE_PIECES_H

#include <stdint.h>
#include <string.h>
#include <sys/uio.h>

#include "base/compiler.h"

struct pieces {
	const struct iovec *at;
	size_t skip; /* bytes of *at that are behind us */
};

static inline struct pieces pieces_from(const struct iovec *iov, size_t from)
{
	return (struct pieces){.at = iov, .skip = from};
}

/* The next bytes that lie in one piece, at most max (not 0), and past them. */
static inline struct iovec pieces_take(struct pieces *p, size_t max)
{
	struct iovec next;

	while (p->skip >= p->at->iov_len) {
		p->skip -= p->at->iov_len;
		p->at++;
	}
	next.iov_base = (uint8_t *)p->at->iov_base + p->skip;
	next.iov_len = min_of(p->at->iov_len - p->skip, max);
	p->skip += next.iov_len;
	return next;
}

static inline void pieces_read(struct pieces p, void *to, size_t len)
{
	for (uint8_t *at = to; len;) {
		struct iovec v = pieces_take(&p, len);

		memcpy(at, v.iov_base, v.iov_len);
		at += v.iov_len;
		len -= v.iov_len;
	}
}

static inline void pieces_write(struct pieces p, const void *from, size_t len)
{
	for (const uint8_t *at = from; len;) {
		struct iovec v = pieces_take(&p, len);

		memcpy(v.iov_base, at, v.iov_len);
		at += v.iov_len;
		len -= v.iov_len;
	}
}

#endif
