/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The rule for identifications that nobody sees: whom it follows, and how much of the ICRC's
 * protection it leaves, counted.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/bytes.h"
#include "base/time.h"
#include "port/udp/ip_id.h"
#include "wire/bth.h"
#include "wire/icrc.h"

#define SENDER	 0x0a000001
#define RECEIVER 0x0a000002
#define LEN	 80

static struct gid v4(uint32_t a)
{
	struct gid g = {.raw = {[10] = 0xff, [11] = 0xff}};

	st_be32(g.raw + 12, a);
	return g;
}

struct packet {
	struct flow flow;
	uint8_t b[LEN];
};

static void seal(struct packet *p, uint16_t id)
{
	size_t len = LEN - ICRC_LEN;

	st_le32(p->b + len, icrc_end(icrc_begin(&p->flow, id, LEN, p->b, len)));
}

static struct packet packet_from(uint32_t from, uint32_t to, uint16_t id, uint32_t psn)
{
	struct packet p = {.flow = {.sgid = v4(from), .dgid = v4(to), .sport = 5}};

	st_be24(p.b + 9, psn);
	seal(&p, id);
	return p;
}

/* Forged, or a datagram, or out of sequence: the port takes it, and nobody was waiting for it. */
static bool pass_from(struct ip_id_table *t, uint32_t from, uint32_t to, uint16_t id, uint64_t ms)
{
	struct packet p = packet_from(from, to, id, (uint32_t)ms);
	struct ip_id_found found;

	return ip_id_check(t, &p.flow, p.b, LEN, -1, (1000 + ms) * NSEC_PER_MSEC, &found);
}

static bool pass(struct ip_id_table *t, uint16_t id, uint64_t ms)
{
	return pass_from(t, SENDER, RECEIVER, id, ms);
}

/* One that is accepted, if it passes. */
static bool offer_from(struct ip_id_table *t, uint32_t from, uint32_t to, uint16_t id, uint64_t ms)
{
	struct packet p = packet_from(from, to, id, (uint32_t)ms);
	uint64_t now = (1000 + ms) * NSEC_PER_MSEC;
	struct ip_id_found found;

	if (!ip_id_check(t, &p.flow, p.b, LEN, -1, now, &found))
		return false;
	ip_id_accept(t, &found, now);
	return true;
}

static bool offer(struct ip_id_table *t, uint16_t id, uint64_t ms)
{
	return offer_from(t, SENDER, RECEIVER, id, ms);
}

/*
 * Of how many identifications would the next packet be believed? Times 2^-32 that is a damaged
 * packet's chance: each identification excuses one of the 2^32 differences that damage can make.
 */
static unsigned believed(const struct ip_id_table *t, uint64_t ms)
{
	struct ip_id_table copy;
	unsigned n = 0;

	for (uint32_t id = 0; id < 65536; id++) {
		copy = *t;
		n += pass(&copy, (uint16_t)id, ms);
	}
	return n;
}

/* ---- who is followed ------------------------------------------------------------------------ */

static void a_weft_sender_is_held_to_small_identifications(void **state)
{
	struct ip_id_table t = {0};

	(void)state;
	assert_true(offer(&t, 0, 0));
	for (uint16_t id = 0; id < IP_ID_SMALL; id++)
		assert_true(offer(&t, id, 1));
	assert_true(offer(&t, 0, 2));
	assert_false(offer(&t, IP_ID_SMALL, 3));
	assert_false(offer(&t, 30000, 4));
	assert_false(offer(&t, 50000, 5));
	assert_true(offer(&t, 0, 6));
}

static void a_counting_sender_is_followed(void **state)
{
	struct ip_id_table t = {0};
	uint16_t id = 65000;

	(void)state;
	for (int i = 0; i < 2000; i++, id++)
		assert_true(offer(&t, id, 1));	       /* and over the wrap */
	assert_true(offer(&t, (uint16_t)(id - 3), 1)); /* overtaken on the way */
	assert_true(offer(&t, id += IP_ID_WINDOW - 3, 1));
	assert_false(offer(&t, (uint16_t)(id + 2000), 2));
	/* After a silence the counter may have leapt, by one for a tick. */
	assert_true(offer(&t, id += 2000, 2001));
	assert_false(offer(&t, (uint16_t)(id + 2000), 2002));
}

