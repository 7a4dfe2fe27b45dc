/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* A stretch of a log page that is made piece by piece from its beginning. */
#ifndef WEFT_NVMF_TARGET_LOG_PAGE_H
#define WEFT_NVMF_TARGET_LOG_PAGE_H

#include "nvmf/target/target.h"

struct log_page {
	uint8_t *dst;	      /* zeroed */
	uint64_t offset, len; /* what the host asks for: LPO, and NUMD in bytes */
	uint64_t pos;	      /* where the next piece begins */
};

static inline void log_page_piece(struct log_page *l, const void *piece, size_t len)
{
	uint64_t from = max_of(l->pos, l->offset), to = min_of(l->pos + len, l->offset + l->len);

	if (from < to)
		memcpy(l->dst + (from - l->offset), (const uint8_t *)piece + (from - l->pos),
		       to - from);
	l->pos += len;
}

/* The discovery log as the host at the other end of q is to see it. */
void log_page_discovery(struct log_page *l, const struct target_queue *q);
/* How long it is. */
uint64_t discovery_log_len(const struct target_queue *q);

#endif
