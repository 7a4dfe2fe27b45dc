/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <stdlib.h>
#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "base/cursor.h"
#include "base/heap.h"
#include "base/handles.h"
#include "base/restarts.h"
#include "base/text.h"

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

/* Keys of one place, as several tables have given them. */
static void keys_from_elsewhere_go_on_where_their_place_is_taken(void **state)
{
	struct handle_place v[8];
	struct handles s;
	int own, other[3], displaced;
	uint32_t a, b;

	(void)state;
	handles_init(&s, v, 8, 8);
	assert_int_equal(handles_take(&s, &own, 0x10, &a), 0);
	assert_int_equal(a, 0x010);
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(handles_restore(&s, 0x020 + i, &other[i], 0), 0);
	assert_int_equal(handles_restore(&s, a, &other[0], 0), -EEXIST);
	assert_int_equal(handles_restore(&s, 0x021, &other[0], 0), -EEXIST);
	assert_int_equal(handles_restore(&s, 0x800, &other[0], 0), -EINVAL);
	/* They are where others come home to. */
	for (uint32_t i = 1; i < 8; i++)
		assert_int_equal(handles_restore(&s, i << 8, &displaced, 0), i < 5 ? 0 : -ENOSPC);
	assert_int_equal(s.live, 8);
	assert_ptr_equal(handles_find(&s, a), &own);
	for (uint32_t i = 0; i < 3; i++)
		assert_ptr_equal(handles_find(&s, 0x020 + i), &other[i]);
	assert_null(handles_find(&s, 0x023));
	assert_null(handles_find(&s, 0x500));

	/* The last of a chain, one that is at home, one that has come home; and none is given
	 * twice. */
	b = handles_renew(&s, 0x020);
	assert_int_equal(b, 0x023);
	handles_release(&s, 0x021);
	assert_null(handles_find(&s, 0x021));
	handles_release(&s, a);
	assert_null(handles_find(&s, a));
	assert_ptr_equal(handles_find(&s, b), &other[0]);
	assert_ptr_equal(handles_find(&s, 0x022), &other[2]);
	handles_release(&s, 0x022);
	handles_release(&s, b);
	for (uint32_t i = 1; i < 5; i++)
		assert_ptr_equal(handles_find(&s, i << 8), &displaced);
	for (int i = 0; i < 4; i++) {
		assert_int_equal(handles_take(&s, &own, 0, &a), 0);
		assert_ptr_equal(handles_find(&s, a), &own);
		assert_false(a >> 8 >= 1 && a >> 8 < 5);
	}
	assert_int_equal(handles_take(&s, &own, 0, &a), -ENOSPC);
}

static void who_hands_in_keys_makes_no_search_long(void **state)
{
	enum { CAPACITY = 64 };
	struct handle_place v[CAPACITY];
	struct handles s;
	uint32_t key = 0;
	int x;

	(void)state;
	handles_init(&s, v, CAPACITY, 8);
	while (handles_restore(&s, key, &x, 0) == 0)
		key++;
	assert_int_equal(key, 1 + HANDLES_DISPLACED_MAX);
	assert_int_equal(handles_restore(&s, key, &x, 0), -EEXIST);
	for (uint32_t i = 0; i < key; i++)
		handles_release(&s, i);
	assert_int_equal(s.live, 0);
}

/* Against a list of what is there. */
static void whatever_comes_and_goes_keys_are_found(void **state)
{
	enum { CAPACITY = 16, STEPS = 200000, GEN_BITS = 3 };
	struct handle_place v[CAPACITY];
	struct handles s;
	bool live[CAPACITY << GEN_BITS] = {0};
	uint32_t n = 0, key;
	unsigned seed = 1;

	(void)state;
	handles_init(&s, v, CAPACITY, GEN_BITS);
	handles_begin_at(&s, 5, 0);
	for (int step = 0; step < STEPS; step++) {
		uint32_t k = (uint32_t)rand_r(&seed) % (CAPACITY << GEN_BITS);
		int what = rand_r(&seed) % 8, rc = 0;

		if (live[k] && what == 0) {
			key = handles_renew(&s, k);
			live[k] = false;
			assert_false(live[key]);
			live[key] = true;
		} else if (live[k]) {
			handles_release(&s, k);
			live[k] = false;
			n--;
		} else if (what < 4) {
			rc = handles_restore(&s, k, &live[k], (uint32_t)step);
			assert_int_equal(rc, n < CAPACITY ? 0 : -ENOSPC);
			live[k] = rc == 0;
			n += rc == 0;
		} else if (what == 4) {
			rc = handles_take(&s, live, (uint32_t)step, &key);
			assert_int_equal(rc, n < CAPACITY ? 0 : -ENOSPC);
			if (rc == 0) {
				assert_false(live[key]);
				live[key] = true;
				n++;
			}
		}
		assert_int_equal(s.live, n);
		for (k = 0; k < CAPACITY << GEN_BITS; k++)
			assert_int_equal(handles_find(&s, k) != NULL, live[k]);
	}
}

static void asking_for_handlers_leaves_errno_as_it_was(void **state)
{
	(void)state;
	errno = EINTR;
	assert_int_equal(restarts(), RESTARTS_ALWAYS);
	assert_int_equal(errno, EINTR);
}

static void text_of_others_is_tamed(void **state)
{
	static const struct {
		const char *said, *shown;
	} cases[] = {
		{"weft serve disk.img", "weft serve disk.img"},
		{"caf\303\251 \342\202\254 \360\237\220\264",
		 "caf\303\251 \342\202\254 \360\237\220\264"},
		{"\033[2J\a\177", "?[2J??"},
		{"\302\2332J", "??2J"},		     /* the same in one character */
		{"\300\233 \340\202\233", "?? ???"}, /* and in more bytes than it takes */
		{"\377 \251 \342\202", "? ? ??"},
		{"\355\240\200 \364\220\200\200", "??? ????"},
		/* What turns the text round, and a line's end. */
		{"a\342\200\256b \342\201\246 \330\234 \342\200\250", "a???b ??? ?? ???"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char text[64];

		strcpy(text, cases[i].said);
		text_tame(text);
		assert_string_equal(text, cases[i].shown);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cursor_reads_zero_after_an_overrun),
		cmocka_unit_test(timers_fire_in_order_whatever_is_moved_or_cancelled),
		cmocka_unit_test(a_released_key_goes_stale),
		cmocka_unit_test(keys_from_elsewhere_go_on_where_their_place_is_taken),
		cmocka_unit_test(who_hands_in_keys_makes_no_search_long),
		cmocka_unit_test(whatever_comes_and_goes_keys_are_found),
		cmocka_unit_test(asking_for_handlers_leaves_errno_as_it_was),
		cmocka_unit_test(text_of_others_is_tamed),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
