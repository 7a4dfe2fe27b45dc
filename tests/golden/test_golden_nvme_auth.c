/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * How Linux's host and nvmet proved to each other who they are (DH-HMAC-CHAP), over NVMe/TCP: each
 * message decoded, and encoded to the same bytes. Argument: pcap files.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdbool.h>
#include <string.h>

#include "base/compiler.h"
#include "base/cursor.h"
#include "nvme_tcp_pdus.h"
#include "wire/nvme.h"
#include "wire/nvme_auth.h"
#include "wire/nvme_fabrics.h"

/* So that the test cannot pass by having seen nothing. */
static unsigned seen[256];

static void check_message(const uint8_t *p, size_t len)
{
	uint8_t out[NVMF_AUTH_MESSAGE_MAX];
	struct cursor c = cursor_init(p, len);
	struct wcursor w = wcursor_init(out, sizeof(out));
	struct nvmf_auth_head head;

	nvmf_auth_head_peek(&c, &head);
	if (head.type == NVMF_AUTH_COMMON && head.id == NVMF_AUTH_NEGOTIATE) {
		struct nvmf_auth_negotiate m;

		nvmf_auth_negotiate_get(&c, &m);
		nvmf_auth_negotiate_put(&w, &m);
		assert_true(m.dhchap);
		assert_int_equal(m.napd, 1);
		assert_int_equal(m.sc_c, NVMF_AUTH_NOSC);
		assert_int_equal(m.halen, 3);
		assert_int_equal(m.dhlen, 6);
	} else if (head.id == NVMF_AUTH_CHALLENGE) {
		struct nvmf_auth_challenge m;

		nvmf_auth_challenge_get(&c, &m);
		nvmf_auth_challenge_put(&w, &m);
		assert_true(m.seqnum != 0);
	} else if (head.id == NVMF_AUTH_REPLY) {
		struct nvmf_auth_reply m;

		nvmf_auth_reply_get(&c, &m);
		nvmf_auth_reply_put(&w, &m);
		assert_true(m.cvalid &&
			    m.seqnum != 0); /* the controller has to prove itself, too */
	} else if (head.id == NVMF_AUTH_SUCCESS1) {
		struct nvmf_auth_success1 m;

		nvmf_auth_success1_get(&c, &m);
		nvmf_auth_success1_put(&w, &m);
		assert_true(m.rvalid);
	} else if (head.id == NVMF_AUTH_SUCCESS2) {
		nvmf_auth_success2_put(&w, head.t_id);
	} else {
		fail_msg("a message of type %u, %u", head.type, head.id);
	}
	assert_false(c.overrun || w.overrun);
	/* What is received has the room that was asked for; what is sent ends where it ends. */
	assert_true((size_t)(w.p - out) <= len);
	assert_memory_equal(out, p, (size_t)(w.p - out));
	for (size_t i = (size_t)(w.p - out); i < len; i++)
		assert_int_equal(p[i], 0);
	seen[head.id]++;
}

/* Command IDs, by connection, of which what is received is a message. */
static struct asked {
	uint32_t connection;
	uint16_t cid;
} asked[1024];
static unsigned asked_count;

static bool was_asked(uint32_t connection, uint16_t cid)
{
	for (unsigned i = 0; i < asked_count; i++)
		if (asked[i].connection == connection && asked[i].cid == cid)
			return true;
	return false;
}

static void take(const struct tcp_stream *s, const uint8_t *p, const struct nvme_tcp_ch *ch)
{
	struct cursor c = cursor_init(p, ch->plen);
	struct nvmf_auth_cmd a;
	struct nvme_tcp_ch again;
	struct nvme_sqe sqe;
	uint8_t fctype;

	nvme_tcp_ch_get(&c, &again);
	nvme_sqe_get(&c, &sqe);
	if (sqe.opcode != NVME_FABRICS)
		return;
	fctype = nvmf_fctype(&sqe);
	if (fctype != NVMF_AUTH_SEND && fctype != NVMF_AUTH_RECV)
		return;
	nvmf_auth_cmd_from_sqe(&a, &sqe);
	assert_int_equal(a.secp, NVMF_AUTH_SECP);
	assert_int_equal(a.spsp0, NVMF_AUTH_SPSP);
	assert_int_equal(a.spsp1, NVMF_AUTH_SPSP);
	if (fctype == NVMF_AUTH_SEND) {
		assert_int_equal(a.len, ch->plen - ch->pdo);
		check_message(p + ch->pdo, a.len);
	} else {
		assert_true(asked_count < ARRAY_SIZE(asked));
		asked[asked_count++] = (struct asked){s->connection, sqe.cid};
	}
}

static void give(const struct tcp_stream *s, const uint8_t *p, const struct nvme_tcp_ch *ch)
{
	struct cursor c = cursor_init(p, ch->plen);
	struct nvme_tcp_ch again;
	struct nvme_tcp_data data;

	nvme_tcp_ch_get(&c, &again);
	nvme_tcp_data_get(&c, &data);
	/* The same ID is another command's later on. */
	if (was_asked(s->connection, data.cccid) && p[ch->pdo] == NVMF_AUTH_DHCHAP &&
	    (p[ch->pdo + 1] == NVMF_AUTH_CHALLENGE || p[ch->pdo + 1] == NVMF_AUTH_SUCCESS1))
		check_message(p + ch->pdo, data.datal);
}

static void check_pdu(const struct tcp_stream *s, const uint8_t *p, const struct nvme_tcp_ch *ch)
{
	if (s->from_client && ch->type == NVME_TCP_CMD)
		take(s, p, ch);
	else if (!s->from_client && ch->type == NVME_TCP_C2H_DATA)
		give(s, p, ch);
}

static void every_message_encodes_to_what_it_was_decoded_from(void **state)
{
	(void)state;
	nvme_tcp_each_pdu(check_pdu);
}

static void the_capture_held_every_kind(void **state)
{
	(void)state;
	assert_true(seen[NVMF_AUTH_NEGOTIATE] >= 2 && seen[NVMF_AUTH_CHALLENGE] >= 2);
	assert_true(seen[NVMF_AUTH_REPLY] >= 2 && seen[NVMF_AUTH_SUCCESS1] >= 2);
	assert_true(seen[NVMF_AUTH_SUCCESS2] >= 2);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_message_encodes_to_what_it_was_decoded_from),
		cmocka_unit_test(the_capture_held_every_kind),
	};

	for (int i = 1; i < argc; i++)
		tcp_streams_read(argv[i]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
