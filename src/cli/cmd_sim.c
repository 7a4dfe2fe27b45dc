/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* weft sim: runs a scenario of a network in virtual time, and tells what came of it. */
#include <argp.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>

#include "base/time.h"
#include "cli/cli.h"
#include "cli/nvme_opts.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/sim_files.h"
#include "cli/sim_html.h"
#include "cli/sim_report.h"
#include "fabric/scenario/run.h"

int cmd_sim(int argc, char **argv);

enum { KEY_SEED = 0x100, KEY_HTML, KEY_CSV, KEY_PCAP, KEY_LINK, KEY_ALL };

struct sim {
	const char *file, *html, *csv, *pcap, *link;
	uint64_t seed;
	enum output_format format;
	bool all;
	struct progress progress;
};

static const struct argp_option options[] = {
	{"seed", KEY_SEED, "N", 0, "All chance comes from it (default: the scenario's)", 0},
	{"html", KEY_HTML, "FILE", 0, "Write a page with plots", 0},
	{"csv", KEY_CSV, "DIRECTORY", 0, "Write tables of all flows, ports and steps", 0},
	{"pcap", KEY_PCAP, "FILE", 0, "Write what goes over a link, as pcap-ng", 0},
	{"link", KEY_LINK, "NAME", 0, "That link, by one of its ports, as 'leaf0 -> host3'", 0},
	{"all", KEY_ALL, NULL, 0, "Show all ports that saw anything", 0},
	{"output-format", 'o', "FORMAT", 0, "normal or json", 0},
	{0},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct sim *s = state->input;

	switch (key) {
	case KEY_SEED:
		s->seed = cli_parse_number(state, "--seed", arg, 1, INT64_MAX);
		return 0;
	case KEY_HTML:
		s->html = arg;
		return 0;
	case KEY_CSV:
		s->csv = arg;
		return 0;
	case KEY_PCAP:
		s->pcap = arg;
		return 0;
	case KEY_LINK:
		s->link = arg;
		return 0;
	case KEY_ALL:
		s->all = true;
		return 0;
	case 'o':
		if (output_format_parse(arg, &s->format) || s->format == OUTPUT_BINARY)
			argp_error(state, "--output-format takes normal or json, not '%s'", arg);
		return 0;
	case ARGP_KEY_ARG:
		if (s->file)
			argp_error(state, "one scenario at a time");
		s->file = arg;
		return 0;
	case ARGP_KEY_END:
		if (!s->file)
			argp_error(state, "which scenario? Name its file: weft-scenario(5)");
		if (s->link && !s->pcap)
			argp_error(state, "--link says of what link: say --pcap FILE, too");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp argp = {
	.options = options,
	.parser = parse,
	.args_doc = "SCENARIO",
	.doc = "Run a scenario of a network in virtual time: hosts with the RNIC of weft, "
	       "switches, "
	       "links. It fails where an expectation of the scenario is not met.",
};

static volatile sig_atomic_t stopped;

static void stop(int signal)
{
	stopped = signal;
}

static bool progress(void *ctx, uint64_t now_ns, uint64_t end_ns, uint64_t packets)
{
	struct sim *s = ctx;

	progress_tell(&s->progress, (double)now_ns / (double)end_ns, time_now_ns(),
		      "%.3f of %.3f ms, %llu packets", (double)now_ns / 1e6, (double)end_ns / 1e6,
		      (unsigned long long)packets);
	return !stopped;
}

static bool all_met(const struct run_result *r)
{
	for (size_t i = 0; i < r->nverdicts; i++)
		if (!r->verdicts[i].met)
			return false;
	return true;
}

static int tell(const struct sim *s, const struct run_result *r)
{
	struct output o;
	char err[512];

	output_init(&o, stdout, s->format);
	if (!sim_report(&o, r, s->all))
		return EXIT_FAILED;
	if (s->format == OUTPUT_TEXT)
		sim_report_speed(&o, r);
	if (!output_finish(&o))
		return EXIT_FAILED;
	if (s->html && sim_html(s->html, r, err, sizeof(err)))
		return cli_fail("%s", err);
	if (s->csv && sim_files_csv(s->csv, r, err, sizeof(err)))
		return cli_fail("%s", err);
	return all_met(r) ? EXIT_OK : EXIT_FAILED;
}

int cmd_sim(int argc, char **argv)
{
	struct sim s = {.format = OUTPUT_TEXT};
	struct run_options o = {.progress = progress, .ctx = &s};
	struct scenario *scenario;
	struct run_result *r;
	char err[1024];
	int rc, status;

	cli_parse(&argp, "sim", argc, argv, &s);
	if (scenario_read(&scenario, s.file, err, sizeof(err)))
		return cli_fail("%s", err);
	o.seed = s.seed;
	o.capture = s.pcap;
	o.link = s.link;
	signal(SIGINT, stop);
	signal(SIGTERM, stop);
	progress_start(&s.progress, "simulating", 0, time_now_ns());
	rc = run(&r, scenario, &o, err, sizeof(err));
	progress_stop(&s.progress);
	if (rc == -ECANCELED && stopped) {
		cli_fail("%s: stopped", s.file);
		status = EXIT_SIGNAL + stopped;
	} else if (rc) {
		status = cli_fail("%s", err);
	} else {
		status = tell(&s, r);
		run_free(r);
	}
	scenario_free(scenario);
	return status;
}
