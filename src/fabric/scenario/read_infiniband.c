/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* infiniband: links and switches are InfiniBand's. */
#include "base/bytes.h"
#include "base/units.h"
#include "fabric/scenario/quantity.h"
#include "fabric/scenario/read_priv.h"

#define TIMEOUT_NS	  (10 * NSEC_PER_MSEC) /* of the manager's requests, beyond their way */
#define RETRIES		  5
#define WINDOW		  32
#define WEIGHT_OF_TURN	  64 /* in blocks: a frame of 4 KiB */
#define LIFE_UNIT_NS	  4096
#define LIFE_CODE_FOREVER 20

static void take_lane(void *lane_of_sl, unsigned sl, unsigned lane)
{
	((uint8_t *)lane_of_sl)[sl] = (uint8_t)lane;
}

static void take_entry(void *ctx, unsigned lane, unsigned weight)
{
	struct smp_vl_arbitration *t = ctx;

	if (t->n == ARRAY_SIZE(t->lane))
		return;
	t->lane[t->n] = (uint8_t)lane;
	t->weight[t->n++] = (uint8_t)weight;
}

static uint8_t life_code(uint64_t ns)
{
	uint8_t code = 0;

	if (!ns)
		return LIFE_CODE_FOREVER;
	while (code < LIFE_CODE_FOREVER - 1 && (uint64_t)LIFE_UNIT_NS << code < ns)
		code++;
	return code;
}

static unsigned lanes_in(const struct smp_vl_arbitration *t)
{
	unsigned lanes = 0;

	for (unsigned i = 0; i < t->n; i++)
		lanes |= 1u << t->lane[i];
	return lanes;
}

static bool read_tables(struct reader *r, const yaml_node_t *n, struct subnet_nature *s)
{
	struct subnet_config *c = &s->config;
	const unsigned last = s->node.link.lanes - 1u;

	for (unsigned i = 0; i < ARRAY_SIZE(c->lane_of_sl); i++)
		c->lane_of_sl[i] = (uint8_t)(i % s->node.link.lanes);
	if (!keys_pairs(r, keys_find(r, n, "lane_of"), "lane_of", "a service level", 7, "a lane", 0,
			last, c->lane_of_sl, take_lane) ||
	    !keys_pairs(r, keys_find(r, n, "weights"), "weights", "a lane", last, "a weight", 1,
			255, &c->low, take_entry) ||
	    !keys_pairs(r, keys_find(r, n, "high"), "high", "a lane", last, "a weight", 1, 255,
			&c->high, take_entry))
		return false;
	if (!keys_find(r, n, "weights"))
		for (unsigned i = 0; i < s->node.link.lanes; i++)
			if (!(lanes_in(&c->high) >> i & 1))
				take_entry(&c->low, i, WEIGHT_OF_TURN);
	if ((lanes_in(&c->low) | lanes_in(&c->high)) != (1u << s->node.link.lanes) - 1)
		return keys_fail(
			r, keys_find(r, n, "weights"),
			"weights or high are to name each lane: one that neither names sends "
			"nothing");
	return true;
}

/* A line's MTU is set by the manager there. */
static bool check_lines(struct reader *r, const yaml_node_t *top)
{
	const yaml_node_t *others = keys_find(r, top, "other_links"), *at = NULL;

	for (size_t i = 0; others && i < keys_count(others) && !at; i++)
		at = keys_find(r, keys_element(r, others, i), "mtu");
	if (!at)
		at = keys_find(r, keys_find(r, top, "uplinks"), "mtu");
	if (!at)
		at = keys_find(r, keys_find(r, top, "links"), "mtu");
	return !at ||
	       keys_fail(r, at,
			 "the mtu of links is Ethernet's: with `infiniband` say `hosts: mtu`");
}

/* What hosts have on Ethernet alone. */
static bool check_hosts(struct reader *r, const yaml_node_t *hosts)
{
	static const char *const none[] = {"watchdog", "restore", "hop_limit"};

	for (size_t i = 0; i < ARRAY_SIZE(none); i++)
		if (keys_find(r, hosts, none[i]))
			return keys_fail(r, keys_find(r, hosts, none[i]),
					 "%s is Ethernet's: with `infiniband` there is none",
					 none[i]);
	return true;
}

