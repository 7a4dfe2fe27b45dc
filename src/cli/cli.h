/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The subcommands of weft: one file cmd_<name>.c each, one row each in the table of main.c.
 * A command returns the exit status: 0, 1 for a failure (after one line on stderr that names
 * the object and the next thing to try), 2 for wrong usage. A failure that a signal brought
 * about ends as shells show a death by it: 128 and the signal's number.
 */
#ifndef WEFT_CLI_CLI_H
#define WEFT_CLI_CLI_H

#include "base/compiler.h"

enum { EXIT_OK = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_SIGNAL = 128 };

extern const char cli_version[]; /* "weft 0.1.0 (abc1234)": made by scripts/version */

struct command {
	const char *name;
	const char *summary;		   /* one line for `weft help` */
	int (*run)(int argc, char **argv); /* argv[0] is the command's name */
};

#endif
