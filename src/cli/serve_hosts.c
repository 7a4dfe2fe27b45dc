/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "cli/serve_hosts.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli/nvme_uri.h"
#include "cli/secret.h"
#include "nvmf/auth/proof.h"

static struct target_host *host_named(struct serve_hosts *s, const char *nqn)
{
	struct target_host *h;

	for (uint32_t i = 0; i < s->count; i++)
		if (strcmp(s->host[i].nqn, nqn) == 0)
			return &s->host[i];
	if (s->count == SERVE_HOSTS_MAX)
		return NULL;
	h = &s->host[s->count++];
	snprintf(h->nqn, sizeof(h->nqn), "%s", nqn);
	return h;
}

int serve_hosts_take_key(struct serve_hosts *s, const char *text, bool ctrl, char *why, size_t room)
{
	char nqn[NVME_URI_NQN_MAX + 2] = "";
	const char *file = text, *equals = strchr(text, '=');
	struct target_host *h;

	if (equals && strncmp(text, "nqn.", 4) == 0) {
		snprintf(nqn, sizeof(nqn), "%.*s", (int)(equals - text), text);
		file = equals + 1;
		if (!nvme_nqn_valid(nqn)) {
			snprintf(why, room, "'%.*s' is no NQN: nqn.... of at most %d characters",
				 (int)min_of(equals - text, (ptrdiff_t)300), text,
				 NVME_URI_NQN_MAX);
			return -EINVAL;
		}
	}
	h = host_named(s, nqn);
	if (!h) {
		snprintf(why, room, "keys of more than %d hosts", SERVE_HOSTS_MAX);
		return -EINVAL;
	}
	return secret_read_file(SECRET_DHCHAP, file, ctrl ? &h->ctrl_key : &h->key, why, room);
}

int serve_hosts_find_hash(const char *name, uint8_t *ret)
{
	for (uint8_t i = NVMF_AUTH_SHA256; i <= NVMF_AUTH_SHA512; i++)
		if (strcmp(name, auth_hash_name(i)) == 0) {
			*ret = i;
			return 0;
		}
	return -EINVAL;
}

int serve_hosts_find_dhgroup(const char *name, uint8_t *ret)
{
	for (uint8_t i = NVMF_AUTH_DH_NULL; i <= NVMF_AUTH_DH_8192; i++)
		if (strcmp(name, auth_dhgroup_name(i)) == 0) {
			*ret = i;
			return 0;
		}
	return -EINVAL;
}

int serve_hosts_add(struct serve_hosts *s, struct target *t, char *why, size_t room)
{
	for (uint32_t i = 0; i < s->count; i++) {
		struct target_host *h = &s->host[i];
		const char *name = h->nqn[0] ? h->nqn : "any host";

		h->hash = s->hash;
		h->dhgroup = s->dhgroup;
		if (!h->key.len) {
			snprintf(why, room,
				 "%s has a --dhchap-ctrl-secret and no --dhchap-secret: it would "
				 "prove nothing itself",
				 name);
			return -EINVAL;
		}
		if (target_host_add(t, h)) {
			snprintf(why, room, "%s cannot be a host", name);
			return -EINVAL;
		}
	}
	return 0;
}

void serve_hosts_wipe(struct serve_hosts *s)
{
	auth_wipe(s, sizeof(*s));
}
