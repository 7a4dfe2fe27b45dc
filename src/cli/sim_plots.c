/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "cli/sim_plots.h"

#include <math.h>

#include "cli/output.h"
#include "cli/plot.h"
#include "cli/sim_words.h"

/* As many lines as can be told apart in one plot; queues cross more often than the others. */
enum { GROUPS_MAX = 8, QUEUES_MAX = 6, SIZES_MAX = 64, CDF_POINTS = 400 };

static const char *name_of(const char *name)
{
	return name ? name : "";
}

/* --- over time ---------------------------------------------------------------------------------
 */

static bool put_over_time(FILE *f, const struct run_result *r, const char *title, const char *text,
			  const char *label, enum plot_unit unit, const struct plot_series *series,
			  size_t n)
{
	return plot_put(f, &(struct plot){
				   .title = title,
				   .text = text,
				   .x = {.label = "time", .unit = PLOT_NS},
				   .y = {.label = label, .unit = unit},
				   .step = true,
				   .shade_until = (double)r->scenario->warmup_ns,
				   .shade_name = "warm-up",
				   .series = series,
				   .nseries = n,
			   });
}

static struct plot_series over_time(const struct run_result *r, const char *name,
				    const struct run_series *s)
{
	return (struct plot_series){
		.name = name_of(name), .y = s->v, .n = s->n, .x_step = (double)r->step_ns};
}

static bool put_goodput(FILE *f, const struct run_result *r)
{
	struct plot_series series[GROUPS_MAX];
	size_t n = min_of(r->ngroups, (size_t)GROUPS_MAX);
	char text[160] = "Payload that arrived, by group.";

	for (size_t i = 0; i < n; i++) {
		const struct run_group *g = &r->groups[i];

		series[i] = over_time(r, g->name, &g->goodput);
	}
	if (n == 1)
		snprintf(text, sizeof(text), "Payload that arrived.");
	else if (n < r->ngroups)
		snprintf(
			text, sizeof(text),
			"Payload that arrived, of the first %zu of %zu groups; groups.csv has all.",
			n, r->ngroups);
	return put_over_time(f, r, "Goodput over time", text, "goodput", PLOT_GBPS, series, n);
}

static bool put_fairness(FILE *f, const struct run_result *r)
{
	struct plot_series series[GROUPS_MAX];
	size_t n = 0;

	for (size_t i = 0; i < r->ngroups && n < GROUPS_MAX; i++) {
		const struct run_group *g = &r->groups[i];

		if (g->fairness_over_time.n)
			series[n++] = over_time(r, g->name, &g->fairness_over_time);
	}
	return n &&
	       put_over_time(f, r, "Fairness over time",
			     "Jain's index over what the sources of a group had in each step: 1 "
			     "where all had as much.",
			     "fairness", PLOT_PLAIN, series, n);
}

static bool put_queues(FILE *f, const struct run_result *r)
{
	struct plot_series series[QUEUES_MAX];
	size_t pick[QUEUES_MAX], n = 0, found = sim_busiest(r, pick, QUEUES_MAX);
	char text[160];

	for (size_t i = 0; i < found; i++) {
		const struct run_port *p = &r->ports[pick[i]];

		if (p->queue.n)
			series[n++] = over_time(r, p->name, &p->queue);
	}
	if (n == 1)
		snprintf(text, sizeof(text), "The most in each step, of %s.", series[0].name);
	else
		snprintf(text, sizeof(text), "The most in each step, of the %zu longest queues.",
			 n);
	return put_over_time(f, r, "Queues over time", text, "queue", PLOT_BYTES, series, n);
}

static bool put_events(FILE *f, const struct run_result *r, const struct run_series *s,
		       const char *title, const char *what)
{
	const struct plot_series series = {
		.name = what, .y = s->v, .n = s->n, .x_step = (double)r->step_ns};
	char text[160], step[32];
	bool any = false;

	for (size_t i = 0; i < s->n; i++)
		any = any || s->v[i] > 0;
	if (!any)
		return false;
	snprintf(text, sizeof(text), "In the whole network, per step of %s.",
		 text_duration(step, sizeof(step), r->step_ns));
	return put_over_time(f, r, title, text, what, PLOT_PLAIN, &series, 1);
}

/* --- of flows ----------------------------------------------------------------------------------
 */

