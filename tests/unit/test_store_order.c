/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Operations that touch the same bytes are one after the other, however many there are. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "base/time.h"
#include "store/internal.h"

#define BLOCK 4096u
#define LOOK  16 /* so often at the clock */

static struct order order;
static struct store_op *ops;
static bool *runs;
static unsigned started;

static void start(struct store_op *op)
{
	assert_false(runs[op - ops]);
	runs[op - ops] = true;
	started++;
}

static void begin(unsigned i)
{
	runs[i] = order_begin(&order, &ops[i]);
	started += runs[i];
}

static void end(unsigned i)
{
	runs[i] = false;
	order_end(&order, &ops[i], start);
}

static void make(unsigned i, enum store_opcode opcode, uint64_t block, uint64_t blocks)
{
	ops[i] =
		(struct store_op){.opcode = opcode, .offset = block * BLOCK, .len = blocks * BLOCK};
}

static void set_up(unsigned count)
{
	order_init(&order);
	ops = calloc(count, sizeof(*ops));
	runs = calloc(count, sizeof(*runs));
	started = 0;
	assert_true(ops && runs);
}

static void tear_down(void)
{
	free(ops);
	free(runs);
}

/* --- who waits -------------------------------------------------------------------------------- */

static void reads_wait_for_writes_alone(void **state)
{
	(void)state;
	set_up(4);
	make(0, STORE_READ, 0, 8);
	make(1, STORE_READ, 4, 8);
	make(2, STORE_WRITE, 7, 1);
	make(3, STORE_READ, 7, 1);
	for (unsigned i = 0; i < 4; i++)
		begin(i);
	assert_true(runs[0] && runs[1] && !runs[2] && !runs[3]);
	assert_true(order_waits(&ops[2]) && order_waits(&ops[3]) && !order_waits(&ops[1]));
	end(1);
	assert_false(runs[2]);
	end(0);
	assert_true(runs[2] && !runs[3] && !order_waits(&ops[2]));
	end(2);
	assert_true(runs[3]);
	end(3);
	tear_down();
}

static void who_is_forgotten_holds_nobody_up(void **state)
{
	(void)state;
	set_up(4);
	make(0, STORE_WRITE, 0, 1);
	make(1, STORE_WRITE, 0, 2);
	make(2, STORE_WRITE, 1, 1);
	make(3, STORE_WRITE, 0, 1);
	for (unsigned i = 0; i < 4; i++)
		begin(i);
	end(1); /* while it waited */
	assert_true(runs[0] && runs[2] && !runs[3]);
	end(0);
	assert_true(runs[3]);
	end(2);
	end(3);
	tear_down();
}

/* What has to be true of any of them: it runs, or one that came before is in its way. */
static bool in_the_way(const struct store_op *a, const struct store_op *b)
{
	return (a->opcode != STORE_READ || b->opcode != STORE_READ) &&
	       a->offset < b->offset + b->len && b->offset < a->offset + a->len;
}

static void check(const bool *there, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		bool must_wait = false;

		for (unsigned j = 0; there[i] && j < i && !must_wait; j++)
			must_wait = there[j] && in_the_way(&ops[j], &ops[i]);
		if (there[i] && runs[i] == must_wait)
			fail_msg("the %u-th %s", i, must_wait ? "does not wait" : "waits");
	}
}

/* Any of those that are there ends, or is forgotten. */
static void end_any(bool *there, unsigned count)
{
	unsigned i = (unsigned)rand() % count;

	for (unsigned n = 0; n < count && !there[i]; n++)
		i = (i + 1) % count;
	if (there[i] && (runs[i] || rand() % 8 == 0)) {
		there[i] = false;
		end(i);
	}
}

static void nobody_waits_for_nothing_and_nobody_overtakes(void **state)
{
	enum { COUNT = 400 };
	static bool there[COUNT];

	(void)state;
	for (unsigned seed = 1; seed <= 40; seed++) {
		unsigned blocks = seed % 2 ? 16 : 400, left = COUNT;

		srand(seed);
		set_up(COUNT);
		memset(there, 0, sizeof(there));
		for (unsigned i = 0; i < COUNT; i++) {
			make(i,
			     rand() % 3	  ? STORE_READ
			     : rand() % 2 ? STORE_WRITE
					  : STORE_ZERO,
			     (unsigned)rand() % blocks, 1 + (unsigned)rand() % (blocks / 4));
			begin(i);
			there[i] = true;
			check(there, i + 1);
			if (seed % 3 == 0 || i > COUNT / 2)
				end_any(there, i + 1);
		}
		while (left) {
			end_any(there, COUNT);
			check(there, COUNT);
			left = 0;
			for (unsigned i = 0; i < COUNT; i++)
				left += there[i];
		}
		assert_true(spans_empty(&order.readers) && spans_empty(&order.writers));
		tear_down();
	}
}

