/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <string.h>
#include <cmocka.h>

#include "auth_player.h"

struct player p;

struct auth_key key_of(const char *text)
{
	struct auth_key k;
	const char *why;

	assert_int_equal(auth_key_parse(text, &k, &why), 0);
	return k;
}

int player_set_up(void **state)
{
	(void)state;
	memset(&p, 0, sizeof(p));
	p.bed = bed_create();
	p.q = &p.bed->admin;
	p.t_id = T_ID;
	p.offer = (struct nvmf_auth_negotiate){
		.halen = 3, .dhlen = 6, .hashes = {1, 2, 3}, .dhgroups = {0, 1, 2, 3, 4, 5}};
	strcpy(p.host.nqn, BED_HOSTNQN);
	p.host.key = key_of(HOST_KEY);
	p.host.ctrl_key = key_of(CTRL_KEY);
	assert_int_equal(target_host_add(&p.bed->target, &p.host), 0);
	return 0;
}

int player_tear_down(void **state)
{
	(void)state;
	bed_destroy(p.bed); /* sees to it that nothing is left */
	return 0;
}

uint64_t connect_admin(void)
{
	struct bed_connect a = bed_connect_args(0, NVMF_CNTLID_DYNAMIC);
	uint64_t result;

	bed_queue_open(p.bed, p.q, 0);
	assert_int_equal(bed_connect(p.q, &a, &result), NVME_SC_SUCCESS);
	return result;
}

struct nvme_sqe auth_sqe(uint8_t fctype, uint32_t len)
{
	struct nvmf_auth_cmd cmd = {.spsp0 = 1, .spsp1 = 1, .secp = NVMF_AUTH_SECP, .len = len};
	struct nvme_sqe s = bed_sqe(NVME_FABRICS, 0, len);

	nvmf_auth_cmd_to_sqe(&cmd, fctype, &s);
	return s;
}

uint16_t send_bytes(const void *bytes, size_t len)
{
	struct nvme_sqe s = auth_sqe(NVMF_AUTH_SEND, (uint32_t)len);

	memmove(p.bed->memory, bytes, len);
	return bed_exec(p.q, &s, NULL);
}

uint16_t fetch(void)
{
	struct nvme_sqe s = auth_sqe(NVMF_AUTH_RECV, AL);

	memset(p.bed->memory, 0xee, AL);
	return bed_exec(p.q, &s, NULL);
}

uint16_t send_negotiate(void)
{
	uint8_t buf[72];
	struct wcursor w = wcursor_init(buf, sizeof(buf));

	p.offer.t_id = p.t_id;
	nvmf_auth_negotiate_put(&w, &p.offer);
	return send_bytes(buf, sizeof(buf));
}

void fetch_challenge(void)
{
	struct cursor c = cursor_init(p.bed->memory, AL);
	struct nvmf_auth_head h;

	assert_int_equal(fetch(), NVME_SC_SUCCESS);
	nvmf_auth_head_peek(&c, &h);
	assert_int_equal(h.type, NVMF_AUTH_DHCHAP);
	assert_int_equal(h.id, NVMF_AUTH_CHALLENGE);
	assert_int_equal(h.t_id, p.t_id);
	nvmf_auth_challenge_get(&c, &p.ch);
	assert_int_equal(p.ch.hl, auth_hash_len(p.ch.hash));
	assert_int_equal(p.ch.dhvlen, auth_dh_len(p.ch.dhgroup));
	assert_int_not_equal(p.ch.seqnum, 0);
	memcpy(p.cval, p.ch.cval, p.ch.hl);
	memcpy(p.dhval, p.ch.dhval, p.ch.dhvlen);
	/* Of what was asked for, only the message is not zero. */
	for (size_t i = 16u + p.ch.hl + p.ch.dhvlen; i < AL; i++)
		assert_int_equal(p.bed->memory[i], 0);
}

