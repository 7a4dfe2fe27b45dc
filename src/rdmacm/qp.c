// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/* The queue pair of an identifier, and the completion queues it gets if the caller brings none. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "rdmacm/cma.h"

static void destroy_cqs(struct rdma_cm_id *id)
{
	if (id->qp_type == IBV_QPT_XRC_RECV && id->srq)
		return; /* its SRQ completes there */
	if (id->recv_cq)
		ibv_destroy_cq(id->recv_cq);
	if (id->send_cq && id->send_cq != id->recv_cq)
		ibv_destroy_cq(id->send_cq);
	if (id->recv_cq_channel)
		ibv_destroy_comp_channel(id->recv_cq_channel);
	if (id->send_cq_channel && id->send_cq_channel != id->recv_cq_channel)
		ibv_destroy_comp_channel(id->send_cq_channel);
	id->recv_cq = id->send_cq = NULL;
	id->recv_cq_channel = id->send_cq_channel = NULL;
}

static int create_cq(struct rdma_cm_id *id, uint32_t size, struct ibv_comp_channel **channel,
		     struct ibv_cq **cq)
{
	if (!size || *cq)
		return 0;
	*channel = ibv_create_comp_channel(id->verbs);
	if (!*channel)
		return -errno;
	*cq = ibv_create_cq(id->verbs, (int)size, id, *channel, 0);
	return *cq ? 0 : -errno;
}

static bool other_cq(const struct ibv_cq *own, const struct ibv_cq *given)
{
	return own && given && own != given;
}

/* ---- the queue pair of an identifier, beside other threads ------------------------------------
 */

static void set_qp(struct cma_id *id, struct ibv_qp *qp)
{
	pthread_mutex_lock(&id->lock);
	id->api.qp = qp;
	pthread_mutex_unlock(&id->lock);
}

/* The caller's alone. The lock is not held while it is destroyed, which may wait for a thread that
 * has an asynchronous event of it, and disconnects. */
static struct ibv_qp *take_qp(struct cma_id *id)
{
	struct ibv_qp *qp;

	pthread_mutex_lock(&id->lock);
	qp = id->api.qp;
	id->api.qp = NULL;
	while (id->qp_users)
		pthread_cond_wait(&id->cond, &id->lock);
	pthread_mutex_unlock(&id->lock);
	return qp;
}

/* ---- the queue pair -------------------------------------------------------------------------- */

/* Ready for receives to be posted; the rest comes with the connection. */
static int conn_qp_init(struct rdma_cm_id *id, struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT};
	int mask;

	return rdma_init_qp_attr(id, &attr, &mask) ? -errno : -ibv_modify_qp(qp, &attr, mask);
}

static int create_qp(struct rdma_cm_id *id, struct ibv_qp_init_attr_ex *attr)
{
	struct ibv_qp *qp;
	int rc = cma_attach(cma_id(id));

	if (rc)
		return rc;
	if (id->qp || !id->verbs)
		return -EINVAL;
	if (!(attr->comp_mask & IBV_QP_INIT_ATTR_PD) || !attr->pd) {
		attr->comp_mask |= IBV_QP_INIT_ATTR_PD;
		attr->pd = id->pd;
	}
	if (attr->pd->context != id->verbs || other_cq(id->recv_cq, attr->recv_cq) ||
	    other_cq(id->send_cq, attr->send_cq))
		return -EINVAL;
	if (id->qp_type == IBV_QPT_XRC_RECV &&
	    (!(attr->comp_mask & IBV_QP_INIT_ATTR_XRCD) || !attr->xrcd)) {
		rc = cma_default_xrcd(cma_id(id), &attr->xrcd);
		if (rc)
			return rc;
		attr->comp_mask |= IBV_QP_INIT_ATTR_XRCD;
	}
	rc = attr->recv_cq
		     ? 0
		     : create_cq(id, attr->cap.max_recv_wr, &id->recv_cq_channel, &id->recv_cq);
	if (!rc && !attr->send_cq)
		rc = create_cq(id, attr->cap.max_send_wr, &id->send_cq_channel, &id->send_cq);
	if (rc)
		goto destroy_cqs;
	if (!attr->send_cq)
		attr->send_cq = id->send_cq;
	if (!attr->recv_cq)
		attr->recv_cq = id->recv_cq;
	if (id->srq && !attr->srq)
		attr->srq = id->srq;
	qp = ibv_create_qp_ex(id->verbs, attr);
	if (!qp) {
		rc = -errno;
		goto destroy_cqs;
	}
	rc = cma_is_ud(cma_id(id)) ? cma_ud_qp_ready(cma_id(id), qp) : conn_qp_init(id, qp);
	if (rc)
		goto destroy_qp;
	id->pd = attr->pd;
	set_qp(cma_id(id), qp);
	return 0;

destroy_qp:
	ibv_destroy_qp(qp);
destroy_cqs:
	destroy_cqs(id);
	return rc;
}

