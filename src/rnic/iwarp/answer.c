/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The peer's READs and atomics, in their order, into FPDUs. */
#include "rnic/iwarp/iwarp.h"

int iwarp_read_allowed(struct rnic_qp *qp, const struct rdmap_read_request *r)
{
	/* That the peer is ready, said by a READ of nothing, is no access (RFC 6581 section 4.2).
	 */
	if (!r->size && !iwarp_of(qp)->asked && iwarp_of(qp)->stream.rtr == MPA_RTR_READ)
		return 0;
	if (!(qp->attr.access_flags & RNIC_ACCESS_REMOTE_READ)) {
		qp->rnic->denial = (struct denial){.cause = RNIC_CAUSE_OPERATION};
		return RDMAP_TERM_ACCESS;
	}
	/* Of no bytes: the key is not looked at (RFC 5040 section 5.2.1). */
	if (!r->size ||
	    mem_remote(qp, r->source_stag, r->source_to, r->size, 0, RNIC_ACCESS_REMOTE_READ))
		return 0;
	return iwarp_cause_of_denial(qp, false);
}

/* What is sent is what its CRC says, whatever becomes of the memory: for the peer a wrong CRC is
 * the end of the connection. Short ones are copied anyway. */
static const void *held(const struct fpdu_out *out, struct fpdu_batch *b, const void *mem,
			uint32_t len)
{
	uint8_t *to;

	if (!out->crc || !b->copies || len <= FPDU_COPY_MAX)
		return mem;
	assert(len <= b->copies_max - b->copied);
	to = b->copies + b->copied;
	memcpy(to, mem, len);
	b->copied += len;
	return to;
}

static enum iwarp_put put_response(struct rnic_qp *qp, struct fpdu_batch *b, struct question *q)
{
	struct iwarp_qp *w = iwarp_of(qp);
	const struct rdmap_read_request *r = &q->read;
	uint32_t len = min_of(r->size - q->done, w->mulpdu - DDP_TAGGED_LEN);
	const struct ddp_hdr h = {
		.tagged = true,
		.last = q->done + len == r->size,
		.dv = DDP_VERSION,
		.rv = RDMAP_VERSION,
		.opcode = RDMAP_READ_RESPONSE,
		.stag = r->sink_stag,
		.to = r->sink_to + q->done,
	};
	uint8_t hdr[DDP_HDR_MAX];
	struct iovec iov = {NULL, len};

	if (len) {
		iov.iov_base = mem_remote(qp, r->source_stag, r->source_to + q->done, len, len,
					  RNIC_ACCESS_REMOTE_READ);
		if (!iov.iov_base) {
			/* The region went while it was being read. */
			iwarp_refuse(qp, iwarp_cause_of_denial(qp, false), NULL, r);
			return PUT_NOTHING;
		}
	}
	if (!fpdu_out_fits(&w->out, b, DDP_TAGGED_LEN + len, len != 0))
		return PUT_NO_ROOM;
	iov.iov_base = (void *)held(&w->out, b, iov.iov_base, len);
	(void)!fpdu_out_put(&w->out, b, hdr, ddp_hdr_put(hdr, &h), &iov, len != 0);
	count(qp, tx_bytes, len);
	q->done += len;
	if (h.last)
		w->told++;
	return PUT_ONE;
}

static enum iwarp_put put_value(struct rnic_qp *qp, struct fpdu_batch *b, const struct question *q)
{
	struct iwarp_qp *w = iwarp_of(qp);
	struct rdmap_atomic_response answer = {.id = q->request.id};
	uint8_t body[RDMAP_ATOMIC_RESPONSE_LEN];
	enum iwarp_put put;
	uint64_t *mem;

	/* It is done once. */
	if (!fpdu_out_fits(&w->out, b, DDP_UNTAGGED_LEN + sizeof(body), 0))
		return PUT_NO_ROOM;
	mem = (uint64_t *)(void *)mem_remote(qp, q->request.stag, q->request.to, sizeof(*mem),
					     sizeof(*mem), RNIC_ACCESS_REMOTE_ATOMIC);
	if (mem && ((uintptr_t)mem & 7)) {
		qp->rnic->denial = (struct denial){.cause = RNIC_CAUSE_ALIGNMENT};
		iwarp_refuse(qp, RDMAP_TERM_PROTECTION, NULL, NULL);
		return PUT_NOTHING;
	}
	if (!mem) {
		iwarp_refuse(qp, iwarp_cause_of_denial(qp, false), NULL, NULL);
		return PUT_NOTHING;
	}
	if (q->request.op == RDMAP_FETCH_ADD) {
		answer.value = __atomic_fetch_add(mem, q->request.data, __ATOMIC_SEQ_CST);
	} else {
		answer.value = q->request.compare;
		__atomic_compare_exchange_n(mem, &answer.value, q->request.data, false,
					    __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
	}
	rdmap_atomic_response_put(body, &answer);
	put = iwarp_put_message(qp, b, RDMAP_ATOMIC_RESPONSE, DDP_QN_ATOMIC_RESPONSE, body,
				sizeof(body));
	w->told++;
	return put;
}

enum iwarp_put iwarp_answer_tx(struct rnic_qp *qp, struct fpdu_batch *b)
{
	struct iwarp_qp *w = iwarp_of(qp);
	struct question *q;

	if (!iwarp_answers(w))
		return PUT_NOTHING;
	q = &w->question[w->told % RNIC_MAX_RD_ATOM];
	return q->atomic ? put_value(qp, b, q) : put_response(qp, b, q);
}
