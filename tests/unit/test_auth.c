/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * DH-HMAC-CHAP's messages, keys and reckoning, each by itself. The expected values were reckoned by
 * Python's hashlib, hmac and pow(), the primes by the formula of RFC 7919.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <errno.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "nvmf/auth/proof.h"
#include "wire/nvme_fabrics.h"

#define HOSTNQN "nqn.2014-08.org.nvmexpress:uuid:11111111-2222-4333-8444-555555555555"
#define SUBNQN	"nqn.2026-11.io.example:disk"
#define SEQNUM	0x01020304u
#define T_ID	0xa1b2

#define KEY_32 "DHHC-1:00:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:"

static const char *const keys[] = {
	KEY_32,
	"DHHC-1:01:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:",
	"DHHC-1:02:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4vcSEgBQ==:",
	("DHHC-1:03:"
	 "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4vMDEyMzQ1Njc4OTo7"
	 "PD0+P4zODhA=:"),
};

static const char *hex(const uint8_t *p, size_t n)
{
	static char text[2 * 1024 + 1];

	for (size_t i = 0; i < n; i++)
		snprintf(text + 2 * i, 3, "%02x", p[i]);
	return text;
}

static const char *sha256(const uint8_t *p, size_t n)
{
	uint8_t out[32];
	size_t len = 0;

	assert_true(EVP_Q_digest(NULL, "SHA256", NULL, p, n, out, &len));
	return hex(out, len);
}

static struct auth_key key_of(const char *text)
{
	struct auth_key k;
	const char *why;

	assert_int_equal(auth_key_parse(text, &k, &why), 0);
	return k;
}

/* --- keys ---------------------------------------------------------------------------------------
 */

static void keys_are_read_and_written_as_nvme_cli_has_them(void **state)
{
	static const uint8_t lens[] = {32, 32, 48, 64};
	char text[AUTH_KEY_TEXT_MAX];

	(void)state;
	for (unsigned int i = 0; i < ARRAY_SIZE(keys); i++) {
		struct auth_key k = key_of(keys[i]);

		assert_int_equal(k.hash, i);
		assert_int_equal(k.len, lens[i]);
		for (unsigned int j = 0; j < k.len; j++)
			assert_int_equal(k.key[j], j);
		auth_key_format(&k, text);
		assert_string_equal(text, keys[i]);
	}
	assert_int_equal(strlen(keys[3]), AUTH_KEY_TEXT_MAX - 1);
}

static void what_is_no_key_is_refused_and_not_kept(void **state)
{
	static const char *const wrong[] = {
		"",
		"DHHC-1:",
		"DHHC-1:00:",
		"DHHC-1:00::",
		"DHHC-2:00:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:",
		"DHHC-1:04:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:", /* no such hash */
		"DHHC-1:0g:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:",
		"DHHC-1:10:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:",
		"DHHC-1:02:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:", /* length of another
										*/
		"DHHC-1:00:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR",  /* no colon */
		"DHHC-1:00:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaS:", /* check sum */
		"DHHC-1:00:BAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:", /* key */
		"DHHC-1:00:AAEC wQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:",
		"DHHC-1:00: AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:",
		"DHHC-1:00:AA=CAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:",
		"DHHC-1:00:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:\n",
		"DHHC-1:00:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:x:",
		"DHHC-1:00:AAAA:",
	};

	(void)state;
	for (unsigned int i = 0; i < ARRAY_SIZE(wrong); i++) {
		struct auth_key k = {.len = 9}, none = {0};
		const char *why = NULL;

		assert_int_equal(auth_key_parse(wrong[i], &k, &why), -EINVAL);
		assert_non_null(why);
		assert_memory_equal(&k, &none, sizeof(k));
	}
}

