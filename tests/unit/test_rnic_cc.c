/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Congestion control: what it is told, and that its window, its rate and its timer are kept to. */
#include <string.h>

#include "rnic/cc/cc.h"
#include "rnic/core.h"
#include "rnic_bed.h"

#define LEN   (128u << 10) /* half the default window */
#define BURST (64u << 10)
#define RATE  1000u /* Mb/s */
#define CNP   OPCODE_CNP
#define CE    3

/* ---- those there are ------------------------------------------------------------------------- */

static void they_are_found_by_their_names(void **state)
{
	(void)state;
	assert_ptr_equal(cc_find("halving", 7), &cc_halving);
	assert_ptr_equal(cc_find("dcqcn,rp_gd=1", 5), &cc_dcqcn);
	assert_ptr_equal(cc_find("none", 4), &cc_none);
	assert_null(cc_find("none", 3));
	assert_null(cc_find("cubic", 5));
	assert_null(cc_find("", 0));
}

static uint32_t sent_at_once(struct bed *b)
{
	uint32_t bytes = 0;

	for (struct bed_pkt *p; (p = bed_tx1(b, 0));)
		bytes += p->payload_len;
	return bytes;
}

/* What a queue pair sends at once after so many losses, each of which it heard of. */
static uint32_t window_after(const struct cc_ops *cc, uint32_t losses)
{
	struct bed *b = bed_open(&(struct bed_opts){.cc = cc, .window_bytes = LEN});
	uint32_t bytes;

	for (uint32_t i = 0; i < losses; i++) {
		struct bed_drop d = {.side = 0, .opcode = OPCODE_RC_WRITE_FIRST, .count = 1};

		bed_drop(b, &d);
		assert_int_equal(bed_rdma(b, 0, i, RNIC_WR_RDMA_WRITE, 0, 0, 2048), 0);
		bed_run(b);
		bed_expect(b, 0, false, i, RNIC_WC_SUCCESS);
		assert_int_equal(d.seen, 2);
	}
	b->filter = NULL;
	assert_int_equal(bed_rdma(b, 0, 9, RNIC_WR_RDMA_WRITE, 0, 0, 2 * LEN), 0);
	bytes = sent_at_once(b);
	bed_sleep(b, 1000 * MS); /* what was taken out of the wire goes again */
	bed_expect(b, 0, false, 9, RNIC_WC_SUCCESS);
	bed_close(b);
	return bytes;
}

static void a_loss_halves_the_window_or_does_nothing(void **state)
{
	(void)state;
	assert_int_equal(window_after(&cc_halving, 0), LEN);
	assert_in_range(window_after(&cc_halving, 1), LEN / 2, LEN / 2 + 4096);
	assert_in_range(window_after(&cc_halving, 2), LEN / 4, LEN / 4 + 4096);
	assert_in_range(window_after(&cc_halving, 9), 16 << 10, (16 << 10) + 4096);
	assert_in_range(window_after(NULL, 1), LEN / 2, LEN / 2 + 4096);
	assert_int_equal(window_after(&cc_none, 9), LEN);
}

/* ---- which one it is ------------------------------------------------------------------------ */

static void nobody_says_which_it_is(void **state)
{
	static const struct {
		struct bed_opts opts;
		const struct cc_ops *cc;
	} cases[] = {
		{{.selective = true}, &cc_delay},
		{{.selective = false}, &cc_halving},
		{{.selective = true, .one_host = true}, &cc_halving},
		{{.selective = false, .one_host = true}, &cc_halving},
		{{.type = RNIC_QPT_UC}, &cc_halving},
		{{.type = RNIC_QPT_UD}, &cc_halving},
		{{.type = RNIC_QPT_UC, .one_host = true}, &cc_halving},
		/* An address that brings parameters alone has the default, whatever others have. */
		{{.selective = true, .cc = &cc_dcqcn, .qp_cc_params = &cc_defaults}, &cc_delay},
		{{.cc = &cc_dcqcn, .qp_cc_params = &cc_defaults}, &cc_halving},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct bed *b = bed_open(&cases[i].opts);

		for (int side = 0; side < 2; side++)
			assert_string_equal(b->side[side].qp->cc.ops->name, cases[i].cc->name);
		bed_close(b);
	}
}

