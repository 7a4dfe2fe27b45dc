/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What the transport does about packets that are lost, repeated, late or not wanted yet. */
#include <string.h>

#include "rnic/ib/ib.h"
#include "rnic_bed.h"

#define ACK OPCODE_RC_ACKNOWLEDGE

static uint32_t naks(struct bed *b, int side)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < b->nlog; i++)
		n += b->log[i].from == side && b->log[i].h.bth.opcode == ACK &&
		     b->log[i].h.aeth.syndrome >> 5 == 3;
	return n;
}

static void psns_wrap_around(void **state)
{
	struct bed *b = bed_open(&(struct bed_opts){.psn = {0xfffffe, 0xffffff}});

	(void)state;
	bed_fill(b, 0, 0, 10000, 1);
	bed_fill(b, 1, 20000, 10000, 2);
	for (uint64_t i = 0; i < 3; i++) {
		assert_int_equal(bed_rdma(b, 0, i, RNIC_WR_RDMA_WRITE, 0, 0, 3000), 0);
		assert_int_equal(bed_rdma(b, 0, i + 10, RNIC_WR_RDMA_READ, 50000, 20000, 9000), 0);
		bed_run(b);
		bed_expect(b, 0, false, i, RNIC_WC_SUCCESS);
		bed_expect(b, 0, false, i + 10, RNIC_WC_SUCCESS);
	}
	assert_memory_equal(b->side[0].mem, b->side[1].mem, 3000);
	assert_memory_equal(b->side[0].mem + 50000, b->side[1].mem + 20000, 9000);
	assert_int_equal(bed_nth(b, 0, OPCODE_RC_WRITE_FIRST, 0)->h.bth.psn, 0xfffffe);
	assert_int_equal(bed_nth(b, 0, OPCODE_RC_WRITE_LAST, 0)->h.bth.psn, 0);
	assert_int_equal(bed_nth(b, 0, OPCODE_RC_READ_REQUEST, 0)->h.bth.psn, 1);
	assert_int_equal(bed_nth(b, 0, OPCODE_RC_WRITE_FIRST, 1)->h.bth.psn, 10);
	bed_close(b);
}

static void a_gap_across_the_wrap_is_mended(void **state)
{
	struct bed *b = bed_open(&(struct bed_opts){.psn = {0xfffffc, 5}});
	struct bed_drop d = {.side = 0, .opcode = OPCODE_RC_WRITE_MIDDLE, .from = 4, .count = 1};

	(void)state;
	bed_drop(b, &d);
	bed_fill(b, 0, 0, 20000, 1);
	assert_int_equal(bed_rdma(b, 0, 1, RNIC_WR_RDMA_WRITE, 0, 0, 20000), 0);
	bed_run(b);
	bed_expect(b, 0, false, 1, RNIC_WC_SUCCESS);
	assert_memory_equal(b->side[0].mem, b->side[1].mem, 20000);
	bed_close(b);
}

static void a_gap_is_nakked_once(void **state)
{
	struct bed *b = bed_open(NULL);
	struct bed_drop d = {.side = 0, .opcode = OPCODE_RC_SEND_MIDDLE, .from = 2, .count = 1};
	struct bed_pkt *p;

	(void)state;
	bed_drop(b, &d);
	bed_fill(b, 0, 0, 10240, 1);
	assert_int_equal(bed_recv(b, 1, 2, 0, 10240), 0);
	assert_int_equal(bed_send(b, 0, 1, 0, 10240), 0);
	/* One packet at a time, so that every answer has its chance. */
	for (int i = 0; i < 10; i++) {
		p = bed_tx1(b, 0);
		if (b->filter(b, p))
			bed_deliver(b, p);
		while ((p = bed_tx1(b, 1)))
			;
	}
	assert_int_equal(naks(b, 1), 1);
	p = bed_nth(b, 1, ACK, 0);
	assert_int_equal(p->h.aeth.syndrome, 0x60);
	assert_int_equal(p->h.bth.psn, 3);
	bed_deliver(b, p);
	bed_run(b);
	assert_int_equal(naks(b, 1), 1);
	bed_expect(b, 0, false, 1, RNIC_WC_SUCCESS);
	bed_expect(b, 1, true, 2, RNIC_WC_SUCCESS);
	assert_memory_equal(b->side[0].mem, b->side[1].mem, 10240);
	/* Go-back-N: from the missing one on, no more. */
	assert_int_equal(bed_counters(b, 0)->tx_retransmit, 7);
	bed_close(b);
}

static void a_gap_that_closed_meanwhile_is_not_nakked(void **state)
{
	struct bed *b = bed_open(NULL);

	(void)state;
	assert_int_equal(bed_rdma(b, 0, 1, RNIC_WR_RDMA_WRITE, 0, 0, 8), 0);
	assert_int_equal(bed_rdma(b, 0, 2, RNIC_WR_RDMA_WRITE, 0, 0, 8), 0);
	while (bed_tx1(b, 0))
		;
	bed_deliver(b, &b->log[1]);
	bed_deliver(b, &b->log[0]);
	bed_deliver(b, &b->log[1]);
	bed_run(b);
	assert_int_equal(naks(b, 1), 0);
	bed_expect(b, 0, false, 1, RNIC_WC_SUCCESS);
	bed_expect(b, 0, false, 2, RNIC_WC_SUCCESS);
	bed_close(b);
}

