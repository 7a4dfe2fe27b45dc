/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "fabric/scenario/run.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/errno_text.h"
#include "base/time.h"
#include "fabric/net/capture.h"
#include "fabric/net/management.h"
#include "fabric/net/network.h"
#include "fabric/scenario/figures.h"
#include "fabric/traffic/play.h"

#define SAMPLES_PER_STEP 8
#define TELL_EVERY	 20000 /* happenings */

/* What is seen of a port while it runs. */
struct watch {
	uint64_t queue_most; /* after the warm-up */
	double *samples;     /* that were not 0 */
	size_t n, room;
	double *series; /* of each step; NULL: there never was a queue */
};

struct running {
	struct run_result *result;
	struct network *network;
	struct fabric *fabric;
	struct play *play;
	struct capture *capture;
	struct watch *watch; /* of each port */
	size_t samples;	     /* of each, after the warm-up */
	double *pauses, *marks;
	uint64_t pauses_before, marks_before;
	uint64_t counted_from_ns;
	struct run_totals before; /* what hosts had counted then */
	size_t steps;
	const struct run_options *options;
	uint64_t told;
};

static void *must(void *p)
{
	if (!p)
		abort(); /* a simulation without memory has no result */
	return p;
}

/* ---- while it runs --------------------------------------------------------------------------- */

static void sample(struct running *r)
{
	const unsigned ports = network_ports(r->network);

	r->samples++;
	for (unsigned i = 0; i < ports; i++) {
		struct watch *w = &r->watch[i];
		uint64_t queued = network_port(r->network, i)->queued;

		if (!queued || !network_port_is_of_switch(r->network, i))
			continue;
		if (w->n == w->room) {
			w->room = w->room ? w->room * 2 : 64;
			w->samples = must(realloc(w->samples, w->room * sizeof(*w->samples)));
		}
		w->samples[w->n++] = (double)queued;
	}
}

static void end_step(struct running *r, size_t step, bool warm)
{
	const unsigned ports = network_ports(r->network);
	uint64_t pauses = 0, marks = 0;

	for (unsigned i = 0; i < ports; i++) {
		struct netport *p = network_port(r->network, i);
		struct watch *w = &r->watch[i];
		uint64_t most = p->counters.queue_most;

		p->counters.queue_most = p->queued;
		pauses += p->counters.pauses_sent;
		marks += p->counters.marked;
		if (warm)
			w->queue_most = max_of(w->queue_most, most);
		if (!most || !network_port_is_of_switch(r->network, i))
			continue;
		if (!w->series)
			w->series = must(calloc(r->steps, sizeof(*w->series)));
		w->series[step] = (double)most;
	}
	r->pauses[step] = (double)(pauses - r->pauses_before);
	r->marks[step] = (double)(marks - r->marks_before);
	r->pauses_before = pauses;
	r->marks_before = marks;
}

static void count_hosts(const struct running *r, struct run_totals *t)
{
	for (unsigned i = 0; i < network_hosts(r->network); i++) {
		const struct rnic_counters *c =
			rnic_counters(host_rnic(network_host(r->network, i)));

		t->cnps += c->tx_cnp;
		t->resent += c->tx_retransmit;
		t->timeouts += c->timeouts;
	}
}

/* The warm-up is over: what was counted in it is not among the figures. Of the step that it ends in
 * all is. */
static void count_anew(struct running *r)
{
	for (unsigned i = 0; i < network_ports(r->network); i++) {
		const struct netport_counters *c = &network_port(r->network, i)->counters;

		r->pauses_before -= c->pauses_sent;
		r->marks_before -= c->marked;
	}
	network_count_anew(r->network);
	count_hosts(r, &r->before);
	r->counted_from_ns = play_now(r->play);
}

static uint64_t packets_of(const struct running *r)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < network_hosts(r->network); i++)
		n += host_data_packets(network_host(r->network, i));
	return n;
}

static bool goes_on(struct running *r)
{
	const struct run_options *o = r->options;
	const struct play *p = r->play;

	if (!o->progress || fabric_happened(r->fabric) < r->told)
		return true;
	r->told = fabric_happened(r->fabric) + TELL_EVERY;
	return o->progress(o->ctx, play_now(p), p->end_ns - p->begin_ns, packets_of(r));
}

