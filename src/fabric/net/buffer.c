/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "fabric/net/buffer.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "base/bytes.h"

static uint64_t lossless_count(const struct buffer_nature *n)
{
	return (uint64_t)__builtin_popcount(n->lossless);
}

int buffer_init(struct buffer *b, const struct buffer_nature *n, unsigned ports)
{
	uint64_t own = ports * (PRIORITIES * n->reserve + lossless_count(n) * n->headroom);

	if (own >= n->bytes)
		return -ENOSPC;
	*b = (struct buffer){.nature = *n, .shared = n->bytes - own, .ports = ports};
	b->share = calloc(ports, sizeof(*b->share));
	b->queued = calloc(ports, sizeof(*b->queued));
	if (b->share && b->queued)
		return 0;
	buffer_fini(b);
	return -ENOMEM;
}

void buffer_fini(struct buffer *b)
{
	free(b->share);
	free(b->queued);
	*b = (struct buffer){0};
}

static bool is_lossless(const struct buffer *b, unsigned priority)
{
	return b->nature.lossless >> priority & 1;
}

static uint64_t over_reserve(const struct buffer *b, uint64_t used)
{
	return used > b->nature.reserve ? used - b->nature.reserve : 0;
}

static double free_bytes(const struct buffer *b)
{
	return b->shared > b->shared_used ? (double)(b->shared - b->shared_used) : 0;
}

static double threshold(const struct buffer *b)
{
	return b->nature.alpha * free_bytes(b);
}

/* Takes so much of the reserve first, then of the shared part. */
static void use(struct buffer *b, struct buffer_share *s, uint64_t bytes)
{
	uint64_t before = over_reserve(b, s->used);

	s->used += bytes;
	b->shared_used += over_reserve(b, s->used) - before;
}

static bool fits_shared(const struct buffer *b, const struct buffer_share *s, uint64_t bytes)
{
	uint64_t more = over_reserve(b, s->used + bytes) - over_reserve(b, s->used);

	return b->shared_used + more <= b->shared;
}

bool buffer_take(struct buffer *b, struct frame *f, unsigned from, unsigned to)
{
	struct buffer_share *s = &b->share[from][f->priority];
	uint64_t *queued = &b->queued[to][f->priority];

	if (is_lossless(b, f->priority)) {
		bool high = (double)over_reserve(b, s->used + f->bytes) > threshold(b);

		if (s->used + f->bytes > b->nature.reserve &&
		    (high || s->headroom || !fits_shared(b, s, f->bytes))) {
			if (s->headroom + f->bytes > b->nature.headroom)
				return false;
			s->headroom += f->bytes;
			*queued += f->bytes;
			return true;
		}
	} else if ((double)(*queued + f->bytes) > b->nature.alpha_lossy * free_bytes(b) ||
		   !fits_shared(b, s, f->bytes)) {
		if (s->used + f->bytes > b->nature.reserve)
			return false;
	}
	use(b, s, f->bytes);
	*queued += f->bytes;
	return true;
}

void buffer_leave(struct buffer *b, struct frame *f, unsigned from, unsigned to)
{
	struct buffer_share *s = &b->share[from][f->priority];
	uint64_t rest = f->bytes, before;

	assert(b->queued[to][f->priority] >= f->bytes);
	b->queued[to][f->priority] -= f->bytes;
	/* Whoever leaves, the headroom is what is given back first: it is there for the next. */
	if (s->headroom) {
		uint64_t some = min_of(rest, s->headroom);

		s->headroom -= some;
		rest -= some;
	}
	before = over_reserve(b, s->used);
	assert(s->used >= rest);
	s->used -= rest;
	b->shared_used -= before - over_reserve(b, s->used);
}

bool buffer_is_high(const struct buffer *b, unsigned from, unsigned priority)
{
	const struct buffer_share *s = &b->share[from][priority];

	return is_lossless(b, priority) &&
	       (s->headroom ||
		(s->used > b->nature.reserve && (double)over_reserve(b, s->used) >= threshold(b)));
}

bool buffer_is_low(const struct buffer *b, unsigned from, unsigned priority)
{
	const struct buffer_share *s = &b->share[from][priority];

	return !s->headroom &&
	       (s->used <= b->nature.reserve ||
		(double)(over_reserve(b, s->used) + b->nature.resume_below) <= threshold(b));
}

bool buffer_is_over(const struct buffer *b, unsigned from, unsigned priority)
{
	return b->share[from][priority].used > b->nature.reserve;
}

bool buffer_is_empty(const struct buffer *b)
{
	for (unsigned i = 0; i < b->ports; i++)
		for (unsigned p = 0; p < PRIORITIES; p++)
			if (b->share[i][p].used || b->share[i][p].headroom || b->queued[i][p])
				return false;
	return !b->shared_used;
}
