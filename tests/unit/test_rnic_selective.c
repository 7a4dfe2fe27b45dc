/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Two that have agreed to repeat what is lost, and no more. */
#include <string.h>

#include "rnic/cc/cc.h"
#include "rnic/ib/ib.h"
#include "rnic_bed.h"

#define LEN  20480u /* 20 packets */
#define SACK OPCODE_WEFT_SACK

/* Drops what a side sends with one of these PSNs, each so many times. */
struct lose {
	int side;
	uint32_t psn[4], times[4];
};

static bool loses(struct bed *b, struct bed_pkt *p)
{
	struct lose *l = b->filter_arg;

	for (int i = 0; i < 4; i++)
		if (p->from == l->side && p->h.bth.psn == l->psn[i] && l->times[i]) {
			l->times[i]--;
			return false;
		}
	return true;
}

static struct bed *selective_bed(struct lose *l)
{
	struct bed *b = bed_open(&(struct bed_opts){.selective = true, .cc = &cc_halving});

	b->filter = loses;
	b->filter_arg = l;
	bed_fill(b, 0, 0, LEN, 1);
	bed_fill(b, 1, 100000, LEN, 2);
	return b;
}

static void only_what_was_lost_goes_again(void **state)
{
	struct lose l = {.psn = {4, 9, 10, 17}, .times = {1, 1, 1, 1}};
	struct bed *b = selective_bed(&l);

	(void)state;
	assert_int_equal(bed_rdma(b, 0, 1, RNIC_WR_RDMA_WRITE, 0, 0, LEN), 0);
	bed_run(b);
	bed_expect(b, 0, false, 1, RNIC_WC_SUCCESS);
	assert_memory_equal(b->side[0].mem, b->side[1].mem, LEN);
	assert_int_equal(bed_counters(b, 0)->tx_retransmit, 4);
	assert_int_equal(bed_counters(b, 0)->tx_packets, 24);
	assert_true(bed_counters(b, 1)->rx_kept >= 12);
	assert_true(bed_counters(b, 0)->rx_sack > 0);
	assert_int_equal(bed_counters(b, 0)->rx_nak_sequence, 0);
	bed_close(b);
}

static void what_came_twice_is_told(void **state)
{
	struct lose l = {.side = 1, .psn = {19}, .times = {1}};
	struct bed *b = selective_bed(&l);

	(void)state;
	assert_int_equal(bed_rdma(b, 0, 1, RNIC_WR_RDMA_WRITE, 0, 0, LEN), 0);
	bed_run(b); /* the acknowledgement is lost, and what is probed for had arrived */
	bed_sleep(b, 100 * MS);
	bed_expect(b, 0, false, 1, RNIC_WC_SUCCESS);
	assert_true(bed_counters(b, 0)->tx_retransmit > 0);
	assert_int_equal(bed_counters(b, 0)->tx_spurious, bed_counters(b, 0)->tx_retransmit);
	assert_int_equal(bed_counters(b, 1)->rx_duplicate, bed_counters(b, 0)->tx_spurious);
	bed_close(b);
}

static void what_was_lost_was_not_sent_in_vain(void **state)
{
	struct lose l = {.psn = {4, 9, 10, 19}, .times = {1, 2, 1, 1}};
	struct bed *b = selective_bed(&l);

	(void)state;
	assert_int_equal(bed_rdma(b, 0, 1, RNIC_WR_RDMA_WRITE, 0, 0, LEN), 0);
	bed_sleep(b, 100 * MS);
	bed_expect(b, 0, false, 1, RNIC_WC_SUCCESS);
	assert_true(bed_counters(b, 0)->tx_retransmit >= 5);
	assert_int_equal(bed_counters(b, 0)->tx_spurious, bed_counters(b, 1)->rx_duplicate);
	bed_close(b);
}

static void psns_wrap_around(void **state)
{
	struct lose l = {.psn = {0xfffffc, 0xffffff, 0, 5}, .times = {1, 2, 1, 1}};
	struct bed *b = bed_open(&(struct bed_opts){
		.selective = true, .cc = &cc_halving, .psn = {0xfffff8, 0xfffff0}});

	(void)state;
	b->filter = loses;
	b->filter_arg = &l;
	bed_fill(b, 0, 0, LEN, 1);
	for (uint64_t i = 0; i < 40; i++)
		assert_int_equal(bed_rdma(b, 0, i, RNIC_WR_RDMA_WRITE, 0, 0, LEN), 0);
	bed_run(b);
	for (uint64_t i = 0; i < 40; i++)
		bed_expect(b, 0, false, i, RNIC_WC_SUCCESS);
	assert_memory_equal(b->side[0].mem, b->side[1].mem, LEN);
	assert_int_equal(bed_counters(b, 0)->tx_retransmit, 5);
	bed_close(b);
}

/* First and only ones, too: what cannot be placed without them waits for them. */
static void whatever_it_is(void **state)
{
	struct lose l = {.psn = {0, 2, 3}, .times = {1, 1, 1}};
	struct bed *b = selective_bed(&l);

	(void)state;
	for (uint64_t i = 0; i < 2; i++) {
		assert_int_equal(bed_recv(b, 1, 10 + i, 200000 + 4096 * (uint32_t)i, 4096), 0);
		assert_int_equal(bed_send(b, 0, 2 * i, 0, 2048), 0);
		assert_int_equal(bed_rdma(b, 0, 2 * i + 1, RNIC_WR_RDMA_WRITE, 4096, 4096, 100), 0);
	}
	bed_run(b);
	for (uint64_t i = 0; i < 4; i++)
		bed_expect(b, 0, false, i, RNIC_WC_SUCCESS);
	for (uint64_t i = 0; i < 2; i++)
		bed_expect(b, 1, true, 10 + i, RNIC_WC_SUCCESS);
	assert_memory_equal(b->side[0].mem, b->side[1].mem + 204096, 2048);
	assert_int_equal(bed_counters(b, 0)->tx_retransmit, 3);
	bed_close(b);
}

