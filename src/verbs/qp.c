// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#include "verbs/qp.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "verbs/cq.h"

#define UD_SEND_OPS (IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM)
#define UC_SEND_OPS (UD_SEND_OPS | IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM)
#define RC_SEND_OPS                                                                             \
	(IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_SEND | \
	 IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ |                              \
	 IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD |              \
	 IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_SEND_WITH_INV)

/* 0: there is no such type here. */
static uint64_t send_ops(enum ibv_qp_type type)
{
	switch (type) {
	case IBV_QPT_RC:
		return RC_SEND_OPS;
	case IBV_QPT_UC:
		return UC_SEND_OPS;
	case IBV_QPT_UD:
		return UD_SEND_OPS;
	default:
		return 0;
	}
}

/* The masks that ibv_modify_qp knows here: no resizing, no alternate path, no rate limit. */
#define SUPPORTED_ATTRS (((IBV_QP_DEST_QPN << 1) - 1) & ~(IBV_QP_CAP | IBV_QP_ALT_PATH))

/* All QPs of the process. Lock order: before a shard's. */
static struct list live = {&live, &live};
static pthread_mutex_t live_lock = PTHREAD_MUTEX_INITIALIZER;

static void live_add(struct face_qp *qp)
{
	pthread_mutex_lock(&live_lock);
	list_push_tail(&live, &qp->live);
	pthread_mutex_unlock(&live_lock);
}

static void live_remove(struct face_qp *qp)
{
	pthread_mutex_lock(&live_lock);
	list_remove(&qp->live);
	pthread_mutex_unlock(&live_lock);
}

static struct face_qp *qp_create(struct ibv_pd *pd, struct ibv_qp_init_attr_ex *a,
				 bool wr_interface)
{
	struct face_context *c = face_context(pd->context);
	struct rnic_qp_init init = {
		.cap =
			{
				.max_send_wr = a->cap.max_send_wr,
				.max_recv_wr = a->cap.max_recv_wr,
				.max_send_sge = a->cap.max_send_sge,
				.max_recv_sge = a->cap.max_recv_sge,
				.max_inline_data = a->cap.max_inline_data,
			},
		.sq_sig_all = a->sq_sig_all,
	};
	struct face_qp *qp;
	int rc;

	if (!send_ops(a->qp_type))
		return FAIL(EOPNOTSUPP, NULL);
	if (!a->send_cq || !a->recv_cq || init.cap.max_send_wr > RNIC_MAX_QP_WR ||
	    init.cap.max_send_sge > RNIC_MAX_SGE ||
	    (!a->srq &&
	     (init.cap.max_recv_wr > RNIC_MAX_QP_WR || init.cap.max_recv_sge > RNIC_MAX_SGE)) ||
	    init.cap.max_inline_data > RNIC_MAX_INLINE)
		return FAIL(EINVAL, NULL);
	if (a->qp_type == IBV_QPT_UD) {
		struct broker_device b;

		rc = device_lookup(pd->context->device, &b);
		if (rc)
			return FAIL(-rc, NULL);
		init.path_mtu = (enum rnic_mtu)device_mtu(&b);
	}
	qp = calloc(1, sizeof(*qp));
	if (!qp)
		return FAIL(ENOMEM, NULL);
	init.type = (enum rnic_qp_type)a->qp_type;
	init.send_cq = face_cq(a->send_cq)->core;
	init.recv_cq = face_cq(a->recv_cq)->core;
	init.srq = a->srq ? face_srq(a->srq)->core : NULL;
	init.qp_user = qp;
	qp->shard = c->shard;
	qp->sq_sig_all = a->sq_sig_all;
	event_source_init(&qp->async);

	shard_lock(qp->shard);
	rc = rnic_qp_create(face_pd(pd)->core, &init, &qp->core);
	shard_unlock(qp->shard);
	if (rc)
		goto free_qp;
	if (wr_interface) {
		rc = wr_stage_create(qp, &init.cap);
		if (rc)
			goto destroy_core;
	}
	a->cap = (struct ibv_qp_cap){
		.max_send_wr = init.cap.max_send_wr,
		.max_recv_wr = init.cap.max_recv_wr,
		.max_send_sge = init.cap.max_send_sge,
		.max_recv_sge = init.cap.max_recv_sge,
		.max_inline_data = init.cap.max_inline_data,
	};
	qp->ibv.context = pd->context;
	qp->ibv.qp_context = a->qp_context;
	qp->ibv.pd = pd;
	qp->ibv.send_cq = a->send_cq;
	qp->ibv.recv_cq = a->recv_cq;
	qp->ibv.srq = a->srq;
	qp->ibv.qp_num = qp->ibv.handle = rnic_qp_num(qp->core);
	qp->ibv.state = IBV_QPS_RESET;
	qp->ibv.qp_type = a->qp_type;
	pthread_mutex_init(&qp->ibv.mutex, NULL);
	pthread_cond_init(&qp->ibv.cond, NULL);
	context_get(c);
	live_add(qp);
	return qp;

destroy_core:
	shard_lock(qp->shard);
	if (rnic_qp_destroy(qp->core))
		abort(); /* nothing can hold a QP that nobody has seen */
	shard_unlock(qp->shard);
free_qp:
	free(qp);
	return FAIL(-rc, NULL);
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct ibv_qp_init_attr_ex ex = {0};
	struct face_qp *qp;

	memcpy(&ex, attr, offsetof(struct ibv_qp_init_attr_ex, comp_mask)); /* the same fields */
	qp = qp_create(pd, &ex, false);
	if (!qp)
		return NULL;
	attr->cap = ex.cap;
	return &qp->ibv;
}

