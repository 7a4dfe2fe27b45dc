/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "nvmf/auth/psk.h"

#include <assert.h>
#include <errno.h>
#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/params.h>
#include <string.h>

#include "base/cursor.h"

#define PREFIX	      "tls13 "
#define FIELD_MAX     255 /* bytes of a label, and of a context */
#define INFO_MAX      (2 + 2 * (1 + FIELD_MAX))
#define DIGEST_TEXT   64 /* of the longest hash that a suite has */
#define HEAD_LEN      9	 /* "NVMe1R01 " */
#define HEAD_VERSION  4
#define HEAD_KIND     5
#define HEAD_HASH     6
#define CONTEXT_EXTRA 3 /* "01 " before the digest */

/* --- texts ------------------------------------------------------------------------------------ */

struct text {
	char *at;
	size_t len, room;
	bool overrun;
};

static void put(struct text *t, const char *s, size_t len)
{
	if (t->overrun || len >= t->room - t->len) {
		t->overrun = true;
		return;
	}
	memcpy(t->at + t->len, s, len);
	t->len += len;
	t->at[t->len] = 0;
}

static void put_word(struct text *t, const char *s)
{
	put(t, s, strlen(s));
}

static void put_hash(struct text *t, uint8_t hash)
{
	const char digits[] = {'0', (char)('0' + hash), ' '};

	put(t, digits, sizeof(digits));
}

/* --- derivation ------------------------------------------------------------------------------- */

static void put_field(struct wcursor *w, const char *prefix, const char *s, bool compat)
{
	size_t len = strlen(prefix) + strlen(s);

	if (!compat)
		wcursor_u8(w, (uint8_t)len);
	wcursor_bytes(w, prefix, strlen(prefix));
	wcursor_bytes(w, s, strlen(s));
}

/* HKDF-Extract without a salt, then HKDF-Expand-Label, to as many bytes as came in. */
static bool expand(uint8_t hash, bool compat, const uint8_t *in, size_t len, const char *label,
		   const char *context, uint8_t *ret)
{
	uint8_t info[INFO_MAX];
	struct wcursor w = wcursor_init(info, sizeof(info));
	EVP_KDF *kdf;
	EVP_KDF_CTX *ctx;
	bool ok;

	if (strlen(context) > FIELD_MAX)
		return false;
	if (compat)
		wcursor_le16(&w, (uint16_t)len);
	else
		wcursor_be16(&w, (uint16_t)len);
	put_field(&w, PREFIX, label, compat);
	put_field(&w, "", context, compat);
	kdf = EVP_KDF_fetch(NULL, "HKDF", NULL);
	ctx = kdf ? EVP_KDF_CTX_new(kdf) : NULL;
	{
		OSSL_PARAM params[] = {
			OSSL_PARAM_construct_utf8_string(
				OSSL_KDF_PARAM_DIGEST,
				(char *)(uintptr_t)(hash == NVMF_AUTH_SHA256 ? "SHA256" : "SHA384"),
				0),
			OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, (void *)(uintptr_t)in,
							  len),
			OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, info,
							  (size_t)(w.p - info)),
			OSSL_PARAM_construct_end()};

		ok = ctx && !w.overrun && EVP_KDF_derive(ctx, ret, len, params) > 0;
	}
	EVP_KDF_CTX_free(ctx);
	EVP_KDF_free(kdf);
	return ok;
}

/* What only who has the key can say of the two names. */
static bool digest_of(uint8_t hash, const uint8_t *retained, size_t len, const char *hostnqn,
		      const char *subnqn, char ret[DIGEST_TEXT + 1])
{
	const struct auth_piece pieces[] = {{hostnqn, strlen(hostnqn)},
					    {" ", 1},
					    {subnqn, strlen(subnqn)},
					    {" NVMe-over-Fabrics", 18}};
	uint8_t mac[NVMF_AUTH_HASH_MAX];

	if (!auth_hmac(hash, retained, len, pieces, ARRAY_SIZE(pieces), mac))
		return false;
	EVP_EncodeBlock((unsigned char *)ret, mac, (int)auth_hash_len(hash));
	return true;
}

static bool of_retained(const uint8_t *retained, size_t len, struct auth_psk_way way,
			bool generated, const char *hostnqn, const char *subnqn,
			struct auth_psk *ret)
{
	struct text id = {.at = ret->identity, .room = sizeof(ret->identity)};
	char digest[DIGEST_TEXT + 1] = "", context_text[CONTEXT_EXTRA + DIGEST_TEXT + 1];
	struct text context = {.at = context_text, .room = sizeof(context_text)};
	const char head[] = {'N', 'V', 'M', 'e', (char)('0' + way.version), generated ? 'G' : 'R'};