/* Of a whole key cut after each of its characters none is one. */
static void a_key_that_is_cut_off_is_none(void **state)
{
	char text[AUTH_KEY_TEXT_MAX];

	(void)state;
	for (unsigned int i = 0; i < ARRAY_SIZE(keys); i++)
		for (size_t n = 0; n < strlen(keys[i]); n++) {
			struct auth_key k;
			const char *why;

			memcpy(text, keys[i], n);
			text[n] = 0;
			assert_int_equal(auth_key_parse(text, &k, &why), -EINVAL);
		}
}

/* --- responses ----------------------------------------------------------------------------------
 */

static void challenge_of(uint8_t hash, uint8_t *ret)
{
	for (size_t i = 0; i < auth_hash_len(hash); i++)
		ret[i] = (uint8_t)(7 * i + 1);
}

static void randoms(uint8_t one[AUTH_DH_PRIVATE_LEN], uint8_t two[AUTH_DH_PRIVATE_LEN])
{
	for (int i = 0; i < AUTH_DH_PRIVATE_LEN; i++) {
		one[i] = (uint8_t)(1 + i);
		two[i] = (uint8_t)(200 - 3 * i);
	}
}

static void responses_are_those_of_the_standard(void **state)
{
	static const char *const host[] = {
		"4250fd7f15f25ad664db1ccd07a08d886dddc64752d13269ebcca3f31855019e",
		"b941070dc6af51db4dfcb18ba34703345303f5c818361357c10349ff653c9f2b"
		"3b6937a55159b94dfb2b013df60aa613",
		"d53196186097d85b9abb7c94c106f3a272842ce071ed708720053389728d7735"
		"d4d20a49032f89d979dd968130a52ba1d0b160cc8a5a2007a5381d853fe2623a",
	};
	static const char *const ctrl[] = {
		"1a2343700657e21e34972c74f99267d3f5353769852c4990faf1313a80f99763",
		"936e940e0d7dd4a33a072a7561f8c0a69815e907fc82a8609dd8c408acc26842"
		"40c5fc3e98eea2b78d746bcc8d290bcc",
		"fe5fd1ae3959ba0ed1772c567d7e0698513d81f4dc810633f2292a018f95fd79"
		"95a1238c9769c50af45d59dcda819339e533203249f86ff9ee05a287dad02591",
	};
	static const char *const with_dh[] = {
		"f8bcc3bf9bb9f81922b0b9133703b7898926f4f2d2f8dc56169cdcf1590ee362",
		"31af8d541aacecac0a5a5eb61bdc328adcba267c17e3c61c236c226e1afd6624"
		"aad0b68b0c15abeceb8772a58eff6477",
		"49a3157020875c545bd1a75a4ee4f2362f43939f3a2baec80443afb32093b69d"
		"99d0d6c0e7647f5fb1835acde4e3905278f17f8d7627f85cc18bd1d45323ba04",
	};
	const struct auth_key plain = key_of(KEY_32);
	uint8_t one[AUTH_DH_PRIVATE_LEN], two[AUTH_DH_PRIVATE_LEN], y[256], secret[256];

	(void)state;
	randoms(one, two);
	assert_true(auth_dh_public(NVMF_AUTH_DH_2048, two, y));
	assert_true(auth_dh_secret(NVMF_AUTH_DH_2048, one, y, secret));
	for (uint8_t hash = NVMF_AUTH_SHA256; hash <= NVMF_AUTH_SHA512; hash++) {
		struct auth_round r = {
			.hash = hash, .t_id = T_ID, .hostnqn = HOSTNQN, .subnqn = SUBNQN};
		const struct auth_key k = key_of(keys[hash]);
		uint8_t c[NVMF_AUTH_HASH_MAX], out[NVMF_AUTH_HASH_MAX];

		challenge_of(hash, c);
		assert_true(auth_host_response(&r, &k, c, SEQNUM, out));
		assert_string_equal(hex(out, auth_hash_len(hash)), host[hash - 1]);
		assert_true(auth_ctrl_response(&r, &plain, c, SEQNUM, out));
		assert_string_equal(hex(out, auth_hash_len(hash)), ctrl[hash - 1]);
		r.secret = secret;
		r.secret_len = sizeof(secret);
		assert_true(auth_host_response(&r, &k, c, SEQNUM, out));
		assert_string_equal(hex(out, auth_hash_len(hash)), with_dh[hash - 1]);
	}
}

