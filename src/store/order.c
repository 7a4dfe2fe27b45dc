/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Who touches bytes that another writes waits for him, and all others for nobody. They go on in the
 * order in which they came. Where nothing is written nobody looks.
 */
#include "store/internal.h"

static bool writes(const struct store_op *op)
{
	return op->opcode != STORE_READ;
}

static bool conflict(const struct store_op *a, const struct store_op *b)
{
	return (writes(a) || writes(b)) && a->offset < b->offset + b->len &&
	       b->offset < a->offset + a->len;
}

static bool must_wait(const struct order *o, const struct store_op *op)
{
	list_for_each(b, &o->begun, const struct store_op, order)
		if (conflict(b, op))
			return true;
	list_for_each(w, &o->waiting, const struct store_op, order) {
		if (w == op)
			break;
		if (conflict(w, op))
			return true;
	}
	return false;
}

void order_init(struct order *o)
{
	list_init(&o->begun);
	list_init(&o->waiting);
	o->writers = 0;
}

bool order_begin(struct order *o, struct store_op *op)
{
	bool waits = (writes(op) || o->writers) && must_wait(o, op);

	o->writers += writes(op);
	list_push_tail(waits ? &o->waiting : &o->begun, &op->order);
	return !waits;
}

static struct store_op *first_ready(const struct order *o)
{
	list_for_each(w, &o->waiting, struct store_op, order)
		if (!must_wait(o, w))
			return w;
	return NULL;
}

void order_end(struct order *o, struct store_op *op, void (*start)(struct store_op *op))
{
	struct store_op *next;

	list_remove(&op->order);
	o->writers -= writes(op);
	while ((next = first_ready(o))) {
		list_remove(&next->order);
		list_push_tail(&o->begun, &next->order);
		start(next);
	}
}

bool order_waits(const struct order *o, const struct store_op *op)
{
	list_for_each(w, &o->waiting, const struct store_op, order)
		if (w == op)
			return true;
	return false;
}
