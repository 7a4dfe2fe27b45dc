/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The subnet management agent by itself: which way an SMP goes on, and what Get and Set do. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "subnet/agent.h"

static unsigned changes[8];
static int allocations, fails_at, made;

static void *hand_out(void *ctx, size_t len)
{
	void *p;

	(void)ctx;
	if (++made == fails_at)
		return NULL;
	p = calloc(1, len);
	assert_non_null(p);
	allocations++;
	return p;
}

static void take_back(void *ctx, void *p)
{
	(void)ctx;
	assert_non_null(p);
	allocations--;
	free(p);
}

static void count_change(void *ctx, unsigned port)
{
	(void)ctx;
	changes[port]++;
}

static const struct agent_ops ops = {
	.alloc = hand_out,
	.free = take_back,
	.changed = count_change,
};

static const struct agent_nature switch_nature = {
	.is_switch = true,
	.ports = 4,
	.node_guid = 0xa000,
	.lanes = 4,
	.mtu_code = 5,
	.width_code = 2,
	.speed_code = 4,
	.lids = 200,
	.description = "four ports",
};

static const struct agent_nature adapter_nature = {
	.ports = 2,
	.node_guid = 0xb000,
	.lanes = 8,
	.mtu_code = 4,
	.width_code = 2,
	.speed_ext_code = 2,
};

/* All links are up. */
static struct agent *make(const struct agent_nature *nature)
{
	struct agent *a;

	assert_int_equal(agent_create(&a, nature, &ops, NULL), 0);
	for (unsigned p = 1; p <= nature->ports; p++)
		agent_link(a, p, true);
	memset(changes, 0, sizeof(changes));
	return a;
}

static int take(struct agent *a, struct smp *s, unsigned port)
{
	uint8_t mad[MAD_LEN];
	int to;

	smp_encode(s, mad);
	to = agent_take(a, mad, port);
	assert_int_equal(smp_decode(s, mad), 0);
	return to;
}

/* A Get that has come to its second and last hop. */
static struct smp arriving(uint16_t attr_id, uint32_t attr_mod)
{
	return (struct smp){
		.mgmt_class = SMP_CLASS_DR,
		.class_version = SMP_CLASS_VERSION,
		.method = MAD_GET,
		.hop_ptr = 2,
		.hop_count = 2,
		.tid = 77,
		.attr_id = attr_id,
		.attr_mod = attr_mod,
		.dr_slid = LID_PERMISSIVE,
		.dr_dlid = LID_PERMISSIVE,
		.initial_path = {0, 1, 3},
		.return_path = {0, 9},
	};
}

static enum mad_status ask(struct agent *a, struct smp *s, unsigned port)
{
	assert_int_equal(take(a, s, port), port);
	assert_int_equal(s->method, MAD_GET_RESP);
	assert_int_equal(s->tid, 77);
	return s->status;
}

static enum mad_status get(struct agent *a, uint16_t attr_id, uint32_t attr_mod, struct smp *ret)
{
	*ret = arriving(attr_id, attr_mod);
	return ask(a, ret, 1);
}

static enum mad_status set(struct agent *a, struct smp *s)
{
	s->method = MAD_SET;
	s->hop_ptr = 2;
	s->returning = false;
	s->status = 0;
	return ask(a, s, 1);
}

static struct smp_port_info port_info(struct agent *a, unsigned port)
{
	struct smp_port_info p;
	struct smp s;

	assert_int_equal(get(a, SMP_PORT_INFO, port, &s), MAD_OK);
	smp_port_info_unpack(&p, s.data);
	return p;
}

/* What a manager sets that wants no more than one change. */
static enum mad_status set_port(struct agent *a, unsigned port, struct smp_port_info p)
{
	struct smp s = arriving(SMP_PORT_INFO, port);

	smp_port_info_pack(&p, s.data);
	return set(a, &s);
}

static struct smp_port_info same(struct agent *a, unsigned port)
{
	struct smp_port_info p = port_info(a, port);

	p.state = SMP_PORT_NOP;
	p.phys_state = SMP_PHYS_NOP;
	if (!p.lid)
		p.lid = 5;
	return p;
}

static enum mad_status set_state(struct agent *a, unsigned port, uint8_t state)
{
	struct smp_port_info p = same(a, port);

	p.state = state;
	return set_port(a, port, p);
}

/* ---- ways (14.2.2) ------------------------------------------------------------------------------
 */

