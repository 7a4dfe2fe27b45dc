/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What the target makes of TLS: at which port who is heard, and whom a handshake lets be who. */
#include <stdio.h>
#include <string.h>

#include "nvmf/target/internal.h"
#include "tcp_bed.h"

#define IDENTITY "NVMe0R01 " HOSTNQN " " NQN

static char refused_for[128];

static void note(void *ctx, const struct target_event *e)
{
	(void)ctx;
	if (e->type == TARGET_EVENT_REJECTED)
		snprintf(refused_for, sizeof(refused_for), "%s", e->why);
}

static int set_up(void **state)
{
	int error = tcp_bed_set_up(state);

	bed.target.env.event = note;
	refused_for[0] = 0;
	return error;
}

/* The first byte of what is no PDU, or of what is. */
static bool is_heard(uint8_t first, enum target_tls tls)
{
	struct peer *p = peer_open();
	bool heard;

	target_port_secure(&bed.target, &bed.port, tls);
	refused_for[0] = 0;
	bed.tt->now_ns = bed.now_ns;
	assert_true(tcp_queue_wire(p->q, &first, 1));
	heard = p->q->state != TCP_QUEUE_DYING;
	peer_close(p);
	return heard;
}

static void the_first_byte_says_whether_a_host_is_heard(void **state)
{
	const uint8_t plain = NVME_TCP_ICREQ, tls = TCP_TLS_FIRST_BYTE;

	(void)state;
	assert_true(is_heard(plain, TARGET_TLS_NONE));
	assert_true(is_heard(plain, TARGET_TLS_OFFERED));
	assert_true(is_heard(tls, TARGET_TLS_OFFERED));
	assert_true(is_heard(tls, TARGET_TLS_REQUIRED));
	assert_string_equal(refused_for, "");
	assert_int_equal(bed.target.counters->connections_rejected, 0);
	assert_false(is_heard(plain, TARGET_TLS_REQUIRED));
	assert_string_equal(refused_for, "it does not speak TLS, and the port requires it");
	assert_false(is_heard(tls, TARGET_TLS_NONE));
	assert_string_equal(refused_for, "it speaks TLS, and the port does not");
	assert_int_equal(bed.target.counters->connections_rejected, 2);
}

/* A handshake that does not go on has the time that any host has until its Connect. */
static void a_handshake_that_dawdles_ends(void **state)
{
	static const uint8_t part[] = {TCP_TLS_FIRST_BYTE, 3, 1, 2, 0, 1, 0};
	struct peer *p = peer_open();

	(void)state;
	target_port_secure(&bed.target, &bed.port, TARGET_TLS_REQUIRED);
	for (size_t i = 0; i < sizeof(part); i++) {
		assert_true(tcp_queue_wire(p->q, &part[i], 1));
		bed.now_ns += NSEC_PER_SEC;
		peer_turn(p);
		assert_non_null(p->q);
	}
	bed.now_ns += TARGET_CONNECT_NS;
	target_tick(&bed.target, bed.now_ns);
	assert_int_equal(p->q->state, TCP_QUEUE_DYING);
	p->q = NULL;
	peer_close(p);
}

static void rubbish_in_place_of_a_handshake_is_refused_with_its_reason(void **state)
{
	static const uint8_t rubbish[] = {TCP_TLS_FIRST_BYTE, 3, 1, 0, 4, 1, 2, 3, 4};
	struct peer *p = peer_open();

	(void)state;
	target_port_secure(&bed.target, &bed.port, TARGET_TLS_REQUIRED);
	bed.tt->now_ns = bed.now_ns;
	assert_true(tcp_queue_wire(p->q, rubbish, sizeof(rubbish)));
	if (p->q->state != TCP_QUEUE_DYING)
		tcp_queue_cut(p->q);
	assert_int_equal(p->q->state, TCP_QUEUE_DYING);
	assert_int_equal(memcmp(refused_for, "TLS: ", 5), 0);
	p->q = NULL;
	peer_close(p);
}

/* --- whom it lets be who ------------------------------------------------------------------------
 */

static uint16_t connects(struct peer *p, uint16_t qid, uint16_t cntlid)
{
	static const struct nvme_tcp_icreq zeroes;

	peer_init(p, &zeroes);
	peer_connect_send(p, qid, cntlid, 0);
	return peer_response(p).status & NVME_STATUS_CODE;
}

