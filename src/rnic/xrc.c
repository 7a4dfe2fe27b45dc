/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The extended reliable connection (IBA volume 1, annex A14): one connection to a process for all
 * receive queues it has. On the wire it is RC with one header more in each request, which names
 * the shared receive queue (SRQ) that the request is for.
 *
 *   initiator  a requester without a responder; each work request says to which SRQ
 *   target     a responder without a requester and without anything of its own: receives, the CQ
 *              and the protection domain are those of the SRQ named
 *   domain     what a target may reach: the SRQs of its own
 *
 * So a target turns to another SRQ with each message. In the midst of a message it must not, which
 * is checked here, and an answer to a READ that was asked for earlier looks its SRQ up anew.
 */
#include "rnic/core.h"

#define SRQ_TABLE_SIZE (1u << SRQN_BITS)

/* ---- domains -------------------------------------------------------------------------------- */

int rnic_xrcd_create(struct rnic *r, struct rnic_xrcd **ret)
{
	struct rnic_xrcd *xrcd = r->ops.alloc(r->ctx, sizeof(*xrcd));

	if (!xrcd)
		return -ENOMEM;
	xrcd->rnic = r;
	list_init(&xrcd->targets);
	r->xrcds++;
	*ret = xrcd;
	return 0;
}

int rnic_xrcd_destroy(struct rnic_xrcd *xrcd)
{
	struct rnic *r = xrcd->rnic;

	if (xrcd->users)
		return -EBUSY;
	r->xrcds--;
	r->ops.free(r->ctx, xrcd);
	return 0;
}

/* ---- numbers -------------------------------------------------------------------------------- */

/* As with queue pairs: the slot makes them differ from another process's, and none comes back
 * soon. */
int xrc_number(struct rnic_srq *srq)
{
	struct rnic *r = srq->rnic;

	if (!r->xrc_srqs)
		r->xrc_srqs = r->ops.alloc(r->ctx, sizeof(*r->xrc_srqs) * SRQ_TABLE_SIZE);
	if (!r->xrc_srqs)
		return -ENOMEM;
	for (uint32_t tries = 0; tries < SRQ_TABLE_SIZE; tries++) {
		uint32_t low = permute(&r->srqn_permute, r->srqn_next++ & (SRQ_TABLE_SIZE - 1));

		if (r->xrc_srqs[low])
			continue;
		r->xrc_srqs[low] = srq;
		srq->srqn = (uint32_t)r->slot << SRQN_BITS | low;
		return 0;
	}
	return -ENOMEM;
}

static struct rnic_srq *find(const struct rnic *r, uint32_t srqn)
{
	if (srqn >> SRQN_BITS != r->slot || !r->xrc_srqs)
		return NULL;
	return r->xrc_srqs[srqn & (SRQ_TABLE_SIZE - 1)];
}

void xrc_forget(struct rnic_srq *srq)
{
	struct rnic *r = srq->rnic;

	assert(r->xrc_srqs[srq->srqn & (SRQ_TABLE_SIZE - 1)] == srq);
	r->xrc_srqs[srq->srqn & (SRQ_TABLE_SIZE - 1)] = NULL;
	list_for_each(qp, &srq->xrcd->targets, struct rnic_qp, xrcd_node) {
		if (qp->srq != srq)
			continue;
		qp->rq.cons = qp->rq.prod;
		qp->srq = NULL;
		qp->recv_cq = NULL;
		qp->pd = qp->recv_pd = NULL;
	}
}

/* ---- requests ------------------------------------------------------------------------------- */

enum verdict xrc_select(struct rnic_qp *qp, uint32_t srqn)
{
	struct rnic_srq *srq = find(qp->rnic, srqn);

	if (!srq)
		return deny(qp, RNIC_CAUSE_XRC_SRQ, VERDICT_INVALID);
	if (srq->xrcd != qp->xrcd)
		return deny(qp, RNIC_CAUSE_XRC_SRQ, VERDICT_ACCESS);
	if (qp->resp.msg != MSG_NONE && qp->srq != srq)
		return deny(qp, RNIC_CAUSE_ORDER, VERDICT_INVALID);
	qp->srq = srq;
	qp->recv_cq = srq->cq;
	qp->pd = qp->recv_pd = srq->pd;
	return VERDICT_ACCEPT;
}

struct rnic_pd *xrc_pd(const struct rnic_qp *qp, uint32_t srqn)
{
	const struct rnic_srq *srq = find(qp->rnic, srqn);

	return srq && srq->xrcd == qp->xrcd ? srq->pd : NULL;
}

/* A CQ that ran over takes its QPs into error. Of an SRQ's it takes those that complete there. */
void xrc_settle(struct rnic_qp *qp)
{
	if (unlikely(qp->recv_cq && qp->recv_cq->overflow))
		qp_fail_recv(qp, RNIC_CAUSE_CQ_OVERRUN, 0);
}
