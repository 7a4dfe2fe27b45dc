/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * How fast a queue pair may send: at the static rate of the address (IBA volume 1, 9.11) or at the
 * rate of its congestion control, whichever is lower. No more than a burst goes at once, and not
 * more than the rate in the long run. Its timer is the congestion control's, too.
 */
#include "rnic/core.h"

#define BURST_NS (250 * NSEC_PER_USEC)

void pacer_wake_at(struct rnic_qp *qp, uint64_t due)
{
	if (!qp->pace_timer.armed || due < qp->pace_timer.deadline_ns)
		timer_arm(&qp->rnic->pace_timers, &qp->pace_timer, due);
}

void pacer_hold(struct rnic_qp *qp)
{
	pacer_wake_at(qp, qp->paid_ns - qp->ahead_ns / 2);
}

static uint64_t time_of(uint32_t kbps, uint32_t bytes)
{
	return bytes * 8000000ull / kbps;
}

/* What goes at once at the rate of congestion control: a queue on the way should not see much of
 * it, and who sends should not be called for each packet. */
static uint32_t burst_of(const struct rnic_qp *qp, uint32_t kbps)
{
	uint64_t bytes = (uint64_t)kbps * BURST_NS / 8000000;

	bytes = max_of(bytes, 2ull * qp->mtu);
	return (uint32_t)min_of(bytes, (uint64_t)qp->rnic->turn_bytes);
}

/* ---- congestion control --------------------------------------------------------------------- */

static void settle(struct rnic_qp *qp)
{
	assert(qp->cc.window <= qp->cc.window_max);
	if (qp->cc.tick_ns != DEADLINE_NEVER)
		pacer_wake_at(qp, qp->cc.tick_ns);
}

void cc_begin(struct rnic_qp *qp)
{
	const struct rnic *r = qp->rnic;
	const struct cc_params *params = qp->attr.cc_params ? qp->attr.cc_params : &r->cc_params;

	cc_start(&qp->cc, cc_of(qp), params, r->window_bytes, r->now);
	settle(qp);
}

void cc_tell_acked(struct rnic_qp *qp, uint32_t bytes)
{
	qp->cc.ops->acked(&qp->cc, bytes, qp->rnic->now);
	settle(qp);
}

void cc_tell_rtt(struct rnic_qp *qp, uint64_t rtt_ns)
{
	qp->cc.ops->rtt(&qp->cc, rtt_ns, qp->rnic->now);
	settle(qp);
}

void cc_lost(struct rnic_qp *qp, uint32_t bytes, bool again)
{
	if (!qp->cc.ops->lost)
		return;
	qp->cc.ops->lost(&qp->cc, bytes, again, qp->rnic->now);
	settle(qp);
}

void cc_tell(struct rnic_qp *qp, void (*op)(struct cc *, uint64_t now))
{
	if (!op)
		return;
	op(&qp->cc, qp->rnic->now);
	settle(qp);
}

static bool is_answer(const struct packet_tx *tx)
{
	return opcode_table[tx->hdr[0]].flags & OPF_RESPONSE;
}

void pacer_pay(struct rnic_qp *qp, const struct packet_tx *tx, uint64_t now)
{
	uint32_t kbps = tx->flow->rate_mbps * 1000, burst = qp->rnic->turn_bytes;

	if (qp->cc.ops->sent) {
		qp->cc.ops->sent(&qp->cc, max_of(tx->payload_len, PKT_COST_MIN), now);
		settle(qp);
	}
	if (qp->cc.rate_kbps && (!kbps || qp->cc.rate_kbps < kbps) &&
	    !(qp->cc.ops->rate_of_window && is_answer(tx))) {
		kbps = qp->cc.rate_kbps;
		burst = burst_of(qp, kbps);
	}
	if (!kbps)
		return;
	qp->ahead_ns = time_of(kbps, burst);
	qp->paid_ns = max_of(qp->paid_ns, now) +
		      time_of(kbps, tx->hdr_len + tx->payload_len + WIRE_OVERHEAD);
}

void pacer_timer_fired(struct rnic_qp *qp, uint64_t now)
{
	if (qp->cc.tick_ns <= now) {
		qp->cc.tick_ns = DEADLINE_NEVER;
		cc_tell(qp, qp->cc.ops->tick);
	} else {
		settle(qp);
	}
	qp_activate(qp);
}
