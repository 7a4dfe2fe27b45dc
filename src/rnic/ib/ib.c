/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What the services of InfiniBand have in common. */
#include "rnic/ib/ib.h"

void ib_init(struct rnic_qp *qp)
{
	list_init(&ib_of(qp)->claim.node);
}

void ib_stop(struct rnic_qp *qp)
{
	budget_leave(qp);
	req_of(qp)->inflight = 0;
	if (selective_of(qp)) {
		selective_of(qp)->off_wire = 0;
		kept_drop(qp);
	}
	req_show(qp);
}

void ib_reset(struct rnic_qp *qp)
{
	ib_stop(qp);
	selective_end(qp);
	*req_of(qp) = (struct req){0};
	*recovery_of(qp) = (struct recovery){0};
	resp_reset(qp);
	req_show(qp);
}

void ib_start_send(struct rnic_qp *qp)
{
	req_start(qp);
	recovery_start(qp);
	if (selective_of(qp))
		selective_forget(qp);
	req_show(qp);
}

void ib_modified(struct rnic_qp *qp, const struct rnic_qp_attr *a, uint32_t mask)
{
	struct recovery *v = recovery_of(qp);

	(void)a;
	if (mask & RNIC_QP_RETRY_CNT)
		v->retry_left = qp->attr.retry_cnt;
	if (mask & RNIC_QP_RNR_RETRY)
		v->rnr_left = qp->attr.rnr_retry;
	if (mask & (RNIC_QP_AV | RNIC_QP_DEST_QPN))
		budget_set_peer(qp);
}

void ib_hush(struct rnic_qp *qp)
{
	resp_of(qp)->closing = false;
}

bool ib_whole(const struct rnic_qp *qp)
{
	const struct resp *s = resp_of(qp);

	return s->msg == MSG_NONE && !s->nak_open && !(selective_of(qp) && selective_of(qp)->nkept);
}

void ib_query(const struct rnic_qp *qp, struct rnic_qp_attr *ret)
{
	if (qp->state >= RNIC_QPS_RTR)
		ret->rq_psn = resp_of(qp)->epsn;
	if (qp->state >= RNIC_QPS_RTS)
		ret->sq_psn = req_of(qp)->psn;
}

void ib_yield(struct rnic_qp *qp, bool more)
{
	struct ib_qp *ib = ib_of(qp);

	/* A QP that has sent all begins anew with its requests: a lone ACK behind them is shorter,
	 * so that both travel in one datagram. */
	ib->responder_turn = (more || pacer_holds(qp, qp->rnic->now)) && !ib->responder_turn;
	ib->claim.woken = false;
	req_show(qp);
	if (!more)
		budget_pass_on(qp);
}
