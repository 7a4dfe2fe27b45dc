/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * DCQCN (Zhu and others, SIGCOMM 2015), what it calls the reaction point: each notification takes a
 * part of the rate, which is the larger the more of them there were of late. What was taken comes
 * back by half of it at a time; after some such steps a little more is looked for with each, and
 * then more and more. Steps are counted by time and by bytes, each by itself.
 *
 * An adapter knows the rate of its line, and every queue pair begins with that. Here a queue pair
 * has no rate until the first notification, and that takes from what it was sending at, unless
 * somebody says from what. Nor is a rate worth coming back to that nobody sent at. The steps by
 * time are made up for when the next packet goes, or the next word comes: between two of them
 * nobody sees how many there were.
 *
 * Losses are the window's business, as with halving.
 */
#include "rnic/cc/cc.h"

#include "base/compiler.h"
#include "base/units.h"

#define ONE	   (1u << 30) /* of alpha */
#define MBPS	   1000u      /* in kb/s */
#define LINE_MBPS  100000u    /* where nobody says */
#define MEASURE_NS (100 * NSEC_PER_USEC)
#define STEPS_MAX  4096 /* at once: more have led to the line's rate */
#define DECAYS_MAX (1u << 20)
#define FORGOTTEN  (ONE / 1024) /* of one that has no rate any more */

struct dcqcn {
	uint32_t rate, target;	    /* kb/s; 0: there is no limit */
	uint32_t alpha;		    /* of ONE */
	uint32_t bytes;		    /* since the last step by bytes */
	uint16_t by_time, by_bytes; /* steps since the last cut */
	uint32_t measured, sent;    /* kb/s of the last measure, bytes since */
	uint64_t measure_ns;	    /* it began */
	uint64_t step_ns;	    /* the next by time */
	uint64_t cut_ns;	    /* the last, from which on alpha decays; 0: there was none */
};

_Static_assert(sizeof(struct dcqcn) <= sizeof(((struct cc *)0)->own),
	       "more than there is room for");

static struct dcqcn *own(struct cc *cc)
{
	return (struct dcqcn *)(void *)cc->own;
}

/* ---- growing -------------------------------------------------------------------------------- */

static uint32_t line_kbps(const struct cc *cc)
{
	return (cc->params->rp_max_rate ? cc->params->rp_max_rate : LINE_MBPS) * MBPS;
}

static void begin_steps(struct cc *cc, uint64_t now)
{
	struct dcqcn *d = own(cc);

	d->by_time = d->by_bytes = 0;
	d->bytes = 0;
	d->step_ns = now + cc->params->rp_time_reset * NSEC_PER_USEC;
}

static void step(struct cc *cc, uint16_t *count)
{
	const struct cc_params *p = cc->params;
	struct dcqcn *d = own(cc);
	uint32_t line = line_kbps(cc), few, many;
	uint64_t more = 0;

	if (*count < UINT16_MAX)
		++*count;
	few = min_of(d->by_time, d->by_bytes);
	many = max_of(d->by_time, d->by_bytes);
	if (few >= p->rp_threshold)
		more = (uint64_t)p->rp_hai_rate * MBPS * (few - p->rp_threshold + 1);
	else if (many >= p->rp_threshold)
		more = (uint64_t)p->rp_ai_rate * MBPS;
	d->target = (uint32_t)min_of(d->target + more, (uint64_t)line);
	d->rate = (uint32_t)(((uint64_t)d->rate + d->target + 1) / 2);
	if (d->rate >= line - line / 1024)
		d->rate = 0;
	cc->rate_kbps = d->rate;
}

static void catch_up(struct cc *cc, uint64_t now)
{
	struct dcqcn *d = own(cc);

	for (int i = 0; d->rate && now >= d->step_ns; i++) {
		d->step_ns += cc->params->rp_time_reset * NSEC_PER_USEC;
		step(cc, &d->by_time);
		if (i == STEPS_MAX)
			d->step_ns = now + 1;
	}
}

static void sent(struct cc *cc, uint32_t bytes, uint64_t now)
{
	struct dcqcn *d = own(cc);

	if (now - d->measure_ns >= MEASURE_NS) {
		d->measured =
			(uint32_t)min_of(d->sent * 8000000ull / (now - d->measure_ns), UINT32_MAX);
		d->measure_ns = now;
		d->sent = 0;
	}
	d->sent = (uint32_t)min_of((uint64_t)d->sent + bytes, UINT32_MAX);
	if (!d->rate)
		return;
	catch_up(cc, now);
	d->bytes += bytes;
	while (d->rate && d->bytes >= cc->params->rp_byte_reset) {
		d->bytes -= cc->params->rp_byte_reset;
		step(cc, &d->by_bytes);
	}
}

