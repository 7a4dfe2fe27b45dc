// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/* From the events of the broker to those of rdma_cm. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "port/hop/gid_sockaddr.h"
#include "rdmacm/cma.h"
#include "rdmacm/group.h"
#include "rdmacm/iw.h"
#include "verbs/private.h"

/* Brokers that end one after the other while an event is waited for. */
#define ENDS_MAX 1000

static void copy_param(struct cma_event *e, const struct broker_cm_param *p)
{
	struct rdma_conn_param *c = &e->api.param.conn;

	c->private_data_len = (uint8_t)min_of(p->private_len, (uint32_t)sizeof(p->private_data));
	memcpy(e->private_data, p->private_data, c->private_data_len);
	c->private_data = c->private_data_len ? e->private_data : NULL;
	c->responder_resources = p->responder_resources;
	c->initiator_depth = p->initiator_depth;
	c->flow_control = p->flow_control;
	c->retry_count = p->retry_count;
	c->rnr_retry_count = p->rnr_retry_count;
	c->srq = p->srq;
	c->qp_num = p->qpn;
}

/* A request: its identifier is new, on the device that has the address it was sent to. */
static int connect_request(struct cma_event *e, const struct broker_cm_event *b)
{
	struct cma_id *listener = e->owner, *id;
	struct rdma_addr *addr;
	int rc = cma_id_adopt(listener, b->id, &id);

	if (rc) {
		/* The peer is rejected. */
		(void)!cma_simple_call(BROKER_CM_DESTROY_ID, b->id);
		return rc;
	}
	id->peer = b->param;
	cma_ece_received(id, &b->param);
	id->src = b->param.src;
	id->dst = b->param.dst;
	id->scope = b->param.scope;
	id->responder_resources = b->param.responder_resources;
	id->initiator_depth = b->param.initiator_depth;
	id->retry_count = b->param.retry_count;
	rc = cma_bind_request(id, listener, TRANSPORT_ROCE);
	if (rc)
		return rc;
	addr = &id->api.route.addr;
	gid_to_sockaddr(&addr->src_storage, &id->src, id->scope, b->param.src_port);
	gid_to_sockaddr(&addr->dst_storage, &id->dst, id->scope, b->param.dst_port);
	memcpy(addr->addr.ibaddr.dgid.raw, id->dst.raw, sizeof(id->dst.raw));
	e->api.event = RDMA_CM_EVENT_CONNECT_REQUEST;
	e->api.id = &id->api;
	e->api.listen_id = &listener->api;
	cma_id_show(id);
	return 0;
}

static void connect_response(struct cma_event *e, const struct broker_cm_event *b)
{
	struct cma_id *id = e->owner;
	struct ibv_qp *qp;

	id->peer = b->param;
	cma_ece_received(id, &b->param);
	id->responder_resources = min_of(id->responder_resources, b->param.responder_resources);
	id->initiator_depth = min_of(id->initiator_depth, b->param.initiator_depth);
	qp = cma_qp_get(id);
	if (!qp) { /* the application moves its own, then rdma_establish() */
		e->api.event = RDMA_CM_EVENT_CONNECT_RESPONSE;
		return;
	}
	e->api.status = cma_finish_connect(id, qp);
	cma_qp_put(id, qp);
	if (e->api.status) {
		id->connect_error = true;
		e->api.event = RDMA_CM_EVENT_CONNECT_ERROR;
	} else {
		e->api.event = RDMA_CM_EVENT_ESTABLISHED;
	}
}

static void resolved(struct cma_event *e, const struct broker_cm_event *b)
{
	struct cma_id *id = e->owner;
	bool addr = b->type == BROKER_CM_EV_ADDR_RESOLVED;
	const enum cma_state from = addr ? CMA_RESOLVING_ADDR : CMA_RESOLVING_ROUTE;

	e->api.status = b->status;
	if (!addr && !e->api.status)
		e->api.status = cma_fill_path(id);
	if (e->api.status) {
		cma_move(id, from, addr ? CMA_BOUND : CMA_ADDR_RESOLVED);
		e->api.event = addr ? RDMA_CM_EVENT_ADDR_ERROR : RDMA_CM_EVENT_ROUTE_ERROR;
	} else {
		cma_move(id, from, addr ? CMA_ADDR_RESOLVED : CMA_ROUTE_RESOLVED);
		e->api.event = addr ? RDMA_CM_EVENT_ADDR_RESOLVED : RDMA_CM_EVENT_ROUTE_RESOLVED;
	}
}

