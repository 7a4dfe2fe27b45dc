/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What somebody can do to a reliable connection who can write its peer's address as the source: how
 * many packets there are to choose from, and what those do that miss.
 */
#include "rnic_bed.h"

#include <string.h>

#define PSNS (PSN_MASK + 1)

enum { SEND_ONLY = OPCODE_RC_SEND_ONLY, WRITE_ONLY = OPCODE_RC_WRITE_ONLY };
enum { READ = OPCODE_RC_READ_REQUEST, ACK = OPCODE_RC_ACKNOWLEDGE };

static struct pkt_hdr request(uint8_t opcode, uint32_t psn)
{
	return (struct pkt_hdr){.bth = {.opcode = opcode, .psn = psn & PSN_MASK}};
}

static struct pkt_hdr answer(uint8_t syndrome, uint32_t psn)
{
	struct pkt_hdr h = request(ACK, psn);

	h.aeth.syndrome = syndrome;
	return h;
}

static uint64_t seed = 1;

static uint32_t draw(void)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)(seed >> 32);
}

/* Takes whatever a side wants to send; the number of packets. */
static uint32_t take_all(struct bed *b, int side)
{
	uint32_t n = 0;

	while (bed_tx1(b, side))
		n++;
	return n;
}

/* ---- how many there are to choose from ------------------------------------------------------- */

/* As the peer would send it, to whichever queue pair of side 1. */
static bool quick(struct bed *b, const struct flow *from_peer, uint32_t qpn, uint32_t psn)
{
	struct pkt_hdr h = request(WRITE_ONLY, psn); /* of no bytes: it needs no key */
	struct packet_rx rx = {.flow = *from_peer};
	uint8_t data[64];

	h.bth.dqpn = qpn;
	h.bth.pkey = PKEY_DEFAULT;
	rx.data = data;
	rx.len = pkt_hdr_encode(&h, data);
	return rnic_rx(b->side[1].rnic, &rx, b->now);
}

/* The same addresses, number and PSN do not make one of the other. */
static void rocev1_and_rocev2_are_two_networks(void **state)
{
	(void)state;
	for (int rocev1 = 0; rocev1 < 2; rocev1++) {
		struct bed *b = bed_open(&(struct bed_opts){.psn = {5, 9}, .rocev1 = rocev1});
		uint32_t qpn = rnic_qp_num(b->side[1].qp);
		struct rnic_qp_attr a;

		bed_flows(b, 0, &a);
		a.flow.rocev1 = !rocev1;
		assert_false(quick(b, &a.flow, qpn, 5));
		assert_int_equal(bed_counters(b, 1)->rx_drop_flow, 1);
		a.flow.rocev1 = (uint8_t)rocev1;
		assert_true(quick(b, &a.flow, qpn, 5));
		bed_close(b);
	}
}

static void one_psn_of_16777216_is_a_request_in_sequence(void **state)
{
	struct bed *b = bed_open(&(struct bed_opts){.psn = {0x123456, 9}});
	uint32_t qpn = rnic_qp_num(b->side[1].qp), taken = 0;
	struct rnic_qp_attr a;

	(void)state;
	bed_flows(b, 0, &a);
	/* Downwards, as what is taken moves the expected one up. */
	for (uint32_t i = 0; i < PSNS; i++)
		taken += quick(b, &a.flow, qpn, 0x123455 - i);
	assert_int_equal(taken, 1);
	bed_close(b);
}

static void as_many_psns_as_are_on_the_way_are_an_answer(void **state)
{
	struct bed *b = bed_open(&(struct bed_opts){.psn = {0xfffff0, 9}});
	uint32_t taken = 0, on_the_way;

	(void)state;
	assert_int_equal(bed_rdma(b, 0, 1, RNIC_WR_RDMA_WRITE, 0, 0, 100000), 0);
	on_the_way = take_all(b, 0);
	assert_int_equal(on_the_way, 98);
	/* Of no kind that there is, so that it changes nothing. */
	for (uint32_t psn = 0; psn < PSNS; psn += psn < 1000 || psn >= PSNS - 1000 ? 1 : 101)
		taken += bed_forge(b, 1, answer(0x40, psn), NULL, 0);
	assert_int_equal(taken, on_the_way);
	bed_expect_none(b, 0);
	bed_close(b);
}

/* 8 bits of the number are the process's place, which says nothing new. */
static void a_queue_pair_number_has_16_bits_to_guess(void **state)
{
	struct bed *b = bed_open(NULL);
	uint32_t qpn = rnic_qp_num(b->side[1].qp), found = 0;
	struct rnic_qp_attr a;

	(void)state;
	bed_flows(b, 0, &a);
	for (uint32_t i = 0; i < 1u << 16; i++)
		found += quick(b, &a.flow, (qpn & 0xff0000) | i, 0);
	assert_int_equal(found, 1);
	bed_close(b);
}

/* ---- what teaches the port ------------------------------------------------------------------- */

