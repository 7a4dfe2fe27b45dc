/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What a peer writes, into memory that somebody may be watching. */
#include <stdatomic.h>

#include "rnic/core.h"

/* Of any alignment, in any memory. */
typedef uint64_t __attribute__((may_alias, aligned(1))) any_word;

/* Whoever looks meanwhile does so rightly. */
__attribute__((no_sanitize("thread"))) static void place_once(uint8_t *to, const uint8_t *from,
							      size_t len)
{
	size_t done = 0;

	for (; done + sizeof(any_word) <= len; done += sizeof(any_word))
		*(volatile any_word *)(to + done) = *(const any_word *)(from + done);
	for (; done < len; done++)
		*(volatile uint8_t *)(to + done) = from[done];
}

/* Who waits for memory to change takes the last bytes for all of them, and may write there at once.
 * So these are stored last, upwards, and once: memcpy() may store a byte twice, and what was
 * written in between is lost. */
void mem_place(uint8_t *to, const uint8_t *from, size_t len)
{
	enum { LAST = 64 };
	const size_t first = len > LAST ? len - LAST : 0;

	if (first)
		memcpy(to, from, first);
	atomic_signal_fence(memory_order_seq_cst);
	place_once(to + first, from + first, len - first);
}
