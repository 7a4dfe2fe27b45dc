/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "fabric/net/network.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/errno_text.h"
#include "fabric/net/ibswitch.h"
#include "fabric/net/management.h"

/* Of a frame: what is not payload. */
#define HEADERS	   (FRAME_ETHERNET + FRAME_IP_UDP + BTH_LEN + ICRC_LEN)
#define HEADERS_IB (FRAME_IB + BTH_LEN + ICRC_LEN)

#define SWITCH_GUID 0x0002c90000800000ull /* behind the hosts' */

struct network {
	struct fabric *fabric;
	struct frame_pool pool;
	struct network_nature nature;
	struct topology *topology;
	struct routes *routes;
	struct host **hosts;
	struct netswitch **switches;
	struct ibswitch **ibswitches; /* instead of them */
	struct management *management;
	uint16_t *lids;		 /* of hosts */
	uint64_t dropped_before; /* what is counted was counted anew */
	struct netport **ports;
	unsigned nports;
	char (*names)[56]; /* of ports */
	uint8_t room[FRAME_ROOM];
};

static struct netport *switch_port(const struct network *n, unsigned i, unsigned port)
{
	return n->ibswitches ? ibswitch_port(n->ibswitches[i], port)
			     : netswitch_port(n->switches[i], port);
}

static struct netport *port_at(const struct network *n, unsigned node, unsigned port)
{
	const unsigned hosts = n->topology->hosts;

	return node < hosts ? host_port(n->hosts[node]) : switch_port(n, node - hosts, port);
}

static bool joins(const struct topology *t, const struct routes_link *l,
		  const struct link_override *o)
{
	const char *a = t->names[l->node[0]], *b = t->names[l->node[1]];

	return (!strcmp(a, o->end[0]) && !strcmp(b, o->end[1])) ||
	       (!strcmp(a, o->end[1]) && !strcmp(b, o->end[0]));
}

static const struct line_nature *line_of(const struct network *n, const struct routes_link *l)
{
	const struct topology *t = n->topology;

	for (size_t i = 0; i < n->nature.noverrides; i++)
		if (joins(t, l, &n->nature.overrides[i]))
			return &n->nature.overrides[i].line;
	return l->node[0] < t->hosts ? &n->nature.link : &n->nature.uplink;
}

static void join_all(struct network *n)
{
	const struct topology *t = n->topology;

	for (size_t i = 0; i < t->nlinks; i++) {
		const struct routes_link *l = &t->links[i];

		netport_join(port_at(n, l->node[0], l->port[0]), port_at(n, l->node[1], l->port[1]),
			     line_of(n, l));
	}
}

static int list_ports(struct network *n)
{
	const struct topology *t = n->topology;
	unsigned at = 0;

	n->nports = (unsigned)(2 * t->nlinks);
	n->ports = calloc(n->nports, sizeof(*n->ports));
	n->names = calloc(n->nports, sizeof(*n->names));
	if (!n->ports || !n->names)
		return -ENOMEM;
	for (unsigned node = 0; node < t->hosts + t->switches; node++) {
		unsigned ports = node < t->hosts ? 1 : t->ports[node - t->hosts];

		for (unsigned i = 0; i < ports; i++) {
			n->ports[at] = port_at(n, node, i);
			n->ports[at++]->node = node;
		}
	}
	n->nports = at;
	for (size_t i = 0; i < t->nlinks; i++)
		for (int side = 0; side < 2; side++) {
			const struct routes_link *l = &t->links[i];
			struct netport *p = port_at(n, l->node[side], l->port[side]);
			unsigned k = (unsigned)(2 * i) + (unsigned)side;

			snprintf(n->names[k], sizeof(n->names[k]), "%s -> %s",
				 t->names[l->node[side]], t->names[l->node[!side]]);
			p->name = n->names[k];
		}
	return 0;
}

static uint64_t headroom_of(const struct network *n)
{
	uint64_t most = 0;

	if (n->nature.headroom != UINT64_MAX)
		return n->nature.headroom;
	for (unsigned i = 0; i < n->nports; i++) {
		uint32_t frame = (128u << n->nature.host.mtu) + HEADERS + RETH_LEN;

		most = max_of(most, netswitch_headroom(&n->ports[i]->line, frame,
						       n->nature.netswitch.latency_ns));
	}
	return most;
}