static void the_next_gap_is_nakked_again(void **state)
{
	struct bed *b = bed_open(NULL);
	/* The third middle packet, and the third after that was sent again. */
	struct bed_drop d = {.side = 0, .opcode = OPCODE_RC_WRITE_MIDDLE, .from = 2, .count = 1};

	(void)state;
	bed_drop(b, &d);
	bed_fill(b, 0, 0, 10240, 1);
	assert_int_equal(bed_rdma(b, 0, 1, RNIC_WR_RDMA_WRITE, 0, 0, 10240), 0);
	bed_run(b);
	assert_int_equal(naks(b, 1), 1);
	d.seen = 0;
	assert_int_equal(bed_rdma(b, 0, 2, RNIC_WR_RDMA_WRITE, 0, 0, 10240), 0);
	bed_run(b);
	assert_int_equal(naks(b, 1), 2);
	bed_expect(b, 0, false, 1, RNIC_WC_SUCCESS);
	bed_expect(b, 0, false, 2, RNIC_WC_SUCCESS);
	assert_int_equal(bed_counters(b, 0)->probes, 0);
	bed_close(b);
}

static void a_dead_peer_is_given_up_after_all_retries(void **state)
{
	struct bed *b = bed_open(&(struct bed_opts){.timeout = 12, .retry_cnt = 2});
	uint64_t timeout = 4096ull << 12;

	(void)state;
	b->filter = bed_drop_all;
	assert_int_equal(bed_rdma(b, 0, 1, RNIC_WR_RDMA_WRITE, 0, 0, 8), 0);
	assert_int_equal(bed_rdma(b, 0, 2, RNIC_WR_RDMA_WRITE, 0, 0, 8), 0);
	bed_run(b);
	bed_sleep(b, 3 * timeout - 1);
	bed_expect_none(b, 0);
	assert_int_equal(bed_counters(b, 0)->timeouts, 2);
	bed_sleep(b, 1);
	bed_expect(b, 0, false, 1, RNIC_WC_RETRY_EXC_ERR);
	bed_expect(b, 0, false, 2, RNIC_WC_WR_FLUSH_ERR);
	assert_int_equal(bed_state(b, 0), RNIC_QPS_ERR);
	assert_int_equal(rnic_next_deadline(b->side[0].rnic), DEADLINE_NEVER);
	bed_close(b);
}

static bool no_full_packet(struct bed *b, struct bed_pkt *p)
{
	(void)b;
	return p->payload_len < 1024;
}

static void a_path_mtu_that_nothing_came_through_with_is_named(void **state)
{
	static const struct {
		uint32_t before; /* bytes that arrive first, 0: none */
		uint32_t opcode, len;
		uint32_t suspected;
	} cases[] = {
		{8, RNIC_WR_RDMA_WRITE, 4000, 1},    {8, RNIC_WR_RDMA_READ, 4000, 1},
		{8, RNIC_WR_RDMA_WRITE, 1024, 1},    {0, RNIC_WR_RDMA_WRITE, 4000, 0},
		{2000, RNIC_WR_RDMA_WRITE, 4000, 0}, {1024, RNIC_WR_RDMA_READ, 4000, 0},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct bed *b = bed_open(&(struct bed_opts){.timeout = 12, .retry_cnt = 2});

		if (cases[i].before) {
			assert_int_equal(
				bed_rdma(b, 0, 1, RNIC_WR_RDMA_WRITE, 0, 0, cases[i].before), 0);
			bed_run(b);
			bed_expect(b, 0, false, 1, RNIC_WC_SUCCESS);
		}
		b->filter = no_full_packet;
		assert_int_equal(bed_rdma(b, 0, 2, cases[i].opcode, 0, 0, cases[i].len), 0);
		bed_run(b);
		bed_sleep(b, 4 * (4096ull << 12));
		bed_expect(b, 0, false, 2, RNIC_WC_RETRY_EXC_ERR);
		assert_int_equal(b->side[0].suspected, cases[i].suspected);
		bed_close(b);
	}
}

static void a_short_packet_that_is_lost_says_nothing_of_the_path_mtu(void **state)
{
	struct bed *b = bed_open(&(struct bed_opts){.timeout = 12, .retry_cnt = 2});

	(void)state;
	assert_int_equal(bed_rdma(b, 0, 1, RNIC_WR_RDMA_WRITE, 0, 0, 8), 0);
	bed_run(b);
	bed_expect(b, 0, false, 1, RNIC_WC_SUCCESS);
	b->filter = bed_drop_all;
	assert_int_equal(bed_rdma(b, 0, 2, RNIC_WR_RDMA_WRITE, 0, 0, 1023), 0);
	bed_run(b);
	bed_sleep(b, 4 * (4096ull << 12));
	bed_expect(b, 0, false, 2, RNIC_WC_RETRY_EXC_ERR);
	assert_int_equal(b->side[0].suspected, 0);
	bed_close(b);
}

