/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "joined.h"

#include <string.h>
#include <sys/mman.h>

struct bed bed;

int setup(void **state)
{
	(void)state;
	memset(&bed, 0, sizeof(bed));
	bed.ctx = first_device();
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
		bring_up(bed.qp[i], bed.qp[!i]->qp_num, to_itself(bed.ctx), ALL, IBV_QPS_RTS);
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
	return next_wc(bed.cq).status;
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
