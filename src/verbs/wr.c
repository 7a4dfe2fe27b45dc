// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/*
 * The ibv_wr_* interface: a batch of work requests is built call by call between wr_start and
 * wr_complete, and may be dropped by wr_abort. The core takes whole requests only, so the batch is
 * staged here. From start to complete or abort the stage is locked: one batch per QP at a time.
 *
 * Setters return nothing; what goes wrong is remembered and is what wr_complete returns.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "verbs/qp.h"

struct staged { /* followed by room for the SGEs, then for the inline bytes */
	struct rnic_send_wr wr;
};

struct wr_stage {
	pthread_mutex_t lock;
	char *mem; /* room requests of stride bytes; grows as batches do */
	size_t stride;
	uint32_t n, room, max_wr;
	uint32_t max_sge, max_inline;
	int err;	/* 0, or what is wrong with the batch */
	uint64_t wr_id; /* of the request that it is wrong with */
};

static struct face_qp *of(struct ibv_qp_ex *ex)
{
	return container_of(ex, struct face_qp, ex);
}

static struct staged *at(struct wr_stage *st, uint32_t i)
{
	return (struct staged *)(st->mem + i * st->stride);
}

static struct rnic_sge *sges_of(struct staged *s)
{
	return (struct rnic_sge *)(s + 1);
}

static uint8_t *inline_of(struct wr_stage *st, struct staged *s)
{
	return (uint8_t *)(sges_of(s) + st->max_sge);
}

static bool grow(struct wr_stage *st)
{
	uint32_t room = min_of(st->room ? 2 * st->room : 8u, st->max_wr);
	char *mem = realloc(st->mem, room * st->stride);

	if (!mem)
		return false;
	st->mem = mem;
	st->room = room;
	return true;
}

static void spoil(struct ibv_qp_ex *ex, int err)
{
	struct wr_stage *st = of(ex)->stage;

	st->err = err;
	st->wr_id = ex->wr_id;
}

/* Begins a request; NULL, with the error remembered, if it has no room. */
static struct rnic_send_wr *begin(struct ibv_qp_ex *ex, enum rnic_wr_opcode opcode)
{
	struct wr_stage *st = of(ex)->stage;
	struct staged *s;

	if (st->n >= st->max_wr || (st->n == st->room && !grow(st))) {
		spoil(ex, ENOMEM);
		return NULL;
	}
	s = at(st, st->n++);
	s->wr = (struct rnic_send_wr){
		.wr_id = ex->wr_id,
		.opcode = opcode,
		.flags = ex->wr_flags & ~(unsigned int)IBV_SEND_INLINE,
	};
	if (ex->wr_flags & ~(unsigned int)(IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED |
					   IBV_SEND_INLINE))
		spoil(ex, EINVAL);
	return &s->wr;
}

/* ---- operations ------------------------------------------------------------------------------ */

static void begin_rdma(struct ibv_qp_ex *ex, enum rnic_wr_opcode opcode, uint32_t rkey,
		       uint64_t remote_addr, uint32_t imm)
{
	struct rnic_send_wr *wr = begin(ex, opcode);

	if (wr) {
		wr->rkey = rkey;
		wr->remote_addr = remote_addr;
		wr->imm_or_rkey = imm;
	}
}

static void begin_send(struct ibv_qp_ex *ex, enum rnic_wr_opcode opcode, uint32_t imm_or_rkey)
{
	struct rnic_send_wr *wr = begin(ex, opcode);

	if (wr)
		wr->imm_or_rkey = imm_or_rkey;
}

static void begin_atomic(struct ibv_qp_ex *ex, enum rnic_wr_opcode opcode, uint32_t rkey,
			 uint64_t remote_addr, uint64_t compare_add, uint64_t swap)
{
	struct rnic_send_wr *wr = begin(ex, opcode);

	if (wr) {
		wr->rkey = rkey;
		wr->remote_addr = remote_addr;
		wr->compare_add = compare_add;
		wr->swap = swap;
	}
}

static void wr_atomic_cmp_swp(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr,
			      uint64_t compare, uint64_t swap)
{
	begin_atomic(ex, RNIC_WR_ATOMIC_CMP_AND_SWP, rkey, remote_addr, compare, swap);
}

static void wr_atomic_fetch_add(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr,
				uint64_t add)
{
	begin_atomic(ex, RNIC_WR_ATOMIC_FETCH_AND_ADD, rkey, remote_addr, add, 0);
}

