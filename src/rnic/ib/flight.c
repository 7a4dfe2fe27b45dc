/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * How much of a QP may be on the way, in bytes as a receiver's socket buffer counts them, where the
 * smallest packet takes PKT_COST_MIN: within the window of its congestion control (cc/), and
 * within the budgets of the sockets (budget.c). From the first probe until there is progress no
 * more than a small share is sent, and it takes nothing of the budget.
 */
#include "rnic/ib/ib.h"

uint32_t flight_cost(const struct rnic_qp *qp, const struct send_wqe *w, uint32_t from, uint32_t to)
{
	uint32_t full = max_of(qp->mtu, PKT_COST_MIN), last;

	if (to < w->npkts)
		return (to - from) * full;
	last = w->length - (w->npkts - 1) * qp->mtu;
	return (to - from - 1) * full + max_of(last, PKT_COST_MIN);
}

#define CHUNK_LEAST (8u << 10)

/* With few READs allowed at once each asks for more; but answers come as fast as the peer's line
 * is, so that one should not ask for more than a way is found to hold. */
uint32_t flight_chunk_pkts(const struct rnic_qp *qp)
{
	uint32_t at_once = qp->attr.max_rd_atomic >= 4 ? 4 : qp->attr.max_rd_atomic == 3 ? 3 : 2;
	uint32_t bytes = min_of(qp->rnic->window_bytes / at_once, qp->rnic->ask_bytes), pkts;
	uint32_t fits = max_of(qp->cc.window / at_once, CHUNK_LEAST);

	bytes = min_of(bytes, fits);
	pkts = bytes / max_of(qp->mtu, PKT_COST_MIN);
	if (selective_of(qp))
		pkts = min_of(pkts, SELECTIVE_PSNS / 2);
	return max_of(pkts, 1u);
}

bool flight_allows(struct rnic_qp *qp, const struct send_wqe *w, uint32_t cost)
{
	uint32_t there = on_the_way(qp), needs = cost;

	if (selective_of(qp) && w->opcode == RNIC_WR_RDMA_READ && cost > qp->cc.window / 4)
		needs = max_of(cost / 2, PKT_COST_MIN);
	if (there && there + needs > qp->cc.window) {
		count(qp, window_stalls, 1);
		return false;
	}
	if (recovery_silent(recovery_of(qp)) || there + cost <= FLIGHT_SHARE)
		return !there || there + cost <= FLIGHT_SHARE;
	return budget_allows(qp, w, cost);
}

uint32_t flight_room(const struct rnic_qp *qp)
{
	uint32_t there = on_the_way(qp), most = qp->cc.window;

	if (recovery_silent(recovery_of(qp)))
		most = min_of(most, FLIGHT_SHARE);
	return most > there ? most - there : 0;
}

bool flight_needs_answer(const struct rnic_qp *qp, const struct send_wqe *w, uint32_t cost)
{
	const struct req *q = req_of(qp);
	uint32_t next = cost + max_of(qp->mtu, PKT_COST_MIN);

	return q->unasked + cost >= min_of(qp->cc.window, qp->rnic->socket_bytes) / 4 ||
	       on_the_way(qp) + next > qp->cc.window ||
	       (q->unasked + next > FLIGHT_SHARE && budget_scarce(qp, w, next));
}

void flight_sent(struct rnic_qp *qp, const struct send_wqe *w, uint32_t cost)
{
	struct req *q = req_of(qp);

	q->inflight += cost;
	q->inflight_most = max_of(q->inflight_most, q->inflight);
	if (!recovery_silent(recovery_of(qp)))
		budget_take(qp, w, cost);
}

void flight_acked(struct rnic_qp *qp, const struct send_wqe *w, uint32_t cost)
{
	struct req *q = req_of(qp);

	assert(q->inflight >= cost);
	q->inflight -= cost;
	budget_give_back(qp, w, cost);
	qp->cc.used = q->inflight_most >= qp->cc.window / 2;
	cc_acked(qp, cost);
}

void flight_clear(struct rnic_qp *qp)
{
	req_of(qp)->inflight = 0;
	budget_give_up(qp);
}
