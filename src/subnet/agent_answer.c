/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What Get and Set do, attribute by attribute (IBTA vol. 1, 14.2.5). A Set takes all of what it
 * says or nothing; its answer tells how things stand afterwards, in either case.
 */
#include "subnet/agent_priv.h"

#include <string.h>

/* Which port an attribute is about that says it in the modifier. A switch has it there; an adapter
 * means the one that the SMP came by. */
static struct agent_port *port_meant(struct agent *a, unsigned said, unsigned came_by)
{
	if (!a->nature.is_switch)
		said = came_by;
	return said <= a->nature.ports ? &a->ports[said] : NULL;
}

static enum mad_status node_info(struct agent *a, struct smp *s, unsigned port)
{
	uint64_t guid = a->nature.node_guid;
	struct smp_node_info n = {
		.base_version = MAD_BASE_VERSION,
		.class_version = SMP_CLASS_VERSION,
		.node_type = a->nature.is_switch ? SMP_NODE_SWITCH : SMP_NODE_ADAPTER,
		.ports = (uint8_t)a->nature.ports,
		.system_guid = guid,
		.node_guid = guid,
		.port_guid = a->nature.is_switch ? guid : guid + port,
		.partition_cap = ARRAY_SIZE(a->ports->pkeys.pkey),
		.local_port = (uint8_t)port,
	};

	smp_node_info_pack(&n, s->data);
	return MAD_OK;
}

static enum mad_status switch_info(struct agent *a, struct smp *s)
{
	struct smp_switch_info *mine = &a->switch_info, set;
	enum mad_status status = MAD_OK;

	if (s->method == MAD_SET) {
		smp_switch_info_unpack(&set, s->data);
		if (set.linear_top >= mine->linear_cap || set.life_time > 31) {
			status = MAD_BAD_FIELD;
		} else {
			mine->linear_top = set.linear_top;
			mine->default_port = set.default_port;
			mine->default_multicast_port = set.default_multicast_port;
			mine->default_multicast_not_primary = set.default_multicast_not_primary;
			mine->life_time = set.life_time;
			if (set.port_state_change)
				mine->port_state_change = a->has_news = false;
			agent_say_changed(a, 0);
		}
	}
	smp_switch_info_pack(mine, s->data);
	return status;
}

/* ---- PortInfo ------------------------------------------------------------------------------ */

static bool is_lid(uint16_t lid)
{
	return lid >= 1 && lid <= LID_UNICAST_MAX;
}

static bool is_mask_of(uint8_t mask, uint8_t all, uint8_t supported)
{
	return mask == 0 || mask == all || !(mask & ~supported);
}

/* Initialize, Armed and Active are gone through one by one; Down is where any can be sent. */
static bool is_step(uint8_t from, uint8_t to)
{
	switch (to) {
	case SMP_PORT_NOP:
	case SMP_PORT_DOWN:
		return true;
	case SMP_PORT_ARMED:
		return from == SMP_PORT_INIT;
	case SMP_PORT_ACTIVE:
		return from == SMP_PORT_ARMED;
	default:
		return false;
	}
}

static bool port_info_is_good(const struct smp_port_info *mine, const struct smp_port_info *set,
			      bool has_lid, bool has_link)
{
	if (set->mkey || set->mkey_protect || set->lmc)
		return false;
	if (has_lid && (!is_lid(set->lid) || (set->sm_lid && !is_lid(set->sm_lid))))
		return false;
	if (has_link ? !is_step(mine->state, set->state) : set->state || set->phys_state)
		return false;
	if (set->phys_state != SMP_PHYS_NOP && set->phys_state != SMP_PHYS_POLLING &&
	    set->phys_state != SMP_PHYS_DISABLED)
		return false;
	return set->neighbour_mtu >= 1 && set->neighbour_mtu <= mine->mtu_cap &&
	       set->operational_vls <= mine->vl_cap &&
	       is_mask_of(set->width_enabled, 255, mine->width_supported) &&
	       is_mask_of(set->speed_enabled, 15, mine->speed_supported) &&
	       is_mask_of(set->speed_ext_enabled, 31, mine->speed_ext_supported);
}

/* 0 leaves what is enabled, all ones are what is supported. */
static void enable(uint8_t *enabled, uint8_t set, uint8_t all, uint8_t supported)
{
	if (set)
		*enabled = set == all ? supported : set;
}

