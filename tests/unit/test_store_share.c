/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Stores that several threads use, each with an engine of its own. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/time.h"
#include "store_bed.h"

#define SIZE	(1024 * 1024)
#define THREADS 3

static const char *const dirs[] = {"/dev/shm", "/var/tmp"};
static struct store_engine *engines[THREADS];
static char path[64];
static uint8_t out[SIZE] __attribute__((aligned(4096))), in[SIZE] __attribute__((aligned(4096)));

static void make_file(const char *dir, off_t size)
{
	int fd;

	snprintf(path, sizeof(path), "%s/weft-share-XXXXXX", dir);
	fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, size), 0);
	close(fd);
}

static struct store *open_file(const char *dir, bool direct)
{
	struct store_file_options o = {.block_size = 512, .direct = direct};
	struct store *s;
	const char *why;

	make_file(dir, SIZE);
	assert_int_equal(store_file_open(engines[0], path, &o, &s, &why), 0);
	assert_int_equal(store_share(s, engines, THREADS), 0);
	return s;
}

static struct store *make_memory(void)
{
	struct store *s;

	assert_int_equal(store_mem_create(SIZE, 512, 8, &s), 0);
	assert_int_equal(store_share(s, engines, THREADS), 0);
	return s;
}

static void close_file(struct store *s)
{
	store_destroy(s);
	unlink(path);
}

static int begin(void **state)
{
	(void)state;
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(store_engine_create(STORE_ENGINE_AUTO, &engines[i]), 0);
	return 0;
}

static int end(void **state)
{
	(void)state;
	for (int i = 0; i < THREADS; i++)
		store_engine_destroy(engines[i]);
	return 0;
}

/* --- one after the other -------------------------------------------------------------------- */

/* What one writes, zeroes and discards, the others read. */
static void hold(struct store *s)
{
	for (unsigned i = 0; i < THREADS; i++) {
		struct store *mine = store_for(s, i), *next = store_for(s, (i + 1) % THREADS);
		struct store_engine *e = engines[i], *f = engines[(i + 1) % THREADS];

		assert_int_equal(mine->size, SIZE);
		assert_int_equal(mine->block_size, 512);
		fill(out, SIZE, i + 1);
		assert_int_equal(run(e, mine, STORE_WRITE, 0, SIZE, out, STORE_FUA), 0);
		assert_int_equal(run(f, next, STORE_ZERO, 512, 70000 / 512 * 512, NULL, 0), 0);
		memset(out + 512, 0, 70000 / 512 * 512);
		assert_int_equal(run(f, next, STORE_FLUSH, 0, 0, NULL, 0), 0);
		memset(in, 0xee, SIZE);
		assert_int_equal(run(e, mine, STORE_READ, 0, SIZE, in, 0), 0);
		assert_memory_equal(in, out, SIZE);
		assert_int_equal(run(e, mine, STORE_READ, SIZE, 512, in, 0), -ERANGE);
	}
}

static void what_one_thread_writes_the_others_read(void **state)
{
	struct store *s = make_memory();

	(void)state;
	hold(s);
	store_destroy(s);
	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++) {
		s = open_file(dirs[i], false);
		hold(s);
		close_file(s);
		s = open_file(dirs[i], true);
		hold(s);
		close_file(s);
	}
}

static void a_file_that_has_grown_has_for_all(void **state)
{
	struct store *s = open_file("/var/tmp", false);

	(void)state;
	assert_int_equal(truncate(path, 2 * SIZE), 0);
	assert_int_equal(run(engines[2], store_for(s, 2), STORE_READ, SIZE, 512, in, 0), -ERANGE);
	assert_true(store_measure(s));
	assert_int_equal(store_for(s, 2)->size, 2 * SIZE);
	assert_int_equal(run(engines[2], store_for(s, 2), STORE_READ, SIZE, 512, in, 0), 0);
	close_file(s);
}

