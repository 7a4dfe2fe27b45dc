/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Queue pairs: creation, attributes, the one setter of their state, and the way into error. */
#include "rnic/core.h"

/* ---- numbers -------------------------------------------------------------------------------- */

/* QPNs walk a permutation, so that none comes back soon. */
static int qpn_take(struct rnic *r, struct rnic_qp *qp)
{
	for (uint32_t tries = 0; tries <= r->number_mask; tries++) {
		uint32_t low = permute(&r->qpn_permute, r->qpn_next++ & r->number_mask);
		uint32_t qpn = (uint32_t)r->slot << NUMBER_BITS | low;

		if (r->qps[low] || qpn == MULTICAST_QPN)
			continue;
		r->qps[low] = qp;
		qp->qpn = qpn;
		return 0;
	}
	return -ENOMEM;
}

/* ---- life ----------------------------------------------------------------------------------- */

static void qp_reset(struct rnic_qp *qp)
{
	struct rnic *r = qp->rnic;

	timer_cancel(&r->timers, &qp->timer);
	timer_cancel(&r->pace_timers, &qp->pace_timer);
	list_remove(&qp->active_node);
	qp->cause = RNIC_CAUSE_NONE;
	qp->paid_ns = qp->ahead_ns = 0;
	qp->cnp_owed = false;
	qp->cnp_next_ns = 0;
	qp->selective = qp->has_tag = false;
	qp->tag_out = 0;
	qp->drain = DRAINED;
	wq_reset(qp);
	qp->service->reset(qp);
}

/* As adapters do: what is polled from now on is of others, or of its next life. Who destroys a
 * queue pair gives up with it what its work requests stood for. An SRQ's receives that it has taken
 * are over with their completions; those of an XRC target are its SRQs', and stay. */
static void qp_purge(struct rnic_qp *qp)
{
	if (qp->send_cq)
		cq_purge(qp->send_cq, qp->qpn);
	if (qp->recv_cq && !qp->xrcd)
		cq_purge(qp->recv_cq, qp->qpn);
}

static uint32_t parts_of(const struct rnic_pd *pd, const struct rnic_qp_init *i)
{
	return (pd ? PART_PD : 0u) | (i->send_cq ? PART_SEND_CQ : 0u) |
	       (i->recv_cq ? PART_RECV_CQ : 0u) | (i->srq ? PART_SRQ : 0u) |
	       (i->xrcd ? PART_XRCD : 0u);
}

static bool mtu_valid(uint32_t mtu)
{
	return mtu >= RNIC_MTU_256 && mtu <= RNIC_MTU_4096;
}

static int init_check(const struct service *s, const struct rnic_pd *pd,
		      const struct rnic_qp_init *i)
{
	uint32_t parts = parts_of(pd, i);

	if ((parts & s->parts) != s->parts || (parts & ~(s->parts | s->may_parts)))
		return -EINVAL;
	return s->datagrams && !mtu_valid(i->path_mtu) ? -EINVAL : 0;
}

/* Is counted by what it is made of, which can not go before it. */
static void qp_join(struct rnic_qp *qp)
{
	if (qp->send_cq) {
		list_push_tail(&qp->send_cq->send_qps, &qp->send_cq_node);
		qp->send_cq->users++;
	}
	if (qp->recv_cq) {
		list_push_tail(&qp->recv_cq->recv_qps, &qp->recv_cq_node);
		qp->recv_cq->users++;
	}
	if (qp->srq)
		qp->srq->users++;
	if (qp->xrcd) {
		list_push_tail(&qp->xrcd->targets, &qp->xrcd_node);
		qp->xrcd->users++;
	} else {
		qp->pd->users++;
	}
	qp->rnic->nqps++;
}

static void qp_leave(struct rnic_qp *qp)
{
	list_remove(&qp->send_cq_node);
	list_remove(&qp->recv_cq_node);
	list_remove(&qp->xrcd_node);
	qp->rnic->nqps--;
	if (qp->xrcd) {
		qp->xrcd->users--;
		return;
	}
	qp->send_cq->users--;
	if (qp->recv_cq)
		qp->recv_cq->users--;
	if (qp->srq)
		qp->srq->users--;
	qp->pd->users--;
}