static void what_is_lost_again_is_missed_when_more_has_come(void **state)
{
	struct lose l = {.psn = {4}, .times = {3}};
	struct bed *b = selective_bed(&l);

	(void)state;
	for (uint64_t i = 0; i < 60; i++) /* some windows */
		assert_int_equal(bed_rdma(b, 0, i, RNIC_WR_RDMA_WRITE, 0, 0, LEN), 0);
	bed_run(b);
	for (uint64_t i = 0; i < 60; i++)
		bed_expect(b, 0, false, i, RNIC_WC_SUCCESS);
	assert_int_equal(bed_counters(b, 0)->tx_retransmit, 3);
	assert_int_equal(bed_counters(b, 0)->probes, 0);
	assert_memory_equal(b->side[0].mem, b->side[1].mem, LEN);
	bed_close(b);
}

/* It went again after the window was cut, so that the cut was not enough. */
static void what_is_lost_again_is_congestion_again(void **state)
{
	struct lose l = {.psn = {0}, .times = {2}};
	struct bed *b = selective_bed(&l);
	const struct cc *cc = &b->side[0].qp->cc;
	uint32_t whole = cc->window, once;

	(void)state;
	assert_int_equal(bed_rdma(b, 0, 1, RNIC_WR_RDMA_WRITE, 0, 0, LEN), 0);
	bed_run(b);
	once = cc->window;
	assert_int_equal(once, whole / 2);
	assert_int_equal(bed_rdma(b, 0, 2, RNIC_WR_RDMA_WRITE, 0, 0, LEN), 0);
	bed_run(b);
	bed_expect(b, 0, false, 1, RNIC_WC_SUCCESS);
	bed_expect(b, 0, false, 2, RNIC_WC_SUCCESS);
	assert_in_range(cc->window, once / 2, once * 3 / 4);
	bed_close(b);
}

static int round_trips;

static void round_trip(struct cc *cc, uint64_t ns, uint64_t now)
{
	(void)cc;
	(void)ns;
	(void)now;
	round_trips++;
}

/* A queue that is full may have no room for just these. */
static bool drops_what_is_timed(struct bed *b, struct bed_pkt *p)
{
	const struct timed_pkt *timed = &recovery_of(b->side[0].qp)->timed;

	return p->from != 0 || !timed->running || p->h.bth.psn != timed->psn;
}

static void round_trips_are_measured_whatever_is_lost(void **state)
{
	static const struct cc_ops counting = {.name = "counting", .rtt = round_trip};
	struct bed *b = bed_open(&(struct bed_opts){.selective = true, .cc = &counting});

	(void)state;
	b->filter = drops_what_is_timed;
	round_trips = 0;
	for (uint64_t i = 0; i < 60; i++)
		assert_int_equal(bed_rdma(b, 0, i, RNIC_WR_RDMA_WRITE, 0, 0, LEN), 0);
	bed_run(b);
	for (uint64_t i = 0; i < 60; i++)
		bed_expect(b, 0, false, i, RNIC_WC_SUCCESS);
	assert_true(bed_counters(b, 0)->tx_retransmit > 0);
	assert_true(round_trips > 1);
	bed_close(b);
}

/* A second answer may then be to what went again before the probe, and would tell of a round trip
 * that is shorter than there is. */
static void a_probe_is_timed_only_where_nothing_else_went_again(void **state)
{
	struct lose l = {.psn = {4, 39}, .times = {3, 1}};
	struct bed *b = selective_bed(&l);
	const struct recovery *v = recovery_of(b->side[0].qp);

	(void)state;
	assert_int_equal(bed_rdma(b, 0, 1, RNIC_WR_RDMA_WRITE, 0, 0, LEN), 0);
	bed_sleep(b, 100 * MS);
	bed_expect(b, 0, false, 1, RNIC_WC_SUCCESS);
	assert_int_equal(bed_counters(b, 0)->probes, 1);
	assert_false(v->echo.running);
	assert_int_equal(bed_rdma(b, 0, 2, RNIC_WR_RDMA_WRITE, 0, 0, LEN), 0);
	bed_sleep(b, 100 * MS);
	bed_expect(b, 0, false, 2, RNIC_WC_SUCCESS);
	assert_in_range(bed_counters(b, 0)->probes, 2, 3);
	assert_true(v->echo.running);
	bed_close(b);
}

static void a_tail_that_is_lost_is_probed_for(void **state)
{
	struct lose l = {.psn = {18, 19}, .times = {1, 1}};
	struct bed *b = selective_bed(&l);

	(void)state;
	assert_int_equal(bed_rdma(b, 0, 1, RNIC_WR_RDMA_WRITE, 0, 0, LEN), 0);
	bed_run(b);
	assert_int_equal(bed_counters(b, 0)->tx_retransmit, 0);
	bed_sleep(b, 30 * MS);
	bed_expect(b, 0, false, 1, RNIC_WC_SUCCESS);
	assert_memory_equal(b->side[0].mem, b->side[1].mem, LEN);
	assert_in_range(bed_counters(b, 0)->tx_retransmit, 2, 4);
	bed_close(b);
}

