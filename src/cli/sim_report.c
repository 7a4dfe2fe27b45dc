/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "cli/sim_report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "cli/sim_fields.h"
#include "cli/sim_words.h"

enum { PORTS_TOP = 8, TEXT_COLUMNS = 78 };

/* The text form alone: a text of the scenario's, in lines that a terminal has room for. */
static void tell_wrapped(struct output *o, const char *text)
{
	char line[SIM_CELL_MAX] = "";
	int columns = 0;

	while (*text) {
		size_t space = strspn(text, " \t\r\n"), word = strcspn(text + space, " \t\r\n");
		int wide = 0;

		for (size_t i = 0; i < word; i++)
			wide += ((unsigned char)text[space + i] & 0xc0) != 0x80;
		if (columns && columns + 1 + wide > TEXT_COLUMNS) {
			output_note(o, "%s", line);
			line[0] = 0;
			columns = 0;
		}
		if (word) {
			size_t at = strlen(line);

			snprintf(line + at, sizeof(line) - at, "%s%.*s", columns ? " " : "",
				 (int)word, text + space);
			text_tame(line);
			columns += (columns ? 1 : 0) + wide;
		}
		text += space + word;
	}
	if (columns)
		output_note(o, "%s", line);
}

static void put_name(struct output *o, const struct run_result *r)
{
	const struct scenario *s = r->scenario;
	const char *name = s->name ? s->name : "", *about = s->about ? s->about : "";
	char text[200], end[32], warmup[32], step[32];

	if (o->format == OUTPUT_JSON) {
		output_string(o, "scenario", NULL, name);
		output_string(o, "about", NULL, about);
	} else {
		snprintf(text, sizeof(text), "%s", name);
		text_tame(text);
		output_string(o, "scenario", NULL, text);
		tell_wrapped(o, about);
	}
	output_number(o, "seed", NULL, r->seed, NULL);
	text_duration(end, sizeof(end), r->totals.ended_ns);
	text_duration(warmup, sizeof(warmup), s->warmup_ns);
	text_duration(step, sizeof(step), r->step_ns);
	if (s->warmup_ns)
		snprintf(text, sizeof(text), "%s, of which %s warm-up; steps of %s", end, warmup,
			 step);
	else
		snprintf(text, sizeof(text), "%s; steps of %s", end, step);
	output_number(o, "virtual_ns", "time", r->totals.ended_ns, text);
	if (o->format != OUTPUT_JSON)
		return;
	output_number(o, "duration_ns", NULL, s->duration_ns, NULL);
	output_number(o, "warmup_ns", NULL, s->warmup_ns, NULL);
	output_number(o, "step_ns", NULL, r->step_ns, NULL);
}

/* JSON alone. Counts are whole numbers there as well; a series with what JSON has no word for is
 * left out, for its places tell the time. */
static void put_series(struct output *o, const char *key, const struct run_series *s, bool whole)
{
	for (size_t i = 0; i < s->n; i++)
		if (!isfinite(s->v[i]))
			return;
	output_list(o, key, NULL);
	for (size_t i = 0; i < s->n; i++)
		if (whole && s->v[i] >= 0 && s->v[i] < 1e18)
			output_number(o, NULL, NULL, (uint64_t)llround(s->v[i]), NULL);
		else
			output_real(o, NULL, NULL, s->v[i], NULL);
	output_close(o);
}

/* A list of records. series: of a record's own, JSON's last field; NULL. */
static void put_table(struct output *o, const char *key, const char *title,
		      const struct sim_table *t,
		      void (*series)(struct output *o, const void *record))
{
	if (o->format != OUTPUT_JSON && t->n == 0)
		return;
	output_list(o, key, "%s", title);
	if (o->format != OUTPUT_JSON)
		sim_table_tell(o, t);
	for (size_t i = 0; i < t->n && o->format == OUTPUT_JSON; i++) {
		output_object(o, NULL, NULL);
		sim_fields_put(o, t->shape, sim_table_row(t, i));
		if (series)
			series(o, sim_table_row(t, i));
		output_close(o);
	}
	output_close(o);
}

static void put_group_series(struct output *o, const void *record)
{
	const struct run_group *g = record;

	put_series(o, "goodput_gbps_by_step", &g->goodput, false);
	if (g->fairness_over_time.n)
		put_series(o, "fairness_by_step", &g->fairness_over_time, false);
}

static void put_port_series(struct output *o, const void *record)
{
	const struct run_port *p = record;

	put_series(o, "queue_bytes_by_step", &p->queue, true);
}

static bool put_ports(struct output *o, const struct run_result *r, bool all)
{
	struct sim_table t = {.shape = &sim_ports, .records = r->ports, .n = r->nports};
	size_t busy = sim_busy(r), room = all ? busy : PORTS_TOP;
	size_t *pick = NULL;
	char title[96];

	if (o->format == OUTPUT_JSON) {
		put_table(o, "ports", "ports", &t, put_port_series);
		return true;
	}
	pick = calloc(room + 1, sizeof(*pick));
	if (!pick) {
		cli_fail("out of memory for %zu ports", room);
		return false;
	}
	t.pick = pick;
	t.n = sim_busiest(r, pick, room);
	if (t.n < busy)
		snprintf(title, sizeof(title), "ports with the longest queues (%zu of %zu; --all)",
			 t.n, busy);
	else
		snprintf(title, sizeof(title), "ports with the longest queues");
	put_table(o, "ports", title, &t, NULL);
	free(pick);
	return true;
}

