/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What is set when all is known: tables of the switches first, then ports, and when these have
 * their LIDs and lanes, one state after the other. Only links are made active whose two ends have
 * answered.
 */
#include "subnet/manager_priv.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#define FROM_ALL UINT16_MAX /* of WORK_SET_LANES */

static struct net_node *node_of(const struct subnet_manager *m, const struct work *w)
{
	return m->net->nodes[w->node];
}

/* A switch's own port has no link. */
static bool is_inner(const struct net_node *node, unsigned port)
{
	return node->shown.is_switch && port == 0;
}

/* ---- what there is to do ------------------------------------------------------------------- */

static void want_switch(struct subnet_manager *m, uint16_t node)
{
	if (!m->net->nodes[node]->can_forward)
		return;
	subnet_want(m, WORK_SET_SWITCH, node, 0, 0);
	for (unsigned block = 0; block <= m->net->top_lid / NET_BLOCK_LIDS; block++)
		subnet_want(m, WORK_SET_BLOCK, node, 0, (uint16_t)block);
}

/* The entries that a table at this port is to have: what its lanes can use, as far as it has room.
 */
static void turns_of(const struct smp_vl_arbitration *config, unsigned lanes, unsigned room,
		     struct smp_vl_arbitration *ret)
{
	*ret = (struct smp_vl_arbitration){0};
	for (unsigned i = 0; i < config->n && ret->n < min_of(room, SMP_VL_ARBITRATION_MAX + 0u);
	     i++) {
		if (config->lane[i] >= lanes || !config->weight[i])
			continue;
		ret->lane[ret->n] = config->lane[i];
		ret->weight[ret->n++] = config->weight[i];
	}
}

static unsigned lanes_of(const struct subnet_manager *m, uint16_t node, unsigned port)
{
	const struct net_port *p = net_port(m->net, node, port);
	const struct net_port *peer = net_peer(m->net, node, port);
	unsigned lanes = min_of(m->config.lanes, smp_lanes_of_vls(p->info.vl_cap));

	return peer ? min_of(lanes, smp_lanes_of_vls(peer->info.vl_cap)) : lanes;
}

static void want_turns(struct subnet_manager *m, uint16_t node, uint8_t port)
{
	const struct smp_port_info *info = &net_port(m->net, node, port)->info;
	const unsigned room[] = {
		[SMP_VL_LOW_FIRST] = info->vl_arbitration_low_cap,
		[SMP_VL_LOW_SECOND] = info->vl_arbitration_low_cap,
		[SMP_VL_HIGH_FIRST] = info->vl_arbitration_high_cap,
		[SMP_VL_HIGH_SECOND] = info->vl_arbitration_high_cap,
	};

	if (smp_lanes_of_vls(info->vl_cap) == 1)
		return;
	for (uint16_t block = SMP_VL_LOW_FIRST; block <= SMP_VL_HIGH_SECOND; block++) {
		bool second = block == SMP_VL_LOW_SECOND || block == SMP_VL_HIGH_SECOND;

		if (room[block] > (second ? SMP_VL_ARBITRATION_BLOCK : 0))
			subnet_want(m, WORK_SET_TURNS, node, port, block);
	}
}

static void want_lanes(struct subnet_manager *m, uint16_t node)
{
	const struct net_node *n = m->net->nodes[node];

	if (!(n->ports[0].info.capability_mask & SMP_CAP_SL_MAPPING))
		return;
	if (!n->shown.is_switch) {
		subnet_want(m, WORK_SET_LANES, node, (uint8_t)n->shown.port, 0);
		return;
	}
	for (unsigned out = 1; out <= n->shown.ports; out++) {
		if (!net_peer(m->net, node, out))
			continue;
		if (n->switch_info.optimized_sl_to_vl) {
			subnet_want(m, WORK_SET_LANES, node, (uint8_t)out, FROM_ALL);
			continue;
		}
		for (unsigned in = 0; in <= n->shown.ports; in++)
			if (in != out && (!in || net_peer(m->net, node, in)))
				subnet_want(m, WORK_SET_LANES, node, (uint8_t)out, (uint16_t)in);
	}
}

