// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/* The attributes that a queue pair gets from its connection, and its moves by them. */
#include <string.h>

#include "rdmacm/iw.h"

/* Local ACK timeout where the application asks for none: 537 ms, so that a peer that is gone is
 * noticed in some seconds. Peers may ask for more for the sake of their fabric's diameter (Linux
 * 6.1 for 2 s), which a host next door does not need. */
#define DEFAULT_ACK_TIMEOUT 17
#define DEFAULT_HOP_LIMIT   64
/* How long a peer waits that has found us not ready: 0.64 ms, about as long as a program without a
 * processor is. One that gives up after some tries has 655 ms for each, as the kernel's connection
 * manager asks of all: its patience is what the program has counted on. */
#define RNR_TIMER_SHORT	  12
#define RNR_TIMER_LONGEST 0

static uint8_t traffic_class(const struct cma_id *id)
{
	return id->tos ? id->tos : id->peer.tos;
}

/* The connection manager moves it itself to RTS, and there is no RTR. As the kernel's. */
static int iw_qp_attr(struct ibv_qp_attr *a, int *mask)
{
	switch (a->qp_state) {
	case IBV_QPS_INIT:
	case IBV_QPS_RTR:
		*mask = IBV_QP_STATE | IBV_QP_ACCESS_FLAGS;
		a->qp_access_flags =
			IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
		return 0;
	case IBV_QPS_RTS:
		*mask = 0;
		return 0;
	default:
		return -EINVAL;
	}
}

static int init_qp_attr(struct cma_id *id, struct ibv_qp_attr *a, int *mask)
{
	const enum ibv_qp_state state = a->qp_state;

	if (!id->dev)
		return -EINVAL;
	memset(a, 0, sizeof(*a));
	a->qp_state = state;
	if (cma_is_ud(id)) {
		cma_ud_qp_attr(id, a, mask);
		return 0;
	}
	*mask = IBV_QP_STATE;
	if (cma_is_iw(id))
		return iw_qp_attr(a, mask);
	switch (state) {
	case IBV_QPS_INIT:
		a->port_num = id->api.port_num;
		if (cma_peer_known(id)) {
			a->qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
			if (id->responder_resources)
				a->qp_access_flags |=
					IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
		}
		*mask |= IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
		return 0;
	case IBV_QPS_RTR:
		if (!cma_peer_known(id))
			return -EINVAL;
		a->path_mtu = min_of((int)id->path_mtu, (int)id->peer.path_mtu);
		if (!id->peer.path_mtu)
			a->path_mtu = id->path_mtu;
		a->dest_qp_num = id->peer.qpn;
		a->rq_psn = id->starting_psn;
		a->max_dest_rd_atomic = id->responder_resources;
		a->ah_attr.is_global = 1;
		a->ah_attr.port_num = id->api.port_num;
		a->ah_attr.sl = traffic_class(id) >> 5;
		a->ah_attr.grh.sgid_index = (uint8_t)id->sgid_index;
		a->ah_attr.grh.hop_limit = DEFAULT_HOP_LIMIT;
		a->ah_attr.grh.traffic_class = traffic_class(id);
		a->ah_attr.grh.flow_label = id->peer.flow_label;
		memcpy(a->ah_attr.grh.dgid.raw, id->dst.raw, sizeof(id->dst.raw));
		*mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
		if (id->api.qp_type != IBV_QPT_XRC_SEND) /* which has no responder */
			*mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
		a->min_rnr_timer = id->rnr_for_ever ? RNR_TIMER_SHORT : RNR_TIMER_LONGEST;
		return 0;
	case IBV_QPS_RTS:
		if (!cma_peer_known(id))
			return -EINVAL;
		/* A REQ or REP says where its receiver is to start sending. */
		a->sq_psn = id->peer.starting_psn;
		a->timeout = id->ack_timeout ? id->ack_timeout : DEFAULT_ACK_TIMEOUT;
		a->retry_cnt = id->retry_count;
		a->rnr_retry = id->peer.rnr_retry_count;
		a->max_rd_atomic = id->initiator_depth;
		*mask |= IBV_QP_SQ_PSN | IBV_QP_TIMEOUT;
		if (id->api.qp_type != IBV_QPT_XRC_RECV) /* which has no requester */
			*mask |= IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
		return 0;
	default:
		return -EINVAL;
	}
}

int rdma_init_qp_attr(struct rdma_cm_id *api, struct ibv_qp_attr *attr, int *mask)
{
	return cma_ret(init_qp_attr(cma_id(api), attr, mask));
}

static int move_qp(struct cma_id *id, struct ibv_qp *qp, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = {.qp_state = state};
	int mask, rc = init_qp_attr(id, &attr, &mask);

	return rc ? rc : -ibv_modify_qp(qp, &attr, mask);
}

int cma_connect_qp(struct cma_id *id, struct ibv_qp *qp)
{
	int rc;

	if (!qp)
		return 0; /* the application moves its own */
	rc = move_qp(id, qp, IBV_QPS_INIT);
	if (!rc)
		rc = move_qp(id, qp, IBV_QPS_RTR);
	if (!rc)
		rc = move_qp(id, qp, IBV_QPS_RTS);
	return rc;
}

int cma_qp_to_error(struct cma_id *id)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	struct ibv_qp *qp = cma_qp_get(id);
	int rc = qp ? -ibv_modify_qp(qp, &attr, IBV_QP_STATE) : 0;

	cma_qp_put(id, qp);
	return rc;
}

/* The state before the call: the connection may end, and its identifier, before it is back. */
int cma_finish_connect(struct cma_id *id, struct ibv_qp *qp)
{
	int rc = cma_ece_answered(id, qp);

	if (!rc)
		rc = cma_connect_qp(id, qp);
	if (!rc) {
		cma_move(id, CMA_CONNECTING, CMA_CONNECTED);
		rc = cma_simple_call(BROKER_CM_ESTABLISH, id->handle);
		if (rc)
			cma_move(id, CMA_CONNECTED, CMA_CONNECTING);
	}
	if (rc)
		cma_qp_to_error(id);
	return rc;
}
