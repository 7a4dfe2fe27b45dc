/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/spelling.h"
#include "cli/cli.h"
#include "cli/remote.h"

#define TYPOS_MAX 2

/* X(identifier, name, summary): cmd_<identifier>() is in cmd_<identifier>.c. */
#define X(id, name, summary) int cmd_##id(int argc, char **argv);
#include "cli/commands.def"
#undef X

static const struct command commands[] = {
#define X(id, cmd, text) {.name = cmd, .summary = text, .run = cmd_##id},
#include "cli/commands.def"
#undef X
	{0},
};

static void usage(FILE *out)
{
	fputs("usage: weft COMMAND [OPTION...]\n\n", out);
	for (const struct command *c = commands; c->name; c++)
		fprintf(out, "  %-19s  %s\n", c->name, c->summary);
	fputs("\n`weft help COMMAND` tells more, and so does weft-COMMAND(1).\n", out);
}

static const struct command *find(const char *name)
{
	for (const struct command *c = commands; c->name; c++)
		if (strcmp(c->name, name) == 0)
			return c;
	return NULL;
}

/* What nvme-cli has and weft calls otherwise, because it is another thing. */
static const struct {
	const char *name, *instead;
} elsewhere[] = {
	{"connect", "every command connects by itself, `weft bench nvme+tcp://...` for one, and "
		    "`weft attach` makes a block device of a namespace"},
	{"disconnect", "every command disconnects when it ends, and `weft detach` takes a block "
		       "device away"},
	{"disconnect-all", "every command disconnects when it ends, and `weft detach` takes a "
			   "block device away"},
};

static int unknown(const char *name)
{
	const struct command *nearest = NULL;
	size_t best = TYPOS_MAX + 1;

	if (*name == '-') {
		fprintf(stderr,
			"weft: no option '%s'; a command comes first, and `weft help` lists them\n",
			name);
		return EXIT_USAGE;
	}
	for (size_t i = 0; i < ARRAY_SIZE(elsewhere); i++)
		if (strcmp(name, elsewhere[i].name) == 0) {
			fprintf(stderr, "weft: no command '%s': %s\n", name, elsewhere[i].instead);
			return EXIT_USAGE;
		}
	for (const struct command *c = commands; c->name; c++) {
		size_t d = strlen(name) <= SPELLING_MAX ? spelling_distance(name, c->name) : best;

		if (d < best) {
			best = d;
			nearest = c;
		}
	}
	if (nearest)
		fprintf(stderr, "weft: no command '%s'; did you mean '%s'?\n", name, nearest->name);
	else
		fprintf(stderr, "weft: no command '%s'; `weft help` lists them\n", name);
	return EXIT_USAGE;
}

static bool is_help(const char *word)
{
	return strcmp(word, "help") == 0 || strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

/* -h is left to programs (of `weft run`) and options, but for a command's only word. */
static int run(const char *name, int argc, char **argv, bool help)
{
	const struct command *c = find(name);
	char *asked[] = {(char *)(uintptr_t)name, (char[]){"--help"}, NULL};

	int status;

	if (!c)
		return unknown(name);
	status = help ? c->run(2, asked) : c->run(argc, argv);
	if (status == EXIT_FAILED && remote_interrupted())
		return EXIT_SIGNAL + remote_interrupted();
	return status;
}

int main(int argc, char **argv)
{
	if (argc < 2) {
		usage(stderr);
		return EXIT_USAGE;
	}
	if (is_help(argv[1])) {
		if (argc > 2)
			return run(argv[2], 0, NULL, true);
		usage(stdout);
		return EXIT_OK;
	}
	if (strcmp(argv[1], "--version") == 0) {
		puts(cli_version);
		return EXIT_OK;
	}
	return run(argv[1], argc - 1, argv + 1, argc == 3 && strcmp(argv[2], "-h") == 0);
}
