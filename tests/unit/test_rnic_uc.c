/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Unreliable connections: nothing is acknowledged; a message arrives whole or not at all. */
#include "rnic_bed.h"

#include <string.h>

#define LEN 3000u /* three packets */

static struct bed *open_uc(void)
{
	return bed_open(&(struct bed_opts){.type = RNIC_QPT_UC, .psn = {0xfffffe, 9}});
}

static int send_imm(struct bed *b, uint64_t wr_id, uint32_t opcode, uint32_t len, uint32_t to)
{
	struct rnic_sge sge = bed_sge(b, 0, 0, len);
	struct rnic_send_wr wr = {
		.wr_id = wr_id,
		.sge = &sge,
		.num_sge = 1,
		.opcode = opcode,
		.imm_or_rkey = 0x0a0b0c0d,
		.remote_addr = bed_remote_addr(b, 1, to),
		.rkey = rnic_mr_rkey(b->side[1].mr),
	};

	return rnic_post_send(b->side[0].qp, &wr, b->now);
}

static void messages_arrive_and_nobody_answers(void **state)
{
	struct bed *b = open_uc();
	struct rnic_wc wc;

	(void)state;
	bed_fill(b, 0, 0, LEN, 1);
	assert_int_equal(bed_recv(b, 1, 1, 10000, LEN), 0);
	assert_int_equal(bed_recv(b, 1, 2, 0, 0), 0);
	assert_int_equal(send_imm(b, 1, RNIC_WR_SEND_WITH_IMM, LEN, 0), 0);
	assert_int_equal(send_imm(b, 2, RNIC_WR_RDMA_WRITE_WITH_IMM, LEN, 20000), 0);
	assert_int_equal(bed_rdma(b, 0, 3, RNIC_WR_RDMA_WRITE, 0, 30000, LEN), 0);
	bed_run(b);
	for (uint64_t id = 1; id <= 3; id++)
		bed_expect(b, 0, false, id, RNIC_WC_SUCCESS);
	wc = bed_wc(b, 1, true);
	assert_int_equal(wc.opcode, RNIC_WC_RECV);
	assert_int_equal(wc.byte_len, LEN);
	assert_int_equal(wc.imm_or_rkey, 0x0a0b0c0d);
	assert_int_equal(wc.src_qp, rnic_qp_num(b->side[0].qp));
	wc = bed_wc(b, 1, true);
	assert_int_equal(wc.opcode, RNIC_WC_RECV_RDMA_WITH_IMM);
	assert_int_equal(wc.byte_len, LEN);
	for (uint32_t at = 10000; at <= 30000; at += 10000)
		assert_memory_equal(b->side[1].mem + at, b->side[0].mem, LEN);
	assert_int_equal(b->nlog, 9); /* of three packets each, and no answer */
	assert_false(bed_nth(b, 0, OPCODE_UC_SEND_LAST_WITH_IMM, 0)->h.bth.ackreq);
	assert_int_equal(rnic_next_deadline(b->side[0].rnic), UINT64_MAX);
	bed_close(b);
}

static void a_message_that_misses_a_packet_is_dropped_and_its_receive_serves_the_next(void **state)
{
	(void)state;
	for (uint32_t lost = 0; lost < 3; lost++) {
		struct bed *b = open_uc();
		struct bed_drop d = {.opcode = -1, .from = lost, .count = 1};

		bed_fill(b, 0, 0, LEN, 1);
		bed_fill(b, 0, LEN, LEN, 99);
		b->filter = bed_drop_some;
		b->filter_arg = &d;
		assert_int_equal(bed_recv(b, 1, 1, 10000, LEN), 0);
		assert_int_equal(bed_send(b, 0, 1, 0, LEN), 0);
		assert_int_equal(bed_send(b, 0, 2, LEN, LEN), 0);
		bed_run(b);
		bed_expect(b, 0, false, 1, RNIC_WC_SUCCESS);
		bed_expect(b, 0, false, 2, RNIC_WC_SUCCESS);
		bed_expect(b, 1, true, 1, RNIC_WC_SUCCESS);
		bed_expect_none(b, 1);
		assert_memory_equal(b->side[1].mem + 10000, b->side[0].mem + LEN, LEN);
		bed_close(b);
	}
}

