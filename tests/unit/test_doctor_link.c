/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The doctor's looks at interfaces, adapters and the way to a peer, whose facts are made up here.
 */
#include <linux/rtnetlink.h>

#include "doctor_bed.h"

/* A virtual machine's: no DCB, no pause, 1500. */
static struct iface plain(void)
{
	struct iface i = {.name = "eth0",
			  .mtu = 1500,
			  .mtu_max = 65535,
			  .enabled = true,
			  .carrier = true,
			  .ethernet = true,
			  .hardware = true,
			  .addressed = true,
			  .pause = {.rc = -EOPNOTSUPP},
			  .dcb = {.rc = -EOPNOTSUPP},
			  .stats_rc = -EOPNOTSUPP};

	i.rings.rx = i.rings.rx_max = 256;
	i.link.rx_packets = 1000000;
	return i;
}

/* An adapter's in a lossless fabric that is well. */
static struct iface lossless(void)
{
	struct iface i = plain();

	i.mtu = 9000;
	i.rnic = true;
	i.speed_mbps = 100000;
	i.rings.rx = 1024;
	i.rings.rx_max = 8192;
	i.pause.rc = 0;
	i.dcb = (struct dcb){.has_pfc = true, .has_ets = true, .has_dscp = true};
	i.dcb.pfc.pfc_en = 1 << 3;
	for (unsigned p = 0; p < 8; p++) {
		i.dcb.ets.prio_tc[p] = (uint8_t)p;
		i.dcb.ets.tc_tsa[p] = IEEE_8021QAZ_TSA_ETS;
		i.dcb.ets.tc_tx_bw[p] = 12;
	}
	for (unsigned c = 0; c < DCB_DSCPS; c++)
		i.dcb.dscp_priority[c] = (uint8_t)(c >> 3);
	return i;
}

static void a_plain_host_is_accused_of_nothing(void **state)
{
	struct iface i = plain();

	(void)state;
	assert_int_equal(look_iface(check_link, &i), DOCTOR_OK);
	assert_int_equal(look_iface(check_mtu, &i), DOCTOR_NOTE);
	assert_int_equal(look_iface(check_offloads, &i), DOCTOR_OK);
	assert_int_equal(look_iface(check_rings, &i), DOCTOR_OK);
	assert_int_equal(look_iface(check_discards, &i), DOCTOR_OK);
	assert_int_equal(look_iface(check_pause, &i), NOTHING);
	assert_int_equal(look_iface(check_global_pause, &i), NOTHING);
	assert_int_equal(look_iface(check_pfc, &i), NOTHING);
	assert_int_equal(look_iface(check_ets, &i), NOTHING);
	assert_int_equal(look_iface(check_dscp, &i), NOTHING);
}

static void a_fabric_that_is_well_is_accused_of_nothing(void **state)
{
	struct iface i = lossless();

	(void)state;
	assert_int_equal(look_iface(check_link, &i), DOCTOR_OK);
	assert_int_equal(look_iface(check_mtu, &i), DOCTOR_OK);
	assert_int_equal(look_iface(check_rings, &i), DOCTOR_OK);
	assert_int_equal(look_iface(check_pause, &i), DOCTOR_OK);
	assert_int_equal(look_iface(check_global_pause, &i), DOCTOR_OK);
	assert_int_equal(look_iface(check_pfc, &i), DOCTOR_OK);
	assert_int_equal(look_iface(check_ets, &i), DOCTOR_OK);
	assert_int_equal(look_iface(check_dscp, &i), DOCTOR_OK);
}

static void an_interface_that_carries_nothing_is_found(void **state)
{
	struct iface i = plain();

	(void)state;
	i.carrier = false;
	assert_int_equal(look_iface(check_link, &i), DOCTOR_ERROR);
	i.enabled = false;
	assert_int_equal(look_iface(check_link, &i), DOCTOR_ERROR);
	says("ip link set dev eth0 up");
	i = plain();
	i.half_duplex = true;
	assert_int_equal(look_iface(check_link, &i), DOCTOR_WARNING);
}

static void a_wrong_mtu_is_found(void **state)
{
	static const struct {
		uint32_t mtu;
		int severity;
	} rows[] = {{100, DOCTOR_ERROR},    {1000, DOCTOR_WARNING}, {1400, DOCTOR_NOTE},
		    {1500, DOCTOR_NOTE},    {2048, DOCTOR_WARNING}, {2200, DOCTOR_NOTE},
		    {4096, DOCTOR_WARNING}, {4200, DOCTOR_OK},	    {9000, DOCTOR_OK}};
	struct iface i = plain();

	(void)state;
	for (size_t k = 0; k < ARRAY_SIZE(rows); k++) {
		i.mtu = rows[k].mtu;
		if (look_iface(check_mtu, &i) != rows[k].severity)
			fail_msg("MTU %u", i.mtu);
	}
	i.mtu = 4096;
	look_iface(check_mtu, &i);
	says("mtu 4200");
	i.mtu_max = 4150; /* the device takes no more, which is nobody's fault */
	assert_int_equal(look_iface(check_mtu, &i), DOCTOR_NOTE);
	i.mtu = 1500;
	i.mtu_max = 4300;
	look_iface(check_mtu, &i);
	says("mtu 4300");
}

