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

static struct ruleset judged(const char *text)
{
	char copy[2048];
	struct ruleset r;

	snprintf(copy, sizeof(copy), "%s", text);
	ruleset_judge(&r, copy);
	return r;
}

static void rules_that_drop_roce_are_found(void **state)
{
	struct ruleset r = judged("table inet t {\n\tchain c {\n"
				  "\t\ttype filter hook input priority filter; policy accept;\n"
				  "\t\tudp dport 4791 drop\n\t}\n}\n");

	(void)state;
	assert_string_equal(r.drops, "udp dport 4791 drop");
	assert_string_equal(r.closed, "");
	r = judged("table inet t {\n\tchain c {\n\t\tudp dport 47910 drop\n"
		   "\t\tudp dport 4790 reject\n\t\ttcp dport 22 drop\n\t}\n}\n");
	assert_string_equal(r.drops, "");
	r = judged(
		"table inet t {\n\tchain c {\n\t\tudp dport { 53, 4791 } counter reject\n\t}\n}\n");
	assert_string_equal(r.drops, "udp dport { 53, 4791 } counter reject");
	r = judged("table inet t {\n\tchain c {\n\t\tudp dport 4000-5000 drop\n\t}\n}\n");
	assert_string_equal(r.drops, "udp dport 4000-5000 drop");
	r = judged("table inet t {\n\tchain c {\n\t\ttcp dport 4791 drop\n"
		   "\t\tudp dport { 53, 67-4790 } drop\n"
		   "\t\tudp dport 4791 log prefix \"drop \" accept comment \"reject none\"\n"
		   "\t\tudp dport 4791 drop\n\t}\n}\n");
	assert_string_equal(r.drops, "");
}

#define CLOSED                                                                            \
	"table inet filter {\n\tset s {\n\t\ttype inet_service\n\t}\n\n\tchain input {\n" \
	"\t\ttype filter hook input priority filter; policy drop;\n"                      \
	"\t\tct state established,related accept\n\t\tiifname \"lo\" accept\n"            \
	"\t\ttcp dport 22 accept\n\t\tmeta l4proto ipv6-icmp accept\n"

static void a_policy_that_drops_roce_is_found(void **state)
{
	struct ruleset r = judged(CLOSED "\t}\n}\n");

	(void)state;
	assert_string_equal(r.closed, "input");
	assert_false(r.may_accept);
	r = judged(CLOSED "\t\tudp dport 4791 accept\n\t}\n}\n");
	assert_string_equal(r.closed, "");
	r = judged(CLOSED "\t\tudp dport 4000-5000 accept comment \"drop none\"\n\t}\n}\n");
	assert_string_equal(r.closed, "");
	r = judged(CLOSED "\t\ttcp dport 4791 accept\n\t}\n}\n");
	assert_string_equal(r.closed, "input");
	assert_false(r.may_accept);
	r = judged(CLOSED "\t\tudp dport @roce accept\n\t}\n}\n");
	assert_string_equal(r.closed, "input");
	assert_true(r.may_accept);
	/* As firewalld has it: by the last rule. */
	r = judged("table inet f {\n\tchain i {\n"
		   "\t\ttype filter hook input priority filter; policy accept;\n"
		   "\t\tct state established accept\n\t\treject with icmpx admin-prohibited\n"
		   "\t}\n}\n");
	assert_string_equal(r.closed, "i");
	/* Whether our packets are meant the text does not say. */
	r = judged(CLOSED "\t\tip saddr 10.0.0.0/8 accept\n\t}\n}\n");
	assert_string_equal(r.closed, "input");
	assert_true(r.may_accept);
	/* Who forwards nothing receives all the same. */
	r = judged("table inet f {\n\tchain forward {\n"
		   "\t\ttype filter hook forward priority filter; policy drop;\n\t}\n}\n");
	assert_string_equal(r.closed, "");
}

static void rules_that_take_marks_away_are_found(void **state)
{
	struct ruleset r =
		judged("table netdev m {\n\tchain c {\n\t\ttype filter hook ingress device "
		       "\"eth0\" priority 0; policy accept;\n"
		       "\t\tudp dport 4791 ip ecn set not-ect\n\t}\n}\n");

	(void)state;
	assert_string_equal(r.strips, "udp dport 4791 ip ecn set not-ect");
	r = judged("table netdev m {\n\tchain c {\n\t\tip6 dscp set cs0\n\t}\n}\n");
	assert_string_equal(r.strips, "ip6 dscp set cs0");
	/* As a switch does, and a match changes nothing. */
	r = judged("table netdev m {\n\tchain c {\n\t\tip ecn ect0 ip ecn set ce\n"
		   "\t\tip dscp 26 counter\n\t}\n}\n");
	assert_string_equal(r.strips, "");
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
		CASE(a_policy_that_drops_roce_is_found),
		CASE(rules_that_take_marks_away_are_found),
		CASE(controllers_that_are_not_well_are_found),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
