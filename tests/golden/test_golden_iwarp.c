/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What Linux's siw says to itself: every MPA request and reply, every FPDU, DDP header and RDMAP
 * message that has a layout of its own encodes to the bytes it was decoded from, every CRC is what
 * we compute, and the messages of each queue are counted as RFC 5041 has it. Argument: pcap files.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "base/bytes.h"
#include "base/compiler.h"
#include "cm/iw.h"
#include "tcp_streams.h"
#include "wire/crc32c.h"
#include "wire/mpa.h"
#include "wire/rdmap.h"

/* So that the test cannot pass by having seen nothing. */
static unsigned seen[RDMAP_OPCODES], requests, replies, rejects, p2p, checked, in_segments;

struct side {
	const struct tcp_stream *s;
	size_t at;
	bool crc; /* in its FPDUs */
	uint32_t msn[DDP_QUEUES];
	uint32_t mo; /* of the message that is under way */
};

/* --- the start -------------------------------------------------------------------------------- */

static void check_enhanced(const uint8_t *p)
{
	uint8_t again[MPA_ENHANCED_LEN];
	struct mpa_enhanced e;

	mpa_enhanced_get(&e, p);
	mpa_enhanced_put(again, &e);
	assert_memory_equal(again, p, MPA_ENHANCED_LEN);
	p2p += e.p2p;
	if (e.p2p)
		assert_true(e.rtr_send || e.rtr_write || e.rtr_read);
}

/* False: it is no iWARP. */
static bool check_start(struct side *side)
{
	const struct tcp_stream *s = side->s;
	uint8_t again[MPA_START_LEN];
	struct mpa_start m;

	if (s->len < MPA_START_LEN || mpa_start_get(&m, s->bytes) != 0)
		return false;
	assert_int_equal(m.reply, !s->from_client);
	for (size_t n = 0; n <= MPA_START_LEN; n++) {
		assert_true(mpa_start_may_be(s->bytes, n, m.reply));
		assert_int_equal(mpa_start_may_be(s->bytes, n, !m.reply), n < 10); /* "MPA ID Re" */
	}
	mpa_start_put(again, &m);
	assert_memory_equal(again, s->bytes, MPA_START_LEN);
	assert_int_equal(m.rev, MPA_REVISION);
	assert_false(m.flags & MPA_MARKERS);
	assert_true(m.private_len <= MPA_PRIVATE_MAX);
	assert_true(s->len >= MPA_START_LEN + (size_t)m.private_len);
	if (m.flags & MPA_ENHANCED) {
		assert_true(m.private_len >= MPA_ENHANCED_LEN);
		check_enhanced(s->bytes + MPA_START_LEN);
	}
	if (!m.reply) {
		struct iw_conn c;
		size_t used;

		iw_listen(&c);
		assert_int_equal(iw_rx(&c, s->bytes, s->len, &used), IW_REQUEST);
		assert_int_equal(used, MPA_START_LEN + m.private_len);
	}
	side->at = MPA_START_LEN + (size_t)m.private_len;
	side->crc = m.flags & MPA_CRC;
	*(m.reply ? &replies : &requests) += 1;
	rejects += !!(m.flags & MPA_REJECT);
	return true;
}

/* --- segments --------------------------------------------------------------------------------- */

static void check_message(const struct ddp_hdr *h, const uint8_t *p, size_t len)
{
	uint8_t again[RDMAP_READ_REQUEST_LEN];
	struct rdmap_read_request read;

	if (h->opcode != RDMAP_READ_REQUEST)
		return;
	assert_int_equal(len, RDMAP_READ_REQUEST_LEN);
	rdmap_read_request_get(&read, p);
	rdmap_read_request_put(again, &read);
	assert_memory_equal(again, p, len);
	assert_true(read.size <= 1 << 20);
}

static void check_segment(struct side *side, const uint8_t *p, size_t len)
{
	uint8_t again[DDP_HDR_MAX];
	struct ddp_hdr h;
	int n = ddp_hdr_get(&h, p, len);
	bool tagged;
	uint32_t qn;

	assert_true(n > 0);
	assert_int_equal(n, ddp_hdr_len(p[0]));
	assert_int_equal(ddp_hdr_put(again, &h), n);
	assert_memory_equal(again, p, n);
	assert_int_equal(h.dv, DDP_VERSION);
	assert_int_equal(h.rv, RDMAP_VERSION);
	assert_true(rdmap_kind(h.opcode, &tagged, &qn));
	assert_int_equal(h.tagged, tagged);
	if (!tagged) {
		assert_int_equal(h.qn, qn);
		assert_int_equal(h.msn, side->msn[qn] + 1);
		assert_int_equal(h.mo, side->mo);
		side->mo = h.last ? 0 : side->mo + (uint32_t)(len - (size_t)n);
		side->msn[qn] += h.last;
	}
	check_message(&h, p + n, len - (size_t)n);
	in_segments += !h.last;
	seen[h.opcode]++;
}

static void check_fpdus(struct side *side)
{
	const struct tcp_stream *s = side->s;

	while (s->len - side->at >= MPA_LENGTH_LEN) {
		const uint8_t *p = s->bytes + side->at;
		size_t len = ld_be16(p), all = mpa_fpdu_len(len);
		uint32_t crc;

		if (all > s->len - side->at) /* the capture ends in the middle of it */
			break;
		assert_int_equal(all % 4, 0);
		crc = ld_le32(p + all - MPA_CRC_LEN);
		assert_int_equal(crc, side->crc ? crc32c(p, all - MPA_CRC_LEN) : 0);
		checked += side->crc;
		check_segment(side, p + MPA_LENGTH_LEN, len);
		side->at += all;
	}
}

static void all_encodes_to_what_it_was_decoded_from(void **state)
{
	(void)state;
	for (unsigned i = 0; i < tcp_stream_count; i++) {
		struct side side = {.s = &tcp_streams[i]};

		if (check_start(&side))
			check_fpdus(&side);
	}
}

static void the_captures_held_every_kind(void **state)
{
	static const uint8_t kinds[] = {RDMAP_WRITE, RDMAP_READ_REQUEST, RDMAP_READ_RESPONSE,
					RDMAP_SEND, RDMAP_SEND_INVALIDATE};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(kinds); i++)
		if (seen[kinds[i]] < 4)
			fail_msg("%u of opcode %u", seen[kinds[i]], kinds[i]);
	assert_true(requests >= 4 && replies >= 4);
	assert_true(rejects >= 1);
	assert_true(p2p >= 1);
	assert_true(checked > 20);
	assert_true(in_segments > 20);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_encodes_to_what_it_was_decoded_from),
		cmocka_unit_test(the_captures_held_every_kind),
	};

	for (int i = 1; i < argc; i++)
		tcp_streams_read(argv[i]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
