/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Type 2B memory windows: bound by a work request to a part of a region, good for one QP only,
 * and invalidated by a local work request or the peer's SEND with invalidate. The consumer
 * chooses the low byte of the key with each binding, so that old keys go stale.
 */
#include "rnic/core.h"

int rnic_mw_create(struct rnic_pd *pd, struct rnic_mw **ret)
{
	struct rnic *r = pd->rnic;
	struct rnic_mw *mw = r->ops.alloc(r->ctx, sizeof(*mw));

	if (!mw)
		return -ENOMEM;
	mw->region.kind = REGION_MW;
	list_init(&mw->node);
	if (region_add(pd, &mw->region)) {
		r->ops.free(r->ctx, mw);
		return -ENOMEM;
	}
	*ret = mw;
	return 0;
}

static void mw_unbind(struct rnic_mw *mw)
{
	if (!mw->region.valid)
		return;
	mw->region.valid = false;
	mw->region.qp = NULL;
	mw->mr->windows--;
	mw->mr = NULL;
	list_remove(&mw->node);
}

int rnic_mw_destroy(struct rnic_mw *mw)
{
	struct rnic *r = mw->region.pd->rnic;

	mw_unbind(mw);
	region_del(&mw->region);
	r->ops.free(r->ctx, mw);
	return 0;
}

uint32_t rnic_mw_rkey(const struct rnic_mw *mw)
{
	return mw->region.key;
}

int mw_bind(struct rnic_qp *qp, const struct send_wqe *wqe)
{
	const struct wqe_bind *b = &wqe->bind;
	struct region *w = region_deref(qp->rnic, b->mw), *m = region_deref(qp->rnic, b->mr);
	uint32_t writes = RNIC_ACCESS_REMOTE_WRITE | RNIC_ACCESS_REMOTE_ATOMIC;
	struct rnic_mw *mw;
	struct rnic_mr *mr;
	uint64_t off;

	if (!w || !m || w->pd != qp->pd || m->pd != qp->pd || w->valid)
		return -EINVAL;
	if ((w->key ^ b->rkey) >> KEY_GEN_BITS)
		return -EINVAL;
	if (!(m->access & RNIC_ACCESS_MW_BIND) || (m->access & RNIC_ACCESS_ZERO_BASED))
		return -EINVAL;
	if ((b->access & writes) && !(m->access & RNIC_ACCESS_LOCAL_WRITE))
		return -EINVAL;
	off = b->addr - m->iova;
	if (!b->length || b->addr < m->iova || off > m->length || b->length > m->length - off)
		return -EINVAL;

	mw = container_of(w, struct rnic_mw, region);
	mr = container_of(m, struct rnic_mr, region);
	region_rekey(qp->rnic, w, b->rkey);
	w->access = b->access;
	w->iova = b->access & RNIC_ACCESS_ZERO_BASED ? 0 : b->addr;
	w->length = b->length;
	w->base = m->base + off;
	w->qp = qp;
	w->valid = true;
	mw->mr = mr;
	mr->windows++;
	list_push_tail(&qp->windows, &mw->node);
	return 0;
}

int mw_invalidate(struct rnic_qp *qp, uint32_t rkey)
{
	struct region *w = region_find(qp->rnic, rkey);

	if (!w || w->kind != REGION_MW || w->qp != qp)
		return -EINVAL;
	mw_unbind(container_of(w, struct rnic_mw, region));
	return 0;
}

void mw_unbind_all(struct rnic_qp *qp)
{
	list_for_each(mw, &qp->windows, struct rnic_mw, node)
		mw_unbind(mw);
}
