/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The requester: walks the send queue and builds request packets.
 *
 * What may go out is bounded three ways: by what is on the way (READ responses asked for included),
 * by max_rd_atomic, and by an error met at the cursor, which must wait until all before it is
 * acknowledged. A READ is asked for in chunks of a part of the window; once it was asked for, a
 * chunk always covers the same PSNs, and one resumed in the middle is asked for up to its end.
 */
#include "rnic/ib/ib.h"

void req_start(struct rnic_qp *qp)
{
	*req_of(qp) = (struct req){
		.psn = qp->attr.sq_psn,
		.una_psn = qp->attr.sq_psn,
		.max_psn = qp->attr.sq_psn,
	};
}

/* The WQE at the cursor can not go on. It fails once all before it are acknowledged. */
static void req_fail(struct rnic_qp *qp, struct send_wqe *w, enum rnic_wc_status status,
		     enum rnic_cause cause)
{
	w->status = (uint8_t)status;
	w->cause = (uint8_t)cause;
	if (qp->sq.cur == qp->sq.una)
		qp_fail_send(qp, status, cause);
	else
		req_of(qp)->failed = true;
}

static bool req_execute_local(struct rnic_qp *qp, struct send_wqe *w)
{
	if (mw_execute(qp, w)) {
		req_fail(qp, w, RNIC_WC_MW_BIND_ERR, RNIC_CAUSE_WINDOW);
		return false;
	}
	w->begun = true;
	w->npkts = 0;
	if (qp->sq.una == qp->sq.cur)
		sq_complete(qp, RNIC_WC_SUCCESS); /* moves the cursor too */
	else
		qp->sq.cur++;
	return true;
}

/* What must be right before a WQE's first packet. */
static enum rnic_wc_status req_check_wqe(const struct rnic_qp *qp, const struct send_wqe *w)
{
	if (!wqe_wants_response(w))
		return RNIC_WC_SUCCESS;
	if (qp->attr.max_rd_atomic == 0)
		return RNIC_WC_LOC_QP_OP_ERR;
	if (w->opcode != RNIC_WR_RDMA_READ && w->length != sizeof(uint64_t))
		return RNIC_WC_LOC_LEN_ERR;
	if (w->opcode == RNIC_WR_ATOMIC_WRITE)
		return RNIC_WC_SUCCESS; /* its memory is read with the packet */
	return sge_allowed(qp, w->sge, w->num_sge, RNIC_ACCESS_LOCAL_WRITE) ? RNIC_WC_SUCCESS
									    : RNIC_WC_LOC_PROT_ERR;
}

/* Prepares the WQE at the cursor; NULL: nothing may be sent now. */
static struct send_wqe *req_next(struct rnic_qp *qp)
{
	struct sq *sq = &qp->sq;

	while (sq->cur != sq->prod) {
		struct send_wqe *w = sq_at(sq, sq->cur);
		enum rnic_wc_status status;

		if (w->begun) {
			if (!wqe_is_local(w))
				return w;
			sq->cur++; /* executed before a rewind */
			continue;
		}
		if (qp->state != RNIC_QPS_RTS)
			return NULL; /* SQD: nothing new is begun */
		if ((w->flags & RNIC_SEND_FENCE) && req_of(qp)->rd_out)
			return NULL;
		if (wqe_is_local(w)) {
			if (!req_execute_local(qp, w))
				return NULL;
			continue;
		}
		status = req_check_wqe(qp, w);
		if (status != RNIC_WC_SUCCESS) {
			req_fail(qp, w, status,
				 status == RNIC_WC_LOC_QP_OP_ERR ? RNIC_CAUSE_NO_READS
				 : status == RNIC_WC_LOC_LEN_ERR ? RNIC_CAUSE_ATOMIC_LENGTH
								 : qp->rnic->denial.cause);
			return NULL;
		}
		assert(req_of(qp)->psn == req_of(qp)->max_psn);
		w->first_psn = req_of(qp)->psn;
		w->npkts = wqe_is_atomic(w) ? 1 : pkts_of(w->length, qp->mtu);
		w->chunk_at = 0;
		w->chunk_pkts_at = w->opcode == RNIC_WR_RDMA_READ ? flight_chunk_pkts(qp) : 1;
		return w;
	}
	return NULL;
}

