/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Packets of RoCEv1, by the standard's rules: no kernel speaks it any more, and so the golden bytes
 * are written out field by field, with an ICRC that was reckoned apart from this code (IBA volume
 * 1: GRH 8.3, BTH 9.2, ICRC 7.8.1, annex A16).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/bytes.h"
#include "port/raw/l2_ways.h"
#include "port/raw/raw_socket.h"
#include "port/raw/v1_packet.h"
#include "wire/icrc.h"

#define PAYLOAD "golden byte"

/* RC SEND only, solicited, with GIDs of IPv4 addresses, congestion marks and a byte of padding. */
static const uint8_t golden[] = {
	0x62, 0x81, 0x23, 0x45,				/* version, class 0x28, label 0x12345 */
	0x00, 0x1c,					/* from the BTH on, with the ICRC */
	0x1b, 0x40,					/* next header, hop limit */
	0,    0,    0,	  0,	0,    0,    0,	  0,	/* from */
	0,    0,    0xff, 0xff, 0x0a, 0x01, 0x02, 0x03, /**/
	0,    0,    0,	  0,	0,    0,    0,	  0,	/* to */
	0,    0,    0xff, 0xff, 0x0a, 0x01, 0x02, 0x04, /**/
	0x04, 0xd0, 0xff, 0xff,				/* BTH: opcode, SE, M, pad 1, P_Key */
	0xc0, 0x42, 0x00, 0x17,				/* FECN, BECN, destination */
	0x80, 0x12, 0x34, 0x56,				/* acknowledge, PSN */
	'g',  'o',  'l',  'd',	'e',  'n',  ' ',  'b',	'y', 't', 'e', 0, /* and the pad */
	0x17, 0x35, 0x0b, 0xcc,
};

/* UD SEND only between link-local GIDs, of no payload: the shortest. */
static const uint8_t golden_ud[] = {
	0x60, 0x00, 0x00, 0x00,				/**/
	0x00, 0x18,					/**/
	0x1b, 0x01,					/**/
	0xfe, 0x80, 0,	  0,	0,    0,    0,	  0,	/* from */
	0x02, 0xaa, 0xbb, 0xff, 0xfe, 0xcc, 0xdd, 0x01, /**/
	0xfe, 0x80, 0,	  0,	0,    0,    0,	  0,	/* to */
	0x02, 0xaa, 0xbb, 0xff, 0xfe, 0xcc, 0xdd, 0x02, /**/
	0x64, 0x00, 0xff, 0xff,				/**/
	0x00, 0x00, 0x00, 0x01,				/**/
	0x00, 0x00, 0x00, 0x05,				/**/
	0x80, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x01, /* DETH: Q_Key, from whom */
	0x5b, 0x88, 0xff, 0x48,
};

static struct gid gid(const char *text)
{
	struct gid g;

	assert_int_equal(inet_pton(AF_INET6, text, g.raw), 1);
	return g;
}

static struct flow golden_flow(void)
{
	return (struct flow){.sgid = gid("::ffff:10.1.2.3"),
			     .dgid = gid("::ffff:10.1.2.4"),
			     .tos = 0x28,
			     .ttl = 64,
			     .flow_label = 0x12345,
			     .rocev1 = 1};
}

/* That packet, its payload in two pieces. */
static struct packet_tx golden_packet(const struct flow *f)
{
	static const char payload[] = PAYLOAD;
	struct packet_tx t = {
		.flow = f,
		.hdr_len = BTH_LEN,
		.pad = 1,
		.niov = 2,
		.payload_len = sizeof(payload) - 1,
		.iov = {{(void *)(uintptr_t)payload, 4},
			{(void *)(uintptr_t)(payload + 4), sizeof(payload) - 1 - 4}},
	};

	memcpy(t.hdr, golden + GRH_LEN, BTH_LEN);
	return t;
}

/* ---- packets --------------------------------------------------------------------------------- */

static void a_packet_is_the_golden_bytes(void **state)
{
	struct flow f = golden_flow();
	struct packet_tx t = golden_packet(&f);
	uint8_t b[V1_PACKET_MAX];

	(void)state;
	assert_int_equal(v1_packet_len(&t), sizeof(golden));
	assert_int_equal(v1_packet_put(b, &t), 0xcc0b3517);
	assert_memory_equal(b, golden, sizeof(golden));
}

static void the_golden_bytes_are_read(void **state)
{
	const struct flow f = golden_flow();
	struct packet_rx r;
	struct pkt_hdr h;

	(void)state;
	assert_int_equal(v1_packet_take(golden, sizeof(golden), &r), V1_GOOD);
	assert_true(gid_equal(&r.flow.sgid, &f.sgid));
	assert_true(gid_equal(&r.flow.dgid, &f.dgid));
	assert_int_equal(r.flow.tos, f.tos);
	assert_int_equal(r.flow.ttl, f.ttl);
	assert_int_equal(r.flow.flow_label, f.flow_label);
	assert_true(r.flow.rocev1);
	assert_ptr_equal(r.data, golden + GRH_LEN);
	assert_int_equal(r.len, BTH_LEN + sizeof(PAYLOAD) - 1 + 1);
	assert_int_equal(r.icrc, 0xcc0b3517);
	assert_int_equal(pkt_hdr_decode(&h, r.data, r.len), BTH_LEN);
	assert_int_equal(h.bth.opcode, OPCODE_RC_SEND_ONLY);
	assert_int_equal(h.bth.dqpn, 0x420017);
	assert_int_equal(h.bth.psn, 0x123456);
	assert_int_equal(h.bth.pad, 1);
	assert_true(h.bth.se && h.bth.migreq && h.bth.fecn && h.bth.becn && h.bth.ackreq);
}