static void an_smp_leaves_its_managers_node_by_the_first_port(void **state)
{
	struct agent *a = make(&adapter_nature);
	struct smp s = arriving(SMP_NODE_INFO, 0);

	(void)state;
	s.hop_ptr = 0;
	s.initial_path[1] = 2;
	assert_int_equal(take(a, &s, 0), 2);
	assert_int_equal(s.hop_ptr, 1);
	assert_false(s.returning);
	/* Not if it has been on its way already, or there is no such port, or no link. */
	assert_int_equal(take(a, &s, 0), AGENT_DROPS);
	s.hop_ptr = 0;
	s.initial_path[1] = 0;
	assert_int_equal(take(a, &s, 0), AGENT_DROPS);
	s.initial_path[1] = 3;
	assert_int_equal(take(a, &s, 0), AGENT_DROPS);
	s.initial_path[1] = 2;
	agent_link(a, 2, false);
	assert_int_equal(take(a, &s, 0), AGENT_DROPS);
	agent_destroy(a);
}

static void without_hops_the_own_node_answers(void **state)
{
	struct agent *a = make(&adapter_nature);
	struct smp s = arriving(SMP_NODE_INFO, 0);
	struct smp_node_info n;

	(void)state;
	s.hop_ptr = s.hop_count = 0;
	assert_int_equal(take(a, &s, 0), 0);
	assert_true(s.returning);
	assert_int_equal(s.hop_ptr, 0);
	smp_node_info_unpack(&n, s.data);
	assert_int_equal(n.node_guid, 0xb000);
	assert_int_equal(n.local_port, 1);
	assert_int_equal(n.port_guid, 0xb001);
	/* From elsewhere it would have begun at a LID. */
	s.method = MAD_GET;
	s.returning = false;
	assert_int_equal(take(a, &s, 1), AGENT_DROPS);
	agent_destroy(a);
}

static void a_switch_passes_on_and_writes_down_whence(void **state)
{
	struct agent *a = make(&switch_nature);
	struct smp s = arriving(SMP_NODE_INFO, 0);

	(void)state;
	s.hop_ptr = 1;
	assert_int_equal(take(a, &s, 4), 3);
	assert_int_equal(s.hop_ptr, 2);
	assert_int_equal(s.return_path[1], 4);
	assert_int_equal(s.method, MAD_GET);
	/* Its own ports are no way out, nor are those that are not there. */
	s.hop_ptr = 1;
	s.initial_path[2] = 0;
	assert_int_equal(take(a, &s, 4), AGENT_DROPS);
	s.initial_path[2] = 5;
	assert_int_equal(take(a, &s, 4), AGENT_DROPS);
	agent_destroy(a);
}

static void an_adapter_passes_nothing_on(void **state)
{
	struct agent *a = make(&adapter_nature);
	struct smp s = arriving(SMP_NODE_INFO, 0);

	(void)state;
	s.hop_ptr = 1;
	s.initial_path[2] = 2;
	assert_int_equal(take(a, &s, 1), AGENT_DROPS);
	s.returning = true;
	s.hop_ptr = 2;
	s.return_path[1] = 2;
	assert_int_equal(take(a, &s, 1), AGENT_DROPS);
	agent_destroy(a);
}

static void at_its_end_it_turns_round(void **state)
{
	struct agent *a = make(&switch_nature);
	struct smp s = arriving(SMP_NODE_DESCRIPTION, 0);

	(void)state;
	assert_int_equal(take(a, &s, 3), 3);
	assert_int_equal(s.method, MAD_GET_RESP);
	assert_int_equal(s.status, MAD_OK);
	assert_true(s.returning);
	assert_int_equal(s.hop_ptr, 2);
	assert_int_equal(s.return_path[2], 3);
	assert_int_equal(s.return_path[1], 9);
	assert_string_equal((const char *)s.data, "four ports");
	agent_destroy(a);
}

static void an_answer_goes_back_by_the_ports_written_down(void **state)
{
	struct agent *a = make(&switch_nature);
	struct smp s = arriving(SMP_NODE_INFO, 0);

	(void)state;
	s.method = MAD_GET_RESP;
	s.returning = true;
	s.return_path[1] = 4;
	assert_int_equal(take(a, &s, 3), 4);
	assert_int_equal(s.hop_ptr, 1);
	/* And is at home at the last. */
	assert_int_equal(take(a, &s, 3), 0);
	assert_int_equal(s.hop_ptr, 0);
	assert_int_equal(take(a, &s, 3), AGENT_DROPS);
	s.hop_ptr = 3;
	assert_int_equal(take(a, &s, 3), AGENT_DROPS);
	/* A request does not come home, and nothing does that would end at a LID. */
	s.hop_ptr = 1;
	s.method = MAD_GET;
	assert_int_equal(take(a, &s, 3), AGENT_DROPS);
	s.hop_ptr = 1;
	s.method = MAD_GET_RESP;
	s.dr_slid = 7;
	assert_int_equal(take(a, &s, 3), AGENT_DROPS);
	agent_destroy(a);
}

