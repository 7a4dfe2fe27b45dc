/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * By delay, as Swift (Kumar and others, SIGCOMM 2020) and TIMELY do it, without their timestamps of
 * the hardware: while a round trip takes no longer than the shortest of late and some more, the
 * window grows: by as much as is acknowledged until one first took longer, and then by a little
 * with each round trip, and by more once many followed one another. When one takes longer, the
 * window becomes what the way carries without a queue, which is its part of the window that the
 * shortest is of that round trip; so the queue empties, and the shortest is seen again.
 *
 * Who comes to a queue that stands takes it for a part of the way, and would keep it standing. So
 * now and then, where there is a queue at times, next to nothing is sent for a round trip.
 *
 * Needs nothing from the peer or the network. That a packet is lost here and there says nothing of
 * congestion; that many are says that a queue is too short for the delay to be seen, and that some
 * are does while round trips take longer than the shortest.
 */
#include "rnic/cc/cc.h"

#include "base/compiler.h"
#include "base/units.h"

#define WINDOW_FIRST   (16u << 10)
#define WINDOW_LEAST   1024u
#define WINDOW_SMALL   4096u
#define ROUND_LEAST_NS (100 * NSEC_PER_USEC)
#define ROUND_BYTES    (8u << 10)
#define PACED_FOR      8 /* round trips */
#define SHORTEST_NS                                                                   \
	(10 * NSEC_PER_SEC) /* so long it counts, and again as long as the one before \
			     */
#define PACED_NS   (500 * NSEC_PER_USEC)
#define LATE_MANY  64	/* in succession, at the least window: the way has become longer */
#define CALM	   5	/* round trips without a cut, before the window grows by more */
#define LOST_ONE   1024 /* all of it */
#define LOST_MUCH  (LOST_ONE / 16)
#define LOST_SOME  (LOST_ONE / 64) /* in the mean that is kept, which is rounded down: 1 of 43 */
#define GROWS_NS   (4 * NSEC_PER_MSEC) /* in a shorter round trip the window grows by less */
#define GROWS_PART 4		       /* but by such a part of it at least */
#define DRAIN_PART 8		       /* of the window is sent meanwhile */
#define DRAIN_EACH 128		       /* round trips */
#define DRAIN_SOON 32		       /* the first: who has come to a queue has more than others */
#define DRAIN_NS   (200 * NSEC_PER_MSEC) /* or so long, if that is longer */

struct delay {
	uint64_t shortest, shortest_before; /* round trips, ns; 0: none was measured */
	uint64_t since_ns, round_ns, cut_ns, drain_ns;
	uint32_t last_us, before_us; /* the two round trips of late */
	uint32_t acked, lost;	     /* bytes, since round_ns */
	uint32_t late_us;	     /* the shortest of the `lates` */
	uint32_t kept;	    /* the window that comes back after the drain; 0: there is none */
	uint16_t lost_part; /* of LOST_ONE, in the rounds of late */
	uint8_t calm;	    /* round trips since the last cut */
	uint8_t lates;	    /* round trips in succession that took too long at the least window */
	bool late : 1;	    /* the last took too long */
	bool found : 1;	    /* one did: what there is to be had is known */
	bool queued : 1;    /* one did since the last drain */
	bool drained : 1;   /* there was one */
};

_Static_assert(sizeof(struct delay) <= sizeof(((struct cc *)0)->own),
	       "more than there is room for");

static struct delay *own(struct cc *cc)
{
	return (struct delay *)(void *)cc->own;
}

/* The window, be it drained or not. */
static uint32_t *whole(struct cc *cc)
{
	struct delay *d = own(cc);

	return d->kept ? &d->kept : &cc->window;
}

static uint64_t shortest(struct cc *cc)
{
	const struct delay *d = own(cc);

	return d->shortest_before ? min_of(d->shortest, d->shortest_before) : d->shortest;
}

/* A round trip that is longer by so much tells of a queue. */
static uint64_t queue(struct cc *cc)
{
	return max_of(shortest(cc) / 8, cc->params->delay_range * NSEC_PER_USEC);
}

/* Who has little on the way waits for more of it: the queue is others', or there is none, and it is
 * hosts that are slow. */
static uint64_t longest(struct cc *cc)
{
	uint64_t more = queue(cc);

	return shortest(cc) + more + 2 * more * WINDOW_SMALL / (WINDOW_SMALL + *whole(cc));
}

/* What goes within a round trip is spread over it, where that is long enough for it to matter, as
 * long as somebody measures it. */
static void pace(struct cc *cc, uint64_t now)
{
	const struct delay *d = own(cc);
	uint64_t last = min_of(d->last_us, d->before_us) * NSEC_PER_USEC, kbps;

	if (last < PACED_NS) {
		cc->rate_kbps = 0;
		return;
	}
	kbps = cc->window * 8000000ull / last;
	kbps = (d->found ? kbps * 5 / 4 : kbps * 2) + 1;
	cc->rate_kbps = (uint32_t)min_of(kbps, (uint64_t)UINT32_MAX);
	cc->tick_ns = now + PACED_FOR * last;
}

static void tick(struct cc *cc, uint64_t now)
{
	(void)now;
	cc->rate_kbps = 0;
}

/* To so many parts of all. */
static void cut(struct cc *cc, uint64_t part, uint64_t all, uint64_t now)
{
	struct delay *d = own(cc);
	uint32_t *window = whole(cc);
	uint32_t less = (uint32_t)max_of(*window * part / all, (uint64_t)WINDOW_LEAST);

	*window = min_of(*window, less);
	d->found = d->queued = true;
	d->cut_ns = now;
	d->calm = 0;
}

