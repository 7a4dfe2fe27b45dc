/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The service's row of operations; its stream, from begin to end. */
#include "base/units.h"
#include "rnic/iwarp/iwarp.h"

/* ---- a peer that says nothing --------------------------------------------------------------- */

/*
 * Linux's siw loses sight of what arrives while it accepts: that lies in its socket until more
 * comes (docs/siw.md). So who has called, and said all that it had to say, and hears nothing, says
 * something that means nothing: a WRITE of no bytes.
 */
#define NUDGE_NS   (100 * NSEC_PER_MSEC) /* and twice as long each time */
#define NUDGES_MAX 6

static void nudge_arm(struct rnic_qp *qp)
{
	struct iwarp_qp *w = iwarp_of(qp);

	timer_arm(&qp->rnic->timers, &qp->timer, qp->rnic->now + (NUDGE_NS << w->nudges));
}

static void iwarp_timer(struct rnic_qp *qp, uint64_t now)
{
	struct iwarp_qp *w = iwarp_of(qp);

	qp->rnic->now = now;
	if (qp->state != RNIC_QPS_RTS || w->heard)
		return;
	if (w->stream.listens_first) {
		w->spoke_up = true;
		qp_activate(qp);
		return;
	}
	/* What still waits to be sent will do. */
	if (qp->sq.cur == qp->sq.prod && w->rtr == MPA_RTR_NONE) {
		w->rtr = MPA_RTR_WRITE;
		w->nudges++;
		qp_activate(qp);
	}
	if (w->nudges < NUDGES_MAX)
		nudge_arm(qp);
}

/* ---- the row of operations ------------------------------------------------------------------ */

static void iwarp_init(struct rnic_qp *qp)
{
	qp->turns = &qp->rnic->streams;
}

static void iwarp_reset(struct rnic_qp *qp)
{
	struct iwarp_qp *w = iwarp_of(qp);

	fpdu_in_end(&w->in);
	memset((uint8_t *)w + sizeof(w->qp), 0, sizeof(*w) - sizeof(w->qp));
}

/* A new state may be the end of the stream: who owns that looks after it with the next turn. */
static void iwarp_modified(struct rnic_qp *qp, const struct rnic_qp_attr *a, uint32_t mask)
{
	if (!(mask & RNIC_QP_STATE))
		return;
	/* Programs say once more that it is RTS. */
	if (a->state != RNIC_QPS_RTS)
		timer_cancel(&qp->rnic->timers, &qp->timer);
	qp_activate(qp);
}

/* What has not come whole never will. Whoever owns the stream looks after it, though nothing of it
 * was the cause: a completion queue that overflows has others fail, too. */
static void iwarp_stop(struct rnic_qp *qp)
{
	struct iwarp_qp *w = iwarp_of(qp);

	qp_activate(qp);
	fpdu_in_end(&w->in);
	w->waiting = w->answered = w->off = 0;
	w->told = w->asked;
}

static void iwarp_hush(struct rnic_qp *qp)
{
	/* RST would take the Terminate from the peer. */
	iwarp_of(qp)->hushed = !iwarp_of(qp)->terminated;
}

static bool iwarp_awaits(const struct rnic_qp *qp)
{
	return iwarp_of(qp)->sent_poll == qp->rnic->polls;
}

static bool iwarp_whole(const struct rnic_qp *qp)
{
	return !fpdu_in_midst(&iwarp_of(qp)->in);
}

static void iwarp_query(const struct rnic_qp *qp, struct rnic_qp_attr *ret)
{
	(void)qp;
	(void)ret;
}

/*
 * The verbs of iWARP have neither RTR nor PSNs; whoever has set up the stream makes it RTS. SQD is
 * the graceful close, SQE the one by Terminate.
 */
