/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include <argp.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "broker/broker.h"
#include "broker/spawn.h"
#include "cli/capture.h"
#include "cli/cli.h"

int cmd_broker(int argc, char **argv);

enum { OPT_IDLE_EXIT = 256, OPT_READY_FD, OPT_BAG_FD, OPT_PCAP };

static const struct argp_option options[] = {
	{"foreground", 'f', NULL, 0, "Stay in the foreground, until SIGINT or SIGTERM", 0},
	{"idle-exit-ms", OPT_IDLE_EXIT, "N", 0,
	 "In the foreground: end N milliseconds after the last client has gone", 0},
	{"pcap", OPT_PCAP, "FILE", 0, CAPTURE_HELP, 0},
	{"ready-fd", OPT_READY_FD, "FD", OPTION_HIDDEN, NULL, 0},
	{"bag-fd", OPT_BAG_FD, "FD", OPTION_HIDDEN, NULL, 0},
	{0},
};

struct arguments {
	bool foreground;
	struct broker_options broker;
};

static int number(struct argp_state *state, const char *text)
{
	char *end;
	long n = strtol(text, &end, 10);

	if (!*text || *end || n < 0 || n > 86400000)
		argp_error(state, "'%s' is not a number of the right size", text);
	return (int)n;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct arguments *a = state->input;

	switch (key) {
	case 'f':
		a->foreground = true;
		return 0;
	case OPT_PCAP:
		a->broker.capture = arg;
		return 0;
	case OPT_IDLE_EXIT:
		a->broker.idle_exit_ms = number(state, arg);
		return 0;
	case OPT_READY_FD:
		a->broker.ready_fd = number(state, arg);
		return 0;
	case OPT_BAG_FD:
		a->broker.bag_in = number(state, arg); /* and the one after it */
		a->broker.bag_out = a->broker.bag_in + 1;
		return 0;
	case ARGP_KEY_ARG:
		argp_error(state, "unexpected argument '%s'", arg);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* In the background, where another directory is the working one. */
static int start(const char *capture, char *err, size_t err_len)
{
	char *path = capture ? capture_path(capture) : NULL;
	int rc;

	if (capture && !path) {
		snprintf(err, err_len, "cannot write the capture %s: %s", capture, strerror(errno));
		return -errno;
	}
	rc = broker_spawn("/proc/self/exe", NULL, path, err, err_len);
	free(path);
	return rc;
}

int cmd_broker(int argc, char **argv)
{
	static const struct argp argp = {
		.options = options,
		.parser = parse,
		.doc = "Runs the broker of this network namespace: it holds UDP port 4791, knows "
		       "the devices and is the connection manager. Programs start it when they "
		       "need it, and it ends when its last client has gone; there is seldom a "
		       "need to start it by hand.",
	};
	struct arguments a = {
		.broker = {.idle_exit_ms = -1, .bag_in = -1, .bag_out = -1, .ready_fd = -1}};
	const char *env = secure_getenv("WEFT_PCAP");
	char err[512] = "";
	int rc;

	argp_err_exit_status = EXIT_USAGE;
	argv[0] = (char *)"weft broker";
	argp_parse(&argp, argc, argv, 0, NULL, &a);
	if (!a.broker.capture && env && *env)
		a.broker.capture = env;
	if (a.foreground)
		rc = broker_run(&a.broker, err, sizeof(err));
	else
		rc = start(a.broker.capture, err, sizeof(err));
	if (rc) {
		fprintf(stderr, "weft broker: %s\n", err);
		/* Who waits for it has been told. Its parent is a stranger, in a container the
		 * first program, and that may take our status for one of its own children's:
		 * MPICH's mpiexec ends. */
		return a.broker.ready_fd < 0 ? EXIT_FAILED : EXIT_OK;
	}
	return EXIT_OK;
}
