/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* weft detach: a block device of weft attach's goes away, be its process there or not. */
#include <argp.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/nvme_opts.h"
#include "ublk/ublk.h"

int cmd_detach(int argc, char **argv);

static error_t parse(int key, char *arg, struct argp_state *state)
{
	static const char prefix[] = "/dev/ublkb";
	int64_t *id = state->input;

	switch (key) {
	case ARGP_KEY_ARG:
		if (*id >= 0)
			argp_error(state, "one device at a time; '%s' is too much", arg);
		if (strncmp(arg, prefix, strlen(prefix)) != 0)
			argp_error(state, "'%s' is no device of weft attach: /dev/ublkbN", arg);
		*id = (int64_t)cli_parse_number(state, prefix, arg + strlen(prefix), 0, INT32_MAX);
		return 0;
	case ARGP_KEY_NO_ARGS:
		argp_error(state, "name a device: /dev/ublkbN");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp argp = {
	.parser = parse,
	.args_doc = "/dev/ublkbN",
	.doc = "Take away a block device that `weft attach` has made. What is under way on it "
	       "fails.",
};

int cmd_detach(int argc, char **argv)
{
	int64_t id = -1;
	char why[512];

	cli_parse(&argp, "detach", argc, argv, &id);
	if (ublk_remove((uint32_t)id, why, sizeof(why)) != 0)
		return cli_fail("%s", why);
	return 0;
}
