/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What comes in. A message is matched with its id (by comm ids and the address it comes from), and
 * the table says what it does in the id's state.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/bytes.h"
#include "cm/cm_priv.h"

#define MEMORY_NS_MAX	     (20 * NSEC_PER_SEC)
#define REP_TIMEOUT_CODE_MIN 14 /* 67 ms */

enum kind { REQ, REP, RTU, REJ, MRA_REQ, MRA_REP, DREQ, DREP, KINDS };

enum action {
	DROP,
	UNKNOWN,    /* as if there were no such connection */
	THINKING,   /* the consumer has not answered yet: MRA */
	REPEAT,	    /* the last message was this one's answer: once more */
	REPEAT_REJ, /* if that was a rejection; else nothing */
	LATE_REQ,   /* the connection of this REQ is over */
	LATE_REP,
	TAKE_REP,
	TAKE_RTU,
	END_IDLE,     /* REJ of a connection that never came to be */
	END_TIMEWAIT, /* REJ of one that may have sent packets */
	WAIT_LONGER,
	TAKE_DREQ,
	DREQS_CROSSED,
	REPEAT_DREP,
	TAKE_DREP,
	TAKE_DEATH, /* the answer to the question whether the peer still has the connection */
};

/* clang-format off */
/* What is not named is dropped. IDLE and LISTEN have no rows: no message finds an id there. */
static const uint8_t action_of[CM_STATES][KINDS] = {
	/* A DREQ now can only be a passive side's that has rejected us and was not heard. */
	[CM_REQ_SENT] = { [REP] = TAKE_REP, [REJ] = END_IDLE, [MRA_REQ] = WAIT_LONGER,
			  [DREQ] = UNKNOWN },
	[CM_REQ_RCVD] = { [REQ] = THINKING, [REJ] = END_TIMEWAIT },
	[CM_REP_SENT] = { [REQ] = REPEAT, [RTU] = TAKE_RTU, [REJ] = END_TIMEWAIT,
			  [MRA_REP] = WAIT_LONGER, [DREQ] = TAKE_DREQ },
	/* A DREQ before our RTU: of a passive side that rejects us after all, and was not heard, or
	 * that has seen early data. */
	[CM_REP_RCVD] = { [REP] = THINKING, [REJ] = END_TIMEWAIT, [DREQ] = TAKE_DREQ },
	[CM_ESTABLISHED] = { [REP] = REPEAT, [REJ] = END_TIMEWAIT, [DREQ] = TAKE_DREQ,
			     [DREP] = TAKE_DEATH },
	[CM_DREQ_SENT] = { [REQ] = REPEAT_REJ, [RTU] = REPEAT_REJ, [REJ] = TAKE_DREP,
			   [DREQ] = DREQS_CROSSED, [DREP] = TAKE_DREP },
	[CM_TIMEWAIT] = { [REQ] = LATE_REQ, [REP] = LATE_REP, [RTU] = REPEAT_REJ,
			  [DREQ] = REPEAT_DREP },
};
/* clang-format on */

struct rx {
	struct cm *cm;
	struct flow back; /* towards the sender */
	const uint8_t *mad;
	struct cm_msg msg;
	uint64_t now;
};

/* ---- answers that need no connection ------------------------------------------------------ */

static void answer_rej(struct rx *rx, uint32_t remote_comm_id, uint32_t local_comm_id,
		       enum cm_msg_answered what, uint16_t reason)
{
	struct cm_msg m;

	if (!cm_may_answer(rx->cm))
		return;
	cm_msg_begin(&m, CM_ATTR_REJ, rx->msg.hdr.tid);
	m.rej.local_comm_id = local_comm_id;
	m.rej.remote_comm_id = remote_comm_id;
	m.rej.message_rejected = what;
	m.rej.reason = reason;
	cm_send(rx->cm, &rx->back, &m);
}