static void want_ports(struct subnet_manager *m, uint16_t node)
{
	const struct net_node *n = m->net->nodes[node];

	for (unsigned port = n->shown.port; port <= net_last_port(n); port++) {
		if (!net_port(m->net, node, port)->is_known)
			continue;
		if (port != n->shown.port && !net_peer(m->net, node, port))
			continue;
		subnet_want(m, WORK_SET_PORT, node, (uint8_t)port, 0);
		if (!is_inner(n, port))
			want_turns(m, node, (uint8_t)port);
	}
	want_lanes(m, node);
}

static void want_state(struct subnet_manager *m, uint16_t node, enum work_kind kind,
		       enum smp_port_state from)
{
	const struct net_node *n = m->net->nodes[node];

	for (unsigned port = n->shown.port; port <= net_last_port(n); port++)
		if (!is_inner(n, port) && net_peer(m->net, node, port) &&
		    net_port(m->net, node, port)->info.state == from)
			subnet_want(m, kind, node, (uint8_t)port, 0);
}

void program_want(struct subnet_manager *m, uint16_t node)
{
	switch (m->stage) {
	case STAGE_SWITCHES:
		want_switch(m, node);
		break;
	case STAGE_PORTS:
		want_ports(m, node);
		break;
	case STAGE_ARM:
		want_state(m, node, WORK_SET_ARMED, SMP_PORT_INIT);
		break;
	case STAGE_ACTIVATE:
		want_state(m, node, WORK_SET_ACTIVE, SMP_PORT_ARMED);
		break;
	default: /* discovery finds its work by itself */
		break;
	}
}

/* ---- asking -------------------------------------------------------------------------------- */

static void ask_port(const struct subnet_manager *m, const struct work *w, struct smp *s)
{
	const struct net_node *node = node_of(m, w);
	const struct net_port *p = net_port(m->net, w->node, w->port);
	const struct net_port *peer = net_peer(m->net, w->node, w->port);
	struct smp_port_info info = p->info;

	info.mkey = 0;
	info.mkey_protect = 0;
	info.lmc = 0;
	if (w->port == node->shown.port) { /* the one that has a LID */
		info.lid = node->shown.lid;
		info.sm_lid = m->net->nodes[0]->shown.lid;
		info.sm_sl = 0;
	}
	info.state = SMP_PORT_NOP;
	if (w->kind == WORK_SET_ARMED)
		info.state = SMP_PORT_ARMED;
	else if (w->kind == WORK_SET_ACTIVE)
		info.state = SMP_PORT_ACTIVE;
	info.phys_state = SMP_PHYS_NOP;
	info.link_down_default = 0;
	info.width_enabled = 0;
	info.speed_enabled = 0;
	info.speed_ext_enabled = 0;
	info.client_reregister = false;
	info.neighbour_mtu = info.mtu_cap;
	if (peer)
		info.neighbour_mtu = min_of(info.mtu_cap, peer->info.mtu_cap);
	if (!is_inner(node, w->port)) {
		info.operational_vls = smp_vls_of_lanes(lanes_of(m, w->node, w->port));
		info.vl_high_limit = m->config.high_limit;
		if (node->shown.is_switch)
			info.hoq_life = m->config.hoq_life;
	}
	s->attr_id = SMP_PORT_INFO;
	s->attr_mod = w->port;
	smp_port_info_pack(&info, s->data);
}

static void ask_switch(const struct subnet_manager *m, const struct work *w, struct smp *s)
{
	struct smp_switch_info info = node_of(m, w)->switch_info;

	info.linear_top = m->net->top_lid;
	info.default_port = NET_NO_PORT;
	info.port_state_change = false;
	s->attr_id = SMP_SWITCH_INFO;
	smp_switch_info_pack(&info, s->data);
}