/* More blocks than can be told apart, and some that lie where those end: nothing stays claimed. */
static void operations_of_any_size_come_to_their_end(void **state)
{
	static const struct {
		uint64_t at, len;
	} cases[] = {
		{0, 32 << 20}, {512, (8 << 20) + 512}, {(8 << 20) - 512, 1024}, {16 << 20, 512}};
	struct store *s = open_file("/var/tmp", false);

	(void)state;
	assert_int_equal(truncate(path, 32 << 20), 0);
	assert_true(store_measure(s));
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		fill(out, 1024, (unsigned)i);
		assert_int_equal(
			run(engines[1], store_for(s, 1), STORE_WRITE, cases[i].at, 512, out, 0), 0);
		assert_int_equal(run(engines[2], store_for(s, 2), STORE_ZERO, cases[i].at,
				     cases[i].len, NULL, STORE_UNMAP),
				 0);
		assert_int_equal(run(engines[0], s, STORE_READ, cases[i].at, 512, in, 0), 0);
		assert_int_equal(in[0] | in[511], 0);
	}
	for (uint64_t at = (8 << 20) - SIZE / 2; at < 32 << 20; at += SIZE)
		assert_int_equal(run(engines[1], store_for(s, 1), STORE_WRITE, at,
				     min_of((uint64_t)SIZE, (32ull << 20) - at), out, 0),
				 0);
	close_file(s);
}

static void one_thread_alone_shares_with_nobody(void **state)
{
	struct store *s;

	(void)state;
	assert_int_equal(store_mem_create(SIZE, 512, 0, &s), 0);
	assert_int_equal(store_share(s, engines, 1), 0);
	assert_ptr_equal(store_for(s, 0), s);
	assert_null(s->views);
	store_destroy(s);
}

/* --- a store of one thread ------------------------------------------------------------------- */

/* Notes whose thread calls it; everything fails but what is read. */
struct lone_store {
	struct store store;
	pthread_t owner;
	unsigned calls;
};

static void lone_submit(struct store *s, struct store_op *op)
{
	struct lone_store *l = container_of(s, struct lone_store, store);

	assert(pthread_equal(pthread_self(), l->owner));
	l->calls++;
	if (op->opcode == STORE_READ)
		memset(op->iov->iov_base, 'l', op->len);
	op->done(op, op->opcode == STORE_READ ? 0 : -ENOSPC);
}

static void lone_destroy(struct store *s)
{
	(void)s;
}

static const struct store_ops lone_ops = {
	.name = "lone", .submit = lone_submit, .destroy = lone_destroy};

static _Atomic bool over;

static void *drive_first(void *arg)
{
	struct pollfd p = {.fd = store_engine_fd(engines[0]), .events = POLLIN};

	((struct lone_store *)arg)->owner = pthread_self();
	while (!over) {
		poll(&p, 1, 10);
		store_engine_clear(engines[0]);
		store_engine_reap(engines[0]);
	}
	return NULL;
}

static void a_store_of_one_thread_is_handed_what_others_want(void **state)
{
	struct lone_store l = {.store = {.ops = &lone_ops, .size = SIZE, .block_size = 512}};
	struct waited w[64] = {0};
	struct iovec iov[64];
	pthread_t thread;

	(void)state;
	assert_int_equal(store_share(&l.store, engines, THREADS), 0);
	over = false;
	assert_int_equal(pthread_create(&thread, NULL, drive_first, &l), 0);
	while (!run(engines[1], store_for(&l.store, 1), STORE_WRITE, 0, 512, out, 0))
		;
	for (int i = 0; i < 64; i++) {
		iov[i] = (struct iovec){in + i * 512, 512};
		w[i].op = (struct store_op){.opcode = i % 4 ? STORE_READ : STORE_WRITE,
					    .offset = 512,
					    .len = 512,
					    .iov = &iov[i],
					    .iov_count = 1,
					    .done = on_done};
		store_submit(store_for(&l.store, 1 + i % 2), &w[i].op);
	}
	for (int i = 0; i < 64; i++) {
		wait_for(engines[1 + i % 2], &w[i]);
		assert_int_equal(w[i].error, i % 4 ? 0 : -ENOSPC);
		assert_true(i % 4 == 0 || in[i * 512 + 511] == 'l');
		assert_ptr_equal(w[i].op.done, on_done);
	}
	over = true;
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(l.calls, 65);
	store_destroy(&l.store);
}

/* --- at the same time ------------------------------------------------------------------------- */

#define BLOCK  4096
#define BLOCKS 4

static struct store *shared;

