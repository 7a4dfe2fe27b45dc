/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What the manual pages promise of calls that fail: that nothing has changed then, and that what is
 * in use cannot be taken away.
 * A plain verbs program; one queue pair of the first device talks to itself.
 */
#include "first_device.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

enum { DEPTH = 8, BUF = 256 };

static struct bed {
	struct lone_qp lone;
	uint8_t buf[BUF];
	uint32_t send_wr; /* its send queue */
} bed;

static int open_bed(void **state)
{
	struct ibv_qp_init_attr_ex qp = {
		.cap = {.max_send_wr = DEPTH,
			.max_recv_wr = DEPTH,
			.max_send_sge = 1,
			.max_recv_sge = 1},
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_SEND,
	};
	const unsigned int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;

	(void)state;
	memset(bed.buf, 0, BUF);
	lone_qp_open(&bed.lone, bed.buf, BUF, access);
	bed.lone.cq = ibv_create_cq(bed.lone.ctx, 64, NULL, NULL, 0);
	assert_non_null(bed.lone.cq);
	qp.pd = bed.lone.pd;
	qp.send_cq = qp.recv_cq = bed.lone.cq;
	bed.lone.qp = ibv_create_qp_ex(bed.lone.ctx, &qp);
	assert_non_null(bed.lone.qp);
	bed.send_wr = qp.cap.max_send_wr;
	bring_up(bed.lone.qp, bed.lone.qp->qp_num, to_itself(bed.lone.ctx), access, IBV_QPS_RTS);
	return 0;
}

static int close_bed(void **state)
{
	(void)state;
	lone_qp_close(&bed.lone);
	return 0;
}

/* ---- ibv_wr_complete(3): if it fails, the whole batch is none ----------------------------------
 */

/* Each sends a byte of the first half to its place in the second. */
static void begin_writes(uint32_t n)
{
	struct ibv_qp_ex *qx = ibv_qp_to_qp_ex(bed.lone.qp);

	ibv_wr_start(qx);
	for (uint32_t i = 0; i < n; i++) {
		qx->wr_id = i;
		qx->wr_flags = IBV_SEND_SIGNALED;
		ibv_wr_rdma_write(qx, bed.lone.mr->rkey, (uintptr_t)bed.buf + BUF / 2 + i);
		ibv_wr_set_sge(qx, bed.lone.mr->lkey, (uintptr_t)bed.buf + i, 1);
	}
}

static void expect_nothing(void)
{
	struct ibv_wc wc;

	assert_int_equal(ibv_poll_cq(bed.lone.cq, 1, &wc), 0);
	for (int i = BUF / 2; i < BUF; i++)
		assert_int_equal(bed.buf[i], 0);
}

static void a_batch_that_does_not_fit_is_not_posted_in_part(void **state)
{
	struct ibv_sge sge = {(uintptr_t)bed.buf, 0, bed.lone.mr->lkey};
	/* Nobody receives: these stay where they are. */
	struct ibv_send_wr send = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;
	struct ibv_qp_ex *qx = ibv_qp_to_qp_ex(bed.lone.qp);

	(void)state;
	memset(bed.buf, 7, BUF / 2);
	for (uint32_t i = 0; i < bed.send_wr - 2; i++)
		assert_int_equal(ibv_post_send(bed.lone.qp, &send, &bad), 0);
	begin_writes(3);
	assert_int_equal(ibv_wr_complete(qx), ENOMEM);
	/* There is room for two still. */
	begin_writes(2);
	assert_int_equal(ibv_wr_complete(qx), 0);
	begin_writes(1);
	assert_int_equal(ibv_wr_complete(qx), ENOMEM);
	expect_nothing();
}

static void a_batch_with_a_bad_request_is_not_posted_in_part(void **state)
{
	struct ibv_qp_ex *qx = ibv_qp_to_qp_ex(bed.lone.qp);

	(void)state;
	memset(bed.buf, 7, BUF / 2);
	begin_writes(2);
	/* Longer than any message. */
	ibv_wr_rdma_write(qx, bed.lone.mr->rkey, (uintptr_t)bed.buf + BUF / 2);
	ibv_wr_set_sge(qx, bed.lone.mr->lkey, (uintptr_t)bed.buf, UINT32_MAX);
	assert_int_equal(ibv_wr_complete(qx), EINVAL);
	/* What is posted behind comes behind: if any of it had been, it would be there by now. */
	ibv_wr_start(qx);
	qx->wr_id = 99;
	qx->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_write(qx, bed.lone.mr->rkey, (uintptr_t)bed.buf);
	ibv_wr_set_sge(qx, bed.lone.mr->lkey, (uintptr_t)bed.buf + 1, 1);
	assert_int_equal(ibv_wr_complete(qx), 0);
	assert_int_equal(next_wc(bed.lone.cq).wr_id, 99);
	expect_nothing();
}

