/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The unreliable services (IBA volume 1, 9.8). Nothing is acknowledged: a send is complete when its
 * last packet has been handed out, and what goes wrong at the peer the sender does not learn.
 *
 *   UC  messages of several packets, in sequence; one that misses a packet is dropped silently,
 *       and the receive it had begun to fill serves the next. How many packets are missing nobody
 *       says, so that any number could be right; but no more than a sender can have sent since the
 *       last one is believed, else every forged packet that finds the queue pair would be in
 *       sequence. What comes twice or late is dropped
 *   UD  a packet is a message; the WQE says to whom, and a receive takes it from anybody who knows
 *       the Q_Key
 *
 * There is no window, since nobody answers, and a socket's buffer that is run over loses whole
 * messages. So all unreliable QPs together keep a pace: what they sent is taken to drain at
 * PACE_BYTES_PER_US, and no more than a socket holds may be ahead of that.
 */
#include "base/bytes.h"
#include "rnic/core.h"

#define GRH_LEN 40
/* In a receive's SL, as mlx5 gives it with RoCE: which network header stands before the payload.
 * UCX believes it rather than the header. */
#define SL_IPV6	     1
#define SL_IPV4	     2
#define IPV4_LEN     20
#define UDP_LEN	     8
#define IPPROTO_UDP_ 17

#define PACE_BYTES_PER_US 1000u

/* UC: how far from the expected PSN one may be at once, and how much farther with each microsecond
 * of silence: more packets than any adapter sends. After a quarter of a second, any may. */
#define UC_AHEAD  4096u
#define UC_PER_US 64u

static uint64_t pace_time(uint32_t bytes)
{
	return bytes * 1000ull / PACE_BYTES_PER_US;
}

/* ---- sending -------------------------------------------------------------------------------- */

/* What stands at the cursor and needs no packet. False: there is nothing to be sent after it. */
static bool local_tx(struct rnic_qp *qp)
{
	struct sq *sq = &qp->sq;

	for (; sq->cur != sq->prod; sq_complete(qp, RNIC_WC_SUCCESS)) {
		const struct send_wqe *w = sq_at(sq, sq->cur);

		if (likely(!wqe_is_local(w)))
			return true;
		if (qp->state != RNIC_QPS_RTS)
			return false; /* SQD: nothing new is begun */
		if (mw_execute(qp, w)) {
			qp_fail_sq(qp, RNIC_WC_MW_BIND_ERR, RNIC_CAUSE_WINDOW);
			return false;
		}
	}
	return false;
}

bool unreliable_tx(struct rnic_qp *qp, struct rnic_tx *tx, uint64_t now)
{
	struct rnic *r = qp->rnic;
	uint64_t ahead = pace_time(r->socket_bytes);
	struct req *q = &qp->req;
	struct sq *sq = &qp->sq;
	struct send_wqe *w;
	uint32_t idx;

	if (!qp_requester_runs(qp) || !local_tx(qp))
		return false;
	if (r->pace_ns > now + ahead) {
		timer_arm(&r->timers, &qp->timer, r->pace_ns - ahead / 2);
		return false;
	}
	w = sq_at(sq, sq->cur);
	if (!w->begun) {
		if (qp->state != RNIC_QPS_RTS)
			return false; /* SQD: nothing new is begun */
		if (qp->type == RNIC_QPT_UD && w->length > qp->mtu) {
			qp_fail_sq(qp, RNIC_WC_LOC_LEN_ERR, RNIC_CAUSE_DATAGRAM_LENGTH);
			return false;
		}
		w->first_psn = q->psn;
		w->npkts = pkts_of(w->length, qp->mtu);
		w->chunk_pkts = 1;
		w->begun = true;
	}
	idx = (q->psn - w->first_psn) & PSN_MASK;
	if (request_build(qp, tx, w, idx, false)) {
		qp_fail_sq(qp, RNIC_WC_LOC_PROT_ERR, r->denial.cause);
		return false;
	}
	r->pace_ns = max_of(r->pace_ns, now) + pace_time(max_of(tx->payload_len, WINDOW_PKT_MIN));
	q->psn = q->una_psn = q->max_psn = psn_add(q->psn, 1);
	if (idx + 1 == w->npkts) {
		sq_complete(qp, RNIC_WC_SUCCESS);
		req_check_drained(qp);
	}
	return true;
}

/* ---- receiving: UC -------------------------------------------------------------------------- */

static void recv_broken(struct rnic_qp *qp)
{
	recv_fail(qp, RNIC_WC_LOC_PROT_ERR);
	qp_fail_recv(qp, qp->rnic->denial.cause, qp->service | OPCODE_RC_SEND_ONLY);
}

/* Can it have been sent by now, when what came between it and the last one is lost? */
static bool uc_possible(const struct rnic_qp *qp, uint32_t psn)
{
	uint64_t silent = qp->rnic->now - qp->resp.heard_ns;

	return ((psn - qp->resp.epsn) & PSN_MASK) <= UC_AHEAD + silent * UC_PER_US / 1000;
}

