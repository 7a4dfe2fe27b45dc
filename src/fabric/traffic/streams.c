/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* stream, storage: who always has something to send, or to read. */
#include <errno.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "fabric/traffic/each.h"

/* ---- streams --------------------------------------------------------------------------------- */

struct stream {
	struct group *group;
	struct conn conn;
};

struct streams {
	size_t n;
	struct stream stream[];
};

static bool is_over(struct group *g)
{
	uint64_t stop = g->traffic->stop_ns;

	if (stop && play_now(g->play) >= stop)
		g->over = true;
	return g->over;
}

static void stream_goes_on(struct item *i, bool good)
{
	struct stream *s = i->ctx;

	if (good && !is_over(s->group))
		play_post(s->group, &s->conn, s->group->traffic->bytes, false, stream_goes_on, s);
}

static int stream_start(struct group *g)
{
	const struct traffic *t = g->traffic;
	struct play *p = g->play;
	struct streams *s = calloc(1, sizeof(*s) + traffic_pairs(t) * sizeof(s->stream[0]));

	if (!s)
		return -ENOMEM;
	g->own = s;
	g->over = false;
	for (unsigned a = 0; a < t->from.n; a++)
		for (unsigned b = 0; b < t->to.n; b++) {
			struct stream *one = &s->stream[s->n];

			if (!traffic_meets(t, a, b))
				continue;
			one->group = g;
			if (conn_open(&one->conn, network_host(p->network, t->from.v[a]),
				      network_host(p->network, t->to.v[b]), t->depth, t->dscp,
				      &p->random, fabric_now(p->fabric)))
				return -ENOMEM;
			s->n++;
			for (unsigned k = 0; k < t->depth; k++)
				play_post(g, &one->conn, t->bytes, false, stream_goes_on, one);
		}
	return 0;
}

static void stream_fini(struct group *g)
{
	struct streams *s = g->own;

	for (size_t i = 0; i < s->n; i++)
		conn_close(&s->stream[i].conn);
}

const struct kind kind_stream = {stream_start, stream_fini};

/* ---- storage --------------------------------------------------------------------------------- */

static void storage_goes_on(struct item *i, bool good);

static void read_one(struct group *g, unsigned client)
{
	const struct traffic *t = g->traffic;
	unsigned server;

	do
		server = host_set_draw(g->play, &t->to);
	while (server == client);
	play_message(g, client, server, sizes_draw(&t->sizes, &g->play->random), storage_goes_on,
		     NULL);
}

static void storage_goes_on(struct item *i, bool good)
{
	(void)good; /* the next is from another server */
	if (!is_over(i->group))
		read_one(i->group, i->from);
}

static int storage_start(struct group *g)
{
	const struct traffic *t = g->traffic;

	g->over = false;
	for (unsigned i = 0; i < t->from.n; i++)
		for (unsigned k = 0; k < t->depth; k++)
			read_one(g, t->from.v[i]);
	return 0;
}

const struct kind kind_storage = {storage_start, NULL};