static void ask_lanes(const struct subnet_manager *m, const struct work *w, struct smp *s)
{
	const struct net_node *node = node_of(m, w);
	unsigned lanes = lanes_of(m, w->node, w->port);
	struct smp_sl_to_vl t;

	for (unsigned sl = 0; sl < ARRAY_SIZE(t.vl); sl++)
		t.vl[sl] = (uint8_t)(m->config.lane_of_sl[sl] % lanes);
	s->attr_id = SMP_SL_TO_VL;
	if (node->shown.is_switch)
		s->attr_mod = w->port | (w->more == FROM_ALL ? SMP_ALL_IN : (uint32_t)w->more << 8);
	smp_sl_to_vl_pack(&t, s->data);
}

static void ask_turns(const struct subnet_manager *m, const struct work *w, struct smp *s)
{
	const struct smp_port_info *info = &net_port(m->net, w->node, w->port)->info;
	unsigned lanes = lanes_of(m, w->node, w->port);
	struct smp_vl_arbitration t;

	if (w->more >= SMP_VL_HIGH_FIRST)
		turns_of(&m->config.high, lanes, info->vl_arbitration_high_cap, &t);
	else
		turns_of(&m->config.low, lanes, info->vl_arbitration_low_cap, &t);
	s->attr_id = SMP_VL_ARBITRATION;
	s->attr_mod = (uint32_t)w->more << 16 | w->port;
	smp_vl_arbitration_pack(&t, w->more == SMP_VL_LOW_SECOND || w->more == SMP_VL_HIGH_SECOND,
				s->data);
}

bool program_ask(struct subnet_manager *m, const struct work *w, struct smp *s)
{
	s->method = MAD_SET;
	switch ((enum work_kind)w->kind) {
	case WORK_SET_SWITCH:
		ask_switch(m, w, s);
		break;
	case WORK_SET_BLOCK:
		s->attr_id = SMP_LINEAR_FORWARDING;
		s->attr_mod = w->more;
		memcpy(s->data, node_of(m, w)->forward + (size_t)w->more * NET_BLOCK_LIDS,
		       NET_BLOCK_LIDS);
		break;
	case WORK_SET_PORT:
	case WORK_SET_ARMED:
	case WORK_SET_ACTIVE:
		ask_port(m, w, s);
		break;
	case WORK_SET_LANES:
		ask_lanes(m, w, s);
		break;
	case WORK_SET_TURNS:
		ask_turns(m, w, s);
		break;
	default:
		assert(!"work of setting");
	}
	return true;
}

/* ---- answers ------------------------------------------------------------------------------- */

/* Of a request that was sent twice the second may be refused: the step is made. What the port says
 * that it is counts. */
static void told_port(struct subnet_manager *m, const struct work *w, const struct smp *s)
{
	struct net_port *p = net_port(m->net, w->node, w->port);
	uint8_t least = w->kind == WORK_SET_ACTIVE  ? SMP_PORT_ACTIVE
			: w->kind == WORK_SET_ARMED ? SMP_PORT_ARMED
						    : SMP_PORT_NOP;
	struct smp_port_info info;

	smp_port_info_unpack(&info, s->data);
	if (info.state < SMP_PORT_DOWN || info.state > SMP_PORT_ACTIVE) {
		m->counters.bad++;
		subnet_fault(m, -EPROTO, "a port tells nonsense of itself");
		return;
	}
	p->info.state = info.state;
	if (info.state == SMP_PORT_DOWN && p->peer != NET_NO_NODE)
		subnet_fault(m, -ENODEV, "a link went down meanwhile");
	else if (info.state < least || (s->status && w->kind == WORK_SET_PORT))
		subnet_fault(m, -EIO, "a port would not be set");
}

void program_told(struct subnet_manager *m, const struct work *w, const struct smp *s)
{
	switch ((enum work_kind)w->kind) {
	case WORK_SET_PORT:
	case WORK_SET_ARMED:
	case WORK_SET_ACTIVE:
		told_port(m, w, s);
		break;
	default:
		if (s->status)
			subnet_fault(m, -EIO, "a table would not be set");
	}
}

void program_silent(struct subnet_manager *m, const struct work *w)
{
	(void)w;
	subnet_fault(m, -ENODEV, "a node does not answer any more");
}
