/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The host's side of NVMe/TCP, with targets that do what targets should not: each is told why. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "host_tcp_bed.h"

/* The connection is lost for that, and the target is told, with the byte of the header. */
static void violated_at(uint16_t fes, uint32_t fei, const char *detail)
{
	expect(1, NVME_TCP_H2C_TERM);
	assert_int_equal(far.term.fes, fes);
	assert_int_equal(far.term.fei, fei);
	assert_int_equal(near.host.state, HOST_FAILED);
	assert_int_equal(near.host.failure.kind, HOST_FAIL_PROTOCOL);
	assert_string_equal(near.host.failure.detail, detail);
	assert_int_equal(near.done, 1);
	assert_int_equal(near.req.error, -ENOTCONN);
	expect_end(1);
}

static void violated(uint16_t fes, const char *detail)
{
	violated_at(fes, 0, detail);
}

static void what_it_cannot_agree_to_ends_it(void **state)
{
	static const struct {
		struct nvme_tcp_icresp ic;
		uint16_t fes;
		uint32_t fei;
		const char *detail;
	} cases[] = {
		{{.pfv = 1, .maxh2cdata = 8192},
		 NVME_TCP_FES_UNSUPPORTED,
		 NVME_TCP_IC_PFV,
		 "it speaks another version of NVMe/TCP"},
		{{.cpda = 32, .maxh2cdata = 8192},
		 NVME_TCP_FES_HEADER_FIELD,
		 NVME_TCP_IC_PDA,
		 "an alignment of data beyond 128 bytes"},
		{{.maxh2cdata = 4095},
		 NVME_TCP_FES_HEADER_FIELD,
		 NVME_TCP_IC_MAXH2CDATA,
		 "it takes less than 4 KiB of data at a time"},
		{{.dgst = 1, .maxh2cdata = 8192},
		 NVME_TCP_FES_HEADER_FIELD,
		 NVME_TCP_IC_DGST,
		 "it does not have the digests that were asked for"},
	};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(cases); i++) {
		again(0, 0, 8192);
		far.ic = cases[i].ic;
		near_start();
		answer_icreq(0);
		far.rx[0].hdgst = false;
		expect(0, NVME_TCP_H2C_TERM);
		assert_int_equal(far.term.fes, cases[i].fes);
		assert_int_equal(far.term.fei, cases[i].fei);
		assert_int_equal(near.host.failure.kind, HOST_FAIL_PROTOCOL);
		assert_string_equal(near.host.failure.detail, cases[i].detail);
	}
}

static void not_outstanding(void)
{
	submit_io(false, 512);
	far.sqe.cid ^= 1;
	respond_with(0, 0);
	violated_at(NVME_TCP_FES_HEADER_FIELD, NVME_TCP_DATA_CCCID,
		    "a PDU for a command that is not outstanding");
}

static void data_for_nobody(void)
{
	submit_io(false, 512);
	far.sqe.cid = 0xffff;
	send_data(0, 512, NVME_TCP_DATA_LAST);
	violated_at(NVME_TCP_FES_HEADER_FIELD, NVME_TCP_DATA_CCCID,
		    "a PDU for a command that is not outstanding");
}

static void data_beyond_the_end(void)
{
	submit_io(false, 512);
	send_data(0, 1024, NVME_TCP_DATA_LAST);
	violated(NVME_TCP_FES_OUT_OF_RANGE, "data out of range, or out of order");
}

static void data_out_of_order(void)
{
	submit_io(false, 4096);
	send_data(512, 512, 0);
	violated(NVME_TCP_FES_OUT_OF_RANGE, "data out of range, or out of order");
}

static void data_for_a_write(void)
{
	submit_io(true, 8192);
	send_data(0, 512, 0);
	violated(NVME_TCP_FES_SEQUENCE, "data that were not asked for");
}

static void data_of_another_length(void)
{
	submit_io(false, 4096);
	far_pdu_out(NVME_TCP_C2H_DATA, 0, 512, nvme_tcp_data_put,
		    struct nvme_tcp_data s = {.cccid = far.sqe.cid, .datal = 1024});
	violated_at(NVME_TCP_FES_HEADER_FIELD, NVME_TCP_DATA_DATAL,
		    "data of another length than is said");
}