static void pointers_out_of_range_are_dropped(void **state)
{
	struct agent *a = make(&switch_nature);

	(void)state;
	for (unsigned ptr = 0; ptr < 256; ptr++)
		for (unsigned count = 0; count < 256; count++) {
			struct smp s = arriving(SMP_NODE_INFO, 0);
			bool passes = ptr >= 1 && ptr < count && count <= SMP_HOPS_MAX;
			bool ends = ptr >= 1 && ptr == count && count <= SMP_HOPS_MAX;

			s.hop_ptr = (uint8_t)ptr;
			s.hop_count = (uint8_t)count;
			memset(s.initial_path, 2, sizeof(s.initial_path));
			assert_int_equal(take(a, &s, 1), passes ? 2 : ends ? 1 : AGENT_DROPS);
		}
	agent_destroy(a);
}

static void what_begins_or_ends_at_a_lid_is_dropped(void **state)
{
	struct agent *a = make(&switch_nature);
	struct smp s = arriving(SMP_NODE_INFO, 0);

	(void)state;
	s.dr_dlid = 4;
	assert_int_equal(take(a, &s, 1), AGENT_DROPS);
	s = arriving(SMP_NODE_INFO, 0);
	s.dr_slid = 4;
	assert_int_equal(take(a, &s, 1), AGENT_DROPS);
	agent_destroy(a);
}

static void what_is_routed_by_lid_is_answered_or_handed_up(void **state)
{
	struct agent *a = make(&adapter_nature);
	struct smp s = arriving(SMP_PORT_INFO, 0);
	struct smp_port_info p;

	(void)state;
	s.mgmt_class = SMP_CLASS_LID;
	assert_int_equal(take(a, &s, 2), 2);
	assert_int_equal(s.method, MAD_GET_RESP);
	smp_port_info_unpack(&p, s.data);
	assert_int_equal(p.local_port, 2);
	assert_int_equal(take(a, &s, 2), 0);
	s.method = MAD_TRAP;
	assert_int_equal(take(a, &s, 2), 0);
	s.method = MAD_TRAP_REPRESS;
	assert_int_equal(take(a, &s, 2), AGENT_DROPS);
	agent_destroy(a);
}

static void other_packets_are_dropped(void **state)
{
	struct agent *a = make(&adapter_nature);
	uint8_t mad[MAD_LEN] = {0};

	(void)state;
	assert_int_equal(agent_take(a, mad, 1), AGENT_DROPS);
	mad[0] = 1;
	mad[1] = 7;
	assert_int_equal(agent_take(a, mad, 1), AGENT_DROPS);
	mad[1] = SMP_CLASS_LID;
	assert_int_equal(agent_take(a, mad, 3), AGENT_DROPS); /* no such port */
	agent_destroy(a);
}

/* ---- what it is ---------------------------------------------------------------------------------
 */

static void a_node_says_what_it_is(void **state)
{
	struct agent *sw = make(&switch_nature), *adapter = make(&adapter_nature);
	struct smp_guid_block guids;
	struct smp_switch_info i;
	struct smp_node_info n;
	struct smp s;

	(void)state;
	assert_int_equal(get(sw, SMP_NODE_INFO, 0, &s), MAD_OK);
	smp_node_info_unpack(&n, s.data);
	assert_int_equal(n.node_type, SMP_NODE_SWITCH);
	assert_int_equal(n.ports, 4);
	assert_int_equal(n.node_guid, 0xa000);
	assert_int_equal(n.port_guid, 0xa000);
	assert_int_equal(n.local_port, 1);
	assert_int_equal(get(sw, SMP_SWITCH_INFO, 0, &s), MAD_OK);
	smp_switch_info_unpack(&i, s.data);
	assert_int_equal(i.linear_cap, 200);
	assert_true(i.port_state_change);

	assert_int_equal(get(adapter, SMP_NODE_INFO, 0, &s), MAD_OK);
	smp_node_info_unpack(&n, s.data);
	assert_int_equal(n.node_type, SMP_NODE_ADAPTER);
	assert_int_equal(n.ports, 2);
	assert_int_equal(n.port_guid, 0xb001);
	assert_int_equal(get(adapter, SMP_GUID_INFO, 0, &s), MAD_OK);
	smp_guid_block_unpack(&guids, s.data);
	assert_int_equal(guids.guid[0], 0xb001);
	assert_int_equal(guids.guid[1], 0);
	assert_int_equal(get(adapter, SMP_GUID_INFO, 1, &s), MAD_BAD_FIELD);
	assert_int_equal(get(adapter, SMP_SWITCH_INFO, 0, &s), MAD_BAD_ATTRIBUTE);
	assert_int_equal(get(adapter, SMP_LINEAR_FORWARDING, 0, &s), MAD_BAD_ATTRIBUTE);
	agent_destroy(sw);
	agent_destroy(adapter);
}

