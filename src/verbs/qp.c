// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#include "verbs/local.h"
#include "verbs/qp.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/congestion_rules.h"
#include "verbs/cq.h"
#include "verbs/stream.h"

#define UD_CREATE_FLAGS ((uint32_t)IBV_QP_CREATE_BLOCK_SELF_MCAST_LB)

#define UD_SEND_OPS (IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM)
#define UC_SEND_OPS                                                                     \
	(UD_SEND_OPS | IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | \
	 IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW)
#define RC_SEND_OPS                                                                             \
	(IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_SEND | \
	 IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ |                              \
	 IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD |              \
	 IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_SEND_WITH_INV |     \
	 IBV_QP_EX_WITH_ATOMIC_WRITE)

#define IWARP_SEND_OPS \
	(RC_SEND_OPS & ~(uint64_t)(IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_ATOMIC_WRITE))

/* 0: there is no such type here, or it does not send. */
static uint64_t send_ops(struct ibv_context *context, enum ibv_qp_type type)
{
	if (face_is_iwarp(context))
		return type == IBV_QPT_RC ? IWARP_SEND_OPS : 0;
	switch (type) {
	case IBV_QPT_RC:
	case IBV_QPT_XRC_SEND:
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

/* What the type is made of; what it has no use for is not looked at. */
static int init_parts(struct rnic_qp_init *init, struct ibv_context *context,
		      const struct ibv_qp_init_attr_ex *a)
{
	struct broker_device b;
	int rc;

	init->type = face_is_iwarp(context) ? RNIC_QPT_IWARP : (enum rnic_qp_type)a->qp_type;
	if (a->qp_type == IBV_QPT_XRC_RECV) {
		if (!a->xrcd)
			return -EINVAL;
		init->xrcd = face_xrcd(a->xrcd)->core;
		return 0;
	}
	if (!send_ops(context, a->qp_type))
		return -EOPNOTSUPP;
	if (!a->send_cq)
		return -EINVAL;
	init->send_cq = face_cq(a->send_cq)->core;
	if (a->qp_type == IBV_QPT_XRC_SEND)
		return 0;
	if (!a->recv_cq)
		return -EINVAL;
	init->recv_cq = face_cq(a->recv_cq)->core;
	if (a->srq && face_srq(a->srq)->xrcd)
		return -EINVAL;
	init->srq = a->srq ? face_srq(a->srq)->core : NULL;
	if (a->qp_type == IBV_QPT_UD) {
		rc = device_lookup(context->device, &b);
		if (rc)
			return rc;
		init->path_mtu = (enum rnic_mtu)device_mtu(&b);
	}
	return 0;
}

static struct face_qp *qp_alloc(struct ibv_context *context, enum ibv_qp_type type,
				void *qp_context)
{
	struct face_qp *qp = calloc(1, sizeof(*qp));

	if (!qp)
		return NULL;
	qp->shard = face_context(context)->shard;
	qp->ibv.context = context;
	qp->ibv.qp_context = qp_context;
	qp->ibv.qp_type = type;
	qp->ibv.state = IBV_QPS_RESET;
	pthread_mutex_init(&qp->ibv.mutex, NULL);
	pthread_cond_init(&qp->ibv.cond, NULL);
	event_source_init(&qp->async);
	list_init(&qp->openers);
	return qp;
}

static uint32_t create_flags(const struct ibv_qp_init_attr_ex *a)
{
	return a->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS ? a->create_flags : 0;
}

/* pd: NULL for an XRC target. */
static struct face_qp *qp_create(struct ibv_context *context, struct ibv_pd *pd,
				 struct ibv_qp_init_attr_ex *a, bool wr_interface)
{
	struct face_context *c = face_context(context);
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
		.deaf_to_itself = create_flags(a) & IBV_QP_CREATE_BLOCK_SELF_MCAST_LB,
	};
	struct face_qp *qp;
	int rc = init_parts(&init, context, a);

	if (rc)
		return FAIL(-rc, NULL);
	qp = qp_alloc(context, a->qp_type, a->qp_context);
	if (!qp)
		return FAIL(ENOMEM, NULL);
	init.qp_user = qp;
	qp->sq_sig_all = a->sq_sig_all;

	shard_lock(qp->shard);
	rc = rnic_qp_create(pd ? face_pd(pd)->core : NULL, &init, &qp->core);
	if (!rc && a->qp_type == IBV_QPT_UD)
		shard_want_headers(qp->shard);
	shard_unlock(qp->shard);
	if (rc)
		goto free_qp;
	rc = queue_mem_get(&qp->mem, pd, rnic_qp_mem_size(qp->core), QUEUE_QP);
	if (rc)
		goto destroy_core;
	if (qp->mem.p) {
		shard_lock(qp->shard);
		rnic_qp_use_mem(qp->core, qp->mem.p);
		shard_unlock(qp->shard);
	}
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
	qp->ibv.pd = pd;
	qp->ibv.send_cq = init.send_cq ? a->send_cq : NULL;
	qp->ibv.recv_cq = init.recv_cq ? a->recv_cq : NULL;
	qp->ibv.srq = init.srq ? a->srq : NULL;
	qp->ibv.qp_num = qp->ibv.handle = rnic_qp_num(qp->core);
	if (init.xrcd) {
		qp->xrcd = face_xrcd(a->xrcd);
		atomic_fetch_add(&qp->xrcd->users, 1);
	}
	context_get(c);
	qp_live_add(qp);
	return qp;

destroy_core:
	shard_lock(qp->shard);
	if (rnic_qp_destroy(qp->core))
		abort(); /* nothing can hold a QP that nobody has seen */
	shard_unlock(qp->shard);
	queue_mem_put(&qp->mem);
free_qp:
	free(qp);
	return FAIL(-rc, NULL);
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct ibv_qp_init_attr_ex ex = {0};
	struct face_qp *qp;

	memcpy(&ex, attr, offsetof(struct ibv_qp_init_attr_ex, comp_mask)); /* the same fields */
	qp = qp_create(pd->context, pd, &ex, false);
	if (!qp)
		return NULL;
	attr->cap = ex.cap;
	return &qp->ibv;
}

struct ibv_qp *face_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr)
{
	const uint32_t known = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_XRCD |
			       IBV_QP_INIT_ATTR_SEND_OPS_FLAGS | IBV_QP_INIT_ATTR_CREATE_FLAGS;
	bool ops = attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	bool target = attr->qp_type == IBV_QPT_XRC_RECV;
	struct face_qp *qp;

