/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What is there: NodeInfo behind each port that is not down, breadth first, and of each new node
 * what it says of itself. All of it is believed only so far: numbers out of range, GUIDs of zero
 * and links that contradict others are counted as bad, and what said so is left out.
 */
#include "subnet/manager_priv.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

/* ---- asking -------------------------------------------------------------------------------- */

bool discover_ask(struct subnet_manager *m, const struct work *w, struct smp *s)
{
	struct smp_switch_info info;

	s->method = MAD_GET;
	switch ((enum work_kind)w->kind) {
	case WORK_PROBE:
		s->attr_id = SMP_NODE_INFO;
		/* It may be known meanwhile, from the other end. */
		return w->node == NET_NO_NODE ||
		       net_port(m->net, w->node, w->port)->peer == NET_NO_NODE;
	case WORK_DESCRIPTION:
		s->attr_id = SMP_NODE_DESCRIPTION;
		return true;
	case WORK_SWITCH_INFO:
		s->attr_id = SMP_SWITCH_INFO;
		return true;
	case WORK_CLEAR_CHANGE:
		s->attr_id = SMP_SWITCH_INFO;
		s->method = MAD_SET;
		info = m->net->nodes[w->node]->switch_info;
		info.port_state_change = true;
		smp_switch_info_pack(&info, s->data);
		return true;
	case WORK_PORT_INFO:
		s->attr_id = SMP_PORT_INFO;
		s->attr_mod = w->port;
		return true;
	default:
		assert(!"work of discovery");
		return false;
	}
}

/* ---- answers ------------------------------------------------------------------------------- */

static void bad(struct subnet_manager *m, const char *why)
{
	m->counters.bad++;
	subnet_fault(m, -EPROTO, why);
}

static bool node_info_is_good(const struct smp_node_info *n, bool own)
{
	if (!n->node_guid || !n->port_guid || !n->ports || n->ports == 255 ||
	    n->local_port > n->ports)
		return false;
	switch (n->node_type) {
	case SMP_NODE_SWITCH:
		return own || n->local_port;
	case SMP_NODE_ADAPTER:
	case SMP_NODE_ROUTER:
		return n->local_port;
	default:
		return false;
	}
}

/* Of a node that is known: is this what it is known as? */
static bool is_same(const struct net_node *node, const struct smp_node_info *n)
{
	return node->shown.is_switch == (n->node_type == SMP_NODE_SWITCH) &&
	       node->shown.ports == n->ports && node->shown.guid == n->node_guid &&
	       (node->shown.is_switch || node->shown.port == n->local_port);
}

static void want_ports(struct subnet_manager *m, uint16_t node)
{
	const struct net_node *n = m->net->nodes[node];

	for (unsigned port = n->shown.port; port <= net_last_port(n); port++)
		subnet_want(m, WORK_PORT_INFO, node, (uint8_t)port, 0);
}

/* Its number, or NET_NO_NODE. */
static uint16_t add_node(struct subnet_manager *m, const struct work *w,
			 const struct smp_node_info *n)
{
	int node = net_add(m->net, n, w->node, w->port);

	if (node < 0) {
		subnet_fault(m, node, node == -ENOMEM ? "out of memory" : "too many nodes");
		return NET_NO_NODE;
	}
	subnet_want(m, WORK_DESCRIPTION, (uint16_t)node, 0, 0);
	if (n->node_type == SMP_NODE_SWITCH)
		subnet_want(m, WORK_SWITCH_INFO, (uint16_t)node, 0, 0);
	else
		want_ports(m, (uint16_t)node);
	return (uint16_t)node;
}

static void told_node_info(struct subnet_manager *m, const struct work *w, const struct smp *s)
{
	struct smp_node_info n;
	uint16_t node;

	smp_node_info_unpack(&n, s->data);
	if (!node_info_is_good(&n, w->node == NET_NO_NODE)) {
		bad(m, "a node tells nonsense of itself");
		return;
	}
	node = net_find(m->net, &n);
	if (node == NET_NO_NODE) {
		node = add_node(m, w, &n);
	} else if (!is_same(m->net->nodes[node], &n)) {
		bad(m, "two nodes have the same GUID");
		return;
	}
	if (node != NET_NO_NODE && w->node != NET_NO_NODE &&
	    !net_connect(m->net, w->node, w->port, node, n.local_port))
		bad(m, "two links lead to the same port");
}

static void told_switch_info(struct subnet_manager *m, const struct work *w, const struct smp *s)
{
	struct smp_switch_info *info = &m->net->nodes[w->node]->switch_info;

	smp_switch_info_unpack(info, s->data);
	if (!info->linear_cap)
		bad(m, "a switch has no forwarding table");
	info->linear_cap = min_of(info->linear_cap, (uint16_t)(LID_UNICAST_MAX + 1));
	if (w->kind == WORK_SWITCH_INFO && info->port_state_change)
		subnet_want(m, WORK_CLEAR_CHANGE, w->node, 0, 0);
	else
		want_ports(m, w->node);
}

static bool port_info_is_good(const struct smp_port_info *p)
{
	return p->state >= SMP_PORT_DOWN && p->state <= SMP_PORT_ACTIVE && p->mtu_cap >= 1 &&
	       p->mtu_cap <= 5 && smp_lanes_of_vls(p->vl_cap);
}

static void told_port_info(struct subnet_manager *m, const struct work *w, const struct smp *s)
{
	const struct net_node *node = m->net->nodes[w->node];
	struct net_port *p = net_port(m->net, w->node, w->port);
	struct smp_port_info info;

	smp_port_info_unpack(&info, s->data);
	if (!port_info_is_good(&info)) {
		bad(m, "a port tells nonsense of itself");
		return;
	}
	p->info = info;
	p->is_known = true;
	/* An adapter passes nothing on; from the manager's own the way begins. */
	if (p->info.state == SMP_PORT_DOWN || p->peer != NET_NO_NODE || !w->port ||
	    (!node->shown.is_switch && node->depth))
		return;
	if (node->depth == SMP_HOPS_MAX)
		subnet_fault(m, -ENODEV, "a node is too many hops away");
	else
		subnet_want(m, WORK_PROBE, w->node, w->port, 0);
}

void discover_told(struct subnet_manager *m, const struct work *w, const struct smp *s)
{
	if (s->status) {
		m->counters.bad++;
		discover_silent(m, w);
		return;
	}
	switch ((enum work_kind)w->kind) {
	case WORK_PROBE:
		told_node_info(m, w, s);
		break;
	case WORK_DESCRIPTION:
		memcpy(m->net->nodes[w->node]->shown.description, s->data, sizeof(s->data));
		break;
	case WORK_SWITCH_INFO:
	case WORK_CLEAR_CHANGE:
		told_switch_info(m, w, s);
		break;
	case WORK_PORT_INFO:
		told_port_info(m, w, s);
		break;
	default:
		assert(!"work of discovery");
	}
}

void discover_silent(struct subnet_manager *m, const struct work *w)
{
	switch ((enum work_kind)w->kind) {
	case WORK_PROBE:
		subnet_fault(m, -ENODEV,
			     w->node == NET_NO_NODE ? "the manager's own node does not answer"
						    : "nobody answers behind a port that is up");
		break;
	case WORK_CLEAR_CHANGE: /* its ports can be read all the same */
		want_ports(m, w->node);
		break;
	case WORK_DESCRIPTION:
		break;
	default:
		subnet_fault(m, -ENODEV, "a node does not answer");
	}
}
