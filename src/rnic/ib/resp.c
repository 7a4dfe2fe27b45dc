/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The responder: executes requests in the order of their PSNs and owes answers.
 *
 * What is owed is a ring of READs and atomics (`res`) and, after them, at most one ACK or NAK. An
 * ACK not sent yet is overtaken by a later one, and by a READ or atomic response, which say the
 * same. The ring keeps the last ones answered as well: a duplicate READ or atomic sets res_send
 * back to it. It alone is answered again: a requester that goes back asks for what comes after,
 * too, and would get that as often as it asks. A READ is executed again from memory, an atomic from
 * what is kept.
 *
 * When a request is refused, the answers owed before it and the NAK still go out although the QP
 * is in ERR (`closing`).
 */
#include "rnic/ib/ib.h"

void resp_reset(struct rnic_qp *qp)
{
	memset(resp_of(qp), 0, sizeof(*resp_of(qp)));
}

void resp_start(struct rnic_qp *qp)
{
	resp_reset(qp);
	resp_of(qp)->epsn = qp->attr.rq_psn;
	resp_of(qp)->heard_ns = qp->rnic->now;
	resp_of(qp)->ack_psn = psn_add(qp->attr.rq_psn, PSN_MASK);
}

static struct resp_res *res_at(struct resp *s, uint32_t i)
{
	return &s->res[i % RNIC_MAX_RD_ATOM];
}

static void owe(struct rnic_qp *qp, enum resp_owed what)
{
	if (resp_of(qp)->owed < what)
		resp_of(qp)->owed = what;
	qp_activate(qp);
}

static void owe_ack(struct rnic_qp *qp, const struct pkt *p)
{
	struct resp *s = resp_of(qp);

	if (s->owed == OWED_NOTHING && p->flags & OPF_WRITE && p->flags & OPF_ONLY &&
	    !(p->flags & OPF_IMMDT)) {
		s->owed = OWED_ACK;
		qp_activate_for_ack(qp);
	} else {
		owe(qp, OWED_ACK);
	}
}

/* ---- errors --------------------------------------------------------------------------------- */

/* The request with this PSN is refused, and the connection with it: the denial says why. */
static void refuse(struct rnic_qp *qp, enum verdict v, uint32_t psn, uint8_t opcode)
{
	struct resp *s = resp_of(qp);
	bool was_alive = qp->state != RNIC_QPS_ERR;

	switch (v) {
	case VERDICT_INVALID:
		s->syndrome = AETH_NAK | NAK_INVALID_REQ;
		if (was_alive)
			qp_event(qp, RNIC_EVENT_QP_REQ_ERR);
		break;
	case VERDICT_ACCESS:
		s->syndrome = AETH_NAK | NAK_REMOTE_ACCESS;
		if (was_alive)
			qp_event(qp, RNIC_EVENT_QP_ACCESS_ERR);
		break;
	case VERDICT_RECV_TOO_SHORT:
		s->syndrome = AETH_NAK | NAK_INVALID_REQ;
		recv_fail(qp, RNIC_WC_LOC_LEN_ERR);
		break;
	case VERDICT_RECV_PROTECTION:
		s->syndrome = AETH_NAK | NAK_REMOTE_OP;
		recv_fail(qp, RNIC_WC_LOC_PROT_ERR);
		break;
	case VERDICT_RECV_INVALIDATE:
		s->syndrome = AETH_NAK | NAK_REMOTE_ACCESS;
		recv_fail(qp, RNIC_WC_REM_INV_REQ_ERR);
		break;
	default:
		assert(!"not a refusal");
	}
	count(qp, tx_nak_access, 1);
	s->nak_psn = psn;
	s->owed = OWED_NAK;
	s->closing = true;
	qp_activate(qp);
	qp_fail_recv(qp, qp->rnic->denial.cause, opcode);
}

/* ---- execution ------------------------------------------------------------------------------ */

/* What is next has been answered; more: some of it goes again. */
static void res_answered(struct resp *s, bool more)
{
	if ((int32_t)(s->res_send - s->res_done) >= 0)
		s->res_done = s->res_send + 1;
	s->res_send += !more;
}

/* None of it goes any more. */
static void res_leave(struct resp_res *res)
{
	res->next = res->end;
	res->nmore = 0;
}

static struct resp_res *res_push(struct rnic_qp *qp, const struct pkt *p)
{
	struct resp *s = resp_of(qp);
	struct resp_res *res = res_at(s, s->res_prod++);

