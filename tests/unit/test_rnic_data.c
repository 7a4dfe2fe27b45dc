/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Every operation over a quiet link: memory, completions, and the packets they are made of. */
#include <string.h>

#include "rnic_bed.h"

static void same(struct bed *b, uint32_t off0, uint32_t off1, uint32_t len)
{
	assert_memory_equal(b->side[0].mem + off0, b->side[1].mem + off1, len);
}

static void a_send_arrives_whole_at_every_mtu(void **state)
{
	static const uint32_t sizes[] = {1, 255, 256, 257, 1024, 4096, 4097, 65536, 100000};

	(void)state;
	for (uint32_t mtu = RNIC_MTU_256; mtu <= RNIC_MTU_4096; mtu++) {
		struct bed *b = bed_open(&(struct bed_opts){.mtu = mtu});

		for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
			struct rnic_wc wc;
			uint32_t n = sizes[i], off = n & 3;

			bed_fill(b, 0, off, n, (uint8_t)(mtu + i));
			memset(b->side[1].mem, 0, 200000);
			assert_int_equal(bed_recv(b, 1, 7, 64, n + 10), 0);
			assert_int_equal(bed_send(b, 0, 9, off, n), 0);
			bed_run(b);
			bed_expect(b, 0, false, 9, RNIC_WC_SUCCESS);
			wc = bed_wc(b, 1, true);
			assert_int_equal(wc.wr_id, 7);
			assert_int_equal(wc.opcode, RNIC_WC_RECV);
			assert_int_equal(wc.byte_len, n);
			same(b, off, 64, n);
			assert_int_equal(b->side[1].mem[64 + n], 0);
			bed_expect_none(b, 0);
			bed_expect_none(b, 1);
		}
		bed_close(b);
	}
}

static void a_write_arrives_whole_and_unseen(void **state)
{
	struct bed *b = bed_open(NULL);

	(void)state;
	bed_fill(b, 0, 0, 300000, 3);
	assert_int_equal(bed_rdma(b, 0, 1, RNIC_WR_RDMA_WRITE, 0, 5000, 300000), 0);
	bed_run(b);
	bed_expect(b, 0, false, 1, RNIC_WC_SUCCESS);
	bed_expect_none(b, 1);
	same(b, 0, 5000, 300000);
	assert_int_equal(b->side[1].mem[4999], 0);
	assert_int_equal(b->side[1].mem[305000], 0);
	bed_close(b);
}

static void a_read_fetches_memory(void **state)
{
	static const uint32_t sizes[] = {1, 1024, 1025, 65536, 70001, 500000};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		struct bed *b = bed_open(NULL);
		struct rnic_wc wc;

		bed_fill(b, 1, 17, sizes[i], 3);
		assert_int_equal(bed_rdma(b, 0, 1, RNIC_WR_RDMA_READ, 100, 17, sizes[i]), 0);
		bed_run(b);
		wc = bed_wc(b, 0, false);
		assert_int_equal(wc.status, RNIC_WC_SUCCESS);
		assert_int_equal(wc.opcode, RNIC_WC_RDMA_READ);
		assert_int_equal(wc.byte_len, sizes[i]);
		same(b, 100, 17, sizes[i]);
		assert_int_equal(b->side[0].mem[100 + sizes[i]], 0);
		bed_close(b);
	}
}

static void atomics_return_what_they_found(void **state)
{
	struct bed *b = bed_open(NULL);
	uint64_t *remote = (uint64_t *)(void *)(b->side[1].mem + 64);
	uint64_t *local = (uint64_t *)(void *)b->side[0].mem;

	(void)state;
	*remote = 40;
	assert_int_equal(bed_atomic(b, 0, 1, RNIC_WR_ATOMIC_FETCH_AND_ADD, 0, 64, 2, 0), 0);
	assert_int_equal(bed_atomic(b, 0, 2, RNIC_WR_ATOMIC_CMP_AND_SWP, 8, 64, 42, 7), 0);
	assert_int_equal(bed_atomic(b, 0, 3, RNIC_WR_ATOMIC_CMP_AND_SWP, 16, 64, 42, 8), 0);
	bed_run(b);
	for (uint64_t i = 1; i <= 3; i++)
		bed_expect(b, 0, false, i, RNIC_WC_SUCCESS);
	assert_int_equal(local[0], 40);
	assert_int_equal(local[1], 42);
	assert_int_equal(local[2], 7);
	assert_int_equal(*remote, 7);
	bed_close(b);
}

