/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Work queues: rings sized at creation, posting, completing, flushing, and the walk from a
 * message's byte offset through its scatter list to memory.
 */
#include "rnic/core.h"

uint32_t round_up_pow2(uint32_t n)
{
	return n <= 1 ? 1 : 1u << (32 - __builtin_clz(n - 1));
}

int rq_create(struct rnic *r, struct rq *rq, uint32_t max_wr, uint32_t max_sge)
{
	*rq = (struct rq){
		.mask = max_wr - 1,
		.max_sge = max_sge,
		.stride = (uint32_t)sizeof(struct recv_wqe) +
			  max_sge * (uint32_t)sizeof(struct rnic_sge),
	};
	rq->mem = r->ops.alloc(r->ctx, (size_t)max_wr * rq->stride);
	return rq->mem ? 0 : -ENOMEM;
}

void rq_destroy(struct rnic *r, struct rq *rq)
{
	if (rq->mem && !rq->lent)
		r->ops.free(r->ctx, rq->mem);
}

size_t rq_bytes(const struct rq *rq)
{
	return rq->mem ? (size_t)(rq->mask + 1) * rq->stride : 0;
}

void rq_move(struct rnic *r, struct rq *rq, void *mem)
{
	if (!rq->mem)
		return;
	memcpy(mem, rq->mem, rq_bytes(rq));
	rq_destroy(r, rq);
	rq->mem = mem;
	rq->lent = true;
}

static size_t sq_bytes(const struct sq *sq)
{
	return sq->mem ? (size_t)(sq->mask + 1) * sq->stride : 0;
}

static void sq_destroy(struct rnic *r, struct sq *sq)
{
	if (sq->mem && !sq->lent)
		r->ops.free(r->ctx, sq->mem);
}

static int sq_create(struct rnic_qp *qp, struct rnic_qp_cap *cap)
{
	struct rnic *r = qp->rnic;
	uint32_t room;

	cap->max_send_wr = round_up_pow2(cap->max_send_wr);
	cap->max_send_sge = max_of(cap->max_send_sge, 1u);
	room = max_of(cap->max_send_sge * (uint32_t)sizeof(struct rnic_sge),
		      (cap->max_inline_data + 15) & ~15u);
	cap->max_inline_data = min_of(room, (uint32_t)RNIC_MAX_INLINE);
	qp->sq.mask = cap->max_send_wr - 1;
	qp->sq.stride = (uint32_t)sizeof(struct send_wqe) + room;
	qp->sq.mem = r->ops.alloc(r->ctx, (size_t)cap->max_send_wr * qp->sq.stride);
	return qp->sq.mem ? 0 : -ENOMEM;
}

int wq_create(struct rnic_qp *qp, struct rnic_qp_cap *cap)
{
	bool sends = qp->type != RNIC_QPT_XRC_RECV, receives = qp->type != RNIC_QPT_XRC_SEND;
	int err = 0;

	/* Those of a queue that is not there, or not its own, are not looked at. */
	if (!sends)
		cap->max_send_wr = cap->max_send_sge = cap->max_inline_data = 0;
	if (qp->srq || qp->service == SERVICE_XRC)
		cap->max_recv_wr = cap->max_recv_sge = 0;
	if (cap->max_send_wr > RNIC_MAX_QP_WR || cap->max_recv_wr > RNIC_MAX_QP_WR ||
	    cap->max_send_sge > RNIC_MAX_SGE || cap->max_recv_sge > RNIC_MAX_SGE ||
	    cap->max_inline_data > RNIC_MAX_INLINE)
		return -EINVAL;
	if (sends)
		err = sq_create(qp, cap);
	if (!err && qp->xrcd) {
		err = rq_create(qp->rnic, &qp->rq, 1, RNIC_MAX_SGE);
	} else if (!err && qp->srq) {
		err = rq_create(qp->rnic, &qp->rq, 1, qp->srq->rq.max_sge);
	} else if (!err && receives) {
		cap->max_recv_wr = round_up_pow2(cap->max_recv_wr);
		cap->max_recv_sge = max_of(cap->max_recv_sge, 1u);
		err = rq_create(qp->rnic, &qp->rq, cap->max_recv_wr, cap->max_recv_sge);
	}
	if (err)
		wq_destroy(qp);
	return err;
}

void wq_destroy(struct rnic_qp *qp)
{
	sq_destroy(qp->rnic, &qp->sq);
	rq_destroy(qp->rnic, &qp->rq);
}

size_t rnic_qp_mem_size(const struct rnic_qp *qp)
{
	return sq_bytes(&qp->sq) + rq_bytes(&qp->rq);
}

