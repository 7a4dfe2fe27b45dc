/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What goes out: messages to the peer, their repetition, and events to the consumer. */
#include <string.h>

#include "base/bytes.h"
#include "cm/cm_priv.h"

#define CM_TIMEOUT_MAX	  (60 * NSEC_PER_SEC)
#define TIMEWAIT_CODE_MIN 14					       /* 67 ms */
#define TIMEWAIT_CODE_MAX 21					       /* 8.6 s */
#define DREQS_NS	  (9 * cm_timeout_ns(CM_RESPONSE_TIMEOUT) / 4) /* two, as Linux sends them */
#define HURRIED_FIRST	  (100 * NSEC_PER_MSEC)
#define HURRIED_TRIES	  8 /* 8 s in all */

/* ---- messages ----------------------------------------------------------------------------- */

static void enqueue(struct cm *cm, const struct flow *flow, const uint8_t mad[MAD_LEN])
{
	struct list *n = NULL;
	struct cm_tx_entry *e = NULL;

	if (cm->tx_count < CM_TX_MAX) {
		n = list_pop_head(&cm->tx_free);
		e = n ? list_entry(n, struct cm_tx_entry, list)
		      : cm->ops.alloc(cm->ctx, sizeof(*e));
	}
	if (!e) {
		cm->counters->tx_dropped++;
		return;
	}
	e->flow = *flow;
	memcpy(e->mad, mad, MAD_LEN);
	list_push_tail(&cm->tx, &e->list);
	cm->tx_count++;
}

bool cm_tx(struct cm *cm, struct flow *ret_flow, uint8_t mad[MAD_LEN], uint64_t now)
{
	struct list *n = list_pop_head(&cm->tx);
	struct cm_tx_entry *e;

	(void)now;
	if (!n)
		return false;
	e = list_entry(n, struct cm_tx_entry, list);
	*ret_flow = e->flow;
	ret_flow->sport = flow_sport(0, GSI_QPN, GSI_QPN);
	memcpy(mad, e->mad, MAD_LEN);
	list_push_head(&cm->tx_free, n);
	cm->tx_count--;
	cm->counters->tx_mads++;
	return true;
}

void cm_msg_begin(struct cm_msg *m, enum cm_attr_id attr, uint64_t tid)
{
	memset(m, 0, sizeof(*m));
	m->hdr = (struct mad_hdr){
		.base_version = MAD_BASE_VERSION,
		.mgmt_class = CM_CLASS,
		.class_version = CM_CLASS_VERSION,
		.method = CM_METHOD_SEND,
		.tid = tid,
		.attr_id = attr,
	};
}

void cm_send(struct cm *cm, const struct flow *flow, const struct cm_msg *m)
{
	uint8_t mad[MAD_LEN];

	cm_msg_encode(m, mad);
	enqueue(cm, flow, mad);
}

void cm_send_keep(struct cm_id *id, const struct cm_msg *m)
{
	cm_msg_encode(m, id->last);
	id->last_attr = m->hdr.attr_id;
	enqueue(id->cm, &id->flow, id->last);
}

void cm_repeat_last(struct cm_id *id)
{
	if (id->last_attr)
		enqueue(id->cm, &id->flow, id->last);
}

void cm_send_rej(struct cm_id *id, uint16_t reason, const void *ari, size_t ari_len,
		 const void *private_data, size_t private_len)
{
	struct cm_msg m;

	cm_msg_begin(&m, CM_ATTR_REJ, id->tid);
	m.rej.remote_comm_id = id->remote_comm_id;
	m.rej.local_comm_id = id->state == CM_REQ_RCVD ? 0 : id->local_comm_id;
	m.rej.message_rejected = id->state == CM_REQ_RCVD   ? CM_MSG_REQ
				 : id->state == CM_REP_RCVD ? CM_MSG_REP
							    : CM_MSG_OTHER;
	m.rej.reason = reason;
	m.rej.reject_info_len = (uint8_t)ari_len;
	if (ari_len)
		memcpy(m.rej.ari, ari, ari_len);
	if (private_len)
		memcpy(m.rej.private_data, private_data, private_len);
	cm_send_keep(id, &m);
}

