/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What a peer writes, into memory that somebody may be watching. */
#include <stdatomic.h>

#include "rnic/core.h"

/* Of any alignment, in any memory. */
typedef uint64_t __attribute__((may_alias, aligned(1))) any_word;

/* Who sees what is stored behind this sees what was before: the compiler's business alone where
 * the processor keeps stores in their order by itself. */
static inline void in_order(void)
{
	atomic_thread_fence(memory_order_release);
}

/* Whoever looks meanwhile does so rightly. */
__attribute__((no_sanitize("thread"))) static void place_once(uint8_t *to, const uint8_t *from,
							      size_t len)
{
	size_t done = 0;

	for (; len - done > sizeof(any_word); done += sizeof(any_word))
		*(volatile any_word *)(to + done) = *(const any_word *)(from + done);
	in_order();
	if (len - done == sizeof(any_word)) {
		*(volatile any_word *)(to + done) = *(const any_word *)(from + done);
		return;
	}
	for (; done < len; done++) {
		*(volatile uint8_t *)(to + done) = from[done];
		in_order();
	}
}

/* Who waits for memory to change takes the last bytes for all of them, and may write there at once.
 * So these are stored last, upwards, and once: memcpy() may store a byte twice, and what was
 * written in between is lost. Who waits for a message takes it for all that were sent before, and
 * those may have come in the same batch, with no lock given back since. */
void mem_place(uint8_t *to, const uint8_t *from, size_t len)
{
	enum { LAST = 64 };
	const size_t first = len > LAST ? len - LAST : 0;

	in_order();
	if (first) {
		memcpy(to, from, first);
		in_order();
	}
	place_once(to + first, from + first, len - first);
}
