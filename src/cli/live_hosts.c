/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "cli/live_hosts.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/serve_hosts.h"
#include "nvmf/auth/hash.h"

/* As Linux's target has it, hmac(sha256): what is saved here it is to take, too. */
static int find_hash(const char *text, uint8_t *ret)
{
	char name[16];
	int end = 0;

	if (sscanf(text, "hmac(%15[^)])%n", name, &end) != 1 || !end || text[end])
		return -EINVAL;
	return serve_hosts_find_hash(name, ret);
}

/* What is wrong with it, and the key of the document where; NULL: nothing. */
static const char *read_keys(const struct config_host *c, struct target_host *h,
			     const char **ret_at)
{
	const char *why = NULL;

	*ret_at = "key";
	if (!c->key)
		return "without it the host proves nothing, and nothing is proved to it";
	if (auth_key_parse(c->key, &h->key, &why))
		return why;
	*ret_at = "ctrl_key";
	if (c->ctrl_key && auth_key_parse(c->ctrl_key, &h->ctrl_key, &why))
		return why;
	*ret_at = "hash";
	if (c->hash && find_hash(c->hash, &h->hash))
		return "it is hmac(sha256), hmac(sha384) or hmac(sha512)";
	*ret_at = "dhgroup";
	if (c->dhgroup && serve_hosts_find_dhgroup(c->dhgroup, &h->dhgroup))
		return "it is null or ffdhe2048, ffdhe3072, ffdhe4096, ffdhe6144 or ffdhe8192";
	return NULL;
}

int live_hosts_prepare(const struct config *c, struct live_hosts *ret, char *why, size_t room)
{
	*ret = (struct live_hosts){
		.host = calloc(c->host_count + 1, sizeof(*ret->host)),
		.hidden = calloc(c->host_count + 1, sizeof(struct target_host *)),
	};
	if (!ret->host || !ret->hidden) {
		live_hosts_free(ret);
		snprintf(why, room, "out of memory");
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < c->host_count; i++) {
		struct target_host *h = &ret->host[ret->count];
		const char *at, *wrong;

		if (!c->hosts[i].key && !c->hosts[i].ctrl_key)
			continue;
		ret->count++;
		list_init(&h->link);
		snprintf(h->nqn, sizeof(h->nqn), "%s", c->hosts[i].nqn);
		wrong = read_keys(&c->hosts[i], h, &at);
		if (wrong) {
			snprintf(why, room, "hosts[%u].dhchap.%s: %s", i, at, wrong);
			live_hosts_free(ret);
			return -EINVAL;
		}
	}
	return 0;
}

static bool same_key(const struct auth_key *a, const struct auth_key *b)
{
	return a->hash == b->hash && a->len == b->len && auth_equal(a->key, b->key, a->len);
}

static bool equal(const struct live_hosts *a, const struct live_hosts *b)
{
	if (a->count != b->count)
		return false;
	for (uint32_t i = 0; i < a->count; i++) {
		const struct target_host *x = &a->host[i], *y = &b->host[i];

		if (strcmp(x->nqn, y->nqn) != 0 || x->hash != y->hash || x->dhgroup != y->dhgroup ||
		    !same_key(&x->key, &y->key) || !same_key(&x->ctrl_key, &y->ctrl_key))
			return false;
	}
	return true;
}

static void add(struct target *t, struct target_host *h)
{
	int error = target_host_add(t, h);

	assert(!error); /* it has a key, and a name that is nobody's */
}

static struct target_host *take_out(struct target *t, const char *nqn)
{
	list_for_each(h, &t->hosts, struct target_host, link)
		if (strcmp(h->nqn, nqn) == 0) {
			target_host_remove(t, h);
			return h;
		}
	return NULL;
}

bool live_hosts_become(struct live_hosts *l, struct live_hosts *next, struct target *t)
{
	bool differ = !equal(l, next);

	for (uint32_t i = 0; i < l->count; i++) {
		target_host_remove(t, &l->host[i]);
		if (l->hidden[i])
			add(t, l->hidden[i]);
	}
	live_hosts_free(l);
	*l = *next;
	*next = (struct live_hosts){0};
	for (uint32_t i = 0; i < l->count; i++) {
		l->hidden[i] = take_out(t, l->host[i].nqn);
		add(t, &l->host[i]);
	}
	return differ;
}

void live_hosts_free(struct live_hosts *l)
{
	if (l->host)
		auth_wipe(l->host, l->count * sizeof(*l->host));
	free(l->host);
	free(l->hidden);
	*l = (struct live_hosts){0};
}
