/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Recovery by going back: what follows a packet that was lost is sent again, too, unless both sides
 * know what of it has arrived (selective.c). */
#include "rnic/ib/clocks.h"
#include "rnic/ib/ib.h"

/* After so many without an answer the peer counts as gone, and no longer as slow. */
#define SILENT_PROBES 3

static void enter(struct recovery *v, enum recovery_state to)
{
	static const uint8_t ways[RECOVERY_STATES] = {
		[RECOVERY_NONE] = 1 << RECOVERY_PROBED | 1 << RECOVERY_RNR_WAIT,
		[RECOVERY_PROBED] = 1 << RECOVERY_NONE | 1 << RECOVERY_PROBED | 1 << RECOVERY_DOUBT,
		[RECOVERY_DOUBT] = 1 << RECOVERY_NONE | 1 << RECOVERY_PROBED,
		[RECOVERY_RNR_WAIT] = 1 << RECOVERY_NONE,
	};

	assert(ways[v->state] & 1 << to);
	v->state = to;
}

void recovery_start(struct rnic_qp *qp)
{
	*recovery_of(qp) = (struct recovery){
		.retry_left = qp->attr.retry_cnt,
		.rnr_left = qp->attr.rnr_retry,
		.lost_psn = RNIC_PSN_NONE,
		.again_psn = RNIC_PSN_NONE,
	};
}

/* ---- going back ----------------------------------------------------------------------------- */

static void rewind_cursor(struct rnic_qp *qp)
{
	struct recovery *v = recovery_of(qp);
	struct req *q = req_of(qp);

	trace(qp->rnic, TRACE_rewind, qp->qpn, q->una_psn, (q->psn - q->una_psn) & PSN_MASK);
	qp->sq.cur = qp->sq.una;
	q->psn = q->una_psn;
	flight_clear(qp);
	q->rd_out = 0;
	q->unasked = 0;
	q->failed = false;
	if (v->state != RECOVERY_RNR_WAIT && v->state != RECOVERY_NONE)
		enter(v, RECOVERY_NONE);
	v->probe_due = false;
	clock_time_nothing(qp);
	qp_activate(qp);
}

/* The packet at una_psn was lost, and what follows goes again with it, or as much of it as is not
 * known to have arrived. */
static void go_back(struct rnic_qp *qp)
{
	struct recovery *v = recovery_of(qp);

	if (!selective_of(qp)) {
		if (v->lost_psn != req_of(qp)->una_psn)
			cc_lost(qp, max_of(qp->mtu, PKT_COST_MIN), false);
		v->lost_psn = req_of(qp)->una_psn;
		rewind_cursor(qp);
		return;
	}
	if (v->state != RECOVERY_NONE)
		enter(v, RECOVERY_NONE);
	v->probe_due = false;
	selective_doubt(qp);
}

void recovery_gap(struct rnic_qp *qp)
{
	if (recovery_of(qp)->state != RECOVERY_RNR_WAIT)
		go_back(qp);
}

void recovery_gap_implied(struct rnic_qp *qp)
{
	struct recovery *v = recovery_of(qp);

	if (v->implied_nak)
		return;
	v->implied_nak = true;
	count(qp, implied_naks, 1);
	go_back(qp);
}

void recovery_rnr(struct rnic_qp *qp, uint8_t timer, uint64_t now)
{
	struct recovery *v = recovery_of(qp);

	count(qp, rx_rnr_nak, 1);
	if (v->state == RECOVERY_RNR_WAIT)
		return;
	if (qp->attr.rnr_retry != 7) {
		if (v->rnr_left == 0) {
			qp_fail_send(qp, RNIC_WC_RNR_RETRY_EXC_ERR, RNIC_CAUSE_RNR_RETRY);
			return;
		}
		v->rnr_left--;
	}
	v->retry_left = qp->attr.retry_cnt; /* the peer lives */
	if (selective_of(qp))
		selective_forget(qp); /* all goes again, what the peer keeps in vain among it */
	rewind_cursor(qp);
	enter(v, RECOVERY_RNR_WAIT);
	v->rnr_until_ns = now + rnr_timer_ns(timer);
	v->base_ns = 0;
	trace(qp->rnic, TRACE_rnr_wait, qp->qpn, req_of(qp)->una_psn, rnr_timer_ns(timer));
	clock_arm(qp);
}

