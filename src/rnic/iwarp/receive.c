/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Segments of the peer's: checked as DDP has it (RFC 5041 section 7), then as RDMAP has it (RFC
 * 5040 section 7), then to their place. Each returns 0, or has refused and says by what.
 */
#include "rnic/iwarp/iwarp.h"

/* By pieces that any region has. */
static int scatter(struct rnic_pd *pd, const struct rnic_sge *sge, uint32_t num_sge, uint32_t off,
		   const uint8_t *data, uint32_t len)
{
	for (uint32_t n; len; off += n, data += n, len -= n) {
		n = min_of(len, (uint32_t)IWARP_PIECE);
		if (sge_scatter(pd, sge, num_sge, off, data, n))
			return -EFAULT;
	}
	return 0;
}

static int refuse(struct rnic_qp *qp, uint16_t cause, const struct segment *s)
{
	iwarp_refuse(qp, cause, s, NULL);
	return cause;
}

/* No key was looked at, of which the last look would tell. */
static int refuse_for(struct rnic_qp *qp, enum rnic_cause why, uint16_t cause,
		      const struct segment *s)
{
	qp->rnic->denial = (struct denial){.cause = why};
	return refuse(qp, cause, s);
}

static int refuse_for_memory(struct rnic_qp *qp, const struct segment *s)
{
	return refuse(qp, iwarp_cause_of_denial(qp, true), s);
}

/* ---- a WRITE --------------------------------------------------------------------------------- */

static int write_rx(struct rnic_qp *qp, const struct segment *s)
{
	uint8_t *mem;

	if (!s->len)
		return 0; /* the key is not looked at (RFC 5041 section 5.2) */
	if (!(qp->attr.access_flags & RNIC_ACCESS_REMOTE_WRITE))
		return refuse_for(qp, RNIC_CAUSE_OPERATION, RDMAP_TERM_ACCESS, s);
	mem = mem_remote(qp, s->h.stag, s->h.to, s->len, s->len, RNIC_ACCESS_REMOTE_WRITE);
	if (!mem)
		return refuse_for_memory(qp, s);
	mem_place(mem, s->payload, s->len);
	return 0;
}

/* ---- what takes a receive -------------------------------------------------------------------- */

/* No receive holds it, or its memory is none. */
static int recv_broken(struct rnic_qp *qp, const struct segment *s, enum rnic_wc_status status,
		       uint16_t cause)
{
	recv_fail(qp, status);
	return refuse(qp, cause, s);
}

static bool invalidates(uint8_t opcode)
{
	return opcode == RDMAP_SEND_INVALIDATE || opcode == RDMAP_SEND_SE_INVALIDATE;
}

static int send_rx(struct rnic_qp *qp, const struct segment *s)
{
	struct arriving *a = &iwarp_of(qp)->arriving[DDP_QN_SEND];
	const struct recv_wqe *w = recv_peek(qp);
	struct rnic_wc wc = {.opcode = RNIC_WC_RECV};

	if (!w)
		return refuse(qp, DDP_TERM_NO_BUFFER, s);
	recv_take(qp);
	w = rq_at(&qp->rq, qp->rq.cons);
	if (s->len > w->length - s->h.mo) {
		qp->rnic->denial = (struct denial){.cause = RNIC_CAUSE_RECV_LENGTH};
		return recv_broken(qp, s, RNIC_WC_LOC_LEN_ERR, DDP_TERM_TOO_LONG);
	}
	if (scatter(qp->recv_pd, w->sge, w->num_sge, s->h.mo, s->payload, s->len))
		return recv_broken(qp, s, RNIC_WC_LOC_PROT_ERR, RDMAP_TERM_STREAM);
	if (!s->h.last)
		return 0;
	wc.byte_len = a->mo + s->len;
	if (invalidates(s->h.opcode)) {
		if (mw_invalidate(qp, s->h.stag)) {
			qp->rnic->denial = (struct denial){.cause = RNIC_CAUSE_INVALIDATE};
			return recv_broken(qp, s, RNIC_WC_REM_INV_REQ_ERR, RDMAP_TERM_INVALIDATE);
		}
		wc.imm_or_rkey = s->h.stag;
		wc.wc_flags = RNIC_WC_WITH_INV;
	}
	recv_complete(qp, &wc,
		      s->h.opcode == RDMAP_SEND_SE || s->h.opcode == RDMAP_SEND_SE_INVALIDATE);
	return 0;
}

static int immediate_rx(struct rnic_qp *qp, const struct segment *s)
{
	struct rnic_wc wc = {.opcode = RNIC_WC_RECV_RDMA_WITH_IMM, .wc_flags = RNIC_WC_WITH_IMM};

	if (!iwarp_of(qp)->stream.immediate)
		return refuse(qp, RDMAP_TERM_OPCODE, s);
	if (s->len != RDMAP_IMMEDIATE_LEN || !s->h.last)
		return refuse(qp, RDMAP_TERM_OPERATION, s);
	if (!recv_peek(qp))
		return refuse(qp, DDP_TERM_NO_BUFFER, s);
	memcpy(&wc.imm_or_rkey, s->payload, sizeof(wc.imm_or_rkey));
	recv_complete(qp, &wc, s->h.opcode == RDMAP_IMMEDIATE_SE);
	return 0;
}

