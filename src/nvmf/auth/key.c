/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "nvmf/auth/key.h"

#include <assert.h>
#include <errno.h>
#include <isa-l/crc.h>
#include <openssl/evp.h>
#include <string.h>

#include "base/bytes.h"
#include "nvmf/auth/hash.h"

#define HASH_LEN   3 /* of the text: two digits and a colon */
#define CRC_LEN	   4
#define RAW_MAX	   (AUTH_KEY_MAX + CRC_LEN)
#define BASE64_MAX (4 * ((RAW_MAX + 2) / 3))

struct form {
	const char *prefix;
	uint8_t hash_max, len_max;
	const char *form, *hashes, *lengths; /* what is said of one that is none */
};

static const struct form dhchap = {
	.prefix = "DHHC-1:",
	.hash_max = NVMF_AUTH_SHA512,
	.len_max = 64,
	.form = "a key reads DHHC-1:HH:BASE64:",
	.hashes = "its hash is none of 00, 01, 02, 03",
	.lengths = "it has not the length that goes with its hash: 32, 48 or 64 bytes",
};

static const struct form tls = {
	.prefix = "NVMeTLSkey-1:",
	.hash_max = NVMF_AUTH_SHA384,
	.len_max = 48,
	.form = "a key of TLS reads NVMeTLSkey-1:HH:BASE64:",
	.hashes = "its hash is none of 00, 01, 02",
	.lengths = "it has not the length that goes with its hash: 32 or 48 bytes",
};

uint32_t auth_key_crc(const struct auth_key *k)
{
	return crc32_gzip_refl(0, k->key, k->len);
}

bool auth_key_len_fits(uint8_t hash, size_t len)
{
	return hash ? len == auth_hash_len(hash) : len == 32 || len == 48 || len == 64;
}

static int hex_digit(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Its length, or -1: characters, padding or length are not base64's. */
static int base64_decode(const char *text, size_t len, uint8_t ret[BASE64_MAX])
{
	int n, padding = 0;

	if (!len || len > BASE64_MAX || len % 4)
		return -1;
	/* The library's skips space before and after, and takes padding anywhere as zeroes. */
	for (size_t i = 0; i < len; i++)
		if (text[i] == '=')
			padding++;
		else if (padding || (unsigned char)text[i] <= ' ')
			return -1;
	n = EVP_DecodeBlock(ret, (const unsigned char *)text, (int)len);
	return n < 0 || padding > 2 ? -1 : n - padding;
}

static int parse(const struct form *f, const char *text, struct auth_key *ret, uint8_t *raw,
		 const char **ret_why)
{
	size_t len = strnlen(text, AUTH_KEY_TEXT_MAX), at = strlen(f->prefix);
	size_t head = at + HASH_LEN;
	int high, low, n;

	*ret_why = f->form;
	if (len < head + 1 || len >= AUTH_KEY_TEXT_MAX || memcmp(text, f->prefix, at) != 0 ||
	    text[head - 1] != ':' || text[len - 1] != ':')
		return -EINVAL;
	high = hex_digit(text[at]);
	low = hex_digit(text[at + 1]);
	*ret_why = f->hashes;
	if (high != 0 || low < 0 || low > f->hash_max)
		return -EINVAL;
	n = base64_decode(text + head, len - head - 1, raw);
	*ret_why = "what stands between its last colons is no base64";
	if (n < 0)
		return -EINVAL;
	*ret_why = f->lengths;
	if (n <= CRC_LEN || n - CRC_LEN > f->len_max ||
	    !auth_key_len_fits((uint8_t)low, (size_t)n - CRC_LEN))
		return -EINVAL;
	ret->hash = (uint8_t)low;
	ret->len = (uint8_t)(n - CRC_LEN);
	memcpy(ret->key, raw, ret->len);
	*ret_why = "its check sum (CRC-32) is wrong: it was not copied whole";
	return auth_key_crc(ret) == ld_le32(raw + ret->len) ? 0 : -EINVAL;
}

static int parse_form(const struct form *f, const char *text, struct auth_key *ret,
		      const char **ret_why)
{
	uint8_t raw[BASE64_MAX];
	int err;

	*ret = (struct auth_key){0};
	err = parse(f, text, ret, raw, ret_why);
	auth_wipe(raw, sizeof(raw));
	if (err)
		auth_wipe(ret, sizeof(*ret));
	return err;
}

int auth_key_parse(const char *text, struct auth_key *ret, const char **ret_why)
{
	return parse_form(&dhchap, text, ret, ret_why);
}

int auth_tls_key_parse(const char *text, struct auth_key *ret, const char **ret_why)
{
	return parse_form(&tls, text, ret, ret_why);
}

static void format(const struct form *f, const struct auth_key *k, char ret[AUTH_KEY_TEXT_MAX])
{
	size_t at = strlen(f->prefix);
	uint8_t raw[RAW_MAX];
	int n;

	assert(k->len <= f->len_max && k->hash <= f->hash_max);
	memcpy(raw, k->key, k->len);
	st_le32(raw + k->len, auth_key_crc(k));
	memcpy(ret, f->prefix, at);
	memcpy(ret + at, "00:", HASH_LEN);
	ret[at + 1] = (char)('0' + k->hash);
	at += HASH_LEN;
	n = EVP_EncodeBlock((unsigned char *)ret + at, raw, k->len + CRC_LEN);
	memcpy(ret + at + n, ":", 2);
	auth_wipe(raw, sizeof(raw));
}

void auth_key_format(const struct auth_key *k, char ret[AUTH_KEY_TEXT_MAX])
{
	format(&dhchap, k, ret);
}

void auth_tls_key_format(const struct auth_key *k, char ret[AUTH_KEY_TEXT_MAX])
{
	format(&tls, k, ret);
}

bool auth_key_transform(const struct auth_key *k, const char *nqn, uint8_t ret[AUTH_KEY_MAX])
{
	const struct auth_piece name[] = {{nqn, strlen(nqn)}, {"NVMe-over-Fabrics", 17}};

	if (!k->hash) {
		memcpy(ret, k->key, k->len);
		return true;
	}
	return auth_hmac(k->hash, k->key, k->len, name, 2, ret);
}
