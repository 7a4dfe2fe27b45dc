/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "first_device.h"

#include <stdbool.h>
#include <time.h>

struct ibv_context *first_device(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *ctx;

	assert_non_null(list);
	assert_non_null(list[0]);
	ctx = ibv_open_device(list[0]);
	assert_non_null(ctx);
	ibv_free_device_list(list);
	return ctx;
}

struct ibv_ah_attr to_itself(struct ibv_context *ctx)
{
	struct ibv_gid_entry gid[256];

	assert_true(ibv_query_gid_table(ctx, gid, 256, 0) > 0);
	return (struct ibv_ah_attr){
		.is_global = 1,
		.port_num = 1,
		.grh = {.dgid = gid[0].gid,
			.sgid_index = (uint8_t)gid[0].gid_index,
			.hop_limit = 64},
	};
}

void bring_up(struct ibv_qp *qp, uint32_t peer_qpn, struct ibv_ah_attr ah, unsigned int access,
	      enum ibv_qp_state to)
{
	const int init = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
	const bool reliable = qp->qp_type != IBV_QPT_UC;
	int rtr = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	int rts = IBV_QP_STATE | IBV_QP_SQ_PSN;
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = access,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer_qpn,
		.ah_attr = ah,
		.max_dest_rd_atomic = 4,
		.max_rd_atomic = 4,
		.min_rnr_timer = 1,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
	};

	if (reliable) {
		rtr |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
		rts |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
		       IBV_QP_MAX_QP_RD_ATOMIC;
	}
	assert_int_equal(ibv_modify_qp(qp, &a, init), 0);
	a.qp_state = IBV_QPS_RTR;
	assert_int_equal(ibv_modify_qp(qp, &a, rtr), 0);
	a.qp_state = IBV_QPS_RTS;
	if (to == IBV_QPS_RTS)
		assert_int_equal(ibv_modify_qp(qp, &a, rts), 0);
}

void lone_qp_open(struct lone_qp *l, void *buf, size_t len, unsigned int access)
{
	l->ctx = first_device();
	l->pd = ibv_alloc_pd(l->ctx);
	assert_non_null(l->pd);
	l->channel = ibv_create_comp_channel(l->ctx);
	assert_non_null(l->channel);
	l->mr = ibv_reg_mr(l->pd, buf, len, (int)access);
	assert_non_null(l->mr);
}

void lone_qp_close(struct lone_qp *l)
{
	assert_int_equal(ibv_destroy_qp(l->qp), 0);
	assert_int_equal(ibv_dereg_mr(l->mr), 0);
	assert_int_equal(ibv_destroy_cq(l->cq), 0);
	assert_int_equal(ibv_destroy_comp_channel(l->channel), 0);
	assert_int_equal(ibv_dealloc_pd(l->pd), 0);
	assert_int_equal(ibv_close_device(l->ctx), 0);
}

struct ibv_wc next_wc(struct ibv_cq *cq)
{
	struct ibv_wc wc = {0};
	time_t end = time(NULL) + 10;

	while (!ibv_poll_cq(cq, 1, &wc))
		assert_true(time(NULL) < end);
	return wc;
}