static void somebody_says_which_it_is(void **state)
{
	static const struct cc_ops *const all[] = {&cc_halving, &cc_dcqcn, &cc_delay, &cc_none};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		const struct cc_ops *other = all[(i + 1) % ARRAY_SIZE(all)];
		struct bed_opts opts = {.cc = all[i]};

		for (int k = 0; k < 8; k++) {
			struct bed *b;

			opts.selective = k & 1;
			opts.one_host = k & 2;
			opts.qp_cc = k & 4 ? other : NULL;
			b = bed_open(&opts);
			assert_ptr_equal(b->side[0].qp->cc.ops, k & 4 ? other : all[i]);
			bed_close(b);
		}
	}
}

/* ---- one that says what it was told --------------------------------------------------------- */

static struct told {
	uint32_t started, sent, acked, acked_used, lost, cnp, rtt, ticks;
	uint64_t sent_bytes, acked_bytes, rtt_ns, tick_at;
} told;

static uint32_t rate_mbps, window; /* what it says from its beginning; 0: what it finds */
static uint64_t tick_every;

static void start(struct cc *cc, uint64_t now)
{
	told.started++;
	cc->rate_kbps = rate_mbps * 1000;
	if (window)
		cc->window = window;
	if (tick_every)
		cc->tick_ns = now + tick_every;
	cc->own[0] = 1000;
}

static void sent(struct cc *cc, uint32_t bytes, uint64_t now)
{
	(void)now;
	told.sent++;
	told.sent_bytes += bytes;
	cc->own[0]++;
}

static void acked(struct cc *cc, uint32_t bytes, uint64_t now)
{
	(void)now;
	told.acked++;
	told.acked_used += cc->used ? bytes : 0;
	told.acked_bytes += bytes;
}

static void lost(struct cc *cc, uint32_t bytes, bool again, uint64_t now)
{
	assert_int_equal(bytes, 1024);
	assert_false(again);
	(void)cc;
	(void)now;
	told.lost++;
}

/* As DCQCN's reaction point, of the simplest kind: half as fast, and some time later as before. */
static void cnp(struct cc *cc, uint64_t now)
{
	told.cnp++;
	if (!rate_mbps)
		return;
	cc->rate_kbps /= 2;
	cc->tick_ns = now + 10 * MS;
}

static void rtt(struct cc *cc, uint64_t rtt_ns, uint64_t now)
{
	(void)cc;
	(void)now;
	told.rtt++;
	told.rtt_ns = rtt_ns;
}

static void tick(struct cc *cc, uint64_t now)
{
	told.ticks++;
	told.tick_at = now;
	cc->rate_kbps = rate_mbps * 1000;
	if (tick_every)
		cc->tick_ns = now + tick_every;
	assert_true(cc->own[0] >= 1000);
}

static const struct cc_ops telling = {
	.name = "telling",
	.start = start,
	.sent = sent,
	.acked = acked,
	.lost = lost,
	.cnp = cnp,
	.rtt = rtt,
	.tick = tick,
};

static struct bed *telling_bed(enum rnic_qp_type type)
{
	struct bed *b = bed_open(&(struct bed_opts){.cc = &telling, .type = type});

	told = (struct told){0};
	return b;
}

static int reset(void **state)
{
	(void)state;
	rate_mbps = window = 0;
	tick_every = 0;
	return 0;
}

