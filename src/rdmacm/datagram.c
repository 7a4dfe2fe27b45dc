// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/*
 * Identifiers of datagrams. Their queue pairs are ready to send from the start; "connecting" asks
 * which queue pair serves the peer's port, and "accepting" tells it. After that each side has the
 * other's address, or learns it from what it receives, and there is nothing to disconnect.
 */
#include <string.h>

#include "rdmacm/cma.h"
#include "verbs/private.h"

#define DEFAULT_HOP_LIMIT 64

/* ---- the Q_Key ------------------------------------------------------------------------------- */

void cma_default_qkey(struct cma_id *id)
{
	(void)!cma_set_qkey(id, RDMA_UDP_QKEY);
}

int cma_set_qkey(struct cma_id *id, uint32_t qkey)
{
	uint32_t before = 0;

	return atomic_compare_exchange_strong(&id->qkey, &before, qkey) || before == qkey ? 0
											  : -EINVAL;
}

/* ---- the queue pair -------------------------------------------------------------------------- */

void cma_ud_qp_attr(struct cma_id *id, struct ibv_qp_attr *a, int *mask)
{
	cma_default_qkey(id);
	a->port_num = id->api.port_num;
	a->qkey = id->qkey;
	if (a->qp_state == IBV_QPS_RTR)
		a->rq_psn = id->starting_psn;
	*mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY;
}

int cma_ud_qp_ready(struct cma_id *id, struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT};
	int mask, rc;

	cma_ud_qp_attr(id, &attr, &mask);
	rc = -ibv_modify_qp(qp, &attr, mask);
	attr.qp_state = IBV_QPS_RTR;
	if (!rc)
		rc = -ibv_modify_qp(qp, &attr, IBV_QP_STATE);
	attr.qp_state = IBV_QPS_RTS;
	attr.sq_psn = 0;
	if (!rc)
		rc = -ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN);
	return rc;
}

/* ---- requests -------------------------------------------------------------------------------- */

static int fill_param(const struct cma_id *id, const struct ibv_qp *qp,
		      const struct rdma_conn_param *p, size_t max_private,
		      struct broker_cm_param *out)
{
	size_t len = p && p->private_data ? p->private_data_len : 0;

	if (id->connect_len + len > max_private)
		return -EINVAL;
	if (id->connect_len)
		memcpy(out->private_data, id->connect_data, id->connect_len);
	if (len)
		memcpy(out->private_data + id->connect_len, p->private_data, len);
	out->private_len = (uint32_t)(id->connect_len + len);
	out->qpn = qp ? qp->qp_num : p ? p->qp_num : 0;
	out->tos = id->tos;
	return 0;
}

int cma_ud_fill(const struct cma_id *id, const struct ibv_qp *qp, const struct rdma_conn_param *p,
		struct broker_cm_param *out)
{
	out->src = id->src;
	out->dst = id->dst;
	out->scope = id->scope;
	out->src_port = cma_addr_port(&id->api.route.addr.src_addr);
	out->dst_port = cma_addr_port(&id->api.route.addr.dst_addr);
	return fill_param(id, qp, p, SIDR_REQ_PRIVATE_MAX, out);
}

int cma_ud_accept(struct cma_id *id, const struct rdma_conn_param *p)
{
	struct broker_cm_connect req = {
		.msg.type = BROKER_CM_ACCEPT, .id = id->handle, .user = id->cookie};
	struct broker_msg resp;
	struct ibv_qp *qp = cma_qp_get(id);
	int rc = fill_param(id, qp, p, SIDR_REP_PRIVATE_MAX, &req.param);

	cma_qp_put(id, qp);
	if (rc)
		return rc;
	cma_default_qkey(id);
	req.param.qkey = id->qkey;
	rc = weft_private_call(&req, sizeof(req), &resp, sizeof(resp));
	if (!rc)
		cma_move(id, CMA_REQUESTED, CMA_CONNECTED);
	return rc;
}

/* ---- events ---------------------------------------------------------------------------------- */

struct ibv_ah_attr cma_ah_attr(const struct cma_id *id)
{
	struct ibv_ah_attr a = {
		.is_global = 1,
		.port_num = id->api.port_num,
		.sl = id->tos >> 5,
		.grh = {.sgid_index = (uint8_t)id->sgid_index,
			.hop_limit = DEFAULT_HOP_LIMIT,
			.traffic_class = id->tos,
			.flow_label = id->peer.flow_label},
	};

	memcpy(a.grh.dgid.raw, id->dst.raw, sizeof(id->dst.raw));
	return a;
}

void cma_ud_param(struct rdma_cm_event *e, const struct broker_cm_param *p, const uint8_t *data)
{
	e->param.ud = (struct rdma_ud_param){
		.private_data = p->private_len ? data : NULL,
		.private_data_len = (uint8_t)p->private_len,
	};
}

void cma_ud_established(struct cma_id *id, struct rdma_cm_event *e)
{
	cma_move(id, CMA_CONNECTING, CMA_CONNECTED);
	e->status = cma_set_qkey(id, id->peer.qkey);
	if (e->status) { /* so the kernel calls a service with another key than the id's */
		e->event = RDMA_CM_EVENT_ADDR_ERROR;
		return;
	}
	e->event = RDMA_CM_EVENT_ESTABLISHED;
	e->param.ud.ah_attr = cma_ah_attr(id);
	e->param.ud.qp_num = id->peer.qpn;
	e->param.ud.qkey = id->peer.qkey;
}
