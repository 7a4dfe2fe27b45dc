// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/* Connections: the requests that make and end them. */
#include <stdlib.h>
#include <string.h>

#include "rdmacm/iw.h"
#include "verbs/private.h"

#define DEFAULT_RETRY_COUNT 7
#define RNR_RETRY_FOR_EVER  7

/* Reasons of a rejection that an application gives (IBA 12.6.7.2). */
enum { CONSUMER_DEFINED = 28, VENDOR_OPTION_NOT_SUPPORTED = 35 };

/* The application's depths, where it states any, must be what the device can do. */
static int check_depths(const struct cma_id *id, const struct ibv_qp *qp,
			const struct rdma_conn_param *p)
{
	if (!p)
		return qp ? 0 : -EINVAL;
	if (p->responder_resources != RDMA_MAX_RESP_RES &&
	    p->responder_resources > id->dev->max_responder_resources)
		return -EINVAL;
	if (p->initiator_depth != RDMA_MAX_INIT_DEPTH &&
	    p->initiator_depth > id->dev->max_initiator_depth)
		return -EINVAL;
	return 0;
}

static uint8_t rnr_retry_count(const struct rdma_conn_param *p)
{
	return min_of(p ? p->rnr_retry_count : DEFAULT_RETRY_COUNT, RNR_RETRY_FOR_EVER);
}

/* What CONNECT and ACCEPT have in common; prefix data (of rdma_create_ep) come first. */
static int fill_param(const struct cma_id *id, const struct ibv_qp *qp,
		      const struct rdma_conn_param *p, size_t max_private,
		      struct broker_cm_param *out)
{
	size_t len = id->connect_len;
	size_t more = p && p->private_data ? p->private_data_len : 0;

	if (len + more > max_private)
		return -EINVAL;
	if (len)
		memcpy(out->private_data, id->connect_data, len);
	if (more)
		memcpy(out->private_data + len, p->private_data, more);
	len += more;
	out->private_len = (uint32_t)len;
	out->qpn = qp ? qp->qp_num : p->qp_num;
	out->srq = qp ? !!qp->srq : p->srq;
	out->starting_psn = id->starting_psn;
	out->responder_resources = id->responder_resources;
	out->initiator_depth = id->initiator_depth;
	out->flow_control = p ? p->flow_control : 0;
	out->retry_count = min_of(p ? p->retry_count : DEFAULT_RETRY_COUNT, 7);
	out->rnr_retry_count = rnr_retry_count(p);
	out->path_mtu = id->path_mtu;
	out->tos = id->tos;
	out->local_ack_timeout = id->ack_timeout;
	return 0;
}

int cma_begin_connect(struct cma_id *id, const struct broker_cm_connect *req)
{
	void *data = id->connect_data;
	size_t len = id->connect_len;
	struct broker_msg resp;
	int rc;

	if (!cma_move(id, CMA_ROUTE_RESOLVED, CMA_CONNECTING))
		return -EINVAL;
	id->connect_data = NULL;
	id->connect_len = 0;
	rc = weft_private_call(req, sizeof(*req), &resp, sizeof(resp));
	if (rc) {
		id->connect_data = data;
		id->connect_len = len;
		cma_move(id, CMA_CONNECTING, CMA_ROUTE_RESOLVED);
		return rc;
	}
	free(data);
	return 0;
}

static int request_depths(struct cma_id *id, const struct ibv_qp *qp,
			  const struct rdma_conn_param *p)
{
	int rc = check_depths(id, qp, p);

	if (rc)
		return rc;
	id->initiator_depth = p && p->initiator_depth != RDMA_MAX_INIT_DEPTH
				      ? p->initiator_depth
				      : id->dev->max_initiator_depth;
	id->responder_resources = p && p->responder_resources != RDMA_MAX_RESP_RES
					  ? p->responder_resources
					  : id->dev->max_responder_resources;
	return 0;
}

static int fill_request(struct cma_id *id, struct ibv_qp *qp, const struct rdma_conn_param *p,
			struct broker_cm_param *out)
{
	int rc = request_depths(id, qp, p);
	struct ibv_ece ece;

