/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "subnet_bed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/heap.h"

#define LINKS_MAX  1000 /* on the way of one SMP */
#define EVENTS_MAX 10000000
#define HOP_NS	   500

const struct agent_nature bed_nature = {
	.lanes = 8,
	.mtu_code = 5,
	.width_code = 2,
	.speed_code = 4,
	.lids = 1024,
};

const struct subnet_config bed_config = {
	.routing = SUBNET_MIN_HOP,
	.lanes = 4,
	.lane_of_sl = {0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3},
	.high = {.lane = {3}, .weight = {10}, .n = 1},
	.low = {.lane = {0, 1, 2}, .weight = {1, 2, 3}, .n = 3},
	.high_limit = 7,
	.hoq_life = 12,
	.timeout_ns = 1000000,
	.retries = 3,
	.window = 16,
};

/* ---- life ----------------------------------------------------------------------------------- */

struct bed *bed_new(uint64_t seed)
{
	struct bed *b = calloc(1, sizeof(*b));

	assert_non_null(b);
	b->rnd = seed * 2 + 1;
	bed_random(b, 1);
	return b;
}

void bed_end(struct bed *b)
{
	bed_unmanage(b);
	for (int i = 0; i < b->n; i++)
		agent_destroy(b->nodes[i].agent);
	assert_int_equal(b->allocations, 0);
	free(b);
}

uint32_t bed_random(struct bed *b, uint32_t below)
{
	b->rnd = b->rnd * 6364136223846793005 + 1442695040888963407;
	return (uint32_t)((b->rnd >> 32) * below >> 32);
}

static void *bed_alloc(void *ctx, size_t len)
{
	struct bed *b = ctx;
	void *p;

	if (++b->made == b->fails_at)
		return NULL;
	p = calloc(1, len);
	assert_non_null(p);
	b->allocations++;
	return p;
}

static void bed_free(void *ctx, void *p)
{
	assert_non_null(p);
	((struct bed *)ctx)->allocations--;
	free(p);
}

/* ---- the network ---------------------------------------------------------------------------- */

int bed_add(struct bed *b, bool is_switch, unsigned ports, const struct agent_nature *nature)
{
	const struct agent_ops ops = {.alloc = bed_alloc, .free = bed_free};
	struct bed_node *n = &b->nodes[b->n];

	assert_in_range(b->n, 0, BED_NODES - 1);
	assert_in_range(ports, 1, BED_PORTS);
	*n = (struct bed_node){.nature = nature ? *nature : bed_nature};
	n->nature.is_switch = is_switch;
	n->nature.ports = ports;
	if (!n->nature.node_guid) /* of no order */
		n->nature.node_guid =
			(uint64_t)bed_random(b, UINT32_MAX) << 32 | (uint64_t)(b->n + 1) << 8;
	if (!n->nature.description)
		n->nature.description = is_switch ? "a switch" : "an adapter";
	for (unsigned p = 0; p <= BED_PORTS; p++)
		n->ports[p].peer = BED_NO_NODE;
	assert_int_equal(agent_create(&n->agent, &n->nature, &ops, b), 0);
	return b->n++;
}

void bed_set_link(struct bed *b, int node, unsigned port, bool up)
{
	struct bed_port *p = &b->nodes[node].ports[port];

	assert_int_not_equal(p->peer, BED_NO_NODE);
	p->up = up;
	b->nodes[p->peer].ports[p->peer_port].up = up;
	agent_link(b->nodes[node].agent, port, up);
	agent_link(b->nodes[p->peer].agent, p->peer_port, up);
}

void bed_link(struct bed *b, int x, unsigned x_port, int y, unsigned y_port)
{
	struct bed_port *px = &b->nodes[x].ports[x_port], *py = &b->nodes[y].ports[y_port];

	assert_true(px->peer == BED_NO_NODE && py->peer == BED_NO_NODE && px != py);
	*px = (struct bed_port){.peer = y, .peer_port = y_port};
	*py = (struct bed_port){.peer = x, .peer_port = x_port};
	bed_set_link(b, x, x_port, true);
}

static unsigned free_port(const struct bed *b, int node)
{
	unsigned port = 1;

	while (b->nodes[node].ports[port].peer != BED_NO_NODE)
		port++;
	assert_in_range(port, 1, b->nodes[node].nature.ports);
	return port;
}

void bed_join(struct bed *b, int x, int y)
{
	unsigned x_port = free_port(b, x);

	bed_link(b, x, x_port, y, free_port(b, y));
}

