// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/* The resolution of addresses and routes. */
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "rdmacm/brief.h"
#include "rdmacm/cma.h"
#include "verbs/private.h"

/* An event that the library has made itself comes back through the id's channel. */
static int post_event(struct cma_id *id, enum broker_cm_event_type type, int status, int timeout_ms,
		      bool at_once)
{
	struct broker_cm_post req = {
		.msg.type = BROKER_CM_POST, .id = id->handle, .type = type, .status = status};
	struct broker_msg resp;

	if (type == BROKER_CM_EV_ADDR_RESOLVED) {
		req.src = id->src;
		req.dst = id->dst;
		req.scope = id->scope;
		req.timeout_ms = timeout_ms > 0 ? (uint32_t)timeout_ms : 0;
		req.brief = id->brief;
		req.at_once = at_once;
	}

	return weft_private_call(&req, sizeof(req), &resp, sizeof(resp));
}

/* at_once: -EALREADY if there is nothing to wait for, and no event then. */
static int resolve_addr(struct cma_id *id, const struct sockaddr *src, const struct sockaddr *dst,
			int timeout_ms, bool at_once)
{
	struct sockaddr_storage to = {0}, from;
	struct sockaddr *own = &id->api.route.addr.src_addr;
	enum cma_state before;
	int rc = 0, status = 0;

	if (src && id->state == CMA_IDLE)
		rc = cma_bind_addr(id, src, true);
	else
		rc = cma_attach(id);
	if (rc)
		return rc;
	if (id->state != CMA_IDLE && id->state != CMA_BOUND)
		return -EINVAL;
	memcpy(&to, dst, cma_addr_len(dst));
	if (cma_addr_any(dst)) { /* a wildcard means this host */
		if (dst->sa_family == AF_INET)
			((struct sockaddr_in *)&to)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		else
			((struct sockaddr_in6 *)&to)->sin6_addr = in6addr_loopback;
	}
	if (id->state == CMA_BOUND && own->sa_family != to.ss_family)
		return -EINVAL;
	rc = cma_source_for(id->dev ? own : NULL, (struct sockaddr *)&to, &from);
	if (rc)
		return rc;
	if (id->state == CMA_IDLE) {
		cma_addr_set_port((struct sockaddr *)&from, 0);
		rc = cma_bind_addr(id, (struct sockaddr *)&from, true);
	} else if (!id->dev) { /* bound to a port of the wildcard */
		uint16_t port = cma_addr_port(own);

		id->src = cma_addr_gid((struct sockaddr *)&from);
		id->scope = cma_addr_scope((struct sockaddr *)&from);
		rc = cma_bind_device(id);
		memcpy(&id->api.route.addr.src_storage, &from, sizeof(from));
		cma_addr_set_port(own, port);
	}
	/* Bad luck with the device is told by the event, as the kernel does. */
	if (rc == -EADDRNOTAVAIL || rc == -ENODEV)
		status = -ENODEV;
	else if (rc == -EINVAL && id->api.ps == RDMA_PS_IPOIB)
		status = rc;
	else if (rc)
		return rc;
	id->dst = cma_addr_gid((struct sockaddr *)&to);
	memcpy(id->api.route.addr.addr.ibaddr.dgid.raw, id->dst.raw, sizeof(id->dst.raw));
	memcpy(&id->api.route.addr.dst_storage, &to, sizeof(to));
	/* Before the event: another thread may have it before this one is back. */
	before = id->state;
	if (!cma_move(id, before, CMA_RESOLVING_ADDR))
		return -EINVAL;
	rc = post_event(id, BROKER_CM_EV_ADDR_RESOLVED, status, timeout_ms, at_once);
	if (rc == -EALREADY)
		cma_move(id, CMA_RESOLVING_ADDR, CMA_ADDR_RESOLVED);
	else if (rc)
		cma_move(id, CMA_RESOLVING_ADDR, before);
	return rc;
}

int rdma_resolve_addr(struct rdma_cm_id *api, struct sockaddr *src, struct sockaddr *dst,
		      int timeout_ms)
{
	const bool sync = cma_id(api)->sync;
	int rc;

	if (!cma_addr_len(dst) || (src && !cma_addr_len(src)))
		return cma_ret(-EINVAL);
	rc = resolve_addr(cma_id(api), src, dst, timeout_ms, false);
	return rc ? cma_ret(rc) : cma_complete(cma_id(api), sync);
}

int rdma_resolve_route(struct rdma_cm_id *api, int timeout_ms)
{
	struct cma_id *id = cma_id(api);
	const bool sync = id->sync;
	int rc;

	(void)timeout_ms;
	if (!cma_move(id, CMA_ADDR_RESOLVED, CMA_RESOLVING_ROUTE))
		return cma_ret(-EINVAL);
	cma_probe_path_mtu(id);
	rc = post_event(id, BROKER_CM_EV_ROUTE_RESOLVED, 0, 0, false);
	if (rc) {
		cma_move(id, CMA_RESOLVING_ROUTE, CMA_ADDR_RESOLVED);
		return cma_ret(rc);
	}
	return cma_complete(id, sync);
}

int weft_private_resolve(struct rdma_cm_id *api, struct sockaddr *dst, int timeout_ms)
{
	struct cma_id *id = cma_id(api);
	int rc = cma_addr_len(dst) ? resolve_addr(id, NULL, dst, timeout_ms, true) : -EINVAL;

	if (rc != -EALREADY)
		return rc;
	if (!cma_path_mtu_settled(id)) { /* to be asked for by who takes the event */
		cma_move(id, CMA_ADDR_RESOLVED, CMA_RESOLVING_ADDR);
		return post_event(id, BROKER_CM_EV_ADDR_RESOLVED, 0, timeout_ms, false);
	}
	cma_probe_path_mtu(id);
	rc = cma_fill_path(id);
	if (rc)
		return rc;
	cma_move(id, CMA_ADDR_RESOLVED, CMA_ROUTE_RESOLVED);
	return 1;
}

void weft_private_tcp_elsewhere(struct rdma_cm_id *api)
{
	cma_id(api)->tcp_elsewhere = true;
}

void weft_private_brief(struct rdma_cm_id *api)
{
	cma_id(api)->brief = true;
}
