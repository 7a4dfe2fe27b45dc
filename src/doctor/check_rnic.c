/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The kernel's RDMA devices: rxe, ports, PCIe, GIDs, rdma_cm's class, ECN, counters. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/errno_text.h"
#include "doctor/checks.h"
#include "doctor/files.h"

#define PORT	 RNIC_CLASS "/%s/ports/1"
#define CONFIGFS "kernel/config/rdma_cm/%s/ports/1"
#define GIDS_MAX 256
#define TOS_ECT0 2 /* beside the DSCP: packets can be marked */

void check_rxe(struct doctor *d, const struct rnic *n)
{
	if (!n->rxe)
		return;
	report_found(&d->report, DOCTOR_WARNING,
		     "the kernel's software RNIC is on %s: it has UDP port 4791, so that weft's "
		     "broker does not start in its network namespace",
		     n->iface[0] ? n->iface : "an interface");
	report_mend(&d->report, RXE_END, n->name);
}

/* Of a port that is not active. */
static void mend_port(struct report *r, const struct rnic *n, const char *state)
{
	if (n->ethernet && n->iface[0])
		report_mend(r, "ip link set dev %s up; ethtool %s", n->iface, n->iface);
	else if (n->ethernet)
		report_mend(r, "rdma link show %s/1    # names its interface, which is to be up",
			    n->name);
	else if (strstr(state, "DOWN"))
		report_mend(r, "ibstat %s    # its physical state: the cable, or the other end",
			    n->name);
	else
		report_mend(r,
			    "sudo sminfo -C %s    # whether a subnet manager is there, which makes "
			    "ports active: opensm, or a switch's",
			    n->name);
}

void check_port_state(struct doctor *d, const struct rnic *n)
{
	struct report *r = &d->report;
	char state[64], rate[64];
	int rc = file_line(d->sys, state, sizeof(state), PORT "/state", n->name);

	(void)!file_line(d->sys, rate, sizeof(rate), PORT "/rate", n->name);
	if (rc) {
		report_found(r, DOCTOR_UNKNOWN, "the port's state is not to be seen: %s",
			     errno_text(-rc));
	} else if (strstr(state, "ACTIVE")) {
		report_found(r, DOCTOR_OK, "the port is active, %s", rate);
	} else {
		report_found(r, DOCTOR_WARNING, "the port is in state %s", state);
		mend_port(r, n, state);
	}
}

/* ---- PCIe ------------------------------------------------------------------------------------ */

#define GT_8B10B 5.0 /* up to here 8 bits go as 10, and 128 as 130 above */

static double pcie_gbps(uint64_t lanes, double gt)
{
	return (double)lanes * gt * (gt > GT_8B10B ? 128.0 / 130 : 8.0 / 10);
}

void check_pcie(struct doctor *d, const struct rnic *n)
{
	char speed[64], speed_max[64], rate[64];
	uint64_t width, width_max;
	struct report *r = &d->report;
	double now, most;

	/* Where it stands on no bus of that kind these are not there. */
	if (!n->adapter ||
	    file_number(d->sys, &width, RNIC_CLASS "/%s/device/current_link_width", n->name) ||
	    file_number(d->sys, &width_max, RNIC_CLASS "/%s/device/max_link_width", n->name) ||
	    file_line(d->sys, speed, sizeof(speed), RNIC_CLASS "/%s/device/current_link_speed",
		      n->name) ||
	    file_line(d->sys, speed_max, sizeof(speed_max), RNIC_CLASS "/%s/device/max_link_speed",
		      n->name))
		return;
	now = strtod(speed, NULL);
	most = strtod(speed_max, NULL);
	if (!width || width >= 255) /* a virtual function does not say */
		return;
	if (width < width_max || now < most) {
		bool narrow = !file_line(d->sys, rate, sizeof(rate), PORT "/rate", n->name) &&
			      pcie_gbps(width, now) < strtod(rate, NULL);

		/* Many an adapter has more lanes than its port needs. */
		report_found(r, narrow ? DOCTOR_WARNING : DOCTOR_NOTE,
			     "x%llu at %s is %.0f Gb/s, where the adapter has x%llu at %s%s%s",
			     (unsigned long long)width, speed, pcie_gbps(width, now),
			     (unsigned long long)width_max, speed_max,
			     narrow ? ", and its port " : "", narrow ? rate : "");
		report_mend(r,
			    "sudo lspci -vvs $(basename $(readlink /sys/" RNIC_CLASS
			    "/%s/device)) | grep -e LnkCap: -e LnkSta:    # another slot, or the "
			    "firmware's setting of it",
			    n->name);
	} else {
		report_found(r, DOCTOR_OK, "x%llu at %s", (unsigned long long)width, speed);
	}
}

/* ---- GIDs and rdma_cm ------------------------------------------------------------------------ */

/* Whether its protocol is RoCE at all. */
static bool is_roce(const struct rnic *n)
{
	return n->ethernet && !n->iwarp;
}

