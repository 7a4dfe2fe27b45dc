/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * How much may be on the way. Two bounds, both in bytes as a receiver's socket buffer counts them,
 * where the smallest packet takes WINDOW_PKT_MIN:
 *
 *   the window  of each QP; a loss halves it, down to a small share, and what is acknowledged
 *               brings back an eighth of its bytes: going back costs a window's packets, so that a
 *               wire that loses one in a hundred is best used by windows of some dozens;
 *   the budget  of each socket that receives, for all our QPs that send there: the peers' sockets
 *               (found by address and QPN slot; two that fall on one entry share it and do no
 *               harm), and our own for the READ responses we asked for.
 *
 * Who needs more of a budget than there is stands in its line, first come, first served; only what
 * is within a small share goes at once, so that short messages do not wait behind long ones.
 * What is given back wakes the first in the line, and one that stops sending for another reason
 * the next. Who holds some always gives it back: with answers, or, when none come, with the third
 * probe or a timeout, so a dead peer costs the others little. A slow one, which still has to work
 * off what was sent, has answered by then: to let others send as much in its silence would overrun
 * it. From the first probe until there is progress no more than a small share is sent, and it takes
 * nothing of the budget.
 */
#include "rnic/core.h"

uint32_t wqe_cost(const struct rnic_qp *qp, const struct send_wqe *w, uint32_t from, uint32_t to)
{
	uint32_t full = max_of(qp->mtu, WINDOW_PKT_MIN), last;

	if (to < w->npkts)
		return (to - from) * full;
	last = w->length - (w->npkts - 1) * qp->mtu;
	return (to - from - 1) * full + max_of(last, WINDOW_PKT_MIN);
}

/* With few READs allowed at once each asks for more. */
uint32_t read_chunk_pkts(const struct rnic_qp *qp)
{
	uint32_t at_once = qp->attr.max_rd_atomic >= 4 ? 4 : qp->attr.max_rd_atomic == 3 ? 3 : 2;
	uint32_t pkts = qp->rnic->window_bytes / at_once / max_of(qp->mtu, WINDOW_PKT_MIN);

	return max_of(pkts, 1u);
}

static struct budget *budget_of(const struct rnic_qp *qp, const struct send_wqe *w)
{
	return w->opcode == RNIC_WR_RDMA_READ ? &qp->rnic->own_socket : qp->peer_socket;
}

/* What this QP holds of it. */
static uint32_t *held_of(struct rnic_qp *qp, const struct send_wqe *w)
{
	return w->opcode == RNIC_WR_RDMA_READ ? &qp->req.held_own : &qp->req.held_peer;
}

void window_set_peer(struct rnic_qp *qp)
{
	const struct gid *g = &qp->attr.flow.dgid;
	uint32_t h = qp->attr.dest_qpn >> 16;

	for (size_t i = 0; i < sizeof(g->raw); i++)
		h = h * 31 + g->raw[i];
	if (qp->peer_socket)
		qp->peer_socket->used -= qp->req.held_peer;
	qp->peer_socket = &qp->rnic->peer_sockets[h % PEER_SOCKETS];
	qp->peer_socket->used += qp->req.held_peer;
}

static bool budget_fits(const struct rnic_qp *qp, const struct budget *b, uint32_t bytes)
{
	return b->used == 0 || b->used + bytes <= qp->rnic->socket_bytes;
}

bool window_allows(struct rnic_qp *qp, const struct send_wqe *w, uint32_t cost)
{
	struct req *q = &qp->req;
	struct budget *b = budget_of(qp, w);

	if (q->inflight && q->inflight + cost > q->window)
		return false;
	if (q->backoff || q->inflight + cost <= WINDOW_SHARE)
		return !q->inflight || q->inflight + cost <= WINDOW_SHARE;
	if (!list_empty(&qp->budget_node))
		return false; /* its turn will come */
	if ((qp->budget_woken || list_empty(&b->waiting)) && budget_fits(qp, b, cost))
		return true;
	/* For less than a share it is not worth waking. */
	qp->budget_need = max_of(cost, WINDOW_SHARE);
	if (qp->budget_woken)
		list_push_head(&b->waiting, &qp->budget_node);
	else
		list_push_tail(&b->waiting, &qp->budget_node);
	return false;
}

bool window_needs_answer(const struct rnic_qp *qp, const struct send_wqe *w, uint32_t cost)
{
	const struct rnic *r = qp->rnic;
	const struct budget *b = budget_of(qp, w);
	uint32_t next = cost + max_of(qp->mtu, WINDOW_PKT_MIN);
	bool scarce = b->used + next > r->socket_bytes || !list_empty(&b->waiting);

	return qp->req.unasked + cost >= min_of(qp->req.window, r->socket_bytes) / 4 ||
	       qp->req.inflight + next > qp->req.window ||
	       (scarce && qp->req.unasked + next > WINDOW_SHARE);
}

static void budget_wake(struct budget *b)
{
	struct rnic_qp *qp;

	if (list_empty(&b->waiting))
		return;
	qp = list_entry(b->waiting.next, struct rnic_qp, budget_node);
	if (!budget_fits(qp, b, qp->budget_need))
		return;
	list_remove(&qp->budget_node);
	qp->budget_woken = true;
	qp_activate(qp);
}

static void budget_give_back(struct budget *b, uint32_t *held, uint32_t bytes)
{
	bytes = min_of(bytes, *held);
	assert(b->used >= bytes);
	*held -= bytes;
	b->used -= bytes;
	budget_wake(b);
}

void window_take(struct rnic_qp *qp, const struct send_wqe *w, uint32_t cost)
{
	qp->req.inflight += cost;
	if (qp->req.backoff)
		return;
	*held_of(qp, w) += cost;
	budget_of(qp, w)->used += cost;
}

void window_give_back(struct rnic_qp *qp, const struct send_wqe *w, uint32_t cost)
{
	assert(qp->req.inflight >= cost);
	qp->req.inflight -= cost;
	if (unlikely(qp->req.window < qp->rnic->window_bytes))
		qp->req.window = min_of(qp->req.window + cost / 8, qp->rnic->window_bytes);
	budget_give_back(budget_of(qp, w), held_of(qp, w), cost);
}

void window_lost(struct rnic_qp *qp)
{
	struct req *q = &qp->req;
	uint32_t least = min_of(WINDOW_SHARE, qp->rnic->window_bytes);

	if (q->cut && q->cut_psn == q->una_psn)
		return; /* is known */
	q->cut = true;
	q->cut_psn = q->una_psn;
	q->window = max_of(q->window / 2, least);
}

void window_silent(struct rnic_qp *qp)
{
	struct req *q = &qp->req;

	if (q->held_own)
		budget_give_back(&qp->rnic->own_socket, &q->held_own, q->held_own);
	if (q->held_peer)
		budget_give_back(qp->peer_socket, &q->held_peer, q->held_peer);
}

void window_clear(struct rnic_qp *qp)
{
	qp->req.inflight = 0;
	window_silent(qp);
}

void window_leave(struct rnic_qp *qp)
{
	list_remove(&qp->budget_node); /* first, so as not to be woken itself */
	qp->budget_woken = false;
	window_clear(qp);
}

void window_pass_on(struct rnic_qp *qp)
{
	if (!list_empty(&qp->budget_node) || !qp->peer_socket)
		return;
	budget_wake(&qp->rnic->own_socket);
	budget_wake(qp->peer_socket);
}
