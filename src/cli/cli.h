/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The subcommands of weft: one file cmd_<name>.c each, one row each in the table of main.c.
 * A command returns the exit status: 0, 1 for a failure (after one line on stderr that names
 * the object and the next thing to try), 2 for wrong usage.
 */
#ifndef WEFT_CLI_CLI_H
#define WEFT_CLI_CLI_H

#include "base/compiler.h"

enum { EXIT_OK = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

struct command {
	const char *name;
	const char *summary;		   /* one line for `weft help` */
	int (*run)(int argc, char **argv); /* argv[0] is the command's name */
};

#endif
