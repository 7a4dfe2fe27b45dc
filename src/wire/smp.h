/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Subnet management packets (IBTA vol. 1, 14.2): routed by LID or by the ports of their way, and
 * the attributes that they carry, as host-order structs with readers and writers. Bit layouts:
 * Debian's libopensm-dev, infiniband/iba/ib_types.h.
 *
 * Readers take what they are given: whether a value makes sense is their caller's to look at.
 * Reserved bits are written as zero and ignored when read.
 */
#ifndef WEFT_WIRE_SMP_H
#define WEFT_WIRE_SMP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "wire/mad.h"

#define SMP_CLASS_LID	  0x01
#define SMP_CLASS_DR	  0x81 /* directed route */
#define SMP_CLASS_VERSION 1

#define SMP_DATA_LEN	64
#define SMP_PATH_LEN	64 /* of which the first byte is not used */
#define SMP_HOPS_MAX	(SMP_PATH_LEN - 1)
#define LID_PERMISSIVE	0xffff
#define LID_UNICAST_MAX 0xbfff /* from 1 */

enum smp_attr_id {
	SMP_NOTICE = 0x02,
	SMP_NODE_DESCRIPTION = 0x10,
	SMP_NODE_INFO = 0x11,
	SMP_SWITCH_INFO = 0x12,
	SMP_GUID_INFO = 0x14,
	SMP_PORT_INFO = 0x15,
	SMP_PKEY_TABLE = 0x16,
	SMP_SL_TO_VL = 0x17,
	SMP_VL_ARBITRATION = 0x18,
	SMP_LINEAR_FORWARDING = 0x19,
	SMP_RANDOM_FORWARDING = 0x1a,
	SMP_MULTICAST_FORWARDING = 0x1b,
	SMP_SM_INFO = 0x20,
};

/*
 * The whole packet. Routed by LID it has no hops, no direction and no paths. A directed one counts
 * its hops from 1: initial_path[1] is the port by which it leaves the manager's node.
 */
struct smp {
	uint8_t mgmt_class, class_version, method;
	uint16_t status; /* enum mad_status; 15 bits */
	bool returning;	 /* the D bit */
	uint8_t hop_ptr, hop_count;
	uint64_t tid;
	uint16_t attr_id;
	uint32_t attr_mod;
	uint64_t mkey;
	uint16_t dr_slid, dr_dlid;
	uint8_t data[SMP_DATA_LEN];
	uint8_t initial_path[SMP_PATH_LEN], return_path[SMP_PATH_LEN];
};

/* -EBADMSG: no MAD of one of the two classes. Its class_version is whatever it says. */
int smp_decode(struct smp *, const uint8_t mad[MAD_LEN]) must_use;
void smp_encode(const struct smp *, uint8_t mad[MAD_LEN]);

/* ---- attributes ---------------------------------------------------------------------------- */

enum smp_node_type { SMP_NODE_ADAPTER = 1, SMP_NODE_SWITCH = 2, SMP_NODE_ROUTER = 3 };

struct smp_node_info {
	uint8_t base_version, class_version;
	uint8_t node_type; /* enum smp_node_type */
	uint8_t ports;	   /* without a switch's port 0 */
	uint64_t system_guid, node_guid, port_guid;
	uint16_t partition_cap, device_id;
	uint32_t revision;
	uint8_t local_port; /* the one that it was asked by */
	uint32_t vendor_id; /* 24 bits */
};

struct smp_filters {
	bool pkeys_in, pkeys_out, raw_in, raw_out;
};

struct smp_switch_info {
	uint16_t linear_cap, random_cap, multicast_cap; /* entries of each table */
	uint16_t linear_top;				/* the last that counts */
	uint8_t default_port, default_multicast_port, default_multicast_not_primary;
	uint8_t life_time;	/* 4.096 us * 2^n; 20 and more: for ever */
	bool port_state_change; /* setting it clears it */
	uint8_t optimized_sl_to_vl;
	uint16_t lids_per_port, partition_enforcement_cap;
	struct smp_filters filters;
	bool enhanced_port0;
	uint16_t multicast_top;
};

/* When a state is set, SMP_PORT_NOP leaves it. */
enum smp_port_state { SMP_PORT_NOP, SMP_PORT_DOWN, SMP_PORT_INIT, SMP_PORT_ARMED, SMP_PORT_ACTIVE };

enum smp_phys_state {
	SMP_PHYS_NOP,
	SMP_PHYS_SLEEP,
	SMP_PHYS_POLLING,
	SMP_PHYS_DISABLED,
	SMP_PHYS_TRAINING,
	SMP_PHYS_LINK_UP,
	SMP_PHYS_RECOVERY
};

#define SMP_CAP_IS_SM		0x00000002u
#define SMP_CAP_TRAP		0x00000008u
#define SMP_CAP_SL_MAPPING	0x00000040u
#define SMP_CAP_EXTENDED_SPEEDS 0x00004000u