static bool uc_rx(struct rnic_qp *qp, struct pkt *p)
{
	struct resp *s = &qp->resp;
	bool expected = p->h.bth.psn == s->epsn;
	enum verdict v;

	if (!uc_possible(qp, p->h.bth.psn)) {
		qp->rnic->counters.rx_out_of_sequence++;
		return false;
	}

	resp_established(qp);
	if (!expected) {
		qp->rnic->counters.rx_out_of_sequence++;
		s->msg = MSG_NONE;
	}
	s->epsn = psn_add(p->h.bth.psn, 1);
	s->heard_ns = qp->rnic->now;
	if (p->flags & (OPF_FIRST | OPF_ONLY))
		s->msg = MSG_NONE; /* the one before lost its end */
	v = check_execution(qp, p);
	if (v == VERDICT_ACCEPT)
		v = p->flags & OPF_SEND ? execute_send(qp, p) : execute_write(qp, p);
	if (v == VERDICT_ACCEPT) {
		qp->rnic->counters.rx_bytes += p->len;
	} else if (v == VERDICT_RECV_PROTECTION) {
		recv_broken(qp);
	} else {
		trace(qp->rnic, TRACE_rx_verdict, qp->qpn, v, p->h.bth.psn);
		s->msg = MSG_NONE;
		qp->rnic->counters.rx_drop_request++;
	}
	return expected && v == VERDICT_ACCEPT;
}

/* ---- receiving: UD -------------------------------------------------------------------------- */

static uint16_t ip_checksum(const uint8_t *p, size_t len)
{
	uint32_t sum = 0;

	for (size_t i = 0; i < len; i += 2)
		sum += ld_be16(p + i);
	sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t) ~(sum + (sum >> 16));
}

/*
 * What stands before the payload in a receive: the network header. An IPv4 header takes the last 20
 * bytes; those before it mean nothing. The kernel keeps the real header from us, so that its
 * identification is 0 here; a checksum goes with what is written.
 */
static void grh_build(uint8_t grh[GRH_LEN], const struct flow *f, size_t udp_len)
{
	uint8_t *ip = grh + GRH_LEN - IPV4_LEN;

	memset(grh, 0, GRH_LEN);
	if (!gid_is_ipv4(&f->dgid)) {
		st_be32(grh, 6u << 28 | (uint32_t)f->tos << 20 | (f->flow_label & 0xfffff));
		st_be16(grh + 4, (uint16_t)udp_len);
		grh[6] = IPPROTO_UDP_;
		grh[7] = f->ttl;
		memcpy(grh + 8, f->sgid.raw, 16);
		memcpy(grh + 24, f->dgid.raw, 16);
		return;
	}
	ip[0] = 4 << 4 | IPV4_LEN / 4;
	ip[1] = f->tos;
	st_be16(ip + 2, (uint16_t)(IPV4_LEN + udp_len));
	ip[6] = 0x40; /* do not fragment */
	ip[8] = f->ttl;
	ip[9] = IPPROTO_UDP_;
	memcpy(ip + 12, f->sgid.raw + 12, 4);
	memcpy(ip + 16, f->dgid.raw + 12, 4);
	st_be16(ip + 10, ip_checksum(ip, IPV4_LEN));
}

static void ud_rx(struct rnic_qp *qp, const struct pkt *p, const struct rnic_rx *rx)
{
	const struct recv_wqe *w = recv_peek(qp);
	struct rnic_wc wc = {
		.opcode = RNIC_WC_RECV,
		.byte_len = GRH_LEN + p->len,
		.src_qp = p->h.deth.sqpn,
		.wc_flags = RNIC_WC_GRH,
		.sl = gid_is_ipv4(&rx->flow.dgid) ? SL_IPV4 : SL_IPV6,
	};
	uint8_t grh[GRH_LEN];

	if (p->h.deth.qkey != qp->attr.qkey) {
		qp->rnic->counters.rx_drop_qkey++;
		return;
	}
	if (p->len > qp->mtu || !w || w->length < GRH_LEN + p->len) {
		qp->rnic->counters.rx_drop_request++;
		return;
	}
	recv_take(qp);
	w = rq_at(&qp->rq, qp->rq.cons);
	grh_build(grh, &rx->flow, UDP_LEN + rx->len + ICRC_LEN);
	if (sge_scatter(qp->recv_pd, w->sge, w->num_sge, 0, grh, GRH_LEN) ||
	    sge_scatter(qp->recv_pd, w->sge, w->num_sge, GRH_LEN, p->payload, p->len)) {
		recv_broken(qp);
		return;
	}
	if (p->flags & OPF_IMMDT) {
		memcpy(&wc.imm_or_rkey, p->h.immdt, sizeof(p->h.immdt));
		wc.wc_flags |= RNIC_WC_WITH_IMM;
	}
	qp->rnic->counters.rx_bytes += p->len;
	recv_complete(qp, &wc, p->h.bth.se);
}

bool unreliable_rx(struct rnic_qp *qp, struct pkt *p, const struct rnic_rx *rx)
{
	if (qp->type == RNIC_QPT_UC)
		return uc_rx(qp, p);
	ud_rx(qp, p, rx);
	return false;
}