static void messages_of_no_bytes_are_messages(void **state)
{
	static const uint32_t opcodes[] = {RNIC_WR_SEND, RNIC_WR_SEND_WITH_IMM, RNIC_WR_RDMA_WRITE,
					   RNIC_WR_RDMA_WRITE_WITH_IMM, RNIC_WR_RDMA_READ};
	struct bed *b = bed_open(NULL);

	(void)state;
	for (uint64_t i = 0; i < ARRAY_SIZE(opcodes); i++) {
		struct rnic_send_wr wr = {
			.wr_id = i, .opcode = opcodes[i], .imm_or_rkey = 0xdeadbeef};
		bool takes_recv =
			opcodes[i] != RNIC_WR_RDMA_WRITE && opcodes[i] != RNIC_WR_RDMA_READ;
		bool imm = takes_recv && opcodes[i] != RNIC_WR_SEND;

		assert_int_equal(bed_recv(b, 1, i, 0, 100), 0);
		assert_int_equal(rnic_post_send(b->side[0].qp, &wr, b->now), 0);
		bed_run(b);
		bed_expect(b, 0, false, i, RNIC_WC_SUCCESS);
		if (takes_recv) {
			struct rnic_wc wc = bed_wc(b, 1, true);

			assert_int_equal(wc.byte_len, 0);
			assert_int_equal(wc.wc_flags, imm ? RNIC_WC_WITH_IMM : 0);
			if (imm)
				assert_int_equal(wc.imm_or_rkey, 0xdeadbeef);
		}
		bed_expect_none(b, 1);
	}
	bed_close(b);
}

static void immediate_data_arrives_as_it_was_given(void **state)
{
	struct bed *b = bed_open(NULL);
	struct rnic_wc wc;

	(void)state;
	for (uint32_t len = 10; len < 5000; len += 3000) {
		struct rnic_sge sge = bed_sge(b, 0, 0, len);
		struct rnic_send_wr wr = {.sge = &sge,
					  .num_sge = 1,
					  .opcode = RNIC_WR_SEND_WITH_IMM,
					  .imm_or_rkey = 0x04030201,
					  .flags = RNIC_SEND_SOLICITED,
					  .rkey = rnic_mr_rkey(b->side[1].mr),
					  .remote_addr = bed_remote_addr(b, 1, 5000)};

		assert_int_equal(bed_recv(b, 1, 1, 0, len), 0);
		assert_int_equal(bed_recv(b, 1, 2, 0, 0), 0);
		assert_int_equal(rnic_post_send(b->side[0].qp, &wr, b->now), 0);
		wr.opcode = RNIC_WR_RDMA_WRITE_WITH_IMM;
		assert_int_equal(rnic_post_send(b->side[0].qp, &wr, b->now), 0);
		bed_run(b);
		wc = bed_wc(b, 1, true);
		assert_int_equal(wc.opcode, RNIC_WC_RECV);
		assert_int_equal(wc.byte_len, len);
		assert_int_equal(wc.imm_or_rkey, 0x04030201);
		wc = bed_wc(b, 1, true);
		assert_int_equal(wc.wr_id, 2);
		assert_int_equal(wc.opcode, RNIC_WC_RECV_RDMA_WITH_IMM);
		assert_int_equal(wc.byte_len, len);
		assert_int_equal(wc.imm_or_rkey, 0x04030201);
		assert_int_equal(wc.wc_flags, RNIC_WC_WITH_IMM);
		bed_wc(b, 0, false);
		bed_wc(b, 0, false);
	}
	/* The bytes on the wire are those of the immediate, unswapped. */
	assert_int_equal(bed_nth(b, 0, OPCODE_RC_SEND_ONLY_WITH_IMM, 0)->h.immdt[0], 1);
	assert_true(bed_nth(b, 0, OPCODE_RC_SEND_ONLY_WITH_IMM, 0)->h.bth.se);
	assert_false(bed_nth(b, 0, OPCODE_RC_SEND_FIRST, 0)->h.bth.se);
	assert_true(bed_nth(b, 0, OPCODE_RC_SEND_LAST_WITH_IMM, 0)->h.bth.se);
	bed_close(b);
}

