/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* weft gen-hostnqn, weft show-hostnqn: the name of this host. */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/nvme_opts.h"
#include "cli/secret.h"
#include "wire/nvme_uuid.h"

int cmd_gen_hostnqn(int argc, char **argv);
int cmd_show_hostnqn(int argc, char **argv);

static error_t parse(int key, char *arg, struct argp_state *state)
{
	enum output_format *format = state->input;

	switch (key) {
	case 'o':
		if (output_format_parse(arg, format) || *format == OUTPUT_BINARY)
			argp_error(state, "--output-format is normal or json, not '%s'", arg);
		return 0;
	case ARGP_KEY_ARG:
		argp_error(state, "'%s' is one word too many", arg);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_option options[] = {
	{"output-format", 'o', "normal|json", 0, "How it is shown (default normal)", 0},
	{0},
};

static int print(const char *nqn, enum output_format format)
{
	struct output o;

	output_init(&o, stdout, format);
	output_note(&o, "%s", nqn);
	if (format == OUTPUT_JSON)
		output_string(&o, "hostnqn", NULL, nqn);
	return output_finish(&o) ? EXIT_OK : EXIT_FAILED;
}

/* What the firmware has the machine called, if we may read it: it stays over an installation. */
static bool firmware_uuid(uint8_t uuid[16])
{
	FILE *f = fopen("/sys/class/dmi/id/product_uuid", "re");
	char text[64] = "";
	bool ok;

	if (!f)
		return false;
	ok = fgets(text, sizeof(text), f) != NULL;
	fclose(f);
	text[strcspn(text, "\n")] = 0;
	return ok && nvme_uuid_parse(text, uuid) == 0;
}

int cmd_gen_hostnqn(int argc, char **argv)
{
	static const struct argp argp = {
		.options = options,
		.parser = parse,
		.doc = "Make a name for this host, and print it: of what its firmware has it "
		       "called, "
		       "else at random. It is for /etc/nvme/hostnqn.",
	};
	enum output_format format = OUTPUT_TEXT;
	uint8_t uuid[16];
	char text[37], nqn[NVME_URI_NQN_MAX + 1];

	cli_parse(&argp, "gen-hostnqn", argc, argv, &format);
	if (!firmware_uuid(uuid)) {
		secret_random(NULL, uuid, sizeof(uuid));
		uuid[6] = (uint8_t)((uuid[6] & 0x0f) | 0x40); /* version 4: at random */
		uuid[8] = (uint8_t)((uuid[8] & 0x3f) | 0x80);
	}
	nvme_uuid_format(uuid, text);
	snprintf(nqn, sizeof(nqn), "%s%s", NVME_HOSTNQN_PREFIX, text);
	return print(nqn, format);
}

int cmd_show_hostnqn(int argc, char **argv)
{
	static const struct argp argp = {
		.options = options,
		.parser = parse,
		.doc = "Show by which name this host goes, unless --hostnqn says another.",
	};
	enum output_format format = OUTPUT_TEXT;
	char nqn[NVME_URI_NQN_MAX + 1];
	struct nvme_opts none;
	uint8_t id[16];

	cli_parse(&argp, "show-hostnqn", argc, argv, &format);
	nvme_opts_init(&none, NVME_OPTS_OWN);
	return nvme_host_identity(&none, nqn, id) ? EXIT_FAILED : print(nqn, format);
}
