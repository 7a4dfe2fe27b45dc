/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Force Unit Access of files: what the kernel is asked for, by io_uring and by threads. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <linux/magic.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>
#include <cmocka.h>

#include "../skip.h"
#include "base/compiler.h"
#include "store_bed.h"

#define BLOCK 4096u
#define SIZE  (64 * BLOCK)

/* --- the kernel, looked at -------------------------------------------------------------------- */

static unsigned ring_writes, ring_durable;
static atomic_uint writes, durable, syncs; /* of threads */
static atomic_bool sync_fails;

typedef ssize_t transfer(int fd, const struct iovec *iov, int count, off_t at, int flags);
transfer __real_pwritev64v2, __wrap_pwritev64v2;
int __real_fdatasync(int fd);
int __wrap_fdatasync(int fd);
int __real_io_uring_submit(struct io_uring *ring);
int __wrap_io_uring_submit(struct io_uring *ring);

ssize_t __wrap_pwritev64v2(int fd, const struct iovec *iov, int count, off_t at, int flags)
{
	writes++;
	durable += (flags & RWF_DSYNC) != 0;
	return __real_pwritev64v2(fd, iov, count, at, flags);
}

int __wrap_fdatasync(int fd)
{
	syncs++;
	if (!sync_fails)
		return __real_fdatasync(fd);
	errno = EIO;
	return -1;
}

static bool is_write(unsigned opcode)
{
	return opcode == IORING_OP_WRITE || opcode == IORING_OP_WRITEV ||
	       opcode == IORING_OP_WRITE_FIXED;
}

int __wrap_io_uring_submit(struct io_uring *ring)
{
	for (unsigned i = ring->sq.sqe_head; i != ring->sq.sqe_tail; i++) {
		struct io_uring_sqe *sqe = &ring->sq.sqes[i & *ring->sq.kring_mask];

		ring_writes += is_write(sqe->opcode);
		ring_durable += is_write(sqe->opcode) && sqe->rw_flags & RWF_DSYNC;
	}
	return __real_io_uring_submit(ring);
}

/* --- a file ----------------------------------------------------------------------------------- */

static const char path[] = "store-fua.img";
static struct store_engine *e;
static struct store *s;
static uint8_t *area;

static int set_up(enum store_engine_kind kind)
{
	const struct store_file_options o = {.block_size = 512};
	const char *why;
	int fd = open(path, O_CREAT | O_TRUNC | O_RDWR, 0600);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, SIZE), 0);
	close(fd);
	sync_fails = false;
	area = calloc(1, SIZE);
	assert_non_null(area);
	fill(area, SIZE, 7);
	assert_int_equal(store_engine_create(kind, &e), 0);
	assert_int_equal(store_file_open(e, path, &o, &s, &why), 0);
	return 0;
}

static int by_ring(void **state)
{
	(void)state;
	return set_up(STORE_ENGINE_AUTO);
}

static int by_threads(void **state)
{
	(void)state;
	return set_up(STORE_ENGINE_THREADS);
}

static int tear_down(void **state)
{
	(void)state;
	store_destroy(s);
	store_engine_destroy(e);
	free(area);
	unlink(path);
	return 0;
}

static void forget(void)
{
	ring_writes = ring_durable = 0;
	writes = durable = syncs = 0;
}

static int do_write(uint64_t at, uint64_t len, uint32_t flags)
{
	forget();
	return run(e, s, STORE_WRITE, at, len, area, flags);
}

static int do_zero(uint32_t flags)
{
	forget();
	return run(e, s, STORE_ZERO, BLOCK, 2 * BLOCK, NULL, flags);
}

/* In pieces, more than a thread hands on at once. */
static int write_pieces(uint32_t flags)
{
	struct iovec iov[40];
	struct store_op op = {.opcode = STORE_WRITE,
			      .flags = flags,
			      .len = sizeof(iov) / sizeof(*iov) * 512,
			      .iov = iov,
			      .iov_count = ARRAY_SIZE(iov)};

	for (unsigned i = 0; i < ARRAY_SIZE(iov); i++)
		iov[i] = (struct iovec){area + (size_t)i * 1024, 512};
	forget();
	return run_op(e, s, &op);
}

/* --- what it comes to ------------------------------------------------------------------------- */

/* By the ring, and again by a thread where it would have waited. */
static void need_ring(void)
{
	struct statfs fs;

	if (strcmp(store_engine_name(e), "io_uring") != 0)
		SKIP_CASE("no io_uring here");
	if (statfs(path, &fs) == 0 && fs.f_type == TMPFS_MAGIC)
		SKIP_CASE("a file of tmpfs does not go by it");
}

static void the_ring_writes_through(void **state)
{
	(void)state;
	need_ring();
	assert_int_equal(do_write(0, BLOCK, STORE_FUA), 0);
	assert_true(ring_writes >= 1);
	assert_int_equal(ring_durable, ring_writes);
	assert_int_equal(durable, writes);
	assert_int_equal(write_pieces(STORE_FUA), 0);
	assert_true(ring_writes >= 1);
	assert_int_equal(ring_durable, ring_writes);
	assert_int_equal(durable, writes);
	assert_int_equal(do_write(0, BLOCK, 0), 0); /* who does not ask does not wait */
	assert_true(ring_writes >= 1);
	assert_int_equal(ring_durable + durable, 0);
}

static void threads_write_through(void **state)
{
	(void)state;
	assert_int_equal(do_write(512, 3 * BLOCK, STORE_FUA), 0);
	assert_true(writes >= 1);
	assert_int_equal(durable, writes);
	assert_int_equal(write_pieces(STORE_FUA), 0);
	assert_true(writes >= 3);
	assert_int_equal(durable, writes);
	assert_int_equal(do_write(0, BLOCK, 0), 0);
	assert_true(writes >= 1);
	assert_int_equal(durable, 0);
	assert_int_equal(ring_writes, 0);
}

static void zeroes_are_committed(void **state)
{
	static const uint32_t ways[] = {0, STORE_UNMAP};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(ways); i++) {
		assert_int_equal(do_zero(ways[i]), 0);
		assert_int_equal(syncs, 0);
		assert_int_equal(do_zero(ways[i] | STORE_FUA), 0);
		assert_int_equal(syncs, 1);
		sync_fails = true;
		assert_int_equal(do_zero(ways[i] | STORE_FUA), -EIO);
		sync_fails = false;
	}
}

static void a_flush_commits(void **state)
{
	(void)state;
	forget();
	assert_int_equal(run(e, s, STORE_FLUSH, 0, 0, NULL, 0), 0);
	assert_int_equal(syncs, 1);
	sync_fails = true;
	assert_int_equal(run(e, s, STORE_FLUSH, 0, 0, NULL, 0), -EIO);
}

int main(void)
{
#define RING(f)	   cmocka_unit_test_setup_teardown(f, by_ring, tear_down)
#define THREADS(f) cmocka_unit_test_setup_teardown(f, by_threads, tear_down)
	const struct CMUnitTest tests[] = {
		RING(the_ring_writes_through), RING(zeroes_are_committed),
		RING(a_flush_commits),	       THREADS(threads_write_through),
		THREADS(zeroes_are_committed), THREADS(a_flush_commits),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
