/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A loss halves the window, down to a small share, and what is acknowledged brings back an eighth
 * of its bytes: going back costs a window's packets, so that a wire that loses one in a hundred is
 * best used by windows of some dozens.
 */
#include "rnic/cc/cc.h"

#include "base/compiler.h"

#define WINDOW_MIN (16u << 10)

/* While the window is whole, nobody need tell of what is acknowledged. */
static const struct cc_ops cut;

void cc_regrow(struct cc *cc, uint32_t bytes, uint64_t now)
{
	(void)now;
	cc->window = min_of(cc->window + bytes / 8, cc->window_max);
}

void cc_halve(struct cc *cc, uint32_t bytes, bool again, uint64_t now)
{
	uint32_t least = min_of(WINDOW_MIN, cc->window_max);

	(void)bytes;
	(void)now;
	if (!again)
		cc->window = max_of(cc->window / 2, least);
}

static void grow(struct cc *cc, uint32_t bytes, uint64_t now)
{
	cc_regrow(cc, bytes, now);
	if (cc->window == cc->window_max)
		cc->ops = &cc_halving;
}

static void halve(struct cc *cc, uint32_t bytes, bool again, uint64_t now)
{
	cc_halve(cc, bytes, again, now);
	cc->ops = &cut;
}

static const struct cc_ops cut = {
	.name = "halving",
	.acked = grow,
	.lost = halve,
};

const struct cc_ops cc_halving = {
	.name = "halving",
	.lost = halve,
};
