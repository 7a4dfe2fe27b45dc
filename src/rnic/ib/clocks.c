/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Of recovery: its two clocks, and how long a round trip takes, by which one of them goes. */
#include "rnic/ib/clocks.h"

#include "rnic/ib/ib.h"

#define RTO_MIN_NS (5 * NSEC_PER_MSEC)
#define SHIFT_MOST 8
#define RTO_MAX_NS NSEC_PER_SEC /* where the QP has no transport timeout; and of a sample */
/* Of the first sample, which counts whole, and in which this host may not have run for a while.
 * Ways that are longer are learnt by those that follow. */
#define RTT_FIRST_MAX_NS (50 * NSEC_PER_MSEC)

uint64_t clock_ack_timeout_ns(const struct rnic_qp *qp)
{
	return qp->attr.timeout ? 4096ull << qp->attr.timeout : 0;
}

uint64_t clock_rto_ns(const struct rnic_qp *qp)
{
	const struct recovery *v = recovery_of(qp);
	uint64_t cap = qp->attr.timeout ? clock_ack_timeout_ns(qp) : RTO_MAX_NS;
	uint64_t rto = max_of(v->srtt_ns * 4, RTO_MIN_NS);

	/* Progress alone does not bring it back to what was too short (RFC 6298, 5.7). */
	return rto < cap >> v->rto_shift ? rto << v->rto_shift : cap;
}

void clock_arm(struct rnic_qp *qp)
{
	const struct recovery *v = recovery_of(qp);
	uint64_t limit = clock_ack_timeout_ns(qp), due;

	if (v->state == RECOVERY_RNR_WAIT)
		due = v->rnr_until_ns;
	else if (!v->base_ns)
		return;
	else
		due = limit ? min_of(v->probe_ns, v->base_ns + limit) : v->probe_ns;
	if (!qp->timer.armed || due < qp->timer.deadline_ns)
		timer_arm(&qp->rnic->timers, &qp->timer, due);
}

/* (Re)starts the probe clock, and the transport timer if nothing was outstanding. */
static void clock_sent(struct rnic_qp *qp, uint64_t now)
{
	struct recovery *v = recovery_of(qp);

	if (!v->base_ns)
		v->base_ns = max_of(now, 1ull);
	v->probe_ns = now + clock_rto_ns(qp);
	clock_arm(qp);
}

void clock_restart(struct rnic_qp *qp, uint64_t now)
{
	recovery_of(qp)->base_ns = 0;
	clock_sent(qp, now);
}

/* ---- round trips ---------------------------------------------------------------------------- */

void clock_rtt_sample(struct rnic_qp *qp, uint64_t rtt)
{
	struct recovery *v = recovery_of(qp);
	struct req *q = req_of(qp);

	v->rto_shift = 0;
	v->srtt_ns =
		v->srtt_ns ? v->srtt_ns - v->srtt_ns / 8 + rtt / 8 : min_of(rtt, RTT_FIRST_MAX_NS);
	cc_rtt(qp, rtt);
	q->inflight_most = max_of(q->inflight, q->inflight_most / 2);
}

/* A packet that was probed for gives no sample, since nobody knows which of the two was answered.
 * If both were, the second answer is the probe's: without it a round trip longer than the first
 * guess would be probed for ever. */
void recovery_stray(struct rnic_qp *qp, uint32_t psn, uint64_t now)
{
	struct recovery *v = recovery_of(qp);

	if (!v->echo.running || psn_diff(psn, v->echo.psn) < 0 ||
	    psn_diff(psn, req_of(qp)->una_psn) >= 0)
		return;
	v->echo.running = false;
	/* So late it answers something else: one of the two may have been lost. */
	if (now - v->echo.sent_ns <= RTO_MAX_NS)
		clock_rtt_sample(qp, now - v->echo.sent_ns);
}

void clock_time_nothing(struct rnic_qp *qp)
{
	struct recovery *v = recovery_of(qp);

	v->timed.running = v->timed_else.running = false;
}

static bool among(uint32_t psn, uint32_t first, uint32_t n)
{
	return ((psn - first) & PSN_MASK) < n;
}

void recovery_resent(struct rnic_qp *qp, uint32_t psn, uint32_t n, uint64_t now)
{
	struct recovery *v = recovery_of(qp);

	count(qp, tx_retransmit, 1);
	if (among(v->timed_else.psn, psn, n))
		v->timed_else.running = false;
	if (among(v->timed.psn, psn, n)) {
		v->timed = v->timed_else;
		v->timed_else.running = false;
	}
	v->again_psn = req_of(qp)->max_psn;
	v->echo.running = false;
	if (psn == req_of(qp)->una_psn)
		clock_sent(qp, now);
}

void recovery_arrived(struct rnic_qp *qp, uint32_t psn)
{
	struct recovery *v = recovery_of(qp);

	v->backoff = 0;
	if (!v->timed.running || psn != v->timed.psn)
		return;
	clock_time_nothing(qp);
	clock_rtt_sample(qp, qp->rnic->now - v->timed.sent_ns);
}

void recovery_look_soon(struct rnic_qp *qp, uint64_t now)
{
	struct recovery *v = recovery_of(qp);
	/* A peer that was late for the last of these is given more time. */
	uint64_t wait = max_of(v->srtt_ns * 2, CLOCK_DOUBT_NS) << min_of(v->rto_shift, SHIFT_MOST);
	uint64_t soon = now + wait;

	if (!v->base_ns || soon >= v->probe_ns)
		return;
	v->probe_ns = soon;
	clock_arm(qp);
}

void recovery_sent(struct rnic_qp *qp, bool asked, uint64_t now)
{
	const struct req *q = req_of(qp);
	struct recovery *v = recovery_of(qp);

	if (q->psn != q->max_psn)
		count(qp, tx_retransmit, 1);
	else if (!v->timed.running)
		v->timed = (struct timed_pkt){asked, q->psn, now};
	else if (!v->timed_else.running)
		v->timed_else = (struct timed_pkt){asked, q->psn, now};
	if (q->psn == q->una_psn)
		clock_sent(qp, now);
}
