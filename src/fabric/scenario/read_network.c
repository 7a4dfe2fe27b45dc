/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* topology, links, uplinks, other_links, hosts, switches. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "fabric/scenario/quantity.h"
#include "fabric/scenario/read_priv.h"

#define HOSTS_MAX     65536
#define HEADROOM_MOST 1e9

uint64_t topology_hosts(const struct topology_nature *t)
{
	const uint64_t each = t->hosts;

	switch (t->kind) {
	case TOPOLOGY_PAIR:
		return 2;
	case TOPOLOGY_STAR:
		return each;
	case TOPOLOGY_DUMBBELL:
		return 2 * each;
	case TOPOLOGY_PARKING_LOT:
	case TOPOLOGY_RING:
		return t->switches * each;
	case TOPOLOGY_LEAF_SPINE:
		return t->leaves * each;
	case TOPOLOGY_FAT_TREE:
		return each * t->pods * t->edges;
	}
	return 0;
}

bool read_topology(struct reader *r, const yaml_node_t *n, struct network_nature *net)
{
	static const char *const kinds[] = {"pair", "star",	  "dumbbell", "parking-lot",
					    "ring", "leaf-spine", "fat-tree", NULL};
	static const char *const keys[] = {
		[TOPOLOGY_PAIR] = "",
		[TOPOLOGY_STAR] = "hosts",
		[TOPOLOGY_DUMBBELL] = "hosts",
		[TOPOLOGY_PARKING_LOT] = "switches hosts",
		[TOPOLOGY_RING] = "switches hosts looped_host",
		[TOPOLOGY_LEAF_SPINE] = "leaves spines hosts",
		[TOPOLOGY_FAT_TREE] = "pods edges aggregations cores hosts",
	};
	static const char *const own[] = {"kind", NULL};
	struct topology_nature *t = &net->topology;
	const yaml_node_t *kind = keys_find(r, n, "kind");
	size_t k;

	keys_defaults(SECTION_TOPOLOGY, t);
	t->kind = TOPOLOGY_STAR;
	if (!keys_read(r, SECTION_TOPOLOGY, n, t, own))
		return false;
	if (kind) {
		k = keys_word(r, kind, kinds, "kind");
		if (k == SIZE_MAX)
			return false;
		t->kind = (enum topology_kind)k;
	}
	if (!keys_only(r, n, "kind", keys[t->kind], kinds[t->kind]))
		return false;
	if (t->kind == TOPOLOGY_FAT_TREE && t->cores % t->aggregations)
		return keys_fail(r, n,
				 "%u cores cannot be shared by %u aggregation switches of a pod: "
				 "make them a multiple",
				 t->cores, t->aggregations);
	if (topology_hosts(t) > HOSTS_MAX)
		return keys_fail(r, n, "these are %llu hosts, more than %d",
				 (unsigned long long)topology_hosts(t), HOSTS_MAX);
	if (t->looped >= 0 && (unsigned)t->looped >= topology_hosts(t))
		return keys_fail(r, keys_find(r, n, "looped_host"),
				 "looped_host is a host of the ring, 0 to %llu, or -1",
				 (unsigned long long)topology_hosts(t) - 1);
	return true;
}

/* ---- links ----------------------------------------------------------------------------------- */

/* Between the same two, in whichever order. */
static bool is_same_link(const struct link_override *a, const struct link_override *b)
{
	return (!strcmp(a->end[0], b->end[0]) && !strcmp(a->end[1], b->end[1])) ||
	       (!strcmp(a->end[0], b->end[1]) && !strcmp(a->end[1], b->end[0]));
}

