/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "wire/bth.h"
#include "wire/cm_ip.h"
#include "wire/cm_mad.h"
#include "wire/flow.h"
#include "wire/icrc.h"
#include "wire/icrc_tables.h"

static uint64_t rnd_state = 1;

static uint32_t rnd(void) /* xorshift64*; the same numbers in every run */
{
	rnd_state ^= rnd_state >> 12;
	rnd_state ^= rnd_state << 25;
	rnd_state ^= rnd_state >> 27;
	return (uint32_t)(rnd_state * 0x2545f4914f6cdd1dull >> 32);
}

static void rnd_fill(void *p, size_t len)
{
	for (size_t i = 0; i < len; i++)
		((uint8_t *)p)[i] = (uint8_t)rnd();
}

/* ---- flows and small numbers ---------------------------------------------------------------- */

static void the_source_port_is_folded_from_the_flow_label(void **state)
{
	(void)state;
	assert_int_equal(flow_sport(1, 5, 6), 0xc001);
	assert_int_equal(flow_sport(0x4000, 5, 6), 0xc001);
	assert_int_equal(flow_sport(0xfffff, 5, 6), 0xc000 | (0x3fff ^ 0x3f));
	assert_int_equal(flow_sport(0x100001, 5, 6), 0xc001); /* a label has 20 bits */
}

static void without_a_label_both_ends_find_the_same_port(void **state)
{
	(void)state;
	assert_int_equal(flow_sport(0, 0x11, 0x12), 0xc000 | 0x11 * 0x12);
	for (int i = 0; i < 100; i++) {
		uint32_t a = rnd() & QPN_MASK, b = rnd() & QPN_MASK;

		assert_int_equal(flow_sport(0, a, b), flow_sport(0, b, a));
		assert_in_range(flow_sport(0, a, b), 0xc000, 0xffff);
	}
}

static void psn_arithmetic_wraps_at_24_bits(void **state)
{
	(void)state;
	assert_int_equal(psn_diff(0, 0xffffff), 1);
	assert_int_equal(psn_diff(0xffffff, 0), -1);
	assert_int_equal(psn_diff(5, 3), 2);
	assert_int_equal(psn_diff(0x7fffff, 0), 0x7fffff);
	assert_int_equal(psn_diff(0x800000, 0), -0x800000);
	assert_int_equal(psn_add(0xffffff, 1), 0);
	assert_int_equal(psn_add(0xfffffe, 5), 3);
}

static void rnr_timers_follow_the_table(void **state)
{
	(void)state;
	assert_int_equal(rnr_timer_ns(0), 655360000);
	assert_int_equal(rnr_timer_ns(1), 10000);
	assert_int_equal(rnr_timer_ns(2), 20000);
	assert_int_equal(rnr_timer_ns(12), 640000);
	assert_int_equal(rnr_timer_ns(31), 491520000);
	assert_int_equal(rnr_timer_ns(32 + 31), 491520000); /* five bits count */
	/* From 4 on each code is twice the one two before it. */
	for (uint8_t code = 4; code < 32; code++)
		assert_int_equal(rnr_timer_ns(code), 2 * rnr_timer_ns(code - 2));
}

/* ---- packet headers ------------------------------------------------------------------------- */