int qp_create(const struct service *s, struct rnic_pd *pd, struct rnic_qp_init *init,
	      struct rnic_qp **ret)
{
	struct rnic_qp *qp;
	struct rnic *r;
	int err;

	err = init_check(s, pd, init);
	if (err)
		return err;
	r = init->xrcd ? init->xrcd->rnic : pd->rnic;
	qp = r->ops.alloc(r->ctx, s->qp_size);
	if (!qp)
		return -ENOMEM;
	qp->rnic = r;
	qp->pd = pd;
	qp->service = s;
	if (s->datagrams)
		qp->mtu = 128u << init->path_mtu;
	qp->state = RNIC_QPS_RESET;
	qp->sq_sig_all = init->sq_sig_all;
	qp->deaf_to_itself = init->deaf_to_itself;
	qp->user = init->qp_user;
	qp->send_cq = init->send_cq;
	qp->recv_cq = init->recv_cq;
	qp->srq = init->srq;
	qp->recv_pd = init->srq ? init->srq->pd : pd;
	qp->xrcd = init->xrcd;
	qp->turns = &r->active;
	list_init(&qp->active_node);
	list_init(&qp->bound_mws);
	list_init(&qp->groups);
	list_init(&qp->send_cq_node);
	list_init(&qp->recv_cq_node);
	list_init(&qp->xrcd_node);
	s->init(qp);
	err = wq_create(qp, &init->cap);
	if (err)
		goto err_free;
	err = qpn_take(r, qp);
	if (err)
		goto err_wq;
	qp->cap = init->cap;
	shown_take(qp);
	qp_reset(qp);
	qp_join(qp);
	shown_attr(qp);
	*ret = qp;
	return 0;

err_wq:
	wq_destroy(qp);
err_free:
	r->ops.free(r->ctx, qp);
	return err;
}

int rnic_qp_destroy(struct rnic_qp *qp)
{
	struct rnic *r = qp->rnic;

	if (!list_empty(&qp->groups))
		return -EBUSY;
	qp_reset(qp);
	qp_purge(qp);
	mw_unbind_all(qp);
	qp_leave(qp);
	assert(r->qps[qp->qpn & r->number_mask] == qp);
	r->qps[qp->qpn & r->number_mask] = NULL;
	shown_give_back(qp);
	wq_destroy(qp);
	r->ops.free(r->ctx, qp);
	return 0;
}

uint32_t rnic_qp_num(const struct rnic_qp *qp)
{
	return qp->qpn;
}

void *rnic_qp_user(const struct rnic_qp *qp)
{
	return qp->user;
}

void rnic_qp_set_user(struct rnic_qp *qp, void *qp_user)
{
	qp->user = qp_user;
}

/* ---- states --------------------------------------------------------------------------------- */

static void qp_set_state(struct rnic_qp *qp, enum rnic_qp_state to)
{
	enum rnic_qp_state from = qp->state;

	if (from != to)
		trace(qp->rnic, TRACE_qp_state, qp->qpn, from, to);
	qp->state = to;
	qp->attr.state = to;
	shown_attr(qp);
}

void qp_event(struct rnic_qp *qp, enum rnic_event event)
{
	qp->rnic->ops.async_event(qp->rnic->ctx, event, qp->user);
}

void qp_fail(struct rnic_qp *qp)
{
	if (qp->state == RNIC_QPS_ERR || qp->state == RNIC_QPS_RESET)
		return;
	qp_set_state(qp, RNIC_QPS_ERR);
	timer_cancel(&qp->rnic->timers, &qp->timer);
	qp->cnp_owed = false;
	qp->service->stop(qp);
	sq_flush(qp);
	rq_flush(qp);
	if (qp->srq && !qp->xrcd)
		qp_event(qp, RNIC_EVENT_QP_LAST_WQE_REACHED);
}

