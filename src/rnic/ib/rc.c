/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The reliable connection (IBA volume 1, 9.7): a requester with its completer, and a responder. */
#include "rnic/ib/ib.h"

static bool rc_rx(struct rnic_qp *qp, struct pkt *p, const struct packet_rx *rx, uint64_t now)
{
	(void)rx;
	if (unlikely(p->h.bth.opcode == OPCODE_WEFT_SACK))
		return comp_rx_sack(qp, p, now);
	return p->flags & OPF_RESPONSE ? comp_rx(qp, p, now) : resp_rx(qp, p);
}

/*
 * Requester and responder begin by turns, so that neither starves. A lone acknowledgement goes
 * before a message of several packets, though: behind them it would come in a datagram of its own,
 * and programs that are told of both count on the order in which adapters answer (perftest -e).
 */
static bool rc_tx(struct rnic_qp *qp, struct packet_tx *tx, uint64_t now)
{
	if (ib_of(qp)->responder_turn || (resp_owes_word(qp) && req_is_long(qp)))
		return resp_tx(qp, tx) || req_tx(qp, tx, now);
	return req_tx(qp, tx, now) || resp_tx(qp, tx);
}

const struct service service_rc = {
	IB_OPERATIONS,
	.type = RNIC_QPT_RC,
	.opcodes = SERVICE_RC,
	.parts = PART_PD | PART_SEND_CQ | PART_RECV_CQ,
	.may_parts = PART_SRQ,
	.wrs = WRS_ALL,
	.transitions = rc_transitions,
	.ntransitions = IB_TRANSITIONS,
	.tx = rc_tx,
	.tx_word = resp_tx_word,
	.awaits = req_awaits,
	.rx = rc_rx,
	.selective = selective_begin,
	.timer = recovery_timer,
};