static void success_too_early(void)
{
	submit_io(false, 4096);
	send_data(0, 512, NVME_TCP_DATA_LAST | NVME_TCP_DATA_SUCCESS);
	violated(NVME_TCP_FES_SEQUENCE, "success before the last data");
}

static void response_too_early(void)
{
	submit_io(false, 4096);
	send_data(0, 512, 0);
	respond_with(0, 0);
	violated(NVME_TCP_FES_SEQUENCE, "success before the last data");
}

static void r2t_for_a_read(void)
{
	submit_io(false, 4096);
	send_r2t(1, 0, 512);
	violated(NVME_TCP_FES_SEQUENCE, "it asks for data that there are none of");
}

static void r2t_for_what_was_in_the_capsule(void)
{
	submit_io(true, 4096);
	send_r2t(1, 0, 512);
	violated(NVME_TCP_FES_SEQUENCE, "it asks for data that there are none of");
}

static void r2t_beyond_the_end(void)
{
	submit_io(true, 8192);
	send_r2t(1, 4096, 4097);
	violated(NVME_TCP_FES_OUT_OF_RANGE, "it asks for more than there is");
}

static void r2t_of_nothing(void)
{
	submit_io(true, 8192);
	send_r2t(1, 0, 0);
	violated(NVME_TCP_FES_OUT_OF_RANGE, "it asks for more than there is");
}

static void r2t_twice_for_the_same(void)
{
	submit_io(true, 8192);
	send_r2t(1, 0, 8192);
	expect(1, NVME_TCP_H2C_DATA);
	send_r2t(2, 0, 1);
	violated(NVME_TCP_FES_OUT_OF_RANGE, "it asks for more than there is");
}

/* The first is answered with data, which wait for the end of the turn; all come in that. */
static void r2t_too_often(void)
{
	static struct tcp_out outs[1 + TCP_HOST_R2TS_MAX + 1];

	submit_io(true, 8192);
	for (uint16_t i = 0; i < ARRAY_SIZE(outs); i++) {
		struct nvme_tcp_r2t r = {
			.cccid = far.sqe.cid, .ttag = i, .r2to = i * 512, .r2tl = 512};
		struct wcursor w;

		tcp_out_init(&outs[i], NULL);
		w = tcp_out_pdu(&outs[i], &far.tx[1], NVME_TCP_R2T, 0, 0);
		nvme_tcp_r2t_put(&w, &r);
		tcp_out_pdu_end(&outs[i]);
		tcp_tx_push(&far.tx[1], &outs[i]);
	}
	far_flush();
	expect(1, NVME_TCP_H2C_DATA);
	assert_int_equal(far.data.ttag, 0);
	violated(NVME_TCP_FES_LIMIT_EXCEEDED, "it asks too often at a time");
}

static void a_host_s_pdu(void)
{
	submit_io(false, 512);
	far_pdu_out(NVME_TCP_H2C_DATA, 0, 512, nvme_tcp_data_put,
		    struct nvme_tcp_data s = {.cccid = far.sqe.cid, .datal = 512});
	violated(NVME_TCP_FES_SEQUENCE, "PDU sequence error");
}

static void whoever_breaks_the_protocol_is_told_so(void **state)
{
	static void (*const cases[])(void) = {
		not_outstanding,	data_for_nobody,
		data_beyond_the_end,	data_out_of_order,
		data_for_a_write,	data_of_another_length,
		success_too_early,	response_too_early,
		r2t_for_a_read,		r2t_for_what_was_in_the_capsule,
		r2t_beyond_the_end,	r2t_of_nothing,
		r2t_twice_for_the_same, r2t_too_often,
		a_host_s_pdu,
	};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(cases); i++) {
		again(i & 1 ? 3 : 0, 0, 1 << 20);
		bring_up();
		cases[i]();
	}
}

