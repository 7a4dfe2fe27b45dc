/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* trace: messages at given times. */
#include <errno.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "fabric/traffic/each.h"

struct reading {
	size_t at;
};

static void next_line(struct group *g)
{
	const struct reading *r = g->own;

	if (r->at < g->traffic->ntrace)
		group_next(g, g->play->begin_ns + g->traffic->start_ns +
				      g->traffic->trace[r->at].start_ns);
	else
		g->over = true;
}

static void line_begins(struct happening *h)
{
	struct group *g = container_of(h, struct group, next);
	struct reading *r = g->own;
	const struct trace_line *l = &g->traffic->trace[r->at++];

	play_message(g, l->from, l->to, l->bytes, NULL, NULL);
	next_line(g);
}

static int start(struct group *g)
{
	g->own = calloc(1, sizeof(struct reading));
	if (!g->own)
		return -ENOMEM;
	g->next.happen = line_begins;
	next_line(g);
	return 0;
}

const struct kind kind_trace = {start, NULL};