static void a_packet_that_never_arrives_ends_the_qp_though_others_do(void **state)
{
	struct bed *b = bed_open(&(struct bed_opts){.timeout = 12, .retry_cnt = 2});
	/* The first packet of the message is always lost: only NAKs come back. */
	struct bed_drop d = {.side = 0, .opcode = OPCODE_RC_WRITE_FIRST, .count = UINT32_MAX / 2};

	(void)state;
	bed_drop(b, &d);
	assert_int_equal(bed_rdma(b, 0, 1, RNIC_WR_RDMA_WRITE, 0, 0, 3000), 0);
	bed_sleep(b, 4 * (4096ull << 12));
	bed_expect(b, 0, false, 1, RNIC_WC_RETRY_EXC_ERR);
	bed_close(b);
}

static void progress_gives_the_retries_back(void **state)
{
	struct bed *b = bed_open(&(struct bed_opts){.timeout = 8, .retry_cnt = 1}); /* 1.05 ms */
	struct bed_drop d = {.side = 0, .opcode = -1};

	(void)state;
	bed_drop(b, &d);
	for (uint64_t i = 0; i < 5; i++) {
		d.seen = 0;
		d.count = 1; /* each is lost once: one timeout, then it arrives */
		assert_int_equal(bed_rdma(b, 0, i, RNIC_WR_RDMA_WRITE, 0, 0, 8), 0);
		bed_sleep(b, 2 * MS);
		bed_expect(b, 0, false, i, RNIC_WC_SUCCESS);
	}
	assert_int_equal(bed_counters(b, 0)->timeouts, 5);
	bed_close(b);
}

static void timeout_zero_waits_for_ever_and_still_probes(void **state)
{
	struct bed *b = bed_open(&(struct bed_opts){.zero_timeout = true, .zero_retry = true});

	(void)state;
	b->filter = bed_drop_all;
	assert_int_equal(bed_rdma(b, 0, 1, RNIC_WR_RDMA_WRITE, 0, 0, 8), 0);
	bed_sleep(b, 3600 * 1000 * MS);
	bed_expect_none(b, 0);
	assert_true(bed_counters(b, 0)->probes > 3500);
	b->filter = NULL;
	bed_sleep(b, 1001 * MS);
	bed_expect(b, 0, false, 1, RNIC_WC_SUCCESS);
	bed_close(b);
}

static void an_acknowledgement_covers_all_before_it(void **state)
{
	struct bed *b = bed_open(NULL);
	struct bed_pkt *p, *last = NULL;

	(void)state;
	for (uint64_t i = 0; i < 6; i++) {
		assert_int_equal(bed_rdma(b, 0, i, RNIC_WR_RDMA_WRITE, 0, 0, 100), 0);
		bed_deliver(b, bed_tx1(b, 0));
		while ((p = bed_tx1(b, 1)))
			last = p;
	}
	bed_expect_none(b, 0);
	bed_deliver(b, last);
	for (uint64_t i = 0; i < 6; i++)
		bed_expect(b, 0, false, i, RNIC_WC_SUCCESS);
	bed_close(b);
}

static void acknowledgements_are_joined(void **state)
{
	struct bed *b = bed_open(NULL);

	(void)state;
	for (uint64_t i = 0; i < 10; i++)
		assert_int_equal(bed_rdma(b, 0, i, RNIC_WR_RDMA_WRITE, 0, 0, 100), 0);
	bed_run(b);
	for (uint64_t i = 0; i < 10; i++)
		bed_expect(b, 0, false, i, RNIC_WC_SUCCESS);
	assert_int_equal(bed_sent(b, 1, ACK), 1);
	assert_int_equal(bed_nth(b, 1, ACK, 0)->h.aeth.syndrome, 0x1f);
	assert_int_equal(bed_nth(b, 1, ACK, 0)->h.aeth.msn, 10);
	bed_close(b);
}

/* A requester that goes back asks for each READ again by itself, and gets each once. */
static void reads_asked_for_again_are_answered_once_each(void **state)
{
	struct bed *b = bed_open(NULL);
	uint32_t asked;

	(void)state;
	for (uint64_t i = 0; i < 4; i++)
		assert_int_equal(bed_rdma(b, 0, i, RNIC_WR_RDMA_READ, 0, 0, 3000), 0);
	while (bed_tx1(b, 0))
		;
	asked = b->nlog;
	for (uint32_t i = 0; i < asked; i++)
		bed_deliver(b, &b->log[i]);
	while (bed_tx1(b, 1))
		;
	assert_int_equal(b->nlog, asked + 12);
	for (uint32_t i = 1; i < asked; i++) {
		bed_deliver(b, &b->log[i]);
		while (bed_tx1(b, 1))
			;
		assert_int_equal(b->nlog, asked + 12 + 3 * i);
		assert_int_equal(b->log[b->nlog - 1].h.bth.psn, b->log[i].h.bth.psn + 2);
	}
	/* The same when the requests come together. */
	for (uint32_t i = 1; i < asked; i++)
		bed_deliver(b, &b->log[i]);
	while (bed_tx1(b, 1))
		;
	assert_int_equal(b->nlog, asked + 12 + 9 + 9);
	bed_close(b);
}

