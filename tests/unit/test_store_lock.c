/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Who may have a file beside whom. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
#include <cmocka.h>

#include "store/store.h"

static char path[] = "/tmp/weft-lock-XXXXXX";
static struct store_engine *engine;

static int open_beside(bool read_only, struct store *leaving, struct store **ret)
{
	struct store_file_options o = {.block_size = 512,
				       .read_only = read_only,
				       .leaving = &leaving,
				       .leaving_count = leaving != NULL};
	const char *why;

	return store_file_open(engine, path, &o, ret, &why);
}

/* As other processes find it: a lock is not of a process. */
static void assert_others_may(bool read, bool write)
{
	struct store *s;

	for (int read_only = 0; read_only < 2; read_only++) {
		bool may = read_only ? read : write;

		assert_int_equal(open_beside(read_only, NULL, &s), may ? 0 : -EBUSY);
		if (may)
			store_destroy(s);
	}
}

static void who_takes_the_place_of_a_writer_to_read_lets_others_read(void **state)
{
	struct store *writer, *reader, *other;

	(void)state;
	assert_int_equal(open_beside(false, NULL, &writer), 0);
	assert_int_equal(open_beside(true, writer, &reader), 0);
	assert_others_may(false, false);
	/* One place is not two's, but to read. */
	assert_int_equal(open_beside(false, writer, &other), -EBUSY);
	assert_int_equal(open_beside(true, writer, &other), 0);
	store_destroy(other);
	store_destroy(writer);
	assert_others_may(true, false);
	store_destroy(reader);
	assert_others_may(true, true);
}

static void who_takes_the_place_of_a_reader_to_write_is_alone(void **state)
{
	struct store *writer, *reader;

	(void)state;
	assert_int_equal(open_beside(true, NULL, &reader), 0);
	assert_others_may(true, false);
	for (int i = 0; i < 2; i++) { /* the first time it comes to nothing */
		assert_int_equal(open_beside(false, reader, &writer), 0);
		assert_others_may(false, false);
		if (i)
			break;
		store_destroy(writer);
		assert_others_may(true, false);
	}
	store_destroy(reader);
	assert_others_may(false, false);
	store_destroy(writer);
	assert_others_may(true, true);
}

static void nobody_writes_beside_a_reader_who_stays(void **state)
{
	struct store *writer, *reader, *stays;

	(void)state;
	assert_int_equal(open_beside(true, NULL, &reader), 0);
	assert_int_equal(open_beside(true, NULL, &stays), 0);
	assert_int_equal(open_beside(false, reader, &writer), -EBUSY);
	store_destroy(stays);
	assert_others_may(true, false);
	store_destroy(reader);
	assert_others_may(true, true);
}

static int set_up(void **state)
{
	int fd = mkstemp(path);
	int error = fd < 0 || ftruncate(fd, 4096) != 0;

	(void)state;
	if (fd >= 0)
		close(fd);
	return error ? -1 : store_engine_create(STORE_ENGINE_AUTO, &engine);
}

static int tear_down(void **state)
{
	(void)state;
	store_engine_destroy(engine);
	return unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_takes_the_place_of_a_writer_to_read_lets_others_read),
		cmocka_unit_test(who_takes_the_place_of_a_reader_to_write_is_alone),
		cmocka_unit_test(nobody_writes_beside_a_reader_who_stays),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