#define MANY 60u /* packets, all of which fit the window that there is before anything is lost */

/* Drops what side 0 sends first of each PSN that is marked. */
static bool drops_first(struct bed *b, struct bed_pkt *p)
{
	bool *lost = b->filter_arg;

	if (p->from != 0 || p->h.bth.psn >= MANY || !lost[p->h.bth.psn])
		return true;
	lost[p->h.bth.psn] = false;
	return false;
}

static struct bed *bed_that_loses(bool lost[MANY], const struct cc_ops *cc)
{
	struct bed *b =
		bed_open(&(struct bed_opts){.selective = true, .cc = cc, .window_bytes = 64 << 10});

	b->filter = drops_first;
	b->filter_arg = lost;
	bed_fill(b, 0, 0, MANY * 1024, 1);
	assert_int_equal(bed_rdma(b, 0, 1, RNIC_WR_RDMA_WRITE, 0, 0, MANY * 1024), 0);
	return b;
}

static void expect_whole(struct bed *b)
{
	bed_expect(b, 0, false, 1, RNIC_WC_SUCCESS);
	assert_memory_equal(b->side[0].mem, b->side[1].mem, MANY * 1024);
	bed_close(b);
}

/* Nothing else is posted that would give the queue pair its turn again. */
static void what_was_lost_goes_as_soon_as_there_is_room(void **state)
{
	bool lost[MANY];
	struct bed *b;

	(void)state;
	for (unsigned i = 0; i < MANY; i++)
		lost[i] = i >= 10 && i < 50;
	b = bed_that_loses(lost, &cc_halving);
	bed_run(b);
	assert_int_equal(bed_counters(b, 0)->tx_retransmit, 40);
	assert_int_equal(bed_counters(b, 0)->probes, 0);
	expect_whole(b);
}

static void one_probe_is_enough_for_all_that_was_lost(void **state)
{
	uint32_t window;
	bool lost[MANY];
	struct bed *b;

	(void)state;
	for (unsigned i = 0; i < MANY; i++)
		lost[i] = true;
	b = bed_that_loses(lost, &cc_halving);
	bed_run(b);
	window = b->side[0].qp->cc.window;
	bed_sleep(b, 6 * MS);
	assert_int_equal(bed_counters(b, 0)->probes, 1);
	assert_int_equal(bed_counters(b, 0)->tx_spurious, 0);
	assert_int_equal(bed_counters(b, 0)->tx_retransmit, MANY);
	assert_true(b->side[0].qp->cc.window >= window / 2); /* was cut once */
	expect_whole(b);
}

/* A way that is found to hold much, and later little. */
static void widens_and_narrows(struct cc *c, uint32_t bytes, uint64_t now)
{
	(void)now;
	c->own[0] += bytes;
	c->window = c->own[0] > 100 << 10 && c->own[0] < 600 << 10 ? 128 << 10 : 16 << 10;
}

struct asked {
	uint32_t by[BED_MEM / 1024 + 1]; /* requests, by their KiB */
	uint64_t lost;			 /* answers that were, of each 37 one */
};

static bool counts_requests(struct bed *b, struct bed_pkt *p)
{
	struct asked *a = b->filter_arg;

	if (p->h.bth.opcode == OPCODE_RC_READ_REQUEST)
		a->by[p->h.reth.dma_len / 1024]++;
	return p->from == 0 || ++a->lost % 37;
}

static void a_long_read_asks_by_the_window_as_it_is(void **state)
{
	struct cc_ops changing = {.name = "changing", .acked = widens_and_narrows};
	static struct asked asked;
	struct bed *b = bed_open(
		&(struct bed_opts){.selective = true, .cc = &changing, .window_bytes = 256 << 10});

	(void)state;
	b->filter = counts_requests;
	b->filter_arg = &asked;
	b->side[0].qp->cc.window = 16 << 10;
	bed_fill(b, 1, 0, BED_MEM, 3);
	assert_int_equal(bed_rdma(b, 0, 1, RNIC_WR_RDMA_READ, 0, 0, BED_MEM), 0);
	bed_sleep(b, 1000 * MS);
	bed_expect(b, 0, false, 1, RNIC_WC_SUCCESS);
	assert_memory_equal(b->side[0].mem, b->side[1].mem, BED_MEM);
	assert_true(asked.by[8] >= 40); /* at first, and at the end */
	assert_in_range(asked.by[32], 12, 20);
	bed_close(b);
}

/* By a probe, too: what is here of the others is not asked for. */
static void an_answer_that_is_lost_again_and_again_goes_alone(void **state)
{
	struct lose l = {.side = 1, .psn = {3}, .times = {4}};
	struct bed *b = selective_bed(&l);

	(void)state;
	assert_int_equal(bed_rdma(b, 0, 1, RNIC_WR_RDMA_READ, 0, 100000, LEN), 0);
	bed_sleep(b, 1000 * MS);
	bed_expect(b, 0, false, 1, RNIC_WC_SUCCESS);
	assert_memory_equal(b->side[0].mem, b->side[1].mem + 100000, LEN);
	assert_true(bed_counters(b, 0)->probes > 0);
	assert_int_equal(bed_counters(b, 1)->tx_packets, 20 + 4);
	bed_close(b);
}

