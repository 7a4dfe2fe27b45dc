/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* MPA's request and reply between an initiator and a responder, however their bytes are cut. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <string.h>
#include <cmocka.h>

#include <errno.h>

#include "cm/iw.h"
#include "wire/rdmap.h"

static uint8_t out[IW_OUT_MAX + 64];
static struct iw_conn active, passive;

static struct iw_params params(void)
{
	return (struct iw_params){.rev = 2,
				  .crc = true,
				  .ird = 8,
				  .ord = 4,
				  .private_data = "hello",
				  .private_len = 6};
}

/* By pieces of so many bytes, with some behind that are the stream's. */
static enum iw_event hand(struct iw_conn *to, int len, size_t piece)
{
	enum iw_event e = IW_MORE;
	size_t at = 0, all = (size_t)len + 7;

	assert_true(len > 0);
	while (e == IW_MORE) {
		size_t used, n = all - at < piece ? all - at : piece;

		assert_true(n > 0);
		e = iw_rx(to, out + at, n, &used);
		assert_true(e != IW_MORE || used == n);
		at += used;
	}
	if (e != IW_BROKEN)
		assert_int_equal(at, len);
	return e;
}

static enum iw_event agree(const struct iw_params *a, const struct iw_params *p)
{
	iw_listen(&passive);
	assert_int_equal(hand(&passive, iw_connect(&active, a, out), 999), IW_REQUEST);
	return hand(&active, iw_accept(&passive, p, out), 999);
}

static void both_hear_what_the_other_says(void **state)
{
	struct iw_params a = params(), p = params();

	(void)state;
	p.private_data = "world!";
	p.private_len = 7;
	for (size_t piece = 1; piece < 60; piece++) {
		iw_listen(&passive);
		assert_int_equal(hand(&passive, iw_connect(&active, &a, out), piece), IW_REQUEST);
		assert_int_equal(passive.private_len, 6);
		assert_string_equal((const char *)passive.private_data, "hello");
		assert_int_equal(passive.peer_ird, 8);
		assert_int_equal(passive.peer_ord, 4);
		assert_int_equal(hand(&active, iw_accept(&passive, &p, out), piece), IW_ACCEPTED);
		assert_int_equal(active.private_len, 7);
		assert_string_equal((const char *)active.private_data, "world!");
	}
}

static void private_data_is_as_long_as_there_is_room(void **state)
{
	static const size_t lens[] = {1, 251, 252, 253, IW_PRIVATE_MAX};
	static uint8_t data[IW_PRIVATE_MAX + 1];
	struct iw_params a = params();

	(void)state;
	memset(data, 0x5a, sizeof(data));
	a.private_data = data;
	/* With the depths before it 255 bytes and 256, where siw has eight bits for that. */
	for (size_t i = 0; i < sizeof(lens) / sizeof(*lens); i++) {
		a.private_len = lens[i];
		assert_int_equal(agree(&a, &a), IW_ACCEPTED);
		assert_int_equal(active.private_len, lens[i]);
		assert_memory_equal(active.private_data, data, lens[i]);
		assert_int_equal(passive.private_len, lens[i]);
		assert_memory_equal(passive.private_data, data, lens[i]);
	}
	a.private_len = IW_PRIVATE_MAX + 1;
	assert_int_equal(iw_connect(&active, &a, out), -EINVAL);
	assert_int_equal(iw_accept(&passive, &a, out), -EINVAL);
	a.private_len = 0;
	assert_int_equal(agree(&a, &a), IW_ACCEPTED);
	assert_int_equal(active.private_len, 0);
}

/* By whichever revision, and whoever may send first. */
static void crc_is_used_if_either_wants_it(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 4 * 3; i++) {
		struct iw_params a = params(), p = params();
		const bool p2p = i / 4 == 2;

		a.crc = i & 1;
		p.crc = i & 2;
		a.rev = i / 4 ? 2 : 1;
		a.p2p = p2p;
		assert_int_equal(agree(&a, &p), IW_ACCEPTED);
		assert_int_equal(active.start.rev, a.rev);
		assert_int_equal(active.agreed.crc, i % 4 != 0);
		assert_int_equal(passive.agreed.crc, i % 4 != 0);
		assert_int_equal(active.agreed.rtr, p2p ? MPA_RTR_WRITE : MPA_RTR_NONE);
		assert_int_equal(passive.agreed.rtr, active.agreed.rtr);
	}
}

static void who_wants_markers_gets_them(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		struct iw_params a = params(), p = params();

		a.markers = i & 1;
		p.markers = i & 2;
		assert_int_equal(agree(&a, &p), IW_ACCEPTED);
		assert_int_equal(active.agreed.markers_in, i & 1);
		assert_int_equal(passive.agreed.markers_out, i & 1);
		assert_int_equal(active.agreed.markers_out, i >> 1);
		assert_int_equal(passive.agreed.markers_in, i >> 1);
	}
}

