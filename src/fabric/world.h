/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A world: virtual time, what is to happen in it, and one source of chance. The same seed gives the
 * same run, for equal times have an order: who was first to be put down.
 *
 * Its owner drives it: fabric_step() has the next thing happen, and time stands still in between.
 */
#ifndef WEFT_FABRIC_WORLD_H
#define WEFT_FABRIC_WORLD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/list.h"
#include "base/units.h"
#include "fabric/prng.h"

#define FABRIC_BEGIN_NS NSEC_PER_SEC /* no time is 0 */

struct fabric;

/* Something that is to happen, in the memory of whom it happens to. */
struct happening {
	struct list node; /* alone: it is not to happen */
	uint64_t at_ns;
	void (*happen)(struct happening *);
};

int fabric_create(struct fabric **ret, uint64_t seed) must_use;
/* Last, when all that is in it is gone: what is still to happen never does. */
void fabric_destroy(struct fabric *);

struct prng *fabric_prng(struct fabric *);
uint64_t fabric_now(const struct fabric *);
uint64_t fabric_happened(const struct fabric *); /* so many things, so far */

static inline void happening_init(struct happening *h, void (*happen)(struct happening *))
{
	list_init(&h->node);
	h->at_ns = 0;
	h->happen = happen;
}

static inline bool happening_is_due(const struct happening *h)
{
	return !list_empty(&h->node);
}

/* Nothing that happens may be in the past. Again: then, and not when it was to be before. */
void fabric_put(struct fabric *, struct happening *, uint64_t at_ns);
/* It is not to happen; harmless if it was not. */
static inline void happening_cancel(struct happening *h)
{
	list_remove(&h->node);
}

/* Calls happen(ctx, what) when the time has come. never(what), if not NULL, gets what is left. */
void fabric_at(struct fabric *, uint64_t at_ns, void (*happen)(void *ctx, void *what), void *ctx,
	       void *what, void (*never)(void *what));

/* Has the next thing happen if it is due before `until`, else moves time there. False for the
 * latter. */
bool fabric_step(struct fabric *, uint64_t until);

#endif
