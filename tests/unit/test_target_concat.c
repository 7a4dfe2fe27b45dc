/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Secure channel concatenation, as the target does it: of which transactions a key of TLS comes,
 * who is let in by it, and for how long it is known.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "nvmf/target/internal.h"
#include "auth_player.h"

static int set_up(void **state)
{
	int error = player_set_up(state);

	p.offer.sc_c = NVMF_AUTH_NEWTLSPSK;
	target_port_secure(&p.bed->target, &p.bed->port, TARGET_TLS_OFFERED);
	return error;
}

static bool is_known(const struct auth_psk *psk)
{
	struct auth_psk found;
	bool known = target_tls_find(&p.bed->target, psk->identity, &found);

	assert_true(!known || (found.hash == psk->hash && found.len == psk->len &&
			       !memcmp(found.key, psk->key, sizeof(psk->key))));
	return known;
}

/* By TLS and p.psk; whether the controller demands another proof. */
static bool come_by_tls(struct bed_queue *q, uint16_t qid, uint16_t cntlid)
{
	struct bed_connect a = bed_connect_args(qid, cntlid);
	uint64_t result;

	bed_queue_open(p.bed, q, qid);
	assert_true(target_tls_proved(&q->tq, p.psk.identity));
	assert_int_equal(bed_connect(q, &a, &result), NVME_SC_SUCCESS);
	assert_int_equal(NVMF_CONNECT_ASCR(result), 0);
	return NVMF_CONNECT_ATR(result);
}

/* The whole way: the first connection ends when the second is about to come. */
static void concatenate(void)
{
	connect_admin();
	authenticate();
	bed_queue_close(p.q);
	assert_false(come_by_tls(p.q, 0, NVMF_CNTLID_DYNAMIC));
	assert_int_equal(bed_property_set(p.q, NVME_PROP_CC, EN), NVME_SC_SUCCESS);
}

static void pass(uint64_t ns)
{
	p.bed->now += ns;
	target_tick(&p.bed->target, p.bed->now);
}

/* --- the key ------------------------------------------------------------------------------------
 */

static void of_each_hash_and_group_that_gives_one_comes_a_key(void **state)
{
	(void)state;
	for (uint8_t hash = 1; hash <= 2; hash++)
		for (uint8_t g = 0; g <= NVMF_AUTH_DH_8192; g++) {
			p.host.hash = hash;
			p.host.dhgroup = g;
			p.mutual = (hash + g) % 2;
			connect_admin();
			authenticate();
			assert_int_equal(p.ch.hash, hash);
			assert_int_equal(p.ch.dhgroup, g ? g : NVMF_AUTH_DH_2048);
			assert_true(is_known(&p.psk));
			p.psk.identity[strlen(p.psk.identity) - 2] ^= 1;
			assert_false(is_known(&p.psk));
			bed_queue_close(p.q);
		}
	assert_int_equal(p.bed->target.counters->authentications, 12);
}

static void a_host_that_asks_for_proof_has_its_key_when_it_has_seen_it(void **state)
{
	(void)state;
	p.mutual = true;
	connect_admin();
	to_the_reply();
	send_reply();
	fetch_success1();
	assert_false(is_known(&p.psk));
	assert_int_equal(send_success2(), NVME_SC_SUCCESS);
	assert_true(is_known(&p.psk));
}

static void of_a_wrong_proof_comes_no_key(void **state)
{
	(void)state;
	connect_admin();
	to_the_reply_by(CTRL_KEY);
	send_reply();
	assert_fails_with(NVMF_AUTH_FAILED);
	assert_false(is_known(&p.psk));
}

/* Who answers as if no key were to come of it has seen another Negotiate than was sent. */
static void a_proof_is_of_the_channel_that_was_asked_for(void **state)
{
	(void)state;
	connect_admin();
	assert_int_equal(send_negotiate(), NVME_SC_SUCCESS);
	fetch_challenge();
	p.offer.sc_c = NVMF_AUTH_NOSC;
	make_reply(HOST_KEY, CTRL_KEY);
	send_reply();
	assert_fails_with(NVMF_AUTH_FAILED);
}

static void without_a_challenge_of_the_hosts_there_is_no_key(void **state)
{
	(void)state;
	p.keeps_c2 = true;
	connect_admin();
	to_the_reply();
	send_reply();
	assert_fails_with(NVMF_AUTH_FAILED);
	assert_false(is_known(&p.psk));
}

/* --- where there is none ------------------------------------------------------------------------
 */

static void fails_with(uint8_t explanation)
{
	connect_admin();
	assert_int_equal(send_negotiate(), NVME_SC_SUCCESS);
	assert_fails_with(explanation);
	bed_queue_close(p.q);
}

