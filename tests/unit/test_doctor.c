/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The doctor's looks at a host: each finds what is wrong, and is silent where nothing is. */
#include "doctor_bed.h"
#include "doctor/ruleset.h"

#define UDP_HEAD                                                                              \
	"  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  " \
	"timeout "                                                                            \
	"inode ref pointer drops\n"
#define UDP_ROW(port, drops)                                                       \
	"15826: 00000000:" port " 00000000:0000 07 00000000:00000000 00:00000000 " \
	"00000000     0        0 745312 2 00000000a0716791 " drops "        \n"

static void a_small_receive_buffer_is_found(void **state)
{
	(void)state;
	assert_int_equal(look_host(check_rmem), DOCTOR_UNKNOWN);
	put("4194304\n", "sys/net/core/rmem_max");
	assert_int_equal(look_host(check_rmem), DOCTOR_OK);
	put("212992\n", "sys/net/core/rmem_max"); /* Linux's own: no fault of anybody's */
	assert_int_equal(look_host(check_rmem), DOCTOR_NOTE);
	put("65536\n", "sys/net/core/rmem_max");
	assert_int_equal(look_host(check_rmem), DOCTOR_WARNING);
	says("net.core.rmem_max=8388608");
	put("none\n", "sys/net/core/rmem_max");
	assert_int_equal(look_host(check_rmem), DOCTOR_UNKNOWN);
}

static void put_snmp(const char *in, const char *no_room)
{
	char text[512];

	snprintf(text, sizeof(text),
		 "Ip: Forwarding\nIp: 1\n"
		 "Udp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors\n"
		 "Udp: %s 7 8 9 %s 0\nUdpLite: InDatagrams\nUdpLite: 0\n",
		 in, no_room);
	put(text, "net/snmp");
}

static void datagrams_that_found_no_room_are_found(void **state)
{
	(void)state;
	assert_int_equal(look_host(check_udp_drops), DOCTOR_UNKNOWN);
	put_snmp("1000000", "0");
	put(UDP_HEAD UDP_ROW("12B7", "0"), "net/udp");
	assert_int_equal(look_host(check_udp_drops), DOCTOR_OK);
	put_snmp("1000000", "5"); /* a few, of whomever */
	assert_int_equal(look_host(check_udp_drops), DOCTOR_OK);
	put_snmp("1000000", "500");
	assert_int_equal(look_host(check_udp_drops), DOCTOR_NOTE);
	says("500 of 1000000");
	put(UDP_HEAD UDP_ROW("0035", "9") UDP_ROW("12B7", "3"), "net/udp");
	assert_int_equal(look_host(check_udp_drops), DOCTOR_WARNING);
	says("3 datagrams");
	put("Udp6InDatagrams 7\nUdp6RcvbufErrors 0\n", "net/snmp6");
	put(UDP_HEAD UDP_ROW("0035", "9"), "net/udp");
	assert_int_equal(look_host(check_udp_drops), DOCTOR_NOTE);
	says("500 of 1000007");
}

static void full_queues_of_processors_are_found(void **state)
{
	(void)state;
	assert_int_equal(look_host(check_softnet), DOCTOR_UNKNOWN);
	put("00100000 00000000 00000001 0 0 0 0 0 0 0 0 0 0\n"
	    "00100000 00000000 00000000 0 0 0 0 0 0 0 0 0 0\n",
	    "net/softnet_stat");
	assert_int_equal(look_host(check_softnet), DOCTOR_OK);
	put("00100000 00000000 00008000 0 0\n", "net/softnet_stat");
	assert_int_equal(look_host(check_softnet), DOCTOR_NOTE);
	put("00100000 00000100 00000001 0 0\n", "net/softnet_stat");
	assert_int_equal(look_host(check_softnet), DOCTOR_WARNING);
	says("netdev_max_backlog");
}

#define CLOCK "devices/system/clocksource/clocksource0"

