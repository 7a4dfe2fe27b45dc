/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "cli/serve_tls.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/errno_text.h"
#include "cli/nvme_uri.h"
#include "cli/secret.h"
#include "nvmf/auth/hash.h"

/* --- one by one ------------------------------------------------------------------------------- */

static const struct tls_key_of *find(const struct tls_keys *k, const char *hostnqn)
{
	for (uint32_t i = 0; i < k->count; i++)
		if (strcmp(k->of[i].hostnqn, hostnqn) == 0)
			return &k->of[i];
	return NULL;
}

/* Where it is told of, for what is said of it. */
static int add(struct tls_keys *k, const char *place, const char *hostnqn,
	       const struct auth_key *key, char *why, size_t room)
{
	if (find(k, hostnqn)) {
		snprintf(why, room, "%s: there is a key of %s already", place,
			 *hostnqn ? hostnqn : "all hosts");
		return -EINVAL;
	}
	if (k->count == SERVE_TLS_KEYS_MAX) {
		snprintf(why, room, "%s: keys of more than %d hosts", place, SERVE_TLS_KEYS_MAX);
		return -EINVAL;
	}
	snprintf(k->of[k->count].hostnqn, sizeof(k->of->hostnqn), "%s", hostnqn);
	k->of[k->count++].key = *key;
	return 0;
}

/* What comes by a pipe comes once: at a reload it is as it was. */
static bool comes_once(const char *path)
{
	struct stat st;

	return strcmp(path, "-") == 0 || (stat(path, &st) == 0 && !S_ISREG(st.st_mode));
}

/* [HOSTNQN=]FILE. before: the keys there are. */
static int add_text(struct tls_keys *k, const struct tls_keys *before, const char *text, char *why,
		    size_t room)
{
	char nqn[NVME_URI_NQN_MAX + 2] = "";
	const char *file = text, *equals = strchr(text, '=');
	const struct tls_key_of *was;
	struct auth_key key;
	int error = 0;

	if (equals && strncmp(text, "nqn.", 4) == 0) {
		snprintf(nqn, sizeof(nqn), "%.*s", (int)(equals - text), text);
		file = equals + 1;
		if (!nvme_nqn_valid(nqn)) {
			snprintf(why, room, "'%s' is no NQN", nqn);
			return -EINVAL;
		}
	}
	was = comes_once(file) ? find(before, nqn) : NULL;
	if (was)
		key = was->key;
	else
		error = secret_read_file(SECRET_TLS, file, &key, why, room);
	if (!error)
		error = add(k, text, nqn, &key, why, room);
	auth_wipe(&key, sizeof(key));
	return error;
}

/* --- a file with many ------------------------------------------------------------------------- */

static int add_line(struct tls_keys *k, const char *place, char *line, char *why, size_t room)
{
	const char *nqn = strtok(line, " \t\r\n"), *text = strtok(NULL, " \t\r\n"), *reason;
	struct auth_key key;
	int error;

	if (!nqn || nqn[0] == '#')
		return 0;
	if (!text) {
		text = nqn;
		nqn = "";
	}
	if (*nqn && !nvme_nqn_valid(nqn)) {
		snprintf(why, room, "%s: a line reads [HOSTNQN] KEY", place);
		return -EINVAL;
	}
	error = auth_tls_key_parse(text, &key, &reason);
	if (error)
		snprintf(why, room, "%s: %s", place, reason);
	else
		error = add(k, place, nqn, &key, why, room);
	auth_wipe(&key, sizeof(key));
	return error;
}

static int add_lines(struct tls_keys *k, FILE *f, const char *path, char *why, size_t room)
{
	char line[NVME_URI_NQN_MAX + AUTH_KEY_TEXT_MAX + 64], place[512];
	int error = 0;

	for (unsigned int n = 1; !error && fgets(line, sizeof(line), f); n++) {
		snprintf(place, sizeof(place), "%.400s, line %u", path, n);
		if (!strchr(line, '\n') && !feof(f)) {
			snprintf(why, room, "%s: it is too long", place);
			error = -EINVAL;
		} else {
			error = add_line(k, place, line, why, room);
		}
	}
	if (!error && ferror(f)) {
		error = -EIO;
		snprintf(why, room, "%s: cannot be read", path);
	}
	auth_wipe(line, sizeof(line));
	return error;
}