	if (!(attr->comp_mask & (target ? IBV_QP_INIT_ATTR_XRCD : IBV_QP_INIT_ATTR_PD)))
		return FAIL(EINVAL, NULL);
	if (attr->comp_mask & ~known ||
	    create_flags(attr) & ~(attr->qp_type == IBV_QPT_UD ? UD_CREATE_FLAGS : 0) ||
	    (ops && attr->send_ops_flags & ~send_ops(context, attr->qp_type)))
		return FAIL(EOPNOTSUPP, NULL);
	qp = qp_create(context, target ? NULL : attr->pd, attr, ops);
	return qp ? &qp->ibv : NULL;
}

struct ibv_qp *face_open_qp(struct ibv_context *context, struct ibv_qp_open_attr *attr)
{
	const uint32_t needed =
		IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
	struct face_qp *qp, *first;

	if (attr->comp_mask & ~(needed | IBV_QP_OPEN_ATTR_CONTEXT))
		return FAIL(EOPNOTSUPP, NULL);
	if ((attr->comp_mask & needed) != needed || attr->qp_type != IBV_QPT_XRC_RECV)
		return FAIL(EINVAL, NULL);
	qp = qp_alloc(context, attr->qp_type,
		      attr->comp_mask & IBV_QP_OPEN_ATTR_CONTEXT ? attr->qp_context : NULL);
	if (!qp)
		return FAIL(ENOMEM, NULL);
	qp->xrcd = face_xrcd(attr->xrcd);
	qp_live_lock();
	first = qp_find_target(qp->xrcd->domain, attr->qp_num);
	if (!first) {
		qp_live_unlock();
		free(qp);
		return FAIL(EINVAL, NULL);
	}
	shard_lock(qp->shard);
	qp->core = first->core;
	qp->ah = first->ah;
	list_push_tail(&first->openers, &qp->openers);
	shard_unlock(qp->shard);
	qp->ibv.qp_num = qp->ibv.handle = attr->qp_num;
	qp->ibv.state = IBV_QPS_UNKNOWN; /* its opener has to ask */
	qp_live_add_locked(qp);
	qp_live_unlock();
	atomic_fetch_add(&qp->xrcd->users, 1);
	context_get(face_context(context));
	return &qp->ibv;
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