static void every_opcode_survives_encode_and_decode(void **state)
{
	int known = 0;

	(void)state;
	for (int op = 0; op < 256; op++) {
		struct pkt_hdr h, back;
		uint8_t buf[PKT_HDR_MAX], again[PKT_HDR_MAX];
		size_t len;

		if (!opcode_table[op].name)
			continue;
		known++;
		rnd_fill(buf, sizeof(buf));
		buf[0] = (uint8_t)op;
		buf[1] &= 0xf0;
		memset(&h, 0, sizeof(h));
		memset(&back, 0, sizeof(back));
		len = BTH_LEN + opcode_table[op].ext_len;
		assert_true(len <= PKT_HDR_MAX);
		assert_int_equal(pkt_hdr_decode(&h, buf, sizeof(buf)), len);
		assert_int_equal(pkt_hdr_encode(&h, again), len);
		assert_int_equal(pkt_hdr_decode(&back, again, len + h.bth.pad), len);
		assert_memory_equal(&h, &back, sizeof(h));
		/* but for the reserved bytes of other headers the bytes are the same */
		if (opcode_table[op].flags & OPF_DETH)
			buf[BTH_LEN + 4] = 0;
		if (opcode_table[op].flags & OPF_XRCETH)
			buf[BTH_LEN] = 0;
		assert_memory_equal(buf, again, len);
	}
	assert_int_equal(known, 64); /* RC 24, XRC 24, UC 12, UD 2, CNP, weft's own */
}

static void a_truncated_header_is_refused_at_every_length(void **state)
{
	(void)state;
	for (int op = 0; op < 256; op++) {
		size_t hdr_len = BTH_LEN + opcode_table[op].ext_len;
		struct pkt_hdr h;

		for (uint8_t pad = 0; pad < 4; pad++) {
			for (size_t len = 0; len < hdr_len + pad; len++) {
				uint8_t *exact = test_malloc(len + !len);

				memset(exact, 0, len + !len);
				if (len > 1) {
					exact[0] = (uint8_t)op;
					exact[1] = (uint8_t)(pad << 4);
				}
				assert_int_equal(pkt_hdr_decode(&h, exact, len), -EBADMSG);
				test_free(exact);
			}
		}
	}
}

static void an_unknown_opcode_or_version_is_refused(void **state)
{
	uint8_t buf[64] = {0};
	struct pkt_hdr h;

	(void)state;
	for (int op = 0; op < 256; op++) {
		buf[0] = (uint8_t)op;
		buf[1] = 0;
		if (opcode_table[op].name)
			assert_true(pkt_hdr_decode(&h, buf, sizeof(buf)) > 0);
		else
			assert_int_equal(pkt_hdr_decode(&h, buf, sizeof(buf)), -EBADMSG);
		buf[1] = 1; /* transport version */
		assert_int_equal(pkt_hdr_decode(&h, buf, sizeof(buf)), -EBADMSG);
	}
}

static void headers_stand_in_the_order_of_the_standard(void **state)
{
	struct pkt_hdr h = {.bth = {.opcode = OPCODE_RC_WRITE_ONLY_WITH_IMM}};
	uint8_t buf[PKT_HDR_MAX];

	(void)state;
	h.reth.va = 0x1122334455667788;
	memcpy(h.immdt, "immd", 4);
	assert_int_equal(pkt_hdr_encode(&h, buf), 12 + 16 + 4);
	assert_int_equal(ld_be64(buf + 12), 0x1122334455667788);
	assert_memory_equal(buf + 28, "immd", 4);

	h.bth.opcode = OPCODE_RC_ATOMIC_ACKNOWLEDGE;
	h.aeth.msn = 0x123456;
	h.atomic_ack = 0xa1a2a3a4a5a6a7a8;
	assert_int_equal(pkt_hdr_encode(&h, buf), 12 + 4 + 8);
	assert_int_equal(ld_be24(buf + 13), 0x123456);
	assert_int_equal(ld_be64(buf + 16), 0xa1a2a3a4a5a6a7a8);

	h.bth.opcode = OPCODE_UD_SEND_ONLY_WITH_IMM;
	h.deth.qkey = 0x11111111;
	h.deth.sqpn = 0xabcdef;
	assert_int_equal(pkt_hdr_encode(&h, buf), 12 + 8 + 4);
	assert_int_equal(ld_be32(buf + 12), 0x11111111);
	assert_int_equal(ld_be24(buf + 17), 0xabcdef);
	assert_memory_equal(buf + 20, "immd", 4);

	h.bth.opcode = OPCODE_XRC_WRITE_ONLY_WITH_IMM;
	h.xrc_srqn = 0x345678;
	assert_int_equal(pkt_hdr_encode(&h, buf), 12 + 4 + 16 + 4);
	assert_int_equal(ld_be32(buf + 12), 0x345678);
	assert_int_equal(ld_be64(buf + 16), 0x1122334455667788);
	assert_memory_equal(buf + 32, "immd", 4);
}

