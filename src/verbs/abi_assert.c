// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/*
 * The RNIC core speaks in the numbers and layouts of verbs.h without including it; here is where a
 * difference would break the build. The faces cast on the strength of these.
 */
#include <infiniband/verbs.h>

#include "rnic/rnic.h"

#define SAME(a, b) _Static_assert((int)(a) == (int)(b), #a " differs from " #b)
#define SAME_AT(t, f, u, g)                                                              \
	_Static_assert(offsetof(struct t, f) == offsetof(struct u, g) &&                 \
			       sizeof(((struct t *)0)->f) == sizeof(((struct u *)0)->g), \
		       #t "." #f " is not where " #u "." #g " is")
#define SAME_SIZE(t, u) \
	_Static_assert(sizeof(struct t) == sizeof(struct u), #t " and " #u " differ in size")

SAME_SIZE(rnic_sge, ibv_sge);
SAME_AT(rnic_sge, addr, ibv_sge, addr);
SAME_AT(rnic_sge, length, ibv_sge, length);
SAME_AT(rnic_sge, lkey, ibv_sge, lkey);

SAME_SIZE(rnic_wc, ibv_wc);
SAME_AT(rnic_wc, wr_id, ibv_wc, wr_id);
SAME_AT(rnic_wc, status, ibv_wc, status);
SAME_AT(rnic_wc, opcode, ibv_wc, opcode);
SAME_AT(rnic_wc, vendor_err, ibv_wc, vendor_err);
SAME_AT(rnic_wc, byte_len, ibv_wc, byte_len);
SAME_AT(rnic_wc, imm_or_rkey, ibv_wc, imm_data);
SAME_AT(rnic_wc, qp_num, ibv_wc, qp_num);
SAME_AT(rnic_wc, src_qp, ibv_wc, src_qp);
SAME_AT(rnic_wc, wc_flags, ibv_wc, wc_flags);
SAME_AT(rnic_wc, pkey_index, ibv_wc, pkey_index);
SAME_AT(rnic_wc, slid, ibv_wc, slid);
SAME_AT(rnic_wc, sl, ibv_wc, sl);
SAME_AT(rnic_wc, dlid_path_bits, ibv_wc, dlid_path_bits);

SAME(RNIC_QPS_RESET, IBV_QPS_RESET);
SAME(RNIC_QPS_INIT, IBV_QPS_INIT);
SAME(RNIC_QPS_RTR, IBV_QPS_RTR);
SAME(RNIC_QPS_RTS, IBV_QPS_RTS);
SAME(RNIC_QPS_SQD, IBV_QPS_SQD);
SAME(RNIC_QPS_SQE, IBV_QPS_SQE);
SAME(RNIC_QPS_ERR, IBV_QPS_ERR);
SAME(RNIC_QPT_RC, IBV_QPT_RC);
SAME(RNIC_QPT_UC, IBV_QPT_UC);
SAME(RNIC_QPT_UD, IBV_QPT_UD);
SAME(RNIC_MTU_256, IBV_MTU_256);
SAME(RNIC_MTU_4096, IBV_MTU_4096);

SAME(RNIC_ACCESS_LOCAL_WRITE, IBV_ACCESS_LOCAL_WRITE);
SAME(RNIC_ACCESS_REMOTE_WRITE, IBV_ACCESS_REMOTE_WRITE);
SAME(RNIC_ACCESS_REMOTE_READ, IBV_ACCESS_REMOTE_READ);
SAME(RNIC_ACCESS_REMOTE_ATOMIC, IBV_ACCESS_REMOTE_ATOMIC);
SAME(RNIC_ACCESS_MW_BIND, IBV_ACCESS_MW_BIND);
SAME(RNIC_ACCESS_ZERO_BASED, IBV_ACCESS_ZERO_BASED);

SAME(RNIC_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE);
SAME(RNIC_WR_RDMA_WRITE_WITH_IMM, IBV_WR_RDMA_WRITE_WITH_IMM);
SAME(RNIC_WR_SEND, IBV_WR_SEND);
SAME(RNIC_WR_SEND_WITH_IMM, IBV_WR_SEND_WITH_IMM);
SAME(RNIC_WR_RDMA_READ, IBV_WR_RDMA_READ);
SAME(RNIC_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_CMP_AND_SWP);
SAME(RNIC_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_ATOMIC_FETCH_AND_ADD);
SAME(RNIC_WR_LOCAL_INV, IBV_WR_LOCAL_INV);
SAME(RNIC_WR_BIND_MW, IBV_WR_BIND_MW);
SAME(RNIC_WR_SEND_WITH_INV, IBV_WR_SEND_WITH_INV);
SAME(RNIC_SEND_FENCE, IBV_SEND_FENCE);
SAME(RNIC_SEND_SIGNALED, IBV_SEND_SIGNALED);
SAME(RNIC_SEND_SOLICITED, IBV_SEND_SOLICITED);
SAME(RNIC_SEND_INLINE, IBV_SEND_INLINE);

SAME(RNIC_WC_SUCCESS, IBV_WC_SUCCESS);
SAME(RNIC_WC_LOC_LEN_ERR, IBV_WC_LOC_LEN_ERR);
SAME(RNIC_WC_LOC_QP_OP_ERR, IBV_WC_LOC_QP_OP_ERR);
SAME(RNIC_WC_LOC_PROT_ERR, IBV_WC_LOC_PROT_ERR);
SAME(RNIC_WC_WR_FLUSH_ERR, IBV_WC_WR_FLUSH_ERR);
SAME(RNIC_WC_MW_BIND_ERR, IBV_WC_MW_BIND_ERR);
SAME(RNIC_WC_BAD_RESP_ERR, IBV_WC_BAD_RESP_ERR);
SAME(RNIC_WC_LOC_ACCESS_ERR, IBV_WC_LOC_ACCESS_ERR);
SAME(RNIC_WC_REM_INV_REQ_ERR, IBV_WC_REM_INV_REQ_ERR);
SAME(RNIC_WC_REM_ACCESS_ERR, IBV_WC_REM_ACCESS_ERR);
SAME(RNIC_WC_REM_OP_ERR, IBV_WC_REM_OP_ERR);
SAME(RNIC_WC_RETRY_EXC_ERR, IBV_WC_RETRY_EXC_ERR);
SAME(RNIC_WC_RNR_RETRY_EXC_ERR, IBV_WC_RNR_RETRY_EXC_ERR);
SAME(RNIC_WC_REM_ABORT_ERR, IBV_WC_REM_ABORT_ERR);
SAME(RNIC_WC_FATAL_ERR, IBV_WC_FATAL_ERR);
SAME(RNIC_WC_RESP_TIMEOUT_ERR, IBV_WC_RESP_TIMEOUT_ERR);
SAME(RNIC_WC_GENERAL_ERR, IBV_WC_GENERAL_ERR);
SAME(RNIC_WC_SEND, IBV_WC_SEND);
SAME(RNIC_WC_RDMA_WRITE, IBV_WC_RDMA_WRITE);
SAME(RNIC_WC_RDMA_READ, IBV_WC_RDMA_READ);
SAME(RNIC_WC_COMP_SWAP, IBV_WC_COMP_SWAP);
SAME(RNIC_WC_FETCH_ADD, IBV_WC_FETCH_ADD);
SAME(RNIC_WC_BIND_MW, IBV_WC_BIND_MW);
SAME(RNIC_WC_LOCAL_INV, IBV_WC_LOCAL_INV);
SAME(RNIC_WC_RECV, IBV_WC_RECV);
SAME(RNIC_WC_RECV_RDMA_WITH_IMM, IBV_WC_RECV_RDMA_WITH_IMM);
SAME(RNIC_WC_GRH, IBV_WC_GRH);
SAME(RNIC_WC_WITH_IMM, IBV_WC_WITH_IMM);
SAME(RNIC_WC_WITH_INV, IBV_WC_WITH_INV);

SAME(RNIC_EVENT_CQ_ERR, IBV_EVENT_CQ_ERR);
SAME(RNIC_EVENT_QP_FATAL, IBV_EVENT_QP_FATAL);
SAME(RNIC_EVENT_QP_REQ_ERR, IBV_EVENT_QP_REQ_ERR);
SAME(RNIC_EVENT_QP_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
SAME(RNIC_EVENT_COMM_EST, IBV_EVENT_COMM_EST);
SAME(RNIC_EVENT_SQ_DRAINED, IBV_EVENT_SQ_DRAINED);
SAME(RNIC_EVENT_PATH_MIG, IBV_EVENT_PATH_MIG);

SAME(RNIC_QP_STATE, IBV_QP_STATE);
SAME(RNIC_QP_CUR_STATE, IBV_QP_CUR_STATE);
SAME(RNIC_QP_EN_SQD_ASYNC_NOTIFY, IBV_QP_EN_SQD_ASYNC_NOTIFY);
SAME(RNIC_QP_ACCESS_FLAGS, IBV_QP_ACCESS_FLAGS);
SAME(RNIC_QP_PKEY_INDEX, IBV_QP_PKEY_INDEX);
SAME(RNIC_QP_PORT, IBV_QP_PORT);
SAME(RNIC_QP_QKEY, IBV_QP_QKEY);
SAME(RNIC_QP_AV, IBV_QP_AV);
SAME(RNIC_QP_PATH_MTU, IBV_QP_PATH_MTU);
SAME(RNIC_QP_TIMEOUT, IBV_QP_TIMEOUT);
SAME(RNIC_QP_RETRY_CNT, IBV_QP_RETRY_CNT);
SAME(RNIC_QP_RNR_RETRY, IBV_QP_RNR_RETRY);
SAME(RNIC_QP_RQ_PSN, IBV_QP_RQ_PSN);
SAME(RNIC_QP_MAX_QP_RD_ATOMIC, IBV_QP_MAX_QP_RD_ATOMIC);
SAME(RNIC_QP_ALT_PATH, IBV_QP_ALT_PATH);
SAME(RNIC_QP_MIN_RNR_TIMER, IBV_QP_MIN_RNR_TIMER);
SAME(RNIC_QP_SQ_PSN, IBV_QP_SQ_PSN);
SAME(RNIC_QP_MAX_DEST_RD_ATOMIC, IBV_QP_MAX_DEST_RD_ATOMIC);
SAME(RNIC_QP_PATH_MIG_STATE, IBV_QP_PATH_MIG_STATE);
SAME(RNIC_QP_CAP, IBV_QP_CAP);
SAME(RNIC_QP_DEST_QPN, IBV_QP_DEST_QPN);

/* What programs built on 64-bit Linux have compiled in. */
_Static_assert(sizeof(struct ibv_context) == 328, "struct ibv_context");
_Static_assert(sizeof(struct verbs_context) == 648, "struct verbs_context of rdma-core 44");
_Static_assert(offsetof(struct verbs_context, context) + sizeof(struct ibv_context) ==
		       sizeof(struct verbs_context),
	       "programs find verbs_context from its end");
_Static_assert(sizeof(struct ibv_cq_ex) == 288, "struct ibv_cq_ex");
_Static_assert(sizeof(struct ibv_qp_ex) == 352, "struct ibv_qp_ex");
_Static_assert(offsetof(struct ibv_qp_ex, qp_base) == 0, "an ibv_qp_ex begins with its ibv_qp");