static void port_state_set(struct agent_port *p, uint8_t state, uint8_t phys_state)
{
	if (phys_state != SMP_PHYS_NOP) {
		p->info.phys_state = phys_state;
		agent_restart_port(p);
	} else if (state == SMP_PORT_DOWN) {
		agent_restart_port(p);
	} else if (state != SMP_PORT_NOP) {
		p->info.state = state;
	}
}

static void port_info_set(struct agent_port *p, const struct smp_port_info *set, bool has_lid)
{
	struct smp_port_info *mine = &p->info;

	if (has_lid) {
		mine->lid = set->lid;
		mine->sm_lid = set->sm_lid;
		mine->gid_prefix = set->gid_prefix;
		mine->sm_sl = set->sm_sl;
		mine->subnet_timeout = set->subnet_timeout;
	}
	enable(&mine->width_enabled, set->width_enabled, 255, mine->width_supported);
	enable(&mine->speed_enabled, set->speed_enabled, 15, mine->speed_supported);
	enable(&mine->speed_ext_enabled, set->speed_ext_enabled, 31, mine->speed_ext_supported);
	if (set->link_down_default)
		mine->link_down_default = set->link_down_default;
	mine->neighbour_mtu = set->neighbour_mtu;
	mine->vl_high_limit = set->vl_high_limit;
	mine->vl_stall_count = set->vl_stall_count;
	mine->hoq_life = set->hoq_life;
	if (set->operational_vls)
		mine->operational_vls = set->operational_vls;
	mine->filters = set->filters;
	mine->local_phy_errors = set->local_phy_errors;
	mine->overrun_errors = set->overrun_errors;
	port_state_set(p, set->state, set->phys_state);
}

static enum mad_status port_info(struct agent *a, struct smp *s, unsigned came_by)
{
	unsigned port = s->attr_mod & 0xff; /* above: how speeds are meant */
	bool is_switch = a->nature.is_switch;
	struct smp_port_info set, told;
	enum mad_status status = MAD_OK;

	if (!is_switch && !port)
		port = came_by;
	if (port > a->nature.ports)
		return MAD_BAD_FIELD;
	if (s->method == MAD_SET) {
		bool has_lid = !is_switch || !port, has_link = !is_switch || port;

		smp_port_info_unpack(&set, s->data);
		if (port_info_is_good(&a->ports[port].info, &set, has_lid, has_link)) {
			port_info_set(&a->ports[port], &set, has_lid);
			agent_say_changed(a, port);
		} else {
			status = MAD_BAD_FIELD;
		}
	}
	told = a->ports[port].info;
	told.local_port = (uint8_t)came_by;
	smp_port_info_pack(&told, s->data);
	return status;
}

/* ---- tables -------------------------------------------------------------------------------- */

static enum mad_status guid_info(struct agent *a, struct smp *s, unsigned port)
{
	struct smp_guid_block block = {
		.guid = {a->nature.node_guid + (a->nature.is_switch ? 0 : port)},
	};

	if (s->attr_mod)
		return MAD_BAD_FIELD;
	smp_guid_block_pack(&block, s->data);
	return MAD_OK;
}

static enum mad_status pkey_table(struct agent *a, struct smp *s, unsigned came_by)
{
	struct agent_port *p = port_meant(a, s->attr_mod >> 16, came_by);

	if (!p || (s->attr_mod & 0xffff))
		return MAD_BAD_FIELD;
	if (s->method == MAD_SET)
		smp_pkey_block_unpack(&p->pkeys, s->data);
	smp_pkey_block_pack(&p->pkeys, s->data);
	return MAD_OK;
}

/* A switch's modifier names the pair of ports, and may mean all in or all out of it. */
static enum mad_status sl_to_vl(struct agent *a, struct smp *s, unsigned came_by)
{
	unsigned in = 0, out = came_by, in_end, out_end;
	struct smp_sl_to_vl *t;

