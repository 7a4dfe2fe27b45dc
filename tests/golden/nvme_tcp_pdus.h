/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#ifndef WEFT_TESTS_GOLDEN_NVME_TCP_PDUS_H
#define WEFT_TESTS_GOLDEN_NVME_TCP_PDUS_H

#include "tcp_streams.h"
#include "wire/nvme_tcp.h"

typedef void nvme_tcp_pdu_fn(const struct tcp_stream *s, const uint8_t *pdu,
			     const struct nvme_tcp_ch *ch);

/* With each PDU of the streams that were read, whole ones: stream by stream. */
void nvme_tcp_each_pdu(nvme_tcp_pdu_fn *with);

#endif
