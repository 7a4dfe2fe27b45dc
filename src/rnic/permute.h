/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A keyed permutation of small integers (a Feistel network of four rounds), so that numbers given
 * out one after another neither repeat nor can be told from those seen before. It keeps guessers
 * away, not cryptographers.
 */
#ifndef WEFT_RNIC_PERMUTE_H
#define WEFT_RNIC_PERMUTE_H

#include <stdint.h>

#define PERMUTE_ROUNDS 4

struct permute {
	uint32_t key[PERMUTE_ROUNDS];
	uint32_t half_bits; /* of 2 * half_bits bits */
};

static inline uint32_t permute_round(uint32_t x, uint32_t key)
{
	x = (x ^ key) * 0x9e3779b1u;
	x = (x ^ x >> 15) * 0x85ebca77u;
	return x >> 16;
}

static inline uint32_t permute(const struct permute *p, uint32_t x)
{
	uint32_t mask = (1u << p->half_bits) - 1;
	uint32_t l = x >> p->half_bits & mask, r = x & mask;

	for (int i = 0; i < PERMUTE_ROUNDS; i++) {
		uint32_t t = l ^ (permute_round(r, p->key[i]) & mask);

		l = r;
		r = t;
	}
	return l << p->half_bits | r;
}

static inline uint32_t permute_inverse(const struct permute *p, uint32_t y)
{
	uint32_t mask = (1u << p->half_bits) - 1;
	uint32_t l = y >> p->half_bits & mask, r = y & mask;

	for (int i = PERMUTE_ROUNDS - 1; i >= 0; i--) {
		uint32_t t = r ^ (permute_round(l, p->key[i]) & mask);

		r = l;
		l = t;
	}
	return l << p->half_bits | r;
}

#endif
