/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Shared receive queues, datagrams and address handles by their contract: a plain verbs program
 * that runs on any library, two queue pairs of the first device in one process.
 */
#include "first_device.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { BUF = 8192, GRH = 40, QKEY = 0x22222222 };

static struct bed {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	uint8_t *buf;
	union ibv_gid gid;
	uint8_t gid_index;
} bed;

static int open_bed(void **state)
{

	(void)state;
	bed.ctx = first_device();
	bed.pd = ibv_alloc_pd(bed.ctx);
	bed.cq = ibv_create_cq(bed.ctx, 64, NULL, NULL, 0);
	bed.buf = calloc(1, BUF);
	bed.mr = ibv_reg_mr(bed.pd, bed.buf, BUF, IBV_ACCESS_LOCAL_WRITE);
	assert_non_null(bed.mr);
	return 0;
}

static int close_bed(void **state)
{
	(void)state;
	assert_int_equal(ibv_dereg_mr(bed.mr), 0);
	assert_int_equal(ibv_destroy_cq(bed.cq), 0);
	assert_int_equal(ibv_dealloc_pd(bed.pd), 0);
	assert_int_equal(ibv_close_device(bed.ctx), 0);
	free(bed.buf);
	return 0;
}

static struct ibv_sge sge_at(uint32_t off, uint32_t len)
{
	return (struct ibv_sge){(uintptr_t)bed.buf + off, len, bed.mr->lkey};
}

static struct ibv_qp *qp_new(enum ibv_qp_type type, struct ibv_srq *srq, uint64_t ops)
{
	struct ibv_qp_init_attr_ex a = {
		.send_cq = bed.cq,
		.recv_cq = bed.cq,
		.srq = srq,
		.cap = {.max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 2},
		.qp_type = type,
		.sq_sig_all = 1,
		.comp_mask = IBV_QP_INIT_ATTR_PD | (ops ? IBV_QP_INIT_ATTR_SEND_OPS_FLAGS : 0),
		.pd = bed.pd,
		.send_ops_flags = ops,
	};

	return ibv_create_qp_ex(bed.ctx, &a);
}

static void ud_to_rts(struct ibv_qp *qp)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY};

	assert_int_equal(
		ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY),
		0);
	a.qp_state = IBV_QPS_RTR;
	assert_int_equal(ibv_modify_qp(qp, &a, IBV_QP_STATE), 0);
	a.qp_state = IBV_QPS_RTS;
	assert_int_equal(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
}

/* ---- shared receive queues ------------------------------------------------------------------- */