/* A VLAN takes no more than its port has, and of a veth pair one end is elsewhere. */
static void an_mtu_is_raised_from_below(void **state)
{
	struct iface two[] = {plain(), plain()};

	(void)state;
	two[0].index = 5;
	strcpy(two[1].name, "eth0.100");
	two[1].lower = 5;
	bed.ifaces = two;
	bed.iface_count = 2;
	look_iface(check_mtu, &two[1]);
	says("ip link set dev eth0 mtu 9000 && ip link set dev eth0.100 mtu 9000");
	two[0].mtu = 9000;
	look_iface(check_mtu, &two[1]);
	says("link set dev eth0.100 mtu 9000    # on all");
	bed.ifaces = NULL;
	bed.iface_count = 0;
	two[0].mtu = 1500;
	two[0].veth = true;
	assert_int_equal(look_iface(check_mtu, &two[0]), DOCTOR_NOTE);
	says("at both ends of the pair");
}

/* The address is a VLAN's on a bond, and the counters are the ports'. */
static void a_port_without_an_address_is_looked_at_below_one_that_has_it(void **state)
{
	struct iface *v = calloc(5, sizeof(*v));
	struct rnic *r = calloc(2, sizeof(*r));
	bool of[5] = {false}, down_port = false;

	(void)state;
	for (unsigned k = 0; k < 5; k++) {
		v[k] = plain();
		v[k].index = k + 1;
		snprintf(v[k].name, sizeof(v[k].name), "port%u", k);
		v[k].addressed = k == 3;
		v[k].hardware = k != 2 && k != 3;
	}
	v[0].master = v[1].master = 3; /* of the bond, on which the VLAN stands */
	v[3].lower = 3;
	v[1].enabled = false;
	for (unsigned k = 0; k < 2; k++) {
		snprintf(r[k].name, sizeof(r[k].name), "mlx5_%u", k);
		snprintf(r[k].iface, sizeof(r[k].iface), "port%u", k ? 4 : 3);
	}
	bed.ifaces = v;
	bed.iface_count = 5;
	bed.rnics = r;
	bed.rnic_count = 2;
	bed.report.count = 0;
	doctor_look(&bed);
	for (size_t i = 0; i < bed.report.count; i++) {
		for (unsigned k = 0; k < 5; k++)
			of[k] |= !strcmp(bed.report.v[i].object, v[k].name);
		down_port |= !strcmp(bed.report.v[i].object, "mlx5_1");
	}
	assert_true(of[0]);
	assert_false(of[1]); /* it is down */
	assert_false(of[2]);
	assert_true(of[3]);
	assert_false(of[4]); /* nobody stands on that, nor is its adapter's device looked at */
	assert_false(down_port);
	bed.ifaces = NULL;
	bed.iface_count = 0;
	free(v);
}

static void offloads_that_are_off_are_found(void **state)
{
	struct iface_feature f[] = {{"tx-generic-segmentation", true, true, true},
				    {"tx-udp-segmentation", true, true, true},
				    {"rx-gro", true, true, true}};
	struct iface i = plain();

	(void)state;
	i.features = f;
	i.feature_count = ARRAY_SIZE(f);
	assert_int_equal(look_iface(check_offloads, &i), DOCTOR_OK);
	f[1].on = f[1].asked = false;
	assert_int_equal(look_iface(check_offloads, &i), DOCTOR_WARNING);
	says("ethtool -K eth0 tx-udp-segmentation on");
	f[1].can = false; /* the hardware has it not: no fault */
	assert_int_equal(look_iface(check_offloads, &i), DOCTOR_OK);
	f[2].on = f[2].asked = false;
	assert_int_equal(look_iface(check_offloads, &i), DOCTOR_WARNING);
	i.hardware = false; /* as of a veth pair */
	assert_int_equal(look_iface(check_offloads, &i), DOCTOR_OK);
	i.features_rc = -EPERM;
	assert_int_equal(look_iface(check_offloads, &i), DOCTOR_UNKNOWN);
}

/* Segmentation that is asked for is off for as long as what it needs is. */
static void an_offload_that_another_needs_is_named(void **state)
{
	struct iface_feature f[] = {{"tx-generic-segmentation", true, false, true},
				    {"tx-udp-segmentation", true, true, true},
				    {"tx-scatter-gather", true, false, false},
				    {"tx-checksum-ip-generic", true, true, true}};
	struct iface i = plain();

	(void)state;
	i.features = f;
	i.feature_count = ARRAY_SIZE(f);
	assert_int_equal(look_iface(check_offloads, &i), DOCTOR_WARNING);
	says("ethtool -K eth0 sg on");
	f[2].can = false; /* the device has none */
	assert_int_equal(look_iface(check_offloads, &i), DOCTOR_OK);
	f[1].on = f[3].on = f[3].asked = false;
	assert_int_equal(look_iface(check_offloads, &i), DOCTOR_WARNING);
	says("ethtool -K eth0 tx on");
	f[1].asked = false;
	assert_int_equal(look_iface(check_offloads, &i), DOCTOR_WARNING);
	says("ethtool -K eth0 tx on tx-udp-segmentation on");
	f[3].on = f[1].asked = true; /* for a reason of the device's own */
	assert_int_equal(look_iface(check_offloads, &i), DOCTOR_OK);
}

