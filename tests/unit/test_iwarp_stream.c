/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Two queue pairs of iWARP with all kinds of work at once, their streams cut and held up at random,
 * from a seed: everything gets to its place, and completes in order; and where they are ended in
 * the midst of it, once. Arguments: the first seed, and the last.
 */
#include "stream_bed.h"

#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"

enum {
	OPS = 30,
	SLOT = 64 << 10,
	SOURCE = 0,
	WRITTEN = 2 << 20,
	RECEIVED = 4 << 20,
	READ = 6 << 20,
	COUNTER = READ + OPS * SLOT,
	RESULTS = COUNTER + 64, /* of atomics */
};

struct op {
	uint32_t opcode, len, imm;
	uint32_t from, remote; /* offsets */
	uint64_t result;       /* of an atomic */
};

static uint32_t seed = 1, last_seed = 1000;
static uint8_t any_bytes[2][WRITTEN]; /* what the sides have to send */
static struct op op[2][OPS];

static uint32_t any_length(struct sb *b)
{
	static const uint32_t kinds[] = {0, 4, 64, 1500, 9000, SLOT};
	uint32_t most = kinds[sb_any(b, ARRAY_SIZE(kinds))];

	return most ? sb_any(b, most) : 0;
}

static uint32_t any_opcode(struct sb *b)
{
	static const uint32_t opcodes[] = {
		RNIC_WR_RDMA_WRITE, RNIC_WR_RDMA_WRITE_WITH_IMM, RNIC_WR_SEND,
		RNIC_WR_RDMA_READ,  RNIC_WR_ATOMIC_CMP_AND_SWP,	 RNIC_WR_ATOMIC_FETCH_AND_ADD,
	};

	return opcodes[sb_any(b, ARRAY_SIZE(opcodes))];
}

/* What is posted, and what must come of it. */
static void post(struct sb *b, int side, unsigned i, uint64_t *counter)
{
	struct op *o = &op[side][i];
	struct rnic_send_wr wr = {.wr_id = i, .opcode = any_opcode(b)};
	bool atomic = wr.opcode == RNIC_WR_ATOMIC_CMP_AND_SWP ||
		      wr.opcode == RNIC_WR_ATOMIC_FETCH_AND_ADD;

	*o = (struct op){.opcode = wr.opcode, .len = any_length(b), .imm = sb_any(b, UINT32_MAX)};
	o->from = SOURCE + sb_any(b, WRITTEN - SLOT);
	o->remote = WRITTEN + i * SLOT;
	if (wr.opcode == RNIC_WR_RDMA_READ) {
		o->remote = o->from;
		o->from = READ + i * SLOT;
	}
	if (atomic) {
		o->len = 8;
		o->from = RESULTS + i * 8;
		o->remote = COUNTER;
		o->result = *counter;
		wr.swap = *counter + 5;
		wr.compare_add =
			wr.opcode == RNIC_WR_ATOMIC_FETCH_AND_ADD ? 3 : *counter + sb_any(b, 2);
		if (wr.opcode == RNIC_WR_ATOMIC_FETCH_AND_ADD)
			*counter += 3;
		else if (wr.compare_add == *counter)
			*counter += 5;
	}
	wr.imm_or_rkey = o->imm;
	if (sb_any(b, 4) == 0)
		wr.flags |= RNIC_SEND_FENCE;
	if (sb_any(b, 4) == 0)
		wr.flags |= RNIC_SEND_SOLICITED;
	if (o->len <= 64 && !atomic && wr.opcode != RNIC_WR_RDMA_READ && sb_any(b, 2))
		wr.flags |= RNIC_SEND_INLINE;
	assert_int_equal(sb_post(b, side, wr, o->from, o->len, o->remote), 0);
}

static bool takes_receive(const struct op *o)
{
	return o->opcode == RNIC_WR_SEND || o->opcode == RNIC_WR_RDMA_WRITE_WITH_IMM;
}

