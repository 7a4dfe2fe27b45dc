/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "joined.h"

#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

struct bed bed;

int setup(void **state)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	(void)state;
	if (!list || !list[0])
		return -1;
	memset(&bed, 0, sizeof(bed));
	bed.ctx = ibv_open_device(list[0]);
	ibv_free_device_list(list);
	if (!bed.ctx)
		return -1;
	bed.pd = ibv_alloc_pd(bed.ctx);
	bed.cq = ibv_create_cq(bed.ctx, 64, NULL, NULL, 0);
	bed.buf = mmap(NULL, BUF, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	bed.mr = ibv_reg_mr(bed.pd, bed.buf, BUF, ALL);
	return bed.pd && bed.cq && bed.mr ? 0 : -1;
}

void part(void)
{
	for (int i = 0; i < 2; i++)
		if (bed.qp[i])
			assert_int_equal(ibv_destroy_qp(bed.qp[i]), 0);
	memset(bed.qp, 0, sizeof(bed.qp));
}

int teardown(void **state)
{
	(void)state;
	part();
	assert_int_equal(ibv_destroy_cq(bed.cq), 0);
	assert_int_equal(ibv_dereg_mr(bed.mr), 0);
	assert_int_equal(ibv_dealloc_pd(bed.pd), 0);
	assert_int_equal(ibv_close_device(bed.ctx), 0);
	munmap(bed.buf, BUF);
	return 0;
}

static void to_rts(struct ibv_qp *qp, const struct ibv_qp *peer)
{
	const int init = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
	const bool rc = qp->qp_type == IBV_QPT_RC;
	const int rtr = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
			IBV_QP_RQ_PSN | (rc ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0);
	const int rts =
		IBV_QP_STATE | IBV_QP_SQ_PSN |
		(rc ? IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC
		    : 0);
	struct ibv_gid_entry gid[256];
	struct ibv_qp_attr a = {
		.port_num = 1,
		.qp_access_flags = ALL,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer->qp_num,
		.max_dest_rd_atomic = 4,
		.max_rd_atomic = 4,
		.min_rnr_timer = 1,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.ah_attr = {.is_global = 1, .port_num = 1},
	};

	assert_true(ibv_query_gid_table(bed.ctx, gid, 256, 0) > 0);
	a.ah_attr.grh.dgid = gid[0].gid;
	a.ah_attr.grh.sgid_index = (uint8_t)gid[0].gid_index;
	a.qp_state = IBV_QPS_INIT;
	assert_int_equal(ibv_modify_qp(qp, &a, init), 0);
	a.qp_state = IBV_QPS_RTR;
	assert_int_equal(ibv_modify_qp(qp, &a, rtr), 0);
	a.qp_state = IBV_QPS_RTS;
	assert_int_equal(ibv_modify_qp(qp, &a, rts), 0);
}

static void join_as(struct ibv_pd *pd, enum ibv_qp_type type, uint64_t ops)
{
	struct ibv_qp_init_attr_ex a = {
		.send_cq = bed.cq,
		.recv_cq = bed.cq,
		.cap = {.max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 2, .max_recv_sge = 2},
		.qp_type = type,
		.sq_sig_all = 1,
		.comp_mask = IBV_QP_INIT_ATTR_PD | (ops ? IBV_QP_INIT_ATTR_SEND_OPS_FLAGS : 0),
		.pd = pd,
		.send_ops_flags = ops,
	};

	part();
	for (int i = 0; i < 2; i++) {
		bed.qp[i] = ibv_create_qp_ex(bed.ctx, &a);
		assert_non_null(bed.qp[i]);
	}
	for (int i = 0; i < 2; i++)
		to_rts(bed.qp[i], bed.qp[!i]);
}

void join(void)
{
	join_in(bed.pd);
}

void join_in(struct ibv_pd *pd)
{
	join_as(pd, IBV_QPT_RC, 0);
}

void join_uc(uint64_t ops)
{
	join_as(bed.pd, IBV_QPT_UC, ops);
}

enum ibv_wc_status next_status(void)
{
	struct ibv_wc wc = {0};
	time_t end = time(NULL) + 10;

	while (!ibv_poll_cq(bed.cq, 1, &wc))
		assert_true(time(NULL) < end);
	return wc.status;
}

enum ibv_wc_status rdma(enum ibv_wr_opcode opcode, const void *local, uint32_t lkey,
			uint64_t remote, uint32_t rkey, uint32_t length)
{
	struct ibv_sge sge = {(uintptr_t)local, length, lkey};
	struct ibv_send_wr *bad, wr = {
					 .sg_list = &sge,
					 .num_sge = 1,
					 .opcode = opcode,
					 .wr.rdma = {.remote_addr = remote, .rkey = rkey},
				 };

	assert_int_equal(ibv_post_send(bed.qp[0], &wr, &bad), 0);
	return next_status();
}
