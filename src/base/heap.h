/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A timer heap: intrusive pairing heap ordered by deadline. No allocation; insert and peek are
 * O(1), removal O(log n) amortised. Deadlines are nanoseconds on the caller's clock.
 */
#ifndef WEFT_BASE_HEAP_H
#define WEFT_BASE_HEAP_H

#include <stdbool.h>
#include <stdint.h>

#define DEADLINE_NEVER UINT64_MAX

struct timer {
	uint64_t deadline_ns;
	struct timer *child, *sibling, *prev; /* prev: parent if first child, else left sibling */
	bool armed;
};

struct timer_heap {
	struct timer *root;
};

/* Arms t for deadline_ns, moving it if it is armed already. */
void timer_arm(struct timer_heap *h, struct timer *t, uint64_t deadline_ns);
/* Disarms t; harmless when it is not armed. */
void timer_cancel(struct timer_heap *h, struct timer *t);
/* The earliest timer if it is due at now_ns, disarmed; NULL if none is due. */
struct timer *timer_pop_due(struct timer_heap *h, uint64_t now_ns);

static inline uint64_t timer_heap_next(const struct timer_heap *h)
{
	return h->root ? h->root->deadline_ns : DEADLINE_NEVER;
}

#endif