static void what_is_not_allowed_or_finds_no_receive_is_dropped(void **state)
{
	struct bed *b = open_uc();
	struct rnic_qp_attr a = {.access_flags = RNIC_ACCESS_LOCAL_WRITE};

	(void)state;
	bed_fill(b, 0, 0, LEN, 1);
	assert_int_equal(bed_send(b, 0, 1, 0, LEN), 0); /* no receive */
	bed_run(b);
	assert_int_equal(bed_recv(b, 1, 1, 10000, LEN - 1), 0);
	assert_int_equal(bed_send(b, 0, 2, 0, LEN), 0); /* too long for it */
	bed_run(b);
	assert_int_equal(rnic_qp_modify(b->side[1].qp, &a, RNIC_QP_ACCESS_FLAGS, b->now), 0);
	assert_int_equal(bed_rdma(b, 0, 3, RNIC_WR_RDMA_WRITE, 0, 30000, LEN), 0);
	bed_run(b);
	assert_int_equal(b->side[1].mem[30000], 0);
	assert_int_equal(bed_state(b, 1), RNIC_QPS_RTS);
	assert_int_equal(bed_state(b, 0), RNIC_QPS_RTS);
	assert_int_equal(bed_send(b, 0, 4, 0, LEN - 1), 0);
	bed_run(b);
	bed_expect(b, 1, true, 1, RNIC_WC_SUCCESS);
	bed_expect_none(b, 1);
	bed_close(b);
}

static void memory_that_is_not_ours_stops_the_send_queue(void **state)
{
	struct bed *b = open_uc();
	struct rnic_sge sge = bed_sge(b, 0, 0, LEN);
	struct rnic_send_wr wr = {.wr_id = 1, .sge = &sge, .num_sge = 1, .opcode = RNIC_WR_SEND};

	(void)state;
	sge.lkey ^= 1;
	assert_int_equal(rnic_post_send(b->side[0].qp, &wr, b->now), 0);
	assert_int_equal(bed_send(b, 0, 2, 0, 1), 0);
	bed_run(b);
	bed_expect(b, 0, false, 1, RNIC_WC_LOC_PROT_ERR);
	bed_expect(b, 0, false, 2, RNIC_WC_WR_FLUSH_ERR);
	assert_int_equal(bed_state(b, 0), RNIC_QPS_SQE);
	bed_close(b);
}

static void reads_and_atomics_are_refused(void **state)
{
	struct bed *b = open_uc();

	(void)state;
	assert_true(bed_rdma(b, 0, 1, RNIC_WR_RDMA_READ, 0, 0, 8) < 0);
	assert_true(bed_atomic(b, 0, 1, RNIC_WR_ATOMIC_FETCH_AND_ADD, 0, 0, 1, 0) < 0);
	bed_close(b);
}

static void a_drained_send_queue_says_so(void **state)
{
	struct bed *b = open_uc();
	struct rnic_qp_attr a = {.state = RNIC_QPS_SQD, .en_sqd_async_notify = true};

	(void)state;
	assert_int_equal(bed_send(b, 0, 1, 0, LEN), 0);
	assert_non_null(bed_tx1(b, 0));
	assert_int_equal(rnic_qp_modify(b->side[0].qp, &a,
					RNIC_QP_STATE | RNIC_QP_EN_SQD_ASYNC_NOTIFY, b->now),
			 0);
	assert_int_equal(bed_send(b, 0, 2, 0, 1), 0);
	assert_false(bed_saw_event(b, 0, RNIC_EVENT_SQ_DRAINED));
	bed_run(b);
	assert_true(bed_saw_event(b, 0, RNIC_EVENT_SQ_DRAINED));
	bed_expect(b, 0, false, 1, RNIC_WC_SUCCESS);
	bed_expect_none(b, 0);
	bed_close(b);
}

