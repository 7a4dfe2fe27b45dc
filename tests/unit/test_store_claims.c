/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What it costs to wait for a block that several threads want, where many do. */
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
#define LOOK  64 /* so often at the clock */

static struct claims *claims;
static struct engine_store store;
static struct store_op *ops;
static unsigned have; /* all that they want */

static void ask(struct store_op *op, int error)
{
	assert_int_equal(error, 0);
	op->done = ask;
	have += claims_take(claims, op);
}

static void set_up(unsigned count)
{
	store = (struct engine_store){.store = {.block_size = BLOCK}};
	assert_int_equal(store_engine_create(STORE_ENGINE_THREADS, &store.engine), 0);
	claims = claims_create(BLOCK);
	ops = calloc(count, sizeof(*ops));
	assert_true(claims && ops);
	have = 0;
}

static void tear_down(void)
{
	free(ops);
	claims_destroy(claims);
	store_engine_destroy(store.engine);
}

static void want(unsigned i, enum store_opcode opcode, uint64_t block, uint64_t blocks)
{
	ops[i] = (struct store_op){.opcode = opcode,
				   .offset = block * BLOCK,
				   .len = blocks * BLOCK,
				   .store = &store.store};
	ask(&ops[i], 0);
}

static void give(unsigned i)
{
	claims_give(claims, &ops[i]);
	store_engine_reap(store.engine);
}

static void who_is_first_in_line_is_next(void **state)
{
	(void)state;
	set_up(6);
	want(0, STORE_WRITE, 0, 2);
	want(1, STORE_READ, 1, 1);
	want(2, STORE_READ, 1, 1);
	want(3, STORE_WRITE, 1, 1);
	want(4, STORE_READ, 1, 1);
	want(5, STORE_READ, 0, 1); /* in another line */
	assert_int_equal(have, 1);
	give(0);
	assert_int_equal(have, 4); /* both that read, and the last */
	give(1);
	assert_int_equal(have, 4);
	assert_true(claims_cancel(claims, &ops[3]));
	store_engine_reap(store.engine);
	assert_int_equal(have, 5); /* who came behind it */
	assert_false(claims_cancel(claims, &ops[4]));
	give(2);
	give(4);
	give(5);
	want(0, STORE_WRITE, 0, 2);
	assert_int_equal(have, 6);
	give(0);
	tear_down();
}

static uint64_t cpu_ns(void)
{
	struct timespec t;

	assert_int_equal(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t), 0);
	return (uint64_t)t.tv_sec * NSEC_PER_SEC + (uint64_t)t.tv_nsec;
}

/* So many write one block; no longer than that. */
static uint64_t time_of(unsigned count, uint64_t most_ns)
{
	uint64_t begun, spent = 0;

	set_up(count);
	begun = cpu_ns();
	for (unsigned i = 0; i < 2 * count && spent < most_ns; i++) {
		if (i < count)
			want(i, STORE_WRITE, 7, 1);
		else
			give(i - count);
		if (i % LOOK == 0)
			spent = cpu_ns() - begun;
	}
	spent = cpu_ns() - begun;
	assert_true(spent >= most_ns || have == count);
	tear_down();
	return spent;
}

/* Four times as many take four times as long, and a little more; sixteen times would be each
 * looking at all others. */
static void a_long_line_costs_no_more_for_each(void **state)
{
	enum { FEW = 10000, TRIES = 5 };
	uint64_t few = UINT64_MAX, many = UINT64_MAX;

	(void)state;
	for (int n = 0; n < TRIES; n++)
		few = min_of(few, time_of(FEW, 5 * NSEC_PER_SEC));
	for (int n = 0; n < TRIES && many > 9 * few; n++)
		many = min_of(many, time_of(4 * FEW, 9 * few));
	if (many >= 9 * few)
		fail_msg("%u take %llu us, and four times as many nine times as long", FEW,
			 (unsigned long long)(few / 1000));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_is_first_in_line_is_next),
		cmocka_unit_test(a_long_line_costs_no_more_for_each),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
