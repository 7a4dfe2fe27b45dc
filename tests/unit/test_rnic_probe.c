/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Probing for what is lost at the end, and telling it from what only takes its time. */
#include <string.h>

#include "rnic_bed.h"

#define ACK OPCODE_RC_ACKNOWLEDGE

static void a_lost_tail_costs_two_probes_and_no_retry(void **state)
{
	struct bed *b = bed_open(&(struct bed_opts){.zero_retry = true, .timeout = 20});
	struct bed_drop d = {.side = 0, .opcode = OPCODE_RC_WRITE_LAST, .count = 1};

	(void)state;
	bed_drop(b, &d);
	bed_fill(b, 0, 0, 4000, 1);
	assert_int_equal(bed_rdma(b, 0, 1, RNIC_WR_RDMA_WRITE, 0, 0, 4000), 0);
	bed_sleep(b, 4 * MS);
	bed_expect_none(b, 0);
	bed_sleep(b, 2 * MS);
	bed_expect(b, 0, false, 1, RNIC_WC_SUCCESS);
	assert_int_equal(bed_counters(b, 0)->probes, 2); /* of the first and the lost one */
	assert_int_equal(bed_counters(b, 0)->tx_retransmit, 2);
	assert_int_equal(bed_counters(b, 0)->timeouts, 0);
	assert_memory_equal(b->side[0].mem, b->side[1].mem, 4000);
	bed_close(b);
}

/* It waits for what is before it, which is probed for all the same. */
static void a_loss_before_a_request_that_failed_here_is_probed_for(void **state)
{
	struct bed *b = bed_open(NULL);
	struct bed_drop d = {.side = 0, .opcode = -1, .count = 1};
	struct rnic_sge bad = bed_sge(b, 0, 0, 16);
	struct rnic_send_wr wr = {
		.wr_id = 2, .sge = &bad, .num_sge = 1, .opcode = RNIC_WR_RDMA_WRITE};

	(void)state;
	bad.lkey ^= 1;
	wr.remote_addr = bed_remote_addr(b, 1, 0);
	wr.rkey = rnic_mr_rkey(b->side[1].mr);
	bed_drop(b, &d);
	assert_int_equal(bed_rdma(b, 0, 1, RNIC_WR_RDMA_WRITE, 0, 0, 100), 0);
	assert_int_equal(rnic_post_send(b->side[0].qp, &wr, b->now), 0);
	bed_sleep(b, 6 * MS);
	bed_expect(b, 0, false, 1, RNIC_WC_SUCCESS);
	bed_expect(b, 0, false, 2, RNIC_WC_LOC_PROT_ERR);
	assert_int_equal(bed_counters(b, 0)->timeouts, 0);
	bed_close(b);
}

static void a_lost_window_comes_back_after_one_probe(void **state)
{
	struct bed *b = bed_open(NULL);
	struct bed_drop d = {.side = 0, .opcode = -1, .count = 40};

	(void)state;
	bed_drop(b, &d);
	bed_fill(b, 0, 0, 40 * 1024, 1);
	assert_int_equal(bed_rdma(b, 0, 1, RNIC_WR_RDMA_WRITE, 0, 0, 40 * 1024), 0);
	bed_run(b);
	bed_expect_none(b, 0);
	bed_sleep(b, 5 * MS);
	/* The probe's answer shows that what came after it was lost too. */
	bed_expect(b, 0, false, 1, RNIC_WC_SUCCESS);
	assert_int_equal(bed_counters(b, 0)->probes, 1);
	assert_true(bed_sent(b, 1, ACK) <= 3);
	bed_close(b);
}

static void a_window_that_is_lost_but_for_its_begin_comes_back_after_two_probes(void **state)
{
	struct bed *b = bed_open(NULL);
	struct bed_drop d = {.side = 0, .opcode = -1, .from = 1, .count = 39};

	(void)state;
	bed_drop(b, &d);
	bed_fill(b, 0, 0, 40 * 1024, 1);
	assert_int_equal(bed_rdma(b, 0, 1, RNIC_WR_RDMA_WRITE, 0, 0, 40 * 1024), 0);
	bed_run(b);
	bed_sleep(b, 7 * MS);
	bed_expect(b, 0, false, 1, RNIC_WC_SUCCESS);
	assert_true(bed_counters(b, 0)->probes <= 2);
	assert_memory_equal(b->side[0].mem, b->side[1].mem, 40 * 1024);
	bed_close(b);
}

