/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What a request packet comes to: a walk through named steps, each of which lets it pass or gives
 * the verdict. Nothing is changed here. IBA volume 1, 9.7.4 and table 58 say which NAK.
 */
#include "rnic/ib/ib.h"

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
static enum verdict check_order(struct rnic_qp *qp, struct pkt *p)
{
	enum resp_msg kind = p->flags & OPF_SEND ? MSG_SEND : MSG_WRITE;

	if (p->flags & (OPF_FIRST | OPF_ONLY))
		kind = MSG_NONE;
	return resp_of(qp)->msg == kind ? VERDICT_ACCEPT
					: deny(qp, RNIC_CAUSE_ORDER, VERDICT_INVALID);
}

/* Does the QP allow the operation at all? */
static enum verdict check_operation(struct rnic_qp *qp, struct pkt *p)
{
	uint32_t need = 0;

	if (p->flags & (OPF_WRITE | OPF_ATOMIC_WRITE))
		need = RNIC_ACCESS_REMOTE_WRITE;
	else if (p->flags & OPF_READ_REQ)
		need = RNIC_ACCESS_REMOTE_READ;
	else if (p->flags & OPF_ATOMIC_REQ)
		need = RNIC_ACCESS_REMOTE_ATOMIC;
	return (qp->attr.access_flags & need) == need
		       ? VERDICT_ACCEPT
		       : deny(qp, RNIC_CAUSE_OPERATION, VERDICT_INVALID);
}

static bool takes_recv(const struct pkt *p)
{
	return ((p->flags & OPF_SEND) && (p->flags & (OPF_FIRST | OPF_ONLY))) ||
	       ((p->flags & OPF_WRITE) && (p->flags & OPF_IMMDT));
}

static enum verdict check_resources(struct rnic_qp *qp, struct pkt *p)
{
	const struct resp *s = resp_of(qp);

	if (takes_recv(p))
		return recv_peek(qp) ? VERDICT_ACCEPT : VERDICT_RNR;
	if ((p->flags & (OPF_READ_REQ | OPF_ATOMIC_REQ | OPF_ATOMIC_WRITE)) &&
	    s->res_prod - s->res_done >= qp->attr.max_dest_rd_atomic)
		return deny(qp, RNIC_CAUSE_READS, VERDICT_INVALID);
	return VERDICT_ACCEPT;
}

static enum verdict length_of(struct rnic_qp *qp, struct pkt *p)
{
	const struct resp *s = resp_of(qp);
	uint32_t left;

	if ((p->flags & OPF_RETH) && p->h.reth.dma_len > RNIC_MAX_MSG)
		return VERDICT_INVALID;
	if ((p->flags & OPF_ATOMIC_WRITE) && p->h.reth.dma_len != sizeof(uint64_t))
		return VERDICT_INVALID;
	if (!(p->flags & OPF_PAYLOAD))
		return p->len ? VERDICT_INVALID : VERDICT_ACCEPT;
	if (p->len > qp->mtu || ((p->flags & (OPF_FIRST | OPF_MIDDLE)) && p->len != qp->mtu) ||
	    ((p->flags & OPF_LAST) && p->len == 0))
		return VERDICT_INVALID;
	if (p->flags & OPF_SEND) {
		uint32_t off = p->flags & (OPF_FIRST | OPF_ONLY) ? 0 : s->recv_off;

		return p->len <= recv_peek(qp)->length - off ? VERDICT_ACCEPT
							     : VERDICT_RECV_TOO_SHORT;
	}
	left = p->flags & OPF_RETH ? p->h.reth.dma_len : s->write.left;
	if (p->flags & (OPF_LAST | OPF_ONLY))
		return p->len == left ? VERDICT_ACCEPT : VERDICT_INVALID;
	return p->len < left ? VERDICT_ACCEPT : VERDICT_INVALID;
}

static enum verdict check_length(struct rnic_qp *qp, struct pkt *p)
{
	enum verdict v = length_of(qp, p);

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

static enum verdict check_memory(struct rnic_qp *qp, struct pkt *p)
{
	const struct resp *s = resp_of(qp);

	p->mem = NULL;
	if (p->flags & OPF_ATOMIC_REQ) {
		if (p->h.atomic.va & 7)
			return deny(qp, RNIC_CAUSE_ALIGNMENT, VERDICT_INVALID);
		p->mem = mem_remote(qp, p->h.atomic.rkey, p->h.atomic.va, sizeof(uint64_t),
				    sizeof(uint64_t), RNIC_ACCESS_REMOTE_ATOMIC);
		return atomic_target(qp, p);
	}
	if (p->flags & OPF_RETH) {
		bool write = p->flags & (OPF_WRITE | OPF_ATOMIC_WRITE);

		if ((p->flags & OPF_ATOMIC_WRITE) && (p->h.reth.va & 7))
			return deny(qp, RNIC_CAUSE_ALIGNMENT, VERDICT_INVALID);

		if (p->h.reth.dma_len == 0)
			return VERDICT_ACCEPT; /* nothing is touched: the key is not looked at */
		/* A region may be as long as a message: the whole range must be good at once. */
		p->mem = mem_remote(qp, p->h.reth.rkey, p->h.reth.va, p->h.reth.dma_len, p->len,
				    write ? RNIC_ACCESS_REMOTE_WRITE : RNIC_ACCESS_REMOTE_READ);
		if (p->flags & OPF_ATOMIC_WRITE)
			return atomic_target(qp, p);
		return p->mem ? VERDICT_ACCEPT : VERDICT_ACCESS;
	}
	if (p->flags & OPF_WRITE) {
		p->mem = mem_remote(qp, s->write.rkey, s->write.va, p->len, p->len,
				    RNIC_ACCESS_REMOTE_WRITE);
		return p->mem ? VERDICT_ACCEPT : VERDICT_ACCESS;
	}
	return VERDICT_ACCEPT;
}

enum verdict check_execution(struct rnic_qp *qp, struct pkt *p)
{
	enum verdict v =
		unlikely(qp->xrcd != NULL) ? xrc_select(qp, p->h.xrc_srqn) : VERDICT_ACCEPT;

	v = v == VERDICT_ACCEPT ? check_order(qp, p) : v;
	v = v == VERDICT_ACCEPT ? check_operation(qp, p) : v;
	v = v == VERDICT_ACCEPT ? check_resources(qp, p) : v;
	v = v == VERDICT_ACCEPT ? check_length(qp, p) : v;
	return v == VERDICT_ACCEPT ? check_memory(qp, p) : v;
}

enum verdict check_request(struct rnic_qp *qp, struct pkt *p)
{
	enum verdict v = check_sequence(qp, p);

	return v == VERDICT_ACCEPT ? check_execution(qp, p) : v;
}