/* ---- questions ------------------------------------------------------------------------------- */

/* siw makes of the number that was agreed on the next power of two (siw_qp_readq_init()), and asks
 * for as many at a time. */
static struct question *ask(struct rnic_qp *qp)
{
	struct iwarp_qp *w = iwarp_of(qp);
	uint32_t most = w->stream.ird ? round_up_pow2(w->stream.ird) : 0;

	return w->asked - w->told < most ? &w->question[w->asked % RNIC_MAX_RD_ATOM] : NULL;
}

static int read_request_rx(struct rnic_qp *qp, const struct segment *s)
{
	struct question *q = ask(qp);
	int cause;

	if (s->len != RDMAP_READ_REQUEST_LEN || !s->h.last)
		return refuse(qp, RDMAP_TERM_OPERATION, s);
	if (!q)
		return refuse(qp, DDP_TERM_NO_BUFFER, s);
	*q = (struct question){0};
	rdmap_read_request_get(&q->read, s->payload);
	cause = iwarp_read_allowed(qp, &q->read);
	if (cause) {
		iwarp_refuse(qp, (uint16_t)cause, s, &q->read);
		return cause;
	}
	iwarp_of(qp)->asked++;
	qp_activate(qp);
	return 0;
}

static int atomic_request_rx(struct rnic_qp *qp, const struct segment *s)
{
	const struct rdmap_atomic_request *r;
	struct question *q = ask(qp);

	if (!iwarp_of(qp)->stream.atomics)
		return refuse(qp, RDMAP_TERM_OPCODE, s);
	if (s->len != RDMAP_ATOMIC_REQUEST_LEN || !s->h.last)
		return refuse(qp, RDMAP_TERM_OPERATION, s);
	if (!q)
		return refuse(qp, DDP_TERM_NO_BUFFER, s);
	*q = (struct question){.atomic = true};
	rdmap_atomic_request_get(&q->request, s->payload);
	r = &q->request;
	/* No masks: neither verbs nor another's hardware ask for any. */
	if ((r->op != RDMAP_FETCH_ADD && r->op != RDMAP_COMPARE_SWAP) || (r->to & 7) ||
	    (r->op == RDMAP_FETCH_ADD && r->data_mask) ||
	    (r->op == RDMAP_COMPARE_SWAP && (~r->data_mask || ~r->compare_mask)))
		return refuse(qp, RDMAP_TERM_OPERATION, s);
	if (!(qp->attr.access_flags & RNIC_ACCESS_REMOTE_ATOMIC))
		return refuse_for(qp, RNIC_CAUSE_OPERATION, RDMAP_TERM_ACCESS, s);
	if (!mem_remote(qp, r->stag, r->to, sizeof(uint64_t), 0, RNIC_ACCESS_REMOTE_ATOMIC))
		return refuse(qp, iwarp_cause_of_denial(qp, false), s);
	iwarp_of(qp)->asked++;
	qp_activate(qp);
	return 0;
}

/* ---- answers --------------------------------------------------------------------------------- */

/* The work request that the next answer is to; NULL: none is waited for, or another kind. */
static struct send_wqe *questioner(const struct rnic_qp *qp, bool atomic)
{
	struct send_wqe *w = sq_at(&qp->sq, qp->sq.una);

	if (!iwarp_of(qp)->waiting || wqe_is_atomic(w) != atomic)
		return NULL;
	return w;
}

static void answered(struct rnic_qp *qp)
{
	iwarp_of(qp)->waiting--;
	iwarp_of(qp)->answered = 0;
	iwarp_request_done(qp);
}

static int read_response_rx(struct rnic_qp *qp, const struct segment *s)
{
	struct iwarp_qp *iw = iwarp_of(qp);
	const struct send_wqe *w = questioner(qp, false);

	/* The one that said that we are ready came before all others. */
	if (iw->rtr_asks && !s->len && s->h.last) {
		iw->rtr_asks = false;
		qp_activate(qp);
		return 0;
	}
	if (!w)
		return refuse(qp, RDMAP_TERM_OPCODE, s);
	if (s->len > w->length - iw->answered || (s->h.last && s->len != w->length - iw->answered))
		return refuse_for(qp, RNIC_CAUSE_RESPONSE, DDP_TERM_BOUNDS, s);
	if (s->len && s->h.stag != w->sge[0].lkey)
		return refuse_for(qp, RNIC_CAUSE_STREAM, DDP_TERM_STAG, s);
	if (s->len && s->h.to != w->sge[0].addr + iw->answered)
		return refuse_for(qp, RNIC_CAUSE_STREAM, DDP_TERM_BOUNDS, s);
	if (scatter(qp->pd, w->sge, w->num_sge, iw->answered, s->payload, s->len)) {
		iwarp_fail_request(qp, RDMAP_TERM_STREAM, RNIC_WC_LOC_PROT_ERR,
				   qp->rnic->denial.cause);
		return RDMAP_TERM_STREAM;
	}
	iw->answered += s->len;
	if (s->h.last)
		answered(qp);
	return 0;
}

