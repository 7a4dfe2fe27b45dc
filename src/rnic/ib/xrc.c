/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The extended reliable connection (IBA volume 1, annex A14): one connection to a process for all
 * receive queues it has. On the wire it is RC with one header more in each request, which names
 * the shared receive queue (SRQ) that the request is for.
 *
 *   initiator  a requester without a responder; each work request says to which SRQ
 *   target     a responder without a requester and without anything of its own: receives, the CQ
 *              and the protection domain are those of the SRQ named
 *   domain     what a target may reach: the SRQs of its own
 *
 * So a target turns to another SRQ with each message. In the midst of a message it must not, which
 * xrc_select() checks, and an answer to a READ that was asked for earlier looks its SRQ up anew.
 */
#include "rnic/ib/ib.h"

static bool initiator_rx(struct rnic_qp *qp, struct pkt *p, const struct packet_rx *rx,
			 uint64_t now)
{
	(void)rx;
	if (p->flags & OPF_RESPONSE)
		return comp_rx(qp, p, now);
	count(qp, rx_drop_service, 1);
	return false;
}

static bool target_rx(struct rnic_qp *qp, struct pkt *p, const struct packet_rx *rx, uint64_t now)
{
	(void)rx;
	(void)now;
	if (!(p->flags & OPF_RESPONSE))
		return resp_rx(qp, p);
	count(qp, rx_drop_service, 1);
	return false;
}

static bool target_tx(struct rnic_qp *qp, struct packet_tx *tx, uint64_t now)
{
	(void)now;
	return resp_tx(qp, tx);
}

static void initiator_post(struct rnic_qp *qp, struct send_wqe *w, const struct rnic_send_wr *wr)
{
	(void)qp;
	w->xrc_srqn = wr->xrc_srqn & QPN_MASK;
}

const struct service service_xrc_initiator = {
	IB_OPERATIONS,
	.type = RNIC_QPT_XRC_SEND,
	.opcodes = SERVICE_XRC,
	.parts = PART_PD | PART_SEND_CQ,
	.wrs = WRS_ALL,
	.transitions = xrc_initiator_transitions,
	.ntransitions = IB_TRANSITIONS,
	.post = initiator_post,
	.tx = req_tx,
	.awaits = req_awaits,
	.rx = initiator_rx,
	.timer = recovery_timer,
};

const struct service service_xrc_target = {
	IB_OPERATIONS,
	.type = RNIC_QPT_XRC_RECV,
	.opcodes = SERVICE_XRC,
	.parts = PART_XRCD,
	.transitions = xrc_target_transitions,
	.ntransitions = IB_TRANSITIONS,
	.tx = target_tx,
	.tx_word = resp_tx_word,
	.rx = target_rx,
	.timer = recovery_timer,
};
