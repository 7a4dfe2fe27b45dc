/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The PDUs that Linux's nvme-tcp and nvmet-tcp sent each other, header and data digests included:
 * decoded, they encode to the same bytes, and every digest is what we compute.
 * Arguments: pcap files, or --optional for those of the directory that WEFT_CAPTURES names.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <glob.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cursor.h"
#include "nvme_tcp_pdus.h"
#include "wire/crc32c.h"
#include "wire/nvme.h"

#define SKIPPED 77

/* So that the test cannot pass by having seen nothing. */
static unsigned seen[NVME_TCP_R2T + 1], header_digests, data_digests, in_capsule;

/* --- PDUs --------------------------------------------------------------------------------------
 */

static uint8_t out[NVME_TCP_HLEN_MAX];

#define round_trip(prefix, ret)        \
	do {                           \
		prefix##_get(&c, ret); \
		prefix##_put(&w, ret); \
	} while (0)

static void check_header(const uint8_t *p, const struct nvme_tcp_ch *ch)
{
	struct cursor c = cursor_init(p, ch->hlen);
	struct wcursor w = wcursor_init(out, sizeof(out));
	struct nvme_tcp_ch again;
	struct nvme_tcp_icreq req;
	struct nvme_tcp_icresp resp;
	struct nvme_tcp_data data;
	struct nvme_tcp_r2t r2t;
	struct nvme_sqe sqe;
	struct nvme_cqe cqe;

	round_trip(nvme_tcp_ch, &again);
	switch (ch->type) {
	case NVME_TCP_ICREQ:
		round_trip(nvme_tcp_icreq, &req);
		assert_int_equal(req.pfv, 0);
		assert_int_equal(req.maxr2t, 0);
		break;
	case NVME_TCP_ICRESP:
		round_trip(nvme_tcp_icresp, &resp);
		assert_int_equal(resp.maxh2cdata, 4 << 20);
		break;
	case NVME_TCP_CMD:
		round_trip(nvme_sqe, &sqe);
		break;
	case NVME_TCP_RESP:
		round_trip(nvme_cqe, &cqe);
		break;
	case NVME_TCP_H2C_DATA:
	case NVME_TCP_C2H_DATA:
		round_trip(nvme_tcp_data, &data);
		assert_int_equal(data.datal,
				 ch->plen - ch->pdo -
					 (ch->flags & NVME_TCP_DDGST ? NVME_TCP_DIGEST_LEN : 0));
		break;
	case NVME_TCP_R2T:
		round_trip(nvme_tcp_r2t, &r2t);
		assert_true(r2t.r2tl > 0);
		break;
	default:
		fail_msg("PDU type %u", ch->type);
	}
	assert_false(c.overrun || w.overrun);
	assert_int_equal(cursor_left(&c), 0);
	assert_memory_equal(out, p, ch->hlen);
}

static void check_pdu(const struct tcp_stream *s, const uint8_t *p, const struct nvme_tcp_ch *ch)
{
	bool hdgst = ch->flags & NVME_TCP_HDGST, ddgst = ch->flags & NVME_TCP_DDGST;
	uint32_t headers = ch->hlen + (hdgst ? NVME_TCP_DIGEST_LEN : 0u);

	(void)s;
	assert_int_equal(ch->hlen, nvme_tcp_hlen(ch->type));
	check_header(p, ch);
	if (hdgst) {
		assert_int_equal(ld_le32(p + ch->hlen), crc32c(p, ch->hlen));
		header_digests++;
	}
	if (ch->plen > headers) {
		assert_true(nvme_tcp_has_data(ch->type));
		assert_int_equal(ch->pdo, nvme_tcp_pdo(ch->hlen, hdgst, 0));
		in_capsule += ch->type == NVME_TCP_CMD;
	}
	if (ddgst) {
		uint32_t end = ch->plen - NVME_TCP_DIGEST_LEN;

		assert_int_equal(ld_le32(p + end), crc32c(p + ch->pdo, end - ch->pdo));
		data_digests++;
	}
	seen[ch->type]++;
}

static void every_pdu_encodes_to_what_it_was_decoded_from(void **state)
{
	(void)state;
	nvme_tcp_each_pdu(check_pdu);
}

static void the_capture_held_every_kind(void **state)
{
	(void)state;
	assert_true(seen[NVME_TCP_ICREQ] >= 3 && seen[NVME_TCP_ICRESP] >= 3);
	assert_true(seen[NVME_TCP_CMD] > 30 && seen[NVME_TCP_RESP] > 30);
	assert_true(seen[NVME_TCP_H2C_DATA] >= 1 && seen[NVME_TCP_R2T] >= 1);
	assert_true(seen[NVME_TCP_C2H_DATA] > 5);
	assert_true(in_capsule > 5);
	assert_true(header_digests > 60 && data_digests > 10);
}

/* One after the other: ports come again. */
static int look_at(char **paths, size_t count)
{
	const struct CMUnitTest each[] = {
		cmocka_unit_test(every_pdu_encodes_to_what_it_was_decoded_from)};
	const struct CMUnitTest all[] = {cmocka_unit_test(the_capture_held_every_kind)};
	int failed = 0;

	for (size_t i = 0; i < count; i++) {
		tcp_streams_forget();
		tcp_streams_read(paths[i]);
		failed += cmocka_run_group_tests_name(paths[i], each, NULL, NULL);
	}
	return failed + cmocka_run_group_tests(all, NULL, NULL);
}

int main(int argc, char **argv)
{
	const char *elsewhere = getenv("WEFT_CAPTURES");
	char pattern[4096];
	glob_t found;
	int failed;

	if (argc != 2 || strcmp(argv[1], "--optional") != 0)
		return look_at(argv + 1, (size_t)argc - 1);
	if (!elsewhere) {
		puts("SKIP: WEFT_CAPTURES names no directory with the full set of captures");
		return SKIPPED;
	}
	snprintf(pattern, sizeof(pattern), "%s/*/tcp-nvme*.pcap", elsewhere);
	if (glob(pattern, 0, NULL, &found)) {
		printf("SKIP: WEFT_CAPTURES: no captures match %s\n", pattern);
		return SKIPPED;
	}
	failed = look_at(found.gl_pathv, found.gl_pathc);
	globfree(&found);
	return failed;
}