/* Where an SMP ends that comes to a node by a port: has it come home? */
static bool carry(struct bed *b, uint8_t mad[MAD_LEN], uint64_t *ret_took)
{
	int node = b->home;
	unsigned port = 0;

	for (int links = 0; links < LINKS_MAX; links++) {
		int to = b->nodes[node].dead ? AGENT_DROPS
					     : agent_take(b->nodes[node].agent, mad, port);
		const struct bed_port *p;

		if (to == AGENT_DROPS)
			return false;
		if (to == 0)
			return node == b->home;
		assert_in_range(to, 1, b->nodes[node].nature.ports);
		p = &b->nodes[node].ports[to];
		if (p->peer == BED_NO_NODE || !p->up)
			return false;
		node = p->peer;
		port = p->peer_port;
		*ret_took += HOP_NS + bed_random(b, HOP_NS);
	}
	fail_msg("an SMP goes round and round");
	return false;
}

static bool chance(struct bed *b, unsigned percent)
{
	return percent && bed_random(b, 100) < percent;
}

static void bed_send(void *ctx, const uint8_t mad[MAD_LEN])
{
	struct bed *b = ctx;
	struct bed_flying f = {.at = b->now};
	struct smp s;

	memcpy(f.mad, mad, MAD_LEN);
	if (chance(b, b->loss_percent) || !carry(b, f.mad, &f.at) || chance(b, b->loss_percent))
		return;
	if (b->tamper) {
		assert_int_equal(smp_decode(&s, f.mad), 0);
		if (!b->tamper(b, &s))
			return;
		smp_encode(&s, f.mad);
	}
	if (chance(b, b->flip_percent))
		for (unsigned n = 1 + bed_random(b, 4); n; n--)
			f.mad[bed_random(b, MAD_LEN)] ^= (uint8_t)(1 << bed_random(b, 8));
	assert_in_range(b->n_flying, 0, BED_FLYING - 1);
	b->flying[b->n_flying++] = f;
}

/* ---- the manager ---------------------------------------------------------------------------- */

static void bed_swept(void *ctx, int rc, const char *why)
{
	struct bed *b = ctx;

	assert_true((rc == 0) == !why);
	b->sweeps++;
	b->rc = rc;
	b->why = why;
}

void bed_manage(struct bed *b, int home, const struct subnet_config *config)
{
	const struct subnet_ops ops = {
		.alloc = bed_alloc,
		.free = bed_free,
		.send = bed_send,
		.swept = bed_swept,
	};

	b->home = home;
	assert_int_equal(subnet_create(&b->manager, config, &ops, b), 0);
}

void bed_unmanage(struct bed *b)
{
	subnet_destroy(b->manager);
	b->manager = NULL;
	b->n_flying = 0;
}

void bed_run(struct bed *b)
{
	for (int events = 0; subnet_is_sweeping(b->manager); events++) {
		unsigned first = 0;

		assert_in_range(events, 0, EVENTS_MAX);
		for (unsigned i = 1; i < b->n_flying; i++)
			if (b->flying[i].at < b->flying[first].at)
				first = i;
		if (b->n_flying && b->flying[first].at <= subnet_next_deadline(b->manager)) {
			struct bed_flying f = b->flying[first];

			b->flying[first] = b->flying[--b->n_flying];
			b->now = f.at > b->now ? f.at : b->now;
			subnet_rx(b->manager, f.mad, b->now);
		} else {
			assert_int_not_equal(subnet_next_deadline(b->manager), DEADLINE_NEVER);
			b->now = subnet_next_deadline(b->manager);
			subnet_tick(b->manager, b->now);
		}
	}
}

void bed_sweep(struct bed *b)
{
	b->rc = 1;
	subnet_sweep(b->manager, b->now);
	bed_run(b);
	assert_int_not_equal(b->rc, 1);
}

/* ---- shapes -------------------------------------------------------------------------------------
 */

/* ---- shapes: their first node is an adapter ----------------------------------------------------
 */

void bed_pair(struct bed *b)
{
	bed_join(b, bed_add(b, false, 1, NULL), bed_add(b, false, 1, NULL));
}

void bed_star(struct bed *b)
{
	int first = bed_add(b, false, 1, NULL), sw = bed_add(b, true, 8, NULL);

	bed_join(b, first, sw);
	for (int i = 0; i < 5; i++)
		bed_join(b, bed_add(b, false, 1, NULL), sw);
}

#define BED_LEAVES     4
#define BED_SPINES     4
#define BED_LEAF_HOSTS 4

void bed_leaf_spine(struct bed *b)
{
	int leaf[BED_LEAVES], spine[BED_SPINES];
	int first = bed_add(b, false, 1, NULL);

	for (int i = 0; i < BED_SPINES; i++)
		spine[i] = bed_add(b, true, BED_LEAVES, NULL);
	for (int i = 0; i < BED_LEAVES; i++) {
		leaf[i] = bed_add(b, true, BED_LEAF_HOSTS + BED_SPINES, NULL);
		for (int k = 0; k < BED_SPINES; k++)
			bed_join(b, leaf[i], spine[k]);
		for (int k = 0; k < BED_LEAF_HOSTS; k++)
			bed_join(b, i || k ? bed_add(b, false, 1, NULL) : first, leaf[i]);
	}
}

