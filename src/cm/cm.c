/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/bytes.h"
#include "cm/cm_priv.h"

#define HURRIED_MAX (1600 * NSEC_PER_MSEC)

/* ---- the instance ------------------------------------------------------------------------- */

int cm_create(struct cm **ret, const struct cm_ops *ops, void *ctx)
{
	struct cm *cm = ops->alloc(ctx, sizeof(*cm));

	if (!cm)
		return -ENOMEM;
	*cm = (struct cm){.ops = *ops, .ctx = ctx, .counters = &cm->own_counters};
	cm->places = ops->alloc(ctx, CM_MAX_IDS * sizeof(*cm->places));
	if (!cm->places) {
		ops->free(ctx, cm);
		return -ENOMEM;
	}
	handles_init(&cm->handles, cm->places, CM_MAX_IDS, CM_GEN_BITS);
	for (size_t i = 0; i < ARRAY_SIZE(cm->scramble); i++)
		cm->scramble[i] = ops->random(ctx);
	cm->dreqs_until = DEADLINE_NEVER;
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
	cm->ops.free(cm->ctx, cm->places);
	cm->ops.free(cm->ctx, cm);
}

const struct cm_counters *cm_counters(const struct cm *cm)
{
	return cm->counters;
}

void cm_count_in(struct cm *cm, struct cm_counters *counters)
{
	cm->counters = counters;
}

size_t cm_busy(const struct cm *cm)
{
	size_t n = cm->tx_count + (cm->dreqs_until != DEADLINE_NEVER);

	list_for_each(id, &cm->ids, const struct cm_id, all)
		n += id->orphan && id->state == CM_DREQ_SENT;
	return n;
}

/* ---- time --------------------------------------------------------------------------------- */

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
		id->cm->counters->gave_up++;
	else
		id->cm->counters->unheard += id->state == CM_DREQ_SENT;
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
	id->cm->counters->retries++;
	if (id->state == CM_DREQ_SENT && id->heard)
		cm_send_dreq(id);
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
	return min_of(timer_heap_next(&cm->timers), cm->dreqs_until);
}

void cm_tick(struct cm *cm, uint64_t now)
{
	struct timer *t;

	cm->now = now;
	if (cm->dreqs_until <= now)
		cm->dreqs_until = DEADLINE_NEVER;
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
		cm_send_drep(id, now);
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
	cm_send_drep(id, now);
	cm_set_state(id, CM_TIMEWAIT, now);
	return 0;
}
