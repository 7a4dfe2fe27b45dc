/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Shared receive queues. A QP takes a receive when the first packet of a message comes and copies
 * it into its own ring, which has one place: messages of several QPs arrive side by side, so that
 * the shared ring's order of completion is not its order of posting.
 */
#include "rnic/core.h"

int rnic_srq_create(struct rnic_pd *pd, struct rnic_srq_attr *attr, void *srq_user,
		    struct rnic_srq **ret)
{
	struct rnic *r = pd->rnic;
	struct rnic_srq *srq;
	int err;

	if (!attr->max_wr || attr->max_wr > RNIC_MAX_QP_WR || attr->max_sge > RNIC_MAX_SGE)
		return -EINVAL;
	srq = r->ops.alloc(r->ctx, sizeof(*srq));
	if (!srq)
		return -ENOMEM;
	attr->max_wr = round_up_pow2(attr->max_wr);
	attr->max_sge = max_of(attr->max_sge, 1u);
	err = rq_create(r, &srq->rq, attr->max_wr, attr->max_sge);
	if (err) {
		r->ops.free(r->ctx, srq);
		return err;
	}
	srq->rnic = r;
	srq->pd = pd;
	srq->user = srq_user;
	pd->users++;
	*ret = srq;
	return 0;
}

static void srq_free(struct rnic_srq *srq)
{
	struct rnic *r = srq->rnic;

	srq->pd->users--;
	rq_destroy(r, &srq->rq);
	r->ops.free(r->ctx, srq);
}

int rnic_xrc_srq_create(struct rnic_pd *pd, struct rnic_srq_attr *attr, struct rnic_xrcd *xrcd,
			struct rnic_cq *cq, void *srq_user, struct rnic_srq **ret)
{
	struct rnic_srq *srq;
	int err = rnic_srq_create(pd, attr, srq_user, &srq);

	if (err)
		return err;
	srq->xrcd = xrcd;
	srq->cq = cq;
	err = xrc_number(srq);
	if (err) {
		srq_free(srq);
		return err;
	}
	xrcd->users++;
	cq->users++;
	*ret = srq;
	return 0;
}

uint32_t rnic_srq_num(const struct rnic_srq *srq)
{
	return srq->srqn;
}

int rnic_srq_destroy(struct rnic_srq *srq)
{
	if (srq->users)
		return -EBUSY;
	if (srq->xrcd) {
		xrc_forget(srq);
		srq->xrcd->users--;
		srq->cq->users--;
	}
	srq_free(srq);
	return 0;
}

static void check_limit(struct rnic_srq *srq)
{
	if (srq->rq.prod - srq->rq.cons >= srq->limit)
		return;
	srq->limit = 0;
	srq->rnic->ops.async_event(srq->rnic->ctx, RNIC_EVENT_SRQ_LIMIT_REACHED, srq->user);
}

int rnic_srq_set_limit(struct rnic_srq *srq, uint32_t limit)
{
	if (limit > srq->rq.mask + 1)
		return -EINVAL;
	srq->limit = limit;
	check_limit(srq);
	return 0;
}

int rnic_srq_resize(struct rnic_srq *srq, uint32_t max_wr)
{
	return rnic_srq_modify(srq, max_wr, srq->limit);
}

int rnic_srq_modify(struct rnic_srq *srq, uint32_t max_wr, uint32_t limit)
{
	struct rnic *r = srq->rnic;
	struct rq rq, *old = &srq->rq;
	uint32_t n = round_up_pow2(max_wr);
	int err;

	if (!max_wr || max_wr > RNIC_MAX_QP_WR || old->prod - old->cons > n || limit > n)
		return -EINVAL;
	err = rq_create(r, &rq, n, old->max_sge);
	if (err)
		return err;
	while (!rq_empty(old))
		memcpy(rq_at(&rq, rq.prod++), rq_at(old, old->cons++), old->stride);
	rq_destroy(r, old);
	*old = rq;
	srq->limit = limit;
	check_limit(srq);
	return 0;
}

void rnic_srq_query(const struct rnic_srq *srq, struct rnic_srq_attr *ret)
{
	*ret = (struct rnic_srq_attr){
		.max_wr = srq->rq.mask + 1,
		.max_sge = srq->rq.max_sge,
		.limit = srq->limit,
	};
}

size_t rnic_srq_mem_size(const struct rnic_srq *srq)
{
	return rq_bytes(&srq->rq);
}

void rnic_srq_use_mem(struct rnic_srq *srq, void *mem)
{
	rq_move(srq->rnic, &srq->rq, mem);
}

int rnic_post_srq_recv(struct rnic_srq *srq, const struct rnic_recv_wr *wr)
{
	return rq_post(&srq->rq, wr);
}

void srq_pull(struct rnic_qp *qp)
{
	struct rnic_srq *srq = qp->srq;
	struct rq *shared = &srq->rq;

	assert(!rq_empty(shared) && rq_empty(&qp->rq));
	memcpy(rq_at(&qp->rq, qp->rq.prod++), rq_at(shared, shared->cons++), shared->stride);
	check_limit(srq);
}
