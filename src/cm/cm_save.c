/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Ids that outlive their CM: what is kept of them, and how they come back. */
#include <errno.h>
#include <string.h>

#include "cm/cm_priv.h"

#define WAIT_MAX_NS (120 * NSEC_PER_SEC) /* no honest timer is longer */

void cm_succeed(struct cm *cm, const uint64_t secret[2], uint64_t until)
{
	for (size_t i = 0; i < ARRAY_SIZE(cm->scramble); i++)
		cm->scramble[i] = (uint32_t)(secret[i / 2] >> 32 * (i % 2));
	cm->heir_until = until;
	/* New ids are rather elsewhere than those that may be restored. */
	handles_begin_at(&cm->handles, cm->ops.random(cm->ctx) % (CM_MAX_IDS / 2),
			 cm->ops.random(cm->ctx));
}

void cm_id_save(const struct cm_id *id, struct cm_saved *ret)
{
	*ret = (struct cm_saved){
		.local_comm_id = id->local_comm_id,
		.remote_comm_id = id->remote_comm_id,
		.local_qpn = id->local_qpn,
		.peer_qpn = id->peer_qpn,
		.local_guid = id->local_guid,
		.peer_guid = id->peer_guid,
		.tid = id->tid,
		.dreq_tid = id->dreq_tid,
		.service_id = id->service_id,
		.wait_ns = id->wait_ns,
		.timewait_ns = id->timewait_ns,
		.memory_ns = id->memory_ns,
		.flow = id->flow,
		.state = (uint8_t)(id->state == CM_LISTEN ? CM_IDLE : id->state),
		.path_mtu = id->path_mtu,
		.tries_left = id->tries_left,
		.retries = id->retries,
		.last_attr = (uint8_t)id->last_attr,
		.unheard_sent = id->unheard_sent,
		.active = id->active,
		.sidr = id->sidr,
		.xrc = id->xrc,
		.was_up = id->was_up,
		.quiet = id->quiet,
		.hurried = id->hurried,
		.heard = id->heard,
		.brief = id->brief,
	};
	memcpy(ret->last, id->last, sizeof(ret->last));
}

/* What a stranger may still get of it (cm_strangers.c); and only who is heard of has a connection,
 * or its end would never come. */
static bool is_modest(const struct cm_saved *s)
{
	unsigned mads = s->unheard_sent + s->tries_left;

	if (s->heard)
		return true;
	return s->state != CM_ESTABLISHED && (s->state != CM_REP_SENT || mads < CM_UNHEARD_MAX) &&
	       (s->state != CM_DREQ_SENT || mads <= CM_UNHEARD_MAX);
}

/* What is to be repeated is a message of ours, and of this id: it leaves by queue pair 1, where
 * others believe what they would not believe a program. */
static bool is_own_message(const struct cm_saved *s)
{
	struct cm_msg m;

	if (!s->last_attr)
		return true;
	if (cm_msg_decode(&m, s->last) < 0 || m.hdr.method != CM_METHOD_SEND ||
	    m.hdr.attr_id != s->last_attr)
		return false;
	switch (s->last_attr) {
	case CM_ATTR_REQ:
		return m.req.local_comm_id == s->local_comm_id &&
		       m.req.local_ca_guid == s->local_guid && m.req.local_qpn == s->local_qpn;
	case CM_ATTR_REP:
		return m.rep.local_comm_id == s->local_comm_id &&
		       m.rep.remote_comm_id == s->remote_comm_id;
	case CM_ATTR_RTU:
		return m.rtu.local_comm_id == s->local_comm_id &&
		       m.rtu.remote_comm_id == s->remote_comm_id;
	case CM_ATTR_REJ:
		return m.rej.remote_comm_id == s->remote_comm_id;
	case CM_ATTR_SIDR_REQ:
	case CM_ATTR_SIDR_REP:
		return s->sidr;
	default:
		return false;
	}
}

static bool believable(const struct cm_saved *s)
{
	return s->state < CM_STATES && s->state != CM_LISTEN && s->local_comm_id &&
	       s->wait_ns <= WAIT_MAX_NS && s->timewait_ns <= WAIT_MAX_NS &&
	       s->memory_ns <= WAIT_MAX_NS && s->tries_left <= CM_MAX_RETRIES &&
	       s->retries <= CM_MAX_RETRIES && is_modest(s) && is_own_message(s) &&
	       s->local_qpn <= 0xffffff && s->peer_qpn <= 0xffffff &&
	       !!s->sidr == (s->state == CM_SIDR_REQ_SENT || s->state == CM_SIDR_REQ_RCVD ||
			     (s->sidr && s->state == CM_TIMEWAIT));
}

/* Into the tables by which a message finds it, with the timer of its state. */
static void go_on(struct cm_id *id, uint64_t now)
{
	struct timer_heap *timers = &id->cm->timers;

	if (id->state == CM_IDLE)
		return;
	if (!id->active && id->remote_comm_id)
		cm_hash_peer(id);
	if (id->was_up && id->state == CM_ESTABLISHED)
		cm_hash_qpn(id);
	switch (id->state) {
	case CM_REQ_RCVD:
	case CM_SIDR_REQ_RCVD:
		cm_half_open_begin(id);
		break;
	case CM_REP_SENT:
		cm_half_open_replied(id);
		timer_arm(timers, &id->timer, now + id->wait_ns);
		break;
	case CM_REQ_SENT:
	case CM_DREQ_SENT:
	case CM_SIDR_REQ_SENT:
		timer_arm(timers, &id->timer, now + id->wait_ns);
		break;
	case CM_TIMEWAIT:
		timer_arm(timers, &id->timer, now + id->timewait_ns);
		break;
	default:
		break;
	}
}

int cm_id_restore(struct cm *cm, const struct cm_saved *s, void *id_user, struct cm_id **ret,
		  uint64_t now)
{
	struct cm_id *id;
	int rc;

	if (!believable(s))
		return -EINVAL;
	rc = cm_id_new_as(cm, id_user, s->local_comm_id, &id);
	if (rc)
		return rc;
	cm->now = now;
	id->remote_comm_id = s->remote_comm_id;
	id->local_qpn = s->local_qpn;
	id->peer_qpn = s->peer_qpn;
	id->local_guid = s->local_guid;
	id->peer_guid = s->peer_guid;
	id->tid = s->tid;
	id->dreq_tid = s->dreq_tid;
	id->service_id = s->service_id;
	id->wait_ns = s->wait_ns;
	id->timewait_ns = s->timewait_ns;
	id->memory_ns = s->memory_ns;
	id->flow = s->flow;
	id->flow.sl = id->flow.rocev1 = 0; /* of a state that was forged */
	id->state = (enum cm_state)s->state;
	id->path_mtu = s->path_mtu;
	id->tries_left = s->tries_left;
	id->retries = s->retries;
	id->last_attr = (enum cm_attr_id)s->last_attr;
	id->unheard_sent = s->unheard_sent;
	id->active = s->active;
	id->sidr = s->sidr;
	id->xrc = s->xrc;
	id->was_up = s->was_up;
	id->quiet = s->quiet;
	id->hurried = s->hurried;
	id->heard = s->heard;
	id->brief = s->brief;
	memcpy(id->last, s->last, sizeof(id->last));
	go_on(id, now);
	*ret = id;
	return 0;
}

void cm_id_drop(struct cm_id *id)
{
	cm_id_free(id);
}
