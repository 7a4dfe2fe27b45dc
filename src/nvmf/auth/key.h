/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Secrets of DH-HMAC-CHAP, and their form as text: DHHC-1:HH:BASE64:, as nvme-cli and nvmet have
 * it. HH says by which hash the key is transformed before use, 00 not at all; the base64 holds the
 * key and four bytes of CRC-32 behind it, little-endian.
 *
 * Pre-shared keys of TLS have a form of the same kind, NVMeTLSkey-1:HH:BASE64:, where HH says by
 * which hash the key as it is configured becomes the one that is retained (psk.h), and is that of
 * the cipher suite, too.
 *
 * No message here quotes a key. Who holds one wipes it when it is done with.
 */
#ifndef WEFT_NVMF_AUTH_KEY_H
#define WEFT_NVMF_AUTH_KEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "wire/nvme_auth.h"

#define AUTH_KEY_MAX	  64
#define AUTH_KEY_TEXT_MAX 104 /* characters of the longest, and the zero */

struct auth_key {
	uint8_t hash; /* that it is transformed by: 0 or enum nvmf_auth_hash */
	uint8_t len;  /* 32, 48 or 64; 0: there is none */
	uint8_t key[AUTH_KEY_MAX];
};

/* -EINVAL with the reason, a static text; the key is then none. Whatever stands behind the text (a
 * newline of a file) is not part of it: the caller cuts it off. */
int auth_key_parse(const char *text, struct auth_key *ret, const char **ret_why) must_use;
void auth_key_format(const struct auth_key *k, char ret[AUTH_KEY_TEXT_MAX]);
/* The same of a key of TLS: its hash is 0, SHA-256 or SHA-384, and it has 32 or 48 bytes. */
int auth_tls_key_parse(const char *text, struct auth_key *ret, const char **ret_why) must_use;
void auth_tls_key_format(const struct auth_key *k, char ret[AUTH_KEY_TEXT_MAX]);
/* Of the key alone, as its text has it. */
uint32_t auth_key_crc(const struct auth_key *k);
/* Bytes that a key of this hash has: one number, or any of the three where it is 0. */
bool auth_key_len_fits(uint8_t hash, size_t len);
/*
 * The key as it is used by (or towards) whoever has this name: as many bytes as it has. False: the
 * library had no memory.
 */
bool auth_key_transform(const struct auth_key *k, const char *nqn,
			uint8_t ret[AUTH_KEY_MAX]) must_use;

#endif