	ret->len = (uint8_t)len;
	if (way.version && !digest_of(ret->hash, retained, len, hostnqn, subnqn, digest))
		return false;
	put(&id, head, sizeof(head));
	put_hash(&id, ret->hash);
	put_word(&id, hostnqn);
	put_word(&id, " ");
	put_word(&id, subnqn);
	if (way.version) {
		put_word(&id, " ");
		put_word(&id, digest);
		put_hash(&context, ret->hash);
		put_word(&context, digest);
	}
	return !id.overrun && !context.overrun &&
	       expand(ret->hash, way.compat, retained, len, "nvme-tls-psk",
		      way.version ? context_text : ret->identity, ret->key);
}

static bool whole(bool ok, struct auth_psk *ret)
{
	if (!ok)
		auth_wipe(ret, sizeof(*ret));
	return ok;
}

bool auth_psk_derive(const struct auth_key *k, struct auth_psk_way way, const char *hostnqn,
		     const char *subnqn, struct auth_psk *ret)
{
	uint8_t retained[AUTH_KEY_MAX];
	bool ok = true;

	assert(k->len == 32 || k->len == 48);
	*ret = (struct auth_psk){.hash = k->len == 32 ? NVMF_AUTH_SHA256 : NVMF_AUTH_SHA384};
	if (k->hash)
		ok = expand(k->hash, way.compat, k->key, k->len, "HostNQN", hostnqn, retained);
	else
		memcpy(retained, k->key, k->len);
	ok = ok && of_retained(retained, k->len, way, false, hostnqn, subnqn, ret);
	auth_wipe(retained, sizeof(retained));
	return whole(ok, ret);
}

/* The session key is the secret's hash: HMAC takes that of a key longer than a block by itself. */
bool auth_psk_generate(uint8_t hash, const uint8_t *secret, size_t secret_len, const uint8_t *c1,
		       const uint8_t *c2, const char *hostnqn, const char *subnqn,
		       struct auth_psk *ret)
{
	const size_t len = auth_hash_len(hash);
	const struct auth_piece challenges[] = {{c1, len}, {c2, len}};
	uint8_t generated[AUTH_KEY_MAX];
	bool ok;

	assert(hash == NVMF_AUTH_SHA256 || hash == NVMF_AUTH_SHA384);
	*ret = (struct auth_psk){.hash = hash};
	ok = auth_hmac(hash, secret, secret_len, challenges, ARRAY_SIZE(challenges), generated) &&
	     of_retained(generated, len, (struct auth_psk_way){.version = 1}, true, hostnqn, subnqn,
			 ret);
	auth_wipe(generated, sizeof(generated));
	return whole(ok, ret);
}

/* --- identities ------------------------------------------------------------------------------- */

/* A name up to the next space, or the end; NULL: it is none that a host or subsystem has. */
static const char *take_nqn(const char *p, char ret[NVME_NQN_LEN])
{
	const char *end = strchr(p, ' ');
	size_t len = end ? (size_t)(end - p) : strlen(p);

	if (len < 5 || len >= NVME_NQN_LEN || memcmp(p, "nqn.", 4) != 0)
		return NULL;
	memcpy(ret, p, len);
	ret[len] = 0;
	return p + len;
}

int auth_identity_parse(const char *text, struct auth_identity *ret)
{
	const char *p = text + HEAD_LEN;

	*ret = (struct auth_identity){.digest = ""};
	if (strlen(text) <= HEAD_LEN || memcmp(text, "NVMe", HEAD_VERSION) != 0)
		return -EINVAL;
	if ((text[HEAD_VERSION] != '0' && text[HEAD_VERSION] != '1') ||
	    (text[HEAD_KIND] != 'R' && text[HEAD_KIND] != 'G') ||
	    (memcmp(text + HEAD_HASH, "01 ", 3) != 0 && memcmp(text + HEAD_HASH, "02 ", 3) != 0))
		return -EINVAL;
	ret->version = (uint8_t)(text[HEAD_VERSION] - '0');
	ret->generated = text[HEAD_KIND] == 'G';
	ret->hash = (uint8_t)(text[HEAD_HASH + 1] - '0');
	p = take_nqn(p, ret->hostnqn);
	if (!p || *p != ' ')
		return -EINVAL;
	p = take_nqn(p + 1, ret->subnqn);
	if (!p || (*p == ' ') != (ret->version == 1))
		return -EINVAL;
	if (ret->version)
		ret->digest = p + 1;
	return ret->version && !*ret->digest ? -EINVAL : 0;
}
