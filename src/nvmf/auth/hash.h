/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Hashes and HMACs of enum nvmf_auth_hash, by OpenSSL, and how secrets are compared and wiped. */
#ifndef WEFT_NVMF_AUTH_HASH_H
#define WEFT_NVMF_AUTH_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "wire/nvme_auth.h"

/* Bytes; 0: not one of ours. */
size_t auth_hash_len(uint8_t hash);
/* "sha256"; NULL: not one of ours. */
const char *auth_hash_name(uint8_t hash);

struct auth_piece {
	const void *p;
	size_t len;
};

#define AUTH_PIECES_LEN_MAX 1024 /* all that is ever hashed at a time by an HMAC */

/* auth_hash_len() bytes. False: the library had no memory, or lacks the algorithm. */
bool auth_hmac(uint8_t hash, const void *key, size_t key_len, const struct auth_piece *pieces,
	       unsigned int count, uint8_t *ret) must_use;
bool auth_digest(uint8_t hash, const void *p, size_t len, uint8_t *ret) must_use;
/* In a time that tells nothing. */
bool auth_equal(const void *a, const void *b, size_t len);
void auth_wipe(void *p, size_t len);

#endif
