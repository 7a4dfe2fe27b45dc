/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* An XRC target turns to the shared receive queue that a request names. */
#include "rnic/ib/ib.h"

enum verdict xrc_select(struct rnic_qp *qp, uint32_t srqn)
{
	struct rnic_srq *srq = xrc_find(qp->rnic, srqn);

	if (!srq)
		return deny(qp, RNIC_CAUSE_XRC_SRQ, VERDICT_INVALID);
	if (srq->xrcd != qp->xrcd)
		return deny(qp, RNIC_CAUSE_XRC_SRQ, VERDICT_ACCESS);
	if (resp_of(qp)->msg != MSG_NONE && qp->srq != srq)
		return deny(qp, RNIC_CAUSE_ORDER, VERDICT_INVALID);
	qp->srq = srq;
	qp->recv_cq = srq->cq;
	qp->pd = qp->recv_pd = srq->pd;
	return VERDICT_ACCEPT;
}

struct rnic_pd *xrc_pd(const struct rnic_qp *qp, uint32_t srqn)
{
	const struct rnic_srq *srq = xrc_find(qp->rnic, srqn);

	return srq && srq->xrcd == qp->xrcd ? srq->pd : NULL;
}

/* A CQ that ran over takes its QPs into error. Of an SRQ's it takes those that complete there. */
void xrc_settle(struct rnic_qp *qp)
{
	if (unlikely(qp->recv_cq && qp->recv_cq->overflow))
		qp_fail_recv(qp, RNIC_CAUSE_CQ_OVERRUN, 0);
}