static void a_port_says_what_it_can(void **state)
{
	struct agent *sw = make(&switch_nature), *adapter = make(&adapter_nature);
	struct smp_port_info p = port_info(sw, 3);
	struct smp s;

	(void)state;
	assert_int_equal(p.local_port, 1);
	assert_int_equal(p.state, SMP_PORT_INIT);
	assert_int_equal(p.phys_state, SMP_PHYS_LINK_UP);
	assert_int_equal(p.mtu_cap, 5);
	assert_int_equal(p.vl_cap, 3);
	assert_int_equal(p.width_active, 2);
	assert_int_equal(p.speed_active, 4);
	p = port_info(sw, 0);
	assert_int_equal(p.state, SMP_PORT_ACTIVE);
	p = port_info(adapter, 0); /* the one that it came by */
	assert_int_equal(p.vl_cap, 4);
	assert_int_equal(p.speed_ext_active, 2);
	assert_true(p.capability_mask & SMP_CAP_EXTENDED_SPEEDS);
	assert_int_equal(get(sw, SMP_PORT_INFO, 5, &s), MAD_BAD_FIELD);
	agent_destroy(sw);
	agent_destroy(adapter);
}

static void what_it_does_not_know_it_says(void **state)
{
	struct agent *a = make(&switch_nature);
	struct smp s;

	(void)state;
	assert_int_equal(get(a, 0x7777, 0, &s), MAD_BAD_ATTRIBUTE);
	assert_int_equal(get(a, SMP_SM_INFO, 0, &s), MAD_BAD_ATTRIBUTE);
	s = arriving(SMP_NODE_DESCRIPTION, 0);
	assert_int_equal(set(a, &s), MAD_BAD_ATTRIBUTE);
	s = arriving(SMP_NODE_INFO, 0);
	s.method = 0x03;
	assert_int_equal(ask(a, &s, 1), MAD_BAD_METHOD);
	s = arriving(SMP_NODE_INFO, 0);
	s.class_version = 2;
	assert_int_equal(ask(a, &s, 1), MAD_BAD_VERSION);
	agent_destroy(a);
}

/* ---- PortInfo -----------------------------------------------------------------------------------
 */

static void states_are_gone_through_one_by_one(void **state)
{
	/* Which of Down, Initialize, Armed and Active may be set where. */
	static const uint8_t order[] = {SMP_PORT_INIT, SMP_PORT_ARMED, SMP_PORT_ACTIVE};
	struct agent *a = make(&switch_nature);

	(void)state;
	for (unsigned at = 0; at < 3; at++) {
		assert_int_equal(agent_state(a, 2), order[at]);
		for (uint8_t to = SMP_PORT_INIT; to < 16; to++)
			if (at == 2 || to != order[at + 1]) {
				assert_int_equal(set_state(a, 2, to), MAD_BAD_FIELD);
				assert_int_equal(agent_state(a, 2), order[at]);
			}
		assert_int_equal(set_state(a, 2, SMP_PORT_NOP), MAD_OK);
		if (at < 2)
			assert_int_equal(set_state(a, 2, order[at + 1]), MAD_OK);
	}
	/* Down is where the link begins anew. */
	assert_int_equal(set_state(a, 2, SMP_PORT_DOWN), MAD_OK);
	assert_int_equal(agent_state(a, 2), SMP_PORT_INIT);
	agent_link(a, 2, false);
	assert_int_equal(agent_state(a, 2), SMP_PORT_DOWN);
	assert_int_equal(set_state(a, 2, SMP_PORT_ARMED), MAD_BAD_FIELD);
	agent_destroy(a);
}

static void a_port_can_be_disabled(void **state)
{
	struct agent *a = make(&switch_nature);
	struct smp_port_info p = same(a, 2);

	(void)state;
	p.phys_state = SMP_PHYS_DISABLED;
	assert_int_equal(set_port(a, 2, p), MAD_OK);
	assert_int_equal(agent_state(a, 2), SMP_PORT_DOWN);
	agent_link(a, 2, false);
	agent_link(a, 2, true);
	assert_int_equal(agent_state(a, 2), SMP_PORT_DOWN);
	p.phys_state = SMP_PHYS_POLLING;
	assert_int_equal(set_port(a, 2, p), MAD_OK);
	assert_int_equal(agent_state(a, 2), SMP_PORT_INIT);
	/* Not so a switch's own. */
	p = same(a, 0);
	p.phys_state = SMP_PHYS_DISABLED;
	assert_int_equal(set_port(a, 0, p), MAD_BAD_FIELD);
	agent_destroy(a);
}

