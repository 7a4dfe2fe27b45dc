/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Ids that have outlived their broker. What was saved of one (cm_post.c) comes back from a client,
 * who may have written anything into it: it is taken as a request, and checked as one.
 */
#include <errno.h>
#include <string.h>

#include "broker/cm_saved.h"
#include "broker/cm_service_priv.h"

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
	return svc_listen(id, s->backlog, s->tcp_port, s->tcp_only);
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
		uint64_t ms = s->resolve_ns / NSEC_PER_MSEC;

		svc_resolve(id, &ev, &s->resolve_flow,
			    (uint32_t)min_of(ms, (uint64_t)RESOLVE_MAX_MS));
	}
	return 0;
}

int svc_resume(struct cm_client *client, const void *req, void *reply)
{
	const struct broker_cm_saved *saved = &((const struct broker_cm_resume *)req)->saved;
	struct svc_id *old = handles_find(&client->svc->handles, saved->id);
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
	/* It lay in a pipe while more was asked, and answered, of the last broker. */
	if (old && serial <= old->serial)
		return 0;
	if (old) {
		cm_id_drop(old->cm);
		svc_id_destroy(old, false);
	}
	return restore(client, &s, serial);
}
