/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Whether there is a processor to spare, by what the kernel says; here a file says it. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/units.h"
#include "engine/spare.h"

static uint64_t now = NSEC_PER_SEC;

/* Later than any answer is kept. */
static bool spare_when(struct spare *s, const char *loadavg)
{
	assert_int_equal(ftruncate(s->fd, 0), 0);
	assert_int_equal(pwrite(s->fd, loadavg, strlen(loadavg), 0), strlen(loadavg));
	now += NSEC_PER_SEC;
	return spare_processor(s, now);
}

static void as_many_may_run_as_there_are_processors(void **state)
{
	struct spare s = {.fd = memfd_create("loadavg", 0), .processors = 12};

	(void)state;
	assert_true(s.fd >= 0);
	assert_true(spare_when(&s, "0.20 0.18 0.12 1/80 11206\n"));
	assert_true(spare_when(&s, "0.20 0.18 0.12 12/80 11206\n"));
	assert_false(spare_when(&s, "0.20 0.18 0.12 13/80 11206\n"));
	assert_false(spare_when(&s, "20.20 10.18 0.12 120/800 11206\n"));
	assert_false(spare_when(&s, ""));
	assert_false(spare_when(&s, "nothing of the kind\n"));
	assert_true(spare_when(&s, "0.00 0.00 0.00 1/80 1\n"));
	/* The answer is kept for a moment. */
	assert_int_equal(pwrite(s.fd, "0.00 0.00 0.00 9/80 1\n", 22, 0), 22);
	s.processors = 2;
	assert_true(spare_processor(&s, now + 100 * NSEC_PER_USEC));
	assert_false(spare_processor(&s, now + 300 * NSEC_PER_USEC));
	spare_close(&s);
}

static void where_nobody_says_how_many_run_there_is_none(void **state)
{
	cpu_set_t before, one;
	struct spare s = {.fd = -1, .processors = 64};

	(void)state;
	assert_false(spare_processor(&s, now));
	assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
	spare_open(&s);
	assert_false(spare_processor(&s, now));
	spare_close(&s);
	assert_int_equal(sched_setaffinity(0, sizeof(before), &before), 0);
}

static void the_kernel_is_asked(void **state)
{
	struct spare s;

	(void)state;
	spare_open(&s);
	assert_true(s.fd >= 0);
	(void)!spare_processor(&s, now); /* either is possible */
	assert_int_equal(s.seen_ns, s.processors ? now : 0);
	spare_close(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(as_many_may_run_as_there_are_processors),
		cmocka_unit_test(where_nobody_says_how_many_run_there_is_none),
		cmocka_unit_test(the_kernel_is_asked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
