// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/* Endpoints: an identifier made ready in one call, in synchronous mode. */
#include <stdlib.h>
#include <string.h>

#include "rdmacm/cma.h"

static int passive_ep(struct cma_id *id, const struct rdma_addrinfo *res, struct ibv_pd *pd,
		      const struct ibv_qp_init_attr *attr)
{
	if (rdma_bind_addr(&id->api, res->ai_src_addr))
		return -1;
	if (pd)
		id->api.pd = pd;
	if (!attr)
		return 0;
	id->qp_init_attr = malloc(sizeof(*attr));
	if (!id->qp_init_attr)
		return cma_ret(-ENOMEM);
	*id->qp_init_attr = *attr;
	id->qp_init_attr->qp_type = (enum ibv_qp_type)res->ai_qp_type;
	return 0;
}

static int active_ep(struct cma_id *id, const struct rdma_addrinfo *res, struct ibv_pd *pd,
		     struct ibv_qp_init_attr *attr)
{
	enum { RESOLVE_MS = 2000 };

	if (rdma_resolve_addr(&id->api, res->ai_src_addr, res->ai_dst_addr, RESOLVE_MS) ||
	    rdma_resolve_route(&id->api, RESOLVE_MS))
		return -1;
	if (attr) {
		attr->qp_type = (enum ibv_qp_type)res->ai_qp_type;
		if (rdma_create_qp(&id->api, pd, attr))
			return -1;
	}
	if (res->ai_connect_len) {
		id->connect_data = malloc(res->ai_connect_len);
		if (!id->connect_data)
			return cma_ret(-ENOMEM);
		memcpy(id->connect_data, res->ai_connect, res->ai_connect_len);
		id->connect_len = res->ai_connect_len;
	}
	return 0;
}

int rdma_create_ep(struct rdma_cm_id **ret, struct rdma_addrinfo *res, struct ibv_pd *pd,
		   struct ibv_qp_init_attr *attr)
{
	struct cma_id *id;
	int rc = cma_id_create(NULL, NULL, (enum rdma_port_space)res->ai_port_space,
			       (enum ibv_qp_type)res->ai_qp_type, &id);

	if (rc)
		return cma_ret(rc);
	rc = res->ai_flags & RAI_PASSIVE ? passive_ep(id, res, pd, attr)
					 : active_ep(id, res, pd, attr);
	if (rc) {
		int err = errno;

		rdma_destroy_ep(&id->api);
		return cma_ret(-err);
	}
	*ret = &id->api;
	return 0;
}

void rdma_destroy_ep(struct rdma_cm_id *id)
{
	if (id->qp)
		rdma_destroy_qp(id);
	if (id->srq)
		rdma_destroy_srq(id);
	rdma_destroy_id(id);
}

int rdma_get_request(struct rdma_cm_id *listen, struct rdma_cm_id **ret)
{
	struct cma_id *l = cma_id(listen);
	struct rdma_cm_event *ev;
	int rc = 0;

	if (!l->sync)
		return cma_ret(-EINVAL);
	cma_keep_event(listen, NULL);
	if (rdma_get_cm_event(listen->channel, &ev))
		return -1;
	if (ev->status)
		rc = -abs(ev->status);
	else if (ev->event != RDMA_CM_EVENT_CONNECT_REQUEST)
		rc = -EINVAL;
	if (!rc && l->qp_init_attr) {
		struct ibv_qp_init_attr attr = *l->qp_init_attr;
		/* The listener's domain, where it has one on this device. */
		struct ibv_pd *pd =
			listen->pd && listen->pd->context == ev->id->verbs ? listen->pd : NULL;

		if (rdma_create_qp(ev->id, pd, &attr))
			rc = -errno;
	}
	if (rc) {
		cma_keep_event(listen, ev);
		return cma_ret(rc);
	}
	*ret = ev->id;
	(*ret)->event = ev;
	return 0;
}
