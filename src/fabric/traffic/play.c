/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "fabric/traffic/play.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "base/errno_text.h"

#define SOURCE_BINS_MAX (4u << 20) /* of 4 bytes */

void play_fail(struct play *p, const char *fmt, ...)
{
	va_list ap;

	if (p->failed)
		return;
	p->failed = true;
	va_start(ap, fmt);
	vsnprintf(p->err, p->err_len, fmt, ap);
	va_end(ap);
}

/* ---- accounts -------------------------------------------------------------------------------- */

/* What has come between two times counts as if it had come evenly. */
static void spread(struct group *g, unsigned source, double bytes, uint64_t from, uint64_t until)
{
	const struct play *p = g->play;
	uint64_t step = p->step_ns, span = max_of(until - from, (uint64_t)1);
	size_t first = (size_t)(from / step), last = (size_t)(until / step);

	for (size_t i = first; i <= last && i < p->nbins; i++) {
		uint64_t a = max_of(from, i * step), b = min_of(until, (i + 1) * step);

		double part = first == last ? bytes : bytes * (double)(b - a) / (double)span;

		g->bins[i] += part;
		if (g->source_bins)
			g->source_bins[i * g->sources.n + g->place[source] - 1] += (float)part;
	}
}

/* Since it began; of those that were posted behind others on their connection, since the one before
 * was done: until then it was that one's bytes that came. */
static void account(struct item *i)
{
	struct group *g = i->group;
	const struct play *p = g->play;
	uint64_t now = play_now(p);
	uint64_t from = max_of(i->begun_ns, i->conn->last_done_ns) - p->begin_ns;
	double bytes = (double)i->bytes;
	double part = 1;

	spread(g, i->from, bytes, from, now);
	if (now <= p->warmup_ns)
		return;
	if (from < p->warmup_ns)
		part = (double)(now - p->warmup_ns) / (double)(now - from);
	g->bytes += (uint64_t)(bytes * part);
	g->by_source[i->from] += bytes * part;
}

void play_arrived(struct group *g, unsigned from, uint64_t bytes)
{
	uint64_t now = play_now(g->play);

	spread(g, from, (double)bytes, now, now);
	if (now <= g->play->warmup_ns)
		return;
	g->bytes += bytes;
	g->by_source[from] += (double)bytes;
}

/* ---- items ----------------------------------------------------------------------------------- */

static size_t record(struct group *g, unsigned from, unsigned to, uint64_t bytes, uint64_t ideal_ns)
{
	struct play *p = g->play;

	if (p->nflows == p->room) {
		p->room = p->room ? p->room * 2 : 256;
		p->flows = realloc(p->flows, p->room * sizeof(*p->flows));
		if (!p->flows)
			abort(); /* a simulation without memory has no result */
	}
	p->flows[p->nflows] = (struct flow_record){
		.group = g->index,
		.from = from,
		.to = to,
		.bytes = bytes,
		.start_ns = play_now(p),
		.ideal_ns = ideal_ns,
	};
	return p->nflows++;
}

static void link_item(struct play *p, struct item *i)
{
	i->next = p->items;
	i->prev = &p->items;
	if (i->next)
		i->next->prev = &i->next;
	p->items = i;
	p->under_way += i->flow != SIZE_MAX;
}

static void unlink_item(struct play *p, struct item *i)
{
	*i->prev = i->next;
	if (i->next)
		i->next->prev = i->prev;
	p->under_way -= i->flow != SIZE_MAX;
}

static void host_is_done(void *ctx, struct host *h, const struct rnic_wc *wc)
{
	struct taker *taker = (struct taker *)(uintptr_t)(wc->wr_id & ~1ull);

	(void)h;
	(void)ctx;
	if (wc->wr_id & 1)
		taker->took(taker, wc);
	else
		play_end((struct item *)(uintptr_t)wc->wr_id, wc->status == RNIC_WC_SUCCESS);
}

void play_end(struct item *i, bool good)
{
	struct group *g = i->group;
	struct play *p = g->play;

	unlink_item(p, i);
	if (good && i->conn->type == RNIC_QPT_RC) /* else who has sent it knows nothing */
		account(i);
	i->conn->last_done_ns = fabric_now(p->fabric);
	g->done += good;
	g->failed += !good;
	if (i->flow != SIZE_MAX) {
		struct flow_record *f = &p->flows[i->flow];

		f->failed = !good;
		f->took_ns = good ? max_of(play_now(p) - f->start_ns, (uint64_t)1) : 0;
	}
	i->done(i, good);
	free(i);
}