static void it_is_told_of_what_is_sent_and_acknowledged(void **state)
{
	struct bed *b = telling_bed(RNIC_QPT_RC);
	struct bed_pkt *p[3];

	(void)state;
	assert_int_equal(bed_rdma(b, 0, 1, RNIC_WR_RDMA_WRITE, 0, 0, 2100), 0);
	for (int i = 0; i < 3; i++) {
		p[i] = bed_tx1(b, 0);
		assert_int_equal(told.sent, i + 1);
	}
	assert_int_equal(told.sent_bytes, 1024 + 1024 + 512); /* the least that a packet counts */
	assert_int_equal(told.acked, 0);
	for (int i = 0; i < 3; i++)
		bed_deliver(b, p[i]);
	b->now += 3 * MS;
	bed_run(b);
	assert_int_equal(told.acked_bytes, 1024 + 1024 + 512);
	assert_int_equal(told.rtt, 1);
	assert_int_equal(told.rtt_ns, 3 * MS);
	assert_int_equal(told.lost, 0);
	bed_expect(b, 0, false, 1, RNIC_WC_SUCCESS);
	bed_close(b);
}

static void it_is_told_once_of_a_place_where_something_was_lost(void **state)
{
	struct bed *b = telling_bed(RNIC_QPT_RC);
	struct bed_drop d = {.side = 0, .opcode = OPCODE_RC_WRITE_MIDDLE, .from = 2, .count = 2};

	(void)state;
	bed_drop(b, &d);
	assert_int_equal(bed_rdma(b, 0, 1, RNIC_WR_RDMA_WRITE, 0, 0, 40000), 0);
	bed_sleep(b, 1000 * MS);
	bed_expect(b, 0, false, 1, RNIC_WC_SUCCESS);
	assert_int_equal(told.lost, 1);
	bed_close(b);
}

static void marks_and_notifications_reach_it(void **state)
{
	struct bed *b = telling_bed(RNIC_QPT_RC);
	struct pkt_hdr h = {.bth = {.opcode = CNP, .becn = true}};
	static const uint8_t reserved[16];
	struct bed_pkt *p;

	(void)state;
	assert_int_equal(bed_rdma(b, 0, 1, RNIC_WR_RDMA_WRITE, 0, 0, 16), 0);
	p = bed_tx1(b, 0);
	p->flow.tos = 1; /* would tell: ECT(1) */
	bed_deliver(b, p);
	p->flow.tos = 2; /* and ECT(0) */
	bed_deliver(b, p);
	assert_int_equal(bed_counters(b, 1)->rx_ecn_marked, 0);
	p->flow.tos = 0x60 | CE;
	bed_deliver(b, p);
	assert_int_equal(bed_counters(b, 1)->rx_ecn_marked, 1);
	assert_false(bed_forge(b, 0, h, reserved, sizeof(reserved)));
	assert_int_equal(told.cnp, 1);
	assert_int_equal(bed_counters(b, 1)->rx_cnp, 1);
	assert_int_equal(bed_counters(b, 1)->rx_drop_service, 0);
	bed_run(b);
	bed_expect(b, 0, false, 1, RNIC_WC_SUCCESS);
	bed_close(b);
}

static void only_the_peer_may_say_so_and_of_a_connection(void **state)
{
	struct pkt_hdr h = {.bth = {.opcode = CNP, .becn = true, .pkey = PKEY_DEFAULT}};
	static const uint8_t reserved[16];
	struct bed *b = telling_bed(RNIC_QPT_UC);
	struct bed_pkt p = {.from = 0};

	(void)state;
	bed_forge(b, 0, h, reserved, sizeof(reserved));
	assert_int_equal(told.cnp, 1);
	h.bth.dqpn = rnic_qp_num(b->side[1].qp);
	p.len = pkt_hdr_encode(&h, p.data) + sizeof(reserved);
	bed_deliver(b, &p); /* from no address */
	assert_int_equal(told.cnp, 1);
	assert_int_equal(bed_counters(b, 1)->rx_drop_flow, 1);
	bed_close(b);

	b = telling_bed(RNIC_QPT_UD);
	bed_forge(b, 0, h, reserved, sizeof(reserved));
	assert_int_equal(told.cnp, 0);
	assert_int_equal(bed_counters(b, 1)->rx_drop_service, 1);
	bed_close(b);
}

