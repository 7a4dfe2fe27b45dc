/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Every operation over a quiet link: memory, completions, and the packets they are made of. */
#include <string.h>

#include "rnic_bed.h"

static void same(struct bed *b, uint32_t off0, uint32_t off1, uint32_t len)
{
	assert_memory_equal(b->side[0].mem + off0, b->side[1].mem + off1, len);
}

static void a_send_arrives_whole_at_every_mtu(void **state)
{
	static const uint32_t sizes[] = {1, 255, 256, 257, 1024, 4096, 4097, 65536, 100000};

	(void)state;
	for (uint32_t mtu = RNIC_MTU_256; mtu <= RNIC_MTU_4096; mtu++) {
		struct bed *b = bed_open(&(struct bed_opts){.mtu = mtu});

		for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
			struct rnic_wc wc;
			uint32_t n = sizes[i], off = n & 3;

			bed_fill(b, 0, off, n, (uint8_t)(mtu + i));
			memset(b->side[1].mem, 0, 200000);
			assert_int_equal(bed_recv(b, 1, 7, 64, n + 10), 0);
			assert_int_equal(bed_send(b, 0, 9, off, n), 0);
			bed_run(b);
			bed_expect(b, 0, false, 9, RNIC_WC_SUCCESS);
			wc = bed_wc(b, 1, true);
			assert_int_equal(wc.wr_id, 7);
			assert_int_equal(wc.opcode, RNIC_WC_RECV);
			assert_int_equal(wc.byte_len, n);
			same(b, off, 64, n);
			assert_int_equal(b->side[1].mem[64 + n], 0);
			bed_expect_none(b, 0);
			bed_expect_none(b, 1);
		}
		bed_close(b);
	}
}

static void a_write_arrives_whole_and_unseen(void **state)
{
	struct bed *b = bed_open(NULL);

	(void)state;
	bed_fill(b, 0, 0, 300000, 3);
	assert_int_equal(bed_rdma(b, 0, 1, RNIC_WR_RDMA_WRITE, 0, 5000, 300000), 0);
	bed_run(b);
	bed_expect(b, 0, false, 1, RNIC_WC_SUCCESS);
	bed_expect_none(b, 1);
	same(b, 0, 5000, 300000);
	assert_int_equal(b->side[1].mem[4999], 0);
	assert_int_equal(b->side[1].mem[305000], 0);
	bed_close(b);
}

static void a_read_fetches_memory(void **state)
{
	static const uint32_t sizes[] = {1, 1024, 1025, 65536, 70001, 500000};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		struct bed *b = bed_open(NULL);
		struct rnic_wc wc;

		bed_fill(b, 1, 17, sizes[i], 3);
		assert_int_equal(bed_rdma(b, 0, 1, RNIC_WR_RDMA_READ, 100, 17, sizes[i]), 0);
		bed_run(b);
		wc = bed_wc(b, 0, false);
		assert_int_equal(wc.status, RNIC_WC_SUCCESS);
		assert_int_equal(wc.opcode, RNIC_WC_RDMA_READ);
		assert_int_equal(wc.byte_len, sizes[i]);
		same(b, 100, 17, sizes[i]);
		assert_int_equal(b->side[0].mem[100 + sizes[i]], 0);
		bed_close(b);
	}
}

static void atomics_return_what_they_found(void **state)
{
	struct bed *b = bed_open(NULL);
	uint64_t *remote = (uint64_t *)(void *)(b->side[1].mem + 64);
	uint64_t *local = (uint64_t *)(void *)b->side[0].mem;

	(void)state;
	*remote = 40;
	assert_int_equal(bed_atomic(b, 0, 1, RNIC_WR_ATOMIC_FETCH_AND_ADD, 0, 64, 2, 0), 0);
	assert_int_equal(bed_atomic(b, 0, 2, RNIC_WR_ATOMIC_CMP_AND_SWP, 8, 64, 42, 7), 0);
	assert_int_equal(bed_atomic(b, 0, 3, RNIC_WR_ATOMIC_CMP_AND_SWP, 16, 64, 42, 8), 0);
	bed_run(b);
	for (uint64_t i = 1; i <= 3; i++)
		bed_expect(b, 0, false, i, RNIC_WC_SUCCESS);
	assert_int_equal(local[0], 40);
	assert_int_equal(local[1], 42);
	assert_int_equal(local[2], 7);
	assert_int_equal(*remote, 7);
	bed_close(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_send_arrives_whole_at_every_mtu),
		cmocka_unit_test(a_write_arrives_whole_and_unseen),
		cmocka_unit_test(a_read_fetches_memory),
		cmocka_unit_test(atomics_return_what_they_found),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
