/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * An agent's life, its links, and what the network asks it: nothing here knows a packet but the
 * trap, which it makes.
 */
#include "subnet/agent_priv.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#define LANES_OF_NOTHING 15 /* VL15 carries management alone */

/* ---- life ---------------------------------------------------------------------------------- */

static bool is_possible(const struct agent_nature *n)
{
	return n->ports >= 1 && n->ports <= AGENT_PORTS_MAX && n->node_guid &&
	       smp_vls_of_lanes(n->lanes) && n->lanes <= 8 && n->mtu_code >= 1 &&
	       n->mtu_code <= 5 && n->lids <= LID_UNICAST_MAX + 1;
}

/* An entry is not there until it is set, and all traffic is in lane 0. */
static void port_begin(const struct agent *a, unsigned port)
{
	const struct agent_nature *n = &a->nature;
	bool is_port0 = n->is_switch && port == 0;
	struct agent_port *p = &a->ports[port];

	p->info = (struct smp_port_info){
		.gid_prefix = 0xfe80000000000000,
		.capability_mask = SMP_CAP_SL_MAPPING | (n->is_switch ? SMP_CAP_TRAP : 0) |
				   (n->speed_ext_code ? SMP_CAP_EXTENDED_SPEEDS : 0),
		.width_enabled = (uint8_t)n->width_code,
		.width_supported = (uint8_t)n->width_code,
		.width_active = (uint8_t)n->width_code,
		.speed_supported = (uint8_t)n->speed_code,
		.speed_active = (uint8_t)n->speed_code,
		.speed_enabled = (uint8_t)n->speed_code,
		.speed_ext_supported = (uint8_t)n->speed_ext_code,
		.speed_ext_active = (uint8_t)n->speed_ext_code,
		.speed_ext_enabled = (uint8_t)n->speed_ext_code,
		.state = is_port0 ? SMP_PORT_ACTIVE : SMP_PORT_DOWN,
		.phys_state = is_port0 ? SMP_PHYS_LINK_UP : SMP_PHYS_POLLING,
		.link_down_default = SMP_PHYS_POLLING,
		.neighbour_mtu = is_port0 ? (uint8_t)n->mtu_code : 1,
		.mtu_cap = (uint8_t)n->mtu_code,
		.vl_cap = smp_vls_of_lanes(n->lanes),
		.operational_vls = smp_vls_of_lanes(1),
		.vl_arbitration_high_cap = SMP_VL_ARBITRATION_MAX,
		.vl_arbitration_low_cap = SMP_VL_ARBITRATION_MAX,
		.hoq_life = 31,
		.vl_stall_count = 7,
		.guid_cap = 1,
		.response_time = 8,
	};
	p->low = (struct smp_vl_arbitration){.weight = {255}, .n = 1};
	p->pkeys.pkey[0] = 0xffff;
}

int agent_create(struct agent **ret, const struct agent_nature *nature, const struct agent_ops *ops,
		 void *ctx)
{
	struct agent *a;
	unsigned ports = nature->ports + 1;
	unsigned cap = nature->lids ? nature->lids : LID_UNICAST_MAX + 1;

	if (!is_possible(nature))
		return -EINVAL;
	a = ops->alloc(ctx, sizeof(*a));
	if (!a)
		return -ENOMEM;
	*a = (struct agent){.nature = *nature, .ops = *ops, .ctx = ctx};
	a->nature.description = NULL; /* its own copy lives on */
	if (nature->description)
		memcpy(a->description, nature->description,
		       strnlen(nature->description, sizeof(a->description)));
	a->ports = ops->alloc(ctx, ports * sizeof(*a->ports));
	a->lanes = ops->alloc(ctx, (nature->is_switch ? ports * ports : ports) * sizeof(*a->lanes));
	if (!a->ports || !a->lanes)
		goto no_memory;
	if (nature->is_switch) {
		a->forward = ops->alloc(ctx, cap);
		if (!a->forward)
			goto no_memory;
		memset(a->forward, AGENT_NO_PORT, cap);
		a->switch_info = (struct smp_switch_info){
			.linear_cap = (uint16_t)cap,
			.default_port = AGENT_NO_PORT,
			.life_time = 31,
			.optimized_sl_to_vl = 1,
			.partition_enforcement_cap = ARRAY_SIZE(a->ports->pkeys.pkey),
		};
	}
	for (unsigned port = nature->is_switch ? 0 : 1; port < ports; port++)
		port_begin(a, port);
	*ret = a;
	return 0;
no_memory:
	agent_destroy(a);
	return -ENOMEM;
}

void agent_destroy(struct agent *a)
{
	if (!a)
		return;
	if (a->forward)
		a->ops.free(a->ctx, a->forward);
	if (a->lanes)
		a->ops.free(a->ctx, a->lanes);
	if (a->ports)
		a->ops.free(a->ctx, a->ports);
	a->ops.free(a->ctx, a);
}

