/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The last message of a stream (RFC 5040 section 4.8), ours and the peer's. */
#include "rnic/iwarp/iwarp.h"

uint16_t iwarp_cause_of_denial(const struct rnic_qp *qp, bool tagged)
{
	const struct denial *d = &qp->rnic->denial;

	switch (d->cause) {
	case RNIC_CAUSE_RKEY_PD:
	case RNIC_CAUSE_RKEY_QP:
		return tagged ? DDP_TERM_STAG_OF_OTHERS : RDMAP_TERM_STAG_OF_OTHERS;
	case RNIC_CAUSE_RKEY_ACCESS:
		return RDMAP_TERM_ACCESS;
	case RNIC_CAUSE_RKEY_BOUNDS:
		if (d->va + d->len < d->va)
			return tagged ? DDP_TERM_WRAP : RDMAP_TERM_WRAP;
		return tagged ? DDP_TERM_BOUNDS : RDMAP_TERM_BOUNDS;
	case RNIC_CAUSE_RKEY_PAGE:
		return RDMAP_TERM_PROTECTION;
	default:
		return tagged ? DDP_TERM_STAG : RDMAP_TERM_STAG;
	}
}

/* ---- ours ------------------------------------------------------------------------------------ */

/* What is told of it, as adapters do. */
static enum rnic_event event_of(uint16_t cause)
{
	switch ((enum rdmap_term_cause)cause) {
	case DDP_TERM_STAG:
	case DDP_TERM_BOUNDS:
	case DDP_TERM_STAG_OF_OTHERS:
	case DDP_TERM_WRAP:
	case RDMAP_TERM_STAG:
	case RDMAP_TERM_BOUNDS:
	case RDMAP_TERM_ACCESS:
	case RDMAP_TERM_STAG_OF_OTHERS:
	case RDMAP_TERM_WRAP:
	case RDMAP_TERM_PROTECTION:
		return RNIC_EVENT_QP_ACCESS_ERR;
	case RDMAP_TERM_OPCODE:
	case RDMAP_TERM_OPERATION:
	case DDP_TERM_NO_BUFFER:
	case DDP_TERM_TOO_LONG:
		return RNIC_EVENT_QP_REQ_ERR;
	default:
		return RNIC_EVENT_QP_FATAL;
	}
}

static enum rnic_cause own_cause(const struct rnic_qp *qp, uint16_t cause)
{
	return event_of(cause) == RNIC_EVENT_QP_ACCESS_ERR ? qp->rnic->denial.cause
							   : RNIC_CAUSE_STREAM;
}

static void owe(struct rnic_qp *qp, uint16_t cause, const struct segment *s,
		const struct rdmap_read_request *r)
{
	struct iwarp_qp *w = iwarp_of(qp);

	w->terminate = (struct rdmap_terminate){.cause = cause};
	if (s) {
		w->terminate.has_len = w->terminate.has_ddp = true;
		w->terminate.segment_len = (uint16_t)s->whole;
		w->terminate.ddp = s->h;
	}
	if (r) {
		w->terminate.has_request = true;
		w->terminate.request = *r;
	}
	w->terminated = w->owes_terminate = true;
	qp_activate(qp);
}

void iwarp_refuse(struct rnic_qp *qp, uint16_t cause, const struct segment *s,
		  const struct rdmap_read_request *r)
{
	if (qp->state == RNIC_QPS_ERR)
		return;
	owe(qp, cause, s, r);
	qp_event(qp, event_of(cause));
	qp_fail_recv(qp, own_cause(qp, cause), 0);
}

void iwarp_fail_request(struct rnic_qp *qp, uint16_t cause, enum rnic_wc_status status,
			enum rnic_cause why)
{
	owe(qp, cause, NULL, NULL);
	qp_fail_send(qp, status, why);
}

enum iwarp_put iwarp_terminate_tx(struct rnic_qp *qp, struct fpdu_batch *b)
{
	struct iwarp_qp *w = iwarp_of(qp);
	uint8_t body[RDMAP_TERMINATE_MAX];
	enum iwarp_put put;

	static_assert(DDP_HDR_MAX + RDMAP_TERMINATE_MAX <= FPDU_HEADERS_MAX, "room for it");
	if (!w->owes_terminate)
		return PUT_NOTHING;
	put = iwarp_put_message(qp, b, RDMAP_TERMINATE, DDP_QN_TERMINATE, body,
				rdmap_terminate_put(body, &w->terminate));
	w->owes_terminate = put != PUT_ONE;
	return put;
}

/* ---- the peer's ------------------------------------------------------------------------------ */

static enum rnic_wc_status status_of(uint16_t cause)
{
	switch (event_of(cause)) {
	case RNIC_EVENT_QP_ACCESS_ERR:
		return RNIC_WC_REM_ACCESS_ERR;
	case RNIC_EVENT_QP_REQ_ERR:
		return RNIC_WC_REM_INV_REQ_ERR;
	default:
		return RNIC_WC_REM_OP_ERR;
	}
}

void iwarp_terminate_rx(struct rnic_qp *qp, const struct segment *s)
{
	struct iwarp_qp *w = iwarp_of(qp);

	if (rdmap_terminate_get(&w->terminate, s->payload, s->len) != 0)
		w->terminate = (struct rdmap_terminate){.cause = RDMAP_TERM_LOCAL};
	w->terminated = true;
	/* Only of a READ or an atomic that waits is it known that it was not done; of others that
	 * the peer may have meant the completions are out. */
	if (w->waiting)
		qp_fail_send(qp, status_of(w->terminate.cause), RNIC_CAUSE_TERMINATED);
	else {
		qp_event(qp, RNIC_EVENT_QP_FATAL);
		qp_fail_recv(qp, RNIC_CAUSE_TERMINATED, 0);
	}
}
