/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What a process shows of itself: the tables in shared memory, and their reader. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/compiler.h"
#include "base/sight.h"
#include "cli/seen.h"

#define KEYS "packets bytes_ns "

static const struct seen_table *look(struct seen *s, const char *room, size_t n)
{
	assert_int_equal(seen_open(s, getpid(), false), 0);
	assert_int_equal(seen_read(s), 0);
	return seen_room(s, room, n);
}

/* How many memories the process has open. */
static size_t memories(void)
{
	struct seen s;
	size_t n = 0;

	if (seen_open(&s, getpid(), false) == 0) {
		n = s.fd_count;
		seen_close(&s);
	}
	return n;
}

static void what_is_counted_is_read_from_outside(void **state)
{
	uint64_t *t = sight_take("room", KEYS, 2, 3);
	const struct seen_table *r;
	struct seen s;

	(void)state;
	t[0] = 7;
	t[5] = UINT64_MAX;
	r = look(&s, "room", 0);
	assert_non_null(r);
	assert_int_equal(r->columns, 2);
	assert_int_equal(r->rows, 3);
	assert_int_equal(seen_value(r, 0, "packets"), 7);
	assert_int_equal(seen_value(r, 2, "bytes_ns"), UINT64_MAX);
	assert_int_equal(seen_value(r, 0, "nothing"), 0);
	t[0]++;
	assert_int_equal(seen_read(&s), 0);
	assert_int_equal(seen_value(seen_room(&s, "room", 0), 0, "packets"), 8);
	seen_close(&s);
	sight_release(t);
}

static void a_second_user_has_a_table_of_its_own_and_what_is_released_is_taken_again(void **state)
{
	uint64_t *a = sight_take("twice", KEYS, 2, 1), *b = sight_take("twice", KEYS, 2, 1), *c;
	struct seen s;

	(void)state;
	assert_ptr_not_equal(a, b);
	a[0] = 1;
	b[0] = 2;
	assert_non_null(look(&s, "twice", 1));
	assert_null(seen_room(&s, "twice", 2));
	seen_close(&s);
	sight_release(a);
	assert_non_null(look(&s, "twice", 0));
	assert_int_equal(seen_value(seen_room(&s, "twice", 0), 0, "packets"), 2);
	assert_null(seen_room(&s, "twice", 1));
	seen_close(&s);
	c = sight_take("twice", KEYS, 2, 1);
	assert_ptr_equal(a, c);
	assert_int_equal(c[0], 0);
	sight_release(b);
	sight_release(c);
}

static void where_there_is_no_room_there_is_another_memory(void **state)
{
	enum { ROWS = 65536, COLUMNS = 5 }; /* more than half of one */
	const size_t before = memories();
	uint64_t *small = sight_take("large", KEYS, 2, 1), *large[3];
	const struct seen_table *r;
	struct seen s;

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		sight_together(ROWS * COLUMNS * sizeof(uint64_t) + 16, 2);
		large[i] = sight_take("large", KEYS "a b c ", COLUMNS, ROWS);
		large[i][COLUMNS * ROWS - 1] = i;
		assert_non_null(sight_take("mate", KEYS, 2, 1));
	}
	small[0] = 7;
	assert_true(memories() >= before + 2);
	assert_non_null(look(&s, "large", 3));
	assert_int_equal(seen_sum(&s, "large", "packets"), 7);
	for (unsigned i = 0; i < s.count; i++) { /* they are together */
		r = &s.v[i];
		if (strcmp(r->room, "large") == 0 && r->rows == ROWS) {
			assert_string_equal(r[1].room, "mate");
			assert_int_equal(r[1].fd, r->fd);
		}
	}
	seen_close(&s);
	sight_release(small);
	for (unsigned i = 0; i < 3; i++)
		sight_release(large[i]);
}

static void what_finds_no_room_is_counted_unseen(void **state)
{
	uint64_t *t[SIGHT_TABLES_MAX + 8];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(t); i++) {
		t[i] = sight_take("many", KEYS, 2, 1);
		assert_non_null(t[i]);
		assert_int_equal(t[i][1], 0);
		t[i][1] = i;
	}
	for (size_t i = 0; i < ARRAY_SIZE(t); i++) {
		assert_int_equal(t[i][1], i);
		sight_release(t[i]);
	}
	t[0] = sight_take("large", KEYS, 2, SIGHT_BYTES);
	t[0][2 * SIGHT_BYTES - 1] = 1;
	sight_release(t[0]);
}

