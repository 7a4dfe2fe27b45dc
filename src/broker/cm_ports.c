/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The ports of rdma_cm: which there are, who may have which, and listening. */
#include <errno.h>

#include "broker/cm_service_priv.h"

/* SVC_PORT_SPACES: there is no such one. */
static enum svc_port_space port_space_of(uint32_t ps)
{
	switch (ps) {
	case CM_PS_IPOIB:
		return SVC_PS_IPOIB;
	case CM_PS_TCP:
		return SVC_PS_TCP;
	case CM_PS_UDP:
		return SVC_PS_UDP;
	case CM_PS_IB:
		return SVC_PS_IB;
	default:
		return SVC_PORT_SPACES;
	}
}

/* A port space of connections, of datagrams, or (IB) of both. */
bool svc_ps_valid(uint32_t ps, bool datagrams, bool xrc)
{
	return port_space_of(ps) != SVC_PORT_SPACES && !(ps == CM_PS_TCP && datagrams) &&
	       !((ps == CM_PS_UDP || ps == CM_PS_IPOIB) && !datagrams) &&
	       !(xrc && (ps != CM_PS_IB || datagrams));
}

static struct port_space *port_space_of_id(struct svc_id *id)
{
	return &id->client->svc->port_space[port_space_of(id->ps)];
}

/* The library says so, too, but who would keep a client to the library? */
int svc_may_bind(const struct cm_client *client, uint16_t port)
{
	return port && port < PRIVILEGED_PORTS && client->user->uid != 0 ? -EACCES : 0;
}

int svc_bind(struct svc_id *id)
{
	struct cm_service *svc = id->client->svc;
	int err = cm_quota_take(id->client->user, CM_QUOTA_PORTS, 0);

	if (err < 0)
		return err;
	err = port_space_bind(port_space_of_id(id), &id->bind, svc->ops.random(svc->ctx));
	if (err < 0) {
		cm_quota_give_back(id->client->user, CM_QUOTA_PORTS);
		return err;
	}
	id->bound = true;
	return 0;
}

int svc_listen(struct svc_id *id, uint32_t backlog, uint16_t tcp_port, bool tcp_only)
{
	struct cm_client *client = id->client;
	struct cm_service *svc = client->svc;
	int err;

	if ((tcp_port && id->ps != CM_PS_TCP) || (tcp_only && !tcp_port))
		return -EINVAL;
	id->backlog = backlog && backlog < BACKLOG_MAX ? backlog : BACKLOG_MAX;
	if (id->bind.listening) { /* once more */
		svc_listens_by_tcp(id, tcp_port);
		return 0;
	}
	err = cm_quota_take(client->user, CM_QUOTA_LISTENERS, 0);
	if (err < 0)
		return err;
	err = port_space_listen(port_space_of_id(id), &id->bind);
	if (err < 0) {
		cm_quota_give_back(client->user, CM_QUOTA_LISTENERS);
		return err;
	}
	id->used = true;
	id->tcp_only = tcp_only;
	svc_listens_by_tcp(id, tcp_port);
	if (tcp_only)
		return 0;
	err = cm_listen(id->cm, CM_SERVICE_ID(id->ps, id->bind.port), UINT64_MAX, svc_match);
	if (err == 0)
		svc_serve_parked(svc);
	return err;
}

int cm_service_tcp_port(struct cm_service *svc, const struct gid *addr, uint16_t port, uint64_t now)
{
	struct port_bind *b = port_space_listener(&svc->port_space[SVC_PS_TCP], addr, port);

	if (!b && now < svc->heir_until)
		return -EAGAIN;
	return b ? container_of(b, struct svc_id, bind)->tcp_port : 0;
}
