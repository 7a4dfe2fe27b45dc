/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Whether one that attends looks before it sleeps, by the rules alone: time is a number here. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "base/units.h"
#include "engine/moment.h"

#define US 1000ull

static struct moment new_moment(void)
{
	struct moment m;

	moment_init(&m);
	return m;
}

static void sleeps(struct moment *m, uint64_t for_ns, unsigned packets)
{
	moment_sleeps(m, NSEC_PER_SEC);
	moment_awake(m, packets, NSEC_PER_SEC + for_ns);
}

static void looks(struct moment *m, bool found)
{
	if (found) {
		moment_finds(m);
		moment_awake(m, 1, NSEC_PER_SEC);
	} else {
		moment_looked_in_vain(m);
	}
}

/* How many short sleeps it takes until it looks. */
static unsigned short_sleeps_until_it_looks(struct moment *m)
{
	unsigned n = 0;

	while (!moment_pays(m)) {
		sleeps(m, 60 * US, 2);
		assert_in_range(++n, 1, 2000);
	}
	return n;
}

static struct moment one_that_looks(void)
{
	struct moment m = new_moment();

	short_sleeps_until_it_looks(&m);
	return m;
}

static void looks_where_sleeps_were_short(void **state)
{
	struct moment m = new_moment();

	(void)state;
	assert_false(moment_pays(&m));
	assert_int_equal(short_sleeps_until_it_looks(&m), 8);
}

static void does_not_look_where_they_were_long(void **state)
{
	struct moment m = new_moment();

	(void)state;
	for (int i = 0; i < 100; i++) {
		sleeps(&m, 60 * US, 2);
		sleeps(&m, NSEC_PER_MSEC, 2);
		assert_false(moment_pays(&m));
	}
}

static void does_not_look_where_much_comes_at_a_time(void **state)
{
	struct moment m = new_moment();

	(void)state;
	for (int i = 0; i < 100; i++) {
		sleeps(&m, 10 * US, 16);
		assert_false(moment_pays(&m));
	}
}

/* Nor does it go on where little came before, though it slept no more. */
static void stops_where_much_comes_at_a_time(void **state)
{
	struct moment m = one_that_looks();

	(void)state;
	for (int i = 0; i < 20; i++) {
		moment_finds(&m);
		moment_awake(&m, 16, NSEC_PER_SEC);
	}
	assert_false(moment_pays(&m));
}

/* By another thread, by a signal, at the end of its patience. */
static void is_woken_by_something_else(void **state)
{
	struct moment m = new_moment();

	(void)state;
	for (int i = 0; i < 100; i++)
		sleeps(&m, 5 * US, 0);
	assert_false(moment_pays(&m));
	m = one_that_looks();
	sleeps(&m, 5 * US, 0);
	assert_true(moment_pays(&m));
}

/* What comes to one that is awake says nothing of sleeps. */
static void is_awake_anyway(void **state)
{
	struct moment m = new_moment();

	(void)state;
	for (int i = 0; i < 100; i++)
		moment_awake(&m, 2, NSEC_PER_SEC);
	assert_false(moment_pays(&m));
}

static void gives_up_what_is_in_vain(void **state)
{
	struct moment m = one_that_looks();
	unsigned more = 16;

	(void)state;
	for (int i = 0; i < 20; i++) {
		looks(&m, false);
		assert_true(moment_pays(&m)); /* once is chance */
		looks(&m, false);
		assert_false(moment_pays(&m));
		assert_int_equal(short_sleeps_until_it_looks(&m), more);
		more = more < 1024 ? 2 * more : 1024;
	}
}

/* What wakes and is no packet, as a peer that is nowhere near sends it, is none either. */
static void gives_up_what_finds_no_packet(void **state)
{
	struct moment m = one_that_looks();

	(void)state;
	for (int i = 0; i < 2; i++) {
		assert_true(moment_pays(&m));
		moment_finds(&m);
		moment_awake(&m, 0, NSEC_PER_SEC);
	}
	assert_false(moment_pays(&m));
}

static void forgets_that_once_it_was_in_vain(void **state)
{
	struct moment m = one_that_looks();

	(void)state;
	for (int i = 0; i < 10; i++) {
		looks(&m, false);
		looks(&m, false);
		short_sleeps_until_it_looks(&m);
	}
	for (int i = 0; i < 4; i++)
		looks(&m, true);
	for (int i = 0; i < 4; i++)
		looks(&m, false);
	assert_false(moment_pays(&m));
	assert_int_equal(short_sleeps_until_it_looks(&m), 16);
}

static void goes_on_while_two_of_three_find_something(void **state)
{
	struct moment m = one_that_looks();

	(void)state;
	for (int i = 0; i < 1000; i++) {
		looks(&m, i % 3 != 0);
		assert_true(moment_pays(&m));
	}
	m = one_that_looks();
	for (int i = 0; i < 1000 && moment_pays(&m); i++)
		looks(&m, i % 2 == 0);
	assert_false(moment_pays(&m));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(looks_where_sleeps_were_short),
		cmocka_unit_test(does_not_look_where_they_were_long),
		cmocka_unit_test(does_not_look_where_much_comes_at_a_time),
		cmocka_unit_test(stops_where_much_comes_at_a_time),
		cmocka_unit_test(is_woken_by_something_else),
		cmocka_unit_test(is_awake_anyway),
		cmocka_unit_test(gives_up_what_is_in_vain),
		cmocka_unit_test(gives_up_what_finds_no_packet),
		cmocka_unit_test(forgets_that_once_it_was_in_vain),
		cmocka_unit_test(goes_on_while_two_of_three_find_something),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