/* Before the work request that it failed by is completed. */
static void tell_failure(struct rnic_qp *qp, const struct send_wqe *w, uint8_t opcode)
{
	const struct denial *d = &qp->rnic->denial;
	struct rnic_failure f = {
		.qpn = qp->qpn,
		.dest_qpn = qp->attr.dest_qpn,
		.peer = &qp->attr.flow.dgid,
		.cause = qp->cause,
		.by_peer = !w,
		.opcode = opcode,
	};

	if (!qp->rnic->ops.qp_failed)
		return;
	if (w) {
		f.opcode = w->opcode;
		f.wr_id = w->wr_id;
	}
	if (w && qp->service->datagrams) {
		f.peer = &w->ud.flow.dgid;
		f.dest_qpn = w->ud.qpn;
	}
	if (d->cause == qp->cause) {
		f.key = d->key;
		f.va = d->va;
		f.len = d->len;
	}
	qp->rnic->ops.qp_failed(qp->rnic->ctx, &f);
}

void qp_fail_recv(struct rnic_qp *qp, enum rnic_cause cause, uint8_t opcode)
{
	if (qp->state == RNIC_QPS_ERR || qp->state == RNIC_QPS_RESET)
		return;
	qp->cause = cause;
	tell_failure(qp, NULL, opcode);
	qp_fail(qp);
}

void qp_fail_send(struct rnic_qp *qp, enum rnic_wc_status status, enum rnic_cause cause)
{
	assert(status != RNIC_WC_SUCCESS);
	qp->cause = cause;
	tell_failure(qp, sq_at(&qp->sq, qp->sq.una), 0);
	sq_complete(qp, status);
	qp_fail(qp);
}

void qp_fail_sq(struct rnic_qp *qp, enum rnic_wc_status status, enum rnic_cause cause)
{
	assert(status != RNIC_WC_SUCCESS);
	qp->cause = cause;
	tell_failure(qp, sq_at(&qp->sq, qp->sq.una), 0);
	sq_complete(qp, status);
	if (qp->state != RNIC_QPS_RTS) {
		qp_fail(qp); /* SQD has no way to SQE */
		return;
	}
	qp_set_state(qp, RNIC_QPS_SQE);
	sq_flush(qp);
}

void qp_check_drained(struct rnic_qp *qp)
{
	const struct sq *sq = &qp->sq;
	bool tells = qp->drain == DRAINS_AND_TELLS;

	if (qp->state != RNIC_QPS_SQD || qp->drain == DRAINED || sq->una != sq->cur ||
	    (sq->cur != sq->prod && sq_at(sq, sq->cur)->begun))
		return;
	qp->drain = DRAINED;
	if (tells)
		qp_event(qp, RNIC_EVENT_SQ_DRAINED);
}

void qp_settle_overflow(struct rnic *r)
{
	struct list *n;

	while ((n = list_pop_head(&r->overflowed))) {
		struct rnic_cq *cq = list_entry(n, struct rnic_cq, overflow_node);

		r->ops.async_event(r->ctx, RNIC_EVENT_CQ_ERR, cq->user);
		list_for_each(qp, &cq->send_qps, struct rnic_qp, send_cq_node)
			qp_fail_recv(qp, RNIC_CAUSE_CQ_OVERRUN, 0);
		list_for_each(qp, &cq->recv_qps, struct rnic_qp, recv_cq_node)
			qp_fail_recv(qp, RNIC_CAUSE_CQ_OVERRUN, 0);
	}
}

/* ---- transitions ---------------------------------------------------------------------------- */

bool qp_transition(const struct service *s, enum rnic_qp_state from, enum rnic_qp_state to,
		   uint32_t *ret_required, uint32_t *ret_optional)
{
	*ret_required = 0;
	*ret_optional = RNIC_QP_STATE;
	if (to == RNIC_QPS_RESET || (to == RNIC_QPS_ERR && from != RNIC_QPS_RESET))
		return true;
	for (size_t i = 0; i < s->ntransitions; i++) {
		const struct transition *t = &s->transitions[i];

		if (t->from != from || t->to != to)
			continue;
		*ret_required = t->required;
		*ret_optional |= t->optional;
		return true;
	}
	return false;
}

static bool transition_allowed(const struct service *s, enum rnic_qp_state from,
			       enum rnic_qp_state to, uint32_t mask)
{
	uint32_t required, optional;

	return qp_transition(s, from, to, &required, &optional) && (mask & required) == required &&
	       (mask & ~(required | optional)) == 0;
}

