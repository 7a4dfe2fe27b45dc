/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The one door between the target and whatever keeps the bytes: asynchronous operations on an
 * array of bytes. The stores themselves are in store/; here stands only what both sides agree
 * on, so that the target knows no store.
 */
#ifndef WEFT_NVMF_COMMON_STORE_OPS_H
#define WEFT_NVMF_COMMON_STORE_OPS_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/list.h"
#include "base/spans.h"

struct store;
struct store_engine;

enum store_opcode { STORE_READ, STORE_WRITE, STORE_FLUSH, STORE_ZERO, STORE_DISCARD };

#define STORE_FUA   (1u << 0) /* WRITE, ZERO: on stable storage before done */
#define STORE_UNMAP (1u << 1) /* ZERO: the space may be given back */

/* What an operation is among those that may touch the same bytes (store/order.c). */
struct store_order {
	struct span span;
	struct list link;   /* behind another, or of those that are about to begin */
	struct list behind; /* those that wait for it */
	bool waits;
};

/*
 * Memory that a store lends instead of copying: of a READ its own, which nobody changes meanwhile;
 * of a WRITE what is to be filled, and may then be its own. In pieces, one for each part of it.
 */
#define STORE_LOAN_PIECES 17
#define STORE_LOAN_MIN	  (64u << 10) /* less is copied sooner than it is lent */
struct store_loan {
	struct iovec *iov;
	uint32_t count;
	/* By any thread, whatever became of the operation; the store itself may be gone. */
	void (*end)(struct store_loan *l);
};

struct store_op {
	enum store_opcode opcode;
	uint32_t flags;
	uint64_t offset, len; /* bytes, multiples of the block size, within the store */
	/* READ, WRITE: where the bytes are, len in all pieces together; the caller's until done. */
	const struct iovec *iov;
	uint32_t iov_count;
	/* WRITE: it is this loan's pieces that were filled. Otherwise NULL. */
	struct store_loan *loan;
	/*
	 * READ, WRITE of a store with metadata: the store's meta_size bytes for each block, one
	 * after the other; NULL: nobody wants them, and they become zeroes.
	 */
	void *meta;
	/*
	 * Called once, with 0 or -errno; it may be called before submit returns. After it the
	 * operation is the caller's again. A READ that succeeded has filled all pieces.
	 */
	void (*done)(struct store_op *op, int error);
	/* The store's own from submit to done. */
	struct store *store;
	struct list link;
	struct store_order order;
	void (*ordered_done)(struct store_op *op, int error);
	uint32_t claimed;  /* of its blocks, towards other threads */
	bool claim_waits;  /* for the next one */
	uint64_t progress; /* bytes done */
	int result;
	/* The same, while another thread has it in hand. */
	struct store *handed_by;
	void (*handed_done)(struct store_op *op, int error);
};

struct store_ops {
	const char *name; /* for messages: "memory", "file through io_uring" */
	void (*submit)(struct store *s, struct store_op *op);
	/* store_lend(); NULL: it never does. */
	struct store_loan *(*lend)(struct store *s, const struct store_op *op, void *room);
	/*
	 * How much of a ZERO or DISCARD of so many bytes it does from within submit in a moment:
	 * whole blocks, and some. NULL: all of it, or it has others do it.
	 */
	uint64_t (*moment)(struct store *s, uint64_t offset, uint64_t len);
	/*
	 * True if op, which was submitted and is not done, had not begun and is forgotten: done is
	 * not called. NULL: none is. See store_cancel().
	 */
	bool (*cancel)(struct store *s, struct store_op *op);
	/* store_measure(); NULL: the store never has another size. */
	bool (*measure)(struct store *s);
	/* store_share(): the same bytes for another thread, which drives e; it may be s itself.
	 * NULL: what comes from there is handed to the thread of s. */
	int (*view)(struct store *s, struct store_engine *e, struct store **ret);
	/* store_resize(); NULL: its size is not ours to choose. A view is the store itself then. */
	int (*resize)(struct store *s, uint64_t size);
	/* Nothing may be under way. */
	void (*destroy)(struct store *s);
};

struct store {
	const struct store_ops *ops;
	struct store **views;  /* for each thread its own, the first for the first; NULL: one */
	unsigned view_count;   /* of these */
	_Atomic uint64_t size; /* bytes, a multiple of block_size */
	uint32_t block_size;   /* smallest unit of an operation: 512 or 4096 */
	uint32_t optimal_io;   /* preferred unit of writes and discards in bytes; 0 unknown */
	char *real_path;       /* of a file, without symbolic links and dots; NULL: none is known */
	uint32_t meta_size;    /* bytes kept beside each block; 0 none */
	bool read_only;
	bool volatile_cache; /* a WRITE without FUA needs a FLUSH to be on stable storage */
	bool discard_zeroes; /* what was discarded reads as zeroes */
};

static inline bool store_op_moves_data(const struct store_op *op)
{
	return op->opcode == STORE_READ || op->opcode == STORE_WRITE;
}

/* As the n-th of the threads uses it that share it. */
static inline struct store *store_for(struct store *s, unsigned n)
{
	return s->views ? s->views[n] : s;
}

static inline void store_submit(struct store *s, struct store_op *op)
{
	uint64_t len = 0;

	for (uint32_t i = 0; store_op_moves_data(op) && i < op->iov_count; i++)
		len += op->iov[i].iov_len;
	assert(!store_op_moves_data(op) || len == op->len);
	s->ops->submit(s, op);
}

/*
 * Lends memory for a READ, which is done thereby, or for a WRITE, which is submitted when its
 * pieces are filled. Of op only opcode, offset and len count. Some of the pieces may be in room,
 * which has len bytes, where the data would be that lie there. NULL: this is no operation that it
 * lends for, or there is no memory.
 */
static inline struct store_loan *store_lend(struct store *s, const struct store_op *op, void *room)
{
	return op->len >= STORE_LOAN_MIN && s->ops->lend ? s->ops->lend(s, op, room) : NULL;
}

static inline uint64_t store_moment(struct store *s, uint64_t offset, uint64_t len)
{
	return s->ops->moment ? s->ops->moment(s, offset, len) : len;
}

/* op need not be under way. */
static inline bool store_cancel(struct store *s, struct store_op *op)
{
	return s->ops->cancel && s->ops->cancel(s, op);
}

#endif
