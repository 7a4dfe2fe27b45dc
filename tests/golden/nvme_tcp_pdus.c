/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "nvme_tcp_pdus.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/cursor.h"

void nvme_tcp_each_pdu(nvme_tcp_pdu_fn *with)
{
	for (unsigned i = 0; i < tcp_stream_count; i++) {
		const struct tcp_stream *s = &tcp_streams[i];

		for (size_t at = 0; at + NVME_TCP_CH_LEN <= s->len;) {
			struct cursor c = cursor_init(s->bytes + at, NVME_TCP_CH_LEN);
			struct nvme_tcp_ch ch;

			nvme_tcp_ch_get(&c, &ch);
			assert_true(ch.plen >= NVME_TCP_CH_LEN);
			if (at + ch.plen > s->len) /* the capture ends in the middle of it */
				break;
			with(s, s->bytes + at, &ch);
			at += ch.plen;
		}
	}
}
