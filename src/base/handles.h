/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Handles: objects that are addressed from outside (by rkeys, queue pair numbers, ids) are found by
 * a key that goes stale when the object does. A key is index << gen_bits | generation; generations
 * of a place start at a random value and move on at every release.
 *
 * A key that another table has given may find its place taken by an object with another generation.
 * It is displaced then: its object has another place, and the one at home leads to it. No key is
 * given of a place in which a displaced one is, nor is one displaced whose home is free.
 */
#ifndef WEFT_BASE_HANDLES_H
#define WEFT_BASE_HANDLES_H

#include <stdint.h>

#include "base/compiler.h"

struct handle_place {
	void *object;	     /* NULL: free */
	uint32_t key;	     /* the object's */
	uint32_t generation; /* of the next key that is given */
	uint32_t next;	     /* free: of the free ones; else of those with a key of one index */
	uint32_t prev_free;
};

struct handles {
	struct handle_place *v; /* caller's memory, capacity entries */
	uint32_t capacity;
	uint32_t gen_bits;	       /* low bits of a key that hold the generation */
	uint32_t used;		       /* entries ever taken: the rest of v is untouched */
	uint32_t free_head, free_tail; /* FIFO, so that a place rests as long as it can */
	uint32_t live;
};

#define HANDLE_NONE	      UINT32_MAX
#define HANDLES_DISPLACED_MAX 16 /* keys of one index: who hands them in may be of ill will */

/* v has room for capacity entries; it needs no initialisation and stays the caller's. */
void handles_init(struct handles *s, struct handle_place *v, uint32_t capacity, uint32_t gen_bits);
/* Takes a place for object and stores its key. seed perturbs the first generation of a fresh
 * place. -ENOSPC when all are taken. */
int handles_take(struct handles *s, void *object, uint32_t seed, uint32_t *ret_key) must_use;
/* Makes object known by a key that another table has given. -EEXIST: the key is taken, or too many
 * of its index are; -EINVAL: it is not of this table; -ENOSPC. */
int handles_restore(struct handles *s, uint32_t key, void *object, uint32_t seed) must_use;
/* The first so many places are taken last, before any is: others may be restored into. */
void handles_begin_at(struct handles *s, uint32_t first, uint32_t seed);
/* The object a key stands for, or NULL when it is stale or never was. */
void *handles_find(const struct handles *s, uint32_t key);
/* To look at all: the object at an index below s->used, NULL where there is none. */
void *handles_at(const struct handles *s, uint32_t index);
/* Releases the key's place; the key is stale from now on. */
void handles_release(struct handles *s, uint32_t key);
/* Gives the live object of `key` a new generation: the old key is stale, the new one returned. */
uint32_t handles_renew(struct handles *s, uint32_t key);
/* As that, with the generation that `to` has, which no other key of the index may have. */
void handles_rekey(struct handles *s, uint32_t key, uint32_t to);

#endif
