/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The headers of NVMe/TCP, byte for byte. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <string.h>
#include <cmocka.h>

#include "base/compiler.h"
#include "wire/crc32c.h"
#include "wire/nvme_tcp.h"

static uint8_t out[NVME_TCP_HLEN_MAX];

/* The bytes that are said and zeroes behind them are what was written, up to `len`. */
static void wrote(const struct wcursor *w, size_t len, const uint8_t *bytes, size_t said)
{
	uint8_t want[NVME_TCP_HLEN_MAX] = {0};

	assert_false(w->overrun);
	assert_int_equal(w->p - out, len);
	memcpy(want, bytes, said);
	assert_memory_equal(out, want, len);
}

#define BYTES(...) (const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__})

#define put(prefix, ...)                                            \
	({                                                          \
		struct wcursor w_ = wcursor_init(out, sizeof(out)); \
		struct prefix s_ = __VA_ARGS__;                     \
		prefix##_put(&w_, &s_);                             \
		w_;                                                 \
	})
#define get(prefix, len)                                  \
	({                                                \
		struct cursor c_ = cursor_init(out, len); \
		struct prefix s_;                         \
		prefix##_get(&c_, &s_);                   \
		assert_false(c_.overrun);                 \
		assert_int_equal(cursor_left(&c_), 0);    \
		s_;                                       \
	})

static void headers_are_little_endian_and_zero_where_reserved(void **state)
{
	struct wcursor w;

	(void)state;
	w = put(nvme_tcp_ch, {.type = 4, .flags = 3, .hlen = 72, .pdo = 76, .plen = 0x12345678});
	wrote(&w, 8, BYTES(0x04, 0x03, 0x48, 0x4c, 0x78, 0x56, 0x34, 0x12));
	assert_int_equal(get(nvme_tcp_ch, 8).plen, 0x12345678);
	w = put(nvme_tcp_icreq, {.pfv = 0x102, .hpda = 5, .dgst = 3, .maxr2t = 0x0a0b0c0d});
	wrote(&w, 120, BYTES(0x02, 0x01, 0x05, 0x03, 0x0d, 0x0c, 0x0b, 0x0a));
	assert_int_equal(get(nvme_tcp_icreq, 120).maxr2t, 0x0a0b0c0d);
	w = put(nvme_tcp_icresp, {.pfv = 0x102, .cpda = 31, .dgst = 2, .maxh2cdata = 0x00400000});
	wrote(&w, 120, BYTES(0x02, 0x01, 0x1f, 0x02, 0x00, 0x00, 0x40));
	assert_int_equal(get(nvme_tcp_icresp, 120).maxh2cdata, 4 << 20);
	/* The error's information begins at byte 10 of the PDU, not on a dword. */
	w = put(nvme_tcp_term, {.fes = 4, .fei = 0x0a0b0c0d});
	wrote(&w, 16, BYTES(0x04, 0x00, 0x0d, 0x0c, 0x0b, 0x0a));
	assert_int_equal(get(nvme_tcp_term, 16).fei, 0x0a0b0c0d);
	w = put(nvme_tcp_data, {.cccid = 0x1122, .ttag = 0x3344, .datao = 0x1000, .datal = 0x200});
	wrote(&w, 16, BYTES(0x22, 0x11, 0x44, 0x33, 0, 0x10, 0, 0, 0, 0x02));
	assert_int_equal(get(nvme_tcp_data, 16).ttag, 0x3344);
	w = put(nvme_tcp_r2t, {.cccid = 0x1122, .ttag = 0x3344, .r2to = 0x1000, .r2tl = 0x200});
	wrote(&w, 16, BYTES(0x22, 0x11, 0x44, 0x33, 0, 0x10, 0, 0, 0, 0x02));
	assert_int_equal(get(nvme_tcp_r2t, 16).r2tl, 0x200);
}

static void types_have_their_lengths(void **state)
{
	static const uint8_t hlens[] = {128, 128, 24, 24, 72, 24, 24, 24, 0, 24};

	(void)state;
	for (unsigned i = 0; i < 256; i++)
		assert_int_equal(nvme_tcp_hlen((uint8_t)i), i < sizeof(hlens) ? hlens[i] : 0);
	assert_true(nvme_tcp_has_data(NVME_TCP_CMD));
	assert_true(nvme_tcp_has_data(NVME_TCP_C2H_TERM));
	assert_false(nvme_tcp_has_data(NVME_TCP_R2T));
	assert_false(nvme_tcp_has_data(255));
}

static void data_begin_where_the_other_side_wants_them(void **state)
{
	(void)state;
	assert_int_equal(nvme_tcp_pdo(72, false, 0), 72);
	assert_int_equal(nvme_tcp_pdo(72, true, 0), 76);
	assert_int_equal(nvme_tcp_pdo(24, true, 1), 32);
	assert_int_equal(nvme_tcp_pdo(24, false, 15), 64);
	assert_int_equal(nvme_tcp_pdo(72, true, 15), 128);
	assert_int_equal(nvme_tcp_pdo(72, false, NVME_TCP_PDA_MAX), 128);
	assert_int_equal(nvme_tcp_pdo(24, true, 4), 40); /* 20 bytes are a unit, too */
	assert_int_equal(nvme_tcp_pdo(72, true, 17), NVME_TCP_PDO_MAX);
	for (uint8_t pda = 0; pda <= NVME_TCP_PDA_MAX; pda++)
		for (unsigned hdgst = 0; hdgst < 2; hdgst++) {
			assert_in_range(nvme_tcp_pdo(72, hdgst, pda), 72, NVME_TCP_PDO_MAX);
			assert_in_range(nvme_tcp_pdo(24, hdgst, pda), 24, NVME_TCP_PDO_MAX);
		}
}

/* RFC 3720 B.4. */
static void digests_are_crc32c(void **state)
{
	static const uint8_t zeroes[32];
	uint8_t ones[32], up[32];
	uint32_t crc = CRC32C_BEGIN;

	(void)state;
	memset(ones, 0xff, sizeof(ones));
	for (unsigned i = 0; i < sizeof(up); i++)
		up[i] = (uint8_t)i;
	assert_int_equal(crc32c(zeroes, 32), 0x8a9136aa);
	assert_int_equal(crc32c(ones, 32), 0x62a8ab43);
	assert_int_equal(crc32c(up, 32), 0x46dd794e);
	assert_int_equal(crc32c("123456789", 9), 0xe3069283);
	crc = crc32c_more(crc, up, 7);
	crc = crc32c_more(crc, up + 7, 0);
	crc = crc32c_more(crc, up + 7, 25);
	assert_int_equal(crc32c_end(crc), 0x46dd794e);
}

static void reasons_have_names(void **state)
{
	(void)state;
	for (uint16_t fes = 0; fes < 8; fes++)
		assert_int_equal(strcmp(nvme_tcp_fes_name(fes), "unknown reason") == 0,
				 fes < NVME_TCP_FES_HEADER_FIELD || fes > NVME_TCP_FES_UNSUPPORTED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(headers_are_little_endian_and_zero_where_reserved),
		cmocka_unit_test(types_have_their_lengths),
		cmocka_unit_test(data_begin_where_the_other_side_wants_them),
		cmocka_unit_test(digests_are_crc32c),
		cmocka_unit_test(reasons_have_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
