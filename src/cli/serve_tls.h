/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The keys of TLS that `weft serve` has of hosts: of files that its options name, each with the key
 * of one host or of all others, and of one file with many, a line each:
 *
 *	[HOSTNQN] NVMeTLSkey-1:...
 *
 * No document has them: what nvmetcli saves is read by more people than keys are for.
 */
#ifndef WEFT_CLI_SERVE_TLS_H
#define WEFT_CLI_SERVE_TLS_H

#include "config/config.h"
#include "nvmf/auth/key.h"

#define SERVE_TLS_TEXTS_MAX 64
#define SERVE_TLS_KEYS_MAX  CONFIG_HOSTS_MAX

struct tls_keys {
	struct tls_key_of {
		char hostnqn[NVME_NQN_LEN]; /* empty: of whoever has no entry of his own */
		struct auth_key key;
	} * of;
	uint32_t count;
};

struct serve_tls {
	const char *texts[SERVE_TLS_TEXTS_MAX]; /* [HOSTNQN=]FILE */
	uint32_t text_count;
	const char *file; /* with many; NULL: none */
	bool compat;
	struct tls_keys keys;
};

/* All that the options name, anew. -errno, and why: what file, and what is wrong. */
int serve_tls_read(const struct serve_tls *s, struct tls_keys *ret, char *why,
		   size_t room) must_use;
/* These in the place of those there were, which are wiped; true: they differ. */
bool serve_tls_become(struct serve_tls *s, struct tls_keys *next);
void tls_keys_free(struct tls_keys *k);
/* As struct target_env has it. */
bool serve_tls_find(const struct serve_tls *s, const char *hostnqn, struct auth_key *ret);
/* Whether a configuration can be served with these keys; -EINVAL, and why. proving: there are hosts
 * that prove themselves besides those that it names. */
int serve_tls_check(const struct tls_keys *k, bool proving, const struct config *c, char *why,
		    size_t room) must_use;
/* Whether any port of it has TLS. */
bool serve_tls_wanted(const struct config *c);

#endif
