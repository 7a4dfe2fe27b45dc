/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The requester: walks the send queue and builds request packets.
 *
 * What may go out is bounded three ways: by the window (bytes on the way, READ responses asked for
 * included), by max_rd_atomic, and by an error met at the cursor, which must wait until all before
 * it is acknowledged. A READ is asked for in chunks of a part of the window; chunk k of a WQE
 * always covers the same PSNs, and one resumed in the middle is asked for up to its end.
 *
 * Two clocks run while anything is outstanding:
 *   the transport timer of the standard: each expiry uses up a retry;
 *   the probe: after a few round trips of silence, doubling, without costing a retry. It makes a
 *   lost tail cheap where the standard's timeout is seconds.
 * Either sends the oldest packet once more, and no others: into silence that is as good as all of
 * them, and the answer tells whether they were lost or only wait at a slow peer (comp.c). Where it
 * does not tell, and nothing else comes, the packet that is the oldest then goes once more.
 * Sequence NAKs use up no retries either: they come from a living peer. They do not restart the
 * transport timer unless they acknowledge something, so a packet that never arrives ends the QP.
 */
#include "rnic/core.h"

void req_reset(struct rnic_qp *qp)
{
	window_leave(qp);
	qp->req = (struct req){0};
}

void req_start(struct rnic_qp *qp)
{
	struct req *q = &qp->req;

	*q = (struct req){
		.psn = qp->attr.sq_psn,
		.una_psn = qp->attr.sq_psn,
		.max_psn = qp->attr.sq_psn,
		.retry_left = qp->attr.retry_cnt,
		.rnr_left = qp->attr.rnr_retry,
		.window = qp->rnic->window_bytes,
	};
}

/* ---- timers --------------------------------------------------------------------------------- */

static uint64_t ack_timeout_ns(const struct rnic_qp *qp)
{
	return qp->attr.timeout ? 4096ull << qp->attr.timeout : 0;
}

static uint64_t rto_ns(const struct rnic_qp *qp)
{
	uint64_t cap = qp->attr.timeout ? ack_timeout_ns(qp) : RTO_MAX_NS;
	uint64_t rto = max_of(qp->req.srtt_ns * 4, RTO_MIN_NS);

	/* Progress alone does not bring it back to what was too short (RFC 6298, 5.7). */
	return rto < cap >> qp->req.rto_shift ? rto << qp->req.rto_shift : cap;
}

void req_timer_arm(struct rnic_qp *qp)
{
	const struct req *q = &qp->req;
	uint64_t timeout = ack_timeout_ns(qp), due;

	if (q->rnr_wait)
		due = q->rnr_until_ns;
	else if (!q->base_ns)
		return;
	else
		due = timeout ? min_of(q->probe_ns, q->base_ns + timeout) : q->probe_ns;
	if (!qp->timer.armed || due < qp->timer.deadline_ns)
		timer_arm(&qp->rnic->timers, &qp->timer, due);
}

/* (Re)starts the probe clock, and the transport timer if nothing was outstanding. */
static void req_clock_sent(struct rnic_qp *qp, uint64_t now)
{
	struct req *q = &qp->req;

	if (!q->base_ns)
		q->base_ns = max_of(now, 1ull);
	q->probe_ns = now + rto_ns(qp);
	req_timer_arm(qp);
}

void req_clock_restart(struct rnic_qp *qp, uint64_t now)
{
	qp->req.base_ns = max_of(now, 1ull);
	qp->req.probe_ns = now + rto_ns(qp);
	req_timer_arm(qp);
}

void req_rewind(struct rnic_qp *qp)
{
	struct req *q = &qp->req;

	trace(qp->rnic, TRACE_rewind, qp->qpn, q->una_psn, (q->psn - q->una_psn) & PSN_MASK);
	qp->sq.cur = qp->sq.una;
	q->psn = q->una_psn;
	window_clear(qp);
	q->rd_out = 0;
	q->unasked = 0;
	q->failed = false;
	q->probe = q->probed = q->doubt = false;
	q->rtt_running = false;
	qp_activate(qp);
}

/* Or goes back, if READs were probed for: of these every packet is an answer, and one that is asked
 * for again tells no more than the one before. */
