/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* All queue pairs of the process, and what becomes of them when somebody else has gone. */
#include "verbs/qp.h"

/* Lock order: before a shard's. */
static struct list live = {&live, &live};
static pthread_mutex_t live_lock = PTHREAD_MUTEX_INITIALIZER;

void qp_live_lock(void)
{
	pthread_mutex_lock(&live_lock);
}

void qp_live_unlock(void)
{
	pthread_mutex_unlock(&live_lock);
}

void qp_live_add_locked(struct face_qp *qp)
{
	list_push_tail(&live, &qp->live);
}

void qp_live_add(struct face_qp *qp)
{
	qp_live_lock();
	qp_live_add_locked(qp);
	qp_live_unlock();
}

void qp_live_remove(struct face_qp *qp)
{
	qp_live_lock();
	list_remove(&qp->live);
	qp_live_unlock();
}

struct face_qp *qp_find_target(const struct xrc_domain *domain, uint32_t qpn)
{
	list_for_each(qp, &live, struct face_qp, live)
		if (qp->xrcd && qp->xrcd->domain == domain && qp->ibv.qp_num == qpn)
			return qp;
	return NULL;
}

struct face_qp *qp_find_iwarp(uint32_t qpn)
{
	list_for_each(qp, &live, struct face_qp, live)
		if (qp->ibv.qp_num == qpn && face_is_iwarp(qp->ibv.context) &&
		    !shard_is_dead(qp->shard)) /* a parent's */
			return qp;
	return NULL;
}

void qp_forked(void)
{
	pthread_mutex_init(&live_lock, NULL);
}

void qp_peer_died(struct shard *shard, uint32_t qpn)
{
	pthread_mutex_lock(&live_lock);
	list_for_each(qp, &live, struct face_qp, live) {
		if (qp->shard != shard || qp->ibv.qp_num != qpn)
			continue;
		shard_lock(shard);
		/* What the peer sent before it died counts: the acknowledgement of its last message
		 * may wait for a poller that was not on a processor since. */
		shard_catch_up(shard);
		rnic_qp_peer_died(qp->core, shard_now(shard));
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
		shard_flush(qp->shard);
		shard_unlock(qp->shard);
	}
	pthread_mutex_unlock(&live_lock);
}