static void answer_unknown(struct rx *rx)
{
	struct cm_msg m;

	rx->cm->counters->rx_unknown++;
	if (rx->now < rx->cm->heir_until)
		return;
	switch (rx->msg.hdr.attr_id) {
	case CM_ATTR_REP:
		answer_rej(rx, rx->msg.rep.local_comm_id, rx->msg.rep.remote_comm_id, CM_MSG_REP,
			   CM_REJ_INVALID_COMM_ID);
		break;
	case CM_ATTR_RTU: /* the sender believes itself connected */
		answer_rej(rx, rx->msg.rtu.local_comm_id, rx->msg.rtu.remote_comm_id, CM_MSG_OTHER,
			   CM_REJ_INVALID_COMM_ID);
		break;
	case CM_ATTR_DREQ: /* whoever wants to disconnect shall not wait for a connection lost */
		if (!cm_may_answer(rx->cm))
			return;
		cm_msg_begin(&m, CM_ATTR_DREP, rx->msg.hdr.tid);
		m.drep.local_comm_id = rx->msg.dreq.remote_comm_id;
		m.drep.remote_comm_id = rx->msg.dreq.local_comm_id;
		cm_send(rx->cm, &rx->back, &m);
		break;
	default:
		break;
	}
}

/* ---- the messages' effects ---------------------------------------------------------------- */

static void take_rep(struct rx *rx, struct cm_id *id)
{
	struct cm_rep *rep = &rx->msg.rep;
	struct cm_event ev = {.type = CM_EV_REP,
			      .rep = rep,
			      .private_data = rep->private_data,
			      .private_len = sizeof(rep->private_data)};
	struct cm_rej rej = {.reason = CM_REJ_STALE_CONN};
	struct cm_id *old;

	if (id->xrc)
		rep->local_qpn = rep->local_eecn;
	old = cm_find_qpn(rx->cm, rep->local_ca_guid, &id->flow.dgid, rep->local_qpn);

	id->remote_comm_id = rep->local_comm_id;
	id->peer_guid = rep->local_ca_guid;
	id->peer_qpn = rep->local_qpn;
	cm_set_state(id, CM_REP_RCVD, rx->now);
	if (!old) {
		cm_hash_qpn(id);
		cm_emit(id, &ev);
		return;
	}
	cm_suspect(old, rx->now);
	cm_send_rej(id, CM_REJ_STALE_CONN, NULL, 0, NULL, 0);
	cm_set_state(id, CM_TIMEWAIT, rx->now);
	ev = (struct cm_event){.type = CM_EV_REJ,
			       .rej = &rej,
			       .private_data = rej.private_data,
			       .private_len = sizeof(rej.private_data)};
	cm_emit(id, &ev);
}

/* The peer's port carries less than our REQ asked for: ask for the next less. */
static bool asked_for_less(struct rx *rx, struct cm_id *id)
{
	struct cm_msg m;

	if (id->state != CM_REQ_SENT || rx->msg.rej.reason != CM_REJ_INVALID_MTU ||
	    cm_msg_decode(&m, id->last) < 0 || m.req.path_mtu <= 1)
		return false;
	cm_set_state(id, CM_IDLE, rx->now);
	m.req.path_mtu--;
	return cm_req_send(id, &id->flow, &m.req, m.req.private_data, sizeof(m.req.private_data),
			   rx->now) == 0;
}

static void take_rej(struct rx *rx, struct cm_id *id, enum cm_state next)
{
	const struct cm_rej *rej = &rx->msg.rej;
	struct cm_event ev = {.type = CM_EV_REJ,
			      .rej = rej,
			      .private_data = rej->private_data,
			      .private_len = sizeof(rej->private_data)};

	if (asked_for_less(rx, id))
		return;
	cm_set_state(id, next, rx->now);
	if (id->quiet)
		return;
	cm_emit(id, &ev);
}

static void take_dreq(struct rx *rx, struct cm_id *id)
{
	struct cm_event ev = {.type = CM_EV_DREQ,
			      .private_data = rx->msg.dreq.private_data,
			      .private_len = sizeof(rx->msg.dreq.private_data)};

	id->dreq_tid = rx->msg.hdr.tid;
	id->was_up = true; /* for the peer, whose RTU may have been lost */
	cm_set_state(id, CM_DREQ_RCVD, rx->now);
	cm_emit(id, &ev);
}

/* Our DREQ has done its work, or the peer has no such connection. */
static void dreq_done(struct rx *rx, struct cm_id *id)
{
	struct cm_event ev = {.type = CM_EV_DISCONNECTED};

	cm_set_state(id, CM_TIMEWAIT, rx->now);
	if (!id->quiet)
		cm_emit(id, &ev);
}

