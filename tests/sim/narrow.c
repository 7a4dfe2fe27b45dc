/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Cores that repeat selectively, and have congestion control by delay, write to one other through a
 * narrow place with a queue of a round trip: what each gets, and how long the queue is. And what
 * going back would make of a way that loses one packet in a hundred.
 */
#include <stdio.h>

#include "base/bytes.h"
#include "base/units.h"
#include "crowd.h"
#include "fabric/world.h"

#define LEAST_QUEUE 20000u /* bytes */
#define DEPTH	    128
#define LOOK_NS	    (50 * NSEC_PER_USEC)

struct way {
	uint32_t mbps, rtt_us, loss_ppm;
	int flows;
	uint32_t late_ms; /* so much each begins after the one before it */
	uint32_t ms;	  /* of the second half of which all is told */
	/* What it must come to: of the line, Jain's index, mean of the queue, sent again. */
	double share, fairness, queue_ms, again;
	uint32_t jitter_us; /* either way; 0: 20 */
	bool reads;	    /* `again` is what came beside what was of use */
	bool back;	    /* towards others: by halving, with what is sent at most there */
};

static const struct way ways[] = {
	{10, 20000, 0, 1, 0, 4000, .85, 1, 8, .03},
	{10, 20000, 10000, 1, 0, 4000, .85, 1, 8, .04},
	{100, 1000, 0, 1, 0, 4000, .85, 1, 1.2, .03},
	{100, 1000, 10000, 1, 0, 4000, .85, 1, 1.2, .04},
	{100, 20000, 0, 1, 0, 4000, .80, 1, 3, .02},
	{100, 20000, 10000, 1, 0, 4000, .85, 1, 3, .03},
	{100, 1000, 0, 2, 300, 4000, .85, .95, 1.2, .05},
	{100, 1000, 10000, 2, 30, 4000, .85, .95, 1.2, .05},
	{100, 1000, 0, 1, 0, 4000, .75, 1, 1.2, .05, 500}, /* hosts that are slow at times */
	{100, 1000, 0, 2, 30, 4000, .65, .85, 1.2, .05, 1000},
	{100, 5000, 10000, 2, 10, 4000, .85, .95, 2, .03},
	{100, 20000, 0, 2, 300, 4000, .85, .95, 4, .02},
	{100, 20000, 0, 8, 50, 6000, .85, .95, 5, .02},
	{100, 20000, 10000, 8, 50, 6000, .85, .95, 5, .04},
	{1000, 1000, 0, 1, 0, 1000, .85, 1, 1, .03},
	{1000, 1000, 10000, 1, 0, 1000, .85, 1, 1, .04},
	{1000, 1000, 0, 2, 100, 2000, .85, .95, 1, .03},
	{1000, 1000, 10000, 8, 30, 2000, .85, .95, 1, .06},
	/* What one READ asks for comes at once. */
	{10, 20000, 0, 1, 0, 4000, .85, 1, 12, .05, .reads = true},
	{100, 1000, 0, 1, 0, 4000, .85, 1, 1.3, .05, .reads = true},
	{100, 20000, 0, 1, 0, 4000, .85, 1, 7, .05, .reads = true},
	{100, 20000, 10000, 1, 0, 16000, .80, 1, 7, .05, .reads = true},
	{1000, 1000, 0, 1, 0, 1000, .85, 1, 1, .05, .reads = true},
	/* By hosts that are slow at times the window is small, and a READ asks for much of it. */
	{100, 1000, 0, 1, 0, 4000, .88, 1, 1.3, .05, 500, .reads = true},
	{100, 1000, 0, 1, 0, 4000, .57, 1, 1.3, .05, 1000, .reads = true},
	{100, 1000, 10000, 1, 0, 4000, .80, 1, 1.3, .05, 500, .reads = true},
	{10, 20000, 0, 1, 0, 4000, .55, 1, 14, .25, .reads = true, .back = true},
	{100, 1000, 0, 1, 0, 4000, .65, 1, 1.3, .27, .reads = true, .back = true},
	{100, 1000, 0, 1, 0, 4000, .50, 1, 1.3, .25, 500, .reads = true, .back = true},
};

struct outcome {
	double share, fairness, queue_ms, again;
};

static uint32_t queue_of(const struct way *w)
{
	return max_of(w->mbps * w->rtt_us / 8, LEAST_QUEUE);
}

