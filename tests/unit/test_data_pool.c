/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "nvmf/transport/data_pool.h"

#define POOL (4u * DATA_POOL_BLOCK_MAX)

static void the_largest_blocks_fill_the_pool(void **state)
{
	struct data_pool p;
	void *b[4];

	(void)state;
	assert_int_equal(data_pool_init(&p, POOL - 1), 0);
	for (int i = 0; i < 4; i++)
		assert_non_null(b[i] = data_pool_get(&p, DATA_POOL_BLOCK_MAX));
	assert_null(data_pool_get(&p, 1));
	assert_null(data_pool_get(&p, DATA_POOL_BLOCK_MAX + 1));
	for (int i = 0; i < 4; i++)
		data_pool_put(&p, b[i]);
	assert_int_equal(p.used, 0);
	data_pool_fini(&p);
}

/* Every block is its owner's alone, and at the end the pool is whole again. */
static void blocks_never_overlap_and_come_together_again(void **state)
{
	enum { N = 300 };
	struct data_pool p;
	struct {
		uint8_t *at;
		size_t len;
		uint8_t mark;
	} v[N] = {0};
	int got = 0;

	(void)state;
	srand(7);
	assert_int_equal(data_pool_init(&p, POOL), 0);
	for (int round = 0; round < 20000; round++) {
		int i = rand() % N;

		if (v[i].at) {
			for (size_t k = 0; k < v[i].len; k += 512)
				assert_int_equal(v[i].at[k], v[i].mark);
			assert_int_equal(v[i].at[v[i].len - 1], v[i].mark);
			data_pool_put(&p, v[i].at);
			v[i].at = NULL;
			continue;
		}
		v[i].len = 1 + (size_t)rand() % (1u << (rand() % 21));
		v[i].at = data_pool_get(&p, v[i].len);
		if (!v[i].at)
			continue;
		got++;
		assert_int_equal((uintptr_t)v[i].at % DATA_POOL_PAGE, 0);
		v[i].mark = (uint8_t)rand();
		memset(v[i].at, v[i].mark, v[i].len);
	}
	assert_true(got > 5000);
	for (int i = 0; i < N; i++)
		if (v[i].at)
			data_pool_put(&p, v[i].at);
	assert_int_equal(p.used, 0);
	for (int i = 0; i < 4; i++)
		assert_non_null(data_pool_get(&p, DATA_POOL_BLOCK_MAX));
	data_pool_fini(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_largest_blocks_fill_the_pool),
		cmocka_unit_test(blocks_never_overlap_and_come_together_again),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
