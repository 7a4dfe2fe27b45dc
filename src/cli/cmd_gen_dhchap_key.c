/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* weft gen-dhchap-key: a key of DH-HMAC-CHAP, with nvme-cli's options and look. */
#include <argp.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/nvme_opts.h"
#include "cli/secret.h"
#include "nvmf/auth/hash.h"

int cmd_gen_dhchap_key(int argc, char **argv);

struct gen {
	struct nvme_opts host; /* for the name alone */
	const char *secret;
	char *secret_word;
	unsigned int len, hash;
};

static const struct argp_option options[] = {
	{"secret", 's', "HEX", 0,
	 "Make it of these bytes, or with @FILE of those in its first line, in place of random "
	 "ones",
	 0},
	{"key-length", 'l', "32|48|64", 0, "Bytes of the key (default: of the HMAC, or 32)", 0},
	{"hmac", 'm', "0|1|2|3", 0,
	 "HMAC that it is transformed by: none (default), SHA-256, SHA-384, SHA-512", 0},
	{"nqn", 'n', "NQN", 0, "Name of the host, for an HMAC (default: /etc/nvme/hostnqn)", 0},
	{0},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct gen *g = state->input;

	switch (key) {
	case 's':
		g->secret = g->secret_word = arg;
		return 0;
	case 'l':
		g->len = (unsigned int)cli_parse_number(state, "--key-length", arg, 32, 64);
		return 0;
	case 'm':
		g->hash = (unsigned int)cli_parse_number(state, "--hmac", arg, 0, 3);
		return 0;
	case 'n':
		if (!nvme_nqn_valid(arg))
			argp_error(state, "--nqn takes a name that begins nqn., not '%s'", arg);
		else
			strcpy(g->host.uri.hostnqn, arg);
		return 0;
	case ARGP_KEY_END:
		if (!g->len)
			g->len = g->hash ? (unsigned int)auth_hash_len((uint8_t)g->hash) : 32;
		if (!auth_key_len_fits((uint8_t)g->hash, g->len))
			argp_error(state, "a key of %u bytes does not go with --hmac=%u: %s",
				   g->len, g->hash,
				   g->hash ? "it has as many as the hash, 32, 48 or 64 for 1, 2, 3"
					   : "it has 32, 48 or 64");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp argp = {
	.options = options,
	.parser = parse,
	.doc = "Make a key of DH-HMAC-CHAP, for a host or a target, and print it.",
};

/* As nvme-cli's, a key with an HMAC has gone through it once before it is written down. */
static bool make(struct gen *g, struct auth_key *k)
{
	struct auth_key raw = {.hash = (uint8_t)g->hash, .len = (uint8_t)g->len};
	char nqn[NVME_URI_NQN_MAX + 1];
	uint8_t id[16];
	bool ok = true;

	if (g->hash && nvme_host_identity(&g->host, nqn, id))
		return false;
	if (g->secret)
		ok = secret_from_hex(g->secret, raw.len, "--key-length", raw.key);
	else
		secret_random(NULL, raw.key, raw.len);
	*k = raw;
	if (ok && g->hash && !auth_key_transform(&raw, nqn, k->key)) {
		cli_fail("out of memory");
		ok = false;
	}
	auth_wipe(&raw, sizeof(raw));
	return ok;
}

int cmd_gen_dhchap_key(int argc, char **argv)
{
	char text[AUTH_KEY_TEXT_MAX];
	struct auth_key k = {0};
	struct gen g = {0};
	int status = EXIT_FAILED;

	cli_parse(&argp, "gen-dhchap-key", argc, argv, &g);
	if (make(&g, &k)) {
		auth_key_format(&k, text);
		status = puts(text) < 0 || fflush(stdout) ? EXIT_FAILED : EXIT_OK;
		auth_wipe(text, sizeof(text));
	}
	secret_mask(g.secret_word);
	auth_wipe(&k, sizeof(k));
	return status;
}