static void nobody_can_take_the_memory_away(void **state)
{
	uint64_t *t = sight_take("room", KEYS, 2, 3);
	struct seen s;

	(void)state;
	assert_int_equal(seen_open(&s, getpid(), true), 0);
	assert_int_equal(ftruncate(s.fds[0], 0), -1);
	assert_int_equal(errno, EPERM);
	seen_close(&s);
	sight_release(t);
}

static int in_child(uint64_t *parents, uint64_t *more)
{
	uint64_t *own;
	struct seen s;
	int bad = 0;

	bad |= memories() != 0;
	parents[0] = 99;
	sight_release(more);
	own = sight_take("child", KEYS, 2, 1);
	own[0] = 5;
	bad |= (memories() != 1) << 1;
	bad |= (!look(&s, "child", 0) || seen_value(seen_room(&s, "child", 0), 0, "packets") != 5)
	       << 2;
	bad |= (seen_room(&s, "room", 0) != NULL) << 3;
	bad |= (parents[0] != 99) << 4;
	seen_close(&s);
	sight_release(parents);
	sight_release(own);
	return bad;
}

static void a_fork_s_child_counts_for_itself(void **state)
{
	uint64_t *t = sight_take("room", KEYS, 2, 3), *more = sight_take("more", KEYS, 2, 1);
	struct seen s;
	int status;
	pid_t pid;

	(void)state;
	t[0] = 3;
	pid = fork();
	if (pid == 0)
		_exit(in_child(t, more));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(t[0], 3);
	assert_non_null(look(&s, "more", 0));
	assert_null(seen_room(&s, "child", 0));
	seen_close(&s);
	sight_release(t);
	sight_release(more);
}