static void a_lost_acknowledgement_does_not_deliver_twice(void **state)
{
	struct bed *b = bed_open(NULL);
	struct bed_drop d = {.side = 1, .opcode = ACK, .count = 1};

	(void)state;
	bed_drop(b, &d);
	assert_int_equal(bed_recv(b, 1, 7, 0, 100), 0);
	assert_int_equal(bed_recv(b, 1, 8, 0, 100), 0);
	assert_int_equal(bed_send(b, 0, 1, 0, 100), 0);
	bed_sleep(b, 10 * MS);
	bed_expect(b, 0, false, 1, RNIC_WC_SUCCESS);
	bed_expect(b, 1, true, 7, RNIC_WC_SUCCESS);
	bed_expect_none(b, 1);
	assert_int_equal(bed_counters(b, 1)->rx_duplicate, 1);
	bed_close(b);
}

static void a_repeated_atomic_is_answered_from_what_was_kept(void **state)
{
	struct bed *b = bed_open(NULL);
	uint64_t *word = (uint64_t *)(void *)b->side[1].mem;
	struct bed_pkt *p;

	(void)state;
	*word = 5;
	assert_int_equal(bed_atomic(b, 0, 1, RNIC_WR_ATOMIC_FETCH_AND_ADD, 0, 0, 10, 0), 0);
	bed_run(b);
	bed_expect(b, 0, false, 1, RNIC_WC_SUCCESS);
	*word = 1000;
	bed_deliver(b, bed_nth(b, 0, OPCODE_RC_FETCH_ADD, 0));
	p = bed_tx1(b, 1);
	assert_non_null(p);
	assert_int_equal(p->h.bth.opcode, OPCODE_RC_ATOMIC_ACKNOWLEDGE);
	assert_int_equal(p->h.bth.psn, 0);
	assert_int_equal(p->h.atomic_ack, 5);
	assert_int_equal(*word, 1000);
	/* Nobody waits for it any more. */
	bed_deliver(b, p);
	bed_expect_none(b, 0);
	bed_close(b);
}

static void as_many_atomics_are_kept_as_may_be_outstanding(void **state)
{
	struct bed *b = bed_open(&(struct bed_opts){.rd_atomic = 16});
	uint64_t *word = (uint64_t *)(void *)b->side[1].mem;

	(void)state;
	for (uint64_t i = 0; i < 16; i++)
		assert_int_equal(bed_atomic(b, 0, i, RNIC_WR_ATOMIC_FETCH_AND_ADD, 0, 0, 1, 0), 0);
	while (bed_tx1(b, 0))
		;
	for (int again = 0; again < 3; again++)
		for (uint32_t i = 0; i < 16; i++)
			bed_deliver(b, &b->log[i]);
	assert_int_equal(*word, 16);
	bed_run(b);
	for (uint64_t i = 0; i < 16; i++)
		bed_expect(b, 0, false, i, RNIC_WC_SUCCESS);
	assert_int_equal(bed_nth(b, 1, OPCODE_RC_ATOMIC_ACKNOWLEDGE, 15)->h.atomic_ack, 15);
	bed_close(b);
}

/* A queue pair that lives for hours gets there. */
static void atomics_are_kept_when_their_count_wraps(void **state)
{
	struct bed *b = bed_open(&(struct bed_opts){.rd_atomic = 4});
	uint64_t *word = (uint64_t *)(void *)b->side[1].mem;
	struct resp *s = resp_of(b->side[1].qp);

	(void)state;
	s->res_prod = s->res_send = s->res_done = UINT32_MAX - 1;
	for (uint64_t i = 0; i < 4; i++)
		assert_int_equal(bed_atomic(b, 0, i, RNIC_WR_ATOMIC_FETCH_AND_ADD, 0, 0, 1, 0), 0);
	bed_run(b);
	assert_int_equal(s->res_prod, 2);
	/* All four responses may have been lost. */
	for (uint32_t i = 0; i < 4; i++) {
		struct bed_pkt *p;

		bed_deliver(b, bed_nth(b, 0, OPCODE_RC_FETCH_ADD, i));
		p = bed_tx1(b, 1);
		assert_non_null(p);
		assert_int_equal(p->h.atomic_ack, i);
	}
	assert_int_equal(*word, 4);
	bed_close(b);
}

