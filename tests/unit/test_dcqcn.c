/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* DCQCN's reaction point beside a model of what was published. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "base/compiler.h"
#include "base/units.h"
#include "dcqcn_model.h"
#include "rnic/cc/cc.h"

#define US   NSEC_PER_USEC
#define LINE 40000 /* Mb/s, as in the paper */

/* ---- the two together ----------------------------------------------------------------------- */

static struct cc_params published(void)
{
	struct cc_params p = cc_defaults;

	p.rp_max_rate = LINE;
	p.rp_time_reset = 55;
	p.rp_min_rate = 1;
	return p;
}

static void expect_rate(const struct cc *cc, const struct model *m)
{
	if (!model_agrees(m, cc->rate_kbps))
		fail_msg("%u kb/s, not %f Mb/s", cc->rate_kbps, m->rc);
}

static void expect_model(const struct cc_params *p, struct model m, const uint64_t *cnps_us,
			 size_t n, uint64_t end_us)
{
	size_t next = 0;
	struct cc cc;

	cc_start(&cc, &cc_dcqcn, p, 1 << 20, 0);
	assert_int_equal(cc.rate_kbps, 0);
	for (uint64_t at = 1; at < end_us; at++) {
		uint64_t now = at * US;
		uint32_t bytes = (uint32_t)(m.rc / 8); /* as much as goes in a microsecond */

		model_run(&m, now);
		if (next < n && cnps_us[next] <= at) {
			cc.ops->cnp(&cc, now);
			model_cnp(&m, now);
			next++;
		} else {
			cc.ops->sent(&cc, bytes, now);
			model_sent(&m, bytes);
		}
		expect_rate(&cc, &m);
	}
	assert_int_equal(next, n);
}

static void expect_trace(const uint64_t *cnps_us, size_t n, uint64_t end_us)
{
	const struct cc_params p = published();

	expect_model(&p, model_of(LINE), cnps_us, n, end_us);
}

static void one_notification_is_recovered_from(void **state)
{
	static const uint64_t cnps[] = {100};

	(void)state;
	expect_trace(cnps, 1, 4000);
}

static void many_take_less_and_less_each(void **state)
{
	uint64_t cnps[400];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cnps); i++)
		cnps[i] = 10 + 50 * i;
	expect_trace(cnps, ARRAY_SIZE(cnps), 40000);
}

static void those_that_come_seldom_take_little(void **state)
{
	uint64_t cnps[40];

	(void)state;
	srand(7);
	for (size_t i = 0; i < ARRAY_SIZE(cnps); i++)
		cnps[i] = (i ? cnps[i - 1] : 0) + 60 + (uint64_t)rand() % 3000;
	expect_trace(cnps, ARRAY_SIZE(cnps), 100000);
}

/* ---- what adapters have besides, at other values than there are ---------------------------------
 */

/* Some closer to one another than the timer, most not. */
static void expect_train(const struct cc_params *p, struct model m)
{
	uint64_t cnps[16];

	srand(11);
	for (size_t i = 0; i < ARRAY_SIZE(cnps); i++)
		cnps[i] = (i ? cnps[i - 1] : 100) + 20 + (uint64_t)rand() % 200;
	expect_model(p, m, cnps, ARRAY_SIZE(cnps), 10000);
}

static void a_part_of_alpha_is_taken(void **state)
{
	struct cc_params p = published();
	struct model m = model_of(LINE);

	(void)state;
	p.rp_gd = 3;
	m.part = 1.0 / 8;
	expect_train(&p, m);
}

static void alpha_begins_as_it_is_said(void **state)
{
	struct cc_params p = published();
	struct model m = model_of(LINE);

	(void)state;
	p.rp_initial_alpha_value = 255;
	m.alpha = 0.25;
	expect_train(&p, m);
}

static void who_has_just_been_slowed_down_is_left_alone(void **state)
{
	struct cc_params p = published();
	struct model m = model_of(LINE);

	(void)state;
	p.rp_rate_reduce_monitor_period = 200;
	m.quiet = 200 * US;
	expect_train(&p, m);
}

static void the_rate_to_come_back_to_can_stay(void **state)
{
	struct cc_params p = published();
	struct model m = model_of(LINE);

	(void)state;
	p.rp_clamp_tgt_rate = 0;
	m.clamps = MODEL_CLAMPS_AFTER_TIME;
	expect_train(&p, m);
	p.rp_clamp_tgt_rate_ati = 0;
	m.clamps = MODEL_NEVER_CLAMPS;
	expect_train(&p, m);
}

static void a_first_notification_takes_from_what_is_said(void **state)
{
	struct cc_params p = published();
	struct model m = model_of(LINE);

	(void)state;
	p.rp_rate_to_set_on_first_cnp = 12000;
	m.first = 12000;
	expect_train(&p, m);
}

/* ---- what is weft's own --------------------------------------------------------------------- */