static bool read_other(struct reader *r, const yaml_node_t *n, struct network_nature *net)
{
	static const char *const own[] = {"between", NULL};
	struct link_override *o;
	const yaml_node_t *ends;

	if (!keys_is(r, n, YAML_MAPPING_NODE, "each of other_links"))
		return false;
	ends = keys_find(r, n, "between");
	if (!ends || ends->type != YAML_SEQUENCE_NODE || !keys_element(r, ends, 1) ||
	    keys_element(r, ends, 2))
		return keys_fail(r, n, "between: takes the two ends, as [host0, switch0]");
	o = realloc(net->overrides, (net->noverrides + 1) * sizeof(*o));
	if (!o)
		return keys_fail(r, n, "no memory");
	net->overrides = o;
	o += net->noverrides++;
	*o = (struct link_override){.line = net->link, .file_line = (int)n->start_mark.line + 1};
	for (size_t i = 0; i < 2; i++) {
		const yaml_node_t *e = keys_element(r, ends, i);

		if (!keys_is(r, e, YAML_SCALAR_NODE, "an end of a link"))
			return false;
		o->end[i] = strdup((const char *)e->data.scalar.value);
		if (!o->end[i])
			return keys_fail(r, n, "no memory");
	}
	for (size_t i = 0; i + 1 < net->noverrides; i++)
		if (is_same_link(&net->overrides[i], o))
			return keys_fail(
				r, n,
				"the link between '%s' and '%s' is in line %d already: say "
				"all of it there",
				o->end[0], o->end[1], net->overrides[i].file_line);
	if (strncmp(o->end[0], "host", 4) && strncmp(o->end[1], "host", 4))
		o->line = net->uplink;
	return keys_read(r, SECTION_LINE, n, &o->line, own);
}

bool read_links(struct reader *r, const yaml_node_t *top, struct network_nature *net)
{
	static const char *const none[] = {NULL};
	const yaml_node_t *others = keys_find(r, top, "other_links"), *one;

	keys_defaults(SECTION_LINE, &net->link);
	if (!keys_read(r, SECTION_LINE, keys_find(r, top, "links"), &net->link, none))
		return false;
	net->uplink = net->link;
	if (!keys_read(r, SECTION_LINE, keys_find(r, top, "uplinks"), &net->uplink, none))
		return false;
	if (!others)
		return true;
	if (!keys_is(r, others, YAML_SEQUENCE_NODE, "other_links"))
		return false;
	for (size_t i = 0; (one = keys_element(r, others, i)); i++)
		if (!read_other(r, one, net))
			return false;
	return true;
}

/* ---- hosts ----------------------------------------------------------------------------------- */

static bool read_params(struct reader *r, const yaml_node_t *m, struct cc_params *p)
{
	if (!keys_is(r, m, YAML_MAPPING_NODE, "parameters"))
		return false;
	for (const yaml_node_pair_t *i = m->data.mapping.pairs.start; i < m->data.mapping.pairs.top;
	     i++) {
		const yaml_node_t *k = yaml_document_get_node(&r->document, i->key);
		const yaml_node_t *v = yaml_document_get_node(&r->document, i->value);
		uint32_t least = 0, most = 0;
		const char *name;
		double value;
		int rc;

		if (!keys_is(r, k, YAML_SCALAR_NODE, "a parameter's name") ||
		    !keys_is(r, v, YAML_SCALAR_NODE, "a parameter") || !keys_once(r, m, i))
			return false;
		name = (const char *)k->data.scalar.value;
		if (!quantity_parse(QUANTITY_NUMBER, (const char *)v->data.scalar.value, &value) ||
		    value < 0)
			return keys_fail(r, v, "%s takes a number, not '%s'", name,
					 (const char *)v->data.scalar.value);
		rc = cc_set_param(p, name, strlen(name),
				  (uint64_t)min_of(value, (double)UINT32_MAX), &least, &most);
		if (rc == -ENOENT)
			return keys_fail(r, k,
					 "there is no parameter '%s': weft-congestion(7) lists "
					 "them",
					 name);
		if (rc)
			return keys_fail(r, v, "%s is between %u and %u", name, least, most);
	}
	return true;
}

static bool read_control(struct reader *r, const yaml_node_t *n, const char *normally,
			 struct host_nature *h)
{
	const char *words[16], *text;
	const struct cc_ops *cc = NULL;
	size_t k = 0;

	h->cc = cc_find(normally, strlen(normally));
	text = n ? (const char *)n->data.scalar.value : NULL;
	if (!n)
		return true;
	if (n->type == YAML_SCALAR_NODE) {
		h->cc = cc_find(text, strlen(text));
		if (h->cc)
			return true;
	}
	while ((cc = cc_next(cc)) && k + 1 < ARRAY_SIZE(words))
		words[k++] = cc->name;
	words[k] = NULL;
	return keys_word(r, n, words, "control") != SIZE_MAX;
}