static int attr_check(const struct rnic_qp *qp, const struct rnic_qp_attr *a, uint32_t mask)
{
	const uint32_t access = RNIC_ACCESS_LOCAL_WRITE | RNIC_ACCESS_REMOTE_WRITE |
				RNIC_ACCESS_REMOTE_READ | RNIC_ACCESS_REMOTE_ATOMIC |
				RNIC_ACCESS_MW_BIND | RNIC_ACCESS_ZERO_BASED |
				RNIC_ACCESS_ON_DEMAND; /* those of regions do no harm */

	if ((mask & RNIC_QP_CUR_STATE) && a->cur_state != qp->state)
		return -EINVAL;
	if ((mask & RNIC_QP_PATH_MTU) && !mtu_valid(a->path_mtu))
		return -EINVAL;
	if ((mask & RNIC_QP_PKEY_INDEX) && a->pkey_index != 0)
		return -EINVAL;
	if ((mask & RNIC_QP_ACCESS_FLAGS) && (a->access_flags & ~access))
		return -EINVAL;
	if ((mask & RNIC_QP_MAX_QP_RD_ATOMIC) && a->max_rd_atomic > RNIC_MAX_RD_ATOM)
		return -EINVAL;
	if ((mask & RNIC_QP_MAX_DEST_RD_ATOMIC) && a->max_dest_rd_atomic > RNIC_MAX_RD_ATOM)
		return -EINVAL;
	if ((mask & RNIC_QP_MIN_RNR_TIMER) && a->min_rnr_timer > 31)
		return -EINVAL;
	if ((mask & RNIC_QP_TIMEOUT) && a->timeout > 31)
		return -EINVAL;
	if ((mask & RNIC_QP_RETRY_CNT) && a->retry_cnt > 7)
		return -EINVAL;
	if ((mask & RNIC_QP_RNR_RETRY) && a->rnr_retry > 7)
		return -EINVAL;
	/* No path migration: there is nothing to fail over to. */
	if (mask & RNIC_QP_ALT_PATH)
		return -EINVAL;
	return 0;
}

static void attr_take(struct rnic_qp *qp, const struct rnic_qp_attr *a, uint32_t mask)
{
	struct rnic_qp_attr *d = &qp->attr;

	if (mask & RNIC_QP_ACCESS_FLAGS)
		d->access_flags = a->access_flags;
	if (mask & RNIC_QP_PKEY_INDEX)
		d->pkey_index = a->pkey_index;
	if (mask & RNIC_QP_PORT)
		d->port_num = a->port_num;
	if (mask & RNIC_QP_QKEY)
		d->qkey = a->qkey;
	if (mask & RNIC_QP_AV) {
		d->flow = a->flow;
		if (qp->state == RNIC_QPS_INIT) {
			d->cc = a->cc;
			d->cc_params = a->cc_params;
		}
		ecn_declare(qp);
	}
	if (mask & RNIC_QP_PATH_MTU) {
		d->path_mtu = a->path_mtu;
		qp->mtu = 128u << a->path_mtu;
	}
	if (mask & RNIC_QP_TIMEOUT)
		d->timeout = a->timeout;
	if (mask & RNIC_QP_RETRY_CNT)
		d->retry_cnt = a->retry_cnt;
	if (mask & RNIC_QP_RNR_RETRY)
		d->rnr_retry = a->rnr_retry;
	if (mask & RNIC_QP_RQ_PSN)
		d->rq_psn = a->rq_psn & PSN_MASK;
	if (mask & RNIC_QP_SQ_PSN)
		d->sq_psn = a->sq_psn & PSN_MASK;
	if (mask & RNIC_QP_MAX_QP_RD_ATOMIC)
		d->max_rd_atomic = a->max_rd_atomic;
	if (mask & RNIC_QP_MAX_DEST_RD_ATOMIC)
		d->max_dest_rd_atomic = a->max_dest_rd_atomic;
	if (mask & RNIC_QP_MIN_RNR_TIMER)
		d->min_rnr_timer = a->min_rnr_timer;
	if (mask & RNIC_QP_DEST_QPN)
		d->dest_qpn = a->dest_qpn & QPN_MASK;
	qp->service->modified(qp, a, mask);
}