/* In a round trip. What is too much then is seen after two more of them. */
static uint64_t growth(struct cc *cc)
{
	uint64_t most = cc->params->delay_ai, way = min_of(shortest(cc), GROWS_NS);

	return max_of(most * way / GROWS_NS, most / GROWS_PART);
}

static void acked(struct cc *cc, uint32_t bytes, uint64_t now)
{
	struct delay *d = own(cc);
	uint64_t more = bytes;

	(void)now;
	d->acked += bytes;
	/* What is not used says nothing of the way (RFC 7661). */
	if (d->late || d->kept || !cc->used)
		return;
	if (d->found) {
		uint64_t step = d->calm < CALM ? 1 : d->calm - CALM + 1;

		more = max_of(more * step * growth(cc) / cc->window, 1ull);
	}
	cc->window = (uint32_t)min_of(cc->window + more, (uint64_t)cc->window_max);
}

/* Both round trips of late took longer than a queue of half of what may be makes them. */
static bool queue_stands(struct cc *cc)
{
	const struct delay *d = own(cc);

	return min_of(d->last_us, d->before_us) * NSEC_PER_USEC > shortest(cc) + queue(cc) / 2;
}

/* What was lost of what was sent within a round trip. */
static void round_over(struct cc *cc, uint64_t now)
{
	struct delay *d = own(cc);
	uint64_t all = (uint64_t)d->acked + d->lost;
	uint32_t part;

	if (all < ROUND_BYTES)
		return; /* too little to tell by */
	part = (uint32_t)(d->lost * (uint64_t)LOST_ONE / all);
	d->lost_part = (uint16_t)((d->lost_part * 7u + part) / 8);
	d->round_ns = now;
	d->acked = d->lost = 0;
	if (d->lost_part > (queue_stands(cc) ? LOST_SOME : LOST_MUCH)) {
		d->lost_part /= 2;
		/* What arrived is what there was room for. */
		part = max_of(part, LOST_ONE * 3u / 10);
		part = min_of(part, LOST_ONE / 2u);
		cut(cc, LOST_ONE - part, LOST_ONE, now);
	} else if (d->calm < UINT8_MAX) {
		d->calm++;
	}
}

/* The first round trip that began when no more than that was on the way ends it. */
static void drain(struct cc *cc, uint64_t rtt_ns, uint64_t now)
{
	struct delay *d = own(cc);

	if (!d->kept) {
		d->kept = cc->window;
		cc->window = max_of(d->kept / DRAIN_PART, WINDOW_LEAST);
		d->queued = false;
		d->drain_ns = now;
	} else if (now - rtt_ns >= d->drain_ns + shortest(cc)) {
		cc->window = d->kept;
		d->kept = 0;
		d->drain_ns = d->cut_ns = now;
		d->drained = true;
	}
}

static bool drain_due(struct cc *cc, uint64_t now)
{
	const struct delay *d = own(cc);
	uint64_t each = d->drained ? DRAIN_EACH : DRAIN_SOON;

	return d->kept || (d->queued && now - d->drain_ns >= max_of(each * shortest(cc), DRAIN_NS));
}

/* Next to nothing is sent, and yet they all take long: it is not our queue. What is the shortest
 * now is the way. */
static void longer_way(struct cc *cc, uint64_t now)
{
	struct delay *d = own(cc);

	if (!d->late || *whole(cc) > WINDOW_LEAST) {
		d->lates = 0;
		return;
	}
	d->late_us = d->lates ? min_of(d->late_us, d->last_us) : d->last_us;
	if (++d->lates < LATE_MANY)
		return;
	d->shortest = d->late_us * NSEC_PER_USEC;
	d->shortest_before = 0;
	d->since_ns = now;
	d->lates = 0;
}

static void rtt(struct cc *cc, uint64_t rtt_ns, uint64_t now)
{
	struct delay *d = own(cc);
	bool before = d->late || !d->found;

	rtt_ns = max_of(rtt_ns, 1ull);
	if (now - d->since_ns >= SHORTEST_NS) {
		d->shortest_before = d->shortest;
		d->shortest = 0;
		d->since_ns = now;
	}
	d->shortest = d->shortest ? min_of(d->shortest, rtt_ns) : rtt_ns;
	d->before_us = d->last_us;
	d->last_us = (uint32_t)max_of(rtt_ns / NSEC_PER_USEC, 1ull);
	if (!d->before_us)
		d->before_us = d->last_us;
	d->late = rtt_ns > longest(cc);
	longer_way(cc, now);
	if (now - d->round_ns >= rtt_ns)
		round_over(cc, now);
	if (drain_due(cc, now))
		drain(cc, rtt_ns, now);
	/* One alone is late where a host was at something else. And one that was sent before the
	 * last cut tells what that one answered to. */
	else if (d->late && before && now - rtt_ns >= d->cut_ns)
		cut(cc, max_of(shortest(cc), rtt_ns / 2), rtt_ns, now);
	pace(cc, now);
}

static void lost(struct cc *cc, uint32_t bytes, bool again, uint64_t now)
{
	struct delay *d = own(cc);

	(void)again;
	d->lost += bytes;
	/* Where all goes again, nothing tells how long a round trip takes. */
	if (now - d->round_ns >= max_of(d->last_us * NSEC_PER_USEC, ROUND_LEAST_NS)) {
		round_over(cc, now);
		pace(cc, now);
	}
}

static void start(struct cc *cc, uint64_t now)
{
	*own(cc) = (struct delay){.since_ns = now, .round_ns = now, .drain_ns = now};
	cc->window = min_of(WINDOW_FIRST, cc->window_max);
}

const struct cc_ops cc_delay = {
	.name = "delay",
	.rate_of_window = true,
	.start = start,
	.acked = acked,
	.lost = lost,
	.rtt = rtt,
	.tick = tick,
};
