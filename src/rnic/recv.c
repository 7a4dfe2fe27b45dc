/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The receive at the head of the queue, which may be shared, is completed. */
#include "rnic/core.h"

void recv_complete(struct rnic_qp *qp, struct rnic_wc *wc, bool solicited)
{
	recv_take(qp);
	wc->wr_id = rq_at(&qp->rq, qp->rq.cons)->wr_id;
	wc->qp_num = qp->qpn;
	if (likely(!qp->service->datagrams))
		wc->src_qp = qp->attr.dest_qpn;
	qp->rq.cons++;
	cq_push(qp->recv_cq, wc, solicited);
}

void recv_fail(struct rnic_qp *qp, enum rnic_wc_status status)
{
	struct rnic_wc wc = {
		.status = status, .opcode = RNIC_WC_RECV, .vendor_err = qp->rnic->denial.cause};

	recv_complete(qp, &wc, false);
}
