// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/* ibv_post_send and ibv_post_recv: the way of every message, so nothing here but translation. */
#include <errno.h>
#include <string.h>

#include "verbs/cq.h"
#include "verbs/qp.h"

#define SEND_FLAGS (IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_INLINE)

static int translate_bind(const struct ibv_send_wr *wr, struct rnic_send_wr *out)
{
	const struct ibv_mw_bind_info *info = &wr->bind_mw.bind_info;

	if (!wr->bind_mw.mw || wr->bind_mw.mw->type != IBV_MW_TYPE_2)
		return EINVAL;
	out->bind.mw = face_mw(wr->bind_mw.mw)->core;
	out->bind.mr = info->mr ? face_mr(info->mr)->core : NULL;
	out->bind.rkey = wr->bind_mw.rkey;
	out->bind.addr = info->addr;
	out->bind.length = info->length;
	out->bind.access = info->mw_access_flags;
	return 0;
}

static void translate_ud(const struct ibv_send_wr *wr, struct rnic_send_wr *out)
{
	out->ud.flow = wr->wr.ud.ah ? &face_ah(wr->wr.ud.ah)->flow : NULL;
	out->ud.qpn = wr->wr.ud.remote_qpn;
	out->ud.qkey = wr->wr.ud.remote_qkey;
}

static inline int translate(const struct face_qp *qp, const struct ibv_send_wr *wr,
			    struct rnic_send_wr *out)
{
	if (wr->num_sge < 0 || wr->send_flags & ~(unsigned int)SEND_FLAGS)
		return EINVAL;
	out->wr_id = wr->wr_id;
	out->sge = (const struct rnic_sge *)wr->sg_list;
	out->num_sge = (uint32_t)wr->num_sge;
	out->opcode = wr->opcode;
	out->flags = wr->send_flags;
	out->imm_or_rkey = wr->imm_data;
	if (qp->ibv.qp_type == IBV_QPT_XRC_SEND)
		out->xrc_srqn = wr->qp_type.xrc.remote_srqn;
	switch (wr->opcode) {
	case IBV_WR_SEND:
	case IBV_WR_SEND_WITH_IMM:
		if (qp->ibv.qp_type == IBV_QPT_UD)
			translate_ud(wr, out);
		return 0;
	case IBV_WR_SEND_WITH_INV:
	case IBV_WR_LOCAL_INV:
		return 0;
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
	case IBV_WR_RDMA_READ:
	case IBV_WR_ATOMIC_WRITE:
		out->remote_addr = wr->wr.rdma.remote_addr;
		out->rkey = wr->wr.rdma.rkey;
		return 0;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		out->remote_addr = wr->wr.atomic.remote_addr;
		out->rkey = wr->wr.atomic.rkey;
		out->compare_add = wr->wr.atomic.compare_add;
		out->swap = wr->wr.atomic.swap;
		return 0;
	case IBV_WR_BIND_MW:
		return translate_bind(wr, out);
	default:
		return EINVAL;
	}
}

void face_log_post(const struct face_qp *qp, const char *call, uint64_t wr_id, int error)
{
	struct rnic_qp_attr attr;

	if (!log_enabled(LOG_LEVEL_DEBUG))
		return;
	rnic_qp_query(qp->core, &attr, NULL);
	log_debug("verbs", "%s: queue pair 0x%06x, %s: wr_id %#llx: %s", call, qp->ibv.qp_num,
		  qp_state_name((enum ibv_qp_state)attr.state), (unsigned long long)wr_id,
		  error == ENOMEM ? "the queue is full" : strerror(error));
}

/* Who is told of completions by an upcall is no poller: what a socket's write() has taken is on its
 * way when it is back, whatever becomes of the process then. */
void qp_posted(const struct face_qp *qp)
{
	if (qp->ibv.send_cq && face_cq(qp->ibv.send_cq)->tell)
		shard_flush(qp->shard);
	else
		shard_posted(qp->shard);
}

int face_post_send(struct ibv_qp *ibqp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr)
{
	struct face_qp *qp = face_qp(ibqp);
	struct rnic_send_wr core;
	int rc = 0;

	shard_lock(qp->shard);
	const uint64_t now = shard_now(qp->shard);
	for (; wr; wr = wr->next) {
		rc = translate(qp, wr, &core);
		if (!rc)
			rc = -rnic_post_send(qp->core, &core, now);
		if (rc) {
			*bad_wr = wr;
			face_log_post(qp, "ibv_post_send", wr->wr_id, rc);
			break;
		}
	}
	qp_posted(qp); /* what stands before a bad request was posted */
	shard_unlock(qp->shard);
	return rc;
}

int face_post_recv(struct ibv_qp *ibqp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
	struct face_qp *qp = face_qp(ibqp);
	int rc = 0;

	shard_lock(qp->shard);
	for (; wr; wr = wr->next) {
		struct rnic_recv_wr core = {
			.wr_id = wr->wr_id,
			.sge = (const struct rnic_sge *)wr->sg_list,
			.num_sge = (uint32_t)wr->num_sge,
		};

		rc = wr->num_sge < 0 ? EINVAL : -rnic_post_recv(qp->core, &core);
		if (rc) {
			*bad_wr = wr;
			face_log_post(qp, "ibv_post_recv", wr->wr_id, rc);
			break;
		}
	}
	shard_unlock(qp->shard);
	return rc;
}