/* Of answers that were lost the last is one: what is between them does not go again. */
static void answers_at_both_ends_go_again_alone(void **state)
{
	struct lose l = {.side = 1, .psn = {2, 7, 19}, .times = {1, 1, 1}};
	struct bed *b = selective_bed(&l);

	(void)state;
	assert_int_equal(bed_rdma(b, 0, 1, RNIC_WR_RDMA_READ, 0, 100000, LEN), 0);
	assert_int_equal(bed_rdma(b, 0, 2, RNIC_WR_RDMA_WRITE, 0, 0, 1024), 0);
	bed_sleep(b, 100 * MS);
	bed_expect(b, 0, false, 1, RNIC_WC_SUCCESS);
	bed_expect(b, 0, false, 2, RNIC_WC_SUCCESS);
	assert_memory_equal(b->side[0].mem, b->side[1].mem + 100000, LEN);
	assert_int_equal(bed_counters(b, 1)->tx_packets, 20 + 3 + 1); /* and what the WRITE gets */
	bed_close(b);
}

/* Each packet and each answer by itself, at one time. */
static void nothing_waits_for_a_clock(void **state)
{
	struct lose l = {.psn = {0, 4}, .times = {1, 1}};
	struct bed *b = bed_open(
		&(struct bed_opts){.selective = true, .cc = &cc_halving, .window_bytes = 32 << 10});

	(void)state;
	b->filter = loses;
	b->filter_arg = &l;
	bed_fill(b, 0, 0, 32 << 10, 1);
	assert_int_equal(bed_rdma(b, 0, 1, RNIC_WR_RDMA_WRITE, 0, 0, 32 << 10), 0);
	for (bool more = true; more;) {
		more = false;
		for (int side = 0; side < 2; side++) {
			struct bed_pkt *p = bed_tx1(b, side);

			more |= p != NULL;
			if (p && loses(b, p))
				bed_deliver(b, p);
		}
	}
	bed_expect(b, 0, false, 1, RNIC_WC_SUCCESS);
	assert_int_equal(bed_counters(b, 0)->probes, 0);
	assert_int_equal(bed_counters(b, 0)->tx_retransmit, 2);
	assert_memory_equal(b->side[0].mem, b->side[1].mem, 32 << 10);
	bed_close(b);
}

/* After a loss the peer gets no processor for some milliseconds: that is not congestion. */
static void a_peer_that_is_late_is_not_congestion(void **state)
{
	struct lose l = {.psn = {4}, .times = {1}};
	struct bed *b = selective_bed(&l);
	const struct cc *cc = &b->side[0].qp->cc;
	uint32_t whole = cc->window;
	struct bed_pkt held[16];
	unsigned n = 0;

	(void)state;
	assert_int_equal(bed_rdma(b, 0, 1, RNIC_WR_RDMA_WRITE, 0, 0, LEN), 0);
	for (struct bed_pkt *p; (p = bed_tx1(b, 0));)
		if (loses(b, p))
			bed_deliver(b, p);
	for (struct bed_pkt *p; (p = bed_tx1(b, 1));)
		bed_deliver(b, p);
	/* What goes again is held up with all that follows, for 5 ms. */
	for (uint64_t t = 0; t < 5; t++) {
		for (struct bed_pkt *p; n < ARRAY_SIZE(held) && (p = bed_tx1(b, 0));)
			held[n++] = *p;
		b->now += MS;
		rnic_tick(b->side[0].rnic, b->now);
	}
	assert_in_range(n, 1, 3);
	for (unsigned i = 0; i < n; i++)
		bed_deliver(b, &held[i]);
	bed_run(b);
	bed_expect(b, 0, false, 1, RNIC_WC_SUCCESS);
	assert_true(cc->window >= whole / 2);
	assert_true(bed_counters(b, 0)->tx_spurious <= 2);
	bed_close(b);
}

static void of_a_read_only_the_missing_part_is_asked_for(void **state)
{
	struct lose l = {.side = 1, .psn = {3, 4, 11}, .times = {1, 1, 1}};
	struct bed *b = selective_bed(&l);
	const struct bed_pkt *p;

	(void)state;
	assert_int_equal(bed_rdma(b, 0, 1, RNIC_WR_RDMA_READ, 0, 100000, LEN), 0);
	bed_run(b);
	bed_expect(b, 0, false, 1, RNIC_WC_SUCCESS);
	assert_memory_equal(b->side[0].mem, b->side[1].mem + 100000, LEN);
	assert_int_equal(bed_sent(b, 0, OPCODE_RC_READ_REQUEST), 3);
	p = bed_nth(b, 0, OPCODE_RC_READ_REQUEST, 1);
	assert_int_equal(p->h.bth.psn, 3);
	assert_int_equal(p->h.reth.dma_len, 2048);
	assert_int_equal(p->h.reth.va, bed_remote_addr(b, 1, 100000) + 3 * 1024);
	p = bed_nth(b, 0, OPCODE_RC_READ_REQUEST, 2);
	assert_int_equal(p->h.bth.psn, 11);
	assert_int_equal(p->h.reth.dma_len, 1024);
	assert_int_equal(bed_counters(b, 1)->tx_packets, 23);
	bed_close(b);
}