	qp_live_remove(qp);
	shard_lock(qp->shard);
	if (list_empty(&qp->openers)) {
		/* The peer waits for the acknowledgement of what was received, be it not yet taken
		 * in: an RNIC would have answered it. UCX gives the memory for datagrams away
		 * before it ends the queue pair that they come to, though, and an RNIC would have
		 * pinned it. */
		if (ibqp->qp_type != IBV_QPT_UD)
			shard_catch_up(qp->shard);
		stream_drop(qp);
		rc = rnic_qp_destroy(qp->core);
	} else {
		rnic_qp_set_user(qp->core, list_entry(qp->openers.next, struct face_qp, openers));
		list_remove(&qp->openers);
		rc = 0;
	}
	/* What the others may send now, and a stream that is to end soon, the thread may sleep
	 * over. */
	shard_flush(qp->shard);
	shard_unlock(qp->shard);
	if (rc) {
		qp_live_add(qp);
		return -rc;
	}
	taken = event_pipe_forget(&c->async, &qp->async);
	pthread_mutex_lock(&ibqp->mutex);
	while (!shard_is_dead(qp->shard) && ibqp->events_completed != taken)
		pthread_cond_wait(&ibqp->cond, &ibqp->mutex);
	pthread_mutex_unlock(&ibqp->mutex);
	wr_stage_destroy(qp);
	if (qp->xrcd)
		atomic_fetch_sub(&qp->xrcd->users, 1);
	queue_mem_put(&qp->mem);
	free(qp);
	context_put(c);
	return 0;
}

/* ---- attributes ----------------------------------------------------------------------------- */