static void an_adapter_whose_node_has_none_of_our_processors_is_noted(void **state)
{
	struct iface i = lossless();

	(void)state;
	assert_int_equal(look_iface(check_numa, &i), NOTHING);
	put("1\n", "class/net/eth0/device/numa_node");
	put("0\n", "devices/system/node/online"); /* one node has nothing to choose */
	put("8-15,24\n", "devices/system/node/node1/cpulist");
	put("Name:\tx\nCpus_allowed:\tff\nCpus_allowed_list:\t0-7,16\n", "self/status");
	assert_int_equal(look_iface(check_numa, &i), NOTHING);
	put("0-1\n", "devices/system/node/online");
	assert_int_equal(look_iface(check_numa, &i), DOCTOR_NOTE);
	says("node1/cpulist) PROGRAM");
	put("Cpus_allowed_list:\t0-8\n", "self/status");
	assert_int_equal(look_iface(check_numa, &i), DOCTOR_OK);
	put("Cpus_allowed_list:\t0,24-31\n", "self/status");
	assert_int_equal(look_iface(check_numa, &i), DOCTOR_OK);
	put("\n", "devices/system/node/node1/cpulist"); /* memory alone */
	assert_int_equal(look_iface(check_numa, &i), NOTHING);
	put("-1\n", "class/net/eth0/device/numa_node");
	assert_int_equal(look_iface(check_numa, &i), NOTHING);
}

static void losses_are_found_and_the_ring_that_is_too_small(void **state)
{
	struct iface_stat s[] = {{"rx_out_of_buffer", 0},
				 {"rx_prio3_discards", 0},
				 {"rx_crc_errors_phy", 0},
				 {"tx_pause_storm_warning_events", 0}};
	struct iface i = lossless();

	(void)state;
	i.stats = s;
	i.stats_rc = 0;
	i.stat_count = ARRAY_SIZE(s);
	assert_int_equal(look_iface(check_discards, &i), DOCTOR_OK);
	s[0].value = 3; /* of a million */
	assert_int_equal(look_iface(check_discards, &i), DOCTOR_NOTE);
	s[0].value = 300;
	assert_int_equal(look_iface(check_discards, &i), DOCTOR_WARNING);
	assert_int_equal(look_iface(check_rings, &i), DOCTOR_WARNING);
	says("ethtool -G eth0 rx 8192");
	i.rings.rx_max = 2048;
	look_iface(check_discards, &i);
	says("ethtool -G eth0 rx 2048");
	i.rings.rx = 2048; /* and has as much as it may */
	look_iface(check_discards, &i);
	says("ethtool -l eth0");
	s[0].value = 0;
	s[1].value = 300;
	assert_int_equal(look_iface(check_discards, &i), DOCTOR_WARNING);
	says("rx_prio3_discards is 300");
	s[1].value = 0;
	s[2].value = 1; /* a cable does not do that */
	assert_int_equal(look_iface(check_discards, &i), DOCTOR_WARNING);
	s[2].value = 0;
	s[3].value = 1;
	assert_int_equal(look_iface(check_discards, &i), DOCTOR_WARNING);
	s[3].value = 0;
	/* Of the port's packets, of which the kernel had few; and the ring is not to blame. */
	strcpy(s[0].name, "rx_packets_phy");
	s[0].value = 5000000000;
	strcpy(s[1].name, "rx_discards_phy");
	s[1].value = 500;
	i.rings.rx = 1024;
	assert_int_equal(look_iface(check_discards, &i), DOCTOR_NOTE);
	assert_int_equal(look_iface(check_rings, &i), DOCTOR_OK);
	s[1].value = 500000;
	assert_int_equal(look_iface(check_discards, &i), DOCTOR_WARNING);
	s[1].value = 0;
	strcpy(s[3].name, "outbound_pci_stalled_wr");
	s[3].value = 90;
	assert_int_equal(look_iface(check_discards, &i), DOCTOR_WARNING);
	says("90 % of the last second");
	s[3].value = 1;
	assert_int_equal(look_iface(check_discards, &i), DOCTOR_NOTE);
	s[3].value = 0;
	i.link.rx_missed_errors = 300;
	assert_int_equal(look_iface(check_discards, &i), DOCTOR_WARNING);
	i.stats_rc = -EPERM;
	i.stat_count = 0;
	i.link.rx_missed_errors = 0;
	assert_int_equal(look_iface(check_discards, &i), DOCTOR_UNKNOWN);
}

