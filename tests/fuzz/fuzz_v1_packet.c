/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Input: what a packet socket hands over of a frame of RoCEv1, from its GRH on. */
#include "fuzz.h"

#include <string.h>

#include "base/bytes.h"
#include "port/raw/v1_packet.h"
#include "wire/icrc.h"

static bool within(const struct packet_rx *r, const uint8_t *b, size_t len)
{
	return r->data == b + GRH_LEN && r->len >= BTH_LEN &&
	       r->data + r->len + ICRC_LEN <= b + len;
}

/* Laid out anew by us, the packet is the same bytes but for a hop limit that says nothing. */
static void goes_on(const struct packet_rx *r, const uint8_t *as)
{
	struct packet_tx t = {.flow = &r->flow,
			      .hdr_len = BTH_LEN,
			      .niov = 1,
			      .payload_len = (uint32_t)(r->len - BTH_LEN),
			      .iov = {{(void *)(uintptr_t)(r->data + BTH_LEN), r->len - BTH_LEN}}};
	uint8_t *b;

	memcpy(t.hdr, r->data, BTH_LEN);
	b = malloc(v1_packet_len(&t));
	must(b);
	must(v1_packet_put(b, &t) == r->icrc);
	if (r->flow.ttl)
		must(memcmp(b, as, v1_packet_len(&t)) == 0);
	free(b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *b = malloc(size + 1);
	struct packet_rx r;

	must(b);
	memcpy(b, data, size);
	switch (v1_packet_take(b, size, &r)) {
	case V1_SHORT:
		break;
	case V1_ICRC_BAD: /* as nearly all of what is made up: with the right one it is good */
		must(within(&r, b, size));
		st_le32(b + (r.data - b) + r.len,
			icrc_end(icrc_begin(&r.flow, 0, r.len + ICRC_LEN, r.data, r.len)));
		must(v1_packet_take(b, size, &r) == V1_GOOD);
		__attribute__((fallthrough));
	case V1_GOOD:
		must(within(&r, b, size));
		goes_on(&r, b);
	}
	free(b);
	return 0;
}
