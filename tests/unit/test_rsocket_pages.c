/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The pages of streams' buffers, kept from one to the next. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <cmocka.h>

#include "rsocket/pages.h"

enum { BYTES = 300000, MANY = 100, KEPT_AT_MOST = 32 };

static void given_pages_are_taken_again_by_who_wants_as_many(void **state)
{
	void *a = pages_take(BYTES), *b = pages_take(BYTES), *c;

	(void)state;
	assert_true(a && b && a != b);
	memset(a, 7, BYTES);
	pages_give(a, BYTES);
	c = pages_take(BYTES / 2);
	assert_ptr_not_equal(c, a);
	assert_ptr_equal(pages_take(BYTES), a);
	pages_give(a, BYTES);
	pages_give(b, BYTES);
	pages_give(c, BYTES / 2);
	assert_ptr_equal(pages_take(BYTES / 2), c);
	pages_give(c, BYTES / 2);
}

static void few_are_kept_and_no_large_ones(void **state)
{
	void *p[MANY], *large = pages_take(2 << 20);
	unsigned char there;
	unsigned kept = 0;

	(void)state;
	for (int i = 0; i < MANY; i++)
		assert_non_null(p[i] = pages_take(BYTES));
	for (int i = 0; i < MANY; i++)
		pages_give(p[i], BYTES);
	pages_give(large, 2 << 20);
	for (int i = 0; i < MANY; i++)
		kept += mincore(p[i], 1, &there) == 0;
	assert_in_range(kept, 1, KEPT_AT_MOST);
	assert_int_equal(mincore(large, 1, &there), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(given_pages_are_taken_again_by_who_wants_as_many),
		cmocka_unit_test(few_are_kept_and_no_large_ones),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
