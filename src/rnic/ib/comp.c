/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The completer: takes responses, moves una and completes WQEs in order.
 *
 * A response to PSN p says that everything before p arrived, too. For SEND and WRITE that
 * completes them; a READ or an atomic before p whose data has not come is an implied NAK: the
 * requester goes back to the first missing response, once for each place, since responses
 * already on the way would say the same again. If that is lost as well, the probe takes over.
 */
#include "rnic/ib/ib.h"

/* n more packets of the oldest WQE are acknowledged. */
static void una_advance(struct rnic_qp *qp, struct send_wqe *w, uint32_t n)
{
	struct req *q = req_of(qp);
	struct sq *sq = &qp->sq;
	uint32_t from = (q->una_psn - w->first_psn) & PSN_MASK, to = from + n;
	uint32_t ahead = (q->psn - q->una_psn) & PSN_MASK;

	if (unlikely(selective_of(qp) != NULL))
		selective_passed(qp, w, from, n);
	if (sq->cur == sq->una && n > ahead) {
		/* Acknowledged after a rewind and before it was sent again. */
		q->psn = psn_add(q->una_psn, n);
		flight_clear(qp);
		q->rd_out = 0;
		q->failed = false; /* what could not be built again need not be */
	} else {
		flight_acked(qp, w, flight_cost(qp, w, from, to));
		if (wqe_wants_response(w) && chunk_end(w, to - 1) == to) {
			assert(q->rd_out);
			q->rd_out--;
		}
	}
	q->una_psn = psn_add(q->una_psn, n);
	if (unlikely(q->acked != ACKED_FULL))
		q->acked = pkt_is_full(qp, w, from) ? ACKED_FULL : ACKED_SHORT;
	if (to != w->npkts)
		return;
	sq_complete(qp, RNIC_WC_SUCCESS);
	while (sq->una != sq->prod && wqe_is_local(sq_at(sq, sq->una)) && sq_at(sq, sq->una)->begun)
		sq_complete(qp, RNIC_WC_SUCCESS);
}

/* Everything before PSN end arrived at the peer. False: it stopped at a READ or an atomic whose
 * response is missing. */
static bool ack_until(struct rnic_qp *qp, uint32_t end)
{
	struct req *q = req_of(qp);

	while (q->una_psn != end) {
		struct send_wqe *w = sq_at(&qp->sq, qp->sq.una);
		uint32_t done = (q->una_psn - w->first_psn) & PSN_MASK;

		assert(w->begun && !wqe_is_local(w));
		if (wqe_wants_response(w))
			return false;
		una_advance(qp, w, min_of(w->npkts - done, (end - q->una_psn) & PSN_MASK));
	}
	return true;
}

/* The same; who repeats selectively stops nowhere: what is behind an answer that is missing is
 * noted. */
static bool arrived_until(struct rnic_qp *qp, uint32_t end)
{
	bool whole = ack_until(qp, end);

	if (likely(selective_of(qp) == NULL))
		return whole;
	if (!whole)
		selective_arrived(qp, end);
	return true;
}

/* una moves over what has been here or there for some time. */
static void take_known(struct rnic_qp *qp)
{
	const struct req *q = req_of(qp);

	while (q->una_psn != q->max_psn && selective_has(qp, q->una_psn))
		una_advance(qp, sq_at(&qp->sq, qp->sq.una), 1);
}

/* After una may have moved from old_una: clocks, counters, and what waited for room. */
static void progress(struct rnic_qp *qp, uint32_t old_una, uint64_t now)
{
	struct req *q = req_of(qp);
	struct sq *sq = &qp->sq;

	if (unlikely(selective_of(qp) != NULL))
		take_known(qp);
	if (q->una_psn == old_una)
		return;
	recovery_progress(qp, now);
	if (unlikely(selective_of(qp) != NULL) && selective_misses(qp))
		recovery_look_soon(qp, now);
	req_show(qp);
	if (unlikely(q->failed) && sq->cur == sq->una) {
		const struct send_wqe *w = sq_at(sq, sq->una);

		qp_fail_send(qp, w->status, w->cause);
		return;
	}
	if (req_waits(qp))
		qp_activate(qp);
	if (unlikely(qp->state == RNIC_QPS_SQD))
		qp_check_drained(qp);
}

/* ---- ACK and NAK ---------------------------------------------------------------------------- */

