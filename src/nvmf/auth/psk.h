/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Pre-shared keys of TLS: what becomes of a key that is configured, and by which name the two sides
 * speak of it. NVMe/TCP transport 1.1 section 3.6.1, which TP 8018 has brought.
 *
 * Of the configured key and the host's name comes the retained one; of that, and of both names, the
 * identity (which says in clear who wants to speak with whom) and the key that TLS is given:
 *
 *	NVMe<version>R<hash> <host's NQN> <subsystem's NQN>[ <digest>]
 *
 * Version 1 has a digest that only the retained key makes, version 0 has none. G in the place of R
 * is a key that DH-HMAC-CHAP has generated of what its two sides alone know (secure channel
 * concatenation); it is as if it were retained.
 *
 * Both derivations are HKDF-Expand-Label of TLS 1.3. Older nvme-cli (libnvme 1.13, which Debian 13
 * has) leaves the lengths of label and context out and writes that of the key the other way round:
 * `compat` does as that does, for keys are the same on both sides or they are none.
 */
#ifndef WEFT_NVMF_AUTH_PSK_H
#define WEFT_NVMF_AUTH_PSK_H

#include "nvmf/auth/hash.h"
#include "nvmf/auth/key.h"

#define AUTH_PSK_MAX	  48
#define AUTH_IDENTITY_MAX (9 + 2 * NVME_NQN_LEN + 64 + 1) /* with the zero at its end */

struct auth_psk {
	uint8_t hash; /* of the cipher suite: NVMF_AUTH_SHA256, _SHA384 */
	uint8_t len;  /* its bytes; 0: there is none */
	uint8_t key[AUTH_PSK_MAX];
	char identity[AUTH_IDENTITY_MAX];
};

/* What an identity says. */
struct auth_identity {
	uint8_t version, hash;
	bool generated;
	char hostnqn[NVME_NQN_LEN], subnqn[NVME_NQN_LEN];
	const char *digest; /* within the text; "" in version 0 */
};

/* -EINVAL: it is none. */
int auth_identity_parse(const char *text, struct auth_identity *ret) must_use;

/* How the two sides derive. */
struct auth_psk_way {
	uint8_t version;
	bool compat;
};

/*
 * The key of TLS by which this host and this subsystem know each other, with its identity, of a key
 * that is configured. False: the library had no memory; or, of version 0, the identity is longer
 * than the derivation has room for.
 */
bool auth_psk_derive(const struct auth_key *configured, struct auth_psk_way way,
		     const char *hostnqn, const char *subnqn, struct auth_psk *ret) must_use;
/*
 * The same of one that a transaction generates: of the DH secret, there being no other key, and
 * both challenges (of the hash's length: SHA-256 or SHA-384). Base 2.0 section 8.13.5.9.
 */
bool auth_psk_generate(uint8_t hash, const uint8_t *secret, size_t secret_len, const uint8_t *c1,
		       const uint8_t *c2, const char *hostnqn, const char *subnqn,
		       struct auth_psk *ret) must_use;

#endif
