/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "fabric/scenario/figures.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"

enum figure {
#define X(id, name, subject, unit, text) FIGURE_##id,
#include "fabric/scenario/figures.def"
#undef X
	FIGURES
};

enum {
	RUN = RUN_OF_RUN,
	TRAFFIC = RUN_OF_TRAFFIC,
	PORT = RUN_OF_PORT,
	ONE = RUN_OF_ONE,
	TIME = RUN_OF_TIME,
	SIZES = RUN_OF_SIZES
};

static const struct {
	const char *name, *unit, *text;
	unsigned subject;
} figures[FIGURES] = {
#define X(id, name, subject, unit, text) {name, unit, text, subject},
#include "fabric/scenario/figures.def"
#undef X
};

const char *run_figure(size_t i, const char **ret_unit, const char **ret_text)
{
	if (i >= FIGURES)
		return NULL;
	if (ret_unit)
		*ret_unit = figures[i].unit;
	if (ret_text)
		*ret_text = figures[i].text;
	return figures[i].name;
}

int run_figure_subject(const char *name, unsigned *ret)
{
	for (enum figure f = 0; f < FIGURES; f++)
		if (!strcmp(figures[f].name, name)) {
			*ret = figures[f].subject;
			return 0;
		}
	return -ENOENT;
}

int figures_compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

size_t figures_rank(size_t n, double part)
{
	/* 0.95 of 20 is not 19 to the last bit. */
	const double rank = ceil(part * (double)n - 1e-9);

	return rank < 1 ? 0 : min_of((size_t)rank, n) - 1;
}

double figures_percentile(const double *sorted, size_t n, double part)
{
	return n ? sorted[figures_rank(n, part)] : 0;
}

double figures_jain(double sum, double squares, unsigned n)
{
	return squares > 0 ? sum * sum / (n * squares) : 1;
}

double figures_fairness(const double *v, const unsigned *of, unsigned n)
{
	double sum = 0, squares = 0;

	for (unsigned i = 0; i < n; i++) {
		sum += v[of[i]];
		squares += v[of[i]] * v[of[i]];
	}
	return figures_jain(sum, squares, n);
}

double figures_step_ns(uint64_t step_ns, size_t i, uint64_t ended_ns)
{
	return (double)(min_of((i + 1) * step_ns, ended_ns) - i * step_ns);
}

/* What a figure is of. */
struct subject {
	const struct run_result *run;
	const struct play *play;
	const struct expectation *e;
	long group, port; /* -1: of all */
};

static bool is_of(const struct subject *s, size_t group)
{
	return s->group < 0 || (size_t)s->group == group;
}

/* ---- of traffic ------------------------------------------------------------------------------ */

static double goodput(const struct subject *s)
{
	const struct play *p = s->play;
	const uint64_t ended = s->run->totals.ended_ns;
	uint64_t from = s->e->from_ns, until = s->e->until_ns;
	double bytes = 0;

	if (!from && !until)
		from = p->warmup_ns;
	until = until ? min_of(until, ended) : ended;
	for (size_t g = 0; g < p->ngroups; g++)
		for (size_t i = 0; is_of(s, g) && i < p->nbins; i++) {
			double a = (double)max_of(i * p->step_ns, from);
			double b = (double)min_of((i + 1) * p->step_ns, until);

			if (b > a)
				bytes += p->groups[g].bins[i] * (b - a) /
					 figures_step_ns(p->step_ns, i, ended);
		}
	return until > from ? bytes * 8 / (double)(until - from) : NAN; /* it was over before */
}

static double of_sources(const struct subject *s, enum figure f)
{
	const struct play *p = s->play;
	const struct group *g = &p->groups[s->group < 0 ? 0 : s->group];
	const struct host_set *sources = &g->sources;
	double span = (double)(s->run->totals.ended_ns - p->warmup_ns), v = 0;

	if (f == FIGURE_FAIRNESS)
		return s->run->groups[g->index].fairness;
	for (unsigned i = 0; i < sources->n; i++) {
		double one = g->by_source[sources->v[i]];

		if (!i || (f == FIGURE_SOURCE_LEAST ? one < v : one > v))
			v = one;
	}
	return span > 0 ? v * 8 / span : 0;
}

static bool has_size(const struct subject *s, uint64_t bytes)
{
	return bytes >= s->e->bytes_from && (!s->e->bytes_to || bytes <= s->e->bytes_to);
}

static double mean(const double *v, size_t n)
{
	double sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += v[i];
	return n ? sum / (double)n : NAN;
}

static double of_flows(const struct subject *s, enum figure f)
{
	const struct play *p = s->play;
	double *v = calloc(p->nflows + 1, sizeof(*v)), part = 1;
	size_t n = 0;

	if (!v)
		return NAN;
	for (size_t i = 0; i < p->nflows; i++) {
		const struct flow_record *r = &p->flows[i];

		if (!r->took_ns || !is_of(s, r->group) || !has_size(s, r->bytes) ||
		    r->start_ns < p->warmup_ns)
			continue;
		v[n++] = f >= FIGURE_SLOWDOWN_MEAN
				 ? (double)r->took_ns / (double)max_of(r->ideal_ns, (uint64_t)1)
				 : (double)r->took_ns / 1e3;
	}
	if (f == FIGURE_FCT_MEAN || f == FIGURE_SLOWDOWN_MEAN) {
		part = mean(v, n);
		free(v);
		return part;
	}
	qsort(v, n, sizeof(*v), figures_compare);
	if (f == FIGURE_FCT_P50 || f == FIGURE_SLOWDOWN_P50)
		part = .5;
	else if (f == FIGURE_SLOWDOWN_P95)
		part = .95;
	else if (f == FIGURE_FCT_P99 || f == FIGURE_SLOWDOWN_P99)
		part = .99;
	part = n ? figures_percentile(v, n, part) : NAN;
	free(v);
	return part;
}

