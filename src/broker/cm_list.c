/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What the ids are in, for who asks: broker/proto_list.h. */
#include "broker/cm_service_priv.h"

static enum broker_list_state state_of(const struct svc_id *id)
{
	if (id->removed)
		return BROKER_LIST_REMOVED;
	if (id->bind.listening)
		return BROKER_LIST_LISTEN;
	switch (cm_id_state(id->cm)) {
	case CM_IDLE:
	case CM_STATES:
		break;
	case CM_LISTEN:
		return BROKER_LIST_LISTEN;
	case CM_REQ_SENT:
	case CM_REP_RCVD:
	case CM_SIDR_REQ_SENT:
		return BROKER_LIST_CONNECTING;
	case CM_REQ_RCVD:
	case CM_SIDR_REQ_RCVD:
		return BROKER_LIST_REQUESTED;
	case CM_REP_SENT:
		return BROKER_LIST_ACCEPTED;
	case CM_ESTABLISHED:
		return BROKER_LIST_ESTABLISHED;
	case CM_DREQ_SENT:
	case CM_DREQ_RCVD:
		return BROKER_LIST_DISCONNECTING;
	case CM_TIMEWAIT: /* of datagrams it is the memory of an answered request */
		return id->datagrams ? BROKER_LIST_UNCONNECTED : BROKER_LIST_TIMEWAIT;
	}
	if (id->used)
		return id->datagrams ? BROKER_LIST_UNCONNECTED : BROKER_LIST_CLOSED;
	if (!list_empty(&id->resolving))
		return BROKER_LIST_RESOLVING;
	return id->bound ? BROKER_LIST_BOUND : BROKER_LIST_IDLE;
}

static struct broker_list_id told(const struct svc_id *id)
{
	/* Who connects from a wildcard does so from one address. */
	bool as_bound = id->bound && (!id->used || id->bind.listening);

	return (struct broker_list_id){
		.client = id->client->nr,
		.id = id->handle,
		.state = state_of(id),
		.local = as_bound ? id->bind.addr : id->path.src,
		.remote = id->path.dst,
		.local_port = as_bound ? id->bind.port : id->path.src_port,
		.remote_port = id->path.dst_port,
		.ps = id->ps,
		.families = id->bind.families,
		.datagrams = id->datagrams,
		.ifindex = id->ifindex,
		.qpn = cm_id_qpn(id->cm),
		.remote_qpn = cm_id_peer_qpn(id->cm),
	};
}

uint32_t cm_service_list(const struct cm_service *svc, uint32_t uid, uint64_t *from,
			 struct broker_list_id *ret, uint32_t room)
{
	uint32_t used = svc->handles.used, i = (uint32_t)min_of(*from, (uint64_t)used), n = 0;
	uint32_t end = min_of(i + BROKER_LIST_LOOK_AT, used);

	for (; i < end && n < room; i++) {
		const struct svc_id *id = handles_at(&svc->handles, i);

		if (id && (!uid || id->client->user->uid == uid))
			ret[n++] = told(id);
	}
	*from = i < used ? i : 0;
	return n;
}

uint64_t cm_client_nr(const struct cm_client *client)
{
	return client->nr;
}
