/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Spans of bytes that may overlap, and their places in a line: an intrusive balanced tree (AVL)
 * by where they begin, in which each knows how far those below it reach and when they came. No
 * allocation. Adding and removing are O(log n); looking for one that overlaps is mostly, and never
 * more than O(log n) and all that do.
 */
#ifndef WEFT_BASE_SPANS_H
#define WEFT_BASE_SPANS_H

#include <stdbool.h>
#include <stdint.h>

struct span {
	uint64_t from, end; /* from < end */
	uint64_t turn;	    /* its place in the line, which no other has */
	struct span *left, *right;
	uint64_t reach;	      /* the furthest end of its own and of those below */
	uint64_t first, last; /* the earliest and latest turn of these */
	uint32_t height;      /* 0: it is in no tree */
};

struct spans {
	struct span *root;
};

void spans_add(struct spans *s, struct span *n);
void spans_remove(struct spans *s, struct span *n);
/* Of those that overlap n and have an earlier turn the one with the latest; NULL: there is none. */
struct span *spans_before(const struct spans *s, const struct span *n);

static inline bool spans_empty(const struct spans *s)
{
	return !s->root;
}

static inline bool span_is_in(const struct span *n)
{
	return n->height != 0;
}

#endif
