/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "fabric/net/routes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"

#define FAR UINT16_MAX

struct routes {
	unsigned hosts, switches;
	unsigned *edge;	     /* of each host: its switch, or UINT_MAX: it is joined to a host */
	struct route *local; /* of each host: the port of its switch that it is at */
	uint16_t *hops;	     /* [switch][edge switch] */
	struct route *route; /* [switch][edge switch] */
	/* Set by hand: [switch][host], the port and one, or 0; and a route of each such port. */
	uint16_t *only;
	struct route *by_port;
	unsigned nports;
};

/* 10.0.0.0/8 has sixteen million; the lower 24 bits are the host. */
struct gid routes_gid(unsigned host)
{
	return (struct gid){.raw = {[10] = 0xff,
				    0xff,
				    10,
				    (uint8_t)(host >> 16),
				    (uint8_t)(host >> 8),
				    (uint8_t)host}};
}

uint32_t routes_host(const struct gid *g)
{
	return gid_is_ipv4(g) && g->raw[12] == 10 ? ld_be24(&g->raw[13]) : UINT32_MAX;
}

static int add_port(struct route *r, unsigned port)
{
	if (r->n == ROUTE_PORTS_MAX)
		return -E2BIG;
	r->port[r->n++] = (uint16_t)port;
	return 0;
}

/* One end of a link as seen from the other. */
struct seen {
	unsigned from, port, to;
};

static struct seen seen(const struct routes_link *l, int side)
{
	return (struct seen){l->node[side], l->port[side], l->node[!side]};
}

static void place_hosts(struct routes *r, const struct routes_link *l, size_t n)
{
	for (size_t i = 0; i < n; i++)
		for (int side = 0; side < 2; side++) {
			struct seen s = seen(&l[i], side);

			if (s.to >= r->hosts)
				continue;
			r->edge[s.to] = s.from >= r->hosts ? s.from - r->hosts : UINT32_MAX;
			r->local[s.to] = (struct route){.n = 1, .port = {(uint16_t)s.port}};
		}
}

/* Breadth first from a switch, over all links between switches. */
static int measure(struct routes *r, unsigned edge, const unsigned *first, const struct seen *by,
		   unsigned *queue)
{
	unsigned head = 0, tail = 0;

	for (unsigned i = 0; i < r->switches; i++)
		r->hops[(size_t)i * r->switches + edge] = FAR;
	r->hops[(size_t)edge * r->switches + edge] = 0;
	queue[tail++] = edge;
	while (head < tail) {
		unsigned at = queue[head++];

		for (unsigned k = first[at]; k < first[at + 1]; k++) {
			uint16_t *there = &r->hops[(size_t)by[k].to * r->switches + edge];

			if (*there != FAR)
				continue;
			*there = (uint16_t)(r->hops[(size_t)at * r->switches + edge] + 1);
			queue[tail++] = by[k].to;
		}
	}
	for (unsigned i = 0; i < r->switches; i++) {
		struct route *route = &r->route[(size_t)i * r->switches + edge];
		uint16_t hops = r->hops[(size_t)i * r->switches + edge];

		for (unsigned k = first[i]; hops && hops != FAR && k < first[i + 1]; k++)
			if (r->hops[(size_t)by[k].to * r->switches + edge] == hops - 1 &&
			    add_port(route, by[k].port))
				return -E2BIG;
	}
	return 0;
}

static int find_ways(struct routes *r, const struct routes_link *l, size_t n)
{
	unsigned *first = calloc(r->switches + 2, sizeof(*first));
	unsigned *queue = calloc(r->switches + 1, sizeof(*queue));
	struct seen *by = calloc(2 * n + 1, sizeof(*by));
	unsigned *fill = calloc(r->switches + 1, sizeof(*fill));
	int rc = first && queue && by && fill ? 0 : -ENOMEM;

	for (int pass = 0; pass < 2 && !rc; pass++) {
		for (size_t i = 0; i < n; i++)
			for (int side = 0; side < 2; side++) {
				struct seen s = seen(&l[i], side);

				if (s.from < r->hosts || s.to < r->hosts)
					continue;
				s.from -= r->hosts;
				s.to -= r->hosts;
				if (pass)
					by[first[s.from] + fill[s.from]++] = s;
				else
					first[s.from + 1]++;
			}
		for (unsigned i = 0; !pass && i < r->switches; i++)
			first[i + 1] += first[i];
	}
	for (unsigned i = 0; i < r->hosts && !rc; i++) {
		unsigned edge = r->edge[i];

		if (edge != UINT32_MAX && r->hops[(size_t)edge * r->switches + edge] == FAR)
			rc = measure(r, edge, first, by, queue);
	}
	free(first);
	free(queue);
	free(by);
	free(fill);
	return rc;
}

int routes_create(struct routes **ret, unsigned hosts, unsigned switches,
		  const struct routes_link *links, size_t nlinks)
{
	struct routes *r = calloc(1, sizeof(*r));
	size_t pairs = (size_t)switches * switches;
	int rc = -ENOMEM;

	if (!r)
		return -ENOMEM;
	r->hosts = hosts;
	r->switches = switches;
	r->edge = calloc(hosts, sizeof(*r->edge));
	r->local = calloc(hosts, sizeof(*r->local));
	r->hops = malloc(pairs * sizeof(*r->hops) + 1);
	r->route = calloc(pairs + 1, sizeof(*r->route));
	if (r->edge && r->local && r->hops && r->route) {
		memset(r->hops, 0xff, pairs * sizeof(*r->hops));
		place_hosts(r, links, nlinks);
		rc = find_ways(r, links, nlinks);
	}
	if (rc)
		routes_destroy(r);
	else
		*ret = r;
	return rc;
}

void routes_destroy(struct routes *r)
{
	free(r->only);
	free(r->by_port);
	free(r->edge);
	free(r->local);
	free(r->hops);
	free(r->route);
	free(r);
}

int routes_set(struct routes *r, unsigned node, unsigned host, unsigned port)
{
	struct route *more;

	if (!r->only)
		r->only = calloc((size_t)r->switches * r->hosts, sizeof(*r->only));
	if (!r->only)
		return -ENOMEM;
	if (port >= r->nports) {
		more = realloc(r->by_port, (port + 1) * sizeof(*more));
		if (!more)
			return -ENOMEM;
		r->by_port = more;
		for (; r->nports <= port; r->nports++)
			r->by_port[r->nports] =
				(struct route){.n = 1, .port = {(uint16_t)r->nports}};
	}
	r->only[(size_t)(node - r->hosts) * r->hosts + host] = (uint16_t)(port + 1);
	return 0;
}

const struct route *routes_find(const struct routes *r, unsigned node, const struct gid *to)
{
	uint32_t host = routes_host(to);
	unsigned self = node - r->hosts, edge, only;

	if (host >= r->hosts)
		return NULL;
	only = r->only ? r->only[(size_t)self * r->hosts + host] : 0;
	if (only)
		return &r->by_port[only - 1];
	edge = r->edge[host];
	if (edge == UINT32_MAX)
		return NULL;
	return edge == self ? &r->local[host] : &r->route[(size_t)self * r->switches + edge];
}

unsigned routes_hops(const struct routes *r, unsigned from, unsigned to)
{
	unsigned a = r->edge[from], b = r->edge[to];

	if (a == UINT32_MAX || b == UINT32_MAX)
		return 1;
	return 2u + r->hops[(size_t)a * r->switches + b];
}