struct item *play_begin(struct group *g, struct conn *c, uint64_t bytes, uint64_t ideal_ns,
			void (*done)(struct item *, bool good), void *ctx)
{
	struct play *p = g->play;
	struct item *i = malloc(sizeof(*i));

	if (!i)
		abort();
	*i = (struct item){
		.group = g,
		.conn = c,
		.bytes = bytes,
		.begun_ns = fabric_now(p->fabric),
		.flow = SIZE_MAX,
		.done = done,
		.ctx = ctx,
		.from = host_number(c->from),
		.to = host_number(c->to),
	};
	if (ideal_ns)
		i->flow = record(g, i->from, i->to, bytes, ideal_ns);
	g->flows++;
	link_item(p, i);
	return i;
}

void play_post(struct group *g, struct conn *c, uint64_t bytes, bool bounded,
	       void (*done)(struct item *, bool good), void *ctx)
{
	uint64_t ideal_ns = 0;
	struct item *i;
	int rc;

	if (bounded)
		ideal_ns = max_of(network_ideal_ns(g->play->network, host_number(c->from),
						   host_number(c->to), bytes),
				  (uint64_t)1);
	i = play_begin(g, c, bytes, ideal_ns, done, ctx);
	rc = conn_post(c, bytes, g->traffic->reads, (uintptr_t)i, i->begun_ns);
	if (rc)
		play_fail(g->play, "traffic '%s': host%u cannot post to its queue pair (%d)",
			  g->traffic->name, i->from, rc);
}

/* ---- a message with a connection of its own -------------------------------------------------- */

struct single {
	struct conn conn;
	void (*done)(struct item *, bool good);
	void *ctx;
};

static void single_is_done(struct item *i, bool good)
{
	struct single *s = i->ctx;
	struct single was = *s;

	conn_close(&s->conn);
	free(s);
	i->conn = NULL;
	i->ctx = was.ctx;
	if (was.done)
		was.done(i, good);
}

void play_message(struct group *g, unsigned from, unsigned to, uint64_t bytes,
		  void (*done)(struct item *, bool good), void *ctx)
{
	struct play *p = g->play;
	struct single *s = malloc(sizeof(*s));

	if (!s)
		abort();
	s->done = done;
	s->ctx = ctx;
	if (conn_open(&s->conn, network_host(p->network, from), network_host(p->network, to), 1,
		      g->traffic->dscp, &p->random, fabric_now(p->fabric))) {
		play_fail(
			p,
			"traffic '%s': host%u or host%u has no room for more queue pairs at once; "
			"raise `hosts: queue_pairs`",
			g->traffic->name, from, to);
		free(s);
		return;
	}
	play_post(g, &s->conn, bytes, true, single_is_done, s);
}

/* ---- chance ---------------------------------------------------------------------------------- */

double play_exponential(struct play *p, double mean)
{
	double u = (double)((prng_u64(&p->random) >> 11) + 1) / 9007199254740992.0;

	return -log(u) * mean;
}

unsigned host_set_draw(struct play *p, const struct host_set *s)
{
	return s->v[prng_below(&p->random, s->n)];
}

bool play_draw_pair(struct play *p, const struct traffic *t, unsigned *ret_from, unsigned *ret_to)
{
	for (int tries = 0; tries < 100; tries++) {
		*ret_from = host_set_draw(p, &t->from);
		*ret_to = host_set_draw(p, &t->to);
		if (*ret_from != *ret_to)
			return true;
	}
	return false;
}

void group_next(struct group *g, uint64_t at)
{
	const struct play *p = g->play;
	uint64_t stop = g->traffic->stop_ns ? min_of(p->begin_ns + g->traffic->stop_ns, p->end_ns)
					    : p->end_ns;

	if (at < stop)
		fabric_put(p->fabric, &g->next, at);
	else
		g->over = true;
}

/* ---- its life -------------------------------------------------------------------------------- */

bool play_is_done(const struct play *p)
{
	if (p->under_way)
		return false;
	for (size_t i = 0; i < p->ngroups; i++)
		if (!p->groups[i].over)
			return false;
	return true;
}