static void it_is_called_at_the_time_it_asked_for(void **state)
{
	struct bed *b;
	uint64_t began;

	(void)state;
	tick_every = 7 * MS;
	b = telling_bed(RNIC_QPT_RC);
	began = b->now;
	bed_sleep(b, 70 * MS);
	assert_int_equal(told.ticks, 2 * 10);
	assert_int_equal(told.tick_at - began, 70 * MS);
	for (int i = 0; i < 2; i++)
		assert_int_equal(bed_modify(b, i, RNIC_QPS_RESET), 0);
	bed_sleep(b, 70 * MS);
	assert_int_equal(told.ticks, 2 * 10);
	bed_close(b);
}

/* ---- window and rate ------------------------------------------------------------------------ */

static void its_window_is_kept_to(void **state)
{
	struct bed *b;

	(void)state;
	window = 32 << 10;
	b = telling_bed(RNIC_QPT_RC);
	assert_int_equal(bed_rdma(b, 0, 1, RNIC_WR_RDMA_WRITE, 0, 0, LEN), 0);
	assert_int_equal(sent_at_once(b), window);
	bed_close(b);
}

static uint64_t time_of(uint32_t mbps, uint32_t bytes)
{
	return bytes * 8000ull / mbps;
}

static uint64_t time_taken(struct bed *b, uint32_t opcode, uint32_t bytes)
{
	uint64_t began = b->now;

	assert_int_equal(bed_rdma(b, 0, 1, opcode, 0, 0, bytes), 0);
	bed_sleep(b, 100 * MS);
	bed_expect(b, 0, false, 1, RNIC_WC_SUCCESS);
	return rnic_cq_polled_at(b->side[0].scq) - began;
}

static void expect_rate(uint64_t took, uint32_t mbps, uint32_t bytes)
{
	assert_true(took >= time_of(mbps, bytes - BURST - 1024));
	assert_true(took <= time_of(mbps, bytes) * 5 / 4);
}

static void its_rate_is_kept_to_by_requests_and_responses(void **state)
{
	struct bed *b;

	(void)state;
	rate_mbps = RATE;
	b = telling_bed(RNIC_QPT_RC);
	expect_rate(time_taken(b, RNIC_WR_RDMA_WRITE, 4 * LEN), RATE, 4 * LEN);
	bed_sleep(b, 10 * MS);
	expect_rate(time_taken(b, RNIC_WR_RDMA_READ, 4 * LEN), RATE, 4 * LEN);
	bed_close(b);
}

static void who_has_much_to_send_at_it_answers_all_the_same(void **state)
{
	struct bed *b;

	(void)state;
	rate_mbps = 10;
	b = telling_bed(RNIC_QPT_RC);
	assert_int_equal(bed_rdma(b, 0, 1, RNIC_WR_RDMA_WRITE, 0, 0, 8 * LEN), 0);
	bed_sleep(b, MS);
	assert_int_equal(bed_atomic(b, 1, 2, RNIC_WR_ATOMIC_FETCH_AND_ADD, 0, 8, 1, 0), 0);
	assert_int_equal(bed_rdma(b, 1, 3, RNIC_WR_RDMA_READ, 1024, 1024, 2048), 0);
	bed_sleep(b, 30 * MS);
	bed_expect(b, 1, false, 2, RNIC_WC_SUCCESS);
	bed_expect(b, 1, false, 3, RNIC_WC_SUCCESS);
	bed_expect_none(b, 0);
	bed_close(b);
}

/* What it is asked for is in the window of who asks, where the rate is one of windows. */
static void answers_do_not_wait_for_the_rate_of_requests(void **state)
{
	static struct cc_ops of_window;
	struct bed *b;

	(void)state;
	rate_mbps = 10;
	of_window = telling;
	of_window.rate_of_window = true;
	b = bed_open(&(struct bed_opts){.cc = &of_window});
	assert_int_equal(bed_rdma(b, 0, 1, RNIC_WR_RDMA_WRITE, 0, 0, 8 * LEN), 0);
	bed_sleep(b, MS);
	assert_int_equal(bed_rdma(b, 1, 2, RNIC_WR_RDMA_READ, 0, 0, LEN), 0);
	bed_run(b);
	bed_expect(b, 1, false, 2, RNIC_WC_SUCCESS);
	bed_expect_none(b, 0);
	bed_close(b);
}

