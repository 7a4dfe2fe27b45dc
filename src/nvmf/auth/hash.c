/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "nvmf/auth/hash.h"

#include <assert.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <string.h>

#include "base/compiler.h"

static const struct {
	const char *name, *of_openssl;
	uint8_t len;
} hashes[] = {
	[NVMF_AUTH_SHA256] = {"sha256", "SHA256", 32},
	[NVMF_AUTH_SHA384] = {"sha384", "SHA384", 48},
	[NVMF_AUTH_SHA512] = {"sha512", "SHA512", 64},
};

size_t auth_hash_len(uint8_t hash)
{
	return hash < ARRAY_SIZE(hashes) ? hashes[hash].len : 0;
}

const char *auth_hash_name(uint8_t hash)
{
	return hash < ARRAY_SIZE(hashes) ? hashes[hash].name : NULL;
}

bool auth_equal(const void *a, const void *b, size_t len)
{
	return CRYPTO_memcmp(a, b, len) == 0;
}

bool auth_hmac(uint8_t hash, const void *key, size_t key_len, const struct auth_piece *pieces,
	       unsigned int count, uint8_t *ret)
{
	uint8_t all[AUTH_PIECES_LEN_MAX];
	size_t len = 0, made = 0;
	bool ok;

	for (unsigned int i = 0; i < count; i++) {
		assert(pieces[i].len <= sizeof(all) - len);
		memcpy(all + len, pieces[i].p, pieces[i].len);
		len += pieces[i].len;
	}
	ok = EVP_Q_mac(NULL, "HMAC", NULL, hashes[hash].of_openssl, NULL, key, key_len, all, len,
		       ret, hashes[hash].len, &made) &&
	     made == hashes[hash].len;
	auth_wipe(all, len);
	return ok;
}

bool auth_digest(uint8_t hash, const void *p, size_t len, uint8_t *ret)
{
	size_t made = 0;

	return EVP_Q_digest(NULL, hashes[hash].of_openssl, NULL, p, len, ret, &made) &&
	       made == hashes[hash].len;
}

void auth_wipe(void *p, size_t len)
{
	OPENSSL_cleanse(p, len);
}
