/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Who of several threads may touch which blocks. An operation claims its blocks before it begins
 * and gives them back when it has ended: a block is claimed by one who writes, or by any number
 * that read. Who finds one claimed waits in a line and has what he claimed before; all claim in the
 * order of places, so that no two wait for each other. No thread waits: who gives back a block
 * claims it for who is next, and tells the engine of that one.
 *
 * Blocks have a place by their number in a table that is smaller than a file: two that lie BLOCKS
 * apart count as one, which costs a wait and is never wrong.
 *
 * A stretch of the table has a lock, held while blocks are claimed or given back there. It is taken
 * before that of what is finished. Each block has a line of its own: a host may have a hundred
 * thousand in it, and nobody looks further than at the first.
 */
#include <pthread.h>
#include <stdlib.h>

#include "store/internal.h"

#define STRETCH_BLOCKS 16u
#define STRETCH_COUNT  1024u
#define BLOCKS	       (STRETCH_BLOCKS * STRETCH_COUNT)
#define WRITER	       (-1)

struct claimed_block {
	int32_t holders;  /* those who read, or WRITER */
	struct list line; /* who waits for it, in the order they came; nobody ever has: zeroes */
};

struct claims {
	unsigned shift; /* of a block */
	struct claimed_stretch {
		pthread_mutex_t
			lock; /* PTHREAD_MUTEX_INITIALIZER is zeroes: pages of no use stay so */
		struct claimed_block blocks[STRETCH_BLOCKS];
	} stretches[STRETCH_COUNT];
};

struct claims *claims_create(uint32_t block_size)
{
	struct claims *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->shift = (unsigned)__builtin_ctz(block_size);
	return c;
}

void claims_destroy(struct claims *c)
{
	free(c);
}

/* --- places ----------------------------------------------------------------------------------- */

/* Those of an operation, from first to end and, of one that goes over the end of the table, from
 * its beginning to wrapped. */
struct places {
	uint32_t first, count, wrapped;
};

static struct places places_of(const struct claims *c, const struct store_op *op)
{
	uint64_t from = op->offset >> c->shift, count = op->len >> c->shift;
	struct places p = {.first = (uint32_t)(from % BLOCKS),
			   .count = (uint32_t)min_of(count, (uint64_t)BLOCKS)};

	if (p.count > BLOCKS - p.first)
		p.wrapped = p.count - (BLOCKS - p.first);
	return p;
}

/* In ascending order. */
static uint32_t place(const struct places *p, uint32_t n)
{
	return n < p->wrapped ? n : p->first + (n - p->wrapped);
}

static struct claimed_stretch *stretch_of(struct claims *c, const struct places *p, uint32_t n)
{
	return n < p->count ? &c->stretches[place(p, n) / STRETCH_BLOCKS] : NULL;
}

static struct claimed_block *block_of(struct claimed_stretch *s, const struct places *p, uint32_t n)
{
	return &s->blocks[place(p, n) % STRETCH_BLOCKS];
}

/* --- claims: under the lock of the stretch -----------------------------------------------------
 */

static bool hold(struct claimed_block *b, const struct store_op *op)
{
	const bool read = op->opcode == STORE_READ;

	if (read ? b->holders == WRITER : b->holders != 0)
		return false;
	b->holders += read ? 1 : WRITER;
	return true;
}

static void let_go(struct claimed_block *b, const struct store_op *op)
{
	b->holders -= op->opcode == STORE_READ ? 1 : WRITER;
}

static bool is_awaited(const struct claimed_block *b)
{
	return b->line.next && !list_empty(&b->line);
}

static void line_up(struct claimed_block *b, struct store_op *op)
{
	if (!b->line.next)
		list_init(&b->line);
	list_push_tail(&b->line, &op->order.link);
}

/* Who waits for it has it as far as may be; where one may not, nobody who came later. */
static void serve_line(struct claimed_block *b)
{
	while (is_awaited(b)) {
		struct store_op *w = list_entry(b->line.next, struct store_op, order.link);

		if (!hold(b, w))
			return;
		list_remove(&w->order.link);
		w->result = 0;
		finished_add(engine_finished(engine_store_of(w->store)->engine), w);
	}
}

/* --- operations: of the thread whose they are ---------------------------------------------------
 */

bool claims_take(struct claims *c, struct store_op *op)
{
	const struct places p = places_of(c, op);
	struct claimed_stretch *s;

	if (op->claim_waits)
		op->claimed++;
	op->claim_waits = false;
	while ((s = stretch_of(c, &p, op->claimed))) {
		pthread_mutex_lock(&s->lock);
		do {
			struct claimed_block *b = block_of(s, &p, op->claimed);

			if (is_awaited(b) || !hold(b, op)) {
				op->claim_waits = true;
				line_up(b, op);
				break;
			}
			op->claimed++;
		} while (stretch_of(c, &p, op->claimed) == s);
		pthread_mutex_unlock(&s->lock);
		if (op->claim_waits)
			return false;
	}
	return true;
}

void claims_give(struct claims *c, struct store_op *op)
{
	const struct places p = places_of(c, op);
	struct claimed_stretch *s;

	for (uint32_t n = 0; n < op->claimed;) {
		s = stretch_of(c, &p, n);
		pthread_mutex_lock(&s->lock);
		do {
			struct claimed_block *b = block_of(s, &p, n++);

			let_go(b, op);
			serve_line(b);
		} while (n < op->claimed && stretch_of(c, &p, n) == s);
		pthread_mutex_unlock(&s->lock);
	}
}

bool claims_cancel(struct claims *c, struct store_op *op)
{
	const struct places p = places_of(c, op);
	struct claimed_stretch *s = stretch_of(c, &p, op->claimed);
	bool waits;

	if (!op->claim_waits || !s)
		return false;
	pthread_mutex_lock(&s->lock);
	waits = !list_empty(&op->order.link);
	list_remove(&op->order.link);
	if (waits)
		serve_line(block_of(s, &p, op->claimed));
	pthread_mutex_unlock(&s->lock);
	if (!waits) /* it has been told */
		return false;
	op->claim_waits = false;
	claims_give(c, op);
	return true;
}
