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
 * before that of what is finished.
 */
#include <pthread.h>
#include <stdlib.h>

#include "store/internal.h"

#define STRETCH_BLOCKS 16u
#define STRETCH_COUNT  1024u
#define BLOCKS	       (STRETCH_BLOCKS * STRETCH_COUNT)
#define WRITER	       (-1)

struct claims {
	unsigned shift; /* of a block */
	struct claimed_stretch {
		pthread_mutex_t lock;
		struct list waiting;		 /* for a block here, in the order they came */
		int32_t holders[STRETCH_BLOCKS]; /* those who read, or WRITER */
	} stretches[STRETCH_COUNT];
};

struct claims *claims_create(uint32_t block_size)
{
	struct claims *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->shift = (unsigned)__builtin_ctz(block_size);
	for (unsigned i = 0; i < STRETCH_COUNT; i++) {
		pthread_mutex_init(&c->stretches[i].lock, NULL);
		list_init(&c->stretches[i].waiting);
	}
	return c;
}

void claims_destroy(struct claims *c)
{
	for (unsigned i = 0; c && i < STRETCH_COUNT; i++)
		pthread_mutex_destroy(&c->stretches[i].lock);
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

static int32_t *holders_of(struct claimed_stretch *s, uint32_t at)
{
	return &s->holders[at % STRETCH_BLOCKS];
}

/* --- claims: under the lock of the stretch -----------------------------------------------------
 */

static bool hold(int32_t *holders, const struct store_op *op)
{
	const bool read = op->opcode == STORE_READ;

	if (read ? *holders == WRITER : *holders != 0)
		return false;
	*holders += read ? 1 : WRITER;
	return true;
}

static void let_go(int32_t *holders, const struct store_op *op)
{
	*holders -= op->opcode == STORE_READ ? 1 : WRITER;
}

/* The block that an operation which is in line waits for. */
static uint32_t awaited(const struct claims *c, const struct store_op *op)
{
	const struct places p = places_of(c, op);

	return place(&p, op->claimed);
}

static bool is_awaited(const struct claims *c, const struct claimed_stretch *s, uint32_t at)
{
	list_for_each(w, &s->waiting, const struct store_op, order.link)
		if (awaited(c, w) == at)
			return true;
	return false;
}

/* Who waits for a block that is free now has it; of one that is not, nobody who came later. */
static void serve_line(const struct claims *c, struct claimed_stretch *s)
{
	uint32_t passed_by = 0;

	list_for_each(w, &s->waiting, struct store_op, order.link) {
		const uint32_t at = awaited(c, w), bit = 1u << at % STRETCH_BLOCKS;

		if (!(passed_by & bit) && hold(holders_of(s, at), w)) {
			list_remove(&w->order.link);
			w->result = 0;
			finished_add(engine_finished(engine_store_of(w->store)->engine), w);
		} else {
			passed_by |= bit;
		}
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
			const uint32_t at = place(&p, op->claimed);

			if (is_awaited(c, s, at) || !hold(holders_of(s, at), op)) {
				op->claim_waits = true;
				list_push_tail(&s->waiting, &op->order.link);
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
		do
			let_go(holders_of(s, place(&p, n++)), op);
		while (n < op->claimed && stretch_of(c, &p, n) == s);
		if (!list_empty(&s->waiting))
			serve_line(c, s);
		pthread_mutex_unlock(&s->lock);
	}
}

bool claims_cancel(struct claims *c, struct store_op *op)
{
	const struct places p = places_of(c, op);
	struct claimed_stretch *s = stretch_of(c, &p, op->claimed);
	bool waits = false;

	if (!op->claim_waits || !s)
		return false;
	pthread_mutex_lock(&s->lock);
	list_for_each(w, &s->waiting, struct store_op, order.link)
		if (w == op) {
			list_remove(&w->order.link);
			waits = true;
			break;
		}
	if (waits)
		serve_line(c, s);
	pthread_mutex_unlock(&s->lock);
	if (!waits) /* it has been told */
		return false;
	op->claim_waits = false;
	claims_give(c, op);
	return true;
}
