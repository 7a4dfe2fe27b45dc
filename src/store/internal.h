/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Between the file store, the engine and its threads. */
#ifndef WEFT_STORE_INTERNAL_H
#define WEFT_STORE_INTERNAL_H

#include "store/store.h"

struct file_store {
	struct store store;
	struct store_engine *engine;
	int fd;		       /* through the page cache */
	int direct_fd;	       /* past it, or -1 */
	uint32_t direct_align; /* of offset, length and memory for direct_fd */
	bool block_device;
	uint32_t sector; /* of a block device: what it discards is in units of these */
};

/* The descriptor for an operation: direct if it is aligned for that. */
int file_fd_for(const struct file_store *f, const struct store_op *op);
/* Does the whole operation (op->store is set) in blocking calls; 0 or -errno. Any thread. */
int file_do_blocking(const struct store_op *op);

static inline struct file_store *file_of(struct store *s)
{
	return container_of(s, struct file_store, store);
}

/* Starts an operation; op->store is set, the rest of the store's part is the engine's. */
void engine_start(struct store_engine *e, struct store_op *op);

/* Threads: started at the first work. */
struct pool;
int pool_create(int event_fd, struct pool **ret) must_use;
void pool_destroy(struct pool *p);
/* -EAGAIN if no thread could be started: the caller may do the work itself. */
int pool_start(struct pool *p, struct store_op *op) must_use;
/* The next finished operation with its result in op->result, or NULL. */
struct store_op *pool_finished(struct pool *p);

#endif
