/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Who touches bytes that another writes waits for him, and all others for nobody. They go on in the
 * order in which they came. Where nothing is written nobody looks.
 *
 * A host may have a hundred thousand under way, on whatever bytes it likes, so nobody is ever asked
 * who waits for what. One that has to wait does so behind one other: of those that came before and
 * are in its way the latest, which mostly ends last. When that one has ended it looks again.
 */
#include "store/internal.h"

static bool writes(const struct store_op *op)
{
	return op->opcode != STORE_READ;
}

static struct store_op *op_of(struct span *s)
{
	return s ? container_of(s, struct store_op, order.span) : NULL;
}

static struct store_op *latest_in_the_way(const struct order *o, const struct store_op *op)
{
	struct span *writer = spans_before(&o->writers, &op->order.span);
	struct span *reader = writes(op) ? spans_before(&o->readers, &op->order.span) : NULL;

	if (!reader || (writer && writer->turn > reader->turn))
		return op_of(writer);
	return op_of(reader);
}

static bool must_wait(const struct order *o, struct store_op *op)
{
	struct store_op *other = latest_in_the_way(o, op);

	op->order.waits = other != NULL;
	if (other)
		list_push_tail(&other->order.behind, &op->order.link);
	return other != NULL;
}

void order_init(struct order *o)
{
	*o = (struct order){0};
	list_init(&o->alone);
	list_init(&o->ready);
}

/* Reads that came when nothing was written are among the others from here on. */
static void gather_readers(struct order *o)
{
	struct list *l;

	while ((l = list_pop_head(&o->alone)))
		spans_add(&o->readers, &list_entry(l, struct store_op, order.link)->order.span);
}

bool order_begin(struct order *o, struct store_op *op)
{
	op->order = (struct store_order){
		.span = {.from = op->offset, .end = op->offset + op->len, .turn = o->turns++}};
	list_init(&op->order.link);
	list_init(&op->order.behind);
	if (!writes(op) && spans_empty(&o->writers)) {
		list_push_tail(&o->alone, &op->order.link);
		return true;
	}
	if (writes(op))
		gather_readers(o);
	spans_add(writes(op) ? &o->writers : &o->readers, &op->order.span);
	return !must_wait(o, op);
}

/* What is started may end at once, and come here again: it is not for that to start the next one,
 * or the stack would be as deep as they are many. */
static void start_ready(struct order *o, void (*start)(struct store_op *op))
{
	struct list *l;

	if (o->starting)
		return;
	o->starting = true;
	while ((l = list_pop_head(&o->ready))) {
		struct store_op *next = list_entry(l, struct store_op, order.link);

		next->order.waits = false;
		start(next);
	}
	o->starting = false;
}

void order_end(struct order *o, struct store_op *op, void (*start)(struct store_op *op))
{
	struct list *l;

	list_remove(&op->order.link);
	op->order.waits = false;
	if (span_is_in(&op->order.span))
		spans_remove(writes(op) ? &o->writers : &o->readers, &op->order.span);
	while ((l = list_pop_head(&op->order.behind))) {
		struct store_op *next = list_entry(l, struct store_op, order.link);

		if (must_wait(o, next))
			continue;
		next->order.waits = true; /* until it is its turn */
		list_push_tail(&o->ready, l);
	}
	start_ready(o, start);
}

bool order_waits(const struct store_op *op)
{
	return op->order.waits;
}
