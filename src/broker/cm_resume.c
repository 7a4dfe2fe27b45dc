/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Ids and channels that outlive their broker. What is saved of an id comes back from a client, who
 * may have written anything into it: it is taken as a request, and checked as one.
 */
#include <errno.h>
#include <string.h>

#include "broker/cm_service_priv.h"

struct svc_saved {
	uint32_t handle, channel;
	uint64_t user;
	uint16_t ps, port;
	/* No bools: a client may have put anything there. */
	uint8_t datagrams, xrc, used, up, bound, listening;
	uint8_t reuse, af_only, brief;
	uint8_t families;
	uint32_t scope, backlog, ifindex;
	struct gid addr;
	/* of the path, what is not 0 in it */
	struct gid src, dst;
	uint32_t path_scope, flow_label;
	uint16_t src_port, dst_port;
	uint8_t path_mtu, tos, local_ack_timeout;
	struct flow resolve_flow;
	uint64_t resolve_ns; /* how long it is still tried; 0: not */
	struct cm_saved cm;
};

_Static_assert(sizeof(struct svc_saved) <= BROKER_CM_SAVED_MAX, "what is saved has room");

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

static int restore_bind(struct svc_id *id, const struct svc_saved *s)
{
	int err;

	if (!s->bound)
		return s->listening ? -EINVAL : 0;
	if (!s->port || !s->families || s->families > (PORT_IPV4 | PORT_IPV6))
		return -EINVAL;
	err = svc_may_bind(id->client, s->port);
	if (err)
		return err;
	id->bind.reuse = s->reuse;
	id->bind.port = s->port;
	id->bind.addr = s->addr;
	id->bind.scope = s->scope;
	id->bind.families = s->families;
	id->bind.af_only = s->af_only;
	err = svc_bind(id);
	if (err || !s->listening)
		return err;
	return svc_listen(id, s->backlog);
}

static int restore(struct cm_client *client, const struct svc_saved *s, uint64_t serial)
{
	struct cm_service *svc = client->svc;
	struct cm_id *cm;
	struct svc_id *id;
	int err;

	if (!svc_ps_valid(s->ps, s->datagrams, s->xrc))
		return -EINVAL;
	err = cm_id_restore(svc->cm, &s->cm, NULL, &cm, svc->now);
	if (err)
		return err;
	err = svc_id_new_as(client, client_channel(client, s->channel), cm, s->handle, &id);
	if (err) {
		cm_id_drop(cm);
		return err;
	}
	id->user = s->user;
	id->serial = serial;
	id->ps = s->ps;
	id->datagrams = s->datagrams;
	id->xrc = s->xrc;
	id->used = s->used;
	id->up = s->up;
	id->brief = s->brief;
	id->ifindex = s->ifindex;
	id->path = (struct broker_cm_param){
		.src = s->src,
		.dst = s->dst,
		.scope = s->path_scope,
		.flow_label = s->flow_label,
		.src_port = s->src_port,
		.dst_port = s->dst_port,
		.path_mtu = s->path_mtu,
		.tos = s->tos,
		.local_ack_timeout = s->local_ack_timeout,
	};
	err = restore_bind(id, s);
	if (err) {
		svc_id_destroy(id, true);
		return err;
	}
	if (s->resolve_ns) {
		struct broker_cm_event ev = svc_event(id, BROKER_CM_EV_ADDR_RESOLVED);

		svc_resolve(id, &ev, &s->resolve_flow,
			    (uint32_t)min_of(s->resolve_ns / 1000000, (uint64_t)RESOLVE_MAX_MS));
	}
	return 0;
}

int svc_resume(struct cm_client *client, const void *req, void *reply)
{
	const struct broker_cm_saved *saved = &((const struct broker_cm_resume *)req)->saved;
	struct svc_id *old = slots_find(&client->svc->slots, saved->id);
	uint64_t serial = saved->serial;
	struct svc_saved s;

	(void)reply;
	if (saved->len != sizeof(s))
		return -EINVAL;
	memcpy(&s, saved->bytes, sizeof(s));
	if (s.handle != saved->id)
		return -EINVAL;
	if (old && old->client != client)
		return -EEXIST;
	if (old) {
		serial = max_of(serial, old->serial);
		cm_id_drop(old->cm);
		svc_id_destroy(old, false);
	}
	return restore(client, &s, serial);
}
