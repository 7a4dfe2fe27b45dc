/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What `weft bench` prints: text for people, JSON with fio's names for programs. */
#include "cli/bench_report.h"

#include <errno.h>
#include <inttypes.h>
#include <time.h>

#include "base/time.h"

static const char *const side_names[] = {
	[BENCH_READS] = "read", [BENCH_WRITES] = "write", [BENCH_TRIMS] = "trim"};

/* --- text --------------------------------------------------------------------------------------
 */

static void tell_side(struct output *o, const char *name, const struct bench_side *side,
		      uint64_t took_ns)
{
	const struct histogram *h = &side->latency;
	double s = (double)took_ns / 1e9;
	double iops = s > 0 ? (double)side->ios / s : 0, rate = s > 0 ? (double)side->bytes / s : 0;
	static const struct {
		const char *name;
		unsigned int per_10000;
	} percentiles[] = {{"p50", 5000}, {"p99", 9900}, {"p99.9", 9990}};
	char text[48], part[32];

	if (side->ios == 0)
		return;
	output_object(o, name, "%s", name);
	output_number(o, "commands", NULL, side->ios, NULL);
	output_number(o, "data", NULL, side->bytes, text_bytes(text, sizeof(text), side->bytes));
	snprintf(text, sizeof(text), iops < 100 ? "%.1f" : "%.0f", iops);
	output_string(o, "IOPS", NULL, text);
	snprintf(text, sizeof(text), "%s/s", text_bytes(part, sizeof(part), (uint64_t)rate));
	output_string(o, "bandwidth", NULL, text);
	output_object(o, "latency", "latency");
	output_number(o, "min", NULL, h->min_ns, text_duration(text, sizeof(text), h->min_ns));
	output_number(o, "avg", NULL, histogram_mean(h),
		      text_duration(text, sizeof(text), histogram_mean(h)));
	for (size_t i = 0; i < ARRAY_SIZE(percentiles); i++) {
		uint64_t ns = histogram_percentile(h, percentiles[i].per_10000);

		output_number(o, percentiles[i].name, NULL, ns,
			      text_duration(text, sizeof(text), ns));
	}
	output_number(o, "max", NULL, h->max_ns, text_duration(text, sizeof(text), h->max_ns));
	output_close(o);
	output_close(o);
}

static void tell_report(struct output *o, const struct bench_report *r, const char *ended,
			const struct weft_ctrl_info *info)
{
	const struct bench *b = r->bench;
	const struct bench_config *c = &b->config;
	double seconds = (double)b->took_ns / 1e9;
	char bs[32], took[32], text[64];

	if (!r->ok)
		output_note(o, "%s: these are the figures until then", ended);
	if (c->jobs > 1)
		snprintf(text, sizeof(text), "%u jobs of %u", c->jobs, c->depth);
	else
		snprintf(text, sizeof(text), "%u", c->depth);
	output_note(o, "%s of %s, %s under way on %u queue%s, %s, namespace %u of %s at %s",
		    r->mode, text_bytes(bs, sizeof(bs), c->block_bytes), text, info->io_queues,
		    info->io_queues == 1 ? "" : "s", text_duration(took, sizeof(took), b->took_ns),
		    b->ns.nsid, info->nqn, b->remote->place);
	if (c->jobs * c->depth > info->io_queues * (r->queue_size - 1u))
		output_note(o, "(the queues hold fewer: --queue-size, --nr-io-queues)");
	for (int i = 0; i < BENCH_SIDES; i++)
		tell_side(o, side_names[i], &b->sides[i], b->took_ns);
	tell_side(o, "verify", &b->check, b->check_ns);
	output_object(o, "cpu", "this process");
	snprintf(text, sizeof(text), "%.0f %%", seconds > 0 ? b->cpu_user_s / seconds * 100 : 0);
	output_string(o, "user", NULL, text);
	snprintf(text, sizeof(text), "%.0f %%", seconds > 0 ? b->cpu_system_s / seconds * 100 : 0);
	output_string(o, "system", NULL, text);
	if (info->device[0])
		output_string(o, "device", NULL, info->device);
	if (info->keys[0])
		output_string(o, "keys", NULL, info->keys);
	output_close(o);
}

/* --- JSON, as fio 3.x has it ------------------------------------------------------------------
 */

static void put_spread(struct output *o, const struct histogram *h)
{
	output_number(o, "min", NULL, h->min_ns, NULL);
	output_number(o, "max", NULL, h->max_ns, NULL);
	output_real(o, "mean", NULL, h->count ? (double)h->sum_ns / (double)h->count : 0, NULL);
	output_real(o, "stddev", NULL, histogram_deviation(h), NULL);
	output_number(o, "N", NULL, h->count, NULL);
}