/* A Set with one wrong value changes nothing at all. */
static void values_out_of_range_are_refused(void **state)
{
	struct agent *a = make(&adapter_nature);
	struct smp_port_info p, good = same(a, 1);

	(void)state;
	good.lid = 9;
	good.sm_lid = 1;
	good.neighbour_mtu = 4;
	good.operational_vls = 2;
	assert_int_equal(set_port(a, 1, good), MAD_OK);
	good.lid = 10;
#define REFUSED(member, value)                              \
	p = good;                                           \
	p.member = value;                                   \
	assert_int_equal(set_port(a, 1, p), MAD_BAD_FIELD); \
	assert_int_equal(agent_lid(a, 1), 9)
	REFUSED(lid, 0);
	REFUSED(lid, LID_UNICAST_MAX + 1);
	REFUSED(lid, LID_PERMISSIVE);
	REFUSED(sm_lid, LID_UNICAST_MAX + 1);
	REFUSED(neighbour_mtu, 0);
	REFUSED(neighbour_mtu, 5);
	REFUSED(operational_vls, 5);
	REFUSED(mkey, 1);
	REFUSED(mkey_protect, 1);
	REFUSED(lmc, 1);
	REFUSED(width_enabled, 1);
	REFUSED(speed_ext_enabled, 4);
	REFUSED(phys_state, SMP_PHYS_SLEEP);
	assert_int_equal(set_port(a, 1, good), MAD_OK);
	assert_int_equal(agent_lid(a, 1), 10);
	assert_int_equal(agent_lid(a, 2), 0);
	agent_destroy(a);
}

static void a_switch_has_one_lid(void **state)
{
	struct agent *a = make(&switch_nature);
	struct smp_port_info p = same(a, 0);

	(void)state;
	p.lid = 33;
	p.sm_lid = 2;
	assert_int_equal(set_port(a, 0, p), MAD_OK);
	assert_int_equal(changes[0], 1);
	for (unsigned port = 0; port <= 4; port++)
		assert_int_equal(agent_lid(a, port), 33);
	/* Those of its other ports are nobody's. */
	p = same(a, 1);
	p.lid = 0;
	p.hoq_life = 17;
	p.vl_high_limit = 4;
	p.operational_vls = 3;
	p.neighbour_mtu = 3;
	assert_int_equal(set_port(a, 1, p), MAD_OK);
	assert_int_equal(changes[1], 1);
	assert_int_equal(agent_lid(a, 1), 33);
	assert_int_equal(agent_hoq_life(a, 1), 17);
	assert_int_equal(agent_high_limit(a, 1), 4);
	assert_int_equal(agent_lanes(a, 1), 4);
	assert_int_equal(agent_mtu_code(a, 1), 3);
	/* 0 leaves how many lanes work. */
	p.operational_vls = 0;
	assert_int_equal(set_port(a, 1, p), MAD_OK);
	assert_int_equal(agent_lanes(a, 1), 4);
	agent_destroy(a);
}

/* ---- tables -------------------------------------------------------------------------------------
 */

static void a_forwarding_table_counts_to_its_top(void **state)
{
	struct agent *a = make(&switch_nature);
	struct smp_switch_info i = {.linear_top = 199};
	struct smp s = arriving(SMP_LINEAR_FORWARDING, 1);

	(void)state;
	memset(s.data, 255, sizeof(s.data));
	s.data[0] = 2; /* LID 64 */
	s.data[1] = 0;
	s.data[2] = 5; /* no such port */
	assert_int_equal(set(a, &s), MAD_OK);
	assert_int_equal(agent_forward(a, 64), AGENT_NO_PORT); /* the top is 0 still */
	s = arriving(SMP_SWITCH_INFO, 0);
	smp_switch_info_pack(&i, s.data);
	assert_int_equal(set(a, &s), MAD_OK);
	assert_int_equal(agent_forward(a, 64), 2);
	assert_int_equal(agent_forward(a, 65), 0);
	assert_int_equal(agent_forward(a, 66), AGENT_NO_PORT);
	assert_int_equal(agent_forward(a, 67), AGENT_NO_PORT);
	assert_int_equal(agent_forward(a, 0), AGENT_NO_PORT);
	assert_int_equal(agent_forward(a, 200), AGENT_NO_PORT);
	assert_int_equal(agent_forward(a, LID_PERMISSIVE), AGENT_NO_PORT);
	i.linear_top = 200;
	smp_switch_info_pack(&i, s.data);
	assert_int_equal(set(a, &s), MAD_BAD_FIELD);
	/* Its last block is not whole. */
	s = arriving(SMP_LINEAR_FORWARDING, 3);
	memset(s.data, 1, sizeof(s.data));
	assert_int_equal(set(a, &s), MAD_OK);
	assert_int_equal(agent_forward(a, 199), 1);
	assert_int_equal(get(a, SMP_LINEAR_FORWARDING, 3, &s), MAD_OK);
	assert_int_equal(s.data[7], 1);
	assert_int_equal(s.data[8], 255);
	assert_int_equal(get(a, SMP_LINEAR_FORWARDING, 4, &s), MAD_BAD_FIELD);
	assert_int_equal(get(a, SMP_LINEAR_FORWARDING, UINT32_MAX, &s), MAD_BAD_FIELD);
	agent_destroy(a);
}