/* --- what it costs ---------------------------------------------------------------------------- */

static uint64_t cpu_ns(void)
{
	struct timespec t;

	assert_int_equal(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t), 0);
	return (uint64_t)t.tv_sec * NSEC_PER_SEC + (uint64_t)t.tv_nsec;
}

/* Where the n-th of count is. */
typedef void place_fn(unsigned n, unsigned count);

/* As many begin as wait, each for the same. */
static void half_of_them_for_one_block(unsigned n, unsigned count)
{
	make(n, STORE_ZERO, n < count / 2 ? n : count / 2 - 1, 1);
}

static void all_for_one_block(unsigned n, unsigned count)
{
	(void)count;
	make(n, n % 2 ? STORE_READ : STORE_WRITE, 0, 1);
}

static void steps(unsigned n, unsigned count)
{
	(void)count;
	make(n, STORE_WRITE, (uint64_t)n * 7 % count, 64);
}

static void wide_ones_over_narrow_ones(unsigned n, unsigned count)
{
	if (n < count / 2)
		make(n, STORE_WRITE, n, 1);
	else
		make(n, STORE_WRITE, 0, count);
}

/* What it takes to begin and to end so many; no longer than that. */
static uint64_t time_of(unsigned count, place_fn *place, uint64_t most_ns)
{
	uint64_t begun, spent = 0;

	set_up(count);
	for (unsigned i = 0; i < count; i++)
		place(i, count);
	begun = cpu_ns();
	for (unsigned i = 0; i < 2 * count && spent < most_ns; i++) {
		if (i < count) {
			begin(i);
		} else {
			assert_true(runs[i - count]);
			end(i - count);
		}
		if (i % LOOK == 0) /* which takes longer than the rest */
			spent = cpu_ns() - begun;
	}
	spent = cpu_ns() - begun;
	assert_true(spent >= most_ns || started == count);
	tear_down();
	return spent;
}

/* Four times as many take four times as long, and a little more; sixteen times would be each
 * looking at all others. */
static void costs_no_more_for_each_where_there_are_many(void **state)
{
	static place_fn *const places[] = {half_of_them_for_one_block, all_for_one_block, steps,
					   wide_ones_over_narrow_ones};
	enum { FEW = 2000, TRIES = 5 };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		uint64_t few = UINT64_MAX, many = UINT64_MAX;

		for (int n = 0; n < TRIES; n++)
			few = min_of(few, time_of(FEW, places[i], 2 * NSEC_PER_SEC));
		for (int n = 0; n < TRIES && many > 10 * few; n++)
			many = min_of(many, time_of(4 * FEW, places[i], 10 * few));
		if (many >= 10 * few)
			fail_msg("kind %zu: %u take %llu us, and four times as many ten times as "
				 "long",
				 i, FEW, (unsigned long long)(few / 1000));
	}
}

static void end_at_once(struct store_op *op)
{
	started++;
	order_end(&order, op, end_at_once);
}

/* A hundred thousand that end as soon as they begin do not stand on one another. */
static void a_long_line_needs_no_stack(void **state)
{
	enum { COUNT = 200000 };

	(void)state;
	set_up(COUNT);
	for (unsigned i = 0; i < COUNT; i++) {
		make(i, STORE_WRITE, 0, 1);
		assert_true(order_begin(&order, &ops[i]) == (i == 0));
	}
	order_end(&order, &ops[0], end_at_once);
	assert_int_equal(started, COUNT - 1);
	tear_down();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_wait_for_writes_alone),
		cmocka_unit_test(who_is_forgotten_holds_nobody_up),
		cmocka_unit_test(nobody_waits_for_nothing_and_nobody_overtakes),
		cmocka_unit_test(costs_no_more_for_each_where_there_are_many),
		cmocka_unit_test(a_long_line_needs_no_stack),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