/* ---- ibv_modify_srq(3): if any attribute is invalid, none is modified ---------------------------
 */

static struct ibv_srq_attr srq_attr(struct ibv_srq *srq)
{
	struct ibv_srq_attr a;

	assert_int_equal(ibv_query_srq(srq, &a), 0);
	return a;
}

static void fill(struct ibv_srq *srq, int n)
{
	struct ibv_recv_wr recv = {0}, *bad;

	while (n--)
		assert_int_equal(ibv_post_srq_recv(srq, &recv, &bad), 0);
}

static void an_srq_is_modified_whole_or_not_at_all(void **state)
{
	struct ibv_srq_init_attr init = {.attr = {.max_wr = 16, .max_sge = 1}};
	const int both = IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT;
	struct ibv_srq_attr a, was;
	struct ibv_srq *srq;

	(void)state;
	srq = ibv_create_srq(bed.lone.pd, &init);
	assert_non_null(srq);
	was = srq_attr(srq);
	/* The limit is above what the queue is to have. */
	a = (struct ibv_srq_attr){.max_wr = 64, .srq_limit = 65};
	assert_int_equal(ibv_modify_srq(srq, &a, both), EINVAL);
	a = srq_attr(srq);
	assert_int_equal(a.max_wr, was.max_wr);
	assert_int_equal(a.srq_limit, was.srq_limit);
	/* Larger at once with a limit that the old one could not have had, and smaller. */
	fill(srq, 16);
	a = (struct ibv_srq_attr){.max_wr = 64};
	assert_int_equal(ibv_modify_srq(srq, &a, IBV_SRQ_MAX_WR), 0);
	fill(srq, 48);
	a = (struct ibv_srq_attr){.max_wr = 256, .srq_limit = 64};
	assert_int_equal(ibv_modify_srq(srq, &a, both), 0);
	a = (struct ibv_srq_attr){.max_wr = 0, .srq_limit = 1};
	assert_int_equal(ibv_modify_srq(srq, &a, both), EINVAL);
	a = srq_attr(srq);
	assert_int_equal(a.max_wr, 256);
	assert_int_equal(a.srq_limit, 64);
	a = (struct ibv_srq_attr){.max_wr = 64, .srq_limit = 4};
	assert_int_equal(ibv_modify_srq(srq, &a, both), 0);
	a = srq_attr(srq);
	assert_int_equal(a.max_wr, 64);
	assert_int_equal(a.srq_limit, 4);
	assert_int_equal(ibv_destroy_srq(srq), 0);
}

/* ---- ibv_dealloc_pd(3): fails while something is in it ------------------------------------------
 */

static void a_domain_with_an_address_handle_stays(void **state)
{
	struct ibv_ah_attr a = to_itself(bed.lone.ctx);
	struct ibv_pd *pd = ibv_alloc_pd(bed.lone.ctx), *view;
	struct ibv_ah *ah;

	(void)state;
	assert_non_null(pd);
	ah = ibv_create_ah(pd, &a);
	assert_non_null(ah);
	assert_int_equal(ibv_dealloc_pd(pd), EBUSY);
	assert_int_equal(ibv_destroy_ah(ah), 0);

	/* One of a view holds what all views are of. */
	view = ibv_import_pd(bed.lone.ctx, pd->handle);
	assert_non_null(view);
	ah = ibv_create_ah(view, &a);
	assert_non_null(ah);
	ibv_unimport_pd(view);
	assert_int_equal(ibv_dealloc_pd(pd), EBUSY);
	assert_int_equal(ibv_destroy_ah(ah), 0);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_batch_that_does_not_fit_is_not_posted_in_part,
						open_bed, close_bed),
		cmocka_unit_test_setup_teardown(a_batch_with_a_bad_request_is_not_posted_in_part,
						open_bed, close_bed),
		cmocka_unit_test_setup_teardown(an_srq_is_modified_whole_or_not_at_all, open_bed,
						close_bed),
		cmocka_unit_test_setup_teardown(a_domain_with_an_address_handle_stays, open_bed,
						close_bed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
