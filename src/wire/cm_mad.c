/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Each message's reader and writer stand side by side, field by field in wire order. Narrow
 * fields share a byte or word with their neighbours, the first of them in the high bits.
 * Reserved bits are written as zero and ignored when read.
 */
#include "wire/cm_mad.h"

#include <assert.h>
#include <errno.h>

#include "base/compiler.h"
#include "base/cursor.h"

/* ---- REQ ----------------------------------------------------------------------------------- */

static void path_decode(struct cm_path *p, struct cursor *c)
{
	uint32_t w;
	uint8_t b;

	p->local_lid = cursor_be16(c);
	p->remote_lid = cursor_be16(c);
	cursor_bytes(c, p->local_gid.raw, sizeof(p->local_gid.raw));
	cursor_bytes(c, p->remote_gid.raw, sizeof(p->remote_gid.raw));
	w = cursor_be32(c); /* flow label 20, reserved 6, packet rate 6 */
	p->flow_label = w >> 12;
	p->packet_rate = w & 0x3f;
	p->traffic_class = cursor_u8(c);
	p->hop_limit = cursor_u8(c);
	b = cursor_u8(c); /* SL 4, subnet local 1, reserved 3 */
	p->sl = b >> 4;
	p->subnet_local = b & 0x08;
	p->local_ack_timeout = cursor_u8(c) >> 3;
}

static void path_encode(const struct cm_path *p, struct wcursor *c)
{
	wcursor_be16(c, p->local_lid);
	wcursor_be16(c, p->remote_lid);
	wcursor_bytes(c, p->local_gid.raw, sizeof(p->local_gid.raw));
	wcursor_bytes(c, p->remote_gid.raw, sizeof(p->remote_gid.raw));
	wcursor_be32(c, p->flow_label << 12 | (p->packet_rate & 0x3f));
	wcursor_u8(c, p->traffic_class);
	wcursor_u8(c, p->hop_limit);
	wcursor_u8(c, (uint8_t)(p->sl << 4 | (p->subnet_local ? 0x08 : 0)));
	wcursor_u8(c, (uint8_t)(p->local_ack_timeout << 3));
}

static void req_decode(struct cm_req *m, struct cursor *c)
{
	uint8_t b;

	m->local_comm_id = cursor_be32(c);
	cursor_skip(c, 1);
	m->ece.vendor_id = cursor_be24(c);
	m->service_id = cursor_be64(c);
	m->local_ca_guid = cursor_be64(c);
	cursor_skip(c, 4);
	m->local_qkey = cursor_be32(c);
	m->local_qpn = cursor_be24(c);
	m->responder_resources = cursor_u8(c);
	m->local_eecn = cursor_be24(c);
	m->initiator_depth = cursor_u8(c);
	m->remote_eecn = cursor_be24(c);
	b = cursor_u8(c); /* timeout 5, transport service 2, flow control 1 */
	m->remote_cm_response_timeout = b >> 3;
	m->transport_service = b >> 1 & 3;
	m->end_to_end_flow_control = b & 1;
	m->starting_psn = cursor_be24(c);
	b = cursor_u8(c); /* timeout 5, retries 3 */
	m->local_cm_response_timeout = b >> 3;
	m->retry_count = b & 7;
	m->pkey = cursor_be16(c);
	b = cursor_u8(c); /* MTU 4, RDC exists 1, RNR retries 3 */
	m->path_mtu = b >> 4;
	m->rdc_exists = b & 0x08;
	m->rnr_retry_count = b & 7;
	b = cursor_u8(c); /* CM retries 4, SRQ 1, extended transport 3 */
	m->max_cm_retries = b >> 4;
	m->srq = b & 0x08;
	m->extended_transport_type = b & 7;
	path_decode(&m->primary, c);
	path_decode(&m->alternate, c);
	cursor_bytes(c, m->private_data, sizeof(m->private_data));
}

