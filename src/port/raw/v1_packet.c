/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "port/raw/v1_packet.h"

#include <string.h>

#include "base/bytes.h"
#include "wire/icrc.h"

#define HOPS_DEFAULT 64

static size_t payload_len(const struct packet_tx *t)
{
	return packet_tx_len(t) + ICRC_LEN;
}

size_t v1_packet_len(const struct packet_tx *t)
{
	return GRH_LEN + payload_len(t);
}

uint32_t v1_packet_put(uint8_t *at, const struct packet_tx *t)
{
	const size_t len = payload_len(t);
	uint8_t *bth = at + GRH_LEN, *end;
	struct flow wire = *t->flow;
	uint32_t icrc;

	if (!wire.ttl)
		wire.ttl = HOPS_DEFAULT;
	grh_put(at, &wire, len);
	end = packet_tx_copy(bth, t);
	/* Of what was copied: the application may write to its memory meanwhile. */
	icrc = icrc_end(icrc_begin(&wire, 0, len, bth, len - ICRC_LEN));
	st_le32(end, icrc);
	return icrc;
}

enum v1_verdict v1_packet_take(const uint8_t *p, size_t len, struct packet_rx *ret)
{
	size_t payload = 0;

	*ret = (struct packet_rx){0};
	if (!grh_take(p, len, &ret->flow, &payload) || payload < BTH_LEN + ICRC_LEN)
		return V1_SHORT;
	ret->data = p + GRH_LEN;
	ret->len = payload - ICRC_LEN;
	ret->icrc = ld_le32(ret->data + ret->len);
	return icrc_check(&ret->flow, 0, ret->data, payload) ? V1_GOOD : V1_ICRC_BAD;
}
