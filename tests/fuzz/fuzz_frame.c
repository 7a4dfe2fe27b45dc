/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Input: a frame of Ethernet as XDP hands it over. */
#include "fuzz.h"

#include <string.h>

#include "base/bytes.h"
#include "port/xdp/frame.h"
#include "wire/icrc.h"

static const struct frame_macs macs;

static bool within(const struct packet_rx *r, const uint8_t *b, size_t len)
{
	return r->data > b && r->len >= BTH_LEN && r->data + r->len + ICRC_LEN <= b + len;
}

/* Laid out anew by us, the packet is read as the same. */
static void goes_on(const struct packet_rx *r)
{
	struct packet_tx t = {.flow = &r->flow,
			      .hdr_len = BTH_LEN,
			      .niov = 1,
			      .payload_len = (uint32_t)(r->len - BTH_LEN),
			      .iov = {{(void *)(uintptr_t)(r->data + BTH_LEN), r->len - BTH_LEN}}};
	struct packet_sent sent;
	struct packet_rx again;
	uint8_t *b;

	memcpy(t.hdr, r->data, BTH_LEN);
	b = malloc(frame_len(&t));
	must(b);
	sent = frame_put(b, &macs, &t, r->flow.sport);
	must(frame_take(b, frame_len(&t), &again) == FRAME_GOOD);
	must(again.len == r->len && memcmp(again.data, r->data, r->len) == 0);
	must(gid_equal(&again.flow.sgid, &r->flow.sgid));
	must(gid_equal(&again.flow.dgid, &r->flow.dgid));
	must(again.flow.sport == r->flow.sport && again.flow.tos == r->flow.tos);
	must(again.icrc == sent.icrc && again.ip_id == 0);
	free(b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *b = malloc(size + 1);
	struct packet_rx r;

	must(b);
	memcpy(b, data, size);
	switch (frame_take(b, size, &r)) {
	case FRAME_SHORT:
		break;
	case FRAME_ICRC_BAD: /* as nearly all of what is made up: with the right one it is good */
		must(within(&r, b, size));
		st_le32(b + (r.data - b) + r.len,
			icrc_end(icrc_begin(&r.flow, r.ip_id, r.len + ICRC_LEN, r.data, r.len)));
		must(frame_take(b, size, &r) == FRAME_GOOD);
		__attribute__((fallthrough));
	case FRAME_GOOD:
		must(within(&r, b, size));
		if (r.len % 4 == 0) /* as all of RoCE's are */
			goes_on(&r);
	}
	free(b);
	return 0;
}