static void lanes_are_of_pairs_of_ports(void **state)
{
	struct agent *a = make(&switch_nature);
	struct smp_sl_to_vl t = {{0, 1, 2, 3, 0, 1, 2, 3, 15, 7}};
	struct smp_port_info p;
	struct smp s = arriving(SMP_SL_TO_VL, 1 << 8 | 2);

	(void)state;
	smp_sl_to_vl_pack(&t, s.data);
	assert_int_equal(set(a, &s), MAD_OK);
	assert_int_equal(changes[2], 1);
	/* Only lanes that work are lanes. */
	assert_int_equal(agent_lane(a, 1, 2, 0), 0);
	assert_int_equal(agent_lane(a, 1, 2, 1), 15);
	p = same(a, 2);
	p.operational_vls = 3;
	assert_int_equal(set_port(a, 2, p), MAD_OK);
	assert_int_equal(agent_lane(a, 1, 2, 1), 1);
	assert_int_equal(agent_lane(a, 1, 2, 7), 3);
	assert_int_equal(agent_lane(a, 1, 2, 8), 15);
	assert_int_equal(agent_lane(a, 1, 2, 9), 15);
	assert_int_equal(agent_lane(a, 2, 2, 1), 0);
	assert_int_equal(agent_lane(a, 1, 3, 1), 0);
	s = arriving(SMP_SL_TO_VL, SMP_ALL_IN | 2);
	smp_sl_to_vl_pack(&t, s.data);
	assert_int_equal(set(a, &s), MAD_OK);
	for (unsigned in = 0; in <= 4; in++)
		assert_int_equal(agent_lane(a, in, 2, 3), 3);
	assert_int_equal(get(a, SMP_SL_TO_VL, 4 << 8 | 2, &s), MAD_OK);
	assert_int_equal(s.data[0], 0x01);
	assert_int_equal(get(a, SMP_SL_TO_VL, 4 << 8 | 1, &s), MAD_OK);
	assert_int_equal(s.data[0], 0);
	s = arriving(SMP_SL_TO_VL, SMP_ALL_IN | SMP_ALL_OUT);
	smp_sl_to_vl_pack(&t, s.data);
	assert_int_equal(set(a, &s), MAD_OK);
	assert_int_equal(get(a, SMP_SL_TO_VL, 4 << 8 | 1, &s), MAD_OK);
	assert_int_equal(s.data[0], 0x01);
	assert_int_equal(get(a, SMP_SL_TO_VL, 5 << 8 | 1, &s), MAD_BAD_FIELD);
	assert_int_equal(get(a, SMP_SL_TO_VL, 1 << 8 | 5, &s), MAD_BAD_FIELD);
	assert_int_equal(get(a, SMP_SL_TO_VL, 1 << 18, &s), MAD_BAD_FIELD);
	agent_destroy(a);
}

static void an_adapters_tables_are_of_the_port_they_come_by(void **state)
{
	struct agent *a = make(&adapter_nature);
	struct smp_vl_arbitration turns = {.lane = {1, 0}, .weight = {2, 3}, .n = 2};
	struct smp_sl_to_vl t = {{0, 0, 0}};
	struct smp s = arriving(SMP_SL_TO_VL, 0);

	(void)state;
	t.vl[5] = 6;
	smp_sl_to_vl_pack(&t, s.data);
	s.method = MAD_SET;
	assert_int_equal(ask(a, &s, 2), MAD_OK);
	assert_int_equal(changes[2], 1);
	assert_int_equal(agent_lane(a, 0, 2, 5), 15); /* not a lane yet */
	assert_int_equal(agent_lane(a, 0, 1, 5), 0);
	s = arriving(SMP_VL_ARBITRATION, SMP_VL_HIGH_FIRST << 16);
	s.method = MAD_SET;
	smp_vl_arbitration_pack(&turns, false, s.data);
	assert_int_equal(ask(a, &s, 2), MAD_OK);
	assert_int_equal(agent_arbitration(a, 2, true)->n, 2);
	assert_int_equal(agent_arbitration(a, 1, true)->n, 0);
	agent_destroy(a);
}

