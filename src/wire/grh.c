/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "wire/grh.h"

#include <string.h>

#include "base/bytes.h"

#define VERSION	      6
#define CLASS_SHIFT   20
#define LABEL_MASK    0xfffffu
#define VERSION_SHIFT 28

void grh_put(uint8_t at[GRH_LEN], const struct flow *f, size_t payload_len)
{
	st_be32(at, (uint32_t)VERSION << VERSION_SHIFT | (uint32_t)f->tos << CLASS_SHIFT |
			    (f->flow_label & LABEL_MASK));
	st_be16(at + 4, (uint16_t)payload_len);
	at[GRH_NEXT_AT] = GRH_NEXT_HEADER;
	at[7] = f->ttl;
	memcpy(at + 8, f->sgid.raw, 16);
	memcpy(at + 24, f->dgid.raw, 16);
}

bool grh_take(const uint8_t *p, size_t len, struct flow *ret, size_t *ret_payload_len)
{
	uint32_t head;

	*ret = (struct flow){.rocev1 = true};
	if (len < GRH_LEN)
		return false;
	head = ld_be32(p);
	*ret_payload_len = ld_be16(p + 4);
	if (head >> VERSION_SHIFT != VERSION || p[GRH_NEXT_AT] != GRH_NEXT_HEADER ||
	    *ret_payload_len > len - GRH_LEN)
		return false;
	ret->tos = (uint8_t)(head >> CLASS_SHIFT);
	ret->flow_label = head & LABEL_MASK;
	ret->ttl = p[7];
	memcpy(ret->sgid.raw, p + 8, 16);
	memcpy(ret->dgid.raw, p + 24, 16);
	return true;
}