static void check_bytes(struct sb *b, const struct op *o, int side, unsigned received)
{
	const uint8_t *mine = b->side[side].mem, *peers = b->side[!side].mem;
	uint64_t value;

	switch (o->opcode) {
	case RNIC_WR_RDMA_WRITE:
	case RNIC_WR_RDMA_WRITE_WITH_IMM:
	case RNIC_WR_RDMA_READ:
		assert_memory_equal(mine + o->from, peers + o->remote, o->len);
		break;
	case RNIC_WR_SEND:
		assert_memory_equal(mine + o->from, peers + RECEIVED + received * SLOT, o->len);
		break;
	default:
		memcpy(&value, mine + o->from, sizeof(value));
		assert_int_equal(value, o->result);
	}
}

/* Everything that the side has posted, at both ends. */
static void check(struct sb *b, int side)
{
	unsigned received = 0;

	for (unsigned i = 0; i < OPS; i++) {
		const struct op *o = &op[side][i];

		sb_expect(b, side, false, i, RNIC_WC_SUCCESS);
		check_bytes(b, o, side, received);
		if (takes_receive(o)) {
			struct rnic_wc wc = sb_wc(b, !side, true);
			bool imm = o->opcode == RNIC_WR_RDMA_WRITE_WITH_IMM;

			assert_int_equal(wc.wr_id, received);
			assert_int_equal(wc.status, RNIC_WC_SUCCESS);
			assert_int_equal(wc.opcode,
					 imm ? RNIC_WC_RECV_RDMA_WITH_IMM : RNIC_WC_RECV);
			if (imm)
				assert_int_equal(wc.imm_or_rkey, o->imm);
			else
				assert_int_equal(wc.byte_len, o->len);
			received++;
		}
	}
}

static struct sb *begin(void)
{
	struct sb_opts opts = sb_defaults();
	struct sb *b;

	for (int i = 0; i < 2; i++) {
		struct rnic_stream_init *init = &opts.init[i];

		init->crc = seed % 3 != 0;
		init->markers_in = seed & (8u >> i);
		init->markers_out = seed & (4u << i);
		init->emss = seed % 5 == 0 ? 65483 : 536 + seed * 37 % 1400;
		init->ord = 1 + seed % 4;
	}
	b = sb_open(&opts, seed);
	for (int side = 0; side < 2; side++) {
		uint64_t counter = 0;

		memcpy(b->side[side].mem, any_bytes[side], WRITTEN);
		for (unsigned i = 0; i < OPS; i++)
			assert_int_equal(sb_recv(b, side, i, RECEIVED + i * SLOT, SLOT), 0);
		for (unsigned i = 0; i < OPS; i++)
			post(b, side, i, &counter);
	}
	return b;
}

static void one_seed(void)
{
	struct sb *b = begin();

	sb_run_randomly(b);
	for (int side = 0; side < 2; side++) {
		check(b, side);
		assert_int_equal(sb_state(b, side), RNIC_QPS_RTS);
		assert_int_equal(b->side[side].nevents, 0);
	}
	for (int side = 0; side < 2; side++)
		sb_expect_none(b, side);
	sb_close(b);
}

/* ---- ends ------------------------------------------------------------------------------------ */

static void end_somehow(struct sb *b)
{
	static const struct ddp_hdr nonsense = {.dv = 2, .opcode = RDMAP_SEND};
	int side = (int)sb_any(b, 2);
	struct rnic_qp *qp = b->side[side].qp;
	const struct rnic_qp_attr gracefully = {.state = RNIC_QPS_SQD},
				  at_once = {.state = RNIC_QPS_ERR};

	switch (sb_any(b, b->opts.init[side].markers_out ? 3 : 4)) { /* what is forged has none */
	case 0:							     /* TCP has lost it */
		b->side[side].out.begin = b->side[side].out.end;
		rnic_stream_closed(qp, true, b->now);
		rnic_stream_closed(b->side[!side].qp, true, b->now);
		break;
	case 1:
		(void)!rnic_qp_modify(qp, &gracefully, RNIC_QP_STATE, b->now);
		break;
	case 2:
		(void)!rnic_qp_modify(qp, &at_once, RNIC_QP_STATE, b->now);
		break;
	default:
		sb_forge(b, side, &nonsense, "nonsense", 8);
	}
}

