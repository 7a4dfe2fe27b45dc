/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The unreliable services (IBA volume 1, 9.8). Nothing is acknowledged: a send is complete when its
 * last packet has been handed out, and what goes wrong at the peer the sender does not learn.
 *
 * There is no window, since nobody answers, and a socket's buffer that is run over loses whole
 * messages. So all unreliable QPs together keep a pace: a socketful is taken to drain in DRAIN_NS,
 * so that a larger buffer is filled faster and covers as long a pause of its receiver, and no more
 * than a socketful may be ahead of that.
 */
#include "rnic/ib/ib.h"

#define DRAIN_NS (256 * NSEC_PER_USEC)

static uint64_t pace_time(const struct rnic *r, uint32_t bytes)
{
	return bytes * DRAIN_NS / r->socket_bytes;
}

/* ---- sending -------------------------------------------------------------------------------- */

/* What stands at the cursor and needs no packet. False: there is nothing to be sent after it. */
static bool local_tx(struct rnic_qp *qp)
{
	struct sq *sq = &qp->sq;

	for (; sq->cur != sq->prod; sq_complete(qp, RNIC_WC_SUCCESS)) {
		const struct send_wqe *w = sq_at(sq, sq->cur);

		if (likely(!wqe_is_local(w)))
			return true;
		if (qp->state != RNIC_QPS_RTS)
			return false; /* SQD: nothing new is begun */
		if (mw_execute(qp, w)) {
			qp_fail_sq(qp, RNIC_WC_MW_BIND_ERR, RNIC_CAUSE_WINDOW);
			return false;
		}
	}
	return false;
}

bool unreliable_awaits(const struct rnic_qp *qp)
{
	return req_of(qp)->sent_poll == qp->rnic->polls;
}

bool unreliable_tx(struct rnic_qp *qp, struct packet_tx *tx, uint64_t now)
{
	struct rnic *r = qp->rnic;
	struct req *q = req_of(qp);
	struct sq *sq = &qp->sq;
	struct send_wqe *w;
	uint32_t idx;

	if (!qp_requester_runs(qp) || !local_tx(qp))
		return false;
	if (r->pace_ns > now + DRAIN_NS) {
		pacer_wake_at(qp, r->pace_ns - DRAIN_NS / 2);
		return false;
	}
	w = sq_at(sq, sq->cur);
	if (!w->begun) {
		if (qp->state != RNIC_QPS_RTS)
			return false; /* SQD: nothing new is begun */
		if (qp->service->datagrams && w->length > qp->mtu) {
			qp_fail_sq(qp, RNIC_WC_LOC_LEN_ERR, RNIC_CAUSE_DATAGRAM_LENGTH);
			return false;
		}
		w->first_psn = q->psn;
		w->npkts = pkts_of(w->length, qp->mtu);
		w->begun = true;
	}
	idx = (q->psn - w->first_psn) & PSN_MASK;
	if (request_build(qp, tx, w, idx, 1, false)) {
		qp_fail_sq(qp, RNIC_WC_LOC_PROT_ERR, r->denial.cause);
		return false;
	}
	r->pace_ns = max_of(r->pace_ns, now) + pace_time(r, max_of(tx->payload_len, PKT_COST_MIN));
	q->sent_poll = r->polls;
	q->psn = q->una_psn = q->max_psn = psn_add(q->psn, 1);
	if (idx + 1 == w->npkts) {
		sq_complete(qp, RNIC_WC_SUCCESS);
		qp_check_drained(qp);
	}
	return true;
}

/* ---- receiving ------------------------------------------------------------------------------ */

void unreliable_recv_broken(struct rnic_qp *qp)
{
	recv_fail(qp, RNIC_WC_LOC_PROT_ERR);
	qp_fail_recv(qp, qp->rnic->denial.cause, qp->service->opcodes | OPCODE_RC_SEND_ONLY);
}
