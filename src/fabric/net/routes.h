/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Which ports of a switch lead to a host: those on the shortest ways, all equally good. Hosts at
 * one switch are alike to all the others, so that a switch has a route for each switch that has
 * hosts, and one for each of its own hosts.
 */
#ifndef WEFT_FABRIC_NET_ROUTES_H
#define WEFT_FABRIC_NET_ROUTES_H

#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "wire/flow.h"

#define ROUTE_PORTS_MAX 64

struct route {
	uint16_t n;
	uint16_t port[ROUTE_PORTS_MAX];
};

/* A link, for finding the ways. Hosts have the numbers from 0, switches those behind them. */
struct routes_link {
	unsigned node[2], port[2];
};

struct routes;

/* -ENOMEM; -E2BIG: more than ROUTE_PORTS_MAX ways from a switch. */
int routes_create(struct routes **ret, unsigned hosts, unsigned switches,
		  const struct routes_link *, size_t links) must_use;
void routes_destroy(struct routes *);
/* NULL: it is nobody's address. */
const struct route *routes_find(const struct routes *, unsigned node, const struct gid *to);
/* From now on that switch sends what is for that host by this port alone. -ENOMEM. */
int routes_set(struct routes *, unsigned node, unsigned host, unsigned port) must_use;
/* The links on a shortest way between two hosts. */
unsigned routes_hops(const struct routes *, unsigned from, unsigned to);

struct gid routes_gid(unsigned host);
/* The host that has an address; UINT32_MAX: none. */
uint32_t routes_host(const struct gid *);

#endif