static void turns_are_of_four_blocks(void **state)
{
	struct agent *a = make(&switch_nature);
	struct smp_vl_arbitration t = {.n = 64}, back = {0};
	struct smp s;

	(void)state;
	for (unsigned i = 0; i < 64; i++) {
		t.lane[i] = i % 4;
		t.weight[i] = (uint8_t)(i + 1);
	}
	for (uint32_t block = SMP_VL_LOW_FIRST; block <= SMP_VL_HIGH_SECOND; block++) {
		s = arriving(SMP_VL_ARBITRATION, block << 16 | 3);
		smp_vl_arbitration_pack(&t, block % 2 == 0, s.data);
		assert_int_equal(set(a, &s), MAD_OK);
	}
	assert_memory_equal(agent_arbitration(a, 3, false), &t, sizeof(t));
	assert_memory_equal(agent_arbitration(a, 3, true), &t, sizeof(t));
	assert_int_equal(agent_arbitration(a, 2, true)->n, 0);
	assert_int_equal(get(a, SMP_VL_ARBITRATION, SMP_VL_HIGH_SECOND << 16 | 3, &s), MAD_OK);
	smp_vl_arbitration_unpack(&back, true, s.data);
	assert_int_equal(back.weight[63], 64);
	assert_int_equal(get(a, SMP_VL_ARBITRATION, 0 << 16 | 3, &s), MAD_BAD_FIELD);
	assert_int_equal(get(a, SMP_VL_ARBITRATION, 5 << 16 | 3, &s), MAD_BAD_FIELD);
	assert_int_equal(get(a, SMP_VL_ARBITRATION, 1 << 16 | 5, &s), MAD_BAD_FIELD);
	agent_destroy(a);
}

static void the_default_partition_is_there(void **state)
{
	struct agent *a = make(&switch_nature);
	struct smp_pkey_block t;
	struct smp s;

	(void)state;
	assert_int_equal(get(a, SMP_PKEY_TABLE, 2 << 16, &s), MAD_OK);
	smp_pkey_block_unpack(&t, s.data);
	assert_int_equal(t.pkey[0], 0xffff);
	assert_int_equal(t.pkey[1], 0);
	assert_int_equal(set(a, &s), MAD_OK);
	assert_int_equal(get(a, SMP_PKEY_TABLE, 2 << 16 | 1, &s), MAD_BAD_FIELD);
	assert_int_equal(get(a, SMP_PKEY_TABLE, 5 << 16, &s), MAD_BAD_FIELD);
	agent_destroy(a);
}

/* ---- news ---------------------------------------------------------------------------------------
 */

static void a_change_is_told_until_it_was_heard(void **state)
{
	struct agent *a = make(&switch_nature);
	struct smp_switch_info i;
	struct smp_notice n;
	struct smp_port_info p;
	struct smp s;
	uint8_t mad[MAD_LEN];
	uint16_t dlid;

	(void)state;
	assert_false(agent_trap(a, mad, &dlid)); /* who would be told? */
	p = same(a, 0);
	p.lid = 12;
	p.sm_lid = 3;
	assert_int_equal(set_port(a, 0, p), MAD_OK);
	assert_true(agent_trap(a, mad, &dlid));
	/* Setting the bit clears it; what is set by the manager is no change. */
	assert_int_equal(get(a, SMP_SWITCH_INFO, 0, &s), MAD_OK);
	assert_int_equal(set(a, &s), MAD_OK);
	smp_switch_info_unpack(&i, s.data);
	assert_false(i.port_state_change);
	assert_int_equal(set_state(a, 4, SMP_PORT_ARMED), MAD_OK);
	assert_false(agent_trap(a, mad, &dlid));

	agent_link(a, 4, false);
	agent_link(a, 4, false);
	assert_int_equal(get(a, SMP_SWITCH_INFO, 0, &s), MAD_OK);
	smp_switch_info_unpack(&i, s.data);
	assert_true(i.port_state_change);
	for (int again = 0; again < 2; again++) {
		assert_true(agent_trap(a, mad, &dlid));
		assert_int_equal(dlid, 3);
		assert_int_equal(smp_decode(&s, mad), 0);
		assert_int_equal(s.mgmt_class, SMP_CLASS_LID);
		assert_int_equal(s.method, MAD_TRAP);
		assert_int_equal(s.attr_id, SMP_NOTICE);
		smp_notice_unpack(&n, s.data);
		assert_true(n.generic);
		assert_int_equal(n.trap, SMP_TRAP_LINK_STATE);
		assert_int_equal(n.issuer_lid, 12);
		assert_int_equal(n.details[1], 12);
	}
	s.method = MAD_TRAP_REPRESS;
	s.tid--; /* of an older one */
	assert_int_equal(take(a, &s, 2), AGENT_DROPS);
	assert_true(agent_trap(a, mad, &dlid));
	s.tid++;
	assert_int_equal(take(a, &s, 2), AGENT_DROPS);
	assert_false(agent_trap(a, mad, &dlid));
	agent_destroy(a);
}

/* ---- edges --------------------------------------------------------------------------------------
 */