static void req_encode(const struct cm_req *m, struct wcursor *c)
{
	wcursor_be32(c, m->local_comm_id);
	wcursor_zero(c, 1);
	wcursor_be24(c, m->ece.vendor_id);
	wcursor_be64(c, m->service_id);
	wcursor_be64(c, m->local_ca_guid);
	wcursor_zero(c, 4);
	wcursor_be32(c, m->local_qkey);
	wcursor_be24(c, m->local_qpn);
	wcursor_u8(c, m->responder_resources);
	wcursor_be24(c, m->local_eecn);
	wcursor_u8(c, m->initiator_depth);
	wcursor_be24(c, m->remote_eecn);
	wcursor_u8(c, (uint8_t)(m->remote_cm_response_timeout << 3 |
				(m->transport_service & 3) << 1 | m->end_to_end_flow_control));
	wcursor_be24(c, m->starting_psn);
	wcursor_u8(c, (uint8_t)(m->local_cm_response_timeout << 3 | (m->retry_count & 7)));
	wcursor_be16(c, m->pkey);
	wcursor_u8(c, (uint8_t)(m->path_mtu << 4 | (m->rdc_exists ? 0x08 : 0) |
				(m->rnr_retry_count & 7)));
	wcursor_u8(c, (uint8_t)(m->max_cm_retries << 4 | (m->srq ? 0x08 : 0) |
				(m->extended_transport_type & 7)));
	path_encode(&m->primary, c);
	path_encode(&m->alternate, c);
	wcursor_bytes(c, m->private_data, sizeof(m->private_data));
}

/* ---- MRA ----------------------------------------------------------------------------------- */

static void mra_decode(struct cm_mra *m, struct cursor *c)
{
	m->local_comm_id = cursor_be32(c);
	m->remote_comm_id = cursor_be32(c);
	m->message_mraed = cursor_u8(c) >> 6;
	m->service_timeout = cursor_u8(c) >> 3;
	cursor_bytes(c, m->private_data, sizeof(m->private_data));
}

static void mra_encode(const struct cm_mra *m, struct wcursor *c)
{
	wcursor_be32(c, m->local_comm_id);
	wcursor_be32(c, m->remote_comm_id);
	wcursor_u8(c, (uint8_t)(m->message_mraed << 6));
	wcursor_u8(c, (uint8_t)(m->service_timeout << 3));
	wcursor_bytes(c, m->private_data, sizeof(m->private_data));
}

/* ---- REJ ----------------------------------------------------------------------------------- */

static void rej_decode(struct cm_rej *m, struct cursor *c)
{
	m->local_comm_id = cursor_be32(c);
	m->remote_comm_id = cursor_be32(c);
	m->message_rejected = cursor_u8(c) >> 6;
	m->reject_info_len = cursor_u8(c) >> 1;
	/* Seven bits can say more than there is room for: nobody shall read past ari. */
	if (m->reject_info_len > CM_REJ_ARI)
		m->reject_info_len = CM_REJ_ARI;
	m->reason = cursor_be16(c);
	cursor_bytes(c, m->ari, sizeof(m->ari));
	cursor_bytes(c, m->private_data, sizeof(m->private_data));
}

static void rej_encode(const struct cm_rej *m, struct wcursor *c)
{
	wcursor_be32(c, m->local_comm_id);
	wcursor_be32(c, m->remote_comm_id);
	wcursor_u8(c, (uint8_t)(m->message_rejected << 6));
	wcursor_u8(c, (uint8_t)(m->reject_info_len << 1));
	wcursor_be16(c, m->reason);
	wcursor_bytes(c, m->ari, sizeof(m->ari));
	wcursor_bytes(c, m->private_data, sizeof(m->private_data));
}

/* ---- REP ----------------------------------------------------------------------------------- */

static void rep_decode(struct cm_rep *m, struct cursor *c)
{
	uint8_t b;

	m->local_comm_id = cursor_be32(c);
	m->remote_comm_id = cursor_be32(c);
	m->local_qkey = cursor_be32(c);
	m->local_qpn = cursor_be24(c);
	m->ece.vendor_id = (uint32_t)cursor_u8(c) << 16;
	m->local_eecn = cursor_be24(c);
	m->ece.vendor_id |= (uint32_t)cursor_u8(c) << 8;
	m->starting_psn = cursor_be24(c);
	m->ece.vendor_id |= cursor_u8(c);
	m->responder_resources = cursor_u8(c);
	m->initiator_depth = cursor_u8(c);
	b = cursor_u8(c); /* ACK delay 5, failover accepted 2, flow control 1 */
	m->target_ack_delay = b >> 3;
	m->failover_accepted = b >> 1 & 3;
	m->end_to_end_flow_control = b & 1;
	b = cursor_u8(c); /* RNR retries 3, SRQ 1, reserved 4 */
	m->rnr_retry_count = b >> 5;
	m->srq = b & 0x10;
	m->local_ca_guid = cursor_be64(c);
	cursor_bytes(c, m->private_data, sizeof(m->private_data));
}

