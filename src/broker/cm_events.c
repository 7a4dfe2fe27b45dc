/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "broker/cm_service_priv.h"
#include "wire/cm_ip.h"

_Static_assert(CM_REP_PRIVATE <= BROKER_CM_PRIVATE_MAX && CM_REJ_PRIVATE <= BROKER_CM_PRIVATE_MAX &&
		       CM_SIDR_REQ_PRIVATE <= BROKER_CM_PRIVATE_MAX,
	       "an event has room for the private data of every message");

/* ---- a REQ or SIDR_REQ
 * -------------------------------------------------------------------------------- */

bool svc_match(void *id_user, const uint8_t *private_data, uint32_t scope)
{
	const struct svc_id *listener = id_user;
	struct cm_service *svc = listener->client->svc;
	struct cm_local_addr local;
	struct cm_ip_hdr ip;

	return listener->channel && cm_ip_hdr_decode(&ip, private_data) == 0 &&
	       port_bind_covers(&listener->bind, &ip.dst, scope) &&
	       svc->ops.local_addr(svc->ctx, &ip.dst, scope, &local);
}

static void path_of_request(struct svc_id *id, const struct cm_event *cm_ev,
			    const struct cm_ip_hdr *ip)
{
	struct cm_service *svc = id->client->svc;
	struct cm_local_addr local;

	if (svc->ops.local_addr(svc->ctx, &ip->dst, cm_ev->flow.scope, &local))
		id->ifindex = local.ifindex;
	id->path = (struct broker_cm_param){
		.src = ip->dst,
		.dst = ip->src,
		.scope = cm_ev->flow.scope,
		.src_port = id->listener->bind.port,
		.dst_port = ip->port,
		.tos = cm_ev->flow.tos,
	};
	if (cm_ev->req) {
		id->path.path_mtu = cm_ev->req->path_mtu;
		id->path.tos = cm_ev->req->primary.traffic_class;
		id->path.local_ack_timeout = cm_ev->req->primary.local_ack_timeout;
		id->path.flow_label = cm_ev->req->primary.flow_label;
	}
}

/* The active side says the path MTU, and both queue pairs must have the same. What our interface
 * does not carry would vanish without a word. */
static bool path_mtu_carried(struct cm_service *svc, const struct cm_req *req,
			     const struct flow *flow)
{
	struct cm_local_addr local;

	return !svc->ops.local_addr(svc->ctx, &flow->sgid, flow->scope, &local) ||
	       req->path_mtu <= local.path_mtu;
}

static void put_req(struct broker_cm_event *ev, const struct cm_req *req)
{
	ev->param.qpn = req->local_qpn;
	ev->param.starting_psn = req->starting_psn;
	ev->param.responder_resources = req->initiator_depth;
	ev->param.initiator_depth = req->responder_resources;
	ev->param.flow_control = req->end_to_end_flow_control;
	ev->param.retry_count = req->retry_count;
	ev->param.rnr_retry_count = req->rnr_retry_count;
	ev->param.srq = req->srq;
	ev->param.ece_vendor = req->ece.vendor_id;
	ev->param.ece_options = req->ece.options;
}

/* Nobody shall hear of it. A SIDR_REQ has but one way of being rejected, which is the CM's too. */
static void refuse(struct cm_service *svc, const struct cm_event *cm_ev, uint16_t reason)
{
	if (cm_ev->req && cm_reject(cm_ev->id, reason, NULL, 0, NULL, 0, svc->now) < 0)
		assert(!"a REQ just received can be rejected");
	cm_id_destroy(cm_ev->id, svc->now);
}

/* An application has as many unread requests as it said, of one peer; those of others come beyond:
 * who asks faster than it reads keeps nobody else out. A peer has at most what is left of twice the
 * backlog. */
static bool has_room(struct svc_id *listener, const struct gid *source)
{
	uint32_t own = 0;

	if (listener->request_count < listener->backlog)
		return true;
	svc_requests_settle(listener);
	list_for_each(id, &listener->requests, struct svc_id, request)
		own += gid_equal(&id->path.dst, source);
	return own + listener->request_count < 2 * listener->backlog;
}