int rdma_create_qp_ex(struct rdma_cm_id *id, struct ibv_qp_init_attr_ex *attr)
{
	return cma_ret(create_qp(id, attr));
}

int rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	/* The leading fields are the same; sizeof(*attr) reaches beyond them, into comp_mask. */
	const size_t common = offsetof(struct ibv_qp_init_attr_ex, comp_mask);
	struct ibv_qp_init_attr_ex ex = {.comp_mask = IBV_QP_INIT_ATTR_PD, .pd = pd};
	int rc;

	memcpy(&ex, attr, common);
	rc = create_qp(id, &ex);
	memcpy(attr, &ex, common);
	return cma_ret(rc);
}

/* Without a queue pair there is nothing to do: qperf does so to its listener. */
void rdma_destroy_qp(struct rdma_cm_id *id)
{
	struct ibv_qp *qp = take_qp(cma_id(id));

	if (!qp)
		return;
	ibv_destroy_qp(qp);
	destroy_cqs(id);
}

/* ---- shared receive queues ------------------------------------------------------------------- */

/* What an SRQ of XRC needs besides. */
static int complete_xrc_srq(struct rdma_cm_id *id, struct ibv_srq_init_attr_ex *attr)
{
	int rc = 0;

	if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_XRCD) || !attr->xrcd)
		rc = cma_default_xrcd(cma_id(id), &attr->xrcd);
	if (!rc && (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_CQ) || !attr->cq)) {
		rc = create_cq(id, attr->attr.max_wr, &id->recv_cq_channel, &id->recv_cq);
		attr->cq = id->recv_cq;
	}
	attr->comp_mask |= IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
	return rc;
}

int rdma_create_srq_ex(struct rdma_cm_id *id, struct ibv_srq_init_attr_ex *attr)
{
	int rc = cma_attach(cma_id(id));

	if (rc)
		return cma_ret(rc);
	if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE) || !id->verbs || id->srq)
		return cma_ret(-EINVAL);
	if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_PD) || !attr->pd) {
		attr->comp_mask |= IBV_SRQ_INIT_ATTR_PD;
		attr->pd = id->pd;
	}
	if (!attr->pd || attr->pd->context != id->verbs)
		return cma_ret(-EINVAL);
	rc = attr->srq_type == IBV_SRQT_XRC ? complete_xrc_srq(id, attr) : 0;
	if (!rc) {
		id->srq = ibv_create_srq_ex(id->verbs, attr);
		rc = id->srq ? 0 : -errno;
	}
	if (rc) {
		if (!id->qp)
			destroy_cqs(id);
		return cma_ret(rc);
	}
	id->pd = attr->pd;
	return 0;
}

int rdma_create_srq(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	struct ibv_srq_init_attr_ex ex = {
		.srq_context = attr->srq_context,
		.attr = attr->attr,
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD,
		.srq_type = id->qp_type == IBV_QPT_XRC_RECV ? IBV_SRQT_XRC : IBV_SRQT_BASIC,
		.pd = pd,
	};
	int rc = rdma_create_srq_ex(id, &ex);

	attr->attr = ex.attr;
	return rc;
}

void rdma_destroy_srq(struct rdma_cm_id *id)
{
	if (!id->srq || ibv_destroy_srq(id->srq))
		return;
	id->srq = NULL;
	if (!id->qp)
		destroy_cqs(id);
}
