/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The codec of SMPs. The golden bytes were made by libibmad of rdma-core 44 (mad_encode() and
 * mad_set_field(), each field with a value of its own); what stands behind them is zero.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "wire/smp.h"

static const uint8_t golden_directed[] = {
	0x01, 0x81, 0x01, 0x02, 0x80, 0x1c, 0x02, 0x03, 0x00, 0x00, 0x00, 0x00, 0x12, 0x34, 0x56,
	0x78, 0x00, 0x17, 0x00, 0x00, 0x0a, 0x0b, 0x0c, 0x0d, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33,
	0x22, 0x11, 0xff, 0xff, 0xff, 0xff, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x00, 0x01, 0x04, 0x07, 0x0a, 0x0d, 0x10, 0x13, 0x16, 0x19, 0x1c, 0x1f,
	0x22, 0x25, 0x28, 0x2b, 0x2e, 0x31, 0x34, 0x37, 0x3a, 0x3d, 0x40, 0x43, 0x46, 0x49, 0x4c,
	0x4f, 0x52, 0x55, 0x58, 0x5b, 0x5e, 0x61, 0x64, 0x67, 0x6a, 0x6d, 0x70, 0x73, 0x76, 0x79,
	0x7c, 0x7f, 0x82, 0x85, 0x88, 0x8b, 0x8e, 0x91, 0x94, 0x97, 0x9a, 0x9d, 0xa0, 0xa3, 0xa6,
	0xa9, 0xac, 0xaf, 0xb2, 0xb5, 0xb8, 0xbb, 0xbe, 0x00, 0x01, 0x11, 0xfe, 0x00, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x05, 0x06,
};

static const uint8_t golden_port_info[] = {
	0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0xfe, 0x80, 0x00, 0x00, 0x00,
	0x00, 0x00, 0x01, 0x12, 0x34, 0x23, 0x45, 0x02, 0x51, 0x48, 0x68, 0x34, 0x56,
	0x45, 0x67, 0x07, 0x03, 0x1b, 0x02, 0x74, 0x52, 0x85, 0x43, 0x59, 0x4a, 0x5a,
	0x40, 0x20, 0x64, 0xb2, 0x39, 0x11, 0x11, 0x22, 0x22, 0x33, 0x33, 0x08, 0xd1,
	0x10, 0x87, 0x67, 0x89, 0x00, 0xab, 0xcd, 0xef, 0x78, 0x9a, 0x47, 0x16,
};

static const uint8_t golden_node_info[] = {
	0x01, 0x01, 0x02, 0x24, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x22, 0x33,
	0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa,
	0x00, 0x80, 0x10, 0x03, 0xa1, 0xb2, 0xc3, 0xd4, 0x09, 0x2c, 0x9f, 0x1e,
};

static const uint8_t golden_switch_info[] = {
	0xc0, 0x00, 0x01, 0x02, 0x10, 0x00, 0x03, 0x04, 0x0b, 0x0c,
	0x0d, 0x96, 0x05, 0x06, 0x00, 0x20, 0x68, 0x00, 0xc1, 0x23,
};

static const uint8_t golden_notice[] = {
	0x81, 0x00, 0x00, 0x02, 0x00, 0x80, 0x00, 0x77, 0x92, 0x34, 0x00, 0x77,
};

static const uint8_t golden_routed[] = {
	0x01, 0x01, 0x01, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x99, 0x00, 0x15, 0x00, 0x00, 0x00, 0x00, 0x00, 0x03,
};

/* The golden bytes with the zeros behind them. */
#define WHOLE(name, len, golden) \
	uint8_t name[len] = {0}; \
	memcpy(name, golden, sizeof(golden))

static void a_directed_packet_is_as_libibmad_has_it(void **state)
{
	uint8_t again[MAD_LEN];
	struct smp s;

	(void)state;
	WHOLE(mad, MAD_LEN, golden_directed);
	assert_int_equal(smp_decode(&s, mad), 0);
	assert_int_equal(s.mgmt_class, SMP_CLASS_DR);
	assert_int_equal(s.class_version, SMP_CLASS_VERSION);
	assert_int_equal(s.method, MAD_SET);
	assert_true(s.returning);
	assert_int_equal(s.status, MAD_BAD_FIELD);
	assert_int_equal(s.hop_ptr, 2);
	assert_int_equal(s.hop_count, 3);
	assert_int_equal(s.tid, 0x12345678);
	assert_int_equal(s.attr_id, SMP_SL_TO_VL);
	assert_int_equal(s.attr_mod, 0x0a0b0c0d);
	assert_int_equal(s.mkey, 0x8877665544332211);
	assert_int_equal(s.dr_slid, LID_PERMISSIVE);
	assert_int_equal(s.dr_dlid, LID_PERMISSIVE);
	for (unsigned i = 0; i < SMP_DATA_LEN; i++)
		assert_int_equal(s.data[i], (uint8_t)(i * 3 + 1));
	assert_memory_equal(s.initial_path, "\0\1\x11\xfe", 5);
	assert_memory_equal(s.return_path, "\0\5\6", 4);
	smp_encode(&s, again);
	assert_memory_equal(again, mad, MAD_LEN);
}