/* With nobody to answer, a socket's buffer would be run over. */
static void no_more_is_sent_at_once_than_a_socket_holds(void **state)
{
	struct bed *b = bed_open(&(struct bed_opts){.type = RNIC_QPT_UC, .socket_bytes = 64 << 10});

	(void)state;
	bed_fill(b, 0, 0, 512 << 10, 1);
	assert_int_equal(bed_rdma(b, 0, 1, RNIC_WR_RDMA_WRITE, 0, 0, 512 << 10), 0);
	while (bed_tx1(b, 0))
		bed_deliver(b, &b->log[b->nlog - 1]);
	assert_in_range(b->nlog, 60, 66);
	bed_expect_none(b, 0);
	bed_sleep(b, 10 * MS);
	assert_int_equal(b->nlog, 512);
	bed_expect(b, 0, false, 1, RNIC_WC_SUCCESS);
	assert_memory_equal(b->side[1].mem, b->side[0].mem, 512 << 10);
	bed_close(b);
}

static void a_larger_socket_is_filled_faster(void **state)
{
	(void)state;
	for (uint32_t bytes = 32 << 10; bytes <= 128 << 10; bytes *= 2) {
		struct bed *b =
			bed_open(&(struct bed_opts){.type = RNIC_QPT_UC, .socket_bytes = bytes});

		assert_int_equal(bed_rdma(b, 0, 1, RNIC_WR_RDMA_WRITE, 0, 0, 512 << 10), 0);
		bed_run(b);
		bed_sleep(b, 2 * 256 * US);
		/* What it holds, and twice what it takes for that to drain. */
		assert_in_range(b->nlog, 3 * bytes / 1024 - bytes / 2048, 3 * bytes / 1024 + 2);
		bed_close(b);
	}
}

/* ---- any loss, any order ----------------------------------------------------------------------
 */

#define MESSAGES 300u
#define ROOM	 5000u

static uint32_t draw(uint64_t *seed)
{
	*seed = *seed * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)(*seed >> 33);
}

static uint8_t byte_of(uint32_t message, uint32_t at)
{
	return (uint8_t)(message * 37 + at * 11 + (at >> 8));
}

/* What is delivered is a message that was sent, whole and in order, whatever the link loses or
 * doubles. A packet that comes twice changes nothing. */
static void run_seed(uint64_t seed, bool srq)
{
	struct bed *b =
		bed_open(&(struct bed_opts){.type = RNIC_QPT_UC, .srq = srq, .psn = {0xffff00, 0}});
	uint32_t received = 0, last = 0;
	struct rnic_wc wc;

	assert_int_equal(bed_recv(b, 1, 0, 0, ROOM), 0);
	for (uint32_t m = 1; m <= MESSAGES; m++) {
		uint32_t len = 4 + draw(&seed) % (ROOM - 4);
		struct bed_pkt *p;

		bed_sleep(b, MS); /* for the pace */
		memcpy(b->side[0].mem, &m, 4);
		for (uint32_t i = 4; i < len; i++)
			b->side[0].mem[i] = byte_of(m, i);
		assert_int_equal(bed_send(b, 0, m, 0, len), 0);
		while ((p = bed_tx1(b, 0))) {
			uint32_t fate = draw(&seed) % 16;

			if (fate == 0)
				continue;
			bed_deliver(b, p);
			if (fate == 1)
				bed_deliver(b, p);
		}
		bed_expect(b, 0, false, m, RNIC_WC_SUCCESS);
		while (rnic_cq_poll(b->side[1].rcq, &wc, 1)) {
			uint32_t got;

			assert_int_equal(wc.status, RNIC_WC_SUCCESS);
			memcpy(&got, b->side[1].mem, 4);
			assert_int_equal(got, m);
			assert_true(got > last);
			assert_int_equal(wc.byte_len, len);
			for (uint32_t i = 4; i < len; i++)
				assert_int_equal(b->side[1].mem[i], byte_of(m, i));
			last = got;
			received++;
			assert_int_equal(bed_recv(b, 1, 0, 0, ROOM), 0);
		}
	}
	assert_true(received > MESSAGES / 4);
	bed_close(b);
}

