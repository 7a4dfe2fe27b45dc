/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What Identify says of atomic writes (AWUN, AWUPF: one block): however writes and reads overlap,
 * nobody reads a block that is of two writes, whichever thread they are of.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/time.h"
#include "store/store.h"

#define SIZE	(8u << 10) /* so that they meet */
#define OPS	32
#define THREADS 3
#define MS	150ull
#define BLOCKS	32u /* of the largest operation */

struct op {
	struct store_op op;
	struct iovec iov;
	struct user *user;
	bool busy;
	uint8_t data[BLOCKS * 4096] __attribute__((aligned(4096)));
};

/* One who uses a store, or the view of it that is its thread's. */
struct user {
	struct store_engine *engine; /* NULL: what it starts is done at once */
	struct store *store;
	struct op ops[OPS];
	uint32_t block_size, seed;
	unsigned long torn, reads;
	bool failed;
};

static struct user users[THREADS];

static uint32_t chance(struct user *u, uint32_t of)
{
	u->seed = u->seed * 1664525 + 1013904223;
	return (u->seed >> 8) % of;
}

static void done(struct store_op *op, int error)
{
	struct op *o = container_of(op, struct op, op);
	struct user *u = o->user;

	u->failed |= error != 0;
	o->busy = false;
	if (op->opcode != STORE_READ)
		return;
	u->reads++;
	for (uint64_t at = 0; at < op->len; at += u->block_size)
		u->torn += memcmp(o->data + at, o->data + at + 1, u->block_size - 1) != 0;
}

static void start(struct user *u, struct op *o)
{
	const uint32_t size = u->block_size, max = min_of(BLOCKS, SIZE / size);
	uint32_t count = 1 + chance(u, max), first = chance(u, SIZE / size - count + 1);

	o->user = u;
	o->iov = (struct iovec){o->data, (size_t)count * size};
	o->op = (struct store_op){.opcode = chance(u, 2) ? STORE_READ : STORE_WRITE,
				  .offset = (uint64_t)first * size,
				  .len = o->iov.iov_len,
				  .iov = &o->iov,
				  .iov_count = 1,
				  .done = done};
	if (o->op.opcode == STORE_WRITE) {
		for (uint32_t i = 0; i < count; i++)
			memset(o->data + (size_t)i * size, (int)chance(u, 256), size);
		if (chance(u, 8) == 0)
			o->op.opcode = STORE_ZERO;
	}
	o->busy = true;
	store_submit(u->store, &o->op);
}

/* Now and then something else than what was begun is wanted. */
static void cancel_one(struct user *u)
{
	struct op *o = &u->ops[chance(u, OPS)];

	if (o->busy && store_cancel(u->store, &o->op))
		o->busy = false;
}

static void *hammer(void *arg)
{
	struct user *u = arg;
	uint64_t end = time_now_ns() + MS * NSEC_PER_MSEC;
	bool more = true;

	while (more) {
		more = false;
		for (unsigned i = 0; i < OPS; i++) {
			if (!u->ops[i].busy && time_now_ns() < end)
				start(u, &u->ops[i]);
			more |= u->ops[i].busy;
		}
		if (!u->engine)
			continue;
		cancel_one(u);
		store_engine_submit(u->engine);
		if (!store_engine_reap(u->engine)) {
			struct pollfd p = {store_engine_fd(u->engine), POLLIN, 0};

			(void)poll(&p, 1, 10);
			store_engine_clear(u->engine);
		}
	}
	return NULL;
}

static void begin(struct user *u, struct store_engine *e, struct store *s)
{
	u->engine = e;
	u->store = s;
	u->block_size = s->block_size;
	u->seed = s->block_size + (uint32_t)(u - users);
	u->torn = u->reads = 0;
	u->failed = false;
}

static void look_at(const struct user *u)
{
	assert_false(u->failed);
	assert_int_equal(u->torn, 0);
	assert_true(u->reads);
}

static void of_file(const char *dir, enum store_engine_kind kind, bool direct, uint32_t size,
		    unsigned threads)
{
	struct store_file_options how = {.block_size = size, .direct = direct};
	struct store_engine *engines[THREADS];
	pthread_t ids[THREADS];
	char path[256];
	const char *why = "";
	struct store *s;
	int fd;

	snprintf(path, sizeof(path), "%s/atomic-XXXXXX", dir);
	fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, SIZE), 0);
	close(fd);
	for (unsigned i = 0; i < threads; i++)
		assert_int_equal(store_engine_create(kind, &engines[i]), 0);
	assert_int_equal(store_file_open(engines[0], path, &how, &s, &why), 0);
	assert_int_equal(store_share(s, engines, threads), 0);
	for (unsigned i = 0; i < threads; i++) {
		begin(&users[i], engines[i], store_for(s, i));
		assert_int_equal(pthread_create(&ids[i], NULL, hammer, &users[i]), 0);
	}
	for (unsigned i = 0; i < threads; i++) {
		pthread_join(ids[i], NULL);
		look_at(&users[i]);
	}
	store_destroy(s);
	for (unsigned i = 0; i < threads; i++)
		store_engine_destroy(engines[i]);
	unlink(path);
}

/* Whichever way they go, and of each size of blocks. */
static void of_files(unsigned threads)
{
	for (uint32_t size = 512; size <= 4096; size *= 8)
		for (int direct = 0; direct < 2; direct++)
			for (int kind = 0; kind < 2; kind++)
				of_file(".", kind ? STORE_ENGINE_AUTO : STORE_ENGINE_THREADS,
					direct, size, threads);
}

static void blocks_of_a_file_are_never_torn(void **state)
{
	(void)state;
	of_files(1);
}

static void blocks_of_a_file_that_threads_share_are_never_torn(void **state)
{
	(void)state;
	of_files(THREADS);
}

static void blocks_of_a_file_in_memory_are_never_torn(void **state)
{
	(void)state;
	of_file("/dev/shm", STORE_ENGINE_AUTO, false, 512, 1);
	of_file("/dev/shm", STORE_ENGINE_AUTO, false, 512, THREADS);
}

static void blocks_in_memory_are_never_torn(void **state)
{
	struct store *s;

	(void)state;
	assert_int_equal(store_mem_create(SIZE, 512, 0, &s), 0);
	begin(&users[0], NULL, s);
	hammer(&users[0]);
	look_at(&users[0]);
	store_destroy(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(blocks_of_a_file_are_never_torn),
		cmocka_unit_test(blocks_of_a_file_that_threads_share_are_never_torn),
		cmocka_unit_test(blocks_of_a_file_in_memory_are_never_torn),
		cmocka_unit_test(blocks_in_memory_are_never_torn),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
