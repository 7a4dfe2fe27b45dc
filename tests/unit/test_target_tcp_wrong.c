/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The target's side of NVMe/TCP, and hosts that break the protocol: each is told how. */
#include <string.h>

#include "tcp_bed.h"

static uint8_t some[2 << 20];

static void what_cannot_be_agreed_on_ends_it(void **state)
{
	static const struct {
		struct nvme_tcp_icreq req;
		uint16_t fes;
		uint32_t fei;
	} cases[] = {
		{{.pfv = 1}, NVME_TCP_FES_UNSUPPORTED, NVME_TCP_IC_PFV},
		{{.hpda = NVME_TCP_PDA_MAX + 1}, NVME_TCP_FES_HEADER_FIELD, NVME_TCP_IC_PDA},
	};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(cases); i++) {
		struct peer *p = peer_open();
		struct tcp_out o;
		struct wcursor w;

		tcp_out_init(&o, NULL);
		w = tcp_out_pdu(&o, &p->tx, NVME_TCP_ICREQ, 0, 0);
		nvme_tcp_icreq_put(&w, &cases[i].req);
		tcp_out_pdu_end(&o);
		tcp_tx_push(&p->tx, &o);
		peer_send(p);
		peer_terminated(p, cases[i].fes, cases[i].fei);
		peer_close(p);
	}
}

static void first_of_all_comes_what_is_to_be_agreed_on(void **state)
{
	const struct nvme_tcp_icreq req = {0};
	struct peer *p = peer_open();
	struct nvme_sqe s = peer_sqe(NVME_ADMIN_KEEP_ALIVE, 0, 0);

	(void)state;
	peer_command(p, &s, NULL, 0);
	peer_terminated(p, NVME_TCP_FES_SEQUENCE, 0);
	peer_close(p);
	/* And that once. */
	p = peer_open();
	peer_init(p, &req);
	{
		uint8_t bytes[128] = {NVME_TCP_ICREQ, 0, 128, 0, 128};

		peer_bytes(p, bytes, sizeof(bytes));
	}
	peer_terminated(p, NVME_TCP_FES_SEQUENCE, 0);
	peer_close(p);
}

static void a_terminate_request_has_the_header_that_it_is_about(void **state)
{
	static const uint8_t bytes[] = {0x77, 1, 2, 3, 4, 5, 6, 7, 8, 9};
	struct peer *p = peer_open();

	(void)state;
	peer_bytes(p, bytes, sizeof(bytes));
	assert_int_equal(p->pdus[0].len, NVME_TCP_CH_LEN);
	assert_memory_equal(p->pdus[0].data, bytes, NVME_TCP_CH_LEN);
	peer_terminated(p, NVME_TCP_FES_HEADER_FIELD, NVME_TCP_CH_TYPE);
	peer_close(p);
}

/* Each on a connection of its own, after the R2T for 4096 bytes of command 5. */
static void data_that_were_not_asked_for_end_it(void **state)
{
	static const struct {
		struct nvme_tcp_data d; /* ttag: added to the right one */
		uint8_t flags;
		uint16_t fes;
		uint32_t fei;
	} cases[] = {
		{{5, 1, 0, 512}, 0, NVME_TCP_FES_OUT_OF_RANGE, 0}, /* an R2T that was not sent */
		{{5, 4, 0, 512}, 0, NVME_TCP_FES_HEADER_FIELD, NVME_TCP_DATA_TTAG},
		{{5, 0x8000, 0, 512}, 0, NVME_TCP_FES_HEADER_FIELD, NVME_TCP_DATA_TTAG},
		{{6, 0, 0, 512}, 0, NVME_TCP_FES_HEADER_FIELD, NVME_TCP_DATA_CCCID},
		{{5, 0, 512, 512}, 0, NVME_TCP_FES_OUT_OF_RANGE, 0},
		{{5, 0, 0xfffffe00, 1024}, 0, NVME_TCP_FES_OUT_OF_RANGE, 0},
		{{5, 0, 0, 4097}, 0, NVME_TCP_FES_OUT_OF_RANGE, 0},
		{{5, 0, 0, TARGET_DATA_MAX + 4}, 0, NVME_TCP_FES_LIMIT_EXCEEDED, 0},
		{{5, 0, 0, 512}, NVME_TCP_DATA_LAST, NVME_TCP_FES_SEQUENCE, 0},
	};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(cases); i++) {
		struct pair p = pair_open(NULL, 0);
		struct nvme_sqe s = peer_rw(NVME_IO_WRITE, 5, 0, 4096);
		struct nvme_tcp_data d = cases[i].d;

		peer_command(p.io, &s, NULL, 0);
		d.ttag = (uint16_t)(d.ttag + peer_r2t(p.io).ttag);
		peer_data(p.io, &d, cases[i].flags, some);
		peer_terminated(p.io, cases[i].fes, cases[i].fei);
		assert_int_equal(bed.shares.budget[SHARE_FOR_IO].used, 0);
		pair_close(&p);
	}
}

