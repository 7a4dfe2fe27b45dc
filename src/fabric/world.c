/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What is to happen stands in wheels, each a row of slots: the first wheel's are a nanosecond long,
 * the slots of each further one as long as the whole wheel before it. When time comes to a slot,
 * what stands there moves on to the wheels before, in its order; so what stands in one slot of the
 * first wheel is in the order in which it was put down.
 */
#include "fabric/world.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "base/bytes.h"

#define SLOT_BITS 12
#define SLOTS	  (1u << SLOT_BITS)
#define WORDS	  (SLOTS / 64)
#define WHEELS	  4 /* 2^48 ns: three days */
#define HORIZON	  ((1ull << SLOT_BITS * WHEELS) - 1)

struct wheel {
	uint64_t words_used; /* of used: which are not 0 */
	uint64_t used[WORDS];
	struct list slot[SLOTS];
};

struct called { /* fabric_at() */
	struct happening happening;
	struct fabric *fabric;
	void (*happen)(void *ctx, void *what);
	void *ctx, *what;
	void (*never)(void *what);
	struct called *next; /* of those that are free */
};

struct fabric {
	struct prng prng;
	uint64_t now_ns, happened;
	uint64_t cursor; /* where the wheels stand: no later than now */
	struct called *free;
	struct wheel wheel[WHEELS];
};

static unsigned slot_of(uint64_t at, unsigned wheel)
{
	return (unsigned)(at >> SLOT_BITS * wheel) & (SLOTS - 1);
}

static void put(struct fabric *f, struct happening *h)
{
	uint64_t differs = h->at_ns ^ f->cursor;
	unsigned level = differs ? (63 - (unsigned)__builtin_clzll(differs)) / SLOT_BITS : 0;
	struct wheel *w;
	unsigned slot;

	assert(level < WHEELS); /* it is beyond any simulation */
	w = &f->wheel[level];
	slot = slot_of(h->at_ns, level);
	list_push_tail(&w->slot[slot], &h->node);
	w->used[slot / 64] |= 1ull << slot % 64;
	w->words_used |= 1ull << slot / 64;
}

void fabric_put(struct fabric *f, struct happening *h, uint64_t at_ns)
{
	list_remove(&h->node);
	at_ns = max_of(at_ns, f->now_ns);
	h->at_ns = min_of(at_ns, f->cursor | HORIZON);
	put(f, h);
}

/* The first slot from there on that has something; SLOTS: there is none. What was cancelled leaves
 * its slot behind as used. */
static unsigned next_slot(struct wheel *w, unsigned from)
{
	while (from < SLOTS) {
		uint64_t bits = w->used[from / 64] >> from % 64;
		unsigned slot;

		if (!bits) {
			unsigned word = from / 64 + 1;
			uint64_t words = word < WORDS ? w->words_used >> word : 0;

			if (!words)
				return SLOTS;
			from = (word + (unsigned)__builtin_ctzll(words)) * 64;
			continue;
		}
		slot = from + (unsigned)__builtin_ctzll(bits);
		if (!list_empty(&w->slot[slot]))
			return slot;
		w->used[slot / 64] &= ~(1ull << slot % 64);
		if (!w->used[slot / 64])
			w->words_used &= ~(1ull << slot / 64);
		from = slot;
	}
	return SLOTS;
}

/* Time has come to this slot of a wheel: what stands there goes to those before. */
static void turn(struct fabric *f, unsigned level, unsigned slot)
{
	struct list *head = &f->wheel[level].slot[slot], *n;

	while ((n = list_pop_head(head)))
		put(f, list_entry(n, struct happening, node));
}

/* What happens next, or NULL where that is not before `until`. */
static struct happening *next_before(struct fabric *f, uint64_t until)
{
	for (;;) {
		unsigned slot = next_slot(&f->wheel[0], slot_of(f->cursor, 0));
		unsigned level = 0;
		uint64_t at;

		if (slot < SLOTS) {
			struct list *n = f->wheel[0].slot[slot].next;
			struct happening *h = list_entry(n, struct happening, node);

			return h->at_ns < until ? h : NULL;
		}
		while (slot == SLOTS && ++level < WHEELS)
			slot = next_slot(&f->wheel[level], slot_of(f->cursor, level) + 1);
		if (slot == SLOTS)
			return NULL;
		at = f->cursor >> SLOT_BITS * (level + 1) << SLOT_BITS * (level + 1) |
		     (uint64_t)slot << SLOT_BITS * level;
		if (at >= until)
			return NULL;
		f->cursor = at;
		turn(f, level, slot);
	}
}

bool fabric_step(struct fabric *f, uint64_t until)
{
	struct happening *h = next_before(f, until);

	if (!h) {
		f->now_ns = max_of(f->now_ns, until);
		return false;
	}
	list_remove(&h->node);
	assert(h->at_ns >= f->now_ns);
	f->now_ns = f->cursor = h->at_ns;
	f->happened++;
	h->happen(h);
	return true;
}

/* ---- a call, for who has no happening of his own --------------------------------------------- */

static void calls(struct happening *h)
{
	struct called *c = container_of(h, struct called, happening), now = *c;

	c->next = c->fabric->free;
	c->fabric->free = c;
	now.happen(now.ctx, now.what);
}

void fabric_at(struct fabric *f, uint64_t at_ns, void (*happen)(void *ctx, void *what), void *ctx,
	       void *what, void (*never)(void *what))
{
	struct called *c = f->free;

	if (c)
		f->free = c->next;
	else
		c = malloc(sizeof(*c));
	if (!c)
		abort(); /* a simulation without memory has no result */
	*c = (struct called){
		.fabric = f, .happen = happen, .ctx = ctx, .what = what, .never = never};
	happening_init(&c->happening, calls);
	fabric_put(f, &c->happening, at_ns);
}

/* ---- its life -------------------------------------------------------------------------------- */

int fabric_create(struct fabric **ret, uint64_t seed)
{
	struct fabric *f = calloc(1, sizeof(*f));

	if (!f)
		return -ENOMEM;
	for (unsigned i = 0; i < WHEELS; i++)
		for (unsigned k = 0; k < SLOTS; k++)
			list_init(&f->wheel[i].slot[k]);
	f->prng.state = seed;
	f->now_ns = f->cursor = FABRIC_BEGIN_NS;
	*ret = f;
	return 0;
}

static void forget(struct happening *h)
{
	struct called *c = container_of(h, struct called, happening);

	if (h->happen != calls)
		return; /* it is another's memory */
	if (c->never)
		c->never(c->what);
	free(c);
}

void fabric_destroy(struct fabric *f)
{
	struct called *c;
	struct list *n;

	for (unsigned i = 0; i < WHEELS; i++)
		for (unsigned k = 0; k < SLOTS; k++)
			while ((n = list_pop_head(&f->wheel[i].slot[k])))
				forget(list_entry(n, struct happening, node));
	while ((c = f->free)) {
		f->free = c->next;
		free(c);
	}
	free(f);
}

struct prng *fabric_prng(struct fabric *f)
{
	return &f->prng;
}

uint64_t fabric_now(const struct fabric *f)
{
	return f->now_ns;
}

uint64_t fabric_happened(const struct fabric *f)
{
	return f->happened;
}