/* Annex A14.3: the opcodes of RC, and in every request, no response, a header more. */
static void every_request_of_xrc_names_its_receive_queue(void **state)
{
	(void)state;
	for (int op = 0; op < 32; op++) {
		const struct opcode_info *rc = &opcode_table[SERVICE_RC | op];
		const struct opcode_info *xrc = &opcode_table[SERVICE_XRC | op];
		bool request = rc->name && !(rc->flags & OPF_RESPONSE);

		assert_int_equal(!rc->name, !xrc->name);
		assert_int_equal(xrc->flags, rc->flags | (request ? OPF_XRCETH : 0));
		assert_int_equal(xrc->ext_len, rc->ext_len + (request ? XRCETH_LEN : 0));
	}
}

/* ---- ICRC ----------------------------------------------------------------------------------- */

static struct flow rnd_flow(bool ipv4)
{
	struct flow f = {.sport = (uint16_t)(0xc000 | rnd())};

	rnd_fill(&f.sgid, sizeof(f.sgid));
	rnd_fill(&f.dgid, sizeof(f.dgid));
	if (ipv4) {
		static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

		memcpy(f.sgid.raw, mapped, sizeof(mapped));
		memcpy(f.dgid.raw, mapped, sizeof(mapped));
	}
	return f;
}

/* A payload of udp_len bytes with the ICRC that identification id asks for. */
static void rnd_packet(uint8_t *buf, size_t udp_len, const struct flow *f, uint16_t id)
{
	struct icrc c;

	rnd_fill(buf, udp_len - ICRC_LEN);
	c = icrc_begin(f, id, udp_len, buf, udp_len - ICRC_LEN);
	st_le32(buf + udp_len - ICRC_LEN, icrc_end(c));
}

/* Running the CRC register on over zero bytes must undo what the tables take back. */
static uint32_t crc_over_zeros(uint32_t v, size_t bytes)
{
	for (size_t bit = 0; bit < 8 * bytes; bit++)
		v = v >> 1 ^ (v & 1 ? 0xedb88320u : 0);
	return v;
}

static void the_tables_hold_the_powers_of_one_over_x(void **state)
{
	(void)state;
	for (size_t i = 0; i < 256; i++) {
		assert_int_equal(crc_over_zeros(icrc_back_low[i], i), 0x80000000u);
		assert_int_equal(crc_over_zeros(icrc_back_high[i], 256 * i), 0x80000000u);
	}
	for (uint32_t v = 0; v < 16; v++) {
		for (unsigned i = 0; i < 2; i++)
			assert_int_equal(crc_over_zeros(icrc_back_4[i][v], 4), v << 4 * i);
		for (unsigned i = 0; i < 4; i++)
			assert_int_equal(icrc_ahead_24[i][v], crc_over_zeros(v << 4 * i, 24));
	}
}

static void the_identification_is_found_where_brute_force_finds_it(void **state)
{
	uint8_t buf[600];

	(void)state;
	for (int round = 0; round < 6; round++) {
		struct flow f = rnd_flow(true);
		size_t len = BTH_LEN + ICRC_LEN + rnd() % (sizeof(buf) - BTH_LEN - ICRC_LEN);
		uint16_t id = (uint16_t)rnd(), found;
		int hits = 0;

		rnd_packet(buf, len, &f, id);
		for (uint32_t guess = 0; guess < 0x10000; guess++)
			if (icrc_check(&f, (uint16_t)guess, buf, len)) {
				assert_int_equal(guess, id);
				hits++;
			}
		assert_int_equal(hits, 1);
		assert_true(icrc_solve_ip_id(&f, buf, len, &found));
		assert_int_equal(found, id);
	}
}

