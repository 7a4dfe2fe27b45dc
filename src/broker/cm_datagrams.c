/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Datagram ids: their CONNECT asks for the queue pair that serves a port, and ACCEPT says it. There
 * is no connection then: the asking side knows whom to send to, that is all.
 */
#include <errno.h>

#include "broker/cm_service_priv.h"
#include "wire/bth.h"

int svc_sidr_ask(struct svc_id *id, const struct broker_cm_param *p, const struct flow *flow,
		 const uint8_t *private_data)
{
	const struct cm_sidr_req req = {
		.pkey = PKEY_DEFAULT,
		.service_id = CM_SERVICE_ID(id->ps, p->dst_port),
	};

	return cm_sidr_req_send(id->cm, flow, &req, private_data, CM_SIDR_REQ_PRIVATE,
				id->client->svc->now);
}

int svc_sidr_accept(struct svc_id *id, const struct broker_cm_param *p)
{
	const struct cm_sidr_rep rep = {.status = CM_SIDR_SUCCESS, .qpn = p->qpn, .qkey = p->qkey};

	return cm_sidr_rep_send(id->cm, &rep, p->private_data, p->private_len,
				id->client->svc->now);
}

/* The reason is a connection's: here there is one. */
int svc_sidr_reject(struct svc_id *id, const struct broker_cm_reject *r)
{
	const struct cm_sidr_rep rep = {.status = CM_SIDR_REJECT};

	if (r->private_len > CM_SIDR_REP_PRIVATE)
		return -EINVAL;
	return cm_sidr_rep_send(id->cm, &rep, r->private_data, r->private_len,
				id->client->svc->now);
}

void svc_on_sidr_rep(struct svc_id *id, const struct cm_event *cm_ev)
{
	const struct cm_sidr_rep *rep = cm_ev->sidr_rep;
	struct broker_cm_event ev = svc_event(id, BROKER_CM_EV_ESTABLISHED);

	if (rep->status == CM_SIDR_SUCCESS) {
		ev.param.qpn = rep->qpn;
		ev.param.qkey = rep->qkey;
	} else {
		ev.type = BROKER_CM_EV_UNREACHABLE;
		ev.status = rep->status;
	}
	svc_put_private(&ev, cm_ev->private_data, cm_ev->private_len);
	svc_post(id, &ev);
}