static void scattered_memory_is_gathered_and_scattered(void **state)
{
	struct bed *b = bed_open(&(struct bed_opts){.cap = {8, 8, RNIC_MAX_SGE, RNIC_MAX_SGE, 0}});
	struct rnic_sge src[RNIC_MAX_SGE], dst[RNIC_MAX_SGE];
	struct rnic_send_wr wr = {.sge = src, .num_sge = RNIC_MAX_SGE, .opcode = RNIC_WR_SEND};
	struct rnic_recv_wr rwr = {.sge = dst, .num_sge = RNIC_MAX_SGE};
	uint8_t sent[20000], got[20000];
	uint32_t n = 0, m = 0;

	(void)state;
	bed_fill(b, 0, 0, 100000, 1);
	for (uint32_t i = 0; i < RNIC_MAX_SGE; i++) {
		uint32_t len = i % 5 == 4 ? 0 : 17 * i, room = 17 * (RNIC_MAX_SGE - 1 - i);

		src[i] = bed_sge(b, 0, i * 3000 + i, len);
		dst[i] = bed_sge(b, 1, i * 2000 + 2 * i, room);
		memcpy(sent + n, b->side[0].mem + i * 3000 + i, len);
		n += len;
	}
	src[4] = (struct rnic_sge){0, 0, 0}; /* nothing of nowhere */
	assert_int_equal(rnic_post_recv(b->side[1].qp, &rwr), 0);
	assert_int_equal(rnic_post_send(b->side[0].qp, &wr, b->now), 0);
	bed_run(b);
	assert_int_equal(bed_wc(b, 0, false).status, RNIC_WC_SUCCESS);
	assert_int_equal(bed_wc(b, 1, true).byte_len, n);
	for (uint32_t i = 0; i < RNIC_MAX_SGE; i++) {
		uint32_t part = n - m < dst[i].length ? n - m : dst[i].length;

		memcpy(got + m, b->side[1].mem + i * 2000 + 2 * i, part);
		m += part;
	}
	assert_int_equal(m, n);
	assert_memory_equal(sent, got, n);
	bed_close(b);
}

/* A message has a limit, and memory that it may come to has none. */
static void a_receive_may_be_longer_than_any_message(void **state)
{
	struct bed *b = bed_open(NULL);
	const uint32_t lens[][2] = {{3u << 30, 0}, {3u << 29, 3u << 29}, {UINT32_MAX, UINT32_MAX}};

	(void)state;
	bed_fill(b, 0, 0, 8, 7);
	for (uint32_t i = 0; i < ARRAY_SIZE(lens); i++) {
		struct rnic_sge sge[2] = {bed_sge(b, 1, 8 * i, lens[i][0]),
					  bed_sge(b, 1, 0, lens[i][1])};
		struct rnic_recv_wr wr = {.wr_id = i, .sge = sge, .num_sge = 2};

		assert_int_equal(rnic_post_recv(b->side[1].qp, &wr), 0);
		assert_int_equal(bed_send(b, 0, i, 0, 8), 0);
		bed_run(b);
		bed_expect(b, 1, true, i, RNIC_WC_SUCCESS);
		bed_expect(b, 0, false, i, RNIC_WC_SUCCESS);
		assert_memory_equal(b->side[1].mem + 8 * i, b->side[0].mem, 8);
	}
	bed_close(b);
}

static void inline_bytes_are_taken_when_posted(void **state)
{
	struct bed *b =
		bed_open(&(struct bed_opts){.cap = {8, 8, 1, 1, 1000}, .mtu = RNIC_MTU_256});
	uint8_t text[1000];
	struct rnic_sge sge[] = {
		{(uintptr_t)text, 300, 0}, {0, 0, 0}, {(uintptr_t)text + 300, 700, 0}};
	struct rnic_send_wr wr = {
		.sge = sge, .num_sge = 3, .opcode = RNIC_WR_SEND, .flags = RNIC_SEND_INLINE};

	(void)state;
	memset(text, 'x', sizeof(text));
	assert_int_equal(bed_recv(b, 1, 1, 0, 1000), 0);
	assert_int_equal(rnic_post_send(b->side[0].qp, &wr, b->now), 0);
	memset(text, 'y', sizeof(text));
	bed_run(b);
	bed_expect(b, 1, true, 1, RNIC_WC_SUCCESS);
	for (int i = 0; i < 1000; i++)
		assert_int_equal(b->side[1].mem[i], 'x');
	bed_close(b);
}

static void payload_goes_out_in_place(void **state)
{
	struct bed *b = bed_open(NULL);
	struct packet_tx tx[4];

	(void)state;
	assert_int_equal(bed_rdma(b, 0, 1, RNIC_WR_RDMA_WRITE, 100, 0, 2500), 0);
	assert_int_equal(rnic_tx(b->side[0].rnic, tx, 4, b->now), 3);
	for (uint32_t i = 0; i < 3; i++) {
		assert_int_equal(tx[i].niov, 1);
		assert_ptr_equal(tx[i].iov[0].iov_base, b->side[0].mem + 100 + i * 1024);
	}
	bed_close(b);
}

