/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* FPDUs into a stream and out of it, however the stream is cut. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/bytes.h"
#include "base/compiler.h"
#include "rnic/iwarp/fpdu_in.h"
#include "rnic/iwarp/fpdu_out.h"
#include "wire/crc32c.h"

#define STREAM_MAX (4u << 20)
#define FPDUS	   60

static uint8_t stream[STREAM_MAX], data[70000];
static size_t stream_len;
static unsigned allocated;
static bool no_memory;

static void *take_memory(void *ctx, size_t size)
{
	(void)ctx;
	if (no_memory)
		return NULL;
	allocated++;
	return calloc(1, size);
}

static void give_memory(void *ctx, void *p)
{
	(void)ctx;
	allocated--;
	free(p);
}

static const struct rnic_ops ops = {.alloc = take_memory, .free = give_memory};

/* --- out -------------------------------------------------------------------------------------- */

static uint32_t seed;

static uint32_t any(uint32_t below)
{
	seed = seed * 1664525 + 1013904223;
	return (seed >> 8) % below;
}

/* Each FPDU's payload tells which it is and how long. */
struct sent {
	size_t hdr, payload;
} sent[FPDUS];

static const uint8_t *bytes_of(unsigned i)
{
	return data + i;
}

static void append(const struct fpdu_batch *b)
{
	size_t begin = stream_len;

	for (size_t i = 0; i < b->iovs; i++) {
		assert_true(stream_len + b->iov[i].iov_len <= STREAM_MAX);
		memcpy(stream + stream_len, b->iov[i].iov_base, b->iov[i].iov_len);
		stream_len += b->iov[i].iov_len;
	}
	assert_int_equal(stream_len - begin, b->bytes);
}

static void send_all(bool crc, bool markers, unsigned n)
{
	struct fpdu_out out = {.crc = crc, .markers = markers};
	struct iovec iov[400];
	uint8_t room[4096];

	stream_len = 0;
	for (unsigned i = 0; i < n;) {
		struct fpdu_batch b = {.iov = iov,
				       .iovs_max = ARRAY_SIZE(iov),
				       .room = room,
				       .room_max = sizeof(room)};

		for (; i < n; i++) {
			const uint8_t *p = bytes_of(i);
			size_t cut = any((uint32_t)sent[i].payload + 1);
			const struct iovec v[] = {
				{(void *)(p + sent[i].hdr), cut},
				{(void *)(p + sent[i].hdr + cut), sent[i].payload - cut},
			};

			if (!fpdu_out_put(&out, &b, p, sent[i].hdr, v, 2))
				break;
		}
		assert_true(b.iovs > 0);
		append(&b);
	}
	assert_int_equal(out.at, stream_len);
}

/* --- in --------------------------------------------------------------------------------------- */

static unsigned taken;
static int refuse_at = -1;

static int take(void *ctx, const uint8_t *ulpdu, size_t len)
{
	(void)ctx;
	assert_int_equal(len, sent[taken].hdr + sent[taken].payload);
	assert_memory_equal(ulpdu, bytes_of(taken), len);
	if ((int)taken == refuse_at)
		return DDP_TERM_STAG;
	taken++;
	return 0;
}

static int receive_all(bool crc, bool markers, uint32_t most)
{
	struct fpdu_in in;
	int rc = 0;

	taken = 0;
	fpdu_in_init(&in, crc, markers, &ops, NULL);
	for (size_t at = 0, n; at < stream_len && !rc; at += n) {
		n = min_of(stream_len - at, (size_t)1 + any(most));
		rc = fpdu_in_feed(&in, stream + at, n, take, NULL);
	}
	if (!rc)
		assert_false(fpdu_in_midst(&in));
	fpdu_in_end(&in);
	assert_int_equal(allocated, 0);
	return rc;
}

static void some_lengths(uint32_t most)
{
	for (unsigned i = 0; i < FPDUS; i++)
		sent[i] = (struct sent){any(FPDU_HEADERS_MAX + 1), any(most)};
}

