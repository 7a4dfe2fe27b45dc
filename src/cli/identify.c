/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "cli/identify.h"

#include <string.h>
#include <unistd.h>

#include "cli/cli.h"

const struct argp_option identify_options[] = {
	{"raw-binary", 'b', NULL, 0, "Write the 4096 bytes as they came", 4},
	{0},
};

error_t identify_parse(int key, char *arg, struct argp_state *state)
{
	struct identify *id = state->input;

	(void)arg;
	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &id->opts;
		return 0;
	case 'b':
		id->raw = true;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

struct session *identify_begin(struct identify *id, enum nvme_opts_target target,
			       const struct argp *argp, const char *name, int argc, char **argv)
{
	struct session_config config = {0};
	struct session *s;

	*id = (struct identify){0};
	nvme_opts_init(&id->opts, target);
	cli_parse(argp, name, argc, argv, id);
	if (id->raw && isatty(STDOUT_FILENO)) {
		cli_fail("--raw-binary writes no binary to a terminal; redirect it");
		return NULL;
	}
	config.discovery = strcmp(id->opts.uri.nqn, NVMF_DISCOVERY_NQN) == 0;
	s = session_open(&id->opts, &config);
	nvme_opts_wipe(&id->opts);
	return s;
}

bool identify_write(const struct session *s)
{
	return fwrite(s->page, NVME_IDENTIFY_LEN, 1, stdout) == 1 && fflush(stdout) == 0;
}