/* One time in a thousand its first number is as small as weft's are. */
static void a_counter_that_begins_small_is_followed(void **state)
{
	(void)state;
	for (uint16_t first = 0; first < IP_ID_SMALL; first++) {
		struct ip_id_table t = {0};

		for (uint16_t id = first; id < 6 * IP_ID_SMALL; id += 3) /* others get the rest */
			assert_true(offer(&t, id, 0));
		assert_false(offer(&t, 0, 0));
	}
}

/* Linux numbers what it sends from one address to another, whichever of our processes gets it: the
 * keep-alives of one while another receives 4,000 packets a second, or 400,000. */
static void a_counter_that_runs_for_others_too_is_followed(void **state)
{
	struct ip_id_table t = {0};
	uint16_t id = 5000;

	(void)state;
	assert_true(offer(&t, id, 0));
	for (uint64_t ms = 5000; ms < 40000; ms += 5000)
		assert_true(offer(&t, id += 20000, ms));
	for (uint64_t ms = 40000; ms < 42000; ms += 40)
		assert_true(offer(&t, id += 16000, ms));
}

/* Linux has a counter for each pair of addresses: one host sends to two of ours, or to one and to
 * a group. */
static void counters_for_two_addresses_of_ours_are_told_apart(void **state)
{
	struct ip_id_table t = {0};

	(void)state;
	for (uint16_t i = 0; i < 1000; i++) {
		assert_true(offer_from(&t, SENDER, RECEIVER, (uint16_t)(60000 + i), i / 10));
		assert_true(offer_from(&t, SENDER, RECEIVER + 1, (uint16_t)(20000 + i), i / 10));
		assert_true(offer_from(&t, SENDER, 0xef010203, (uint16_t)(40000 + i), i / 10));
	}
}

/* Nobody's place is taken by another while both send. */
static void a_hundred_senders_are_held_to_the_rule_at_once(void **state)
{
	struct ip_id_table t = {0};

	(void)state;
	for (uint32_t i = 0; i < 100; i++)
		assert_true(offer_from(&t, SENDER + 7 * i, RECEIVER, 30000, 0));
	for (uint32_t i = 0; i < 100; i++)
		assert_false(offer_from(&t, SENDER + 7 * i, RECEIVER, 50000, 1));
	for (uint32_t i = 0; i < 100; i++)
		assert_true(offer_from(&t, SENDER + 7 * i, RECEIVER, 30001, 2));
}

static uint64_t seed;

static uint64_t rnd(void)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return seed >> 32;
}

static void junk_from_anywhere_makes_nobody_forgotten(void **state)
{
	struct ip_id_table t = {0};
	struct ip_id_found found;
	unsigned passed = 0;

	(void)state;
	seed = 1;
	assert_true(offer(&t, 0, 0));
	for (uint32_t i = 0; i < 100000; i++) {
		struct packet p = packet_from((uint32_t)rnd(), RECEIVER, 0, i);

		st_le32(p.b + LEN - ICRC_LEN, (uint32_t)rnd());
		passed += ip_id_check(&t, &p.flow, p.b, LEN, -1, NSEC_PER_SEC + i, &found);
	}
	assert_in_range(passed, 0, 8); /* 2^-16 each: the first packet of a sender */
	assert_false(offer(&t, 777, 2));
}

static void a_sender_that_restarts_is_believed_at_the_second_packet(void **state)
{
	struct ip_id_table t = {0};

	(void)state;
	assert_true(offer(&t, 20000, 0));
	assert_false(offer(&t, 40000, 10));
	assert_true(offer(&t, 40001, 20));
	assert_true(offer(&t, 40002, 30));
	/* The retry of a lone request, seconds later, continues it too. */
	assert_false(offer(&t, 10000, 40));
	assert_true(offer(&t, 14000, 4300));
	/* It becomes a weft, then a Linux again. */
	assert_false(offer(&t, 0, 4310));
	assert_true(offer(&t, 0, 4320));
	assert_false(offer(&t, 9000, 4330));
	assert_true(offer(&t, 9001, 4340));
}

static void strays_in_between_do_not_add_up(void **state)
{
	struct ip_id_table t = {0};

	(void)state;
	assert_true(offer(&t, 0, 0));
	for (uint64_t ms = 1; ms < 20; ms++) {
		assert_false(offer(&t, 777, ms));
		assert_true(offer(&t, 0, ms));
	}
}