int resolve_flow(const struct ibv_ah_attr *ah, const struct broker_device *b, uint32_t lqpn,
		 uint32_t rqpn, struct flow *ret)
{
	const struct ibv_global_route *grh = &ah->grh;
	bool rocev1;

	if (!ah->is_global || ah->port_num != FACE_PORT ||
	    !device_gid_at(b, grh->sgid_index, &ret->sgid, &rocev1))
		return -EINVAL;
	ret->rocev1 = rocev1;
	memcpy(ret->dgid.raw, grh->dgid.raw, sizeof(ret->dgid.raw));
	if (gid_is_ipv4(&ret->sgid) != gid_is_ipv4(&ret->dgid))
		return -EINVAL;
	if (ret->rocev1 && gid_is_multicast(&ret->dgid))
		return -EOPNOTSUPP;
	ret->scope = gid_is_link_local(&ret->sgid) || gid_is_link_local(&ret->dgid) ||
				     gid_is_multicast(&ret->dgid)
			     ? b->ifindex
			     : 0;
	ret->flow_label = grh->flow_label & 0xfffff;
	ret->sl = ah->sl & 0xf;
	ret->sport = flow_sport(ret->flow_label, lqpn, rqpn);
	ret->tos = grh->traffic_class;
	ret->ttl = grh->hop_limit;
	ret->rate_mbps = (uint32_t)max_of(ibv_rate_to_mbps((enum ibv_rate)ah->static_rate), 0);
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

/* Programs set what an RC queue pair needs on either half of XRC; as with the kernel, what is the
 * other half's is passed over. */
static int mask_of_type(struct ibv_context *context, enum ibv_qp_type type, int mask)
{
	if (face_is_iwarp(context)) /* its adapters look at these alone */
		return mask & (IBV_QP_STATE | IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS |
			       IBV_QP_EN_SQD_ASYNC_NOTIFY);
	switch (type) {
	case IBV_QPT_XRC_SEND:
		return mask & ~(IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	case IBV_QPT_XRC_RECV:
		return mask & ~(IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY);
	default:
		return mask;
	}
}

static void take_ah(struct face_qp *qp, const struct ibv_ah_attr *ah)
{
	qp->ah = *ah;
	list_for_each(other, &qp->openers, struct face_qp, openers)
		other->ah = *ah;
}

static void log_modify(const struct ibv_qp *ibqp, enum ibv_qp_state from, enum ibv_qp_state to,
		       int mask)
{
	uint32_t required = 0, optional = 0, given = (uint32_t)mask;
	char why[96] = "a value is not allowed";

	if (!rnic_qp_transition((enum rnic_qp_type)ibqp->qp_type, (enum rnic_qp_state)from,
				(enum rnic_qp_state)to, &required, &optional))
		snprintf(why, sizeof(why), "there is no such transition");
	else if (required & ~given)
		snprintf(why, sizeof(why), "the attributes %#x are missing", required & ~given);
	else if (given & ~(required | optional))
		snprintf(why, sizeof(why), "the attributes %#x are not allowed",
			 given & ~(required | optional));
	log_debug("verbs", "ibv_modify_qp: queue pair 0x%06x from %s to %s with attributes %#x: %s",
		  ibqp->qp_num, qp_state_name(from), qp_state_name(to), given, why);
}

static int resolve_path(struct ibv_qp *ibqp, const struct ibv_qp_attr *a, int mask,
			int (*lookup)(struct ibv_device *, struct broker_device *),
			struct rnic_qp_attr *attr)
{
	struct broker_device b;
	int rc;

	if (!(mask & (IBV_QP_AV | IBV_QP_PATH_MTU)))
		return 0;
	rc = lookup(ibqp->context->device, &b);
	if (!rc && mask & IBV_QP_PATH_MTU && a->path_mtu > device_mtu(&b))
		rc = -EINVAL;
	if (!rc && mask & IBV_QP_AV)
		rc = resolve_flow(&a->ah_attr, &b, ibqp->qp_num, a->dest_qp_num, &attr->flow);
	/* Whether a connection answers to marks its RNIC says, as on adapters. A GRH has no such
	 * bits. */
	if (!attr->flow.rocev1)
		attr->flow.tos &= (uint8_t)~FLOW_ECN_MASK;
	if (!rc && mask & IBV_QP_AV) {
		const struct congestion *c =
			congestion_choose(shard_congestion(face_qp(ibqp)->shard),
					  ibv_get_device_name(ibqp->context->device), &attr->flow);

		attr->cc = c->cc;
		attr->cc_params = &c->params;
	}
	return rc;
}

/* Who goes by rdma_init_qp_attr() moves his queue pair to INIT, RTR, RTS before he accepts, or once
 * he is connected. iWARP has no RTR, and the connection manager makes it RTS: adapters leave it
 * where it is. */
static enum rnic_qp_state iwarp_state(const struct face_qp *qp, enum rnic_qp_state wanted)
{
	struct rnic_qp_attr now;

	rnic_qp_query(qp->core, &now, NULL);
	if (now.state == RNIC_QPS_RTS && (wanted == RNIC_QPS_INIT || wanted == RNIC_QPS_RTR))
		return RNIC_QPS_RTS;
	return wanted == RNIC_QPS_RTR ? RNIC_QPS_INIT : wanted;
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
		.access_flags = a->qp_access_flags &
				~(unsigned int)(IBV_ACCESS_OPTIONAL_RANGE | IBV_ACCESS_HUGETLB),
		.qkey = a->qkey,
		.pkey_index = a->pkey_index,
		.port_num = a->port_num,
		.max_rd_atomic = a->max_rd_atomic,
		.max_dest_rd_atomic = a->max_dest_rd_atomic,
		.min_rnr_timer = a->min_rnr_timer,
		.timeout = a->timeout,
		.retry_cnt = a->retry_cnt,
		.rnr_retry = a->rnr_retry,
		.en_sqd_async_notify = a->en_sqd_async_notify,
	};
	int rc;

	mask = mask_of_type(ibqp->context, ibqp->qp_type, mask);
	rc = check_attr(a, mask);
	if (rc)
		return log_refused("verbs", "ibv_modify_qp: its attributes", -rc);
	rc = resolve_path(ibqp, a, mask, device_lookup_lately, &attr);
	if (rc)
		rc = resolve_path(ibqp, a, mask, device_lookup, &attr);
	if (rc)
		return log_refused("verbs", "ibv_modify_qp: its path", -rc);
	if (mask & IBV_QP_AV && mask & IBV_QP_DEST_QPN)
		local_meet(qp->shard, &attr.flow, attr.dest_qpn);

	shard_lock(qp->shard);
	shard_flush(qp->shard); /* what it owes its peer in its old state */
	/* The peer's acknowledgement may have come, with nobody having had time to take it in,
	 * before its word that the connection ends, which comes by another way. */
	if (mask & IBV_QP_STATE && a->qp_state == IBV_QPS_ERR)
		shard_catch_up(qp->shard);
	if (mask & IBV_QP_STATE && a->qp_state == IBV_QPS_RESET)
		stream_drop(qp);
	if (face_is_iwarp(ibqp->context) && mask & IBV_QP_STATE)
		attr.state = iwarp_state(qp, attr.state);
	rc = rnic_qp_modify(qp->core, &attr, (uint32_t)mask, shard_now(qp->shard));
	if (!rc) {
		if (mask & IBV_QP_STATE)
			ibqp->state = (enum ibv_qp_state)attr.state;
		if (mask & IBV_QP_STATE && a->qp_state == IBV_QPS_RESET)
			take_ah(qp, &(struct ibv_ah_attr){0});
		if (mask & IBV_QP_AV)
			take_ah(qp, &a->ah_attr);
		shard_flush(qp->shard);
	}
	if (rc && log_enabled(LOG_LEVEL_DEBUG)) {
		struct rnic_qp_attr now;

		rnic_qp_query(qp->core, &now, NULL);
		log_modify(ibqp, (enum ibv_qp_state)now.state,
			   mask & IBV_QP_STATE ? a->qp_state : (enum ibv_qp_state)now.state, mask);
	}
	shard_unlock(qp->shard);
	return -rc;
}

int ibv_query_qp(struct ibv_qp *ibqp, struct ibv_qp_attr *a, int mask,
		 struct ibv_qp_init_attr *init_attr)
{
	struct face_qp *qp = face_qp(ibqp);
	struct rnic_qp_attr attr;
	struct rnic_qp_cap cap;
	enum ibv_qp_state state;
	struct ibv_ah_attr ah;

	(void)mask; /* a limit on what the caller needs; all of it is at hand */
	shard_lock(qp->shard);
	rnic_qp_query(qp->core, &attr, &cap);
	/* Adapters of iWARP have no RESET either. */
	state = face_is_iwarp(ibqp->context) && attr.state == RNIC_QPS_RESET
			? IBV_QPS_INIT
			: (enum ibv_qp_state)attr.state;
	ibqp->state = state;
	ah = qp->ah;
	shard_unlock(qp->shard);
	*a = (struct ibv_qp_attr){
		.qp_state = state,
		.cur_qp_state = state,
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
		.ah_attr = ah,
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
