/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* MPA, DDP and RDMAP as bytes: what the golden captures of siw do not have. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <string.h>
#include <cmocka.h>

#include <errno.h>

#include "base/bytes.h"
#include "base/compiler.h"
#include "wire/crc32c.h"
#include "wire/iwpm.h"
#include "wire/mpa.h"
#include "wire/rdmap.h"

/* --- MPA -------------------------------------------------------------------------------------- */

/* RFC 5044 figure 5: the first FPDU of a stream with markers, a Send of 24 zeros. */
static void an_fpdu_of_the_rfc_has_its_crc(void **state)
{
	uint8_t f[52] = {0};
	const struct ddp_hdr send = {.last = true,
				     .dv = DDP_VERSION,
				     .rv = RDMAP_VERSION,
				     .opcode = RDMAP_SEND,
				     .msn = 1};

	(void)state;
	mpa_marker_put(f, 0);
	st_be16(f + 4, DDP_UNTAGGED_LEN + 24);
	assert_int_equal(ddp_hdr_put(f + 6, &send), DDP_UNTAGGED_LEN);
	assert_int_equal(mpa_pad(DDP_UNTAGGED_LEN + 24), 0);
	assert_int_equal(MPA_MARKER_LEN + mpa_fpdu_len(DDP_UNTAGGED_LEN + 24), sizeof(f));
	st_le32(f + 48, crc32c(f, 48));
	assert_memory_equal(f + 48, "\x52\x23\x99\x83", 4);
}

static void what_is_no_start_is_refused(void **state)
{
	uint8_t b[MPA_START_LEN];
	struct mpa_start m = {.flags = MPA_CRC, .rev = 1, .private_len = 512}, again;

	(void)state;
	mpa_start_put(b, &m);
	assert_int_equal(mpa_start_get(&again, b), 0);
	assert_false(again.reply);
	assert_int_equal(again.flags, MPA_CRC);
	assert_int_equal(again.rev, 1);
	assert_int_equal(again.private_len, 512);
	for (unsigned i = 0; i < 16; i++) {
		b[i] ^= 0x20;
		assert_int_equal(mpa_start_get(&again, b), -EBADMSG);
		assert_true(mpa_start_may_be(b, i, false));
		assert_false(mpa_start_may_be(b, i + 1, false));
		b[i] ^= 0x20;
	}
}

/* RFC 6581 section 6: A and B are the high bits of the one, C and D of the other. */
static void depths_and_rtr_share_their_fields(void **state)
{
	static const struct {
		struct mpa_enhanced e;
		uint8_t bytes[4];
	} known[] = {
		{{.ird = 1, .ord = 2}, {0x00, 0x01, 0x00, 0x02}},
		{{.p2p = true, .ird = MPA_DEPTH_ANY}, {0xbf, 0xff, 0x00, 0x00}},
		{{.rtr_send = true, .ord = MPA_DEPTH_ANY}, {0x40, 0x00, 0x3f, 0xff}},
		{{.p2p = true, .rtr_write = true, .ird = 32, .ord = 16}, {0x80, 0x20, 0x80, 0x10}},
		{{.p2p = true, .rtr_read = true, .ird = 256}, {0x81, 0x00, 0x40, 0x00}},
	};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(known); i++) {
		struct mpa_enhanced e;
		uint8_t b[4];

		mpa_enhanced_put(b, &known[i].e);
		assert_memory_equal(b, known[i].bytes, 4);
		mpa_enhanced_get(&e, b);
		assert_int_equal(e.p2p, known[i].e.p2p);
		assert_int_equal(e.rtr_send, known[i].e.rtr_send);
		assert_int_equal(e.rtr_write, known[i].e.rtr_write);
		assert_int_equal(e.rtr_read, known[i].e.rtr_read);
		assert_int_equal(e.ird, known[i].e.ird);
		assert_int_equal(e.ord, known[i].e.ord);
	}
}

/* However the segment's size falls, an FPDU of that much is no longer than it, with its markers
 * wherever they come to stand, and one of four bytes more is. */