static void a_silent_sender_is_forgotten(void **state)
{
	struct ip_id_table t = {0};

	(void)state;
	assert_true(offer(&t, 0, 0));
	assert_false(offer(&t, 777, 1000));
	assert_true(offer(&t, 777, 1000 + IP_ID_FORGET_NS / NSEC_PER_MSEC + 1));
}

/* ---- who is not ----------------------------------------------------------------------------- */

/* Whoever can write another's address as the source can make any packet's ICRC right. */
static void what_nobody_accepts_says_nothing_of_a_weft_sender(void **state)
{
	struct ip_id_table t = {0};

	(void)state;
	for (uint64_t ms = 0; ms < 5000; ms++) {
		(void)pass(&t, 400, ms); /* before the first packet, too */
		if (ms % 100 == 99)
			assert_true(offer(&t, 0, ms));
	}
	assert_int_equal(believed(&t, 5000), IP_ID_SMALL);
}

static void nor_of_a_counting_one(void **state)
{
	struct ip_id_table t = {0};
	uint16_t id = 20000;

	(void)state;
	for (uint64_t ms = 0; ms < 5000; ms++) {
		(void)pass(&t, 0, ms);
		(void)pass(&t, (uint16_t)(id + 5000), ms);
		if (ms % 10 == 9)
			assert_true(offer(&t, id++, ms));
	}
	assert_int_equal(believed(&t, 4999), 513);
}

/* Nor do strays in its name keep out one that has really restarted. */
static void a_restarted_sender_is_believed_within_65_ms_whoever_else_sends(void **state)
{
	for (uint16_t forged = 0; forged < 65000; forged += 499) {
		struct ip_id_table t = {0};
		uint64_t ms = 0;

		(void)state;
		assert_true(offer(&t, 20000, 0));
		assert_true(offer(&t, 20001, 0));
		do {
			ms++;
			(void)pass(&t, (uint16_t)(forged + ms % 2 * 10000), ms);
		} while (!offer(&t, (uint16_t)(45000 + ms), ms));
		assert_in_range(ms, 1, 66);
	}
}

static void a_weft_that_takes_over_from_a_counter_is_believed_and_so_is_the_counter(void **state)
{
	struct ip_id_table t = {0};

	(void)state;
	assert_true(offer(&t, 20000, 0));
	assert_false(offer(&t, 0, 1));
	assert_true(offer(&t, 0, 2));
	for (uint64_t ms = 3; ms < 50; ms += 2) {
		assert_true(offer(&t, (uint16_t)(20000 + ms), ms));
		assert_true(offer(&t, 0, ms + 1));
	}
	assert_int_equal(believed(&t, 50), 513 + 1000 + IP_ID_SMALL); /* silent for 1 ms */
	/* What it has not done for a minute is forgotten. */
	for (uint64_t ms = 1000; ms < 61000; ms += 1000)
		assert_true(offer(&t, 0, ms));
	assert_int_equal(believed(&t, 61000), IP_ID_SMALL);
}

/* Places are for those of whom something was accepted. */
static void forged_senders_take_nobodys_place(void **state)
{
	struct ip_id_table t = {0};

	(void)state;
	assert_true(offer(&t, 0, 0));
	assert_true(offer(&t, 0, 0));
	for (uint32_t i = 1; i < 20000; i++)
		assert_true(pass_from(&t, SENDER + i, RECEIVER, 777, 1));
	assert_int_equal(believed(&t, 2), IP_ID_SMALL);
}

/* ---- what protection is left ----------------------------------------------------------------- */

static void a_weft_sender_leaves_64_identifications(void **state)
{
	struct ip_id_table t = {0};

	(void)state;
	assert_int_equal(believed(&t, 0), 65536); /* the first packet: 2^-16 */
	for (uint16_t id = 0; id < IP_ID_SMALL; id++)
		assert_true(offer(&t, id, 0));
	assert_true(offer(&t, 0, 0));
	assert_int_equal(believed(&t, 1), 64); /* 2^-26 */
	assert_int_equal(believed(&t, 59000), 64);
	assert_int_equal(believed(&t, 61000), 65536);
}

