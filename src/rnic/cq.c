/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Completion queues. One that runs over keeps what is in it, loses the rest, says so in an event
 * and takes its QPs into error; that happens at the end of the entry that found it, since the QP
 * that completes is in the middle of its work.
 *
 * Moderation holds back the notification of an armed CQ, not its completions.
 *
 * What is in a CQ when it is armed. The InfiniBand architecture has only later completions notify,
 * and so has Linux's rxe: a program polls once more after arming. mlx5 and mlx4 pass the consumer
 * index with the arming and notify at once if there is anything behind it, and programs have come
 * to rely upon that: SPDK's target in interrupt mode arms, polls until a batch had no response in
 * it, and leaves the rest to the next event. An event too many costs such a program, and every
 * other, a poll in vain; one too few is a hang. So rnic_cq_arm_or_notify() does as mlx5, once for
 * each call, but for one case: the entry that the last event was for, untouched and alone. Most
 * programs arm between event and poll, and each of their events would bring a second.
 */
#include "rnic/core.h"

int rnic_cq_create(struct rnic *r, uint32_t cqe, void *cq_user, struct rnic_cq **ret)
{
	uint32_t n = round_up_pow2(cqe);
	struct rnic_cq *cq;

	if (cqe == 0 || cqe > RNIC_MAX_CQE)
		return -EINVAL;
	cq = r->ops.alloc(r->ctx, sizeof(*cq));
	if (!cq)
		return -ENOMEM;
	cq->ring = r->ops.alloc(r->ctx, sizeof(*cq->ring) * n);
	if (!cq->ring) {
		r->ops.free(r->ctx, cq);
		return -ENOMEM;
	}
	cq->rnic = r;
	cq->user = cq_user;
	cq->mask = n - 1;
	list_init(&cq->send_qps);
	list_init(&cq->recv_qps);
	list_init(&cq->overflow_node);
	r->cqs++;
	*ret = cq;
	return 0;
}

static void ring_free(struct rnic_cq *cq)
{
	if (!cq->lent)
		cq->rnic->ops.free(cq->rnic->ctx, cq->ring);
}

int rnic_cq_destroy(struct rnic_cq *cq)
{
	struct rnic *r = cq->rnic;

	if (cq->users)
		return -EBUSY;
	list_remove(&cq->overflow_node);
	timer_cancel(&r->cq_timers, &cq->timer);
	r->cqs--;
	ring_free(cq);
	r->ops.free(r->ctx, cq);
	return 0;
}

int rnic_cq_resize(struct rnic_cq *cq, uint32_t cqe)
{
	struct rnic *r = cq->rnic;
	uint32_t n = round_up_pow2(cqe), held = cq->prod - cq->cons;
	struct cqe *ring;

	if (cqe == 0 || cqe > RNIC_MAX_CQE || cqe < held)
		return -EINVAL;
	ring = r->ops.alloc(r->ctx, sizeof(*ring) * n);
	if (!ring)
		return -ENOMEM;
	for (uint32_t i = 0; i < held; i++)
		ring[i] = cq->ring[(cq->cons + i) & cq->mask];
	ring_free(cq);
	cq->ring = ring;
	cq->lent = false;
	cq->mask = n - 1;
	cq->told -= cq->cons;
	cq->solicited -= cq->cons;
	cq->cons = 0;
	cq->prod = held;
	return 0;
}

uint32_t rnic_cq_capacity(const struct rnic_cq *cq)
{
	return cq->mask + 1;
}

size_t rnic_cq_mem_size(const struct rnic_cq *cq)
{
	return sizeof(*cq->ring) * (cq->mask + 1);
}

void rnic_cq_use_mem(struct rnic_cq *cq, void *mem)
{
	memcpy(mem, cq->ring, rnic_cq_mem_size(cq));
	ring_free(cq);
	cq->ring = mem;
	cq->lent = true;
}

int rnic_cq_poll(struct rnic_cq *cq, struct rnic_wc *wc, int max)
{
	int n = 0;

	cq->rnic->polls++;
	while (n < max && cq->cons != cq->prod)
		wc[n++] = cq->ring[cq->cons++ & cq->mask].wc;
	return n;
}