void check_gid_type(struct doctor *d, const struct rnic *n)
{
	const char *iface = n->iface[0] ? n->iface : "INTERFACE";
	unsigned first = 0, second = 0;
	struct report *r = &d->report;
	char text[64];

	if (!is_roce(n))
		return;
	for (int i = 0; i < GIDS_MAX; i++) {
		int rc = file_line(d->sys, text, sizeof(text), PORT "/gid_attrs/types/%d", n->name,
				   i);

		if (rc == -ENOENT)
			break;
		/* A place that is free cannot be read. */
		first += rc == 0 && strstr(text, "RoCE v1") != NULL;
		second += rc == 0 && strstr(text, "RoCE v2") != NULL;
	}
	if (!first && !second) {
		report_found(r, DOCTOR_ERROR,
			     "the device has no GID: its interface has no address");
		report_mend(r, "ip address add ADDRESS/PREFIX dev %s%s", iface,
			    n->iface[0] ? "" : "    # as rdma link show names it");
		return;
	}
	if (!second) {
		report_found(r, DOCTOR_ERROR, "all %u GIDs are of RoCE v1", first);
		report_mend(r,
			    "ip address add ADDRESS/PREFIX dev %s    # and an adapter that has "
			    "RoCE v2",
			    iface);
		return;
	}
	if (file_line(d->sys, text, sizeof(text), CONFIGFS "/default_roce_mode", n->name) == 0 &&
	    strstr(text, "RoCE v1")) {
		report_found(r, DOCTOR_WARNING, "rdma_cm connects by RoCE v1");
		report_mend(r, "echo 'RoCE v2' | sudo tee /sys/" CONFIGFS "/default_roce_mode",
			    n->name);
		return;
	}
	report_found(r, DOCTOR_OK, "%u GIDs of RoCE v2", second);
}

static const struct iface *iface_of(const struct doctor *d, const struct rnic *n)
{
	for (size_t i = 0; i < d->iface_count; i++)
		if (!strcmp(d->ifaces[i].name, n->iface))
			return &d->ifaces[i];
	return NULL;
}

/* Whether packets of that DSCP are in a class that has PFC; without a map custom says which. */
static bool dscp_has_pfc(const struct dcb *b, unsigned dscp)
{
	uint8_t p = b->has_dscp ? b->dscp_priority[dscp] : DCB_NO_PRIORITY;

	if (!b->has_dscp)
		return dscp == ROCE_DSCP;
	return p != DCB_NO_PRIORITY && b->pfc.pfc_en >> p & 1;
}

/* The customary DSCP, or the first that is lossless here instead. */
static unsigned lossless_dscp(const struct dcb *b)
{
	if (dscp_has_pfc(b, ROCE_DSCP))
		return ROCE_DSCP;
	for (unsigned dscp = 0; dscp < DCB_DSCPS; dscp++)
		if (dscp_has_pfc(b, dscp))
			return dscp;
	return ROCE_DSCP;
}

void check_cm_class(struct doctor *d, const struct rnic *n)
{
	const struct iface *i = iface_of(d, n);
	struct report *r = &d->report;
	unsigned dscp, want;
	uint64_t tos;

	/* Which class it should be is known only where one has PFC. */
	if (!is_roce(n) || !n->adapter || !i || i->dcb.rc || !i->dcb.pfc.pfc_en)
		return;
	if (file_number(d->sys, &tos, CONFIGFS "/default_roce_tos", n->name)) {
		report_found(r, DOCTOR_UNKNOWN,
			     "the class of rdma_cm's connections is not to be "
			     "seen: configfs has no directory of the device");
		report_mend(r, "sudo modprobe rdma_cm; sudo mkdir -p /sys/kernel/config/rdma_cm/%s",
			    n->name);
		return;
	}
	dscp = tos >> 2 & (DCB_DSCPS - 1);
	want = lossless_dscp(&i->dcb);
	if (dscp_has_pfc(&i->dcb, dscp)) {
		report_found(r, DOCTOR_OK, "rdma_cm's connections have DSCP %u", dscp);
		return;
	}
	report_found(r, DOCTOR_WARNING,
		     "PFC is on, and rdma_cm's connections have DSCP %u, whose class has none, "
		     "unless programs say otherwise",
		     dscp);
	if (dscp == want)
		report_mend(r, "dcb app replace dev %s dscp-prio %u:%u", i->name, dscp,
			    (unsigned)__builtin_ctz(i->dcb.pfc.pfc_en));
	else
		report_mend(r, "echo %u | sudo tee /sys/" CONFIGFS "/default_roce_tos",
			    want << 2 | TOS_ECT0, n->name);
}

/* ---- ECN ------------------------------------------------------------------------------------- */