static void wr_bind_mw(struct ibv_qp_ex *ex, struct ibv_mw *mw, uint32_t rkey,
		       const struct ibv_mw_bind_info *info)
{
	struct rnic_send_wr *wr = begin(ex, RNIC_WR_BIND_MW);

	if (!wr)
		return;
	if (mw->type != IBV_MW_TYPE_2) {
		spoil(ex, EINVAL);
		return;
	}
	wr->bind.mw = face_mw(mw)->core;
	wr->bind.mr = info->mr ? face_mr(info->mr)->core : NULL;
	wr->bind.rkey = rkey;
	wr->bind.addr = info->addr;
	wr->bind.length = info->length;
	wr->bind.access = info->mw_access_flags;
}

static void wr_local_inv(struct ibv_qp_ex *ex, uint32_t invalidate_rkey)
{
	begin_send(ex, RNIC_WR_LOCAL_INV, invalidate_rkey);
}

static void wr_rdma_read(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr)
{
	begin_rdma(ex, RNIC_WR_RDMA_READ, rkey, remote_addr, 0);
}

static void wr_rdma_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr)
{
	begin_rdma(ex, RNIC_WR_RDMA_WRITE, rkey, remote_addr, 0);
}

static void wr_rdma_write_imm(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr,
			      __be32 imm_data)
{
	begin_rdma(ex, RNIC_WR_RDMA_WRITE_WITH_IMM, rkey, remote_addr, imm_data);
}

static void wr_send(struct ibv_qp_ex *ex)
{
	begin_send(ex, RNIC_WR_SEND, 0);
}

static void wr_send_imm(struct ibv_qp_ex *ex, __be32 imm_data)
{
	begin_send(ex, RNIC_WR_SEND_WITH_IMM, imm_data);
}

static void wr_send_inv(struct ibv_qp_ex *ex, uint32_t invalidate_rkey)
{
	begin_send(ex, RNIC_WR_SEND_WITH_INV, invalidate_rkey);
}

/* ---- data ------------------------------------------------------------------------------------ */

/* The request that is being built; NULL after an error. */
static struct staged *current(struct ibv_qp_ex *ex)
{
	struct wr_stage *st = of(ex)->stage;

	if (!st->n && !st->err)
		spoil(ex, EINVAL);
	return st->err ? NULL : at(st, st->n - 1);
}

static void wr_set_sge_list(struct ibv_qp_ex *ex, size_t num_sge, const struct ibv_sge *sg_list)
{
	struct wr_stage *st = of(ex)->stage;
	struct staged *s = current(ex);

	if (!s)
		return;
	if (num_sge > st->max_sge) {
		spoil(ex, EINVAL);
		return;
	}
	memcpy(sges_of(s), sg_list, num_sge * sizeof(*sg_list));
	s->wr.num_sge = (uint32_t)num_sge;
}

static void wr_set_sge(struct ibv_qp_ex *ex, uint32_t lkey, uint64_t addr, uint32_t length)
{
	struct ibv_sge sge = {.addr = addr, .length = length, .lkey = lkey};

	wr_set_sge_list(ex, 1, &sge);
}

static void wr_set_inline_data_list(struct ibv_qp_ex *ex, size_t num_buf,
				    const struct ibv_data_buf *buf_list)
{
	struct wr_stage *st = of(ex)->stage;
	struct staged *s = current(ex);
	size_t len = 0;

	if (!s)
		return;
	for (size_t i = 0; i < num_buf; i++) {
		if (buf_list[i].length > st->max_inline - len) {
			spoil(ex, EINVAL);
			return;
		}
		memcpy(inline_of(st, s) + len, buf_list[i].addr, buf_list[i].length);
		len += buf_list[i].length;
	}
	s->wr.flags |= RNIC_SEND_INLINE;
	s->wr.num_sge = 1;
	sges_of(s)->length = (uint32_t)len; /* the address is known when the stage stands still */
}

static void wr_set_inline_data(struct ibv_qp_ex *ex, void *addr, size_t length)
{
	struct ibv_data_buf buf = {.addr = addr, .length = length};

	wr_set_inline_data_list(ex, 1, &buf);
}

static void wr_atomic_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr,
			    const void *atomic_wr)
{
	struct ibv_data_buf buf = {.addr = (void *)(uintptr_t)atomic_wr,
				   .length = sizeof(uint64_t)};

	begin_rdma(ex, RNIC_WR_ATOMIC_WRITE, rkey, remote_addr, 0);
	wr_set_inline_data_list(ex, 1, &buf);
}