/* Whatever differs makes another response: what was seen once is of no use again. */
static void a_response_is_of_its_transaction_alone(void **state)
{
	const struct auth_round r = {
		.hash = NVMF_AUTH_SHA256, .t_id = T_ID, .hostnqn = HOSTNQN, .subnqn = SUBNQN};
	struct auth_key k = key_of(keys[1]);
	uint8_t c[NVMF_AUTH_HASH_MAX], first[NVMF_AUTH_HASH_MAX], of_ctrl[NVMF_AUTH_HASH_MAX],
		out[NVMF_AUTH_HASH_MAX];
	struct auth_round other;

	(void)state;
	challenge_of(r.hash, c);
	assert_true(auth_host_response(&r, &k, c, SEQNUM, first));
	assert_true(auth_host_response(&r, &k, c, SEQNUM, out));
	assert_true(auth_equal(first, out, 32));
	assert_true(auth_host_response(&r, &k, c, SEQNUM + 1, out));
	assert_false(auth_equal(first, out, 32));
	assert_true(auth_ctrl_response(&r, &k, c, SEQNUM, out));
	assert_false(auth_equal(first, out, 32));
	other = r;
	other.t_id++;
	assert_true(auth_host_response(&other, &k, c, SEQNUM, out));
	assert_false(auth_equal(first, out, 32));
	other = r;
	other.sc_c = 1;
	assert_true(auth_host_response(&other, &k, c, SEQNUM, out));
	assert_false(auth_equal(first, out, 32));
	assert_true(auth_ctrl_response(&r, &k, c, SEQNUM, of_ctrl));
	assert_true(auth_ctrl_response(&other, &k, c, SEQNUM, out));
	assert_false(auth_equal(of_ctrl, out, 32));
	other = r;
	other.hostnqn = HOSTNQN "x";
	assert_true(auth_host_response(&other, &k, c, SEQNUM, out));
	assert_false(auth_equal(first, out, 32));
	c[31] ^= 1;
	assert_true(auth_host_response(&r, &k, c, SEQNUM, out));
	assert_false(auth_equal(first, out, 32));
	c[31] ^= 1;
	k.key[0] ^= 1;
	assert_true(auth_host_response(&r, &k, c, SEQNUM, out));
	assert_false(auth_equal(first, out, 32));
}

/* --- Diffie-Hellman -----------------------------------------------------------------------------
 */

