/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "base/handles.h"

#include <assert.h>
#include <errno.h>

static uint32_t gen_mask(const struct handles *s)
{
	return (1u << s->gen_bits) - 1;
}

static uint32_t key_of(const struct handles *s, uint32_t i)
{
	return i << s->gen_bits | (s->v[i].generation & gen_mask(s));
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

static void release(struct handles *s, uint32_t i)
{
	s->v[i].object = NULL;
	s->v[i].next_free = HANDLE_NONE;
	s->v[i].prev_free = s->free_tail;
	if (s->free_tail != HANDLE_NONE)
		s->v[s->free_tail].next_free = i;
	else
		s->free_head = i;
	s->free_tail = i;
}

static void unlink_free(struct handles *s, uint32_t i)
{
	const struct handle_place *v = &s->v[i];

	if (v->prev_free == HANDLE_NONE)
		s->free_head = v->next_free;
	else
		s->v[v->prev_free].next_free = v->next_free;
	if (v->next_free == HANDLE_NONE)
		s->free_tail = v->prev_free;
	else
		s->v[v->next_free].prev_free = v->prev_free;
}

int handles_take(struct handles *s, void *object, uint32_t seed, uint32_t *ret_key)
{
	uint32_t i;

	assert(object);
	if (s->used < s->capacity) {
		/* Fresh places first: a released one stays unused as long as possible. */
		i = s->used++;
		s->v[i].generation = seed;
	} else if (s->free_head != HANDLE_NONE) {
		i = s->free_head;
		unlink_free(s, i);
	} else {
		return -ENOSPC;
	}
	s->v[i].object = object;
	s->v[i].next_free = HANDLE_NONE;
	s->live++;
	*ret_key = key_of(s, i);
	return 0;
}

void handles_begin_at(struct handles *s, uint32_t first, uint32_t seed)
{
	assert(!s->used && first < s->capacity);
	for (; s->used < first; s->used++) {
		s->v[s->used].generation = seed + s->used;
		release(s, s->used);
	}
}

int handles_restore(struct handles *s, uint32_t key, void *object, uint32_t seed)
{
	uint32_t i = key >> s->gen_bits;

	assert(object);
	if (i >= s->capacity)
		return -EINVAL;
	for (; s->used <= i; s->used++) {
		s->v[s->used].generation = seed + s->used;
		release(s, s->used);
	}
	if (s->v[i].object)
		return -EEXIST;
	unlink_free(s, i);
	s->v[i] = (struct handle_place){
		.object = object, .generation = key, .next_free = HANDLE_NONE};
	s->live++;
	return 0;
}

void *handles_find(const struct handles *s, uint32_t key)
{
	uint32_t i = key >> s->gen_bits;

	if (i >= s->used || !s->v[i].object || key_of(s, i) != key)
		return NULL;
	return s->v[i].object;
}

void *handles_at(const struct handles *s, uint32_t index)
{
	return index < s->used ? s->v[index].object : NULL;
}

void handles_release(struct handles *s, uint32_t key)
{
	uint32_t i = key >> s->gen_bits;

	assert(handles_find(s, key));
	s->v[i].generation++;
	release(s, i);
	s->live--;
}

uint32_t handles_renew(struct handles *s, uint32_t key)
{
	uint32_t i = key >> s->gen_bits;

	assert(handles_find(s, key));
	s->v[i].generation++;
	return key_of(s, i);
}