/* Requests that are lost themselves; what is behind them is carried out behind them. */
static void reads_and_atomics_keep_their_place(void **state)
{
	struct lose l = {.psn = {0, 20}, .times = {1, 1}};
	struct bed *b = selective_bed(&l);
	uint64_t value = 5;

	(void)state;
	memcpy(b->side[1].mem + 8192, &value, 8);
	assert_int_equal(bed_rdma(b, 0, 1, RNIC_WR_RDMA_READ, 0, 100000, LEN), 0);
	assert_int_equal(bed_atomic(b, 0, 2, RNIC_WR_ATOMIC_FETCH_AND_ADD, 40000, 8192, 3, 0), 0);
	assert_int_equal(bed_rdma(b, 0, 3, RNIC_WR_RDMA_WRITE, 50000, 8192, 8), 0);
	assert_int_equal(bed_rdma(b, 0, 4, RNIC_WR_RDMA_READ, 60000, 8192, 8), 0);
	bed_run(b);
	for (uint64_t i = 1; i <= 4; i++)
		bed_expect(b, 0, false, i, RNIC_WC_SUCCESS);
	assert_memory_equal(b->side[0].mem, b->side[1].mem + 100000, LEN);
	assert_memory_equal(b->side[0].mem + 40000, &value, 8);
	assert_memory_equal(b->side[0].mem + 60000, b->side[0].mem + 50000, 8);
	assert_int_equal(bed_counters(b, 0)->tx_retransmit, 2);
	assert_int_equal(bed_sent(b, 1, OPCODE_RC_READ_RESPONSE_MIDDLE), 18);
	bed_close(b);
}

static void a_lost_answer_holds_up_no_other(void **state)
{
	struct lose l = {.side = 1, .psn = {2, 3}, .times = {1, 2}};
	struct bed *b = selective_bed(&l);

	(void)state;
	for (uint64_t i = 0; i < 8; i++)
		assert_int_equal(bed_atomic(b, 0, i, RNIC_WR_ATOMIC_FETCH_AND_ADD, 8 * (uint32_t)i,
					    8192, 1, 0),
				 0);
	bed_sleep(b, 100 * MS);
	for (uint64_t i = 0; i < 8; i++) {
		uint64_t value;

		bed_expect(b, 0, false, i, RNIC_WC_SUCCESS);
		memcpy(&value, b->side[0].mem + 8 * i, 8);
		assert_int_equal(value, i);
	}
	bed_close(b);
}

static void who_has_no_receive_is_waited_for(void **state)
{
	struct lose l = {.psn = {1}, .times = {1}};
	struct bed *b = selective_bed(&l);

	(void)state;
	assert_int_equal(bed_recv(b, 1, 10, 200000, 4096), 0);
	for (uint64_t i = 0; i < 4; i++)
		assert_int_equal(bed_send(b, 0, i, 0, 100), 0);
	bed_run(b);
	bed_expect(b, 0, false, 0, RNIC_WC_SUCCESS);
	bed_expect(b, 1, true, 10, RNIC_WC_SUCCESS);
	for (uint64_t i = 1; i < 4; i++)
		assert_int_equal(bed_recv(b, 1, 10 + i, 200000, 4096), 0);
	bed_sleep(b, 50 * MS);
	for (uint64_t i = 1; i < 4; i++) {
		bed_expect(b, 0, false, i, RNIC_WC_SUCCESS);
		bed_expect(b, 1, true, 10 + i, RNIC_WC_SUCCESS);
	}
	bed_close(b);
}

static void what_is_missing_is_told_in_bits(void **state)
{
	struct lose l = {.psn = {2, 5}, .times = {1, 1}};
	struct bed *b = selective_bed(&l);
	const uint32_t peer = rnic_qp_num(b->side[0].qp);
	const uint16_t tag = rnic_qp_tag(b->side[0].qp);
	const uint8_t want[] = {0xc0,
				0x30,
				0xff,
				0xff,
				(uint8_t)(tag >> 7),
				(uint8_t)(peer >> 16),
				(uint8_t)(peer >> 8),
				(uint8_t)peer,
				tag & 0x7f,
				0,
				0,
				2,
				0x60,
				0,
				0,
				0,
				0x0b,
				0,
				0,
				0};
	const struct bed_pkt *p;

	(void)state;
	assert_int_equal(bed_rdma(b, 0, 1, RNIC_WR_RDMA_WRITE, 0, 0, 7 * 1024), 0);
	for (const struct bed_pkt *out; (out = bed_tx1(b, 0));)
		if (b->filter(b, (struct bed_pkt *)out))
			bed_deliver(b, out);
	p = bed_tx1(b, 1);
	assert_int_equal(p->len, sizeof(want));
	assert_memory_equal(p->data, want, sizeof(want));
	bed_deliver(b, p);
	bed_run(b);
	bed_expect(b, 0, false, 1, RNIC_WC_SUCCESS);
	bed_close(b);
}

/* The second's answer is here first, and has nowhere to go. */
static void the_one_fails_that_has_to(void **state)
{
	struct lose l = {.side = 1, .psn = {0}, .times = {1}};
	struct bed *b = selective_bed(&l);

	(void)state;
	assert_int_equal(bed_rdma(b, 0, 1, RNIC_WR_RDMA_READ, 0, 100000, 8), 0);
	assert_int_equal(bed_rdma(b, 0, 2, RNIC_WR_RDMA_READ, 64, 100000, 16), 0);
	for (const struct bed_pkt *out; (out = bed_tx1(b, 0));)
		bed_deliver(b, out);
	for (struct bed_pkt *p; (p = (struct bed_pkt *)bed_tx1(b, 1));) {
		if (p->h.bth.psn == 1)
			p->len -= 8; /* another length than was asked for */
		if (b->filter(b, p))
			bed_deliver(b, p);
	}
	assert_int_equal(bed_counters(b, 0)->rx_drop_response, 1);
	bed_sleep(b, 100 * MS);
	bed_expect(b, 0, false, 1, RNIC_WC_SUCCESS);
	bed_expect(b, 0, false, 2, RNIC_WC_SUCCESS);
	bed_close(b);
}

