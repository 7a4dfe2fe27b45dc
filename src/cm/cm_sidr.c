/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Service ID resolution (IBA 12.11): a question, which queue pair serves an id, and its answer;
 * how datagrams find their receiver. No connection comes of it: the active side's id is idle again
 * with the answer, the passive side's remembers what it has answered for as long as a lost answer
 * may be asked for again.
 */
#include <errno.h>
#include <string.h>

#include "cm/cm_priv.h"

/* The question does not say how long its sender waits; others are as patient as we are. */
#define SIDR_MEMORY_NS (3 * cm_timeout_ns(CM_RESPONSE_TIMEOUT) + cm_timeout_ns(18))

/* ---- asking ------------------------------------------------------------------------------- */

int cm_sidr_req_send(struct cm_id *id, const struct flow *flow, const struct cm_sidr_req *req,
		     const void *private_data, size_t private_len, uint64_t now)
{
	struct cm *cm = id->cm;
	struct cm_msg m;

	if (id->state != CM_IDLE || private_len > CM_SIDR_REQ_PRIVATE)
		return -EINVAL;
	cm_set_state(id, CM_SIDR_REQ_SENT, now);
	id->sidr = id->active = true;
	id->flow = *flow;
	id->tid = (uint64_t)cm->ops.random(cm->ctx) << 32 | id->local_comm_id;
	cm_msg_begin(&m, CM_ATTR_SIDR_REQ, id->tid);
	m.sidr_req = *req;
	m.sidr_req.request_id = id->local_comm_id;
	cm_put_private(m.sidr_req.private_data, sizeof(m.sidr_req.private_data), private_data,
		       private_len);
	cm_send_keep(id, &m);
	cm_arm_retries(id, cm_timeout_ns(CM_RESPONSE_TIMEOUT), CM_MAX_RETRIES, now);
	return 0;
}

void cm_rx_sidr_rep(struct cm *cm, const struct flow *back, const struct cm_msg *m, uint64_t now)
{
	const struct cm_sidr_rep *rep = &m->sidr_rep;
	struct cm_id *id = cm_find_local(cm, rep->request_id);
	struct cm_event ev = {.type = CM_EV_SIDR_REP,
			      .sidr_rep = rep,
			      .private_data = rep->private_data,
			      .private_len = sizeof(rep->private_data)};

	if (!id || id->state != CM_SIDR_REQ_SENT || id->tid != m->hdr.tid ||
	    !gid_equal(&id->flow.dgid, &back->dgid) || !gid_equal(&id->flow.sgid, &back->sgid)) {
		cm->counters->rx_unknown++;
		return;
	}
	cm_set_state(id, CM_IDLE, now);
	cm_emit(id, &ev);
}

/* ---- answering ---------------------------------------------------------------------------- */

static void answer_unsupported(struct cm *cm, const struct flow *back, const struct cm_msg *req)
{
	struct cm_msg m;

	if (!cm_may_answer(cm))
		return;
	cm_msg_begin(&m, CM_ATTR_SIDR_REP, req->hdr.tid);
	m.sidr_rep.request_id = req->sidr_req.request_id;
	m.sidr_rep.service_id = req->sidr_req.service_id;
	m.sidr_rep.status = CM_SIDR_UNSUPPORTED;
	cm_send(cm, back, &m);
}

void cm_rx_sidr_req(struct cm *cm, const struct flow *back, const struct cm_msg *m,
		    const uint8_t *mad, uint64_t now)
{
	const struct cm_sidr_req *req = &m->sidr_req;
	struct cm_event ev = {.type = CM_EV_SIDR_REQ,
			      .sidr_req = req,
			      .private_data = req->private_data,
			      .private_len = sizeof(req->private_data)};
	struct cm_id *id = cm_find_sidr(cm, &back->dgid, req->request_id);

	if (id) {
		/* Once more the same question; while the consumer thinks there is no way to ask
		 * for patience. */
		if (cm_may_answer(cm))
			cm_repeat_last(id);
		if (id->state == CM_TIMEWAIT)
			timer_arm(&cm->timers, &id->timer, now + id->memory_ns);
		return;
	}
	ev.listener = cm_listener_of(cm, req->service_id, req->private_data, back->scope);
	if (!ev.listener) {
		answer_unsupported(cm, back, m);
		return;
	}
	if (!cm_welcome(cm, back, mad, req->request_id))
		return;
	id = cm_id_new(cm, ev.listener->user);
	if (!id)
		return; /* the peer asks again */
	cm_set_state(id, CM_SIDR_REQ_RCVD, now);
	id->sidr = true;
	id->flow = *back;
	id->tid = m->hdr.tid;
	id->remote_comm_id = req->request_id;
	id->service_id = req->service_id;
	id->memory_ns = SIDR_MEMORY_NS;
	cm_hash_peer(id);
	cm_half_open_begin(id);
	cm_emit(id, &ev);
}

int cm_sidr_rep_send(struct cm_id *id, const struct cm_sidr_rep *rep, const void *private_data,
		     size_t private_len, uint64_t now)
{
	struct cm_msg m;

	if (id->state != CM_SIDR_REQ_RCVD || private_len > CM_SIDR_REP_PRIVATE ||
	    rep->info_len > CM_SIDR_REP_INFO)
		return -EINVAL;
	cm_msg_begin(&m, CM_ATTR_SIDR_REP, id->tid);
	m.sidr_rep = *rep;
	m.sidr_rep.request_id = id->remote_comm_id;
	m.sidr_rep.service_id = id->service_id;
	cm_put_private(m.sidr_rep.private_data, sizeof(m.sidr_rep.private_data), private_data,
		       private_len);
	cm_send_keep(id, &m);
	cm_set_state(id, CM_TIMEWAIT, now);
	return 0;
}
