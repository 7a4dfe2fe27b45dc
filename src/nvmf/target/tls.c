/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Keys of TLS as the target knows hosts by them. A host names itself and the subsystem in the
 * identity that it offers, in clear and before it has shown anything; what it has shown when the
 * handshake is over is held against its Connect (fabrics.c).
 */
#include "nvmf/target/internal.h"

static bool derive(const struct target *t, const struct auth_identity *who, struct auth_psk *ret)
{
	const struct auth_psk_way way = {.version = who->version, .compat = t->env.tls_compat};
	struct auth_key key;
	bool ok;

	if (!t->env.tls_key || !t->env.tls_key(t->env.ctx, who->hostnqn, &key))
		return false;
	ok = auth_psk_derive(&key, way, who->hostnqn, who->subnqn, ret);
	auth_wipe(&key, sizeof(key));
	return ok;
}

bool target_tls_find(struct target *t, const char *identity, struct auth_psk *ret)
{
	struct auth_identity who;

	*ret = (struct auth_psk){0};
	if (auth_identity_parse(identity, &who) || who.generated || !derive(t, &who, ret))
		return false;
	/* Of another key, or another hash. */
	if (strlen(ret->identity) == strlen(identity) &&
	    auth_equal(ret->identity, identity, strlen(identity)))
		return true;
	auth_wipe(ret, sizeof(*ret));
	return false;
}

void target_tls_proved(struct target_queue *q, const char *identity)
{
	struct auth_identity who;

	if (auth_identity_parse(identity, &who))
		assert(!"an identity that was found");
	q->secure = true;
	memcpy(q->tls_hostnqn, who.hostnqn, sizeof(q->tls_hostnqn));
	memcpy(q->tls_subnqn, who.subnqn, sizeof(q->tls_subnqn));
}
