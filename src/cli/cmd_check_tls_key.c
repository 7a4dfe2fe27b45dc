/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * weft check-tls-key: whether a pre-shared key of TLS is one, and by which identity a host and a
 * subsystem speak of it. With nvme-cli's options and look.
 */
#include <argp.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/nvme_opts.h"
#include "cli/secret.h"
#include "nvmf/auth/psk.h"

int cmd_check_tls_key(int argc, char **argv);

enum { KEY_KEY = 0x100, KEY_KEYRING = 'k', KEY_INSERT = 'i' };

struct check {
	struct nvme_opts host; /* for the name alone */
	char *word;
	const char *subnqn;
	struct auth_psk_way way;
};

static const struct argp_option options[] = {
	{"keydata", 'd', "KEY", 0,
	 "The key, NVMeTLSkey-1:HH:BASE64:, or @FILE for the first line of a file; without it that "
	 "of standard input",
	 0},
	{"key", KEY_KEY, "KEY", OPTION_ALIAS | OPTION_HIDDEN, NULL, 0},
	{"subsysnqn", 'c', "NQN", 0, "Print its identity towards this subsystem", 0},
	{"hostnqn", 'n', "NQN", 0, "Of this host (default: /etc/nvme/hostnqn)", 0},
	{"identity", 'I', "0|1", 0, "In this version (default 0)", 0},
	{"compat", 'C', NULL, 0, "As older nvme-cli derives it", 0},
	{"insert", KEY_INSERT, NULL, OPTION_HIDDEN, "", 0},
	{"keyring", KEY_KEYRING, "NAME", OPTION_HIDDEN, "", 0},
	{0},
};

static void no_keyring(struct argp_state *state)
{
	argp_error(state, "weft puts no key into a keyring of the kernel's: leave --insert and "
			  "--keyring out");
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct check *c = state->input;

	switch (key) {
	case 'd':
	case KEY_KEY:
		c->word = arg;
		return 0;
	case 'c':
		if (!nvme_nqn_valid(arg))
			argp_error(state, "--subsysnqn takes a name that begins nqn., not '%s'",
				   arg);
		c->subnqn = arg;
		return 0;
	case 'n':
		if (!nvme_nqn_valid(arg))
			argp_error(state, "--hostnqn takes a name that begins nqn., not '%s'", arg);
		else
			strcpy(c->host.uri.hostnqn, arg);
		return 0;
	case 'I':
		c->way.version = (uint8_t)cli_parse_number(state, "--identity", arg, 0, 1);
		return 0;
	case 'C':
		c->way.compat = true;
		return 0;
	case KEY_KEYRING:
		if (strncmp(arg, "NVMeTLSkey", 10) == 0) /* as nvme-cli 2.3 had it */
			c->word = arg;
		else
			no_keyring(state);
		return 0;
	case KEY_INSERT:
		no_keyring(state);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp argp = {
	.options = options,
	.parser = parse,
	.doc = "Tell whether a pre-shared key of TLS is one, and of what kind; or by which "
	       "identity "
	       "a host and a subsystem know it.",
};

static int tell_identity(const struct check *c, const struct auth_key *k)
{
	char hostnqn[NVME_URI_NQN_MAX + 1];
	struct auth_psk psk;
	uint8_t id[16];
	int status;

	if (nvme_host_identity(&c->host, hostnqn, id))
		return EXIT_FAILED;
	if (!auth_psk_derive(k, c->way, hostnqn, c->subnqn, &psk))
		return cli_fail("these names are too long for an identity of version %u",
				c->way.version);
	status = puts(psk.identity) < 0 ? EXIT_FAILED : EXIT_OK;
	auth_wipe(&psk, sizeof(psk));
	return status;
}

int cmd_check_tls_key(int argc, char **argv)
{
	struct check c = {.way.version = 0};
	struct auth_key k;
	char why[512];
	int err, status = EXIT_OK;

	cli_parse(&argp, "check-tls-key", argc, argv, &c);
	err = c.word ? secret_read(SECRET_TLS, c.word, &k, why, sizeof(why))
		     : secret_read_file(SECRET_TLS, "-", &k, why, sizeof(why));
	secret_mask(c.word);
	if (err)
		return cli_fail("%s%s", c.word ? "--keydata: " : "", why);
	if (c.subnqn)
		status = tell_identity(&c, &k);
	else if (printf("Key is valid (HMAC %u, length %u, CRC %08x)\n", k.hash, k.len,
			auth_key_crc(&k)) < 0)
		status = EXIT_FAILED;
	if (fflush(stdout))
		status = EXIT_FAILED;
	auth_wipe(&k, sizeof(k));
	return status;
}
