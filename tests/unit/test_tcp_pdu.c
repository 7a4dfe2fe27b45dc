/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* PDUs of NVMe/TCP into streams and out of them, however the streams are cut. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <string.h>
#include <cmocka.h>

#include "nvmf/tcp/rx.h"
#include "nvmf/tcp/tx.h"
#include "wire/crc32c.h"

#define ALL 0x3ff

static uint8_t stream[(64 << 10) + 512], data[1500], place[4096];
static size_t stream_len;

static void gather(struct tcp_tx *tx, size_t at_a_time)
{
	struct iovec iov[3];
	unsigned n;

	stream_len = 0;
	while ((n = tcp_tx_iov(tx, iov, 3))) {
		size_t left = at_a_time;

		for (unsigned i = 0; i < n && left; i++) {
			size_t len = min_of(iov[i].iov_len, left);

			assert_true(stream_len + len <= sizeof(stream));
			memcpy(stream + stream_len, iov[i].iov_base, len);
			stream_len += len;
			left -= len;
		}
		tcp_tx_sent(tx, at_a_time - left);
	}
	assert_int_equal(tx->bytes, 0);
}

/* H2CData of 1500 bytes, 100 of them zeroes, with an R2T before it and a response behind. */
static void build(struct tcp_tx *tx)
{
	static struct tcp_out outs[2];
	struct tcp_out *o = &outs[0];
	const struct nvme_tcp_r2t r2t = {.cccid = 7, .ttag = 9, .r2to = 512, .r2tl = 1024};
	const struct nvme_tcp_data d = {.cccid = 7, .ttag = 9, .datao = 512, .datal = 1500};
	struct wcursor w;

	for (unsigned i = 0; i < sizeof(data); i++)
		data[i] = i < 1400 ? (uint8_t)(i * 7 + 1) : 0;
	tcp_out_init(o, NULL);
	w = tcp_out_pdu(o, tx, NVME_TCP_R2T, 0, 0);
	nvme_tcp_r2t_put(&w, &r2t);
	tcp_out_pdu_end(o);
	tcp_tx_push(tx, o++);
	tcp_out_init(o, NULL);
	w = tcp_out_pdu(o, tx, NVME_TCP_H2C_DATA, NVME_TCP_DATA_LAST, 1500);
	nvme_tcp_data_put(&w, &d);
	tcp_out_pdu_end(o);
	tcp_out_data(o, tx, data, 1400, 100);
	w = tcp_out_tail(o, tx, NVME_TCP_RESP);
	memset(wcursor_take(&w, 16), 0x5a, 16);
	tcp_out_tail_end(o);
	tcp_tx_push(tx, o);
}

/* Eats what was gathered, `step` bytes at a time; direct: as far as it may, without a buffer. */
static void eat_all(struct tcp_rx *rx, size_t step, bool direct)
{
	static const uint8_t types[] = {NVME_TCP_R2T, NVME_TCP_H2C_DATA, NVME_TCP_RESP};
	unsigned headers = 0, pdus = 0;

	memset(place, 0xee, sizeof(place));
	for (size_t at = 0; at < stream_len;) {
		const uint8_t *p = stream + at;
		size_t n = min_of(step, stream_len - at);
		enum tcp_rx_event e;
		struct iovec to;
		uint32_t wants = 0;

		if (direct && tcp_rx_wants(rx, &to, 1)) {
			wants = (uint32_t)min_of(to.iov_len, n);
			memcpy(to.iov_base, p, wants);
			tcp_rx_placed(rx, wants);
			p += wants;
		}
		while ((e = tcp_rx_eat(rx, &p, stream + at + n)) != TCP_RX_MORE) {
			assert_int_not_equal(e, TCP_RX_BAD);
			if (e == TCP_RX_HEADER) {
				assert_int_equal(rx->ch.type, types[headers++]);
				if (rx->data_len)
					tcp_rx_place(rx, place);
			} else {
				assert_int_equal(rx->ch.type, types[pdus++]);
				assert_int_equal(pdus, headers);
				assert_true(rx->data_fine);
			}
		}
		at += n;
	}
	assert_int_equal(pdus, 3);
	assert_memory_equal(place, data, 1500);
	assert_int_equal(place[1500], 0xee);
}