static const struct transition transitions[] = {
	{RNIC_QPS_RESET, RNIC_QPS_INIT, 0,
	 RNIC_QP_ACCESS_FLAGS | RNIC_QP_PKEY_INDEX | RNIC_QP_PORT},
	{RNIC_QPS_INIT, RNIC_QPS_INIT, 0, RNIC_QP_ACCESS_FLAGS | RNIC_QP_PKEY_INDEX | RNIC_QP_PORT},
	{RNIC_QPS_RTS, RNIC_QPS_RTS, 0, RNIC_QP_CUR_STATE | RNIC_QP_ACCESS_FLAGS},
	{RNIC_QPS_RTS, RNIC_QPS_SQD, 0, RNIC_QP_EN_SQD_ASYNC_NOTIFY},
};

/* ---- the stream ----------------------------------------------------------------------------- */

int rnic_stream_begin(struct rnic_qp *qp, const struct rnic_stream_init *init, uint64_t now)
{
	struct iwarp_qp *w = iwarp_of(qp);
	struct rnic *r = qp->rnic;

	r->now = now;
	if (qp->service != &service_iwarp || qp->state != RNIC_QPS_INIT ||
	    init->ird > RNIC_MAX_RD_ATOM || init->ord > RNIC_MAX_RD_ATOM)
		return -EINVAL;
	w->stream = *init;
	w->rtr = init->listens_first ? MPA_RTR_NONE : init->rtr;
	w->begun = true;
	fpdu_in_init(&w->in, init->crc, init->markers_in, &r->ops, r->ctx);
	w->out = (struct fpdu_out){.crc = init->crc, .markers = init->markers_out};
	for (unsigned i = 0; i < DDP_QUEUES; i++)
		w->msn[i] = w->arriving[i].msn = 1;
	rnic_stream_set_emss(qp, init->emss);
	qp_begin(qp);
	if (!init->listens_first)
		nudge_arm(qp);
	else if (init->rtr == MPA_RTR_NONE)
		timer_arm(&r->timers, &qp->timer, now + STREAM_PATIENCE_NS);
	return 0;
}

void rnic_stream_set_emss(struct rnic_qp *qp, uint32_t emss)
{
	struct iwarp_qp *w = iwarp_of(qp);

	w->mulpdu = (uint32_t)mpa_mulpdu(emss, w->stream.markers_out);
	qp->mtu = w->mulpdu;
}

static bool listens(const struct rnic_qp *qp)
{
	return qp->state == RNIC_QPS_RTS || qp->state == RNIC_QPS_SQD;
}

void rnic_stream_rx(struct rnic_qp *qp, const uint8_t *bytes, size_t len, uint64_t now)
{
	struct iwarp_qp *w = iwarp_of(qp);
	int cause;

	qp->rnic->now = now;
	if (!listens(qp))
		return;
	cause = fpdu_in_feed(&w->in, bytes, len, iwarp_receive, qp);
	/* What receive() refused it has seen to itself. */
	if (cause && qp->state != RNIC_QPS_ERR)
		iwarp_refuse(qp, (uint16_t)cause, NULL, NULL);
	qp_settle(qp->rnic);
}

struct rnic_qp *rnic_stream_next(struct rnic *r)
{
	struct list *n = list_pop_head(&r->streams);

	return n ? list_entry(n, struct rnic_qp, active_node) : NULL;
}

void *rnic_stream_owner(const struct rnic_qp *qp)
{
	return iwarp_of(qp)->stream.owner;
}

void rnic_stream_disown(struct rnic_qp *qp)
{
	iwarp_of(qp)->stream.owner = NULL;
}

void rnic_stream_wake(struct rnic_qp *qp)
{
	qp_activate(qp);
}

bool rnic_stream_pending(const struct rnic *r)
{
	return !list_empty(&r->streams);
}

/* Requests and answers by turns, so that neither waits for all of the other. */
static enum iwarp_put put_one(struct rnic_qp *qp, struct fpdu_batch *b)
{
	struct iwarp_qp *w = iwarp_of(qp);
	enum iwarp_put put;

