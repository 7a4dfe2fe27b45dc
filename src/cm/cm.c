/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/bytes.h"
#include "cm/cm_priv.h"

#define NSEC_MSEC	  1000000ull
#define CM_TIMEOUT_MAX	  60000000000ull
#define HURRIED_FIRST	  (100 * NSEC_MSEC)
#define HURRIED_MAX	  (1600 * NSEC_MSEC)
#define HURRIED_TRIES	  8  /* 8 s in all */
#define TIMEWAIT_CODE_MIN 14 /* 67 ms */
#define TIMEWAIT_CODE_MAX 21 /* 8.6 s */

/* ---- the instance ------------------------------------------------------------------------- */

int cm_create(struct cm **ret, const struct cm_ops *ops, void *ctx)
{
	struct cm *cm = ops->alloc(ctx, sizeof(*cm));

	if (!cm)
		return -ENOMEM;
	*cm = (struct cm){.ops = *ops, .ctx = ctx};
	cm->slot_mem = ops->alloc(ctx, CM_MAX_IDS * sizeof(*cm->slot_mem));
	if (!cm->slot_mem) {
		ops->free(ctx, cm);
		return -ENOMEM;
	}
	slots_init(&cm->slots, cm->slot_mem, CM_MAX_IDS, CM_GEN_BITS);
	for (size_t i = 0; i < ARRAY_SIZE(cm->scramble); i++)
		cm->scramble[i] = ops->random(ctx);
	cm->hash_seed = (uint64_t)ops->random(ctx) << 32 | ops->random(ctx);
	for (size_t i = 0; i < CM_HASH_BUCKETS; i++) {
		list_init(&cm->by_peer[i]);
		list_init(&cm->by_qpn[i]);
	}
	list_init(&cm->ids);
	for (size_t i = 0; i < CM_LISTENER_BUCKETS; i++)
		list_init(&cm->listeners[i]);
	for (size_t i = 0; i < CM_SOURCES; i++)
		list_init(&cm->replied_from[i]);
	list_init(&cm->listeners_masked);
	list_init(&cm->replied);
	list_init(&cm->tx);
	list_init(&cm->tx_free);
	*ret = cm;
	return 0;
}

static void free_entries(struct cm *cm, struct list *entries)
{
	struct list *n;

	while ((n = list_pop_head(entries)))
		cm->ops.free(cm->ctx, list_entry(n, struct cm_tx_entry, list));
}

void cm_destroy(struct cm *cm)
{
	if (!cm)
		return;
	list_for_each(id, &cm->ids, struct cm_id, all)
		cm_id_free(id);
	free_entries(cm, &cm->tx);
	free_entries(cm, &cm->tx_free);
	cm->ops.free(cm->ctx, cm->slot_mem);
	cm->ops.free(cm->ctx, cm);
}

const struct cm_counters *cm_counters(const struct cm *cm)
{
	return &cm->counters;
}

size_t cm_busy(const struct cm *cm)
{
	size_t n = cm->tx_count;

	list_for_each(id, &cm->ids, const struct cm_id, all)
		n += id->orphan && id->state == CM_DREQ_SENT;
	return n;
}

/* ---- sending ------------------------------------------------------------------------------ */

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
		cm->counters.tx_dropped++;
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
	cm->counters.tx_mads++;
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

static void send_dreq(struct cm_id *id)
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