static void a_lost_atomic_response_is_asked_for_again(void **state)
{
	struct bed *b = bed_open(NULL);
	struct bed_drop d = {.side = 1, .opcode = OPCODE_RC_ATOMIC_ACKNOWLEDGE, .count = 1};
	uint64_t *word = (uint64_t *)(void *)b->side[1].mem;

	(void)state;
	bed_drop(b, &d);
	assert_int_equal(bed_atomic(b, 0, 1, RNIC_WR_ATOMIC_FETCH_AND_ADD, 0, 0, 1, 0), 0);
	/* The WRITE's acknowledgement tells that the atomic's is missing: no time passes. */
	assert_int_equal(bed_rdma(b, 0, 2, RNIC_WR_RDMA_WRITE, 64, 64, 8), 0);
	bed_run(b);
	bed_expect(b, 0, false, 1, RNIC_WC_SUCCESS);
	bed_expect(b, 0, false, 2, RNIC_WC_SUCCESS);
	assert_int_equal(*word, 1);
	assert_int_equal(bed_counters(b, 0)->implied_naks, 1);
	bed_close(b);
}

static void a_read_is_resumed_where_it_broke_off(void **state)
{
	struct bed *b = bed_open(NULL);
	struct bed_drop d = {
		.side = 1, .opcode = OPCODE_RC_READ_RESPONSE_MIDDLE, .from = 2, .count = 1};
	struct bed_pkt *p;

	(void)state;
	bed_drop(b, &d);
	bed_fill(b, 1, 0, 8000, 1);
	assert_int_equal(bed_rdma(b, 0, 1, RNIC_WR_RDMA_READ, 0, 0, 8000), 0);
	bed_run(b);
	bed_expect(b, 0, false, 1, RNIC_WC_SUCCESS);
	assert_memory_equal(b->side[0].mem, b->side[1].mem, 8000);
	assert_int_equal(bed_sent(b, 0, OPCODE_RC_READ_REQUEST), 2);
	p = bed_nth(b, 0, OPCODE_RC_READ_REQUEST, 1);
	assert_int_equal(p->h.bth.psn, 3);
	assert_int_equal(p->h.reth.va, bed_remote_addr(b, 1, 3 * 1024));
	assert_int_equal(p->h.reth.dma_len, 8000 - 3 * 1024);
	p = bed_nth(b, 1, OPCODE_RC_READ_RESPONSE_FIRST, 1);
	assert_int_equal(p->h.bth.psn, 3);
	assert_int_equal(bed_counters(b, 0)->implied_naks, 1);
	bed_close(b);
}

static void a_read_that_lost_its_end_is_probed(void **state)
{
	struct bed *b = bed_open(NULL);
	struct bed_drop d = {.side = 1, .opcode = OPCODE_RC_READ_RESPONSE_LAST, .count = 1};

	(void)state;
	bed_drop(b, &d);
	bed_fill(b, 1, 0, 8000, 1);
	assert_int_equal(bed_rdma(b, 0, 1, RNIC_WR_RDMA_READ, 0, 0, 8000), 0);
	bed_sleep(b, 6 * MS);
	bed_expect(b, 0, false, 1, RNIC_WC_SUCCESS);
	assert_memory_equal(b->side[0].mem, b->side[1].mem, 8000);
	assert_int_equal(bed_nth(b, 1, OPCODE_RC_READ_RESPONSE_ONLY, 0)->h.bth.psn, 7);
	bed_close(b);
}

static void a_repeated_read_is_executed_again(void **state)
{
	struct bed *b = bed_open(NULL);
	struct bed_pkt *p;

	(void)state;
	memset(b->side[1].mem, 1, 100);
	assert_int_equal(bed_rdma(b, 0, 1, RNIC_WR_RDMA_READ, 0, 0, 100), 0);
	bed_run(b);
	memset(b->side[1].mem, 2, 100);
	bed_deliver(b, bed_nth(b, 0, OPCODE_RC_READ_REQUEST, 0));
	p = bed_tx1(b, 1);
	assert_int_equal(p->h.bth.opcode, OPCODE_RC_READ_RESPONSE_ONLY);
	assert_int_equal(p->payload[99], 2);
	assert_int_equal(b->side[0].mem[0], 1);
	bed_deliver(b, p); /* late: nothing happens */
	assert_int_equal(b->side[0].mem[0], 1);
	bed_close(b);
}

static void a_repeated_read_of_a_gone_region_harms_nobody(void **state)
{
	struct bed *b = bed_open(NULL);

	(void)state;
	assert_int_equal(bed_rdma(b, 0, 1, RNIC_WR_RDMA_READ, 0, 0, 100), 0);
	bed_run(b);
	bed_expect(b, 0, false, 1, RNIC_WC_SUCCESS);
	assert_int_equal(rnic_mr_destroy(b->side[1].mr), 0);
	b->side[1].mr = NULL;
	bed_deliver(b, bed_nth(b, 0, OPCODE_RC_READ_REQUEST, 0));
	bed_run(b);
	assert_int_equal(bed_state(b, 0), RNIC_QPS_RTS);
	assert_int_equal(bed_state(b, 1), RNIC_QPS_RTS);
	assert_int_equal(b->side[1].nevents, 0);
	bed_close(b);
}

