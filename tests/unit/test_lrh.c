/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* InfiniBand's link layer on the wire: the local route header, both CRCs, credits. The packet is
 * the sample that the specification computes its CRCs for. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <string.h>

#include "base/bytes.h"
#include "base/compiler.h"
#include "wire/bth.h"
#include "wire/icrc.h"
#include "wire/lrh.h"

static const uint8_t sample[] = {
	0x70, 0x12, 0x37, 0x5c, 0x00, 0x0e, 0x17, 0xd2,				/* LRH */
	0x0a, 0x20, 0x24, 0x87, 0x00, 0x87, 0xb1, 0xb3, 0x00, 0x0d, 0xec, 0x2a, /* BTH */
	0x01, 0x71, 0x0a, 0x1c, 0x01, 0x5d, 0x40, 0x02, 0x38, 0xf2, 0x7a, 0x05, /* RETH */
	0x00, 0x00, 0x00, 0x0e, 0xbb, 0x88, 0x4d, 0x85, 0xfd, 0x5c, 0xfb, 0xa4, /* payload */
	0x72, 0x8b, 0xc0, 0x69, 0x0e, 0xd4, 0x00, 0x00, 0x96, 0x25, 0xb7, 0x5a, /* pad, ICRC */
};

static void a_header_is_read_and_written(void **state)
{
	uint8_t again[LRH_LEN];
	struct lrh h;

	(void)state;
	lrh_take(sample, &h);
	assert_int_equal(h.lane, 7);
	assert_int_equal(h.version, 0);
	assert_int_equal(h.sl, 1);
	assert_int_equal(h.next, LRH_NEXT_BTH);
	assert_int_equal(h.dlid, 0x375c);
	assert_int_equal(h.slid, 0x17d2);
	assert_int_equal(h.words * 4u, sizeof(sample));
	lrh_put(again, &h);
	assert_memory_equal(again, sample, LRH_LEN);
}

static void the_icrc_is_the_samples_in_any_lane(void **state)
{
	const uint8_t *bth = sample + LRH_LEN;
	const size_t len = sizeof(sample) - LRH_LEN - ICRC_LEN;
	uint8_t lrh[LRH_LEN];

	(void)state;
	memcpy(lrh, sample, LRH_LEN);
	for (unsigned lane = 0; lane < 16; lane++) {
		lrh[0] = (uint8_t)(lane << 4);
		assert_int_equal(icrc_end(icrc_begin_local(lrh, bth, len)), ld_le32(bth + len));
	}
	lrh[1] ^= 0x10; /* the service level is covered */
	assert_int_not_equal(icrc_end(icrc_begin_local(lrh, bth, len)), ld_le32(bth + len));
}

/* x^16 + x^12 + x^3 + x + 1, the lowest bit of each byte first: whatever is right ends with the
 * same rest, and every single bit counts. */
static void the_vcrc_covers_every_bit(void **state)
{
	uint8_t p[sizeof(sample) + VCRC_LEN];
	uint16_t rest;

	(void)state;
	memcpy(p, sample, sizeof(sample));
	assert_int_equal(lrh_vcrc(p, sizeof(sample)), 0xfa45);
	st_le16(p + sizeof(sample), lrh_vcrc(p, sizeof(sample)));
	rest = lrh_vcrc(p, sizeof(p));
	for (size_t i = 0; i < sizeof(p) * 8; i++) {
		p[i / 8] ^= (uint8_t)(1u << i % 8);
		assert_int_not_equal(lrh_vcrc(p, sizeof(p)), rest);
		p[i / 8] ^= (uint8_t)(1u << i % 8);
	}
	/* Of another packet. */
	memset(p, 0x5a, 12);
	st_le16(p + 12, lrh_vcrc(p, 12));
	assert_int_equal(lrh_vcrc(p, 14), rest);
}

static void credits_are_read_and_written(void **state)
{
	const struct credit all[] = {
		{true, 0, 0, 2048}, {false, 3, 4095, 17}, {false, 7, 0x123, 0xabc}};
	uint8_t p[CREDIT_LEN];
	struct credit c;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		credit_put(p, &all[i]);
		assert_true(credit_take(p, &c));
		assert_int_equal(c.init, all[i].init);
		assert_int_equal(c.lane, all[i].lane);
		assert_int_equal(c.sent, all[i].sent);
		assert_int_equal(c.limit, all[i].limit);
		p[3] ^= 1;
		assert_false(credit_take(p, &c));
	}
	credit_put(p, &all[1]);
	assert_int_equal(ld_be32(p), 0x0fff3011);
	p[0] = 0x20; /* no such packet */
	st_le16(p + 4, lrh_vcrc(p, 4));
	assert_false(credit_take(p, &c));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_header_is_read_and_written),
		cmocka_unit_test(the_icrc_is_the_samples_in_any_lane),
		cmocka_unit_test(the_vcrc_covers_every_bit),
		cmocka_unit_test(credits_are_read_and_written),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