/* ---- what a peer cannot do ------------------------------------------------------------------ */

static void forged(struct bed *b, uint32_t psn, uint8_t byte, uint32_t len)
{
	struct pkt_hdr h = {.bth = {.opcode = SACK, .psn = psn},
			    .aeth = {.syndrome = AETH_NAK | NAK_PSN_SEQ}};
	uint8_t bits[256];

	memset(bits, byte, sizeof(bits));
	(void)bed_forge(b, 1, h, bits, len);
}

static void it_says_nothing_of_what_was_not_sent(void **state)
{
	struct lose l = {0};
	struct bed *b = selective_bed(&l);

	(void)state;
	forged(b, 0, 0xff, 128);
	forged(b, 1, 0xff, 128);
	assert_null(bed_tx1(b, 0));
	assert_int_equal(bed_rdma(b, 0, 1, RNIC_WR_RDMA_WRITE, 0, 0, LEN), 0);
	for (int i = 0; i < 5; i++)
		bed_deliver(b, bed_tx1(b, 0));
	forged(b, 0xffffff, 0xff, 256);
	forged(b, 5, 0xff, 256);
	forged(b, 6, 0xff, 256);
	bed_run(b);
	bed_expect(b, 0, false, 1, RNIC_WC_SUCCESS);
	bed_close(b);
}

/* That it keeps a part of what a READ asks for makes no sense, and no room. */
static void it_says_nothing_of_parts_of_reads(void **state)
{
	struct lose l = {0};
	struct bed *b = selective_bed(&l);
	const struct ib_qp *q = ib_of(b->side[0].qp);

	(void)state;
	assert_int_equal(bed_rdma(b, 0, 1, RNIC_WR_RDMA_READ, 0, 100000, LEN), 0);
	assert_non_null(bed_tx1(b, 0));
	for (uint32_t psn = 0; psn < 4; psn++) {
		forged(b, psn, 0x01, 1);
		forged(b, psn, 0xfe, 2);
		(void)bed_tx1(b, 0);
		assert_true(q->selective->off_wire <= q->req.inflight);
	}
	bed_sleep(b, 100 * MS);
	bed_expect(b, 0, false, 1, RNIC_WC_SUCCESS);
	assert_int_equal(q->req.inflight, 0);
	assert_int_equal(q->selective->off_wire, 0);
	/* And nothing is taken that nobody gives back: several times what there is goes on. */
	for (uint64_t i = 0; i < 64; i++) {
		assert_int_equal(bed_rdma(b, 0, i, RNIC_WR_RDMA_READ, 0, 100000, LEN), 0);
		bed_run(b);
		bed_expect(b, 0, false, i, RNIC_WC_SUCCESS);
	}
	bed_close(b);
}

static void who_did_not_agree_does_not_listen(void **state)
{
	struct bed *b = bed_open(NULL);

	(void)state;
	assert_int_equal(bed_rdma(b, 0, 1, RNIC_WR_RDMA_WRITE, 0, 0, LEN), 0);
	while (bed_tx1(b, 0))
		;
	forged(b, 0, 0xff, 2);
	assert_int_equal(bed_counters(b, 0)->rx_sack, 0);
	assert_int_equal(bed_counters(b, 0)->rx_drop_service, 1);
	assert_null(bed_tx1(b, 0));
	bed_sleep(b, 1000 * MS);
	bed_expect(b, 0, false, 1, RNIC_WC_SUCCESS);
	bed_close(b);
}

static void it_keeps_no_more_than_it_may(void **state)
{
	struct lose l = {0};
	struct bed *b = selective_bed(&l);
	struct pkt_hdr h = {.bth = {.opcode = OPCODE_RC_SEND_ONLY}};
	static const uint8_t payload[1024];

	(void)state;
	for (uint32_t psn = 1; psn < 3000; psn++) {
		h.bth.psn = psn;
		bed_forge(b, 0, h, payload, sizeof(payload));
	}
	assert_int_equal(bed_counters(b, 1)->rx_kept, SELECTIVE_PSNS - 1);
	bed_close(b); /* and is free of them */
}

#define MIB	    (1u << 20)
#define CROWD	    10
#define PKT_AT_MOST 5000 /* what a packet of 4096 takes, with what is kept of it besides */

/* All that one with a path MTU of 4096 can send behind a gap, to the queue pair of side 1. */
static size_t flooded(struct bed *b)
{
	struct pkt_hdr h = {.bth = {.opcode = OPCODE_RC_SEND_ONLY}};
	static const uint8_t payload[4096];

	for (h.bth.psn = 1; h.bth.psn < SELECTIVE_PSNS; h.bth.psn++)
		bed_forge(b, 0, h, payload, sizeof(payload));
	return selective_of(b->side[1].qp)->kept_bytes;
}

static struct bed *bed_of_large_packets(void)
{
	return bed_open(
		&(struct bed_opts){.selective = true, .cc = &cc_halving, .mtu = RNIC_MTU_4096});
}

static void it_keeps_no_more_bytes_than_it_may(void **state)
{
	struct bed *b = bed_of_large_packets();
	uint64_t kept;

	(void)state;
	assert_in_range(flooded(b), 2 * MIB - PKT_AT_MOST, 2 * MIB);
	kept = bed_counters(b, 1)->rx_kept;
	assert_true(kept < SELECTIVE_PSNS - 1 && kept * 4096 <= 2 * MIB);
	/* What found no room is as good as lost, and as good again when it has some. */
	kept_drop(b->side[1].qp);
	assert_int_equal(selective_of(b->side[1].qp)->kept_bytes, 0);
	assert_int_equal(b->side[1].rnic->kept_bytes, 0);
	assert_in_range(flooded(b), 2 * MIB - PKT_AT_MOST, 2 * MIB);
	assert_int_equal(bed_counters(b, 1)->rx_kept, 2 * kept);
	bed_close(b);
}

