/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What a request packet comes to: a walk through named steps, each of which lets it pass or gives
 * the verdict. Nothing is changed here. IBA volume 1, 9.7.4 and table 58 say which NAK.
 */
#include "rnic/ib/ib.h"

#define always_inline static inline __attribute__((always_inline))

static enum verdict check_sequence(struct rnic_qp *qp, struct pkt *p)
{
	int32_t d = psn_diff(p->h.bth.psn, resp_of(qp)->epsn);

	if (d == 0)
		return VERDICT_ACCEPT;
	if (d < 0)
		return VERDICT_DUPLICATE;
	/* The peer goes back for a NAK: the chance to have it called for should be small. */
	return d <= SEQ_AHEAD_MAX ? VERDICT_NAK_SEQ : VERDICT_DROP;
}

/* First, middle and last must follow one another, and be of one kind. */
always_inline enum verdict check_order(struct rnic_qp *qp, uint32_t flags)
{
	enum resp_msg kind = flags & OPF_SEND ? MSG_SEND : MSG_WRITE;

	if (flags & (OPF_FIRST | OPF_ONLY))
		kind = MSG_NONE;
	return resp_of(qp)->msg == kind ? VERDICT_ACCEPT
					: deny(qp, RNIC_CAUSE_ORDER, VERDICT_INVALID);
}

/* Does the QP allow the operation at all? */
always_inline enum verdict check_operation(struct rnic_qp *qp, uint32_t flags)
{
	uint32_t need = 0;

	if (flags & (OPF_WRITE | OPF_ATOMIC_WRITE))
		need = RNIC_ACCESS_REMOTE_WRITE;
	else if (flags & OPF_READ_REQ)
		need = RNIC_ACCESS_REMOTE_READ;
	else if (flags & OPF_ATOMIC_REQ)
		need = RNIC_ACCESS_REMOTE_ATOMIC;
	return (qp->attr.access_flags & need) == need
		       ? VERDICT_ACCEPT
		       : deny(qp, RNIC_CAUSE_OPERATION, VERDICT_INVALID);
}

always_inline bool takes_recv(uint32_t flags)
{
	return ((flags & OPF_SEND) && (flags & (OPF_FIRST | OPF_ONLY))) ||
	       ((flags & OPF_WRITE) && (flags & OPF_IMMDT));
}

always_inline enum verdict check_resources(struct rnic_qp *qp, uint32_t flags)
{
	const struct resp *s = resp_of(qp);

	if (takes_recv(flags))
		return recv_peek(qp) ? VERDICT_ACCEPT : VERDICT_RNR;
	if ((flags & (OPF_READ_REQ | OPF_ATOMIC_REQ | OPF_ATOMIC_WRITE)) &&
	    s->res_prod - s->res_done >= qp->attr.max_dest_rd_atomic)
		return deny(qp, RNIC_CAUSE_READS, VERDICT_INVALID);
	return VERDICT_ACCEPT;
}

always_inline enum verdict length_of(struct rnic_qp *qp, const struct pkt *p, uint32_t flags)
{
	const struct resp *s = resp_of(qp);
	uint32_t left;

	if ((flags & OPF_RETH) && p->h.reth.dma_len > RNIC_MAX_MSG)
		return VERDICT_INVALID;
	if ((flags & OPF_ATOMIC_WRITE) && p->h.reth.dma_len != sizeof(uint64_t))
		return VERDICT_INVALID;
	if (!(flags & OPF_PAYLOAD))
		return p->len ? VERDICT_INVALID : VERDICT_ACCEPT;
	if (p->len > qp->mtu || ((flags & (OPF_FIRST | OPF_MIDDLE)) && p->len != qp->mtu) ||
	    ((flags & OPF_LAST) && p->len == 0))
		return VERDICT_INVALID;
	if (flags & OPF_SEND) {
		uint32_t off = flags & (OPF_FIRST | OPF_ONLY) ? 0 : s->recv_off;

		return p->len <= recv_peek(qp)->length - off ? VERDICT_ACCEPT
							     : VERDICT_RECV_TOO_SHORT;
	}
	left = flags & OPF_RETH ? p->h.reth.dma_len : s->write.left;
	if (flags & (OPF_LAST | OPF_ONLY))
		return p->len == left ? VERDICT_ACCEPT : VERDICT_INVALID;
	return p->len < left ? VERDICT_ACCEPT : VERDICT_INVALID;
}

