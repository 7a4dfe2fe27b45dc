/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Pre-shared keys of TLS: as text, and what becomes of them. Key texts and identities are those of
 * libnvme's own test and of what `nvme check-tls-key -I 1` of nvme-cli 2.13 prints (compat); the
 * keys of TLS were reckoned by Python's hmac.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "nvmf/auth/psk.h"

#define HOST "nqn.psk-test-host"
#define SUB  "nqn.psk-test-subsys"

#define KEY_0 "NVMeTLSkey-1:00:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:"
#define KEY_1 "NVMeTLSkey-1:01:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:"
#define KEY_2               \
	("NVMeTLSkey-1:02:" \
	 "VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwP/w0S89ELi3W2LxIcLXVsDn8kXZQ==:")

static struct auth_key key_of(const char *text)
{
	struct auth_key k;
	const char *why = "";

	if (auth_tls_key_parse(text, &k, &why))
		fail_msg("%s: %s", text, why);
	return k;
}

static const char *hex(const uint8_t *p, size_t n)
{
	static char text[2 * AUTH_PSK_MAX + 1];

	for (size_t i = 0; i < n; i++)
		snprintf(text + 2 * i, 3, "%02x", p[i]);
	return text;
}

/* --- texts -------------------------------------------------------------------------------------
 */

static void a_key_is_read_and_written_the_same(void **state)
{
	static const struct {
		const char *text;
		uint8_t hash, len;
	} cases[] = {{KEY_0, 0, 32}, {KEY_1, NVMF_AUTH_SHA256, 32}, {KEY_2, NVMF_AUTH_SHA384, 48}};
	char text[AUTH_KEY_TEXT_MAX];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct auth_key k = key_of(cases[i].text);

		assert_int_equal(k.hash, cases[i].hash);
		assert_int_equal(k.len, cases[i].len);
		auth_tls_key_format(&k, text);
		assert_string_equal(text, cases[i].text);
	}
}