static void unsignaled_work_is_retired_with_the_next_signaled(void **state)
{
	struct bed *b =
		bed_open(&(struct bed_opts){.not_all_signaled = true, .cap = {4, 4, 1, 1, 0}});
	struct rnic_sge sge = bed_sge(b, 0, 0, 8);
	struct rnic_send_wr wr = {.wr_id = 9,
				  .sge = &sge,
				  .num_sge = 1,
				  .opcode = RNIC_WR_RDMA_WRITE,
				  .flags = RNIC_SEND_SIGNALED,
				  .rkey = rnic_mr_rkey(b->side[1].mr),
				  .remote_addr = bed_remote_addr(b, 1, 0)};

	(void)state;
	for (uint64_t i = 0; i < 3; i++)
		assert_int_equal(bed_rdma(b, 0, i, RNIC_WR_RDMA_WRITE, 0, 0, 8), 0);
	assert_int_equal(rnic_post_send(b->side[0].qp, &wr, b->now), 0);
	assert_int_equal(rnic_post_send(b->side[0].qp, &wr, b->now), -12);
	bed_run(b);
	bed_expect(b, 0, false, 9, RNIC_WC_SUCCESS);
	bed_expect_none(b, 0);
	for (uint64_t i = 0; i < 4; i++)
		assert_int_equal(bed_rdma(b, 0, i, RNIC_WR_RDMA_WRITE, 0, 0, 8), 0);
	bed_close(b);
}

static void a_fence_waits_for_reads_and_atomics(void **state)
{
	struct bed *b = bed_open(NULL);
	struct rnic_sge sge = bed_sge(b, 0, 0, 8);
	struct rnic_send_wr wr = {.wr_id = 3,
				  .sge = &sge,
				  .num_sge = 1,
				  .opcode = RNIC_WR_RDMA_WRITE,
				  .flags = RNIC_SEND_FENCE,
				  .rkey = rnic_mr_rkey(b->side[1].mr),
				  .remote_addr = bed_remote_addr(b, 1, 0)};

	(void)state;
	assert_int_equal(bed_rdma(b, 0, 1, RNIC_WR_RDMA_WRITE, 0, 0, 8), 0);
	assert_int_equal(bed_rdma(b, 0, 2, RNIC_WR_RDMA_READ, 0, 0, 8), 0);
	assert_int_equal(rnic_post_send(b->side[0].qp, &wr, b->now), 0);
	assert_int_equal(bed_tx1(b, 0)->h.bth.opcode, OPCODE_RC_WRITE_ONLY);
	assert_int_equal(bed_tx1(b, 0)->h.bth.opcode, OPCODE_RC_READ_REQUEST);
	assert_null(bed_tx1(b, 0));
	bed_deliver(b, &b->log[0]);
	bed_deliver(b, &b->log[1]);
	bed_deliver(b, bed_tx1(b, 1));
	assert_int_equal(bed_tx1(b, 0)->h.bth.opcode, OPCODE_RC_WRITE_ONLY);
	bed_close(b);
}

/* ---- limits -----------------------------------------------------------------------------------
 */

static uint32_t burst(struct bed *b, int side)
{
	uint32_t bytes = 0;
	struct bed_pkt *p;

	while ((p = bed_tx1(b, side)))
		bytes += p->payload_len;
	return bytes;
}

static void no_more_than_a_window_is_under_way(void **state)
{
	struct bed *b = bed_open(&(struct bed_opts){.window_bytes = 16384});
	uint32_t asked = 0;

	(void)state;
	assert_int_equal(bed_rdma(b, 0, 1, RNIC_WR_RDMA_WRITE, 0, 0, 100000), 0);
	assert_int_equal(burst(b, 0), 16384);
	/* Acknowledgements are asked for on the way, so that it moves on before it is used up. */
	for (uint32_t i = 0; i < 16; i++)
		asked += b->log[i].h.bth.ackreq;
	assert_int_equal(asked, 4);
	for (uint32_t i = 0; i < 4; i++)
		bed_deliver(b, &b->log[i]);
	bed_deliver(b, bed_tx1(b, 1));
	assert_int_equal(burst(b, 0), 4096);
	for (uint32_t i = 4; i < b->nlog; i++)
		if (b->log[i].from == 0)
			bed_deliver(b, &b->log[i]);
	bed_run(b);
	bed_expect(b, 0, false, 1, RNIC_WC_SUCCESS);
	bed_close(b);
}

static void a_window_of_less_than_a_packet_still_moves(void **state)
{
	struct bed *b = bed_open(&(struct bed_opts){.window_bytes = 100});

	(void)state;
	bed_fill(b, 0, 0, 5000, 2);
	assert_int_equal(bed_rdma(b, 0, 1, RNIC_WR_RDMA_WRITE, 0, 0, 5000), 0);
	assert_int_equal(burst(b, 0), 1024);
	bed_deliver(b, &b->log[0]);
	bed_run(b);
	bed_expect(b, 0, false, 1, RNIC_WC_SUCCESS);
	assert_int_equal(bed_rdma(b, 0, 2, RNIC_WR_RDMA_READ, 0, 0, 5000), 0);
	bed_run(b);
	bed_expect(b, 0, false, 2, RNIC_WC_SUCCESS);
	same(b, 0, 0, 5000);
	bed_close(b);
}

