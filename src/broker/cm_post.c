/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Events, on their way from the service to its clients; with each goes what to keep of its id. */
#include <errno.h>
#include <string.h>

#include "base/heap.h"
#include "base/log.h"
#include "broker/cm_saved.h"
#include "broker/cm_service_priv.h"

#define FLUSH_WITH_REQUEST 64 /* channels; who has more waits for the interval */

struct broker_cm_event svc_event(const struct svc_id *id, enum broker_cm_event_type type)
{
	return (struct broker_cm_event){
		.type = type,
		.id = id->handle,
		.user = id->user,
		.param = id->path,
	};
}

void svc_put_private(struct broker_cm_event *ev, const uint8_t *data, size_t len)
{
	memcpy(ev->param.private_data, data, len);
	ev->param.private_len = (uint32_t)len;
}

void svc_save(struct svc_id *id, struct broker_cm_saved *ret)
{
	const struct cm_service *svc = id->client->svc;
	struct svc_saved s = {
		.handle = id->handle,
		.channel = id->channel ? id->channel->nr : 0,
		.user = id->user,
		.ps = id->ps,
		.port = id->bind.port,
		.datagrams = id->datagrams,
		.xrc = id->xrc,
		.used = id->used,
		.up = id->up,
		.bound = id->bound,
		.listening = id->bind.listening,
		.reuse = id->bind.reuse,
		.af_only = id->bind.af_only,
		.brief = id->brief,
		.tcp_only = id->tcp_only,
		.tcp_port = id->tcp_port,
		.families = id->bind.families,
		.scope = id->bind.scope,
		.backlog = id->backlog,
		.ifindex = id->ifindex,
		.addr = id->bind.addr,
		.src = id->path.src,
		.dst = id->path.dst,
		.path_scope = id->path.scope,
		.flow_label = id->path.flow_label,
		.src_port = id->path.src_port,
		.dst_port = id->path.dst_port,
		.path_mtu = id->path.path_mtu,
		.tos = id->path.tos,
		.local_ack_timeout = id->path.local_ack_timeout,
	};

	if (!list_empty(&id->resolving) && id->resolve_until > svc->now) {
		s.resolve_flow = id->resolve_flow;
		s.resolve_ns = id->resolve_until - svc->now;
	}
	cm_id_save(id->cm, &s.cm);
	*ret = (struct broker_cm_saved){.id = id->handle, .len = sizeof(s), .serial = ++id->serial};
	memcpy(ret->bytes, &s, sizeof(s));
}

void svc_flush_later(struct cm_service *svc, const struct cm_channel *c)
{
	if (!c->queued || svc->flush_at != DEADLINE_NEVER)
		return;
	svc->flush_wait = SVC_FLUSH_NS;
	svc->flush_at = svc->now + svc->flush_wait;
}

/* A client that makes requests is likely to have read, too. */
void svc_flush_client(struct cm_client *client)
{
	if (client->svc->flush_at == DEADLINE_NEVER || client->channel_count > FLUSH_WITH_REQUEST)
		return;
	list_for_each(c, &client->channels, struct cm_channel, list)
		cm_channel_flush(c);
}

int svc_post_to(struct cm_service *svc, struct cm_channel *c, struct broker_cm_event *ev)
{
	int r;

	if (!c)
		return -EPIPE;
	ev->generation = svc->generation;
	r = cm_channel_post(c, ev);
	if (r == -ENOMEM)
		log_err("cm", "an event of %#x is lost: no memory", ev->id);
	svc_flush_later(svc, c);
	return r;
}

int svc_post(struct svc_id *id, struct broker_cm_event *ev)
{
	svc_save(id, &ev->saved);
	return svc_post_to(id->client->svc, id->channel, ev);
}

void svc_peer_died(struct svc_id *id)
{
	struct broker_cm_event ev = {
		.type = BROKER_CM_EV_PEER_DIED, .id = id->handle, .param.qpn = cm_id_qpn(id->cm)};

	(void)!svc_post_to(id->client->svc, id->client->watch,
			   &ev); /* who does not watch waits for its timeouts */
}
