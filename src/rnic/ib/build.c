/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Building packets: headers, and the payload in its place. */
#include "rnic/ib/ib.h"

void packet_finish(struct rnic_qp *qp, struct packet_tx *tx, struct pkt_hdr *h)
{
	h->bth.opcode |= qp->service->opcodes;
	packet_finish_own(qp, tx, h);
}

void packet_finish_own(struct rnic_qp *qp, struct packet_tx *tx, struct pkt_hdr *h)
{
	struct rnic *r = qp->rnic;

	tx->pad = (uint8_t)(-tx->payload_len & 3);
	h->bth.pad = tx->pad;
	h->bth.tver = 0;
	h->bth.migreq = false;
	h->bth.pkey = PKEY_DEFAULT;
	h->bth.fecn = h->bth.becn = false;
	h->bth.tag = qp->tag_out;
	tx->hdr_len = (uint8_t)pkt_hdr_encode(h, tx->hdr);
	count(qp, tx_packets, 1);
	count(qp, tx_bytes, tx->payload_len);
	trace(r, TRACE_tx, qp->qpn, (uint64_t)h->bth.opcode << 24 | h->bth.psn, tx->payload_len);
}

static const struct {
	uint8_t first, middle, last, only;
} request_opcodes[] = {
	[RNIC_WR_SEND] = {OPCODE_RC_SEND_FIRST, OPCODE_RC_SEND_MIDDLE, OPCODE_RC_SEND_LAST,
			  OPCODE_RC_SEND_ONLY},
	[RNIC_WR_SEND_WITH_IMM] = {OPCODE_RC_SEND_FIRST, OPCODE_RC_SEND_MIDDLE,
				   OPCODE_RC_SEND_LAST_WITH_IMM, OPCODE_RC_SEND_ONLY_WITH_IMM},
	[RNIC_WR_SEND_WITH_INV] = {OPCODE_RC_SEND_FIRST, OPCODE_RC_SEND_MIDDLE,
				   OPCODE_RC_SEND_LAST_WITH_INV, OPCODE_RC_SEND_ONLY_WITH_INV},
	[RNIC_WR_RDMA_WRITE] = {OPCODE_RC_WRITE_FIRST, OPCODE_RC_WRITE_MIDDLE, OPCODE_RC_WRITE_LAST,
				OPCODE_RC_WRITE_ONLY},
	[RNIC_WR_RDMA_WRITE_WITH_IMM] = {OPCODE_RC_WRITE_FIRST, OPCODE_RC_WRITE_MIDDLE,
					 OPCODE_RC_WRITE_LAST_WITH_IMM,
					 OPCODE_RC_WRITE_ONLY_WITH_IMM},
	[RNIC_WR_RDMA_READ] = {.only = OPCODE_RC_READ_REQUEST},
	[RNIC_WR_ATOMIC_WRITE] = {.only = OPCODE_RC_ATOMIC_WRITE},
	[RNIC_WR_ATOMIC_CMP_AND_SWP] = {.only = OPCODE_RC_COMPARE_SWAP},
	[RNIC_WR_ATOMIC_FETCH_AND_ADD] = {.only = OPCODE_RC_FETCH_ADD},
};

static uint8_t request_opcode(const struct send_wqe *w, uint32_t idx)
{
	if (w->npkts == 1 || wqe_wants_response(w))
		return request_opcodes[w->opcode].only;
	if (idx == 0)
		return request_opcodes[w->opcode].first;
	return idx == w->npkts - 1 ? request_opcodes[w->opcode].last
				   : request_opcodes[w->opcode].middle;
}

static int request_payload(const struct rnic_qp *qp, struct packet_tx *tx, const struct send_wqe *w,
			   uint32_t off)
{
	tx->payload_len = min_of(w->length - off, qp->mtu);
	if (w->flags & RNIC_SEND_INLINE) {
		tx->iov[0] = (struct iovec){(uint8_t *)w->sge + off, tx->payload_len};
		tx->niov = tx->payload_len ? 1 : 0;
		return 0;
	}
	return sge_gather(qp->pd, w->sge, w->num_sge, off, tx->payload_len, 0, tx->iov, &tx->niov);
}

int request_build(struct rnic_qp *qp, struct packet_tx *tx, const struct send_wqe *w, uint32_t idx,
		  uint32_t span, bool ackreq)
{
	uint32_t off = idx * qp->mtu;
	struct pkt_hdr h;
	uint32_t flags;

	h.bth.opcode = request_opcode(w, idx);
	flags = opcode_table[h.bth.opcode | qp->service->opcodes].flags;
	h.bth.se = (w->flags & RNIC_SEND_SOLICITED) && (flags & (OPF_LAST | OPF_ONLY)) &&
		   (flags & (OPF_SEND | OPF_IMMDT));
	h.bth.ackreq = ackreq;
	h.bth.dqpn = qp->attr.dest_qpn;
	h.bth.psn = psn_add(w->first_psn, idx);
	if (flags & OPF_XRCETH)
		h.xrc_srqn = w->xrc_srqn;
	if (flags & OPF_RETH) {
		h.reth.va = w->remote_addr + off;
		h.reth.rkey = w->rkey;
		h.reth.dma_len = w->length;
		if (w->opcode == RNIC_WR_RDMA_READ)
			h.reth.dma_len = min_of(w->length - off, span * qp->mtu);
	}
	if (flags & OPF_ATOMICETH) {
		h.atomic.va = w->remote_addr;
		h.atomic.rkey = w->rkey;
		h.atomic.compare = 0;
		h.atomic.swap_add = w->atomic.compare_add;
		if (w->opcode == RNIC_WR_ATOMIC_CMP_AND_SWP) {
			h.atomic.compare = w->atomic.compare_add;
			h.atomic.swap_add = w->atomic.swap;
		}
	}
	if (flags & OPF_IMMDT)
		memcpy(h.immdt, &w->imm_or_rkey, sizeof(h.immdt));
	if (flags & OPF_IETH)
		h.ieth_rkey = w->imm_or_rkey;
	tx->flow = &qp->attr.flow;
	if (unlikely(flags & OPF_DETH)) {
		tx->flow = &w->ud.flow;
		h.bth.dqpn = w->ud.qpn;
		h.deth.qkey = w->ud.qkey & QKEY_OWN ? qp->attr.qkey : w->ud.qkey;
		h.deth.sqpn = qp->qpn;
	}
	tx->payload_len = 0;
	tx->niov = 0;
	if ((flags & OPF_PAYLOAD) && request_payload(qp, tx, w, off))
		return -EFAULT;
	packet_finish(qp, tx, &h);
	return 0;
}