static void small_packets_count_as_half_a_kilobyte(void **state)
{
	struct bed *b = bed_open(&(struct bed_opts){.window_bytes = 8192});

	(void)state;
	for (uint64_t i = 0; i < 20; i++)
		assert_int_equal(bed_rdma(b, 0, i, RNIC_WR_RDMA_WRITE, 0, 0, 1), 0);
	assert_int_equal(burst(b, 0), 16);
	bed_close(b);
}

static void a_long_read_is_asked_for_in_parts(void **state)
{
	struct bed *b = bed_open(&(struct bed_opts){.window_bytes = 32768});
	uint32_t asked = 0, psn = 0;

	(void)state;
	bed_fill(b, 1, 0, 100000, 7);
	assert_int_equal(bed_rdma(b, 0, 1, RNIC_WR_RDMA_READ, 0, 0, 100000), 0);
	assert_int_equal(burst(b, 0), 0);
	for (uint32_t i = 0; i < b->nlog; i++) {
		struct pkt_hdr *h = &b->log[i].h;

		assert_int_equal(h->bth.opcode, OPCODE_RC_READ_REQUEST);
		assert_int_equal(h->reth.dma_len, 8192);
		assert_int_equal(h->reth.va, bed_remote_addr(b, 1, asked));
		assert_int_equal(h->bth.psn, psn);
		asked += h->reth.dma_len;
		psn += 8;
	}
	assert_int_equal(asked, 32768);
	for (uint32_t i = 0; i < 4; i++)
		bed_deliver(b, &b->log[i]);
	bed_run(b);
	bed_expect(b, 0, false, 1, RNIC_WC_SUCCESS);
	same(b, 0, 0, 100000);
	bed_close(b);
}

static void no_more_reads_are_under_way_than_agreed(void **state)
{
	struct bed *b = bed_open(&(struct bed_opts){.rd_atomic = 2});

	(void)state;
	for (uint64_t i = 0; i < 4; i++)
		assert_int_equal(bed_rdma(b, 0, i, RNIC_WR_RDMA_READ, 0, 0, 10), 0);
	assert_int_equal(bed_atomic(b, 0, 4, RNIC_WR_ATOMIC_FETCH_AND_ADD, 64, 64, 1, 0), 0);
	burst(b, 0);
	assert_int_equal(b->nlog, 2);
	bed_deliver(b, &b->log[0]);
	bed_deliver(b, bed_tx1(b, 1));
	burst(b, 0);
	assert_int_equal(bed_sent(b, 0, OPCODE_RC_READ_REQUEST), 3);
	bed_deliver(b, &b->log[1]);
	bed_deliver(b, &b->log[3]);
	bed_run(b);
	for (uint64_t i = 0; i < 5; i++)
		bed_expect(b, 0, false, i, RNIC_WC_SUCCESS);
	bed_close(b);
}

static void close_pair(struct rnic_qp *pair[2])
{
	for (int i = 0; i < 2; i++)
		assert_int_equal(rnic_qp_destroy(pair[i]), 0);
}

static void qps_share_the_budget_of_a_peers_socket(void **state)
{
	struct bed *b = bed_open(&(struct bed_opts){.socket_bytes = 65536});
	struct rnic_qp *pair[2];

	(void)state;
	assert_int_equal(bed_rdma(b, 0, 1, RNIC_WR_RDMA_WRITE, 0, 0, 300000), 0);
	assert_int_equal(burst(b, 0), 65536);
	bed_second_pair(b, pair);
	assert_int_equal(bed_rdma(b, 0, 2, RNIC_WR_RDMA_WRITE, 0, 0, 300000), 0);
	assert_int_equal(burst(b, 0), 16384); /* its share */
	/* What the first gets back is for who waits, and so on until both are done. */
	for (uint32_t i = 0; i < b->nlog; i++)
		bed_deliver(b, &b->log[i]);
	for (int i = 0; i < 2; i++) {
		struct rnic_wc wc;

		bed_sleep(b, 1 * MS);
		assert_int_equal(rnic_cq_poll(b->side[0].scq, &wc, 1), 1);
		assert_int_equal(wc.status, RNIC_WC_SUCCESS);
	}
	assert_int_equal(rnic_counters(b->side[0].rnic)->tx_retransmit, 0);
	close_pair(pair);
	bed_close(b);
}

