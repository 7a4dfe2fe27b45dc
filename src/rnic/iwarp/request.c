/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Work requests, in their order, into FPDUs. */
#include "rnic/iwarp/iwarp.h"

/* Pieces of memory that one FPDU is of, at most. */
#define PIECES (MPA_MULPDU_MAX / IWARP_PIECE + 1 + 2 * RNIC_MAX_SGE)

/* ---- what has gone, or was answered ---------------------------------------------------------- */

void iwarp_request_done(struct rnic_qp *qp)
{
	struct sq *sq = &qp->sq;

	sq_complete(qp, RNIC_WC_SUCCESS);
	while (sq->una != sq->cur && !wqe_wants_response(sq_at(sq, sq->una)))
		sq_complete(qp, RNIC_WC_SUCCESS);
	qp_check_drained(qp);
	/* One may have waited for an answer by its fence, or for their number. */
	if (sq->cur != sq->prod)
		qp_activate(qp);
}

/* The one at cur has gone whole. */
static void gone(struct rnic_qp *qp)
{
	struct iwarp_qp *w = iwarp_of(qp);
	struct sq *sq = &qp->sq;
	bool waits = wqe_wants_response(sq_at(sq, sq->cur));

	w->off = 0;
	w->written = false;
	w->waiting += waits;
	if (waits || sq->una != sq->cur)
		sq->cur++;
	else
		iwarp_request_done(qp);
}

/* ---- beginning ------------------------------------------------------------------------------- */

static void fail(struct rnic_qp *qp, enum rnic_wc_status status, enum rnic_cause cause)
{
	struct send_wqe *w = sq_at(&qp->sq, qp->sq.cur);

	/* Those before it have gone, but may wait for their answers: it fails when it is the
	 * oldest. */
	w->status = (uint8_t)status;
	w->cause = (uint8_t)cause;
}

static enum rnic_cause cannot(const struct rnic_qp *qp, const struct send_wqe *w)
{
	const struct iwarp_qp *iw = iwarp_of(qp);

	if (wqe_wants_response(w) && !iw->stream.ord)
		return RNIC_CAUSE_NO_READS;
	if (wqe_is_atomic(w) && w->length != sizeof(uint64_t))
		return RNIC_CAUSE_ATOMIC_LENGTH;
	if (wqe_is_atomic(w) && !iw->stream.atomics)
		return RNIC_CAUSE_OPERATION;
	if (w->opcode == RNIC_WR_RDMA_WRITE_WITH_IMM && !iw->stream.immediate)
		return RNIC_CAUSE_OPERATION;
	return RNIC_CAUSE_NONE;
}

/* True: it may be sent. */
static bool begin(struct rnic_qp *qp, struct send_wqe *w)
{
	const struct iwarp_qp *iw = iwarp_of(qp);
	enum rnic_cause cause;

	if (qp->state != RNIC_QPS_RTS)
		return false; /* SQD: nothing new is begun */
	if ((w->flags & RNIC_SEND_FENCE) && iw->waiting)
		return false;
	cause = cannot(qp, w);
	if (cause != RNIC_CAUSE_NONE) {
		fail(qp, RNIC_WC_LOC_QP_OP_ERR, cause);
	} else if (wqe_is_local(w)) {
		if (mw_execute(qp, w))
			fail(qp, RNIC_WC_MW_BIND_ERR, RNIC_CAUSE_WINDOW);
	} else if (wqe_wants_response(w) && iw->waiting + iw->rtr_asks >= iw->stream.ord) {
		return false;
	}
	w->begun = true;
	return true;
}

/* ---- FPDUs ----------------------------------------------------------------------------------- */

/* len bytes of the request's memory from where it is, by pieces that any region has. */
static int gather(struct rnic_qp *qp, const struct send_wqe *w, uint32_t off, uint32_t len,
		  struct iovec *iov, size_t *ret_n)
{
	*ret_n = 0;
	if (w->flags & RNIC_SEND_INLINE) {
		iov[(*ret_n)++] = (struct iovec){(uint8_t *)(uintptr_t)w->sge + off, len};
		return 0;
	}
	for (uint32_t n; len; off += n, len -= n) {
		uint8_t niov;

		n = min_of(len, (uint32_t)IWARP_PIECE);
		if (sge_gather(qp->pd, w->sge, w->num_sge, off, n, 0, iov + *ret_n, &niov))
			return -EFAULT;
		*ret_n += niov;
	}
	return 0;
}