static void a_segment_holds_an_fpdu(void **state)
{
	(void)state;
	assert_int_equal(mpa_mulpdu(1448, false), 1442);
	assert_int_equal(mpa_mulpdu(1460, true), 1442);
	assert_int_equal(mpa_mulpdu(100, false), MPA_MULPDU_MIN);
	assert_int_equal(mpa_mulpdu(0, true), MPA_MULPDU_MIN);
	assert_int_equal(mpa_mulpdu(1 << 20, true), MPA_MULPDU_MAX);
	for (size_t emss = 200; emss < 9100; emss++) {
		size_t plain = mpa_fpdu_len(mpa_mulpdu(emss, false));
		size_t marked = mpa_fpdu_len(mpa_mulpdu(emss, true));
		size_t most = (emss + MPA_MARKER_SPACING - 1) / MPA_MARKER_SPACING * MPA_MARKER_LEN;

		assert_in_range(plain, emss - 3, emss);
		assert_in_range(marked + most, emss - 3, emss);
	}
}

static void padding_makes_fours(void **state)
{
	(void)state;
	for (size_t n = 0; n < 65536; n++) {
		assert_in_range(mpa_pad(n), 0, MPA_PAD_MAX);
		assert_int_equal(mpa_fpdu_len(n) % 4, 0);
	}
}

static void markers_stand_at_each_512th_byte(void **state)
{
	uint8_t b[MPA_MARKER_LEN];

	(void)state;
	assert_int_equal(mpa_to_marker(0), 0);
	assert_int_equal(mpa_to_marker(1), 511);
	assert_int_equal(mpa_to_marker(511), 1);
	assert_int_equal(mpa_to_marker(512), 0);
	assert_int_equal(mpa_to_marker(UINT64_MAX), 1);
	mpa_marker_put(b, 0xabcd);
	assert_memory_equal(b, "\0\0\xab\xcd", 4);
	assert_int_equal(mpa_marker_get(b), 0xabcd);
}

/* --- DDP -------------------------------------------------------------------------------------- */