always_inline enum verdict check_length(struct rnic_qp *qp, const struct pkt *p, uint32_t flags)
{
	enum verdict v = length_of(qp, p, flags);

	if (likely(v == VERDICT_ACCEPT))
		return v;
	return deny(qp, v == VERDICT_INVALID ? RNIC_CAUSE_LENGTH : RNIC_CAUSE_RECV_LENGTH, v);
}

/* A region may map an aligned iova to memory that is not. */
static enum verdict atomic_target(struct rnic_qp *qp, const struct pkt *p)
{
	if (!p->mem)
		return VERDICT_ACCESS;
	return ((uintptr_t)p->mem & 7) == 0 ? VERDICT_ACCEPT
					    : deny(qp, RNIC_CAUSE_ALIGNMENT, VERDICT_ACCESS);
}

always_inline enum verdict check_memory(struct rnic_qp *qp, struct pkt *p, uint32_t flags)
{
	const struct resp *s = resp_of(qp);

	p->mem = NULL;
	if (flags & OPF_ATOMIC_REQ) {
		if (p->h.atomic.va & 7)
			return deny(qp, RNIC_CAUSE_ALIGNMENT, VERDICT_INVALID);
		p->mem = mem_remote(qp, p->h.atomic.rkey, p->h.atomic.va, sizeof(uint64_t),
				    sizeof(uint64_t), RNIC_ACCESS_REMOTE_ATOMIC);
		return atomic_target(qp, p);
	}
	if (flags & OPF_RETH) {
		bool write = flags & (OPF_WRITE | OPF_ATOMIC_WRITE);

		if ((flags & OPF_ATOMIC_WRITE) && (p->h.reth.va & 7))
			return deny(qp, RNIC_CAUSE_ALIGNMENT, VERDICT_INVALID);

		if (p->h.reth.dma_len == 0)
			return VERDICT_ACCEPT; /* nothing is touched: the key is not looked at */
		/* A region may be as long as a message: the whole range must be good at once. */
		p->mem = mem_remote(qp, p->h.reth.rkey, p->h.reth.va, p->h.reth.dma_len, p->len,
				    write ? RNIC_ACCESS_REMOTE_WRITE : RNIC_ACCESS_REMOTE_READ);
		if (flags & OPF_ATOMIC_WRITE)
			return atomic_target(qp, p);
		return p->mem ? VERDICT_ACCEPT : VERDICT_ACCESS;
	}
	if (flags & OPF_WRITE) {
		p->mem = mem_remote(qp, s->write.rkey, s->write.va, p->len, p->len,
				    RNIC_ACCESS_REMOTE_WRITE);
		return p->mem ? VERDICT_ACCEPT : VERDICT_ACCESS;
	}
	return VERDICT_ACCEPT;
}

always_inline enum verdict check_as(struct rnic_qp *qp, struct pkt *p, uint32_t flags)
{
	enum verdict v =
		unlikely(qp->xrcd != NULL) ? xrc_select(qp, p->h.xrc_srqn) : VERDICT_ACCEPT;

	v = v == VERDICT_ACCEPT ? check_order(qp, flags) : v;
	v = v == VERDICT_ACCEPT ? check_operation(qp, flags) : v;
	v = v == VERDICT_ACCEPT ? check_resources(qp, flags) : v;
	v = v == VERDICT_ACCEPT ? check_length(qp, p, flags) : v;
	return v == VERDICT_ACCEPT ? check_memory(qp, p, flags) : v;
}

/* What comes most often has a walk of its own, in which all that is asked of the opcode is known.
 */
enum verdict check_execution(struct rnic_qp *qp, struct pkt *p)
{
	enum {
		WRITE_ONLY = OPF_WRITE | OPF_ONLY | OPF_RETH | OPF_PAYLOAD,
		SEND_ONLY = OPF_SEND | OPF_ONLY | OPF_PAYLOAD,
	};

	if (p->flags == WRITE_ONLY)
		return check_as(qp, p, WRITE_ONLY);
	if (p->flags == SEND_ONLY)
		return check_as(qp, p, SEND_ONLY);
	return check_as(qp, p, p->flags);
}

enum verdict check_request(struct rnic_qp *qp, struct pkt *p)
{
	enum verdict v = check_sequence(qp, p);

	return v == VERDICT_ACCEPT ? check_execution(qp, p) : v;
}