static void both_sides_of_each_group_get_the_same_secret(void **state)
{
	static const char *const seen[][2] = {
		{"56b34c0f5f904c665e858b57fb6571e6945d921e54ae2c7abf39e81ee47b4dc6",
		 "2776377254a3caf92218706703ad0be22fcc3ddfe47e1e0b376dc85d7f4e6b97"},
		{"fabeb3e45cad0c6b54769e281c2349f39a076d6301d858b17615a9649e36f222",
		 "d445683e94499f09e19d5ca99abfaa58dfcda8d946547b095c5312d68444f5a0"},
		{"ccb58604a5fd1239e876259fc7813e402338a46f6a531725437e8a927dce40f0",
		 "2fdd78813ed0b15d359bb2e004dd6c647df931e46cb93f5719a85041193b26d9"},
		{"01742c6adcfa4b823437b7dab65a11111c89191e1442b385c72d1083f7d2f7ea",
		 "88902ee3eb929ba1f9d45de5b6b4fe5c02d30fea387985980fe5068251908599"},
		{"a5c83fe0a34d40034b0c976d516f04fc7472e8c1142e30ed59a355bd12800270",
		 "5599e448056be61064805ad0f00d8caeb20c560e3f4f5c079e485fe6426693d9"},
	};
	static uint8_t y1[NVMF_AUTH_DH_MAX], y2[NVMF_AUTH_DH_MAX], s1[NVMF_AUTH_DH_MAX],
		s2[NVMF_AUTH_DH_MAX];
	uint8_t one[AUTH_DH_PRIVATE_LEN], two[AUTH_DH_PRIVATE_LEN];

	(void)state;
	randoms(one, two);
	for (uint8_t g = NVMF_AUTH_DH_2048; g <= NVMF_AUTH_DH_8192; g++) {
		size_t len = auth_dh_len(g);

		assert_true(auth_dh_public(g, one, y1) && auth_dh_public(g, two, y2));
		assert_true(auth_dh_secret(g, one, y2, s1) && auth_dh_secret(g, two, y1, s2));
		assert_memory_equal(s1, s2, len);
		assert_string_equal(sha256(y1, len), seen[g - 1][0]);
		assert_string_equal(sha256(s1, len), seen[g - 1][1]);
	}
	assert_true(auth_dhgroup_known(NVMF_AUTH_DH_NULL));
	assert_int_equal(auth_dh_len(NVMF_AUTH_DH_NULL), 0);
	assert_false(auth_dhgroup_known(NVMF_AUTH_DH_8192 + 1));
	assert_int_equal(auth_dh_len(0xff), 0);
	assert_null(auth_dhgroup_name(0xff));
}

/* 0, 1, p - 1 and what is beyond p would make a secret that anybody knows. */
static void dh_values_that_give_the_secret_away_are_refused(void **state)
{
	static uint8_t y[NVMF_AUTH_DH_MAX], s[NVMF_AUTH_DH_MAX];
	uint8_t one[AUTH_DH_PRIVATE_LEN], two[AUTH_DH_PRIVATE_LEN];

	(void)state;
	randoms(one, two);
	for (uint8_t g = NVMF_AUTH_DH_2048; g <= NVMF_AUTH_DH_8192; g++) {
		size_t len = auth_dh_len(g);

		memset(y, 0, sizeof(y));
		assert_false(auth_dh_secret(g, one, y, s));
		y[len - 1] = 1;
		assert_false(auth_dh_secret(g, one, y, s));
		y[len - 1] = 2;
		assert_true(auth_dh_secret(g, one, y, s));
		memset(y, 0xff, sizeof(y)); /* the primes begin and end with 64 ones */
		assert_false(auth_dh_secret(g, one, y, s));
	}
}

/* --- messages -----------------------------------------------------------------------------------
 */

static uint8_t buf[NVMF_AUTH_MESSAGE_MAX];

static void commands_are_read_as_they_are_written(void **state)
{
	const struct nvmf_auth_cmd a = {
		.spsp0 = 1, .spsp1 = 2, .secp = NVMF_AUTH_SECP, .len = 0x12345678};
	struct nvmf_auth_cmd b;
	struct nvme_sqe s = {0};
	uint8_t wire[NVME_SQE_LEN];
	struct wcursor w = wcursor_init(wire, sizeof(wire));

	(void)state;
	nvmf_auth_cmd_to_sqe(&a, NVMF_AUTH_SEND, &s);
	nvme_sqe_put(&w, &s);
	assert_int_equal(wire[0], NVME_FABRICS);
	assert_int_equal(wire[4], NVMF_AUTH_SEND);
	assert_int_equal(wire[NVMF_AUTH_SQE_SPSP0], 1);
	assert_int_equal(wire[NVMF_AUTH_SQE_SPSP1], 2);
	assert_int_equal(wire[NVMF_AUTH_SQE_SECP], 0xe9);
	assert_int_equal(ld_le32(wire + NVMF_AUTH_SQE_LEN), 0x12345678);
	nvmf_auth_cmd_from_sqe(&b, &s);
	assert_int_equal(b.spsp0, a.spsp0);
	assert_int_equal(b.spsp1, a.spsp1);
	assert_int_equal(b.secp, a.secp);
	assert_int_equal(b.len, a.len);
}