static void a_slow_clock_is_found(void **state)
{
	(void)state;
	assert_int_equal(look_host(check_clock), DOCTOR_UNKNOWN);
	put("kvm-clock \n", CLOCK "/current_clocksource");
	assert_int_equal(look_host(check_clock), DOCTOR_OK);
	put("tsc\n", CLOCK "/current_clocksource");
	assert_int_equal(look_host(check_clock), DOCTOR_OK);
	put("hpet\n", CLOCK "/current_clocksource");
	put("tsc hpet acpi_pm \n", CLOCK "/available_clocksource");
	assert_int_equal(look_host(check_clock), DOCTOR_WARNING);
	says("echo tsc");
	put("hyperv_clocksource_tsc_page hyperv_clocksource_msr acpi_pm\n",
	    CLOCK "/available_clocksource");
	look_host(check_clock);
	says("echo hyperv_clocksource_tsc_page");
	put("hpet acpi_pm\n", CLOCK "/available_clocksource");
	assert_int_equal(look_host(check_clock), DOCTOR_WARNING);
	says("dmesg");
}

static void put_governor(const char *driver, const char *governor)
{
	for (int i = 0; i < 2; i++) {
		put(driver, "devices/system/cpu/cpu%d/cpufreq/scaling_driver", i);
		put(governor, "devices/system/cpu/cpu%d/cpufreq/scaling_governor", i);
	}
	put("x", "devices/system/cpu/cpufreq/boost"); /* is no processor */
}

static void a_processor_that_is_kept_slow_is_found(void **state)
{
	(void)state;
	put("", "devices/system/cpu/cpu0/topology/x");
	assert_int_equal(look_host(check_governor), DOCTOR_UNKNOWN);
	put_governor("acpi-cpufreq\n", "performance\n");
	assert_int_equal(look_host(check_governor), DOCTOR_OK);
	put_governor("intel_pstate\n", "powersave\n"); /* goes up under load */
	assert_int_equal(look_host(check_governor), DOCTOR_NOTE);
	put_governor("amd-pstate-epp\n", "powersave\n");
	assert_int_equal(look_host(check_governor), DOCTOR_NOTE);
	put_governor("amd-pstate\n", "powersave\n"); /* in its passive mode, as any other */
	assert_int_equal(look_host(check_governor), DOCTOR_WARNING);
	put_governor("acpi-cpufreq\n", "powersave\n");
	assert_int_equal(look_host(check_governor), DOCTOR_WARNING);
	says("cpupower frequency-set");
}

static void deep_sleep_is_noted_and_accused_of_nothing(void **state)
{
	(void)state;
	put("", "devices/system/cpu/cpu0/topology/x");
	assert_int_equal(look_host(check_c_states), DOCTOR_UNKNOWN);
	put("2\n", "devices/system/cpu/cpu0/cpuidle/state1/latency");
	put("C1\n", "devices/system/cpu/cpu0/cpuidle/state1/name");
	assert_int_equal(look_host(check_c_states), DOCTOR_OK);
	put("133\n", "devices/system/cpu/cpu0/cpuidle/state3/latency");
	put("C6\n", "devices/system/cpu/cpu0/cpuidle/state3/name");
	assert_int_equal(look_host(check_c_states), DOCTOR_NOTE);
	says("C6");
	put("1\n", "devices/system/cpu/cpu0/cpuidle/state3/disable");
	assert_int_equal(look_host(check_c_states), DOCTOR_OK);
}

/* ---- port 4791 ------------------------------------------------------------------------------- */

static void who_else_has_the_port_is_found(void **state)
{
	(void)state;
	assert_int_equal(look_host(check_port), DOCTOR_UNKNOWN);
	put(UDP_HEAD UDP_ROW("0035", "0"), "net/udp");
	assert_int_equal(look_host(check_port), DOCTOR_OK);
	put(UDP_HEAD UDP_ROW("12B7", "0"), "net/udp6");
	assert_int_equal(look_host(check_port), DOCTOR_ERROR);
	says("ss -ulnp");
	put("Num RefCount ...\n0000: 00000002 00000000 00010000 0005 01 5 @weft-broker\n",
	    "net/unix");
	assert_int_equal(look_host(check_port), DOCTOR_OK);
}