static void data_of_another_length_than_is_said_end_it(void **state)
{
	struct pair p = pair_open(NULL, 0);
	struct nvme_sqe s = peer_rw(NVME_IO_WRITE, 5, 0, 4096);
	struct nvme_tcp_data d = {.cccid = 5, .datal = 1024};
	struct tcp_out o;
	struct wcursor w;

	(void)state;
	peer_command(p.io, &s, NULL, 0);
	d.ttag = peer_r2t(p.io).ttag;
	tcp_out_init(&o, NULL);
	w = tcp_out_pdu(&o, &p.io->tx, NVME_TCP_H2C_DATA, 0, 512);
	nvme_tcp_data_put(&w, &d);
	tcp_out_pdu_end(&o);
	tcp_out_data(&o, &p.io->tx, some, 512, 0);
	tcp_tx_push(&p.io->tx, &o);
	peer_send(p.io);
	peer_terminated(p.io, NVME_TCP_FES_HEADER_FIELD, NVME_TCP_DATA_DATAL);
	pair_close(&p);
}

/* They are over with the command: its memory is another's by then. */
static void data_after_the_end_of_their_command_end_it(void **state)
{
	struct pair p = pair_open(NULL, 0);
	struct nvme_sqe s = peer_rw(NVME_IO_WRITE, 5, 0, 512);
	struct nvme_tcp_data d = {.cccid = 5, .datal = 512};

	(void)state;
	peer_command(p.io, &s, NULL, 0);
	d.ttag = peer_r2t(p.io).ttag;
	peer_data(p.io, &d, NVME_TCP_DATA_LAST, some);
	assert_int_equal(peer_response(p.io).status, NVME_SC_SUCCESS);
	peer_data(p.io, &d, NVME_TCP_DATA_LAST, some);
	peer_terminated(p.io, NVME_TCP_FES_HEADER_FIELD, NVME_TCP_DATA_TTAG);
	pair_close(&p);
}

/* Its bytes may be guessed: nobody can have seen it. */
static void data_before_their_r2t_is_sent_end_it(void **state)
{
	struct pair p = pair_open(NULL, 0);
	struct nvme_sqe s = peer_rw(NVME_IO_WRITE, 5, 0, 512);
	struct nvme_tcp_data d = {.cccid = 5, .datal = 512};
	uint8_t bytes[72 + 24 + 512];
	struct tcp_out o[2];
	struct wcursor w;
	struct iovec iov[4];
	size_t len = 0;
	unsigned n;

	(void)state;
	d.ttag = 1 * TCP_R2TS_MAX; /* of the first command that is free */
	for (unsigned i = 0; i < 2; i++)
		tcp_out_init(&o[i], NULL);
	w = tcp_out_pdu(&o[0], &p.io->tx, NVME_TCP_CMD, 0, 0);
	nvme_sqe_put(&w, &s);
	tcp_out_pdu_end(&o[0]);
	w = tcp_out_pdu(&o[1], &p.io->tx, NVME_TCP_H2C_DATA, NVME_TCP_DATA_LAST, 512);
	nvme_tcp_data_put(&w, &d);
	tcp_out_pdu_end(&o[1]);
	tcp_out_data(&o[1], &p.io->tx, some, 512, 0);
	tcp_tx_push(&p.io->tx, &o[0]);
	tcp_tx_push(&p.io->tx, &o[1]);
	n = tcp_tx_iov(&p.io->tx, iov, 4);
	for (unsigned i = 0; i < n; i++) {
		memcpy(bytes + len, iov[i].iov_base, iov[i].iov_len);
		len += iov[i].iov_len;
	}
	assert_int_equal(len, sizeof(bytes));
	tcp_tx_sent(&p.io->tx, len);
	peer_bytes(p.io, bytes, len);
	(void)peer_r2t(p.io);
	peer_terminated(p.io, NVME_TCP_FES_HEADER_FIELD, NVME_TCP_DATA_TTAG);
	pair_close(&p);
}

