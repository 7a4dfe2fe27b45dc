/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Selective repeat, the requester's half: between weft and weft, where both have agreed on it. Only
 * what is missing goes again.
 *
 * The responder keeps what comes behind a gap (kept.c), and tells of it by a packet of weft's own
 * (WEFT_SACK): the PSN that it expects, and which of those behind it are there. A packet that is
 * missing while a later one is there was lost. READ responses are placed as they come, their memory
 * being nobody's before the completion; one that is missing while a later answer is there was lost,
 * and is asked for again by itself. What went again was lost once more when something is there that
 * was first sent after that. Where nothing is sent after it, for want of anything or of a window, a
 * round trip or two without what is missing say the same (recovery_look_soon()).
 *
 * What was lost is not on the way: it leaves room in the window, and goes again as the window lets
 * it, before anything new.
 *
 * A lost tail leaves no evidence: there is the probe (go_back_n.c). What follows from it is that
 * all of which nobody knows counts as lost.
 */
#include "rnic/ib/ib.h"

int selective_begin(struct rnic_qp *qp)
{
	struct rnic *r = qp->rnic;

	if (!selective_of(qp))
		ib_of(qp)->selective = r->ops.alloc(r->ctx, sizeof(struct selective));
	return selective_of(qp) ? 0 : -ENOMEM;
}

void selective_end(struct rnic_qp *qp)
{
	struct selective *s = selective_of(qp);
	struct rnic *r = qp->rnic;

	if (!s)
		return;
	if (s->kept) {
		kept_drop(qp);
		r->ops.free(r->ctx, s->kept);
	}
	r->ops.free(r->ctx, s);
	ib_of(qp)->selective = NULL;
}

/* ---- what is known -------------------------------------------------------------------------- */

static bool bit(const uint64_t *map, uint32_t psn)
{
	psn %= SELECTIVE_PSNS;
	return map[psn / 64] >> psn % 64 & 1;
}

static void set(uint64_t *map, uint32_t psn)
{
	psn %= SELECTIVE_PSNS;
	map[psn / 64] |= 1ull << psn % 64;
}

static void clear(uint64_t *map, uint32_t psn)
{
	psn %= SELECTIVE_PSNS;
	map[psn / 64] &= ~(1ull << psn % 64);
}

static uint32_t later(uint32_t a, uint32_t b)
{
	return psn_diff(a, b) > 0 ? a : b;
}

bool selective_has(const struct rnic_qp *qp, uint32_t psn)
{
	return bit(selective_of(qp)->have, psn);
}

void selective_forget(struct rnic_qp *qp)
{
	struct selective *s = selective_of(qp);
	uint32_t una = req_of(qp)->una_psn;

	memset(s->have, 0, sizeof(s->have));
	memset(s->held, 0, sizeof(s->held));
	memset(s->lost, 0, sizeof(s->lost));
	memset(s->after, 0, sizeof(s->after));
	s->nlost = s->off_wire = 0;
	s->req_end = s->resp_end = s->looked = s->looked_resp = s->marks_end = s->next_lost = una;
	s->again = s->cut_psn = RNIC_PSN_NONE;
}

/* Is it known not to be on the way? */
static bool is_off(const struct selective *s, const struct send_wqe *w, uint32_t psn)
{
	return bit(s->have, psn) || bit(s->lost, psn) ||
	       (bit(s->held, psn) && !wqe_wants_response(w));
}

static void leave_wire(struct rnic_qp *qp, const struct send_wqe *w, uint32_t psn)
{
	uint32_t idx = (psn - w->first_psn) & PSN_MASK, cost = flight_cost(qp, w, idx, idx + 1);

	selective_of(qp)->off_wire += cost;
	budget_give_back(qp, w, cost);
}

static void no_longer_lost(struct selective *s, uint32_t psn)
{
	if (!bit(s->lost, psn))
		return;
	clear(s->lost, psn);
	s->nlost--;
}

void selective_passed(struct rnic_qp *qp, const struct send_wqe *w, uint32_t idx, uint32_t n)
{
	struct selective *s = selective_of(qp);
	uint32_t end = psn_add(w->first_psn, idx + n);

	for (uint32_t i = idx; i < idx + n; i++) {
		uint32_t psn = psn_add(w->first_psn, i);

		if (psn_diff(psn, s->marks_end) >= 0)
			break;
		if (is_off(s, w, psn)) {
			uint32_t cost = flight_cost(qp, w, i, i + 1);

			s->off_wire -= cost;
			budget_take(qp, w, cost); /* which is given back with all of it */
		}
		clear(s->have, psn);
		clear(s->held, psn);
		no_longer_lost(s, psn);
		s->after[psn % SELECTIVE_PSNS] = 0;
	}
	/* None stays behind so far that it would seem to be ahead. */
	s->marks_end = later(s->marks_end, end);
	s->req_end = later(s->req_end, end);
	s->resp_end = later(s->resp_end, end);
	s->looked = later(s->looked, end);
	s->looked_resp = later(s->looked_resp, end);
	if (s->again != RNIC_PSN_NONE)
		s->again = later(s->again, end);
	if (s->cut_psn != RNIC_PSN_NONE && psn_diff(end, s->cut_psn) >= 0)
		s->cut_psn = RNIC_PSN_NONE;
}

