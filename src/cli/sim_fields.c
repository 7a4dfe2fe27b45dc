/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "cli/sim_fields.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/text.h"
#include "cli/sim_words.h"
#include "fabric/scenario/run.h"

#define AT(type, member) offsetof(struct type, member)

static const struct sim_field group_fields[] = {
	{"name", "group", SIM_TEXT, false, AT(run_group, name)},
	{"kind", "kind", SIM_TEXT, false, AT(run_group, kind)},
	{"flows", "flows", SIM_SIZE, false, AT(run_group, flows)},
	{"done", "done", SIM_SIZE, false, AT(run_group, done)},
	{"failed", "failed", SIM_SIZE, true, AT(run_group, failed)},
	{"bytes", "data", SIM_BYTES, false, AT(run_group, bytes)},
	{"goodput_gbps", "goodput", SIM_GBPS, false, AT(run_group, goodput_gbps)},
	{"fairness", "fairness", SIM_REAL, false, AT(run_group, fairness)},
};

static const struct sim_field size_fields[] = {
	{"most_bytes", "up to", SIM_BYTES, false, AT(run_sizes, most)},
	{"flows", "flows", SIM_SIZE, false, AT(run_sizes, flows)},
	{"p50", "p50", SIM_TIMES, false, AT(run_sizes, p50)},
	{"p95", "p95", SIM_TIMES, false, AT(run_sizes, p95)},
	{"p99", "p99", SIM_TIMES, false, AT(run_sizes, p99)},
	{"fct_p50_ns", "took, p50", SIM_NS, false, AT(run_sizes, fct_p50_ns)},
	{"fct_p95_ns", "p95", SIM_NS, false, AT(run_sizes, fct_p95_ns)},
	{"fct_p99_ns", "p99", SIM_NS, false, AT(run_sizes, fct_p99_ns)},
};

static const struct sim_field port_fields[] = {
	{"name", "port", SIM_TEXT, false, AT(run_port, name)},
	{"of_switch", NULL, SIM_BOOL, false, AT(run_port, of_switch)},
	{"frames", NULL, SIM_COUNT, false, AT(run_port, frames)},
	{"bytes", "sent", SIM_BYTES, false, AT(run_port, bytes)},
	{"queue_most_bytes", "queue, most", SIM_BYTES, false, AT(run_port, queue_most)},
	{"queue_p50_bytes", NULL, SIM_BYTES_REAL, false, AT(run_port, queue_p50)},
	{"queue_p90_bytes", NULL, SIM_BYTES_REAL, false, AT(run_port, queue_p90)},
	{"queue_p99_bytes", "p99", SIM_BYTES_REAL, false, AT(run_port, queue_p99)},
	{"marked", "marked", SIM_COUNT, false, AT(run_port, marked)},
	{"pauses_sent", "pauses out", SIM_COUNT, false, AT(run_port, pauses_sent)},
	{"pauses_got", "pauses in", SIM_COUNT, false, AT(run_port, pauses_got)},
	{"paused_ns", "stopped", SIM_NS, true, AT(run_port, paused_ns)},
	{"dropped", "dropped", SIM_COUNT, false, AT(run_port, dropped)},
	{"lost", "lost", SIM_COUNT, true, AT(run_port, lost)},
	{"watchdog", "watchdog", SIM_COUNT, true, AT(run_port, watchdog)},
};

/* Without wall_s, which is not the same every time. */
static const struct sim_field total_fields[] = {
	{"packets", "packets", SIM_COUNT, false, AT(run_totals, packets)},
	{"frames", "frames", SIM_COUNT, false, AT(run_totals, frames)},
	{"events", NULL, SIM_COUNT, false, AT(run_totals, happenings)},
	{"dropped", "dropped", SIM_COUNT, false, AT(run_totals, dropped)},
	{"lost", "lost", SIM_COUNT, true, AT(run_totals, lost)},
	{"marked", "marked", SIM_COUNT, false, AT(run_totals, marked)},
	{"pauses", "pauses", SIM_COUNT, false, AT(run_totals, pauses)},
	{"watchdog", "watchdog", SIM_COUNT, true, AT(run_totals, watchdog)},
	{"cnps", "CNPs", SIM_COUNT, true, AT(run_totals, cnps)},
	{"resent", "sent again", SIM_COUNT, true, AT(run_totals, resent)},
	{"timeouts", "timeouts", SIM_COUNT, true, AT(run_totals, timeouts)},
	{"smps", "SMPs", SIM_COUNT, true, AT(run_totals, smps)},
	{"sweeps_failed", "sweeps that failed", SIM_COUNT, true, AT(run_totals, sweeps_failed)},
	{"subnet_ns", "subnet up after", SIM_NS, true, AT(run_totals, subnet_ns)},
};