static void a_host_is_who_the_handshake_has_proved_it_to_be(void **state)
{
	static const struct {
		const char *identity;
		uint16_t status;
	} cases[] = {
		{IDENTITY, NVME_SC_SUCCESS},
		{"NVMe1R02 " HOSTNQN " " NQN " x=", NVME_SC_SUCCESS},
		{"NVMe0R01 " HOSTNQN "0 " NQN, NVME_SC_CONNECT_INVALID_HOST},
		{"NVMe0R01 " HOSTNQN " " NQN "0", NVME_SC_CONNECT_INVALID_HOST},
		{"NVMe0R01 " HOSTNQN " " NVMF_DISCOVERY_NQN, NVME_SC_CONNECT_INVALID_HOST},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct peer *p = peer_open();

		assert_true(target_tls_proved(&p->q->tq, cases[i].identity));
		assert_int_equal(connects(p, 0, NVMF_CNTLID_DYNAMIC), cases[i].status);
		peer_close(p);
	}
}

/* Nor does one who has proved it have queues of one who has not. */
static void nobody_comes_beside_one_who_has_proved_who_he_is(void **state)
{
	(void)state;
	for (int secure = 0; secure < 2; secure++) {
		struct peer *admin, *io[2];
		uint16_t cntlid;

		admin = peer_open();
		if (secure)
			assert_true(target_tls_proved(&admin->q->tq, IDENTITY));
		assert_int_equal(connects(admin, 0, NVMF_CNTLID_DYNAMIC), NVME_SC_SUCCESS);
		cntlid = admin->q->tq.ctrl->cntlid;
		admin->q->tq.ctrl->csts |= NVME_CSTS_RDY;
		for (int i = 0; i < 2; i++) {
			io[i] = peer_open();
			if (i)
				assert_true(target_tls_proved(&io[i]->q->tq, IDENTITY));
			assert_int_equal(connects(io[i], 1, cntlid),
					 i == secure ? NVME_SC_SUCCESS
						     : NVME_SC_CONNECT_INVALID_HOST);
		}
		peer_close(io[0]);
		peer_close(io[1]);
		peer_close(admin);
	}
}

/* --- keys ---------------------------------------------------------------------------------------
 */

static struct auth_key key = {.hash = NVMF_AUTH_SHA256, .len = 32, .key = "k"};

static bool tls_key(void *ctx, const char *hostnqn, struct auth_key *ret)
{
	(void)ctx;
	*ret = key;
	return strcmp(hostnqn, HOSTNQN) == 0;
}

static void an_identity_is_known_if_the_key_of_its_host_makes_it(void **state)
{
	struct auth_psk psk, found;

	(void)state;
	assert_false(target_tls_find(&bed.target, IDENTITY, &found)); /* there are no keys */
	bed.target.env.tls_key = tls_key;
	for (unsigned int i = 0; i < 4; i++) {
		const struct auth_psk_way way = {.version = i & 1, .compat = i & 2};

		bed.target.env.tls_compat = way.compat;
		assert_true(auth_psk_derive(&key, way, HOSTNQN, NQN, &psk));
		assert_true(target_tls_find(&bed.target, psk.identity, &found));
		assert_int_equal(found.len, 32);
		assert_memory_equal(found.key, psk.key, 32);
		bed.target.env.tls_compat = !way.compat;
		/* In version 0 both have the same name, and other keys. */
		assert_int_equal(target_tls_find(&bed.target, psk.identity, &found), !way.version);
		assert_memory_not_equal(found.key, psk.key, 32);
	}
	assert_false(target_tls_find(&bed.target, "NVMe0R01 " HOSTNQN "0 " NQN, &found));
	assert_false(target_tls_find(&bed.target, "NVMe0R02 " HOSTNQN " " NQN, &found));
	assert_false(target_tls_find(&bed.target, "NVMe0G01 " HOSTNQN " " NQN, &found));
	assert_false(target_tls_find(&bed.target, "NVMe1R01 " HOSTNQN " " NQN " abc=", &found));
	assert_false(target_tls_find(&bed.target, "", &found));
}

#define BED_TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tcp_bed_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		BED_TEST(the_first_byte_says_whether_a_host_is_heard),
		BED_TEST(a_handshake_that_dawdles_ends),
		BED_TEST(rubbish_in_place_of_a_handshake_is_refused_with_its_reason),
		BED_TEST(a_host_is_who_the_handshake_has_proved_it_to_be),
		BED_TEST(nobody_comes_beside_one_who_has_proved_who_he_is),
		BED_TEST(an_identity_is_known_if_the_key_of_its_host_makes_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
