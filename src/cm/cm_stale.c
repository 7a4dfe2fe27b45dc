/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Stale connections (IBA 12.9.8.3.1). A REQ or REP that names a queue pair which a live connection
 * has for its peer's is rejected, as the standard says. Whether the old connection is dead is
 * another question, since anybody can send such a REQ; so the peer is asked before it is ended.
 *
 * The question is a DREQ with the connection's ids, for queue pair 0, which is nobody's. A CM that
 * does not have the connection answers every DREQ with a DREP; one that has it passes over a DREQ
 * for another queue pair than the connection's (both Linux cm.c does, and cm_rx.c). So silence
 * means life, or nobody there, of which the transport's retries tell; and the answer shows that its
 * sender has seen the question.
 */
#include "cm/cm_priv.h"

#define QUESTION_FIRST_NS (500 * NSEC_PER_MSEC)
#define QUESTION_REPEATS  2
#define QUESTION_REST_NS  (5 * NSEC_PER_SEC) /* before there is another */

static void ask(struct cm_id *id)
{
	struct cm_msg m;

	cm_msg_begin(&m, CM_ATTR_DREQ, id->question);
	m.dreq.local_comm_id = id->local_comm_id;
	m.dreq.remote_comm_id = id->remote_comm_id;
	cm_send(id->cm, &id->flow, &m);
}

void cm_suspect(struct cm_id *id, uint64_t now)
{
	struct cm *cm = id->cm;

	if (id->state != CM_ESTABLISHED || id->timer.armed || !cm_may_ask(cm))
		return;
	cm->counters->stale++;
	id->question = (uint64_t)cm->ops.random(cm->ctx) << 32 | cm->ops.random(cm->ctx) | 1;
	ask(id);
	cm_arm_retries(id, QUESTION_FIRST_NS, QUESTION_REPEATS, now);
}

void cm_suspect_again(struct cm_id *id, uint64_t now)
{
	if (!id->question)
		return;
	if (!id->tries_left) {
		id->question = 0;
		timer_arm(&id->cm->timers, &id->timer, now + QUESTION_REST_NS);
		return;
	}
	ask(id);
	cm_arm_retries(id, 2 * id->wait_ns, id->tries_left - 1, now);
}

void cm_passive_up(struct cm_id *id, uint64_t now)
{
	struct cm_id *old = cm_find_qpn(id->cm, id->peer_guid, &id->flow.dgid, id->peer_qpn);

	if (old)
		cm_suspect(old, now);
	cm_set_state(id, CM_ESTABLISHED, now);
	cm_hash_qpn(id);
}