/* False: it is not for the application. */
static bool translate(struct cma_event *e, const struct broker_cm_event *b)
{
	struct cma_id *id = e->owner;

	e->api.id = &id->api;
	e->api.status = b->status;
	if (cma_is_ud(id)) {
		memcpy(e->private_data, b->param.private_data, sizeof(b->param.private_data));
		cma_ud_param(&e->api, &b->param, e->private_data);
	} else {
		copy_param(e, &b->param);
	}
	switch (b->type) {
	case BROKER_CM_EV_CONNECT_REQUEST:
		return connect_request(e, b) == 0;
	case BROKER_CM_EV_CONNECT_RESPONSE:
		/* The next broker, which has asked once more, may have it from the peer again. */
		if (id->state != CMA_CONNECTING)
			return false;
		connect_response(e, b);
		return true;
	case BROKER_CM_EV_ESTABLISHED:
		if (cma_is_ud(id)) {
			id->peer = b->param;
			cma_ud_established(id, &e->api);
			return true;
		}
		if (!cma_move(id, CMA_CONNECTING, CMA_CONNECTED))
			return false; /* as above */
		e->api.event = RDMA_CM_EVENT_ESTABLISHED;
		return true;
	case BROKER_CM_EV_REJECTED:
		e->api.event = RDMA_CM_EVENT_REJECTED;
		id->state = CMA_CLOSED;
		cma_qp_to_error(id);
		return !id->connect_error;
	case BROKER_CM_EV_UNREACHABLE:
		e->api.event = RDMA_CM_EVENT_UNREACHABLE;
		id->state = CMA_CLOSED;
		return true;
	case BROKER_CM_EV_DISCONNECTED:
		e->api.event = RDMA_CM_EVENT_DISCONNECTED;
		id->state = CMA_CLOSED;
		return !id->connect_error;
	case BROKER_CM_EV_TIMEWAIT_EXIT:
		e->api.event = RDMA_CM_EVENT_TIMEWAIT_EXIT;
		return true;
	case BROKER_CM_EV_DEVICE_REMOVAL:
		e->api.event = RDMA_CM_EVENT_DEVICE_REMOVAL;
		return true;
	case BROKER_CM_EV_ADDR_CHANGE:
		e->api.event = RDMA_CM_EVENT_ADDR_CHANGE;
		return true;
	case BROKER_CM_EV_MULTICAST_JOIN:
		return cma_group_joined(e, b->token);
	case BROKER_CM_EV_ADDR_RESOLVED:
	case BROKER_CM_EV_ROUTE_RESOLVED:
		resolved(e, b);
		return true;
	case BROKER_CM_EV_OWN:
		return cma_iw_event(e, b);
	default:
		return false;
	}
}

/* The pipe has ended. 0: a broker is there, which may be another that writes into it now, and it is
 * to be read once more. That lived before and after an end was read: then the channel is lost. */
static int recover(uint32_t *generation, int ends)
{
	const uint32_t before = *generation;
	int rc = weft_private_recover(generation);

	return rc ? rc : ends && *generation == before ? -ENODEV : 0;
}

/*
 * The channel was destroyed while a thread was in here. Of the kernel's the descriptor is closed
 * and the thread stays where it is, with nobody left to wake it; programs that end so (rping) count
 * on it. -EBADF if it would not have waited.
 */
static int channel_gone(bool waits)
{
	while (waits)
		pause();
	return cma_ret(-EBADF);
}

int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
	const uint64_t number = container_of(channel, struct cma_channel, api)->number;
	const int fd = channel->fd;
	const bool waits = !(fcntl(fd, F_GETFL) & O_NONBLOCK);
	struct broker_cm_event b;
	struct cma_event *e;
	uint32_t generation = 0;
	int ends = 0;

	if (!event)
		return cma_ret(-EINVAL);
	e = malloc(sizeof(*e));
	if (!e)
		return cma_ret(-ENOMEM);
	for (;;) {
		ssize_t n = read(fd, &b, sizeof(b));
		int err = n < 0 ? errno : ENODEV;

		if (n <= 0 && err != EAGAIN && err != EINTR &&
		    !cma_channel_is_there(channel, number)) {
			free(e);
			return channel_gone(waits);
		}
		if (n == 0 && ends < ENDS_MAX && recover(&generation, ends++) == 0)
			continue;
		if (n != (ssize_t)sizeof(b)) {
			free(e);
			return cma_ret(-err);
		}
		memset(e, 0, sizeof(*e));
		e->owner = cma_id_take_event(
			b.type == BROKER_CM_EV_CONNECT_REQUEST ? b.listen_id : b.id, b.user);
		if (!e->owner) {
			/* Destroyed meanwhile. The broker rejects what is unread of a listener; of
			 * what was read just before, only we know. */
			if (b.type == BROKER_CM_EV_CONNECT_REQUEST)
				(void)!cma_simple_call(BROKER_CM_DESTROY_ID, b.id);
			if (cma_channel_is_there(channel, number))
				continue;
			free(e);
			return channel_gone(waits);
		}
		/* Not of an id that is destroyed: it would be kept for ever, and be there again
		 * under the next broker. */
		weft_private_cm_event(&b);
		if (translate(e, &b))
			break;
		cma_id_ack_event(e->owner);
	}
	*event = &e->api;
	return 0;
}