static void put_percentiles(struct output *o, const struct histogram *h)
{
	static const unsigned int per_10000[] = {100,  500,  1000, 2000, 3000, 4000,
						 5000, 6000, 7000, 8000, 9000, 9500,
						 9900, 9950, 9990, 9995, 9999};
	char key[16];

	output_object(o, "percentile", NULL);
	for (size_t i = 0; i < ARRAY_SIZE(per_10000); i++) {
		snprintf(key, sizeof(key), "%u.%02u0000", per_10000[i] / 100, per_10000[i] % 100);
		output_number(o, key, NULL, histogram_percentile(h, per_10000[i]), NULL);
	}
	output_close(o);
}

/* One direction. A command's submission takes no time of its own here: all of it is completion's.
 */
static void put_side(struct output *o, const char *name, const struct bench_side *side,
		     uint64_t took_ns)
{
	const struct histogram *h = &side->latency, none = {0};
	double s = (double)took_ns / 1e9, rate = s > 0 ? (double)side->bytes / s : 0;

	output_object(o, name, NULL);
	output_number(o, "io_bytes", NULL, side->bytes, NULL);
	output_number(o, "io_kbytes", NULL, side->bytes >> 10, NULL);
	output_number(o, "bw_bytes", NULL, (uint64_t)rate, NULL);
	output_number(o, "bw", NULL, (uint64_t)rate >> 10, NULL);
	output_real(o, "iops", NULL, s > 0 ? (double)side->ios / s : 0, NULL);
	output_number(o, "runtime", NULL, side->ios ? took_ns / NSEC_PER_MSEC : 0, NULL);
	output_number(o, "total_ios", NULL, side->ios, NULL);
	output_number(o, "short_ios", NULL, 0, NULL);
	output_number(o, "drop_ios", NULL, 0, NULL);
	output_object(o, "slat_ns", NULL);
	put_spread(o, &none);
	output_close(o);
	output_object(o, "clat_ns", NULL);
	put_spread(o, h);
	if (h->count)
		put_percentiles(o, h);
	output_close(o);
	output_object(o, "lat_ns", NULL);
	put_spread(o, h);
	output_close(o);
	output_close(o);
}

/* fio's are text, as they were written. */
static void put_option(struct output *o, const char *key, uint64_t value)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRIu64, value);
	output_string(o, key, NULL, text);
}

/* A job that had an amount to transfer took until its last answer. */
static uint64_t job_took(const struct bench *b, const struct bench_job *j)
{
	if (b->config.runtime_ns || j->last_ns < b->start_ns)
		return b->took_ns;
	return j->last_ns - b->start_ns;
}

/* How many of the samples fell below each of fio's limits, in percent, and not below the one
 * before. */
static void put_distribution(struct output *o, const char *key, uint64_t unit_ns, uint64_t from_ns,
			     const struct histogram *h)
{
	static const unsigned int limits[] = {2, 4, 10, 20, 50, 100, 250, 500, 750, 1000};
	uint64_t before = histogram_below(h, from_ns);
	char name[16];

	output_object(o, key, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(limits); i++) {
		uint64_t below = histogram_below(h, limits[i] * unit_ns);

		snprintf(name, sizeof(name), "%u", limits[i]);
		output_real(o, name, NULL,
			    h->count ? (double)(below - before) * 100 / (double)h->count : 0, NULL);
		before = below;
	}
	if (unit_ns == NSEC_PER_MSEC) {
		uint64_t below = histogram_below(h, 2000 * unit_ns);

		output_real(o, "2000", NULL,
			    h->count ? (double)(below - before) * 100 / (double)h->count : 0, NULL);
		output_real(o, ">=2000", NULL,
			    h->count ? (double)(h->count - below) * 100 / (double)h->count : 0,
			    NULL);
	}
	output_close(o);
}

static void put_latencies(struct output *o, const struct bench_side sides[BENCH_SIDES])
{
	static struct histogram all;

	all = (struct histogram){0};
	for (int i = 0; i < BENCH_SIDES; i++)
		histogram_merge(&all, &sides[i].latency);
	put_distribution(o, "latency_ns", 1, 0, &all);
	put_distribution(o, "latency_us", NSEC_PER_USEC, 1000, &all);
	put_distribution(o, "latency_ms", NSEC_PER_MSEC, 1000 * NSEC_PER_USEC, &all);
}

/* The process's figures are all jobs': they share it. */
static void put_job(struct output *o, const struct bench_report *r,
		    const struct bench_side sides[BENCH_SIDES], uint64_t took_ns)
{
	const struct bench *b = r->bench;
	double s = (double)b->took_ns / 1e9;

	output_object(o, NULL, NULL);
	output_string(o, "jobname", NULL, r->name);
	output_number(o, "groupid", NULL, 0, NULL);
	output_number(o, "error", NULL, r->ok || remote_interrupted() ? 0 : EIO, NULL);
	output_number(o, "elapsed", NULL, (b->took_ns + NSEC_PER_SEC - 1) / NSEC_PER_SEC, NULL);
	output_object(o, "job options", NULL);
	output_string(o, "rw", NULL, r->mode);
	put_option(o, "bs", b->config.block_bytes);
	put_option(o, "iodepth", b->config.depth);
	put_option(o, "numjobs", b->config.jobs);
	if (b->config.runtime_ns)
		put_option(o, "runtime", b->config.runtime_ns / NSEC_PER_SEC);
	put_option(o, "size", b->config.area_bytes);
	if (b->config.verify)
		output_string(o, "verify", NULL, pattern_name(b->config.pattern.kind));
	output_close(o);
	for (int i = 0; i < BENCH_SIDES; i++)
		put_side(o, side_names[i], &sides[i], took_ns);
	output_number(o, "job_runtime", NULL, took_ns / NSEC_PER_MSEC, NULL);
	output_real(o, "usr_cpu", NULL, s > 0 ? b->cpu_user_s / s * 100 : 0, NULL);
	output_real(o, "sys_cpu", NULL, s > 0 ? b->cpu_system_s / s * 100 : 0, NULL);
	output_number(o, "ctx", NULL, b->switches, NULL);
	output_number(o, "majf", NULL, b->major_faults, NULL);
	output_number(o, "minf", NULL, b->minor_faults, NULL);
	put_latencies(o, sides);
	output_number(o, "latency_depth", NULL, b->config.depth, NULL);
	output_close(o);
}