struct smp_port_info {
	uint64_t mkey, gid_prefix;
	uint16_t lid, sm_lid;
	uint32_t capability_mask;
	uint16_t diag_code, mkey_lease_period;
	uint8_t local_port;
	uint8_t width_enabled, width_supported, width_active; /* bits: 1x 4x 8x 12x 2x */
	uint8_t speed_supported;			      /* bits: 2.5 5 10 Gb/s a lane */
	uint8_t state;					      /* enum smp_port_state */
	uint8_t phys_state;				      /* enum smp_phys_state */
	uint8_t link_down_default;
	uint8_t mkey_protect, lmc;
	uint8_t speed_active, speed_enabled;
	uint8_t neighbour_mtu; /* 1 (256) to 5 (4096) */
	uint8_t sm_sl;
	uint8_t vl_cap; /* as operational_vls */
	uint8_t init_type;
	uint8_t vl_high_limit, vl_arbitration_high_cap, vl_arbitration_low_cap;
	uint8_t init_type_reply, mtu_cap;
	uint8_t vl_stall_count, hoq_life;
	uint8_t operational_vls; /* 1: VL0, 2: VL0-1, 3: VL0-3, 4: VL0-7, 5: VL0-14; 0 leaves it */
	struct smp_filters filters;
	uint16_t mkey_violations, pkey_violations, qkey_violations;
	uint8_t guid_cap; /* in blocks of eight */
	bool client_reregister;
	uint8_t multicast_pkey_trap_suppression;
	uint8_t subnet_timeout, response_time;
	uint8_t local_phy_errors, overrun_errors;
	uint16_t max_credit_hint;
	uint32_t round_trip_latency; /* 24 bits */
	uint16_t capability_mask2;
	uint8_t speed_ext_active, speed_ext_supported; /* bits: 14 25 50 100 Gb/s a lane */
	uint8_t speed_ext_enabled;
};

/* How many data lanes a VLCap or OperationalVLs means, and the other way round; 0: nothing. */
unsigned smp_lanes_of_vls(uint8_t vls);
uint8_t smp_vls_of_lanes(unsigned lanes);

/* How lanes take turns: entries in their order, of which each may send weight * 64 bytes. */
#define SMP_VL_ARBITRATION_MAX	 64
#define SMP_VL_ARBITRATION_BLOCK 32
struct smp_vl_arbitration {
	uint8_t lane[SMP_VL_ARBITRATION_MAX], weight[SMP_VL_ARBITRATION_MAX];
	unsigned n; /* behind the last that has a weight */
};
/* The upper half of the modifier says which block of which table. */
enum smp_vl_arbitration_block {
	SMP_VL_LOW_FIRST = 1,
	SMP_VL_LOW_SECOND,
	SMP_VL_HIGH_FIRST,
	SMP_VL_HIGH_SECOND
};

/* A switch's modifier is the in port << 8 | the out port. Where SwitchInfo has optimized_sl_to_vl,
 * a Set may be for all in ports, all out ports, or both (Debian's opensm has it so). */
#define SMP_ALL_OUT 0x10000u
#define SMP_ALL_IN  0x20000u
struct smp_sl_to_vl {
	uint8_t vl[16];
};

struct smp_pkey_block {
	uint16_t pkey[32];
};

struct smp_guid_block {
	uint64_t guid[8];
};

enum smp_trap { SMP_TRAP_LINK_STATE = 128, SMP_TRAP_CAPABILITIES = 144 };

struct smp_notice { /* a generic one */
	bool generic;
	uint8_t type;	   /* 1: urgent */
	uint32_t producer; /* enum smp_node_type; 24 bits */
	uint16_t trap, issuer_lid;
	bool toggle;
	uint16_t count;	     /* 15 bits */
	uint8_t details[54]; /* of trap 128: the switch's LID, first */
};

void smp_node_info_unpack(struct smp_node_info *, const uint8_t data[SMP_DATA_LEN]);
void smp_node_info_pack(const struct smp_node_info *, uint8_t data[SMP_DATA_LEN]);
void smp_switch_info_unpack(struct smp_switch_info *, const uint8_t data[SMP_DATA_LEN]);
void smp_switch_info_pack(const struct smp_switch_info *, uint8_t data[SMP_DATA_LEN]);
void smp_port_info_unpack(struct smp_port_info *, const uint8_t data[SMP_DATA_LEN]);
void smp_port_info_pack(const struct smp_port_info *, uint8_t data[SMP_DATA_LEN]);
void smp_sl_to_vl_unpack(struct smp_sl_to_vl *, const uint8_t data[SMP_DATA_LEN]);
void smp_sl_to_vl_pack(const struct smp_sl_to_vl *, uint8_t data[SMP_DATA_LEN]);
/* One block of a table: its first or second 32 entries. */
void smp_vl_arbitration_unpack(struct smp_vl_arbitration *, bool second,
			       const uint8_t data[SMP_DATA_LEN]);
void smp_vl_arbitration_pack(const struct smp_vl_arbitration *, bool second,
			     uint8_t data[SMP_DATA_LEN]);
void smp_pkey_block_unpack(struct smp_pkey_block *, const uint8_t data[SMP_DATA_LEN]);
void smp_pkey_block_pack(const struct smp_pkey_block *, uint8_t data[SMP_DATA_LEN]);
void smp_guid_block_unpack(struct smp_guid_block *, const uint8_t data[SMP_DATA_LEN]);
void smp_guid_block_pack(const struct smp_guid_block *, uint8_t data[SMP_DATA_LEN]);
void smp_notice_unpack(struct smp_notice *, const uint8_t data[SMP_DATA_LEN]);
void smp_notice_pack(const struct smp_notice *, uint8_t data[SMP_DATA_LEN]);

#endif