struct ibv_qp *face_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr)
{
	const uint32_t known = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS |
			       IBV_QP_INIT_ATTR_CREATE_FLAGS;
	bool ops = attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	struct face_qp *qp;

	(void)context;
	if (!(attr->comp_mask & IBV_QP_INIT_ATTR_PD))
		return FAIL(EINVAL, NULL);
	if (attr->comp_mask & ~known ||
	    (attr->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS && attr->create_flags) ||
	    (ops && attr->send_ops_flags & ~send_ops(attr->qp_type)))
		return FAIL(EOPNOTSUPP, NULL);
	qp = qp_create(attr->pd, attr, ops);
	return qp ? &qp->ibv : NULL;
}

struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *qp)
{
	struct face_qp *f = face_qp(qp);

	return f->stage ? &f->ex : NULL;
}

int ibv_destroy_qp(struct ibv_qp *ibqp)
{
	struct face_qp *qp = face_qp(ibqp);
	struct face_context *c = face_context(ibqp->context);
	uint32_t taken;
	int rc;

	live_remove(qp);
	shard_lock(qp->shard);
	shard_flush(qp->shard); /* the peer waits for the acknowledgement of what was received */
	rc = rnic_qp_destroy(qp->core);
	shard_unlock(qp->shard);
	if (rc) {
		live_add(qp);
		return -rc;
	}
	taken = event_pipe_forget(&c->async, &qp->async);
	pthread_mutex_lock(&ibqp->mutex);
	while (ibqp->events_completed != taken)
		pthread_cond_wait(&ibqp->cond, &ibqp->mutex);
	pthread_mutex_unlock(&ibqp->mutex);
	wr_stage_destroy(qp);
	free(qp);
	context_put(c);
	return 0;
}

/* ---- attributes ----------------------------------------------------------------------------- */