/* A slow peer has not thrown away what it does not answer yet. */
static void only_a_long_silence_gives_the_budget_back(void **state)
{
	struct bed *b = bed_open(&(struct bed_opts){.socket_bytes = 65536, .timeout = 20});
	struct rnic_qp *pair[2], *third[2];

	(void)state;
	assert_int_equal(bed_rdma(b, 0, 1, RNIC_WR_RDMA_WRITE, 0, 0, 300000), 0);
	assert_int_equal(burst(b, 0), 65536);
	bed_second_pair(b, pair);
	assert_int_equal(bed_rdma(b, 0, 2, RNIC_WR_RDMA_WRITE, 0, 0, 300000), 0);
	assert_int_equal(burst(b, 0), 16384);
	for (int ms = 0; ms < 30; ms++) {
		b->now += MS;
		rnic_tick(b->side[0].rnic, b->now);
		assert_true(burst(b, 0) <= 2 * 1024); /* a probe of each */
	}
	b->now += 10 * MS;
	rnic_tick(b->side[0].rnic, b->now);
	burst(b, 0);
	bed_second_pair(b, third);
	assert_int_equal(bed_rdma(b, 0, 3, RNIC_WR_RDMA_WRITE, 0, 0, 300000), 0);
	assert_int_equal(burst(b, 0), 65536);
	close_pair(third);
	close_pair(pair);
	bed_close(b);
}

static void reads_share_the_budget_of_our_own_socket(void **state)
{
	struct bed *b = bed_open(&(struct bed_opts){.socket_bytes = 65536, .window_bytes = 65536});
	struct rnic_qp *pair[2];
	uint32_t asked = 0;

	(void)state;
	assert_int_equal(bed_rdma(b, 0, 1, RNIC_WR_RDMA_READ, 0, 0, 300000), 0);
	burst(b, 0);
	bed_second_pair(b, pair);
	assert_int_equal(bed_rdma(b, 0, 2, RNIC_WR_RDMA_READ, 0, 0, 300000), 0);
	burst(b, 0);
	for (uint32_t i = 0; i < b->nlog; i++)
		asked += b->log[i].h.reth.dma_len;
	assert_int_equal(asked, 65536 + 16384);
	for (uint32_t i = 0; i < b->nlog; i++)
		if (b->log[i].from == 0)
			bed_deliver(b, &b->log[i]);
	bed_run(b);
	for (int i = 0; i < 2; i++) {
		struct rnic_wc wc;

		assert_int_equal(rnic_cq_poll(b->side[0].scq, &wc, 1), 1);
		assert_int_equal(wc.status, RNIC_WC_SUCCESS);
	}
	close_pair(pair);
	bed_close(b);
}

static void a_dead_qp_does_not_hold_up_the_others(void **state)
{
	struct bed *b = bed_open(&(struct bed_opts){.socket_bytes = 65536, .zero_timeout = true});
	struct rnic_qp *pair[2];

	(void)state;
	assert_int_equal(bed_rdma(b, 0, 1, RNIC_WR_RDMA_WRITE, 0, 0, 300000), 0);
	assert_int_equal(burst(b, 0), 65536);
	assert_int_equal(bed_modify(b, 1, RNIC_QPS_ERR), 0);
	bed_second_pair(b, pair);
	assert_int_equal(bed_rdma(b, 0, 2, RNIC_WR_RDMA_WRITE, 0, 0, 300000), 0);
	bed_sleep(b, 1 * MS);
	bed_expect(b, 0, false, 2, RNIC_WC_SUCCESS);
	assert_int_equal(bed_rdma(b, 0, 3, RNIC_WR_RDMA_WRITE, 0, 0, 300000), 0);
	while (bed_tx1(b, 0))
		;
	/* Destroyed with all it had on the way, the dead one gives it back. */
	assert_int_equal(rnic_qp_destroy(pair[0]), 0);
	assert_true(burst(b, 0) >= 40000);
	assert_int_equal(rnic_qp_destroy(pair[1]), 0);
	bed_close(b);
}

static void qps_take_turns(void **state)
{
	struct bed *b = bed_open(NULL);
	struct bed_side *s = &b->side[0];
	struct rnic_qp *first = s->qp, *second;
	struct rnic_qp_init init = {
		.type = RNIC_QPT_RC, .send_cq = s->scq, .recv_cq = s->rcq, .cap = {4, 4, 1, 1, 0}};
	uint32_t until_second = 0;
	struct bed_pkt *p;

	(void)state;
	assert_int_equal(rnic_qp_create(s->pd, &init, &second), 0);
	s->qp = second;
	assert_int_equal(bed_modify(b, 0, RNIC_QPS_INIT), 0);
	assert_int_equal(bed_modify(b, 0, RNIC_QPS_RTR), 0);
	assert_int_equal(bed_modify(b, 0, RNIC_QPS_RTS), 0);
	s->qp = first;
	assert_int_equal(bed_rdma(b, 0, 1, RNIC_WR_RDMA_WRITE, 0, 0, 200000), 0);
	s->qp = second;
	assert_int_equal(bed_rdma(b, 0, 2, RNIC_WR_RDMA_WRITE, 0, 0, 9), 0);
	while ((p = bed_tx1(b, 0)) && p->payload_len != 9)
		until_second += p->payload_len;
	assert_non_null(p);
	assert_true(until_second <= 65536);
	assert_int_equal(rnic_qp_destroy(first), 0);
	bed_close(b);
}