/* So that a window does not grow by what leaves it empty. */
static void it_is_told_whether_its_window_is_used(void **state)
{
	struct bed *b = telling_bed(RNIC_QPT_RC);

	(void)state;
	for (uint64_t i = 0; i < 100; i++) {
		assert_int_equal(bed_rdma(b, 0, i, RNIC_WR_RDMA_WRITE, 0, 0, 1024), 0);
		bed_run(b);
		bed_expect(b, 0, false, i, RNIC_WC_SUCCESS);
	}
	assert_int_equal(told.acked_used, 0);
	assert_int_equal(bed_rdma(b, 0, 1, RNIC_WR_RDMA_WRITE, 0, 0, BED_MEM), 0);
	bed_run(b);
	assert_true(told.acked_used >= BED_MEM / 2);
	bed_close(b);
}

static void the_lower_of_its_rate_and_the_addresss_counts(void **state)
{
	struct bed *b;

	(void)state;
	rate_mbps = RATE;
	b = bed_open(&(struct bed_opts){.cc = &telling, .rate_mbps = 4 * RATE});
	expect_rate(time_taken(b, RNIC_WR_RDMA_WRITE, 4 * LEN), RATE, 4 * LEN);
	bed_close(b);
	rate_mbps = 4 * RATE;
	b = bed_open(&(struct bed_opts){.cc = &telling, .rate_mbps = RATE});
	expect_rate(time_taken(b, RNIC_WR_RDMA_WRITE, 4 * LEN), RATE, 4 * LEN);
	bed_close(b);
}

static void what_a_notification_slows_down_a_tick_speeds_up(void **state)
{
	struct pkt_hdr h = {.bth = {.opcode = CNP, .becn = true}};
	static const uint8_t reserved[16];
	struct bed *b;

	(void)state;
	rate_mbps = RATE;
	b = telling_bed(RNIC_QPT_RC);
	bed_forge(b, 1, h, reserved, sizeof(reserved));
	expect_rate(time_taken(b, RNIC_WR_RDMA_WRITE, 4 * LEN), RATE / 2, 4 * LEN);
	assert_int_equal(told.ticks, 1);
	expect_rate(time_taken(b, RNIC_WR_RDMA_WRITE, 4 * LEN), RATE, 4 * LEN);
	bed_close(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(they_are_found_by_their_names),
		cmocka_unit_test(a_loss_halves_the_window_or_does_nothing),
		cmocka_unit_test(nobody_says_which_it_is),
		cmocka_unit_test(somebody_says_which_it_is),
		cmocka_unit_test_setup(it_is_told_of_what_is_sent_and_acknowledged, reset),
		cmocka_unit_test_setup(it_is_told_once_of_a_place_where_something_was_lost, reset),
		cmocka_unit_test_setup(marks_and_notifications_reach_it, reset),
		cmocka_unit_test_setup(only_the_peer_may_say_so_and_of_a_connection, reset),
		cmocka_unit_test_setup(it_is_called_at_the_time_it_asked_for, reset),
		cmocka_unit_test_setup(its_window_is_kept_to, reset),
		cmocka_unit_test_setup(its_rate_is_kept_to_by_requests_and_responses, reset),
		cmocka_unit_test_setup(who_has_much_to_send_at_it_answers_all_the_same, reset),
		cmocka_unit_test_setup(answers_do_not_wait_for_the_rate_of_requests, reset),
		cmocka_unit_test_setup(it_is_told_whether_its_window_is_used, reset),
		cmocka_unit_test_setup(the_lower_of_its_rate_and_the_addresss_counts, reset),
		cmocka_unit_test_setup(what_a_notification_slows_down_a_tick_speeds_up, reset),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