int resolve_flow(const struct ibv_ah_attr *ah, const struct broker_device *b, uint32_t lqpn,
		 uint32_t rqpn, struct flow *ret)
{
	const struct ibv_global_route *grh = &ah->grh;

	if (!ah->is_global || ah->port_num != FACE_PORT || grh->sgid_index >= BROKER_MAX_GIDS ||
	    !b->gids[grh->sgid_index].type)
		return -EINVAL;
	ret->sgid = b->gids[grh->sgid_index].gid;
	memcpy(ret->dgid.raw, grh->dgid.raw, sizeof(ret->dgid.raw));
	if (gid_is_ipv4(&ret->sgid) != gid_is_ipv4(&ret->dgid))
		return -EINVAL;
	ret->scope =
		gid_is_link_local(&ret->sgid) || gid_is_link_local(&ret->dgid) ? b->ifindex : 0;
	ret->flow_label = grh->flow_label & 0xfffff;
	ret->sport = flow_sport(ret->flow_label, lqpn, rqpn);
	ret->tos = grh->traffic_class;
	ret->ttl = grh->hop_limit;
	return 0;
}

static int check_attr(const struct ibv_qp_attr *a, int mask)
{
	if (mask & ~SUPPORTED_ATTRS)
		return mask & (IBV_QP_CAP | IBV_QP_ALT_PATH | IBV_QP_RATE_LIMIT) ? -EOPNOTSUPP
										 : -EINVAL;
	if (mask & IBV_QP_PORT && a->port_num != FACE_PORT)
		return -EINVAL;
	if (mask & IBV_QP_PKEY_INDEX && a->pkey_index != 0)
		return -EINVAL;
	if (mask & IBV_QP_PATH_MIG_STATE && a->path_mig_state != IBV_MIG_MIGRATED)
		return -EINVAL;
	return 0;
}

int ibv_modify_qp(struct ibv_qp *ibqp, struct ibv_qp_attr *a, int mask)
{
	struct face_qp *qp = face_qp(ibqp);
	struct rnic_qp_attr attr = {
		.state = (enum rnic_qp_state)a->qp_state,
		.cur_state = (enum rnic_qp_state)a->cur_qp_state,
		.path_mtu = a->path_mtu,
		.rq_psn = a->rq_psn,
		.sq_psn = a->sq_psn,
		.dest_qpn = a->dest_qp_num,
		.access_flags = a->qp_access_flags,
		.qkey = a->qkey,
		.pkey_index = a->pkey_index,
		.port_num = a->port_num,
		.max_rd_atomic = a->max_rd_atomic,
		.max_dest_rd_atomic = a->max_dest_rd_atomic,
		.min_rnr_timer = a->min_rnr_timer,
		.timeout = a->timeout,
		.retry_cnt = a->retry_cnt,
		.rnr_retry = a->rnr_retry,
	};
	int rc = check_attr(a, mask);

	if (rc)
		return -rc;
	if (mask & (IBV_QP_AV | IBV_QP_PATH_MTU)) {
		struct broker_device b;

		rc = device_lookup(ibqp->context->device, &b);
		if (!rc && mask & IBV_QP_PATH_MTU && a->path_mtu > device_mtu(&b))
			rc = -EINVAL;
		if (!rc && mask & IBV_QP_AV)
			rc = resolve_flow(&a->ah_attr, &b, ibqp->qp_num, a->dest_qp_num,
					  &attr.flow);
		if (rc)
			return -rc;
	}

	shard_lock(qp->shard);
	shard_flush(qp->shard); /* what it owes its peer in its old state */
	rc = rnic_qp_modify(qp->core, &attr, (uint32_t)mask, shard_now(qp->shard));
	if (!rc) {
		if (mask & IBV_QP_STATE)
			ibqp->state = a->qp_state;
		if (mask & IBV_QP_AV)
			qp->ah = a->ah_attr;
		shard_flush(qp->shard);
	}
	shard_unlock(qp->shard);
	return -rc;
}

void qp_forked(void)
{
	pthread_mutex_init(&live_lock, NULL);
}