static void natures_that_cannot_be_are_refused(void **state)
{
	struct agent_nature n;
	struct agent *a;

	(void)state;
#define REFUSED_NATURE(member, value) \
	n = switch_nature;            \
	n.member = value;             \
	assert_int_equal(agent_create(&a, &n, &ops, NULL), -EINVAL)
	REFUSED_NATURE(ports, 0);
	REFUSED_NATURE(ports, AGENT_PORTS_MAX + 1);
	REFUSED_NATURE(node_guid, 0);
	REFUSED_NATURE(lanes, 3);
	REFUSED_NATURE(lanes, 15);
	REFUSED_NATURE(mtu_code, 0);
	REFUSED_NATURE(mtu_code, 6);
	REFUSED_NATURE(lids, LID_UNICAST_MAX + 2);
	agent_destroy(NULL);
}

static void without_memory_there_is_none(void **state)
{
	struct agent *a;
	int rc = -ENOMEM;

	(void)state;
	for (fails_at = 1; rc == -ENOMEM; fails_at++) {
		made = 0;
		rc = agent_create(&a, &switch_nature, &ops, NULL);
		assert_int_equal(allocations, rc ? 0 : 4);
	}
	assert_int_equal(rc, 0);
	fails_at = 0;
	agent_destroy(a);
	assert_int_equal(allocations, 0);
}

/* Any bytes, at any port: an answer or nothing, and never out of the node's ports. */
static void no_bytes_harm_it(void **state)
{
	uint64_t rnd = 7;

	(void)state;
	for (int round = 0; round < 40; round++) {
		const struct agent_nature *n = round % 2 ? &switch_nature : &adapter_nature;
		struct agent *a = make(n);

		for (int i = 0; i < 2000; i++) {
			uint8_t mad[MAD_LEN];
			int to;

			for (unsigned k = 0; k < MAD_LEN; k++) {
				rnd = rnd * 6364136223846793005 + 1442695040888963407;
				mad[k] = (uint8_t)(rnd >> 56);
			}
			mad[0] = 1;
			mad[1] = mad[1] & 1 ? SMP_CLASS_DR : SMP_CLASS_LID;
			mad[2] = 1;
			mad[3] &= 3;
			mad[6] &= 3;
			mad[7] &= 3;
			mad[16] = 0;
			mad[17] = 0x10 + mad[17] % 10;
			mad[20] &= 1;
			mad[21] &= 7;
			mad[22] &= 7;
			mad[23] &= 7;
			memset(mad + 32, 0xff, 4);
			to = agent_take(a, mad, mad[100] % 6);
			assert_in_range(to + 1, 0, n->ports + 1);
			for (unsigned p = n->is_switch ? 0 : 1; p <= n->ports; p++) {
				assert_in_range(agent_lanes(a, p), 1, n->lanes);
				assert_in_range(agent_lane(a, 0, p, mad[101] % 16), 0, 15);
				assert_in_range(agent_arbitration(a, p, true)->n, 0, 64);
			}
		}
		agent_destroy(a);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_smp_leaves_its_managers_node_by_the_first_port),
		cmocka_unit_test(without_hops_the_own_node_answers),
		cmocka_unit_test(a_switch_passes_on_and_writes_down_whence),
		cmocka_unit_test(an_adapter_passes_nothing_on),
		cmocka_unit_test(at_its_end_it_turns_round),
		cmocka_unit_test(an_answer_goes_back_by_the_ports_written_down),
		cmocka_unit_test(pointers_out_of_range_are_dropped),
		cmocka_unit_test(what_begins_or_ends_at_a_lid_is_dropped),
		cmocka_unit_test(what_is_routed_by_lid_is_answered_or_handed_up),
		cmocka_unit_test(other_packets_are_dropped),
		cmocka_unit_test(a_node_says_what_it_is),
		cmocka_unit_test(a_port_says_what_it_can),
		cmocka_unit_test(what_it_does_not_know_it_says),
		cmocka_unit_test(states_are_gone_through_one_by_one),
		cmocka_unit_test(a_port_can_be_disabled),
		cmocka_unit_test(values_out_of_range_are_refused),
		cmocka_unit_test(a_switch_has_one_lid),
		cmocka_unit_test(a_forwarding_table_counts_to_its_top),
		cmocka_unit_test(lanes_are_of_pairs_of_ports),
		cmocka_unit_test(an_adapters_tables_are_of_the_port_they_come_by),
		cmocka_unit_test(turns_are_of_four_blocks),
		cmocka_unit_test(the_default_partition_is_there),
		cmocka_unit_test(a_change_is_told_until_it_was_heard),
		cmocka_unit_test(natures_that_cannot_be_are_refused),
		cmocka_unit_test(without_memory_there_is_none),
		cmocka_unit_test(no_bytes_harm_it),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
