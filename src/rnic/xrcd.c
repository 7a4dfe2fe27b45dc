/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* XRC domains, and the numbers of the shared receive queues in them. */
#include "rnic/core.h"

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
		r->xrc_srqs = r->ops.alloc(r->ctx, sizeof(*r->xrc_srqs) * (r->number_mask + 1));
	if (!r->xrc_srqs)
		return -ENOMEM;
	for (uint32_t tries = 0; tries <= r->number_mask; tries++) {
		uint32_t low = permute(&r->srqn_permute, r->srqn_next++ & r->number_mask);

		if (r->xrc_srqs[low])
			continue;
		r->xrc_srqs[low] = srq;
		srq->srqn = (uint32_t)r->slot << NUMBER_BITS | low;
		return 0;
	}
	return -ENOMEM;
}

struct rnic_srq *xrc_find(const struct rnic *r, uint32_t srqn)
{
	struct rnic_srq *srq = r->xrc_srqs ? r->xrc_srqs[srqn & r->number_mask] : NULL;

	return srq && srq->srqn == srqn ? srq : NULL;
}

void xrc_forget(struct rnic_srq *srq)
{
	struct rnic *r = srq->rnic;

	assert(r->xrc_srqs[srq->srqn & r->number_mask] == srq);
	r->xrc_srqs[srq->srqn & r->number_mask] = NULL;
	list_for_each(qp, &srq->xrcd->targets, struct rnic_qp, xrcd_node) {
		if (qp->srq != srq)
			continue;
		qp->rq.cons = qp->rq.prod;
		qp->srq = NULL;
		qp->recv_cq = NULL;
		qp->pd = qp->recv_pd = NULL;
	}
}
