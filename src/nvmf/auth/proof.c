/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "nvmf/auth/proof.h"

#include <string.h>

#include "base/bytes.h"

/* --- responses -------------------------------------------------------------------------------- */

/* With a DH secret it is not the challenge that is answered, but what only the two make of it. */
static bool augment(const struct auth_round *r, const uint8_t *challenge, uint8_t *ret)
{
	size_t len = auth_hash_len(r->hash);
	const struct auth_piece c = {challenge, len};
	uint8_t key[NVMF_AUTH_HASH_MAX];
	bool ok;

	if (!r->secret_len) {
		memcpy(ret, challenge, len);
		return true;
	}
	ok = auth_digest(r->hash, r->secret, r->secret_len, key) &&
	     auth_hmac(r->hash, key, len, &c, 1, ret);
	auth_wipe(key, sizeof(key));
	return ok;
}

/* first: who proves itself, the name that its key is transformed by. */
static bool respond(const struct auth_round *r, const struct auth_key *k, const uint8_t *challenge,
		    uint32_t seqnum, const char *role, const char *first, const char *second,
		    uint8_t *ret)
{
	uint8_t key[AUTH_KEY_MAX], c[NVMF_AUTH_HASH_MAX], numbers[7];
	const struct auth_piece pieces[] = {
		{c, auth_hash_len(r->hash)},
		{numbers, sizeof(numbers)},
		{role, strlen(role)},
		{first, strlen(first)},
		{"", 1},
		{second, strlen(second)},
	};
	bool ok;

	st_le32(numbers, seqnum);
	st_le16(numbers + 4, r->t_id);
	numbers[6] = r->sc_c;
	ok = augment(r, challenge, c) && auth_key_transform(k, first, key) &&
	     auth_hmac(r->hash, key, k->len, pieces, ARRAY_SIZE(pieces), ret);
	auth_wipe(key, sizeof(key));
	auth_wipe(c, sizeof(c));
	return ok;
}

bool auth_host_response(const struct auth_round *r, const struct auth_key *k,
			const uint8_t *challenge, uint32_t seqnum, uint8_t ret[NVMF_AUTH_HASH_MAX])
{
	return respond(r, k, challenge, seqnum, "HostHost", r->hostnqn, r->subnqn, ret);
}

bool auth_ctrl_response(const struct auth_round *r, const struct auth_key *k,
			const uint8_t *challenge, uint32_t seqnum, uint8_t ret[NVMF_AUTH_HASH_MAX])
{
	return respond(r, k, challenge, seqnum, "Controller", r->subnqn, r->hostnqn, ret);
}
