/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* ATOMIC WRITE (IBA volume 1, annex A19): eight bytes at once, in order with what is around it. */
#include "rnic_bed.h"

#include <errno.h>
#include <string.h>

#define REQUEST	 OPCODE_RC_ATOMIC_WRITE
#define RESPONSE OPCODE_RC_READ_RESPONSE_ONLY

static int post(struct bed *b, uint64_t wr_id, uint32_t rkey, uint64_t va, uint32_t len,
		uint32_t flags)
{
	struct rnic_sge sge = bed_sge(b, 0, 0, len);
	struct rnic_send_wr wr = {.wr_id = wr_id,
				  .sge = &sge,
				  .num_sge = 1,
				  .opcode = RNIC_WR_ATOMIC_WRITE,
				  .flags = flags,
				  .remote_addr = va,
				  .rkey = rkey};

	return rnic_post_send(b->side[0].qp, &wr, b->now);
}

static void write_to(struct bed *b, uint64_t wr_id, uint32_t off)
{
	assert_int_equal(
		post(b, wr_id, rnic_mr_rkey(b->side[1].mr), bed_remote_addr(b, 1, off), 8, 0), 0);
}

static void eight_bytes_arrive_and_are_answered_as_a_read_of_none(void **state)
{
	struct bed *b = bed_open(&(struct bed_opts){.access = RNIC_ACCESS_REMOTE_WRITE});
	struct bed_pkt *p;
	struct rnic_wc wc;

	(void)state;
	memcpy(b->side[0].mem, "eightbyt", 8);
	write_to(b, 1, 4096);
	bed_run(b);
	wc = bed_wc(b, 0, false);
	assert_int_equal(wc.status, RNIC_WC_SUCCESS);
	assert_int_equal(wc.opcode, RNIC_WC_ATOMIC_WRITE);
	assert_memory_equal(b->side[1].mem + 4096, "eightbyt\0", 9);
	p = bed_nth(b, 0, REQUEST, 0);
	assert_int_equal(REQUEST, 0x1d);
	assert_int_equal(p->h.reth.dma_len, 8);
	assert_int_equal(p->payload_len, 8);
	assert_true(p->h.bth.ackreq);
	p = bed_nth(b, 1, RESPONSE, 0);
	assert_int_equal(p->payload_len, 0);
	assert_int_equal(b->nlog, 2);

	/* Its bytes may come with the work request. */
	memcpy(b->side[0].mem, "inlined!", 8);
	assert_int_equal(post(b, 2, rnic_mr_rkey(b->side[1].mr), bed_remote_addr(b, 1, 0), 8,
			      RNIC_SEND_INLINE),
			 0);
	memset(b->side[0].mem, 0, 8);
	bed_run(b);
	bed_expect(b, 0, false, 2, RNIC_WC_SUCCESS);
	assert_memory_equal(b->side[1].mem, "inlined!", 8);
	bed_close(b);
}

static void one_whose_answer_is_lost_is_not_carried_out_again(void **state)
{
	struct bed *b = bed_open(NULL);
	struct bed_drop drop = {.side = 1, .opcode = RESPONSE, .count = 2};

	(void)state;
	b->filter = bed_drop_some;
	b->filter_arg = &drop;
	memset(b->side[0].mem, 1, 8);
	write_to(b, 1, 64);
	bed_run(b);
	bed_expect_none(b, 0);
	assert_int_equal(b->side[1].mem[64], 1);
	memset(b->side[1].mem + 64, 9, 8); /* somebody else's, meanwhile */
	bed_sleep(b, 1000 * MS);
	bed_expect(b, 0, false, 1, RNIC_WC_SUCCESS);
	assert_int_equal(b->side[1].mem[64], 9);
	assert_true(bed_sent(b, 0, REQUEST) >= 2);
	bed_close(b);
}

/* A record, then the word that says it is there, then a message; one packet in five is lost. */
static bool lose_one_of_five(struct bed *b, struct bed_pkt *p)
{
	uint32_t *n = b->filter_arg;

	(void)p;
	return ++*n % 5 != 2;
}

static void order_is_kept_under_loss(void **state)
{
	struct bed *b = bed_open(NULL);
	uint32_t n = 0;

	(void)state;
	b->filter = lose_one_of_five;
	b->filter_arg = &n;
	for (uint8_t i = 1; i <= 30; i++) {
		memset(b->side[0].mem, i, 8);
		bed_fill(b, 0, 1000, 2500, i);
		assert_int_equal(bed_recv(b, 1, i, 50000, 100), 0);
		assert_int_equal(bed_rdma(b, 0, 1, RNIC_WR_RDMA_WRITE, 1000, 1000, 2500), 0);
		write_to(b, 2, 64);
		assert_int_equal(bed_rdma(b, 0, 3, RNIC_WR_RDMA_READ, 20000, 64, 8), 0);
		assert_int_equal(bed_send(b, 0, 4, 0, 8), 0);
		bed_sleep(b, 2000 * MS);
		for (uint64_t k = 1; k <= 4; k++)
			bed_expect(b, 0, false, k, RNIC_WC_SUCCESS);
		bed_expect(b, 1, true, i, RNIC_WC_SUCCESS);
		assert_int_equal(b->side[1].mem[71], i);
		assert_int_equal(b->side[0].mem[20000], i); /* the READ after it has seen it */
		assert_memory_equal(b->side[1].mem + 1000, b->side[0].mem + 1000, 2500);
	}
	assert_true(b->dropped > 20);
	bed_close(b);
}