static void rep_encode(const struct cm_rep *m, struct wcursor *c)
{
	wcursor_be32(c, m->local_comm_id);
	wcursor_be32(c, m->remote_comm_id);
	wcursor_be32(c, m->local_qkey);
	wcursor_be24(c, m->local_qpn);
	wcursor_u8(c, (uint8_t)(m->ece.vendor_id >> 16));
	wcursor_be24(c, m->local_eecn);
	wcursor_u8(c, (uint8_t)(m->ece.vendor_id >> 8));
	wcursor_be24(c, m->starting_psn);
	wcursor_u8(c, (uint8_t)m->ece.vendor_id);
	wcursor_u8(c, m->responder_resources);
	wcursor_u8(c, m->initiator_depth);
	wcursor_u8(c, (uint8_t)(m->target_ack_delay << 3 | (m->failover_accepted & 3) << 1 |
				m->end_to_end_flow_control));
	wcursor_u8(c, (uint8_t)(m->rnr_retry_count << 5 | (m->srq ? 0x10 : 0)));
	wcursor_be64(c, m->local_ca_guid);
	wcursor_bytes(c, m->private_data, sizeof(m->private_data));
}

/* ---- RTU, DREQ, DREP ------------------------------------------------------------------------ */

static void rtu_decode(struct cm_rtu *m, struct cursor *c)
{
	m->local_comm_id = cursor_be32(c);
	m->remote_comm_id = cursor_be32(c);
	cursor_bytes(c, m->private_data, sizeof(m->private_data));
}

static void rtu_encode(const struct cm_rtu *m, struct wcursor *c)
{
	wcursor_be32(c, m->local_comm_id);
	wcursor_be32(c, m->remote_comm_id);
	wcursor_bytes(c, m->private_data, sizeof(m->private_data));
}

static void dreq_decode(struct cm_dreq *m, struct cursor *c)
{
	m->local_comm_id = cursor_be32(c);
	m->remote_comm_id = cursor_be32(c);
	m->remote_qpn = cursor_be24(c);
	cursor_skip(c, 1);
	cursor_bytes(c, m->private_data, sizeof(m->private_data));
}

static void dreq_encode(const struct cm_dreq *m, struct wcursor *c)
{
	wcursor_be32(c, m->local_comm_id);
	wcursor_be32(c, m->remote_comm_id);
	wcursor_be24(c, m->remote_qpn);
	wcursor_zero(c, 1);
	wcursor_bytes(c, m->private_data, sizeof(m->private_data));
}

static void drep_decode(struct cm_drep *m, struct cursor *c)
{
	m->local_comm_id = cursor_be32(c);
	m->remote_comm_id = cursor_be32(c);
	cursor_bytes(c, m->private_data, sizeof(m->private_data));
}

static void drep_encode(const struct cm_drep *m, struct wcursor *c)
{
	wcursor_be32(c, m->local_comm_id);
	wcursor_be32(c, m->remote_comm_id);
	wcursor_bytes(c, m->private_data, sizeof(m->private_data));
}

/* ---- SIDR_REQ, SIDR_REP -------------------------------------------------------------------- */

static void sidr_req_decode(struct cm_sidr_req *m, struct cursor *c)
{
	m->request_id = cursor_be32(c);
	m->pkey = cursor_be16(c);
	cursor_skip(c, 2);
	m->service_id = cursor_be64(c);
	cursor_bytes(c, m->private_data, sizeof(m->private_data));
}

static void sidr_req_encode(const struct cm_sidr_req *m, struct wcursor *c)
{
	wcursor_be32(c, m->request_id);
	wcursor_be16(c, m->pkey);
	wcursor_zero(c, 2);
	wcursor_be64(c, m->service_id);
	wcursor_bytes(c, m->private_data, sizeof(m->private_data));
}