	if (a->nature.is_switch) {
		in = (s->attr_mod & ~(SMP_ALL_IN | SMP_ALL_OUT)) >> 8;
		out = s->attr_mod & 0xff;
	}
	t = agent_sl_to_vl(a, in, out);
	if (!t)
		return MAD_BAD_FIELD;
	in_end = in + 1;
	out_end = out + 1;
	if (a->nature.is_switch && s->attr_mod & SMP_ALL_IN) {
		in = 0;
		in_end = a->nature.ports + 1;
	}
	if (a->nature.is_switch && s->attr_mod & SMP_ALL_OUT) {
		out = 0;
		out_end = a->nature.ports + 1;
	}
	for (unsigned o = out; s->method == MAD_SET && o < out_end; o++) {
		for (unsigned i = in; i < in_end; i++)
			smp_sl_to_vl_unpack(agent_sl_to_vl(a, i, o), s->data);
		agent_say_changed(a, o);
	}
	smp_sl_to_vl_pack(t, s->data);
	return MAD_OK;
}

static enum mad_status vl_arbitration(struct agent *a, struct smp *s, unsigned came_by)
{
	struct agent_port *p = port_meant(a, s->attr_mod & 0xffff, came_by);
	unsigned block = s->attr_mod >> 16;
	struct smp_vl_arbitration *t;
	bool second = block == SMP_VL_LOW_SECOND || block == SMP_VL_HIGH_SECOND;

	if (!p || block < SMP_VL_LOW_FIRST || block > SMP_VL_HIGH_SECOND)
		return MAD_BAD_FIELD;
	t = block >= SMP_VL_HIGH_FIRST ? &p->high : &p->low;
	if (s->method == MAD_SET) {
		smp_vl_arbitration_unpack(t, second, s->data);
		agent_say_changed(a, (unsigned)(p - a->ports));
	}
	smp_vl_arbitration_pack(t, second, s->data);
	return MAD_OK;
}

static enum mad_status linear_forwarding(struct agent *a, struct smp *s)
{
	unsigned cap = a->switch_info.linear_cap;
	uint64_t first = (uint64_t)s->attr_mod * SMP_DATA_LEN;
	size_t n;

	if (first >= cap)
		return MAD_BAD_FIELD;
	n = min_of(cap - (unsigned)first, (unsigned)SMP_DATA_LEN);
	if (s->method == MAD_SET) {
		memcpy(a->forward + first, s->data, n);
		agent_say_changed(a, 0);
	}
	memset(s->data, AGENT_NO_PORT, sizeof(s->data));
	memcpy(s->data, a->forward + first, n);
	return MAD_OK;
}

/* ---- any of them --------------------------------------------------------------------------- */

static enum mad_status do_get(struct agent *a, struct smp *s, unsigned port)
{
	switch (s->attr_id) {
	case SMP_NODE_DESCRIPTION:
		memcpy(s->data, a->description, sizeof(s->data));
		return MAD_OK;
	case SMP_NODE_INFO:
		return node_info(a, s, port);
	case SMP_GUID_INFO:
		return guid_info(a, s, port);
	default:
		return MAD_BAD_ATTRIBUTE;
	}
}

static enum mad_status do_get_or_set(struct agent *a, struct smp *s, unsigned port)
{
	switch (s->attr_id) {
	case SMP_PORT_INFO:
		return port_info(a, s, port);
	case SMP_PKEY_TABLE:
		return pkey_table(a, s, port);
	case SMP_SL_TO_VL:
		return sl_to_vl(a, s, port);
	case SMP_VL_ARBITRATION:
		return vl_arbitration(a, s, port);
	case SMP_SWITCH_INFO:
		return a->nature.is_switch ? switch_info(a, s) : MAD_BAD_ATTRIBUTE;
	case SMP_LINEAR_FORWARDING:
		return a->nature.is_switch ? linear_forwarding(a, s) : MAD_BAD_ATTRIBUTE;
	default:
		return s->method == MAD_GET ? do_get(a, s, port) : MAD_BAD_ATTRIBUTE;
	}
}

void agent_answer(struct agent *a, struct smp *s, unsigned port)
{
	enum mad_status status;

	/* An adapter's manager is at its first port. */
	if (!a->nature.is_switch && !port)
		port = 1;
	if (s->class_version != SMP_CLASS_VERSION)
		status = MAD_BAD_VERSION;
	else if (s->method != MAD_GET && s->method != MAD_SET)
		status = MAD_BAD_METHOD;
	else
		status = do_get_or_set(a, s, port);
	s->method = MAD_GET_RESP;
	s->status = status;
}