static void a_datagram_without_payload_is_read(void **state)
{
	struct packet_rx r;
	struct pkt_hdr h;

	(void)state;
	assert_int_equal(v1_packet_take(golden_ud, sizeof(golden_ud), &r), V1_GOOD);
	assert_int_equal(r.flow.ttl, 1);
	assert_int_equal(r.flow.scope, 0); /* which frames do not have */
	assert_true(r.flow.rocev1);
	assert_int_equal(r.len, BTH_LEN + DETH_LEN);
	assert_int_equal(pkt_hdr_decode(&h, r.data, r.len), BTH_LEN + DETH_LEN);
	assert_int_equal(h.deth.qkey, 0x80010000);
	assert_int_equal(h.deth.sqpn, 1);
}

static void who_says_no_hop_limit_has_the_usual_one(void **state)
{
	struct flow f = golden_flow();
	struct packet_tx t = golden_packet(&f);
	uint8_t b[V1_PACKET_MAX];

	(void)state;
	f.ttl = 0;
	v1_packet_put(b, &t);
	assert_memory_equal(b, golden, sizeof(golden));
}

/* An interface below Ethernet's shortest frame fills it up. */
static void what_follows_a_packet_is_passed_over(void **state)
{
	uint8_t b[sizeof(golden) + 20];
	struct packet_rx r;

	(void)state;
	memset(b, 0xee, sizeof(b));
	memcpy(b, golden, sizeof(golden));
	for (size_t more = 0; more <= 20; more++) {
		assert_int_equal(v1_packet_take(b, sizeof(golden) + more, &r), V1_GOOD);
		assert_int_equal(r.len, sizeof(golden) - GRH_LEN - ICRC_LEN);
	}
}

/* What switches and routers may change, and the ICRC does not cover. */
static bool may_change(size_t at, unsigned bit)
{
	const size_t becn = GRH_LEN + 4;

	return (at == 0 && bit < 4) || (at >= 1 && at <= 3) || at == 7 || at == becn;
}

static void a_damaged_packet_is_not_taken(void **state)
{
	uint8_t b[sizeof(golden)];
	struct packet_rx r;

	(void)state;
	memcpy(b, golden, sizeof(b));
	for (size_t i = 0; i < sizeof(b); i++)
		for (unsigned bit = 0; bit < 8; bit++) {
			b[i] ^= (uint8_t)(1u << bit);
			assert_int_equal(v1_packet_take(b, sizeof(b), &r) == V1_GOOD,
					 may_change(i, bit));
			b[i] ^= (uint8_t)(1u << bit);
		}
}

static void a_packet_that_was_cut_is_not_taken(void **state)
{
	struct packet_rx r;

	(void)state;
	for (size_t len = 0; len < sizeof(golden); len++) {
		uint8_t *cut = test_malloc(len + !len); /* sanitizers see what is read behind it */

		memcpy(cut, golden, len);
		assert_int_equal(v1_packet_take(cut, len, &r), V1_SHORT);
		test_free(cut);
	}
}

/* Shorter than a BTH and an ICRC, however long what stands there. */
static void a_grh_before_too_little_is_none(void **state)
{
	uint8_t b[sizeof(golden)];
	struct packet_rx r;

	(void)state;
	memcpy(b, golden, sizeof(b));
	for (uint16_t len = 0; len < BTH_LEN + ICRC_LEN; len++) {
		st_be16(b + 4, len);
		assert_int_equal(v1_packet_take(b, sizeof(b), &r), V1_SHORT);
	}
}

/* ---- the ICRC -------------------------------------------------------------------------------- */

static uint32_t crc(uint32_t state, const uint8_t *p, size_t len)
{
	while (len--) {
		state ^= *p++;
		for (int i = 0; i < 8; i++)
			state = state >> 1 ^ (state & 1 ? 0xedb88320u : 0);
	}
	return state;
}

/* By the rule, of the bytes of a packet without its ICRC. */
static uint32_t icrc_by_the_rule(const uint8_t *packet, size_t len)
{
	static const uint8_t no_lrh[8] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
	uint8_t b[V1_PACKET_MAX];

	memcpy(b, packet, len);
	b[0] |= 0x0f; /* traffic class, flow label */
	memset(b + 1, 0xff, 3);
	b[7] = 0xff; /* hop limit */
	b[GRH_LEN + 4] = 0xff;
	return ~crc(crc(0xffffffff, no_lrh, sizeof(no_lrh)), b, len);
}