static void on_request(struct svc_id *listener, const struct cm_event *cm_ev)
{
	struct cm_service *svc = listener->client->svc;
	struct broker_cm_event ev;
	struct cm_ip_hdr ip;
	struct svc_id *id;

	/* Decodable, or svc_match() had not let it through. The addresses that the application is
	 * told are those the packet came from and to. */
	if (cm_ip_hdr_decode(&ip, cm_ev->private_data) < 0 ||
	    !gid_equal(&ip.dst, &cm_ev->flow.sgid) || !gid_equal(&ip.src, &cm_ev->flow.dgid)) {
		refuse(svc, cm_ev, CM_REJ_INVALID_GID);
		return;
	}
	/* In RDMA_PS_IB there may be any. */
	if (listener->datagrams != !cm_ev->req ||
	    (cm_ev->req && listener->xrc != cm_req_is_xrc(cm_ev->req))) {
		refuse(svc, cm_ev, CM_REJ_CONSUMER_DEFINED);
		return;
	}
	if (cm_ev->req && !path_mtu_carried(svc, cm_ev->req, &cm_ev->flow)) {
		log_info("cm",
			 "port %u: refused a connection request for a path MTU of %u, "
			 "which the interface does not carry",
			 listener->bind.port, 128u << cm_ev->req->path_mtu);
		refuse(svc, cm_ev, CM_REJ_INVALID_MTU);
		return;
	}
	if (!has_room(listener, &ip.src) ||
	    svc_id_new(listener->client, listener->channel, cm_ev->id, &id) < 0) {
		/* The peer asks again. */
		log_debug("cm", "port %u: a connection request finds no room", listener->bind.port);
		cm_id_forget(cm_ev->id);
		return;
	}
	id->used = true;
	id->user = listener->user;
	id->ps = listener->ps;
	id->datagrams = listener->datagrams;
	id->xrc = listener->xrc;
	id->listener = listener;
	path_of_request(id, cm_ev, &ip);
	id->request_channel = listener->channel;
	list_push_tail(&listener->requests, &id->request);
	listener->request_count++;

	ev = svc_event(id, BROKER_CM_EV_CONNECT_REQUEST);
	ev.listen_id = listener->handle;
	if (cm_ev->req)
		put_req(&ev, cm_ev->req);
	svc_put_private(&ev, cm_ev->private_data + CM_IP_HDR_LEN,
			cm_ev->private_len - CM_IP_HDR_LEN);
	if (svc_post(id, &ev) < 0)
		svc_id_destroy(id, true); /* nobody will ever know of it */
}

/* ---- all others --------------------------------------------------------------------------- */

static void on_rep(struct svc_id *id, const struct cm_event *cm_ev)
{
	struct broker_cm_event ev = svc_event(id, BROKER_CM_EV_CONNECT_RESPONSE);
	const struct cm_rep *rep = cm_ev->rep;

	ev.param.qpn = rep->local_qpn;
	ev.param.path_mtu = cm_id_path_mtu(id->cm);
	ev.param.starting_psn = rep->starting_psn;
	ev.param.responder_resources = rep->initiator_depth;
	ev.param.initiator_depth = rep->responder_resources;
	ev.param.flow_control = rep->end_to_end_flow_control;
	ev.param.rnr_retry_count = rep->rnr_retry_count;
	ev.param.srq = rep->srq;
	ev.param.ece_vendor = rep->ece.vendor_id;
	ev.param.ece_options = rep->ece.options;
	svc_put_private(&ev, cm_ev->private_data, CM_REP_PRIVATE);
	svc_post(id, &ev);
}

static void on_rej(struct svc_id *id, const struct cm_event *cm_ev)
{
	struct broker_cm_event ev = svc_event(id, BROKER_CM_EV_REJECTED);

	/* A connection that was up is not rejected any more, it is gone. */
	if (id->up)
		ev.type = BROKER_CM_EV_DISCONNECTED;
	ev.status = cm_ev->rej->reason;
	svc_put_private(&ev, cm_ev->rej->private_data, CM_REJ_PRIVATE);
	svc_post(id, &ev);
}

static void on_other(struct svc_id *id, enum broker_cm_event_type type, int status)
{
	struct broker_cm_event ev = svc_event(id, type);

	ev.status = status;
	svc_post(id, &ev);
}

static void on_dreq(struct svc_id *id, const struct cm_event *ev)
{
	struct broker_cm_event out = svc_event(id, BROKER_CM_EV_DISCONNECTED);

	if (ev->private_len >= sizeof(CM_DREQ_DIED) &&
	    memcmp(ev->private_data, CM_DREQ_DIED, sizeof(CM_DREQ_DIED)) == 0) {
		svc_peer_died(id);
		out.param.qpn = cm_id_qpn(id->cm);
	}
	svc_post(id, &out);
}

void svc_on_cm_event(void *ctx, void *id_user, const struct cm_event *ev)
{
	struct svc_id *id = id_user;

	(void)ctx;
	switch (ev->type) {
	case CM_EV_REQ:
	case CM_EV_SIDR_REQ:
		on_request(id, ev);
		return;
	case CM_EV_REP:
		on_rep(id, ev);
		return;
	case CM_EV_RTU:
		id->up = true;
		on_other(id, BROKER_CM_EV_ESTABLISHED, 0);
		return;
	case CM_EV_REJ:
		on_rej(id, ev);
		return;
	case CM_EV_TIMEOUT:
		on_other(id, BROKER_CM_EV_UNREACHABLE, -ETIMEDOUT);
		return;
	case CM_EV_DREQ:
		on_dreq(id, ev);
		return;
	case CM_EV_DISCONNECTED:
		on_other(id, BROKER_CM_EV_DISCONNECTED, ev->unanswered ? -ETIMEDOUT : 0);
		return;
	case CM_EV_TIMEWAIT_EXIT:
		on_other(id, BROKER_CM_EV_TIMEWAIT_EXIT, 0);
		return;
	case CM_EV_SIDR_REP:
		svc_on_sidr_rep(id, ev);
		return;
	}
	assert(!"no such event");
}