/* JSON alone: the limits are left out where there are none. Times are nanoseconds, as everywhere in
 * it: of seconds a real would not have the digits. */
static void put_expectation(struct output *o, const struct run_verdict *v)
{
	const struct expectation *e = v->expected;
	const char *unit = e->figure ? sim_figure_unit(e->figure) : "";
	bool seconds = strcmp(unit, "s") == 0;
	double scale = seconds ? 1e9 : 1;
	const struct {
		const char *key;
		double value;
	} reals[] = {{"least", e->least * scale},
		     {"most", e->most * scale},
		     {"value", e->value * scale},
		     {"within", isfinite(e->value) ? e->within : NAN},
		     {"got", v->got * scale}};
	const struct {
		const char *key;
		uint64_t value;
	} limits[] = {{"bytes_from", e->bytes_from},
		      {"bytes_to", e->bytes_to},
		      {"from_ns", e->from_ns},
		      {"until_ns", e->until_ns}};
	const struct {
		const char *key, *value;
	} texts[] = {{"of", e->of}, {"published", e->published}, {"text", e->text}};

	output_object(o, NULL, NULL);
	output_string(o, "figure", NULL, e->figure ? e->figure : "");
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		if (texts[i].value)
			output_string(o, texts[i].key, NULL, texts[i].value);
	output_string(o, "unit", NULL, seconds ? "ns" : unit);
	for (size_t i = 0; i < ARRAY_SIZE(limits); i++)
		if (limits[i].value)
			output_number(o, limits[i].key, NULL, limits[i].value, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(reals); i++)
		if (isfinite(reals[i].value))
			output_real(o, reals[i].key, NULL, reals[i].value, NULL);
	output_bool(o, "met", NULL, v->met);
	output_number(o, "line", NULL, e->line > 0 ? (uint64_t)e->line : 0, NULL);
	output_close(o);
}

static void tell_verdict(struct output *o, const struct run_verdict *v)
{
	const struct expectation *e = v->expected;
	char subject[SIM_CELL_MAX], range[160], got[64], text[SIM_CELL_MAX];

	sim_subject_text(subject, sizeof(subject), e);
	text_tame(subject);
	sim_value_text(got, sizeof(got), e->figure ? sim_figure_unit(e->figure) : "", v->got);
	sim_expected_text(range, sizeof(range), e);
	output_note(o, "%-7s  %s: %s, expected %s", v->met ? "met" : "NOT MET", subject, got,
		    range);
	if (e->text) {
		snprintf(text, sizeof(text), "%s", e->text);
		text_tame(text);
		output_note(o, "%-7s  %s", "", text);
	}
	if (e->published) {
		snprintf(text, sizeof(text), "%s", e->published);
		text_tame(text);
		output_note(o, "%-7s  published: %s", "", text);
	}
}

static void put_verdicts(struct output *o, const struct run_result *r)
{
	size_t met = sim_verdicts_met(r);

	if (o->format == OUTPUT_JSON && r->nverdicts)
		output_bool(o, "all_met", NULL, met == r->nverdicts);
	if (o->format != OUTPUT_JSON && r->nverdicts == 0)
		return;
	output_list(o, "verdicts", "expected: %zu of %zu met", met, r->nverdicts);
	for (size_t i = 0; i < r->nverdicts; i++)
		if (o->format == OUTPUT_JSON)
			put_expectation(o, &r->verdicts[i]);
		else
			tell_verdict(o, &r->verdicts[i]);
	output_close(o);
}

bool sim_report(struct output *o, const struct run_result *r, bool all)
{
	const struct sim_table groups = {
		.shape = &sim_groups, .records = r->groups, .n = r->ngroups};
	const struct sim_table sizes = {.shape = &sim_sizes, .records = r->sizes, .n = r->nsizes};

	o->width = 10;
	put_name(o, r);
	put_table(o, "groups", "traffic", &groups, put_group_series);
	put_table(o, "slowdown", "slowdown, and what they took, by the size of flows", &sizes,
		  NULL);
	if (!put_ports(o, r, all))
		return false;
	if (o->format == OUTPUT_JSON) {
		put_series(o, "pauses_by_step", &r->pauses, true);
		put_series(o, "marks_by_step", &r->marks, true);
	}
	output_object(o, "totals", "totals");
	sim_fields_put(o, &sim_totals, &r->totals);
	output_close(o);
	put_verdicts(o, r);
	return true;
}

void sim_report_speed(struct output *o, const struct run_result *r)
{
	double wall = isfinite(r->totals.wall_s) && r->totals.wall_s > 0 ? r->totals.wall_s : 0;
	double speed = wall > 0 ? (double)r->totals.packets / wall : 0;
	char took[32], text[128];

	text_duration(took, sizeof(took), (uint64_t)(wall * 1e9));
	if (speed >= 1e6)
		snprintf(text, sizeof(text), "%.2f million packets a second, %s in all",
			 speed / 1e6, took);
	else
		snprintf(text, sizeof(text), "%.0f packets a second, %s in all", speed, took);
	if (o->format != OUTPUT_JSON) {
		output_string(o, "speed", NULL, text);
		return;
	}
	output_object(o, "speed", NULL);
	output_real(o, "wall_seconds", NULL, wall, NULL);
	output_real(o, "packets_per_second", NULL, speed, NULL);
	output_close(o);
}