#define SHAPE(fields, type)                                     \
	{                                                       \
		fields, ARRAY_SIZE(fields), sizeof(struct type) \
	}

const struct sim_shape sim_groups = SHAPE(group_fields, run_group);
const struct sim_shape sim_sizes = SHAPE(size_fields, run_sizes);
const struct sim_shape sim_ports = SHAPE(port_fields, run_port);
const struct sim_shape sim_totals = SHAPE(total_fields, run_totals);

const void *sim_table_row(const struct sim_table *t, size_t i)
{
	return (const char *)t->records + (t->pick ? t->pick[i] : i) * t->shape->bytes;
}

bool sim_field_is_text(const struct sim_field *f)
{
	return f->kind == SIM_TEXT || f->kind == SIM_BOOL;
}

const char *sim_field_words(const struct sim_field *f, const void *record)
{
	const char *const *at = (const void *)((const char *)record + f->offset);

	return *at ? *at : "";
}

static bool is_real(const struct sim_field *f)
{
	return f->kind == SIM_REAL || f->kind == SIM_TIMES || f->kind == SIM_GBPS ||
	       f->kind == SIM_BYTES_REAL;
}

static double real_of(const struct sim_field *f, const void *record)
{
	double v;

	memcpy(&v, (const char *)record + f->offset, sizeof(v));
	return v;
}

static uint64_t whole_of(const struct sim_field *f, const void *record)
{
	const char *at = (const char *)record + f->offset;
	uint64_t v;
	size_t size;

	if (f->kind == SIM_BOOL)
		return *(const bool *)at;
	if (f->kind == SIM_SIZE) {
		memcpy(&size, at, sizeof(size));
		return size;
	}
	memcpy(&v, at, sizeof(v));
	return v;
}

static bool is_none(const struct sim_field *f, const void *record)
{
	if (f->kind == SIM_TEXT)
		return !*sim_field_words(f, record);
	if (is_real(f))
		return !(fabs(real_of(f, record)) > 0);
	return whole_of(f, record) == 0;
}

bool sim_field_shown(const struct sim_table *t, const struct sim_field *f)
{
	if (!f->title || !f->if_any)
		return f->title;
	for (size_t i = 0; i < t->n; i++)
		if (!is_none(f, sim_table_row(t, i)))
			return true;
	return false;
}

/* With as many decimals each, so that a column can be compared at a glance. */
static void put_real(char *buf, enum sim_kind kind, double v)
{
	if (!isfinite(v))
		snprintf(buf, SIM_CELL_MAX, "-");
	else if (kind == SIM_BYTES_REAL)
		sim_value_text(buf, SIM_CELL_MAX, "bytes", v);
	else
		snprintf(buf, SIM_CELL_MAX, "%.*f%s", kind == SIM_REAL ? 3 : 2, v,
			 kind == SIM_GBPS ? " Gb/s" : "");
}

