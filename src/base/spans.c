/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "base/spans.h"

#include <assert.h>
#include <stddef.h>

#include "base/compiler.h"

static bool sorts_before(const struct span *a, const struct span *b)
{
	return a->from != b->from ? a->from < b->from : a->turn < b->turn;
}

static uint32_t height(const struct span *t)
{
	return t ? t->height : 0;
}

static void sum_up(struct span *t)
{
	const struct span *below[] = {t->left, t->right};

	t->height = 1 + max_of(height(t->left), height(t->right));
	t->reach = t->end;
	t->first = t->last = t->turn;
	for (size_t i = 0; i < ARRAY_SIZE(below); i++) {
		if (!below[i])
			continue;
		t->reach = max_of(t->reach, below[i]->reach);
		t->first = min_of(t->first, below[i]->first);
		t->last = max_of(t->last, below[i]->last);
	}
}

static struct span *rotate_right(struct span *t)
{
	struct span *top = t->left;

	t->left = top->right;
	top->right = t;
	sum_up(t);
	sum_up(top);
	return top;
}

static struct span *rotate_left(struct span *t)
{
	struct span *top = t->right;

	t->right = top->left;
	top->left = t;
	sum_up(t);
	sum_up(top);
	return top;
}

/* One of the two sides is at most two higher than the other. */
static struct span *balanced(struct span *t)
{
	if (height(t->left) > height(t->right) + 1) {
		if (height(t->left->left) < height(t->left->right))
			t->left = rotate_left(t->left);
		return rotate_right(t);
	}
	if (height(t->right) > height(t->left) + 1) {
		if (height(t->right->right) < height(t->right->left))
			t->right = rotate_right(t->right);
		return rotate_left(t);
	}
	sum_up(t);
	return t;
}

static struct span *with(struct span *t, struct span *n)
{
	if (!t)
		return n;
	if (sorts_before(n, t))
		t->left = with(t->left, n);
	else
		t->right = with(t->right, n);
	return balanced(t);
}

static struct span *without_first(struct span *t, struct span **ret_first)
{
	if (!t->left) {
		*ret_first = t;
		return t->right;
	}
	t->left = without_first(t->left, ret_first);
	return balanced(t);
}

static struct span *without(struct span *t, const struct span *n)
{
	struct span *next, *right;

	assert(t);
	if (t == n && !t->right)
		return t->left;
	if (t == n) {
		right = without_first(t->right, &next);
		next->left = t->left;
		next->right = right;
		return balanced(next);
	}
	if (sorts_before(n, t))
		t->left = without(t->left, n);
	else
		t->right = without(t->right, n);
	return balanced(t);
}

void spans_add(struct spans *s, struct span *n)
{
	assert(n->from < n->end && !span_is_in(n));
	n->left = n->right = NULL;
	sum_up(n);
	s->root = with(s->root, n);
}

void spans_remove(struct spans *s, struct span *n)
{
	s->root = without(s->root, n);
	n->height = 0;
}

static const struct span *better(const struct span *t, const struct span *n,
				 const struct span *best)
{
	bool overlaps = t->from < n->end && n->from < t->end;

	return overlaps && t->turn < n->turn && (!best || t->turn > best->turn) ? t : best;
}

/* The side with the latest first: what it has makes the other one needless, mostly. */
static const struct span *look(const struct span *t, const struct span *n, const struct span *best)
{
	bool left_first;

	if (!t || t->reach <= n->from || t->first >= n->turn || (best && t->last <= best->turn))
		return best;
	if (t->from >= n->end)
		return look(t->left, n, best);
	best = better(t, n, best);
	left_first = t->left && (!t->right || t->left->last > t->right->last);
	best = look(left_first ? t->left : t->right, n, best);
	return look(left_first ? t->right : t->left, n, best);
}

struct span *spans_before(const struct spans *s, const struct span *n)
{
	return (struct span *)look(s->root, n, NULL);
}
