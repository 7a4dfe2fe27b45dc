/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* weft check-dhchap-key: whether a key of DH-HMAC-CHAP is one, with nvme-cli's options and look. */
#include <argp.h>
#include <stdio.h>

#include "cli/cli.h"
#include "cli/nvme_opts.h"
#include "cli/secret.h"
#include "nvmf/auth/hash.h"

int cmd_check_dhchap_key(int argc, char **argv);

static const struct argp_option options[] = {
	{"key", 'k', "KEY", 0, "The key, DHHC-1:HH:BASE64:, or @FILE for the first line of a file",
	 0},
	{0},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	char **word = state->input;

	switch (key) {
	case 'k':
		*word = arg;
		return 0;
	case ARGP_KEY_END:
		if (!*word)
			argp_error(state, "which key? --key=KEY, or --key=@FILE");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp argp = {
	.options = options,
	.parser = parse,
	.doc = "Tell whether a key of DH-HMAC-CHAP is one, and of what kind.",
};

int cmd_check_dhchap_key(int argc, char **argv)
{
	char *word = NULL, why[512];
	struct auth_key k;
	int err, status = EXIT_OK;

	cli_parse(&argp, "check-dhchap-key", argc, argv, &word);
	err = secret_read(SECRET_DHCHAP, word, &k, why, sizeof(why));
	secret_mask(word);
	if (err)
		return cli_fail("--key: %s", why);
	if (printf("Key is valid (HMAC %u, length %u, CRC %08x)\n", k.hash, k.len,
		   auth_key_crc(&k)) < 0 ||
	    fflush(stdout))
		status = EXIT_FAILED;
	auth_wipe(&k, sizeof(k));
	return status;
}