static void qp_enter(struct rnic_qp *qp, enum rnic_qp_state from, enum rnic_qp_state to,
		     uint32_t mask)
{
	switch (to) {
	case RNIC_QPS_RESET:
		qp_reset(qp);
		qp_purge(qp);
		memset(&qp->attr, 0, sizeof(qp->attr));
		qp_set_state(qp, to);
		break;
	case RNIC_QPS_RTR:
		cc_begin(qp);
		qp->service->start_recv(qp);
		qp_set_state(qp, to);
		break;
	case RNIC_QPS_RTS:
		qp->cause = RNIC_CAUSE_NONE; /* SQE is over */
		if (from == RNIC_QPS_RTR)
			qp->service->start_send(qp);
		qp_set_state(qp, to);
		qp_activate(qp);
		break;
	case RNIC_QPS_SQD:
		if (from != RNIC_QPS_SQD)
			qp->drain = mask & RNIC_QP_EN_SQD_ASYNC_NOTIFY ? DRAINS_AND_TELLS : DRAINS;
		qp_set_state(qp, to);
		qp_check_drained(qp);
		break;
	case RNIC_QPS_ERR:
		qp_fail(qp);
		qp->service->hush(qp);
		break;
	case RNIC_QPS_INIT:
	case RNIC_QPS_SQE:
		qp_set_state(qp, to);
		break;
	}
}

void qp_begin(struct rnic_qp *qp)
{
	qp_enter(qp, qp->state, RNIC_QPS_RTS, 0);
}

int rnic_qp_modify(struct rnic_qp *qp, const struct rnic_qp_attr *attr, uint32_t mask, uint64_t now)
{
	enum rnic_qp_state from = qp->state;
	enum rnic_qp_state to = mask & RNIC_QP_STATE ? attr->state : from;
	int err;

	qp->rnic->now = now;
	if (!transition_allowed(qp->service, from, to, mask))
		return -EINVAL;
	err = attr_check(qp, attr, mask);
	if (err)
		return err;
	attr_take(qp, attr, mask);
	if (!attr->en_sqd_async_notify)
		mask &= ~(uint32_t)RNIC_QP_EN_SQD_ASYNC_NOTIFY;
	qp_enter(qp, from, to, mask);
	qp_settle(qp->rnic);
	return 0;
}

void rnic_qp_peer_died(struct rnic_qp *qp, uint64_t now)
{
	qp->rnic->now = now;
	if (qp->state == RNIC_QPS_RESET || qp->state == RNIC_QPS_ERR)
		return;
	if (qp->service->whole(qp))
		qp->cause = RNIC_CAUSE_PEER_DIED;
	qp_enter(qp, qp->state, RNIC_QPS_ERR, 0);
	qp_settle(qp->rnic);
}

uint16_t rnic_qp_tag(struct rnic_qp *qp)
{
	const struct rnic *r = qp->rnic;

	if (!qp->has_tag)
		qp->tag_in = r->ops.random(r->ctx) & ((1 << BTH_TAG_BITS) - 1);
	qp->has_tag = true;
	return qp->tag_in;
}

int rnic_qp_repeat_selectively(struct rnic_qp *qp, uint16_t peer_tag)
{
	int rc;

	if (!qp->service->selective)
		return -EOPNOTSUPP;
	if (qp->state != RNIC_QPS_RESET && qp->state != RNIC_QPS_INIT)
		return -EINVAL;
	rc = qp->service->selective(qp);
	if (rc)
		return rc;
	(void)rnic_qp_tag(qp);
	qp->tag_out = peer_tag & ((1 << BTH_TAG_BITS) - 1);
	qp->selective = true;
	return 0;
}

bool rnic_qp_repeats_selectively(const struct rnic_qp *qp)
{
	return qp->selective;
}

void rnic_qp_query(const struct rnic_qp *qp, struct rnic_qp_attr *ret, struct rnic_qp_cap *ret_cap)
{
	*ret = qp->attr;
	ret->state = ret->cur_state = qp->state;
	ret->sq_draining = qp->state == RNIC_QPS_SQD && qp->drain != DRAINED;
	qp->service->query(qp, ret);
	if (qp->service->datagrams) /* which nobody sets */
		ret->path_mtu = (uint32_t)__builtin_ctz(qp->mtu) - 7;
	if (ret_cap)
		*ret_cap = qp->cap;
}