void bed_fat_tree(struct bed *b)
{
	int core[4], edge[2], middle[2];
	int first = bed_add(b, false, 1, NULL);

	for (int i = 0; i < 4; i++)
		core[i] = bed_add(b, true, 4, NULL);
	for (int pod = 0; pod < 4; pod++) {
		for (int i = 0; i < 2; i++) {
			middle[i] = bed_add(b, true, 4, NULL);
			for (int k = 0; k < 2; k++)
				bed_join(b, middle[i], core[2 * i + k]);
		}
		for (int i = 0; i < 2; i++) {
			edge[i] = bed_add(b, true, 4, NULL);
			for (int k = 0; k < 2; k++)
				bed_join(b, edge[i], middle[k]);
			for (int k = 0; k < 2; k++)
				bed_join(b, pod || i || k ? bed_add(b, false, 1, NULL) : first,
					 edge[i]);
		}
	}
}

void bed_ring_with_adapters(struct bed *b)
{
	int first = bed_add(b, false, 1, NULL), sw[5];

	for (int i = 0; i < 5; i++) {
		sw[i] = bed_add(b, true, 4, NULL);
		bed_join(b, sw[i], i ? bed_add(b, false, 1, NULL) : first);
	}
	for (int i = 0; i < 5; i++)
		bed_join(b, sw[i], sw[(i + 1) % 5]);
}

void bed_ring(struct bed *b)
{
	for (int i = 0; i < 5; i++)
		bed_add(b, true, 2, NULL);
	for (int i = 0; i < 5; i++)
		bed_join(b, i, (i + 1) % 5);
}

void bed_random_net(struct bed *b)
{
	int switches = 2 + (int)bed_random(b, 9), first = bed_add(b, false, 1, NULL);

	for (int i = 0; i < switches; i++) {
		int sw = bed_add(b, true, 24, NULL);

		if (i)
			bed_join(b, sw, 1 + (int)bed_random(b, (uint32_t)i));
	}
	bed_join(b, first, 1 + (int)bed_random(b, (uint32_t)switches));
	for (int i = (int)bed_random(b, 2 * (uint32_t)switches); i; i--) {
		int from = 1 + (int)bed_random(b, (uint32_t)switches);
		int to = 1 + (int)bed_random(b, (uint32_t)switches);

		if (from != to)
			bed_join(b, from, to);
	}
	for (int i = 0; i < switches; i++) {
		unsigned ports = 1 + bed_random(b, 2);
		int adapter = bed_add(b, false, ports, NULL);

		bed_join(b, adapter, 1 + i);
		if (ports == 2)
			bed_join(b, adapter, 1 + (int)bed_random(b, (uint32_t)switches));
	}
}

void bed_wheel(struct bed *b)
{
	int first = bed_add(b, false, 1, NULL), hub = bed_add(b, true, 9, NULL), rim[8];

	bed_join(b, first, hub);
	for (int i = 0; i < 8; i++) {
		rim[i] = bed_add(b, true, 4, NULL);
		bed_join(b, rim[i], hub);
		bed_join(b, rim[i], bed_add(b, false, 1, NULL));
		if (i)
			bed_join(b, rim[i], rim[i - 1]);
	}
	bed_join(b, rim[0], rim[7]);
}

/* ---- what has come of it --------------------------------------------------------------------- */

static bool is_switch(const struct bed *b, int node)
{
	return b->nodes[node].nature.is_switch;
}

int bed_ends(const struct bed *b, struct bed_place ret[2 * BED_NODES])
{
	int n = 0;

	for (int node = 0; node < b->n; node++) {
		if (is_switch(b, node))
			ret[n++] = (struct bed_place){.node = node};
		for (unsigned p = 1; !is_switch(b, node) && p <= b->nodes[node].nature.ports; p++)
			if (b->nodes[node].ports[p].up)
				ret[n++] = (struct bed_place){.node = node, .port = p};
	}
	return n;
}

uint16_t bed_lid(const struct bed *b, struct bed_place e)
{
	return agent_lid(b->nodes[e.node].agent, e.port);
}