/* Each asks for an acknowledgement of its own, so that the first one may be of the first sending.
 */
static void short_messages_that_were_all_lost_come_back_after_two_probes(void **state)
{
	struct bed *b = bed_open(NULL);
	struct bed_drop d = {.side = 0, .opcode = -1, .count = 20};

	(void)state;
	bed_drop(b, &d);
	for (uint64_t i = 0; i < 20; i++)
		assert_int_equal(bed_rdma(b, 0, i, RNIC_WR_RDMA_WRITE, 0, 0, 8), 0);
	bed_run(b);
	bed_sleep(b, 7 * MS);
	for (uint64_t i = 0; i < 20; i++)
		bed_expect(b, 0, false, i, RNIC_WC_SUCCESS);
	assert_int_equal(bed_counters(b, 0)->probes, 2);
	bed_close(b);
}

static void a_probe_does_not_resend_what_only_took_its_time(void **state)
{
	struct bed *b = bed_open(NULL);
	uint32_t first;

	(void)state;
	assert_int_equal(bed_rdma(b, 0, 1, RNIC_WR_RDMA_WRITE, 0, 0, 40 * 1024), 0);
	while (bed_tx1(b, 0))
		;
	first = b->nlog;
	assert_int_equal(first, 40);
	b->now += 6 * MS; /* the peer sleeps */
	rnic_tick(b->side[0].rnic, b->now);
	while (bed_tx1(b, 0))
		;
	assert_int_equal(b->nlog, first + 1);
	for (uint32_t i = 0; i <= first; i++)
		bed_deliver(b, &b->log[i]);
	bed_run(b);
	bed_expect(b, 0, false, 1, RNIC_WC_SUCCESS);
	assert_int_equal(bed_counters(b, 0)->tx_retransmit, 1);
	bed_close(b);
}

/* A slow peer acknowledges each message by itself: its first answer comes after the first guess of
 * a round trip, and looks like the probe's. */
static void a_slow_peers_first_answer_does_not_send_the_rest_again(void **state)
{
	struct bed *b = bed_open(NULL);
	uint32_t sent;

	(void)state;
	for (uint64_t i = 0; i < 20; i++)
		assert_int_equal(bed_rdma(b, 0, i, RNIC_WR_RDMA_WRITE, 0, 0, 8), 0);
	while (bed_tx1(b, 0))
		;
	sent = b->nlog;
	b->now += 6 * MS;
	rnic_tick(b->side[0].rnic, b->now);
	assert_non_null(bed_tx1(b, 0));
	assert_null(bed_tx1(b, 0));
	for (uint32_t i = 0; i < sent; i++) {
		b->now += MS / 2;
		rnic_tick(b->side[0].rnic, b->now);
		bed_deliver(b, &b->log[i]);
		bed_deliver(b, bed_tx1(b, 1));
		assert_null(bed_tx1(b, 0));
		bed_expect(b, 0, false, i, RNIC_WC_SUCCESS);
	}
	assert_int_equal(bed_counters(b, 0)->tx_retransmit, 1);
	bed_close(b);
}

/* An emulated guest acknowledges a part of what it has got, and then does not run for a while. */
static void a_slow_peer_that_stops_again_gets_one_packet_each_time(void **state)
{
	enum { WINDOW = 32, PART = WINDOW / 4, STOPS = 3 };
	struct bed *b =
		bed_open(&(struct bed_opts){.window_bytes = WINDOW * 1024, .zero_timeout = true});
	uint32_t at = 0;

	(void)state;
	assert_int_equal(bed_rdma(b, 0, 1, RNIC_WR_RDMA_WRITE, 0, 0, 100 * 1024), 0);
	while (bed_tx1(b, 0))
		;
	assert_int_equal(b->nlog, WINDOW);
	for (int stop = 0; stop < STOPS; stop++) {
		struct bed_pkt *ack;

		for (int i = 0; i < 100; i++) { /* until a probe is sent, and then some */
			b->now += MS / 4;
			rnic_tick(b->side[0].rnic, b->now);
			while (bed_tx1(b, 0))
				;
			if (bed_counters(b, 0)->tx_retransmit == (uint32_t)stop + 1)
				break;
		}
		for (uint32_t i = 0; i < PART; at++)
			if (b->log[at].from == 0) {
				bed_deliver(b, &b->log[at]);
				i++;
			}
		ack = bed_tx1(b, 1);
		assert_non_null(ack);
		assert_null(bed_tx1(b, 1));
		bed_deliver(b, ack);
		while (bed_tx1(b, 0))
			;
	}
	assert_int_equal(bed_counters(b, 0)->tx_retransmit, STOPS);
	for (uint32_t end = b->nlog; at < end; at++)
		if (b->log[at].from == 0)
			bed_deliver(b, &b->log[at]);
	bed_run(b);
	bed_expect(b, 0, false, 1, RNIC_WC_SUCCESS);
	assert_int_equal(bed_counters(b, 0)->tx_retransmit, STOPS);
	bed_close(b);
}

