/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What two responders of iWARP say to the same faulty requests (tests/vm/wire/iwarp_ends.c,
 * `denials`), each asked by the other: Linux's siw and weft. RFC 5040, section 4.8, has a Terminate
 * for each. siw writes it with the halves of its bytes changed (docs/siw.md), serves a READ that no
 * right allows, and calls a SEND that is too long one without a receive.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "base/bytes.h"
#include "base/compiler.h"
#include "tcp_streams.h"
#include "wire/crc32c.h"
#include "wire/mpa.h"
#include "wire/rdmap.h"

enum { FAULTS = 11, CONTROL_LEN = 3 };

static unsigned of_siw; /* streams; the rest are of weft's */

/* The control word of the Terminate that a stream ends with; 0: it has none. */
static uint32_t terminate_of(const struct tcp_stream *s, size_t at)
{
	while (s->len - at >= MPA_LENGTH_LEN) {
		const uint8_t *p = s->bytes + at;
		size_t len = ld_be16(p), all = mpa_fpdu_len(len);
		struct ddp_hdr h;
		int n;

		if (all > s->len - at)
			break;
		assert_int_equal(crc32c(p, all - MPA_CRC_LEN), ld_le32(p + all - MPA_CRC_LEN));
		n = ddp_hdr_get(&h, p + MPA_LENGTH_LEN, len);
		assert_true(n > 0);
		if (h.opcode == RDMAP_TERMINATE) {
			assert_true(len >= (size_t)n + CONTROL_LEN);
			assert_int_equal(all, s->len - at); /* nothing follows it */
			return ld_be32(p + MPA_LENGTH_LEN + n) >> 8;
		}
		at += all;
	}
	return 0;
}

static void expect(unsigned from, unsigned to, const uint32_t want[FAULTS])
{
	unsigned n = 0;

	for (unsigned i = from; i < to; i++) {
		const struct tcp_stream *s = &tcp_streams[i];
		struct mpa_start m;

		if (s->from_client || s->len < MPA_START_LEN || mpa_start_get(&m, s->bytes) != 0)
			continue;
		assert_true(n < FAULTS);
		assert_int_equal(terminate_of(s, MPA_START_LEN + m.private_len), want[n]);
		n++;
	}
	assert_int_equal(n, FAULTS);
}

/* Layer and type, code, and which headers follow: 0x80 a segment's length, 0x40 its DDP header,
 * 0x20 the READ's request. */
static void weft_says_what_the_rfc_has(void **state)
{
	static const uint32_t want[FAULTS] = {
		0x1100c0, 0x1101c0, 0x0102c0, 0x1102c0, 0x0100e0, 0x0101e0,
		0x0102e0, 0x0103e0, 0x1205c0, 0x1205c0, 0x1202c0,
	};

	(void)state;
	expect(of_siw, tcp_stream_count, want);
}

static void siw_changes_the_halves(void **state)
{
	static const uint32_t want[FAULTS] = {
		0x110003, 0x110103, 0x110003, 0x110203, 0x100007, 0x100107,
		0,	  0x100307, 0x210203, 0x210203, 0x210203,
	};

	(void)state;
	expect(0, of_siw, want);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(siw_changes_the_halves),
		cmocka_unit_test(weft_says_what_the_rfc_has),
	};

	if (argc != 3) {
		fprintf(stderr, "usage: %s SIW.pcap WEFT.pcap\n", argv[0]);
		return 1;
	}
	tcp_streams_read(argv[1]);
	of_siw = tcp_stream_count;
	tcp_streams_read(argv[2]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
