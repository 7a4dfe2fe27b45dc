/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* random, incast: messages that begin by chance, as a Poisson process has it. */
#include "base/bytes.h"
#include "fabric/traffic/each.h"

/* Nanoseconds between two, so that so many bytes each are the load of so many hosts' links. */
static double mean_gap(struct group *g, double bytes, unsigned hosts)
{
	const struct traffic *t = g->traffic;
	const struct netport *p = host_port(network_host(g->play->network, t->from.v[0]));
	double bytes_per_ns = (double)p->line.rate_mbps / 8000;

	if (t->every_ns)
		return (double)t->every_ns;
	return bytes / (bytes_per_ns * t->load * hosts);
}

static uint64_t later(struct group *g, double mean)
{
	return fabric_now(g->play->fabric) + (uint64_t)play_exponential(g->play, mean);
}

static void random_begins(struct happening *h)
{
	struct group *g = container_of(h, struct group, next);
	const struct traffic *t = g->traffic;
	unsigned from, to;

	if (play_draw_pair(g->play, t, &from, &to))
		play_message(g, from, to, sizes_draw(&t->sizes, &g->play->random), NULL, NULL);
	group_next(g, later(g, mean_gap(g, sizes_mean(&t->sizes), t->from.n)));
}

static int random_start(struct group *g)
{
	g->next.happen = random_begins;
	group_next(g, later(g, mean_gap(g, sizes_mean(&g->traffic->sizes), g->traffic->from.n)));
	return 0;
}

const struct kind kind_random = {random_start, NULL};

/* ---- incast ---------------------------------------------------------------------------------- */

/* The first so many of a shuffled row are those that send. */
static void incast_begins(struct happening *h)
{
	struct group *g = container_of(h, struct group, next);
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
	if (t->count && g->flows >= (size_t)t->count * t->fan_in)
		g->over = true;
	else
		group_next(g, later(g, mean_gap(g, (double)t->bytes * t->fan_in, t->from.n)));
}

static int incast_start(struct group *g)
{
	g->next.happen = incast_begins;
	if (g->traffic->count) /* a given number: the first at once */
		group_next(g, fabric_now(g->play->fabric));
	else
		group_next(g, later(g, mean_gap(g, (double)g->traffic->bytes * g->traffic->fan_in,
						g->traffic->from.n)));
	return 0;
}

const struct kind kind_incast = {incast_start, NULL};