static void where_no_tls_can_follow_nothing_is_concatenated(void **state)
{
	static const enum target_tls kinds[] = {TARGET_TLS_NONE, TARGET_TLS_REQUIRED};

	(void)state;
	for (int i = 0; i < 2; i++) {
		target_port_secure(&p.bed->target, &p.bed->port, kinds[i]);
		fails_with(NVMF_AUTH_CONCAT_MISMATCH);
	}
}

static void what_is_no_new_key_is_not_for_a_plain_queue(void **state)
{
	static const uint8_t others[] = {1, NVMF_AUTH_REPLACETLSPSK, 4, 255};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
		p.offer.sc_c = others[i];
		fails_with(NVMF_AUTH_CONCAT_MISMATCH);
	}
}

static void the_null_group_and_sha_512_give_no_key(void **state)
{
	(void)state;
	p.offer.dhlen = 1;
	fails_with(NVMF_AUTH_CONCAT_MISMATCH);
	p.offer.dhgroups[0] = 77;
	fails_with(NVMF_AUTH_DHGROUP_UNUSABLE);
	p.offer.dhlen = 6;
	p.offer.halen = 1;
	p.offer.hashes[0] = NVMF_AUTH_SHA512;
	fails_with(NVMF_AUTH_HASH_UNUSABLE);
	p.offer.halen = 3;
	p.host.hash = NVMF_AUTH_SHA512;
	fails_with(NVMF_AUTH_HASH_UNUSABLE);
}

static void an_io_queue_concatenates_nothing(void **state)
{
	struct bed_connect a;

	(void)state;
	p.offer.sc_c = NVMF_AUTH_NOSC;
	connected_and_authenticated();
	a = bed_connect_args(1, p.q->tq.ctrl->cntlid);
	p.q = &p.bed->io;
	bed_queue_open(p.bed, p.q, 1);
	assert_int_equal(bed_connect(p.q, &a, NULL), NVME_SC_SUCCESS);
	p.offer.sc_c = NVMF_AUTH_NEWTLSPSK;
	assert_int_equal(send_negotiate(), NVME_SC_SUCCESS);
	assert_fails_with(NVMF_AUTH_CONCAT_MISMATCH);
}

/* --- afterwards ---------------------------------------------------------------------------------
 */

static void a_host_that_goes_on_without_tls_can_do_nothing(void **state)
{
	struct nvme_sqe s = bed_sqe(NVME_ADMIN_IDENTIFY, 0, 4096);

	(void)state;
	connect_admin();
	authenticate();
	s.cdw10 = NVME_CNS_CTRL;
	assert_int_equal(bed_exec(p.q, &s, NULL), STATUS(NVME_SC_AUTH_REQUIRED));
	assert_int_equal(bed_property_set(p.q, NVME_PROP_CC, EN), STATUS(NVME_SC_AUTH_REQUIRED));
	pass(AUTH_TIME);
	assert_true(p.q->disconnect_asked);
	assert_true(is_known(&p.psk));
}

static void one_that_was_let_in_before_is_not_any_more(void **state)
{
	(void)state;
	p.offer.sc_c = NVMF_AUTH_NOSC;
	connected_and_authenticated();
	p.offer.sc_c = NVMF_AUTH_NEWTLSPSK;
	authenticate();
	assert_int_equal(bed_property_set(p.q, NVME_PROP_CC, EN), STATUS(NVME_SC_AUTH_REQUIRED));
	pass(AUTH_TIME);
	assert_true(p.q->disconnect_asked);
}

static void who_is_to_come_by_tls_is_not_let_in_by_another_proof(void **state)
{
	(void)state;
	connect_admin();
	authenticate();
	p.offer.sc_c = NVMF_AUTH_NOSC;
	assert_int_equal(send_negotiate(), NVME_SC_SUCCESS);
	assert_fails_with(NVMF_AUTH_CONCAT_MISMATCH);
	assert_true(is_known(&p.psk));
}

static void keys_without_an_end_are_not_made_on_a_connection(void **state)
{
	(void)state;
	connect_admin();
	for (int i = 0; i < 4; i++)
		authenticate();
	assert_int_equal(send_negotiate(), NVME_SC_SUCCESS);
	assert_fails_with(NVMF_AUTH_FAILED);
}

static void by_its_key_a_host_comes_in_without_another_proof(void **state)
{
	(void)state;
	concatenate();
	assert_false(come_by_tls(&p.bed->io, 1, p.q->tq.ctrl->cntlid));
	assert_true(p.bed->io.tq.authenticated);
}

