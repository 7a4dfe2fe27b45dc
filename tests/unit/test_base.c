/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <stdlib.h>
#include <cmocka.h>
#include <errno.h>

#include "base/cursor.h"
#include "base/heap.h"
#include "base/handles.h"
#include "base/restarts.h"

static void cursor_reads_zero_after_an_overrun(void **state)
{
	const uint8_t b[] = {1, 2, 3};
	struct cursor c = cursor_init(b, sizeof(b));

	(void)state;
	assert_int_equal(cursor_be16(&c), 0x0102);
	assert_false(c.overrun);
	assert_int_equal(cursor_be32(&c), 0);
	assert_true(c.overrun);
	assert_int_equal(cursor_u8(&c), 0); /* sticky: even the byte that is there */
}

static void timers_fire_in_order_whatever_is_moved_or_cancelled(void **state)
{
	enum { N = 500 };
	struct timer t[N] = {0};
	struct timer_heap h = {0};
	uint64_t last = 0;
	int fired = 0, left = N;

	(void)state;
	srand(1);
	for (int i = 0; i < N; i++)
		timer_arm(&h, &t[i], (uint64_t)rand() % 1000);
	for (int i = 0; i < N; i += 3)
		timer_arm(&h, &t[i], (uint64_t)rand() % 1000);
	for (int i = 0; i < N; i += 5) {
		timer_cancel(&h, &t[i]);
		timer_cancel(&h, &t[i]);
		left--;
	}
	for (struct timer *d; (d = timer_pop_due(&h, 1000)); fired++) {
		assert_true(d->deadline_ns >= last);
		last = d->deadline_ns;
	}
	assert_int_equal(fired, left);
	assert_int_equal(timer_heap_next(&h), DEADLINE_NEVER);
}

static void a_released_key_goes_stale(void **state)
{
	struct handle_place v[2];
	struct handles s;
	uint32_t a, b, c, d;
	int x, y;

	(void)state;
	handles_init(&s, v, 2, 8);
	assert_int_equal(handles_take(&s, &x, 0x1fe, &a), 0);
	assert_int_equal(handles_take(&s, &y, 7, &b), 0);
	assert_int_equal(handles_take(&s, &y, 7, &c), -28);
	assert_ptr_equal(handles_find(&s, a), &x);
	handles_release(&s, a);
	assert_null(handles_find(&s, a));
	assert_int_equal(handles_take(&s, &y, 0, &c), 0);
	assert_int_not_equal(a, c);
	assert_ptr_equal(handles_find(&s, c), &y);
	d = handles_renew(&s, c);
	assert_null(handles_find(&s, c));
	assert_ptr_equal(handles_find(&s, d), &y);
	assert_ptr_equal(handles_find(&s, b), &y);
	assert_null(handles_find(&s, 0xffffffff));
}

static void asking_for_handlers_leaves_errno_as_it_was(void **state)
{
	(void)state;
	errno = EINTR;
	assert_int_equal(restarts(), RESTARTS_ALWAYS);
	assert_int_equal(errno, EINTR);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cursor_reads_zero_after_an_overrun),
		cmocka_unit_test(timers_fire_in_order_whatever_is_moved_or_cancelled),
		cmocka_unit_test(a_released_key_goes_stale),
		cmocka_unit_test(asking_for_handlers_leaves_errno_as_it_was),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