static void an_rxe_that_has_the_port_is_named(void **state)
{
	(void)state;
	put(UDP_HEAD UDP_ROW("12B7", "0"), "net/udp");
	put("eth0\n", "class/infiniband/rxe0/parent");
	put("1: CA\n", "class/infiniband/rxe0/node_type");
	assert_int_equal(rnics_read(bed_root, &bed.rnics, &bed.rnic_count), 0);
	assert_int_equal(bed.rnic_count, 1);
	assert_int_equal(look_host(check_port), DOCTOR_ERROR);
	says("rdma link delete rxe0; sudo modprobe -r rdma_rxe");
}

static void an_rxe_that_keeps_the_port_is_named(void **state)
{
	(void)state;
	put(UDP_HEAD UDP_ROW("12B7", "0"), "net/udp");
	put("0\n", "module/rdma_rxe/refcnt");
	assert_int_equal(look_host(check_port), DOCTOR_ERROR);
	says("sudo modprobe -r rdma_rxe");
	put(UDP_HEAD UDP_ROW("0035", "0"), "net/udp");
	assert_int_equal(look_host(check_port), DOCTOR_OK);
}

/* ---- rules ----------------------------------------------------------------------------------- */

static int look_rules(void (*judge)(struct doctor *, const struct rulesets *),
		      const struct rulesets *rules)
{
	begin_look();
	judge(&bed, rules);
	return gravest();
}

static struct rulesets judged(const char *text)
{
	char copy[2048];
	struct rulesets r;

	snprintf(copy, sizeof(copy), "%s", text);
	ruleset_judge(&r, copy);
	return r;
}

#define TABLE(table, type, rules) \
	"table " table " {\n\tchain c {\n\t\ttype filter hook " type ";\n" rules "\t}\n}\n"
#define OPEN "input priority filter; policy accept"

static void rules_that_drop_roce_are_found(void **state)
{
	static const char *const drop[] = {
		"udp dport 4791 drop",
		"udp dport { 53, 4791 } counter reject",
		"udp dport 4000-5000 drop",
		"counter udp dport 4791 log prefix \"    \" drop",
		"meta l4proto udp udp dport 4791 counter packets 7 bytes 9 drop",
		"meta l4proto { tcp, udp } th dport 4791 reject",
	};
	static const char *const others[] = {
		"udp dport 47910 drop",
		"udp dport 4790 reject",
		"tcp dport 22 drop",
		"tcp dport 4791 drop",
		"udp dport { 53, 67-4790 } drop",
		"udp dport 4791 log prefix \"drop \" accept comment \"reject none\"",
	};
	struct rulesets r;
	char text[512];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(drop); i++) {
		snprintf(text, sizeof(text), TABLE("inet t", OPEN, "\t\t%s\n"), drop[i]);
		r = judged(text);
		assert_string_equal(r.any.drops.text, drop[i]);
		assert_string_equal(r.any.drops.chain, "inet t c");
		assert_string_equal(r.any.closed.text, "");
		assert_int_equal(look_rules(firewall_judged, &r), DOCTOR_ERROR);
		says("nft delete rule inet t c handle");
	}
	for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
		snprintf(text, sizeof(text), TABLE("inet t", OPEN, "\t\t%s\n"), others[i]);
		r = judged(text);
		assert_int_equal(look_rules(firewall_judged, &r), DOCTOR_OK);
	}
	r = judged(TABLE("inet t", OPEN, "\t\tudp dport 4791 accept\n\t\tudp dport 4791 drop\n"));
	assert_int_equal(look_rules(firewall_judged, &r), DOCTOR_OK);
	r = judged(TABLE("inet t", OPEN, "\t\taccept\n\t\tudp dport 4791 drop\n"));
	assert_int_equal(look_rules(firewall_judged, &r), DOCTOR_OK);
}