/* All but the whole message overrun. */
#define every_cut_overruns(len, get, ret)                        \
	do {                                                     \
		for (size_t n_ = 0; n_ < (len); n_++) {          \
			struct cursor c_ = cursor_init(buf, n_); \
			get(&c_, ret);                           \
			assert_true(c_.overrun);                 \
		}                                                \
	} while (0)

static void negotiations_are_read_as_they_are_written(void **state)
{
	const struct nvmf_auth_negotiate a = {.t_id = T_ID,
					      .dhchap = true,
					      .napd = 1,
					      .halen = 3,
					      .dhlen = 2,
					      .hashes = {1, 2, 3},
					      .dhgroups = {0, 5}};
	struct nvmf_auth_negotiate b;
	struct wcursor w = wcursor_init(buf, sizeof(buf));
	struct cursor c;

	(void)state;
	nvmf_auth_negotiate_put(&w, &a);
	assert_int_equal(w.p - buf, 8 + 64);
	assert_int_equal(buf[7], 1);  /* NAPD */
	assert_int_equal(buf[8], 1);  /* DH-HMAC-CHAP */
	assert_int_equal(buf[10], 3); /* HALEN */
	assert_int_equal(buf[12 + 31], 5);
	c = cursor_init(buf, 8 + 64);
	nvmf_auth_negotiate_get(&c, &b);
	assert_false(c.overrun);
	assert_memory_equal(&a, &b, sizeof(a));
	every_cut_overruns((size_t)(8 + 64), nvmf_auth_negotiate_get, &b);
	/* Another protocol before it; and none that we know. */
	memmove(buf + 8 + 64, buf + 8, 64);
	buf[7] = 2;
	buf[8] = 9;
	c = cursor_init(buf, 8 + 128);
	nvmf_auth_negotiate_get(&c, &b);
	assert_false(c.overrun);
	assert_true(b.dhchap && b.napd == 2 && b.hashes[2] == 3);
	buf[8 + 64] = 9;
	c = cursor_init(buf, 8 + 128);
	nvmf_auth_negotiate_get(&c, &b);
	assert_false(b.dhchap);
}