static void wait_longer(struct rx *rx, struct cm_id *id)
{
	if (id->brief && id->state == CM_REQ_SENT)
		return; /* it goes on asking */
	/* The peer lives and will answer: its time, and then the usual time for the answer. */
	timer_arm(&rx->cm->timers, &id->timer,
		  rx->now + cm_timeout_ns(rx->msg.mra.service_timeout) + id->wait_ns);
}

/* To who may never have been heard of. */
static bool may_answer(struct cm_id *id)
{
	return id->heard || id->active || cm_may_answer(id->cm);
}

static void repeat_last(struct cm_id *id)
{
	if (may_answer(id))
		cm_repeat_last(id);
}

static void act(struct rx *rx, struct cm_id *id, enum kind kind)
{
	struct cm_event ev = {.type = CM_EV_RTU,
			      .private_data = rx->msg.rtu.private_data,
			      .private_len = sizeof(rx->msg.rtu.private_data)};

	switch ((enum action)action_of[id->state][kind]) {
	case DROP:
		return;
	case UNKNOWN:
		answer_unknown(rx);
		return;
	case THINKING:
		if (may_answer(id))
			cm_send_mra(id, CM_MRA_TIMEOUT);
		return;
	case REPEAT:
		repeat_last(id);
		return;
	case REPEAT_REJ:
		if (id->last_attr == CM_ATTR_REJ)
			repeat_last(id);
		return;
	case LATE_REQ:
		if (id->last_attr == CM_ATTR_REJ)
			repeat_last(id);
		else
			answer_rej(rx, rx->msg.req.local_comm_id, 0, CM_MSG_REQ, CM_REJ_STALE_CONN);
		return;
	case LATE_REP:
		if (id->last_attr == CM_ATTR_REJ)
			repeat_last(id);
		else
			answer_unknown(rx);
		return;
	case TAKE_REP:
		take_rep(rx, id);
		return;
	case TAKE_RTU:
		cm_passive_up(id, rx->now);
		cm_emit(id, &ev);
		return;
	case END_IDLE:
		take_rej(rx, id, CM_IDLE);
		return;
	case END_TIMEWAIT:
		take_rej(rx, id, CM_TIMEWAIT);
		return;
	case WAIT_LONGER:
		wait_longer(rx, id);
		return;
	case TAKE_DREQ:
		take_dreq(rx, id);
		return;
	case DREQS_CROSSED:
		id->dreq_tid = rx->msg.hdr.tid;
		cm_send_drep(id, rx->now);
		dreq_done(rx, id);
		return;
	case REPEAT_DREP:
		id->dreq_tid = rx->msg.hdr.tid;
		cm_send_drep(id, rx->now);
		return;
	case TAKE_DREP:
		dreq_done(rx, id);
		return;
	case TAKE_DEATH:
		if (id->question && id->question == rx->msg.hdr.tid)
			dreq_done(rx, id);
		return;
	}
	assert(!"no such action");
}

/* ---- REQ ---------------------------------------------------------------------------------- */

static void new_connection(struct rx *rx, struct cm_id *listener)
{
	const struct cm_req *req = &rx->msg.req;
	struct cm_event ev = {.type = CM_EV_REQ,
			      .listener = listener,
			      .req = req,
			      .private_data = req->private_data,
			      .private_len = sizeof(req->private_data)};
	struct cm_id *id = cm_id_new(rx->cm, listener->user);
	uint8_t timeout;

	if (!id)
		return; /* the peer asks again */
	cm_set_state(id, CM_REQ_RCVD, rx->now);
	id->flow = rx->back;
	id->tid = rx->msg.hdr.tid;
	id->remote_comm_id = req->local_comm_id;
	id->peer_guid = req->local_ca_guid;
	id->peer_qpn = req->local_qpn;
	id->xrc = cm_req_is_xrc(req);
	/* No stranger makes us send REPs by the microsecond, or wait for him for ever. */
	timeout = max_of(req->local_cm_response_timeout, REP_TIMEOUT_CODE_MIN);
	id->wait_ns = cm_timeout_ns(min_of(timeout, CM_RESPONSE_TIMEOUT));
	id->retries = req->max_cm_retries;
	id->timewait_ns = cm_timewait_ns(req->primary.local_ack_timeout);
	/* Who wants to hear soon may ask seldom later (cm_brief.c). */
	timeout = max_of(req->remote_cm_response_timeout, CM_RESPONSE_TIMEOUT);
	id->memory_ns = min_of(2 * cm_timeout_ns(timeout), MEMORY_NS_MAX);
	cm_hash_peer(id);
	cm_half_open_begin(id);
	cm_emit(id, &ev);
}

