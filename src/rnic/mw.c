/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Memory windows (IBA volume 1, 10.6.7): a key of its own for a part of a region, bound by a work
 * request.
 *
 *   type 1   belongs to the protection domain: any QP of it reaches the window, any QP binds it
 *            anew, and a binding of no length closes it
 *   type 2B  belongs to the QP that bound it, and is free again only when a local work request or
 *            the peer's SEND has invalidated it
 *
 * The low byte of the key is new with each binding, so that old keys go stale.
 */
#include "rnic/core.h"

int rnic_mw_create(struct rnic_pd *pd, enum rnic_mw_type type, struct rnic_mw **ret)
{
	struct rnic *r = pd->rnic;
	struct rnic_mw *mw = r->ops.alloc(r->ctx, sizeof(*mw));

	if (!mw)
		return -ENOMEM;
	mw->region.kind = type == RNIC_MW_TYPE_1 ? REGION_MW1 : REGION_MW2;
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
	mw->mr->bound_mws--;
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

/* What a region must be, and a binding ask for, to fit (C10-73 to C10-75). */
static bool bind_fits(const struct region *m, const struct wqe_bind *b)
{
	const uint32_t writes = RNIC_ACCESS_REMOTE_WRITE | RNIC_ACCESS_REMOTE_ATOMIC;
	uint64_t off = b->addr - m->iova;

	if (!(m->access & RNIC_ACCESS_MW_BIND) || (m->access & RNIC_ACCESS_ZERO_BASED))
		return false;
	if ((b->access & writes) && !(m->access & RNIC_ACCESS_LOCAL_WRITE))
		return false;
	return b->addr >= m->iova && off <= m->length && b->length <= m->length - off;
}

static int mw_bind(struct rnic_qp *qp, const struct wqe_bind *b)
{
	struct region *w = region_deref(qp->rnic, b->mw), *m = region_deref(qp->rnic, b->mr);
	bool closes, of_qp = w && w->kind == REGION_MW2;
	struct rnic_mw *mw;
	struct rnic_mr *mr;

	if (!w || w->pd != qp->pd || (w->key ^ b->rkey) >> KEY_GEN_BITS)
		return -EINVAL;
	closes = !b->length && !of_qp;
	if (of_qp ? w->valid || !b->length : (b->access & RNIC_ACCESS_ZERO_BASED) != 0)
		return -EINVAL;
	if (!closes && (!m || m->kind != REGION_MR || m->pd != qp->pd || !bind_fits(m, b)))
		return -EINVAL;

	mw = container_of(w, struct rnic_mw, region);
	mw_unbind(mw);
	region_rekey(qp->rnic, w, b->rkey);
	if (closes)
		return 0;
	mr = container_of(m, struct rnic_mr, region);
	w->access = b->access;
	w->iova = b->access & RNIC_ACCESS_ZERO_BASED ? 0 : b->addr;
	w->length = b->length;
	w->base = (uint8_t *)((uintptr_t)m->base + (b->addr - m->iova));
	w->paged = m->paged;
	w->valid = true;
	mw->mr = mr;
	mr->bound_mws++;
	if (of_qp) {
		w->qp = qp;
		list_push_tail(&qp->bound_mws, &mw->node);
	}
	return 0;
}

int mw_invalidate(struct rnic_qp *qp, uint32_t rkey)
{
	struct region *w = region_find(qp->rnic, rkey);

	if (!w || w->kind != REGION_MW2 || w->qp != qp)
		return -EINVAL;
	mw_unbind(container_of(w, struct rnic_mw, region));
	return 0;
}

int mw_execute(struct rnic_qp *qp, const struct send_wqe *wqe)
{
	return wqe->opcode == RNIC_WR_BIND_MW ? mw_bind(qp, &wqe->bind)
					      : mw_invalidate(qp, wqe->imm_or_rkey);
}

void mw_unbind_all(struct rnic_qp *qp)
{
	list_for_each(mw, &qp->bound_mws, struct rnic_mw, node)
		mw_unbind(mw);
}