void qp_peer_died(struct shard *shard, uint32_t qpn)
{
	const struct rnic_qp_attr attr = {.state = RNIC_QPS_ERR};

	pthread_mutex_lock(&live_lock);
	list_for_each(qp, &live, struct face_qp, live) {
		if (qp->shard != shard || qp->ibv.qp_num != qpn)
			continue;
		shard_lock(shard);
		if (!rnic_qp_modify(qp->core, &attr, RNIC_QP_STATE, shard_now(shard)))
			shard_flush(shard);
		shard_unlock(shard);
		break;
	}
	pthread_mutex_unlock(&live_lock);
}

void qp_device_gone(struct ibv_context *context)
{
	const struct rnic_qp_attr attr = {.state = RNIC_QPS_ERR};

	pthread_mutex_lock(&live_lock);
	list_for_each(qp, &live, struct face_qp, live) {
		if (qp->ibv.context != context)
			continue;
		shard_lock(qp->shard);
		/* Refused in RESET, where nothing is posted. */
		(void)!rnic_qp_modify(qp->core, &attr, RNIC_QP_STATE, shard_now(qp->shard));
		shard_unlock(qp->shard);
	}
	pthread_mutex_unlock(&live_lock);
}

int ibv_query_qp(struct ibv_qp *ibqp, struct ibv_qp_attr *a, int mask,
		 struct ibv_qp_init_attr *init_attr)
{
	struct face_qp *qp = face_qp(ibqp);
	struct rnic_qp_attr attr;
	struct rnic_qp_cap cap;

	(void)mask; /* a limit on what the caller needs; all of it is at hand */
	shard_lock(qp->shard);
	rnic_qp_query(qp->core, &attr, &cap);
	ibqp->state = (enum ibv_qp_state)attr.state;
	shard_unlock(qp->shard);
	*a = (struct ibv_qp_attr){
		.qp_state = (enum ibv_qp_state)attr.state,
		.cur_qp_state = (enum ibv_qp_state)attr.state,
		.path_mtu = (enum ibv_mtu)attr.path_mtu,
		.path_mig_state = IBV_MIG_MIGRATED,
		.qkey = attr.qkey,
		.rq_psn = attr.rq_psn,
		.sq_psn = attr.sq_psn,
		.dest_qp_num = attr.dest_qpn,
		.qp_access_flags = attr.access_flags,
		.cap =
			{
				.max_send_wr = cap.max_send_wr,
				.max_recv_wr = cap.max_recv_wr,
				.max_send_sge = cap.max_send_sge,
				.max_recv_sge = cap.max_recv_sge,
				.max_inline_data = cap.max_inline_data,
			},
		.ah_attr = qp->ah,
		.pkey_index = attr.pkey_index,
		.sq_draining = attr.sq_draining,
		.max_rd_atomic = attr.max_rd_atomic,
		.max_dest_rd_atomic = attr.max_dest_rd_atomic,
		.min_rnr_timer = attr.min_rnr_timer,
		.port_num = attr.port_num,
		.timeout = attr.timeout,
		.retry_cnt = attr.retry_cnt,
		.rnr_retry = attr.rnr_retry,
	};
	*init_attr = (struct ibv_qp_init_attr){
		.qp_context = ibqp->qp_context,
		.send_cq = ibqp->send_cq,
		.recv_cq = ibqp->recv_cq,
		.srq = ibqp->srq,
		.cap = a->cap,
		.qp_type = ibqp->qp_type,
		.sq_sig_all = qp->sq_sig_all,
	};
	return 0;
}

int ibv_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags)
{
	(void)qp, (void)op, (void)flags;
	return 0;
}

/* Enhanced connection establishment is a vendor's own; like rxe, we have none. */
int ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	(void)qp;
	memset(ece, 0, sizeof(*ece));
	return FAIL(EOPNOTSUPP, EOPNOTSUPP);
}

int ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	(void)qp, (void)ece;
	return FAIL(EOPNOTSUPP, EOPNOTSUPP);
}