/* Nobody sends more READs than the other takes. */
static void depths_fit(void **state)
{
	(void)state;
	for (uint16_t n = 0; n < 9 * 9; n++) {
		struct iw_params a = params(), p = params();

		a.ird = n % 9;
		p.ird = n / 9;
		a.ord = p.ord = 5;
		assert_int_equal(agree(&a, &p), IW_ACCEPTED);
		assert_true(active.agreed.ord <= passive.agreed.ird);
		assert_true(passive.agreed.ord <= active.agreed.ird);
		assert_int_equal(active.agreed.ord, p.ird < 5 ? p.ird : 5);
		assert_int_equal(passive.agreed.ord, a.ird < 5 ? a.ird : 5);
	}
}

static void revision_1_says_nothing_of_depths(void **state)
{
	struct iw_params a = params(), p = params();

	(void)state;
	a.rev = 1;
	assert_int_equal(agree(&a, &p), IW_ACCEPTED);
	assert_int_equal(passive.peer_ird, MPA_DEPTH_ANY);
	assert_int_equal(active.peer_ord, MPA_DEPTH_ANY);
	assert_int_equal(active.start.rev, 1);
	assert_int_equal(active.agreed.ord, 4);
	assert_int_equal(passive.agreed.ord, 4);
	a.p2p = true;
	assert_int_equal(iw_connect(&active, &a, out), -EINVAL);
	a.p2p = false;
	a.rev = 3;
	assert_int_equal(iw_connect(&active, &a, out), -EINVAL);
	a.rev = 0;
	assert_int_equal(iw_connect(&active, &a, out), -EINVAL);
}

static void who_may_send_first_says_how(void **state)
{
	struct iw_params a = params(), p = params();

	(void)state;
	assert_int_equal(agree(&a, &p), IW_ACCEPTED);
	assert_int_equal(active.agreed.rtr, MPA_RTR_NONE);
	a.p2p = true;
	assert_int_equal(agree(&a, &p), IW_ACCEPTED);
	assert_int_equal(active.agreed.rtr, MPA_RTR_WRITE);
	assert_int_equal(passive.agreed.rtr, MPA_RTR_WRITE);
}

/* A request of others' that offers one kind alone, or none. */
static void of_those_offered_one_is_taken(void **state)
{
	static const struct {
		bool write, read, send;
		enum mpa_rtr taken;
		uint16_t ird, agreed; /* READs that the program answers, and that it is to */
	} offered[] = {
		{false, true, false, MPA_RTR_READ, 4, 4},  {false, false, true, MPA_RTR_SEND, 4, 4},
		{false, false, false, MPA_RTR_NONE, 4, 4}, {true, true, true, MPA_RTR_WRITE, 4, 4},
		{false, true, true, MPA_RTR_READ, 4, 4},   {false, true, true, MPA_RTR_SEND, 0, 0},
		{false, true, false, MPA_RTR_READ, 0, 1}, /* it knows no other */
	};

	(void)state;
	for (size_t i = 0; i < sizeof(offered) / sizeof(*offered); i++) {
		struct iw_params p = params();
		struct mpa_enhanced e = {.p2p = true,
					 .rtr_write = offered[i].write,
					 .rtr_read = offered[i].read,
					 .rtr_send = offered[i].send,
					 .ird = 1,
					 .ord = 1};
		int len = iw_connect(&active, &p, out);

		mpa_enhanced_put(out + MPA_START_LEN, &e);
		iw_listen(&passive);
		assert_int_equal(hand(&passive, len, 99), IW_REQUEST);
		p.ird = offered[i].ird;
		(void)!iw_accept(&passive, &p, out);
		assert_int_equal(passive.agreed.rtr, offered[i].taken);
		assert_int_equal(passive.agreed.ird, offered[i].agreed);
		mpa_enhanced_get(&e, out + MPA_START_LEN);
		assert_int_equal(e.ird, offered[i].agreed);
		assert_int_equal(e.rtr_write + e.rtr_read + e.rtr_send,
				 offered[i].taken != MPA_RTR_NONE);
		assert_int_equal(e.p2p, offered[i].taken != MPA_RTR_NONE);
	}
}