/* To exceed the limit would be a signal that kills. */
static void a_limit_of_files_sizes_costs_the_sight_alone(void **state)
{
	int status;
	pid_t pid;

	(void)state;
	pid = fork();
	if (pid == 0) {
		struct rlimit small = {4096, 4096};
		uint64_t *t;

		signal(SIGXFSZ, SIG_DFL);
		setrlimit(RLIMIT_FSIZE, &small);
		t = sight_take("room", KEYS, 2, 1);
		t[1] = 1;
		_exit(memories() != 0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void a_program_that_closes_our_number_keeps_what_it_opens_there(void **state)
{
	uint64_t *t = sight_take("room", KEYS, 2, 1);
	int fd[2], status;
	pid_t pid;

	(void)state;
	assert_int_equal(pipe(fd), 0);
	pid = fork();
	if (pid == 0) {
		/* The number is that of its own memory now: closed, and a pipe. */
		uint64_t *own = sight_take("own", KEYS, 2, 1);
		int number = 0;
		pid_t grandchild;

		while (fcntl(number, F_GET_SEALS) < 0)
			number++;
		dup2(fd[1], number);
		own[0] = 1;
		grandchild = fork();
		if (grandchild == 0)
			_exit(write(number, "x", 1) != 1);
		waitpid(grandchild, &status, 0);
		_exit(status != 0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	close(fd[0]);
	close(fd[1]);
	sight_release(t);
}

/* What a process that means harm may show: nothing of it is read, or all of it is in bounds. */
static void what_has_no_right_form_is_not_read(void **state)
{
	static const struct {
		uint32_t columns, rows;
		uint64_t offset;
		const char *room, *keys;
	} bad[] = {
		{2, 3, SIGHT_BYTES, "x", KEYS},	   {2, UINT32_MAX, 65536, "x", KEYS},
		{2, 3, UINT64_MAX - 8, "x", KEYS}, {0, 3, 65536, "x", ""},
		{UINT32_MAX, 1, 65536, "x", KEYS}, {2, 3, 65536, "\033[2J", KEYS},
		{2, 3, 65536, "x", "a \033[2J "},  {2, 3, 65536, "x", "a b c "},
		{2, 3, 65536, "x", "a "},
	};
	const int fd = memfd_create(SIGHT_NAME, MFD_ALLOW_SEALING);
	static struct sight_head h = {.magic = SIGHT_MAGIC, .count = UINT32_MAX};
	struct seen s;
	size_t had = memories();

	(void)state;
	assert_int_equal(ftruncate(fd, SIGHT_BYTES), 0);
	/* Not sealed: it is not looked at. */
	assert_int_equal(memories(), had);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct sight_entry *e = &h.entries[i];

		e->columns = bad[i].columns;
		e->rows = bad[i].rows;
		e->offset = bad[i].offset;
		e->in_use = 1;
		strcpy(e->room, bad[i].room);
		strcpy(e->keys, bad[i].keys);
	}
	memset(h.entries[20].room, 'x', sizeof(h.entries[20].room));
	memset(h.entries[20].keys, 'k', sizeof(h.entries[20].keys));
	h.entries[20].in_use = h.entries[20].columns = h.entries[20].rows = 1;
	assert_int_equal(pwrite(fd, &h, sizeof(h), 0), sizeof(h));
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	assert_int_equal(memories(), had + 1);
	assert_int_equal(seen_open(&s, getpid(), false), 0);
	(void)!seen_read(&s);
	assert_null(seen_room(&s, "x", 0));
	for (size_t i = 0; i < s.count; i++)
		assert_true(strlen(s.v[i].keys[0]) < SIGHT_KEYS_MAX);
	seen_close(&s);
	close(fd);
}

/* Tables over one another would make one memory many. */
static void no_more_is_read_than_there_can_be(void **state)
{
	const int fd = memfd_create(SIGHT_NAME, MFD_ALLOW_SEALING);
	static struct sight_head h = {.magic = SIGHT_MAGIC, .count = SIGHT_TABLES_MAX};
	size_t bytes = 0;
	struct seen s;

	(void)state;
	assert_int_equal(ftruncate(fd, SIGHT_BYTES), 0);
	for (size_t i = 0; i < SIGHT_TABLES_MAX; i++)
		h.entries[i] = (struct sight_entry){.in_use = 1,
						    .columns = 1,
						    .rows = 60000,
						    .offset = sizeof(h),
						    .room = "queue-pairs",
						    .keys = "qpn "};
	assert_int_equal(pwrite(fd, &h, sizeof(h), 0), sizeof(h));
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	assert_int_equal(seen_open(&s, getpid(), false), 0);
	assert_int_equal(seen_read(&s), 0);
	for (size_t i = 0; i < s.count; i++)
		if (strcmp(s.v[i].room, "queue-pairs") == 0)
			bytes += (size_t)s.v[i].rows * s.v[i].columns * sizeof(uint64_t);
	assert_in_range(bytes, 60000 * sizeof(uint64_t), SIGHT_BYTES);
	seen_close(&s);
	close(fd);
}

static void a_process_that_is_none_or_shows_nothing_is_told_apart(void **state)
{
	struct seen s;

	(void)state;
	assert_int_equal(seen_open(&s, 0x3fffffff, false), -ESRCH);
	if (geteuid() == 0)
		assert_int_equal(seen_open(&s, 1, false), -ENOENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_counted_is_read_from_outside),
		cmocka_unit_test(
			a_second_user_has_a_table_of_its_own_and_what_is_released_is_taken_again),
		cmocka_unit_test(nobody_can_take_the_memory_away),
		cmocka_unit_test(a_fork_s_child_counts_for_itself),
		cmocka_unit_test(a_limit_of_files_sizes_costs_the_sight_alone),
		cmocka_unit_test(a_program_that_closes_our_number_keeps_what_it_opens_there),
		cmocka_unit_test(what_has_no_right_form_is_not_read),
		cmocka_unit_test(no_more_is_read_than_there_can_be),
		cmocka_unit_test(a_process_that_is_none_or_shows_nothing_is_told_apart),
		cmocka_unit_test(where_there_is_no_room_there_is_another_memory),
		cmocka_unit_test(what_finds_no_room_is_counted_unseen),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