static void send_oldest_again(struct rnic_qp *qp, uint64_t now)
{
	struct req *q = &qp->req;

	if (q->doubt && wqe_wants_response(sq_at(&qp->sq, qp->sq.una))) {
		window_lost(qp);
		req_rewind(qp);
	} else if (q->psn != q->una_psn) { /* else rewound, and not yet sent again */
		q->echo = true;
		q->echo_psn = q->una_psn;
		q->echo_ns = now;
		q->probe = true;
		q->rtt_running = false;
		qp_activate(qp);
	}
	q->probe_ns = now + rto_ns(qp);
}

static void suspect_mtu(const struct rnic_qp *qp)
{
	const struct rnic *r = qp->rnic;
	const struct req *q = &qp->req;
	const struct send_wqe *w = sq_at(&qp->sq, qp->sq.una);

	if (r->ops.mtu_suspected && q->acked && !q->acked_full &&
	    pkt_is_full(qp, w, (q->una_psn - w->first_psn) & PSN_MASK))
		r->ops.mtu_suspected(r->ctx, qp->qpn, qp->mtu);
}

static void req_timeout(struct rnic_qp *qp, uint64_t now)
{
	struct req *q = &qp->req;

	qp->rnic->counters.timeouts++;
	trace(qp->rnic, TRACE_timeout, qp->qpn, q->una_psn, q->retry_left);
	if (q->retry_left == 0) {
		suspect_mtu(qp);
		qp_fail_send(qp, RNIC_WC_RETRY_EXC_ERR, RNIC_CAUSE_RETRY);
		return;
	}
	q->retry_left--;
	q->base_ns = now;
	window_silent(qp);
	send_oldest_again(qp, now);
}

static void req_probe(struct rnic_qp *qp, uint64_t now)
{
	struct req *q = &qp->req;

	if (!q->doubt) {
		if (q->backoff < 30)
			q->backoff++;
		if (q->rto_shift < 30)
			q->rto_shift++;
		if (q->backoff >= SILENT_PROBES)
			window_silent(qp);
	}
	trace(qp->rnic, TRACE_probe, qp->qpn, q->una_psn, q->backoff);
	send_oldest_again(qp, now);
	qp->rnic->counters.probes += q->probe;
}

void req_timer_fired(struct rnic_qp *qp, uint64_t now)
{
	struct req *q = &qp->req;
	uint64_t timeout = ack_timeout_ns(qp);

	if (unlikely(qp->rate_ns))
		qp_activate(qp);
	if (!qp_requester_runs(qp))
		return;
	if (qp_is_unreliable(qp)) {
		qp_activate(qp); /* its pace allows more */
		return;
	}
	if (q->rnr_wait && now >= q->rnr_until_ns) {
		q->rnr_wait = false;
		q->base_ns = 0;
		qp_activate(qp);
	} else if (!q->rnr_wait && q->base_ns) {
		if (timeout && now >= q->base_ns + timeout)
			req_timeout(qp, now);
		else if (now >= q->probe_ns)
			req_probe(qp, now);
	}
	if (qp_requester_runs(qp))
		req_timer_arm(qp);
}

/* ---- building packets ----------------------------------------------------------------------- */

static const struct {
	uint8_t first, middle, last, only;
} request_opcodes[] = {
	[RNIC_WR_SEND] = {OPCODE_RC_SEND_FIRST, OPCODE_RC_SEND_MIDDLE, OPCODE_RC_SEND_LAST,
			  OPCODE_RC_SEND_ONLY},
	[RNIC_WR_SEND_WITH_IMM] = {OPCODE_RC_SEND_FIRST, OPCODE_RC_SEND_MIDDLE,
				   OPCODE_RC_SEND_LAST_WITH_IMM, OPCODE_RC_SEND_ONLY_WITH_IMM},
	[RNIC_WR_SEND_WITH_INV] = {OPCODE_RC_SEND_FIRST, OPCODE_RC_SEND_MIDDLE,
				   OPCODE_RC_SEND_LAST_WITH_INV, OPCODE_RC_SEND_ONLY_WITH_INV},
	[RNIC_WR_RDMA_WRITE] = {OPCODE_RC_WRITE_FIRST, OPCODE_RC_WRITE_MIDDLE, OPCODE_RC_WRITE_LAST,
				OPCODE_RC_WRITE_ONLY},
	[RNIC_WR_RDMA_WRITE_WITH_IMM] = {OPCODE_RC_WRITE_FIRST, OPCODE_RC_WRITE_MIDDLE,
					 OPCODE_RC_WRITE_LAST_WITH_IMM,
					 OPCODE_RC_WRITE_ONLY_WITH_IMM},
	[RNIC_WR_RDMA_READ] = {.only = OPCODE_RC_READ_REQUEST},
	[RNIC_WR_ATOMIC_WRITE] = {.only = OPCODE_RC_ATOMIC_WRITE},
	[RNIC_WR_ATOMIC_CMP_AND_SWP] = {.only = OPCODE_RC_COMPARE_SWAP},
	[RNIC_WR_ATOMIC_FETCH_AND_ADD] = {.only = OPCODE_RC_FETCH_ADD},
};