static void answers_keep_the_order_of_their_requests(void **state)
{
	struct bed *b = bed_open(NULL);
	uint8_t opcodes[8];
	uint32_t n = 0;
	struct bed_pkt *p;

	(void)state;
	assert_int_equal(bed_rdma(b, 0, 1, RNIC_WR_RDMA_WRITE, 0, 0, 10), 0);
	assert_int_equal(bed_rdma(b, 0, 2, RNIC_WR_RDMA_READ, 0, 0, 2000), 0);
	assert_int_equal(bed_atomic(b, 0, 3, RNIC_WR_ATOMIC_FETCH_AND_ADD, 0, 0, 1, 0), 0);
	assert_int_equal(bed_rdma(b, 0, 4, RNIC_WR_RDMA_WRITE, 0, 0, 10), 0);
	while ((p = bed_tx1(b, 0)))
		bed_deliver(b, p);
	while ((p = bed_tx1(b, 1))) {
		opcodes[n++] = p->h.bth.opcode;
		bed_deliver(b, p);
	}
	/* The first WRITE is acknowledged by the READ's response. */
	assert_int_equal(n, 4);
	assert_int_equal(opcodes[0], OPCODE_RC_READ_RESPONSE_FIRST);
	assert_int_equal(opcodes[1], OPCODE_RC_READ_RESPONSE_LAST);
	assert_int_equal(opcodes[2], OPCODE_RC_ATOMIC_ACKNOWLEDGE);
	assert_int_equal(opcodes[3], ACK);
	for (uint64_t i = 1; i <= 4; i++)
		bed_expect(b, 0, false, i, RNIC_WC_SUCCESS);
	assert_int_equal(bed_rdma(b, 0, 5, RNIC_WR_RDMA_WRITE, 0, 0, 10), 0);
	assert_int_equal(bed_rdma(b, 0, 6, RNIC_WR_RDMA_READ, 0, 0, 10), 0);
	bed_run(b);
	assert_int_equal(bed_sent(b, 1, ACK), 1);
	bed_close(b);
}

static void an_acknowledgement_after_all_spares_the_resend(void **state)
{
	struct bed *b = bed_open(NULL);
	struct bed_side *s = &b->side[0];
	struct rnic_mr *mr;
	struct rnic_sge sge = {(uintptr_t)s->mem, 8, 0};
	struct rnic_send_wr wr = {.wr_id = 2,
				  .sge = &sge,
				  .num_sge = 1,
				  .opcode = RNIC_WR_RDMA_WRITE,
				  .rkey = rnic_mr_rkey(b->side[1].mr),
				  .remote_addr = bed_remote_addr(b, 1, 0)};
	struct bed_pkt *p;

	(void)state;
	assert_int_equal(rnic_mr_create(s->pd, s->mem, 8, (uintptr_t)s->mem, 0, &mr), 0);
	sge.lkey = rnic_mr_lkey(mr);
	assert_int_equal(bed_rdma(b, 0, 1, RNIC_WR_RDMA_WRITE, 0, 0, 8), 0);
	assert_int_equal(rnic_post_send(s->qp, &wr, b->now), 0);
	while ((p = bed_tx1(b, 0)))
		bed_deliver(b, p);
	p = bed_tx1(b, 1); /* late */
	assert_int_equal(rnic_mr_destroy(mr), 0);
	b->now += 68 * MS;
	rnic_tick(s->rnic, b->now); /* the transport timer: all over again */
	while (bed_tx1(b, 0))
		;
	bed_expect_none(b, 0); /* the second can not be sent again, and waits for the first */
	bed_deliver(b, p);
	bed_expect(b, 0, false, 1, RNIC_WC_SUCCESS);
	bed_expect(b, 0, false, 2, RNIC_WC_SUCCESS);
	assert_int_equal(bed_rdma(b, 0, 3, RNIC_WR_RDMA_WRITE, 0, 0, 8), 0);
	bed_run(b);
	bed_expect(b, 0, false, 3, RNIC_WC_SUCCESS);
	bed_close(b);
}

static void responses_to_nothing_are_dropped(void **state)
{
	struct bed *b = bed_open(NULL);
	struct pkt_hdr h = {.bth = {.opcode = ACK}, .aeth = {.syndrome = 0x1f}};
	uint8_t data[16] = {0};

	(void)state;
	assert_int_equal(bed_rdma(b, 0, 1, RNIC_WR_RDMA_WRITE, 0, 0, 3000), 0);
	while (bed_tx1(b, 0))
		;
	h.bth.psn = PSN_MASK; /* before the first */
	bed_forge(b, 1, h, NULL, 0);
	h.bth.psn = 3; /* after the last */
	bed_forge(b, 1, h, NULL, 0);
	h.bth.opcode = OPCODE_RC_READ_RESPONSE_ONLY; /* to a WRITE */
	h.bth.psn = 0;
	bed_forge(b, 1, h, data, sizeof(data));
	h.bth.opcode = OPCODE_RC_ATOMIC_ACKNOWLEDGE;
	bed_forge(b, 1, h, NULL, 0);
	bed_expect_none(b, 0);
	assert_int_equal(bed_counters(b, 0)->rx_drop_response, 4);
	assert_int_equal(bed_state(b, 0), RNIC_QPS_RTS);
	bed_close(b);
}

/* ---- receiver not ready --------------------------------------------------------------------- */

