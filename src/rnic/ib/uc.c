/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The unreliable connection: messages of several packets, in sequence. One that misses a packet is
 * dropped silently, and the receive it had begun to fill serves the next. How many packets are
 * missing nobody says, so that any number could be right; but no more than a sender can have sent
 * since the last one is believed, else every forged packet that finds the queue pair would be in
 * sequence. What comes twice or late is dropped.
 */
#include "rnic/ib/ib.h"

/* How far from the expected PSN one may be at once, and how much farther with each microsecond
 * of silence: more packets than any adapter sends. After a quarter of a second, any may. */
#define UC_AHEAD  4096u
#define UC_PER_US 64u

/* Can it have been sent by now, when what came between it and the last one is lost? */
static bool uc_possible(const struct rnic_qp *qp, uint32_t psn)
{
	uint64_t silent = qp->rnic->now - resp_of(qp)->heard_ns;

	return ((psn - resp_of(qp)->epsn) & PSN_MASK) <=
	       UC_AHEAD + silent * UC_PER_US / NSEC_PER_USEC;
}

static bool uc_rx(struct rnic_qp *qp, struct pkt *p, const struct packet_rx *rx, uint64_t now)
{
	struct resp *s = resp_of(qp);
	bool expected = p->h.bth.psn == s->epsn;
	enum verdict v;

	(void)rx;
	(void)now;
	if (!uc_possible(qp, p->h.bth.psn)) {
		count(qp, rx_out_of_sequence, 1);
		return false;
	}

	resp_established(qp);
	if (!expected) {
		count(qp, rx_out_of_sequence, 1);
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
		count(qp, rx_bytes, p->len);
	} else if (v == VERDICT_RECV_PROTECTION) {
		unreliable_recv_broken(qp);
	} else {
		trace(qp->rnic, TRACE_rx_verdict, qp->qpn, v, p->h.bth.psn);
		s->msg = MSG_NONE;
		count(qp, rx_drop_request, 1);
	}
	return expected && v == VERDICT_ACCEPT;
}

const struct service service_uc = {
	IB_OPERATIONS,
	.type = RNIC_QPT_UC,
	.opcodes = SERVICE_UC,
	.parts = PART_PD | PART_SEND_CQ | PART_RECV_CQ,
	.may_parts = PART_SRQ,
	.wrs = 1u << RNIC_WR_SEND | 1u << RNIC_WR_SEND_WITH_IMM | 1u << RNIC_WR_RDMA_WRITE |
	       1u << RNIC_WR_RDMA_WRITE_WITH_IMM | 1u << RNIC_WR_LOCAL_INV | 1u << RNIC_WR_BIND_MW,
	.transitions = uc_transitions,
	.ntransitions = IB_TRANSITIONS,
	.tx = unreliable_tx,
	.awaits = unreliable_awaits,
	.rx = uc_rx,
};