static void what_goes_in_comes_out(void **state)
{
	static const uint32_t cuts[] = {1, 2, 7, 600, 5000, 200000};

	(void)state;
	for (unsigned i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(any(256));
	for (seed = 1; seed < 200; seed++) {
		bool crc = seed & 1, markers = seed & 2;
		uint32_t was = seed;

		some_lengths(was % 7 == 0 ? 65000 - FPDU_HEADERS_MAX : 1500);
		send_all(crc, markers, FPDUS);
		for (unsigned i = 0; i < ARRAY_SIZE(cuts); i++) {
			if (cuts[i] < 600 && stream_len > 200000)
				continue;
			assert_int_equal(receive_all(crc, markers, cuts[i]), 0);
			assert_int_equal(taken, FPDUS);
		}
		seed = was;
	}
}

/* Of all lengths, so that markers come to stand before, in and behind each part. */
static void markers_may_stand_anywhere(void **state)
{
	(void)state;
	for (size_t n = 0; n < 1200; n++) {
		for (unsigned i = 0; i < FPDUS; i++)
			sent[i] = (struct sent){n < DDP_HDR_MAX ? n : DDP_HDR_MAX,
						n < DDP_HDR_MAX ? 0 : n - DDP_HDR_MAX};
		send_all(true, true, FPDUS);
		assert_int_equal(receive_all(true, true, 3000), 0);
		assert_int_equal(taken, FPDUS);
		for (size_t at = 0; at < stream_len; at += MPA_MARKER_SPACING)
			assert_int_equal(ld_be16(stream + at), 0);
	}
}

/* Whichever byte of an FPDU is another: nothing of it is seen. */
static void a_wrong_byte_is_noticed(void **state)
{
	(void)state;
	for (unsigned markers = 0; markers < 2; markers++) {
		size_t second;

		sent[0] = (struct sent){18, 600};
		send_all(true, markers, 1);
		second = stream_len;
		sent[1] = (struct sent){18, 1000};
		send_all(true, markers, 2);
		for (size_t at = second; at < stream_len; at++) {
			/* A length that is another has other bytes for its CRC; what then is
			 * missing may not come at all. */
			bool length = at < second + 2 + (markers ? MPA_MARKER_LEN : 0);
			int rc;

			stream[at] ^= 0x10;
			if (!length) {
				rc = receive_all(true, markers, 300);
				assert_int_equal(rc, MPA_TERM_CRC);
				assert_int_equal(taken, 1);
			}
			stream[at] ^= 0x10;
		}
	}
}

/* Where no CRC is agreed on, the markers are still what they are to be. */
static void a_wrong_marker_is_noticed(void **state)
{
	(void)state;
	sent[0] = (struct sent){18, 600};
	for (size_t at = 0; at < 1024; at += MPA_MARKER_SPACING) {
		send_all(false, true, 1);
		stream[at + 3] ^= 4;
		assert_int_equal(receive_all(false, true, 300),
				 at < stream_len ? MPA_TERM_MARKER : 0);
	}
}

static void who_takes_may_refuse(void **state)
{
	(void)state;
	some_lengths(500);
	send_all(true, false, FPDUS);
	refuse_at = 7;
	assert_int_equal(receive_all(true, false, 100), DDP_TERM_STAG);
	assert_int_equal(taken, 7);
	assert_int_equal(receive_all(true, false, STREAM_MAX), DDP_TERM_STAG);
	assert_int_equal(taken, 7);
	refuse_at = -1;
}

static void without_memory_the_stream_ends(void **state)
{
	(void)state;
	some_lengths(500);
	send_all(true, true, FPDUS);
	no_memory = true;
	assert_int_equal(receive_all(true, true, 10), MPA_TERM_LOCAL);
	assert_int_equal(receive_all(true, true, STREAM_MAX), MPA_TERM_LOCAL);
	no_memory = false;
}

/* Without markers and cuts nothing is copied. */
static void what_comes_whole_is_taken_from_where_it_lies(void **state)
{
	(void)state;
	some_lengths(500);
	send_all(true, false, FPDUS);
	no_memory = true;
	assert_int_equal(receive_all(true, false, UINT32_MAX), 0);
	assert_int_equal(taken, FPDUS);
	no_memory = false;
}

/* The longest there can be, of a peer's that does not keep to 64768 bytes. */
static void the_longest_fits(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 4; i++)
		sent[i] = (struct sent){18, UINT16_MAX - 18 - i};
	send_all(true, false, 4);
	assert_int_equal(receive_all(true, false, 70000), 0);
	assert_int_equal(taken, 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_goes_in_comes_out),
		cmocka_unit_test(markers_may_stand_anywhere),
		cmocka_unit_test(a_wrong_byte_is_noticed),
		cmocka_unit_test(a_wrong_marker_is_noticed),
		cmocka_unit_test(who_takes_may_refuse),
		cmocka_unit_test(without_memory_the_stream_ends),
		cmocka_unit_test(what_comes_whole_is_taken_from_where_it_lies),
		cmocka_unit_test(the_longest_fits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