/* One that is sent but for its last byte is not, whatever went before it. */
static void data_before_their_r2t_is_whole_end_it(void **state)
{
	const struct nvme_tcp_icreq req = {.maxr2t = 3};
	const struct nvme_sqe s = peer_rw(NVME_IO_WRITE, 5, 0, 1 << 20);
	struct nvme_tcp_data d = {.cccid = 5, .datao = 256 << 10, .datal = 512};
	struct pair p = pair_open(&req, 0);

	(void)state;
	p.io->full = true;
	peer_command(p.io, &s, NULL, 0);
	peer_take_some(p.io, 24 + 23);
	d.ttag = (uint16_t)(peer_r2t(p.io).ttag + 1);
	peer_data(p.io, &d, 0, some);
	for (unsigned k = 1; k < 4; k++)
		(void)peer_r2t(p.io);
	peer_terminated(p.io, NVME_TCP_FES_HEADER_FIELD, NVME_TCP_DATA_TTAG);
	pair_close(&p);
}

static void a_capsule_with_more_data_than_is_taken_ends_it(void **state)
{
	const struct nvme_tcp_icreq req = {0};
	struct pair p = pair_open(NULL, 0);
	struct nvme_sqe s = peer_rw(NVME_IO_WRITE, 5, 0, 8704);
	struct peer *young;

	(void)state;
	s.sgl = (struct nvme_sgl){.subtype = NVME_SGL_OFFSET, .len = 8704};
	peer_command(p.io, &s, some, 8704);
	peer_terminated(p.io, NVME_TCP_FES_LIMIT_EXCEEDED, 0);
	pair_close(&p);
	/* Before Connect: no more than that has. */
	young = peer_open();
	peer_init(young, &req);
	peer_command(young, &s, some, NVMF_CONNECT_DATA_LEN + 4);
	peer_terminated(young, NVME_TCP_FES_LIMIT_EXCEEDED, 0);
	peer_close(young);
}

static void a_young_queue_has_one_command(void **state)
{
	const struct nvme_tcp_icreq req = {0};
	struct peer *p = peer_open();
	struct nvme_sqe s = peer_sqe(0, 3, NVMF_CONNECT_DATA_LEN);
	const struct nvmf_connect co = {.sqsize = DEPTH - 1};

	(void)state;
	nvmf_connect_to_sqe(&co, &s);
	peer_init(p, &req);
	peer_command(p, &s, NULL, 0);
	(void)peer_r2t(p);
	peer_command(p, &s, NULL, 0);
	peer_terminated(p, NVME_TCP_FES_SEQUENCE, 0);
	peer_close(p);
}

/* It is handed to nobody while its only command has a response that it has not taken. */
static void connect_before_a_response_is_taken_ends_it(void **state)
{
	const struct nvmf_prop prop = {.offset = NVME_PROP_CC};
	struct nvme_sqe s = peer_sqe(0, 1, 0);
	struct peer *p = peer_open();
	struct tcp_out o;
	struct wcursor w;

	(void)state;
	peer_init(p, &(struct nvme_tcp_icreq){0});
	nvmf_prop_to_sqe(&prop, NVMF_PROPERTY_SET, &s);
	tcp_out_init(&o, NULL);
	w = tcp_out_pdu(&o, &p->tx, NVME_TCP_CMD, 0, 0);
	nvme_sqe_put(&w, &s);
	tcp_out_pdu_end(&o);
	tcp_tx_push(&p->tx, &o);
	peer_connect_send(p, 1, 1, 0); /* in one piece with it */
	assert_int_not_equal(peer_response(p).status, NVME_SC_SUCCESS);
	peer_terminated(p, NVME_TCP_FES_SEQUENCE, 0);
	peer_close(p);
}

