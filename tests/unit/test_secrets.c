/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The numbers that keep strangers out: how much there is to guess in each, and that one that was
 * seen does not tell the next. Measured by how often two that should differ are equal: of n numbers
 * of b bits n(n-1)/2 / 2^b pairs. What is counted up, or by steps, has far more.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <cmocka.h>

#include "cm/cm_priv.h"
#include "rnic/rnic.h"

enum { PROCESSES = 2000 };

static void *zeroed(void *ctx, size_t bytes)
{
	(void)ctx;
	return calloc(1, bytes);
}

static void freed(void *ctx, void *p)
{
	(void)ctx;
	free(p);
}

static size_t drawn; /* words */

static uint32_t from_the_kernel(void *ctx)
{
	static uint32_t buffer[64];
	static size_t left;

	(void)ctx;
	if (!left) {
		assert_int_equal(getrandom(buffer, sizeof(buffer), 0), sizeof(buffer));
		left = 64;
	}
	drawn++;
	return buffer[--left];
}

static int by_value(const void *a, const void *b)
{
	const uint32_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

/* The numbers must have these bits, as far as so many can tell: 6 standard deviations. */
static void has_bits(const char *name, const uint32_t *v, size_t n, unsigned bits)
{
	double expected = (double)n * (double)(n - 1) / 2 / pow(2, bits), equal = 0;
	uint32_t *sorted = calloc(n, sizeof(*sorted));

	for (size_t i = 0; i < n; i++)
		sorted[i] = v[i] & (uint32_t)(pow(2, bits) - 1);
	qsort(sorted, n, sizeof(*sorted), by_value);
	for (size_t i = 0, run = 0; i < n; i++) {
		run = i && sorted[i] == sorted[i - 1] ? run + 1 : 0;
		equal += (double)run;
	}
	free(sorted);
	printf("%s: %u bits: %.0f equal pairs of %zu, %.1f expected\n", name, bits, equal, n,
	       expected);
	assert_true(equal <= expected + 6 * sqrt(expected) + 1);
	assert_true(equal >= expected - 6 * sqrt(expected) - 1);
}

/* ---- queue pair numbers and keys ------------------------------------------------------------- */

static const struct rnic_ops ops = {.alloc = zeroed, .free = freed, .random = from_the_kernel};

struct made { /* by one process, one after the other */
	uint32_t qpn[2], key[2], srqn;
};

static struct made one_process(void)
{
	struct rnic_config config = {.slot = 1};
	struct rnic_srq_attr sattr = {1, 1, 0};
	struct rnic_qp *qp[2];
	struct rnic_mr *mr[2];
	struct rnic_xrcd *xrcd;
	struct rnic_srq *srq;
	struct rnic_pd *pd;
	struct rnic_cq *cq;
	struct rnic *r;
	struct made m;
	char mem[1];

	assert_int_equal(rnic_create(&r, &config, &ops, NULL), 0);
	assert_int_equal(rnic_pd_create(r, &pd), 0);
	assert_int_equal(rnic_cq_create(r, 1, NULL, &cq), 0);
	assert_int_equal(rnic_xrcd_create(r, &xrcd), 0);
	assert_int_equal(rnic_xrc_srq_create(pd, &sattr, xrcd, cq, NULL, &srq), 0);
	m.srqn = rnic_srq_num(srq);
	for (int i = 0; i < 2; i++) {
		struct rnic_qp_init init = {
			.type = RNIC_QPT_RC, .send_cq = cq, .recv_cq = cq, .cap = {1, 1, 1, 1, 0}};

		assert_int_equal(rnic_qp_create(pd, &init, &qp[i]), 0);
		assert_int_equal(rnic_mr_create(pd, mem, 1, 0, 0, &mr[i]), 0);
		m.qpn[i] = rnic_qp_num(qp[i]);
		m.key[i] = rnic_mr_rkey(mr[i]);
	}
	for (int i = 0; i < 2; i++) {
		assert_int_equal(rnic_qp_destroy(qp[i]), 0);
		assert_int_equal(rnic_mr_destroy(mr[i]), 0);
	}
	assert_int_equal(rnic_srq_destroy(srq), 0);
	assert_int_equal(rnic_xrcd_destroy(xrcd), 0);
	assert_int_equal(rnic_cq_destroy(cq), 0);
	assert_int_equal(rnic_pd_destroy(pd), 0);
	rnic_destroy(r);
	return m;
}

static void numbers_and_keys_of_one_process_tell_nothing_of_anothers(void **state)
{
	static uint32_t qpn[PROCESSES], qpn_step[PROCESSES], srqn[PROCESSES];
	static uint32_t key[PROCESSES], key_step[PROCESSES];
	static uint32_t index[PROCESSES], index_step[PROCESSES];

	(void)state;
	for (size_t i = 0; i < PROCESSES; i++) {
		struct made m = one_process();

		qpn[i] = m.qpn[0];
		qpn_step[i] = m.qpn[1] - m.qpn[0];
		srqn[i] = m.srqn;
		key[i] = m.key[0];
		key_step[i] = m.key[1] - m.key[0];
		index[i] = key[i] >> 8;
		index_step[i] = (m.key[1] >> 8) - (m.key[0] >> 8);
	}
	has_bits("queue pair number", qpn, PROCESSES, 16);
	has_bits("from one to the next", qpn_step, PROCESSES, 16);
	has_bits("SRQ number", srqn, PROCESSES, 16);
	has_bits("key", key, PROCESSES, 32);
	has_bits("from one to the next", key_step, PROCESSES, 32);
	has_bits("its index", index, PROCESSES, 24);
	has_bits("from one to the next", index_step, PROCESSES, 24);
	has_bits("its generation", key, PROCESSES, 8);
	has_bits("from one to the next", key_step, PROCESSES, 8);
}

/* A few random words would do to look random, and could be searched for by who has seen some keys:
 * a thousand keys must not be enough to tell how the rest go on. */
static void the_order_of_keys_is_made_of_more_than_a_thousand_keys_say(void **state)
{
	struct rnic_config config = {.slot = 1};
	struct rnic *r;

	(void)state;
	drawn = 0;
	assert_int_equal(rnic_create(&r, &config, &ops, NULL), 0);
	rnic_destroy(r);
	assert_true(drawn * 32 > 1000 * 24);
}

/* So that what was sent to one before meets another as late as can be. */
static void no_queue_pair_number_comes_back_before_all_have_been_given(void **state)
{
	static uint32_t seen[1 << 16], step[1 << 16];
	struct rnic_config config = {.slot = 7};
	uint32_t before = 0;
	struct rnic_pd *pd;
	struct rnic_cq *cq;
	struct rnic *r;

	(void)state;
	assert_int_equal(rnic_create(&r, &config, &ops, NULL), 0);
	assert_int_equal(rnic_pd_create(r, &pd), 0);
	assert_int_equal(rnic_cq_create(r, 1, NULL, &cq), 0);
	for (uint32_t i = 0; i < 1 << 16; i++) {
		struct rnic_qp_init init = {
			.type = RNIC_QPT_RC, .send_cq = cq, .recv_cq = cq, .cap = {1, 1, 1, 1, 0}};
		struct rnic_qp *qp;
		uint32_t qpn;

		assert_int_equal(rnic_qp_create(pd, &init, &qp), 0);
		qpn = rnic_qp_num(qp);
		assert_int_equal(qpn >> 16, 7);
		assert_int_equal(seen[qpn & 0xffff]++, 0);
		step[i] = qpn - before;
		before = qpn;
		assert_int_equal(rnic_qp_destroy(qp), 0);
	}
	has_bits("from one to the next, in one process", step + 1, (1 << 16) - 1, 16);
	assert_int_equal(rnic_cq_destroy(cq), 0);
	assert_int_equal(rnic_pd_destroy(pd), 0);
	rnic_destroy(r);
}

/* ---- communication ids ----------------------------------------------------------------------- */

static void event(void *ctx, void *id_user, const struct cm_event *e)
{
	(void)ctx;
	(void)id_user;
	(void)e;
}

static void communication_ids_tell_nothing_of_others(void **state)
{
	static const struct cm_ops cm_ops = {zeroed, freed, from_the_kernel, event};
	static uint32_t comm_id[PROCESSES], step[PROCESSES];

	(void)state;
	for (size_t i = 0; i < PROCESSES; i++) {
		struct cm_id *a, *b;
		struct cm *cm;

		assert_int_equal(cm_create(&cm, &cm_ops, NULL), 0);
		assert_int_equal(cm_id_create(cm, NULL, &a), 0);
		assert_int_equal(cm_id_create(cm, NULL, &b), 0);
		comm_id[i] = a->local_comm_id;
		step[i] = b->local_comm_id - a->local_comm_id;
		cm_destroy(cm);
	}
	has_bits("communication id", comm_id, PROCESSES, 32);
	has_bits("its low half", comm_id, PROCESSES, 16);
	has_bits("from one to the next", step, PROCESSES, 32);
	has_bits("the low half of that", step, PROCESSES, 16);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers_and_keys_of_one_process_tell_nothing_of_anothers),
		cmocka_unit_test(the_order_of_keys_is_made_of_more_than_a_thousand_keys_say),
		cmocka_unit_test(no_queue_pair_number_comes_back_before_all_have_been_given),
		cmocka_unit_test(communication_ids_tell_nothing_of_others),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