/* The PSN of the request that its answer is to. */
static uint32_t request_of(const struct send_wqe *w, uint32_t idx)
{
	return psn_add(w->first_psn, chunk_begin(w, idx));
}

/* One that is carried out, or kept, in which case it may be an answer that is still to come. What
 * goes again anyway, after a rewind, is not looked at. */
static void note(struct rnic_qp *qp, const struct send_wqe *w, uint64_t *map, uint32_t psn)
{
	struct selective *s = selective_of(qp);
	bool off = is_off(s, w, psn);

	if (psn_diff(psn, req_of(qp)->psn) >= 0 || bit(map, psn))
		return;
	set(map, psn);
	s->marks_end = later(s->marks_end, psn_add(psn, 1));
	/* A request that is kept is timed to its arrival: its answer waits for what is before it.
	 */
	recovery_arrived(qp, psn);
	if (map == s->held && wqe_wants_response(w))
		return;
	no_longer_lost(s, psn);
	if (!off)
		leave_wire(qp, w, psn);
}

/* The WQE at or behind *i that is on the wire and not all acknowledged. */
static struct send_wqe *next_wqe(struct rnic_qp *qp, uint32_t *i)
{
	for (; *i != qp->sq.prod; ++*i) {
		struct send_wqe *w = sq_at(&qp->sq, *i);

		if (!w->begun)
			return NULL;
		if (w->npkts)
			return w;
	}
	return NULL;
}

struct send_wqe *selective_wqe(struct rnic_qp *qp, uint32_t psn, uint32_t *ret_idx)
{
	struct send_wqe *w;

	for (uint32_t i = qp->sq.una; (w = next_wqe(qp, &i)); i++) {
		*ret_idx = (psn - w->first_psn) & PSN_MASK;
		if (*ret_idx < w->npkts)
			return w;
	}
	return NULL;
}

void selective_arrived(struct rnic_qp *qp, uint32_t end)
{
	struct selective *s = selective_of(qp);
	struct send_wqe *w;

	for (uint32_t i = qp->sq.una; (w = next_wqe(qp, &i)); i++) {
		uint32_t psn = later(w->first_psn, req_of(qp)->una_psn);
		uint32_t stop = psn_add(w->first_psn, w->npkts);

		if (psn_diff(psn, end) >= 0)
			break;
		if (wqe_wants_response(w))
			continue;
		for (; psn != stop && psn != end; psn = psn_add(psn, 1))
			note(qp, w, s->have, psn);
	}
	s->req_end = later(s->req_end, end);
	s->resp_end = later(s->resp_end, end);
}

void selective_answered(struct rnic_qp *qp, uint32_t psn)
{
	struct selective *s = selective_of(qp);
	uint32_t idx;

	note(qp, selective_wqe(qp, psn, &idx), s->have, psn);
	s->resp_end = later(s->resp_end, psn_add(psn, 1));
	s->req_end = later(s->req_end, s->resp_end);
}

void selective_keeps(struct rnic_qp *qp, uint32_t end, const uint8_t *bitmap, uint32_t len)
{
	struct selective *s = selective_of(qp);
	uint32_t i = qp->sq.una;
	struct send_wqe *w = next_wqe(qp, &i);

	len = min_of(len, SELECTIVE_PSNS / 8);
	for (uint32_t k = 0; k < len * 8 && w; k++) {
		uint32_t psn = psn_add(end, k + 1);

		if (!(bitmap[k / 8] >> k % 8 & 1))
			continue;
		if (psn_diff(psn, req_of(qp)->psn) >= 0)
			break; /* it says more than can be, or of what goes again anyway */
		while (w && psn_diff(psn, psn_add(w->first_psn, w->npkts)) >= 0) {
			i++;
			w = next_wqe(qp, &i);
		}
		if (!w || psn_diff(psn, req_of(qp)->una_psn) < 0)
			continue;
		/* The rest of what a READ asks for is no packet that could be kept. */
		if (wqe_wants_response(w) && psn != request_of(w, (psn - w->first_psn) & PSN_MASK))
			continue;
		note(qp, w, s->held, psn);
		s->req_end = later(s->req_end, psn_add(psn, 1));
	}
}