static void of_many_reads_only_the_oldest_is_probed_for(void **state)
{
	struct bed *b = bed_open(NULL);
	uint32_t asked;

	(void)state;
	for (uint64_t i = 0; i < 4; i++)
		assert_int_equal(bed_rdma(b, 0, i, RNIC_WR_RDMA_READ, 0, 0, 3000), 0);
	while (bed_tx1(b, 0))
		;
	asked = b->nlog;
	b->now += 6 * MS;
	rnic_tick(b->side[0].rnic, b->now);
	while (bed_tx1(b, 0))
		;
	assert_int_equal(b->nlog, asked + 1);
	assert_int_equal(b->log[asked].h.bth.psn, b->log[0].h.bth.psn);
	for (uint32_t i = 0; i <= asked; i++)
		bed_deliver(b, &b->log[i]);
	bed_run(b);
	for (uint64_t i = 0; i < 4; i++)
		bed_expect(b, 0, false, i, RNIC_WC_SUCCESS);
	assert_int_equal(bed_counters(b, 0)->tx_retransmit, 1);
	bed_close(b);
}

static void reads_that_were_all_lost_come_back_after_one_probe(void **state)
{
	struct bed *b = bed_open(NULL);
	struct bed_drop d = {.side = 0, .opcode = OPCODE_RC_READ_REQUEST, .count = 4};

	(void)state;
	bed_drop(b, &d);
	bed_fill(b, 1, 0, 3000, 5);
	for (uint64_t i = 0; i < 4; i++)
		assert_int_equal(bed_rdma(b, 0, i, RNIC_WR_RDMA_READ, 0, 0, 3000), 0);
	bed_run(b);
	bed_sleep(b, 7 * MS);
	for (uint64_t i = 0; i < 4; i++)
		bed_expect(b, 0, false, i, RNIC_WC_SUCCESS);
	assert_memory_equal(b->side[0].mem, b->side[1].mem, 3000);
	assert_int_equal(bed_counters(b, 0)->probes, 1);
	bed_close(b);
}

static void a_timeout_sends_no_more_than_the_oldest_again(void **state)
{
	struct bed *b = bed_open(&(struct bed_opts){.timeout = 8}); /* 1.05 ms: before any probe */
	uint32_t sent;

	(void)state;
	assert_int_equal(bed_rdma(b, 0, 1, RNIC_WR_RDMA_WRITE, 0, 0, 40 * 1024), 0);
	while (bed_tx1(b, 0))
		;
	sent = b->nlog;
	for (int i = 1; i <= 3; i++) {
		b->now += 2 * MS;
		rnic_tick(b->side[0].rnic, b->now);
		while (bed_tx1(b, 0))
			;
		assert_int_equal(b->nlog, sent + (uint32_t)i);
	}
	assert_int_equal(bed_counters(b, 0)->timeouts, 3);
	for (uint32_t i = 0; i < sent + 3; i++)
		bed_deliver(b, &b->log[i]);
	bed_run(b);
	bed_expect(b, 0, false, 1, RNIC_WC_SUCCESS);
	assert_int_equal(bed_counters(b, 0)->tx_retransmit, 3);
	bed_close(b);
}

/* How many packets go out for a long WRITE without an answer. */
static uint32_t unanswered(struct bed *b)
{
	uint32_t before = b->nlog;

	while (bed_tx1(b, 0))
		;
	return b->nlog - before;
}