void cm_send_drep(struct cm_id *id)
{
	struct cm_msg m;

	cm_msg_begin(&m, CM_ATTR_DREP, id->dreq_tid);
	m.drep.local_comm_id = id->local_comm_id;
	m.drep.remote_comm_id = id->remote_comm_id;
	cm_send(id->cm, &id->flow, &m);
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
	send_dreq(id);
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

/* A REQ that the sender no longer stands behind: the peer may know it under our id only. */
static void send_rej_timeout(struct cm_id *id)
{
	uint8_t guid[8];

	st_be64(guid, id->local_guid);
	cm_send_rej(id, CM_REJ_TIMEOUT, guid, sizeof(guid), NULL, 0);
}

static void retries_spent(struct cm_id *id, uint64_t now)
{
	struct cm_event ev = {.type = CM_EV_TIMEOUT};
	uint8_t guid[8];

	if (id->active || id->heard)
		id->cm->counters.gave_up++;
	else
		id->cm->counters.unheard += id->state == CM_DREQ_SENT;
	switch (id->state) {
	case CM_REQ_SENT:
		cm_brief_over(id, now);
		send_rej_timeout(id);
		cm_set_state(id, CM_IDLE, now);
		break;
	case CM_SIDR_REQ_SENT:
		cm_set_state(id, CM_IDLE, now);
		break;
	case CM_REP_SENT:
		st_be64(guid, id->local_guid);
		cm_abandon(id, CM_REJ_TIMEOUT, guid, sizeof(guid), NULL, 0, now);
		break;
	case CM_DREQ_SENT:
		cm_set_state(id, CM_TIMEWAIT, now);
		if (id->quiet)
			return;
		ev.type = CM_EV_DISCONNECTED;
		ev.unanswered = true;
		break;
	default:
		assert(!"no retries in this state");
	}
	cm_emit(id, &ev);
}

static void timer_fired(struct cm_id *id, uint64_t now)
{
	if (id->state == CM_TIMEWAIT) {
		struct cm_event ev = {.type = CM_EV_TIMEWAIT_EXIT};
		bool tell = id->was_up && !id->quiet;

		cm_set_state(id, CM_IDLE, now);
		if (tell || id->orphan)
			cm_emit(id, &ev);
		return;
	}
	if (id->state == CM_ESTABLISHED) {
		cm_suspect_again(id, now);
		return;
	}
	if (id->tries_left == 0) {
		retries_spent(id, now);
		return;
	}
	id->tries_left--;
	id->cm->counters.retries++;
	if (id->state == CM_DREQ_SENT && id->heard)
		send_dreq(id);
	else
		cm_repeat_last(id);
	id->unheard_sent++;
	if (id->state == CM_DREQ_SENT && id->hurried)
		id->wait_ns = min_of(2 * id->wait_ns, HURRIED_MAX);
	else if (id->state == CM_REP_SENT && !id->heard)
		id->wait_ns *= 2;
	else
		id->wait_ns = cm_brief_wait(id);
	timer_arm(&id->cm->timers, &id->timer, now + id->wait_ns);
}

uint64_t cm_next_deadline(const struct cm *cm)
{
	return timer_heap_next(&cm->timers);
}

void cm_tick(struct cm *cm, uint64_t now)
{
	struct timer *t;

	cm->now = now;
	/* Ends: whatever is armed again is armed for later than now, or comes to rest. */
	while ((t = timer_pop_due(&cm->timers, now)))
		timer_fired(container_of(t, struct cm_id, timer), now);
}

/* ---- what the consumer asks for ----------------------------------------------------------- */

int cm_id_create(struct cm *cm, void *id_user, struct cm_id **ret)
{
	struct cm_id *id = cm_id_new(cm, id_user);

	if (!id)
		return -ENOMEM;
	*ret = id;
	return 0;
}

void cm_id_set_user(struct cm_id *id, void *id_user)
{
	id->user = id_user;
}

void cm_id_died(struct cm_id *id)
{
	id->died = true;
}

uint32_t cm_id_qpn(const struct cm_id *id)
{
	return id->local_qpn;
}

uint32_t cm_id_peer_qpn(const struct cm_id *id)
{
	return id->peer_qpn;
}

enum cm_state cm_id_state(const struct cm_id *id)
{
	return id->state;
}

uint8_t cm_id_path_mtu(const struct cm_id *id)
{
	return id->path_mtu;
}

void cm_id_destroy(struct cm_id *id, uint64_t now)
{
	static const struct cm_sidr_rep sidr_reject = {.status = CM_SIDR_REJECT};

	id->orphan = true;
	id->user = NULL;
	switch (id->state) {
	case CM_REQ_SENT:
		send_rej_timeout(id);
		cm_set_state(id, CM_IDLE, now);
		cm_id_free(id);
		return;
	case CM_SIDR_REQ_SENT: /* nobody has promised anything: there is nothing to withdraw */
		cm_set_state(id, CM_IDLE, now);
		cm_id_free(id);
		return;
	case CM_SIDR_REQ_RCVD:
		(void)!cm_sidr_rep_send(id, &sidr_reject, NULL, 0, now);
		return;
	case CM_IDLE:
	case CM_LISTEN:
		cm_id_free(id);
		return;
	case CM_REQ_RCVD:
	case CM_REP_RCVD:
		cm_send_rej(id, CM_REJ_CONSUMER_DEFINED, NULL, 0, NULL, 0);
		cm_set_state(id, CM_TIMEWAIT, now);
		return;
	case CM_REP_SENT:
		cm_abandon(id, CM_REJ_CONSUMER_DEFINED, NULL, 0, NULL, 0, now);
		return;
	case CM_ESTABLISHED:
	case CM_DREQ_SENT: /* nobody waits for this one any more: bounded to seconds */
		if (id->heard)
			cm_start_dreq(id, true, now);
		return;
	case CM_DREQ_RCVD:
		cm_send_drep(id);
		cm_set_state(id, CM_TIMEWAIT, now);
		return;
	case CM_TIMEWAIT:
		return;
	case CM_STATES:
		break;
	}
	assert(!"no such state");
}

void cm_id_forget(struct cm_id *id)
{
	assert(id->state == CM_REQ_RCVD || id->state == CM_SIDR_REQ_RCVD);
	cm_set_state(id, CM_IDLE, 0);
	cm_id_free(id);
}

int cm_listen(struct cm_id *id, uint64_t service_id, uint64_t mask,
	      bool (*match)(void *id_user, const uint8_t *private_data, uint32_t scope))
{
	if (id->state != CM_IDLE || service_id & ~mask)
		return -EINVAL;
	cm_set_state(id, CM_LISTEN, 0);
	id->service_id = service_id;
	id->mask = mask;
	id->match = match;
	list_push_tail(cm_listeners(id->cm, service_id, mask), &id->listening);
	return 0;
}

void cm_put_private(uint8_t *to, size_t room, const void *data, size_t length)
{
	memset(to, 0, room);
	if (length)
		memcpy(to, data, length);
}

int cm_req_send(struct cm_id *id, const struct flow *flow, const struct cm_req *req,
		const void *private_data, size_t private_len, uint64_t now)
{
	struct cm *cm = id->cm;
	struct cm_msg m;

	if (id->state != CM_IDLE || private_len > CM_REQ_PRIVATE)
		return -EINVAL;
	cm_set_state(id, CM_REQ_SENT, now);
	id->active = true;
	id->flow = *flow;
	id->tid = (uint64_t)cm->ops.random(cm->ctx) << 32 | id->local_comm_id;
	id->local_guid = req->local_ca_guid;
	id->local_qpn = req->local_qpn;
	id->xrc = cm_req_is_xrc(req);
	id->path_mtu = req->path_mtu;
	id->timewait_ns = cm_timewait_ns(req->primary.local_ack_timeout);
	cm_msg_begin(&m, CM_ATTR_REQ, id->tid);
	m.req = *req;
	m.req.local_comm_id = id->local_comm_id;
	m.req.remote_cm_response_timeout =
		id->brief ? CM_BRIEF_RESPONSE_TIMEOUT : CM_RESPONSE_TIMEOUT;
	m.req.local_cm_response_timeout = CM_RESPONSE_TIMEOUT;
	m.req.max_cm_retries = CM_MAX_RETRIES;
	cm_put_private(m.req.private_data, sizeof(m.req.private_data), private_data, private_len);
	cm_send_keep(id, &m);
	cm_brief_begin(id, now);
	return 0;
}

int cm_rep_send(struct cm_id *id, const struct cm_rep *rep, const void *private_data,
		size_t private_len, uint64_t now)
{
	struct cm_msg m;

	if (id->state != CM_REQ_RCVD || private_len > CM_REP_PRIVATE)
		return -EINVAL;
	cm_set_state(id, CM_REP_SENT, now);
	id->local_guid = rep->local_ca_guid;
	id->local_qpn = rep->local_qpn;
	cm_msg_begin(&m, CM_ATTR_REP, id->tid);
	m.rep = *rep;
	if (id->xrc) {
		m.rep.local_eecn = rep->local_qpn;
		m.rep.local_qpn = 0;
	}
	m.rep.local_comm_id = id->local_comm_id;
	m.rep.remote_comm_id = id->remote_comm_id;
	cm_put_private(m.rep.private_data, sizeof(m.rep.private_data), private_data, private_len);
	cm_send_keep(id, &m);
	id->unheard_sent = 1;
	cm_arm_retries(id, id->wait_ns,
		       id->heard ? id->retries : min_of(id->retries, CM_REP_REPEATS), now);
	cm_half_open_replied(id);
	return 0;
}

int cm_rtu(struct cm_id *id, uint64_t now)
{
	struct cm_msg m;

	if (id->state != CM_REP_RCVD)
		return -EINVAL;
	cm_set_state(id, CM_ESTABLISHED, now);
	cm_msg_begin(&m, CM_ATTR_RTU, id->tid);
	m.rtu.local_comm_id = id->local_comm_id;
	m.rtu.remote_comm_id = id->remote_comm_id;
	cm_send_keep(id, &m);
	return 0;
}

int cm_established(struct cm_id *id, uint64_t now)
{
	struct cm_event ev = {.type = CM_EV_RTU};

	if (id->state != CM_REP_SENT)
		return id->state == CM_ESTABLISHED ? -EISCONN : -EINVAL;
	cm_heard(id); /* the data were for a queue pair that our REP has named */
	cm_passive_up(id, now);
	cm_emit(id, &ev);
	return 0;
}

int cm_reject(struct cm_id *id, uint16_t reason, const void *ari, size_t ari_len,
	      const void *private_data, size_t private_len, uint64_t now)
{
	if (ari_len > CM_REJ_ARI || private_len > CM_REJ_PRIVATE)
		return -EINVAL;
	switch (id->state) {
	case CM_REQ_RCVD:
	case CM_REP_RCVD:
		cm_send_rej(id, reason, ari, ari_len, private_data, private_len);
		cm_set_state(id, CM_TIMEWAIT, now);
		return 0;
	case CM_REP_SENT:
		cm_abandon(id, reason, ari, ari_len, private_data, private_len, now);
		return 0;
	default:
		return -EINVAL;
	}
}

int cm_mra(struct cm_id *id, uint8_t service_timeout, uint64_t now)
{
	(void)now;
	if ((id->state != CM_REQ_RCVD && id->state != CM_REP_RCVD) || service_timeout > 31)
		return -EINVAL;
	cm_send_mra(id, service_timeout);
	return 0;
}

int cm_dreq(struct cm_id *id, uint64_t now)
{
	if (id->state != CM_ESTABLISHED)
		return -EINVAL;
	cm_start_dreq(id, false, now);
	return 0;
}

int cm_drep(struct cm_id *id, uint64_t now)
{
	if (id->state != CM_DREQ_RCVD)
		return -EINVAL;
	cm_send_drep(id);
	cm_set_state(id, CM_TIMEWAIT, now);
	return 0;
}