static void what_is_not_in_sequence_says_nothing_of_its_sender(void **state)
{
	struct bed *b = bed_open(&(struct bed_opts){.psn = {100, 200}});
	struct pkt_hdr h;

	(void)state;
	assert_int_equal(bed_recv(b, 1, 1, 0, 100), 0);
	assert_false(bed_forge(b, 0, request(SEND_ONLY, 101), "a", 1)); /* ahead */
	assert_true(bed_forge(b, 0, request(SEND_ONLY, 100), "b", 1));	/* it */
	assert_false(bed_forge(b, 0, request(SEND_ONLY, 100), "b", 1)); /* again */
	assert_false(bed_forge(b, 0, request(SEND_ONLY, 101), "c", 1)); /* RNR */
	assert_false(bed_forge(b, 0, answer(0x1f, 100), NULL, 0));	/* nothing is on the way */
	assert_int_equal(bed_send(b, 1, 2, 0, 100), 0);
	assert_int_equal(take_all(b, 1), 2); /* an answer, and this */
	assert_false(bed_forge(b, 0, answer(0x1f, 201), NULL, 0));
	assert_true(bed_forge(b, 0, answer(0x1f, 200), NULL, 0));
	h = request(WRITE_ONLY, 101); /* by which the connection ends */
	h.reth.dma_len = 4;
	assert_false(bed_forge(b, 0, h, "none", 4));
	assert_int_equal(bed_state(b, 1), RNIC_QPS_ERR);
	bed_close(b);
}

/* ---- what misses ----------------------------------------------------------------------------- */

static void random_packets_change_nothing_in_any_state(void **state)
{
	static const enum rnic_qp_state way[] = {RNIC_QPS_RESET, RNIC_QPS_INIT, RNIC_QPS_RTR,
						 RNIC_QPS_RTS,	 RNIC_QPS_SQD,	RNIC_QPS_ERR};
	struct bed *b = bed_open(&(struct bed_opts){.psn = {1000, 2000}});
	uint8_t payload[1024];

	(void)state;
	memset(payload, 0xee, sizeof(payload));
	for (size_t i = 0; i < sizeof(way) / sizeof(*way); i++) {
		assert_int_equal(bed_modify(b, 1, way[i]), 0);
		b->side[1].nevents = 0;
		for (int n = 0; n < 20000; n++) {
			struct pkt_hdr h = request((uint8_t)draw(), draw());
			uint32_t len = draw() % (sizeof(payload) + 1);

			/* Not by chance: this near, the peer would be believed. */
			if (((h.bth.psn - 900) & PSN_MASK) < 2000)
				continue;
			h.bth.se = draw() & 1;
			h.bth.ackreq = draw() & 1;
			h.reth.va = bed_remote_addr(b, 1, 0);
			h.reth.rkey = rnic_mr_rkey(b->side[1].mr); /* even with this known */
			h.reth.dma_len = draw() & 1 ? len : draw();
			h.atomic.va = h.reth.va;
			h.atomic.rkey = h.reth.rkey;
			h.aeth.syndrome = (uint8_t)draw();
			if (opcode_table[h.bth.opcode].name)
				assert_false(bed_forge(b, 0, h, payload, len));
		}
		take_all(b, 1);
		assert_int_equal(bed_state(b, 1), way[i]);
		bed_expect_none(b, 1);
		assert_int_equal(b->side[1].nevents, 0);
		for (uint32_t at = 0; at < 4096; at++)
			assert_int_equal(b->side[1].mem[at], 0);
	}
	bed_close(b);
}

/* A gap begins small: beyond it lies nobody's window. */
static void only_what_may_be_on_the_way_is_answered_by_a_sequence_nak(void **state)
{
	struct bed *b = bed_open(&(struct bed_opts){.psn = {1000, 2000}});
	uint32_t naks = 0, tries = 0;

	(void)state;
	for (uint32_t psn = 1001; psn < 1000 + PSNS / 2; psn += 9973) {
		(void)bed_forge(b, 0, request(SEND_ONLY, psn), NULL, 0);
		naks += take_all(b, 1) != 0;
		/* So that the next is the first out of sequence again. */
		assert_int_equal(bed_modify(b, 1, RNIC_QPS_RESET), 0);
		assert_int_equal(bed_modify(b, 1, RNIC_QPS_INIT), 0);
		assert_int_equal(bed_modify(b, 1, RNIC_QPS_RTR), 0);
		tries++;
	}
	assert_int_equal(tries, 842);
	assert_int_equal(naks, 7); /* 65536 of 8388608 */
	bed_close(b);
}

/* ---- packets that were recorded -------------------------------------------------------------- */

static struct pkt_hdr read_request(struct bed *b, uint32_t psn, uint32_t len)
{
	struct pkt_hdr h = request(READ, psn);

	h.reth.va = bed_remote_addr(b, 1, 0);
	h.reth.rkey = rnic_mr_rkey(b->side[1].mr);
	h.reth.dma_len = len;
	return h;
}

/* One packet brings as many as were asked for, as often as it comes, but to nobody else than the
 * peer: the addresses and the queue pair number in an answer are the connection's. */