/* Each has half of what the others leave at most, so that there is always some for the next. */
static void all_together_keep_no_more_than_they_may(void **state)
{
	struct bed *b = bed_of_large_packets();
	struct rnic_qp *old[CROWD][2];
	size_t sum = 0;

	(void)state;
	for (int i = 0; i < CROWD; i++) {
		size_t most = min_of(2 * MIB, (16 * MIB - sum) / 2), kept = flooded(b);

		assert_in_range(kept, most - PKT_AT_MOST, most);
		sum += kept;
		assert_int_equal(b->side[1].rnic->kept_bytes, sum);
		bed_second_pair(b, old[i]);
	}
	assert_in_range(sum, 15 * MIB, 16 * MIB);
	/* What one leaves is there for others. */
	sum -= selective_of(old[0][1])->kept_bytes;
	for (int side = 0; side < 2; side++)
		assert_int_equal(rnic_qp_destroy(old[0][side]), 0);
	assert_int_equal(b->side[1].rnic->kept_bytes, sum);
	assert_in_range(flooded(b), MIB, (16 * MIB - sum) / 2);
	for (int i = 1; i < CROWD; i++)
		for (int side = 0; side < 2; side++)
			assert_int_equal(rnic_qp_destroy(old[i][side]), 0);
	bed_close(b);
}

/* Who guesses a PSN that may come early, or one that is expected, knows nothing yet. */
static void nothing_is_taken_from_who_does_not_know_the_tag(void **state)
{
	struct lose l = {0};
	struct bed *b = selective_bed(&l);
	const uint16_t right[] = {rnic_qp_tag(b->side[0].qp), rnic_qp_tag(b->side[1].qp)};
	struct pkt_hdr h = {.bth = {.opcode = OPCODE_RC_SEND_ONLY, .psn = 3}};
	static const uint8_t payload[1024];
	uint64_t dropped = bed_counters(b, 1)->rx_drop_flow;

	(void)state;
	for (h.bth.tag = 1; h.bth.tag < 1 << BTH_TAG_BITS; h.bth.tag++)
		if (h.bth.tag != right[1])
			bed_forge(b, 0, h, payload, 16);
	assert_int_equal(bed_counters(b, 1)->rx_kept, 0);
	assert_in_range(bed_counters(b, 1)->rx_drop_flow - dropped, 8190, 8191);
	assert_int_equal(bed_rdma(b, 0, 1, RNIC_WR_RDMA_READ, 0, 100000, LEN), 0);
	while (bed_tx1(b, 0))
		;
	dropped = bed_counters(b, 0)->rx_drop_flow;
	for (uint32_t psn = 0; psn < 6; psn += 5) {
		h.bth = (struct bth){.opcode = OPCODE_RC_READ_RESPONSE_MIDDLE,
				     .psn = psn,
				     .tag = right[0] ^ 1 ? right[0] ^ 1 : 2};
		bed_forge(b, 1, h, payload, 1024);
		h.bth.opcode = SACK;
		bed_forge(b, 1, h, payload, 8);
	}
	assert_int_equal(bed_counters(b, 0)->rx_drop_flow - dropped, 4);
	assert_int_equal(bed_counters(b, 0)->rx_sack, 0);
	bed_close(b);
}

/* A READ takes the PSNs of its answer, in which a peer that knows better has sent something. */
static void what_was_kept_where_a_read_is_answered_is_nobodys(void **state)
{
	struct lose l = {0};
	struct bed *b = selective_bed(&l);
	struct pkt_hdr h = {.bth = {.opcode = OPCODE_RC_SEND_ONLY}};
	static const uint8_t payload[16];
	uint32_t kept;

	(void)state;
	for (h.bth.psn = 1; h.bth.psn < 40; h.bth.psn++)
		bed_forge(b, 0, h, payload, sizeof(payload));
	kept = (uint32_t)bed_counters(b, 1)->rx_kept;
	assert_int_equal(kept, 39);
	h.bth.opcode = OPCODE_RC_READ_REQUEST;
	h.bth.psn = 0;
	h.reth.va = bed_remote_addr(b, 1, 0);
	h.reth.rkey = rnic_mr_rkey(b->side[1].mr);
	h.reth.dma_len = LEN;
	bed_forge(b, 0, h, NULL, 0);
	/* The twenty behind it are carried out, or would be if there were receives. */
	assert_int_equal(ib_of(b->side[1].qp)->resp.epsn, 20);
	for (h.bth.psn = 1024; h.bth.psn < 1044; h.bth.psn++)
		assert_null(selective_of(b->side[1].qp)->kept[h.bth.psn % SELECTIVE_PSNS]);
	bed_close(b);
}

