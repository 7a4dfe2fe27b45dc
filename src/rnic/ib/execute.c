/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* SENDs and WRITEs that were checked are carried out: bytes to their place, receives completed. */
#include "rnic/ib/ib.h"

void resp_established(struct rnic_qp *qp)
{
	if (likely(qp->state != RNIC_QPS_RTR) || resp_of(qp)->established)
		return;
	resp_of(qp)->established = true;
	qp_event(qp, RNIC_EVENT_COMM_EST);
}

void message_done(struct rnic_qp *qp)
{
	resp_of(qp)->msg = MSG_NONE;
	resp_of(qp)->msn = (resp_of(qp)->msn + 1) & 0xffffff;
}

enum verdict execute_send(struct rnic_qp *qp, const struct pkt *p)
{
	struct resp *s = resp_of(qp);
	struct rnic_wc wc = {.opcode = RNIC_WC_RECV};
	const struct recv_wqe *w;

	if (p->flags & (OPF_FIRST | OPF_ONLY)) {
		s->msg = MSG_SEND;
		s->recv_off = 0;
		recv_take(qp);
	}
	w = rq_at(&qp->rq, qp->rq.cons);
	if (sge_scatter(qp->recv_pd, w->sge, w->num_sge, s->recv_off, p->payload, p->len))
		return VERDICT_RECV_PROTECTION;
	s->recv_off += p->len;
	if (!(p->flags & (OPF_LAST | OPF_ONLY)))
		return VERDICT_ACCEPT;
	wc.byte_len = s->recv_off;
	if (p->flags & OPF_IMMDT) {
		memcpy(&wc.imm_or_rkey, p->h.immdt, sizeof(p->h.immdt));
		wc.wc_flags = RNIC_WC_WITH_IMM;
	}
	if (p->flags & OPF_IETH) {
		if (mw_invalidate(qp, p->h.ieth_rkey))
			return deny(qp, RNIC_CAUSE_INVALIDATE, VERDICT_RECV_INVALIDATE);
		wc.imm_or_rkey = p->h.ieth_rkey;
		wc.wc_flags = RNIC_WC_WITH_INV;
	}
	message_done(qp);
	recv_complete(qp, &wc, p->h.bth.se);
	return VERDICT_ACCEPT;
}

enum verdict execute_write(struct rnic_qp *qp, const struct pkt *p)
{
	struct resp *s = resp_of(qp);

	if (p->flags & OPF_RETH) {
		s->msg = MSG_WRITE;
		s->write.va = p->h.reth.va;
		s->write.rkey = p->h.reth.rkey;
		s->write.left = s->write.total = p->h.reth.dma_len;
	}
	if (p->len)
		mem_place(p->mem, p->payload, p->len);
	s->write.va += p->len;
	s->write.left -= p->len;
	if (!(p->flags & (OPF_LAST | OPF_ONLY)))
		return VERDICT_ACCEPT;
	message_done(qp);
	if (p->flags & OPF_IMMDT) {
		struct rnic_wc wc = {
			.opcode = RNIC_WC_RECV_RDMA_WITH_IMM,
			.byte_len = s->write.total,
			.wc_flags = RNIC_WC_WITH_IMM,
		};

		memcpy(&wc.imm_or_rkey, p->h.immdt, sizeof(p->h.immdt));
		recv_complete(qp, &wc, p->h.bth.se);
	}
	return VERDICT_ACCEPT;
}
