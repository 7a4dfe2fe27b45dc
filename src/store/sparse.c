/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "store/sparse.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* So many that are nobody's keep their pages: as many as commands of some size fill at once. */
#define SPARES_MAX 64

/* --- chunks ----------------------------------------------------------------------------------- */

/* Zeroes, with a user, or NULL. */
static struct sparse_chunk *chunk_create(struct sparse *m)
{
	struct sparse_chunk *c = malloc(sizeof(*c));
	void *p;

	if (!c)
		return NULL;
	p = mmap(NULL, SPARSE_CHUNK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED) {
		free(c);
		return NULL;
	}
	c->bytes = p;
	atomic_init(&c->users, 1);
	list_init(&c->spare);
	pthread_mutex_lock(&m->lock);
	list_push_tail(&m->all, &c->link);
	pthread_mutex_unlock(&m->lock);
	return c;
}

static void chunk_empty(struct sparse_chunk *c)
{
	if (madvise(c->bytes, SPARSE_CHUNK, MADV_DONTNEED) != 0)
		memset(c->bytes, 0, SPARSE_CHUNK); /* locked, if its process wants that */
}

static struct sparse_chunk *pop(struct list *l)
{
	struct list *first = list_pop_head(l);

	return first ? list_entry(first, struct sparse_chunk, spare) : NULL;
}

/* Of one kind that is nobody's; NULL: there is none. */
static struct sparse_chunk *take_spare(struct sparse *m, bool zeroes)
{
	struct sparse_chunk *c;

	pthread_mutex_lock(&m->lock);
	c = pop(zeroes ? &m->empty : &m->spare);
	if (c && !zeroes)
		m->spare_count--;
	pthread_mutex_unlock(&m->lock);
	if (c)
		atomic_store_explicit(&c->users, 1, memory_order_relaxed);
	return c;
}

static struct sparse_chunk *zeroed_chunk(struct sparse *m)
{
	struct sparse_chunk *c = take_spare(m, true);

	return c ? c : chunk_create(m);
}

struct sparse_chunk *sparse_spare(struct sparse *m)
{
	struct sparse_chunk *c = take_spare(m, false);

	return c ? c : zeroed_chunk(m);
}

/* A place among those that keep their pages, if there is one: it is counted from here on. */
static bool reserve(struct sparse *m)
{
	bool room;

	pthread_mutex_lock(&m->lock);
	room = m->spare_count < m->spares_max;
	m->spare_count += room;
	pthread_mutex_unlock(&m->lock);
	return room;
}

void sparse_put(struct sparse *m, struct sparse_chunk *c)
{
	bool kept;

	if (atomic_fetch_sub_explicit(&c->users, 1, memory_order_acq_rel) != 1)
		return;
	kept = reserve(m);
	if (!kept)
		chunk_empty(c);
	pthread_mutex_lock(&m->lock);
	list_push_head(kept ? &m->spare : &m->empty, &c->spare); /* it may be in the cache */
	pthread_mutex_unlock(&m->lock);
}

/* --- the table -------------------------------------------------------------------------------- */

static struct sparse_chunk *chunk_of(const struct sparse *m, uint64_t offset)
{
	return atomic_load_explicit(&m->slots[offset / SPARSE_CHUNK].chunk, memory_order_acquire);
}

static void put_in_place(struct sparse *m, uint64_t i, struct sparse_chunk *c)
{
	struct sparse_slot *s = &m->slots[i];
	struct sparse_chunk *before = s->chunk;

	atomic_store_explicit(&s->chunk, c, memory_order_release);
	atomic_store_explicit(&s->bytes, c ? c->bytes : NULL, memory_order_release);
	if (before)
		sparse_put(m, before);
}

static bool is_lent(const struct sparse_chunk *c)
{
	return atomic_load_explicit(&c->users, memory_order_acquire) > 1;
}

/* Who has made it may not have come to that yet. */
static void show_bytes(struct sparse_slot *s, const struct sparse_chunk *c)
{
	if (!atomic_load_explicit(&s->bytes, memory_order_relaxed))
		atomic_store_explicit(&s->bytes, c->bytes, memory_order_release);
}

/*
 * The chunk of a byte, of which so many from there on are to be written: nobody else looks at it.
 * Metadata of several stretches share one, and so two may want to be the first there.
 */
static struct sparse_chunk *chunk_to_write(struct sparse *m, uint64_t offset, uint64_t len)
{
	struct sparse_slot *s = &m->slots[offset / SPARSE_CHUNK];
	struct sparse_chunk *c = atomic_load_explicit(&s->chunk, memory_order_acquire), *made;

	if (c && !is_lent(c)) {
		show_bytes(s, c);
		return c;
	}
	made = c ? sparse_spare(m) : zeroed_chunk(m);
	if (!made)
		return NULL;
	if (c) {
		if (len < SPARSE_CHUNK)
			memcpy(made->bytes, c->bytes, SPARSE_CHUNK);
		put_in_place(m, offset / SPARSE_CHUNK, made);
		return made;
	}
	if (atomic_compare_exchange_strong(&s->chunk, &c, made))
		c = made;
	else
		sparse_put(m, made);
	show_bytes(s, c);
	return c;
}