/* Sends at so many Mb/s until then. */
static void send_at(struct cc *cc, uint32_t mbps, uint64_t *now, uint64_t until)
{
	for (; *now < until; *now += 10 * US)
		cc->ops->sent(cc, mbps * 10 / 8, *now);
}

static void where_the_line_is_unknown_what_was_sent_at_counts(void **state)
{
	uint64_t now = 1;
	struct cc cc;

	(void)state;
	cc_start(&cc, &cc_dcqcn, &cc_defaults, 1 << 20, now);
	send_at(&cc, 800, &now, 1000 * US);
	assert_int_equal(cc.rate_kbps, 0);
	cc.ops->cnp(&cc, now);
	assert_in_range(cc.rate_kbps, 390000, 460000);
	/* Long after, when it could send at any rate, and sends at a tenth. */
	send_at(&cc, 80, &now, 300000 * US);
	assert_true(cc.rate_kbps > 1000000);
	cc.ops->cnp(&cc, now);
	assert_true(cc.rate_kbps < 91000);
}

/* Be that more or less than what was sent at. Of a second one nothing is said. */
static void so_it_does_where_the_line_is_unknown(void **state)
{
	static const uint32_t firsts[] = {20000, 200};
	struct cc_params p = cc_defaults;
	struct cc cc;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(firsts); i++) {
		uint32_t kbps = firsts[i] * 1000;
		uint64_t now = 1;

		p.rp_rate_to_set_on_first_cnp = firsts[i];
		cc_start(&cc, &cc_dcqcn, &p, 1 << 20, now);
		send_at(&cc, 800, &now, 1000 * US);
		cc.ops->cnp(&cc, now);
		assert_int_equal(cc.rate_kbps, kbps / 2);
		/* It comes back to that: four steps, each half of what is missing. */
		send_at(&cc, 80, &now, now + 4 * p.rp_time_reset * US + 10 * US);
		assert_in_range(cc.rate_kbps, kbps / 32 * 30, kbps);
		cc.ops->cnp(&cc, now);
		assert_in_range(cc.rate_kbps, 39000, 90000);
	}
}

static void it_has_no_rate_in_the_end(void **state)
{
	uint64_t now = 1;
	struct cc cc;

	(void)state;
	cc_start(&cc, &cc_dcqcn, &cc_defaults, 1 << 20, now);
	send_at(&cc, 800, &now, 1000 * US);
	cc.ops->cnp(&cc, now);
	assert_true(cc.rate_kbps);
	now += 5 * NSEC_PER_SEC;
	cc.ops->sent(&cc, 1000, now);
	assert_int_equal(cc.rate_kbps, 0);
}

static void a_loss_is_the_windows_business(void **state)
{
	const struct cc_params p = published();
	struct cc cc;

	(void)state;
	cc_start(&cc, &cc_dcqcn, &p, 1 << 20, 1);
	cc.ops->cnp(&cc, 1000 * US);
	cc.ops->lost(&cc, 4096, false, 1010 * US);
	assert_in_range(cc.rate_kbps, LINE * 1000 / 2 - 1, LINE * 1000 / 2 + 1);
	assert_int_equal(cc.window, 1 << 19);
	for (int i = 0; i < 8; i++)
		cc.ops->acked(&cc, 1 << 19, 1020 * US);
	assert_int_equal(cc.window, 1 << 20);
}

static void there_is_a_least_rate_and_a_least_part(void **state)
{
	struct cc_params p = published();
	struct cc cc;

	(void)state;
	p.rp_min_dec_fac = 80;
	cc_start(&cc, &cc_dcqcn, &p, 1 << 20, 1);
	cc.ops->cnp(&cc, 10 * US);
	assert_int_equal(cc.rate_kbps, LINE * 800);
	p = published();
	p.rp_min_rate = 10;
	cc_start(&cc, &cc_dcqcn, &p, 1 << 20, 1);
	for (uint64_t i = 1; i < 1000; i++)
		cc.ops->cnp(&cc, i * 10 * US);
	assert_int_equal(cc.rate_kbps, 10000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_notification_is_recovered_from),
		cmocka_unit_test(many_take_less_and_less_each),
		cmocka_unit_test(those_that_come_seldom_take_little),
		cmocka_unit_test(a_part_of_alpha_is_taken),
		cmocka_unit_test(alpha_begins_as_it_is_said),
		cmocka_unit_test(who_has_just_been_slowed_down_is_left_alone),
		cmocka_unit_test(the_rate_to_come_back_to_can_stay),
		cmocka_unit_test(a_first_notification_takes_from_what_is_said),
		cmocka_unit_test(where_the_line_is_unknown_what_was_sent_at_counts),
		cmocka_unit_test(so_it_does_where_the_line_is_unknown),
		cmocka_unit_test(it_has_no_rate_in_the_end),
		cmocka_unit_test(a_loss_is_the_windows_business),
		cmocka_unit_test(there_is_a_least_rate_and_a_least_part),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
