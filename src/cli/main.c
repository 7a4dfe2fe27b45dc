/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"

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
		fprintf(out, "  %-10s %s\n", c->name, c->summary);
	fputs("\n`weft COMMAND --help` tells more.\n", out);
}

int main(int argc, char **argv)
{
	if (argc < 2 || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "help") == 0) {
		usage(argc < 2 ? stderr : stdout);
		return argc < 2 ? EXIT_USAGE : EXIT_OK;
	}
	if (strcmp(argv[1], "--version") == 0) {
		puts("weft " WEFT_VERSION);
		return EXIT_OK;
	}
	for (const struct command *c = commands; c->name; c++)
		if (strcmp(c->name, argv[1]) == 0)
			return c->run(argc - 1, argv + 1);
	fprintf(stderr, "weft: no command '%s'; `weft help` lists them\n", argv[1]);
	return EXIT_USAGE;
}
