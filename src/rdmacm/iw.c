/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "rdmacm/iw.h"

#include <stdlib.h>
#include <string.h>

#include "base/kernel_socket.h"
#include "iwcm/iwcm.h"
#include "rdmacm/any.h"
#include "rnic/stream.h"
#include "verbs/private.h"

/* ---- what becomes of connections ------------------------------------------------------------ */

static void ended(void *arg, int error, bool terminated)
{
	(void)error, (void)terminated;
	iwcm_ended(arg);
}

static int begin(uint32_t qpn, int fd, const struct iw_conn *c, const void *early, size_t early_len,
		 struct iwcm_link *l)
{
	const struct iw_agreed *a = &c->agreed;
	const struct rnic_stream_init init = {
		.crc = a->crc,
		.markers_in = a->markers_in,
		.markers_out = a->markers_out,
		/* As with adapters: a peer that does not know them ends the connection. */
		.immediate = true,
		.atomics = true,
		.rtr = a->rtr,
		.listens_first = !c->initiator,
		.ird = a->ird,
		.ord = a->ord,
	};

	return weft_private_stream_begin(qpn, fd, &init, early, early_len, ended, l);
}

static int end(uint32_t qpn, const struct iwcm_link *l, bool at_once)
{
	const int rc = weft_private_stream_end(qpn, l, at_once);

	/* Its end has come already, and will be told. */
	return rc == -ENOENT || rc == -EINVAL ? 0 : rc;
}

static int tell(uint32_t id, uint64_t nr, enum iwcm_said what, int status)
{
	struct broker_cm_post req = {
		.msg.type = BROKER_CM_POST,
		.id = id,
		.type = BROKER_CM_EV_OWN,
		.status = status,
		.token = nr << CMA_IW_SAID_BITS | (uint64_t)what,
	};
	struct broker_msg resp;

	return weft_private_call(&req, sizeof(req), &resp, sizeof(resp));
}

static int open_iwcm(void)
{
	static const struct iwcm_ops ops = {
		.may_begin = weft_private_stream_may_begin,
		.begin = begin,
		.end = end,
		.tell = tell,
	};

	return iwcm_open(&ops);
}

/* ---- listening ------------------------------------------------------------------------------ */

static bool wants(enum face_transport which)
{
	enum face_transport t[TRANSPORTS];
	const size_t n = weft_private_transports(t);

	for (size_t i = 0; i < n; i++)
		if (t[i] == which)
			return true;
	return false;
}

void weft_private_any_transport(struct rdma_cm_id *api)
{
	cma_id(api)->any_transport = true;
}

void weft_private_on_transport(struct rdma_cm_id *api, enum ibv_transport_type type)
{
	struct cma_id *id = cma_id(api);

	id->transport = type == IBV_TRANSPORT_IWARP ? TRANSPORT_IWARP : TRANSPORT_ROCE;
	id->transport_fixed = true;
	weft_private_want_transport(id->transport);
}

bool cma_listens_iw(const struct cma_id *id)
{
	if (id->dev && !id->any_transport)
		return id->transport == TRANSPORT_IWARP;
	return cma_may_be_iw(id) && wants(TRANSPORT_IWARP);
}

bool cma_listens_roce(const struct cma_id *id)
{
	if (id->dev && !id->any_transport)
		return id->transport == TRANSPORT_ROCE;
	return wants(TRANSPORT_ROCE);
}

int cma_iw_hold(struct cma_id *id, const struct sockaddr *addr, uint16_t *port)
{
	struct sockaddr_storage at = {0};
	int rc;

	if (!cma_listens_iw(id))
		return 0;
	memcpy(&at, addr, cma_addr_len(addr));
	if (id->tcp_elsewhere)
		cma_addr_set_port((struct sockaddr *)&at, 0);
	rc = iwcm_bind((struct sockaddr *)&at, cma_addr_len(addr), id->af_only, &id->tcp_fd,
		       &id->tcp_port);
	if (!rc && !id->tcp_elsewhere)
		*port = id->tcp_port;
	return rc;
}

void cma_iw_let_go(struct cma_id *id)
{
	if (id->tcp_fd >= 0)
		kernel_close(id->tcp_fd);
	id->tcp_fd = -1;
}

int cma_iw_listen(struct cma_id *id, int backlog)
{
	uint16_t port = 0;
	int rc = open_iwcm();

	if (!rc && id->tcp_fd < 0)
		rc = cma_iw_hold(id, &id->api.route.addr.src_addr, &port);
	if (!rc)
		rc = iwcm_listen(id->tcp_fd, id->handle, backlog, &id->listener);
	if (!rc)
		id->tcp_fd = -1;
	return rc;
}

void cma_iw_unlisten(struct cma_id *id)
{
	if (id->listener)
		iwcm_unlisten(id->listener);
	id->listener = NULL;
}

/* ---- connections ---------------------------------------------------------------------------- */

static struct iw_params params(const struct cma_id *id, const void *data, size_t len)
{
	return (struct iw_params){
		.rev = MPA_REVISION,
		.crc = true,
		.p2p = true,
		.ird = id->responder_resources,
		.ord = id->initiator_depth,
		.private_data = data,
		.private_len = len,
	};
}

int cma_iw_connect(struct cma_id *id, uint32_t qpn, const void *data, size_t len)
{
	const struct iw_params p = params(id, data, len);
	struct rdma_addr *a = &id->api.route.addr;
	struct sockaddr_storage src = a->src_storage;
	struct iwcm_call call = {
		.fd = id->tcp_fd,
		.src = (struct sockaddr *)&src,
		.dst = &a->dst_addr,
		.src_len = cma_addr_len(&a->src_addr),
		.dst_len = cma_addr_len(&a->dst_addr),
		.tos = id->tos,
		.ask_first = id->tcp_elsewhere,
		.brief = id->brief,
		.qpn = qpn,
		.id = id->handle,
	};
	int rc = open_iwcm();

	if (rc)
		return rc;
	/* A port that no program has asked for is of the broker's choice, of which TCP knows
	 * nothing. */
	cma_addr_set_port((struct sockaddr *)&src, id->tcp_elsewhere ? 0 : id->wanted_port);
	if (!cma_move(id, CMA_ROUTE_RESOLVED, CMA_CONNECTING))
		return -EINVAL;
	/* What comes of it may be told, and the identifier be gone, before this is back. */
	id->tcp_fd = -1;
	rc = iwcm_connect(&call, &p, &id->link);
	if (rc) {
		id->tcp_fd = call.fd;
		cma_move(id, CMA_CONNECTING, CMA_ROUTE_RESOLVED);
	}
	return rc;
}

int cma_iw_accept(struct cma_id *id, uint32_t qpn, const void *data, size_t len)
{
	const struct iw_params p = params(id, data, len);

	if (!cma_move(id, CMA_REQUESTED, CMA_CONNECTING))
		return -EINVAL;
	return iwcm_accept(id->link, id->handle, qpn, id->tos, &p);
}

int cma_iw_reject(struct cma_id *id, const void *data, size_t len)
{
	return iwcm_reject(id->link, data, len);
}

int cma_iw_disconnect(struct cma_id *id)
{
	if (id->state != CMA_CONNECTED && id->state != CMA_CONNECTING)
		return 0;
	return iwcm_disconnect(id->link);
}

void cma_iw_end(struct cma_id *id)
{
	cma_iw_unlisten(id);
	cma_iw_let_go(id);
	if (!id->link)
		return;
	iwcm_put(id->link);
	id->link = NULL;
}