static int go(struct running *r, const struct scenario *s)
{
	const struct play *p = r->play;
	const uint64_t every = max_of(s->step_ns / SAMPLES_PER_STEP, (uint64_t)1);
	const uint64_t warm = p->begin_ns + s->warmup_ns;
	uint64_t at = p->begin_ns, step_end = p->begin_ns + s->step_ns;
	size_t step = 0;

	while (at < p->end_ns && !p->failed) {
		uint64_t next = min_of(at + every, step_end);

		at = min_of(next, at < warm ? warm : p->end_ns);
		while (fabric_step(r->fabric, at))
			if (!goes_on(r))
				return -ECANCELED;
		if (at - p->begin_ns > s->warmup_ns)
			sample(r);
		if (at == step_end || at == p->end_ns) {
			end_step(r, step++, at - p->begin_ns > s->warmup_ns);
			step_end += s->step_ns;
			if (s->until_done && play_is_done(p))
				break;
		}
		if (at == warm)
			count_anew(r);
	}
	r->result->totals.ended_ns = at - p->begin_ns;
	r->result->totals.counted_ns = r->result->totals.ended_ns - r->counted_from_ns;
	r->steps = step;
	return p->failed ? -EAGAIN : 0;
}

/* ---- afterwards ------------------------------------------------------------------------------ */

static double percentile_of(const struct watch *w, size_t samples, double part)
{
	const size_t zeros = samples - w->n, at = samples ? figures_rank(samples, part) : 0;

	return at < zeros || !samples ? 0 : w->samples[at - zeros];
}

static void take_ports(struct running *r)
{
	struct run_result *res = r->result;

	res->nports = network_ports(r->network);
	res->ports = must(calloc(res->nports, sizeof(*res->ports)));
	for (unsigned i = 0; i < res->nports; i++) {
		const struct netport *p = network_port(r->network, i);
		const struct netport_counters *c = &p->counters;
		struct watch *w = &r->watch[i];
		struct run_port *o = &res->ports[i];
		double could = (double)res->totals.counted_ns * 1e6 / (double)p->fs_per_byte;

		if (w->n)
			qsort(w->samples, w->n, sizeof(*w->samples), figures_compare);
		*o = (struct run_port){
			.name = must(strdup(p->name)),
			.of_switch = network_port_is_of_switch(r->network, i),
			.frames = c->frames,
			.bytes = c->bytes,
			.dropped = c->dropped,
			.lost = c->lost,
			.marked = c->marked,
			.pauses_sent = c->pauses_sent,
			.pauses_got = c->pauses_got,
			.paused_ns =
				c->paused_ns +
				(p->stopped ? fabric_now(r->fabric) - p->any_stopped_since : 0),
			.watchdog = c->watchdog,
			.utilization =
				could > 0 ? (double)(c->bytes + c->frames * p->gap) / could : 0,
			.queue_most = w->queue_most,
			.queue_p50 = percentile_of(w, r->samples, .5),
			.queue_p90 = percentile_of(w, r->samples, .9),
			.queue_p99 = percentile_of(w, r->samples, .99),
			.queue = {w->series, w->series ? r->steps : 0},
		};
		w->series = NULL; /* is the result's */
		res->totals.frames += c->frames;
		res->totals.lost += c->lost;
		res->totals.marked += c->marked;
		res->totals.pauses += c->pauses_sent;
		res->totals.watchdog += c->watchdog;
		if (!o->of_switch)
			res->totals.dropped += c->dropped;
	}
	res->totals.dropped += network_dropped(r->network);
}

static void take_subnet(struct running *r)
{
	const struct management *m = network_management(r->network);
	struct run_totals *t = &r->result->totals;

	if (!m)
		return;
	t->smps = management_counters(m)->sent;
	t->subnet_ns = management_took_ns(m);
	t->sweeps_failed = management_failed(m);
}

static void take_hosts(struct running *r)
{
	struct run_totals *t = &r->result->totals;

	count_hosts(r, t);
	t->cnps -= r->before.cnps;
	t->resent -= r->before.resent;
	t->timeouts -= r->before.timeouts;
	t->packets = packets_of(r);
	t->happenings = fabric_happened(r->fabric);
}

static struct run_series fairness_over_time(const struct group *g, size_t steps)
{
	const unsigned n = g->sources.n;
	struct run_series s = {0};

	if (!g->source_bins)
		return s;
	s = (struct run_series){must(calloc(steps + 1, sizeof(*s.v))), steps};
	for (size_t k = 0; k < steps; k++) {
		const float *of = g->source_bins + k * n;
		double sum = 0, squares = 0;

		for (unsigned i = 0; i < n; i++) {
			sum += (double)of[i];
			squares += (double)of[i] * (double)of[i];
		}
		s.v[k] = figures_jain(sum, squares, n);
	}
	return s;
}