/* As those do that have the sockets: what has been sent arrives before the end, unless that is
 * abrupt. */
static void close_what_ends(struct sb *b)
{
	for (int side = 0; side < 2; side++) {
		struct sb_wire *w = &b->side[side].out;

		switch (rnic_stream_fate(b->side[side].qp)) {
		case RNIC_STREAM_STAYS:
		case RNIC_STREAM_DRAINS:
			break;
		case RNIC_STREAM_BREAKS:
			w->begin = w->end = 0;
			rnic_stream_closed(b->side[!side].qp, true, b->now);
			break;
		case RNIC_STREAM_ENDS:
			(void)sb_deliver(b, side, SIZE_MAX);
			rnic_stream_closed(b->side[!side].qp, false, b->now);
		}
	}
}

/* Each once, in their order: those that succeeded, then at most one that did not, then those that
 * were flushed. How many succeeded. */
static unsigned completed(struct sb *b, int side, bool recv)
{
	unsigned good = 0, bad = 0;

	for (unsigned i = 0; i < OPS; i++) {
		struct rnic_wc wc = sb_wc(b, side, recv);

		assert_int_equal(wc.wr_id, i);
		if (wc.status == RNIC_WC_SUCCESS) {
			assert_int_equal(good, i);
			good++;
		} else if (wc.status != RNIC_WC_WR_FLUSH_ERR) {
			assert_int_equal(good, i);
			bad++;
		}
	}
	assert_true(bad <= 1);
	return good;
}

static void one_end(void)
{
	struct sb *b = begin();

	for (uint32_t steps = sb_any(b, 400); steps; steps--)
		(void)sb_step_randomly(b);
	end_somehow(b);
	for (unsigned i = 0; sb_state(b, 0) != RNIC_QPS_ERR || sb_state(b, 1) != RNIC_QPS_ERR;
	     i++) {
		assert_true(i < 10);
		sb_run_randomly(b);
		close_what_ends(b);
	}
	for (int side = 0; side < 2; side++) {
		unsigned sent = completed(b, side, false), received = completed(b, !side, true),
			 r = 0;

		for (unsigned i = 0; i < OPS; i++) {
			const struct op *o = &op[side][i];

			/* What arrived; and what was fetched, of which the completion says so. */
			if (takes_receive(o) ? r < received
					     : i < sent && o->opcode == RNIC_WR_RDMA_READ)
				check_bytes(b, o, side, r);
			r += takes_receive(o);
		}
	}
	for (int side = 0; side < 2; side++)
		sb_expect_none(b, side);
	sb_close(b);
}

static uint32_t failing;

static void all_seeds(void (*one)(void))
{
	uint32_t x = 1, first = seed;

	for (size_t k = 0; k < sizeof(any_bytes); k++) {
		x = x * 1664525 + 1013904223;
		((uint8_t *)any_bytes)[k] = (uint8_t)(x >> 24);
	}
	for (; seed <= last_seed; seed++) {
		failing = seed;
		one();
	}
	seed = first;
	failing = 0;
}

static void all_gets_to_its_place_in_order(void **state)
{
	(void)state;
	all_seeds(one_seed);
}

static void whatever_ends_them_all_completes_once(void **state)
{
	(void)state;
	all_seeds(one_end);
}

static int tell(void **state)
{
	(void)state;
	if (failing)
		print_error("to see it again: test_iwarp_stream %u %u\n", failing, failing);
	return 0;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(all_gets_to_its_place_in_order, tell),
		cmocka_unit_test_teardown(whatever_ends_them_all_completes_once, tell)};

	if (argc == 3) {
		seed = (uint32_t)atoi(argv[1]);
		last_seed = (uint32_t)atoi(argv[2]);
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