static void the_identification_is_found_at_every_length(void **state)
{
	static uint8_t buf[65507];
	struct flow f = rnd_flow(true);
	uint16_t found;

	(void)state;
	for (size_t len = BTH_LEN + ICRC_LEN; len <= sizeof(buf); len += len < 4200 ? 1 : 1021) {
		uint16_t id = (uint16_t)rnd();

		rnd_packet(buf, len, &f, id);
		assert_true(icrc_solve_ip_id(&f, buf, len, &found));
		assert_int_equal(found, id);
	}
	rnd_packet(buf, sizeof(buf), &f, 0xffff);
	assert_true(icrc_solve_ip_id(&f, buf, sizeof(buf), &found));
	assert_int_equal(found, 0xffff);
}

static void a_changed_byte_is_always_detected(void **state)
{
	uint8_t buf[256];
	struct flow f = rnd_flow(true);

	(void)state;
	rnd_packet(buf, sizeof(buf), &f, 7);
	for (size_t at = 0; at < sizeof(buf); at++) {
		uint8_t was = buf[at];

		buf[at] ^= (uint8_t)(1 + rnd() % 255);
		assert_int_equal(icrc_check(&f, 7, buf, sizeof(buf)), at == 4); /* 4: FECN, BECN */
		buf[at] = was;
	}
	assert_false(icrc_check(&f, 8, buf, sizeof(buf)));
}

static void a_random_icrc_rarely_has_an_identification(void **state)
{
	uint8_t buf[64];
	struct flow f = rnd_flow(true);
	int found = 0;

	(void)state;
	rnd_packet(buf, sizeof(buf), &f, 7);
	for (int round = 0; round < 400000; round++) {
		uint16_t id;

		st_le32(buf + sizeof(buf) - ICRC_LEN, rnd());
		if (icrc_solve_ip_id(&f, buf, sizeof(buf), &id)) {
			assert_true(icrc_check(&f, id, buf, sizeof(buf)));
			found++;
		}
	}
	/* 16 bits protect: one in 65536 is bound to slip through, about 6 of these. */
	assert_in_range(found, 1, 20);
}

static void an_ipv6_packet_has_no_identification_to_find(void **state)
{
	uint8_t buf[100];
	struct flow f = rnd_flow(false);
	uint16_t id = 1;

	(void)state;
	rnd_packet(buf, sizeof(buf), &f, 0);
	assert_true(icrc_check(&f, 0, buf, sizeof(buf)));
	assert_true(icrc_check(&f, 4711, buf, sizeof(buf)));
	assert_true(icrc_solve_ip_id(&f, buf, sizeof(buf), &id));
	assert_int_equal(id, 0);
	buf[20] ^= 1;
	assert_false(icrc_solve_ip_id(&f, buf, sizeof(buf), &id));
}

static void what_routers_change_is_not_covered(void **state)
{
	uint8_t buf[100];
	struct flow f = rnd_flow(true);

	(void)state;
	rnd_packet(buf, sizeof(buf), &f, 3);
	f.tos = 0xff;
	f.ttl = 1;
	buf[4] = 0xc0; /* FECN, BECN */
	assert_true(icrc_check(&f, 3, buf, sizeof(buf)));
	f.sport ^= 1;
	assert_false(icrc_check(&f, 3, buf, sizeof(buf)));
}

static void a_payload_too_short_for_an_icrc_fails_the_check(void **state)
{
	struct flow f = rnd_flow(true);
	uint8_t buf[BTH_LEN + ICRC_LEN] = {0};
	uint16_t id;

	(void)state;
	for (size_t len = 0; len < sizeof(buf); len++) {
		assert_false(icrc_check(&f, 0, buf, len));
		assert_false(icrc_solve_ip_id(&f, buf, len, &id));
	}
	assert_false(icrc_check(&f, 0, buf, 65508));
}