static void what_is_delivered_is_right_whatever_is_lost(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 20; seed++)
		run_seed(seed, seed & 1);
}

/* ---- packets out of sequence ----------------------------------------------------------------- */

/* A whole message of 4 bytes; was it delivered? */
static bool only_packet(struct bed *b, uint32_t psn)
{
	struct pkt_hdr h = {.bth = {.opcode = OPCODE_UC_SEND_ONLY, .psn = psn & PSN_MASK}};
	struct rnic_wc wc;

	bed_forge(b, 0, h, "only", 4);
	if (!rnic_cq_poll(b->side[1].rcq, &wc, 1))
		return false;
	assert_int_equal(wc.status, RNIC_WC_SUCCESS);
	assert_int_equal(bed_recv(b, 1, 0, 10000, LEN), 0);
	return true;
}

static void only_what_may_have_been_sent_by_now_is_taken(void **state)
{
	static const uint32_t first = 0xfffffe;
	static const struct {
		uint64_t silent_us;
		uint32_t ahead; /* the farthest that is taken */
	} table[] = {
		{0, 4096},	    {1, 4096 + 64},	 {1000, 4096 + 64000},
		{262144, PSN_MASK}, {1000000, PSN_MASK},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++) {
		struct bed *b = open_uc();

		assert_int_equal(bed_recv(b, 1, 0, 10000, LEN), 0);
		assert_true(only_packet(b, first));
		b->now += table[i].silent_us * US;
		if (table[i].ahead < PSN_MASK) {
			assert_false(only_packet(b, first + 1 + table[i].ahead + 1));
			assert_false(only_packet(b, first)); /* the same once more */
			assert_false(only_packet(b, first - 1));
		}
		assert_true(only_packet(b, first + 1 + table[i].ahead));
		bed_close(b);
	}
}

static void what_is_too_far_off_does_not_disturb_a_message(void **state)
{
	struct bed *b = open_uc();
	struct bed_pkt *p;

	(void)state;
	bed_fill(b, 0, 0, LEN, 1);
	assert_int_equal(bed_recv(b, 1, 7, 10000, LEN), 0);
	assert_int_equal(bed_send(b, 0, 1, 0, LEN), 0);
	while ((p = bed_tx1(b, 0))) {
		struct bed_pkt copy = *p;

		for (uint32_t psn = 5000; psn < PSN_MASK - 5000; psn += 99991) {
			struct pkt_hdr h = {.bth = {.opcode = OPCODE_UC_SEND_MIDDLE, .psn = psn}};

			assert_false(only_packet(b, psn));
			bed_forge(b, 0, h, b->side[0].mem, 1024);
		}
		bed_deliver(b, &copy);
		bed_deliver(b, &copy); /* doubled on the way */
	}
	bed_expect(b, 1, true, 7, RNIC_WC_SUCCESS);
	assert_memory_equal(b->side[1].mem + 10000, b->side[0].mem, LEN);
	bed_close(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(messages_arrive_and_nobody_answers),
		cmocka_unit_test(
			a_message_that_misses_a_packet_is_dropped_and_its_receive_serves_the_next),
		cmocka_unit_test(what_is_not_allowed_or_finds_no_receive_is_dropped),
		cmocka_unit_test(memory_that_is_not_ours_stops_the_send_queue),
		cmocka_unit_test(reads_and_atomics_are_refused),
		cmocka_unit_test(a_drained_send_queue_says_so),
		cmocka_unit_test(a_larger_socket_is_filled_faster),
		cmocka_unit_test(no_more_is_sent_at_once_than_a_socket_holds),
		cmocka_unit_test(what_is_delivered_is_right_whatever_is_lost),
		cmocka_unit_test(only_what_may_have_been_sent_by_now_is_taken),
		cmocka_unit_test(what_is_too_far_off_does_not_disturb_a_message),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
