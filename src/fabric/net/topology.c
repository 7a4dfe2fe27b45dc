/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "fabric/net/topology.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* Where a shape is written down; without room for it all that is counted. */
struct plan {
	struct topology *t;
	size_t links, room;
	unsigned *next_port; /* of each node */
};

static unsigned node_of_switch(const struct plan *p, unsigned i)
{
	return p->t->hosts + i;
}

static void join(struct plan *p, unsigned a, unsigned b)
{
	if (p->links < p->room)
		p->t->links[p->links] = (struct routes_link){
			.node = {a, b},
			.port = {p->next_port[a]++, p->next_port[b]++},
		};
	p->links++;
}

static void join_hosts(struct plan *p, unsigned first, unsigned n, unsigned sw)
{
	for (unsigned i = 0; i < n; i++)
		join(p, first + i, node_of_switch(p, sw));
}

static void join_row(struct plan *p, const struct topology_nature *n, unsigned switches)
{
	for (unsigned s = 0; s < switches; s++)
		join_hosts(p, s * n->hosts, n->hosts, s);
	for (unsigned s = 0; s + 1 < switches; s++)
		join(p, node_of_switch(p, s), node_of_switch(p, s + 1));
}

static void join_leaf_spine(struct plan *p, const struct topology_nature *n)
{
	for (unsigned l = 0; l < n->leaves; l++) {
		join_hosts(p, l * n->hosts, n->hosts, l);
		for (unsigned s = 0; s < n->spines; s++)
			join(p, node_of_switch(p, l), node_of_switch(p, n->leaves + s));
	}
}

/* The core has as many groups as a pod has aggregation switches, and each of these is joined to all
 * of its group. */
static void join_fat_tree(struct plan *p, const struct topology_nature *n)
{
	const unsigned aggregations = n->pods * n->edges;
	const unsigned cores = aggregations + n->pods * n->aggregations;
	const unsigned group = n->cores / n->aggregations;

	for (unsigned pod = 0; pod < n->pods; pod++) {
		for (unsigned e = 0; e < n->edges; e++) {
			unsigned edge = pod * n->edges + e;

			join_hosts(p, edge * n->hosts, n->hosts, edge);
			for (unsigned a = 0; a < n->aggregations; a++)
				join(p, node_of_switch(p, edge),
				     node_of_switch(p, aggregations + pod * n->aggregations + a));
		}
		for (unsigned a = 0; a < n->aggregations; a++)
			for (unsigned c = 0; c < group; c++)
				join(p, node_of_switch(p, aggregations + pod * n->aggregations + a),
				     node_of_switch(p, cores + a * group + c));
	}
}

static void lay_out(struct plan *p, const struct topology_nature *n)
{
	switch (n->kind) {
	case TOPOLOGY_PAIR:
		join(p, 0, 1);
		break;
	case TOPOLOGY_STAR:
		join_hosts(p, 0, n->hosts, 0);
		break;
	case TOPOLOGY_DUMBBELL:
		join_row(p, n, 2);
		break;
	case TOPOLOGY_PARKING_LOT:
		join_row(p, n, n->switches);
		break;
	case TOPOLOGY_RING:
		join_row(p, n, n->switches);
		join(p, node_of_switch(p, n->switches - 1), node_of_switch(p, 0));
		break;
	case TOPOLOGY_LEAF_SPINE:
		join_leaf_spine(p, n);
		break;
	case TOPOLOGY_FAT_TREE:
		join_fat_tree(p, n);
		break;
	}
}

static void count(struct topology *t, const struct topology_nature *n)
{
	switch (n->kind) {
	case TOPOLOGY_PAIR:
		t->hosts = 2;
		break;
	case TOPOLOGY_STAR:
		t->hosts = n->hosts;
		t->switches = 1;
		break;
	case TOPOLOGY_DUMBBELL:
		t->hosts = 2 * n->hosts;
		t->switches = 2;
		break;
	case TOPOLOGY_PARKING_LOT:
	case TOPOLOGY_RING:
		t->hosts = n->switches * n->hosts;
		t->switches = n->switches;
		break;
	case TOPOLOGY_LEAF_SPINE:
		t->hosts = n->leaves * n->hosts;
		t->switches = n->leaves + n->spines;
		break;
	case TOPOLOGY_FAT_TREE:
		t->hosts = n->pods * n->edges * n->hosts;
		t->switches = n->pods * (n->edges + n->aggregations) + n->cores;
		break;
	}
}

static void name_switch(const struct topology_nature *n, unsigned i, char *name, size_t room)
{
	const unsigned edges = n->pods * n->edges, aggregations = n->pods * n->aggregations;

	if (n->kind == TOPOLOGY_LEAF_SPINE && i < n->leaves)
		snprintf(name, room, "leaf%u", i);
	else if (n->kind == TOPOLOGY_LEAF_SPINE)
		snprintf(name, room, "spine%u", i - n->leaves);
	else if (n->kind != TOPOLOGY_FAT_TREE)
		snprintf(name, room, "switch%u", i);
	else if (i < edges)
		snprintf(name, room, "edge%u", i);
	else if (i < edges + aggregations)
		snprintf(name, room, "aggregation%u", i - edges);
	else
		snprintf(name, room, "core%u", i - edges - aggregations);
}

int topology_create(struct topology **ret, const struct topology_nature *n)
{
	struct topology *t = calloc(1, sizeof(*t));
	struct plan plan = {.t = t};
	unsigned nodes;

	if (!t)
		return -ENOMEM;
	count(t, n);
	nodes = t->hosts + t->switches;
	lay_out(&plan, n);
	t->nlinks = plan.room = plan.links;
	t->links = calloc(plan.links, sizeof(*t->links));
	t->ports = calloc(t->switches + 1, sizeof(*t->ports));
	t->names = calloc(nodes, sizeof(*t->names));
	plan.next_port = calloc(nodes, sizeof(*plan.next_port));
	if (!t->links || !t->ports || !t->names || !plan.next_port) {
		free(plan.next_port);
		topology_destroy(t);
		return -ENOMEM;
	}
	plan.links = 0;
	lay_out(&plan, n);
	for (unsigned i = 0; i < t->hosts; i++)
		snprintf(t->names[i], sizeof(t->names[i]), "host%u", i);
	for (unsigned i = 0; i < t->switches; i++) {
		t->ports[i] = plan.next_port[t->hosts + i];
		name_switch(n, i, t->names[t->hosts + i], sizeof(t->names[0]));
	}
	free(plan.next_port);
	*ret = t;
	return 0;
}

void topology_destroy(struct topology *t)
{
	free(t->links);
	free(t->ports);
	free(t->names);
	free(t);
}