static void the_icrc_follows_the_rule_at_every_length(void **state)
{
	static uint8_t data[4096];
	struct flow f = golden_flow();

	(void)state;
	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(i * 7 + (i >> 8));
	for (uint32_t len = 0; len <= sizeof(data); len += len < 300 ? 1 : 211) {
		struct packet_tx t = {.flow = &f,
				      .hdr_len = BTH_LEN,
				      .pad = (uint8_t)(-len & 3),
				      .niov = 1,
				      .payload_len = len,
				      .iov = {{data, len}}};
		uint8_t b[V1_PACKET_MAX];
		size_t covered = v1_packet_len(&t) - ICRC_LEN;
		uint32_t icrc;

		f.tos = (uint8_t)len;
		f.flow_label = len * 13;
		f.sgid.raw[15] = (uint8_t)(len * 3);
		memcpy(t.hdr, golden + GRH_LEN, BTH_LEN);
		icrc = v1_packet_put(b, &t);
		assert_int_equal(icrc, icrc_by_the_rule(b, covered));
		assert_int_equal(ld_le32(b + covered), icrc);
	}
}

/* Or one could be taken for the other. */
static void the_icrc_of_rocev2_is_another(void **state)
{
	const size_t len = sizeof(golden) - GRH_LEN;
	struct flow f = golden_flow();

	(void)state;
	assert_true(icrc_check(&f, 0, golden + GRH_LEN, len));
	f.rocev1 = 0;
	assert_false(icrc_check(&f, 0, golden + GRH_LEN, len));
}

/* ---- the filter ------------------------------------------------------------------------------ */

/* The kernel runs a filter on what comes to any socket. */
static bool passes(uint8_t slot, const uint8_t *packet, size_t len)
{
	uint8_t b[V1_PACKET_MAX];
	int pair[2];
	ssize_t got;

	assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0, pair), 0);
	assert_int_equal(raw_socket_filter(pair[1], slot), 0);
	(void)!send(pair[0], packet, len, 0);
	got = recv(pair[1], b, sizeof(b), 0);
	assert_true(got == (ssize_t)len || (got < 0 && errno == EAGAIN));
	close(pair[0]);
	close(pair[1]);
	return got > 0;
}

static void the_filter_passes_what_is_for_the_slot(void **state)
{
	(void)state;
	for (unsigned slot = 0; slot < 256; slot++) {
		assert_int_equal(passes((uint8_t)slot, golden, sizeof(golden)), slot == 0x42);
		assert_int_equal(passes((uint8_t)slot, golden_ud, sizeof(golden_ud)), slot == 0);
	}
}

static void the_filter_passes_nothing_else(void **state)
{
	uint8_t b[sizeof(golden)];

	(void)state;
	memcpy(b, golden, sizeof(b));
	b[0] = 0x42;
	assert_false(passes(0x42, b, sizeof(b)));
	b[0] = golden[0];
	b[GRH_NEXT_AT] = 17;
	assert_false(passes(0x42, b, sizeof(b)));
	b[GRH_NEXT_AT] = GRH_NEXT_HEADER;
	assert_true(passes(0x42, b, sizeof(b)));
	for (size_t len = 1; len <= GRH_LEN + 5; len++)
		assert_false(passes(0x42, b, len));
	assert_true(passes(0x42, b, GRH_LEN + 6));
}

/* ---- GIDs ------------------------------------------------------------------------------------ */

static void a_gid_that_is_made_of_a_mac_address_says_it(void **state)
{
	static const uint8_t want[] = {0x00, 0xaa, 0xbb, 0xcc, 0xdd, 0x01};
	const struct gid made = gid("fe80::2aa:bbff:fecc:dd01");
	uint8_t mac[L2_MAC_LEN];

	(void)state;
	assert_true(l2_mac_of_gid(&made, mac));
	assert_memory_equal(mac, want, sizeof(want));
}

static void other_gids_say_none(void **state)
{
	static const char *const texts[] = {"fe80::1", "fe80::2aa:bb00:fecc:dd01",
					    "fd00::2aa:bbff:fecc:dd01", "::ffff:10.1.2.3"};
	uint8_t mac[L2_MAC_LEN];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		const struct gid g = gid(texts[i]);

		assert_false(l2_mac_of_gid(&g, mac));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_packet_is_the_golden_bytes),
		cmocka_unit_test(the_golden_bytes_are_read),
		cmocka_unit_test(a_datagram_without_payload_is_read),
		cmocka_unit_test(who_says_no_hop_limit_has_the_usual_one),
		cmocka_unit_test(what_follows_a_packet_is_passed_over),
		cmocka_unit_test(a_damaged_packet_is_not_taken),
		cmocka_unit_test(a_packet_that_was_cut_is_not_taken),
		cmocka_unit_test(a_grh_before_too_little_is_none),
		cmocka_unit_test(the_icrc_follows_the_rule_at_every_length),
		cmocka_unit_test(the_icrc_of_rocev2_is_another),
		cmocka_unit_test(the_filter_passes_what_is_for_the_slot),
		cmocka_unit_test(the_filter_passes_nothing_else),
		cmocka_unit_test(a_gid_that_is_made_of_a_mac_address_says_it),
		cmocka_unit_test(other_gids_say_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
