/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "base/heap.h"

#include <assert.h>
#include <stddef.h>

static struct timer *meld(struct timer *a, struct timer *b)
{
	struct timer *t;

	if (!a)
		return b;
	if (!b)
		return a;
	if (b->deadline_ns < a->deadline_ns) {
		t = a;
		a = b;
		b = t;
	}
	b->prev = a;
	b->sibling = a->child;
	if (a->child)
		a->child->prev = b;
	a->child = b;
	return a;
}

/* Two passes over a sibling list: meld pairs left to right, then the results right to left. */
static struct timer *meld_siblings(struct timer *first)
{
	struct timer *pairs = NULL, *root = NULL;

	while (first) {
		struct timer *a = first, *b = a->sibling, *m;

		first = b ? b->sibling : NULL;
		a->sibling = a->prev = NULL;
		if (b)
			b->sibling = b->prev = NULL;
		m = meld(a, b);
		m->sibling = pairs;
		pairs = m;
	}
	while (pairs) {
		struct timer *next = pairs->sibling;

		pairs->sibling = NULL;
		root = meld(root, pairs);
		pairs = next;
	}
	return root;
}

void timer_cancel(struct timer_heap *h, struct timer *t)
{
	struct timer *sub;

	if (!t->armed)
		return;
	sub = meld_siblings(t->child);
	if (t == h->root) {
		h->root = sub;
	} else {
		if (t->prev->child == t)
			t->prev->child = t->sibling;
		else
			t->prev->sibling = t->sibling;
		if (t->sibling)
			t->sibling->prev = t->prev;
		h->root = meld(h->root, sub);
	}
	t->child = t->sibling = t->prev = NULL;
	t->armed = false;
}

void timer_arm(struct timer_heap *h, struct timer *t, uint64_t deadline_ns)
{
	timer_cancel(h, t);
	t->deadline_ns = deadline_ns;
	t->child = t->sibling = t->prev = NULL;
	t->armed = true;
	h->root = meld(h->root, t);
	assert(!h->root->sibling && !h->root->prev);
}

struct timer *timer_pop_due(struct timer_heap *h, uint64_t now_ns)
{
	struct timer *t = h->root;

	if (!t || t->deadline_ns > now_ns)
		return NULL;
	timer_cancel(h, t);
	return t;
}