void check_ecn(struct doctor *d, const struct rnic *n)
{
	static const char *const ends[] = {"roce_np", "roce_rp"};
	static const char *const says[] = {"notifies nobody of marks", "answers no notification"};
	const struct iface *i = iface_of(d, n);
	unsigned priority = i ? dcb_roce_priority(&i->dcb) : ROCE_PRIORITY;
	struct report *r = &d->report;
	unsigned known = 0, off = 0;

	/* By the vendor's driver alone; Linux's own has these settings in debugfs, for root. */
	for (size_t k = 0; k < ARRAY_SIZE(ends); k++) {
		uint64_t on;

		if (file_number(d->sys, &on, "class/net/%s/ecn/%s/enable/%u", n->iface, ends[k],
				priority))
			continue;
		known++;
		if (on)
			continue;
		off++;
		report_found(r, DOCTOR_WARNING, "ECN is off for priority %u: the adapter %s",
			     priority, says[k]);
		report_mend(r, "echo 1 | sudo tee /sys/class/net/%s/ecn/%s/enable/%u", n->iface,
			    ends[k], priority);
	}
	if (known && !off)
		report_found(r, DOCTOR_OK, "ECN is on for priority %u", priority);
}

/* ---- counters -------------------------------------------------------------------------------- */

static const struct counter {
	const char *name;
	bool few; /* some are always there: judged by how many packets there were */
	const char *says, *mend;
} counters[] = {
	{"out_of_sequence", true, "packets came behind a gap: what was before them is lost",
	 "weft doctor --peer ADDRESS; ethtool -S IFACE | grep -e discard -e pause"},
	{"out_of_seq_request", true, "requests came behind a gap: what was before them is lost",
	 "weft doctor --peer ADDRESS"},
	{"packet_seq_err", true, "the peer told of gaps in what was sent to it",
	 "weft doctor --peer ADDRESS; ethtool -S IFACE | grep -e discard -e pause"},
	{"rcvd_seq_err", true, "the peer told of gaps in what was sent to it",
	 "weft doctor --peer ADDRESS"},
	{"local_ack_timeout_err", true, "nothing was answered until the time was over",
	 "weft doctor --peer ADDRESS"},
	{"retry_exceeded_err", false, "queue pairs ended, for nothing was answered",
	 "weft doctor --peer ADDRESS"},
	{"rnr_nak_retry_err", true, "the peer had posted no receives: its program is too slow",
	 "give the peer's program a deeper receive queue"},
	{"rcvd_rnr_err", true, "the peer had posted no receives: its program is too slow",
	 "give the peer's program a deeper receive queue"},
	{"out_of_buffer", true, "no receives were posted when messages came",
	 "give the program a deeper receive queue"},
	{"rx_icrc_encapsulated", false,
	 "packets came whose ICRC is wrong: somebody on the way changes "
	 "them",
	 "look for who rewrites headers on the way, as address translation does"},
	{"rp_cnp_ignored", false, "notifications of congestion were not answered",
	 "switch DCQCN on for the priority: roce_rp of the adapter"},
	{"roce_slow_restart", true, "flows began anew after they had been idle or had lost",
	 "weft doctor --peer ADDRESS"},
	{"roce_adp_retrans", true, "packets were sent again before the time was over",
	 "weft doctor --peer ADDRESS"},
};

static bool read_counter(const struct doctor *d, const struct rnic *n, const char *name,
			 uint64_t *ret)
{
	return file_number(d->sys, ret, PORT "/hw_counters/%s", n->name, name) == 0;
}

void check_counters(struct doctor *d, const struct rnic *n)
{
	const struct iface *i = iface_of(d, n);
	unsigned priority = i ? dcb_roce_priority(&i->dcb) : ROCE_PRIORITY;
	uint64_t packets = 0, v, marked, notified;
	struct report *r = &d->report;
	bool any = false, bad = false;

	if (file_number(d->sys, &packets, PORT "/counters/port_rcv_packets", n->name))
		(void)!read_counter(d, n, "rcvd_pkts", &packets);
	for (size_t k = 0; k < ARRAY_SIZE(counters); k++) {
		const struct counter *c = &counters[k];

		if (!read_counter(d, n, c->name, &v))
			continue;
		any = true;
		if (!v)
			continue;
		bad = true;
		report_found(r, c->few && !lost_too_many(v, packets) ? DOCTOR_NOTE : DOCTOR_WARNING,
			     "%s is %llu, of %llu packets received: %s", c->name,
			     (unsigned long long)v, (unsigned long long)packets, c->says);
		report_mend(r, "%s", c->mend);
	}
	if (read_counter(d, n, "np_ecn_marked_roce_packets", &marked) &&
	    read_counter(d, n, "np_cnp_sent", &notified) && marked && !notified) {
		bad = true;
		report_found(r, DOCTOR_WARNING,
			     "%llu packets came marked and no notification was sent: the sender "
			     "goes on as before",
			     (unsigned long long)marked);
		/* The vendor's driver alone has that file. */
		if (file_number(d->sys, &v, "class/net/%s/ecn/roce_np/enable/%u", n->iface,
				priority))
			report_mend(r, "switch DCQCN on for priority %u: roce_np of the adapter",
				    priority);
		else
			report_mend(r, "echo 1 | sudo tee /sys/class/net/%s/ecn/roce_np/enable/%u",
				    n->iface, priority);
	}
	if (any && !bad)
		report_found(r, DOCTOR_OK, "no errors, of %llu packets received",
			     (unsigned long long)packets);
	else if (!any)
		report_found(r, DOCTOR_UNKNOWN, "the device counts nothing that is known here");
}
