/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Memory that is there where something was written, in chunks, and reads as zeroes elsewhere. A
 * chunk may be lent to who reads it; what is written there meanwhile goes to another in its place,
 * so that what was lent stays as it was. And one may be lent that is nobody's yet, to be filled and
 * then put in the place of another.
 *
 * A chunk that is zeroed, discarded or nobody's any more gives its pages back to the system and
 * stays mapped: a process may have only so many mappings, and each gap between chunks would make
 * one more.
 *
 * Of one place in it one thread at a time does something, but for sparse_put(), which is for any;
 * of sparse_write() into the first of a chunk several may.
 */
#ifndef WEFT_STORE_SPARSE_H
#define WEFT_STORE_SPARSE_H

#include <pthread.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/list.h"

#define SPARSE_CHUNK (64u * 1024)

struct sparse_chunk {
	uint8_t *bytes;
	_Atomic uint32_t users;	 /* the table, if it is there, and those it is lent to */
	struct list spare, link; /* of sparse.all */
};

struct sparse {
	/* bytes: of the chunk; who only reads looks no further. */
	struct sparse_slot {
		_Atomic(struct sparse_chunk *) chunk;
		_Atomic(uint8_t *) bytes;
	} * slots;
	uint64_t count;
	pthread_mutex_t lock;
	struct list all; /* in the order they were made, which is that of their places in memory */
	/* Chunks that are nobody's, with whatever is in them; and more, which are zeroes. */
	struct list spare, empty;
	unsigned spare_count, spares_max;
};

/* -ENOMEM: there is nothing to fini. */
int sparse_init(struct sparse *m, uint64_t size) must_use;
/* Nothing is lent. */
void sparse_fini(struct sparse *m);

void sparse_read(const struct sparse *m, uint64_t offset, uint8_t *buf, uint64_t len);
/* -ENOSPC: where nothing was, and of this and the next one where it is lent. */
int sparse_write(struct sparse *m, uint64_t offset, const uint8_t *buf, uint64_t len) must_use;
int sparse_zero(struct sparse *m, uint64_t offset, uint64_t len) must_use;

/* The chunk in which a byte is, with a user more; NULL: there is none, and zeroes are read. */
struct sparse_chunk *sparse_lend(struct sparse *m, uint64_t offset);
/* One that is nobody's, with a user, to be filled. NULL: there is no memory. */
struct sparse_chunk *sparse_spare(struct sparse *m);
/* Has it, whole, in the place of what was there, with the user of whoever filled it. */
void sparse_swap(struct sparse *m, uint64_t offset, struct sparse_chunk *filled);
/* With a user less. */
void sparse_put(struct sparse *m, struct sparse_chunk *c);

/* How many chunks a table has that is to hold so many bytes: it does not get shorter, so that who
 * goes back to a former size does not fail. */
uint64_t sparse_chunks_for(const struct sparse *m, uint64_t size);
/* Has a longer table, all zeroes, in the place of the present one, which is to be freed. */
void *sparse_move(struct sparse *m, void *table, uint64_t count);
/* What is beyond an end is gone, but for the rest of its last chunk, */
void sparse_cut(struct sparse *m, uint64_t size);
/* which is zeroes from here on. -ENOSPC */
int sparse_clear_tail(struct sparse *m, uint64_t size) must_use;

#endif