static void wr_set_ud_addr(struct ibv_qp_ex *ex, struct ibv_ah *ah, uint32_t remote_qpn,
			   uint32_t remote_qkey)
{
	struct staged *s = current(ex);

	if (!s)
		return;
	s->wr.ud.flow = &face_ah(ah)->flow;
	s->wr.ud.qpn = remote_qpn;
	s->wr.ud.qkey = remote_qkey;
}

static void wr_set_xrc_srqn(struct ibv_qp_ex *ex, uint32_t remote_srqn)
{
	struct staged *s = current(ex);

	if (s)
		s->wr.xrc_srqn = remote_srqn;
}

/* ---- batches --------------------------------------------------------------------------------- */

static void wr_start(struct ibv_qp_ex *ex)
{
	struct wr_stage *st = of(ex)->stage;

	pthread_mutex_lock(&st->lock);
	st->n = 0;
	st->err = 0;
}

/* All of them, or none. */
static int post_all(struct face_qp *qp, struct wr_stage *st)
{
	const uint64_t now = shard_now(qp->shard);
	int rc = 0;

	for (uint32_t i = 0; i < st->n && !rc; i++) {
		struct staged *s = at(st, i);

		st->wr_id = s->wr.wr_id;
		s->wr.sge = sges_of(s);
		if (s->wr.flags & RNIC_SEND_INLINE)
			sges_of(s)->addr = (uintptr_t)inline_of(st, s);
		rc = -rnic_post_send_check(qp->core, &s->wr, i);
	}
	for (uint32_t i = 0; i < st->n && !rc; i++) {
		st->wr_id = at(st, i)->wr.wr_id;
		rc = -rnic_post_send(qp->core, &at(st, i)->wr, now);
	}
	return rc;
}

static int wr_complete(struct ibv_qp_ex *ex)
{
	struct face_qp *qp = of(ex);
	struct wr_stage *st = qp->stage;
	int rc = st->err;

	shard_lock(qp->shard);
	if (!rc)
		rc = post_all(qp, st);
	if (rc)
		face_log_post(qp, "ibv_wr_complete", st->wr_id, rc);
	qp_posted(qp);
	shard_unlock(qp->shard);
	pthread_mutex_unlock(&st->lock);
	return rc;
}

static void wr_abort(struct ibv_qp_ex *ex)
{
	pthread_mutex_unlock(&of(ex)->stage->lock);
}

int wr_stage_create(struct face_qp *qp, const struct rnic_qp_cap *cap)
{
	struct wr_stage *st = calloc(1, sizeof(*st));

	if (!st)
		return -ENOMEM;
	pthread_mutex_init(&st->lock, NULL);
	st->max_wr = cap->max_send_wr;
	st->max_sge = max_of(cap->max_send_sge, 1u);
	st->max_inline = cap->max_inline_data;
	st->stride = sizeof(struct staged) + st->max_sge * sizeof(struct rnic_sge) +
		     ((st->max_inline + 7u) & ~7u);
	qp->stage = st;
	qp->ex.wr_atomic_cmp_swp = wr_atomic_cmp_swp;
	qp->ex.wr_atomic_fetch_add = wr_atomic_fetch_add;
	qp->ex.wr_atomic_write = wr_atomic_write;
	qp->ex.wr_bind_mw = wr_bind_mw;
	qp->ex.wr_local_inv = wr_local_inv;
	qp->ex.wr_rdma_read = wr_rdma_read;
	qp->ex.wr_rdma_write = wr_rdma_write;
	qp->ex.wr_rdma_write_imm = wr_rdma_write_imm;
	qp->ex.wr_send = wr_send;
	qp->ex.wr_send_imm = wr_send_imm;
	qp->ex.wr_send_inv = wr_send_inv;
	qp->ex.wr_set_inline_data = wr_set_inline_data;
	qp->ex.wr_set_inline_data_list = wr_set_inline_data_list;
	qp->ex.wr_set_sge = wr_set_sge;
	qp->ex.wr_set_sge_list = wr_set_sge_list;
	qp->ex.wr_set_ud_addr = wr_set_ud_addr;
	qp->ex.wr_set_xrc_srqn = wr_set_xrc_srqn;
	qp->ex.wr_start = wr_start;
	qp->ex.wr_complete = wr_complete;
	qp->ex.wr_abort = wr_abort;
	return 0;
}

void wr_stage_destroy(struct face_qp *qp)
{
	if (qp->stage)
		free(qp->stage->mem);
	free(qp->stage);
}