static void wrong_settings_of_a_lossless_fabric_are_found(void **state)
{
	struct iface_stat held = {"rx_prio3_pause_duration", 1234};
	struct iface i = lossless();

	(void)state;
	i.dcb.pfc.pfc_en = 0xff;
	assert_int_equal(look_iface(check_pfc, &i), DOCTOR_WARNING);
	says("dcb pfc set dev eth0 prio-pfc all:off 3:on");
	i.dcb.pfc.pfc_en = 1 << 4;
	assert_int_equal(look_iface(check_pfc, &i), DOCTOR_WARNING);
	i.dcb.pfc.pfc_en = 0;
	assert_int_equal(look_iface(check_pfc, &i), DOCTOR_NOTE);
	i = lossless();
	i.dcb.ets.prio_tc[3] = 0;
	assert_int_equal(look_iface(check_ets, &i), DOCTOR_WARNING);
	i = lossless();
	i.dcb.ets.tc_tx_bw[3] = 0;
	assert_int_equal(look_iface(check_ets, &i), DOCTOR_WARNING);
	i = lossless();
	i.dcb.dscp_priority[ROCE_DSCP] = DCB_NO_PRIORITY;
	assert_int_equal(look_iface(check_dscp, &i), DOCTOR_WARNING);
	i.dcb.has_dscp = false;
	assert_int_equal(look_iface(check_dscp, &i), DOCTOR_WARNING);
	says("dscp-prio 26:3");
	i = lossless();
	i.pause.rx = true;
	assert_int_equal(look_iface(check_global_pause, &i), DOCTOR_WARNING);
	says("ethtool -A eth0 rx off tx off");
	i = lossless();
	i.dcb.pfc.indications[3] = 7;
	assert_int_equal(look_iface(check_pause, &i), DOCTOR_NOTE);
	i.stats = &held;
	i.stat_count = 1;
	assert_int_equal(look_iface(check_pause, &i), DOCTOR_NOTE);
	says("held the port for 1234 us");
	i.dcb.pfc.indications[0] = 7;
	assert_int_equal(look_iface(check_pause, &i), DOCTOR_WARNING);
	i = plain();
	i.rnic = true; /* an adapter whose driver has no DCB */
	assert_int_equal(look_iface(check_pfc, &i), DOCTOR_UNKNOWN);
	assert_int_equal(look_iface(check_dscp, &i), DOCTOR_UNKNOWN);
}

static void shares_of_the_link_to_type_are_100_in_all(void **state)
{
	struct iface i = lossless();
	struct ieee_ets *e = &i.dcb.ets;

	(void)state;
	e->tc_tx_bw[3] = 0;
	assert_int_equal(look_iface(check_ets, &i), DOCTOR_WARNING);
	says("tc-bw 0:7 1:7 2:7 3:51 4:7 5:7 6:7 7:7");
	memset(e->tc_tx_bw, 0, sizeof(e->tc_tx_bw));
	e->tc_tx_bw[0] = 99;
	e->tc_tx_bw[1] = 1;
	assert_int_equal(look_iface(check_ets, &i), DOCTOR_WARNING);
	says("tc-bw 0:49 1:1 3:50");
	e->tc_tsa[3] = IEEE_8021QAZ_TSA_STRICT;
	assert_int_equal(look_iface(check_ets, &i), DOCTOR_NOTE);
	says("tc-tsa 3:ets tc-bw 0:49 1:1 3:50");
	/* Strict ones below it would go before it then. */
	memset(e->tc_tsa, IEEE_8021QAZ_TSA_STRICT, sizeof(e->tc_tsa));
	assert_int_equal(look_iface(check_ets, &i), DOCTOR_NOTE);
	says("tc-tsa 0:ets 1:ets 2:ets 3:ets tc-bw 0:16 1:16 2:16 3:52");
	/* Nobody waits for the lowest one. */
	for (unsigned p = 0; p < 8; p++)
		e->prio_tc[p] = p == 3 ? 0 : 1;
	assert_int_equal(look_iface(check_ets, &i), DOCTOR_OK);
	/* Not all adapters have eight. */
	i = lossless();
	e->ets_cap = 3;
	e->prio_tc[3] = 0;
	assert_int_equal(look_iface(check_ets, &i), DOCTOR_WARNING);
	says("prio-tc all:0 3:1");
}

/* ---- the kernel's answer about DCB ----------------------------------------------------------- */

static size_t attr(uint8_t *at, unsigned type, const void *data, size_t len)
{
	struct rtattr a = {.rta_len = (unsigned short)RTA_LENGTH(len),
			   .rta_type = (unsigned short)type};

	memcpy(at, &a, sizeof(a));
	memcpy(at + RTA_LENGTH(0), data, len);
	return RTA_SPACE(len);
}