static void pieces_give_the_same_icrc_as_the_whole(void **state)
{
	uint8_t buf[300];

	(void)state;
	for (int ipv4 = 0; ipv4 < 2; ipv4++) {
		struct flow f = rnd_flow(ipv4);

		rnd_packet(buf, sizeof(buf), &f, 9);
		for (size_t cut = BTH_LEN; cut <= sizeof(buf) - ICRC_LEN; cut++) {
			struct icrc c = icrc_begin(&f, 9, sizeof(buf), buf, cut);

			c = icrc_update(c, buf + cut, sizeof(buf) - ICRC_LEN - cut);
			assert_int_equal(icrc_end(c), ld_le32(buf + sizeof(buf) - ICRC_LEN));
		}
	}
}

/* ---- CM ------------------------------------------------------------------------------------- */

static void every_cm_message_survives_decode_and_encode(void **state)
{
	uint8_t mad[MAD_LEN], once[MAD_LEN], twice[MAD_LEN];
	struct cm_msg m;

	(void)state;
	for (uint16_t attr = CM_ATTR_REQ; attr <= CM_ATTR_SIDR_REP; attr++) {
		for (int round = 0; round < 50; round++) {
			rnd_fill(mad, sizeof(mad));
			mad[0] = MAD_BASE_VERSION;
			mad[1] = CM_CLASS;
			mad[2] = CM_CLASS_VERSION;
			st_be16(mad + 16, attr);
			assert_int_equal(cm_msg_decode(&m, mad), 0);
			assert_int_equal(m.hdr.attr_id, attr);
			assert_int_equal(m.hdr.tid, ld_be64(mad + 8));
			cm_msg_encode(&m, once);
			assert_int_equal(cm_msg_decode(&m, once), 0);
			cm_msg_encode(&m, twice);
			assert_memory_equal(once, twice, MAD_LEN);
			/* communication id and the last byte of private data as they came */
			assert_memory_equal(once + 24, mad + 24, 4);
			assert_int_equal(once[MAD_LEN - 1], mad[MAD_LEN - 1]);
		}
	}
}

/* All ones but for the reserved bits must come back: no field is read or written too narrow. */
static void only_reserved_bits_of_a_cm_message_are_lost(void **state)
{
	static const struct {
		uint16_t attr;
		uint8_t at, mask; /* offset behind the MAD header; reserved bits of that byte */
	} reserved[] = {
		{CM_ATTR_REQ, 4, 0xff},	     {CM_ATTR_REQ, 24, 0xff},
		{CM_ATTR_REQ, 25, 0xff},     {CM_ATTR_REQ, 26, 0xff},
		{CM_ATTR_REQ, 27, 0xff},     {CM_ATTR_REQ, 90, 0x0f},
		{CM_ATTR_REQ, 91, 0xc0},     {CM_ATTR_REQ, 94, 0x07},
		{CM_ATTR_REQ, 95, 0x07},     {CM_ATTR_REQ, 134, 0x0f},
		{CM_ATTR_REQ, 135, 0xc0},    {CM_ATTR_REQ, 138, 0x07},
		{CM_ATTR_REQ, 139, 0x07},    {CM_ATTR_MRA, 8, 0x3f},
		{CM_ATTR_MRA, 9, 0x07},	     {CM_ATTR_REJ, 8, 0x3f},
		{CM_ATTR_REJ, 9, 0x01},	     {CM_ATTR_REP, 27, 0x0f},
		{CM_ATTR_DREQ, 11, 0xff},    {CM_ATTR_SIDR_REQ, 6, 0xff},
		{CM_ATTR_SIDR_REQ, 7, 0xff}, {CM_ATTR_SIDR_REP, 6, 0xff},
		{CM_ATTR_SIDR_REP, 7, 0xff}, {CM_ATTR_SIDR_REP, 11, 0xff},
	};

	(void)state;
	for (uint16_t attr = CM_ATTR_REQ; attr <= CM_ATTR_SIDR_REP; attr++) {
		uint8_t mad[MAD_LEN], back[MAD_LEN];
		struct cm_msg m;

		memset(mad, 0xff, sizeof(mad));
		mad[0] = MAD_BASE_VERSION;
		mad[1] = CM_CLASS;
		mad[2] = CM_CLASS_VERSION;
		st_be16(mad + 16, attr);
		if (attr == CM_ATTR_REJ)
			mad[MAD_HDR_LEN + 9] = CM_REJ_ARI << 1 | 1;
		if (attr == CM_ATTR_SIDR_REP)
			mad[MAD_HDR_LEN + 5] = CM_SIDR_REP_INFO;
		assert_int_equal(cm_msg_decode(&m, mad), 0);
		cm_msg_encode(&m, back);
		st_be16(mad + 18, 0);
		for (size_t i = 0; i < ARRAY_SIZE(reserved); i++)
			if (reserved[i].attr == attr)
				mad[MAD_HDR_LEN + reserved[i].at] &= (uint8_t)~reserved[i].mask;
		assert_memory_equal(mad, back, MAD_LEN);
	}
}