uint64_t rnic_cq_polled_at(const struct rnic_cq *cq)
{
	return cq->ring[(cq->cons - 1) & cq->mask].time_ns;
}

bool rnic_cq_empty(const struct rnic_cq *cq)
{
	return cq->cons == cq->prod;
}

void rnic_cq_arm(struct rnic_cq *cq, bool solicited_only)
{
	/* A weaker arming does not undo a stronger one. */
	if (!solicited_only)
		cq->arming = CQ_ARMED;
	else if (cq->arming == CQ_UNARMED)
		cq->arming = CQ_ARMED_SOLICITED;
}

/* ---- notification --------------------------------------------------------------------------- */

static void notify(struct rnic_cq *cq)
{
	cq->arming = CQ_UNARMED;
	cq->held = 0;
	cq->told = cq->prod - (cq->prod - cq->cons != 1);
	timer_cancel(&cq->rnic->cq_timers, &cq->timer);
	cq->rnic->ops.cq_notify(cq->rnic->ctx, cq->user);
}

static void notify_or_hold(struct rnic_cq *cq, bool at_once)
{
	if (likely(!cq->moderate_count) || at_once || ++cq->held >= cq->moderate_count)
		notify(cq);
	else if (cq->held == 1)
		timer_arm(&cq->rnic->cq_timers, &cq->timer, cq->rnic->now + cq->moderate_ns);
}

void cq_timer_fired(struct rnic_cq *cq)
{
	notify(cq);
}

void rnic_cq_moderate(struct rnic_cq *cq, uint32_t count, uint64_t period_ns)
{
	bool on = count > 1 && period_ns;

	cq->moderate_count = on ? count : 0;
	cq->moderate_ns = on ? period_ns : 0;
	if (cq->held && (!on || cq->held >= count))
		notify(cq);
	else if (cq->held)
		timer_arm(&cq->rnic->cq_timers, &cq->timer, cq->rnic->now + period_ns);
}

void rnic_cq_arm_or_notify(struct rnic_cq *cq, bool solicited_only)
{
	rnic_cq_arm(cq, solicited_only);
	if (cq->cons == cq->prod || cq->told == cq->prod)
		return;
	if (cq->arming == CQ_ARMED || (int32_t)(cq->solicited - cq->cons) > 0)
		notify(cq);
}

/* ---- completions ---------------------------------------------------------------------------- */

static void overflow(struct rnic_cq *cq, uint32_t qpn)
{
	struct rnic *r = cq->rnic;

	cq->overflow = true;
	r->counters->cq_overflows++;
	trace(r, TRACE_cq_overflow, qpn, cq->mask + 1, 0);
	list_push_tail(&r->overflowed, &cq->overflow_node);
}

void cq_push(struct rnic_cq *cq, const struct rnic_wc *wc, bool solicited)
{
	struct rnic *r = cq->rnic;
	bool failed = wc->status != RNIC_WC_SUCCESS;

	trace(r, TRACE_completion, wc->qp_num, wc->wr_id, wc->status);
	if (unlikely(cq->overflow))
		return;
	if (unlikely(cq->prod - cq->cons > cq->mask)) {
		if (!cq->ignore_overrun) {
			overflow(cq, wc->qp_num);
			return;
		}
		cq->cons++;
	}
	cq->ring[cq->prod++ & cq->mask] = (struct cqe){*wc, r->now};
	if (solicited || failed)
		cq->solicited = cq->prod;
	if (cq->arming == CQ_ARMED || (cq->arming == CQ_ARMED_SOLICITED && (solicited || failed)))
		notify_or_hold(cq, failed);
}

void rnic_cq_ignore_overrun(struct rnic_cq *cq)
{
	cq->ignore_overrun = true;
}

void cq_purge(struct rnic_cq *cq, uint32_t qpn)
{
	uint32_t to = cq->cons;

	for (uint32_t from = cq->cons; from != cq->prod; from++) {
		const struct cqe *e = &cq->ring[from & cq->mask];

		if (e->wc.qp_num != qpn)
			cq->ring[to++ & cq->mask] = *e;
	}
	if (cq->prod == to)
		return;
	/* Which are left is not known here. */
	cq->prod = cq->solicited = to;
	cq->told = to - 1;
}