static int start_switches(struct network *n, char *err, size_t err_len)
{
	struct switch_nature nature = n->nature.netswitch;

	nature.buffer.headroom = headroom_of(n);
	for (unsigned i = 0; i < n->topology->switches; i++) {
		int rc =
			netswitch_start(n->switches[i], &nature, n->routes, n->topology->hosts + i);

		if (rc == -ENOSPC)
			snprintf(err, err_len,
				 "%s has %u ports, of which each has %llu bytes of headroom in "
				 "each of "
				 "%d lossless priorities and %llu bytes of reserve in each of 8: "
				 "that is "
				 "more than its buffer of %llu; give it a larger `buffer`, or set "
				 "`headroom`",
				 netswitch_name(n->switches[i]), n->topology->ports[i],
				 (unsigned long long)nature.buffer.headroom,
				 __builtin_popcount(nature.buffer.lossless),
				 (unsigned long long)nature.buffer.reserve,
				 (unsigned long long)nature.buffer.bytes);
		if (rc)
			return rc;
	}
	return 0;
}

/* A ring's packets go clockwise, which shortest ways would not; and one host's for ever. */
static int set_ring(struct network *n)
{
	const struct topology_nature *t = &n->nature.topology;
	int rc = 0;

	for (unsigned s = 0; s < t->switches && !rc; s++) {
		unsigned node = n->topology->hosts + s, clockwise = t->hosts + (s ? 1 : 0);

		for (unsigned h = 0; h < n->topology->hosts && !rc; h++)
			if (h / t->hosts != s || (int)h == t->looped)
				rc = routes_set(n->routes, node, h, clockwise);
	}
	return rc;
}

static int create_switches(struct network *n)
{
	const struct topology *t = n->topology;

	n->switches = calloc(t->switches + 1, sizeof(struct netswitch *));
	if (!n->switches)
		return -ENOMEM;
	for (unsigned i = 0; i < t->switches; i++)
		if (netswitch_create(&n->switches[i], n->fabric, &n->pool, t->ports[i],
				     t->names[t->hosts + i]))
			return -ENOMEM;
	return 0;
}

static int create_ibswitches(struct network *n)
{
	const struct topology *t = n->topology;
	const struct subnet_nature *s = &n->nature.subnet;

	n->ibswitches = calloc(t->switches + 1, sizeof(struct ibswitch *));
	if (!n->ibswitches)
		return -ENOMEM;
	for (unsigned i = 0; i < t->switches; i++)
		if (ibswitch_create(&n->ibswitches[i], n->fabric, &n->pool, t->ports[i], &s->node,
				    s->latency_ns, SWITCH_GUID + i, t->names[t->hosts + i]))
			return -ENOMEM;
	return 0;
}

static int create_nodes(struct network *n)
{
	const struct topology *t = n->topology;

	n->hosts = calloc(t->hosts, sizeof(struct host *));
	n->lids = calloc(t->hosts, sizeof(*n->lids));
	if (!n->hosts || !n->lids)
		return -ENOMEM;
	for (unsigned i = 0; i < t->hosts; i++)
		if (host_create(&n->hosts[i], n->fabric, &n->pool, n->room, i, &n->nature.host,
				n->lids))
			return -ENOMEM;
	return n->nature.subnet.is_there ? create_ibswitches(n) : create_switches(n);
}

static int check_overrides(const struct network *n, char *err, size_t err_len)
{
	const struct topology *t = n->topology;

	for (size_t i = 0; i < n->nature.noverrides; i++) {
		const struct link_override *o = &n->nature.overrides[i];
		bool found = false;

		for (size_t k = 0; k < t->nlinks; k++)
			found = found || joins(t, &t->links[k], o);
		if (found)
			continue;
		snprintf(err, err_len,
			 "line %d: there is no link between '%s' and '%s'; this topology has %s to "
			 "%s, joined for one to %s",
			 o->file_line, o->end[0], o->end[1], t->names[0],
			 t->names[t->hosts + t->switches - 1], t->names[t->links[0].node[1]]);
		return -EINVAL;
	}
	return 0;
}

static void take_lids(void *ctx)
{
	struct network *n = ctx;

	for (unsigned i = 0; i < n->topology->hosts; i++)
		n->lids[i] = agent_lid(host_node(n->hosts[i])->agent, 1);
}

static int start_subnet(struct network *n)
{
	for (unsigned i = 0; i < n->topology->hosts; i++)
		ibnode_up(host_node(n->hosts[i]));
	for (unsigned i = 0; i < n->topology->switches; i++)
		ibnode_up(ibswitch_node(n->ibswitches[i]));
	return management_create(&n->management, host_node(n->hosts[0]), &n->nature.subnet.config,
				 take_lids, n);
}

int network_settle(struct network *n, char *err, size_t err_len)
{
	int rc = n->management ? management_sweep(n->management, err, err_len) : 0;

	network_count_anew(n);
	return rc;
}

static int check_ports(const struct network *n, char *err, size_t err_len)
{
	const struct topology *t = n->topology;

	for (unsigned i = 0; n->nature.subnet.is_there && i < t->switches; i++)
		if (t->ports[i] > AGENT_PORTS_MAX) {
			snprintf(err, err_len,
				 "%s has %u ports, and a switch of InfiniBand has %d at most",
				 t->names[t->hosts + i], t->ports[i], AGENT_PORTS_MAX);
			return -EINVAL;
		}
	return 0;
}