static void a_loss_halves_what_is_on_the_way_and_answers_bring_it_back(void **state)
{
	enum { LEN = 60 * 1024, WINDOW = 32 };
	struct bed *b = bed_open(&(struct bed_opts){.window_bytes = WINDOW * 1024});
	struct bed_pkt nak;

	(void)state;
	assert_int_equal(bed_rdma(b, 0, 1, RNIC_WR_RDMA_WRITE, 0, 0, LEN), 0);
	assert_int_equal(unanswered(b), WINDOW);
	bed_deliver(b, &b->log[1]);
	nak = *bed_tx1(b, 1);
	assert_int_equal(nak.h.aeth.syndrome, 0x60);
	bed_deliver(b, &nak);
	assert_int_equal(unanswered(b), WINDOW / 2);
	bed_deliver(b, &nak); /* of the same loss */
	assert_int_equal(unanswered(b), WINDOW / 2);
	for (uint32_t i = b->nlog - WINDOW / 2; i < b->nlog; i++)
		bed_deliver(b, &b->log[i]);
	bed_run(b);
	bed_expect(b, 0, false, 1, RNIC_WC_SUCCESS);
	for (int i = 0; i < 10; i++) {
		assert_int_equal(bed_rdma(b, 0, 1, RNIC_WR_RDMA_WRITE, 0, 0, LEN), 0);
		bed_run(b);
		bed_expect(b, 0, false, 1, RNIC_WC_SUCCESS);
	}
	assert_int_equal(bed_rdma(b, 0, 1, RNIC_WR_RDMA_WRITE, 0, 0, LEN), 0);
	assert_int_equal(unanswered(b), WINDOW);
	bed_close(b);
}

/* Runs a link, of so much each way, for so many milliseconds. */
struct line {
	uint64_t way;
	struct {
		uint32_t log;
		uint64_t due;
	} q[4096];
	uint32_t in, out;
};

static void run_line(struct bed *b, struct line *l, uint32_t ms)
{
	while (ms--) {
		for (int i = 0; i < 2; i++)
			rnic_tick(b->side[i].rnic, b->now);
		for (; l->out != l->in && l->q[l->out].due <= b->now; l->out++)
			bed_deliver(b, &b->log[l->q[l->out].log]);
		for (int i = 0; i < 2; i++)
			while (bed_tx1(b, i)) {
				assert_true(l->in < ARRAY_SIZE(l->q));
				l->q[l->in].log = b->nlog - 1;
				l->q[l->in++].due = b->now + l->way;
			}
		b->now += 1 * MS;
	}
}

static void a_round_trip_longer_than_the_first_guess_is_learnt(void **state)
{
	static const uint32_t opcodes[] = {RNIC_WR_RDMA_WRITE, RNIC_WR_RDMA_READ};

	(void)state;
	for (size_t k = 0; k < ARRAY_SIZE(opcodes); k++) {
		struct bed *b = bed_open(&(struct bed_opts){.timeout = 20});
		static struct line l;

		l = (struct line){.way = 5 * MS};
		for (int i = 0; i < 50; i++) {
			assert_int_equal(bed_rdma(b, 0, 1, opcodes[k], 0, 0, 8), 0);
			run_line(b, &l, 11);
			bed_expect(b, 0, false, 1, RNIC_WC_SUCCESS);
		}
		assert_true(bed_counters(b, 0)->probes >= 1 && bed_counters(b, 0)->probes < 5);
		/* Now nothing is probed before four round trips have passed. */
		run_line(b, &l, 50);
		b->filter = bed_drop_all;
		assert_int_equal(bed_rdma(b, 0, 1, opcodes[k], 0, 0, 8), 0);
		bed_run(b);
		rnic_tick(b->side[0].rnic, b->now + 30 * MS);
		assert_false(rnic_tx_pending(b->side[0].rnic));
		rnic_tick(b->side[0].rnic, b->now + 50 * MS);
		assert_true(rnic_tx_pending(b->side[0].rnic));
		bed_run(b);
		bed_close(b);
	}
}