static void what_is_no_key_is_refused_for_its_reason(void **state)
{
	static const struct {
		const char *text, *says;
	} cases[] = {
		{"", "reads NVMeTLSkey-1"},
		{"NVMeTLSkey-2:01:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:",
		 "reads NVMeTLSkey-1"},
		{"NVMeTLSkey-1:01:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ",
		 "reads NVMeTLSkey-1"},
		{"DHHC-1:01:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:",
		 "reads NVMeTLSkey-1"},
		{"NVMeTLSkey-1:03:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:",
		 "none of 00, 01, 02"},
		{"NVMeTLSkey-1:02:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:", "length"},
		/* 64 bytes, as a key of DH-HMAC-CHAP may have */
		{"NVMeTLSkey-1:00:"
		 "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4vMDEyMzQ1Njc4OTo7"
		 "PD0+P4zODhA=:",
		 "reads NVMeTLSkey-1"},
		{"NVMeTLSkey-1:01:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrA:", "check sum"},
		{"NVMeTLSkey-1:01:WRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:", "check sum"},
		{"NVMeTLSkey-1:01:VRLb nN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:", "base64"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		static const struct auth_key none;
		struct auth_key k;
		const char *why = "";

		assert_int_equal(auth_tls_key_parse(cases[i].text, &k, &why), -EINVAL);
		if (!strstr(why, cases[i].says))
			fail_msg("%s: %s", cases[i].text, why);
		assert_memory_equal(&k, &none, sizeof(k));
	}
}

/* --- derivation --------------------------------------------------------------------------------
 */

static const struct {
	const char *key;
	struct auth_psk_way way;
	const char *identity, *psk;
} vectors[] = {
	{KEY_1,
	 {0, false},
	 "NVMe0R01 " HOST " " SUB,
	 "05c6503551ad136e6ee32e6eeb3f6d500b69701d84ec71e328f65c7f51566f68"},
	{KEY_1,
	 {0, true},
	 "NVMe0R01 " HOST " " SUB,
	 "09fb1983ac6d6d0353e7cae4f23daddd651c367fa347c59d9cf6936f5a83eafb"},
	{KEY_1,
	 {1, false},
	 "NVMe1R01 " HOST " " SUB " iSbjiStwJ/1TrTvDlt2fjFmzvsytOJelidNnA+X5lEU=",
	 "8fc3c0badfd4c0c66fa3ca33aadd0314f85536cc9bc47338b60f3e6e563786ca"},
	{KEY_1,
	 {1, true},
	 "NVMe1R01 " HOST " " SUB " 66GuqV08TsAGII39teWUfwQwizjv06Jy8jOcX3NAAzM=",
	 "b9f5ab2a41ba6e72a23a12066302a2f775fa6c0942c8e0b18ca8ac07edf305e2"},
	{KEY_2,
	 {0, false},
	 "NVMe0R02 " HOST " " SUB,
	 ("f42ba63824cdfe421914c582921f85b5b5b7e2d4df084caeedc9be20b212e8bb"
	  "0fe8a23e9d59a1c8fc6449da4970a78d")},
	{KEY_2,
	 {1, false},
	 ("NVMe1R02 " HOST " " SUB
	  " QhW2+Rp6RzHlNtCslyRxMnwJ11tKKhz8JCAQpQ+XUD8f9td1VeH5h53yz2wKJG1a"),
	 ("a2b2f943f479fc682555cec89857c80ed004ce92f32a973d5764155bb7e36b17"
	  "a85368a0666d250afac9282dda2e62ca")},
	{KEY_2,
	 {1, true},
	 ("NVMe1R02 " HOST " " SUB
	  " RsKmYJ3nAn1ApjjMloJFbAkLPivONDAX/xW327YBUsn2eGShXSjCZvBaOxscLqmz"),
	 ("fcefe2e2a2e682b1447dcabf1ec268f78f08c63cd075753abcc8bda2c5c34d48"
	  "d3014aa8d76ad80107e4f5c9f27e2149")},
	/* The configured key is the retained one. */
	{KEY_0,
	 {1, false},
	 "NVMe1R01 " HOST " " SUB " quJVUJjp/BImWR0UQay/MjSfEgyAr6TyBOWybS/B404=",
	 "a45d08ee4639c7570729bb3e57e905e466a49a15ece5401af906830c4d3bdb0b"},
};

static void identities_and_keys_are_those_that_others_derive(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(vectors); i++) {
		struct auth_key k = key_of(vectors[i].key);
		struct auth_psk psk;

		assert_true(auth_psk_derive(&k, vectors[i].way, HOST, SUB, &psk));
		assert_string_equal(psk.identity, vectors[i].identity);
		assert_int_equal(psk.len, k.len);
		assert_int_equal(psk.hash, k.len == 32 ? NVMF_AUTH_SHA256 : NVMF_AUTH_SHA384);
		assert_string_equal(hex(psk.key, psk.len), vectors[i].psk);
	}
}

/* The first two are those that Linux tests its own by. */
static void what_a_transaction_generates_is_what_others_derive(void **state)
{
	static const struct {
		uint8_t hash;
		bool dh; /* of a DH secret's length: longer than what HMAC takes as it is */
		const char *hostnqn, *subnqn, *identity, *psk;
	} cases[] = {
		{NVMF_AUTH_SHA256, false, "hostnqn", "subsysnqn",
		 "NVMe1G01 hostnqn subsysnqn OldoKuTfKddMuyCznAZojkWD7P4D9/AtzDzLimtOxqI=",
		 "3c17da628474a04d2247c4cab47968c915388193f7c071bd9489cc3666cd7cc8"},
		{NVMF_AUTH_SHA384, false, "hostnqn", "subsysnqn",
		 ("NVMe1G02 hostnqn subsysnqn "
		  "cffMWk8TSS7HOQebjgYEIkrPrjWPV4JE5cdPB8WhEvY4JBW5YynKyv66XscN4A9n"),
		 ("2774753233537b3fa50eb7d16a8e43457d85f4906c005b2236616c5d80939d08"
		  "98fff15bb8b77119d2be0aac423e7590")},
		{NVMF_AUTH_SHA256, true, HOST, SUB,
		 ("NVMe1G01 " HOST " " SUB " PlOyr+OegHDI//cpHveoc63ou4uAe3BP91r6UK6G1ZU="),
		 "3529864262c5995bd68ab484abb0d37f93f8a3c94185ab965f4259148c34aeaa"},
		{NVMF_AUTH_SHA384, true, HOST, SUB,
		 ("NVMe1G02 " HOST " " SUB
		  " N71U8y786VDXvATYcKoZIqNaI4SK44ONBECVSCQYqOm303LPpvBRpGLUeXHfDrPa"),
		 ("09a423cae1c078735f1f8ed3c8f5855e59cbcd2dad1a75e030d0d47b1ee144dc"
		  "2f089bd993c032433180e8090b7cdc8f")},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		size_t len = cases[i].dh ? 256 : auth_hash_len(cases[i].hash);
		uint8_t secret[256], c1[48], c2[48];
		struct auth_psk psk;

		for (unsigned int k = 0; k < sizeof(secret); k++)
			secret[k] = (uint8_t)(cases[i].dh ? 7 * k + 1 : 'A' + k);
		for (unsigned int k = 0; k < sizeof(c1); k++) {
			c1[k] = (uint8_t)k;
			c2[k] = (uint8_t)(255 - k);
		}
		assert_true(auth_psk_generate(cases[i].hash, secret, len, c1, c2, cases[i].hostnqn,
					      cases[i].subnqn, &psk));
		assert_int_equal(psk.hash, cases[i].hash);
		assert_int_equal(psk.len, auth_hash_len(cases[i].hash));
		assert_string_equal(psk.identity, cases[i].identity);
		assert_string_equal(hex(psk.key, psk.len), cases[i].psk);
	}
}