static void dcb_is_read_from_the_kernels_answer(void **state)
{
	const struct dcb_app apps[] = {{IEEE_8021QAZ_APP_SEL_DSCP, 5, ROCE_DSCP},
				       {IEEE_8021QAZ_APP_SEL_DSCP, 9, 1},
				       {IEEE_8021QAZ_APP_SEL_DSCP, 1, 64},
				       {IEEE_8021QAZ_APP_SEL_ETHERTYPE, 2, 10}};
	const struct ieee_pfc pfc = {.pfc_en = 1 << 5, .indications = {[5] = 77}};
	struct dcbmsg head = {.cmd = DCB_CMD_IEEE_GET};
	uint8_t table[128], ieee[512], top[640];
	_Alignas(struct nlmsghdr) uint8_t m[1024] = {0};
	struct nlmsghdr h = {.nlmsg_type = RTM_GETDCB};
	size_t n = 0, t = 0, len;
	struct dcb d;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(apps); i++)
		t += attr(table + t, DCB_ATTR_IEEE_APP, &apps[i], sizeof(apps[i]));
	n += attr(ieee, DCB_ATTR_IEEE_PFC, &pfc, sizeof(pfc));
	n += attr(ieee + n, DCB_ATTR_IEEE_APP_TABLE | NLA_F_NESTED, table, t);
	n = attr(top, DCB_ATTR_IEEE | NLA_F_NESTED, ieee, n);
	h.nlmsg_len = (uint32_t)(NLMSG_SPACE(sizeof(head)) + n);
	memcpy(m, &h, sizeof(h));
	memcpy(m + NLMSG_HDRLEN, &head, sizeof(head));
	memcpy(m + NLMSG_SPACE(sizeof(head)), top, n);
	len = h.nlmsg_len;
	assert_true(dcb_decode(&d, m, len));
	assert_int_equal(d.rc, 0);
	assert_true(d.has_pfc && d.has_dscp && !d.has_ets);
	assert_int_equal(d.pfc.pfc_en, 1 << 5);
	assert_int_equal(d.pfc.indications[5], 77);
	assert_int_equal(dcb_roce_priority(&d), 5);
	assert_int_equal(d.dscp_priority[1], DCB_NO_PRIORITY);
	/* Whatever is cut off, nothing is read behind it. */
	for (size_t cut = 0; cut < len; cut++) {
		uint8_t *copy = malloc(cut ? cut : 1);

		assert_non_null(copy);
		memcpy(copy, m, cut);
		(void)!dcb_decode(&d, copy, cut);
		free(copy);
	}
}

/* ---- adapters -------------------------------------------------------------------------------- */

#define RNIC "class/infiniband/mlx5_0"

static void put_adapter(void)
{
	put("1: CA\n", RNIC "/node_type");
	put("DRIVER=mlx5_core\n", RNIC "/device/uevent");
	put("Ethernet\n", RNIC "/ports/1/link_layer");
	put("4: ACTIVE\n", RNIC "/ports/1/state");
	put("100 Gb/sec (4X EDR)\n", RNIC "/ports/1/rate");
	put("IB/RoCE v1\n", RNIC "/ports/1/gid_attrs/types/0");
	put("RoCE v2\n", RNIC "/ports/1/gid_attrs/types/1");
	put("eth0\n", RNIC "/ports/1/gid_attrs/ndevs/0");
	put("1000000\n", RNIC "/ports/1/counters/port_rcv_packets");
	put("0\n", RNIC "/ports/1/hw_counters/out_of_sequence");
	put("0\n", RNIC "/ports/1/hw_counters/rx_icrc_encapsulated");
	put("16\n", RNIC "/device/current_link_width");
	put("16\n", RNIC "/device/max_link_width");
	put("16.0 GT/s PCIe\n", RNIC "/device/current_link_speed");
	put("16.0 GT/s PCIe\n", RNIC "/device/max_link_speed");
	put("106\n", "kernel/config/rdma_cm/mlx5_0/ports/1/default_roce_tos");
	put("RoCE v2\n", "kernel/config/rdma_cm/mlx5_0/ports/1/default_roce_mode");
	put("1\n", "class/net/eth0/ecn/roce_np/enable/3");
	put("1\n", "class/net/eth0/ecn/roce_rp/enable/3");
	free(bed.rnics);
	assert_int_equal(rnics_read(bed_root, &bed.rnics, &bed.rnic_count), 0);
	assert_int_equal(bed.rnic_count, 1);
	assert_string_equal(bed.rnics[0].iface, "eth0");
	assert_true(bed.rnics[0].adapter && bed.rnics[0].ethernet && !bed.rnics[0].rxe);
}

static void an_adapter_that_is_well_is_accused_of_nothing(void **state)
{
	struct iface i = lossless();

	(void)state;
	put_adapter();
	bed.ifaces = &i;
	bed.iface_count = 1;
	assert_int_equal(look_rnic(check_rxe, bed.rnics), NOTHING);
	assert_int_equal(look_rnic(check_port_state, bed.rnics), DOCTOR_OK);
	assert_int_equal(look_rnic(check_pcie, bed.rnics), DOCTOR_OK);
	assert_int_equal(look_rnic(check_gid_type, bed.rnics), DOCTOR_OK);
	assert_int_equal(look_rnic(check_cm_class, bed.rnics), DOCTOR_OK);
	assert_int_equal(look_rnic(check_ecn, bed.rnics), DOCTOR_OK);
	assert_int_equal(look_rnic(check_counters, bed.rnics), DOCTOR_OK);
}