static void no_more_are_on_the_way_than_were_agreed(void **state)
{
	struct bed *b = bed_open(&(struct bed_opts){.rd_atomic = 2});

	(void)state;
	for (uint64_t i = 0; i < 5; i++)
		write_to(b, i, 64);
	for (int i = 0; i < 2; i++)
		assert_int_equal(bed_tx1(b, 0)->h.bth.opcode, REQUEST);
	assert_null(bed_tx1(b, 0));
	for (uint32_t i = 0; i < 2; i++)
		bed_deliver(b, bed_nth(b, 0, REQUEST, i));
	bed_run(b);
	for (uint64_t i = 0; i < 5; i++)
		bed_expect(b, 0, false, i, RNIC_WC_SUCCESS);
	bed_close(b);
}

static void refused(struct bed *b, enum rnic_wc_status status, uint8_t syndrome,
		    enum rnic_event event)
{
	bed_run(b);
	bed_expect(b, 0, false, 1, status);
	assert_int_equal(bed_nth(b, 1, OPCODE_RC_ACKNOWLEDGE, 0)->h.aeth.syndrome, syndrome);
	assert_true(bed_saw_event(b, 1, event));
	for (uint32_t i = 0; i < 128; i++)
		assert_int_equal(b->side[1].mem[i], 0);
	bed_close(b);
}

static void what_it_may_not_do_is_refused(void **state)
{
	struct bed *b;
	struct rnic_mr *mr;
	uint32_t key;

	(void)state;
	b = bed_open(
		&(struct bed_opts){.access = RNIC_ACCESS_REMOTE_READ | RNIC_ACCESS_REMOTE_ATOMIC});
	memset(b->side[0].mem, 1, 8);
	write_to(b, 1, 64);
	refused(b, RNIC_WC_REM_INV_REQ_ERR, 0x61, RNIC_EVENT_QP_REQ_ERR);

	b = bed_open(NULL);
	memset(b->side[0].mem, 1, 8);
	write_to(b, 1, 60); /* not a multiple of 8 */
	refused(b, RNIC_WC_REM_INV_REQ_ERR, 0x61, RNIC_EVENT_QP_REQ_ERR);

	b = bed_open(NULL);
	memset(b->side[0].mem, 1, 8);
	assert_int_equal(rnic_mr_create(b->side[1].pd, b->side[1].mem, 4096, 0,
					RNIC_ACCESS_LOCAL_WRITE | RNIC_ACCESS_REMOTE_READ |
						RNIC_ACCESS_REMOTE_ATOMIC,
					&mr),
			 0);
	key = rnic_mr_rkey(mr);
	assert_int_equal(post(b, 1, key, 64, 8, 0), 0);
	bed_run(b);
	assert_int_equal(rnic_mr_destroy(mr), 0);
	refused(b, RNIC_WC_REM_ACCESS_ERR, 0x62, RNIC_EVENT_QP_ACCESS_ERR);
}

static void only_eight_bytes_are_one(void **state)
{
	static const uint8_t data[16];

	(void)state;
	for (uint32_t len = 0; len <= 16; len += len == 4 ? 8 : 4) {
		struct bed *b = bed_open(NULL);
		struct pkt_hdr h = {.bth = {.opcode = REQUEST}};

		assert_int_equal(
			post(b, 1, rnic_mr_rkey(b->side[1].mr), bed_remote_addr(b, 1, 0), len, 0),
			0);
		bed_run(b);
		bed_expect(b, 0, false, 1, RNIC_WC_LOC_LEN_ERR);
		h.reth.rkey = rnic_mr_rkey(b->side[1].mr);
		h.reth.va = bed_remote_addr(b, 1, 0);
		h.reth.dma_len = len;
		bed_forge(b, 0, h, data, len);
		assert_true(bed_saw_event(b, 1, RNIC_EVENT_QP_REQ_ERR));
		bed_close(b);
	}
}

static void an_answer_with_bytes_is_a_bad_one(void **state)
{
	struct bed *b = bed_open(NULL);
	struct pkt_hdr h = {.bth = {.opcode = RESPONSE}, .aeth = {.syndrome = 0x1f, .msn = 1}};

	(void)state;
	write_to(b, 1, 64);
	assert_non_null(bed_tx1(b, 0));
	bed_forge(b, 1, h, "12345678", 8);
	bed_expect(b, 0, false, 1, RNIC_WC_BAD_RESP_ERR);
	bed_close(b);
}

static void unreliable_services_do_not_have_it(void **state)
{
	struct bed *b = bed_open(&(struct bed_opts){.type = RNIC_QPT_UC});

	(void)state;
	assert_int_equal(post(b, 1, 1, 0, 8, 0), -EINVAL);
	bed_close(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(eight_bytes_arrive_and_are_answered_as_a_read_of_none),
		cmocka_unit_test(one_whose_answer_is_lost_is_not_carried_out_again),
		cmocka_unit_test(order_is_kept_under_loss),
		cmocka_unit_test(no_more_are_on_the_way_than_were_agreed),
		cmocka_unit_test(what_it_may_not_do_is_refused),
		cmocka_unit_test(only_eight_bytes_are_one),
		cmocka_unit_test(an_answer_with_bytes_is_a_bad_one),
		cmocka_unit_test(unreliable_services_do_not_have_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