static struct crowd_nature nature_of(const struct way *w, bool selective, const struct cc_ops *cc)
{
	uint64_t per_byte = 8000000 / w->mbps;

	return (struct crowd_nature){
		.wire = {.loss_ppm = w->loss_ppm,
			 .delay_ns = w->rtt_us * NSEC_PER_USEC / 2,
			 .jitter_ns = (w->jitter_us ? w->jitter_us : 20) * NSEC_PER_USEC,
			 .ns_per_byte_x1000 = per_byte / 20,
			 .queue = {.ns_per_byte_x1000 = per_byte, .bytes_max = queue_of(w)}},
		.senders = w->flows,
		.cc = cc,
		.params = &cc_defaults,
		.window_bytes = w->back ? 256 << 10 : 4 << 20,
		.path_mtu = w->mbps == 1000 ? RNIC_MTU_4096 : RNIC_MTU_1024,
		.selective = selective,
		.reads = w->reads,
		.depth = DEPTH,
		.seed = 1,
	};
}

static struct outcome run(const struct way *w, bool selective, const struct cc_ops *cc)
{
	const struct crowd_nature nature = nature_of(w, selective, cc);
	uint64_t half_ns = w->ms * NSEC_PER_MSEC / 2, samples = 0, sent = 0, again = 0;
	double queue = 0, answers = 0, mtu;
	struct crowd *c = crowd_open(&nature);
	struct crowd_got got;
	struct outcome o;
	int begun = 0;

	for (uint64_t at = 0; at < 2 * half_ns; at += LOOK_NS) {
		uint64_t peak;

		if (begun < w->flows && at >= (uint64_t)begun * w->late_ms * NSEC_PER_MSEC)
			crowd_begin(c, ++begun);
		if (at == half_ns) {
			crowd_count(c);
			answers = (double)crowd_counters(c, 0)->tx_packets;
		}
		crowd_run_until(c, FABRIC_BEGIN_NS + at + LOOK_NS);
		peak = crowd_queue_peak(c);
		if (at >= half_ns && peak) { /* something came */
			queue += (double)peak;
			samples++;
		}
	}
	for (int i = 1; i <= w->flows; i++) {
		sent += crowd_counters(c, i)->tx_packets;
		again += crowd_counters(c, i)->tx_retransmit;
	}
	got = crowd_got(c);
	o = (struct outcome){
		.share = got.bytes * 8000 / (double)half_ns / w->mbps,
		.fairness = got.fairness,
		.queue_ms = queue * 8 / (double)samples / w->mbps / 1000,
		.again = (double)again / (double)sent,
	};
	mtu = nature.path_mtu == RNIC_MTU_4096 ? 4096 : 1024;
	answers = (double)crowd_counters(c, 0)->tx_packets - answers;
	if (w->reads)
		o.again = max_of(1 - got.bytes / mtu / answers, 0.0);
	crowd_close(c);
	printf("%5u Mbit/s %2u ms %2u %% lost %d flows%s %-10s %-7s: share %.2f, fairness %.2f, "
	       "queue %.2f ms, again %.1f %%\n",
	       w->mbps, w->rtt_us / 1000, w->loss_ppm / 10000, w->flows, w->reads ? ", READs," : "",
	       selective ? "selective" : "goes back", cc->name, o.share, o.fairness, o.queue_ms,
	       100 * o.again);
	return o;
}

int main(void)
{
	static const struct way lossy = {5000, 1000, 10000, 1, 0, 400};
	struct outcome selective, back;
	int bad = 0;

	for (const struct way *w = ways; w < ways + ARRAY_SIZE(ways); w++) {
		const struct outcome o = run(w, !w->back, w->back ? &cc_halving : &cc_delay);

		if (o.share < w->share || o.fairness < w->fairness || o.queue_ms > w->queue_ms ||
		    o.again > w->again) {
			printf("  it should be at least %.2f, %.2f, and no more than %.2f ms, %.1f "
			       "%%\n",
			       w->share, w->fairness, w->queue_ms, 100 * w->again);
			bad++;
		}
	}
	selective = run(&lossy, true, &cc_delay);
	back = run(&lossy, false, &cc_halving);
	if (selective.share < 5 * back.share) {
		printf("  selective repeat should carry at least 5 times as much\n");
		bad++;
	}
	return bad != 0;
}