static void begins(struct happening *h)
{
	struct group *g = container_of(h, struct group, next);
	int rc = g->kind->start(g);

	if (rc == -ENOMEM)
		play_fail(g->play,
			  "traffic '%s' cannot begin: a host has no room for so many queue pairs "
			  "at once, if there is memory at all; raise `hosts: queue_pairs`",
			  g->traffic->name);
	else if (rc)
		play_fail(g->play, "traffic '%s' cannot begin: %s", g->traffic->name,
			  errno_text(-rc));
}

/* A host may be named more than once. */
static int list_sources(struct group *g)
{
	const struct host_set *from = &g->traffic->from;
	struct host_set *s = &g->sources;

	g->place = calloc(network_hosts(g->play->network), sizeof(*g->place));
	s->v = calloc(from->n + 1, sizeof(*s->v));
	if (!g->place || !s->v)
		return -ENOMEM;
	for (unsigned i = 0; i < from->n; i++)
		if (!g->place[from->v[i]]) {
			s->v[s->n++] = from->v[i];
			g->place[from->v[i]] = s->n;
		}
	return 0;
}

/* What each source has in each step, where that is not too much to keep. */
static int keep_sources(struct group *g)
{
	const unsigned n = g->sources.n;
	const struct play *p = g->play;

	if (g->traffic->kind == TRAFFIC_TRACE || g->traffic->kind == TRAFFIC_STORM || n < 2 ||
	    n * p->nbins > SOURCE_BINS_MAX)
		return 0;
	g->source_bins = calloc(n * p->nbins, sizeof(*g->source_bins));
	return g->source_bins ? 0 : -ENOMEM;
}

static int group_init(struct group *g, struct play *p, const struct traffic *t, uint32_t index)
{
	*g = (struct group){.play = p, .traffic = t, .kind = p->kinds[t->kind], .index = index};
	happening_init(&g->next, begins);
	g->bins = calloc(p->nbins, sizeof(*g->bins));
	g->by_source = calloc(network_hosts(p->network), sizeof(*g->by_source));
	if (!g->bins || !g->by_source || list_sources(g) || keep_sources(g))
		return -ENOMEM;
	group_next(g, p->begin_ns + t->start_ns);
	return 0;
}

int play_create(struct play **ret, struct network *network, const struct kind *const *kinds,
		const struct traffic *t, size_t n, uint64_t duration_ns, uint64_t warmup_ns,
		uint64_t step_ns, char *err, size_t err_len)
{
	struct play *p = calloc(1, sizeof(*p));
	int rc = 0;

	if (!p)
		return -ENOMEM;
	p->network = network;
	p->kinds = kinds;
	p->fabric = network_fabric(network);
	p->random.state = prng_u64(fabric_prng(p->fabric));
	p->begin_ns = fabric_now(p->fabric);
	p->end_ns = p->begin_ns + duration_ns;
	p->warmup_ns = warmup_ns;
	p->step_ns = step_ns;
	p->nbins = (size_t)((duration_ns + step_ns - 1) / step_ns);
	p->err = err;
	p->err_len = err_len;
	p->groups = calloc(n + 1, sizeof(*p->groups));
	p->ngroups = n;
	if (!p->groups)
		rc = -ENOMEM;
	for (size_t i = 0; i < n && !rc; i++)
		rc = group_init(&p->groups[i], p, &t[i], (uint32_t)i);
	for (unsigned i = 0; i < network_hosts(network) && !rc; i++)
		host_on_done(network_host(network, i), host_is_done, p);
	if (rc)
		play_destroy(p);
	else
		*ret = p;
	return rc;
}

/* Connections go first, so that nothing completes any more. */
void play_destroy(struct play *p)
{
	struct item *i;

	while ((i = p->items)) {
		unlink_item(p, i);
		if (i->done == single_is_done) {
			struct single *s = i->ctx;

			conn_close(&s->conn);
			free(s);
		}
		free(i);
	}
	for (size_t k = 0; p->groups && k < p->ngroups; k++) {
		struct group *g = &p->groups[k];

		if (!g->play)
			continue;
		happening_cancel(&g->next);
		if (g->own && g->kind->fini)
			g->kind->fini(g);
		free(g->own);
		free(g->bins);
		free(g->by_source);
		free(g->source_bins);
		free(g->place);
		free(g->sources.v);
	}
	free(p->groups);
	free(p->flows);
	free(p);
}
