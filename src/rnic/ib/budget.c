/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What the sockets that receive may hold, each for all our QPs that send there: the peers' sockets
 * (found by address and QPN slot; two that fall on one entry share it and do no harm), and our own
 * for the READ responses we asked for.
 *
 * Who needs more of a budget than there is stands in its line, first come, first served; only what
 * is within a small share goes at once, so that short messages do not wait behind long ones.
 * What is given back wakes the first in the line, and one that stops sending for another reason
 * the next. Who holds some always gives it back: with answers, or, when none come, with the third
 * probe or a timeout, so a dead peer costs the others little. A slow one, which still has to work
 * off what was sent, has answered by then: to let others send as much in its silence would overrun
 * it.
 */
#include "rnic/ib/ib.h"

/* What this QP holds of it. */
static uint32_t *held_of(struct claim *c, const struct send_wqe *w)
{
	return w->opcode == RNIC_WR_RDMA_READ ? &c->held_own : &c->held_peer;
}

void budget_set_peer(struct rnic_qp *qp)
{
	const struct gid *g = &qp->attr.flow.dgid;
	struct claim *c = &ib_of(qp)->claim;
	uint32_t h = qp->attr.dest_qpn >> 16;

	for (size_t i = 0; i < sizeof(g->raw); i++)
		h = h * 31 + g->raw[i];
	if (c->peer_socket)
		c->peer_socket->used -= c->held_peer;
	c->peer_socket = &qp->rnic->peer_sockets[h % PEER_SOCKETS];
	c->peer_socket->used += c->held_peer;
}

static bool fits(const struct rnic *r, const struct budget *b, uint32_t bytes)
{
	return b->used == 0 || b->used + bytes <= r->socket_bytes;
}

bool budget_allows(struct rnic_qp *qp, const struct send_wqe *w, uint32_t bytes)
{
	struct claim *c = &ib_of(qp)->claim;
	struct budget *b = budget_of(qp, w);

	if (!list_empty(&c->node))
		return false; /* its turn will come */
	if ((c->woken || list_empty(&b->waiting)) && fits(qp->rnic, b, bytes))
		return true;
	count(qp, budget_stalls, 1);
	/* For less than a share it is not worth waking. */
	c->need = max_of(bytes, FLIGHT_SHARE);
	if (c->woken)
		list_push_head(&b->waiting, &c->node);
	else
		list_push_tail(&b->waiting, &c->node);
	return false;
}

bool budget_scarce(const struct rnic_qp *qp, const struct send_wqe *w, uint32_t bytes)
{
	const struct budget *b = budget_of(qp, w);

	return b->used + bytes > qp->rnic->socket_bytes || !list_empty(&b->waiting);
}

static void wake(struct budget *b)
{
	struct ib_qp *ib;

	if (list_empty(&b->waiting))
		return;
	ib = list_entry(b->waiting.next, struct ib_qp, claim.node);
	if (!fits(ib->qp.rnic, b, ib->claim.need))
		return;
	list_remove(&ib->claim.node);
	ib->claim.woken = true;
	qp_activate(&ib->qp);
}

static void give_back(struct budget *b, uint32_t *held, uint32_t bytes)
{
	bytes = min_of(bytes, *held);
	assert(b->used >= bytes);
	*held -= bytes;
	b->used -= bytes;
	wake(b);
}

void budget_take(struct rnic_qp *qp, const struct send_wqe *w, uint32_t bytes)
{
	*held_of(&ib_of(qp)->claim, w) += bytes;
	budget_of(qp, w)->used += bytes;
}

void budget_give_back(struct rnic_qp *qp, const struct send_wqe *w, uint32_t bytes)
{
	give_back(budget_of(qp, w), held_of(&ib_of(qp)->claim, w), bytes);
}

void budget_give_up(struct rnic_qp *qp)
{
	struct claim *c = &ib_of(qp)->claim;

	if (c->held_own)
		give_back(&qp->rnic->own_socket, &c->held_own, c->held_own);
	if (c->held_peer)
		give_back(c->peer_socket, &c->held_peer, c->held_peer);
}

void budget_leave(struct rnic_qp *qp)
{
	struct claim *c = &ib_of(qp)->claim;

	list_remove(&c->node); /* first, so as not to be woken itself */
	c->woken = false;
	budget_give_up(qp);
}

void budget_pass_on(struct rnic_qp *qp)
{
	const struct claim *c = &ib_of(qp)->claim;

	if (!list_empty(&c->node) || !c->peer_socket)
		return;
	wake(&qp->rnic->own_socket);
	wake(c->peer_socket);
}