static void rx_req(struct rx *rx)
{
	const struct cm_req *req = &rx->msg.req;
	const struct gid *peer = &rx->back.dgid;
	struct cm_id *id = cm_find_peer(rx->cm, req->local_ca_guid, peer, req->local_comm_id);
	struct cm_id *listener;

	if (id) {
		act(rx, id, REQ);
		return;
	}
	id = cm_find_qpn(rx->cm, req->local_ca_guid, peer, req->local_qpn);
	if (id) {
		answer_rej(rx, req->local_comm_id, 0, CM_MSG_REQ, CM_REJ_STALE_CONN);
		cm_suspect(id, rx->now);
		return;
	}
	listener = cm_listener_of(rx->cm, req->service_id, req->private_data, rx->back.scope);
	if (!listener)
		answer_rej(rx, req->local_comm_id, 0, CM_MSG_REQ, CM_REJ_INVALID_SERVICE_ID);
	else if (req->transport_service != 0 && !cm_req_is_xrc(req))
		answer_rej(rx, req->local_comm_id, 0, CM_MSG_REQ, CM_REJ_INVALID_TRANSPORT_TYPE);
	else if (req->path_mtu < 1 || req->path_mtu > 5)
		answer_rej(rx, req->local_comm_id, 0, CM_MSG_REQ, CM_REJ_INVALID_MTU);
	else if (cm_welcome(rx->cm, &rx->back, rx->mad, req->local_comm_id))
		new_connection(rx, listener);
}

/* ---- all others --------------------------------------------------------------------------- */

/* The id that the sender means: both comm ids and both addresses are right. Before the REP its
 * comm id is not known; instead it repeats the REQ's transaction. */
static struct cm_id *id_of(struct rx *rx, uint32_t ours, uint32_t theirs)
{
	struct cm_id *id = cm_find_local(rx->cm, ours);

	if (!id || id->state <= CM_LISTEN || id->sidr ||
	    !gid_equal(&id->flow.dgid, &rx->back.dgid) ||
	    !gid_equal(&id->flow.sgid, &rx->back.sgid))
		return NULL;
	if (id->state == CM_REQ_SENT
		    ? rx->msg.hdr.attr_id != CM_ATTR_DREQ && id->tid != rx->msg.hdr.tid
		    : id->remote_comm_id != theirs)
		return NULL;
	return id;
}

static bool withdrawn(const struct cm_msg *m)
{
	return m->hdr.attr_id == CM_ATTR_REJ && m->rej.reason == CM_REJ_TIMEOUT &&
	       m->rej.remote_comm_id == 0;
}

static struct cm_id *rejected_id(struct rx *rx)
{
	const struct cm_rej *rej = &rx->msg.rej;

	/* The sender of a REQ withdraws it: it may never have learned our comm id. */
	if (withdrawn(&rx->msg)) {
		struct cm_id *id =
			cm_find_peer(rx->cm, ld_be64(rej->ari), &rx->back.dgid, rej->local_comm_id);

		return id && !id->heard ? id : NULL;
	}
	return id_of(rx, rej->remote_comm_id, rej->local_comm_id);
}