static void what_is_wrong_with_an_adapter_is_found(void **state)
{
	struct iface i = lossless();

	(void)state;
	put_adapter();
	bed.ifaces = &i;
	bed.iface_count = 1;
	put("1: DOWN\n", RNIC "/ports/1/state");
	assert_int_equal(look_rnic(check_port_state, bed.rnics), DOCTOR_WARNING);
	put("IB/RoCE v1\n", "kernel/config/rdma_cm/mlx5_0/ports/1/default_roce_mode");
	assert_int_equal(look_rnic(check_gid_type, bed.rnics), DOCTOR_WARNING);
	put("IB/RoCE v1\n", RNIC "/ports/1/gid_attrs/types/1");
	assert_int_equal(look_rnic(check_gid_type, bed.rnics), DOCTOR_ERROR);
	put("0\n", "kernel/config/rdma_cm/mlx5_0/ports/1/default_roce_tos");
	assert_int_equal(look_rnic(check_cm_class, bed.rnics), DOCTOR_WARNING);
	says("echo 106");
	i.dcb.pfc.pfc_en = 0; /* then no class is better than another */
	assert_int_equal(look_rnic(check_cm_class, bed.rnics), NOTHING);
	put("0\n", "class/net/eth0/ecn/roce_rp/enable/3");
	assert_int_equal(look_rnic(check_ecn, bed.rnics), DOCTOR_WARNING);
	says("roce_rp");
	put("5\n", RNIC "/ports/1/hw_counters/out_of_sequence");
	assert_int_equal(look_rnic(check_counters, bed.rnics), DOCTOR_NOTE);
	put("5000\n", RNIC "/ports/1/hw_counters/out_of_sequence");
	assert_int_equal(look_rnic(check_counters, bed.rnics), DOCTOR_WARNING);
	put("0\n", RNIC "/ports/1/hw_counters/out_of_sequence");
	put("1\n", RNIC "/ports/1/hw_counters/rx_icrc_encapsulated");
	assert_int_equal(look_rnic(check_counters, bed.rnics), DOCTOR_WARNING);
	put("0\n", RNIC "/ports/1/hw_counters/rx_icrc_encapsulated");
	put("9\n", RNIC "/ports/1/hw_counters/np_ecn_marked_roce_packets");
	put("0\n", RNIC "/ports/1/hw_counters/np_cnp_sent");
	assert_int_equal(look_rnic(check_counters, bed.rnics), DOCTOR_WARNING);
	says("tee /sys/class/net/eth0/ecn/roce_np/enable/3");
	bed.rnics[0].iface[0] = 0;
	assert_int_equal(look_rnic(check_counters, bed.rnics), DOCTOR_WARNING);
	says("roce_np of the adapter");
}

/* An InfiniBand port has no interface to be set up, and is active when a subnet manager says so. */
static void a_port_that_is_not_active_has_a_line_of_its_kind(void **state)
{
	(void)state;
	put_adapter();
	put("1: DOWN\n", RNIC "/ports/1/state");
	assert_int_equal(look_rnic(check_port_state, bed.rnics), DOCTOR_WARNING);
	says("ip link set dev eth0 up; ethtool eth0");
	bed.rnics[0].iface[0] = 0;
	assert_int_equal(look_rnic(check_port_state, bed.rnics), DOCTOR_WARNING);
	says("rdma link show mlx5_0/1");
	bed.rnics[0].ethernet = false;
	assert_int_equal(look_rnic(check_port_state, bed.rnics), DOCTOR_WARNING);
	says("ibstat mlx5_0");
	put("2: INIT\n", RNIC "/ports/1/state");
	assert_int_equal(look_rnic(check_port_state, bed.rnics), DOCTOR_WARNING);
	says("sminfo -C mlx5_0");
}

static void a_slot_is_slow_only_where_its_port_is_faster(void **state)
{
	static const struct {
		const char *rate, *width, *speed;
		int severity;
	} rows[] = {{"100 Gb/sec (4X EDR)", "16", "16.0 GT/s PCIe", DOCTOR_OK},
		    {"100 Gb/sec (4X EDR)", "8", "16.0 GT/s PCIe", DOCTOR_NOTE}, /* 126 Gb/s */
		    {"100 Gb/sec (4X EDR)", "16", "8.0 GT/s PCIe", DOCTOR_NOTE},
		    {"100 Gb/sec (4X EDR)", "4", "16.0 GT/s PCIe", DOCTOR_WARNING}, /* 63 */
		    {"200 Gb/sec (4X HDR)", "8", "16.0 GT/s PCIe", DOCTOR_WARNING},
		    {"25 Gb/sec (1X EDR)", "8", "5.0 GT/s PCIe", DOCTOR_NOTE},	  /* 32 */
		    {"25 Gb/sec (1X EDR)", "8", "2.5 GT/s PCIe", DOCTOR_WARNING}, /* 16 */
		    {"", "1", "2.5 GT/s PCIe", DOCTOR_NOTE}};

	(void)state;
	put_adapter();
	for (size_t k = 0; k < ARRAY_SIZE(rows); k++) {
		put(rows[k].rate, RNIC "/ports/1/rate");
		put(rows[k].width, RNIC "/device/current_link_width");
		put(rows[k].speed, RNIC "/device/current_link_speed");
		if (look_rnic(check_pcie, bed.rnics) != rows[k].severity)
			fail_msg("x%s at %s for %s", rows[k].width, rows[k].speed, rows[k].rate);
	}
}