	if (!rc)
		rc = fill_param(id, qp, p, REQ_PRIVATE_MAX, out);
	if (rc)
		return rc;
	ece = cma_ece_offer(id, qp);
	out->ece_vendor = ece.vendor_id;
	out->ece_options = ece.options;
	id->retry_count = out->retry_count;
	id->rnr_for_ever = out->rnr_retry_count == RNR_RETRY_FOR_EVER;
	out->src = id->src;
	out->dst = id->dst;
	out->scope = id->scope;
	out->src_port = cma_addr_port(&id->api.route.addr.src_addr);
	out->dst_port = cma_addr_port(&id->api.route.addr.dst_addr);
	return 0;
}

/* What either side brings: its queue pair, the depths, private data. */
static int iw_connect_or_accept(struct cma_id *id, const struct rdma_conn_param *p,
				int (*depths)(struct cma_id *, const struct ibv_qp *,
					      const struct rdma_conn_param *),
				int (*then)(struct cma_id *, uint32_t qpn, const void *, size_t))
{
	uint8_t data[EVENT_PRIVATE_MAX];
	size_t more = p && p->private_data ? p->private_data_len : 0;
	struct ibv_qp *qp = cma_qp_get(id);
	const uint32_t qpn = qp ? qp->qp_num : p ? p->qp_num : 0;
	int rc = depths(id, qp, p);

	cma_qp_put(id, qp);
	if (!rc && id->connect_len + more > sizeof(data))
		rc = -EINVAL;
	if (rc)
		return rc;
	if (id->connect_len)
		memcpy(data, id->connect_data, id->connect_len);
	if (more)
		memcpy(data + id->connect_len, p->private_data, more);
	return then(id, qpn, data, id->connect_len + more);
}

int rdma_connect(struct rdma_cm_id *api, struct rdma_conn_param *p)
{
	struct cma_id *id = cma_id(api);
	const bool sync = id->sync;
	struct broker_cm_connect req = {
		.msg.type = BROKER_CM_CONNECT, .id = id->handle, .user = id->cookie};
	struct ibv_qp *qp;
	int rc;

	if (id->state != CMA_ROUTE_RESOLVED)
		return cma_ret(-EINVAL);
	if (cma_is_iw(id)) {
		rc = iw_connect_or_accept(id, p, request_depths, cma_iw_connect);
		return rc ? cma_ret(rc) : cma_complete(id, sync);
	}
	qp = cma_qp_get(id);
	rc = cma_is_ud(id) ? cma_ud_fill(id, qp, p, &req.param)
			   : fill_request(id, qp, p, &req.param);
	cma_qp_put(id, qp);
	if (!rc)
		rc = cma_begin_connect(id, &req);
	return rc ? cma_ret(rc) : cma_complete(id, sync);
}

int rdma_establish(struct rdma_cm_id *api)
{
	struct cma_id *id = cma_id(api);

	if (api->qp || id->state != CMA_CONNECTING || !cma_peer_known(id))
		return cma_ret(-EINVAL);
	return cma_ret(cma_finish_connect(id, NULL));
}

static int reject(struct cma_id *id, const void *data, uint8_t len, uint32_t reason)
{
	struct broker_cm_reject req = {
		.msg.type = BROKER_CM_REJECT, .id = id->handle, .reason = reason};
	const enum cma_state from = id->state;
	struct broker_msg resp;
	int rc;

	if (!data)
		len = 0;
	if (cma_is_iw(id)) {
		if (from != CMA_REQUESTED && from != CMA_CONNECTING)
			return -EINVAL;
		rc = cma_iw_reject(id, data, len);
		if (!rc)
			cma_move(id, from, CMA_CLOSED);
		return rc;
	}
	if (len > (cma_is_ud(id) ? SIDR_REP_PRIVATE_MAX : REJ_PRIVATE_MAX) ||
	    (from != CMA_REQUESTED && from != CMA_CONNECTING))
		return -EINVAL;
	if (len) {
		memcpy(req.private_data, data, len);
		req.private_len = len;
	}
	rc = weft_private_call(&req, sizeof(req), &resp, sizeof(resp));
	if (!rc)
		cma_move(id, from, CMA_CLOSED);
	return rc;
}

/* As the kernel: what cannot be accepted is rejected. */
static int not_accepted(struct cma_id *id, int rc)
{
	cma_qp_to_error(id);
	(void)!reject(id, NULL, 0, CONSUMER_DEFINED);
	/* Of iWARP it may be over by then: nothing will come of it. */
	if (cma_is_iw(id))
		(void)cma_move(id, CMA_CONNECTING, CMA_CLOSED);
	return cma_ret(rc);
}

