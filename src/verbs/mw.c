// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/* Memory windows: allocation, and binding those of type 1; those of type 2 are bound by a work
 * request of the application's (post.c, wr.c). */
#include <errno.h>
#include <stdlib.h>

#include "verbs/qp.h"

struct ibv_mw *face_alloc_mw(struct ibv_pd *ibpd, enum ibv_mw_type type)
{
	struct face_context *c = face_context(ibpd->context);
	struct face_mw *mw;
	int rc;

	if (type != IBV_MW_TYPE_1 && type != IBV_MW_TYPE_2)
		return FAIL(EINVAL, NULL);
	mw = calloc(1, sizeof(*mw));
	if (!mw)
		return FAIL(ENOMEM, NULL);
	shard_lock(c->shard);
	rc = rnic_mw_create(face_pd(ibpd)->core, (enum rnic_mw_type)type, &mw->core);
	if (!rc)
		mw->ibv.rkey = rnic_mw_rkey(mw->core);
	shard_unlock(c->shard);
	if (rc) {
		free(mw);
		return FAIL(-rc, NULL);
	}
	mw->ibv.context = ibpd->context;
	mw->ibv.pd = ibpd;
	mw->ibv.type = type;
	context_get(c);
	return &mw->ibv;
}

/* The wrapper in verbs.h has seen to type 1, and to the region's domain. */
int face_bind_mw(struct ibv_qp *ibqp, struct ibv_mw *ibmw, struct ibv_mw_bind *bind)
{
	const struct ibv_mw_bind_info *info = &bind->bind_info;
	struct face_qp *qp = face_qp(ibqp);
	struct face_mw *mw = face_mw(ibmw);
	struct rnic_send_wr wr = {
		.wr_id = bind->wr_id,
		.opcode = RNIC_WR_BIND_MW,
		.flags = bind->send_flags & (IBV_SEND_FENCE | IBV_SEND_SIGNALED),
		.bind = {.mw = mw->core,
			 .mr = info->mr ? face_mr(info->mr)->core : NULL,
			 .addr = info->addr,
			 .length = info->length,
			 .access = info->mw_access_flags},
	};
	int rc;

	if (info->mw_access_flags & IBV_ACCESS_ZERO_BASED)
		return REFUSED(EINVAL);
	shard_lock(qp->shard);
	wr.bind.rkey = ibv_inc_rkey(ibmw->rkey);
	rc = -rnic_post_send(qp->core, &wr, shard_now(qp->shard));
	if (!rc)
		ibmw->rkey = wr.bind.rkey; /* whoever binds next goes on from it */
	else
		face_log_post(qp, "ibv_bind_mw", wr.wr_id, rc);
	shard_flush(qp->shard);
	shard_unlock(qp->shard);
	return rc;
}

int face_dealloc_mw(struct ibv_mw *ibmw)
{
	struct face_context *c = face_context(ibmw->context);
	struct face_mw *mw = face_mw(ibmw);
	int rc;

	shard_lock(c->shard);
	rc = rnic_mw_destroy(mw->core);
	shard_unlock(c->shard);
	if (rc)
		return REFUSED(-rc);
	free(mw);
	context_put(c);
	return 0;
}