int network_create(struct network **ret, const struct network_nature *nature, uint64_t seed,
		   char *err, size_t err_len)
{
	struct network *n = calloc(1, sizeof(*n));
	int rc = -ENOMEM;

	if (!n)
		goto none;
	n->nature = *nature;
	if (nature->subnet.is_there)
		n->nature.host.ib = &n->nature.subnet.node;
	*err = '\0';
	rc = fabric_create(&n->fabric, seed);
	if (!rc)
		rc = topology_create(&n->topology, &nature->topology);
	if (!rc)
		rc = check_overrides(n, err, err_len);
	if (!rc)
		rc = check_ports(n, err, err_len);
	if (!rc && !nature->subnet.is_there)
		rc = routes_create(&n->routes, n->topology->hosts, n->topology->switches,
				   n->topology->links, n->topology->nlinks);
	if (rc == -E2BIG)
		snprintf(err, err_len, "a switch has more than %d ways to one place",
			 ROUTE_PORTS_MAX);
	if (!rc)
		rc = create_nodes(n);
	if (!rc) {
		join_all(n);
		rc = list_ports(n);
	}
	if (!rc && n->ibswitches)
		rc = start_subnet(n);
	if (!rc && n->switches && nature->topology.kind == TOPOLOGY_RING)
		rc = set_ring(n);
	if (!rc && n->switches)
		rc = start_switches(n, err, err_len);
	if (!rc) {
		*ret = n;
		return 0;
	}
	network_destroy(n);
none:
	if (!*err)
		snprintf(err, err_len, "the network cannot be made: %s", errno_text(-rc));
	return rc;
}

void network_destroy(struct network *n)
{
	if (n->management)
		management_destroy(n->management);
	for (unsigned i = 0; n->switches && i < n->topology->switches; i++)
		if (n->switches[i])
			netswitch_destroy(n->switches[i]);
	for (unsigned i = 0; n->ibswitches && i < n->topology->switches; i++)
		if (n->ibswitches[i])
			ibswitch_destroy(n->ibswitches[i]);
	for (unsigned i = 0; n->hosts && i < n->topology->hosts; i++)
		if (n->hosts[i])
			host_destroy(n->hosts[i]);
	free(n->ports);
	free(n->names);
	free(n->switches);
	free(n->ibswitches);
	free(n->lids);
	free(n->hosts);
	if (n->routes)
		routes_destroy(n->routes);
	if (n->topology)
		topology_destroy(n->topology);
	if (n->fabric)
		fabric_destroy(n->fabric);
	frame_pool_fini(&n->pool);
	free(n);
}

struct fabric *network_fabric(struct network *n)
{
	return n->fabric;
}

unsigned network_hosts(const struct network *n)
{
	return n->topology->hosts;
}

struct host *network_host(struct network *n, unsigned i)
{
	return n->hosts[i];
}

unsigned network_switches(const struct network *n)
{
	return n->topology->switches;
}

struct netswitch *network_switch(struct network *n, unsigned i)
{
	return n->switches ? n->switches[i] : NULL;
}

struct ibswitch *network_ibswitch(struct network *n, unsigned i)
{
	return n->ibswitches ? n->ibswitches[i] : NULL;
}

const struct management *network_management(const struct network *n)
{
	return n->management;
}

/* Frames that came without credits: none, where these are right. */
static uint64_t overruns_of(const struct ibnode *node)
{
	uint64_t overruns = 0;

	for (unsigned i = 0; i < node->ports; i++)
		overruns += node->links[i].overruns;
	return overruns;
}

static uint64_t dropped_ever(const struct network *n)
{
	uint64_t dropped = 0;

	for (unsigned i = 0; n->ibswitches && i < n->topology->hosts; i++)
		dropped += overruns_of(host_node(n->hosts[i]));
	for (unsigned i = 0; n->switches && i < n->topology->switches; i++) {
		const struct switch_counters *c = netswitch_counters(n->switches[i]);

		dropped += c->dropped + c->expired + c->unroutable;
	}
	for (unsigned i = 0; n->ibswitches && i < n->topology->switches; i++) {
		const struct ibswitch_counters *c = ibswitch_counters(n->ibswitches[i]);

		dropped +=
			c->expired + c->unroutable + overruns_of(ibswitch_node(n->ibswitches[i]));
	}
	return dropped;
}

uint64_t network_dropped(const struct network *n)
{
	return dropped_ever(n) - n->dropped_before;
}

void network_count_anew(struct network *n)
{
	for (unsigned i = 0; i < n->nports; i++)
		netport_count_anew(n->ports[i]);
	n->dropped_before = dropped_ever(n);
}

unsigned network_ports(const struct network *n)
{
	return n->nports;
}