static uint8_t send_opcode(const struct send_wqe *w)
{
	bool se = w->flags & RNIC_SEND_SOLICITED;

	if (w->opcode == RNIC_WR_SEND_WITH_INV)
		return se ? RDMAP_SEND_SE_INVALIDATE : RDMAP_SEND_INVALIDATE;
	return se ? RDMAP_SEND_SE : RDMAP_SEND;
}

static enum iwarp_put put_read(struct rnic_qp *qp, struct fpdu_batch *b, const struct send_wqe *w)
{
	/* The sink is what hardware has it be: a region of the application's, by its key. */
	const struct rdmap_read_request r = {
		.sink_stag = w->num_sge ? w->sge[0].lkey : 0,
		.sink_to = w->num_sge ? w->sge[0].addr : 0,
		.size = w->length,
		.source_stag = w->rkey,
		.source_to = w->remote_addr,
	};
	uint8_t body[RDMAP_READ_REQUEST_LEN];

	rdmap_read_request_put(body, &r);
	return iwarp_put_message(qp, b, RDMAP_READ_REQUEST, DDP_QN_READ_REQUEST, body,
				 sizeof(body));
}

static enum iwarp_put put_atomic(struct rnic_qp *qp, struct fpdu_batch *b, const struct send_wqe *w)
{
	bool swaps = w->opcode == RNIC_WR_ATOMIC_CMP_AND_SWP;
	const struct rdmap_atomic_request r = {
		.op = swaps ? RDMAP_COMPARE_SWAP : RDMAP_FETCH_ADD,
		.id = qp->sq.cur,
		.stag = w->rkey,
		.to = w->remote_addr,
		.data = swaps ? w->atomic.swap : w->atomic.compare_add,
		.data_mask = swaps ? UINT64_MAX : 0, /* of an addition: where carries end */
		.compare = swaps ? w->atomic.compare_add : 0,
		.compare_mask = swaps ? UINT64_MAX : 0,
	};
	uint8_t body[RDMAP_ATOMIC_REQUEST_LEN];

	rdmap_atomic_request_put(body, &r);
	return iwarp_put_message(qp, b, RDMAP_ATOMIC_REQUEST, DDP_QN_READ_REQUEST, body,
				 sizeof(body));
}

/* Keys and addresses of nothing are not looked at (RFC 5041 section 5.2, RFC 5040 section 5.2.1); 0
 * is avoided, as by others. */
enum iwarp_put iwarp_rtr_tx(struct rnic_qp *qp, struct fpdu_batch *b)
{
	const struct rdmap_read_request r = {.sink_stag = 1, .source_stag = 1};
	const struct ddp_hdr h = {
		.tagged = true,
		.last = true,
		.dv = DDP_VERSION,
		.rv = RDMAP_VERSION,
		.opcode = RDMAP_WRITE,
		.stag = 1,
	};
	struct iwarp_qp *w = iwarp_of(qp);
	uint8_t body[RDMAP_READ_REQUEST_LEN] = {0}, hdr[DDP_HDR_MAX];
	enum iwarp_put put = PUT_ONE;

	switch (w->rtr) {
	case MPA_RTR_READ:
		rdmap_read_request_put(body, &r);
		put = iwarp_put_message(qp, b, RDMAP_READ_REQUEST, DDP_QN_READ_REQUEST, body,
					sizeof(body));
		w->rtr_asks = put == PUT_ONE;
		break;
	case MPA_RTR_SEND:
		put = iwarp_put_message(qp, b, RDMAP_SEND, DDP_QN_SEND, body, 0);
		break;
	default:
		if (!fpdu_out_put(&w->out, b, hdr, ddp_hdr_put(hdr, &h), NULL, 0))
			put = PUT_NO_ROOM;
	}
	if (put == PUT_ONE)
		w->rtr = MPA_RTR_NONE;
	return put;
}

static enum iwarp_put put_imm(struct rnic_qp *qp, struct fpdu_batch *b, const struct send_wqe *w)
{
	/* RFC 7306 leaves open what four bytes stand in: the first of its eight. */
	uint8_t body[RDMAP_IMMEDIATE_LEN] = {0};

	memcpy(body, &w->imm_or_rkey, sizeof(w->imm_or_rkey));
	return iwarp_put_message(
		qp, b, w->flags & RNIC_SEND_SOLICITED ? RDMAP_IMMEDIATE_SE : RDMAP_IMMEDIATE,
		DDP_QN_SEND, body, sizeof(body));
}