static void a_counting_sender_leaves_513_and_one_for_each_microsecond_of_silence(void **state)
{
	struct ip_id_table t = {0};

	(void)state;
	for (uint16_t id = 300; id < 400; id++)
		assert_true(offer(&t, id, 0));
	assert_int_equal(believed(&t, 0), 513); /* 2^-23 */
	assert_int_equal(believed(&t, 10), 10513);
	assert_int_equal(believed(&t, 64), 64513);
	assert_int_equal(believed(&t, 66), 65536); /* 2^-16 */
}

enum { DAMAGED = 1 << 21 };

/* Flips 1 to 16 bits that the ICRC covers; returns how many of DAMAGED packets pass. Each is the
 * first of its sender, as far as the rule knows. */
static unsigned damaged_that_pass(const struct flow *flow)
{
	struct packet good = {.flow = *flow}, p;
	struct ip_id_table t = {0};
	struct ip_id_found found;
	unsigned passed = 0;

	seed = 42;
	for (size_t i = 0; i < LEN; i++)
		good.b[i] = (uint8_t)rnd();
	seal(&good, 0);
	for (uint64_t i = 0; i < DAMAGED; i++) {
		uint64_t flips = 1 + rnd() % 16;

		p = good;
		do {
			uint64_t bit = rnd() % (LEN * 8);

			if (bit / 8 != 4) /* BECN and FECN are not covered */
				p.b[bit / 8] ^= (uint8_t)(1 << bit % 8);
		} while (--flips);
		if (memcmp(p.b, good.b, LEN) != 0)
			passed += ip_id_check(&t, &p.flow, p.b, LEN, -1, NSEC_PER_SEC + i, &found);
	}
	return passed;
}

/* 32 are to be expected. */
static void damage_of_a_first_packet_passes_once_in_65536_times(void **state)
{
	(void)state;
	assert_in_range(damaged_that_pass(&(struct flow){.sgid = v4(SENDER), .dgid = v4(RECEIVER)}),
			32 - 17, 32 + 17);
}

static void over_ipv6_no_damage_passes(void **state)
{
	(void)state;
	assert_int_equal(damaged_that_pass(&(struct flow){.sgid = {{0xfd, [15] = 1}},
							  .dgid = {{0xfd, [15] = 2}}}),
			 0);
}

static void one_bit_of_damage_is_found_whatever_the_identification(void **state)
{
	struct ip_id_table t = {0};
	struct ip_id_found found;
	struct packet p;

	(void)state;
	for (size_t bit = 0; bit < sizeof(p.b) * 8; bit++) {
		p = packet_from(SENDER, RECEIVER, 0, 1);
		p.b[bit / 8] ^= (uint8_t)(1 << bit % 8);
		if (bit / 8 != 4) /* the BTH's ECN byte is not covered */
			assert_false(
				ip_id_check(&t, &p.flow, p.b, LEN, -1, NSEC_PER_SEC + bit, &found));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_weft_sender_is_held_to_small_identifications),
		cmocka_unit_test(a_counting_sender_is_followed),
		cmocka_unit_test(a_counter_that_begins_small_is_followed),
		cmocka_unit_test(a_counter_that_runs_for_others_too_is_followed),
		cmocka_unit_test(counters_for_two_addresses_of_ours_are_told_apart),
		cmocka_unit_test(a_hundred_senders_are_held_to_the_rule_at_once),
		cmocka_unit_test(junk_from_anywhere_makes_nobody_forgotten),
		cmocka_unit_test(a_sender_that_restarts_is_believed_at_the_second_packet),
		cmocka_unit_test(strays_in_between_do_not_add_up),
		cmocka_unit_test(a_silent_sender_is_forgotten),
		cmocka_unit_test(what_nobody_accepts_says_nothing_of_a_weft_sender),
		cmocka_unit_test(nor_of_a_counting_one),
		cmocka_unit_test(a_restarted_sender_is_believed_within_65_ms_whoever_else_sends),
		cmocka_unit_test(
			a_weft_that_takes_over_from_a_counter_is_believed_and_so_is_the_counter),
		cmocka_unit_test(forged_senders_take_nobodys_place),
		cmocka_unit_test(a_weft_sender_leaves_64_identifications),
		cmocka_unit_test(
			a_counting_sender_leaves_513_and_one_for_each_microsecond_of_silence),
		cmocka_unit_test(damage_of_a_first_packet_passes_once_in_65536_times),
		cmocka_unit_test(over_ipv6_no_damage_passes),
		cmocka_unit_test(one_bit_of_damage_is_found_whatever_the_identification),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
