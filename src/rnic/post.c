/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Posting: a work request is checked and copied into its ring. */
#include "rnic/core.h"

#define WRS_LOCAL (1u << RNIC_WR_LOCAL_INV | 1u << RNIC_WR_BIND_MW)
/* What they bring goes where their list says: it can not be within the request. */
#define WRS_FETCH                                                     \
	(1u << RNIC_WR_RDMA_READ | 1u << RNIC_WR_ATOMIC_CMP_AND_SWP | \
	 1u << RNIC_WR_ATOMIC_FETCH_AND_ADD)

static int check_send_wr(const struct rnic_qp *qp, const struct rnic_send_wr *wr,
			 uint32_t *ret_length)
{
	bool inlined = wr->flags & RNIC_SEND_INLINE;

	*ret_length = 0;
	if (wr->opcode >= 32 || !(qp->service->wrs & 1u << wr->opcode))
		return -EINVAL;
	if (1u << wr->opcode & WRS_LOCAL)
		return 0;
	if (inlined && (1u << wr->opcode & WRS_FETCH))
		return -EINVAL;
	if (qp->service->datagrams && !wr->ud.flow)
		return -EINVAL;
	if (wr->opcode == RNIC_WR_RDMA_READ && qp->service->read_sge &&
	    wr->num_sge > qp->service->read_sge)
		return -EINVAL;
	/* The count before the list is read. */
	if (wr->num_sge > (inlined ? RNIC_MAX_SGE : qp->cap.max_send_sge) ||
	    sge_total(wr->sge, wr->num_sge, ret_length))
		return -EINVAL;
	return inlined && *ret_length > qp->cap.max_inline_data ? -EINVAL : 0;
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
	else
		sge_copy(w->sge, wr->sge, wr->num_sge);
}

/* Would it be taken, behind so many more than there are? */
static int post_check(const struct rnic_qp *qp, const struct rnic_send_wr *wr, uint32_t behind,
		      uint32_t *ret_length)
{
	int err;

	if (qp->state < RNIC_QPS_RTS)
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
	if (unlikely(qp->service->post != NULL))
		qp->service->post(qp, sq_at(sq, sq->prod), wr);
	sq->prod++;
	if (likely(qp->state == RNIC_QPS_RTS)) {
		qp_activate(qp);
		qp->rnic->unsent += max_of(length, HELD_MIN);
		if (length > qp->mtu || !qp->service->awaits)
			qp->rnic->hurried = true;
		else if (!qp->service->awaits(qp))
			qp->rnic->idle = true;
	} else if (qp->state == RNIC_QPS_ERR || qp->state == RNIC_QPS_SQE) {
		sq_flush(qp);
		qp_settle(qp->rnic);
	}
	return 0;
}

int rnic_post_recv(struct rnic_qp *qp, const struct rnic_recv_wr *wr)
{
	int err;

	if (qp->state == RNIC_QPS_RESET || qp->srq || !(qp->service->parts & PART_RECV_CQ))
		return -EINVAL;
	err = rq_post(&qp->rq, wr);
	if (err)
		return err;
	if (unlikely(qp->state == RNIC_QPS_ERR)) {
		rq_flush(qp);
		qp_settle(qp->rnic);
	}
	return 0;
}
