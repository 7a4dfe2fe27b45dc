/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "fabric/net/arbiter.h"

#define WEIGHT_BYTES	64
#define LIMIT_BYTES	4096
#define LIMIT_UNBOUNDED 255

static bool is_ready(const struct smp_vl_arbitration *e, unsigned i, uint8_t ready)
{
	return e->weight[i] && e->lane[i] < 8 && ready >> e->lane[i] & 1;
}

static void begin_turn(struct arbiter_table *t, unsigned at)
{
	t->at = at;
	t->left = (int64_t)t->entries->weight[at] * WEIGHT_BYTES;
}

/* The entry whose turn it is goes on while it has something left; what it has sent beyond that is
 * forgiven. */
static unsigned table_next(struct arbiter_table *t, uint8_t ready)
{
	const struct smp_vl_arbitration *e = t->entries;

	if (!e || !e->n)
		return ARBITER_NONE;
	if (t->n != e->n) { /* the manager has set another table */
		t->n = e->n;
		begin_turn(t, 0);
	}
	if (t->left > 0 && is_ready(e, t->at, ready))
		return e->lane[t->at];
	for (unsigned i = 1; i <= e->n; i++) {
		unsigned at = (t->at + i) % e->n;

		if (!is_ready(e, at, ready))
			continue;
		begin_turn(t, at);
		return e->lane[at];
	}
	return ARBITER_NONE;
}

static void reset_limit(struct arbiter *a)
{
	/* A limit of 0 is one packet, whatever its length. */
	a->high_left = a->high_limit ? (int64_t)a->high_limit * LIMIT_BYTES : 1;
}

static int64_t charged(uint32_t bytes)
{
	return (int64_t)((bytes + WEIGHT_BYTES - 1) / WEIGHT_BYTES * WEIGHT_BYTES);
}

static bool low_waits(const struct arbiter *a, uint8_t ready)
{
	const struct smp_vl_arbitration *e = a->low.entries;

	for (unsigned i = 0; e && i < e->n; i++)
		if (is_ready(e, i, ready))
			return true;
	return false;
}

void arbiter_set(struct arbiter *a, const struct smp_vl_arbitration *high,
		 const struct smp_vl_arbitration *low, uint8_t high_limit)
{
	const bool is_new = !a->low.entries || a->high_limit != high_limit;

	a->high.entries = high;
	a->low.entries = low;
	a->high_limit = high_limit;
	if (is_new)
		reset_limit(a);
}

unsigned arbiter_next(struct arbiter *a, uint8_t ready, const uint32_t bytes[8])
{
	const bool waits = low_waits(a, ready);
	unsigned lane = ARBITER_NONE;

	if (!waits || a->high_left > 0 || a->high_limit == LIMIT_UNBOUNDED)
		lane = table_next(&a->high, ready);
	if (lane != ARBITER_NONE) {
		a->high.left -= charged(bytes[lane]);
		a->high_left -= charged(bytes[lane]);
		if (!waits)
			reset_limit(a); /* it counts only what others wait for */
		return lane;
	}
	lane = table_next(&a->low, ready);
	if (lane != ARBITER_NONE) {
		a->low.left -= charged(bytes[lane]);
		reset_limit(a);
	}
	return lane;
}
