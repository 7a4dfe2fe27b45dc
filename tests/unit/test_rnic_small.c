/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Cores that have room for few objects, so that hundreds of them fit into one process. */
#include "rnic_bed.h"

#include <errno.h>
#include <stdlib.h>

#define CORES	 300
#define QPS	 16
#define KEYS	 64
#define EACH_MAX (24u << 10)

static struct bed *small_bed(void)
{
	return bed_open(&(struct bed_opts){.max_qps = QPS, .max_keys = KEYS});
}

static void *take(void *ctx, size_t bytes)
{
	*(size_t *)ctx += bytes;
	return calloc(1, bytes);
}

static void give_back(void *ctx, void *p)
{
	(void)ctx;
	free(p);
}

static uint32_t no_random(void *ctx)
{
	(void)ctx;
	return 4;
}

static void many_cost_little_memory(void **state)
{
	static const struct rnic_ops ops = {.alloc = take, .free = give_back, .random = no_random};
	struct rnic_config config = {.slot = 1, .max_qps = QPS, .max_keys = KEYS};
	static struct rnic *r[CORES];

	(void)state;
	for (int i = 0; i < CORES; i++) {
		size_t bytes = 0;

		assert_int_equal(rnic_create(&r[i], &config, &ops, &bytes), 0);
		assert_in_range(bytes, 1, EACH_MAX);
	}
	for (int i = 0; i < CORES; i++)
		rnic_destroy(r[i]);
}

static void a_small_one_does_what_a_large_one_does(void **state)
{
	struct bed *b = small_bed();

	(void)state;
	bed_fill(b, 0, 0, 10000, 3);
	assert_int_equal(bed_recv(b, 1, 1, 0, 10000), 0);
	assert_int_equal(bed_send(b, 0, 2, 0, 10000), 0);
	assert_int_equal(bed_rdma(b, 0, 3, RNIC_WR_RDMA_READ, 20000, 0, 10000), 0);
	bed_run(b);
	bed_expect(b, 1, true, 1, RNIC_WC_SUCCESS);
	bed_expect(b, 0, false, 2, RNIC_WC_SUCCESS);
	bed_expect(b, 0, false, 3, RNIC_WC_SUCCESS);
	assert_memory_equal(b->side[0].mem, b->side[1].mem, 10000);
	bed_close(b);
}

static void a_number_beyond_its_table_is_nobodys(void **state)
{
	struct bed *b = small_bed();
	struct bed_pkt *p;

	(void)state;
	assert_int_equal(bed_recv(b, 1, 1, 0, 16), 0);
	assert_int_equal(bed_send(b, 0, 2, 0, 16), 0);
	p = bed_tx1(b, 0);
	p->data[6] ^= 1; /* the number's middle byte */
	bed_deliver(b, p);
	assert_int_equal(bed_counters(b, 1)->rx_drop_no_qp, 1);
	p->data[6] ^= 1;
	bed_deliver(b, p);
	bed_expect(b, 1, true, 1, RNIC_WC_SUCCESS);
	bed_run(b);
	bed_close(b);
}

static void a_key_beyond_its_table_is_nobodys(void **state)
{
	struct bed *b = small_bed();
	struct bed_pkt *p;

	(void)state;
	assert_int_equal(bed_rdma(b, 0, 1, RNIC_WR_RDMA_WRITE, 0, 0, 16), 0);
	p = bed_tx1(b, 0);
	p->data[20] ^= 1; /* the key's first byte */
	bed_deliver(b, p);
	bed_run(b);
	bed_expect(b, 0, false, 1, RNIC_WC_REM_ACCESS_ERR);
	bed_close(b);
}

static void queue_pairs_and_keys_run_out_where_it_was_said(void **state)
{
	struct bed *b = small_bed();
	struct bed_side *s = &b->side[0];
	struct rnic_qp_init init = {.type = RNIC_QPT_RC, .send_cq = s->scq, .recv_cq = s->rcq};
	struct rnic_qp *qp[QPS];
	struct rnic_mr *mr[KEYS];
	uint32_t nqp = 0, nmr = 0;

	(void)state;
	while (nqp < QPS && rnic_qp_create(s->pd, &init, &qp[nqp]) == 0) {
		for (uint32_t i = 0; i < nqp; i++)
			assert_int_not_equal(rnic_qp_num(qp[i]), rnic_qp_num(qp[nqp]));
		assert_int_equal(rnic_qp_num(qp[nqp]) >> 16, 1);
		nqp++;
	}
	assert_int_equal(nqp, QPS - 1); /* the bed has one */
	while (nmr < KEYS && rnic_mr_create(s->pd, s->mem, 64, 0, 0, &mr[nmr]) == 0)
		nmr++;
	assert_int_equal(nmr, KEYS - 1);
	while (nqp)
		assert_int_equal(rnic_qp_destroy(qp[--nqp]), 0);
	while (nmr)
		assert_int_equal(rnic_mr_destroy(mr[--nmr]), 0);
	bed_close(b);
}

static void more_than_numbers_have_bits_for_is_refused(void **state)
{
	struct rnic *r;
	const struct rnic_ops none = {0};

	(void)state;
	assert_int_equal(rnic_create(&r,
				     &(struct rnic_config){.slot = 1, .max_qps = RNIC_MAX_QPS + 1},
				     &none, NULL),
			 -EINVAL);
	assert_int_equal(
		rnic_create(&r, &(struct rnic_config){.slot = 1, .max_keys = RNIC_MAX_KEYS + 1},
			    &none, NULL),
		-EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(many_cost_little_memory),
		cmocka_unit_test(a_small_one_does_what_a_large_one_does),
		cmocka_unit_test(a_number_beyond_its_table_is_nobodys),
		cmocka_unit_test(a_key_beyond_its_table_is_nobodys),
		cmocka_unit_test(queue_pairs_and_keys_run_out_where_it_was_said),
		cmocka_unit_test(more_than_numbers_have_bits_for_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