const char *sim_field_text(char *buf, const struct sim_field *f, const void *record)
{
	if (f->kind == SIM_TEXT) {
		snprintf(buf, SIM_CELL_MAX, "%s", sim_field_words(f, record));
		text_tame(buf);
	} else if (is_real(f)) {
		put_real(buf, f->kind, real_of(f, record));
	} else if (f->kind == SIM_BOOL) {
		snprintf(buf, SIM_CELL_MAX, "%s", whole_of(f, record) ? "yes" : "no");
	} else if (f->kind == SIM_BYTES && whole_of(f, record) == UINT64_MAX) {
		snprintf(buf, SIM_CELL_MAX, "any"); /* the last size class has no limit */
	} else if (f->kind == SIM_BYTES) {
		sim_bytes_text(buf, SIM_CELL_MAX, whole_of(f, record));
	} else if (f->kind == SIM_NS) {
		text_duration(buf, SIM_CELL_MAX, whole_of(f, record));
	} else {
		snprintf(buf, SIM_CELL_MAX, "%" PRIu64, whole_of(f, record));
	}
	return buf;
}

const char *sim_field_plain(char *buf, const struct sim_field *f, const void *record)
{
	if (f->kind == SIM_TEXT)
		snprintf(buf, SIM_CELL_MAX, "%s", sim_field_words(f, record));
	else if (!is_real(f))
		snprintf(buf, SIM_CELL_MAX, "%" PRIu64, whole_of(f, record));
	else if (isfinite(real_of(f, record)))
		snprintf(buf, SIM_CELL_MAX, "%.10g", real_of(f, record));
	else
		buf[0] = 0;
	return buf;
}

void sim_fields_put(struct output *o, const struct sim_shape *shape, const void *record)
{
	bool json = o->format == OUTPUT_JSON;
	char text[SIM_CELL_MAX];

	for (size_t i = 0; i < shape->nfields; i++) {
		const struct sim_field *f = &shape->fields[i];

		if (!json && (!f->title || (f->if_any && is_none(f, record))))
			continue;
		sim_field_text(text, f, record);
		if (f->kind == SIM_TEXT)
			output_string(o, f->key, f->title,
				      json ? sim_field_words(f, record) : text);
		else if (f->kind == SIM_BOOL)
			output_bool(o, f->key, f->title, whole_of(f, record));
		else if (!is_real(f))
			output_number(o, f->key, f->title, whole_of(f, record), text);
		else if (isfinite(real_of(f, record))) /* JSON has no word for the others */
			output_real(o, f->key, f->title, real_of(f, record), text);
	}
}

/* Of a cell, in characters: "µs" has three bytes. */
static size_t width_of(const char *text)
{
	size_t n = 0;

	for (; *text; text++)
		n += ((unsigned char)*text & 0xc0) != 0x80;
	return n;
}

/* Pads a cell to its column; numbers stand at its right. */
static void append(char *line, size_t room, const char *cell, size_t width, bool left, bool first)
{
	size_t at = strlen(line), w = width_of(cell);
	int pad = w < width ? (int)(width - w) : 0;

	if (left)
		snprintf(line + at, room - at, "%s%s%*s", first ? "" : "  ", cell, pad, "");
	else
		snprintf(line + at, room - at, "%s%*s%s", first ? "" : "  ", pad, "", cell);
}

void sim_table_tell(struct output *o, const struct sim_table *t)
{
	enum { FIELDS_MAX = 24 };
	char cell[SIM_CELL_MAX], line[2048];
	size_t width[FIELDS_MAX] = {0};

	for (size_t c = 0; c < t->shape->nfields && c < FIELDS_MAX; c++) {
		const struct sim_field *f = &t->shape->fields[c];

		if (!sim_field_shown(t, f))
			continue;
		width[c] = width_of(f->title);
		for (size_t i = 0; i < t->n; i++) {
			size_t w = width_of(sim_field_text(cell, f, sim_table_row(t, i)));

			width[c] = max_of(width[c], w);
		}
	}
	for (size_t i = 0; i <= t->n; i++) { /* row 0 are the titles */
		line[0] = 0;
		for (size_t c = 0; c < t->shape->nfields && c < FIELDS_MAX; c++) {
			const struct sim_field *f = &t->shape->fields[c];

			if (width[c])
				append(line, sizeof(line),
				       i ? sim_field_text(cell, f, sim_table_row(t, i - 1))
					 : f->title,
				       width[c], sim_field_is_text(f), line[0] == 0);
		}
		output_note(o, "%s", line);
	}
}
