/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Whoever can send packets can put any source address into them. Until a peer has repeated
 * something that we alone have told it, nobody knows whether there is such a peer; what is done for
 * it is little, and bounded:
 *
 *  - One REQ brings at most CM_UNHEARD_MAX MADs, each as long as its own, however many times and
 *    for how long it asks to be tried; every other message one.
 *  - Answers that need no consumer are at most CM_ANSWERS_PER_SEC to all strangers together.
 *  - Half-open connections are bounded, for each source and in all. What waits for its consumer
 *    has its turn, and what comes beyond is as if lost; of those that have their REP the oldest
 *    goes first, for who is there answers at once.
 *  - So are the requests of a source in a second: an application has something else to do.
 *  - When there are more than a few, or more than a few come in a second, a request of a source
 *    that is not known is not taken in at once. The source is asked (by a DREQ for no connection,
 * which every CM answers with a DREP), and the request waits for the answer. So who forges
 * addresses gets no further, and who is where he says is served while the other sends. Known is who
 * has answered so, or has had a connection, not long ago.
 */
#include <string.h>

#include "cm/cm_priv.h"

/* ---- pace --------------------------------------------------------------------------------- */

bool cm_may_answer(struct cm *cm)
{
	bool yes = pace_take(&cm->answers, cm->now, CM_ANSWERS_PER_SEC, CM_BURST);

	cm->counters->withheld += !yes;
	return yes;
}

bool cm_may_ask(struct cm *cm)
{
	bool yes = pace_take(&cm->asks, cm->now, CM_ASKS_PER_SEC, CM_BURST);

	cm->counters->withheld += !yes;
	return yes;
}

/* ---- half-open connections ---------------------------------------------------------------- */

static bool is_calm(const struct cm *cm)
{
	return cm->waiting_count + cm->replied_count < CM_HALF_OPEN_CALM;
}

static bool is_crowded(const struct cm *cm, const struct gid *from)
{
	return cm->waiting_count >= CM_WAITING_MAX ||
	       cm->waiting_from_count[cm_source_of(cm, from)] >= CM_WAITING_FROM;
}

/* As if it had not been answered in time. */
static void give_up(struct cm_id *id)
{
	struct cm_event ev = {.type = CM_EV_TIMEOUT};

	id->cm->counters->crowded_out++;
	cm_set_state(id, CM_TIMEWAIT, id->cm->now);
	cm_set_state(id, CM_IDLE, id->cm->now);
	cm_emit(id, &ev);
}

void cm_half_open_replied(struct cm_id *id)
{
	struct cm *cm = id->cm;
	uint32_t source = cm_source_of(cm, &id->flow.dgid);

	if (id->heard)
		return;
	list_push_tail(&cm->replied, &id->replied);
	list_push_tail(&cm->replied_from[source], &id->replied_from);
	cm->replied_count++;
	if (++cm->replied_from_count[source] > CM_REPLIED_FROM)
		give_up(list_entry(cm->replied_from[source].next, struct cm_id, replied_from));
	else if (cm->replied_count > CM_REPLIED_MAX)
		give_up(list_entry(cm->replied.next, struct cm_id, replied));
}

/* ---- who is known ------------------------------------------------------------------------- */

static struct cm_known *place_of(struct cm *cm, const struct gid *gid)
{
	return &cm->known[cm_hash_gid(cm, gid) % CM_KNOWN];
}

static void know(struct cm *cm, const struct gid *gid)
{
	*place_of(cm, gid) = (struct cm_known){*gid, cm->now + CM_KNOWN_NS};
}

void cm_heard(struct cm_id *id)
{
	if (id->heard)
		return;
	id->heard = true;
	know(id->cm, &id->flow.dgid);
	cm_half_open_end(id);
	if (id->state == CM_REP_SENT) /* it has as many as it wants */
		id->tries_left = id->retries;
	cm_brief_heard(id);
}

static void ask(struct cm *cm, const struct flow *back, const uint8_t *mad, uint32_t their_id)
{
	uint32_t at = cm->next_asked++ % CM_ASKED;
	struct cm_asked *a = &cm->asked[at];
	struct cm_msg m;

	a->flow = (struct flow){
		.sgid = back->dgid, .dgid = back->sgid, .tos = back->tos, .scope = back->scope};
	memcpy(a->mad, mad, MAD_LEN);
	/* What cannot be guessed, and the place; never 0. */
	a->tid = (uint64_t)cm->ops.random(cm->ctx) << 32 | cm->ops.random(cm->ctx);
	a->tid = (a->tid & ~(CM_ASKED - 1ull)) | 1ull << 63 | at;
	cm_msg_begin(&m, CM_ATTR_DREQ, a->tid);
	m.dreq.local_comm_id = cm->ops.random(cm->ctx) | 1;
	m.dreq.remote_comm_id = their_id;
	cm_send(cm, back, &m);
}

bool cm_welcome(struct cm *cm, const struct flow *back, const uint8_t *mad, uint32_t their_id)
{
	const struct cm_known *k = place_of(cm, &back->dgid);

	if (is_crowded(cm, &back->dgid) || !pace_take(&cm->from[cm_source_of(cm, &back->dgid)],
						      cm->now, CM_REQS_FROM_PER_SEC, CM_BURST)) {
		cm->counters->crowded_out++; /* the peer asks again */
		return false;
	}
	if ((gid_equal(&k->gid, &back->dgid) && cm->now < k->until) ||
	    (is_calm(cm) &&
	     pace_take(&cm->unasked, cm->now, CM_UNASKED_PER_SEC, CM_HALF_OPEN_CALM)))
		return true;
	cm->counters->asked++;
	if (cm_may_ask(cm))
		ask(cm, back, mad, their_id);
	return false;
}

bool cm_welcome_after_all(struct cm *cm, const struct flow *back, uint64_t tid,
			  struct flow *ret_flow, uint8_t ret_mad[MAD_LEN])
{
	struct cm_asked *a = &cm->asked[tid % CM_ASKED];

	if (!tid || a->tid != tid || !gid_equal(&a->flow.sgid, &back->dgid) ||
	    !gid_equal(&a->flow.dgid, &back->sgid))
		return false;
	a->tid = 0;
	know(cm, &back->dgid);
	*ret_flow = a->flow;
	memcpy(ret_mad, a->mad, MAD_LEN);
	return true;
}