void make_reply(const char *key, const char *ctrl_key)
{
	const bool challenges = p.mutual || (p.offer.sc_c && !p.keeps_c2);
	uint8_t random[AUTH_DH_PRIVATE_LEN], public[NVMF_AUTH_DH_MAX] = {0};
	uint8_t secret[NVMF_AUTH_DH_MAX], response[NVMF_AUTH_HASH_MAX], c2[NVMF_AUTH_HASH_MAX];
	const struct auth_key k = key_of(key), ck = key_of(ctrl_key);
	struct auth_round r = {.hash = p.ch.hash,
			       .t_id = p.t_id,
			       .sc_c = p.offer.sc_c,
			       .hostnqn = BED_HOSTNQN,
			       .subnqn = BED_NQN,
			       .secret = secret,
			       .secret_len = p.ch.dhvlen};
	struct nvmf_auth_reply re = {.t_id = p.t_id,
				     .hl = p.ch.hl,
				     .cvalid = challenges,
				     .dhvlen = p.ch.dhvlen,
				     .seqnum = p.mutual ? 77 : 0,
				     .rval = response,
				     .cval = challenges ? c2 : NULL,
				     .dhval = public};
	struct wcursor w = wcursor_init(p.reply, sizeof(p.reply));

	memset(random, 0x42, sizeof(random));
	memset(c2, 0x24, sizeof(c2));
	if (p.ch.dhvlen) {
		assert_true(auth_dh_public(p.ch.dhgroup, random, public));
		assert_true(auth_dh_secret(p.ch.dhgroup, random, p.dhval, secret));
	}
	assert_true(auth_host_response(&r, &k, p.cval, p.ch.seqnum, response));
	assert_true(auth_ctrl_response(&r, &ck, c2, 77, p.expected));
	if (p.offer.sc_c && p.ch.dhvlen)
		assert_true(auth_psk_generate(p.ch.hash, secret, p.ch.dhvlen, p.cval, c2,
					      BED_HOSTNQN, BED_NQN, &p.psk));
	if (p.dh_bad)
		memset(public, 0, sizeof(public));
	nvmf_auth_reply_put(&w, &re);
	assert_false(w.overrun);
	p.reply_len = (size_t)(w.p - p.reply);
}

void assert_failure(uint8_t explanation)
{
	struct cursor c = cursor_init(p.bed->memory, AL);
	struct nvmf_auth_failure_msg f;

	assert_int_equal(fetch(), NVME_SC_SUCCESS);
	assert_int_equal(p.bed->memory[0], NVMF_AUTH_COMMON);
	assert_int_equal(p.bed->memory[1], NVMF_AUTH_FAILURE1);
	nvmf_auth_failure_get(&c, &f);
	assert_int_equal(f.reason, NVMF_AUTH_REASON_FAILED);
	assert_int_equal(f.explanation, explanation);
}

void assert_fails_with(uint8_t explanation)
{
	struct nvme_sqe s = bed_sqe(NVME_ADMIN_KEEP_ALIVE, 0, 0);

	assert_failure(explanation);
	assert_int_equal(bed_exec(p.q, &s, NULL), STATUS(NVME_SC_AUTH_REQUIRED));
	assert_int_equal(send_negotiate(), STATUS(NVME_SC_OP_DENIED));
	assert_int_equal(fetch(), STATUS(NVME_SC_OP_DENIED));
	assert_false(p.q->disconnect_asked);
	p.bed->now += 2 * NSEC_PER_SEC;
	target_tick(&p.bed->target, p.bed->now);
	assert_true(p.q->disconnect_asked);
}

void fetch_success1(void)
{
	struct cursor c = cursor_init(p.bed->memory, AL);
	struct nvmf_auth_success1 s;

	assert_int_equal(fetch(), NVME_SC_SUCCESS);
	assert_int_equal(p.bed->memory[0], NVMF_AUTH_DHCHAP);
	assert_int_equal(p.bed->memory[1], NVMF_AUTH_SUCCESS1);
	nvmf_auth_success1_get(&c, &s);
	assert_int_equal(s.hl, p.ch.hl);
	assert_int_equal(s.rvalid, p.mutual);
	if (p.mutual)
		assert_memory_equal(s.rval, p.expected, s.hl);
}

uint16_t send_success2(void)
{
	uint8_t buf[16];
	struct wcursor w = wcursor_init(buf, sizeof(buf));

	nvmf_auth_success2_put(&w, p.t_id);
	return send_bytes(buf, sizeof(buf));
}

void to_the_reply_by(const char *key)
{
	assert_int_equal(send_negotiate(), NVME_SC_SUCCESS);
	fetch_challenge();
	make_reply(key, CTRL_KEY);
}

void to_the_reply(void)
{
	to_the_reply_by(HOST_KEY);
}

void send_reply(void)
{
	assert_int_equal(send_bytes(p.reply, p.reply_len), NVME_SC_SUCCESS);
}

void authenticate(void)
{
	to_the_reply();
	send_reply();
	fetch_success1();
	if (p.mutual)
		assert_int_equal(send_success2(), NVME_SC_SUCCESS);
}

void connected_and_authenticated(void)
{
	connect_admin();
	authenticate();
	assert_int_equal(bed_property_set(p.q, NVME_PROP_CC, EN), NVME_SC_SUCCESS);
}