static void pass(struct tcp_rx *rx, struct tcp_tx *tx, struct tcp_out *o)
{
	const uint8_t *p = stream;

	tcp_tx_push(tx, o);
	gather(tx, 4096);
	while (tcp_rx_eat(rx, &p, stream + stream_len) != TCP_RX_MORE)
		assert_false(rx->bad);
}

/* A PDU of data, and a response behind it. */
static void take_data(struct tcp_rx *rx, struct tcp_tx *tx, uint32_t len)
{
	static uint8_t long_data[64 << 10];
	struct tcp_out o;
	struct wcursor w;

	tcp_out_init(&o, NULL);
	w = tcp_out_pdu(&o, tx, NVME_TCP_C2H_DATA, 0, len);
	memset(wcursor_take(&w, 16), 0, 16);
	tcp_out_pdu_end(&o);
	tcp_out_data(&o, tx, long_data, len, 0);
	w = tcp_out_tail(&o, tx, NVME_TCP_RESP);
	memset(wcursor_take(&w, 16), 0, 16);
	tcp_out_tail_end(&o);
	pass(rx, tx, &o);
}

/* And one by itself. */
static void take_response(struct tcp_rx *rx, struct tcp_tx *tx)
{
	struct tcp_out o;
	struct wcursor w;

	tcp_out_init(&o, NULL);
	w = tcp_out_pdu(&o, tx, NVME_TCP_RESP, 0, 0);
	memset(wcursor_take(&w, 16), 0, 16);
	tcp_out_pdu_end(&o);
	pass(rx, tx, &o);
}

/* Short ones are received by many, of long ones little is to come through a buffer; what is between
 * them says nothing. */
static void room_is_for_what_comes(void **state)
{
	const size_t max = 128 << 10;
	struct tcp_tx tx;
	struct tcp_rx rx;

	(void)state;
	tcp_tx_init(&tx);
	tcp_rx_init(&rx, ALL | TCP_RX_TAKES(NVME_TCP_C2H_DATA), 64 << 10);
	assert_int_equal(tcp_rx_room(&rx, max), max);
	take_data(&rx, &tx, 4096);
	assert_int_equal(tcp_rx_room(&rx, max), max);
	take_data(&rx, &tx, 64 << 10);
	assert_true(tcp_rx_room(&rx, max) <= 4096);
	assert_int_equal(tcp_rx_room(&rx, 100), 100);
	for (unsigned i = 0; i < 40; i++)
		take_response(&rx, &tx);
	assert_int_equal(tcp_rx_room(&rx, max), max); /* there are no long ones any more */
	take_data(&rx, &tx, 64 << 10);
	take_data(&rx, &tx, 4096);
	assert_int_equal(tcp_rx_room(&rx, max), max);
}

static void what_is_sent_comes_however_it_is_cut(void **state)
{
	static const size_t steps[] = {1, 3, 7, 24, 29, 100, 1499, 4096};

	(void)state;
	for (unsigned digests = 0; digests < 4; digests++)
		for (unsigned pda = 0; pda <= NVME_TCP_PDA_MAX; pda += 5)
			for (unsigned i = 0; i < ARRAY_SIZE(steps); i++) {
				struct tcp_tx tx;
				struct tcp_rx rx;

				tcp_tx_init(&tx);
				tcp_rx_init(&rx, ALL, 1500);
				tx.hdgst = rx.hdgst = digests & 1;
				tx.ddgst = rx.ddgst = digests & 2;
				tx.pda = rx.pda = (uint8_t)pda;
				build(&tx);
				gather(&tx, steps[i]);
				for (unsigned k = 0; k < ARRAY_SIZE(steps); k++) {
					eat_all(&rx, steps[k], false);
					eat_all(&rx, steps[k], true);
				}
			}
}