static int accept_depths(struct cma_id *id, const struct ibv_qp *qp,
			 const struct rdma_conn_param *p)
{
	int rc = check_depths(id, qp, p);

	if (rc)
		return rc;
	if (p && p->initiator_depth != RDMA_MAX_INIT_DEPTH)
		id->initiator_depth = p->initiator_depth;
	else
		id->initiator_depth = min_of(id->initiator_depth, id->dev->max_initiator_depth);
	if (p && p->responder_resources != RDMA_MAX_RESP_RES)
		id->responder_resources = p->responder_resources;
	else
		id->responder_resources =
			min_of(id->responder_resources, id->dev->max_responder_resources);
	return 0;
}

int rdma_accept(struct rdma_cm_id *api, struct rdma_conn_param *p)
{
	struct cma_id *id = cma_id(api);
	const bool sync = id->sync;
	struct broker_cm_connect req = {
		.msg.type = BROKER_CM_ACCEPT, .id = id->handle, .user = id->cookie};
	struct broker_msg resp;
	struct ibv_qp *qp;
	bool agreed;
	int rc;

	if (id->state != CMA_REQUESTED)
		return cma_ret(-EINVAL);
	if (cma_is_ud(id)) { /* nothing comes back: the peer has all it needs */
		rc = cma_ud_accept(id, p);
		return rc ? not_accepted(id, rc) : 0;
	}
	if (cma_is_iw(id)) {
		rc = iw_connect_or_accept(id, p, accept_depths, cma_iw_accept);
		return rc ? not_accepted(id, rc) : cma_complete(id, sync);
	}
	qp = cma_qp_get(id);
	id->rnr_for_ever = rnr_retry_count(p) == RNR_RETRY_FOR_EVER;
	rc = accept_depths(id, qp, p);
	agreed = !rc && cma_ece_agree(id, qp);
	if (!rc)
		rc = cma_connect_qp(id, qp);
	if (rc) {
		cma_qp_put(id, qp);
		return cma_ret(rc);
	}
	rc = fill_param(id, qp, p, REP_PRIVATE_MAX, &req.param);
	req.param.ece_vendor = id->remote_ece.vendor_id;
	req.param.ece_options = !qp || agreed ? cma_ece_offer(id, qp).options : 0;
	cma_qp_put(id, qp);
	if (!rc && !cma_move(id, CMA_REQUESTED, CMA_CONNECTING))
		rc = -EINVAL;
	if (!rc)
		rc = weft_private_call(&req, sizeof(req), &resp, sizeof(resp));
	return rc ? not_accepted(id, rc) : cma_complete(id, sync);
}

int rdma_reject(struct rdma_cm_id *api, const void *private_data, uint8_t private_data_len)
{
	return cma_ret(reject(cma_id(api), private_data, private_data_len, CONSUMER_DEFINED));
}

int rdma_reject_ece(struct rdma_cm_id *api, const void *private_data, uint8_t private_data_len)
{
	return cma_ret(
		reject(cma_id(api), private_data, private_data_len, VENDOR_OPTION_NOT_SUPPORTED));
}

int rdma_disconnect(struct rdma_cm_id *api)
{
	struct cma_id *id = cma_id(api);
	const bool sync = id->sync && !cma_is_ud(id); /* which have nothing to wait for */
	const enum cma_state state = id->state;
	int rc;

	if (state != CMA_CONNECTING && state != CMA_CONNECTED && state != CMA_CLOSED)
		return cma_ret(-EINVAL);
	if (cma_is_iw(id)) {
		rc = cma_iw_disconnect(id);
	} else {
		rc = cma_qp_to_error(id);
		if (!rc)
			rc = cma_simple_call(BROKER_CM_DISCONNECT, id->handle);
	}
	/* Whose end was told already, rdma_accept() for one, has no other event to wait for. */
	return rc ? cma_ret(rc) : cma_complete(id, sync && state != CMA_CLOSED);
}

int rdma_notify(struct rdma_cm_id *api, enum ibv_event_type event)
{
	if (event != IBV_EVENT_COMM_EST)
		return cma_ret(-EINVAL);
	if (cma_is_iw(cma_id(api))) /* whose adapters do not tell of it */
		return 0;
	return cma_ret(cma_simple_call(BROKER_CM_ESTABLISH, cma_id(api)->handle));
}
