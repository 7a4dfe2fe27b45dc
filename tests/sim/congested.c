/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Cores that write to one other through a queue that marks: what each congestion control makes of
 * it. The rate of one that does DCQCN is held beside a model of what was published all the while.
 */
#include <stdio.h>
#include <string.h>

#include "../unit/dcqcn_model.h"
#include "base/bytes.h"
#include "base/units.h"
#include "crowd.h"
#include "fabric/world.h"

#define DEPTH	   8
#define LINE_MBPS  40000
#define SETTLE_NS  (20 * NSEC_PER_MSEC)
#define MEASURE_NS (40 * NSEC_PER_MSEC)

/* As in the paper: lines of 40 Gb/s, and a switch that marks from 5 KB on, a hundredth at 200 KB.
 */
static const struct link_nature wire = {
	.delay_ns = 2000,
	.ns_per_byte_x1000 = 200,
	.queue = {.ns_per_byte_x1000 = 200,
		  .bytes_max = 4 << 20,
		  .mark_from = 5000,
		  .mark_all = 200000,
		  .mark_ppm = 10000},
};

struct outcome {
	double goodput, fairness; /* of the line's rate; Jain's index */
	uint64_t peak;		  /* of the queue, bytes */
	uint64_t lost, marked, cnps, steps;
};

/* ---- DCQCN, watched ------------------------------------------------------------------------- */

static struct {
	const struct cc *cc; /* the one that is watched */
	struct model model;
	uint64_t notified, steps;
} watch;

static void compare(const struct cc *cc, uint64_t now)
{
	if (!model_agrees(&watch.model, cc->rate_kbps))
		crowd_fail("at %llu ns it is %u kb/s, and the model's rate %f Mb/s",
			   (unsigned long long)now, cc->rate_kbps, watch.model.rc);
	watch.steps++;
}

static void watched_start(struct cc *cc, uint64_t now)
{
	watch.cc = cc;
	watch.model = model_of(LINE_MBPS);
	cc_dcqcn.start(cc, now);
}

static void watched_sent(struct cc *cc, uint32_t bytes, uint64_t now)
{
	cc_dcqcn.sent(cc, bytes, now);
	model_run(&watch.model, now);
	model_sent(&watch.model, bytes);
	compare(cc, now);
}

static void watched_acked(struct cc *cc, uint32_t bytes, uint64_t now)
{
	cc_dcqcn.acked(cc, bytes, now);
}

static void watched_cnp(struct cc *cc, uint64_t now)
{
	cc_dcqcn.cnp(cc, now);
	model_run(&watch.model, now);
	model_cnp(&watch.model, now);
	watch.notified++;
	compare(cc, now);
}

static void watched_lost(struct cc *cc, uint32_t bytes, bool again, uint64_t now)
{
	(void)bytes;
	(void)again;
	(void)cc;
	crowd_fail("at %llu ns something is lost", (unsigned long long)now);
}

static const struct cc_ops watched = {
	.name = "watched",
	.start = watched_start,
	.sent = watched_sent,
	.acked = watched_acked,
	.lost = watched_lost,
	.cnp = watched_cnp,
};

static struct outcome judge(struct crowd *c)
{
	const struct crowd_got got = crowd_got(c);

	return (struct outcome){
		.goodput = got.bytes * 8000 / MEASURE_NS / LINE_MBPS,
		.fairness = got.fairness,
		.peak = crowd_queue_peak(c),
		.lost = crowd_link(c)->overflowed,
		.marked = crowd_link(c)->marked,
		.cnps = crowd_counters(c, 0)->tx_cnp,
		.steps = watch.steps,
	};
}

/* The first sender's queue pair is watched where a notification means something. */
static struct outcome run(const struct cc_ops *cc, int senders)
{
	struct cc_params params = cc_defaults;
	struct outcome o;
	struct crowd *c;

	params.rp_max_rate = LINE_MBPS;
	params.rp_time_reset = MODEL_TIMER_NS / 1000;
	params.rp_min_rate = 1;
	memset(&watch, 0, sizeof(watch));
	c = crowd_open(&(struct crowd_nature){.wire = wire,
					      .senders = senders,
					      .cc = cc,
					      .first = cc == &cc_dcqcn ? &watched : NULL,
					      .params = &params,
					      .path_mtu = RNIC_MTU_1024,
					      .depth = DEPTH,
					      .seed = 1});
	for (int i = 1; i <= senders; i++)
		crowd_begin(c, i);
	crowd_run_until(c, FABRIC_BEGIN_NS + SETTLE_NS);
	crowd_queue_peak(c);
	crowd_count(c);
	crowd_run_until(c, FABRIC_BEGIN_NS + SETTLE_NS + MEASURE_NS);
	o = judge(c);
	crowd_close(c);
	printf("%-8s %d: %5.1f %% of the line, fairness %.3f, queue up to %4llu KB, %llu lost, "
	       "%llu marked, %llu notifications, %llu steps as in the model\n",
	       cc->name, senders, 100 * o.goodput, o.fairness, (unsigned long long)o.peak / 1000,
	       (unsigned long long)o.lost, (unsigned long long)o.marked, (unsigned long long)o.cnps,
	       (unsigned long long)o.steps);
	return o;
}

int main(void)
{
	static const int crowds[] = {1, 2, 8};

	for (size_t i = 0; i < ARRAY_SIZE(crowds); i++) {
		const struct outcome none = run(&cc_none, crowds[i]);
		const struct outcome dcqcn = run(&cc_dcqcn, crowds[i]);

		if (none.marked || none.cnps)
			crowd_fail("who would not answer is marked");
		if (dcqcn.lost || dcqcn.goodput < 0.95 || dcqcn.fairness < 0.99 ||
		    dcqcn.steps < 1000)
			crowd_fail("that is not what DCQCN makes of it");
		if (crowds[i] > 1 && (!dcqcn.cnps || dcqcn.peak > none.peak / 4))
			crowd_fail("the queue is no shorter with it");
	}
	return 0;
}