static void a_rejection_brings_its_reason(void **state)
{
	struct iw_params a = params();

	(void)state;
	for (uint8_t rev = 1; rev <= 2; rev++) {
		a.rev = rev;
		iw_listen(&passive);
		assert_int_equal(hand(&passive, iw_connect(&active, &a, out), 9), IW_REQUEST);
		assert_int_equal(hand(&active, iw_reject(&passive, "no", 3, out), 9), IW_REJECTED);
		assert_int_equal(active.private_len, 3);
		assert_string_equal((const char *)active.private_data, "no");
	}
	/* By one that knows revision 1 alone. */
	assert_true(iw_connect(&active, &a, out) > 0);
	mpa_start_put(out, &(struct mpa_start){.reply = true, .flags = MPA_REJECT, .rev = 1});
	assert_int_equal(hand(&active, MPA_START_LEN, 9), IW_OLD);
	/* Who asked in words of the first revision has none that are older. */
	a.rev = 1;
	assert_true(iw_connect(&active, &a, out) > 0);
	mpa_start_put(out, &(struct mpa_start){.reply = true, .flags = MPA_REJECT, .rev = 0});
	assert_int_equal(hand(&active, MPA_START_LEN, 9), IW_REJECTED);
}

static enum iw_event answered(uint8_t flags, uint8_t rev, const struct mpa_enhanced *e)
{
	struct iw_params a = params();

	a.p2p = true;
	assert_true(iw_connect(&active, &a, out) > 0);
	mpa_start_put(out, &(struct mpa_start){.reply = true,
					       .flags = flags,
					       .rev = rev,
					       .private_len = e ? MPA_ENHANCED_LEN : 0});
	if (e)
		mpa_enhanced_put(out + MPA_START_LEN, e);
	return hand(&active, MPA_START_LEN + (e ? MPA_ENHANCED_LEN : 0), 99);
}

static void answers_that_do_not_fit_are_refused(void **state)
{
	(void)state;
	assert_int_equal(answered(0, 1, NULL), IW_ACCEPTED); /* an older one */
	assert_int_equal(active.agreed.rtr, MPA_RTR_NONE);
	assert_int_equal(answered(0, 3, NULL), IW_REFUSED);
	assert_int_equal(active.term, MPA_TERM_START);
	assert_int_equal(answered(MPA_ENHANCED, 2, &(struct mpa_enhanced){.ird = 9, .ord = 9}),
			 IW_REFUSED);
	assert_int_equal(active.term, MPA_TERM_IRD);
	assert_int_equal(answered(MPA_ENHANCED, 2, &(struct mpa_enhanced){.p2p = true, .ird = 1}),
			 IW_REFUSED);
	assert_int_equal(active.term, MPA_TERM_RTR);
	assert_int_equal(answered(MPA_ENHANCED, 2,
				  &(struct mpa_enhanced){.p2p = true, .rtr_send = true, .ird = 1}),
			 IW_REFUSED);
	assert_int_equal(active.term, MPA_TERM_RTR);
	assert_int_equal(
		answered(MPA_ENHANCED, 2, &(struct mpa_enhanced){.p2p = true, .rtr_read = true}),
		IW_REFUSED); /* which takes no READ */
	assert_int_equal(active.term, MPA_TERM_RTR);
	assert_int_equal(answered(MPA_ENHANCED, 2,
				  &(struct mpa_enhanced){.p2p = true, .rtr_read = true, .ird = 1}),
			 IW_ACCEPTED);
	assert_int_equal(active.agreed.rtr, MPA_RTR_READ);
	assert_int_equal(active.agreed.ord, 1);
}

static void what_is_no_mpa_is_noticed_at_once(void **state)
{
	size_t used;

	(void)state;
	iw_listen(&passive);
	assert_int_equal(iw_rx(&passive, (const uint8_t *)"GET", 3, &used), IW_BROKEN);
	iw_listen(&passive);
	assert_int_equal(iw_rx(&passive, (const uint8_t *)"MPA ID Rep", 10, &used), IW_BROKEN);
	iw_listen(&passive);
	mpa_start_put(out, &(struct mpa_start){.rev = 2, .private_len = MPA_PRIVATE_MAX + 1});
	assert_int_equal(hand(&passive, MPA_START_LEN, 99), IW_BROKEN);
	iw_listen(&passive);
	mpa_start_put(out, &(struct mpa_start){.rev = 2, .flags = MPA_ENHANCED, .private_len = 3});
	assert_int_equal(hand(&passive, MPA_START_LEN + 3, 99), IW_BROKEN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(both_hear_what_the_other_says),
		cmocka_unit_test(private_data_is_as_long_as_there_is_room),
		cmocka_unit_test(crc_is_used_if_either_wants_it),
		cmocka_unit_test(who_wants_markers_gets_them),
		cmocka_unit_test(depths_fit),
		cmocka_unit_test(revision_1_says_nothing_of_depths),
		cmocka_unit_test(who_may_send_first_says_how),
		cmocka_unit_test(of_those_offered_one_is_taken),
		cmocka_unit_test(a_rejection_brings_its_reason),
		cmocka_unit_test(answers_that_do_not_fit_are_refused),
		cmocka_unit_test(what_is_no_mpa_is_noticed_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