static void a_packet_routed_by_lid_has_no_hops(void **state)
{
	uint8_t again[MAD_LEN];
	struct smp s;

	(void)state;
	WHOLE(mad, MAD_LEN, golden_routed);
	assert_int_equal(smp_decode(&s, mad), 0);
	assert_int_equal(s.mgmt_class, SMP_CLASS_LID);
	assert_int_equal(s.method, MAD_GET);
	assert_int_equal(s.tid, 0x99);
	assert_int_equal(s.attr_id, SMP_PORT_INFO);
	assert_int_equal(s.attr_mod, 3);
	smp_encode(&s, again);
	assert_memory_equal(again, mad, MAD_LEN);
	/* What is reserved is not read, and not written. */
	mad[6] = 5;
	mad[7] = 6;
	mad[4] = 0x80;
	mad[33] = 7;
	mad[130] = 8;
	mad[200] = 9;
	assert_int_equal(smp_decode(&s, mad), 0);
	assert_false(s.returning);
	assert_int_equal(s.status, 0);
	assert_int_equal(s.hop_ptr, 0);
	assert_int_equal(s.hop_count, 0);
	smp_encode(&s, again);
	memset(mad, 0, sizeof(mad));
	memcpy(mad, golden_routed, sizeof(golden_routed));
	assert_memory_equal(again, mad, MAD_LEN);
}

static void other_classes_and_versions_are_no_smp(void **state)
{
	struct smp s;

	(void)state;
	WHOLE(mad, MAD_LEN, golden_directed);
	mad[1] = 0x07;
	assert_int_equal(smp_decode(&s, mad), -EBADMSG);
	mad[1] = SMP_CLASS_LID;
	assert_int_equal(smp_decode(&s, mad), 0);
	mad[0] = 2;
	assert_int_equal(smp_decode(&s, mad), -EBADMSG);
}

static void port_info_is_as_libibmad_has_it(void **state)
{
	uint8_t again[SMP_DATA_LEN];
	struct smp_port_info p;

	(void)state;
	smp_port_info_unpack(&p, golden_port_info);
	assert_int_equal(p.mkey, 0x0102030405060708);
	assert_int_equal(p.gid_prefix, 0xfe80000000000001);
	assert_int_equal(p.lid, 0x1234);
	assert_int_equal(p.sm_lid, 0x2345);
	assert_int_equal(p.capability_mask, 0x02514868);
	assert_int_equal(p.diag_code, 0x3456);
	assert_int_equal(p.mkey_lease_period, 0x4567);
	assert_int_equal(p.local_port, 7);
	assert_int_equal(p.width_enabled, 3);
	assert_int_equal(p.width_supported, 0x1b);
	assert_int_equal(p.width_active, 2);
	assert_int_equal(p.speed_supported, 7);
	assert_int_equal(p.state, SMP_PORT_ACTIVE);
	assert_int_equal(p.phys_state, SMP_PHYS_LINK_UP);
	assert_int_equal(p.link_down_default, 2);
	assert_int_equal(p.mkey_protect, 2);
	assert_int_equal(p.lmc, 5);
	assert_int_equal(p.speed_active, 4);
	assert_int_equal(p.speed_enabled, 3);
	assert_int_equal(p.neighbour_mtu, 5);
	assert_int_equal(p.sm_sl, 9);
	assert_int_equal(p.vl_cap, 4);
	assert_int_equal(p.init_type, 10);
	assert_int_equal(p.vl_high_limit, 0x5a);
	assert_int_equal(p.vl_arbitration_high_cap, 64);
	assert_int_equal(p.vl_arbitration_low_cap, 32);
	assert_int_equal(p.init_type_reply, 6);
	assert_int_equal(p.mtu_cap, 4);
	assert_int_equal(p.vl_stall_count, 5);
	assert_int_equal(p.hoq_life, 18);
	assert_int_equal(p.operational_vls, 3);
	assert_true(p.filters.pkeys_in && !p.filters.pkeys_out);
	assert_true(!p.filters.raw_in && p.filters.raw_out);
	assert_int_equal(p.mkey_violations, 0x1111);
	assert_int_equal(p.pkey_violations, 0x2222);
	assert_int_equal(p.qkey_violations, 0x3333);
	assert_int_equal(p.guid_cap, 8);
	assert_true(p.client_reregister);
	assert_int_equal(p.multicast_pkey_trap_suppression, 2);
	assert_int_equal(p.subnet_timeout, 17);
	assert_int_equal(p.response_time, 16);
	assert_int_equal(p.local_phy_errors, 8);
	assert_int_equal(p.overrun_errors, 7);
	assert_int_equal(p.max_credit_hint, 0x6789);
	assert_int_equal(p.round_trip_latency, 0xabcdef);
	assert_int_equal(p.capability_mask2, 0x789a);
	assert_int_equal(p.speed_ext_active, 4);
	assert_int_equal(p.speed_ext_supported, 7);
	assert_int_equal(p.speed_ext_enabled, 0x16);
	smp_port_info_pack(&p, again);
	assert_memory_equal(again, golden_port_info, SMP_DATA_LEN);
}

