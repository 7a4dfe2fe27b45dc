// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/* Binding to addresses, and listening. */
#include <netinet/in.h>
#include <string.h>
#include <unistd.h>

#include "rdmacm/iw.h"
#include "verbs/private.h"

#define PRIVILEGED_PORTS 1024
#define PORT_TRIES	 16 /* a port of TCP's choice may be taken among those of rdma_cm */

int cma_bind_addr(struct cma_id *id, const struct sockaddr *addr, bool attach)
{
	struct broker_cm_bind req = {.msg.type = BROKER_CM_BIND, .id = id->handle}, resp;
	int rc;

	if (id->state != CMA_IDLE)
		return -EINVAL;
	id->src = cma_addr_gid(addr);
	if (gid_is_link_local(&id->src) && !cma_addr_scope(addr))
		return -EINVAL;
	if (cma_addr_port(addr) && cma_addr_port(addr) < PRIVILEGED_PORTS && geteuid() != 0)
		return -EACCES;
	id->scope = cma_addr_scope(addr);
	if (attach && !cma_addr_any(addr)) {
		rc = cma_bind_device(id);
		if (rc)
			return rc == -ENODEV ? -EADDRNOTAVAIL : rc;
	}
	req.af_ipv4 = cma_addr_any(addr) && addr->sa_family == AF_INET;
	req.addr = id->src;
	req.scope = id->scope;
	req.port = cma_addr_port(addr);
	req.reuse = id->reuse;
	req.af_only = id->af_only;
	rc = weft_private_call(&req, sizeof(req), &resp, sizeof(resp));
	if (rc) {
		id->dev = NULL;
		id->api.verbs = NULL;
		id->api.pd = NULL;
		return rc;
	}
	id->wanted_port = req.port;
	memcpy(&id->api.route.addr.src_storage, addr, cma_addr_len(addr));
	cma_addr_set_port(&id->api.route.addr.src_addr, resp.port);
	cma_move(id, CMA_IDLE, CMA_BOUND);
	return 0;
}

/* Of who may listen there: where that will be by TCP, its port is held, and if there was none the
 * broker is asked for the one that TCP has given. */
static int bind_to_listen(struct cma_id *id, const struct sockaddr *addr, bool attach)
{
	struct sockaddr_storage with = {0};
	uint16_t port = 0;
	int rc = -EADDRINUSE;

	if (id->state != CMA_IDLE)
		return -EINVAL;
	memcpy(&with, addr, cma_addr_len(addr));
	for (int i = 0; rc == -EADDRINUSE && i < (cma_addr_port(addr) ? 1 : PORT_TRIES); i++) {
		rc = attach || cma_addr_any(addr) ? cma_iw_hold(id, addr, &port) : 0;
		if (rc)
			return rc;
		if (port)
			cma_addr_set_port((struct sockaddr *)&with, port);
		rc = cma_bind_addr(id, (struct sockaddr *)&with, attach);
		if (rc || !cma_listens_iw(id))
			cma_iw_let_go(id);
	}
	return rc;
}

int rdma_bind_addr(struct rdma_cm_id *api, struct sockaddr *addr)
{
	if (!cma_addr_len(addr))
		return cma_ret(-EINVAL);
	/*
	 * Linux takes a loopback address for a wildcard, and libfabric, which asks so for the
	 * devices there are, tells by the device that is missing then. It names no port. Who does
	 * is a server, and takes the device of what he has bound: so do rdma-core's own tests.
	 */
	return cma_ret(bind_to_listen(cma_id(api), addr,
				      !cma_addr_loopback(addr) || cma_addr_port(addr) ||
					      api->ps != RDMA_PS_TCP));
}

int cma_attach(struct cma_id *id)
{
	int rc;

	if (id->state != CMA_BOUND || id->dev || !cma_addr_loopback(&id->api.route.addr.src_addr))
		return 0;
	rc = cma_bind_device(id);
	return rc == -ENODEV ? -EADDRNOTAVAIL : rc;
}

int rdma_listen(struct rdma_cm_id *api, int backlog)
{
	struct cma_id *id = cma_id(api);
	struct broker_cm_listen req = {
		.msg.type = BROKER_CM_LISTEN,
		.id = id->handle,
		.backlog = backlog > 0 ? (uint32_t)backlog : 0,
	};
	struct broker_msg resp;
	int rc = 0;

	if (id->state == CMA_IDLE) {
		const struct sockaddr_in any = {.sin_family = AF_INET};

		rc = bind_to_listen(id, (const struct sockaddr *)&any, false);
	}
	if (!rc)
		rc = cma_attach(id);
	if (!rc && !cma_move(id, CMA_BOUND, CMA_LISTENING))
		rc = -EINVAL;
	if (rc)
		return cma_ret(rc);
	if (cma_listens_iw(id)) {
		rc = cma_iw_listen(id, backlog);
		req.tcp_port = id->tcp_port;
		req.tcp_only = !cma_listens_roce(id);
	}
	if (!rc && (req.tcp_port || cma_listens_roce(id)))
		rc = weft_private_call(&req, sizeof(req), &resp, sizeof(resp));
	if (rc) {
		cma_iw_unlisten(id);
		cma_move(id, CMA_LISTENING, CMA_BOUND);
	}
	return cma_ret(rc);
}

__be16 rdma_get_src_port(struct rdma_cm_id *id)
{
	return htobe16(cma_addr_port(&id->route.addr.src_addr));
}

__be16 rdma_get_dst_port(struct rdma_cm_id *id)
{
	return htobe16(cma_addr_port(&id->route.addr.dst_addr));
}