/* Whether a host that is well has such packets the text does not say. */
static void rules_that_drop_some_packets_accuse_nobody(void **state)
{
	static const char *const some[] = {
		TABLE("inet t", OPEN, "\t\tiifname \"wan0\" udp dport 4791 drop\n"),
		TABLE("inet t", OPEN, "\t\tip saddr != 10.0.0.0/8 udp dport 4791 drop\n"),
		TABLE("inet t", OPEN, "\t\tudp dport 4791 ip saddr != 10.0.0.0/8 drop\n"),
		TABLE("inet t", OPEN, "\t\tudp dport 4791 limit rate over 9/second drop\n"),
		TABLE("inet t", OPEN, "\t\tip saddr 10.0.0.0/8 accept\n\t\tudp dport 4791 drop\n"),
		TABLE("netdev t", "ingress device \"wan0\" priority 0; policy accept",
		      "\t\tudp dport 4791 drop\n"),
		TABLE("ip t", "forward priority filter; policy accept",
		      "\t\tudp dport 4791 drop\n"),
		TABLE("bridge t", OPEN, "\t\tudp dport 4791 drop\n"),
		"table ip t {\n\tchain wan {\n\t\tudp dport 4791 drop\n\t}\n}\n",
	};
	struct rulesets r;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(some); i++) {
		r = judged(some[i]);
		if (look_rules(firewall_judged, &r) != DOCTOR_UNKNOWN)
			fail_msg("%s", some[i]);
		assert_string_equal(r.any.drops.text, "");
	}
}

#define CLOSED                                                                            \
	"table inet filter {\n\tset s {\n\t\ttype inet_service\n\t}\n\n\tchain input {\n" \
	"\t\ttype filter hook input priority filter; policy drop;\n"                      \
	"\t\tct state established,related accept\n\t\tiifname \"lo\" accept\n"            \
	"\t\ttcp dport 22 accept\n\t\tmeta l4proto ipv6-icmp accept\n"
#define INSERT "sudo nft insert rule inet filter input udp dport 4791 accept"

static void a_policy_that_drops_roce_is_found(void **state)
{
	static const char *const closed[] = {
		CLOSED "\t}\n}\n",
		CLOSED "\t\ttcp dport 4791 accept\n\t}\n}\n",
	};
	static const char *const open[] = {
		CLOSED "\t\tudp dport 4791 accept\n\t}\n}\n",
		CLOSED "\t\tudp dport 4000-5000 accept comment \"drop none\"\n\t}\n}\n",
		CLOSED "\t\tcounter packets 0 bytes 0 accept\n\t}\n}\n",
		/* Who forwards nothing receives all the same. */
		TABLE("inet f", "forward priority filter; policy drop", ""),
	};
	static const char *const may[] = {
		CLOSED "\t\tudp dport @roce accept\n\t}\n}\n",
		CLOSED "\t\tjump ours\n\t}\n}\n",
		CLOSED "\t\tip saddr 10.0.0.0/8 accept\n\t}\n}\n",
	};
	struct rulesets r;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(closed); i++) {
		r = judged(closed[i]);
		assert_string_equal(r.any.closed.text, "input");
		assert_int_equal(look_rules(firewall_judged, &r), DOCTOR_WARNING);
		says(INSERT);
	}
	for (size_t i = 0; i < ARRAY_SIZE(open); i++) {
		r = judged(open[i]);
		assert_int_equal(look_rules(firewall_judged, &r), DOCTOR_OK);
	}
	for (size_t i = 0; i < ARRAY_SIZE(may); i++) {
		r = judged(may[i]);
		assert_int_equal(look_rules(firewall_judged, &r), DOCTOR_UNKNOWN);
		says(INSERT);
	}
	r = judged(CLOSED "\t\tjump ours\n\t}\n\tchain ours {\n\t\tudp dport 4791 accept\n"
			  "\t}\n}\n");
	assert_int_equal(look_rules(firewall_judged, &r), DOCTOR_UNKNOWN);
	says("inet filter ours");
}

