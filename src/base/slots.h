/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Slot + generation table: objects that are addressed from outside (rkeys, handles) are found by
 * a key that goes stale when the object does. A key is index << gen_bits | generation; generations
 * of a slot start at a random value and move on at every release.
 */
#ifndef WEFT_BASE_SLOTS_H
#define WEFT_BASE_SLOTS_H

#include <stdint.h>

#include "base/compiler.h"

struct slot {
	void *object;	     /* NULL: free */
	uint32_t generation; /* of the present or the next object */
	uint32_t next_free, prev_free;
};

struct slots {
	struct slot *v; /* caller's memory, capacity entries */
	uint32_t capacity;
	uint32_t gen_bits;	       /* low bits of a key that hold the generation */
	uint32_t used;		       /* entries ever taken: the rest of v is untouched */
	uint32_t free_head, free_tail; /* FIFO, so that a slot rests as long as it can */
	uint32_t live;
};

#define SLOT_NONE UINT32_MAX

/* v has room for capacity entries; it needs no initialisation and stays the caller's. */
void slots_init(struct slots *s, struct slot *v, uint32_t capacity, uint32_t gen_bits);
/* Takes a slot for object and stores its key. seed perturbs the first generation of a fresh
 * slot. -ENOSPC when all are taken. */
int slots_take(struct slots *s, void *object, uint32_t seed, uint32_t *ret_key) must_use;
/* Takes the slot of a key that another table has given, with the same key, for object. -EEXIST:
 * that slot is taken; -EINVAL: it is not of this table. */
int slots_restore(struct slots *s, uint32_t key, void *object, uint32_t seed) must_use;
/* The first so many slots are taken last, before any is: others may be restored into. */
void slots_begin_at(struct slots *s, uint32_t first, uint32_t seed);
/* The object a key stands for, or NULL when it is stale or never was. */
void *slots_find(const struct slots *s, uint32_t key);
/* To look at all: the object at an index below s->used, NULL where there is none. */
void *slots_at(const struct slots *s, uint32_t index);
/* Releases the key's slot; the key is stale from now on. */
void slots_release(struct slots *s, uint32_t key);
/* Gives the live object of `key` a new generation: the old key is stale, the new one returned. */
uint32_t slots_renew(struct slots *s, uint32_t key);

#endif