/* ---- what is missing ------------------------------------------------------------------------ */

/* How sure must it be that something was lost? */
enum how {
	WITH_EVIDENCE,	       /* what was sent after it is there */
	WHATEVER_IS_MISSING,   /* what has a higher PSN is there, even if that was sent before */
	WHATEVER_IS_NOT_KNOWN, /* to be there */
};

/* Was that carried out? Then its answer may be asked for in parts, and not before. */
static bool was_carried_out(const struct rnic_qp *qp, const struct send_wqe *w, uint32_t idx)
{
	uint32_t request = request_of(w, idx);

	return psn_diff(selective_of(qp)->resp_end, request) > 0 ||
	       psn_diff(req_of(qp)->una_psn, request) > 0;
}

/* Is it lost, of those that are not known to be? The request of a READ is where its chunk begins.
 */
static bool is_lost(const struct rnic_qp *qp, const struct send_wqe *w, uint32_t psn, enum how how)
{
	const struct selective *s = selective_of(qp);
	uint32_t after = s->after[psn % SELECTIVE_PSNS], idx = (psn - w->first_psn) & PSN_MASK;
	bool once = !after || how == WHATEVER_IS_MISSING;
	uint32_t again = psn_add(psn, after), request;

	if (how == WHATEVER_IS_NOT_KNOWN)
		return true;
	if (!wqe_wants_response(w))
		return psn_diff(s->req_end, once ? psn : again) > 0;
	if (psn_diff(s->resp_end, once ? psn : again) > 0)
		return true;
	if (was_carried_out(qp, w, idx))
		return false; /* the answer is still to come */
	request = request_of(w, idx);
	return !bit(s->held, request) && psn_diff(s->req_end, once ? request : again) > 0;
}

/* What of it was on the way: of a request that was lost itself no answer was. */
static uint32_t count_lost(struct rnic_qp *qp, const struct send_wqe *w, uint32_t psn)
{
	struct selective *s = selective_of(qp);
	uint32_t idx = (psn - w->first_psn) & PSN_MASK;

	leave_wire(qp, w, psn);
	set(s->lost, psn);
	s->marks_end = later(s->marks_end, psn_add(psn, 1));
	if (!s->nlost++ || psn_diff(psn, s->next_lost) < 0)
		s->next_lost = psn;
	if (wqe_wants_response(w) && !was_carried_out(qp, w, idx))
		return psn == request_of(w, idx) ? PKT_COST_MIN : 0;
	return flight_cost(qp, w, idx, idx + 1);
}

/* When may more be known of what went again? */
static void look_again(struct selective *s, uint32_t psn)
{
	uint32_t after = s->after[psn % SELECTIVE_PSNS], at = psn_add(psn, after);

	if (after && (s->again == RNIC_PSN_NONE || psn_diff(at, s->again) < 0))
		s->again = at;
}

/* Did it go again since the window was cut last, and for that? Then that was not enough. */
static bool went_since_cut(const struct selective *s, uint32_t psn)
{
	uint32_t after = s->after[psn % SELECTIVE_PSNS];

	return after && s->cut_psn != RNIC_PSN_NONE &&
	       psn_diff(psn_add(psn, after), s->cut_psn) >= 0;
}

/* Counts as lost what is of [from, end). False: nothing is. */
static bool count_all(struct rnic_qp *qp, uint32_t from, uint32_t end, enum how how)
{
	struct selective *s = selective_of(qp);
	bool anew = s->cut_psn == RNIC_PSN_NONE;
	struct send_wqe *w;
	uint32_t bytes = 0;

	if (psn_diff(end, req_of(qp)->psn) > 0)
		end = req_of(qp)->psn;
	for (uint32_t i = qp->sq.una; (w = next_wqe(qp, &i)); i++) {
		uint32_t stop = psn_add(w->first_psn, w->npkts), psn = later(w->first_psn, from);

		if (psn_diff(w->first_psn, end) >= 0)
			break;
		for (; psn_diff(psn, stop) < 0 && psn_diff(psn, end) < 0; psn = psn_add(psn, 1)) {
			if (is_off(s, w, psn))
				continue;
			if (!is_lost(qp, w, psn, how)) {
				look_again(s, psn);
				continue;
			}
			/* Of one that a host only was late with, time says the same. */
			anew |= how != WHATEVER_IS_MISSING && went_since_cut(s, psn);
			bytes += count_lost(qp, w, psn);
		}
	}
	if (!bytes)
		return false;
	trace(qp->rnic, TRACE_lost, qp->qpn, s->next_lost, bytes);
	cc_lost(qp, bytes, !anew);
	if (anew)
		s->cut_psn = req_of(qp)->max_psn;
	qp_activate(qp);
	return true;
}