static void the_class_of_rdma_cm_is_held_against_the_map_and_pfc(void **state)
{
	struct iface i = lossless();

	(void)state;
	put_adapter();
	bed.ifaces = &i;
	bed.iface_count = 1;
	put("96\n", "kernel/config/rdma_cm/mlx5_0/ports/1/default_roce_tos"); /* DSCP 24 */
	assert_int_equal(look_rnic(check_cm_class, bed.rnics), DOCTOR_OK);
	i.dcb.has_dscp = false; /* by custom, then */
	assert_int_equal(look_rnic(check_cm_class, bed.rnics), DOCTOR_WARNING);
	says("echo 106");
	i = lossless();
	i.dcb.pfc.pfc_en = 1 << 5;
	assert_int_equal(look_rnic(check_cm_class, bed.rnics), DOCTOR_WARNING);
	says("echo 162"); /* DSCP 40, the first of priority 5 */
	put("162\n", "kernel/config/rdma_cm/mlx5_0/ports/1/default_roce_tos");
	assert_int_equal(look_rnic(check_cm_class, bed.rnics), DOCTOR_OK);
	/* What would be typed is there already: the map is to blame. */
	i = lossless();
	memset(i.dcb.dscp_priority, DCB_NO_PRIORITY, sizeof(i.dcb.dscp_priority));
	put("106\n", "kernel/config/rdma_cm/mlx5_0/ports/1/default_roce_tos");
	assert_int_equal(look_rnic(check_cm_class, bed.rnics), DOCTOR_WARNING);
	says("dcb app replace dev eth0 dscp-prio 26:3");
}

static void an_rxe_on_an_interface_is_found(void **state)
{
	(void)state;
	put("eth0\n", "class/infiniband/rxe0/parent");
	put("1: CA\n", "class/infiniband/rxe0/node_type");
	assert_int_equal(rnics_read(bed_root, &bed.rnics, &bed.rnic_count), 0);
	assert_int_equal(look_rnic(check_rxe, bed.rnics), DOCTOR_WARNING);
	says("on eth0");
	says("rdma link delete rxe0");
}

/* ---- the way to a peer ----------------------------------------------------------------------- */

static struct path good_way(void)
{
	struct path p = {.peer = "10.0.0.2",
			 .iface = "eth0",
			 .iface_mtu = 9000,
			 .answered = true,
			 .told = true,
			 .passes = 4096 + 88,
			 .peer_mtu = 9000,
			 .peer_room = 8 << 20};
	static const uint8_t sent[] = {106, 107, 192};

	for (int i = 0; i < PATH_MARKS; i++)
		p.mark[i] = (struct path_mark){sent[i], true, sent[i], sent[i]};
	return p;
}

static void a_way_that_is_well_is_accused_of_nothing(void **state)
{
	struct path p = good_way();

	(void)state;
	assert_int_equal(look_peer(check_peer, &p), DOCTOR_OK);
	assert_int_equal(look_peer(check_path_mtu, &p), DOCTOR_OK);
	says("path MTU 4096");
	assert_int_equal(look_peer(check_dscp_path, &p), DOCTOR_OK);
	assert_int_equal(look_peer(check_ecn_path, &p), DOCTOR_OK);
	assert_int_equal(look_peer(check_peer_rmem, &p), DOCTOR_OK);
}

static void a_peer_that_does_not_answer_is_told_of_and_nothing_is_known(void **state)
{
	struct path p = good_way();

	(void)state;
	p.answered = p.told = false;
	assert_int_equal(look_peer(check_peer, &p), DOCTOR_WARNING);
	says("sudo weft doctor");
	p.asked_echo = true;
	assert_int_equal(look_peer(check_peer, &p), DOCTOR_ERROR);
	p.echoes = true;
	assert_int_equal(look_peer(check_peer, &p), DOCTOR_WARNING);
	says("echo requests");
	p.error = -ECONNREFUSED;
	assert_int_equal(look_peer(check_peer, &p), DOCTOR_WARNING);
	says("nobody has UDP port 4791");
	p.error = -ENETUNREACH;
	assert_int_equal(look_peer(check_peer, &p), DOCTOR_ERROR);
	assert_int_equal(look_peer(check_path_mtu, &p), DOCTOR_UNKNOWN);
	assert_int_equal(look_peer(check_dscp_path, &p), DOCTOR_UNKNOWN);
	assert_int_equal(look_peer(check_ecn_path, &p), DOCTOR_UNKNOWN);
	p = good_way();
	p.told = false; /* a weft that does not know the question */
	assert_int_equal(look_peer(check_path_mtu, &p), DOCTOR_OK);
	assert_int_equal(look_peer(check_ecn_path, &p), DOCTOR_UNKNOWN);
}

