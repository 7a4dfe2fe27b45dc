/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* A new queue pair and its connection; over RoCE the two ends make it themselves. */
#include <errno.h>
#include <string.h>

#include "end.h"

static uint8_t code(uint8_t given, uint8_t usual, uint8_t none)
{
	return given == none ? 0 : given ? given : usual;
}

static uint32_t smaller(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

static void connect_by_hand(struct end *e, const struct terms *t, const struct hello *own)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = (enum ibv_mtu)smaller(own->mtu, e->peer.mtu),
		.dest_qp_num = e->peer.qpn,
		.rq_psn = e->peer.psn,
		.max_dest_rd_atomic = (uint8_t)e->peer.rd_atomic,
		.min_rnr_timer = code(t->rnr_timer, 12, 32),
		.ah_attr = {.is_global = 1,
			    .port_num = 1,
			    .grh = {.dgid = e->peer.gid,
				    .sgid_index = (uint8_t)e->gid_index,
				    .hop_limit = 1}},
	};
	errno = ibv_modify_qp(e->qp, &a,
			      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				      IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				      IBV_QP_MIN_RNR_TIMER);
	NEED(!errno, "RTR: %s", strerror(errno));
	a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS,
				 .timeout = 16, /* 268 ms */
				 .retry_cnt = 7,
				 .rnr_retry = code(t->rnr_retry, 7, 8),
				 .sq_psn = own->psn,
				 .max_rd_atomic = (uint8_t)e->peer.rd_atomic};
	errno = ibv_modify_qp(e->qp, &a,
			      IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				      IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
	NEED(!errno, "RTS: %s", strerror(errno));
}

static void make_by_hand(struct end *e, const struct terms *t, struct ibv_qp_init_attr_ex *init)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1};

	if (!t->no_remote)
		a.qp_access_flags =
			IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
	e->qp = ibv_create_qp_ex(e->ctx, init);
	NEED(e->qp, "ibv_create_qp_ex: %s", strerror(errno));
	errno = ibv_modify_qp(e->qp, &a,
			      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	NEED(!errno, "INIT: %s", strerror(errno));
}

void join(struct end *e, const struct terms *t)
{
	struct ibv_qp_init_attr_ex init = {
		.qp_type = IBV_QPT_RC,
		.send_cq = e->cq,
		.recv_cq = e->cq,
		.srq = t->srq,
		.cap = {DEPTH, t->srq ? 0 : DEPTH, 2, 2, 64},
		.comp_mask = IBV_QP_INIT_ATTR_PD | (t->ops ? IBV_QP_INIT_ATTR_SEND_OPS_FLAGS : 0),
		.pd = e->pd,
		.send_ops_flags = t->ops,
	};
	uint32_t most =
		smaller((uint32_t)e->dev.max_qp_rd_atom, (uint32_t)e->dev.max_qp_init_rd_atom);
	struct hello own = {.psn = t->psn ? t->psn : 0x123456,
			    .rkey = e->mr->rkey,
			    .mtu = e->port.active_mtu,
			    .rd_atomic = t->rd_atomic ? t->rd_atomic : most,
			    .max_msg = e->port.max_msg_sz,
			    .weft = e->weft,
			    .addr = (uintptr_t)e->buf};

	if (!e->iwarp)
		make_by_hand(e, t, &init);
	own.qpn = e->qp ? e->qp->qp_num : 0;
	NEED(!ibv_query_gid(e->ctx, 1, e->gid_index, &own.gid), "GID");
	tell(e, &own, &e->peer, sizeof(own));
	e->peer.rd_atomic = smaller(own.rd_atomic, e->peer.rd_atomic);
	if (e->iwarp)
		join_by_cm(e, &init);
	else
		connect_by_hand(e, t, &own);
	meet(e);
}
