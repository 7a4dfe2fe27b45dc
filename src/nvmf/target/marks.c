/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The blocks of a namespace that are marked: a table sorted by block, of words of 64 blocks each.
 * To take marks away never takes more of it; to set them may find no room. The memory is there
 * while any are set.
 */
#include <errno.h>

#include "nvmf/target/internal.h"

#define WORD_BLOCKS 64

struct target_marks {
	uint32_t count;
	struct mark_word {
		uint64_t at; /* the first block, in words */
		uint64_t bits;
	} words[TARGET_MARKS_MAX];
};

/* The first that is not before `at`. */
static uint32_t find(const struct target_marks *m, uint64_t at)
{
	uint32_t low = 0, high = m->count;

	while (low < high) {
		uint32_t mid = (low + high) / 2;

		if (m->words[mid].at < at)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

/* Of the word `at`, the bits of the blocks from slba to before end. */
static uint64_t bits_of(uint64_t at, uint64_t slba, uint64_t end)
{
	uint64_t first = at * WORD_BLOCKS, bits = UINT64_MAX;

	if (slba > first)
		bits &= UINT64_MAX << (slba - first);
	if (end < first + WORD_BLOCKS)
		bits &= UINT64_MAX >> (first + WORD_BLOCKS - end);
	return bits;
}

void marks_forget(struct target_ns *ns, struct target *t)
{
	if (ns->marks)
		t->env.free(t->env.ctx, ns->marks);
	ns->marks = NULL;
	atomic_store_explicit(&ns->marked, false, memory_order_release);
}

bool marks_first(const struct target_ns *ns, uint64_t slba, uint64_t nlb, uint64_t *ret)
{
	const struct target_marks *m = ns->marks;
	uint64_t end = slba + nlb;

	for (uint32_t i = m ? find(m, slba / WORD_BLOCKS) : 0;
	     m && i < m->count && m->words[i].at * WORD_BLOCKS < end; i++) {
		uint64_t bits = m->words[i].bits & bits_of(m->words[i].at, slba, end);

		if (!bits)
			continue;
		*ret = m->words[i].at * WORD_BLOCKS + (uint64_t)__builtin_ctzll(bits);
		return true;
	}
	return false;
}

void marks_clear(struct target_ns *ns, struct target *t, uint64_t slba, uint64_t nlb)
{
	struct target_marks *m = ns->marks;
	uint64_t end = slba + nlb;
	uint32_t to;

	if (!m)
		return;
	to = find(m, slba / WORD_BLOCKS);
	for (uint32_t i = to; i < m->count; i++) {
		struct mark_word w = m->words[i];

		if (w.at * WORD_BLOCKS < end)
			w.bits &= ~bits_of(w.at, slba, end);
		if (w.bits)
			m->words[to++] = w;
	}
	m->count = to;
	if (!to)
		marks_forget(ns, t);
}

static uint32_t words_missing(const struct target_marks *m, uint64_t first, uint64_t last)
{
	uint32_t at = find(m, first), there = find(m, last + 1) - at;

	return (uint32_t)(last - first + 1) - there;
}

static void set(struct target_marks *m, uint64_t slba, uint64_t end)
{
	uint64_t first = slba / WORD_BLOCKS, last = (end - 1) / WORD_BLOCKS;
	uint32_t from = find(m, first), behind = find(m, last + 1);
	uint32_t missing = words_missing(m, first, last);
	struct mark_word *w = m->words;
	uint32_t old = behind;

	memmove(w + behind + missing, w + behind, (m->count - behind) * sizeof(*w));
	m->count += missing;
	/* From the last to the first: what is there moves up, and what is not comes in between. */
	for (uint64_t at = last + 1; at-- > first;) {
		struct mark_word *to = w + from + (at - first);

		*to = old > from && w[old - 1].at == at ? w[--old] : (struct mark_word){.at = at};
		to->bits |= bits_of(at, slba, end);
	}
}

int marks_set(struct target_ns *ns, struct target *t, uint64_t slba, uint64_t nlb)
{
	uint64_t end = slba + nlb;

	if (!ns->marks)
		ns->marks = t->env.alloc(t->env.ctx, sizeof(*ns->marks));
	if (!ns->marks)
		return -ENOMEM;
	if (words_missing(ns->marks, slba / WORD_BLOCKS, (end - 1) / WORD_BLOCKS) >
	    TARGET_MARKS_MAX - ns->marks->count)
		return -ENOSPC;
	set(ns->marks, slba, end);
	atomic_store_explicit(&ns->marked, true, memory_order_release);
	return 0;
}