static void a_message_waits_until_there_is_a_receive(void **state)
{
	struct bed *b = bed_open(&(struct bed_opts){.min_rnr_timer = 14}); /* 1.28 ms */
	struct bed_pkt *p;
	uint32_t sent;

	(void)state;
	bed_fill(b, 0, 0, 3000, 9);
	assert_int_equal(bed_send(b, 0, 1, 0, 3000), 0);
	bed_run(b);
	p = bed_nth(b, 1, ACK, 0);
	assert_int_equal(p->h.aeth.syndrome, 0x20 | 14);
	assert_int_equal(p->h.bth.psn, 0);
	/* What came after it is not answered. */
	assert_int_equal(bed_sent(b, 1, ACK), 1);
	sent = b->nlog;
	assert_int_equal(bed_recv(b, 1, 2, 0, 3000), 0);
	bed_sleep(b, 1270 * US);
	assert_int_equal(b->nlog, sent);
	bed_sleep(b, 20 * US);
	bed_expect(b, 0, false, 1, RNIC_WC_SUCCESS);
	bed_expect(b, 1, true, 2, RNIC_WC_SUCCESS);
	assert_memory_equal(b->side[0].mem, b->side[1].mem, 3000);
	bed_close(b);
}

static void rnr_retries_run_out(void **state)
{
	struct bed *b = bed_open(&(struct bed_opts){.rnr_retry = 2, .min_rnr_timer = 14});

	(void)state;
	assert_int_equal(bed_send(b, 0, 1, 0, 100), 0);
	assert_int_equal(bed_send(b, 0, 2, 0, 100), 0);
	bed_sleep(b, 2 * 1280 * US - US);
	bed_expect_none(b, 0);
	bed_sleep(b, 2 * US);
	bed_expect(b, 0, false, 1, RNIC_WC_RNR_RETRY_EXC_ERR);
	bed_expect(b, 0, false, 2, RNIC_WC_WR_FLUSH_ERR);
	assert_int_equal(bed_counters(b, 0)->rx_rnr_nak, 3);
	bed_close(b);
}

static void no_rnr_retry_fails_at_once(void **state)
{
	struct bed *b = bed_open(&(struct bed_opts){.zero_rnr_retry = true});

	(void)state;
	assert_int_equal(bed_send(b, 0, 1, 0, 100), 0);
	bed_run(b);
	bed_expect(b, 0, false, 1, RNIC_WC_RNR_RETRY_EXC_ERR);
	bed_close(b);
}

static void seven_rnr_retries_are_for_ever_and_use_up_no_others(void **state)
{
	struct bed *b =
		bed_open(&(struct bed_opts){.min_rnr_timer = 14, .timeout = 8, .zero_retry = true});

	(void)state;
	assert_int_equal(bed_send(b, 0, 1, 0, 100), 0);
	bed_sleep(b, 1000 * MS);
	assert_true(bed_counters(b, 0)->rx_rnr_nak > 700);
	assert_int_equal(bed_counters(b, 0)->timeouts, 0);
	assert_int_equal(bed_recv(b, 1, 2, 0, 100), 0);
	bed_sleep(b, 2 * MS);
	bed_expect(b, 0, false, 1, RNIC_WC_SUCCESS);
	bed_close(b);
}

static void progress_gives_rnr_retries_back(void **state)
{
	struct bed *b = bed_open(&(struct bed_opts){.rnr_retry = 1, .min_rnr_timer = 14});

	(void)state;
	for (uint64_t i = 0; i < 4; i++) {
		assert_int_equal(bed_send(b, 0, i, 0, 100), 0);
		bed_run(b);
		assert_int_equal(bed_recv(b, 1, i, 0, 100), 0);
		bed_sleep(b, 2 * MS);
		bed_expect(b, 0, false, i, RNIC_WC_SUCCESS);
		bed_expect(b, 1, true, i, RNIC_WC_SUCCESS);
	}
	assert_int_equal(bed_counters(b, 0)->rx_rnr_nak, 4);
	bed_close(b);
}

static void only_the_end_of_a_write_with_immediate_waits_for_a_receive(void **state)
{
	struct bed *b = bed_open(NULL);

	(void)state;
	bed_fill(b, 0, 0, 5000, 4);
	assert_int_equal(bed_rdma(b, 0, 1, RNIC_WR_RDMA_WRITE_WITH_IMM, 0, 0, 5000), 0);
	bed_run(b);
	assert_memory_equal(b->side[0].mem, b->side[1].mem, 4096);
	assert_int_equal(bed_nth(b, 1, ACK, 0)->h.bth.psn, 4);
	assert_int_equal(bed_recv(b, 1, 2, 900000, 0), 0);
	bed_sleep(b, 2 * MS);
	bed_expect(b, 0, false, 1, RNIC_WC_SUCCESS);
	bed_expect(b, 1, true, 2, RNIC_WC_SUCCESS);
	assert_int_equal(bed_counters(b, 0)->tx_retransmit, 1);
	bed_close(b);
}

