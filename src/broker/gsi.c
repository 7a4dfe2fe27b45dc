/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "broker/gsi.h"

#include "wire/bth.h"

const uint8_t *gsi_decode(const struct packet_rx *rx)
{
	struct pkt_hdr h;
	int hdr_len = pkt_hdr_decode(&h, rx->data, rx->len);

	if (hdr_len < 0 || h.bth.opcode != OPCODE_UD_SEND_ONLY || h.bth.dqpn != GSI_QPN ||
	    h.deth.qkey != GSI_QKEY)
		return NULL;
	if (rx->len != (size_t)hdr_len + MAD_LEN + h.bth.pad || h.bth.pad)
		return NULL;
	return rx->data + hdr_len;
}

const uint8_t *gsi_quoted(const uint8_t *packet, size_t len, size_t *ret_len)
{
	struct pkt_hdr h;
	int hdr_len = pkt_hdr_decode(&h, packet, len);

	if (hdr_len < 0 || h.bth.opcode != OPCODE_UD_SEND_ONLY || h.bth.dqpn != GSI_QPN)
		return NULL;
	*ret_len = min_of(len - (size_t)hdr_len, (size_t)MAD_LEN);
	return packet + hdr_len;
}

void gsi_encode(struct packet_tx *ret, const struct flow *flow, const uint8_t mad[MAD_LEN],
		uint32_t psn)
{
	struct pkt_hdr h = {
		.bth = {.opcode = OPCODE_UD_SEND_ONLY,
			.pkey = PKEY_DEFAULT,
			.dqpn = GSI_QPN,
			.psn = psn & PSN_MASK},
		.deth = {.qkey = GSI_QKEY, .sqpn = GSI_QPN},
	};

	*ret = (struct packet_tx){.flow = flow, .niov = 1, .payload_len = MAD_LEN};
	ret->hdr_len = (uint8_t)pkt_hdr_encode(&h, ret->hdr);
	ret->iov[0] = (struct iovec){.iov_base = (void *)(uintptr_t)mad, .iov_len = MAD_LEN};
}