static bool rx_of_id(struct rx *rx)
{
	const struct cm_msg *m = &rx->msg;
	struct cm_id *id = NULL;
	enum kind kind = KINDS;
	bool misled;

	switch (m->hdr.attr_id) {
	case CM_ATTR_REP:
		kind = REP;
		id = id_of(rx, m->rep.remote_comm_id, m->rep.local_comm_id);
		if (id && !id->active)
			id = NULL;
		break;
	case CM_ATTR_RTU:
		kind = RTU;
		id = id_of(rx, m->rtu.remote_comm_id, m->rtu.local_comm_id);
		break;
	case CM_ATTR_REJ:
		kind = REJ;
		id = rejected_id(rx);
		break;
	case CM_ATTR_MRA:
		kind = m->mra.message_mraed == CM_MSG_REQ ? MRA_REQ : MRA_REP;
		id = id_of(rx, m->mra.remote_comm_id, m->mra.local_comm_id);
		break;
	case CM_ATTR_DREQ:
		kind = DREQ;
		id = id_of(rx, m->dreq.remote_comm_id, m->dreq.local_comm_id);
		if (id && id->state != CM_REQ_SENT && id->local_qpn != m->dreq.remote_qpn)
			return false; /* neither ours nor known to be nobody's */
		break;
	case CM_ATTR_DREP:
		kind = DREP;
		id = id_of(rx, m->drep.remote_comm_id, m->drep.local_comm_id);
		break;
	}
	assert(kind < KINDS);
	if (!id) {
		struct flow flow;
		uint8_t mad[MAD_LEN];

		if (kind == DREP &&
		    cm_welcome_after_all(rx->cm, &rx->back, m->hdr.tid, &flow, mad)) {
			cm_rx(rx->cm, &flow, mad, rx->now);
			return true;
		}
		answer_unknown(rx);
		return false;
	}
	/* Is there, and may believe itself connected to one that has rejected it. */
	misled = !id->heard && id->state == CM_DREQ_SENT;
	if (!withdrawn(m))
		cm_heard(id);
	act(rx, id, kind);
	if (misled && id->state == CM_DREQ_SENT)
		cm_start_dreq(id, true, rx->now);
	return true;
}

bool cm_rx(struct cm *cm, const struct flow *flow, const uint8_t *mad, uint64_t now)
{
	struct rx rx = {.cm = cm, .mad = mad, .now = now};

	cm->now = now;
	cm->counters->rx_mads++;
	if (cm_msg_decode(&rx.msg, mad) < 0 || rx.msg.hdr.method != CM_METHOD_SEND) {
		cm->counters->rx_bad++;
		return false;
	}
	cm_present(cm, &flow->sgid);
	rx.back.sgid = flow->dgid;
	rx.back.dgid = flow->sgid;
	rx.back.tos = flow->tos & (uint8_t)~FLOW_ECN_MASK;
	rx.back.scope = flow->scope;
	switch (rx.msg.hdr.attr_id) {
	case CM_ATTR_REQ:
		rx_req(&rx);
		return false;
	case CM_ATTR_SIDR_REQ:
		cm_rx_sidr_req(cm, &rx.back, &rx.msg, mad, now);
		return false;
	case CM_ATTR_SIDR_REP:
		cm_rx_sidr_rep(cm, &rx.back, &rx.msg, now);
		return false;
	default:
		return rx_of_id(&rx);
	}
}

bool cm_unheard(const struct cm *cm, const struct flow *flow, const uint8_t *mad)
{
	struct cm_msg m;

	if (cm_msg_decode(&m, mad) < 0 || m.hdr.method != CM_METHOD_SEND)
		return false;
	if (m.hdr.attr_id == CM_ATTR_SIDR_REQ)
		return !cm_listener_of(cm, m.sidr_req.service_id, m.sidr_req.private_data,
				       flow->scope) &&
		       !cm_find_sidr(cm, &flow->sgid, m.sidr_req.request_id);
	return m.hdr.attr_id == CM_ATTR_REQ &&
	       !cm_listener_of(cm, m.req.service_id, m.req.private_data, flow->scope) &&
	       !cm_find_peer(cm, m.req.local_ca_guid, &flow->sgid, m.req.local_comm_id) &&
	       !cm_find_qpn(cm, m.req.local_ca_guid, &flow->sgid, m.req.local_qpn);
}

uint64_t cm_patience_ns(const uint8_t *mad)
{
	struct cm_msg m;

	if (cm_msg_decode(&m, mad) < 0 || m.hdr.attr_id != CM_ATTR_REQ)
		return UINT64_MAX;
	return cm_timeout_ns(m.req.remote_cm_response_timeout);
}
