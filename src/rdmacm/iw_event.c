/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What has become of connections of iWARP, as events of rdma_cm. */
#include <string.h>

#include "iwcm/iwcm.h"
#include "port/hop/gid_sockaddr.h"
#include "rdmacm/iw.h"
static uint8_t depth(uint16_t peer, uint8_t own_max)
{
	return peer == MPA_DEPTH_ANY ? own_max : (uint8_t)min_of(peer, (uint16_t)own_max);
}

/* What the peer has said: its READs are ours to answer, and the other way round. */
static void peer_said(struct cma_event *e, const struct cma_id *id)
{
	const struct iw_conn *c = iwcm_conn(id->link);
	struct rdma_conn_param *p = &e->api.param.conn;

	p->private_data_len = (uint8_t)min_of(c->private_len, sizeof(e->private_data));
	if (p->private_data_len) {
		memcpy(e->private_data, c->private_data, p->private_data_len);
		p->private_data = e->private_data;
	}
	p->responder_resources = depth(c->peer_ord, id->dev->max_responder_resources);
	p->initiator_depth = depth(c->peer_ird, id->dev->max_initiator_depth);
}

static void take_address(struct gid *gid, struct sockaddr_storage *ret,
			 const struct sockaddr_storage *from)
{
	const struct sockaddr *a = (const struct sockaddr *)from;

	/* One of IPv4 to a listener of both families is an address of IPv6. */
	*gid = cma_addr_gid(a);
	gid_to_sockaddr(ret, gid, cma_addr_scope(a), cma_addr_port(a));
}

/* The identifier of a request, on the device that has the address it came to. */
static int request_id(struct cma_id *listener, struct iwcm_link *link, struct cma_id **ret)
{
	struct sockaddr_storage own, peer;
	struct rdma_addr *addr;
	struct cma_id *id;
	int rc = iwcm_addresses(link, &own, &peer);

	if (!rc)
		rc = cma_id_create(listener->api.channel, listener->api.context, listener->api.ps,
				   listener->api.qp_type, &id);
	if (rc)
		return rc;
	id->tos = listener->tos;
	addr = &id->api.route.addr;
	take_address(&id->src, &addr->src_storage, &own);
	cma_addr_set_port(&addr->src_addr, cma_addr_port(&listener->api.route.addr.src_addr));
	take_address(&id->dst, &addr->dst_storage, &peer);
	id->scope = cma_addr_scope(&addr->src_addr);
	id->state = CMA_REQUESTED;
	rc = cma_bind_request(id, listener, TRANSPORT_IWARP);
	if (!rc)
		*ret = id;
	return rc;
}

static bool request(struct cma_event *e, uint64_t nr)
{
	struct cma_id *listener = e->owner, *id;
	struct iwcm_link *link = iwcm_take(listener->handle, nr);

	if (!link)
		return false;
	if (request_id(listener, link, &id)) {
		iwcm_put(link);
		return false;
	}
	id->link = link;
	peer_said(e, id);
	id->responder_resources = e->api.param.conn.responder_resources;
	id->initiator_depth = e->api.param.conn.initiator_depth;
	e->api.event = RDMA_CM_EVENT_CONNECT_REQUEST;
	e->api.id = &id->api;
	e->api.listen_id = &listener->api;
	return true;
}

/* As the kernel translates what an adapter says (cma_iw_handler()). */
static bool ends(struct cma_event *e, enum iwcm_said what)
{
	struct cma_id *id = e->owner;

	if (what == IWCM_REJECTED && e->api.status == -ECONNREFUSED)
		peer_said(e, id);
	e->api.event = what == IWCM_REJECTED	  ? RDMA_CM_EVENT_REJECTED
		       : what == IWCM_UNREACHABLE ? RDMA_CM_EVENT_UNREACHABLE
		       : what == IWCM_ENDED	  ? RDMA_CM_EVENT_DISCONNECTED
						  : RDMA_CM_EVENT_CONNECT_ERROR;
	id->state = CMA_CLOSED;
	if (what != IWCM_ENDED)
		cma_qp_to_error(id);
	return true;
}

bool cma_iw_event(struct cma_event *e, const struct broker_cm_event *b)
{
	const enum iwcm_said what = (enum iwcm_said)(b->token & ((1u << CMA_IW_SAID_BITS) - 1));
	const uint64_t nr = b->token >> CMA_IW_SAID_BITS;
	struct cma_id *id = e->owner;
	struct iwcm_link *link;

	e->api.id = &id->api;
	e->api.status = b->status;
	if (what == IWCM_REQUEST)
		return request(e, nr);
	link = __atomic_load_n(&id->link, __ATOMIC_ACQUIRE);
	if (!link || iwcm_nr(link) != nr)
		return false;
	if (what != IWCM_ESTABLISHED)
		return ends(e, what);
	if (!cma_move(id, CMA_CONNECTING, CMA_CONNECTED))
		return false;
	e->api.event = RDMA_CM_EVENT_ESTABLISHED;
	if (iwcm_conn(link)->initiator) {
		peer_said(e, id);
		if (!id->wanted_port) /* the peer knows no other */
			cma_addr_set_port(&id->api.route.addr.src_addr, iwcm_own_port(link));
	}
	return true;
}
