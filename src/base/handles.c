/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "base/handles.h"

#include <assert.h>
#include <errno.h>

static uint32_t gen_mask(const struct handles *s)
{
	return (1u << s->gen_bits) - 1;
}

static uint32_t key_of(const struct handles *s, uint32_t i, uint32_t generation)
{
	return i << s->gen_bits | (generation & gen_mask(s));
}

static uint32_t home_of(const struct handles *s, uint32_t key)
{
	return key >> s->gen_bits;
}

void handles_init(struct handles *s, struct handle_place *v, uint32_t capacity, uint32_t gen_bits)
{
	*s = (struct handles){
		.v = v,
		.capacity = capacity,
		.gen_bits = gen_bits,
		.free_head = HANDLE_NONE,
		.free_tail = HANDLE_NONE,
	};
}

/* ---- free places --------------------------------------------------------------------------- */

static void set_free(struct handles *s, uint32_t i)
{
	s->v[i].object = NULL;
	s->v[i].next = HANDLE_NONE;
	s->v[i].prev_free = s->free_tail;
	if (s->free_tail != HANDLE_NONE)
		s->v[s->free_tail].next = i;
	else
		s->free_head = i;
	s->free_tail = i;
}

static void unlink_free(struct handles *s, uint32_t i)
{
	const struct handle_place *v = &s->v[i];

	if (v->prev_free == HANDLE_NONE)
		s->free_head = v->next;
	else
		s->v[v->prev_free].next = v->next;
	if (v->next == HANDLE_NONE)
		s->free_tail = v->prev_free;
	else
		s->v[v->next].prev_free = v->prev_free;
}

/* HANDLE_NONE: all are taken. */
static uint32_t find_free(struct handles *s, uint32_t seed)
{
	uint32_t i = s->free_head;

	if (s->used < s->capacity) {
		/* Fresh places first: a released one stays unused as long as possible. */
		i = s->used++;
		s->v[i].generation = seed;
	} else if (i != HANDLE_NONE) {
		unlink_free(s, i);
	}
	return i;
}

/* ---- taken ones ---------------------------------------------------------------------------- */

static void settle(struct handles *s, uint32_t i, void *object, uint32_t key, uint32_t next)
{
	s->v[i].object = object;
	s->v[i].key = key;
	s->v[i].next = next;
}

static void move(struct handles *s, uint32_t from, uint32_t to)
{
	settle(s, to, s->v[from].object, s->v[from].key, s->v[from].next);
}

static uint32_t locate(const struct handles *s, uint32_t key)
{
	uint32_t i = home_of(s, key);

	if (i >= s->used || !s->v[i].object)
		return HANDLE_NONE;
	while (i != HANDLE_NONE && s->v[i].key != key)
		i = s->v[i].next;
	return i;
}

/* What leads to a displaced one. */
static uint32_t before(const struct handles *s, uint32_t i)
{
	uint32_t p = home_of(s, s->v[i].key);

	while (s->v[p].next != i)
		p = s->v[p].next;
	return p;
}

int handles_take(struct handles *s, void *object, uint32_t seed, uint32_t *ret_key)
{
	uint32_t i = find_free(s, seed);

	assert(object);
	if (i == HANDLE_NONE)
		return -ENOSPC;
	/* Like no other's: as long as any key of this index is live, its place is not free. */
	*ret_key = key_of(s, i, s->v[i].generation);
	settle(s, i, object, *ret_key, HANDLE_NONE);
	s->live++;
	return 0;
}

static void use_up_to(struct handles *s, uint32_t end, uint32_t seed)
{
	for (; s->used < end; s->used++) {
		s->v[s->used].generation = seed + s->used;
		set_free(s, s->used);
	}
}

void handles_begin_at(struct handles *s, uint32_t first, uint32_t seed)
{
	assert(!s->used && first < s->capacity);
	use_up_to(s, first, seed);
}

/* Its place is taken: by one with a key of the same index, or by one that is displaced itself. */
static int restore_beside(struct handles *s, uint32_t key, void *object, uint32_t seed)
{
	uint32_t home = home_of(s, key), i, others = 0;

	for (i = home; i != HANDLE_NONE; i = s->v[i].next)
		if (s->v[i].key == key || ++others > HANDLES_DISPLACED_MAX)
			return -EEXIST;
	i = find_free(s, seed);
	if (i == HANDLE_NONE)
		return -ENOSPC;
	if (home_of(s, s->v[home].key) == home) {
		settle(s, i, object, key, s->v[home].next);
		s->v[home].next = i;
	} else {
		s->v[before(s, home)].next = i;
		move(s, home, i);
		settle(s, home, object, key, HANDLE_NONE);
	}
	return 0;
}

int handles_restore(struct handles *s, uint32_t key, void *object, uint32_t seed)
{
	uint32_t home = home_of(s, key);
	int rc = 0;

	assert(object);
	if (home >= s->capacity)
		return -EINVAL;
	use_up_to(s, home + 1, seed);
	if (s->v[home].object) {
		rc = restore_beside(s, key, object, seed);
	} else {
		unlink_free(s, home);
		settle(s, home, object, key, HANDLE_NONE);
	}
	s->live += rc == 0;
	return rc;
}

void *handles_find(const struct handles *s, uint32_t key)
{
	uint32_t i = locate(s, key);

	return i == HANDLE_NONE ? NULL : s->v[i].object;
}

void *handles_at(const struct handles *s, uint32_t index)
{
	return index < s->used ? s->v[index].object : NULL;
}

void handles_release(struct handles *s, uint32_t key)
{
	uint32_t home = home_of(s, key), i = locate(s, key);

	assert(i != HANDLE_NONE);
	s->v[home].generation = key + 1;
	if (i != home) {
		s->v[before(s, i)].next = s->v[i].next;
	} else if (s->v[home].next != HANDLE_NONE) {
		/* One that was displaced comes home. */
		i = s->v[home].next;
		move(s, i, home);
	}
	set_free(s, i);
	s->live--;
}

void handles_rekey(struct handles *s, uint32_t key, uint32_t to)
{
	uint32_t i = locate(s, key);

	assert(i != HANDLE_NONE && home_of(s, key) == home_of(s, to));
	s->v[i].key = to;
}

uint32_t handles_renew(struct handles *s, uint32_t key)
{
	uint32_t to = key;

	do
		to = key_of(s, home_of(s, key), to + 1);
	while (locate(s, to) != HANDLE_NONE);
	handles_rekey(s, key, to);
	return to;
}
