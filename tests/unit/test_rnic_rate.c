/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Static rates: what is sent to an address keeps to its rate, whoever sends it and why. */
#include "rnic_bed.h"

#include <string.h>

#define RATE  2500u /* Mb/s */
#define BURST (64u << 10)
#define LEN   (1u << 19)

/* The time so many bytes of payload take; with headers it is a little more. */
static uint64_t time_of(uint32_t bytes)
{
	return bytes * 8000ull / RATE;
}

static void expect_paced(struct bed *b, uint32_t bytes, uint64_t began)
{
	uint64_t took;

	bed_expect(b, 0, false, 1, RNIC_WC_SUCCESS);
	took = rnic_cq_polled_at(b->side[0].scq) - began;
	assert_true(took >= time_of(bytes - BURST - 1024));
	assert_true(took <= time_of(bytes) * 5 / 4);
}

static void rdma_keeps_to_the_rate(uint32_t opcode, bool lossy)
{
	struct bed *b = bed_open(&(struct bed_opts){.rate_mbps = RATE});
	struct bed_drop drop = {
		.side = 0, .opcode = OPCODE_RC_WRITE_MIDDLE, .from = 20, .count = 3};
	uint64_t began = b->now;

	bed_fill(b, opcode == RNIC_WR_RDMA_READ, 0, LEN, 7);
	if (lossy) {
		b->filter = bed_drop_some;
		b->filter_arg = &drop;
	}
	assert_int_equal(bed_rdma(b, 0, 1, opcode, 0, 0, LEN), 0);
	bed_run(b); /* time stands: no more than a burst goes out */
	bed_expect_none(b, 0);
	bed_sleep(b, 100 * MS);
	if (lossy)
		bed_expect(b, 0, false, 1, RNIC_WC_SUCCESS);
	else
		expect_paced(b, LEN, began);
	assert_memory_equal(b->side[0].mem, b->side[1].mem, LEN);
	bed_close(b);
}

static void writes_and_the_answers_to_reads_keep_to_it(void **state)
{
	(void)state;
	rdma_keeps_to_the_rate(RNIC_WR_RDMA_WRITE, false);
	rdma_keeps_to_the_rate(RNIC_WR_RDMA_READ, false);
	rdma_keeps_to_the_rate(RNIC_WR_RDMA_WRITE, true);
}

static void unreliable_messages_keep_to_it(void **state)
{
	struct bed *b = bed_open(&(struct bed_opts){.type = RNIC_QPT_UC, .rate_mbps = RATE});
	uint64_t began = b->now;

	(void)state;
	assert_int_equal(bed_rdma(b, 0, 1, RNIC_WR_RDMA_WRITE, 0, 0, LEN), 0);
	bed_sleep(b, 100 * MS);
	expect_paced(b, LEN, began);
	bed_close(b);
}

/* Each datagram goes at the rate of its own address. */
static void datagrams_keep_to_the_rate_of_their_address(void **state)
{
	struct bed *b = bed_open(&(struct bed_opts){
		.type = RNIC_QPT_UD, .cap = {256, 64, 1, 1, 64}, .not_all_signaled = true});
	struct rnic_sge sge = bed_sge(b, 0, 0, 1024);
	struct rnic_qp_attr to;
	struct rnic_send_wr wr = {.sge = &sge,
				  .num_sge = 1,
				  .opcode = RNIC_WR_SEND,
				  .ud = {.flow = &to.flow, .qpn = rnic_qp_num(b->side[1].qp)}};

	(void)state;
	bed_flows(b, 0, &to);
	for (int limited = 0; limited < 2; limited++) {
		uint32_t sent = b->nlog;
		uint64_t began = b->now;

		to.flow.rate_mbps = limited ? RATE : 0;
		for (int i = 0; i < 160; i++) {
			wr.wr_id = 1;
			wr.flags = i == 159 ? RNIC_SEND_SIGNALED : 0;
			assert_int_equal(rnic_post_send(b->side[0].qp, &wr, b->now), 0);
		}
		bed_run(b);
		if (limited)
			bed_sleep(b, 10 * MS);
		assert_int_equal(b->nlog - sent, 160);
		if (limited) {
			expect_paced(b, 160 * 1024, began);
		} else {
			bed_expect(b, 0, false, 1, RNIC_WC_SUCCESS);
			assert_int_equal(b->now, began);
		}
	}
	bed_close(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(writes_and_the_answers_to_reads_keep_to_it),
		cmocka_unit_test(unreliable_messages_keep_to_it),
		cmocka_unit_test(datagrams_keep_to_the_rate_of_their_address),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