static void a_recorded_read_request_is_answered_again_to_the_peer(void **state)
{
	struct bed *b = bed_open(&(struct bed_opts){.psn = {1000, 2000}});
	struct pkt_hdr h = read_request(b, 1000, 100000);
	struct rnic_qp_attr a;
	struct bed_pkt *p;

	(void)state;
	bed_flows(b, 1, &a);
	assert_true(bed_forge(b, 0, h, NULL, 0));
	assert_int_equal(take_all(b, 1), 98);
	for (int again = 0; again < 3; again++) {
		uint32_t n = 0;

		assert_false(bed_forge(b, 0, h, NULL, 0));
		while ((p = bed_tx1(b, 1))) {
			assert_memory_equal(&p->flow.dgid, &a.flow.dgid, sizeof(p->flow.dgid));
			assert_int_equal(p->h.bth.dqpn, rnic_qp_num(b->side[0].qp));
			n++;
		}
		assert_int_equal(n, 98);
	}
	bed_close(b);
}

static void a_read_request_that_differs_from_what_was_asked_is_not(void **state)
{
	struct bed *b = bed_open(&(struct bed_opts){.psn = {1000, 2000}});
	struct pkt_hdr good = read_request(b, 1000, 4096), h;

	(void)state;
	assert_true(bed_forge(b, 0, good, NULL, 0));
	assert_int_equal(take_all(b, 1), 4);
	h = good;
	h.reth.va += 4096; /* of the same region */
	assert_false(bed_forge(b, 0, h, NULL, 0));
	h = good;
	h.reth.rkey ^= 1;
	assert_false(bed_forge(b, 0, h, NULL, 0));
	h = good;
	h.reth.dma_len = 1 << 19;
	assert_false(bed_forge(b, 0, h, NULL, 0));
	h = good;
	h.bth.psn++;
	assert_false(bed_forge(b, 0, h, NULL, 0));
	assert_int_equal(take_all(b, 1), 0);
	/* And what is older than the last RNIC_MAX_RD_ATOM is forgotten. */
	for (uint32_t i = 0; i < RNIC_MAX_RD_ATOM; i++) {
		h = read_request(b, 1004 + i, 16);
		assert_true(bed_forge(b, 0, h, NULL, 0));
		assert_int_equal(take_all(b, 1), 1);
	}
	assert_false(bed_forge(b, 0, good, NULL, 0));
	assert_int_equal(take_all(b, 1), 0);
	assert_int_equal(bed_state(b, 1), RNIC_QPS_RTS);
	bed_close(b);
}

/* What was recorded on one connection is nothing on the next: that has another number, and if it
 * had the same, another PSN, which the program or rdma_cm draws. */
static void what_was_recorded_does_not_touch_the_next_connection(void **state)
{
	struct bed *b = bed_open(&(struct bed_opts){.psn = {1000, 2000}});
	struct bed_pkt *p, recorded[4];
	struct rnic_qp *old[2];
	int n = 0;

	(void)state;
	assert_int_equal(bed_recv(b, 1, 1, 0, 4096), 0);
	assert_int_equal(bed_send(b, 0, 1, 0, 4096), 0);
	while ((p = bed_tx1(b, 0)))
		recorded[n++] = *p;
	assert_int_equal(n, 4);
	bed_second_pair(b, old);
	for (int i = 0; i < 2; i++)
		assert_int_equal(rnic_qp_destroy(old[i]), 0);
	assert_int_equal(bed_recv(b, 1, 2, 0, 4096), 0);
	for (int i = 0; i < n; i++)
		assert_false(bed_deliver(b, &recorded[i]));
	assert_int_equal(bed_counters(b, 1)->rx_drop_no_qp, 4);
	bed_expect_none(b, 1);
	/* The same connection, made anew, from another PSN on. */
	b->opts.psn[0] = 5000000;
	for (int i = 0; i < 2; i++)
		assert_int_equal(bed_modify(b, i, RNIC_QPS_RESET), 0);
	bed_connect(b);
	assert_int_equal(bed_recv(b, 1, 3, 0, 4096), 0);
	for (int i = 0; i < n; i++) {
		struct pkt_hdr h = recorded[i].h;

		assert_false(bed_forge(b, 0, h, recorded[i].payload, recorded[i].payload_len));
	}
	bed_expect_none(b, 1);
	assert_int_equal(bed_state(b, 1), RNIC_QPS_RTS);
	bed_close(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rocev1_and_rocev2_are_two_networks),
		cmocka_unit_test(one_psn_of_16777216_is_a_request_in_sequence),
		cmocka_unit_test(as_many_psns_as_are_on_the_way_are_an_answer),
		cmocka_unit_test(a_queue_pair_number_has_16_bits_to_guess),
		cmocka_unit_test(what_is_not_in_sequence_says_nothing_of_its_sender),
		cmocka_unit_test(random_packets_change_nothing_in_any_state),
		cmocka_unit_test(only_what_may_be_on_the_way_is_answered_by_a_sequence_nak),
		cmocka_unit_test(a_recorded_read_request_is_answered_again_to_the_peer),
		cmocka_unit_test(a_read_request_that_differs_from_what_was_asked_is_not),
		cmocka_unit_test(what_was_recorded_does_not_touch_the_next_connection),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