/* As many as its Connect has asked for, and not one more: the memory is there before. */
static void more_commands_than_entries_end_it(void **state)
{
	struct pair p = pair_open(NULL, 0);

	(void)state;
	bed.slow.hold = true;
	for (uint16_t i = 0; i <= DEPTH; i++) {
		struct nvme_sqe s = peer_rw(NVME_IO_READ, i, 0, 512);

		assert_non_null(p.io->q);
		peer_command(p.io, &s, NULL, 0);
	}
	peer_terminated(p.io, NVME_TCP_FES_SEQUENCE, 0);
	slow_release();
	pair_close(&p);
}

static void a_host_that_says_the_protocol_was_broken_goes(void **state)
{
	struct pair p = pair_open(NULL, 0);
	const uint8_t bytes[32] = {NVME_TCP_H2C_TERM, 0, 24, 0, 32, 0, 0, 0, 3};

	(void)state;
	peer_bytes(p.io, bytes, sizeof(bytes));
	assert_null(p.io->q);
	assert_int_equal(p.io->taken, p.io->came); /* and it is not told the same */
	pair_close(&p);
}

/* Who has not said who it is chooses the number, and takes no row of the reasons' for each. */
static void a_host_without_connect_is_counted_without_what_it_says(void **state)
{
	static struct figures_host_row hosts[FIGURES_HOSTS];
	static struct figures_op_row ops[FIGURES_OPS];
	static struct figures_error_row errors[FIGURES_ERRORS];
	static struct figures_queue_row queues[FIGURES_QUEUES];
	static struct figures_queue_error_row queue_errors[FIGURES_QUEUE_ERRORS];
	static struct figures_reason_row reasons[FIGURES_REASONS];
	static struct target_figures f = {hosts, ops, errors, queues, queue_errors, reasons};
	static const struct nvme_tcp_icreq req;

	(void)state;
	figures_init(&f);
	bed.target.group.figures = &f;
	for (uint8_t i = 0; i < 100; i++) {
		const uint8_t bytes[24] = {NVME_TCP_H2C_TERM,		0, 24, 0, 24, 0, 0, 0,
					   NVME_TCP_FES_LIMIT_EXCEEDED, 0, i,  i};
		struct peer *p = peer_open();

		peer_init(p, &req);
		peer_bytes(p, bytes, sizeof(bytes));
		assert_null(p->q);
		peer_close(p);
	}
	assert_int_equal(reasons[1].count, 100);
	assert_int_equal(reasons[2].count, 0);
	assert_string_equal((const char *)reasons[1].reason,
			    "the host says that the protocol was broken: limit exceeded");
}

/* One byte of the header is another: what came as its digest is said, too. */
static void a_damaged_header_ends_it(void **state)
{
	const struct nvme_tcp_icreq req = {.dgst = NVME_TCP_IC_HDGST};
	const struct nvme_sqe s = peer_rw(NVME_IO_READ, 5, 0, 512);
	struct pair p = pair_open(&req, 0);
	struct tcp_out o;
	struct wcursor w;
	uint32_t digest;

	(void)state;
	tcp_out_init(&o, NULL);
	w = tcp_out_pdu(&o, &p.io->tx, NVME_TCP_CMD, 0, 0);
	nvme_sqe_put(&w, &s);
	tcp_out_pdu_end(&o);
	digest = ld_le32(o.head + o.head[NVME_TCP_CH_HLEN]);
	o.head[NVME_TCP_CH_LEN + 40] ^= 1;
	tcp_tx_push(&p.io->tx, &o);
	peer_send(p.io);
	assert_memory_equal(p.io->pdus[p.io->taken].data, o.head, o.head[NVME_TCP_CH_HLEN]);
	peer_terminated(p.io, NVME_TCP_FES_HEADER_DIGEST, digest);
	pair_close(&p);
}

