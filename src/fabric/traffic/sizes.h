/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* How long messages are: a distribution, given by points of its cumulative form, linear in between.
 */
#ifndef WEFT_FABRIC_TRAFFIC_SIZES_H
#define WEFT_FABRIC_TRAFFIC_SIZES_H

#include <stddef.h>
#include <stdint.h>

#include "fabric/prng.h"

struct size_point {
	double bytes, below; /* so many of all, 0 to 1, are no longer */
};

struct sizes {
	const struct size_point *points; /* n of them, the last one's `below` is 1 */
	size_t n;
};

/* A published one, by its name; NULL: there is no such. */
const struct sizes *sizes_find(const char *name);
/* The next name behind one, or the first behind NULL; NULL: there are no more. */
const char *sizes_next(const char *name);

static inline uint64_t sizes_most(const struct sizes *s)
{
	return s->n ? (uint64_t)s->points[s->n - 1].bytes : 0;
}

double sizes_mean(const struct sizes *);
uint64_t sizes_draw(const struct sizes *, struct prng *);

#endif
