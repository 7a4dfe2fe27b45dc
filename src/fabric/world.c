/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What is to happen stands in a heap, ordered by time and then by its number. */
#include "fabric/world.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "base/bytes.h"

#define ROOM_FIRST 256

struct event {
	uint64_t at_ns, serial;
	void (*happen)(void *ctx, void *what);
	void *ctx, *what;
	void (*never)(void *what);
};

struct fabric {
	struct prng prng;
	uint64_t now_ns, serial;
	struct event *heap;
	size_t count, room;
};

static bool before(const struct event *a, const struct event *b)
{
	return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->serial < b->serial;
}

void fabric_at(struct fabric *f, uint64_t at_ns, void (*happen)(void *ctx, void *what), void *ctx,
	       void *what, void (*never)(void *what))
{
	struct event e = {max_of(at_ns, f->now_ns), f->serial++, happen, ctx, what, never};
	size_t i;

	if (f->count == f->room) {
		f->room = f->room ? f->room * 2 : ROOM_FIRST;
		f->heap = realloc(f->heap, f->room * sizeof(*f->heap));
		if (!f->heap)
			abort(); /* a simulation without memory has no result */
	}
	for (i = f->count++; i && before(&e, &f->heap[(i - 1) / 2]); i = (i - 1) / 2)
		f->heap[i] = f->heap[(i - 1) / 2];
	f->heap[i] = e;
}

static struct event take_first(struct fabric *f)
{
	struct event first = f->heap[0], last = f->heap[--f->count];
	size_t i = 0;

	for (;;) {
		size_t c = 2 * i + 1;

		if (c + 1 < f->count && before(&f->heap[c + 1], &f->heap[c]))
			c++;
		if (c >= f->count || !before(&f->heap[c], &last))
			break;
		f->heap[i] = f->heap[c];
		i = c;
	}
	f->heap[i] = last;
	return first;
}

bool fabric_step(struct fabric *f, uint64_t until)
{
	struct event e;

	if (f->count == 0 || f->heap[0].at_ns >= until) {
		f->now_ns = max_of(f->now_ns, until);
		return false;
	}
	e = take_first(f);
	assert(e.at_ns >= f->now_ns);
	f->now_ns = e.at_ns;
	e.happen(e.ctx, e.what);
	return true;
}

int fabric_create(struct fabric **ret, uint64_t seed)
{
	struct fabric *f = calloc(1, sizeof(*f));

	if (!f)
		return -ENOMEM;
	f->prng.state = seed;
	f->now_ns = FABRIC_BEGIN_NS;
	*ret = f;
	return 0;
}

void fabric_destroy(struct fabric *f)
{
	for (size_t i = 0; i < f->count; i++)
		if (f->heap[i].never)
			f->heap[i].never(f->heap[i].what);
	free(f->heap);
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