static void nobody_comes_beside_it_without_tls(void **state)
{
	struct bed_connect a;

	(void)state;
	concatenate();
	a = bed_connect_args(1, p.q->tq.ctrl->cntlid);
	bed_queue_open(p.bed, &p.bed->io, 1);
	assert_int_equal(bed_connect(&p.bed->io, &a, NULL), STATUS(NVME_SC_CONNECT_INVALID_HOST));
}

/* Whose key is a configured one has still to prove itself. */
static void a_key_that_was_configured_is_no_proof_of_the_other(void **state)
{
	(void)state;
	strcpy(p.psk.identity, "NVMe0R01 " BED_HOSTNQN " " BED_NQN);
	assert_true(come_by_tls(p.q, 0, NVMF_CNTLID_DYNAMIC));
	assert_int_equal(send_negotiate(), NVME_SC_SUCCESS);
	assert_fails_with(NVMF_AUTH_CONCAT_MISMATCH); /* it has a channel */
}

/* --- how long it is known -----------------------------------------------------------------------
 */

static void a_key_that_is_not_used_is_forgotten(void **state)
{
	(void)state;
	connect_admin();
	authenticate();
	bed_queue_close(p.q);
	pass(TARGET_PSK_NS - 1);
	assert_true(is_known(&p.psk));
	assert_int_equal(target_next_deadline(&p.bed->target), p.bed->now + 1);
	pass(1);
	assert_false(is_known(&p.psk));
	assert_false(target_tls_proved(&p.q->tq, p.psk.identity)); /* while hands were shaken */
	assert_false(p.q->tq.secure);
}

static void it_is_known_as_long_as_anybody_is_there_by_it(void **state)
{
	struct nvme_sqe alive = bed_sqe(NVME_ADMIN_KEEP_ALIVE, 0, 0);

	(void)state;
	concatenate();
	for (int i = 0; i < 40; i++) {
		pass(4 * NSEC_PER_SEC);
		assert_int_equal(bed_exec(p.q, &alive, NULL), NVME_SC_SUCCESS);
	}
	assert_true(is_known(&p.psk));
	(void)come_by_tls(&p.bed->io, 1, p.q->tq.ctrl->cntlid);
	bed_queue_close(&p.bed->io);
	assert_true(is_known(&p.psk));
	bed_queue_close(p.q);
	assert_false(is_known(&p.psk));
}

static void each_association_has_its_own(void **state)
{
	struct auth_psk first;

	(void)state;
	concatenate();
	first = p.psk;
	p.q = &p.bed->other;
	concatenate();
	assert_true(is_known(&first));
	assert_true(is_known(&p.psk));
	bed_queue_close(p.q);
	assert_true(is_known(&first));
	assert_false(is_known(&p.psk));
}

/* Nobody begins another by it, nor comes to another by it. */
static void it_is_of_one_association_alone(void **state)
{
	struct bed_connect a;
	struct auth_psk first;
	uint16_t cntlid;

	(void)state;
	concatenate();
	first = p.psk;
	bed_queue_open(p.bed, &p.bed->other, 0);
	assert_true(target_tls_proved(&p.bed->other.tq, first.identity));
	a = bed_connect_args(0, NVMF_CNTLID_DYNAMIC);
	assert_int_equal(bed_connect(&p.bed->other, &a, NULL),
			 STATUS(NVME_SC_CONNECT_INVALID_HOST));
	bed_queue_close(&p.bed->other);
	p.q = &p.bed->other;
	concatenate();
	cntlid = p.q->tq.ctrl->cntlid;
	bed_queue_open(p.bed, &p.bed->io, 1);
	assert_true(target_tls_proved(&p.bed->io.tq, first.identity));
	a = bed_connect_args(1, cntlid);
	assert_int_equal(bed_connect(&p.bed->io, &a, NULL), STATUS(NVME_SC_CONNECT_INVALID_HOST));
	bed_queue_close(&p.bed->io);
	assert_false(come_by_tls(&p.bed->io, 1, cntlid));
	/* What takes its place is of the same. */
	p.offer.sc_c = NVMF_AUTH_REPLACETLSPSK;
	authenticate();
	bed_queue_close(&p.bed->io);
	bed_queue_open(p.bed, &p.bed->io, 0);
	assert_true(target_tls_proved(&p.bed->io.tq, p.psk.identity));
	a = bed_connect_args(0, NVMF_CNTLID_DYNAMIC);
	assert_int_equal(bed_connect(&p.bed->io, &a, NULL), STATUS(NVME_SC_CONNECT_INVALID_HOST));
	bed_queue_close(&p.bed->io);
	bed_queue_close(p.q);
}