/* Its memory is its owner's when it is answered. */
static void a_response_while_data_are_sent_is_a_violation(void **state)
{
	static struct tcp_out outs[2];
	struct nvme_tcp_r2t r = {.r2tl = 8192};
	struct nvme_cqe q = {0};
	struct wcursor w;

	(void)state;
	bring_up();
	submit_io(true, 8192);
	r.cccid = q.cid = far.sqe.cid;
	for (unsigned i = 0; i < ARRAY_SIZE(outs); i++) {
		tcp_out_init(&outs[i], NULL);
		w = tcp_out_pdu(&outs[i], &far.tx[1], i ? NVME_TCP_RESP : NVME_TCP_R2T, 0, 0);
		if (i)
			nvme_cqe_put(&w, &q);
		else
			nvme_tcp_r2t_put(&w, &r);
		tcp_out_pdu_end(&outs[i]);
		tcp_tx_push(&far.tx[1], &outs[i]);
	}
	far_flush(); /* both come in one turn, at whose end the data were to go */
	expect(1, NVME_TCP_H2C_DATA);
	violated(NVME_TCP_FES_SEQUENCE, "a response to a command that is still being sent");
}

static void a_damaged_header_is_told_of(void **state)
{
	static struct tcp_out o;
	struct nvme_cqe q = {0};
	struct wcursor w;

	(void)state;
	again(NVME_TCP_IC_HDGST, 0, 8192);
	bring_up();
	submit_io(false, 512);
	tcp_out_init(&o, NULL);
	w = tcp_out_pdu(&o, &far.tx[1], NVME_TCP_RESP, 0, 0);
	nvme_cqe_put(&w, &q);
	tcp_out_pdu_end(&o);
	o.head[10] ^= 1;
	tcp_tx_push(&far.tx[1], &o);
	far_flush();
	violated_at(NVME_TCP_FES_HEADER_DIGEST, ld_le32(o.head + o.head[2]), "header digest error");
}

static void headers_that_make_no_sense_are_told_of(void **state)
{
	static const struct {
		uint8_t dgst, ch[NVME_TCP_CH_LEN];
		uint32_t fei;
	} cases[] = {
		{0, {0x77, 0, 24, 0, 24}, NVME_TCP_CH_TYPE},
		{0, {NVME_TCP_RESP, 0, 23, 0, 24}, NVME_TCP_CH_HLEN},
		{0, {NVME_TCP_RESP, 0, 24, 0, 23}, NVME_TCP_CH_PLEN},
		{0, {NVME_TCP_RESP, 0, 24, 0, 28}, NVME_TCP_CH_PLEN},	  /* has no data */
		{0, {NVME_TCP_C2H_DATA, 0, 24, 0, 24}, NVME_TCP_CH_PLEN}, /* has */
		{0, {NVME_TCP_C2H_DATA, 0, 24, 28, 28}, NVME_TCP_CH_PLEN},
		{0, {NVME_TCP_C2H_DATA, 0, 24, 20, 28}, NVME_TCP_CH_PDO},
		{0, {NVME_TCP_C2H_DATA, 0, 24, 26, 32}, NVME_TCP_CH_PDO},
		/* Digests that were not agreed on, and none where they were. */
		{0, {NVME_TCP_RESP, NVME_TCP_HDGST, 24, 0, 28}, NVME_TCP_CH_FLAGS},
		{0, {NVME_TCP_C2H_DATA, NVME_TCP_DDGST, 24, 24, 32}, NVME_TCP_CH_FLAGS},
		{NVME_TCP_IC_HDGST, {NVME_TCP_RESP, 0, 24, 0, 28}, NVME_TCP_CH_FLAGS},
		{NVME_TCP_IC_DDGST, {NVME_TCP_C2H_DATA, 0, 24, 24, 32}, NVME_TCP_CH_FLAGS},
	};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(cases); i++) {
		again(cases[i].dgst, 0, 8192);
		bring_up();
		submit_io(false, 512);
		assert_int_equal(send(far.fd[1], cases[i].ch, NVME_TCP_CH_LEN, 0), NVME_TCP_CH_LEN);
		violated_at(NVME_TCP_FES_HEADER_FIELD, cases[i].fei,
			    nvme_tcp_fes_name(NVME_TCP_FES_HEADER_FIELD));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		BED_TEST(what_it_cannot_agree_to_ends_it),
		BED_TEST(whoever_breaks_the_protocol_is_told_so),
		BED_TEST(a_response_while_data_are_sent_is_a_violation),
		BED_TEST(a_damaged_header_is_told_of),
		BED_TEST(headers_that_make_no_sense_are_told_of),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
