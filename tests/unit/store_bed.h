/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Operations on a store, waited for. Behind cmocka.h, for it asserts. */
#ifndef WEFT_TESTS_UNIT_STORE_BED_H
#define WEFT_TESTS_UNIT_STORE_BED_H

#include <poll.h>

#include "store/store.h"

struct waited {
	struct store_op op;
	bool done;
	int error;
};

static inline void on_done(struct store_op *op, int error)
{
	struct waited *w = container_of(op, struct waited, op);

	assert_false(w->done); /* once */
	w->done = true;
	w->error = error;
}

static inline void wait_for(struct store_engine *e, struct waited *w)
{
	struct pollfd p = {.fd = e ? store_engine_fd(e) : -1, .events = POLLIN};

	if (e)
		store_engine_submit(e);
	while (!w->done) {
		assert_int_equal(poll(&p, 1, 10000), 1);
		store_engine_clear(e);
		store_engine_reap(e);
	}
}

static inline int run_op(struct store_engine *e, struct store *s, const struct store_op *op)
{
	struct waited w = {.op = *op};

	w.op.done = on_done;
	store_submit(s, &w.op);
	wait_for(e, &w);
	return w.error;
}

static inline int run(struct store_engine *e, struct store *s, enum store_opcode opcode,
		      uint64_t offset, uint64_t len, void *buf, uint32_t flags)
{
	struct iovec iov = {buf, len};

	return run_op(e, s,
		      &(struct store_op){.opcode = opcode,
					 .flags = flags,
					 .offset = offset,
					 .len = len,
					 .iov = &iov,
					 .iov_count = 1});
}

static inline void fill(uint8_t *buf, size_t len, unsigned seed)
{
	for (size_t i = 0; i < len; i++)
		buf[i] = (uint8_t)((i * 2654435761u + seed) >> 7);
}

#endif