static void an_mtu_that_the_way_does_not_carry_is_found(void **state)
{
	struct path p = good_way();

	(void)state;
	p.passes = 1024 + 88;
	p.fails = 2048 + 88;
	p.peer_mtu = 1500;
	assert_int_equal(look_peer(check_path_mtu, &p), DOCTOR_WARNING);
	says("mtu 9000    # there");
	p.peer_mtu = 9000;
	assert_int_equal(look_peer(check_path_mtu, &p), DOCTOR_WARNING);
	says("a switch or router");
	p.passes = 0;
	assert_int_equal(look_peer(check_path_mtu, &p), DOCTOR_ERROR);
	p = good_way();
	p.iface_mtu = 1500;
	p.passes = 1024 + 88;
	assert_int_equal(look_peer(check_path_mtu, &p), DOCTOR_WARNING);
	says("mtu 9000");
}

static void classes_and_marks_that_are_taken_away_are_found(void **state)
{
	struct path p = good_way();

	(void)state;
	p.mark[PATH_ECT].there &= 3;
	assert_int_equal(look_peer(check_dscp_path, &p), DOCTOR_WARNING);
	says("DSCP 26 arrives there as 0");
	assert_int_equal(look_peer(check_ecn_path, &p), DOCTOR_OK);
	p = good_way();
	p.mark[PATH_CNP].back = 0;
	assert_int_equal(look_peer(check_dscp_path, &p), DOCTOR_WARNING);
	says("DSCP 48 arrives here as 0");
	p = good_way();
	p.mark[PATH_ECT].there &= 0xfc;
	assert_int_equal(look_peer(check_ecn_path, &p), DOCTOR_WARNING);
	says("ECT(0) arrives there as Not-ECT");
	assert_int_equal(look_peer(check_dscp_path, &p), DOCTOR_OK);
	p = good_way();
	p.mark[PATH_CE].back = 106;
	assert_int_equal(look_peer(check_ecn_path, &p), DOCTOR_WARNING);
	says("CE arrives here as ECT(0)");
	p = good_way();
	p.mark[PATH_ECT].there = 107; /* a switch has marked it: no fault */
	assert_int_equal(look_peer(check_ecn_path, &p), DOCTOR_NOTE);
	for (int i = 0; i < PATH_MARKS; i++)
		p.mark[i].answered = false;
	assert_int_equal(look_peer(check_ecn_path, &p), DOCTOR_UNKNOWN);
	assert_int_equal(look_peer(check_dscp_path, &p), DOCTOR_UNKNOWN);
}

static void a_peer_with_small_buffers_is_found(void **state)
{
	struct path p = good_way();

	(void)state;
	p.peer_room = 425984;
	assert_int_equal(look_peer(check_peer_rmem, &p), DOCTOR_NOTE);
	p.peer_room = 65536;
	assert_int_equal(look_peer(check_peer_rmem, &p), DOCTOR_WARNING);
	says("rmem_max");
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, bed_start, bed_end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(a_plain_host_is_accused_of_nothing),
		CASE(a_fabric_that_is_well_is_accused_of_nothing),
		CASE(an_interface_that_carries_nothing_is_found),
		CASE(a_wrong_mtu_is_found),
		CASE(an_mtu_is_raised_from_below),
		CASE(a_port_without_an_address_is_looked_at_below_one_that_has_it),
		CASE(offloads_that_are_off_are_found),
		CASE(an_offload_that_another_needs_is_named),
		CASE(an_adapter_whose_node_has_none_of_our_processors_is_noted),
		CASE(losses_are_found_and_the_ring_that_is_too_small),
		CASE(wrong_settings_of_a_lossless_fabric_are_found),
		CASE(shares_of_the_link_to_type_are_100_in_all),
		CASE(dcb_is_read_from_the_kernels_answer),
		CASE(an_adapter_that_is_well_is_accused_of_nothing),
		CASE(what_is_wrong_with_an_adapter_is_found),
		CASE(a_port_that_is_not_active_has_a_line_of_its_kind),
		CASE(a_slot_is_slow_only_where_its_port_is_faster),
		CASE(the_class_of_rdma_cm_is_held_against_the_map_and_pfc),
		CASE(an_rxe_on_an_interface_is_found),
		CASE(a_way_that_is_well_is_accused_of_nothing),
		CASE(a_peer_that_does_not_answer_is_told_of_and_nothing_is_known),
		CASE(an_mtu_that_the_way_does_not_carry_is_found),
		CASE(classes_and_marks_that_are_taken_away_are_found),
		CASE(a_peer_with_small_buffers_is_found),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