static void headers_that_make_no_sense_end_it(void **state)
{
	static const struct {
		uint8_t dgst, ch[NVME_TCP_CH_LEN];
		uint32_t fei;
	} cases[] = {
		{0, {NVME_TCP_CMD, 0, 71, 0, 72}, NVME_TCP_CH_HLEN},
		{0, {NVME_TCP_CMD, 0, 72, 0, 71}, NVME_TCP_CH_PLEN},
		{0, {NVME_TCP_CMD, 0, 72, 80, 76}, NVME_TCP_CH_PLEN},
		{0, {NVME_TCP_H2C_DATA, 0, 24, 0, 24}, NVME_TCP_CH_PLEN}, /* has data */
		{0, {NVME_TCP_CMD, 0, 72, 68, 80}, NVME_TCP_CH_PDO},
		{0, {NVME_TCP_CMD, 0, 72, 74, 80}, NVME_TCP_CH_PDO},
		/* Digests that were not agreed on, and none where they were. */
		{0, {NVME_TCP_CMD, NVME_TCP_HDGST, 72, 0, 76}, NVME_TCP_CH_FLAGS},
		{0, {NVME_TCP_CMD, NVME_TCP_DDGST, 72, 72, 80}, NVME_TCP_CH_FLAGS},
		{NVME_TCP_IC_HDGST, {NVME_TCP_CMD, 0, 72, 0, 76}, NVME_TCP_CH_FLAGS},
		{NVME_TCP_IC_DDGST, {NVME_TCP_CMD, 0, 72, 72, 80}, NVME_TCP_CH_FLAGS},
	};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct nvme_tcp_icreq req = {.dgst = cases[i].dgst};
		struct pair p = pair_open(&req, 0);

		peer_bytes(p.io, cases[i].ch, NVME_TCP_CH_LEN);
		peer_terminated(p.io, NVME_TCP_FES_HEADER_FIELD, cases[i].fei);
		pair_close(&p);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TCP_BED_TEST(what_cannot_be_agreed_on_ends_it),
		TCP_BED_TEST(first_of_all_comes_what_is_to_be_agreed_on),
		TCP_BED_TEST(a_terminate_request_has_the_header_that_it_is_about),
		TCP_BED_TEST(data_that_were_not_asked_for_end_it),
		TCP_BED_TEST(data_of_another_length_than_is_said_end_it),
		TCP_BED_TEST(data_after_the_end_of_their_command_end_it),
		TCP_BED_TEST(data_before_their_r2t_is_sent_end_it),
		TCP_BED_TEST(data_before_their_r2t_is_whole_end_it),
		TCP_BED_TEST(a_capsule_with_more_data_than_is_taken_ends_it),
		TCP_BED_TEST(a_young_queue_has_one_command),
		TCP_BED_TEST(connect_before_a_response_is_taken_ends_it),
		TCP_BED_TEST(more_commands_than_entries_end_it),
		TCP_BED_TEST(a_host_that_says_the_protocol_was_broken_goes),
		TCP_BED_TEST(a_host_without_connect_is_counted_without_what_it_says),
		TCP_BED_TEST(a_damaged_header_ends_it),
		TCP_BED_TEST(headers_that_make_no_sense_end_it),
		TCP_BED_TEST_2(what_cannot_be_agreed_on_ends_it),
		TCP_BED_TEST_2(first_of_all_comes_what_is_to_be_agreed_on),
		TCP_BED_TEST_2(a_terminate_request_has_the_header_that_it_is_about),
		TCP_BED_TEST_2(data_that_were_not_asked_for_end_it),
		TCP_BED_TEST_2(data_of_another_length_than_is_said_end_it),
		TCP_BED_TEST_2(data_after_the_end_of_their_command_end_it),
		TCP_BED_TEST_2(data_before_their_r2t_is_sent_end_it),
		TCP_BED_TEST_2(a_capsule_with_more_data_than_is_taken_ends_it),
		TCP_BED_TEST_2(a_young_queue_has_one_command),
		TCP_BED_TEST_2(connect_before_a_response_is_taken_ends_it),
		TCP_BED_TEST_2(more_commands_than_entries_end_it),
		TCP_BED_TEST_2(a_host_that_says_the_protocol_was_broken_goes),
		TCP_BED_TEST_2(a_damaged_header_ends_it),
		TCP_BED_TEST_2(headers_that_make_no_sense_end_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