void selective_doubt(struct rnic_qp *qp)
{
	struct selective *s = selective_of(qp);

	(void)count_all(qp, req_of(qp)->una_psn, req_of(qp)->max_psn, WHATEVER_IS_NOT_KNOWN);
	s->looked = s->looked_resp = req_of(qp)->max_psn;
}

void selective_look(struct rnic_qp *qp)
{
	struct selective *s = selective_of(qp);
	uint32_t una = req_of(qp)->una_psn, until = later(s->req_end, s->resp_end);

	if (psn_diff(until, una) <= 0)
		return;
	if (s->again != RNIC_PSN_NONE && psn_diff(until, s->again) > 0) {
		s->again = RNIC_PSN_NONE; /* found anew, of what is left */
		s->looked = una;
	}
	(void)count_all(qp, later(s->looked, una), until, WITH_EVIDENCE);
	/* Requests that were kept, and are carried out now, may be known of already, and not which
	 * of their answers come. */
	(void)count_all(qp, later(s->looked_resp, una), s->resp_end, WITH_EVIDENCE);
	s->looked = later(s->looked, until);
	s->looked_resp = later(s->looked_resp, s->resp_end);
	/* What is there makes room, whether una moved or not. */
	if (req_waits(qp))
		qp_activate(qp);
}

/* The first that was lost; NULL: none was. */
static struct send_wqe *first_lost(struct rnic_qp *qp, uint32_t *ret_idx)
{
	struct selective *s = selective_of(qp);

	if (!s->nlost)
		return NULL;
	s->next_lost = later(s->next_lost, req_of(qp)->una_psn);
	while (!bit(s->lost, s->next_lost))
		s->next_lost = psn_add(s->next_lost, 1);
	return selective_wqe(qp, s->next_lost, ret_idx);
}

/* How many packets go again by one request: what was lost of a READ from there on, as much as there
 * is room for; or all of one that was lost itself. */
static uint32_t lost_span(const struct rnic_qp *qp, const struct send_wqe *w, uint32_t idx)
{
	uint32_t most = request_span(w, idx), room = flight_room(qp), n = 1;

	if (wqe_wants_response(w) && !was_carried_out(qp, w, idx))
		return most;
	while (n < most && bit(selective_of(qp)->lost, psn_add(w->first_psn, idx + n)) &&
	       flight_cost(qp, w, idx, idx + n + 1) <= room)
		n++;
	return n;
}

/* It goes again, and is lost once more if what is sent from now on comes first. */
static void return_to_wire(struct rnic_qp *qp, const struct send_wqe *w, uint32_t idx)
{
	struct selective *s = selective_of(qp);
	uint32_t psn = psn_add(w->first_psn, idx), cost = flight_cost(qp, w, idx, idx + 1);

	/* What a request asks for need not all have been looked at. */
	if (!bit(s->lost, psn))
		return;
	no_longer_lost(s, psn);
	s->off_wire -= cost;
	if (!recovery_silent(recovery_of(qp)))
		budget_take(qp, w, cost);
	s->after[psn % SELECTIVE_PSNS] = (uint16_t)((req_of(qp)->max_psn - psn) & PSN_MASK);
}

void selective_goes_again(struct rnic_qp *qp, const struct send_wqe *w, uint32_t idx, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		return_to_wire(qp, w, idx + i);
}

bool selective_tx(struct rnic_qp *qp, struct packet_tx *tx, uint64_t now)
{
	struct selective *s = selective_of(qp);
	uint32_t idx, span, psn, cost;
	struct send_wqe *w;

	while ((w = first_lost(qp, &idx))) {
		span = lost_span(qp, w, idx);
		cost = flight_cost(qp, w, idx, idx + span);
		psn = psn_add(w->first_psn, idx);
		/* What else is on the way may wait for the oldest. */
		if (psn != req_of(qp)->una_psn && !flight_allows(qp, w, cost))
			return false;
		selective_goes_again(qp, w, idx, span);
		if (s->again == RNIC_PSN_NONE)
			s->again = req_of(qp)->max_psn;
		/* Where its memory has gone it fails once it is the oldest. */
		if (request_build(qp, tx, w, idx, span, true))
			continue;
		recovery_resent(qp, psn, span, now);
		if (!s->nlost)
			recovery_look_soon(qp, now);
		return true;
	}
	return false;
}

bool selective_misses(const struct rnic_qp *qp)
{
	const struct selective *s = selective_of(qp);

	return psn_diff(later(s->req_end, s->resp_end), req_of(qp)->una_psn) > 0;
}

bool selective_again(struct rnic_qp *qp)
{
	const struct selective *s = selective_of(qp);

	return count_all(qp, req_of(qp)->una_psn, later(s->req_end, s->resp_end),
			 WHATEVER_IS_MISSING);
}
