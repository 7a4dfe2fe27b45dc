/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* A stretch of a log page that is made piece by piece from its beginning. */
#ifndef WEFT_NVMF_TARGET_LOG_PAGE_H
#define WEFT_NVMF_TARGET_LOG_PAGE_H

#include "nvmf/target/target.h"

struct log_page {
	uint8_t *dst;	      /* zeroed */
	uint64_t offset, len; /* what the host asks for: LPO, and NUMD in bytes */
	uint64_t pos;	      /* where the next piece begins */
	bool digest;	      /* nothing is kept but what two pages can be told apart by */
	uint64_t sum;
};

/* FNV-1a by eight bytes. Who looks for two of the same sum finds them; he sees his own log alone.
 */
static inline void log_page_digest(struct log_page *l, const uint8_t *piece, size_t len)
{
	for (size_t i = 0; i + 8 <= len; i += 8) {
		uint64_t word;

		memcpy(&word, piece + i, sizeof(word));
		l->sum = (l->sum ^ word) * 0x100000001b3;
		l->sum ^= l->sum >> 29;
	}
}

/* The next piece, of len bytes, is none of those that are asked for: it need not be made. */
static inline bool log_page_skips(struct log_page *l, size_t len)
{
	if (l->digest || (l->pos + len > l->offset && l->pos < l->offset + l->len))
		return false;
	l->pos += len;
	return true;
}

static inline void log_page_piece(struct log_page *l, const void *piece, size_t len)
{
	uint64_t from = max_of(l->pos, l->offset), to = min_of(l->pos + len, l->offset + l->len);

	if (l->digest)
		log_page_digest(l, piece, len);
	else if (from < to)
		memcpy(l->dst + (from - l->offset), (const uint8_t *)piece + (from - l->pos),
		       to - from);
	l->pos += len;
}

/* The discovery log as the host at the other end of q is to see it; local: no more of it than is
 * had at the port that it came to. */
void log_page_discovery(struct log_page *l, const struct target_queue *q, bool local);
/* How long it is. */
uint64_t discovery_log_len(const struct target_queue *q, bool local);

#endif
