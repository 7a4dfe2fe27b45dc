/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* weft gen-tls-key: a pre-shared key of TLS, with nvme-cli's options and look. */
#include <argp.h>
#include <stdio.h>

#include "cli/cli.h"
#include "cli/nvme_opts.h"
#include "cli/secret.h"
#include "nvmf/auth/hash.h"

int cmd_gen_tls_key(int argc, char **argv);

enum { KEY_KEYRING = 'k', KEY_INSERT = 'i' };

struct gen {
	char *secret;
	unsigned int hash;
};

static const struct argp_option options[] = {
	{"secret", 's', "HEX", 0,
	 "Make it of these bytes, or with @FILE of those in its first line, in place of random "
	 "ones",
	 0},
	{"hmac", 'm', "1|2", 0,
	 "Hash by which it becomes the key that is retained, and of the cipher: SHA-256 (default), "
	 "SHA-384",
	 0},
	{"insert", KEY_INSERT, NULL, OPTION_HIDDEN, "", 0},
	{"keyring", KEY_KEYRING, "NAME", OPTION_HIDDEN, "", 0},
	{0},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct gen *g = state->input;

	switch (key) {
	case 's':
		g->secret = arg;
		return 0;
	case 'm':
		g->hash = (unsigned int)cli_parse_number(state, "--hmac", arg, 1, 2);
		return 0;
	case KEY_INSERT:
	case KEY_KEYRING:
		argp_error(state, "weft puts no key into a keyring of the kernel's: leave --insert "
				  "and --keyring out, and keep what is "
				  "printed");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp argp = {
	.options = options,
	.parser = parse,
	.doc = "Make a pre-shared key of TLS, for a host and the target, and print it.",
};

int cmd_gen_tls_key(int argc, char **argv)
{
	struct gen g = {.hash = NVMF_AUTH_SHA256};
	char text[AUTH_KEY_TEXT_MAX];
	struct auth_key k;
	int status = EXIT_FAILED;
	bool ok = true;

	cli_parse(&argp, "gen-tls-key", argc, argv, &g);
	k = (struct auth_key){.hash = (uint8_t)g.hash,
			      .len = (uint8_t)auth_hash_len((uint8_t)g.hash)};
	if (g.secret)
		ok = secret_from_hex(g.secret, k.len, "--hmac", k.key);
	else
		secret_random(NULL, k.key, k.len);
	if (ok) {
		auth_tls_key_format(&k, text);
		status = puts(text) < 0 || fflush(stdout) ? EXIT_FAILED : EXIT_OK;
		auth_wipe(text, sizeof(text));
	}
	secret_mask(g.secret);
	auth_wipe(&k, sizeof(k));
	return status;
}