static void req_fields_do_not_run_into_each_other(void **state)
{
	struct cm_msg m = {.hdr = {MAD_BASE_VERSION, CM_CLASS, CM_CLASS_VERSION, 3}}, back;
	uint8_t mad[MAD_LEN];

	(void)state;
	m.hdr.attr_id = CM_ATTR_REQ;
	m.req.local_qpn = 0xffffffff; /* too wide: cut to its own 24 bits */
	m.req.starting_psn = 0x123456;
	m.req.retry_count = 7;
	m.req.local_cm_response_timeout = 20;
	m.req.path_mtu = 3;
	m.req.rnr_retry_count = 6;
	m.req.max_cm_retries = 15;
	m.req.srq = true;
	m.req.primary.flow_label = 0xabcde;
	m.req.primary.packet_rate = 3;
	m.req.primary.local_ack_timeout = 19;
	cm_msg_encode(&m, mad);
	assert_int_equal(mad[24 + 47], 20 << 3 | 7);
	assert_int_equal(mad[24 + 50], 3 << 4 | 6);
	assert_int_equal(mad[24 + 51], 15 << 4 | 8);
	assert_int_equal(ld_be32(mad + 24 + 88), 0xabcde003);
	assert_int_equal(mad[24 + 95], 19 << 3);
	assert_int_equal(cm_msg_decode(&back, mad), 0);
	assert_int_equal(back.req.local_qpn, 0xffffff);
	assert_int_equal(back.req.responder_resources, 0);
	assert_int_equal(back.req.starting_psn, 0x123456);
}

static void a_mad_of_another_class_or_kind_is_told_apart(void **state)
{
	uint8_t mad[MAD_LEN] = {MAD_BASE_VERSION, CM_CLASS, CM_CLASS_VERSION, 3};
	struct cm_msg m;

	(void)state;
	mad[15] = 42; /* transaction id */
	for (uint16_t attr = 0; attr < 0x100; attr++) {
		st_be16(mad + 16, attr);
		assert_int_equal(cm_msg_decode(&m, mad),
				 attr >= CM_ATTR_REQ && attr <= CM_ATTR_SIDR_REP ? 0 : -EOPNOTSUPP);
		assert_int_equal(m.hdr.tid, 42);
	}
	st_be16(mad + 16, CM_ATTR_RTU);
	for (int at = 0; at < 3; at++) {
		mad[at] ^= 4;
		assert_int_equal(cm_msg_decode(&m, mad), -EBADMSG);
		mad[at] ^= 4;
	}
	assert_int_equal(cm_msg_decode(&m, mad), 0);
}

