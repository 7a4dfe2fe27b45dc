// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/* Shared receive queues. */
#include <errno.h>
#include <stdlib.h>

#include "verbs/cq.h"
#include "verbs/qp.h"

/* Moves its queue to where the parent domain wants it; a queue that cannot be there is no more. */
static int srq_place(struct face_srq *srq)
{
	int rc = queue_mem_get(&srq->mem, srq->ibv.pd, rnic_srq_mem_size(srq->core), QUEUE_SRQ);

	shard_lock(srq->shard);
	if (srq->mem.p)
		rnic_srq_use_mem(srq->core, srq->mem.p);
	if (rc && rnic_srq_destroy(srq->core))
		abort(); /* nothing can hold what nobody has seen */
	shard_unlock(srq->shard);
	return rc;
}

struct ibv_srq *srq_create(struct ibv_pd *pd, struct ibv_srq_init_attr *attr,
			   struct face_xrcd *xrcd, struct face_cq *cq)
{
	struct face_context *c = face_context(pd->context);
	struct rnic_srq_attr core = {.max_wr = attr->attr.max_wr, .max_sge = attr->attr.max_sge};
	struct face_srq *srq;
	int rc;

	srq = calloc(1, sizeof(*srq));
	if (!srq)
		return FAIL(ENOMEM, NULL);
	srq->shard = c->shard;
	srq->xrcd = xrcd;
	srq->ibv.context = pd->context;
	srq->ibv.srq_context = attr->srq_context;
	srq->ibv.pd = pd;
	pthread_mutex_init(&srq->ibv.mutex, NULL);
	pthread_cond_init(&srq->ibv.cond, NULL);
	event_source_init(&srq->async);
	shard_lock(srq->shard);
	rc = xrcd ? rnic_xrc_srq_create(face_pd(pd)->core, &core, xrcd->core, cq->core, srq,
					&srq->core)
		  : rnic_srq_create(face_pd(pd)->core, &core, srq, &srq->core);
	shard_unlock(srq->shard);
	if (!rc)
		rc = srq_place(srq);
	if (rc) {
		free(srq);
		return FAIL(-rc, NULL);
	}
	attr->attr.max_wr = core.max_wr;
	attr->attr.max_sge = core.max_sge;
	if (xrcd)
		atomic_fetch_add(&xrcd->users, 1);
	context_get(c);
	return &srq->ibv;
}

struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	return srq_create(pd, attr, NULL, NULL);
}

int ibv_modify_srq(struct ibv_srq *ibsrq, struct ibv_srq_attr *attr, int mask)
{
	struct face_srq *srq = face_srq(ibsrq);
	int rc = 0;

	if (mask & ~(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT))
		return REFUSED(EINVAL);
	shard_lock(srq->shard);
	if (mask & IBV_SRQ_MAX_WR && mask & IBV_SRQ_LIMIT)
		rc = rnic_srq_modify(srq->core, attr->max_wr, attr->srq_limit);
	else if (mask & IBV_SRQ_MAX_WR)
		rc = rnic_srq_resize(srq->core, attr->max_wr);
	else if (mask & IBV_SRQ_LIMIT)
		rc = rnic_srq_set_limit(srq->core, attr->srq_limit);
	shard_unlock(srq->shard);
	if (!rc && mask & IBV_SRQ_MAX_WR)
		queue_mem_free(&srq->mem);
	return rc ? REFUSED(-rc) : 0;
}

int ibv_query_srq(struct ibv_srq *ibsrq, struct ibv_srq_attr *attr)
{
	struct face_srq *srq = face_srq(ibsrq);
	struct rnic_srq_attr core;

	shard_lock(srq->shard);
	rnic_srq_query(srq->core, &core);
	shard_unlock(srq->shard);
	*attr = (struct ibv_srq_attr){
		.max_wr = core.max_wr,
		.max_sge = core.max_sge,
		.srq_limit = core.limit,
	};
	return 0;
}

int ibv_destroy_srq(struct ibv_srq *ibsrq)
{
	struct face_srq *srq = face_srq(ibsrq);
	struct face_context *c = face_context(ibsrq->context);
	uint32_t taken;
	int rc;

	shard_lock(srq->shard);
	rc = rnic_srq_destroy(srq->core);
	shard_unlock(srq->shard);
	if (rc)
		return REFUSED(-rc);
	taken = event_pipe_forget(&c->async, &srq->async);
	pthread_mutex_lock(&ibsrq->mutex);
	while (!shard_is_dead(srq->shard) && ibsrq->events_completed != taken)
		pthread_cond_wait(&ibsrq->cond, &ibsrq->mutex);
	pthread_mutex_unlock(&ibsrq->mutex);
	if (srq->xrcd)
		atomic_fetch_sub(&srq->xrcd->users, 1);
	queue_mem_put(&srq->mem);
	free(srq);
	context_put(c);
	return 0;
}

int face_post_srq_recv(struct ibv_srq *ibsrq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
	struct face_srq *srq = face_srq(ibsrq);
	int rc = 0;

	shard_lock(srq->shard);
	for (; wr; wr = wr->next) {
		struct rnic_recv_wr core = {
			.wr_id = wr->wr_id,
			.sge = (const struct rnic_sge *)wr->sg_list,
			.num_sge = (uint32_t)wr->num_sge,
		};

		rc = wr->num_sge < 0 ? EINVAL : -rnic_post_srq_recv(srq->core, &core);
		if (rc) {
			*bad_wr = wr;
			break;
		}
	}
	shard_unlock(srq->shard);
	return rc;
}