static void take_groups(struct running *r)
{
	struct run_result *res = r->result;
	const struct play *p = r->play;
	double span = (double)(res->totals.ended_ns - min_of(p->warmup_ns, res->totals.ended_ns));

	res->ngroups = p->ngroups;
	res->groups = must(calloc(p->ngroups + 1, sizeof(*res->groups)));
	for (size_t i = 0; i < p->ngroups; i++) {
		const struct group *g = &p->groups[i];
		double *series = must(calloc(r->steps + 1, sizeof(*series)));

		for (size_t k = 0; k < r->steps; k++)
			series[k] = g->bins[k] * 8 /
				    figures_step_ns(p->step_ns, k, res->totals.ended_ns);
		res->groups[i] = (struct run_group){
			.name = g->traffic->name,
			.kind = traffic_names[g->traffic->kind],
			.flows = g->flows,
			.done = g->done,
			.failed = g->failed,
			.bytes = g->bytes,
			.goodput_gbps = span > 0 ? (double)g->bytes * 8 / span : 0,
			.fairness = figures_fairness(g->by_source, g->sources.v, g->sources.n),
			.goodput = {series, r->steps},
			.fairness_over_time = fairness_over_time(g, r->steps),
		};
	}
}

static void take_flows(struct running *r)
{
	struct run_result *res = r->result;
	const struct play *p = r->play;

	res->nflows = p->nflows;
	res->flows = must(calloc(p->nflows + 1, sizeof(*res->flows)));
	for (size_t i = 0; i < p->nflows; i++) {
		const struct flow_record *f = &p->flows[i];

		res->flows[i] = (struct run_flow){f->group,    f->from,	   f->to,	f->bytes,
						  f->start_ns, f->took_ns, f->ideal_ns, f->failed};
	}
}

/* Classes that grow by half decades, and only those that have somebody. */
static void take_sizes(struct running *r)
{
	static const uint64_t most[] = {1000,	   3000,      10000,	 30000,	   100000,
					300000,	   1000000,   3000000,	 10000000, 30000000,
					100000000, 300000000, UINT64_MAX};
	struct run_result *res = r->result;
	double *v = must(calloc(res->nflows + 1, sizeof(*v)));
	double *took = must(calloc(res->nflows + 1, sizeof(*took)));

	res->sizes = must(calloc(ARRAY_SIZE(most), sizeof(*res->sizes)));
	for (size_t c = 0; c < ARRAY_SIZE(most); c++) {
		size_t n = 0;

		for (size_t i = 0; i < res->nflows; i++) {
			const struct run_flow *f = &res->flows[i];

			if (f->took_ns && f->start_ns >= r->play->warmup_ns &&
			    f->bytes <= most[c] && (!c || f->bytes > most[c - 1])) {
				took[n] = (double)f->took_ns;
				v[n++] = (double)f->took_ns /
					 (double)max_of(f->ideal_ns, (uint64_t)1);
			}
		}
		if (!n)
			continue;
		qsort(v, n, sizeof(*v), figures_compare);
		qsort(took, n, sizeof(*took), figures_compare);
		res->sizes[res->nsizes++] = (struct run_sizes){
			.most = most[c],
			.flows = n,
			.p50 = figures_percentile(v, n, .5),
			.p95 = figures_percentile(v, n, .95),
			.p99 = figures_percentile(v, n, .99),
			.fct_p50_ns = (uint64_t)figures_percentile(took, n, .5),
			.fct_p95_ns = (uint64_t)figures_percentile(took, n, .95),
			.fct_p99_ns = (uint64_t)figures_percentile(took, n, .99),
		};
	}
	free(v);
	free(took);
}

static void take_all(struct running *r)
{
	take_ports(r);
	take_hosts(r);
	take_subnet(r);
	take_groups(r);
	take_flows(r);
	take_sizes(r);
	r->result->pauses = (struct run_series){r->pauses, r->steps};
	r->result->marks = (struct run_series){r->marks, r->steps};
	r->pauses = r->marks = NULL; /* are the result's */
}

/* ---- a run ----------------------------------------------------------------------------------- */

static void running_fini(struct running *r)
{
	if (r->play)
		play_destroy(r->play);
	for (unsigned i = 0; r->watch && i < network_ports(r->network); i++) {
		free(r->watch[i].samples);
		free(r->watch[i].series);
	}
	free(r->watch);
	free(r->pauses);
	free(r->marks);
	if (r->network)
		network_destroy(r->network);
}