static void a_claim_of_too_much_information_is_cut(void **state)
{
	uint8_t mad[MAD_LEN] = {MAD_BASE_VERSION, CM_CLASS, CM_CLASS_VERSION, 3};
	struct cm_msg m;

	(void)state;
	st_be16(mad + 16, CM_ATTR_REJ);
	mad[24 + 9] = 127 << 1;
	assert_int_equal(cm_msg_decode(&m, mad), 0);
	assert_int_equal(m.rej.reject_info_len, CM_REJ_ARI);
	st_be16(mad + 16, CM_ATTR_SIDR_REP);
	mad[24 + 5] = 73;
	assert_int_equal(cm_msg_decode(&m, mad), 0);
	assert_int_equal(m.sidr_rep.info_len, CM_SIDR_REP_INFO);
}

static void ip_cm_headers_hold_mapped_addresses(void **state)
{
	uint8_t buf[CM_IP_HDR_LEN] = {0, 0x40, 0x12, 0x34}, back[CM_IP_HDR_LEN];
	struct cm_ip_hdr h;

	(void)state;
	memcpy(buf + 16, "\x0a\x00\x00\x01", 4);
	memcpy(buf + 32, "\x0a\x00\x00\x02", 4);
	assert_int_equal(cm_ip_hdr_decode(&h, buf), 0);
	assert_int_equal(h.port, 0x1234);
	assert_true(gid_is_ipv4(&h.src));
	assert_true(gid_is_ipv4(&h.dst));
	assert_memory_equal(h.dst.raw + 12, "\x0a\x00\x00\x02", 4);
	cm_ip_hdr_encode(&h, back);
	assert_memory_equal(back, buf, sizeof(buf));

	rnd_fill(buf, sizeof(buf));
	buf[0] = 0;
	buf[1] = 0x60;
	assert_int_equal(cm_ip_hdr_decode(&h, buf), 0);
	cm_ip_hdr_encode(&h, back);
	assert_memory_equal(back, buf, sizeof(buf));

	buf[1] = 0x50;
	assert_int_equal(cm_ip_hdr_decode(&h, buf), -EBADMSG);
	buf[0] = 1;
	buf[1] = 0x40;
	assert_int_equal(cm_ip_hdr_decode(&h, buf), -EBADMSG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_source_port_is_folded_from_the_flow_label),
		cmocka_unit_test(without_a_label_both_ends_find_the_same_port),
		cmocka_unit_test(psn_arithmetic_wraps_at_24_bits),
		cmocka_unit_test(rnr_timers_follow_the_table),
		cmocka_unit_test(every_opcode_survives_encode_and_decode),
		cmocka_unit_test(a_truncated_header_is_refused_at_every_length),
		cmocka_unit_test(every_request_of_xrc_names_its_receive_queue),
		cmocka_unit_test(an_unknown_opcode_or_version_is_refused),
		cmocka_unit_test(headers_stand_in_the_order_of_the_standard),
		cmocka_unit_test(the_tables_hold_the_powers_of_one_over_x),
		cmocka_unit_test(the_identification_is_found_where_brute_force_finds_it),
		cmocka_unit_test(the_identification_is_found_at_every_length),
		cmocka_unit_test(a_changed_byte_is_always_detected),
		cmocka_unit_test(a_random_icrc_rarely_has_an_identification),
		cmocka_unit_test(an_ipv6_packet_has_no_identification_to_find),
		cmocka_unit_test(what_routers_change_is_not_covered),
		cmocka_unit_test(a_payload_too_short_for_an_icrc_fails_the_check),
		cmocka_unit_test(pieces_give_the_same_icrc_as_the_whole),
		cmocka_unit_test(every_cm_message_survives_decode_and_encode),
		cmocka_unit_test(only_reserved_bits_of_a_cm_message_are_lost),
		cmocka_unit_test(req_fields_do_not_run_into_each_other),
		cmocka_unit_test(a_mad_of_another_class_or_kind_is_told_apart),
		cmocka_unit_test(a_claim_of_too_much_information_is_cut),
		cmocka_unit_test(ip_cm_headers_hold_mapped_addresses),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
