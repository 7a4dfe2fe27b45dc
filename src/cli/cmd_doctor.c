/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* weft doctor: what is wrong with this host and the way to another. */
#include <argp.h>
#include <errno.h>
#include <string.h>

#include "base/errno_text.h"
#include "cli/cli.h"
#include "cli/nvme_opts.h"
#include "cli/output.h"
#include "doctor/doctor.h"

#define NAMES_MAX 64

int cmd_doctor(int argc, char **argv);

/* 1 and 2 are any command's: it could not look at all, and wrong usage. */
enum { EXIT_WARNINGS = 3, EXIT_ERRORS = 4 };

enum { KEY_ALL = 256 };

struct cmd {
	enum output_format format;
	bool verbose, all;
	const char *peer;
	const char *names[NAMES_MAX];
	size_t name_count;
	unsigned seen[SEVERITIES];
	unsigned checks;
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct cmd *c = state->input;

	switch (key) {
	case 'o':
		if (output_format_parse(arg, &c->format) || c->format == OUTPUT_BINARY)
			argp_error(state, "--output-format is normal or json, not '%s'", arg);
		return 0;
	case 'v':
		c->verbose = true;
		return 0;
	case 'p':
		c->peer = arg;
		return 0;
	case KEY_ALL:
		c->all = true;
		return 0;
	case ARGP_KEY_ARG:
		if (c->name_count == NAMES_MAX)
			argp_error(state, "at most %d interfaces and devices", NAMES_MAX);
		else
			c->names[c->name_count++] = arg;
		return 0;
	case ARGP_KEY_END:
		if (c->all && c->name_count)
			argp_error(state, "--all, or the interfaces by name");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_option options[] = {
	{"output-format", 'o', "normal|json", 0, "How it is shown", 0},
	{"peer", 'p', "ADDRESS", 0, "Look at the way to this host, where weft runs, too", 0},
	{"all", KEY_ALL, NULL, 0, "Look at interfaces that are down or have no address, too", 0},
	{"verbose", 'v', NULL, 0, "Show what is well, too, and who says so", 0},
	{0},
};

static const struct argp argp = {
	.options = options,
	.parser = parse,
	.args_doc = "[INTERFACE|DEVICE...]",
	.doc = "Looks at this host, and at the way to another, and says what makes RDMA slow, why, "
	       "and "
	       "the line to type. It changes nothing.",
};

/* ---- what was found -------------------------------------------------------------------------- */

static bool is_shown(const struct cmd *c, const struct finding *f)
{
	return c->verbose || f->severity != DOCTOR_OK;
}

static void show_text(const struct cmd *c, struct output *o, const struct finding *f)
{
	output_note(o, "%s: %s: %s", severity_name(f->severity), f->check->name, f->seen);
	if (f->severity != DOCTOR_OK && f->severity != DOCTOR_UNKNOWN)
		output_note(o, "    why: %s", f->check->why);
	if (c->verbose)
		output_note(o, "    by: %s", f->check->source);
	if (f->mend[0] && f->severity != DOCTOR_OK)
		output_note(o, "    do: %s", f->mend);
}

static void show_json(struct output *o, const struct finding *f)
{
	output_object(o, NULL, NULL);
	output_string(o, "check", NULL, f->check->name);
	output_string(o, "title", NULL, f->check->title);
	output_string(o, "severity", NULL, severity_name(f->severity));
	output_string(o, "object", NULL, f->object);
	output_string(o, "seen", NULL, f->seen);
	output_string(o, "mend", NULL, f->severity == DOCTOR_OK ? "" : f->mend);
	output_string(o, "why", NULL, f->check->why);
	output_string(o, "source", NULL, f->check->source);
	output_close(o);
}

/* What was found of one object stands together, in the order in which objects were first met. */
static void show_findings(const struct cmd *c, struct output *o, const struct report *r)
{
	for (size_t i = 0; i < r->count; i++) {
		bool met = false, open = false;

		for (size_t k = 0; k < i && !met; k++)
			met = !strcmp(r->v[k].object, r->v[i].object);
		for (size_t k = i; !met && k < r->count; k++) {
			if (strcmp(r->v[k].object, r->v[i].object) != 0 || !is_shown(c, &r->v[k]))
				continue;
			if (!open)
				output_object(o, NULL, "%s", r->v[i].object);
			open = true;
			show_text(c, o, &r->v[k]);
		}
		if (open)
			output_close(o);
	}
}

static void count(struct cmd *c, const struct report *r)
{
	for (size_t i = 0; i < r->count; i++) {
		c->seen[r->v[i].severity]++;
		/* Findings of one look follow one another. */
		c->checks += !i || r->v[i].check != r->v[i - 1].check ||
			     strcmp(r->v[i].object, r->v[i - 1].object) != 0;
	}
}

static bool show(struct cmd *c, const struct report *r)
{
	struct output o;

	count(c, r);
	output_init(&o, stdout, c->format);
	if (c->format == OUTPUT_TEXT) {
		show_findings(c, &o, r);
		output_note(
			&o,
			"%u checks: %u errors, %u warnings, %u notes, %u could not be looked at",
			c->checks, c->seen[DOCTOR_ERROR], c->seen[DOCTOR_WARNING],
			c->seen[DOCTOR_NOTE], c->seen[DOCTOR_UNKNOWN]);
		return output_finish(&o);
	}
	output_list(&o, "findings", NULL);
	for (size_t i = 0; i < r->count; i++)
		show_json(&o, &r->v[i]);
	output_close(&o);
	output_number(&o, "checks", NULL, c->checks, NULL);
	for (int s = 0; s < SEVERITIES; s++)
		output_number(&o, severity_name((enum severity)s), NULL, c->seen[s], NULL);
	return output_finish(&o);
}

/* ---- looking --------------------------------------------------------------------------------- */

/* False: told. */
static bool choose(const struct cmd *c, struct doctor *d)
{
	for (size_t i = 0; i < c->name_count; i++)
		if (!doctor_want(d, c->names[i])) {
			cli_fail("no interface or device '%s' here; `ip link` and `weft devices` "
				 "show those there are",
				 c->names[i]);
			return false;
		}
	if (c->all && !doctor_want_all(d)) {
		cli_fail("out of memory");
		return false;
	}
	return true;
}

static int examine(struct cmd *c, struct doctor *d)
{
	struct path path;

	if (!choose(c, d))
		return EXIT_FAILED;
	if (c->peer && path_measure(&path, c->peer, d->ifaces, d->iface_count))
		return cli_fail("'%s' is no address and no name of a host; give the peer's address",
				c->peer);
	if (c->peer)
		d->path = &path;
	doctor_look(d);
	if (d->report.incomplete)
		return cli_fail("out of memory");
	if (!show(c, &d->report))
		return EXIT_FAILED;
	return c->seen[DOCTOR_ERROR]	 ? EXIT_ERRORS
	       : c->seen[DOCTOR_WARNING] ? EXIT_WARNINGS
					 : EXIT_OK;
}

int cmd_doctor(int argc, char **argv)
{
	struct cmd c = {0};
	struct doctor d;
	int rc, status;

	cli_parse(&argp, "doctor", argc, argv, &c);
	rc = doctor_begin(&d, "/sys", "/proc");
	if (rc)
		return cli_fail("the kernel does not tell of its interfaces: %s", errno_text(-rc));
	status = examine(&c, &d);
	doctor_end(&d);
	return status;
}
