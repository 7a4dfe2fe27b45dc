/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Memory that io_uring has for good: which transfers go by it, and that they bring what others do.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <linux/magic.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>
#include <cmocka.h>

#include "../skip.h"
#include "store/store.h"

#define BLOCK 4096u
#define LENT  (16 * BLOCK)

/* --- the kernel, looked at -------------------------------------------------------------------- */

static unsigned fixed, plain, registrations;
static bool refuses;

int __real_io_uring_submit(struct io_uring *ring);
int __wrap_io_uring_submit(struct io_uring *ring);
int __real_io_uring_register_buffers(struct io_uring *ring, const struct iovec *v, unsigned n);
int __wrap_io_uring_register_buffers(struct io_uring *ring, const struct iovec *v, unsigned n);

int __wrap_io_uring_submit(struct io_uring *ring)
{
	for (unsigned i = ring->sq.sqe_head; i != ring->sq.sqe_tail; i++) {
		unsigned opcode = ring->sq.sqes[i & *ring->sq.kring_mask].opcode;

		if (opcode == IORING_OP_READ_FIXED || opcode == IORING_OP_WRITE_FIXED)
			fixed++;
		else
			plain++;
	}
	return __real_io_uring_submit(ring);
}

int __wrap_io_uring_register_buffers(struct io_uring *ring, const struct iovec *v, unsigned n)
{
	registrations++;
	return refuses ? -ENOMEM : __real_io_uring_register_buffers(ring, v, n);
}

/* --- a disk past the page cache --------------------------------------------------------------- */

static const char path[] = "store-fixed.img";
static struct store_engine *e;
static struct store *s;
static uint8_t *area; /* LENT bytes that are lent, and as many behind */

static int set_up(void **state)
{
	struct store_file_options o = {.block_size = BLOCK, .direct = true};
	const char *why;
	int fd = open(path, O_CREAT | O_TRUNC | O_RDWR, 0600);

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, 64 * BLOCK), 0);
	close(fd);
	fixed = plain = registrations = 0;
	refuses = false;
	area = aligned_alloc(BLOCK, (size_t)2 * LENT);
	assert_non_null(area);
	for (size_t i = 0; i < (size_t)2 * LENT; i++)
		area[i] = (uint8_t)(i * 31 + i / BLOCK);
	assert_int_equal(store_engine_create(STORE_ENGINE_AUTO, &e), 0);
	store_engine_lend(e, area, LENT);
	assert_int_equal(store_file_open(e, path, &o, &s, &why), 0);
	return 0;
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

static void need_direct(void)
{
	int fd = open(path, O_RDONLY | O_DIRECT);
	struct statfs fs;

	if (fd < 0 || fstatfs(fd, &fs) != 0 || fs.f_type == TMPFS_MAGIC)
		SKIP_CASE("no O_DIRECT on this file system");
	close(fd);
	if (strcmp(store_engine_name(e), "io_uring") != 0)
		SKIP_CASE("no io_uring here");
}

static bool done;

static void on_done(struct store_op *op, int error)
{
	(void)op;
	assert_int_equal(error, 0);
	done = true;
}

static void transfer_pieces(enum store_opcode opcode, uint64_t at, const struct iovec *iov,
			    uint32_t count)
{
	struct store_op op = {
		.opcode = opcode, .offset = at, .iov = iov, .iov_count = count, .done = on_done};

	for (uint32_t i = 0; i < count; i++)
		op.len += (uint32_t)iov[i].iov_len;
	done = false;
	store_submit(s, &op);
	for (int i = 0; i < 500 && !done; i++) {
		struct pollfd p = {.fd = store_engine_fd(e), .events = POLLIN};

		store_engine_submit(e);
		(void)poll(&p, 1, 10);
		store_engine_clear(e);
		store_engine_reap(e);
	}
	assert_true(done);
}

static void transfer(enum store_opcode opcode, uint64_t at, uint8_t *p, uint32_t len)
{
	transfer_pieces(opcode, at, &(struct iovec){p, len}, 1);
}

/* What the file has there, past all of ours. */
static void holds(uint64_t at, const uint8_t *p, size_t len)
{
	uint8_t *got = malloc(len);
	int fd = open(path, O_RDONLY);

	assert_true(fd >= 0);
	assert_int_equal(pread(fd, got, len, (off_t)at), len);
	assert_memory_equal(got, p, len);
	close(fd);
	free(got);
}

/* --- tests ------------------------------------------------------------------------------------ */

static void what_is_lent_is_registered_once_and_used(void **state)
{
	(void)state;
	need_direct();
	assert_int_equal(registrations, 0); /* not before it is good for anything */
	transfer(STORE_WRITE, 0, area, BLOCK);
	transfer(STORE_WRITE, BLOCK, area + LENT - BLOCK, BLOCK); /* its last */
	holds(0, area, BLOCK);
	holds(BLOCK, area + LENT - BLOCK, BLOCK);
	transfer(STORE_READ, 0, area + 2 * BLOCK, 2 * BLOCK);
	assert_memory_equal(area + 2 * BLOCK, area, BLOCK);
	assert_memory_equal(area + 3 * BLOCK, area + LENT - BLOCK, BLOCK);
	assert_int_equal(registrations, 1);
	assert_int_equal(fixed, 3);
	assert_int_equal(plain, 0);
}

static void other_memory_goes_as_ever(void **state)
{
	const struct iovec two[] = {{area, BLOCK}, {area + 5 * BLOCK, BLOCK}};

	(void)state;
	need_direct();
	transfer(STORE_WRITE, 0, area + LENT, BLOCK);
	transfer(STORE_WRITE, BLOCK, area + LENT - BLOCK, 2 * BLOCK); /* half of it */
	transfer(STORE_READ, 0, area + LENT + 4 * BLOCK, 3 * BLOCK);
	assert_memory_equal(area + LENT + 4 * BLOCK, area + LENT, BLOCK);
	assert_memory_equal(area + LENT + 5 * BLOCK, area + LENT - BLOCK, 2 * BLOCK);
	assert_int_equal(registrations, 0);
	transfer_pieces(STORE_WRITE, 8 * (uint64_t)BLOCK, two, 2);
	holds(8 * (uint64_t)BLOCK, area, BLOCK);
	holds(9 * (uint64_t)BLOCK, area + 5 * BLOCK, BLOCK);
	assert_int_equal(fixed, 0);
	assert_int_equal(plain, 4);
}

/* What lies askew is the page cache's, which copies. */
static void what_the_page_cache_copies_goes_as_ever(void **state)
{
	(void)state;
	need_direct();
	transfer(STORE_WRITE, 0, area + 4, BLOCK);
	holds(0, area + 4, BLOCK);
	assert_int_equal(registrations, 0);
	assert_int_equal(fixed, 0);
}

static void without_leave_for_it_all_goes_as_ever(void **state)
{
	(void)state;
	need_direct();
	refuses = true;
	transfer(STORE_WRITE, 0, area, BLOCK);
	transfer(STORE_READ, 0, area + BLOCK, BLOCK);
	assert_memory_equal(area + BLOCK, area, BLOCK);
	assert_int_equal(registrations, 1); /* not asked for again */
	assert_int_equal(fixed, 0);
	assert_int_equal(plain, 2);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(what_is_lent_is_registered_once_and_used),
		CASE(other_memory_goes_as_ever),
		CASE(what_the_page_cache_copies_goes_as_ever),
		CASE(without_leave_for_it_all_goes_as_ever),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