/* As firewalld has it: by the last rule; and what stands behind that is never reached. */
static void a_last_rule_that_drops_is_found_and_what_is_behind_it_counts_for_nothing(void **state)
{
	struct rulesets r = judged(TABLE("ip f", OPEN,
					 "\t\tct state established accept\n\t\tdrop\n"
					 "\t\tudp dport 4791 accept\n"));

	(void)state;
	assert_string_equal(r.any.closed.text, "c");
	assert_int_equal(look_rules(firewall_judged, &r), DOCTOR_WARNING);
	says("sudo nft insert rule ip f c udp dport 4791 accept");
	r = judged(TABLE("ip f", OPEN, "\t\tudp dport 4791 accept\n\t\tdrop\n"));
	assert_int_equal(look_rules(firewall_judged, &r), DOCTOR_OK);
	r = judged(TABLE("inet firewalld", OPEN, "\t\treject with icmpx admin-prohibited\n"));
	assert_int_equal(look_rules(firewall_judged, &r), DOCTOR_WARNING);
	says("sudo firewall-cmd --add-port=4791/udp");
	r = judged(TABLE("ip f", OPEN, "\t\tlog prefix \"gone \" drop\n"));
	assert_int_equal(look_rules(firewall_judged, &r), DOCTOR_WARNING);
	r = judged(TABLE("ip f", OPEN, "\t\tlimit rate 5/minute drop\n"));
	assert_int_equal(look_rules(firewall_judged, &r), DOCTOR_OK);
}

static void other_families_than_ipv4_are_told_apart(void **state)
{
	struct rulesets r =
		judged(TABLE("arp filter", "input priority filter; policy drop", "")
			       TABLE("bridge b", "input priority filter; policy drop", ""));

	(void)state;
	assert_int_equal(look_rules(firewall_judged, &r), DOCTOR_OK);
	r = judged("table ip t {\n\tflags dormant\n\tchain input {\n\t\ttype filter hook input "
		   "priority filter; policy drop;\n\t}\n}\n");
	assert_int_equal(look_rules(firewall_judged, &r), DOCTOR_OK);
	r = judged(TABLE("ip6 filter", "input priority filter; policy drop", ""));
	put("fe80000000000000021122fffe334455 02 40 20 80     eth0\n"
	    "00000000000000000000000000000001 01 80 10 80       lo\n",
	    "net/if_inet6");
	assert_int_equal(look_rules(firewall_judged, &r), DOCTOR_NOTE);
	says("over IPv6");
	put("fd780000000000000000000000000001 02 40 00 80     eth0\n", "net/if_inet6");
	assert_int_equal(look_rules(firewall_judged, &r), DOCTOR_WARNING);
	says("sudo nft insert rule ip6 filter c udp dport 4791 accept");
	/* Whichever comes first. */
	r = judged(TABLE("ip6 filter", OPEN, "\t\tudp dport 4791 drop\n")
			   TABLE("ip filter", "input priority filter; policy drop", ""));
	assert_string_equal(r.any.closed.chain, "ip filter c");
	assert_string_equal(r.ipv6.drops.chain, "ip6 filter c");
}