static void sidr_rep_decode(struct cm_sidr_rep *m, struct cursor *c)
{
	m->request_id = cursor_be32(c);
	m->status = cursor_u8(c);
	m->info_len = min_of(cursor_u8(c), (uint8_t)CM_SIDR_REP_INFO);
	cursor_skip(c, 2);
	m->qpn = cursor_be24(c);
	cursor_skip(c, 1);
	m->service_id = cursor_be64(c);
	m->qkey = cursor_be32(c);
	cursor_bytes(c, m->info, sizeof(m->info));
	cursor_bytes(c, m->private_data, sizeof(m->private_data));
}

static void sidr_rep_encode(const struct cm_sidr_rep *m, struct wcursor *c)
{
	wcursor_be32(c, m->request_id);
	wcursor_u8(c, m->status);
	wcursor_u8(c, m->info_len);
	wcursor_zero(c, 2);
	wcursor_be24(c, m->qpn);
	wcursor_zero(c, 1);
	wcursor_be64(c, m->service_id);
	wcursor_be32(c, m->qkey);
	wcursor_bytes(c, m->info, sizeof(m->info));
	wcursor_bytes(c, m->private_data, sizeof(m->private_data));
}

/* ---- any of them --------------------------------------------------------------------------- */

int cm_msg_decode(struct cm_msg *m, const uint8_t mad[MAD_LEN])
{
	struct cursor c = cursor_init(mad, MAD_LEN);

	mad_hdr_decode(&m->hdr, &c);
	if (m->hdr.base_version != MAD_BASE_VERSION || m->hdr.mgmt_class != CM_CLASS ||
	    m->hdr.class_version != CM_CLASS_VERSION)
		return -EBADMSG;
	switch (m->hdr.attr_id) {
	case CM_ATTR_REQ:
		req_decode(&m->req, &c);
		m->req.ece.options = m->hdr.attr_mod;
		break;
	case CM_ATTR_MRA:
		mra_decode(&m->mra, &c);
		break;
	case CM_ATTR_REJ:
		rej_decode(&m->rej, &c);
		break;
	case CM_ATTR_REP:
		rep_decode(&m->rep, &c);
		m->rep.ece.options = m->hdr.attr_mod;
		break;
	case CM_ATTR_RTU:
		rtu_decode(&m->rtu, &c);
		break;
	case CM_ATTR_DREQ:
		dreq_decode(&m->dreq, &c);
		break;
	case CM_ATTR_DREP:
		drep_decode(&m->drep, &c);
		break;
	case CM_ATTR_SIDR_REQ:
		sidr_req_decode(&m->sidr_req, &c);
		break;
	case CM_ATTR_SIDR_REP:
		sidr_rep_decode(&m->sidr_rep, &c);
		break;
	default:
		return -EOPNOTSUPP;
	}
	assert(!c.overrun && cursor_left(&c) == 0);
	return 0;
}

void cm_msg_encode(const struct cm_msg *m, uint8_t mad[MAD_LEN])
{
	struct wcursor c = wcursor_init(mad, MAD_LEN);
	struct mad_hdr h = m->hdr;

	if (h.attr_id == CM_ATTR_REQ)
		h.attr_mod = m->req.ece.options;
	else if (h.attr_id == CM_ATTR_REP)
		h.attr_mod = m->rep.ece.options;
	mad_hdr_encode(&h, &c);
	switch (m->hdr.attr_id) {
	case CM_ATTR_REQ:
		req_encode(&m->req, &c);
		break;
	case CM_ATTR_MRA:
		mra_encode(&m->mra, &c);
		break;
	case CM_ATTR_REJ:
		rej_encode(&m->rej, &c);
		break;
	case CM_ATTR_REP:
		rep_encode(&m->rep, &c);
		break;
	case CM_ATTR_RTU:
		rtu_encode(&m->rtu, &c);
		break;
	case CM_ATTR_DREQ:
		dreq_encode(&m->dreq, &c);
		break;
	case CM_ATTR_DREP:
		drep_encode(&m->drep, &c);
		break;
	case CM_ATTR_SIDR_REQ:
		sidr_req_encode(&m->sidr_req, &c);
		break;
	case CM_ATTR_SIDR_REP:
		sidr_rep_encode(&m->sidr_rep, &c);
		break;
	default:
		assert(!"a CM message that cm_msg_decode() does not read");
	}
	assert(!c.overrun && c.p == c.end);
}