static int atomic_response_rx(struct rnic_qp *qp, const struct segment *s)
{
	const struct send_wqe *w = questioner(qp, true);
	struct rdmap_atomic_response r;

	if (!w)
		return refuse(qp, RDMAP_TERM_OPCODE, s);
	if (s->len != RDMAP_ATOMIC_RESPONSE_LEN || !s->h.last)
		return refuse(qp, RDMAP_TERM_OPERATION, s);
	rdmap_atomic_response_get(&r, s->payload);
	if (r.id != qp->sq.una)
		return refuse(qp, RDMAP_TERM_OPERATION, s);
	if (sge_scatter(qp->pd, w->sge, w->num_sge, 0, (const uint8_t *)&r.value,
			sizeof(r.value))) {
		iwarp_fail_request(qp, RDMAP_TERM_STREAM, RNIC_WC_LOC_PROT_ERR,
				   qp->rnic->denial.cause);
		return RDMAP_TERM_STREAM;
	}
	answered(qp);
	return 0;
}

static int terminate_rx(struct rnic_qp *qp, const struct segment *s)
{
	iwarp_terminate_rx(qp, s);
	return RDMAP_TERM_STREAM; /* whatever, but for 0: nothing more is taken */
}

/* ---- all ------------------------------------------------------------------------------------- */

static int (*const rx[RDMAP_OPCODES])(struct rnic_qp *, const struct segment *) = {
	[RDMAP_WRITE] = write_rx,
	[RDMAP_READ_REQUEST] = read_request_rx,
	[RDMAP_READ_RESPONSE] = read_response_rx,
	[RDMAP_SEND] = send_rx,
	[RDMAP_SEND_INVALIDATE] = send_rx,
	[RDMAP_SEND_SE] = send_rx,
	[RDMAP_SEND_SE_INVALIDATE] = send_rx,
	[RDMAP_TERMINATE] = terminate_rx,
	[RDMAP_IMMEDIATE] = immediate_rx,
	[RDMAP_IMMEDIATE_SE] = immediate_rx,
	[RDMAP_ATOMIC_REQUEST] = atomic_request_rx,
	[RDMAP_ATOMIC_RESPONSE] = atomic_response_rx,
};

/* 0; what is wrong with its header. */
static int check(struct rnic_qp *qp, const struct ddp_hdr *h)
{
	const struct arriving *a;
	bool tagged;
	uint32_t qn;

	if (h->dv != DDP_VERSION)
		return h->tagged ? DDP_TERM_VERSION : DDP_TERM_UNTAGGED_VERSION;
	if (!h->tagged && h->qn >= DDP_QUEUES)
		return DDP_TERM_QN;
	if (h->rv != RDMAP_VERSION)
		return RDMAP_TERM_VERSION;
	if (!rdmap_kind(h->opcode, &tagged, &qn) || tagged != h->tagged)
		return RDMAP_TERM_OPCODE;
	if (tagged)
		return 0;
	if (h->qn != qn)
		return DDP_TERM_QN;
	a = &iwarp_of(qp)->arriving[qn];
	if (h->msn != a->msn)
		return DDP_TERM_MSN;
	if (h->mo != a->mo)
		return DDP_TERM_MO;
	return a->mo && h->opcode != a->opcode ? RDMAP_TERM_OPCODE : 0;
}

/* Not in messages of RDMAP's own. */
static bool has_payload(uint8_t opcode)
{
	switch (opcode) {
	case RDMAP_WRITE:
	case RDMAP_READ_RESPONSE:
	case RDMAP_SEND:
	case RDMAP_SEND_INVALIDATE:
	case RDMAP_SEND_SE:
	case RDMAP_SEND_SE_INVALIDATE:
		return true;
	default:
		return false;
	}
}

int iwarp_receive(void *ctx, const uint8_t *ulpdu, size_t len)
{
	struct rnic_qp *qp = ctx;
	struct segment s = {.whole = len};
	struct arriving *a;
	int n, cause;

	count(qp, rx_packets, 1);
	n = ddp_hdr_get(&s.h, ulpdu, len);
	if (n < 0)
		return refuse(qp, MPA_TERM_MARKER, NULL);
	s.payload = ulpdu + n;
	s.len = (uint32_t)(len - (size_t)n);
	cause = check(qp, &s.h);
	if (cause)
		return refuse(qp, (uint16_t)cause, &s);
	if (!iwarp_of(qp)->heard) {
		iwarp_of(qp)->heard = true;
		qp_activate(qp); /* what waited for that */
	}
	cause = rx[s.h.opcode](qp, &s);
	if (cause)
		return cause;
	if (has_payload(s.h.opcode))
		count(qp, rx_bytes, s.len);
	if (s.h.tagged)
		return 0;
	a = &iwarp_of(qp)->arriving[s.h.qn];
	a->opcode = s.h.opcode;
	a->mo = s.h.last ? 0 : a->mo + s.len;
	a->msn += s.h.last;
	return 0;
}