static uint8_t request_opcode(const struct send_wqe *w, uint32_t idx)
{
	if (w->npkts == 1 || wqe_wants_response(w))
		return request_opcodes[w->opcode].only;
	if (idx == 0)
		return request_opcodes[w->opcode].first;
	return idx == w->npkts - 1 ? request_opcodes[w->opcode].last
				   : request_opcodes[w->opcode].middle;
}

/* How many PSNs the packet sent for packet idx of the WQE takes. */
static uint32_t request_span(const struct send_wqe *w, uint32_t idx)
{
	if (w->opcode != RNIC_WR_RDMA_READ)
		return 1;
	return min_of((idx / w->chunk_pkts + 1) * w->chunk_pkts, w->npkts) - idx;
}

static int request_payload(const struct rnic_qp *qp, struct rnic_tx *tx, const struct send_wqe *w,
			   uint32_t off)
{
	tx->payload_len = min_of(w->length - off, qp->mtu);
	if (w->flags & RNIC_SEND_INLINE) {
		tx->iov[0] = (struct iovec){(uint8_t *)w->sge + off, tx->payload_len};
		tx->niov = tx->payload_len ? 1 : 0;
		return 0;
	}
	return sge_gather(qp, w->sge, w->num_sge, off, tx->payload_len, tx->iov, &tx->niov);
}

int request_build(struct rnic_qp *qp, struct rnic_tx *tx, const struct send_wqe *w, uint32_t idx,
		  bool ackreq)
{
	uint32_t off = idx * qp->mtu, span = request_span(w, idx);
	struct pkt_hdr h;
	uint32_t flags;

	h.bth.opcode = request_opcode(w, idx);
	flags = opcode_table[h.bth.opcode | qp->service].flags;
	h.bth.se = (w->flags & RNIC_SEND_SOLICITED) && (flags & (OPF_LAST | OPF_ONLY)) &&
		   (flags & (OPF_SEND | OPF_IMMDT));
	h.bth.ackreq = (ackreq || idx + span == w->npkts) && !qp_is_unreliable(qp);
	h.bth.dqpn = qp->attr.dest_qpn;
	h.bth.psn = psn_add(w->first_psn, idx);
	if (flags & OPF_XRCETH)
		h.xrc_srqn = w->xrc_srqn;
	if (flags & OPF_RETH) {
		h.reth.va = w->remote_addr + off;
		h.reth.rkey = w->rkey;
		h.reth.dma_len = w->length;
		if (w->opcode == RNIC_WR_RDMA_READ)
			h.reth.dma_len = min_of(w->length - off, span * qp->mtu);
	}
	if (flags & OPF_ATOMICETH) {
		h.atomic.va = w->remote_addr;
		h.atomic.rkey = w->rkey;
		h.atomic.compare = 0;
		h.atomic.swap_add = w->atomic.compare_add;
		if (w->opcode == RNIC_WR_ATOMIC_CMP_AND_SWP) {
			h.atomic.compare = w->atomic.compare_add;
			h.atomic.swap_add = w->atomic.swap;
		}
	}
	if (flags & OPF_IMMDT)
		memcpy(h.immdt, &w->imm_or_rkey, sizeof(h.immdt));
	if (flags & OPF_IETH)
		h.ieth_rkey = w->imm_or_rkey;
	tx->flow = &qp->attr.flow;
	if (unlikely(flags & OPF_DETH)) {
		tx->flow = &w->ud.flow;
		h.bth.dqpn = w->ud.qpn;
		h.deth.qkey = w->ud.qkey & QKEY_OWN ? qp->attr.qkey : w->ud.qkey;
		h.deth.sqpn = qp->qpn;
	}
	tx->payload_len = 0;
	tx->niov = 0;
	if ((flags & OPF_PAYLOAD) && request_payload(qp, tx, w, off))
		return -EFAULT;
	tx_finish(qp, tx, &h);
	return 0;
}

/* ---- the cursor ----------------------------------------------------------------------------- */

