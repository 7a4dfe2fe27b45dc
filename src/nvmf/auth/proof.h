/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What DH-HMAC-CHAP reckons: Diffie-Hellman in the groups of RFC 7919, and the responses
 * that prove that somebody has a key. By OpenSSL, without its randomness: that is handed in.
 * Base 2.0 section 8.13.5.
 *
 * Whatever returns bool is false where the library had no memory, or lacks an algorithm, and else
 * only where it says so.
 */
#ifndef WEFT_NVMF_AUTH_PROOF_H
#define WEFT_NVMF_AUTH_PROOF_H

#include "nvmf/auth/hash.h"
#include "nvmf/auth/key.h"

#define AUTH_DH_PRIVATE_LEN 56 /* random bytes for an exponent, more than any group takes */

bool auth_dhgroup_known(uint8_t group);
/* Bytes of a DH value; 0 of the NULL group. */
size_t auth_dh_len(uint8_t group);
/* "ffdhe2048", "null"; NULL: not one of ours. */
const char *auth_dhgroup_name(uint8_t group);

/* g^x mod p, auth_dh_len() bytes; of a group other than NULL. */
bool auth_dh_public(uint8_t group, const uint8_t random[AUTH_DH_PRIVATE_LEN],
		    uint8_t *ret) must_use;
/* y^x mod p, as many bytes. False, too: y is not in the group, or gives the secret away. */
bool auth_dh_secret(uint8_t group, const uint8_t random[AUTH_DH_PRIVATE_LEN], const uint8_t *y,
		    uint8_t *ret) must_use;

/* What both sides know when one proves itself to the other. */
struct auth_round {
	uint8_t hash;
	uint16_t t_id;
	uint8_t sc_c;
	const char *hostnqn, *subnqn;
	/* The DH secret; 0 bytes in the NULL group. */
	const uint8_t *secret;
	size_t secret_len;
};

/* The host's response to the controller's challenge (of the hash's length), and the other way
 * round. */
bool auth_host_response(const struct auth_round *r, const struct auth_key *k,
			const uint8_t *challenge, uint32_t seqnum,
			uint8_t ret[NVMF_AUTH_HASH_MAX]) must_use;
bool auth_ctrl_response(const struct auth_round *r, const struct auth_key *k,
			const uint8_t *challenge, uint32_t seqnum,
			uint8_t ret[NVMF_AUTH_HASH_MAX]) must_use;

#endif