static void *write_one_byte(void *arg)
{
	const unsigned i = (unsigned)(uintptr_t)arg;
	uint8_t *mine = aligned_alloc(4096, BLOCKS * BLOCK);

	for (unsigned round = 0; !over; round++) {
		uint64_t at = round % BLOCKS, n = 1 + round % (BLOCKS - at);

		memset(mine, (int)(i + 2 * (round % 100)), n * BLOCK);
		assert(run(engines[i], store_for(shared, i), round % 7 ? STORE_WRITE : STORE_ZERO,
			   at * BLOCK, n * BLOCK, mine, STORE_UNMAP) == 0);
	}
	free(mine);
	return NULL;
}

/* Each block that is read is one that was written, whole. */
static void no_block_is_torn(struct store *s)
{
	const uint64_t until = time_now_ns() + 300 * NSEC_PER_MSEC;
	pthread_t threads[THREADS - 1];

	shared = s;
	over = false;
	for (uintptr_t i = 1; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i - 1], NULL, write_one_byte, (void *)i),
				 0);
	while (time_now_ns() < until) {
		assert_int_equal(run(engines[0], s, STORE_READ, 0, BLOCKS * BLOCK, in, 0), 0);
		for (int b = 0; b < BLOCKS; b++)
			assert_memory_equal(in + b * BLOCK, in + b * BLOCK + 1, BLOCK - 1);
	}
	over = true;
	for (int i = 0; i < THREADS - 1; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
}

static void a_block_is_never_seen_half_written(void **state)
{
	struct store *s = make_memory();

	(void)state;
	no_block_is_torn(s);
	store_destroy(s);
	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++) {
		s = open_file(dirs[i], false);
		no_block_is_torn(s);
		close_file(s);
	}
}

/* Chunks of memory, data's and metadata's, that several are the first to write to. */
static void *write_first(void *arg)
{
	const unsigned i = (unsigned)(uintptr_t)arg;

	for (uint64_t at = i * 512; at < SIZE; at += THREADS * 512) {
		uint8_t mine[512], meta[8];
		struct iovec iov = {mine, sizeof(mine)};
		struct store_op op = {.opcode = STORE_WRITE,
				      .offset = at,
				      .len = 512,
				      .iov = &iov,
				      .iov_count = 1,
				      .meta = meta};

		memset(mine, (int)(at / 512), sizeof(mine));
		memset(meta, (int)(at / 512), sizeof(meta));
		assert(run_op(engines[i], store_for(shared, i), &op) == 0);
	}
	return NULL;
}

static void memory_that_several_write_first_is_the_same_for_all(void **state)
{
	uint8_t meta[SIZE / 512][8];
	struct iovec iov = {in, SIZE};
	struct store_op op = {
		.opcode = STORE_READ, .len = SIZE, .iov = &iov, .iov_count = 1, .meta = meta};

	(void)state;
	for (int round = 0; round < 20; round++) {
		pthread_t threads[THREADS];

		shared = make_memory();
		for (uintptr_t i = 0; i < THREADS; i++)
			assert_int_equal(pthread_create(&threads[i], NULL, write_first, (void *)i),
					 0);
		for (int i = 0; i < THREADS; i++)
			assert_int_equal(pthread_join(threads[i], NULL), 0);
		assert_int_equal(run_op(engines[0], shared, &op), 0);
		for (int b = 0; b < SIZE / 512; b++) {
			assert_int_equal(in[b * 512 + 511], (uint8_t)b);
			assert_int_equal(meta[b][7], (uint8_t)b);
		}
		store_destroy(shared);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(what_one_thread_writes_the_others_read, begin, end),
		cmocka_unit_test_setup_teardown(a_file_that_has_grown_has_for_all, begin, end),
		cmocka_unit_test_setup_teardown(operations_of_any_size_come_to_their_end, begin,
						end),
		cmocka_unit_test_setup_teardown(one_thread_alone_shares_with_nobody, begin, end),
		cmocka_unit_test_setup_teardown(a_store_of_one_thread_is_handed_what_others_want,
						begin, end),
		cmocka_unit_test_setup_teardown(a_block_is_never_seen_half_written, begin, end),
		cmocka_unit_test_setup_teardown(memory_that_several_write_first_is_the_same_for_all,
						begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
