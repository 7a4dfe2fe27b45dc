/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Which lane of an InfiniBand port is next (IBA volume 1, 7.6.9): the entries of two tables take
 * turns, each with its lane and how much it may send at once. The high table goes first, until it
 * has sent its limit while something of the low one waits; then that has one packet.
 *
 * It knows no time and no packets but by their lengths.
 */
#ifndef WEFT_FABRIC_NET_ARBITER_H
#define WEFT_FABRIC_NET_ARBITER_H

#include <stdint.h>

#include "base/compiler.h"
#include "wire/smp.h"

struct arbiter_table {
	const struct smp_vl_arbitration *entries; /* borrowed */
	unsigned n;				  /* of them, when its turns began */
	unsigned at;				  /* whose turn it is */
	int64_t left;				  /* bytes of its turn */
};

struct arbiter {
	struct arbiter_table high, low;
	int64_t high_left; /* until the low table is to have a packet */
	uint8_t high_limit;
};

#define ARBITER_NONE 255

/* Begins, from an arbiter of zeros, or goes on with what has been set anew: turns stay what they
 * are as long as the tables have as many entries. */
void arbiter_set(struct arbiter *, const struct smp_vl_arbitration *high,
		 const struct smp_vl_arbitration *low, uint8_t high_limit);
/* Of the lanes that are ready, a bit each, with the lengths of their next packets; that of the one
 * which is returned counts as sent. ARBITER_NONE: no entry is for any of these. */
unsigned arbiter_next(struct arbiter *, uint8_t ready, const uint32_t bytes[8]);

#endif