static void the_bytes_are_those_of_the_standard(void **state)
{
	static const uint8_t want[] = {/* R2T */
				       0x09, 0x01, 24, 0, 28, 0, 0, 0, 7, 0, 9, 0,
				       0,    2,	   0,  0, 0,  4, 0, 0, 0, 0, 0, 0};
	struct tcp_tx tx;
	uint8_t *second = stream + 28;

	(void)state;
	tcp_tx_init(&tx);
	tx.hdgst = tx.ddgst = true;
	tx.pda = 7; /* 32 bytes */
	build(&tx);
	gather(&tx, 4096);
	assert_memory_equal(stream, want, sizeof(want));
	assert_int_equal(ld_le32(stream + 24), crc32c(stream, 24));
	assert_int_equal(second[0], 6);
	assert_int_equal(second[1], NVME_TCP_HDGST | NVME_TCP_DDGST | NVME_TCP_DATA_LAST);
	assert_int_equal(second[3], 32);
	assert_int_equal(ld_le32(second + 4), 32 + 1500 + 4);
	assert_int_equal(ld_le32(second + 24), crc32c(second, 24));
	assert_int_equal(ld_le32(second + 28), 0); /* padding */
	assert_int_equal(ld_le32(second + 32 + 1500), crc32c(data, 1500));
	assert_int_equal(stream_len, 28 + 32 + 1500 + 4 + 28);
}

/* --- what is no PDU ----------------------------------------------------------------------------
 */

static void bad(struct tcp_rx *rx, const uint8_t *bytes, size_t len, uint16_t fes, uint32_t fei)
{
	const uint8_t *p = bytes;
	enum tcp_rx_event e = TCP_RX_MORE;

	for (int i = 0; i < 4 && e != TCP_RX_BAD; i++)
		e = tcp_rx_eat(rx, &p, bytes + len);
	assert_int_equal(e, TCP_RX_BAD);
	assert_int_equal(rx->fes, fes);
	assert_int_equal(rx->fei, fei);
	/* And nothing after it. */
	assert_int_equal(tcp_rx_eat(rx, &p, bytes + len), TCP_RX_BAD);
}