void cm_send_mra(struct cm_id *id, uint8_t service_timeout)
{
	struct cm_msg m;

	cm_msg_begin(&m, CM_ATTR_MRA, id->tid);
	m.mra.local_comm_id = id->local_comm_id;
	m.mra.remote_comm_id = id->remote_comm_id;
	m.mra.message_mraed = id->state == CM_REQ_RCVD ? CM_MSG_REQ : CM_MSG_REP;
	m.mra.service_timeout = service_timeout;
	cm_send(id->cm, &id->flow, &m);
}

void cm_send_dreq(struct cm_id *id)
{
	struct cm_msg m;

	cm_msg_begin(&m, CM_ATTR_DREQ, id->tid);
	m.dreq.local_comm_id = id->local_comm_id;
	m.dreq.remote_comm_id = id->remote_comm_id;
	m.dreq.remote_qpn = id->peer_qpn;
	if (id->died)
		memcpy(m.dreq.private_data, CM_DREQ_DIED, sizeof(CM_DREQ_DIED));
	cm_send(id->cm, &id->flow, &m);
}

/* One that hears all we say at once. */
static bool peer_is_here(const struct cm_id *id)
{
	const struct cm_id *peer = cm_find_local(id->cm, id->remote_comm_id);

	return peer && peer->remote_comm_id == id->local_comm_id;
}

void cm_send_drep(struct cm_id *id, uint64_t now)
{
	struct cm_msg m;

	cm_msg_begin(&m, CM_ATTR_DREP, id->dreq_tid);
	m.drep.local_comm_id = id->local_comm_id;
	m.drep.remote_comm_id = id->remote_comm_id;
	cm_send(id->cm, &id->flow, &m);
	if (!peer_is_here(id))
		id->cm->dreqs_until = now + DREQS_NS;
}

void cm_put_private(uint8_t *to, size_t room, const void *data, size_t length)
{
	memset(to, 0, room);
	if (length)
		memcpy(to, data, length);
}

/* ---- time --------------------------------------------------------------------------------- */

uint64_t cm_timeout_ns(uint8_t code)
{
	return min_of((uint64_t)4096 << (code & 0x1f), CM_TIMEOUT_MAX);
}

uint64_t cm_timewait_ns(uint8_t code)
{
	if (code == 0 || code > TIMEWAIT_CODE_MAX) /* 0: the queue pair never times out */
		code = TIMEWAIT_CODE_MAX;
	return cm_timeout_ns(max_of(code, TIMEWAIT_CODE_MIN));
}

void cm_arm_retries(struct cm_id *id, uint64_t wait_ns, uint8_t retries, uint64_t now)
{
	id->wait_ns = wait_ns;
	id->tries_left = retries;
	timer_arm(&id->cm->timers, &id->timer, now + wait_ns);
}

void cm_emit(struct cm_id *id, struct cm_event *ev)
{
	struct cm *cm = id->cm;

	if (id->orphan) {
		if (id->state == CM_IDLE)
			cm_id_free(id);
		return;
	}
	ev->id = id;
	ev->flow = id->flow;
	cm->ops.event(cm->ctx, id->user, ev);
}

void cm_start_dreq(struct cm_id *id, bool hurried, uint64_t now)
{
	if (id->state != CM_DREQ_SENT)
		cm_set_state(id, CM_DREQ_SENT, now);
	id->hurried = hurried;
	cm_send_dreq(id);
	if (hurried)
		cm_arm_retries(id, HURRIED_FIRST, HURRIED_TRIES - 1, now);
	else
		cm_arm_retries(id, cm_timeout_ns(CM_RESPONSE_TIMEOUT), CM_MAX_RETRIES, now);
}

void cm_abandon(struct cm_id *id, uint16_t reason, const void *ari, size_t ari_len,
		const void *private_data, size_t private_len, uint64_t now)
{
	cm_send_rej(id, reason, ari, ari_len, private_data, private_len);
	id->quiet = true;
	if (id->heard) {
		cm_start_dreq(id, true, now);
		return;
	}
	id->unheard_sent++;
	cm_set_state(id, CM_DREQ_SENT, now);
	id->hurried = true;
	cm_arm_retries(id, HURRIED_FIRST, CM_UNHEARD_MAX - id->unheard_sent, now);
}
