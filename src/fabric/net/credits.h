/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Credits of a lane of an InfiniBand link (IBA volume 1, 7.9.4). Both ends count the blocks that
 * have ever gone over it, and a receiver says up to what total it has room: nothing is added up
 * from messages, so that one that is lost costs nothing once the next has come.
 */
#ifndef WEFT_FABRIC_NET_CREDITS_H
#define WEFT_FABRIC_NET_CREDITS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "wire/lrh.h"

struct credit_tx {
	uint16_t sent;	/* FCTBS */
	uint16_t limit; /* FCCL, as it came last */
};

struct credit_rx {
	uint16_t got;  /* ABR */
	uint16_t said; /* the limit that was told last */
	uint32_t blocks, used;
};

static inline uint32_t credit_blocks(uint32_t bytes)
{
	return (bytes + CREDIT_BLOCK - 1) / CREDIT_BLOCK;
}

static inline bool credit_tx_may(const struct credit_tx *t, uint32_t blocks)
{
	return ((t->limit - (t->sent + blocks)) & CREDIT_MASK) <= CREDIT_BLOCKS_MAX;
}

static inline void credit_tx_sent(struct credit_tx *t, uint32_t blocks)
{
	t->sent = (uint16_t)((t->sent + blocks) & CREDIT_MASK);
}

/* False: it has no room for that, which a sender who heeds credits never sends. */
static inline bool credit_rx_take(struct credit_rx *r, uint32_t blocks)
{
	r->got = (uint16_t)((r->got + blocks) & CREDIT_MASK);
	if (blocks > r->blocks - r->used)
		return false;
	r->used += blocks;
	return true;
}

static inline void credit_rx_release(struct credit_rx *r, uint32_t blocks)
{
	r->used -= blocks;
}

/* What it would tell now. */
static inline uint16_t credit_rx_limit(const struct credit_rx *r)
{
	uint32_t room = r->blocks - r->used;

	return (uint16_t)((r->got + min_of(room, (uint32_t)CREDIT_BLOCKS_MAX)) & CREDIT_MASK);
}

/* By so much it has more room than it has told. */
static inline uint32_t credit_rx_untold(const struct credit_rx *r)
{
	return (uint32_t)(credit_rx_limit(r) - r->said) & CREDIT_MASK;
}

#endif