static void headers_stand_as_in_the_rfc(void **state)
{
	static const uint8_t tagged[] = {0xc1, 0x42, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
	static const uint8_t untagged[] = {0x01, 0x44, 1, 2, 3, 4, 0, 0, 0,
					   1,	 0,    0, 0, 7, 0, 1, 0, 0};
	uint8_t b[DDP_HDR_MAX];
	struct ddp_hdr h;

	(void)state;
	assert_int_equal(ddp_hdr_get(&h, tagged, sizeof(tagged)), DDP_TAGGED_LEN);
	assert_true(h.tagged && h.last);
	assert_int_equal(h.dv, 1);
	assert_int_equal(h.rv, 1);
	assert_int_equal(h.opcode, RDMAP_READ_RESPONSE);
	assert_int_equal(h.stag, 0x01020304);
	assert_int_equal(h.to, 0x05060708090a0b0c);
	assert_int_equal(ddp_hdr_put(b, &h), DDP_TAGGED_LEN);
	assert_memory_equal(b, tagged, sizeof(tagged));

	assert_int_equal(ddp_hdr_get(&h, untagged, sizeof(untagged)), DDP_UNTAGGED_LEN);
	assert_true(!h.tagged && !h.last);
	assert_int_equal(h.opcode, RDMAP_SEND_INVALIDATE);
	assert_int_equal(h.stag, 0x01020304);
	assert_int_equal(h.qn, DDP_QN_READ_REQUEST);
	assert_int_equal(h.msn, 7);
	assert_int_equal(h.mo, 0x10000);
	assert_int_equal(ddp_hdr_put(b, &h), DDP_UNTAGGED_LEN);
	assert_memory_equal(b, untagged, sizeof(untagged));

	for (size_t n = 0; n < sizeof(tagged); n++)
		assert_int_equal(ddp_hdr_get(&h, tagged, n), -EBADMSG);
	for (size_t n = 0; n < sizeof(untagged); n++)
		assert_int_equal(ddp_hdr_get(&h, untagged, n), -EBADMSG);
}

static void other_versions_are_seen(void **state)
{
	uint8_t b[DDP_UNTAGGED_LEN] = {0x02, 0x8f};
	struct ddp_hdr h;
	bool tagged;
	uint32_t qn;

	(void)state;
	assert_int_equal(ddp_hdr_get(&h, b, sizeof(b)), sizeof(b));
	assert_int_equal(h.dv, 2);
	assert_int_equal(h.rv, 2);
	assert_int_equal(h.opcode, 0xf);
	assert_false(rdmap_kind(h.opcode, &tagged, &qn));
}

/* --- RDMAP ------------------------------------------------------------------------------------ */

/* RFC 5040 figure 1, RFC 7306 figure 4. */
static void each_opcode_has_its_queue(void **state)
{
	static const int queue[RDMAP_OPCODES] = {-1, 1, -1, 0, 0, 0, 0, 2, 0, 0, 1, 3};

	(void)state;
	for (uint8_t op = 0; op < RDMAP_OPCODES; op++) {
		bool tagged;
		uint32_t qn;

		assert_true(rdmap_kind(op, &tagged, &qn));
		assert_int_equal(tagged, queue[op] < 0);
		if (!tagged)
			assert_int_equal(qn, queue[op]);
	}
}

static void requests_stand_as_in_the_rfcs(void **state)
{
	uint8_t in[RDMAP_ATOMIC_REQUEST_LEN], out[RDMAP_ATOMIC_REQUEST_LEN];
	struct rdmap_read_request read;
	struct rdmap_atomic_request atomic;
	struct rdmap_atomic_response answer;

	(void)state;
	for (unsigned i = 0; i < sizeof(in); i++)
		in[i] = (uint8_t)(i + 1);
	rdmap_read_request_get(&read, in);
	assert_int_equal(read.sink_stag, 0x01020304);
	assert_int_equal(read.sink_to, 0x05060708090a0b0c);
	assert_int_equal(read.size, 0x0d0e0f10);
	assert_int_equal(read.source_stag, 0x11121314);
	assert_int_equal(read.source_to, 0x15161718191a1b1c);
	rdmap_read_request_put(out, &read);
	assert_memory_equal(out, in, RDMAP_READ_REQUEST_LEN);

	in[0] = in[1] = in[2] = 0; /* reserved */
	rdmap_atomic_request_get(&atomic, in);
	assert_int_equal(atomic.op, 4);
	assert_int_equal(atomic.id, 0x05060708);
	assert_int_equal(atomic.stag, 0x090a0b0c);
	assert_int_equal(atomic.to, 0x0d0e0f1011121314);
	assert_int_equal(atomic.data, 0x15161718191a1b1c);
	assert_int_equal(atomic.data_mask, 0x1d1e1f2021222324);
	assert_int_equal(atomic.compare, 0x25262728292a2b2c);
	assert_int_equal(atomic.compare_mask, 0x2d2e2f3031323334);
	rdmap_atomic_request_put(out, &atomic);
	assert_memory_equal(out, in, sizeof(in));

	rdmap_atomic_response_get(&answer, in + 4);
	assert_int_equal(answer.id, 0x05060708);
	assert_int_equal(answer.value, 0x090a0b0c0d0e0f10);
	rdmap_atomic_response_put(out, &answer);
	assert_memory_equal(out, in + 4, RDMAP_ATOMIC_RESPONSE_LEN);
}

/* All that a Terminate can say: of each combination the bytes say the same again, and any that are
 * missing are missed. */
static void terminates_stand_as_in_the_rfc(void **state)
{
	uint8_t b[RDMAP_TERMINATE_MAX], again[RDMAP_TERMINATE_MAX];

	(void)state;
	for (unsigned has = 0; has < 16; has++) {
		const struct rdmap_terminate t = {
			.cause = RDMAP_TERM_ACCESS,
			.has_len = has & 1,
			.has_ddp = has & 2,
			.has_request = has & 4,
			.segment_len = has & 3 ? 46 : 0,
			.ddp = {.tagged = has & 8, .last = true, .dv = 1, .rv = 1, .stag = 5},
			.request = {.size = 4096},
		};
		size_t n = rdmap_terminate_put(b, &t);
		struct rdmap_terminate got;

		assert_int_equal(n, 4 + (has & 3 ? 2 : 0) + (has & 2 ? (has & 8 ? 14 : 18) : 0) +
					    (has & 4 ? 28 : 0));
		assert_int_equal(b[0], 0x01);
		assert_int_equal(b[1], 0x02);
		assert_int_equal(b[2], (has & 1) << 7 | (has & 2) << 5 | (has & 4) << 3);
		assert_int_equal(b[3], 0);
		assert_int_equal(rdmap_terminate_get(&got, b, n), 0);
		assert_int_equal(got.cause, RDMAP_TERM_ACCESS);
		assert_int_equal(rdmap_terminate_put(again, &got), n);
		assert_memory_equal(again, b, n);
		for (size_t less = 0; less < n; less++)
			assert_int_equal(rdmap_terminate_get(&got, b, less), -EBADMSG);
	}
}

static void causes_have_names(void **state)
{
	(void)state;
	assert_string_equal(rdmap_term_name(MPA_TERM_CRC), "CRC error");
	assert_string_equal(rdmap_term_name(DDP_TERM_NO_BUFFER), "no buffer available");
	assert_string_equal(rdmap_term_name(0x1002), "unknown error"); /* as siw sends 01 02 */
	assert_string_equal(rdmap_term_name(0xffff), "unknown error");
}

/* --- port mappers ----------------------------------------------------------------------------- */

/* As iwpmd lays them out: who calls from 192.0.2.1:4660 asks for 192.0.2.2:4420, and is sent to
 * port 40000. */
static void what_port_mappers_say_is_as_iwpmd_has_it(void **state)
{
	static const uint8_t request[IWPM_REQUEST_LEN] = {
		0x04, 0, 0x12, 0x34, 0x11, 0x44, 0x12, 0x34, 1, 2, 3, 4, 5, 6, 7, 8,
		192,  0, 2,    1,    0,	   0,	 0,    0,    0, 0, 0, 0, 0, 0, 0, 0,
		192,  0, 2,    2,    0,	   0,	 0,    0,    0, 0, 0, 0, 0, 0, 0, 0,
		192,  0, 2,    1,    0,	   0,	 0,    0,    0, 0, 0, 0, 0, 0, 0, 0};
	const struct iwpm_end caller = {{192, 0, 2, 1}, 0x1234};
	struct iwpm m = {.type = IWPM_REQUEST,
			 .handle = 0x0102030405060708,
			 .caller = caller,
			 .mapped_caller = caller,
			 .called = {{192, 0, 2, 2}, 4420}},
		    got;
	uint8_t b[IWPM_REQUEST_LEN + 1] = {0}, again[IWPM_REQUEST_LEN], want[IWPM_LEN];

	(void)state;
	assert_int_equal(iwpm_put(b, &m), sizeof(request));
	assert_memory_equal(b, request, sizeof(request));
	assert_int_equal(iwpm_get(&got, b, sizeof(request)), 0);
	assert_int_equal(iwpm_put(again, &got), sizeof(request));
	assert_memory_equal(again, request, sizeof(request));

	memcpy(want, request, sizeof(want));
	want[0] = 0x16;
	want[2] = want[3] = 0;
	st_be16(want + 4, 40000);
	m = (struct iwpm){.type = IWPM_ACCEPT,
			  .v6 = true,
			  .handle = m.handle,
			  .caller = caller,
			  .called = {{192, 0, 2, 2}, 40000}};
	assert_int_equal(iwpm_put(b, &m), sizeof(want));
	assert_memory_equal(b, want, sizeof(want));
	assert_int_equal(iwpm_get(&got, b, sizeof(want)), 0);
	assert_int_equal(iwpm_put(again, &got), sizeof(want));
	assert_memory_equal(again, want, sizeof(want));

	/* Of another length, version or family; and a request as long as an answer. */
	for (size_t len = 0; len <= sizeof(b); len++)
		if (len != IWPM_LEN && len != IWPM_REQUEST_LEN)
			assert_int_equal(iwpm_get(&got, b, len), -EBADMSG);
	b[0] = 0x56;
	assert_int_equal(iwpm_get(&got, b, IWPM_LEN), -EBADMSG);
	b[0] = 0x15;
	assert_int_equal(iwpm_get(&got, b, IWPM_LEN), -EBADMSG);
	b[0] = 0x04;
	assert_int_equal(iwpm_get(&got, b, IWPM_LEN), -EBADMSG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_fpdu_of_the_rfc_has_its_crc),
		cmocka_unit_test(what_is_no_start_is_refused),
		cmocka_unit_test(depths_and_rtr_share_their_fields),
		cmocka_unit_test(a_segment_holds_an_fpdu),
		cmocka_unit_test(padding_makes_fours),
		cmocka_unit_test(markers_stand_at_each_512th_byte),
		cmocka_unit_test(headers_stand_as_in_the_rfc),
		cmocka_unit_test(other_versions_are_seen),
		cmocka_unit_test(each_opcode_has_its_queue),
		cmocka_unit_test(requests_stand_as_in_the_rfcs),
		cmocka_unit_test(terminates_stand_as_in_the_rfc),
		cmocka_unit_test(causes_have_names),
		cmocka_unit_test(what_port_mappers_say_is_as_iwpmd_has_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