/* The request itself was lost, and goes again as it was, however little room there is. */
static void a_read_that_was_lost_is_no_part_of_one(void **state)
{
	struct lose l = {.psn = {0}, .times = {1}};
	struct bed *b = selective_bed(&l);

	(void)state;
	for (uint64_t i = 0; i < 12; i++)
		assert_int_equal(bed_rdma(b, 0, i, RNIC_WR_RDMA_READ, 0, 100000, LEN), 0);
	bed_sleep(b, 100 * MS);
	for (uint64_t i = 0; i < 12; i++)
		bed_expect(b, 0, false, i, RNIC_WC_SUCCESS);
	for (uint32_t i = 0; i < b->nlog; i++)
		if (b->log[i].from == 0 && b->log[i].h.bth.opcode == OPCODE_RC_READ_REQUEST)
			assert_int_equal(b->log[i].h.reth.dma_len, LEN);
	bed_close(b);
}

/* What was sent behind it was kept, and is carried out when it has come: answers to that may be
 * lost as well. */
static void answers_to_what_was_kept_are_missed(void **state)
{
	struct bed *b = selective_bed(&(struct lose){.psn = {0}, .times = {1}});
	struct lose answers = {.side = 1, .psn = {2}, .times = {1}};

	(void)state;
	memcpy(b->side[1].mem + 8192, &(uint64_t){7}, 8);
	assert_int_equal(bed_rdma(b, 0, 0, RNIC_WR_RDMA_WRITE, 0, 0, 8), 0);
	for (uint64_t i = 1; i < 5; i++)
		assert_int_equal(bed_rdma(b, 0, i, RNIC_WR_RDMA_READ, 8 * (uint32_t)i, 8192, 8), 0);
	assert_int_equal(bed_rdma(b, 0, 5, RNIC_WR_RDMA_WRITE, 0, 64, 8), 0);
	for (const struct bed_pkt *out; (out = bed_tx1(b, 0));)
		if (b->filter(b, (struct bed_pkt *)out))
			bed_deliver(b, out);
	b->filter_arg = &answers;
	bed_run(b);
	for (uint64_t i = 0; i < 6; i++)
		bed_expect(b, 0, false, i, RNIC_WC_SUCCESS);
	assert_int_equal(bed_counters(b, 0)->probes, 0);
	bed_close(b);
}

static void it_is_agreed_on_before_it_begins(void **state)
{
	struct bed *b = bed_open(NULL);

	(void)state;
	assert_false(rnic_qp_repeats_selectively(b->side[0].qp));
	assert_int_equal(rnic_qp_repeat_selectively(b->side[0].qp, 0), -EINVAL);
	assert_int_equal(bed_modify(b, 0, RNIC_QPS_RESET), 0);
	assert_int_equal(rnic_qp_repeat_selectively(b->side[0].qp, 0), 0);
	assert_true(rnic_qp_repeats_selectively(b->side[0].qp));
	assert_int_equal(bed_modify(b, 0, RNIC_QPS_RESET), 0);
	assert_false(rnic_qp_repeats_selectively(b->side[0].qp));
	bed_close(b);
	b = bed_open(&(struct bed_opts){.type = RNIC_QPT_UC});
	assert_int_equal(bed_modify(b, 0, RNIC_QPS_RESET), 0);
	assert_int_equal(rnic_qp_repeat_selectively(b->side[0].qp, 0), -EOPNOTSUPP);
	bed_close(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_what_was_lost_goes_again),
		cmocka_unit_test(what_came_twice_is_told),
		cmocka_unit_test(what_was_lost_was_not_sent_in_vain),
		cmocka_unit_test(psns_wrap_around),
		cmocka_unit_test(whatever_it_is),
		cmocka_unit_test(what_is_lost_again_is_missed_when_more_has_come),
		cmocka_unit_test(what_is_lost_again_is_congestion_again),
		cmocka_unit_test(round_trips_are_measured_whatever_is_lost),
		cmocka_unit_test(a_probe_is_timed_only_where_nothing_else_went_again),
		cmocka_unit_test(a_tail_that_is_lost_is_probed_for),
		cmocka_unit_test(what_was_lost_goes_as_soon_as_there_is_room),
		cmocka_unit_test(one_probe_is_enough_for_all_that_was_lost),
		cmocka_unit_test(a_long_read_asks_by_the_window_as_it_is),
		cmocka_unit_test(an_answer_that_is_lost_again_and_again_goes_alone),
		cmocka_unit_test(answers_at_both_ends_go_again_alone),
		cmocka_unit_test(nothing_waits_for_a_clock),
		cmocka_unit_test(a_peer_that_is_late_is_not_congestion),
		cmocka_unit_test(of_a_read_only_the_missing_part_is_asked_for),
		cmocka_unit_test(reads_and_atomics_keep_their_place),
		cmocka_unit_test(a_lost_answer_holds_up_no_other),
		cmocka_unit_test(who_has_no_receive_is_waited_for),
		cmocka_unit_test(what_is_missing_is_told_in_bits),
		cmocka_unit_test(it_says_nothing_of_what_was_not_sent),
		cmocka_unit_test(it_says_nothing_of_parts_of_reads),
		cmocka_unit_test(who_did_not_agree_does_not_listen),
		cmocka_unit_test(it_keeps_no_more_than_it_may),
		cmocka_unit_test(it_keeps_no_more_bytes_than_it_may),
		cmocka_unit_test(all_together_keep_no_more_than_they_may),
		cmocka_unit_test(nothing_is_taken_from_who_does_not_know_the_tag),
		cmocka_unit_test(what_was_kept_where_a_read_is_answered_is_nobodys),
		cmocka_unit_test(a_read_that_was_lost_is_no_part_of_one),
		cmocka_unit_test(answers_to_what_was_kept_are_missed),
		cmocka_unit_test(the_one_fails_that_has_to),
		cmocka_unit_test(it_is_agreed_on_before_it_begins),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