static void node_info_is_as_libibmad_has_it(void **state)
{
	uint8_t again[SMP_DATA_LEN];
	struct smp_node_info n;

	(void)state;
	WHOLE(data, SMP_DATA_LEN, golden_node_info);
	smp_node_info_unpack(&n, data);
	assert_int_equal(n.base_version, 1);
	assert_int_equal(n.class_version, 1);
	assert_int_equal(n.node_type, SMP_NODE_SWITCH);
	assert_int_equal(n.ports, 36);
	assert_int_equal(n.system_guid, 0x1122334455667788);
	assert_int_equal(n.node_guid, 0x2233445566778899);
	assert_int_equal(n.port_guid, 0x33445566778899aa);
	assert_int_equal(n.partition_cap, 128);
	assert_int_equal(n.device_id, 0x1003);
	assert_int_equal(n.revision, 0xa1b2c3d4);
	assert_int_equal(n.local_port, 9);
	assert_int_equal(n.vendor_id, 0x2c9f1e);
	smp_node_info_pack(&n, again);
	assert_memory_equal(again, data, SMP_DATA_LEN);
}

static void switch_info_is_as_libibmad_has_it(void **state)
{
	uint8_t again[SMP_DATA_LEN];
	struct smp_switch_info s;

	(void)state;
	WHOLE(data, SMP_DATA_LEN, golden_switch_info);
	smp_switch_info_unpack(&s, data);
	assert_int_equal(s.linear_cap, 0xc000);
	assert_int_equal(s.random_cap, 0x0102);
	assert_int_equal(s.multicast_cap, 0x1000);
	assert_int_equal(s.linear_top, 0x0304);
	assert_int_equal(s.default_port, 11);
	assert_int_equal(s.default_multicast_port, 12);
	assert_int_equal(s.default_multicast_not_primary, 13);
	assert_int_equal(s.life_time, 18);
	assert_true(s.port_state_change);
	assert_int_equal(s.optimized_sl_to_vl, 2);
	assert_int_equal(s.lids_per_port, 0x0506);
	assert_int_equal(s.partition_enforcement_cap, 32);
	assert_true(!s.filters.pkeys_in && s.filters.pkeys_out);
	assert_true(s.filters.raw_in && !s.filters.raw_out);
	assert_true(s.enhanced_port0);
	assert_int_equal(s.multicast_top, 0xc123);
	smp_switch_info_pack(&s, again);
	assert_memory_equal(again, data, SMP_DATA_LEN);
}

static void a_notice_is_as_libibmad_has_it(void **state)
{
	uint8_t again[SMP_DATA_LEN];
	struct smp_notice n;

	(void)state;
	WHOLE(data, SMP_DATA_LEN, golden_notice);
	smp_notice_unpack(&n, data);
	assert_true(n.generic);
	assert_int_equal(n.type, 1);
	assert_int_equal(n.producer, SMP_NODE_SWITCH);
	assert_int_equal(n.trap, SMP_TRAP_LINK_STATE);
	assert_int_equal(n.issuer_lid, 0x77);
	assert_true(n.toggle);
	assert_int_equal(n.count, 0x1234);
	assert_int_equal(n.details[0] << 8 | n.details[1], 0x77);
	smp_notice_pack(&n, again);
	assert_memory_equal(again, data, SMP_DATA_LEN);
}

static void service_levels_are_in_halves_of_bytes_the_even_one_first(void **state)
{
	struct smp_sl_to_vl t = {{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 0}}, again;
	uint8_t data[SMP_DATA_LEN];

	(void)state;
	smp_sl_to_vl_pack(&t, data);
	assert_memory_equal(data, "\x12\x34\x56\x78\x9a\xbc\xde\xf0\0", 9);
	smp_sl_to_vl_unpack(&again, data);
	assert_memory_equal(&t, &again, sizeof(t));
}

