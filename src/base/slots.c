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
		s->free_head = s->v[i].next_free;
		if (s->free_head == SLOT_NONE)
			s->free_tail = SLOT_NONE;
	} else {
		return -ENOSPC;
	}
	s->v[i].object = object;
	s->v[i].next_free = SLOT_NONE;
	s->live++;
	*ret_key = key_of(s, i);
	return 0;
}

void *slots_find(const struct slots *s, uint32_t key)
{
	uint32_t i = key >> s->gen_bits;

	if (i >= s->used || !s->v[i].object || key_of(s, i) != key)
		return NULL;
	return s->v[i].object;
}

void slots_release(struct slots *s, uint32_t key)
{
	uint32_t i = key >> s->gen_bits;

	assert(slots_find(s, key));
	s->v[i].object = NULL;
	s->v[i].generation++;
	s->v[i].next_free = SLOT_NONE;
	if (s->free_tail != SLOT_NONE)
		s->v[s->free_tail].next_free = i;
	else
		s->free_head = i;
	s->free_tail = i;
	s->live--;
}

uint32_t slots_renew(struct slots *s, uint32_t key)
{
	uint32_t i = key >> s->gen_bits;

	assert(slots_find(s, key));
	s->v[i].generation++;
	return key_of(s, i);
}