/* This host does not run for a while, and finds the answer when it does. */
static void a_first_round_trip_that_was_long_says_little(void **state)
{
	struct bed *b = bed_open(&(struct bed_opts){.timeout = 17}); /* 537 ms */

	(void)state;
	assert_int_equal(bed_rdma(b, 0, 1, RNIC_WR_RDMA_WRITE, 0, 0, 8), 0);
	assert_non_null(bed_tx1(b, 0));
	b->now += 150 * MS;
	bed_deliver(b, &b->log[0]);
	bed_run(b);
	bed_expect(b, 0, false, 1, RNIC_WC_SUCCESS);
	b->filter = bed_drop_all;
	assert_int_equal(bed_rdma(b, 0, 1, RNIC_WR_RDMA_WRITE, 0, 0, 8), 0);
	bed_run(b);
	rnic_tick(b->side[0].rnic, b->now + 190 * MS);
	assert_false(rnic_tx_pending(b->side[0].rnic));
	rnic_tick(b->side[0].rnic, b->now + 200 * MS);
	assert_true(rnic_tx_pending(b->side[0].rnic));
	bed_run(b);
	bed_close(b);
}

/* Several times as long as that is what a first sample may be. */
static void a_very_long_way_is_learnt_all_the_same(void **state)
{
	struct bed *b = bed_open(&(struct bed_opts){.timeout = 20});
	static struct line l;
	uint64_t probes = 0;

	(void)state;
	l = (struct line){.way = 150 * MS};
	for (int i = 0; i < 30; i++) {
		assert_int_equal(bed_rdma(b, 0, 1, RNIC_WR_RDMA_WRITE, 0, 0, 8), 0);
		run_line(b, &l, 301);
		bed_expect(b, 0, false, 1, RNIC_WC_SUCCESS);
		if (i == 9)
			probes = bed_counters(b, 0)->probes;
	}
	assert_in_range(probes, 1, 11); /* six before the first answer */
	assert_int_equal(bed_counters(b, 0)->probes, probes);
	bed_close(b);
}

static void probes_are_doubled(void **state)
{
	struct bed *b = bed_open(&(struct bed_opts){.timeout = 18}); /* 1.07 s */

	(void)state;
	b->filter = bed_drop_all;
	assert_int_equal(bed_rdma(b, 0, 1, RNIC_WR_RDMA_WRITE, 0, 0, 8), 0);
	bed_sleep(b, 5 * MS);
	assert_int_equal(bed_counters(b, 0)->probes, 1);
	bed_sleep(b, 9 * MS);
	assert_int_equal(bed_counters(b, 0)->probes, 1);
	bed_sleep(b, 1 * MS);
	assert_int_equal(bed_counters(b, 0)->probes, 2);
	bed_sleep(b, 20 * MS);
	assert_int_equal(bed_counters(b, 0)->probes, 3);
	bed_sleep(b, 600 * MS);
	assert_int_equal(bed_counters(b, 0)->probes, 7); /* 5, 15, 35, 75, 155, 315, 635 */
	assert_int_equal(bed_counters(b, 0)->timeouts, 0);
	bed_close(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_lost_tail_costs_two_probes_and_no_retry),
		cmocka_unit_test(a_loss_before_a_request_that_failed_here_is_probed_for),
		cmocka_unit_test(a_lost_window_comes_back_after_one_probe),
		cmocka_unit_test(
			a_window_that_is_lost_but_for_its_begin_comes_back_after_two_probes),
		cmocka_unit_test(short_messages_that_were_all_lost_come_back_after_two_probes),
		cmocka_unit_test(a_probe_does_not_resend_what_only_took_its_time),
		cmocka_unit_test(a_slow_peers_first_answer_does_not_send_the_rest_again),
		cmocka_unit_test(a_slow_peer_that_stops_again_gets_one_packet_each_time),
		cmocka_unit_test(of_many_reads_only_the_oldest_is_probed_for),
		cmocka_unit_test(reads_that_were_all_lost_come_back_after_one_probe),
		cmocka_unit_test(a_timeout_sends_no_more_than_the_oldest_again),
		cmocka_unit_test(a_loss_halves_what_is_on_the_way_and_answers_bring_it_back),
		cmocka_unit_test(a_round_trip_longer_than_the_first_guess_is_learnt),
		cmocka_unit_test(a_first_round_trip_that_was_long_says_little),
		cmocka_unit_test(a_very_long_way_is_learnt_all_the_same),
		cmocka_unit_test(probes_are_doubled),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