static void turns_are_lane_and_weight_in_blocks_of_32(void **state)
{
	struct smp_vl_arbitration t = {.n = 33}, again = {0};
	uint8_t first[SMP_DATA_LEN], second[SMP_DATA_LEN];

	(void)state;
	for (unsigned i = 0; i < 33; i++) {
		t.lane[i] = i % 8;
		t.weight[i] = (uint8_t)(i + 1);
	}
	smp_vl_arbitration_pack(&t, false, first);
	smp_vl_arbitration_pack(&t, true, second);
	assert_memory_equal(first, "\0\1\1\2\2\3", 6);
	assert_int_equal(first[63], 32);
	assert_memory_equal(second, "\0\x21\0\0", 4);
	smp_vl_arbitration_unpack(&again, true, second);
	assert_int_equal(again.n, 33);
	smp_vl_arbitration_unpack(&again, false, first);
	assert_memory_equal(&t, &again, sizeof(t));
	/* The number of entries follows what has a weight. */
	memset(second, 0, sizeof(second));
	smp_vl_arbitration_unpack(&again, true, second);
	assert_int_equal(again.n, 32);
	memset(first + 4, 0, sizeof(first) - 4);
	smp_vl_arbitration_unpack(&again, false, first);
	assert_int_equal(again.n, 2);
}

static void keys_and_guids_are_big_endian(void **state)
{
	uint8_t data[SMP_DATA_LEN], again[SMP_DATA_LEN];
	struct smp_pkey_block pkeys;
	struct smp_guid_block guids;

	(void)state;
	for (unsigned i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)i;
	smp_pkey_block_unpack(&pkeys, data);
	assert_int_equal(pkeys.pkey[1], 0x0203);
	smp_pkey_block_pack(&pkeys, again);
	assert_memory_equal(again, data, sizeof(data));
	smp_guid_block_unpack(&guids, data);
	assert_int_equal(guids.guid[7], 0x38393a3b3c3d3e3f);
	smp_guid_block_pack(&guids, again);
	assert_memory_equal(again, data, sizeof(data));
}

static void lanes_have_codes(void **state)
{
	static const unsigned lanes[] = {0, 1, 2, 4, 8, 15};

	(void)state;
	for (uint8_t vls = 0; vls < 6; vls++) {
		assert_int_equal(smp_lanes_of_vls(vls), lanes[vls]);
		assert_int_equal(smp_vls_of_lanes(lanes[vls]), vls);
	}
	assert_int_equal(smp_lanes_of_vls(6), 0);
	assert_int_equal(smp_vls_of_lanes(3), 0);
}

/* Whatever the bytes are: what is read of them and written is read the same again. */
static void any_bytes_can_be_read(void **state)
{
	uint64_t rnd = 1;
	uint8_t mad[MAD_LEN], once[MAD_LEN], twice[MAD_LEN];
	struct smp_port_info p;
	struct smp s;

	(void)state;
	for (int round = 0; round < 2000; round++) {
		for (unsigned i = 0; i < MAD_LEN; i++) {
			rnd = rnd * 6364136223846793005 + 1442695040888963407;
			mad[i] = (uint8_t)(rnd >> 56);
		}
		mad[0] = MAD_BASE_VERSION;
		mad[1] = round % 2 ? SMP_CLASS_DR : SMP_CLASS_LID;
		assert_int_equal(smp_decode(&s, mad), 0);
		smp_encode(&s, once);
		assert_int_equal(smp_decode(&s, once), 0);
		smp_encode(&s, twice);
		assert_memory_equal(once, twice, MAD_LEN);
		smp_port_info_unpack(&p, mad);
		smp_port_info_pack(&p, once);
		smp_port_info_unpack(&p, once);
		smp_port_info_pack(&p, twice);
		assert_memory_equal(once, twice, SMP_DATA_LEN);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_directed_packet_is_as_libibmad_has_it),
		cmocka_unit_test(a_packet_routed_by_lid_has_no_hops),
		cmocka_unit_test(other_classes_and_versions_are_no_smp),
		cmocka_unit_test(port_info_is_as_libibmad_has_it),
		cmocka_unit_test(node_info_is_as_libibmad_has_it),
		cmocka_unit_test(switch_info_is_as_libibmad_has_it),
		cmocka_unit_test(a_notice_is_as_libibmad_has_it),
		cmocka_unit_test(service_levels_are_in_halves_of_bytes_the_even_one_first),
		cmocka_unit_test(turns_are_lane_and_weight_in_blocks_of_32),
		cmocka_unit_test(keys_and_guids_are_big_endian),
		cmocka_unit_test(lanes_have_codes),
		cmocka_unit_test(any_bytes_can_be_read),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
