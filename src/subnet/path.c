/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What the last sweep has found, for those who ask: nodes, and the way between two LIDs. */
#include "subnet/manager_priv.h"

#include <errno.h>

unsigned subnet_nodes(const struct subnet_manager *m)
{
	return m->done ? m->done->n : 0;
}

const struct subnet_node *subnet_node(const struct subnet_manager *m, unsigned i)
{
	return &m->done->nodes[i]->shown;
}

/* Rates as PathRecord names them (Debian's libopensm-dev, infiniband/iba/ib_types.h; the last is
 * capped), by the codes of PortInfo, and in 0.1 Gb/s. */
static const struct rate {
	uint8_t speed, speed_ext, width, code;
	uint16_t decigbits;
} rates[] = {
	/* clang-format off */
	{1, 0, 1, 2, 25},    {1, 0, 16, 5, 50},   {1, 0, 2, 3, 100},   {1, 0, 4, 6, 200},   {1, 0, 8, 4, 300},
	{2, 0, 1, 5, 50},    {2, 0, 16, 3, 100},  {2, 0, 2, 6, 200},   {2, 0, 4, 7, 400},   {2, 0, 8, 8, 600},
	{4, 0, 1, 3, 100},   {4, 0, 16, 6, 200},  {4, 0, 2, 7, 400},   {4, 0, 4, 9, 800},   {4, 0, 8, 10, 1200},
	{0, 1, 1, 11, 140},  {0, 1, 16, 19, 281}, {0, 1, 2, 12, 562},  {0, 1, 4, 13, 1125}, {0, 1, 8, 14, 1687},
	{0, 2, 1, 15, 257},  {0, 2, 16, 20, 515}, {0, 2, 2, 16, 1031}, {0, 2, 4, 17, 2062}, {0, 2, 8, 18, 3093},
	{0, 4, 1, 20, 531},  {0, 4, 16, 16, 1062}, {0, 4, 2, 17, 2125}, {0, 4, 4, 21, 4250}, {0, 4, 8, 22, 6375},
	{0, 8, 1, 16, 1062}, {0, 8, 16, 17, 2125}, {0, 8, 2, 21, 4250}, {0, 8, 4, 23, 8500}, {0, 8, 8, 23, 12750},
	/* clang-format on */
};

/* Of what is not known the slowest. */
static const struct rate *rate_of(const struct smp_port_info *p)
{
	for (size_t i = 0; i < ARRAY_SIZE(rates); i++) {
		const struct rate *r = &rates[i];

		if (r->width == p->width_active &&
		    (p->speed_ext_active ? r->speed_ext == p->speed_ext_active
					 : !r->speed_ext && r->speed == p->speed_active))
			return r;
	}
	return &rates[0];
}

static const struct rate *slower(const struct rate *a, const struct rate *b)
{
	return a->decigbits <= b->decigbits ? a : b;
}

/* The port by which a node sends on to a LID; 0: it is there, or there is none. */
static unsigned port_to(const struct net *net, uint16_t at, uint16_t dlid)
{
	const struct net_node *node = net->nodes[at];

	if (!node->shown.is_switch)
		return node->shown.port;
	return node->forward && node->forward[dlid] != NET_NO_PORT ? node->forward[dlid] : 0;
}

int subnet_path(const struct subnet_manager *m, uint16_t slid, uint16_t dlid, uint8_t sl,
		struct subnet_path *ret)
{
	const struct net *net = m->done;
	const struct rate *least;
	uint16_t at, to;

	if (!net || !slid || !dlid || slid > LID_UNICAST_MAX || dlid > LID_UNICAST_MAX ||
	    !net->by_lid[slid] || !net->by_lid[dlid])
		return -ENOENT;
	at = (uint16_t)(net->by_lid[slid] - 1);
	to = (uint16_t)(net->by_lid[dlid] - 1);
	*ret = (struct subnet_path){.slid = slid, .dlid = dlid, .sl = sl};
	ret->mtu_code = net_port(net, at, net->nodes[at]->shown.port)->info.mtu_cap;
	least = rate_of(&net_port(net, at, net->nodes[at]->shown.port)->info);
	while (at != to) {
		unsigned port = port_to(net, at, dlid);
		const struct net_port *peer = port ? net_peer(net, at, port) : NULL;
		const struct net_port *p;

		/* Ways are shorter than that; an adapter sends nothing on. */
		if (!peer || ret->hops == UINT8_MAX ||
		    (ret->hops && !net->nodes[at]->shown.is_switch))
			return -ENETUNREACH;
		p = net_port(net, at, port);
		ret->mtu_code = min_of(ret->mtu_code, p->info.mtu_cap);
		ret->mtu_code = min_of(ret->mtu_code, peer->info.mtu_cap);
		least = slower(least, slower(rate_of(&p->info), rate_of(&peer->info)));
		ret->hops++;
		at = p->peer;
	}
	ret->rate_code = least->code;
	return 0;
}