bool read_infiniband(struct reader *r, const yaml_node_t *top, struct network_nature *net)
{
	static const char *const own[] = {"routing", "lane_of", "weights", "high", NULL};
	static const char *const routings[] = {
		[SUBNET_MIN_HOP] = "min-hop", [SUBNET_UP_DOWN] = "up-down", NULL};
	const yaml_node_t *n = keys_find(r, top, "infiniband"), *routing;
	struct subnet_nature *s = &net->subnet;
	size_t k = SUBNET_MIN_HOP;

	if (!n)
		return true;
	if (keys_find(r, top, "switches"))
		return keys_fail(r, keys_find(r, top, "switches"),
				 "switches are Ethernet's: with `infiniband` there are none");
	if (!check_hosts(r, keys_find(r, top, "hosts")) || !check_lines(r, top))
		return false;
	if (net->topology.looped >= 0)
		return keys_fail(r, n, "looped_host is of Ethernet: a manager makes no loops");
	s->is_there = true;
	keys_defaults(SECTION_INFINIBAND, s);
	routing = keys_find(r, n, "routing");
	if (!keys_read(r, SECTION_INFINIBAND, n, s, own))
		return false;
	if (routing)
		k = keys_word(r, routing, routings, "routing");
	if (k == SIZE_MAX)
		return false;
	if (s->node.link.lanes & (s->node.link.lanes - 1))
		return keys_fail(r, n, "lanes are 1, 2, 4 or 8, not %u", s->node.link.lanes);
	s->config.routing = (enum subnet_routing)k;
	s->config.lanes = s->node.link.lanes;
	s->config.hoq_life = life_code(s->head_life_ns);
	s->config.retries = RETRIES;
	s->config.window = WINDOW;
	return read_tables(r, n, s);
}

static unsigned links_on_a_way(const struct topology_nature *t)
{
	switch (t->kind) {
	case TOPOLOGY_PAIR:
		return 1;
	case TOPOLOGY_STAR:
		return 2;
	case TOPOLOGY_DUMBBELL:
		return 3;
	case TOPOLOGY_PARKING_LOT:
	case TOPOLOGY_RING:
		return t->switches + 1;
	case TOPOLOGY_LEAF_SPINE:
		return 4;
	case TOPOLOGY_FAT_TREE:
		return 6;
	}
	return 0;
}

/* A line, with all that the manager may have under way before it. */
static uint64_t way_ns(const struct line_nature *l)
{
	return l->delay_ns + (uint64_t)WINDOW * (FRAME_IB + MAD_LEN) * 8 * 1000 / l->rate_mbps;
}

static uint64_t timeout_ns(const struct network_nature *net)
{
	uint64_t longest = max_of(way_ns(&net->link), way_ns(&net->uplink));

	for (size_t i = 0; i < net->noverrides; i++)
		longest = max_of(longest, way_ns(&net->overrides[i].line));
	return TIMEOUT_NS + 2 * links_on_a_way(&net->topology) * longest;
}

bool fit_infiniband(struct reader *r, const yaml_node_t *top, struct network_nature *net)
{
	struct subnet_nature *s = &net->subnet;

	if (!s->is_there)
		return true;
	s->node.mtu_code = (unsigned)net->host.mtu;
	s->config.timeout_ns = timeout_ns(net);
	s->node.link.frame_max =
		FRAME_IB + BTH_LEN + RETH_LEN + IMMDT_LEN + ICRC_LEN + (128u << net->host.mtu);
	if (s->node.link.bytes / CREDIT_BLOCK < credit_blocks(s->node.link.frame_max))
		return keys_fail(r, keys_find(r, top, "infiniband"),
				 "a buffer of %u bytes holds no frame, of which the longest have "
				 "%u: make it larger, or the mtu smaller",
				 s->node.link.bytes, s->node.link.frame_max);
	return true;
}
