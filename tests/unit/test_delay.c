/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Congestion control by delay: what round trips make of the window. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/compiler.h"
#include "base/units.h"
#include "rnic/cc/cc.h"

#define MS     NSEC_PER_MSEC
#define WINDOW (512u << 10)
#define FIRST  (16u << 10)

static struct cc cc;
static uint64_t now;

static int begin(void **state)
{
	(void)state;
	now = NSEC_PER_SEC;
	cc_start(&cc, &cc_delay, &cc_defaults, WINDOW, now);
	return 0;
}

/* A round trip that took so long, in which a window was acknowledged. */
static void round_trip(uint64_t ns)
{
	now += ns;
	cc.used = true;
	cc.ops->acked(&cc, cc.window, now);
	cc.ops->rtt(&cc, ns, now);
}

static void it_doubles_until_a_round_trip_takes_long(void **state)
{
	(void)state;
	assert_int_equal(cc.window, FIRST);
	round_trip(2 * MS);
	round_trip(2 * MS);
	assert_int_equal(cc.window, 4 * FIRST);
	for (int i = 0; i < 4; i++)
		round_trip(2 * MS);
	assert_int_equal(cc.window, WINDOW);
	round_trip(3200000); /* what the way carries without a queue */
	assert_int_equal(cc.window, WINDOW * 20 / 32);
}

/* Many small messages, one after the other, tell nothing of a way for a large one. */
static void what_is_not_used_does_not_grow(void **state)
{
	(void)state;
	for (int i = 0; i < 1000; i++) {
		now += MS;
		cc.used = false;
		cc.ops->acked(&cc, 1024, now);
		cc.ops->rtt(&cc, MS, now);
	}
	assert_int_equal(cc.window, FIRST);
}

static void then_it_grows_by_a_little_and_later_by_more(void **state)
{
	uint32_t before;

	(void)state;
	round_trip(2 * MS);
	round_trip(4 * MS);
	before = cc.window;
	round_trip(2 * MS); /* of the one before, that was late, nothing is added */
	assert_int_equal(cc.window, before);
	for (int i = 0; i < 4; i++)
		round_trip(2 * MS);
	assert_in_range(cc.window, before + 4 * 2000, before + 4 * 2048);
	before = cc.window;
	for (int i = 0; i < 4; i++)
		round_trip(2 * MS);
	assert_in_range(cc.window, before + 6 * 2048, before + 14 * 2048);
}

static void it_grows_by_less_where_the_way_is_short(void **state)
{
	static const struct {
		uint64_t ns;
		uint32_t more;
	} ways[] = {{MS / 10, 1024}, {MS, 1024}, {2 * MS, 2048}, {4 * MS, 4096}, {40 * MS, 4096}};

	for (size_t i = 0; i < ARRAY_SIZE(ways); i++) {
		uint32_t before;

		begin(state);
		round_trip(ways[i].ns);
		round_trip(ways[i].ns * 2 + 2 * MS);
		round_trip(ways[i].ns);
		before = cc.window;
		round_trip(ways[i].ns);
		assert_in_range(cc.window, before + ways[i].more - 2, before + ways[i].more);
	}
}

static void it_is_cut_once_for_a_queue(void **state)
{
	uint32_t before;

	(void)state;
	round_trip(2 * MS);
	round_trip(20 * MS); /* by half at the most */
	assert_int_equal(cc.window, 2 * FIRST);
	before = cc.window;
	now += 19 * MS; /* this one was sent before the cut */
	cc.ops->rtt(&cc, 20 * MS, now);
	assert_int_equal(cc.window, before);
	now += MS;
	cc.ops->rtt(&cc, 20 * MS, now);
	assert_int_equal(cc.window, before / 2);
	for (int i = 0; i < 30; i++)
		round_trip(20 * MS);
	assert_int_equal(cc.window, 1024);
}

static void who_has_little_waits_for_longer(void **state)
{
	(void)state;
	round_trip(2 * MS);
	while (cc.window > 2048)
		round_trip(20 * MS);
	for (int i = 0; i < 4; i++)
		round_trip(3500000);
	assert_true(cc.window > 2048);
	for (int i = 0; i < 400 && cc.window < 128u << 10; i++)
		round_trip(2 * MS);
	assert_true(cc.window >= 128u << 10);
	round_trip(3500000);
	round_trip(3500000);
	assert_true(cc.window < 128u << 10);
}

static void lose(uint32_t bytes)
{
	cc.ops->lost(&cc, bytes, false, now);
}

static void that_one_in_a_hundred_is_lost_is_no_congestion(void **state)
{
	(void)state;
	for (int i = 0; i < 100; i++) {
		lose(cc.window / 100);
		round_trip(2 * MS);
	}
	assert_int_equal(cc.window, WINDOW);
}

/* A queue too short for a round trip to take long. */
static void that_one_in_ten_is_lost_is_congestion(void **state)
{
	(void)state;
	for (int i = 0; i < 20; i++) {
		lose(cc.window / 10);
		round_trip(2 * MS);
	}
	assert_true(cc.window < WINDOW);
	for (int i = 0; i < 200; i++) {
		lose(cc.window / 10);
		round_trip(2 * MS);
	}
	assert_in_range(cc.window, 1024, WINDOW / 4);
}

