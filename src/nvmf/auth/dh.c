/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Diffie-Hellman in the groups of RFC 7919: safe primes, generator 2. OpenSSL has the primes and
 * the arithmetic; its keys would draw randomness of their own. Exponents are as long as that RFC
 * asks (section 5.2), rounded up, with the highest bit set.
 */
#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <string.h>

#include "nvmf/auth/proof.h"

static const struct {
	const char *name;
	uint16_t len;
	uint8_t exponent_len;
} groups[] = {
	[NVMF_AUTH_DH_NULL] = {"null", 0, 0},	      [NVMF_AUTH_DH_2048] = {"ffdhe2048", 256, 29},
	[NVMF_AUTH_DH_3072] = {"ffdhe3072", 384, 35}, [NVMF_AUTH_DH_4096] = {"ffdhe4096", 512, 41},
	[NVMF_AUTH_DH_6144] = {"ffdhe6144", 768, 47}, [NVMF_AUTH_DH_8192] = {"ffdhe8192", 1024, 50},
};

bool auth_dhgroup_known(uint8_t group)
{
	return group < ARRAY_SIZE(groups);
}

size_t auth_dh_len(uint8_t group)
{
	return auth_dhgroup_known(group) ? groups[group].len : 0;
}

const char *auth_dhgroup_name(uint8_t group)
{
	return auth_dhgroup_known(group) ? groups[group].name : NULL;
}

static BIGNUM *prime_of(uint8_t group)
{
	/* The library takes names that are not const, and does not write to them. */
	OSSL_PARAM params[] = {
		OSSL_PARAM_construct_utf8_string(OSSL_PKEY_PARAM_GROUP_NAME,
						 (char *)(uintptr_t)groups[group].name, 0),
		OSSL_PARAM_construct_end()};
	EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_name(NULL, "DH", NULL);
	EVP_PKEY *pkey = NULL;
	BIGNUM *p = NULL;

	if (ctx && EVP_PKEY_paramgen_init(ctx) > 0 && EVP_PKEY_CTX_set_params(ctx, params) > 0 &&
	    EVP_PKEY_generate(ctx, &pkey) > 0)
		(void)EVP_PKEY_get_bn_param(pkey, OSSL_PKEY_PARAM_FFC_P, &p);
	EVP_PKEY_free(pkey);
	EVP_PKEY_CTX_free(ctx);
	return p;
}

static BIGNUM *exponent_of(uint8_t group, const uint8_t *random)
{
	uint8_t x[AUTH_DH_PRIVATE_LEN];
	BIGNUM *bn;

	memcpy(x, random, sizeof(x));
	x[0] |= 0x80;
	bn = BN_bin2bn(x, groups[group].exponent_len, NULL);
	auth_wipe(x, sizeof(x));
	if (bn)
		BN_set_flags(bn, BN_FLG_CONSTTIME);
	return bn;
}

/* 2 <= y <= p - 2: all else is of order 1 or 2, or no member. */
static bool is_member(const BIGNUM *y, const BIGNUM *p)
{
	BIGNUM *last = BN_dup(p);
	bool ok = last && BN_sub_word(last, 1) && BN_cmp(y, BN_value_one()) > 0 &&
		  BN_cmp(y, last) < 0;

	BN_free(last);
	return ok;
}

/* base^x mod p; consumes base. */
static bool power(uint8_t group, BIGNUM *base, const uint8_t *random, uint8_t *ret)
{
	BIGNUM *p = prime_of(group), *x = exponent_of(group, random), *r = BN_new();
	BN_CTX *ctx = BN_CTX_secure_new();
	bool ok = base && p && x && r && ctx && is_member(base, p) &&
		  BN_mod_exp_mont_consttime(r, base, x, p, ctx, NULL) && is_member(r, p) &&
		  BN_bn2binpad(r, ret, groups[group].len) == groups[group].len;

	BN_CTX_free(ctx);
	BN_clear_free(r);
	BN_clear_free(x);
	BN_free(p);
	BN_free(base);
	return ok;
}

bool auth_dh_public(uint8_t group, const uint8_t random[AUTH_DH_PRIVATE_LEN], uint8_t *ret)
{
	BIGNUM *g = BN_new();

	if (g && !BN_set_word(g, 2)) {
		BN_free(g);
		g = NULL;
	}
	return power(group, g, random, ret);
}

bool auth_dh_secret(uint8_t group, const uint8_t random[AUTH_DH_PRIVATE_LEN], const uint8_t *y,
		    uint8_t *ret)
{
	return power(group, BN_bin2bn(y, groups[group].len, NULL), random, ret);
}