static void a_common_header_that_is_wrong_is_told_by_its_field(void **state)
{
	static const struct {
		struct nvme_tcp_ch ch;
		bool hdgst, ddgst;
		uint16_t fes;
		uint32_t fei;
	} cases[] = {
		{{.type = 8, .hlen = 24, .plen = 24}, .fes = 1, .fei = 0},
		{{.type = 255, .hlen = 24, .plen = 24}, .fes = 1, .fei = 0},
		{{.type = NVME_TCP_ICREQ, .hlen = 128, .plen = 128}, .fes = 2}, /* not taken now */
		{{.type = NVME_TCP_CMD, .hlen = 71, .plen = 72}, .fes = 1, .fei = 2},
		{{.type = NVME_TCP_CMD, .hlen = 73, .plen = 73}, .fes = 1, .fei = 2},
		{{.type = NVME_TCP_CMD, .hlen = 72, .plen = 71}, .fes = 1, .fei = 4},
		{{.type = NVME_TCP_CMD, .hlen = 72, .plen = 0}, .fes = 1, .fei = 4},
		{{.type = NVME_TCP_CMD, .hlen = 72, .plen = 72}, .hdgst = true, .fes = 1, .fei = 4},
		{{.type = NVME_TCP_CMD, .hlen = 72, .plen = 76}, .hdgst = true, .fes = 1, .fei = 1},
		{{.type = NVME_TCP_CMD, .flags = 1, .hlen = 72, .plen = 76}, .fes = 1, .fei = 1},
		{{.type = NVME_TCP_CMD, .flags = 2, .hlen = 72, .plen = 76}, .fes = 1, .fei = 1},
		/* Data: where they begin, how long they are. */
		{{.type = NVME_TCP_CMD, .hlen = 72, .pdo = 0, .plen = 76}, .fes = 1, .fei = 3},
		{{.type = NVME_TCP_CMD, .hlen = 72, .pdo = 68, .plen = 76}, .fes = 1, .fei = 3},
		{{.type = NVME_TCP_CMD, .hlen = 72, .pdo = 73, .plen = 76}, .fes = 1, .fei = 3},
		{{.type = NVME_TCP_CMD, .hlen = 72, .pdo = 76, .plen = 76}, .fes = 1, .fei = 4},
		{{.type = NVME_TCP_CMD, .hlen = 72, .pdo = 252, .plen = 76}, .fes = 1, .fei = 4},
		{{.type = NVME_TCP_CMD, .hlen = 72, .pdo = 72, .plen = 72 + 8193}, .fes = 5},
		{{.type = NVME_TCP_CMD, .hlen = 72, .pdo = 72, .plen = 0xffffffff}, .fes = 5},
		{{.type = NVME_TCP_CMD, .hlen = 72, .pdo = 72, .plen = 80},
		 .ddgst = true,
		 .fes = 1,
		 .fei = 1},
		{{.type = NVME_TCP_CMD, .flags = 2, .hlen = 72, .pdo = 72, .plen = 76},
		 .ddgst = true,
		 .fes = 1,
		 .fei = 4},
		{{.type = NVME_TCP_H2C_DATA, .hlen = 24, .plen = 24}, .fes = 1, .fei = 4},
		{{.type = NVME_TCP_R2T, .hlen = 24, .pdo = 24, .plen = 28}, .fes = 1, .fei = 4},
		{{.type = NVME_TCP_H2C_TERM, .hlen = 24, .plen = 23}, .fes = 1, .fei = 4},
		/* It has the headers of one PDU at most. */
		{{.type = NVME_TCP_H2C_TERM, .hlen = 24, .plen = 24 + 129}, .fes = 1, .fei = 4},
		{{.type = NVME_TCP_C2H_TERM, .hlen = 24, .plen = 0xffffffff}, .fes = 1, .fei = 4},
	};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(cases); i++) {
		uint8_t bytes[128] = {0};
		struct wcursor w = wcursor_init(bytes, 8);
		struct tcp_rx rx;

		tcp_rx_init(&rx, ALL & ~TCP_RX_TAKES(NVME_TCP_ICREQ), 8192);
		rx.hdgst = cases[i].hdgst;
		rx.ddgst = cases[i].ddgst;
		nvme_tcp_ch_put(&w, &cases[i].ch);
		bad(&rx, bytes, 8, cases[i].fes, cases[i].fei);
	}
}

static void the_headers_of_any_pdu_fit_a_terminate_request(void **state)
{
	const struct nvme_tcp_ch ch = {.type = NVME_TCP_C2H_TERM, .hlen = 24, .plen = 24 + 128};
	uint8_t bytes[24 + 128] = {0};
	const uint8_t *p = bytes;
	struct wcursor w = wcursor_init(bytes, 8);
	struct tcp_rx rx;

	(void)state;
	tcp_rx_init(&rx, ALL, UINT32_MAX);
	nvme_tcp_ch_put(&w, &ch);
	assert_int_equal(tcp_rx_eat(&rx, &p, bytes + sizeof(bytes)), TCP_RX_HEADER);
	assert_int_equal(tcp_rx_eat(&rx, &p, bytes + sizeof(bytes)), TCP_RX_PDU);
}

static void data_begin_where_they_were_asked_to(void **state)
{
	const struct nvme_tcp_ch ch = {.type = NVME_TCP_CMD, .hlen = 72, .pdo = 72, .plen = 80};
	uint8_t bytes[8];
	struct wcursor w = wcursor_init(bytes, 8);
	struct tcp_rx rx;

	(void)state;
	tcp_rx_init(&rx, ALL, 8192);
	rx.pda = 3; /* 16 bytes */
	nvme_tcp_ch_put(&w, &ch);
	bad(&rx, bytes, 8, NVME_TCP_FES_HEADER_FIELD, NVME_TCP_CH_PDO);
}