	if (w->terminated || qp->state == RNIC_QPS_ERR)
		return iwarp_terminate_tx(qp, b);
	if (w->stream.listens_first && !w->heard && !w->spoke_up)
		return PUT_NOTHING;
	if (w->rtr != MPA_RTR_NONE)
		return iwarp_rtr_tx(qp, b);
	w->answers_turn = !w->answers_turn;
	put = w->answers_turn ? iwarp_answer_tx(qp, b) : iwarp_request_tx(qp, b);
	if (put == PUT_NOTHING)
		put = w->answers_turn ? iwarp_request_tx(qp, b) : iwarp_answer_tx(qp, b);
	/* One that could not be done may have ended it all. */
	return put == PUT_NOTHING ? iwarp_terminate_tx(qp, b) : put;
}

bool rnic_stream_tx(struct rnic_qp *qp, struct fpdu_batch *b, size_t max, uint64_t now)
{
	struct iwarp_qp *w = iwarp_of(qp);
	enum iwarp_put put = w->begun ? PUT_ONE : PUT_NOTHING;

	qp->rnic->now = now;
	while (put == PUT_ONE && b->bytes < max) {
		put = put_one(qp, b);
		if (put == PUT_ONE)
			count(qp, tx_packets, 1);
	}
	if (b->bytes)
		w->sent_poll = qp->rnic->polls;
	qp_check_drained(qp);
	if (put != PUT_NOTHING)
		qp_activate(qp);
	qp_settle(qp->rnic);
	return put != PUT_NOTHING;
}

enum rnic_stream_fate rnic_stream_fate(const struct rnic_qp *qp)
{
	const struct iwarp_qp *w = iwarp_of(qp);

	if (!w->begun)
		return RNIC_STREAM_STAYS;
	if (w->owes_terminate)
		return RNIC_STREAM_DRAINS;
	if (qp->state == RNIC_QPS_SQD)
		return qp->drain == DRAINED && !iwarp_answers(w) ? RNIC_STREAM_ENDS
								 : RNIC_STREAM_DRAINS;
	if (qp->state != RNIC_QPS_ERR)
		return RNIC_STREAM_STAYS;
	return w->hushed ? RNIC_STREAM_BREAKS : RNIC_STREAM_ENDS;
}

void rnic_stream_closed(struct rnic_qp *qp, bool broken, uint64_t now)
{
	qp->rnic->now = now;
	if (!listens(qp))
		return;
	if (broken || !iwarp_whole(qp))
		qp->cause = RNIC_CAUSE_STREAM_LOST;
	qp_fail(qp);
	qp_settle(qp->rnic);
}

int rnic_stream_terminated(const struct rnic_qp *qp)
{
	const struct iwarp_qp *w = iwarp_of(qp);

	return w->terminated ? w->terminate.cause : -1;
}

/* Without packets, and with no way by RTR, nobody calls what has to do with these. */
const struct service service_iwarp = {
	.type = RNIC_QPT_IWARP,
	.opcodes = SERVICE_STREAM,
	.parts = PART_PD | PART_SEND_CQ | PART_RECV_CQ,
	.may_parts = PART_SRQ,
	.wrs = 1u << RNIC_WR_SEND | 1u << RNIC_WR_SEND_WITH_INV | 1u << RNIC_WR_RDMA_WRITE |
	       1u << RNIC_WR_RDMA_WRITE_WITH_IMM | 1u << RNIC_WR_RDMA_READ |
	       1u << RNIC_WR_ATOMIC_CMP_AND_SWP | 1u << RNIC_WR_ATOMIC_FETCH_AND_ADD |
	       1u << RNIC_WR_LOCAL_INV | 1u << RNIC_WR_BIND_MW,
	.read_sge = 1, /* one key and address of the sink are on the wire */
	.transitions = transitions,
	.ntransitions = ARRAY_SIZE(transitions),
	.qp_size = sizeof(struct iwarp_qp),
	.init = iwarp_init,
	.reset = iwarp_reset,
	.modified = iwarp_modified,
	.stop = iwarp_stop,
	.hush = iwarp_hush,
	.whole = iwarp_whole,
	.awaits = iwarp_awaits,
	.query = iwarp_query,
	.timer = iwarp_timer,
};
