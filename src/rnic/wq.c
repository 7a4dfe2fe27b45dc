/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Work queues: rings sized at creation, completing, flushing.
 */
#include "rnic/core.h"

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
	uint32_t parts = qp->service->parts;
	bool sends = parts & PART_SEND_CQ, receives = parts & PART_RECV_CQ;
	int err = 0;

	/* Those of a queue that is not there, or not its own, are not looked at. */
	if (!sends)
		cap->max_send_wr = cap->max_send_sge = cap->max_inline_data = 0;
	if (qp->srq || !receives)
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

int rq_post(struct rq *rq, const struct rnic_recv_wr *wr)
{
	struct recv_wqe *w;
	uint64_t length = 0;

	if (wr->num_sge > rq->max_sge)
		return -EINVAL;
	for (uint32_t i = 0; i < wr->num_sge; i++)
		length += wr->sge[i].length;
	if (rq->prod - rq->cons > rq->mask)
		return -ENOMEM;
	w = rq_at(rq, rq->prod);
	w->wr_id = wr->wr_id;
	w->num_sge = wr->num_sge;
	w->length = (uint32_t)min_of(length, (uint64_t)RNIC_MAX_MSG); /* more does not come */
	sge_copy(w->sge, wr->sge, wr->num_sge);
	rq->prod++;
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