/* A segment of a SEND or a WRITE. */
static enum iwarp_put put_data(struct rnic_qp *qp, struct fpdu_batch *b, struct send_wqe *w)
{
	struct iwarp_qp *iw = iwarp_of(qp);
	bool tagged = w->opcode == RNIC_WR_RDMA_WRITE || w->opcode == RNIC_WR_RDMA_WRITE_WITH_IMM;
	uint32_t head = tagged ? DDP_TAGGED_LEN : DDP_UNTAGGED_LEN;
	uint32_t len = min_of(w->length - iw->off, iw->mulpdu - head);
	bool last = iw->off + len == w->length;
	struct ddp_hdr h = {
		.tagged = tagged,
		.last = last,
		.dv = DDP_VERSION,
		.rv = RDMAP_VERSION,
		.opcode = tagged ? RDMAP_WRITE : send_opcode(w),
	};
	struct iovec iov[PIECES];
	uint8_t hdr[DDP_HDR_MAX];
	size_t n;

	if (tagged) {
		h.stag = w->rkey;
		h.to = w->remote_addr + iw->off;
	} else {
		h.stag = w->opcode == RNIC_WR_SEND_WITH_INV ? w->imm_or_rkey : 0;
		h.qn = DDP_QN_SEND;
		h.msn = iw->msn[DDP_QN_SEND];
		h.mo = iw->off;
	}
	if (gather(qp, w, iw->off, len, iov, &n)) {
		fail(qp, RNIC_WC_LOC_PROT_ERR, qp->rnic->denial.cause);
		return PUT_NOTHING;
	}
	if (!fpdu_out_put(&iw->out, b, hdr, ddp_hdr_put(hdr, &h), iov, n))
		return PUT_NO_ROOM;
	iw->off += len;
	if (last && tagged)
		iw->written = true;
	else if (last)
		iw->msn[DDP_QN_SEND]++;
	count(qp, tx_bytes, len);
	return PUT_ONE;
}

/* One of a request that has been begun. */
static enum iwarp_put put(struct rnic_qp *qp, struct fpdu_batch *b, struct send_wqe *w)
{
	switch (w->opcode) {
	case RNIC_WR_RDMA_READ:
		return put_read(qp, b, w);
	case RNIC_WR_ATOMIC_CMP_AND_SWP:
	case RNIC_WR_ATOMIC_FETCH_AND_ADD:
		return put_atomic(qp, b, w);
	case RNIC_WR_RDMA_WRITE_WITH_IMM:
		if (iwarp_of(qp)->written)
			return put_imm(qp, b, w);
		break;
	default:
		break;
	}
	return put_data(qp, b, w);
}

/* Was that all of it? */
static bool is_gone(const struct iwarp_qp *iw, const struct send_wqe *w, bool was_written)
{
	if (wqe_wants_response(w))
		return true;
	if (w->opcode == RNIC_WR_RDMA_WRITE_WITH_IMM)
		return was_written;
	return iw->off == w->length;
}

/* A request that failed here ends the queue pair once those before it are done. */
static bool failed(struct rnic_qp *qp, const struct send_wqe *w)
{
	if (w->status == RNIC_WC_SUCCESS)
		return false;
	if (qp->sq.una == qp->sq.cur)
		iwarp_fail_request(qp, RDMAP_TERM_LOCAL, w->status, w->cause);
	return true;
}

enum iwarp_put iwarp_request_tx(struct rnic_qp *qp, struct fpdu_batch *b)
{
	struct iwarp_qp *iw = iwarp_of(qp);
	struct sq *sq = &qp->sq;

	while (sq->cur != sq->prod && qp_requester_runs(qp)) {
		struct send_wqe *w = sq_at(sq, sq->cur);
		bool was_written = iw->written;
		enum iwarp_put did;

		if (!w->begun && !begin(qp, w))
			return PUT_NOTHING;
		if (failed(qp, w))
			return PUT_NOTHING;
		if (wqe_is_local(w)) {
			gone(qp);
			continue;
		}
		did = put(qp, b, w);
		if (did == PUT_NOTHING)
			continue; /* it failed */
		if (did == PUT_ONE && is_gone(iw, w, was_written))
			gone(qp);
		return did;
	}
	return PUT_NOTHING;
}
