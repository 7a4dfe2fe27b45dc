/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What Identify says of atomic writes (AWUN, AWUPF: one block): however writes and reads overlap,
 * nobody reads a block that is of two writes.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/time.h"
#include "store/store.h"

#define SIZE   (8u << 10) /* so that they meet */
#define OPS    32
#define MS     150ull
#define BLOCKS 32u /* of the largest operation */

struct op {
	struct store_op op;
	struct iovec iov;
	bool busy;
	uint8_t data[BLOCKS * 4096] __attribute__((aligned(4096)));
};

static struct op ops[OPS];
static uint32_t block_size;
static unsigned long torn, reads;
static uint32_t seed;

static uint32_t chance(uint32_t of)
{
	seed = seed * 1664525 + 1013904223;
	return (seed >> 8) % of;
}

static void done(struct store_op *op, int error)
{
	struct op *o = container_of(op, struct op, op);

	assert_int_equal(error, 0);
	o->busy = false;
	if (op->opcode != STORE_READ)
		return;
	reads++;
	for (uint64_t at = 0; at < op->len; at += block_size)
		torn += memcmp(o->data + at, o->data + at + 1, block_size - 1) != 0;
}

static void start(struct store *s, struct op *o)
{
	const uint32_t max = min_of(BLOCKS, SIZE / block_size);
	uint32_t count = 1 + chance(max), first = chance(SIZE / block_size - count + 1);

	o->iov = (struct iovec){o->data, (size_t)count * block_size};
	o->op = (struct store_op){.opcode = chance(2) ? STORE_READ : STORE_WRITE,
				  .offset = (uint64_t)first * block_size,
				  .len = o->iov.iov_len,
				  .iov = &o->iov,
				  .iov_count = 1,
				  .done = done};
	if (o->op.opcode == STORE_WRITE) {
		for (uint32_t i = 0; i < count; i++)
			memset(o->data + (size_t)i * block_size, (int)chance(256), block_size);
		if (chance(8) == 0)
			o->op.opcode = STORE_ZERO;
	}
	o->busy = true;
	store_submit(s, &o->op);
}

static void hammer(struct store_engine *e, struct store *s, uint32_t size)
{
	uint64_t end = time_now_ns() + MS * NSEC_PER_MSEC;
	bool more = true;

	block_size = size;
	torn = reads = 0;
	seed = size;
	while (more) {
		more = false;
		for (unsigned i = 0; i < OPS; i++) {
			if (!ops[i].busy && time_now_ns() < end)
				start(s, &ops[i]);
			more |= ops[i].busy;
		}
		if (!e)
			continue;
		store_engine_submit(e);
		if (!store_engine_reap(e)) {
			struct pollfd p = {store_engine_fd(e), POLLIN, 0};

			(void)poll(&p, 1, 10);
			store_engine_clear(e);
		}
	}
	assert_int_equal(torn, 0);
	assert_true(reads);
}

static void of_file(const char *dir, enum store_engine_kind kind, bool direct, uint32_t size)
{
	struct store_file_options how = {.block_size = size, .direct = direct};
	char path[256];
	const char *why = "";
	struct store_engine *e;
	struct store *s;
	int fd;

	snprintf(path, sizeof(path), "%s/atomic-XXXXXX", dir);
	fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, SIZE), 0);
	close(fd);
	assert_int_equal(store_engine_create(kind, &e), 0);
	assert_int_equal(store_file_open(e, path, &how, &s, &why), 0);
	hammer(e, s, size);
	store_destroy(s);
	store_engine_destroy(e);
	unlink(path);
}

static void blocks_of_a_file_are_never_torn(void **state)
{
	(void)state;
	for (uint32_t size = 512; size <= 4096; size *= 8)
		for (int direct = 0; direct < 2; direct++)
			for (int kind = 0; kind < 2; kind++)
				of_file(".", kind ? STORE_ENGINE_AUTO : STORE_ENGINE_THREADS,
					direct, size);
}

static void blocks_of_a_file_in_memory_are_never_torn(void **state)
{
	(void)state;
	of_file("/dev/shm", STORE_ENGINE_AUTO, false, 512);
}

static void blocks_in_memory_are_never_torn(void **state)
{
	struct store *s;

	(void)state;
	assert_int_equal(store_mem_create(SIZE, 512, 0, &s), 0);
	hammer(NULL, s, 512);
	store_destroy(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(blocks_of_a_file_are_never_torn),
		cmocka_unit_test(blocks_of_a_file_in_memory_are_never_torn),
		cmocka_unit_test(blocks_in_memory_are_never_torn),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
