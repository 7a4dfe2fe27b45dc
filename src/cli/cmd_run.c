/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* weft run: a program on weft's libibverbs and librdmacm, by its library path; what looks for their
 * devices in the file system finds them, and with --sockets its TCP goes over RDMA, by preloaded
 * libraries. */
#include <argp.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/capture.h"
#include "cli/cli.h"
#include "cli/output.h"

int cmd_run(int argc, char **argv);

enum { KEY_PCAP = 256, KEY_DEVICES };
enum { EXIT_CANNOT_EXECUTE = 126, EXIT_NOT_FOUND = 127 }; /* as the shell and env(1) have them */

struct run {
	char **command;
	bool sockets, only;
	const char *capture, *devices;
};

static bool devices_known(const char *kinds)
{
	static const char *const known[] = {"roce", "iwarp", "roce,iwarp", "iwarp,roce"};

	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		if (!strcmp(kinds, known[i]))
			return true;
	return false;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct run *run = state->input;

	switch (key) {
	case 's':
		run->sockets = true;
		run->only = arg;
		if (arg && strcmp(arg, "only"))
			argp_error(state, "--sockets=%s: 'only' is the one word it takes", arg);
		return 0;
	case KEY_PCAP:
		run->capture = arg;
		return 0;
	case KEY_DEVICES:
		run->devices = arg;
		if (!devices_known(arg))
			argp_error(state, "--devices=%s: roce, iwarp, or both with a comma between",
				   arg);
		return 0;
	case ARGP_KEY_ARG: /* the first word that is no option: all from here on is the program's */
		run->command = state->argv + state->next - 1;
		state->next = state->argc;
		return 0;
	case ARGP_KEY_NO_ARGS:
		argp_error(state, "which program? For example: weft run -- ibv_devinfo");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_option options[] = {
	{"sockets", 's', "only", OPTION_ARG_OPTIONAL,
	 "TCP of PROGRAM goes over RDMA where the other end does so too; with =only, nowhere else",
	 0},
	{"devices", KEY_DEVICES, "KINDS", 0,
	 "PROGRAM sees devices of these kinds, in this order: roce, which is the default, iwarp, "
	 "or "
	 "both with a comma between",
	 0},
	{"pcap", KEY_PCAP, "FILE", 0, CAPTURE_HELP, 0},
	{0},
};

static const struct argp argp = {
	.options = options,
	.parser = parse,
	.args_doc = "[--] PROGRAM [ARGUMENT...]",
	.doc = "Runs PROGRAM on weft's libibverbs.so.1 and librdmacm.so.1 instead of the system's."
	       "\vThe library path of PROGRAM begins with weft's directory, and a library is "
	       "preloaded that shows the devices below /sys/class/infiniband and "
	       "/dev/infiniband, with --sockets another one; nothing else of its environment "
	       "changes but by --devices and --pcap. The exit status is that of "
	       "PROGRAM, 127 if it is not found, 126 if it cannot be executed.",
};

/* The directory of our two libraries: beside the executable in a build, else as installed. */
static int library_dir(char ret[PATH_MAX])
{
	static const char *const candidates[] = {"lib", WEFT_LIBDIR_FROM_BIN};
	char exe[PATH_MAX], path[PATH_MAX + 64];
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	char *slash;

	if (n < 0)
		return -errno;
	exe[n] = '\0';
	slash = strrchr(exe, '/');
	if (!slash)
		return -ENOENT;
	*slash = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(candidates); i++) {
		snprintf(path, sizeof(path), "%s/%s/libibverbs.so.1", exe, candidates[i]);
		if (access(path, R_OK))
			continue;
		*strrchr(path, '/') = '\0';
		return realpath(path, ret) ? 0 : -errno;
	}
	return -ENOENT;
}

/* Ours before what a list of the environment has already. */
static int put_first(const char *name, const char *dir, const char *file, const char *separator)
{
	const char *old = getenv(name);
	char *value;
	int rc;

	if (!old || !*old)
		old = separator = "";
	if (asprintf(&value, "%s%s%s%s", dir, file, separator, old) < 0)
		return -ENOMEM;
	rc = setenv(name, value, 1) ? -errno : 0;
	free(value);
	return rc;
}

static int set_environment(const struct run *run, const char *dir)
{
	int rc = put_first("LD_LIBRARY_PATH", dir, "", ":");

	if (!rc)
		rc = put_first("LD_PRELOAD", dir, "/libweft-nodes.so", " ");
	if (!rc && run->sockets)
		rc = put_first("LD_PRELOAD", dir, "/libweft-sockets.so", " ");
	if (!rc && run->only)
		rc = setenv("WEFT_SOCKETS", "only", 1) ? -errno : 0;
	if (!rc && run->devices)
		rc = setenv("WEFT_DEVICES", run->devices, 1) ? -errno : 0;
	return rc;
}

int cmd_run(int argc, char **argv)
{
	char dir[PATH_MAX], why[512], name[] = "weft run";
	struct run run = {0};
	int err;

	argv[0] = name;
	argp_err_exit_status = EXIT_USAGE;
	/* In order: the options after PROGRAM are PROGRAM's, with or without a -- before it. */
	argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, &run);
	err = library_dir(dir);
	if (err)
		return cli_fail(
			"libibverbs.so.1 is not beside this executable (%s); build or install "
			"weft as a whole",
			strerror(-err));
	if (run.capture && capture_use(run.capture, why, sizeof(why)))
		return cli_fail("%s", why);
	err = set_environment(&run, dir);
	if (err)
		return cli_fail("the environment of %s: %s", run.command[0], strerror(-err));
	execvp(run.command[0], run.command);
	err = errno;
	cli_fail("%s: %s", run.command[0], err == ENOENT ? "command not found" : strerror(err));
	return err == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_EXECUTE;
}
