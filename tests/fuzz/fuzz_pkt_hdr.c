/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Input: a packet from the BTH on, without ICRC. */
#include "fuzz.h"

#include <errno.h>
#include <string.h>

#include "wire/bth.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct pkt_hdr h, again;
	uint8_t once[PKT_HDR_MAX], twice[PKT_HDR_MAX];
	const struct opcode_info *op;
	int len = pkt_hdr_decode(&h, data, size);

	if (len < 0) {
		must(len == -EBADMSG);
		return 0;
	}
	op = &opcode_table[data[0]];
	must(op->name && len == BTH_LEN + op->ext_len);
	must((size_t)len + h.bth.pad <= size);
	must(h.bth.psn <= PSN_MASK && h.bth.dqpn <= QPN_MASK);
	must(pkt_hdr_encode(&h, once) == (size_t)len);
	/* The same bytes, but for what is reserved in the headers behind the BTH. */
	for (int i = 0; i < len; i++) {
		uint8_t mask = (op->flags & OPF_DETH) && i == BTH_LEN + 4 ? 0
			       : (op->flags & OPF_XRCETH) && i == BTH_LEN ? 0
									  : 0xff;
		must(once[i] == (data[i] & mask));
	}
	must(pkt_hdr_decode(&again, once, (size_t)len) == (h.bth.pad ? -EBADMSG : len));
	must(pkt_hdr_decode(&again, data, size) == len);
	must(pkt_hdr_encode(&again, twice) == (size_t)len);
	must(!memcmp(once, twice, (size_t)len));
	return 0;
}