/* The longest names: version 1 has room for them, the label of version 0 has not. */
static void what_an_identity_has_no_room_for_is_no_key(void **state)
{
	struct auth_key k = key_of(KEY_2);
	struct auth_psk_way way = {.version = 1};
	char name[NVME_NQN_LEN] = "nqn.";
	struct auth_psk psk;

	(void)state;
	memset(name + 4, 'x', NVME_NQN_LEN - 5);
	assert_true(auth_psk_derive(&k, way, name, name, &psk));
	assert_int_equal(strlen(psk.identity), AUTH_IDENTITY_MAX - 1);
	way.version = 0;
	assert_false(auth_psk_derive(&k, way, name, name, &psk));
	assert_int_equal(psk.len, 0);
}

/* --- identities --------------------------------------------------------------------------------
 */

static void an_identity_says_who_wants_to_speak_with_whom(void **state)
{
	struct auth_identity id;

	(void)state;
	assert_int_equal(auth_identity_parse("NVMe0R02 " HOST " " SUB, &id), 0);
	assert_int_equal(id.version, 0);
	assert_int_equal(id.hash, NVMF_AUTH_SHA384);
	assert_false(id.generated);
	assert_string_equal(id.hostnqn, HOST);
	assert_string_equal(id.subnqn, SUB);
	assert_string_equal(id.digest, "");
	assert_int_equal(auth_identity_parse("NVMe1G01 " HOST " " SUB " abc=", &id), 0);
	assert_int_equal(id.version, 1);
	assert_true(id.generated);
	assert_string_equal(id.digest, "abc=");
}

static void what_is_no_identity_is_none(void **state)
{
	static const char *const texts[] = {
		"",
		"NVMe0R01",
		"NVMe0R01 ",
		"NVMe2R01 " HOST " " SUB " x",
		"NVMe0X01 " HOST " " SUB,
		"NVMe0R03 " HOST " " SUB,
		"NVMe0R1  " HOST " " SUB,
		"nvme0R01 " HOST " " SUB,
		"NVMe0R01 " HOST,
		"NVMe0R01 " HOST " ",
		"NVMe0R01 " HOST " " SUB " x",
		"NVMe1R01 " HOST " " SUB,
		"NVMe1R01 " HOST " " SUB " ",
		"NVMe0R01 host " SUB,
		"NVMe0R01  " HOST " " SUB,
	};
	char text[AUTH_IDENTITY_MAX + 300];
	struct auth_identity id;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		if (auth_identity_parse(texts[i], &id) != -EINVAL)
			fail_msg("'%s' is taken", texts[i]);
	snprintf(text, sizeof(text), "NVMe0R01 nqn.%0260d " SUB, 0);
	assert_int_equal(auth_identity_parse(text, &id), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_key_is_read_and_written_the_same),
		cmocka_unit_test(what_is_no_key_is_refused_for_its_reason),
		cmocka_unit_test(identities_and_keys_are_those_that_others_derive),
		cmocka_unit_test(what_a_transaction_generates_is_what_others_derive),
		cmocka_unit_test(what_an_identity_has_no_room_for_is_no_key),
		cmocka_unit_test(an_identity_says_who_wants_to_speak_with_whom),
		cmocka_unit_test(what_is_no_identity_is_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