/* A long READ's chunks are of the window as it is, not as it was when the READ began. What was
 * asked for, and is not all here, is remembered by two sizes at most. */
static void req_fit_chunk(const struct rnic_qp *qp, struct send_wqe *w, uint32_t idx)
{
	const struct req *q = req_of(qp);
	uint32_t pkts;

	if (w->opcode != RNIC_WR_RDMA_READ || !idx || q->psn != q->max_psn ||
	    chunk_begin(w, idx) != idx ||
	    (w->chunk_at && psn_diff(q->una_psn, psn_add(w->first_psn, w->chunk_at)) < 0))
		return;
	pkts = flight_chunk_pkts(qp);
	if (pkts == w->chunk_pkts_at)
		return;
	w->chunk_from = w->chunk_at;
	w->chunk_pkts = w->chunk_pkts_at;
	w->chunk_at = idx;
	w->chunk_pkts_at = pkts;
}

static void req_sent(struct rnic_qp *qp, struct send_wqe *w, uint32_t span, uint32_t cost,
		     bool asked, uint64_t now)
{
	struct req *q = req_of(qp);

	w->begun = true;
	recovery_sent(qp, asked, now);
	q->psn = psn_add(q->psn, span);
	if (psn_diff(q->psn, q->max_psn) > 0)
		q->max_psn = q->psn;
	flight_sent(qp, w, cost);
	q->unasked = asked ? 0 : q->unasked + cost;
	if (wqe_wants_response(w))
		q->rd_out++;
	if (q->psn == psn_add(w->first_psn, w->npkts))
		qp->sq.cur++;
}

bool req_is_long(const struct rnic_qp *qp)
{
	const struct sq *sq = &qp->sq;

	return sq->cur != sq->prod && sq_at(sq, sq->cur)->length > qp->mtu;
}

bool req_awaits(const struct rnic_qp *qp)
{
	return req_of(qp)->inflight > 0;
}

bool req_tx(struct rnic_qp *qp, struct packet_tx *tx, uint64_t now)
{
	struct req *q = req_of(qp);
	uint32_t idx, span, cost;
	struct send_wqe *w;
	bool ask;

	if (!qp_requester_runs(qp) || recovery_waits(recovery_of(qp)))
		return false;
	if (unlikely(recovery_of(qp)->probe_due) && recovery_tx(qp, tx))
		return true;
	if (unlikely(selective_of(qp) != NULL) && selective_of(qp)->nlost)
		return selective_tx(qp, tx, now);
	if (q->failed)
		return false;
	w = req_next(qp);
	if (!w)
		return false;
	idx = (q->psn - w->first_psn) & PSN_MASK;
	req_fit_chunk(qp, w, idx);
	span = request_span(w, idx);
	cost = flight_cost(qp, w, idx, idx + span);
	if (wqe_wants_response(w) && q->rd_out >= qp->attr.max_rd_atomic)
		return false;
	if (selective_of(qp) && ((q->psn + span - q->una_psn) & PSN_MASK) > SELECTIVE_PSNS) {
		count(qp, window_stalls, 1);
		return false;
	}
	if (!flight_allows(qp, w, cost))
		return false;
	ask = idx + span == w->npkts || flight_needs_answer(qp, w, cost);
	if (request_build(qp, tx, w, idx, span, ask)) {
		req_fail(qp, w, RNIC_WC_LOC_PROT_ERR, qp->rnic->denial.cause);
		return false;
	}
	req_sent(qp, w, span, cost, ask, now);
	return true;
}