static void put_jobs(struct output *o, const struct bench_report *r)
{
	const struct bench *b = r->bench;

	output_list(o, "jobs", NULL);
	if (r->group || b->config.jobs == 1)
		put_job(o, r, b->sides, b->took_ns);
	else
		for (uint32_t i = 0; i < b->config.jobs; i++)
			put_job(o, r, b->jobs[i].sides, job_took(b, &b->jobs[i]));
	output_close(o);
}

static void put_report(struct output *o, const struct bench_report *r, const char *ended,
		       const struct weft_ctrl_info *info)
{
	const struct bench *b = r->bench;
	struct timespec now;
	struct tm local;
	char when[64];

	clock_gettime(CLOCK_REALTIME, &now);
	output_string(o, "weft version", NULL, WEFT_VERSION);
	output_number(o, "timestamp", NULL, (uint64_t)now.tv_sec, NULL);
	output_number(o, "timestamp_ms", NULL,
		      (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / NSEC_PER_MSEC, NULL);
	strftime(when, sizeof(when), "%a %b %e %H:%M:%S %Y", localtime_r(&now.tv_sec, &local));
	output_string(o, "time", NULL, when);
	put_jobs(o, r);
	output_string(o, "ended", NULL, ended);
	output_number(o, "queues", NULL, info->io_queues, NULL);
	output_bool(o, "poll", NULL, b->remote->poll);
	output_number(o, "nsid", NULL, b->ns.nsid, NULL);
	output_string(o, "subnqn", NULL, info->nqn);
	output_number(o, "reconnects", NULL, info->reconnects, NULL);
	if (b->check.ios)
		put_side(o, "verify", &b->check, b->check_ns);
	output_string(o, "device", NULL, info->device);
	output_string(o, "keys", NULL, info->keys);
}

/* --- both --------------------------------------------------------------------------------------
 */

/* What our side of the wire says of why it was not faster. */
static void show_rnic(struct output *o, const struct bench_rnic *n)
{
	const struct {
		const char *key, *label;
		uint64_t value;
		bool always;
	} rows[] = {
		{"tx_packets", "sent", n->tx_packets, true},
		{"rx_packets", "received", n->rx_packets, true},
		{"retransmits", "sent again", n->retransmits, true},
		{"naks_received", "NAKs in", n->naks_received, false},
		{"naks_sent", "NAKs out", n->naks_sent, false},
		{"sacks_received", "SACKs in", n->sacks_received, false},
		{"sacks_sent", "SACKs out", n->sacks_sent, false},
		{"rnr_naks_received", "RNR NAKs in", n->rnr_naks_received, false},
		{"rnr_naks_sent", "RNR NAKs out", n->rnr_naks_sent, false},
		{"probes", "probes", n->probes, false},
		{"timeouts", "timeouts", n->timeouts, false},
		{"window_stalls", "window full", n->window_stalls, false},
		{"budget_stalls", "peer full", n->budget_stalls, false},
		{"drops", "dropped", n->drops, false},
		{"socket_drops", "socket drops", n->socket_drops, false},
	};

	output_object(o, "rnic", "packets");
	o->width = 12;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (rows[i].value || rows[i].always || o->format == OUTPUT_JSON)
			output_number(o, rows[i].key, rows[i].label, rows[i].value, NULL);
	output_close(o);
}

bool bench_report(const struct bench_report *r)
{
	const struct bench *b = r->bench;
	const char *ended = r->ok ? "done" : remote_interrupted() ? "interrupted" : "failed";
	struct weft_ctrl_info info;
	struct output o;

	(void)weft_ctrl_info(b->remote->ctrl, &info, sizeof(info));
	output_init(&o, stdout, r->format);
	o.width = 10;
	if (r->format == OUTPUT_JSON)
		put_report(&o, r, ended, &info);
	else
		tell_report(&o, r, ended, &info);
	if (b->seen)
		show_rnic(&o, &b->rnic);
	if (b->config.verify && r->ok)
		output_note(&o, "verified: every block read was right");
	return output_finish(&o);
}