/* Both strides keep the alignment that their requests need. */
void rnic_qp_use_mem(struct rnic_qp *qp, void *mem)
{
	struct sq *sq = &qp->sq;
	size_t bytes = sq_bytes(sq);

	rq_move(qp->rnic, &qp->rq, (uint8_t *)mem + bytes);
	if (!bytes)
		return;
	memcpy(mem, sq->mem, bytes);
	sq_destroy(qp->rnic, sq);
	sq->mem = mem;
	sq->lent = true;
}

void wq_reset(struct rnic_qp *qp)
{
	qp->sq.prod = qp->sq.cur = qp->sq.una = qp->sq.cons = 0;
	qp->rq.prod = qp->rq.cons = 0;
}

/* ---- posting -------------------------------------------------------------------------------- */

static int sge_total(const struct rnic_sge *sge, uint32_t n, uint32_t *ret_total)
{
	uint64_t total = 0;

	for (uint32_t i = 0; i < n; i++)
		total += sge[i].length;
	if (total > RNIC_MAX_MSG)
		return -EINVAL;
	*ret_total = (uint32_t)total;
	return 0;
}

static int check_send_wr(const struct rnic_qp *qp, const struct rnic_send_wr *wr,
			 uint32_t *ret_length)
{
	bool inlined = wr->flags & RNIC_SEND_INLINE;

	*ret_length = 0;
	switch (wr->opcode) {
	case RNIC_WR_LOCAL_INV:
	case RNIC_WR_BIND_MW:
		return 0;
	case RNIC_WR_SEND:
	case RNIC_WR_SEND_WITH_IMM:
	case RNIC_WR_SEND_WITH_INV:
	case RNIC_WR_RDMA_WRITE:
	case RNIC_WR_RDMA_WRITE_WITH_IMM:
	case RNIC_WR_ATOMIC_WRITE:
		break;
	case RNIC_WR_RDMA_READ:
	case RNIC_WR_ATOMIC_CMP_AND_SWP:
	case RNIC_WR_ATOMIC_FETCH_AND_ADD:
		if (inlined)
			return -EINVAL;
		break;
	default:
		return -EINVAL;
	}
	/* The count before the list is read. */
	if (wr->num_sge > (inlined ? RNIC_MAX_SGE : qp->cap.max_send_sge) ||
	    sge_total(wr->sge, wr->num_sge, ret_length))
		return -EINVAL;
	return inlined && *ret_length > qp->cap.max_inline_data ? -EINVAL : 0;
}

/* What an unreliable service has of the operations. */
static bool unreliable_allows(const struct rnic_qp *qp, const struct rnic_send_wr *wr)
{
	switch (wr->opcode) {
	case RNIC_WR_SEND:
	case RNIC_WR_SEND_WITH_IMM:
		return qp->type != RNIC_QPT_UD || wr->ud.flow;
	case RNIC_WR_RDMA_WRITE:
	case RNIC_WR_RDMA_WRITE_WITH_IMM:
	case RNIC_WR_LOCAL_INV:
	case RNIC_WR_BIND_MW:
		return qp->type == RNIC_QPT_UC;
	default:
		return false;
	}
}

static void wqe_fill_ud(struct rnic_qp *qp, struct send_wqe *w, const struct rnic_send_wr *wr)
{
	w->ud.flow = *wr->ud.flow;
	w->ud.qpn = wr->ud.qpn & QPN_MASK;
	w->ud.qkey = wr->ud.qkey;
	if (w->ud.qpn == MULTICAST_QPN)
		qp->mcast_source = w->ud.flow.sgid;
	w->ud.flow.sport = flow_sport(w->ud.flow.flow_label, qp->qpn, w->ud.qpn);
}

static void wqe_fill_inline(struct send_wqe *w, const struct rnic_send_wr *wr)
{
	uint8_t *dst = (uint8_t *)w->sge;

	for (uint32_t i = 0; i < wr->num_sge; i++) {
		if (!wr->sge[i].length)
			continue;
		memcpy(dst, (const void *)(uintptr_t)wr->sge[i].addr, wr->sge[i].length);
		dst += wr->sge[i].length;
	}
	w->num_sge = 0;
}