/* A queue that is full before a round trip takes too long. */
static void nor_is_one_in_forty_where_round_trips_take_longer(void **state)
{
	(void)state;
	for (int i = 0; i < 20; i++) {
		lose(cc.window / 40);
		round_trip(2 * MS);
	}
	assert_int_equal(cc.window, WINDOW);
	for (int i = 0; i < 20; i++) {
		lose(cc.window / 40);
		round_trip(2400000);
	}
	assert_int_equal(cc.window, WINDOW);
	for (int i = 0; i < 20; i++) {
		lose(cc.window / 40);
		round_trip(2600000);
	}
	assert_true(cc.window < WINDOW / 2);
}

/* Who came when there was a queue already sees how long the way is without it. */
static void now_and_then_it_makes_room(void **state)
{
	uint32_t window = WINDOW * 2 / 3, lower;

	(void)state;
	for (int i = 0; i < 200; i++) /* there has been no queue */
		round_trip(3 * MS);
	assert_int_equal(cc.window, WINDOW);
	round_trip(4500000);
	assert_int_equal(cc.window, window);
	round_trip(3 * MS);
	assert_int_equal(cc.window, window / 8);
	now += MS; /* this was sent before there was room */
	cc.ops->rtt(&cc, 3 * MS, now);
	round_trip(4 * MS); /* it does not grow meanwhile */
	assert_int_equal(cc.window, window / 8);
	round_trip(2 * MS); /* and that is how long the way is */
	assert_int_equal(cc.window, window);
	for (int i = 0; i < 100; i++)
		round_trip(2 * MS);
	round_trip(3200000);
	round_trip(3200000);
	lower = cc.window;
	assert_true(lower < WINDOW);
	for (int i = 0; i < 20; i++) /* it is too soon for another */
		round_trip(2 * MS);
	assert_true(cc.window >= lower);
}

/* So many round trips of 10 ms until it has, after two that told of a queue. */
static int until_it_makes_room(void)
{
	int n = 0;

	round_trip(20 * MS);
	round_trip(20 * MS);
	for (uint32_t before = cc.window; cc.window > before / 2; n++) {
		before = cc.window;
		round_trip(10 * MS);
	}
	round_trip(10 * MS); /* it is over */
	round_trip(10 * MS);
	return n;
}

static void the_first_time_it_makes_room_sooner(void **state)
{
	(void)state;
	for (int i = 0; i < 3; i++)
		round_trip(10 * MS);
	assert_in_range(until_it_makes_room(), 20, 32);
	assert_in_range(until_it_makes_room(), 110, 128);
}

/* A host was at something else for once. */
static void one_that_is_late_alone_is_not_congestion(void **state)
{
	uint32_t before;

	(void)state;
	round_trip(2 * MS);
	round_trip(4 * MS);
	before = cc.window;
	for (int i = 0; i < 10; i++) {
		round_trip(2 * MS);
		round_trip(20 * MS);
	}
	assert_true(cc.window > before);
	before = cc.window;
	round_trip(20 * MS);
	assert_int_equal(cc.window, before / 2);
}

/* A way that has become longer. */
static void the_shortest_is_forgotten(void **state)
{
	(void)state;
	round_trip(2 * MS);
	for (int i = 0; i < 100; i++) /* a second, and not until the shortest is old */
		round_trip(10 * MS);
	assert_true(cc.window > FIRST);
}

static void it_spreads_what_it_sends(void **state)
{
	(void)state;
	round_trip(MS / 10);
	assert_int_equal(cc.rate_kbps, 0);
	round_trip(MS * 4 / 10);
	round_trip(2 * MS);
	assert_int_equal(cc.rate_kbps, 0); /* one alone */
	round_trip(2 * MS);
	assert_true(cc.rate_kbps >= cc.window * 8000000ull / (2 * MS));
	assert_in_range(cc.tick_ns, now + 10 * MS, now + 20 * MS);
	cc.ops->tick(&cc, cc.tick_ns); /* nobody measures any more */
	assert_int_equal(cc.rate_kbps, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(it_doubles_until_a_round_trip_takes_long, begin),
		cmocka_unit_test_setup(then_it_grows_by_a_little_and_later_by_more, begin),
		cmocka_unit_test_setup(it_grows_by_less_where_the_way_is_short, begin),
		cmocka_unit_test_setup(it_is_cut_once_for_a_queue, begin),
		cmocka_unit_test_setup(who_has_little_waits_for_longer, begin),
		cmocka_unit_test_setup(that_one_in_a_hundred_is_lost_is_no_congestion, begin),
		cmocka_unit_test_setup(that_one_in_ten_is_lost_is_congestion, begin),
		cmocka_unit_test_setup(nor_is_one_in_forty_where_round_trips_take_longer, begin),
		cmocka_unit_test_setup(now_and_then_it_makes_room, begin),
		cmocka_unit_test_setup(the_first_time_it_makes_room_sooner, begin),
		cmocka_unit_test_setup(one_that_is_late_alone_is_not_congestion, begin),
		cmocka_unit_test_setup(what_is_not_used_does_not_grow, begin),
		cmocka_unit_test_setup(the_shortest_is_forgotten, begin),
		cmocka_unit_test_setup(it_spreads_what_it_sends, begin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