static double counted(const struct subject *s, enum figure f)
{
	double flows = 0, done = 0, failed = 0;

	for (size_t i = 0; i < s->run->ngroups; i++) {
		if (!is_of(s, i))
			continue;
		flows += (double)s->run->groups[i].flows;
		done += (double)s->run->groups[i].done;
		failed += (double)s->run->groups[i].failed;
	}
	if (flows < 1)
		return NAN;
	return f == FIGURE_FAILED ? failed : done / flows;
}

/* ---- of ports -------------------------------------------------------------------------------- */

static double of_port(const struct run_port *p, enum figure f, double span)
{
	switch (f) {
	case FIGURE_QUEUE_MOST:
		return (double)p->queue_most;
	case FIGURE_QUEUE_P50:
		return p->queue_p50;
	case FIGURE_QUEUE_P90:
		return p->queue_p90;
	case FIGURE_QUEUE_P99:
		return p->queue_p99;
	case FIGURE_UTILIZATION:
		return p->utilization;
	case FIGURE_PAUSES:
		return (double)p->pauses_sent;
	case FIGURE_PAUSED:
		return (double)p->paused_ns / span;
	case FIGURE_MARKED:
		return (double)p->marked;
	case FIGURE_DROPPED:
		return (double)p->dropped;
	case FIGURE_LOST:
		return (double)p->lost;
	case FIGURE_WATCHDOG:
		return (double)p->watchdog;
	default:
		return NAN;
	}
}

static bool is_sum(enum figure f)
{
	return f == FIGURE_PAUSES || f == FIGURE_MARKED || f == FIGURE_DROPPED ||
	       f == FIGURE_LOST || f == FIGURE_WATCHDOG;
}

static double of_ports(const struct subject *s, enum figure f)
{
	double span = (double)max_of(s->run->totals.counted_ns, (uint64_t)1), v = 0;

	if (s->port >= 0)
		return of_port(&s->run->ports[s->port], f, span);
	if (f == FIGURE_DROPPED)
		return (double)s->run->totals.dropped;
	for (size_t i = 0; i < s->run->nports; i++) {
		const struct run_port *p = &s->run->ports[i];
		double one = of_port(p, f, span);

		if (is_sum(f))
			v += one;
		else if (p->of_switch || f == FIGURE_PAUSED || f == FIGURE_UTILIZATION)
			v = max_of(v, one);
	}
	return v;
}

static double compute(const struct subject *s, enum figure f)
{
	switch (f) {
	case FIGURE_GOODPUT:
		return goodput(s);
	case FIGURE_SOURCE_LEAST:
	case FIGURE_SOURCE_MOST:
	case FIGURE_FAIRNESS:
		return of_sources(s, f);
	case FIGURE_DONE:
	case FIGURE_FAILED:
		return counted(s, f);
	case FIGURE_FCT_MEAN:
	case FIGURE_FCT_P50:
	case FIGURE_FCT_P99:
	case FIGURE_FCT_MOST:
	case FIGURE_SLOWDOWN_MEAN:
	case FIGURE_SLOWDOWN_P50:
	case FIGURE_SLOWDOWN_P95:
	case FIGURE_SLOWDOWN_P99:
		return of_flows(s, f);
	case FIGURE_CNPS:
		return (double)s->run->totals.cnps;
	case FIGURE_RESENT:
		return (double)s->run->totals.resent;
	case FIGURE_SMPS:
		return (double)s->run->totals.smps;
	case FIGURE_SWEEPS_FAILED:
		return (double)s->run->totals.sweeps_failed;
	case FIGURE_SUBNET:
		return (double)s->run->totals.subnet_ns / 1e3;
	default:
		return of_ports(s, f);
	}
}

/* ---- all of them ----------------------------------------------------------------------------- */

/* A name is of an entry or of a port, as its figure is. */
static void find(struct subject *s, unsigned of)
{
	const struct run_result *r = s->run;

	s->group = s->port = -1;
	if (!s->e->of)
		return;
	for (size_t i = 0; of & TRAFFIC && i < r->ngroups; i++)
		if (!strcmp(r->groups[i].name, s->e->of))
			s->group = (long)i;
	for (size_t i = 0; of & PORT && i < r->nports; i++)
		if (!strcmp(r->ports[i].name, s->e->of))
			s->port = (long)i;
}

int figures_judge(struct run_result *r, const struct play *p)
{
	const struct scenario *sc = r->scenario;

	r->verdicts = calloc(sc->nexpect + 1, sizeof(*r->verdicts));
	if (!r->verdicts)
		return -ENOMEM;
	for (size_t i = 0; i < sc->nexpect; i++) {
		struct subject s = {.run = r, .play = p, .e = &sc->expect[i]};
		struct run_verdict *v = &r->verdicts[r->nverdicts];

		v->expected = s.e;
		for (enum figure f = 0; f < FIGURES; f++)
			if (!strcmp(figures[f].name, s.e->figure)) {
				find(&s, figures[f].subject);
				v->got = compute(&s, f);
			}
		/* A figure of nothing is none: it is not met. */
		v->met = v->got >= s.e->least && v->got <= s.e->most;
		r->nverdicts++;
	}
	return 0;
}