struct netport *network_port(struct network *n, unsigned i)
{
	return n->ports[i];
}

bool network_port_is_of_switch(const struct network *n, unsigned i)
{
	return i >= n->topology->hosts;
}

/* ---- what an empty network would do ---------------------------------------------------------- */

static uint64_t time_on(const struct netport *p, uint64_t bytes)
{
	return bytes * p->fs_per_byte / 1000000;
}

/* The way from one to another, by the first of the ports that lead there. */
static struct netport *next_on_way(const struct network *n, struct netport *p, unsigned to)
{
	unsigned node = p->peer->node, i = node - n->topology->hosts, port;
	struct gid gid = routes_gid(to);
	const struct route *r;

	if (node < n->topology->hosts)
		return NULL;
	if (n->ibswitches) {
		port = agent_forward(ibswitch_node(n->ibswitches[i])->agent, n->lids[to]);
		return port && port <= n->topology->ports[i] ? switch_port(n, i, port - 1) : NULL;
	}
	r = routes_find(n->routes, node, &gid);
	return r && r->n ? switch_port(n, i, r->port[0]) : NULL;
}

static uint64_t latency_of(const struct network *n)
{
	return n->ibswitches ? n->nature.subnet.latency_ns : n->nature.netswitch.latency_ns;
}

/* Each switch has to have a frame whole before it sends it on. All but the last are full. Up to
 * some line that one has to wait for those before it, which are there when the first has gone over
 * all lines so far and the others have followed at the pace of the slowest of them; from that line
 * on it waits for nobody. Which line that is, says who comes latest. */
static uint64_t one_way(const struct network *n, unsigned from, unsigned to, uint64_t bytes,
			uint32_t more_headers)
{
	const uint64_t mtu = 128u << n->nature.host.mtu;
	const uint64_t frames = bytes ? (bytes + mtu - 1) / mtu : 1;
	const uint64_t least = n->ibswitches ? 0 : FRAME_MIN;
	const uint32_t headers = (n->ibswitches ? HEADERS_IB : HEADERS) + more_headers;
	uint64_t ns = 0, alone = 0, firsts = 0, slowest = 0, most = 0;
	struct netport *p = host_port(n->hosts[from]);
	const uint64_t last =
		max_of(bytes - (bytes ? (frames - 1) * mtu : 0) + headers, least) + p->gap;
	const uint64_t full = mtu + headers + p->gap;
	unsigned left = 64;

	for (; p && left--; p = next_on_way(n, p, to)) {
		ns += p->line.delay_ns + time_on(p, last);
		if (frames > 1) {
			firsts += time_on(p, full);
			slowest = max_of(slowest, time_on(p, (frames - 2) * full));
			most = max_of(most, firsts + slowest - alone);
			alone += time_on(p, last);
		}
		if (p->peer == host_port(n->hosts[to]))
			break;
		ns += latency_of(n);
	}
	return ns + most;
}

uint64_t network_ideal_ns(const struct network *n, unsigned from, unsigned to, uint64_t bytes)
{
	return one_way(n, from, to, bytes, 0) + one_way(n, to, from, 0, AETH_LEN);
}

uint64_t network_way_ns(const struct network *n, unsigned from, unsigned to, uint64_t bytes)
{
	return one_way(n, from, to, bytes, 0);
}

static const struct ibnode *ibnode_at(const struct network *n, unsigned node)
{
	const unsigned hosts = n->topology->hosts;

	return node < hosts ? host_node(n->hosts[node])
			    : ibswitch_node(n->ibswitches[node - hosts]);
}

/* Every credit is where it was. */
static bool node_is_idle(const struct network *n, const struct ibnode *node)
{
	for (unsigned i = 0; i < node->ports; i++) {
		const struct netport *p = node->links[i].port->peer;

		if (!iblink_is_idle(&node->links[i], &ibnode_at(n, p->node)->links[p->index]))
			return false;
	}
	return true;
}

static bool subnet_is_idle(const struct network *n)
{
	for (unsigned i = 0; i < n->topology->switches; i++)
		if (!ibswitch_is_idle(n->ibswitches[i]) ||
		    !node_is_idle(n, ibswitch_node(n->ibswitches[i])))
			return false;
	for (unsigned i = 0; i < n->topology->hosts; i++)
		if (!node_is_idle(n, host_node(n->hosts[i])))
			return false;
	return true;
}

bool network_is_idle(const struct network *n)
{
	if (n->ibswitches && !subnet_is_idle(n))
		return false;
	for (unsigned i = 0; n->switches && i < n->topology->switches; i++)
		if (!netswitch_is_idle(n->switches[i]))
			return false;
	for (unsigned i = 0; i < n->topology->hosts; i++)
		if (!netport_is_idle(host_port(n->hosts[i])))
			return false;
	return true;
}