static void a_sequence_nak_does_not_cut_the_rnr_wait_short(void **state)
{
	struct bed *b = bed_open(&(struct bed_opts){.min_rnr_timer = 14});
	struct pkt_hdr nak = {.bth = {.opcode = ACK, .psn = 0}, .aeth = {.syndrome = 0x60}};
	uint32_t sent;

	(void)state;
	assert_int_equal(bed_send(b, 0, 1, 0, 100), 0);
	bed_run(b);
	sent = b->nlog;
	bed_forge(b, 1, nak, NULL, 0);
	bed_run(b);
	assert_int_equal(b->nlog, sent);
	bed_close(b);
}

/* After a receiver-not-ready all that was sent before is dropped without a word; but what comes
 * when the peer has waited tells that its resend was lost. A requester without a probe, as Linux's,
 * would wait for its timeout. */
static void a_resend_after_a_receiver_not_ready_that_is_lost_is_missed_at_once(void **state)
{
	struct bed *b = bed_open(NULL); /* whose timer says 0.64 ms */
	struct pkt_hdr h = {.bth = {.opcode = OPCODE_RC_SEND_ONLY}};

	(void)state;
	for (uint32_t psn = 0; psn < 3; psn++) {
		h.bth.psn = psn;
		(void)bed_forge(b, 0, h, "data", 4);
	}
	bed_run(b);
	assert_int_equal(bed_counters(b, 1)->tx_rnr_nak, 1);
	assert_int_equal(bed_counters(b, 1)->tx_nak_sequence, 0);
	for (uint64_t id = 0; id < 3; id++)
		assert_int_equal(bed_recv(b, 1, id, 0, 100), 0);
	b->now += 639 * US;
	(void)bed_forge(b, 0, h, "data", 4); /* late, from before */
	bed_run(b);
	assert_int_equal(bed_counters(b, 1)->tx_nak_sequence, 0);
	b->now += 10 * US;
	for (uint32_t psn = 1; psn < 3; psn++) { /* 0 is lost */
		h.bth.psn = psn;
		(void)bed_forge(b, 0, h, "data", 4);
	}
	bed_run(b);
	assert_int_equal(bed_counters(b, 1)->tx_nak_sequence, 1);
	for (uint32_t psn = 0; psn < 3; psn++) {
		h.bth.psn = psn;
		assert_true(bed_forge(b, 0, h, "data", 4));
	}
	bed_close(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			a_resend_after_a_receiver_not_ready_that_is_lost_is_missed_at_once),
		cmocka_unit_test(psns_wrap_around),
		cmocka_unit_test(a_gap_across_the_wrap_is_mended),
		cmocka_unit_test(a_gap_is_nakked_once),
		cmocka_unit_test(a_gap_that_closed_meanwhile_is_not_nakked),
		cmocka_unit_test(the_next_gap_is_nakked_again),
		cmocka_unit_test(a_dead_peer_is_given_up_after_all_retries),
		cmocka_unit_test(a_path_mtu_that_nothing_came_through_with_is_named),
		cmocka_unit_test(a_short_packet_that_is_lost_says_nothing_of_the_path_mtu),
		cmocka_unit_test(a_packet_that_never_arrives_ends_the_qp_though_others_do),
		cmocka_unit_test(progress_gives_the_retries_back),
		cmocka_unit_test(timeout_zero_waits_for_ever_and_still_probes),
		cmocka_unit_test(an_acknowledgement_covers_all_before_it),
		cmocka_unit_test(acknowledgements_are_joined),
		cmocka_unit_test(reads_asked_for_again_are_answered_once_each),
		cmocka_unit_test(a_lost_acknowledgement_does_not_deliver_twice),
		cmocka_unit_test(a_repeated_atomic_is_answered_from_what_was_kept),
		cmocka_unit_test(as_many_atomics_are_kept_as_may_be_outstanding),
		cmocka_unit_test(atomics_are_kept_when_their_count_wraps),
		cmocka_unit_test(a_lost_atomic_response_is_asked_for_again),
		cmocka_unit_test(a_read_is_resumed_where_it_broke_off),
		cmocka_unit_test(a_read_that_lost_its_end_is_probed),
		cmocka_unit_test(a_repeated_read_is_executed_again),
		cmocka_unit_test(a_repeated_read_of_a_gone_region_harms_nobody),
		cmocka_unit_test(answers_keep_the_order_of_their_requests),
		cmocka_unit_test(an_acknowledgement_after_all_spares_the_resend),
		cmocka_unit_test(responses_to_nothing_are_dropped),
		cmocka_unit_test(a_message_waits_until_there_is_a_receive),
		cmocka_unit_test(rnr_retries_run_out),
		cmocka_unit_test(no_rnr_retry_fails_at_once),
		cmocka_unit_test(seven_rnr_retries_are_for_ever_and_use_up_no_others),
		cmocka_unit_test(progress_gives_rnr_retries_back),
		cmocka_unit_test(only_the_end_of_a_write_with_immediate_waits_for_a_receive),
		cmocka_unit_test(a_sequence_nak_does_not_cut_the_rnr_wait_short),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