/* ---- links --------------------------------------------------------------------------------- */

static bool is_outer(const struct agent *a, unsigned port)
{
	return port >= 1 && port <= a->nature.ports;
}

/* A port that the manager gives a LID and tables: all, but for an adapter's 0. */
static const struct agent_port *port_of(const struct agent *a, unsigned port)
{
	assert(port <= a->nature.ports && (a->nature.is_switch || port));
	return &a->ports[port];
}

void agent_say_changed(const struct agent *a, unsigned port)
{
	if (a->ops.changed)
		a->ops.changed(a->ctx, port);
}

void agent_restart_port(struct agent_port *p)
{
	if (p->info.phys_state != SMP_PHYS_DISABLED)
		p->info.phys_state = p->linked ? SMP_PHYS_LINK_UP : SMP_PHYS_POLLING;
	p->info.state = p->info.phys_state == SMP_PHYS_LINK_UP ? SMP_PORT_INIT : SMP_PORT_DOWN;
}

void agent_link(struct agent *a, unsigned port, bool up)
{
	struct agent_port *p = &a->ports[port];

	assert(is_outer(a, port));
	if (p->linked == up)
		return;
	p->linked = up;
	agent_restart_port(p);
	if (a->nature.is_switch) {
		a->switch_info.port_state_change = true;
		a->has_news = true;
		a->trap_tid++;
	}
}

bool agent_trap(struct agent *a, uint8_t mad[MAD_LEN], uint16_t *ret_dlid)
{
	const struct smp_port_info *p = &a->ports[0].info;
	struct smp_notice n = {
		.generic = true,
		.type = 1,
		.producer = SMP_NODE_SWITCH,
		.trap = SMP_TRAP_LINK_STATE,
		.issuer_lid = p->lid,
		.details = {(uint8_t)(p->lid >> 8), (uint8_t)p->lid},
	};
	struct smp s = {
		.mgmt_class = SMP_CLASS_LID,
		.class_version = SMP_CLASS_VERSION,
		.method = MAD_TRAP,
		.tid = a->trap_tid,
		.attr_id = SMP_NOTICE,
	};

	if (!a->has_news || !p->lid || !p->sm_lid)
		return false;
	smp_notice_pack(&n, s.data);
	smp_encode(&s, mad);
	*ret_dlid = p->sm_lid;
	return true;
}

/* ---- what the network asks ----------------------------------------------------------------- */

uint16_t agent_lid(const struct agent *a, unsigned port)
{
	return port_of(a, a->nature.is_switch ? 0 : port)->info.lid;
}

enum smp_port_state agent_state(const struct agent *a, unsigned port)
{
	return (enum smp_port_state)port_of(a, port)->info.state;
}

uint8_t agent_mtu_code(const struct agent *a, unsigned port)
{
	return port_of(a, port)->info.neighbour_mtu;
}

unsigned agent_lanes(const struct agent *a, unsigned port)
{
	return smp_lanes_of_vls(port_of(a, port)->info.operational_vls);
}

unsigned agent_forward(const struct agent *a, uint16_t dlid)
{
	unsigned port;

	if (!a->forward || !dlid || dlid > a->switch_info.linear_top)
		return AGENT_NO_PORT;
	port = a->forward[dlid];
	return port <= a->nature.ports ? port : AGENT_NO_PORT;
}

struct smp_sl_to_vl *agent_sl_to_vl(const struct agent *a, unsigned in, unsigned out)
{
	if (in > a->nature.ports || out > a->nature.ports)
		return NULL;
	return &a->lanes[a->nature.is_switch ? in * (a->nature.ports + 1) + out : out];
}

unsigned agent_lane(const struct agent *a, unsigned in, unsigned out, unsigned sl)
{
	const struct smp_sl_to_vl *t = agent_sl_to_vl(a, in, out);

	assert(t && sl < ARRAY_SIZE(t->vl));
	return t->vl[sl] < agent_lanes(a, out) ? t->vl[sl] : LANES_OF_NOTHING;
}

const struct smp_vl_arbitration *agent_arbitration(const struct agent *a, unsigned port, bool high)
{
	const struct agent_port *p = port_of(a, port);

	return high ? &p->high : &p->low;
}

uint8_t agent_high_limit(const struct agent *a, unsigned port)
{
	return port_of(a, port)->info.vl_high_limit;
}

uint8_t agent_hoq_life(const struct agent *a, unsigned port)
{
	return port_of(a, port)->info.hoq_life;
}

uint8_t agent_stall_count(const struct agent *a, unsigned port)
{
	return port_of(a, port)->info.vl_stall_count;
}
