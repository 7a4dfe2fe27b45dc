/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The unreliable datagram: a packet is a message; the WQE says to whom, and a receive takes it from
 * anybody who knows the Q_Key.
 */
#include "base/bytes.h"
#include "rnic/ib/ib.h"
#include "wire/grh.h"

/* In a receive's SL, as mlx5 gives it with RoCE: which network header stands before the payload.
 * UCX believes it rather than the header. */
#define SL_GRH	     0
#define SL_IPV6	     1
#define SL_IPV4	     2
#define IPV4_LEN     20
#define UDP_LEN	     8
#define IPPROTO_UDP_ 17

static void ud_post(struct rnic_qp *qp, struct send_wqe *w, const struct rnic_send_wr *wr)
{
	w->ud.flow = *wr->ud.flow;
	w->ud.qpn = wr->ud.qpn & QPN_MASK;
	w->ud.qkey = wr->ud.qkey;
	if (w->ud.qpn == MULTICAST_QPN)
		qp->mcast_source = w->ud.flow.sgid;
	w->ud.flow.sport = flow_sport(w->ud.flow.flow_label, qp->qpn, w->ud.qpn);
}

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
 * identification is 0 here; a checksum goes with what is written. RoCEv1's GRH is as it came.
 */
static void grh_build(uint8_t grh[GRH_LEN], const struct flow *f, size_t payload_len)
{
	const size_t udp_len = UDP_LEN + payload_len;
	uint8_t *ip = grh + GRH_LEN - IPV4_LEN;

	if (f->rocev1) {
		grh_put(grh, f, payload_len);
		return;
	}
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

static bool ud_rx(struct rnic_qp *qp, struct pkt *p, const struct packet_rx *rx, uint64_t now)
{
	const struct recv_wqe *w = recv_peek(qp);
	struct rnic_wc wc = {
		.opcode = RNIC_WC_RECV,
		.byte_len = GRH_LEN + p->len,
		.src_qp = p->h.deth.sqpn,
		.wc_flags = RNIC_WC_GRH,
		.sl = rx->flow.rocev1		    ? SL_GRH
		      : gid_is_ipv4(&rx->flow.dgid) ? SL_IPV4
						    : SL_IPV6,
	};
	uint8_t grh[GRH_LEN];

	(void)now;
	if (p->h.deth.qkey != qp->attr.qkey) {
		count(qp, rx_drop_qkey, 1);
		return false;
	}
	if (p->len > qp->mtu || !w || w->length < GRH_LEN + p->len) {
		count(qp, rx_drop_request, 1);
		return false;
	}
	recv_take(qp);
	w = rq_at(&qp->rq, qp->rq.cons);
	grh_build(grh, &rx->flow, rx->len + ICRC_LEN);
	if (sge_scatter(qp->recv_pd, w->sge, w->num_sge, 0, grh, GRH_LEN) ||
	    sge_scatter(qp->recv_pd, w->sge, w->num_sge, GRH_LEN, p->payload, p->len)) {
		unreliable_recv_broken(qp);
		return false;
	}
	if (p->flags & OPF_IMMDT) {
		memcpy(&wc.imm_or_rkey, p->h.immdt, sizeof(p->h.immdt));
		wc.wc_flags |= RNIC_WC_WITH_IMM;
	}
	count(qp, rx_bytes, p->len);
	recv_complete(qp, &wc, p->h.bth.se);
	return false;
}

const struct service service_ud = {
	IB_OPERATIONS,
	.type = RNIC_QPT_UD,
	.opcodes = SERVICE_UD,
	.parts = PART_PD | PART_SEND_CQ | PART_RECV_CQ,
	.may_parts = PART_SRQ,
	.wrs = 1u << RNIC_WR_SEND | 1u << RNIC_WR_SEND_WITH_IMM,
	.datagrams = true,
	.transitions = ud_transitions,
	.ntransitions = IB_TRANSITIONS,
	.post = ud_post,
	.tx = unreliable_tx,
	.awaits = unreliable_awaits,
	.rx = ud_rx,
};