static void wqe_fill(struct send_wqe *w, const struct rnic_send_wr *wr, uint32_t length)
{
	w->wr_id = wr->wr_id;
	w->remote_addr = wr->remote_addr;
	w->rkey = wr->rkey;
	w->imm_or_rkey = wr->imm_or_rkey;
	w->length = length;
	w->num_sge = wr->num_sge;
	w->opcode = (uint8_t)wr->opcode;
	w->flags = (uint8_t)wr->flags;
	w->status = RNIC_WC_SUCCESS;
	w->begun = false;
	if (wr->opcode == RNIC_WR_BIND_MW) {
		const struct region *mw = wr->bind.mw ? &wr->bind.mw->region : NULL;
		const struct region *mr = wr->bind.mr ? &wr->bind.mr->region : NULL;

		/* Serial 0 is nobody's: the bind fails when it is executed. */
		w->bind = (struct wqe_bind){
			.mw = {mw ? mw->key : 0, mw ? mw->serial : 0},
			.mr = {mr ? mr->key : 0, mr ? mr->serial : 0},
			.addr = wr->bind.addr,
			.length = wr->bind.length,
			.rkey = wr->bind.rkey,
			.access = wr->bind.access,
		};
	} else {
		w->atomic.compare_add = wr->compare_add;
		w->atomic.swap = wr->swap;
	}
	if (wqe_is_local(w))
		w->num_sge = 0;
	else if (wr->flags & RNIC_SEND_INLINE)
		wqe_fill_inline(w, wr);
	else if (wr->num_sge)
		memcpy(w->sge, wr->sge, wr->num_sge * sizeof(*wr->sge));
}

/* Would it be taken, behind so many more than there are? */
static int post_check(const struct rnic_qp *qp, const struct rnic_send_wr *wr, uint32_t behind,
		      uint32_t *ret_length)
{
	int err;

	if (qp->state < RNIC_QPS_RTS || unlikely(qp->type == RNIC_QPT_XRC_RECV))
		return -EINVAL;
	if (unlikely(qp_is_unreliable(qp)) && !unreliable_allows(qp, wr))
		return -EINVAL;
	err = check_send_wr(qp, wr, ret_length);
	if (err)
		return err;
	return qp->sq.prod - qp->sq.cons + behind > qp->sq.mask ? -ENOMEM : 0;
}

int rnic_post_send_check(const struct rnic_qp *qp, const struct rnic_send_wr *wr, uint32_t behind)
{
	uint32_t length;

	return post_check(qp, wr, behind, &length);
}

int rnic_post_send(struct rnic_qp *qp, const struct rnic_send_wr *wr, uint64_t now)
{
	struct sq *sq = &qp->sq;
	uint32_t length;
	int err;

	qp->rnic->now = now; /* the transport timer starts when the first packet leaves */
	err = post_check(qp, wr, 0, &length);
	if (err)
		return err;
	wqe_fill(sq_at(sq, sq->prod), wr, length);
	if (unlikely(qp->type == RNIC_QPT_UD))
		wqe_fill_ud(qp, sq_at(sq, sq->prod), wr);
	else if (unlikely(qp->type == RNIC_QPT_XRC_SEND))
		sq_at(sq, sq->prod)->xrc_srqn = wr->xrc_srqn & QPN_MASK;
	sq->prod++;
	if (likely(qp->state == RNIC_QPS_RTS)) {
		qp_activate(qp);
	} else if (qp->state == RNIC_QPS_ERR || qp->state == RNIC_QPS_SQE) {
		sq_flush(qp);
		cq_settle(qp->rnic);
	}
	return 0;
}

int rq_post(struct rq *rq, const struct rnic_recv_wr *wr)
{
	struct recv_wqe *w;
	uint32_t length;

	if (wr->num_sge > rq->max_sge || sge_total(wr->sge, wr->num_sge, &length))
		return -EINVAL;
	if (rq->prod - rq->cons > rq->mask)
		return -ENOMEM;
	w = rq_at(rq, rq->prod);
	w->wr_id = wr->wr_id;
	w->num_sge = wr->num_sge;
	w->length = length;
	if (wr->num_sge)
		memcpy(w->sge, wr->sge, wr->num_sge * sizeof(*wr->sge));
	rq->prod++;
	return 0;
}

int rnic_post_recv(struct rnic_qp *qp, const struct rnic_recv_wr *wr)
{
	int err;

	if (qp->state == RNIC_QPS_RESET || qp->srq || unlikely(qp->service == SERVICE_XRC))
		return -EINVAL;
	err = rq_post(&qp->rq, wr);
	if (err)
		return err;
	if (unlikely(qp->state == RNIC_QPS_ERR)) {
		rq_flush(qp);
		cq_settle(qp->rnic);
	}
	return 0;
}

/* ---- completing ----------------------------------------------------------------------------- */