/* ---- probing -------------------------------------------------------------------------------- */

/* Of so many packets from the oldest on, those that are missing together with it. That another's
 * answer is here says that the request was carried out: then it may be asked for in parts. */
static uint32_t missing_of(const struct rnic_qp *qp, const struct send_wqe *w, uint32_t span)
{
	if (likely(selective_of(qp) == NULL) || !wqe_wants_response(w))
		return span;
	for (uint32_t i = 1; i < span; i++)
		if (selective_has(qp, psn_add(req_of(qp)->una_psn, i)))
			return i;
	return span;
}

bool recovery_tx(struct rnic_qp *qp, struct packet_tx *tx)
{
	struct recovery *v = recovery_of(qp);
	const struct req *q = req_of(qp);
	const struct send_wqe *w = sq_at(&qp->sq, qp->sq.una);
	uint32_t idx = (q->una_psn - w->first_psn) & PSN_MASK, span = request_span(w, idx);

	v->probe_due = false;
	if (q->una_psn == q->max_psn)
		return false; /* answered meanwhile */
	span = missing_of(qp, w, span);
	if (unlikely(selective_of(qp) != NULL))
		selective_goes_again(qp, w, idx, span);
	v->probe_end = psn_add(q->una_psn, span);
	v->probe_max = q->max_psn;
	/* What was lost and goes again behind the probe is not acknowledged with it. */
	v->probe_tells = !wqe_wants_response(w) && !lost_waits(qp) &&
			 (v->state == RECOVERY_DOUBT || idx + 1 != w->npkts);
	enter(v, RECOVERY_PROBED);
	if (request_build(qp, tx, w, idx, span, true)) {
		qp_fail_send(qp, RNIC_WC_LOC_PROT_ERR, qp->rnic->denial.cause);
		return false;
	}
	count(qp, tx_retransmit, 1);
	return true;
}

/* Or goes back, if READs were probed for: of these every packet is an answer, and one that is asked
 * for again tells no more than the one before. */
static void send_oldest_again(struct rnic_qp *qp, uint64_t now)
{
	struct recovery *v = recovery_of(qp);
	const struct req *q = req_of(qp);

	if (v->state == RECOVERY_DOUBT && wqe_wants_response(sq_at(&qp->sq, qp->sq.una))) {
		go_back(qp);
	} else if (q->psn != q->una_psn) { /* else rewound, and not yet sent again */
		/* Of several the first is answered first. */
		if (!v->echo.running || v->echo.psn != q->una_psn)
			v->echo =
				(struct timed_pkt){v->again_psn == RNIC_PSN_NONE, q->una_psn, now};
		v->probe_due = true;
		clock_time_nothing(qp);
		qp_activate(qp);
	}
	v->probe_ns = now + clock_rto_ns(qp);
}

/* What was sent before the probe and is not acknowledged by its answer was lost, if it is the
 * probe's answer and not an older one, from a peer that only takes its time. It is the probe's if
 * it acknowledges the probe's packet and no more, though nothing but the probe asked for that: what
 * was sent in between would have been acknowledged with it. Else what came after is answered next,
 * so that a moment tells; and if nothing is, another probe does. */
static void probe_answered(struct rnic_qp *qp, uint64_t now)
{
	struct recovery *v = recovery_of(qp);
	const struct req *q = req_of(qp);
	uint64_t answer = max_of(2 * (now - v->echo.sent_ns), v->srtt_ns);

	if (psn_diff(v->probe_max, q->una_psn) <= 0) {
		enter(v, RECOVERY_NONE);
		return;
	}
	if (v->probe_tells && q->una_psn == v->probe_end) {
		go_back(qp);
		return;
	}
	enter(v, RECOVERY_DOUBT);
	v->probe_ns = now + max_of(answer, CLOCK_DOUBT_NS);
	clock_arm(qp);
}

