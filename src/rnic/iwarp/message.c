/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Messages of one segment that have no memory of the application's. */
#include "rnic/iwarp/iwarp.h"

enum iwarp_put iwarp_put_message(struct rnic_qp *qp, struct fpdu_batch *b, uint8_t opcode,
				 uint32_t qn, const uint8_t *body, size_t len)
{
	struct iwarp_qp *w = iwarp_of(qp);
	uint8_t hdr[FPDU_HEADERS_MAX];
	const struct ddp_hdr h = {
		.last = true,
		.dv = DDP_VERSION,
		.rv = RDMAP_VERSION,
		.opcode = opcode,
		.qn = qn,
		.msn = w->msn[qn],
	};
	size_t at = ddp_hdr_put(hdr, &h);

	memcpy(hdr + at, body, len);
	if (!fpdu_out_put(&w->out, b, hdr, at + len, NULL, 0))
		return PUT_NO_ROOM;
	w->msn[qn]++;
	return PUT_ONE;
}