static const uint8_t wc_opcode_of[] = {
	[RNIC_WR_RDMA_WRITE] = RNIC_WC_RDMA_WRITE,
	[RNIC_WR_RDMA_WRITE_WITH_IMM] = RNIC_WC_RDMA_WRITE,
	[RNIC_WR_SEND] = RNIC_WC_SEND,
	[RNIC_WR_SEND_WITH_IMM] = RNIC_WC_SEND,
	[RNIC_WR_RDMA_READ] = RNIC_WC_RDMA_READ,
	[RNIC_WR_ATOMIC_CMP_AND_SWP] = RNIC_WC_COMP_SWAP,
	[RNIC_WR_ATOMIC_FETCH_AND_ADD] = RNIC_WC_FETCH_ADD,
	[RNIC_WR_LOCAL_INV] = RNIC_WC_LOCAL_INV,
	[RNIC_WR_BIND_MW] = RNIC_WC_BIND_MW,
	[RNIC_WR_SEND_WITH_INV] = RNIC_WC_SEND,
	[RNIC_WR_ATOMIC_WRITE] = RNIC_WC_ATOMIC_WRITE,
};

void sq_complete(struct rnic_qp *qp, enum rnic_wc_status status)
{
	struct sq *sq = &qp->sq;
	const struct send_wqe *w = sq_at(sq, sq->una);
	struct rnic_wc wc;

	assert(sq->una != sq->prod);
	if (sq->cur == sq->una)
		sq->cur++;
	sq->una++;
	if (status == RNIC_WC_SUCCESS && !(w->flags & RNIC_SEND_SIGNALED) && !qp->sq_sig_all)
		return;
	wc = (struct rnic_wc){
		.wr_id = w->wr_id,
		.status = status,
		.opcode = wc_opcode_of[w->opcode],
		.vendor_err = qp->cause, /* none while it goes well */
		.byte_len = w->length,
		.qp_num = qp->qpn,
	};
	cq_push(qp->send_cq, &wc, false);
	sq->cons = sq->una;
}

void sq_flush(struct rnic_qp *qp)
{
	while (qp->sq.una != qp->sq.prod)
		sq_complete(qp, RNIC_WC_WR_FLUSH_ERR);
	qp->sq.cons = qp->sq.una;
}

void rq_flush(struct rnic_qp *qp)
{
	struct rnic_wc wc = {
		.status = RNIC_WC_WR_FLUSH_ERR,
		.opcode = RNIC_WC_RECV,
		.vendor_err = qp->cause,
		.qp_num = qp->qpn,
	};

	while (!rq_empty(&qp->rq)) {
		wc.wr_id = rq_at(&qp->rq, qp->rq.cons++)->wr_id;
		cq_push(qp->recv_cq, &wc, false);
	}
}

/* ---- scatter lists -------------------------------------------------------------------------- */

int sge_gather(const struct rnic_qp *qp, const struct rnic_sge *sge, uint32_t num_sge, uint32_t off,
	       uint32_t len, struct iovec iov[RNIC_MAX_SGE], uint8_t *ret_niov)
{
	uint8_t n = 0;

	for (uint32_t i = 0; len; i++) {
		uint32_t part;
		uint8_t *p;

		assert(i < num_sge);
		if (off >= sge[i].length) {
			off -= sge[i].length;
			continue;
		}
		part = min_of(sge[i].length - off, len);
		p = mem_local(qp->pd, sge[i].lkey, sge[i].addr + off, part, 0);
		if (!p)
			return -EFAULT;
		iov[n++] = (struct iovec){p, part};
		len -= part;
		off = 0;
	}
	*ret_niov = n;
	return 0;
}

int sge_scatter(struct rnic_pd *pd, const struct rnic_sge *sge, uint32_t num_sge, uint32_t off,
		const uint8_t *data, uint32_t len)
{
	for (uint32_t i = 0; len; i++) {
		uint32_t part;
		uint8_t *p;

		assert(i < num_sge);
		if (off >= sge[i].length) {
			off -= sge[i].length;
			continue;
		}
		part = min_of(sge[i].length - off, len);
		p = mem_local(pd, sge[i].lkey, sge[i].addr + off, part, RNIC_ACCESS_LOCAL_WRITE);
		if (!p)
			return -EFAULT;
		memcpy(p, data, part);
		data += part;
		len -= part;
		off = 0;
	}
	return 0;
}

bool sge_allowed(const struct rnic_qp *qp, const struct rnic_sge *sge, uint32_t num_sge,
		 uint32_t need)
{
	for (uint32_t i = 0; i < num_sge; i++)
		if (sge[i].length &&
		    !mem_allowed(qp->pd, sge[i].lkey, sge[i].addr, sge[i].length, need))
			return false;
	return true;
}
