/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A random permutation of small integers, so that numbers given out one after another neither
 * repeat nor tell of one another: a Feistel network of four rounds, each a table of random numbers.
 * There is no key to search for; the tables are more than can be learned from thousands of numbers.
 */
#ifndef WEFT_RNIC_PERMUTE_H
#define WEFT_RNIC_PERMUTE_H

#include <stdint.h>

#define PERMUTE_ROUNDS	  4
#define PERMUTE_HALF_BITS 12 /* at most */

struct permute {
	uint32_t half_bits; /* of 2 * half_bits bits */
	uint16_t *round;    /* permute_words() */
};

static inline uint32_t permute_words(const struct permute *p)
{
	return PERMUTE_ROUNDS << p->half_bits;
}

/* half_bits are p's: where they are known when this is compiled, it is less to do. */
static inline uint32_t permute_by(const struct permute *p, uint32_t half_bits, uint32_t x)
{
	uint32_t mask = (1u << half_bits) - 1;
	uint32_t l = x >> half_bits & mask, r = x & mask;

	for (uint32_t i = 0; i < PERMUTE_ROUNDS; i++) {
		uint32_t t = l ^ p->round[i << half_bits | r];

		l = r;
		r = t;
	}
	return l << half_bits | r;
}

static inline uint32_t permute_inverse_by(const struct permute *p, uint32_t half_bits, uint32_t y)
{
	uint32_t mask = (1u << half_bits) - 1;
	uint32_t l = y >> half_bits & mask, r = y & mask;

	for (uint32_t i = PERMUTE_ROUNDS; i-- > 0;) {
		uint32_t t = r ^ p->round[i << half_bits | l];

		r = l;
		l = t;
	}
	return l << half_bits | r;
}

static inline uint32_t permute(const struct permute *p, uint32_t x)
{
	return permute_by(p, p->half_bits, x);
}

#endif