/* No more than there could be chunks. */
static void set_spares(struct sparse *m)
{
	m->spares_max = (unsigned)min_of(m->count, (uint64_t)SPARES_MAX);
}

int sparse_init(struct sparse *m, uint64_t size)
{
	m->count = (size + SPARSE_CHUNK - 1) / SPARSE_CHUNK;
	m->slots = calloc(max_of(m->count, (uint64_t)1), sizeof(*m->slots));
	if (!m->slots)
		return -ENOMEM;
	pthread_mutex_init(&m->lock, NULL);
	list_init(&m->all);
	list_init(&m->spare);
	list_init(&m->empty);
	m->spare_count = 0;
	set_spares(m);
	return 0;
}

/* One beside the other: out of turn each would make a gap, of which a process may have so many. */
void sparse_fini(struct sparse *m)
{
	struct list *l;

	while ((l = list_pop_head(&m->all))) {
		struct sparse_chunk *c = list_entry(l, struct sparse_chunk, link);

		munmap(c->bytes, SPARSE_CHUNK);
		free(c);
	}
	pthread_mutex_destroy(&m->lock);
	free(m->slots);
}

/* --- what is done to it: calls for each stretch of a chunk that is touched ---------------------
 */

void sparse_read(const struct sparse *m, uint64_t offset, uint8_t *buf, uint64_t len)
{
	while (len) {
		const uint8_t *bytes = atomic_load_explicit(&m->slots[offset / SPARSE_CHUNK].bytes,
							    memory_order_acquire);
		uint64_t at = offset % SPARSE_CHUNK, n = min_of(len, SPARSE_CHUNK - at);

		if (bytes)
			memcpy(buf, bytes + at, n);
		else
			memset(buf, 0, n);
		offset += n;
		buf += n;
		len -= n;
	}
}

int sparse_write(struct sparse *m, uint64_t offset, const uint8_t *buf, uint64_t len)
{
	while (len) {
		uint64_t at = offset % SPARSE_CHUNK, n = min_of(len, SPARSE_CHUNK - at);
		struct sparse_chunk *c = chunk_to_write(m, offset, n);

		if (!c)
			return -ENOSPC;
		memcpy(c->bytes + at, buf, n);
		offset += n;
		buf += n;
		len -= n;
	}
	return 0;
}

int sparse_zero(struct sparse *m, uint64_t offset, uint64_t len)
{
	while (len) {
		struct sparse_chunk *c = chunk_of(m, offset);
		uint64_t at = offset % SPARSE_CHUNK, n = min_of(len, SPARSE_CHUNK - at);

		if (c && n == SPARSE_CHUNK && is_lent(c)) {
			put_in_place(m, offset / SPARSE_CHUNK, NULL);
		} else if (c && n == SPARSE_CHUNK) {
			chunk_empty(c);
		} else if (c) {
			c = chunk_to_write(m, offset, n);
			if (!c)
				return -ENOSPC;
			memset(c->bytes + at, 0, n);
		}
		offset += n;
		len -= n;
	}
	return 0;
}

struct sparse_chunk *sparse_lend(struct sparse *m, uint64_t offset)
{
	struct sparse_chunk *c = chunk_of(m, offset);

	if (c)
		atomic_fetch_add_explicit(&c->users, 1, memory_order_relaxed);
	return c;
}

void sparse_swap(struct sparse *m, uint64_t offset, struct sparse_chunk *filled)
{
	put_in_place(m, offset / SPARSE_CHUNK, filled);
}

/* --- its size --------------------------------------------------------------------------------- */

uint64_t sparse_chunks_for(const struct sparse *m, uint64_t size)
{
	return max_of((size + SPARSE_CHUNK - 1) / SPARSE_CHUNK, m->count);
}

void *sparse_move(struct sparse *m, void *table, uint64_t count)
{
	void *before = m->slots;

	for (uint64_t i = 0; i < m->count; i++)
		if (m->slots[i].chunk) /* the others stay untouched */
			((struct sparse_slot *)table)[i] = m->slots[i];
	m->slots = table;
	m->count = count;
	pthread_mutex_lock(&m->lock);
	set_spares(m);
	pthread_mutex_unlock(&m->lock);
	return before;
}

int sparse_clear_tail(struct sparse *m, uint64_t size)
{
	return sparse_zero(m, size, (SPARSE_CHUNK - size % SPARSE_CHUNK) % SPARSE_CHUNK);
}

void sparse_cut(struct sparse *m, uint64_t size)
{
	for (uint64_t i = (size + SPARSE_CHUNK - 1) / SPARSE_CHUNK; i < m->count; i++)
		if (m->slots[i].chunk)
			put_in_place(m, i, NULL);
}