static int add_file(struct tls_keys *k, const char *path, char *why, size_t room)
{
	static char buffer[4096]; /* of the stream, that it can be wiped */
	FILE *f = fopen(path, "re");
	struct stat st;
	int error;

	if (!f) {
		error = -errno;
		snprintf(why, room, "%s: %s", path, errno_text(-error));
		return error;
	}
	setvbuf(f, buffer, _IOFBF, sizeof(buffer));
	if (fstat(fileno(f), &st) == 0 && S_ISREG(st.st_mode))
		secret_check_mode(path, (unsigned int)st.st_mode);
	error = add_lines(k, f, path, why, room);
	fclose(f);
	auth_wipe(buffer, sizeof(buffer));
	return error;
}

/* Those that there are of such a file: behind the others. */
static int add_all(struct tls_keys *k, const struct serve_tls *s, char *why, size_t room)
{
	int error = 0;

	for (uint32_t i = s->text_count; i < s->keys.count && !error; i++)
		error = add(k, s->file, s->keys.of[i].hostnqn, &s->keys.of[i].key, why, room);
	return error;
}

/* --- all -------------------------------------------------------------------------------------- */

int serve_tls_read(const struct serve_tls *s, struct tls_keys *ret, char *why, size_t room)
{
	char text[600] = "";
	const char *option = "--tls-key";
	int error = 0;

	*ret = (struct tls_keys){.of = calloc(SERVE_TLS_KEYS_MAX, sizeof(*ret->of))};
	if (!ret->of) {
		snprintf(why, room, "out of memory");
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < s->text_count && !error; i++)
		error = add_text(ret, &s->keys, s->texts[i], text, sizeof(text));
	if (!error && s->file) {
		option = "--tls-keys";
		error = s->keys.of && comes_once(s->file)
				? add_all(ret, s, text, sizeof(text))
				: add_file(ret, s->file, text, sizeof(text));
	}
	if (error) {
		snprintf(why, room, "%s: %s", option, text);
		tls_keys_free(ret);
	}
	return error;
}

void tls_keys_free(struct tls_keys *k)
{
	if (k->of)
		auth_wipe(k->of, k->count * sizeof(*k->of));
	free(k->of);
	*k = (struct tls_keys){0};
}

static bool same(const struct tls_keys *a, const struct tls_keys *b)
{
	if (a->count != b->count)
		return false;
	for (uint32_t i = 0; i < a->count; i++) {
		const struct tls_key_of *x = &a->of[i], *y = &b->of[i];

		if (strcmp(x->hostnqn, y->hostnqn) != 0 || x->key.hash != y->key.hash ||
		    x->key.len != y->key.len || !auth_equal(x->key.key, y->key.key, x->key.len))
			return false;
	}
	return true;
}

bool serve_tls_become(struct serve_tls *s, struct tls_keys *next)
{
	bool differ = !same(&s->keys, next);

	tls_keys_free(&s->keys);
	s->keys = *next;
	*next = (struct tls_keys){0};
	return differ;
}

bool serve_tls_find(const struct serve_tls *s, const char *hostnqn, struct auth_key *ret)
{
	const struct tls_key_of *k = find(&s->keys, hostnqn);

	if (!k)
		k = find(&s->keys, "");
	if (k)
		*ret = k->key;
	return k != NULL;
}

/* --- and what is served ----------------------------------------------------------------------- */

bool serve_tls_wanted(const struct config *c)
{
	for (uint32_t i = 0; i < c->port_count; i++)
		if (c->ports[i].tls)
			return true;
	return false;
}

/* Of such a key a host that may come in plain makes one of TLS. */
static bool any_proves_itself(const struct config *c)
{
	for (uint32_t i = 0; i < c->host_count; i++)
		if (c->hosts[i].key)
			return true;
	return false;
}

int serve_tls_check(const struct tls_keys *k, bool proving, const struct config *c, char *why,
		    size_t room)
{
	proving |= any_proves_itself(c);
	for (uint32_t i = 0; i < c->port_count && !k->count; i++) {
		const struct config_port *p = &c->ports[i];

		if (!p->tls || (p->tls == CONFIG_TLS_OFFERED && proving))
			continue;
		snprintf(why, room,
			 "port %u (%s port %s) is for TLS, and there is no key of any host: "
			 "--tls-key or --tls-keys names files with keys; `weft gen-tls-key` makes "
			 "one",
			 p->portid, p->addr.traddr, p->addr.trsvcid);
		return -EINVAL;
	}
	return 0;
}