static void any_flipped_bit_of_a_header_is_found(void **state)
{
	(void)state;
	for (unsigned bit = 0; bit < 28 * 8; bit++) {
		struct tcp_tx tx;
		struct tcp_rx rx;
		const uint8_t *p = stream;
		enum tcp_rx_event e = TCP_RX_MORE;

		tcp_tx_init(&tx);
		tcp_rx_init(&rx, ALL, 4096);
		tx.hdgst = rx.hdgst = true;
		build(&tx);
		gather(&tx, 4096);
		stream[bit / 8] ^= (uint8_t)(1u << bit % 8);
		e = tcp_rx_eat(&rx, &p, stream + 28);
		/* A length that is another one may be that of a PDU that has not come whole. */
		assert_true(e == TCP_RX_BAD || e == TCP_RX_MORE);
		if (bit / 8 >= 8) {
			assert_int_equal(e, TCP_RX_BAD);
			assert_int_equal(rx.fes, NVME_TCP_FES_HEADER_DIGEST);
			assert_int_equal(rx.fei, ld_le32(stream + 24));
		}
	}
}

static void damaged_data_are_told_of_and_the_stream_goes_on(void **state)
{
	struct tcp_tx tx;
	struct tcp_rx rx;
	const uint8_t *p = stream;
	unsigned damaged = 0, pdus = 0;

	(void)state;
	tcp_tx_init(&tx);
	tcp_rx_init(&rx, ALL, 4096);
	tx.ddgst = rx.ddgst = true;
	build(&tx);
	gather(&tx, 4096);
	stream[24 + 24 + 700] ^= 0x10;
	for (enum tcp_rx_event e; (e = tcp_rx_eat(&rx, &p, stream + stream_len)) != TCP_RX_MORE;) {
		assert_int_not_equal(e, TCP_RX_BAD);
		if (e == TCP_RX_HEADER && rx.data_len)
			tcp_rx_place(&rx, place);
		pdus += e == TCP_RX_PDU;
		damaged += e == TCP_RX_PDU && !rx.data_fine;
	}
	assert_int_equal(pdus, 3);
	assert_int_equal(damaged, 1);
}

/* --- the line ----------------------------------------------------------------------------------
 */

static struct tcp_tx line;
static unsigned sent_count, again;

static void count_sent(struct tcp_out *o)
{
	sent_count++;
	if (!again)
		return;
	again--;
	tcp_tx_push(&line, o); /* behind the others */
}

static void who_is_sent_is_told_and_may_go_again(void **state)
{
	struct tcp_out outs[3];

	(void)state;
	tcp_tx_init(&line);
	for (unsigned i = 0; i < 3; i++) {
		struct wcursor w;

		tcp_out_init(&outs[i], count_sent);
		w = tcp_out_pdu(&outs[i], &line, NVME_TCP_RESP, 0, 0);
		memset(wcursor_take(&w, 16), (int)i, 16);
		tcp_out_pdu_end(&outs[i]);
		tcp_tx_push(&line, &outs[i]);
	}
	assert_int_equal(line.bytes, 72);
	tcp_tx_sent(&line, 23);
	assert_int_equal(sent_count, 0);
	again = 1;
	tcp_tx_sent(&line, 1);
	assert_int_equal(sent_count, 1);
	assert_int_equal(line.bytes, 72);
	gather(&line, 1000);
	assert_int_equal(sent_count, 4);
	assert_int_equal(stream[8], 1);
	assert_int_equal(stream[24 + 8], 2);
	assert_int_equal(stream[48 + 8], 0);
	tcp_tx_push(&line, &outs[0]);
	tcp_tx_drop(&line);
	assert_int_equal(sent_count, 4);
	assert_false(tcp_out_waits(&outs[0]));
	assert_int_equal(line.bytes, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_sent_comes_however_it_is_cut),
		cmocka_unit_test(room_is_for_what_comes),
		cmocka_unit_test(the_bytes_are_those_of_the_standard),
		cmocka_unit_test(a_common_header_that_is_wrong_is_told_by_its_field),
		cmocka_unit_test(the_headers_of_any_pdu_fit_a_terminate_request),
		cmocka_unit_test(data_begin_where_they_were_asked_to),
		cmocka_unit_test(any_flipped_bit_of_a_header_is_found),
		cmocka_unit_test(damaged_data_are_told_of_and_the_stream_goes_on),
		cmocka_unit_test(who_is_sent_is_told_and_may_go_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