static const struct {
	uint8_t status, cause;
} of_nak[] = {
	[NAK_INVALID_REQ] = {RNIC_WC_REM_INV_REQ_ERR, RNIC_CAUSE_NAK_INVALID},
	[NAK_REMOTE_ACCESS] = {RNIC_WC_REM_ACCESS_ERR, RNIC_CAUSE_NAK_ACCESS},
	[NAK_REMOTE_OP] = {RNIC_WC_REM_OP_ERR, RNIC_CAUSE_NAK_OPERATION},
	[NAK_INVALID_RD] = {RNIC_WC_REM_INV_RD_REQ_ERR, RNIC_CAUSE_NAK_DOMAIN},
};

static void comp_nak(struct rnic_qp *qp, const struct pkt *p, uint64_t now)
{
	struct req *q = req_of(qp);
	uint8_t code = p->h.aeth.syndrome & 0x1f;
	uint32_t old_una = q->una_psn;
	bool whole;

	if (code >= ARRAY_SIZE(of_nak)) {
		count(qp, rx_drop_response, 1);
		return;
	}
	if (code == NAK_PSN_SEQ)
		count(qp, rx_nak_sequence, 1);
	whole = arrived_until(qp, p->h.bth.psn);
	progress(qp, old_una, now);
	if (!qp_requester_runs(qp))
		return;
	if (code != NAK_PSN_SEQ) {
		/* Also where a READ before it lacks data: the peer answers nothing any more. */
		qp_fail_send(qp, of_nak[code].status, of_nak[code].cause);
	} else if (!whole) {
		recovery_gap_implied(qp);
	} else {
		recovery_gap(qp);
	}
}

static void comp_ack(struct rnic_qp *qp, const struct pkt *p, uint64_t now)
{
	uint32_t old_una = req_of(qp)->una_psn;
	bool whole;

	switch (p->h.aeth.syndrome & 0x60) {
	case AETH_ACK:
		whole = arrived_until(qp, psn_add(p->h.bth.psn, 1));
		progress(qp, old_una, now);
		if (!whole && qp_requester_runs(qp))
			recovery_gap_implied(qp);
		break;
	case AETH_RNR_NAK:
		(void)arrived_until(qp, p->h.bth.psn);
		progress(qp, old_una, now);
		if (!qp_requester_runs(qp))
			break;
		if (req_of(qp)->una_psn == p->h.bth.psn)
			recovery_rnr(qp, p->h.aeth.syndrome & 0x1f, now);
		else if (!selective_of(qp))
			recovery_gap_implied(qp);
		break;
	case AETH_NAK:
		comp_nak(qp, p, now);
		break;
	default:
		count(qp, rx_drop_response, 1);
		break;
	}
}

/* ---- READ and atomic responses -------------------------------------------------------------- */

static enum rnic_wc_status place_read(struct rnic_qp *qp, const struct send_wqe *w,
				      const struct pkt *p)
{
	uint32_t off = ((p->h.bth.psn - w->first_psn) & PSN_MASK) * qp->mtu;

	if (p->len != min_of(w->length - off, qp->mtu))
		return RNIC_WC_BAD_RESP_ERR;
	if (sge_scatter(qp->pd, w->sge, w->num_sge, off, p->payload, p->len))
		return RNIC_WC_LOC_PROT_ERR;
	count(qp, rx_bytes, p->len);
	return RNIC_WC_SUCCESS;
}

static enum rnic_wc_status place_atomic(struct rnic_qp *qp, const struct send_wqe *w,
					const struct pkt *p)
{
	uint64_t orig = p->h.atomic_ack;

	if (sge_scatter(qp->pd, w->sge, w->num_sge, 0, (const uint8_t *)&orig, sizeof(orig)))
		return RNIC_WC_LOC_PROT_ERR;
	return RNIC_WC_SUCCESS;
}

/* Out of its turn an answer is taken from the peer alone, and once. */
static bool may_be_early(const struct rnic_qp *qp, const struct pkt *p)
{
	return p->h.bth.psn == req_of(qp)->una_psn || !selective_has(qp, p->h.bth.psn);
}