/* What a side owes and what it asks, in the order in which they go. */
static void acknowledgement_goes(const char *order, uint32_t len)
{
	struct bed *b = bed_open(NULL);
	uint8_t opcode[2];

	assert_int_equal(bed_rdma(b, 0, 1, RNIC_WR_RDMA_WRITE, 0, 0, 8), 0);
	bed_deliver(b, bed_tx1(b, 0));
	assert_int_equal(bed_rdma(b, 1, 2, RNIC_WR_RDMA_WRITE, 0, 0, len), 0);
	for (int i = 0; i < 2; i++)
		opcode[i] = bed_tx1(b, 1)->h.bth.opcode;
	assert_int_equal(opcode[0] == OPCODE_RC_ACKNOWLEDGE, order[0] == 'A');
	assert_int_equal(opcode[1] == OPCODE_RC_ACKNOWLEDGE, order[1] == 'A');
	bed_run(b);
	bed_close(b);
}

/* Behind a packet it joins its datagram; behind several it would be late. */
static void an_acknowledgement_goes_before_a_long_message(void **state)
{
	(void)state;
	acknowledgement_goes("AR", 1025);
	acknowledgement_goes("RA", 1024);
}

static void send_all(struct bed *b)
{
	while (bed_tx1(b, 0))
		;
}

/* What is posted may wait for company while its QP waits for an answer anyway, and is little. */
static void little_behind_what_is_on_the_way_can_wait(void **state)
{
	struct bed *b = bed_open(&(struct bed_opts){.cap = {.max_send_wr = 128, .max_recv_wr = 1}});
	struct rnic *r = b->side[0].rnic;
	uint32_t n;

	(void)state;
	assert_int_equal(bed_rdma(b, 0, 1, RNIC_WR_RDMA_WRITE, 0, 0, 8), 0);
	assert_false(rnic_tx_can_wait(r, false));
	assert_true(rnic_tx_can_wait(r, true));
	send_all(b);
	assert_true(rnic_tx_can_wait(r, false));
	for (n = 0; rnic_tx_can_wait(r, false); n++)
		assert_int_equal(bed_rdma(b, 0, 2, RNIC_WR_RDMA_WRITE, 0, 0, 8), 0);
	assert_int_equal(n, 64);
	send_all(b);
	for (n = 0; rnic_tx_can_wait(r, false); n++)
		assert_int_equal(bed_rdma(b, 0, 2, RNIC_WR_RDMA_WRITE, 0, 0, 1024), 0);
	assert_int_equal(n, 57);
	send_all(b);
	assert_int_equal(bed_rdma(b, 0, 3, RNIC_WR_RDMA_WRITE, 0, 0, 64u << 10), 0);
	assert_false(rnic_tx_can_wait(r, true));
	bed_run(b);
	bed_sleep(b, 100 * MS); /* those that were taken and not delivered */
	/* Nothing is on the way any more. */
	assert_int_equal(bed_rdma(b, 0, 4, RNIC_WR_RDMA_WRITE, 0, 0, 8), 0);
	assert_false(rnic_tx_can_wait(r, false));
	bed_close(b);
}

/* Of what nobody answers the second that is posted between two polls: it is sent in bulk. */
static void what_nobody_answers_waits_behind_what_was_sent_since_the_last_poll(void **state)
{
	struct bed *b = bed_open(&(struct bed_opts){.type = RNIC_QPT_UC});
	struct rnic *r = b->side[0].rnic;

	(void)state;
	for (int i = 0; i < 3; i++) {
		assert_int_equal(bed_send(b, 0, 1, 0, 8), 0);
		assert_false(rnic_tx_can_wait(r, false));
		send_all(b);
		for (int k = 0; k < 3; k++) {
			assert_int_equal(bed_send(b, 0, 1, 0, 8), 0);
			assert_true(rnic_tx_can_wait(r, false));
		}
		send_all(b);
		for (int k = 0; k < 4; k++)
			bed_expect(b, 0, false, 1, RNIC_WC_SUCCESS);
	}
	bed_close(b);
}

/* All that side 0 has to send arrives, and nothing is answered yet. */
static void deliver_all(struct bed *b)
{
	struct bed_pkt *p;

	while ((p = bed_tx1(b, 0)))
		bed_deliver(b, p);
}

