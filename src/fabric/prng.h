/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The one source of chance of a simulation: SplitMix64, whose whole state is its seed. */
#ifndef WEFT_FABRIC_PRNG_H
#define WEFT_FABRIC_PRNG_H

#include <stdbool.h>
#include <stdint.h>

struct prng {
	uint64_t state;
};

static inline uint64_t prng_u64(struct prng *p)
{
	uint64_t x = p->state += 0x9e3779b97f4a7c15ull;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 27) * 0x94d049bb133111ebull;
	return x ^ x >> 31;
}

/* 0 to n - 1; 0 for n = 0. */
static inline uint64_t prng_below(struct prng *p, uint64_t n)
{
	return n ? prng_u64(p) % n : 0;
}

/* lo to hi, both included. */
static inline uint64_t prng_range(struct prng *p, uint64_t lo, uint64_t hi)
{
	return lo + prng_below(p, hi - lo + 1);
}

static inline bool prng_chance(struct prng *p, uint32_t ppm)
{
	return ppm && prng_below(p, 1000000) < ppm;
}

#endif
