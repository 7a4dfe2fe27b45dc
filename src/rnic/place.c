/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What a peer writes, into memory that somebody may be watching. */
#include <stdatomic.h>

#include "rnic/core.h"

typedef uint64_t __attribute__((may_alias)) word;
typedef uint32_t __attribute__((may_alias)) half;
typedef uint16_t __attribute__((may_alias)) quarter;
typedef uint64_t __attribute__((may_alias, aligned(1))) any_word; /* of any alignment */
typedef uint32_t __attribute__((may_alias, aligned(1))) any_half;
typedef uint16_t __attribute__((may_alias, aligned(1))) any_quarter;

/* Who sees what is stored behind this sees what was before: the compiler's business alone where
 * the processor keeps stores in their order by itself. */
static inline void in_order(void)
{
	atomic_thread_fence(memory_order_release);
}

/* Whoever looks meanwhile does so rightly. n: a power of two, at which `to` is aligned. */
__attribute__((no_sanitize("thread"))) static void place_part(uint8_t *to, const uint8_t *from,
							      size_t n)
{
	if (n == sizeof(word))
		*(volatile word *)(void *)to = *(const any_word *)from;
	else if (n == sizeof(half))
		*(volatile half *)(void *)to = *(const any_half *)from;
	else if (n == sizeof(quarter))
		*(volatile quarter *)(void *)to = *(const any_quarter *)from;
	else
		*(volatile uint8_t *)to = *from;
}

/* Up to where words are aligned, and what is behind the last whole one: as much at once as is. */
static size_t place_head(uint8_t *to, const uint8_t *from, size_t len)
{
	size_t done = 0;

	for (size_t n = 1; n < sizeof(word); n *= 2) {
		if (!((uintptr_t)(to + done) & n) || n > len - done)
			continue;
		place_part(to + done, from + done, n);
		in_order();
		done += n;
	}
	return done;
}

static void place_tail(uint8_t *to, const uint8_t *from, size_t len)
{
	size_t done = 0;

	for (; len - done > sizeof(word); done += sizeof(word))
		place_part(to + done, from + done, sizeof(word));
	for (size_t n = sizeof(word); n; n /= 2) {
		if (!((len - done) & n))
			continue;
		in_order();
		place_part(to + done, from + done, n);
		done += n;
	}
}

/* Whole words, one at least. */
static inline void place_words(uint8_t *to, const uint8_t *from, size_t len)
{
#pragma GCC unroll 8
	for (; len > sizeof(word); len -= sizeof(word), to += sizeof(word), from += sizeof(word))
		place_part(to, from, sizeof(word));
	in_order();
	place_part(to, from, sizeof(word));
}

/* Who waits for memory to change takes the last bytes for all of them, and may write there at once.
 * So these are stored last, upwards, and once: memcpy() may store a byte twice, and what was
 * written in between is lost. Who waits for a message takes it for all that were sent before, and
 * those may have come in the same batch, with no lock given back since. And aligned words are
 * stored whole, wherever the message begins and ends: memcpy() does so with whole ones. */
void mem_place(uint8_t *to, const uint8_t *from, size_t len)
{
	enum { LAST = 64 };
	size_t done, words;

	in_order();
	/* Most that is short. */
	if (len && len <= LAST && !(((uintptr_t)to | len) & (sizeof(word) - 1))) {
		place_words(to, from, len);
		return;
	}
	done = place_head(to, from, len);
	if (len - done > LAST) {
		words = (len - done - LAST) & ~(sizeof(word) - 1);
		memcpy(to + done, from + done, words);
		in_order();
		done += words;
	}
	place_tail(to + done, from + done, len - done);
}