static void acknowledgements_of_short_writes_are_told_from_the_rest(void **state)
{
	struct bed *b = bed_open(NULL);
	struct rnic *r = b->side[1].rnic;
	const struct {
		enum rnic_wr_opcode opcode;
		uint32_t len;
	} rest[] = {
		{RNIC_WR_SEND, 8},
		{RNIC_WR_RDMA_WRITE_WITH_IMM, 8},
		{RNIC_WR_RDMA_WRITE, 100000},
		{RNIC_WR_RDMA_READ, 8},
	};

	(void)state;
	assert_null(bed_tx1(b, 1));
	assert_int_equal(bed_recv(b, 1, 1, 0, 8), 0);
	assert_int_equal(bed_recv(b, 1, 2, 0, 8), 0);
	for (uint32_t i = 0; i < ARRAY_SIZE(rest); i++) {
		assert_int_equal(bed_rdma(b, 0, 1, RNIC_WR_RDMA_WRITE, 0, 0, 8), 0);
		assert_false(rnic_tx_only_acks(r));
		deliver_all(b);
		assert_true(rnic_tx_only_acks(r));
		assert_int_equal(bed_rdma(b, 0, 2, rest[i].opcode, 0, 0, rest[i].len), 0);
		deliver_all(b);
		assert_true(rnic_tx_pending(r));
		assert_false(rnic_tx_only_acks(r));
		bed_run(b);
		assert_false(rnic_tx_pending(r));
		bed_expect(b, 0, false, 1, RNIC_WC_SUCCESS);
		bed_expect(b, 0, false, 2, RNIC_WC_SUCCESS);
	}
	bed_close(b);
}

/* The peer that takes them one by one then has its data when it has its acknowledgement. */
static void what_is_posted_goes_before_the_acknowledgement_that_waited_for_it(void **state)
{
	struct bed *b = bed_open(NULL);

	(void)state;
	assert_null(bed_tx1(b, 1));
	assert_int_equal(bed_rdma(b, 0, 1, RNIC_WR_RDMA_WRITE, 0, 0, 8), 0);
	deliver_all(b);
	assert_true(rnic_tx_only_acks(b->side[1].rnic));
	assert_int_equal(bed_rdma(b, 1, 1, RNIC_WR_RDMA_WRITE, 0, 0, 8), 0);
	assert_false(rnic_tx_only_acks(b->side[1].rnic));
	assert_int_equal(bed_tx1(b, 1)->h.bth.opcode, OPCODE_RC_WRITE_ONLY);
	assert_int_equal(bed_tx1(b, 1)->h.bth.opcode, OPCODE_RC_ACKNOWLEDGE);
	assert_null(bed_tx1(b, 1));
	bed_close(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_send_arrives_whole_at_every_mtu),
		cmocka_unit_test(a_write_arrives_whole_and_unseen),
		cmocka_unit_test(a_read_fetches_memory),
		cmocka_unit_test(atomics_return_what_they_found),
		cmocka_unit_test(messages_of_no_bytes_are_messages),
		cmocka_unit_test(immediate_data_arrives_as_it_was_given),
		cmocka_unit_test(scattered_memory_is_gathered_and_scattered),
		cmocka_unit_test(a_receive_may_be_longer_than_any_message),
		cmocka_unit_test(inline_bytes_are_taken_when_posted),
		cmocka_unit_test(payload_goes_out_in_place),
		cmocka_unit_test(unsignaled_work_is_retired_with_the_next_signaled),
		cmocka_unit_test(a_fence_waits_for_reads_and_atomics),
		cmocka_unit_test(no_more_than_a_window_is_under_way),
		cmocka_unit_test(a_window_of_less_than_a_packet_still_moves),
		cmocka_unit_test(small_packets_count_as_half_a_kilobyte),
		cmocka_unit_test(a_long_read_is_asked_for_in_parts),
		cmocka_unit_test(no_more_reads_are_under_way_than_agreed),
		cmocka_unit_test(qps_share_the_budget_of_a_peers_socket),
		cmocka_unit_test(only_a_long_silence_gives_the_budget_back),
		cmocka_unit_test(reads_share_the_budget_of_our_own_socket),
		cmocka_unit_test(a_dead_qp_does_not_hold_up_the_others),
		cmocka_unit_test(qps_take_turns),
		cmocka_unit_test(an_acknowledgement_goes_before_a_long_message),
		cmocka_unit_test(little_behind_what_is_on_the_way_can_wait),
		cmocka_unit_test(
			what_nobody_answers_waits_behind_what_was_sent_since_the_last_poll),
		cmocka_unit_test(acknowledgements_of_short_writes_are_told_from_the_rest),
		cmocka_unit_test(what_is_posted_goes_before_the_acknowledgement_that_waited_for_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