static void what_is_said_in_a_transaction_is_read_as_written(void **state)
{
	uint8_t v[3 * 64 + 256];
	const struct nvmf_auth_challenge ch = {.t_id = T_ID,
					       .hl = 64,
					       .hash = 3,
					       .dhgroup = 1,
					       .dhvlen = 256,
					       .seqnum = SEQNUM,
					       .cval = v,
					       .dhval = v + 64};
	const struct nvmf_auth_reply re = {.t_id = T_ID,
					   .hl = 48,
					   .cvalid = true,
					   .dhvlen = 256,
					   .seqnum = SEQNUM,
					   .rval = v,
					   .cval = v + 64,
					   .dhval = v + 128};
	const struct nvmf_auth_success1 su = {.t_id = T_ID, .hl = 32, .rvalid = true, .rval = v};
	struct nvmf_auth_challenge ch2;
	struct nvmf_auth_reply re2;
	struct nvmf_auth_success1 su2;
	struct nvmf_auth_head head;
	struct wcursor w = wcursor_init(buf, sizeof(buf));
	struct cursor c;

	(void)state;
	for (size_t i = 0; i < sizeof(v); i++)
		v[i] = (uint8_t)(i * 13);
	nvmf_auth_challenge_put(&w, &ch);
	assert_int_equal(w.p - buf, 16 + 64 + 256);
	c = cursor_init(buf, (size_t)(w.p - buf));
	nvmf_auth_head_peek(&c, &head);
	assert_int_equal(head.type, NVMF_AUTH_DHCHAP);
	assert_int_equal(head.id, NVMF_AUTH_CHALLENGE);
	assert_int_equal(head.t_id, T_ID);
	nvmf_auth_challenge_get(&c, &ch2);
	assert_true(!c.overrun && cursor_left(&c) == 0);
	assert_true(ch2.hash == 3 && ch2.dhgroup == 1 && ch2.seqnum == SEQNUM && ch2.hl == 64);
	assert_memory_equal(ch2.cval, v, 64);
	assert_memory_equal(ch2.dhval, v + 64, 256);
	every_cut_overruns((size_t)(16 + 64 + 256), nvmf_auth_challenge_get, &ch2);

	w = wcursor_init(buf, sizeof(buf));
	nvmf_auth_reply_put(&w, &re);
	assert_int_equal(w.p - buf, 16 + 96 + 256);
	c = cursor_init(buf, (size_t)(w.p - buf));
	nvmf_auth_reply_get(&c, &re2);
	assert_true(!c.overrun && re2.cvalid && re2.seqnum == SEQNUM && re2.dhvlen == 256);
	assert_memory_equal(re2.rval, v, 48);
	assert_memory_equal(re2.cval, v + 64, 48);
	assert_memory_equal(re2.dhval, v + 128, 256);
	every_cut_overruns((size_t)(16 + 96 + 256), nvmf_auth_reply_get, &re2);

	w = wcursor_init(buf, sizeof(buf));
	nvmf_auth_success1_put(&w, &su);
	assert_int_equal(w.p - buf, 16 + 32);
	c = cursor_init(buf, (size_t)(w.p - buf));
	nvmf_auth_success1_get(&c, &su2);
	assert_true(!c.overrun && su2.rvalid && su2.hl == 32);
	assert_memory_equal(su2.rval, v, 32);
	every_cut_overruns((size_t)(16 + 32), nvmf_auth_success1_get, &su2);
}

static void failures_are_read_as_they_are_written(void **state)
{
	const struct nvmf_auth_failure_msg a = {
		.t_id = T_ID, .reason = 1, .explanation = NVMF_AUTH_HASH_UNUSABLE};
	struct nvmf_auth_failure_msg b;
	struct wcursor w = wcursor_init(buf, sizeof(buf));
	struct cursor c;

	(void)state;
	nvmf_auth_failure_put(&w, NVMF_AUTH_FAILURE1, &a);
	assert_int_equal(w.p - buf, 8);
	assert_int_equal(buf[0], NVMF_AUTH_COMMON);
	assert_int_equal(buf[1], 0xf1);
	c = cursor_init(buf, 8);
	nvmf_auth_failure_get(&c, &b);
	assert_false(c.overrun);
	assert_memory_equal(&a, &b, sizeof(a));
	every_cut_overruns((size_t)8, nvmf_auth_failure_get, &b);
	w = wcursor_init(buf, sizeof(buf));
	nvmf_auth_success2_put(&w, T_ID);
	assert_int_equal(w.p - buf, 16);
	for (unsigned int i = 0; i < 256; i++)
		assert_non_null(nvmf_auth_failure_name((uint8_t)i));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(keys_are_read_and_written_as_nvme_cli_has_them),
		cmocka_unit_test(what_is_no_key_is_refused_and_not_kept),
		cmocka_unit_test(a_key_that_is_cut_off_is_none),
		cmocka_unit_test(responses_are_those_of_the_standard),
		cmocka_unit_test(a_response_is_of_its_transaction_alone),
		cmocka_unit_test(both_sides_of_each_group_get_the_same_secret),
		cmocka_unit_test(dh_values_that_give_the_secret_away_are_refused),
		cmocka_unit_test(commands_are_read_as_they_are_written),
		cmocka_unit_test(negotiations_are_read_as_they_are_written),
		cmocka_unit_test(what_is_said_in_a_transaction_is_read_as_written),
		cmocka_unit_test(failures_are_read_as_they_are_written),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
