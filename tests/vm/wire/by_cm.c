/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "by_cm.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

enum { PORT = 18602 };

static struct rdma_event_channel *events;
static struct rdma_cm_id *listener;

/* Private data of each length. */
static uint8_t data[256];

struct rdma_cm_id *cm_happens(struct end *e, enum rdma_cm_event_type want, int len)
{
	struct pollfd p = {.fd = events->fd, .events = POLLIN};
	struct rdma_cm_event *ev;
	struct rdma_cm_id *id;
	const struct rdma_conn_param *c;

	NEED(poll(&p, 1, e->patience_ms) == 1, "no %s", rdma_event_str(want));
	NEED(!rdma_get_cm_event(events, &ev), "rdma_get_cm_event: %s", strerror(errno));
	NEED(ev->event == want, "%s (%d), not %s", rdma_event_str(ev->event), ev->status,
	     rdma_event_str(want));
	c = &ev->param.conn;
	NEED(len == NO_DATA ||
		     (c->private_data_len == len && !memcmp(c->private_data, data, (size_t)len)),
	     "%s with %u bytes of private data, not the %d that were given", rdma_event_str(want),
	     c->private_data_len, len);
	id = ev->id;
	rdma_ack_cm_event(ev);
	return id;
}

/* The context is librdmacm's own, as what its identifiers have queue pairs on. */
void open_by_cm(struct end *e, const char *name)
{
	struct ibv_context **all = rdma_get_devices(NULL);

	ibv_close_device(e->ctx);
	e->ctx = NULL;
	for (int i = 0; all && all[i]; i++)
		if (!strcmp(ibv_get_device_name(all[i]->device), name))
			e->ctx = all[i];
	NEED(e->ctx, "librdmacm knows no device %s", name);
	events = rdma_create_event_channel();
	NEED(events, "rdma_create_event_channel: %s", strerror(errno));
	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(i + 1);
}

void cm_listen(struct end *e)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(PORT)};

	if (!listener)
		NEED(!rdma_create_id(events, &listener, NULL, RDMA_PS_TCP) &&
			     !rdma_bind_addr(listener, (struct sockaddr *)&a) &&
			     !rdma_listen(listener, 8),
		     "listen: %s", strerror(errno));
	meet(e);
}

void cm_resolve(struct end *e)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(PORT)};

	meet(e);
	inet_pton(AF_INET, e->address, &a.sin_addr);
	NEED(!rdma_create_id(events, &e->id, NULL, RDMA_PS_TCP) &&
		     !rdma_resolve_addr(e->id, NULL, (struct sockaddr *)&a, 5000),
	     "resolve: %s", strerror(errno));
	cm_happens(e, RDMA_CM_EVENT_ADDR_RESOLVED, NO_DATA);
	NEED(!rdma_resolve_route(e->id, 5000), "route: %s", strerror(errno));
	cm_happens(e, RDMA_CM_EVENT_ROUTE_RESOLVED, NO_DATA);
}

void cm_make_qp(struct end *e, struct ibv_qp_init_attr_ex *init)
{
	NEED(!rdma_create_qp_ex(e->id, init), "rdma_create_qp_ex: %s", strerror(errno));
	e->qp = e->id->qp;
}

static struct rdma_conn_param param(const struct end *e, uint8_t data_len)
{
	return (struct rdma_conn_param){.private_data = data,
					.private_data_len = data_len,
					.responder_resources = (uint8_t)e->peer.rd_atomic,
					.initiator_depth = (uint8_t)e->peer.rd_atomic,
					.retry_count = 7,
					.rnr_retry_count = 7};
}

void cm_connect(struct end *e, uint8_t data_len)
{
	struct rdma_conn_param p = param(e, data_len);

	NEED(!rdma_connect(e->id, &p), "connect with %u bytes: %s", data_len, strerror(errno));
}

void cm_accept(struct end *e, uint8_t data_len)
{
	struct rdma_conn_param p = param(e, data_len);

	NEED(!rdma_accept(e->id, &p), "accept with %u bytes: %s", data_len, strerror(errno));
}

void cm_reject(struct end *e, uint8_t data_len)
{
	NEED(!rdma_reject(e->id, data, data_len), "reject with %u bytes: %s", data_len,
	     strerror(errno));
}

void cm_leave(struct end *e)
{
	if (!e->id)
		return;
	if (e->id->qp)
		rdma_destroy_qp(e->id);
	NEED(!rdma_destroy_id(e->id), "rdma_destroy_id: %s", strerror(errno));
	e->id = NULL;
	e->qp = NULL;
}

void join_by_cm(struct end *e, struct ibv_qp_init_attr_ex *init)
{
	if (e->requester) {
		cm_resolve(e);
		cm_make_qp(e, init);
		cm_connect(e, 0);
	} else {
		cm_listen(e);
		e->id = cm_happens(e, RDMA_CM_EVENT_CONNECT_REQUEST, NO_DATA);
		cm_make_qp(e, init);
		cm_accept(e, 0);
	}
	cm_happens(e, RDMA_CM_EVENT_ESTABLISHED, NO_DATA);
}

/* Whatever an end has not heard yet of the connection goes with its identifier. */
void part_by_cm(struct end *e)
{
	if (e->id)
		rdma_disconnect(e->id);
	cm_leave(e);
}