void bed_check_active(const struct bed *b)
{
	struct bed_place ends[2 * BED_NODES];
	int n = bed_ends(b, ends);

	for (int node = 0; node < b->n; node++)
		for (unsigned p = 1; p <= b->nodes[node].nature.ports; p++)
			assert_int_equal(agent_state(b->nodes[node].agent, p),
					 b->nodes[node].ports[p].up ? SMP_PORT_ACTIVE
								    : SMP_PORT_DOWN);
	for (int i = 0; i < n; i++) {
		assert_in_range(bed_lid(b, ends[i]), 1, LID_UNICAST_MAX);
		for (int k = 0; k < i; k++)
			assert_int_not_equal(bed_lid(b, ends[i]), bed_lid(b, ends[k]));
	}
}

int bed_walk(const struct bed *b, struct bed_place from, struct bed_place to)
{
	uint16_t dlid = bed_lid(b, to);
	int node = from.node;
	unsigned port = from.port;

	if (from.node == to.node && from.port == to.port)
		return 0;
	for (int links = 0; links <= b->n; links++) {
		const struct bed_port *p;

		if (links && node == to.node && (is_switch(b, node) || port == to.port))
			return links;
		if (links && !is_switch(b, node))
			return -1;
		if (is_switch(b, node))
			port = agent_forward(b->nodes[node].agent, dlid);
		if (port == AGENT_NO_PORT || port == 0)
			return -1;
		p = &b->nodes[node].ports[port];
		if (p->peer == BED_NO_NODE || !p->up)
			return -1;
		port = p->peer_port;
		node = p->peer;
	}
	return -1;
}

/* Breadth first from an end; what comes to an adapter ends there. */
int bed_least(const struct bed *b, struct bed_place from, struct bed_place to)
{
	int far[BED_NODES], queue[BED_NODES], n = 0;

	if (from.node == to.node && from.port == to.port)
		return 0;
	for (int i = 0; i < b->n; i++)
		far[i] = -1;
	far[from.node] = 0;
	queue[n++] = from.node;
	for (int i = 0; i < n; i++) {
		int at = queue[i];
		unsigned first = is_switch(b, at) ? 1 : from.port;
		unsigned end = is_switch(b, at) ? b->nodes[at].nature.ports : from.port;

		if (i && !is_switch(b, at))
			continue;
		for (unsigned p = first; p <= end; p++) {
			const struct bed_port *l = &b->nodes[at].ports[p];

			if (l->up && l->peer == to.node &&
			    (is_switch(b, to.node) || l->peer_port == to.port))
				return far[at] + 1;
			if (!l->up || far[l->peer] >= 0 || !is_switch(b, l->peer))
				continue;
			far[l->peer] = far[at] + 1;
			queue[n++] = l->peer;
		}
	}
	return -1;
}

/* ---- circles --------------------------------------------------------------------------------- */

/* A channel is the link that leaves a switch by a port. */
#define CHANNELS (BED_NODES * (BED_PORTS + 1))

struct depends {
	uint8_t on[CHANNELS][CHANNELS / 8 + 1]; /* one waits for another */
	uint8_t colour[CHANNELS];		/* 0 not seen, 1 in hand, 2 done */
};

static void follow(const struct bed *b, struct depends *d, struct bed_place from,
		   struct bed_place to)
{
	uint16_t dlid = bed_lid(b, to);
	const struct bed_port *p = &b->nodes[from.node].ports[from.port];
	int before = -1;

	for (int node = p->peer; is_switch(b, node); node = p->peer) {
		unsigned port = agent_forward(b->nodes[node].agent, dlid);
		int channel = node * (BED_PORTS + 1) + (int)port;

		assert_in_range(port, 1, BED_PORTS);
		if (before >= 0)
			d->on[before][channel / 8] |= (uint8_t)(1 << channel % 8);
		before = channel;
		p = &b->nodes[node].ports[port];
	}
}

static bool comes_round(const struct bed *b, struct depends *d, int at)
{
	d->colour[at] = 1;
	for (int next = 0; next < b->n * (BED_PORTS + 1); next++) {
		if (!(d->on[at][next / 8] & 1 << next % 8) || d->colour[next] == 2)
			continue;
		if (d->colour[next] == 1 || comes_round(b, d, next))
			return true;
	}
	d->colour[at] = 2;
	return false;
}

bool bed_has_circle(const struct bed *b)
{
	struct bed_place ends[2 * BED_NODES];
	struct depends *d = calloc(1, sizeof(*d));
	int n = bed_ends(b, ends);
	bool found = false;

	assert_non_null(d);
	for (int i = 0; i < n; i++)
		for (int k = 0; k < n; k++)
			if (i != k && !is_switch(b, ends[i].node) && !is_switch(b, ends[k].node))
				follow(b, d, ends[i], ends[k]);
	for (int at = 0; at < b->n * (BED_PORTS + 1); at++)
		found |= d->colour[at] == 0 && comes_round(b, d, at);
	free(d);
	return found;
}
