/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Between the file store, the engine and its threads. */
#ifndef WEFT_STORE_INTERNAL_H
#define WEFT_STORE_INTERNAL_H

#include <pthread.h>

#include "store/store.h"

struct file_store {
	struct store store;
	struct store_engine *engine;
	struct pool *pool;
	int fd;		       /* through the page cache */
	int direct_fd;	       /* past it, or -1 */
	uint32_t direct_align; /* of offset, length and memory for direct_fd */
	bool block_device;
	uint32_t sector; /* of a block device: what it discards is in units of these */
	/*
	 * Its file system cannot say that an operation would wait (FUSE, NFS): it does, be it for
	 * the size alone.
	 */
	bool waits;
	struct store_op measure; /* asks such a one for the size */
	bool measuring;
};

/* The descriptor for an operation: direct if it is aligned for that. */
int file_fd_for(const struct file_store *f, const struct store_op *op);
/* Does what is left of the operation (op->store is set) in blocking calls; 0 or -errno. Any thread.
 */
int file_do_blocking(const struct store_op *op);

static inline struct file_store *file_of(struct store *s)
{
	return container_of(s, struct file_store, store);
}

/* Starts an operation; op->store is set, the rest of the store's part is the engine's. */
void engine_start(struct store_engine *e, struct store_op *op);
struct finished *engine_finished(struct store_engine *e);
/* A size has come that was asked for. */
void engine_measured(struct store_engine *e);

/* What the pools of one engine have finished. */
struct finished {
	pthread_mutex_t lock; /* guards all below, and the pools */
	struct list ops;
	int event_fd;
};

void finished_init(struct finished *f, int event_fd);
void finished_fini(struct finished *f);
/* The next finished operation with its result in op->result, or NULL. */
struct store_op *finished_pop(struct finished *f);

/* The threads of one store: started when they are needed. */
struct pool;
int pool_create(struct finished *finished, struct pool **ret) must_use;
/* Nothing may be under way. */
void pool_destroy(struct pool *p);
/* -EAGAIN if no thread could be started: the caller may do the work itself. */
int pool_start(struct pool *p, struct store_op *op, bool takes_turns) must_use;

#endif
