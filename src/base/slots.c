/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "base/slots.h"

#include <assert.h>
#include <errno.h>

static uint32_t gen_mask(const struct slots *s)
{
	return (1u << s->gen_bits) - 1;
}

static uint32_t key_of(const struct slots *s, uint32_t i)
{
	return i << s->gen_bits | (s->v[i].generation & gen_mask(s));
}

void slots_init(struct slots *s, struct slot *v, uint32_t capacity, uint32_t gen_bits)
{
	*s = (struct slots){
		.v = v,
		.capacity = capacity,
		.gen_bits = gen_bits,
		.free_head = SLOT_NONE,
		.free_tail = SLOT_NONE,
	};
}

static void release(struct slots *s, uint32_t i)
{
	s->v[i].object = NULL;
	s->v[i].next_free = SLOT_NONE;
	s->v[i].prev_free = s->free_tail;
	if (s->free_tail != SLOT_NONE)
		s->v[s->free_tail].next_free = i;
	else
		s->free_head = i;
	s->free_tail = i;
}

static void unlink_free(struct slots *s, uint32_t i)
{
	const struct slot *v = &s->v[i];

	if (v->prev_free == SLOT_NONE)
		s->free_head = v->next_free;
	else
		s->v[v->prev_free].next_free = v->next_free;
	if (v->next_free == SLOT_NONE)
		s->free_tail = v->prev_free;
	else
		s->v[v->next_free].prev_free = v->prev_free;
}

int slots_take(struct slots *s, void *object, uint32_t seed, uint32_t *ret_key)
{
	uint32_t i;

	assert(object);
	if (s->used < s->capacity) {
		/* Fresh slots first: a released one stays unused as long as possible. */
		i = s->used++;
		s->v[i].generation = seed;
	} else if (s->free_head != SLOT_NONE) {
		i = s->free_head;
		unlink_free(s, i);
	} else {
		return -ENOSPC;
	}
	s->v[i].object = object;
	s->v[i].next_free = SLOT_NONE;
	s->live++;
	*ret_key = key_of(s, i);
	return 0;
}

void slots_begin_at(struct slots *s, uint32_t first, uint32_t seed)
{
	assert(!s->used && first < s->capacity);
	for (; s->used < first; s->used++) {
		s->v[s->used].generation = seed + s->used;
		release(s, s->used);
	}
}

int slots_restore(struct slots *s, uint32_t key, void *object, uint32_t seed)
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
	s->v[i] = (struct slot){.object = object, .generation = key, .next_free = SLOT_NONE};
	s->live++;
	return 0;
}

void *slots_find(const struct slots *s, uint32_t key)
{
	uint32_t i = key >> s->gen_bits;

	if (i >= s->used || !s->v[i].object || key_of(s, i) != key)
		return NULL;
	return s->v[i].object;
}

void *slots_at(const struct slots *s, uint32_t index)
{
	return index < s->used ? s->v[index].object : NULL;
}

void slots_release(struct slots *s, uint32_t key)
{
	uint32_t i = key >> s->gen_bits;

	assert(slots_find(s, key));
	s->v[i].generation++;
	release(s, i);
	s->live--;
}

uint32_t slots_renew(struct slots *s, uint32_t key)
{
	uint32_t i = key >> s->gen_bits;

	assert(slots_find(s, key));
	s->v[i].generation++;
	return key_of(s, i);
}