void recovery_progress(struct rnic_qp *qp, uint64_t now)
{
	struct recovery *v = recovery_of(qp);
	const struct req *q = req_of(qp);

	if (v->timed.running && psn_diff(q->una_psn, v->timed.psn) > 0) {
		clock_time_nothing(qp);
		clock_rtt_sample(qp, now - v->timed.sent_ns);
	}
	if (unlikely(v->state == RECOVERY_DOUBT || v->state == RECOVERY_RNR_WAIT))
		enter(v, RECOVERY_NONE);
	if (unlikely(v->again_psn != RNIC_PSN_NONE) && psn_diff(q->una_psn, v->again_psn) >= 0)
		v->again_psn = RNIC_PSN_NONE;
	v->implied_nak = false;
	v->backoff = 0;
	v->retry_left = qp->attr.retry_cnt;
	v->rnr_left = qp->attr.rnr_retry;
	if (q->una_psn == q->max_psn) {
		v->base_ns = 0;
		v->probe_due = false;
		if (unlikely(v->state == RECOVERY_PROBED))
			enter(v, RECOVERY_NONE);
	} else {
		clock_restart(qp, now);
	}
	if (unlikely(v->state == RECOVERY_PROBED) && psn_diff(q->una_psn, v->probe_end) >= 0)
		probe_answered(qp, now);
}

/* ---- time ----------------------------------------------------------------------------------- */

static void suspect_mtu(const struct rnic_qp *qp)
{
	const struct rnic *r = qp->rnic;
	const struct req *q = req_of(qp);
	const struct send_wqe *w = sq_at(&qp->sq, qp->sq.una);

	if (r->ops.mtu_suspected && q->acked == ACKED_SHORT &&
	    pkt_is_full(qp, w, (q->una_psn - w->first_psn) & PSN_MASK))
		r->ops.mtu_suspected(r->ctx, qp->qpn, qp->mtu);
}

static void timeout(struct rnic_qp *qp, uint64_t now)
{
	struct recovery *v = recovery_of(qp);

	if (v->probe_due && pacer_holds(qp, now)) { /* the last one has not left yet */
		v->base_ns = now;
		return;
	}
	count(qp, timeouts, 1);
	trace(qp->rnic, TRACE_timeout, qp->qpn, req_of(qp)->una_psn, v->retry_left);
	if (v->retry_left == 0) {
		suspect_mtu(qp);
		qp_fail_send(qp, RNIC_WC_RETRY_EXC_ERR, RNIC_CAUSE_RETRY);
		return;
	}
	v->retry_left--;
	v->base_ns = now;
	budget_give_up(qp);
	send_oldest_again(qp, now);
}

static void probe(struct rnic_qp *qp, uint64_t now)
{
	struct recovery *v = recovery_of(qp);

	if (selective_of(qp) && v->state == RECOVERY_NONE && !v->backoff && selective_again(qp)) {
		v->backoff++;
		if (v->rto_shift < 30)
			v->rto_shift++;
		v->probe_ns = now + clock_rto_ns(qp);
		return;
	}
	if (v->state != RECOVERY_DOUBT) {
		if (v->backoff < 30)
			v->backoff++;
		if (v->rto_shift < 30)
			v->rto_shift++;
		if (v->backoff >= SILENT_PROBES)
			budget_give_up(qp);
	}
	trace(qp->rnic, TRACE_probe, qp->qpn, req_of(qp)->una_psn, v->backoff);
	send_oldest_again(qp, now);
	count(qp, probes, v->probe_due);
}

void recovery_timer(struct rnic_qp *qp, uint64_t now)
{
	struct recovery *v = recovery_of(qp);
	uint64_t limit = clock_ack_timeout_ns(qp);

	if (!qp_requester_runs(qp))
		return;
	if (v->state == RECOVERY_RNR_WAIT) {
		if (now >= v->rnr_until_ns) {
			enter(v, RECOVERY_NONE);
			v->base_ns = 0;
			qp_activate(qp);
		}
	} else if (v->base_ns) {
		if (limit && now >= v->base_ns + limit)
			timeout(qp, now);
		else if (now >= v->probe_ns)
			probe(qp, now);
	}
	if (qp_requester_runs(qp))
		clock_arm(qp);
}
