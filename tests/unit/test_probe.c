// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/* Is there memory where a program says? */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "rsocket/probe.h"

enum { PAGE = 4096 };

/* Two pages of one kind, and behind them none. */
static uint8_t *pages(int prot)
{
	uint8_t *p = mmap(NULL, 3 * PAGE, prot, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(p, MAP_FAILED);
	assert_int_equal(munmap(p + 2 * PAGE, PAGE), 0);
	return p;
}

static void memory_is_found_where_it_is(void **state)
{
	uint8_t *p = pages(PROT_READ | PROT_WRITE), stack[100];

	(void)state;
	for (size_t n = 1; n < 20; n++) {
		assert_true(probe_readable(p + 2 * PAGE - n, n));
		assert_true(probe_writable(p + 2 * PAGE - n, n));
		assert_true(probe_readable(p + PAGE - n / 2, n)); /* across pages */
		assert_true(probe_writable(p + PAGE - n / 2, n));
	}
	assert_true(probe_readable(p, 2 * PAGE));
	assert_true(probe_writable(p, 2 * PAGE));
	assert_true(probe_readable(stack, sizeof(stack)));
	assert_true(probe_writable(stack, sizeof(stack)));
	assert_true(probe_readable(NULL, 0));
	assert_true(probe_writable(NULL, 0));
	munmap(p, 2 * PAGE);
}

static void there_is_none_behind_its_end(void **state)
{
	uint8_t *p = pages(PROT_READ | PROT_WRITE);

	(void)state;
	for (size_t n = 1; n < 20; n++) {
		assert_false(probe_readable(p + 2 * PAGE - n, n + 1));
		assert_false(probe_writable(p + 2 * PAGE - n, n + 1));
		assert_false(probe_readable(p + 2 * PAGE, n));
		assert_false(probe_writable(p + 2 * PAGE, n));
	}
	assert_false(probe_readable(p, 2 * PAGE + 1));
	assert_false(probe_writable(p, 2 * PAGE + 1));
	munmap(p, 2 * PAGE);
}

static void what_is_no_address_has_none(void **state)
{
	static const uintptr_t none[] = {0, 8, 4095, (uintptr_t)-1, (uintptr_t)-8, 1ull << 63};

	(void)state;
	for (size_t i = 0; i < sizeof(none) / sizeof(*none); i++) {
		assert_false(probe_readable((void *)none[i], 5));
		assert_false(probe_writable((void *)none[i], 5));
		assert_false(probe_readable((void *)none[i], 5000));
		assert_false(probe_writable((void *)none[i], 5000));
	}
}

static void a_page_may_be_for_reading_alone(void **state)
{
	uint8_t *p = pages(PROT_READ);

	(void)state;
	assert_true(probe_readable(p, 100));
	assert_false(probe_writable(p, 100));
	assert_false(probe_writable(p, 1));
	assert_int_equal(mprotect(p, PAGE, PROT_NONE), 0);
	assert_false(probe_readable(p, 1));
	munmap(p, 2 * PAGE);
}

static void nothing_is_written_beside_the_range(void **state)
{
	uint8_t *p = pages(PROT_READ | PROT_WRITE), clean[64];

	(void)state;
	memset(clean, 0xa5, sizeof(clean));
	for (size_t n = 1; n < 24; n++) {
		for (size_t at = 16; at < 24; at++) {
			memset(p, 0xa5, sizeof(clean));
			assert_true(probe_readable(p + at, n));
			assert_memory_equal(p, clean, sizeof(clean));
			assert_true(probe_writable(p + at, n));
			assert_memory_equal(p, clean, at);
			assert_memory_equal(p + at + n, clean, sizeof(clean) - at - n);
		}
	}
	munmap(p, 2 * PAGE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(memory_is_found_where_it_is),
		cmocka_unit_test(there_is_none_behind_its_end),
		cmocka_unit_test(what_is_no_address_has_none),
		cmocka_unit_test(a_page_may_be_for_reading_alone),
		cmocka_unit_test(nothing_is_written_beside_the_range),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