	/* One that asks anew within its limit has what it asked for so long ago, and does not wait
	 * for the replay. check_resources() saw to it that only replays are left out here. */
	while (s->res_prod - s->res_send > qp->attr.max_dest_rd_atomic)
		res_leave(res_at(s, s->res_send++));
	message_done(qp);
	*res = (struct resp_res){.first_psn = p->h.bth.psn, .npkts = 1, .end = 1, .msn = s->msn};
	if (unlikely(qp->xrcd != NULL))
		res->xrc_srqn = p->h.xrc_srqn;
	/* Its response acknowledges what came before it. */
	if (s->owed == OWED_ACK)
		s->owed = OWED_NOTHING;
	qp_activate(qp);
	return res;
}

static void execute_read(struct rnic_qp *qp, const struct pkt *p)
{
	struct resp_res *res = res_push(qp, p);

	res->va = p->h.reth.va;
	res->rkey = p->h.reth.rkey;
	res->length = p->h.reth.dma_len;
	res->npkts = res->end = pkts_of(res->length, qp->mtu);
}

static void execute_atomic(struct rnic_qp *qp, const struct pkt *p)
{
	struct resp_res *res = res_push(qp, p);
	uint64_t *mem = (uint64_t *)(void *)p->mem;

	res->kind = RES_ATOMIC;
	res->va = p->h.atomic.va;
	res->rkey = p->h.atomic.rkey;
	if ((p->h.bth.opcode & ~SERVICE_MASK) == OPCODE_RC_FETCH_ADD) {
		res->orig = __atomic_fetch_add(mem, p->h.atomic.swap_add, __ATOMIC_SEQ_CST);
	} else {
		res->orig = p->h.atomic.compare;
		/* A failed exchange stores what it found. */
		__atomic_compare_exchange_n(mem, &res->orig, p->h.atomic.swap_add, false,
					    __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
	}
}

/* Its answer is a READ response of no bytes. */
static void execute_atomic_write(struct rnic_qp *qp, const struct pkt *p)
{
	struct resp_res *res = res_push(qp, p);
	uint64_t value;

	res->kind = RES_ATOMIC_WRITE;
	res->va = p->h.reth.va;
	res->rkey = p->h.reth.rkey;
	memcpy(&value, p->payload, sizeof(value));
	__atomic_store_n((uint64_t *)(void *)p->mem, value, __ATOMIC_SEQ_CST);
}

static void execute(struct rnic_qp *qp, const struct pkt *p)
{
	struct resp *s = resp_of(qp);
	uint32_t npkts = 1;
	enum verdict v = VERDICT_ACCEPT;

	s->nak_open = false;
	if (s->owed == OWED_RNR)
		s->owed = OWED_NOTHING;
	if (p->flags & OPF_SEND) {
		v = execute_send(qp, p);
	} else if (p->flags & OPF_WRITE) {
		v = execute_write(qp, p);
	} else if (p->flags & OPF_READ_REQ) {
		execute_read(qp, p);
		npkts = pkts_of(p->h.reth.dma_len, qp->mtu);
	} else if (p->flags & OPF_ATOMIC_REQ) {
		execute_atomic(qp, p);
	} else {
		execute_atomic_write(qp, p);
	}
	if (v != VERDICT_ACCEPT) {
		refuse(qp, v, p->h.bth.psn, p->h.bth.opcode);
		return;
	}
	count(qp, rx_bytes, p->len);
	/* A READ takes as many PSNs as its answer has: what was kept there is nobody's. */
	if (unlikely(selective_of(qp) != NULL) && npkts > 1)
		kept_skip(qp, psn_add(s->epsn, 1), npkts - 1);
	s->epsn = psn_add(s->epsn, npkts);
	if (p->flags & (OPF_SEND | OPF_WRITE)) {
		s->ack_psn = p->h.bth.psn;
		if (p->h.bth.ackreq)
			owe_ack(qp, p);
	}
}

/* ---- duplicates ----------------------------------------------------------------------------- */

/* Of what is to go again after what goes now, that which goes with it. */
static void drop_covered(struct resp_res *res)
{
	uint32_t left = 0;

	for (uint32_t i = 0; i < res->nmore; i++)
		if (res->more[i].from < res->next || res->more[i].end > res->end)
			res->more[left++] = res->more[i];
	res->nmore = left;
}

/* Answers packets [idx, end) of res[k] again, if they would not be anyway. Those behind it that
 * were answered stay so: who wants them again asks. */
static void res_replay(struct rnic_qp *qp, uint32_t k, uint32_t idx, uint32_t end)
{
	struct resp *s = resp_of(qp);
	struct resp_res *res = res_at(s, k);

	for (uint32_t i = 0; i < res->nmore; i++)
		if (res->more[i].from <= idx && res->more[i].end >= end)
			return;
	if (res->next == res->end) {
		res->next = res->start = idx;
		res->end = end;
	} else if (res->next <= idx && res->end >= end) {
		return;
	} else if ((end < res->npkts || selective_of(qp)) && res->nmore < RES_MORE) {
		res->more[res->nmore].from = idx;
		res->more[res->nmore++].end = end;
		return;
	} else { /* what is between the two goes, too */
		res->end = max_of(res->end, end);
		if (idx < res->next)
			res->next = res->start = idx;
		drop_covered(res);
	}
	if ((int32_t)(k - s->res_send) < 0)
		s->res_send = k;
	qp_activate(qp);
}

/* Is it, from its packet idx on, the request that was answered? */
static bool res_same(const struct rnic_qp *qp, const struct resp_res *res, const struct pkt *p,
		     uint32_t idx)
{
	uint32_t off = idx * qp->mtu;

	if (p->flags & OPF_ATOMIC_REQ)
		return res->kind == RES_ATOMIC && res->rkey == p->h.atomic.rkey &&
		       res->va == p->h.atomic.va;
	if (p->flags & OPF_ATOMIC_WRITE)
		return res->kind == RES_ATOMIC_WRITE && res->rkey == p->h.reth.rkey &&
		       res->va == p->h.reth.va;
	if (res->kind != RES_READ || res->rkey != p->h.reth.rkey || res->va + off != p->h.reth.va)
		return false;
	/* Of one that repeats selectively it may be a part. */
	return res->length - off == p->h.reth.dma_len ||
	       (selective_of(qp) && res->length - off > p->h.reth.dma_len && p->h.reth.dma_len &&
		p->h.reth.dma_len % qp->mtu == 0);
}

static void duplicate(struct rnic_qp *qp, const struct pkt *p)
{
	struct resp *s = resp_of(qp);
	count(qp, rx_duplicate, 1);
	if (p->flags & (OPF_SEND | OPF_WRITE)) {
		if (selective_of(qp))
			kept_came_twice(qp);
		owe(qp, OWED_ACK);
		return;
	}
	/* What was never used has no packets; the count of what was wraps. */
	for (uint32_t n = 1; n <= RNIC_MAX_RD_ATOM; n++) {
		const struct resp_res *res = res_at(s, s->res_prod - n);
		uint32_t idx = (p->h.bth.psn - res->first_psn) & PSN_MASK;

		if (idx >= res->npkts)
			continue;
		if (res_same(qp, res, p, idx)) {
			uint32_t n_again =
				p->flags & OPF_READ_REQ ? pkts_of(p->h.reth.dma_len, qp->mtu) : 1;

			res_replay(qp, s->res_prod - n, idx, idx + n_again);
			return;
		}
		break;
	}
	count(qp, rx_drop_request, 1);
}

/* Does the peer wait, to send all from the expected PSN on again? */
static bool waits_for_rnr(const struct rnic_qp *qp)
{
	const struct resp *s = resp_of(qp);

	return s->nak_open && s->nak_until_ns != UINT64_MAX && qp->rnic->now < s->nak_until_ns;
}

/* It came too early. */
static void out_of_sequence(struct rnic_qp *qp, const struct pkt *p)
{
	struct resp *s = resp_of(qp);

	count(qp, rx_out_of_sequence, 1);
	if (selective_of(qp) && !waits_for_rnr(qp) && kept_add(qp, p)) {
		s->oos_psn = p->h.bth.psn;
		owe(qp, OWED_NAK_SEQ);
		return;
	}
	if (s->nak_open && qp->rnic->now >= s->nak_until_ns)
		s->nak_open = false;
	if (!s->nak_open || psn_diff(p->h.bth.psn, s->oos_psn) > 0)
		s->oos_psn = p->h.bth.psn;
	if (!s->nak_open) {
		owe(qp, OWED_NAK_SEQ);
		s->nak_until_ns = UINT64_MAX;
	}
	s->nak_open = true;
}

static bool take(struct rnic_qp *qp, struct pkt *p)
{
	struct resp *s = resp_of(qp);
	enum verdict v;

	v = check_request(qp, p);
	if (v != VERDICT_DUPLICATE && v != VERDICT_NAK_SEQ && v != VERDICT_DROP)
		resp_established(qp);
	if (likely(v == VERDICT_ACCEPT)) {
		execute(qp, p);
		if (unlikely(qp->xrcd != NULL))
			xrc_settle(qp);
		return true;
	}
	trace(qp->rnic, TRACE_rx_verdict, qp->qpn, v, p->h.bth.psn);
	switch (v) {
	case VERDICT_DUPLICATE:
		duplicate(qp, p);
		break;
	case VERDICT_NAK_SEQ:
		out_of_sequence(qp, p);
		break;
	case VERDICT_DROP:
		count(qp, rx_out_of_sequence, 1);
		break;
	case VERDICT_RNR:
		/* What the peer sent after it is dropped without a word, while it waits. */
		s->nak_open = true;
		s->nak_until_ns = qp->rnic->now + rnr_timer_ns(qp->attr.min_rnr_timer);
		s->oos_psn = s->epsn;
		owe(qp, OWED_RNR);
		break;
	default:
		refuse(qp, v, p->h.bth.psn, p->h.bth.opcode);
		break;
	}
	return false;
}
/* What was kept behind the request that has just been carried out. */
static void take_kept(struct rnic_qp *qp)
{
	struct kept_pkt *k;
	struct pkt p;
	bool good = true;

	while (good && (k = kept_take(qp, &p))) {
		good = take(qp, &p);
		kept_free(qp, k);
	}
	if (good)
		owe(qp, selective_of(qp)->nkept ? OWED_NAK_SEQ : OWED_ACK);
}

bool resp_rx(struct rnic_qp *qp, struct pkt *p)
{
	bool good = take(qp, p);

	if (unlikely(selective_of(qp) != NULL) && selective_of(qp)->nkept && good)
		take_kept(qp);
	return good;
}

/* ---- answers -------------------------------------------------------------------------------- */

static void tx_answer(struct rnic_qp *qp, struct packet_tx *tx, uint8_t opcode, uint8_t syndrome,
		      uint32_t psn, uint32_t msn, uint64_t atomic)
{
	struct pkt_hdr h;

	h.bth.opcode = opcode;
	h.bth.se = h.bth.ackreq = false;
	h.bth.psn = psn;
	h.bth.dqpn = qp->attr.dest_qpn;
	tx->flow = &qp->attr.flow;
	h.aeth.syndrome = syndrome;
	h.aeth.msn = msn;
	h.atomic_ack = atomic;
	packet_finish(qp, tx, &h);
}

/* A READ resumed in the middle is a request of its own: its answer begins with first or only. */
static uint8_t read_response_opcode(const struct resp_res *res, uint32_t idx)
{
	bool last = idx == res->end - 1;

	if (idx == res->start)
		return last ? OPCODE_RC_READ_RESPONSE_ONLY : OPCODE_RC_READ_RESPONSE_FIRST;
	return last ? OPCODE_RC_READ_RESPONSE_LAST : OPCODE_RC_READ_RESPONSE_MIDDLE;
}

/* What else of it is asked for. */
static bool res_more(struct resp_res *res)
{
	if (!res->nmore)
		return false;
	res->next = res->start = res->more[0].from;
	res->end = res->more[0].end;
	res->nmore--;
	memmove(&res->more[0], &res->more[1], res->nmore * sizeof(res->more[0]));
	return true;
}

static bool tx_read_response(struct rnic_qp *qp, struct packet_tx *tx, struct resp_res *res)
{
	struct resp *s = resp_of(qp);
	uint32_t idx = res->next, off = idx * qp->mtu;
	uint32_t psn = psn_add(res->first_psn, idx);
	uint8_t opcode = read_response_opcode(res, idx);

	tx->payload_len = min_of(res->length - off, qp->mtu);
	if (tx->payload_len) {
		uint8_t *mem;

		if (unlikely(qp->xrcd != NULL))
			qp->pd = xrc_pd(qp, res->xrc_srqn);
		mem = mem_remote(qp, res->rkey, res->va + off, tx->payload_len, tx->payload_len,
				 RNIC_ACCESS_REMOTE_READ);

		if (!mem && (int32_t)(s->res_send - s->res_done) < 0) {
			/* The region went after it was read. Who still waits for the answer will
			 * fail by this; for who does not, it is an old packet and no harm. */
			tx->payload_len = 0;
			res_leave(res);
			s->res_send++;
			count(qp, tx_nak_access, 1);
			tx_answer(qp, tx, OPCODE_RC_ACKNOWLEDGE, AETH_NAK | NAK_REMOTE_ACCESS, psn,
				  res->msn, 0);
			return true;
		}
		if (!mem) {
			/* The region went while it was being read. */
			s->res_send = s->res_prod;
			refuse(qp, VERDICT_ACCESS, psn,
			       qp->service->opcodes | OPCODE_RC_READ_REQUEST);
			return false;
		}
		tx->iov[0] = (struct iovec){mem, tx->payload_len};
		tx->niov = 1;
	}
	if (++res->next == res->end)
		res_answered(s, res_more(res));
	tx_answer(qp, tx, opcode, AETH_ACK | AETH_CREDITS_INVALID, psn, res->msn, 0);
	return true;
}

/* What is expected, what is kept behind it, and how much came twice: weft's own, to its like. */
static void tx_selective(struct rnic_qp *qp, struct packet_tx *tx)
{
	struct resp *s = resp_of(qp);
	struct pkt_hdr h = {
		.bth = {.opcode = OPCODE_WEFT_SACK,
			.psn = s->epsn,
			.pkey = PKEY_DEFAULT,
			.dqpn = qp->attr.dest_qpn},
		.aeth = {.syndrome = AETH_NAK | selective_of(qp)->twice, .msn = s->msn}};

	tx->flow = &qp->attr.flow;
	tx->payload_len = kept_tell(qp);
	tx->iov[0] = (struct iovec){selective_of(qp)->bitmap, tx->payload_len};
	tx->niov = 1;
	selective_of(qp)->twice = 0;
	packet_finish_own(qp, tx, &h);
	count(qp, tx_sack, 1);
}

static void tx_owed(struct rnic_qp *qp, struct packet_tx *tx)
{
	struct resp *s = resp_of(qp);
	uint8_t syndrome = AETH_ACK | AETH_CREDITS_INVALID;
	uint32_t psn = s->ack_psn;

	if (unlikely(selective_of(qp) != NULL) &&
	    (s->owed == OWED_TWICE || (s->owed == OWED_NAK_SEQ && selective_of(qp)->nkept))) {
		s->owed = OWED_NOTHING;
		tx_selective(qp, tx);
		return;
	}
	/* A gap that closed before its NAK went out is none. */
	if (s->owed == OWED_NAK_SEQ && psn_diff(s->oos_psn, s->epsn) >= 0) {
		syndrome = AETH_NAK | NAK_PSN_SEQ;
		psn = s->epsn;
		count(qp, tx_nak_sequence, 1);
	} else if (s->owed == OWED_RNR) {
		syndrome = AETH_RNR_NAK | qp->attr.min_rnr_timer;
		psn = s->epsn;
		count(qp, tx_rnr_nak, 1);
	} else if (s->owed == OWED_NAK) {
		syndrome = s->syndrome;
		psn = s->nak_psn;
		s->closing = false;
	}
	s->owed = OWED_NOTHING;
	if (unlikely(selective_of(qp) != NULL) && selective_of(qp)->twice && qp_responder_runs(qp))
		s->owed = OWED_TWICE;
	tx_answer(qp, tx, OPCODE_RC_ACKNOWLEDGE, syndrome, psn, s->msn, 0);
}

/* The one to answer next: behind a replay there may be some that were answered before. */
static struct resp_res *res_next(struct resp *s)
{
	for (; s->res_send != s->res_prod; s->res_send++) {
		struct resp_res *res = res_at(s, s->res_send);

		if (res->next != res->end)
			return res;
	}
	return NULL;
}

bool resp_owes_word(const struct rnic_qp *qp)
{
	const struct resp *s = resp_of(qp);

	return s->owed != OWED_NOTHING && s->res_send == s->res_prod;
}

bool resp_tx(struct rnic_qp *qp, struct packet_tx *tx)
{
	struct resp *s = resp_of(qp);
	struct resp_res *res;

	if (!qp_responder_runs(qp) && !s->closing)
		return false;
	tx->payload_len = 0;
	tx->niov = 0;
	res = res_next(s);
	if (res) {
		if (res->kind != RES_ATOMIC) {
			if (tx_read_response(qp, tx, res))
				return true;
			tx->payload_len = 0; /* refused: its NAK is owed now */
		} else {
			res->next = 1;
			res_answered(s, false);
			tx_answer(qp, tx, OPCODE_RC_ATOMIC_ACKNOWLEDGE,
				  AETH_ACK | AETH_CREDITS_INVALID, res->first_psn, res->msn,
				  res->orig);
			return true;
		}
	}
	if (s->owed == OWED_NOTHING)
		return false;
	tx_owed(qp, tx);
	return true;
}

/* What the peer has asked for is in its window, and not in the rate of ours. */
static bool answers_go(const struct rnic_qp *qp)
{
	return qp->cc.ops->rate_of_window && !qp->attr.flow.rate_mbps;
}

bool resp_tx_word(struct rnic_qp *qp, struct packet_tx *tx)
{
	return (resp_owes_word(qp) || answers_go(qp)) && resp_tx(qp, tx);
}