/* The WQE at the cursor can not go on. It fails once all before it are acknowledged. */
static void req_fail(struct rnic_qp *qp, struct send_wqe *w, enum rnic_wc_status status,
		     enum rnic_cause cause)
{
	w->status = (uint8_t)status;
	w->cause = (uint8_t)cause;
	if (qp->sq.cur == qp->sq.una)
		qp_fail_send(qp, status, cause);
	else
		qp->req.failed = true;
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
		if ((w->flags & RNIC_SEND_FENCE) && qp->req.rd_out)
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
		assert(qp->req.psn == qp->req.max_psn);
		w->first_psn = qp->req.psn;
		w->npkts = wqe_is_atomic(w) ? 1 : pkts_of(w->length, qp->mtu);
		w->chunk_pkts = w->opcode == RNIC_WR_RDMA_READ ? read_chunk_pkts(qp) : 1;
		return w;
	}
	return NULL;
}

static void req_sent(struct rnic_qp *qp, struct send_wqe *w, uint32_t span, uint32_t cost,
		     bool asked, uint64_t now)
{
	struct req *q = &qp->req;
	bool oldest = q->psn == q->una_psn, again = q->psn != q->max_psn;
	uint32_t end = psn_add(q->psn, span);

	w->begun = true;
	if (again) {
		qp->rnic->counters.tx_retransmit++;
	} else if (!q->rtt_running) {
		q->rtt_running = asked;
		q->rtt_psn = q->psn;
		q->rtt_start_ns = now;
	}
	q->psn = end;
	if (psn_diff(end, q->max_psn) > 0)
		q->max_psn = end;
	window_take(qp, w, cost);
	q->unasked = asked ? 0 : q->unasked + cost;
	if (wqe_wants_response(w))
		q->rd_out++;
	if (end == psn_add(w->first_psn, w->npkts))
		qp->sq.cur++;
	if (oldest)
		req_clock_sent(qp, now);
}

static bool req_tx_probe(struct rnic_qp *qp, struct rnic_tx *tx)
{
	struct req *q = &qp->req;
	struct send_wqe *w = sq_at(&qp->sq, qp->sq.una);
	uint32_t idx = (q->una_psn - w->first_psn) & PSN_MASK;

	q->probe = false;
	if (q->una_psn == q->max_psn)
		return false; /* answered meanwhile */
	q->probed = true;
	q->probe_end = psn_add(q->una_psn, request_span(w, idx));
	q->probe_max = q->max_psn;
	q->probe_tells = !wqe_wants_response(w) && (q->doubt || idx + 1 != w->npkts);
	q->doubt = false;
	if (request_build(qp, tx, w, idx, true)) {
		qp_fail_send(qp, RNIC_WC_LOC_PROT_ERR, qp->rnic->denial.cause);
		return false;
	}
	qp->rnic->counters.tx_retransmit++;
	return true;
}

bool req_tx(struct rnic_qp *qp, struct rnic_tx *tx, uint64_t now)
{
	struct req *q = &qp->req;
	uint32_t idx, span, cost;
	struct send_wqe *w;
	bool ask;

	if (!qp_requester_runs(qp) || q->rnr_wait || q->failed)
		return false;
	if (unlikely(q->probe) && req_tx_probe(qp, tx))
		return true;
	w = req_next(qp);
	if (!w)
		return false;
	idx = (q->psn - w->first_psn) & PSN_MASK;
	span = request_span(w, idx);
	cost = wqe_cost(qp, w, idx, idx + span);
	if (wqe_wants_response(w) && q->rd_out >= qp->attr.max_rd_atomic)
		return false;
	if (!window_allows(qp, w, cost))
		return false;
	ask = idx + span == w->npkts || window_needs_answer(qp, w, cost);
	if (request_build(qp, tx, w, idx, ask)) {
		req_fail(qp, w, RNIC_WC_LOC_PROT_ERR, qp->rnic->denial.cause);
		return false;
	}
	req_sent(qp, w, span, cost, ask, now);
	return true;
}

void req_check_drained(struct rnic_qp *qp)
{
	struct sq *sq = &qp->sq;

	if (qp->state != RNIC_QPS_SQD || qp->req.sqd_notified || sq->una != sq->cur ||
	    qp->req.una_psn != qp->req.max_psn ||
	    (sq->cur != sq->prod && sq_at(sq, sq->cur)->begun))
		return;
	qp->req.sqd_notified = true;
	if (qp->sqd_notify)
		qp_event(qp, RNIC_EVENT_SQ_DRAINED);
}
