/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Between the engine, its threads and the stores that have it work for them. */
#ifndef WEFT_STORE_INTERNAL_H
#define WEFT_STORE_INTERNAL_H

#include <pthread.h>

#include "store/store.h"

struct engine_store;

/* How the bytes of a store are reached that are behind descriptors. Both are for any thread. */
struct engine_store_ops {
	/* The descriptor for what is left of a READ or WRITE. */
	int (*fd_for)(const struct engine_store *s, const struct store_op *op);
	/* Does what is left of an operation in blocking calls; 0 or -errno. */
	int (*do_blocking)(struct engine_store *s, const struct store_op *op);
};

/* A store that has the engine work for it. */
struct engine_store {
	struct store store;
	const struct engine_store_ops *ops;
	struct store_engine *engine;
	struct pool *pool;
	int turns_fd;  /* writes to this descriptor take turns; -1: to none */
	int direct_fd; /* the disk reads and writes an operation's own memory by it; -1: by none */
	bool waits;    /* nobody can say that a READ or WRITE would: io_uring is not asked */
	bool at_once;  /* a READ or WRITE waits for nothing: it is done where it is started */
};

/*
 * Stretches of a store that several threads use by copying: who copies has them, so that no block
 * is seen half written.
 */
#define STRETCH	  (64u * 1024)
#define STRETCHES 64 /* that can be told apart */
struct stretches {
	pthread_mutex_t lock[STRETCHES]; /* taken in order */
};

struct stretches *stretches_create(void);
void stretches_destroy(struct stretches *s); /* NULL: nothing */
/* Those of an operation; what it returns is for the unlock. */
uint64_t stretches_lock(struct stretches *s, const struct store_op *op) must_use;
void stretches_unlock(struct stretches *s, uint64_t locked);

/*
 * A file or device in two parts: all of opening that may wait for the disk, for any thread, and
 * what makes it a store of an engine; if that fails, it is closed. On failure as store_file_open().
 */
struct file_store;
int file_find(const char *path, const struct store_file_options *o, struct file_store **ret,
	      const char **ret_why) must_use;
int file_attach(struct file_store *f, struct store_engine *e, const struct store_file_options *o,
		struct store **ret, const char **ret_why) must_use;
/* Of one that was not attached. */
void file_forget(struct file_store *f);

/* A view for the thread of another engine, which hands all to that of `to`, driven by `by`. */
int handed_create(struct store *to, struct store_engine *by, struct store_engine *e,
		  struct store **ret) must_use;

static inline struct engine_store *engine_store_of(struct store *s)
{
	return container_of(s, struct engine_store, store);
}

/* Starts an operation; op->store is set, the rest of the store's part is the engine's. */
void engine_start(struct store_op *op);
/*
 * The pieces of an operation's memory from so many bytes on, at most max of them: returns how many
 * these are. There are some: from < op->len.
 */
unsigned op_pieces(const struct store_op *op, uint64_t from, struct iovec *ret, unsigned max);
struct finished *engine_finished(struct store_engine *e);
/* A size has come that was asked for. */
void engine_measured(struct store_engine *e);

/* What the pools of one engine have finished: the engine's and theirs, of whom some stay longer. */
struct finished {
	pthread_mutex_t lock; /* guards all below, and the pools */
	struct list ops;
	unsigned users;
	int event_fd;
};

int finished_create(struct finished **ret) must_use;
void finished_put(struct finished *f);
/* op->done is called with op->result by who drives the engine. Under the lock. */
void finished_push(struct finished *f, struct store_op *op);
/* The same, without it. */
void finished_add(struct finished *f, struct store_op *op);
/* The next finished operation with its result in op->result, or NULL. */
struct store_op *finished_pop(struct finished *f);

/* True if op waits for a thread or for room in the ring, and does so no more. */
bool engine_cancel(struct engine_store *s, struct store_op *op) must_use;

/* Waits a moment for a thread to end; one that does not is left behind. */
void leave_thread(pthread_t thread);

/* The threads of one store: started when they are needed. */
struct pool;
int pool_create(struct finished *finished, struct pool **ret) must_use;
/* Nothing may be under way but what is forgotten, for which it waits. By any thread. */
void pool_destroy(struct pool *p);
/* -EAGAIN if no thread could be started: the caller may do the work itself. */
int pool_start(struct pool *p, struct store_op *op, bool takes_turns) must_use;
/* True if no thread has taken it, and none will. */
bool pool_cancel(struct pool *p, struct store_op *op) must_use;
/* One that was started, and not heard of: nobody does any more. It is the pool's to its end. */
void pool_forget(struct pool *p, struct store_op *op);

/*
 * Operations on ranges of a store, of one thread: those that touch the same bytes, of which one
 * writes, are one after the other, so that no block is of two.
 */
struct order {
	struct spans writers, readers; /* that have begun, or wait */
	struct list alone;	       /* reads that have begun while nothing was written */
	struct list ready;	       /* nothing is in their way, and they are about to begin */
	uint64_t turns;		       /* so many have come */
	bool starting;
};

void order_init(struct order *o);
/* True if it may begin; else start() is called for it, in an order_end() of another. */
bool order_begin(struct order *o, struct store_op *op) must_use;
/* It has ended, or is forgotten. */
void order_end(struct order *o, struct store_op *op, void (*start)(struct store_op *op));
/* It has not begun. */
bool order_waits(const struct store_op *op);

/*
 * The same of several threads, block by block: what one writes no other touches meanwhile. Who only
 * reads waits for none who does, too.
 */
struct claims;
struct claims *claims_create(uint32_t block_size);
void claims_destroy(struct claims *c); /* NULL: nothing */
/*
 * True if it may begin: op->claimed was 0 and op->claim_waits false when it was asked first. Else
 * its engine calls op->done when there is more to take, and it is asked again.
 */
bool claims_take(struct claims *c, struct store_op *op) must_use;
/* It has ended, or is forgotten. */
void claims_give(struct claims *c, struct store_op *op);
/* True if it waited, and is forgotten. */
bool claims_cancel(struct claims *c, struct store_op *op) must_use;

#endif