static void a_new_one_takes_the_place_of_the_old_one(void **state)
{
	struct auth_psk first;

	(void)state;
	concatenate();
	(void)come_by_tls(&p.bed->io, 1, p.q->tq.ctrl->cntlid);
	first = p.psk;
	p.offer.sc_c = NVMF_AUTH_REPLACETLSPSK;
	authenticate();
	assert_int_equal(bed_property_set(p.q, NVME_PROP_CC, EN), NVME_SC_SUCCESS);
	assert_false(is_known(&first));
	assert_true(is_known(&p.psk));
	pass(TARGET_PSK_NS / 15); /* as long as the association is there */
	bed_queue_close(&p.bed->io);
	assert_true(is_known(&p.psk));
	(void)come_by_tls(&p.bed->io, 1, p.q->tq.ctrl->cntlid);
	bed_queue_close(&p.bed->io);
	bed_queue_close(p.q);
	assert_false(is_known(&p.psk));
}

static void who_has_one_is_not_given_a_second(void **state)
{
	(void)state;
	concatenate();
	assert_int_equal(send_negotiate(), NVME_SC_SUCCESS);
	assert_fails_with(NVMF_AUTH_CONCAT_MISMATCH);
	bed_queue_close(p.q);
}

static void it_is_known_only_while_its_host_has_the_key_that_it_proved(void **state)
{
	(void)state;
	concatenate();
	target_host_remove(&p.bed->target, &p.host);
	assert_false(is_known(&p.psk));
	assert_int_equal(target_host_add(&p.bed->target, &p.host), 0);
	assert_true(is_known(&p.psk));
	p.host.key.key[31] ^= 1;
	assert_false(is_known(&p.psk));
	assert_int_equal(bed_property_get(p.q, NVME_PROP_CSTS, false), NVME_CSTS_RDY);
}

static void it_goes_with_a_connection_that_comes_to_nothing(void **state)
{
	(void)state;
	connect_admin();
	authenticate();
	bed_queue_close(p.q);
	bed_queue_open(p.bed, p.q, 0);
	assert_true(target_tls_proved(&p.q->tq, p.psk.identity));
	pass(TARGET_PSK_NS);
	assert_true(is_known(&p.psk));
	bed_queue_close(p.q);
	assert_false(is_known(&p.psk));
}

static void of_too_many_the_oldest_goes(void **state)
{
	struct target *t = &p.bed->target;
	struct auth_psk first, psk;

	(void)state;
	concatenate();
	first = p.psk;
	psk = p.psk;
	for (int i = 0; i <= TARGET_PSKS_MAX; i++) {
		snprintf(psk.identity, sizeof(psk.identity),
			 "NVMe1G01 " BED_HOSTNQN " " BED_NQN " %d=", i);
		assert_true(tls_keep(t, &psk, &p.host.key));
		assert_true(is_known(&psk));
	}
	assert_true(is_known(&first));
	snprintf(psk.identity, sizeof(psk.identity), "NVMe1G01 " BED_HOSTNQN " " BED_NQN " 0=");
	assert_false(is_known(&psk));
	snprintf(psk.identity, sizeof(psk.identity), "NVMe1G01 " BED_HOSTNQN " " BED_NQN " 1=");
	assert_true(is_known(&psk));
}

#define T(name) cmocka_unit_test_setup_teardown(name, set_up, player_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(of_each_hash_and_group_that_gives_one_comes_a_key),
		T(a_host_that_asks_for_proof_has_its_key_when_it_has_seen_it),
		T(of_a_wrong_proof_comes_no_key),
		T(a_proof_is_of_the_channel_that_was_asked_for),
		T(without_a_challenge_of_the_hosts_there_is_no_key),
		T(where_no_tls_can_follow_nothing_is_concatenated),
		T(what_is_no_new_key_is_not_for_a_plain_queue),
		T(the_null_group_and_sha_512_give_no_key),
		T(an_io_queue_concatenates_nothing),
		T(a_host_that_goes_on_without_tls_can_do_nothing),
		T(one_that_was_let_in_before_is_not_any_more),
		T(who_is_to_come_by_tls_is_not_let_in_by_another_proof),
		T(keys_without_an_end_are_not_made_on_a_connection),
		T(by_its_key_a_host_comes_in_without_another_proof),
		T(nobody_comes_beside_it_without_tls),
		T(a_key_that_was_configured_is_no_proof_of_the_other),
		T(a_key_that_is_not_used_is_forgotten),
		T(it_is_known_as_long_as_anybody_is_there_by_it),
		T(each_association_has_its_own),
		T(it_is_of_one_association_alone),
		T(a_new_one_takes_the_place_of_the_old_one),
		T(who_has_one_is_not_given_a_second),
		T(it_is_known_only_while_its_host_has_the_key_that_it_proved),
		T(it_goes_with_a_connection_that_comes_to_nothing),
		T(of_too_many_the_oldest_goes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