static int open_capture(struct running *r, char *err, size_t err_len)
{
	const struct run_options *o = r->options;
	struct netport *p = network_port(r->network, 0);

	if (!o->capture)
		return 0;
	if (o->link) {
		p = NULL;
		for (unsigned i = 0; i < network_ports(r->network); i++)
			if (!strcmp(network_port(r->network, i)->name, o->link))
				p = network_port(r->network, i);
		if (!p) {
			snprintf(err, err_len, "there is no link '%s': one is '%s'", o->link,
				 network_port(r->network, 0)->name);
			return -EINVAL;
		}
	}
	return capture_open(&r->capture, o->capture, p, err, err_len);
}

/* That every port that something is expected of is there: not when all has been run. */
static int check_ports(const struct running *r, const struct scenario *s, char *err, size_t err_len)
{
	for (size_t i = 0; i < s->nexpect; i++) {
		const struct expectation *e = &s->expect[i];
		unsigned k = 0;

		if (!e->of || !(e->subject & RUN_OF_PORT))
			continue;
		while (k < network_ports(r->network) &&
		       strcmp(network_port(r->network, k)->name, e->of))
			k++;
		if (k < network_ports(r->network))
			continue;
		snprintf(err, err_len, "%s:%d: there is no port '%s' for %s: one is '%s'", s->name,
			 e->line, e->of, e->figure, network_port(r->network, 0)->name);
		return -EINVAL;
	}
	return 0;
}

static int begin(struct running *r, const struct scenario *s, char *err, size_t err_len)
{
	int rc = network_create(&r->network, &s->network, r->result->seed, err, err_len);

	if (rc)
		return rc;
	r->fabric = network_fabric(r->network);
	r->steps = (size_t)((s->duration_ns + s->step_ns - 1) / s->step_ns);
	r->watch = must(calloc(network_ports(r->network), sizeof(*r->watch)));
	r->pauses = must(calloc(r->steps + 1, sizeof(*r->pauses)));
	r->marks = must(calloc(r->steps + 1, sizeof(*r->marks)));
	rc = check_ports(r, s, err, err_len);
	if (!rc)
		rc = open_capture(r, err, err_len);
	if (!rc)
		rc = network_settle(r->network, err, err_len);
	if (rc)
		return rc;
	rc = play_create(&r->play, r->network, play_kinds, s->traffic, s->ntraffic, s->duration_ns,
			 s->warmup_ns, s->step_ns, err, err_len);
	if (rc)
		snprintf(err, err_len, "%s", errno_text(-rc));
	return rc;
}

static int end_capture(struct running *r, int rc, char *err, size_t err_len)
{
	if (!r->capture || capture_close(r->capture) || rc)
		return rc;
	rc = -errno;
	snprintf(err, err_len, "%s is not whole: %s", r->options->capture, errno_text(-rc));
	return rc;
}

int run(struct run_result **ret, const struct scenario *s, const struct run_options *o, char *err,
	size_t err_len)
{
	struct running r = {.options = o, .result = calloc(1, sizeof(struct run_result))};
	uint64_t started = time_now_ns();
	int rc;

	if (!r.result)
		return -ENOMEM;
	*err = '\0';
	r.result->scenario = s;
	r.result->seed = o->seed ? o->seed : s->seed;
	r.result->step_ns = s->step_ns;
	rc = begin(&r, s, err, err_len);
	if (!rc)
		rc = go(&r, s);
	rc = end_capture(&r, rc, err, err_len);
	if (!rc) {
		take_all(&r);
		r.result->totals.wall_s = (double)(time_now_ns() - started) / 1e9;
		rc = figures_judge(r.result, r.play);
	}
	running_fini(&r);
	if (rc)
		run_free(r.result);
	else
		*ret = r.result;
	if (rc && !*err)
		snprintf(err, err_len, "%s", errno_text(-rc));
	return rc;
}

void run_free(struct run_result *r)
{
	for (size_t i = 0; i < r->nports; i++) {
		free(r->ports[i].name);
		free(r->ports[i].queue.v);
	}
	for (size_t i = 0; i < r->ngroups; i++) {
		free(r->groups[i].goodput.v);
		free(r->groups[i].fairness_over_time.v);
	}
	free(r->pauses.v);
	free(r->marks.v);
	free(r->ports);
	free(r->groups);
	free(r->flows);
	free(r->sizes);
	free(r->verdicts);
	free(r);
}
