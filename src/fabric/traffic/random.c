/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* random, incast: messages that begin by chance, as a Poisson process has it. */
#include <errno.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "fabric/traffic/each.h"

/* Nanoseconds between two, so that so many bytes each are the load of the sources' links. */
static double mean_gap(struct group *g, double bytes)
{
	const struct traffic *t = g->traffic;
	const struct host_set *s = &g->sources;
	double mbps = 0;

	if (t->every_ns)
		return (double)t->every_ns;
	for (unsigned i = 0; i < s->n; i++)
		mbps += (double)host_port(network_host(g->play->network, s->v[i]))->line.rate_mbps;
	return bytes / (mbps / 8000 * t->load);
}

/* Times are whole nanoseconds: what a gap has of one besides counts for the next. */
static uint64_t later(struct group *g, double mean)
{
	double gap = play_exponential(g->play, mean) + g->rest_ns;
	uint64_t whole = (uint64_t)gap;

	g->rest_ns = gap - (double)whole;
	return fabric_now(g->play->fabric) + whole;
}

/* ---- random ---------------------------------------------------------------------------------- */

struct arrivals {
	double gap_ns;
};

static void random_begins(struct happening *h)
{
	struct group *g = container_of(h, struct group, next);
	const struct traffic *t = g->traffic;
	const struct arrivals *own = g->own;
	unsigned from, to;

	if (play_draw_pair(g->play, t, &from, &to))
		play_message(g, from, to, sizes_draw(&t->sizes, &g->play->random), NULL, NULL);
	group_next(g, later(g, own->gap_ns));
}

static int random_start(struct group *g)
{
	struct arrivals *own = calloc(1, sizeof(*own));

	if (!own)
		return -ENOMEM;
	g->own = own;
	own->gap_ns = mean_gap(g, sizes_mean(&g->traffic->sizes));
	g->next.happen = random_begins;
	group_next(g, later(g, own->gap_ns));
	return 0;
}

const struct kind kind_random = {random_start, NULL};

/* ---- incast ---------------------------------------------------------------------------------- */

struct incasts {
	unsigned begun;
	double gap_ns;
};

/* How many send, in the mean: who is sent to does not. */
static double senders(const struct traffic *t)
{
	double all = 0;

	for (unsigned b = 0; b < t->to.n; b++) {
		unsigned others = 0;

		for (unsigned a = 0; a < t->from.n; a++)
			others += t->from.v[a] != t->to.v[b];
		all += min_of(others, t->fan_in);
	}
	return all / t->to.n;
}

/* The first so many of a shuffled row are those that send. */
static void incast_begins(struct happening *h)
{
	struct group *g = container_of(h, struct group, next);
	struct incasts *own = g->own;
	const struct traffic *t = g->traffic;
	struct play *p = g->play;
	unsigned to = host_set_draw(p, &t->to), sent = 0;

	for (unsigned i = 0; i < t->from.n && sent < t->fan_in; i++) {
		unsigned k = i + (unsigned)prng_below(&p->random, t->from.n - i);
		unsigned from = t->from.v[k];

		t->from.v[k] = t->from.v[i];
		t->from.v[i] = from;
		if (from == to)
			continue;
		play_message(g, from, to, t->bytes, NULL, NULL);
		sent++;
	}
	if (++own->begun == t->count)
		g->over = true;
	else
		group_next(g, later(g, own->gap_ns));
}

static int incast_start(struct group *g)
{
	const struct traffic *t = g->traffic;
	struct incasts *own = calloc(1, sizeof(*own));

	if (!own)
		return -ENOMEM;
	g->own = own;
	own->gap_ns = mean_gap(g, (double)t->bytes * senders(t));
	g->next.happen = incast_begins;
	/* Of a given number the first comes at once. */
	group_next(g, t->count ? fabric_now(g->play->fabric) : later(g, own->gap_ns));
	return 0;
}

const struct kind kind_incast = {incast_start, NULL};