static bool read_mtu(struct reader *r, const yaml_node_t *n, struct host_nature *h)
{
	static const char *const words[] = {"256", "512", "1024", "2048", "4096", NULL};
	size_t i = n ? keys_word(r, n, words, "mtu") : 4;

	h->mtu = (enum rnic_mtu)(RNIC_MTU_256 + i);
	return i != SIZE_MAX;
}

static bool read_recovery(struct reader *r, const yaml_node_t *n, struct host_nature *h)
{
	static const char *const words[] = {"go-back-n", "selective", NULL};
	size_t i = n ? keys_word(r, n, words, "recovery") : 0;

	h->selective = i == 1;
	return i != SIZE_MAX;
}

bool read_hosts(struct reader *r, const yaml_node_t *n, struct network_nature *net)
{
	static const char *const own[] = {"control", "recovery", "mtu", "parameters", NULL};
	struct host_nature *h = &net->host;
	const yaml_node_t *params = keys_find(r, n, "parameters");

	keys_defaults(SECTION_HOSTS, h);
	h->scheduler.strict = 1u << 6; /* notifications of congestion */
	h->params = cc_defaults;
	h->params.rp_max_rate = (uint32_t)net->link.rate_mbps;
	return keys_read(r, SECTION_HOSTS, n, h, own) &&
	       /* Credits are InfiniBand's control, and nobody marks there. */
	       read_control(r, keys_find(r, n, "control"), net->subnet.is_there ? "none" : "dcqcn",
			    h) &&
	       read_mtu(r, keys_find(r, n, "mtu"), h) &&
	       read_recovery(r, keys_find(r, n, "recovery"), h) &&
	       (!params || read_params(r, params, &h->params));
}

/* ---- switches -------------------------------------------------------------------------------- */

/* A list of priorities, perhaps an empty one. */
static bool read_priorities(struct reader *r, const yaml_node_t *n, const char *what, uint8_t *ret)
{
	const yaml_node_t *one;
	unsigned v;

	if (!n)
		return true;
	*ret = 0;
	if (!keys_is(r, n, YAML_SEQUENCE_NODE, what))
		return false;
	for (size_t i = 0; (one = keys_element(r, n, i)); i++) {
		if (!keys_whole(r, one, "a priority", 0, PRIORITIES - 1, &v))
			return false;
		*ret |= (uint8_t)(1u << v);
	}
	return true;
}

static void take_weight(void *weights, unsigned priority, unsigned weight)
{
	((uint8_t *)weights)[priority] = (uint8_t)weight;
}

static bool read_headroom(struct reader *r, const yaml_node_t *n, uint64_t *ret)
{
	const char *text =
		n && n->type == YAML_SCALAR_NODE ? (const char *)n->data.scalar.value : "";
	double v;

	*ret = UINT64_MAX;
	if (!n)
		return true;
	if (!quantity_parse(QUANTITY_BYTES, text, &v) || !(v >= 0 && v <= HEADROOM_MOST))
		return keys_fail(r, n, "headroom takes %s, at most 1GB, not '%s'",
				 quantity_like(QUANTITY_BYTES), text);
	*ret = (uint64_t)v;
	return true;
}

bool read_switches(struct reader *r, const yaml_node_t *n, struct network_nature *net)
{
	static const char *const own[] = {"lossless", "marked",	  "strict",
					  "weights",  "headroom", NULL};
	struct switch_nature *s = &net->netswitch;

	keys_defaults(SECTION_SWITCHES, s);
	s->buffer.lossless = s->marked = 1u << 3;
	s->scheduler.strict = 1u << 6;
	return keys_read(r, SECTION_SWITCHES, n, s, own) &&
	       read_priorities(r, keys_find(r, n, "lossless"), "lossless", &s->buffer.lossless) &&
	       read_priorities(r, keys_find(r, n, "marked"), "marked", &s->marked) &&
	       read_priorities(r, keys_find(r, n, "strict"), "strict", &s->scheduler.strict) &&
	       keys_pairs(r, keys_find(r, n, "weights"), "weights", "a priority", PRIORITIES - 1,
			  "a weight", 1, 255, s->scheduler.weight, take_weight) &&
	       read_headroom(r, keys_find(r, n, "headroom"), &net->headroom);
}