static void rules_that_take_marks_away_are_found(void **state)
{
	static const char *const all[] = {
		TABLE("netdev m", "ingress device \"eth0\" priority 0; policy accept",
		      "\t\tudp dport 4791 ip ecn set not-ect\n"),
		TABLE("netdev m", "ingress device \"eth0\" priority 0; policy accept",
		      "\t\tudp sport 4791 ip ecn set not-ect\n"),
		TABLE("inet m", OPEN, "\t\tip6 dscp set cs0\n"),
		TABLE("inet m", OPEN, "\t\tudp dport 4791 ip ecn ce ip ecn set ect0\n"),
	};
	static const char *const some[] = {
		TABLE("inet m", OPEN, "\t\tiifname \"wan0\" ip dscp set cs0\n"),
		TABLE("netdev m", "ingress device \"wan0\" priority 0; policy accept",
		      "\t\tip dscp set cs0\n"),
		TABLE("inet m", "forward priority 0; policy accept", "\t\tip dscp set cs0\n"),
		TABLE("inet m", OPEN, "\t\tudp dport @ours ip dscp set cs0\n"),
		"table inet m {\n\tchain c {\n\t\tip dscp set cs0\n\t}\n}\n",
	};
	static const char *const none[] = {
		/* As a switch does, and a match changes nothing. */
		TABLE("inet m", OPEN, "\t\tip ecn ect0 ip ecn set ce\n\t\tip dscp 26 counter\n"),
		TABLE("inet m", OPEN, "\t\ttcp dport 22 ip dscp set cs2\n"),
		TABLE("inet m", OPEN, "\t\tudp dport 5060 ip dscp set ef\n"),
		TABLE("inet m", OPEN, "\t\ticmp type echo-request ip dscp set cs2\n"),
	};
	struct rulesets r;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		r = judged(all[i]);
		if (look_rules(mark_rules_judged, &r) != DOCTOR_WARNING)
			fail_msg("%s", all[i]);
	}
	for (size_t i = 0; i < ARRAY_SIZE(some); i++) {
		r = judged(some[i]);
		if (look_rules(mark_rules_judged, &r) != DOCTOR_UNKNOWN)
			fail_msg("%s", some[i]);
	}
	for (size_t i = 0; i < ARRAY_SIZE(none); i++) {
		r = judged(none[i]);
		if (look_rules(mark_rules_judged, &r) != DOCTOR_OK)
			fail_msg("%s", none[i]);
	}
	r = judged(TABLE("ip6 m", OPEN, "\t\tip6 dscp set cs0\n"));
	assert_int_equal(look_rules(mark_rules_judged, &r), DOCTOR_NOTE);
}

/* ---- NVMe ------------------------------------------------------------------------------------ */

static void put_controller(const char *transport, const char *state, const char *sqsize)
{
	put(transport, "class/nvme/nvme0/transport");
	put(state, "class/nvme/nvme0/state");
	put(sqsize, "class/nvme/nvme0/sqsize");
	put("3\n", "class/nvme/nvme0/queue_count");
	put("600\n", "class/nvme/nvme0/ctrl_loss_tmo");
	put("", "devices/system/cpu/cpu0/online");
	put("", "devices/system/cpu/cpu1/online");
}

static void controllers_that_are_not_well_are_found(void **state)
{
	(void)state;
	assert_int_equal(look_host(check_nvme), NOTHING);
	put_controller("pcie\n", "dead\n", "1\n"); /* is no affair of ours */
	assert_int_equal(look_host(check_nvme), NOTHING);
	put_controller("rdma\n", "live\n", "127\n");
	put("[none] mq-deadline\n", "block/nvme0n1/queue/scheduler");
	assert_int_equal(look_host(check_nvme), DOCTOR_OK);
	put("none [mq-deadline]\n", "block/nvme0n1/queue/scheduler");
	assert_int_equal(look_host(check_nvme), DOCTOR_NOTE);
	put_controller("tcp\n", "live\n", "15\n");
	assert_int_equal(look_host(check_nvme), DOCTOR_WARNING);
	put_controller("rdma\n", "connecting\n", "127\n");
	assert_int_equal(look_host(check_nvme), DOCTOR_ERROR);
	says("nvme0");
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, bed_start, bed_end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(a_small_receive_buffer_is_found),
		CASE(datagrams_that_found_no_room_are_found),
		CASE(full_queues_of_processors_are_found),
		CASE(a_slow_clock_is_found),
		CASE(a_processor_that_is_kept_slow_is_found),
		CASE(deep_sleep_is_noted_and_accused_of_nothing),
		CASE(who_else_has_the_port_is_found),
		CASE(an_rxe_that_has_the_port_is_named),
		CASE(an_rxe_that_keeps_the_port_is_named),
		CASE(rules_that_drop_roce_are_found),
		CASE(rules_that_drop_some_packets_accuse_nobody),
		CASE(a_policy_that_drops_roce_is_found),
		CASE(a_last_rule_that_drops_is_found_and_what_is_behind_it_counts_for_nothing),
		CASE(other_families_than_ipv4_are_told_apart),
		CASE(rules_that_take_marks_away_are_found),
		CASE(controllers_that_are_not_well_are_found),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
