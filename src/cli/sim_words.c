/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "cli/sim_words.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cli/output.h"
#include "fabric/scenario/run.h"

static void append(char *buf, size_t room, const char *fmt, ...) printf_like(3, 4);

static void append(char *buf, size_t room, const char *fmt, ...)
{
	size_t at = strlen(buf);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(buf + at, room - at, fmt, ap);
	va_end(ap);
}

const char *sim_bytes_text(char *buf, size_t room, uint64_t bytes)
{
	static const char *const units[] = {"B", "KB", "MB", "GB", "TB", "PB", "EB"};
	double v = (double)bytes;
	unsigned int u = 0;

	while (v >= 1000 && u + 1 < ARRAY_SIZE(units)) {
		v /= 1000;
		u++;
	}
	if (v == (double)(uint64_t)v)
		snprintf(buf, room, "%.0f %s", v, units[u]);
	else
		snprintf(buf, room, "%.*f %s", v < 10 ? 2 : 1, v, units[u]);
	return buf;
}

const char *sim_value_text(char *buf, size_t room, const char *unit, double v)
{
	bool whole = v >= 0 && v < 1e19; /* as far as a uint64_t goes */

	if (!isfinite(v)) {
		snprintf(buf, room, "-");
	} else if (strcmp(unit, "ns") == 0 && whole) {
		text_duration(buf, room, (uint64_t)llround(v));
	} else if (strcmp(unit, "s") == 0 && v >= 0 && v < 1e10) {
		text_duration(buf, room, (uint64_t)llround(v * 1e9));
	} else if (strcmp(unit, "part") == 0) {
		snprintf(buf, room, "%.4g %%", v * 100);
	} else if (strcmp(unit, "index") == 0 || strcmp(unit, "times") == 0) {
		/* Words that say nothing beside the figure's name. */
		snprintf(buf, room, "%.4g", v);
	} else if (strcmp(unit, "bytes") == 0 && whole) {
		sim_bytes_text(buf, room, (uint64_t)llround(v));
	} else {
		/* Four digits tell; more than that is noise, but a large count is written out. */
		if (fabs(v) >= 1e4 && fabs(v) < 1e15)
			snprintf(buf, room, "%.0f", v);
		else
			snprintf(buf, room, "%.4g", v);
		if (*unit)
			append(buf, room, " %s", unit);
	}
	return buf;
}

const char *sim_figure_unit(const char *figure)
{
	const char *name, *unit = NULL, *text;

	for (size_t i = 0; (name = run_figure(i, &unit, &text)); i++)
		if (strcmp(name, figure) == 0)
			return unit ? unit : "";
	return "";
}

const char *sim_subject_text(char *buf, size_t room, const struct expectation *e)
{
	bool open_end = e->bytes_to == 0 || e->bytes_to == UINT64_MAX;
	char from[32], to[32];

	snprintf(buf, room, "%s", e->figure ? e->figure : "?");
	if (e->of)
		append(buf, room, " of %s", e->of);
	sim_bytes_text(from, sizeof(from), e->bytes_from);
	sim_bytes_text(to, sizeof(to), e->bytes_to);
	if (e->bytes_from && open_end)
		append(buf, room, ", flows from %s", from);
	else if (e->bytes_from)
		append(buf, room, ", flows from %s to %s", from, to);
	else if (!open_end)
		append(buf, room, ", flows up to %s", to);
	text_duration(from, sizeof(from), e->from_ns);
	text_duration(to, sizeof(to), e->until_ns);
	if (e->until_ns && e->until_ns != UINT64_MAX)
		append(buf, room, ", from %s to %s", from, to);
	else if (e->from_ns)
		append(buf, room, ", from %s on", from);
	return buf;
}

const char *sim_expected_text(char *buf, size_t room, const struct expectation *e)
{
	const char *unit = e->figure ? sim_figure_unit(e->figure) : "";
	double least = e->least, most = e->most;
	char low[64], high[64], near[64];

	/* Both a value and limits may be given; what counts is where they meet. */
	if (isfinite(e->value)) {
		double room_for = fabs(e->value) * (isfinite(e->within) ? e->within : 0);

		least = fmax(least, e->value - room_for);
		most = fmin(most, e->value + room_for);
	}
	sim_value_text(low, sizeof(low), unit, least);
	sim_value_text(high, sizeof(high), unit, most);
	sim_value_text(near, sizeof(near), unit, e->value);
	if (isfinite(least) && isfinite(most) && strcmp(low, high) == 0)
		snprintf(buf, room, "%s", low);
	else if (isfinite(least) && isfinite(most))
		snprintf(buf, room, "%s to %s", low, high);
	else if (isfinite(least))
		snprintf(buf, room, "at least %s", low);
	else if (isfinite(most))
		snprintf(buf, room, "at most %s", high);
	else
		snprintf(buf, room, "any");
	if (isfinite(e->value) && e->within > 0)
		append(buf, room, " (%s within %.4g %%)", near, e->within * 100);
	return buf;
}

size_t sim_verdicts_met(const struct run_result *r)
{
	size_t n = 0;

	for (size_t i = 0; i < r->nverdicts; i++)
		n += r->verdicts[i].met;
	return n;
}

/* Links that only carried what fitted say nothing. */
static bool saw_something(const struct run_port *p)
{
	return p->queue_most || p->dropped || p->lost || p->marked || p->pauses_sent ||
	       p->pauses_got || p->paused_ns || p->watchdog;
}

static bool says_more(const struct run_port *a, const struct run_port *b)
{
	if (a->queue_most != b->queue_most)
		return a->queue_most > b->queue_most;
	if (a->dropped + a->lost != b->dropped + b->lost)
		return a->dropped + a->lost > b->dropped + b->lost;
	return a->pauses_sent + a->pauses_got > b->pauses_sent + b->pauses_got;
}

size_t sim_busy(const struct run_result *r)
{
	size_t n = 0;

	for (size_t i = 0; i < r->nports; i++)
		n += saw_something(&r->ports[i]);
	return n;
}

size_t sim_busiest(const struct run_result *r, size_t *ret_pick, size_t room)
{
	size_t n = 0;

	for (size_t i = 0; i < r->nports && room; i++) {
		const struct run_port *p = &r->ports[i];
		size_t at = n;

		if (!saw_something(p))
			continue;
		/* Behind its equals, so that the topology's order decides between them. */
		while (at > 0 && says_more(p, &r->ports[ret_pick[at - 1]]))
			at--;
		if (at == room)
			continue;
		n = min_of(n + 1, room);
		memmove(ret_pick + at + 1, ret_pick + at, (n - at - 1) * sizeof(*ret_pick));
		ret_pick[at] = i;
	}
	return n;
}
