/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Explicit congestion notification (RFC 3168) as RoCEv2 has it (IBA volume 1, annex A17.9): who is
 * ready to slow down says so in each of his packets; a switch that is about to run full marks them;
 * who receives a marked one tells the sender by a packet of its own (CNP), not too often; and the
 * sender's congestion control does what it does. All this is for connections: of a datagram nobody
 * knows who sent it.
 *
 * A notification is small, waits for no pacer and travels in a class of its own, so that it gets
 * through what it tells of.
 */
#include "rnic/core.h"

#define CNP_RESERVED 16 /* bytes of zeros behind the BTH */

void ecn_declare(struct rnic_qp *qp)
{
	struct flow *f = &qp->attr.flow;

	/* What a GRH has there is InfiniBand's traffic class, of which no bits are ECN's. */
	if (cc_of(qp)->cnp && !qp->service->datagrams && !f->rocev1 && !(f->tos & FLOW_ECN_MASK))
		f->tos |= FLOW_ECN_ECT0;
}

static void owe(struct rnic_qp *qp)
{
	const struct rnic *r = qp->rnic;

	if (r->now < qp->cnp_next_ns)
		return;
	qp->cnp_next_ns = r->now + qp->cc.params->np_min_time_between_cnps * NSEC_PER_USEC;
	qp->cnp_owed = true;
	if (unlikely(r->held_priorities))
		list_remove(&qp->active_node); /* this goes even so */
	qp_activate(qp);
}

void ecn_rx(struct rnic_qp *qp, const struct flow *f)
{
	if ((f->tos & FLOW_ECN_MASK) != FLOW_ECN_CE || qp->service->datagrams || f->rocev1)
		return;
	count(qp, rx_ecn_marked, 1);
	owe(qp);
}

void cnp_rx(struct rnic_qp *qp, const struct pkt *p)
{
	if (p->h.bth.opcode != OPCODE_CNP || qp->service->datagrams) {
		count(qp, rx_drop_service, 1);
		return;
	}
	count(qp, rx_cnp, 1);
	cc_tell(qp, qp->cc.ops->cnp);
}

uint8_t cnp_priority(const struct rnic_qp *qp)
{
	return (uint8_t)(qp->cc.params->np_cnp_dscp << FLOW_DSCP_SHIFT >> 5);
}

void cnp_tx(struct rnic_qp *qp, struct packet_tx *tx)
{
	struct rnic *r = qp->rnic;
	const struct pkt_hdr h = {
		.bth = {.opcode = OPCODE_CNP,
			.becn = true,
			.tag = qp->tag_out,
			.pkey = PKEY_DEFAULT,
			.dqpn = qp->attr.dest_qpn},
	};

	qp->cnp_owed = false;
	qp->cnp_flow = qp->attr.flow;
	qp->cnp_flow.tos = (uint8_t)(qp->cc.params->np_cnp_dscp << FLOW_DSCP_SHIFT);
	qp->cnp_flow.sl = 0;
	tx->flow = &qp->cnp_flow;
	tx->hdr_len = (uint8_t)pkt_hdr_encode(&h, tx->hdr);
	tx->pad = 0;
	tx->payload_len = CNP_RESERVED;
	tx->iov[0] = (struct iovec){r->null_read, CNP_RESERVED};
	tx->niov = 1;
	count(qp, tx_packets, 1);
	count(qp, tx_cnp, 1);
	trace(r, TRACE_tx, qp->qpn, (uint64_t)OPCODE_CNP << 24, CNP_RESERVED);
}
