/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* A stretch of a log page that is made piece by piece from its beginning. */
#ifndef WEFT_NVMF_TARGET_WINDOW_H
#define WEFT_NVMF_TARGET_WINDOW_H

#include "nvmf/target/target.h"

struct window {
	uint8_t *dst;	      /* zeroed */
	uint64_t offset, len; /* of the page */
	uint64_t pos;	      /* where the next piece begins */
};

static inline void window_piece(struct window *w, const void *piece, size_t len)
{
	uint64_t from = max_of(w->pos, w->offset), to = min_of(w->pos + len, w->offset + w->len);

	if (from < to)
		memcpy(w->dst + (from - w->offset), (const uint8_t *)piece + (from - w->pos),
		       to - from);
	w->pos += len;
}

/* The discovery log as the host at the other end of q is to see it. */
void window_discovery_log(struct window *w, const struct target_queue *q);
/* How long it is. */
uint64_t discovery_log_len(const struct target_queue *q);

#endif