static void an_srq_serves_its_qps_and_reports_its_limit(void **state)
{
	struct ibv_srq_init_attr init = {.attr = {.max_wr = 5, .max_sge = 1}};
	struct ibv_srq *srq = ibv_create_srq(bed.pd, &init);
	struct ibv_sge to = sge_at(100, 100), from = sge_at(0, 100);
	struct ibv_recv_wr recv = {.wr_id = 7, .sg_list = &to, .num_sge = 1}, *bad_recv;
	struct ibv_send_wr send = {.sg_list = &from, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;
	struct ibv_srq_attr a = {.srq_limit = 2};
	struct ibv_async_event event;
	struct ibv_qp *qp[2];
	struct ibv_wc wc;

	(void)state;
	assert_non_null(srq);
	assert_true(init.attr.max_wr >= 5);
	qp[0] = qp_new(IBV_QPT_RC, NULL, 0);
	qp[1] = qp_new(IBV_QPT_RC, srq, 0);
	assert_non_null(qp[0]);
	assert_non_null(qp[1]);
	assert_int_equal(ibv_destroy_srq(srq), EBUSY);
	assert_int_equal(ibv_post_recv(qp[1], &recv, &bad_recv), EINVAL);
	for (int i = 0; i < 2; i++)
		bring_up(qp[i], qp[!i]->qp_num, to_itself(bed.ctx), 0, IBV_QPS_RTS);
	for (int i = 0; i < 2; i++)
		assert_int_equal(ibv_post_srq_recv(srq, &recv, &bad_recv), 0);
	assert_int_equal(ibv_modify_srq(srq, &a, IBV_SRQ_LIMIT), 0);
	assert_int_equal(ibv_query_srq(srq, &a), 0);
	assert_int_equal(a.srq_limit, 2);
	memset(bed.buf, 0x5a, 100);
	assert_int_equal(ibv_post_send(qp[0], &send, &bad), 0);
	for (int i = 0; i < 2; i++) {
		wc = next_wc(bed.cq);
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
	}
	assert_memory_equal(bed.buf + 100, bed.buf, 100);
	assert_int_equal(ibv_get_async_event(bed.ctx, &event), 0);
	assert_int_equal(event.event_type, IBV_EVENT_SRQ_LIMIT_REACHED);
	assert_ptr_equal(event.element.srq, srq);
	ibv_ack_async_event(&event);

	assert_int_equal(
		ibv_modify_qp(qp[1], &(struct ibv_qp_attr){.qp_state = IBV_QPS_ERR}, IBV_QP_STATE),
		0);
	assert_int_equal(ibv_get_async_event(bed.ctx, &event), 0);
	assert_int_equal(event.event_type, IBV_EVENT_QP_LAST_WQE_REACHED);
	assert_ptr_equal(event.element.qp, qp[1]);
	ibv_ack_async_event(&event);
	assert_int_equal(ibv_destroy_qp(qp[0]), 0);
	assert_int_equal(ibv_destroy_qp(qp[1]), 0);
	assert_int_equal(ibv_destroy_srq(srq), 0);
}

/* ---- datagrams ------------------------------------------------------------------------------- */

static void a_datagram_is_answered_by_what_came_with_it(void **state)
{
	struct ibv_ah_attr attr = to_itself(bed.ctx);
	struct ibv_ah *ah = ibv_create_ah(bed.pd, &attr), *back;
	struct ibv_sge to = sge_at(1000, GRH + 50), from = sge_at(0, 50);
	struct ibv_recv_wr recv = {.wr_id = 7, .sg_list = &to, .num_sge = 1}, *bad_recv;
	struct ibv_send_wr send = {.wr_id = 1,
				   .sg_list = &from,
				   .num_sge = 1,
				   .opcode = IBV_WR_SEND},
			   *bad;
	struct ibv_qp *qp[2];
	struct ibv_wc wc;

	(void)state;
	assert_non_null(ah);
	for (int i = 0; i < 2; i++) {
		qp[i] = qp_new(IBV_QPT_UD, NULL,
			       IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM);
		assert_non_null(qp[i]);
		ud_to_rts(qp[i]);
	}
	assert_int_equal(ibv_post_send(qp[0], &send, &bad), EINVAL); /* to nobody */
	send.wr.ud.ah = ah;
	send.wr.ud.remote_qpn = qp[1]->qp_num;
	send.wr.ud.remote_qkey = QKEY;
	memset(bed.buf, 0x77, 50);
	assert_int_equal(ibv_post_recv(qp[1], &recv, &bad_recv), 0);
	assert_int_equal(ibv_post_send(qp[0], &send, &bad), 0);
	wc = next_wc(bed.cq);
	if (wc.wr_id == 1)
		wc = next_wc(bed.cq);
	else
		next_wc(bed.cq);
	assert_int_equal(wc.wr_id, 7);
	assert_int_equal(wc.byte_len, GRH + 50);
	assert_int_equal(wc.src_qp, qp[0]->qp_num);
	assert_true(wc.wc_flags & IBV_WC_GRH);
	assert_memory_equal(bed.buf + 1000 + GRH, bed.buf, 50);

	/* Back, through the extended interface. */
	back = ibv_create_ah_from_wc(bed.pd, &wc, (struct ibv_grh *)(bed.buf + 1000), 1);
	assert_non_null(back);
	assert_int_equal(ibv_post_recv(qp[0], &recv, &bad_recv), 0);
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(qp[1]);
	ibv_wr_start(ex);
	ex->wr_id = 2;
	ex->wr_flags = 0;
	ibv_wr_send_imm(ex, htobe32(99));
	ibv_wr_set_ud_addr(ex, back, wc.src_qp, QKEY);
	ibv_wr_set_sge(ex, bed.mr->lkey, (uintptr_t)bed.buf, 50);
	assert_int_equal(ibv_wr_complete(ex), 0);
	wc = next_wc(bed.cq);
	if (wc.wr_id == 2)
		wc = next_wc(bed.cq);
	else
		next_wc(bed.cq);
	assert_int_equal(wc.src_qp, qp[1]->qp_num);
	assert_int_equal(wc.imm_data, htobe32(99));
	for (int i = 0; i < 2; i++)
		assert_int_equal(ibv_destroy_qp(qp[i]), 0);
	assert_int_equal(ibv_destroy_ah(back), 0);
	assert_int_equal(ibv_destroy_ah(ah), 0);
}

static void an_address_that_is_none_gives_no_handle(void **state)
{
	struct ibv_ah_attr a = to_itself(bed.ctx);
	struct ibv_wc wc = {0};
	struct ibv_grh grh = {0};

	(void)state;
	a.is_global = 0;
	assert_null(ibv_create_ah(bed.pd, &a));
	assert_int_equal(errno, EINVAL);
	a = to_itself(bed.ctx);
	a.port_num = 2;
	assert_null(ibv_create_ah(bed.pd, &a));
	assert_int_equal(errno, EINVAL);
	assert_null(ibv_create_ah_from_wc(bed.pd, &wc, &grh, 1)); /* no GRH came */
	wc.wc_flags = IBV_WC_GRH;
	assert_null(ibv_create_ah_from_wc(bed.pd, &wc, &grh, 1)); /* to no address of ours */
	/* And an operation that the service does not have. */
	assert_null(qp_new(IBV_QPT_UD, NULL, IBV_QP_EX_WITH_RDMA_WRITE));
	assert_int_equal(errno, EOPNOTSUPP);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_srq_serves_its_qps_and_reports_its_limit),
		cmocka_unit_test(a_datagram_is_answered_by_what_came_with_it),
		cmocka_unit_test(an_address_that_is_none_gives_no_handle),
	};

	return cmocka_run_group_tests(tests, open_bed, close_bed);
}