static bool put_slowdown(FILE *f, const struct run_result *r)
{
	double size[SIZES_MAX], part[3][SIZES_MAX];
	size_t n = min_of(r->nsizes, (size_t)SIZES_MAX);
	const struct plot_series series[] = {{.name = "p99", .x = size, .y = part[2], .n = n},
					     {.name = "p95", .x = size, .y = part[1], .n = n},
					     {.name = "p50", .x = size, .y = part[0], .n = n}};
	double most = 0;

	for (size_t i = 0; i < n; i++) {
		const struct run_sizes *s = &r->sizes[i];

		size[i] = (double)s->most;
		/* The last class may have no limit: it stands a little behind the others. */
		if (s->most == UINT64_MAX)
			size[i] = i ? size[i - 1] * 2 : 1024;
		part[0][i] = s->p50;
		part[1][i] = s->p95;
		part[2][i] = s->p99;
		most = fmax(most, isfinite(s->p99) ? s->p99 : 0);
	}
	return plot_put(
		f,
		&(struct plot){
			.title = "Slowdown by flow size",
			.text = "How many times as long as in an empty network flows took: half, "
				"95 % and 99 % of them no longer than this.",
			.x = {.label = "flows up to", .scale = PLOT_LOG, .unit = PLOT_BYTES},
			/* From 1 on, than which nothing is faster. */
			.y = {.label = "slowdown, times",
			      .scale = most > 10 ? PLOT_LOG : PLOT_LINEAR,
			      .least = 1,
			      .most = 2},
			.series = series,
			.nseries = ARRAY_SIZE(series),
		});
}

/* The part of each group's flows that took no longer than x[i]. The points are spread evenly over
 * the axis, and so there need not be one for each flow. */
struct cdf {
	double x[CDF_POINTS], y[GROUPS_MAX][CDF_POINTS];
	size_t done[GROUPS_MAX];
};

static void count_flows(struct cdf *c, const struct run_result *r, uint64_t least, uint64_t most)
{
	double ratio = log((double)most / (double)least);

	*c = (struct cdf){0};
	for (size_t i = 0; i < CDF_POINTS; i++)
		c->x[i] = (double)least * exp(ratio * (double)i / (CDF_POINTS - 1));
	for (size_t i = 0; i < r->nflows; i++) {
		const struct run_flow *w = &r->flows[i];
		double at = log((double)w->took_ns / (double)least);

		if (!w->took_ns || w->failed || w->group >= GROUPS_MAX)
			continue;
		at = ratio > 0 ? ceil(at / ratio * (CDF_POINTS - 1) - 1e-6) : 0;
		c->y[w->group][min_of((size_t)fmax(at, 0), (size_t)CDF_POINTS - 1)]++;
		c->done[w->group]++;
	}
	for (size_t g = 0; g < GROUPS_MAX; g++) {
		double sum = 0, before;

		for (size_t i = 0; i < CDF_POINTS && c->done[g]; i++) {
			before = sum;
			sum += c->y[g][i];
			/* The line goes from the quickest to the slowest. */
			c->y[g][i] = sum > 0 && before < (double)c->done[g]
					     ? sum / (double)c->done[g]
					     : NAN;
		}
	}
}

static bool put_cdf(FILE *f, const struct run_result *r)
{
	struct plot_series series[GROUPS_MAX];
	size_t n = 0, done = 0;
	uint64_t least = UINT64_MAX, most = 0;
	struct cdf c;
	char text[160];

	for (size_t i = 0; i < r->nflows; i++) {
		const struct run_flow *w = &r->flows[i];

		if (!w->took_ns || w->failed)
			continue;
		done++;
		least = min_of(least, w->took_ns);
		most = max_of(most, w->took_ns);
	}
	if (!done)
		return false;
	count_flows(&c, r, least, most);
	for (size_t g = 0; g < r->ngroups && g < GROUPS_MAX; g++)
		if (c.done[g])
			series[n++] = (struct plot_series){.name = name_of(r->groups[g].name),
							   .x = c.x,
							   .y = c.y[g],
							   .n = CDF_POINTS};
	if (done < r->nflows)
		snprintf(
			text, sizeof(text),
			"The part of flows that were done within a time; %zu of %zu were not done.",
			r->nflows - done, r->nflows);
	else
		snprintf(text, sizeof(text), "The part of flows that were done within a time.");
	return plot_put(f,
			&(struct plot){
				.title = "Flow completion times",
				.text = text,
				.x = {.label = "took", .scale = PLOT_LOG, .unit = PLOT_NS},
				.y = {.label = "flows", .unit = PLOT_PART, .least = 0, .most = 1},
				.series = series,
				.nseries = n,
			});
}

bool sim_plots_put(FILE *f, const struct run_result *r)
{
	bool any = put_goodput(f, r);

	any |= put_fairness(f, r);
	any |= put_queues(f, r);
	any |= put_slowdown(f, r);
	any |= put_cdf(f, r);
	any |= put_events(f, r, &r->pauses, "Pauses over time", "PFC pauses");
	any |= put_events(f, r, &r->marks, "Marks over time", "ECN marks");
	return any;
}
