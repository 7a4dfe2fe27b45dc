/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Connections of a priority that is held send nothing until it is not; and a null region that peers
 * may reach. */
#include "rnic_bed.h"

#include <errno.h>

#define DSCP26 (26 << FLOW_DSCP_SHIFT) /* priority 3 */

static struct bed *bed_of_priority_3(void)
{
	struct bed *b = bed_open(&(struct bed_opts){.tos = DSCP26});

	bed_fill(b, 0, 0, 10000, 3);
	return b;
}

static void what_is_held_waits(void **state)
{
	struct bed *b = bed_of_priority_3();

	(void)state;
	rnic_hold(b->side[0].rnic, 1u << 3);
	assert_int_equal(bed_rdma(b, 0, 1, RNIC_WR_RDMA_WRITE, 0, 20000, 10000), 0);
	assert_null(bed_tx1(b, 0));
	assert_false(rnic_tx_pending(b->side[0].rnic));
	rnic_hold(b->side[0].rnic, 1u << 3 | 1u << 4); /* again, and another */
	assert_false(rnic_tx_pending(b->side[0].rnic));
	rnic_hold(b->side[0].rnic, 1u << 4);
	assert_true(rnic_tx_pending(b->side[0].rnic));
	bed_run(b);
	bed_expect(b, 0, false, 1, RNIC_WC_SUCCESS);
	assert_memory_equal(b->side[0].mem, b->side[1].mem + 20000, 10000);
	bed_close(b);
}

static void other_priorities_go_on(void **state)
{
	struct bed *b = bed_of_priority_3();

	(void)state;
	rnic_hold(b->side[0].rnic, (uint8_t) ~(1u << 3));
	assert_int_equal(bed_rdma(b, 0, 1, RNIC_WR_RDMA_WRITE, 0, 20000, 10000), 0);
	bed_run(b);
	bed_expect(b, 0, false, 1, RNIC_WC_SUCCESS);
	bed_close(b);
}

static void acknowledgements_are_held_with_their_connection(void **state)
{
	struct bed *b = bed_of_priority_3();

	(void)state;
	rnic_hold(b->side[1].rnic, 1u << 3);
	assert_int_equal(bed_rdma(b, 0, 1, RNIC_WR_RDMA_WRITE, 0, 20000, 100), 0);
	bed_run(b);
	assert_true(rnic_cq_empty(b->side[0].scq));
	rnic_hold(b->side[1].rnic, 0);
	bed_run(b);
	bed_expect(b, 0, false, 1, RNIC_WC_SUCCESS);
	bed_close(b);
}

/* In their own class. */
static void notifications_of_congestion_are_not(void **state)
{
	struct bed *b = bed_of_priority_3();
	struct bed_pkt *p;

	(void)state;
	assert_int_equal(bed_rdma(b, 0, 1, RNIC_WR_RDMA_WRITE, 0, 20000, 100), 0);
	p = bed_tx1(b, 0);
	p->flow.tos |= FLOW_ECN_CE;
	rnic_hold(b->side[1].rnic, 1u << 3);
	bed_deliver(b, p);
	p = bed_tx1(b, 1);
	assert_non_null(p);
	assert_int_equal(p->h.bth.opcode, 0x81);
	assert_null(bed_tx1(b, 1));
	rnic_hold(b->side[1].rnic, 0);
	bed_run(b);
	bed_expect(b, 0, false, 1, RNIC_WC_SUCCESS);
	bed_close(b);
}

static void one_that_is_held_can_be_destroyed(void **state)
{
	struct bed *b = bed_of_priority_3();

	(void)state;
	rnic_hold(b->side[0].rnic, 1u << 3);
	assert_int_equal(bed_rdma(b, 0, 1, RNIC_WR_RDMA_WRITE, 0, 20000, 10000), 0);
	assert_null(bed_tx1(b, 0));
	bed_close(b);
}

static void a_null_region_is_for_peers_where_it_says_so(void **state)
{
	const uint32_t all =
		RNIC_ACCESS_LOCAL_WRITE | RNIC_ACCESS_REMOTE_WRITE | RNIC_ACCESS_REMOTE_READ;
	struct bed *b = bed_open(&(struct bed_opts){0});
	struct rnic_sge sge = {(uintptr_t)b->side[0].mem, 9000, rnic_mr_lkey(b->side[0].mr)};
	struct rnic_send_wr wr = {
		.wr_id = 1, .sge = &sge, .num_sge = 1, .flags = RNIC_SEND_SIGNALED};
	static const uint8_t zeros[9000];
	struct rnic_mr *null;

	(void)state;
	assert_int_equal(rnic_mr_create_null(b->side[1].pd, all | RNIC_ACCESS_REMOTE_ATOMIC, &null),
			 -EINVAL);
	assert_int_equal(rnic_mr_create_null(b->side[1].pd, all, &null), 0);
	bed_fill(b, 0, 0, 9000, 3);
	wr.rkey = rnic_mr_rkey(null);
	wr.remote_addr = 0x123456789000;
	wr.opcode = RNIC_WR_RDMA_WRITE;
	assert_int_equal(rnic_post_send(b->side[0].qp, &wr, b->now), 0);
	bed_run(b);
	bed_expect(b, 0, false, 1, RNIC_WC_SUCCESS);
	wr.wr_id = 2;
	wr.opcode = RNIC_WR_RDMA_READ;
	assert_int_equal(rnic_post_send(b->side[0].qp, &wr, b->now), 0);
	bed_run(b);
	bed_expect(b, 0, false, 2, RNIC_WC_SUCCESS);
	assert_memory_equal(b->side[0].mem, zeros, sizeof(zeros)); /* not what was written */
	assert_int_equal(rnic_mr_destroy(null), 0);
	bed_close(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_held_waits),
		cmocka_unit_test(other_priorities_go_on),
		cmocka_unit_test(acknowledgements_are_held_with_their_connection),
		cmocka_unit_test(notifications_of_congestion_are_not),
		cmocka_unit_test(one_that_is_held_can_be_destroyed),
		cmocka_unit_test(a_null_region_is_for_peers_where_it_says_so),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