static void comp_data(struct rnic_qp *qp, const struct pkt *p, uint64_t now)
{
	struct req *q = req_of(qp);
	uint32_t old_una = q->una_psn;
	enum rnic_wc_status status = RNIC_WC_SUCCESS;
	bool atomic = p->flags & OPF_ATOMICACKETH, fails;
	struct send_wqe *w;
	uint32_t idx;

	if (!arrived_until(qp, p->h.bth.psn)) {
		progress(qp, old_una, now);
		if (qp_requester_runs(qp))
			recovery_gap_implied(qp);
		return;
	}
	w = unlikely(selective_of(qp) != NULL) ? selective_wqe(qp, p->h.bth.psn, &idx)
					       : sq_at(&qp->sq, qp->sq.una);
	if (!w || !wqe_wants_response(w) || wqe_is_atomic(w) != atomic ||
	    (selective_of(qp) && !may_be_early(qp, p))) {
		progress(qp, old_una, now);
		if (selective_of(qp) && w)
			count(qp, tx_spurious, 1); /* it was asked for again in vain */
		count(qp, rx_drop_response, 1);
		return;
	}
	if (w->opcode == RNIC_WR_ATOMIC_WRITE)
		status = p->len ? RNIC_WC_BAD_RESP_ERR : RNIC_WC_SUCCESS;
	else
		status = atomic ? place_atomic(qp, w, p) : place_read(qp, w, p);
	if (status == RNIC_WC_SUCCESS && unlikely(p->h.bth.psn != q->una_psn))
		selective_answered(qp, p->h.bth.psn);
	else if (status == RNIC_WC_SUCCESS)
		una_advance(qp, w, 1);
	else if (p->h.bth.psn != q->una_psn)
		count(qp, rx_drop_response, 1); /* it fails in its turn, when it comes again */
	fails = status != RNIC_WC_SUCCESS && p->h.bth.psn == q->una_psn;
	progress(qp, old_una, now);
	if (fails && qp_requester_runs(qp))
		qp_fail_send(qp, status,
			     status == RNIC_WC_BAD_RESP_ERR ? RNIC_CAUSE_RESPONSE
							    : qp->rnic->denial.cause);
}

bool comp_rx(struct rnic_qp *qp, const struct pkt *p, uint64_t now)
{
	struct req *q = req_of(qp);
	uint32_t dist = (p->h.bth.psn - q->una_psn) & PSN_MASK;
	uint32_t outstanding = (q->max_psn - q->una_psn) & PSN_MASK;
	bool plain = (p->flags & OPF_ACK) && !(p->flags & OPF_ATOMICACKETH);
	/* "Everything arrived, go on after it" names a PSN not sent yet. */
	bool ends = (p->flags & OPF_ACK) && p->h.aeth.syndrome == (AETH_NAK | NAK_PSN_SEQ) &&
		    dist == outstanding && outstanding;

	if (!qp_requester_runs(qp) || (dist >= outstanding && !ends)) {
		recovery_stray(qp, p->h.bth.psn, now);
		/* It was asked for again, and the answer that was late has come before this. */
		if (selective_of(qp) && qp_requester_runs(qp) && !plain &&
		    psn_diff(p->h.bth.psn, q->una_psn) < 0)
			count(qp, tx_spurious, 1);
		count(qp, rx_drop_response, 1);
		return false;
	}
	if (plain) {
		comp_ack(qp, p, now);
	} else if ((p->flags & OPF_AETH) && (p->h.aeth.syndrome & 0x60) != AETH_ACK) {
		count(qp, rx_drop_response, 1);
	} else {
		comp_data(qp, p, now);
	}
	if (unlikely(selective_of(qp) != NULL) && qp_requester_runs(qp))
		selective_look(qp);
	return true;
}

bool comp_rx_sack(struct rnic_qp *qp, const struct pkt *p, uint64_t now)
{
	struct req *q = req_of(qp);
	uint32_t old_una = q->una_psn, end = p->h.bth.psn;

	if (!selective_of(qp) || !qp_requester_runs(qp) ||
	    ((end - old_una) & PSN_MASK) > ((q->max_psn - old_una) & PSN_MASK)) {
		count(qp, rx_drop_response, 1);
		return false;
	}
	count(qp, rx_sack, 1);
	count(qp, tx_spurious, p->h.aeth.syndrome & SELECTIVE_TWICE_MAX);
	(void)arrived_until(qp, end);
	selective_keeps(qp, end, p->payload, p->len);
	progress(qp, old_una, now);
	if (qp_requester_runs(qp))
		selective_look(qp);
	return true;
}