/* ---- what is taken -------------------------------------------------------------------------- */

/* x^n, of ONE. */
static uint32_t power(uint32_t x, uint32_t n)
{
	uint64_t product = ONE, square = x;

	for (; n; n >>= 1) {
		if (n & 1)
			product = product * square / ONE;
		square = square * square / ONE;
	}
	return (uint32_t)product;
}

static uint32_t kept(const struct cc *cc)
{
	return cc->params->rp_dce_tcp_g * (ONE / 1024);
}

static uint32_t times(uint32_t a, uint32_t b)
{
	return (uint32_t)((uint64_t)a * b / ONE);
}

/* What it has been sending at of late, kb/s. */
static uint32_t sending(struct cc *cc, uint64_t now)
{
	const struct dcqcn *d = own(cc);
	uint64_t lately = d->sent * 8000000ull / max_of(now - d->measure_ns, MEASURE_NS);

	lately = max_of(lately, (uint64_t)d->measured);
	lately = max_of(lately, (uint64_t)cc->params->rp_min_rate * MBPS);
	return (uint32_t)min_of(lately, (uint64_t)line_kbps(cc));
}

static void begin(struct cc *cc, uint64_t now)
{
	const struct cc_params *p = cc->params;
	struct dcqcn *d = own(cc);

	d->rate = p->rp_rate_to_set_on_first_cnp ? p->rp_rate_to_set_on_first_cnp * MBPS
		  : p->rp_max_rate		 ? p->rp_max_rate * MBPS
						 : sending(cc, now);
	d->target = d->rate;
}

/* What is beyond that which was sent at, and an eighth, as that is measured roughly. */
static void forget_unused(struct cc *cc, uint64_t now)
{
	struct dcqcn *d = own(cc);
	uint64_t worth = sending(cc, now) * 9ull / 8;

	if (d->rate > worth)
		d->rate = d->target = (uint32_t)worth;
}

static void meet_first(struct cc *cc, uint64_t now)
{
	own(cc)->alpha = (cc->params->rp_initial_alpha_value + 1) * (ONE / 1024);
	own(cc)->cut_ns = now;
}

static void cut(struct cc *cc, uint64_t now)
{
	const struct cc_params *p = cc->params;
	struct dcqcn *d = own(cc);
	uint32_t least, floor;

	if (p->rp_clamp_tgt_rate || (p->rp_clamp_tgt_rate_ati && d->by_time))
		d->target = d->rate;
	floor = min_of(p->rp_min_rate * MBPS, d->rate);
	least = max_of((uint32_t)((uint64_t)d->rate * p->rp_min_dec_fac / 100), floor);
	d->rate = max_of(d->rate - (times(d->rate, d->alpha) >> p->rp_gd), least);
	cc->rate_kbps = d->rate;
	begin_steps(cc, now);
}

static void notified(struct cc *cc, uint64_t now)
{
	const struct cc_params *p = cc->params;
	struct dcqcn *d = own(cc);
	uint64_t decays;

	catch_up(cc, now);
	if (d->cut_ns && now - d->cut_ns < p->rp_rate_reduce_monitor_period * NSEC_PER_USEC)
		return;
	decays = (now - d->cut_ns) / (p->rp_dce_tcp_rtt * NSEC_PER_USEC);
	d->alpha = times(d->alpha, power(kept(cc), (uint32_t)min_of(decays, (uint64_t)DECAYS_MAX)));
	/* Who is limited remembers how little there was. */
	if (!d->cut_ns || (!d->rate && d->alpha < FORGOTTEN))
		meet_first(cc, now);
	if (!d->rate)
		begin(cc, now); /* what is said of a first one counts, whatever was sent at */
	else if (!p->rp_max_rate)
		forget_unused(cc, now);
	cut(cc, now);
	d->alpha = min_of(times(d->alpha, kept(cc)) + (ONE - kept(cc)), ONE);
	d->cut_ns = now;
}

static void start(struct cc *cc, uint64_t now)
{
	*own(cc) = (struct dcqcn){.measure_ns = now};
}

const struct cc_ops cc_dcqcn = {
	.name = "dcqcn",
	.start = start,
	.sent = sent,
	.acked = cc_regrow,
	.lost = cc_halve,
	.cnp = notified,
};
