/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Interfaces: link, MTU, offloads, NUMA node, rings, what they lost. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/errno_text.h"
#include "doctor/checks.h"
#include "doctor/files.h"
#include "wire/bth.h"

#define JUMBO	      9000u /* what hosts have whose switches have 9216 */
#define MTU_BEST      (4096 + FULL_PACKET_HEADERS)
#define MTU_BASE      1500
#define HEADERS_ROOM  104  /* FULL_PACKET_HEADERS, and what makes a round number */
#define PATH_MTU_BASE 1024 /* what every Ethernet carries, tunnels and all */
#define RING_SMALL    512
#define STALLED_LONG  10 /* of a hundred */
#define NODES	      "devices/system/node"

void check_link(struct doctor *d, const struct iface *i)
{
	struct report *r = &d->report;

	if (!i->enabled) {
		report_found(r, DOCTOR_ERROR, "the interface is down");
		report_mend(r, "ip link set dev %s up", i->name);
	} else if (!i->carrier) {
		report_found(r, DOCTOR_ERROR, "no carrier: the cable or the other end is off");
		report_mend(r, "ethtool %s", i->name);
	} else if (i->half_duplex) {
		report_found(r, DOCTOR_WARNING, "half duplex at %u Mb/s", i->speed_mbps);
		report_mend(r, "ethtool -s %s autoneg on    # here and at the switch's port",
			    i->name);
	} else if (i->speed_mbps) {
		report_found(r, DOCTOR_OK, "up, %u Mb/s", i->speed_mbps);
	} else {
		report_found(r, DOCTOR_OK, "up, of no particular rate");
	}
}

/* What stands on another interface carries no more than that, and the ends of a veth pair have to
 * have the same. */
static void mend_mtu(struct doctor *d, const struct iface *i, uint32_t mtu, const char *rest)
{
	const struct iface *low = iface_below(d->ifaces, d->iface_count, i);

	if (low && low->mtu < mtu)
		report_mend(&d->report,
			    "ip link set dev %s mtu %u && ip link set dev %s mtu %u    # on all "
			    "hosts of this network%s",
			    low->name, mtu, i->name, mtu, rest);
	else
		report_mend(&d->report,
			    "ip link set dev %s mtu %u    # %son all hosts of this network%s",
			    i->name, mtu, i->veth ? "at both ends of the pair, and " : "", rest);
}

void check_mtu(struct doctor *d, const struct iface *i)
{
	struct report *r = &d->report;
	unsigned path_mtu;

	if (!i->mtu || i->loopback || !i->ethernet)
		return;
	path_mtu = 128u << path_mtu_of(i->mtu);
	if (i->mtu < 256 + FULL_PACKET_HEADERS) {
		report_found(r, DOCTOR_ERROR,
			     "MTU %u does not carry the smallest packet of RoCE with all headers",
			     i->mtu);
	} else if (i->mtu >= MTU_BEST) {
		report_found(r, DOCTOR_OK, "MTU %u carries the path MTU 4096", i->mtu);
		return;
	} else if (path_mtu < PATH_MTU_BASE) {
		report_found(r, DOCTOR_WARNING, "MTU %u allows the path MTU %u alone", i->mtu,
			     path_mtu);
	} else if (i->mtu > MTU_BASE && i->mtu >= 2 * path_mtu &&
		   (!i->mtu_max || i->mtu_max >= 2 * path_mtu + HEADERS_ROOM)) {
		/* As 4096, which looks as if it were for a path MTU of as much. */
		report_found(r, DOCTOR_WARNING,
			     "MTU %u has no room for the headers of the path MTU %u, so that it is "
			     "%u",
			     i->mtu, 2 * path_mtu, path_mtu);
		mend_mtu(d, i, 2 * path_mtu + HEADERS_ROOM, "");
		return;
	} else {
		report_found(r, DOCTOR_NOTE, "MTU %u allows the path MTU %u of at most 4096",
			     i->mtu, path_mtu);
		/* Less than Ethernet's is a tunnel's, which takes no more. */
		if (i->mtu < MTU_BASE || (i->mtu_max && i->mtu_max < MTU_BEST))
			return;
		mend_mtu(d, i, i->mtu_max ? min_of(i->mtu_max, JUMBO) : JUMBO,
			 ", and 9216 at switches");
		return;
	}
	report_mend(r, "ip link set dev %s mtu %u", i->name, MTU_BASE);
}

/* ---- offloads -------------------------------------------------------------------------------- */

static const struct offload {
	const char *feature, *option, *says;
	bool hardware; /* it is on by itself only there */
	/* One of these has to be on, or the kernel leaves it off, though it is asked for. */
	const char *needs[4], *needs_option;
} offloads[] = {
	{.feature = "tx-generic-segmentation",
	 .option = "gso",
	 .says = "what is sent is cut into packets at once",
	 .needs = {"tx-scatter-gather"},
	 .needs_option = "sg"},
	{.feature = "tx-udp-segmentation",
	 .option = "tx-udp-segmentation",
	 .says = "datagrams are cut before they reach the interface",
	 .needs = {"tx-checksum-ip-generic", "tx-checksum-ipv4", "tx-checksum-ipv6"},
	 .needs_option = "tx"},
	{.feature = "rx-gro",
	 .option = "gro",
	 .says = "packets that come are handed up one by one",
	 .hardware = true},
};

enum need { MET, SWITCHED_OFF, NONE_HERE };

static enum need need_of(const struct iface *i, const struct offload *o)
{
	bool any = false, can = false;

	for (size_t k = 0; k < ARRAY_SIZE(o->needs) && o->needs[k]; k++) {
		const struct iface_feature *f = iface_feature(i, o->needs[k]);

		if (f && f->on)
			return MET;
		any |= f != NULL;
		can |= f && f->can && !f->asked;
	}
	return !any ? MET : can ? SWITCHED_OFF : NONE_HERE;
}

void check_offloads(struct doctor *d, const struct iface *i)
{
	struct report *r = &d->report;
	bool any = false;

	if (i->loopback || !i->ethernet)
		return;
	if (i->features_rc) {
		report_found(r, DOCTOR_UNKNOWN, "the kernel does not say: %s",
			     errno_text(-i->features_rc));
		return;
	}
	for (size_t k = 0; k < ARRAY_SIZE(offloads); k++) {
		const struct offload *o = &offloads[k];
		const struct iface_feature *f = iface_feature(i, o->feature);
		enum need need = need_of(i, o);

		/* A veth pair hands over what was not cut, and has nothing to join. */
		if (!f || f->on || !f->can || (o->hardware && !i->hardware))
			continue;
		/* The device has it not, or has a reason that it does not tell. */
		if (need == NONE_HERE || (need == MET && f->asked))
			continue;
		any = true;
		if (need == MET) {
			report_found(r, DOCTOR_WARNING, "%s is off: %s", o->feature, o->says);
			report_mend(r, "ethtool -K %s %s on", i->name, o->option);
			continue;
		}
		report_found(r, DOCTOR_WARNING, "%s is off, as %s is, which it needs: %s",
			     o->feature, o->needs[0], o->says);
		report_mend(r, "ethtool -K %s %s on%s%s%s", i->name, o->needs_option,
			    f->asked ? "" : " ", f->asked ? "" : o->option, f->asked ? "" : " on");
	}
	if (!any)
		report_found(r, DOCTOR_OK, "nothing is switched off that could be on");
}

/* ---- NUMA ------------------------------------------------------------------------------------ */

/* Whether two lists of processors, as "0-7,16", have one in common. */
static bool share(const char *a, const char *b)
{
	for (; *a; a += strcspn(a, ","), a += *a == ',') {
		unsigned first, last;
		int n = sscanf(a, "%u-%u", &first, &last);

		if (n < 1)
			continue;
		last = n == 2 ? last : first;
		for (const char *at = b; *at; at += strcspn(at, ","), at += *at == ',') {
			unsigned from, to;

			n = sscanf(at, "%u-%u", &from, &to);
			to = n == 2 ? to : from;
			if (n >= 1 && from <= last && to >= first)
				return true;
		}
	}
	return false;
}

#define CPU_LIST 4096

static void see_status(void *ctx, char *line)
{
	(void)!sscanf(line, "Cpus_allowed_list: %4095s", (char *)ctx);
}

void check_numa(struct doctor *d, const struct iface *i)
{
	char nodes[64], local[CPU_LIST], allowed[CPU_LIST] = "";
	uint64_t node;

	/* It is -1 where the firmware does not say, and a host of one node has nothing to choose.
	 */
	if (file_number(d->sys, &node, "class/net/%s/device/numa_node", i->name) ||
	    file_line(d->sys, nodes, sizeof(nodes), NODES "/online") || !strpbrk(nodes, ",-") ||
	    file_line(d->sys, local, sizeof(local), NODES "/node%llu/cpulist",
		      (unsigned long long)node) ||
	    !local[0] || file_lines(d->proc, "self/status", see_status, allowed) || !allowed[0])
		return;
	if (share(local, allowed)) {
		report_found(&d->report, DOCTOR_OK, "at NUMA node %llu", (unsigned long long)node);
		return;
	}
	report_found(
		&d->report, DOCTOR_NOTE,
		"at NUMA node %llu, whose processors are not among those that programs may use "
		"which are started from here",
		(unsigned long long)node);
	report_mend(&d->report,
		    "taskset -c $(cat /sys/" NODES "/node%llu/cpulist) PROGRAM    # where its "
		    "container has them",
		    (unsigned long long)node);
}

/* ---- losses ---------------------------------------------------------------------------------- */

/* What a counter is to be judged by: RDMA's packets go by the kernel, and the adapter has counted
 * them, where the counter is the port's. */
static uint64_t packets_of(const struct iface *i, const char *counter)
{
	static const char phy[] = "_phy";
	size_t len = strlen(counter), end = sizeof(phy) - 1;
	bool ports =
		(len > end && !strcmp(counter + len - end, phy)) || !strncmp(counter, "rx_prio", 7);
	uint64_t n;

	return ports && iface_stat(i, "rx_packets_phy", &n) ? n : i->link.rx_packets;
}

/* All that found no place in the ring; the port's own buffer is another. */
static uint64_t no_room(const struct iface *i)
{
	static const char *const names[] = {"rx_out_of_buffer", "rx_missed_errors",
					    "rx_no_dma_resources"};
	uint64_t n = i->link.rx_missed_errors, v;

	for (size_t k = 0; k < ARRAY_SIZE(names); k++)
		if (iface_stat(i, names[k], &v))
			n = max_of(n, v);
	return n;
}

void check_rings(struct doctor *d, const struct iface *i)
{
	struct report *r = &d->report;
	bool grows = i->rings.rx < i->rings.rx_max;

	if (!i->hardware || i->rings.rc || !i->rings.rx_max)
		return;
	if (grows && lost_too_many(no_room(i), i->link.rx_packets))
		report_found(r, DOCTOR_WARNING,
			     "%u places to receive of %u, and %llu packets found none", i->rings.rx,
			     i->rings.rx_max, (unsigned long long)no_room(i));
	else if (grows && i->rings.rx < RING_SMALL)
		report_found(r, DOCTOR_NOTE, "%u places to receive of %u", i->rings.rx,
			     i->rings.rx_max);
	else
		report_found(r, DOCTOR_OK, "%u places to receive of %u", i->rings.rx,
			     i->rings.rx_max);
	if (grows)
		report_mend(r, "ethtool -G %s rx %u", i->name, i->rings.rx_max);
}

static const struct discard {
	const char *name; /* of the driver's; a '*' stands for a digit: a priority */
	const char *says;
	const char *command, *rest; /* the line to type, before and behind the interface's name */
	bool few;		    /* some are always there: judged by how many */
	bool ring;		    /* a larger ring helps, if there is one */
	bool share;		    /* not a number: hundredths of the last second */
} discards[] = {
	{"rx_discards_phy",
	 "the port had no room: the host takes packets too slowly, or PFC is not on",
	 "dcb pfc show dev", "", true, false},
	{"rx_prio*_discards",
	 "a priority had no buffer: PFC is not on for it, or its buffer is too small",
	 "dcb buffer show dev", "", true, false},
	{"rx_out_of_buffer", "no receive buffers were posted when packets came", "ethtool -l",
	 "    # the ring is as large as it may be: more queues (ethtool -L) have more", true, true},
	{"rx_crc_errors_phy", "frames came damaged: a cable, a transceiver or its optics",
	 "ethtool -m", "", false, false},
	{"rx_symbol_err_phy", "the line had errors: a cable, a transceiver or its optics",
	 "ethtool -m", "", true, false},
	{"tx_pause_storm_error_events",
	 "the host held the port in pause so long that pausing was switched off", "ethtool -S",
	 " | grep pause    # then its firmware, and what keeps the host from receiving", false,
	 false},
	{"tx_pause_storm_warning_events",
	 "the host held the port in pause for long: it takes packets too slowly", "ethtool -S",
	 " | grep pause    # then its firmware, and what keeps the host from receiving", false,
	 false},
	{"outbound_pci_stalled_wr", "PCIe took what the adapter writes too slowly", "ethtool -i",
	 "    # its bus-info, for `lspci -vvs`: LnkSta, MaxPayload, MaxReadReq", .share = true},
};

/* Whether a driver's name is the row's; the '*' is one digit. */
static bool fits(const char *row, const char *name)
{
	for (; *row && *name; row++, name++)
		if (*row != *name && !(*row == '*' && *name >= '0' && *name <= '9'))
			return false;
	return !*row && !*name;
}

static bool tell_discard(struct doctor *d, const struct iface *i, const struct discard *row,
			 const struct iface_stat *s)
{
	bool bad = row->share ? s->value >= STALLED_LONG
			      : !row->few || lost_too_many(s->value, packets_of(i, s->name));

	if (!s->value || !fits(row->name, s->name))
		return false;
	report_found(&d->report, bad ? DOCTOR_WARNING : DOCTOR_NOTE, "%s is %llu%s: %s", s->name,
		     (unsigned long long)s->value,
		     row->share ? " % of the last second" : " since the driver began", row->says);
	if (row->ring && i->rings.rc == 0 && i->rings.rx < i->rings.rx_max)
		report_mend(&d->report, "ethtool -G %s rx %u", i->name, i->rings.rx_max);
	else
		report_mend(&d->report, "%s %s%s", row->command, i->name, row->rest);
	return true;
}

void check_discards(struct doctor *d, const struct iface *i)
{
	struct report *r = &d->report;
	const struct {
		const char *name;
		uint64_t value;
		bool few;
	} of_all[] = {
		{"rx_missed_errors", i->link.rx_missed_errors, true},
		{"rx_crc_errors", i->link.rx_crc_errors, false},
		{"rx_over_errors", i->link.rx_over_errors, true},
		{"tx_carrier_errors", i->link.tx_carrier_errors, true},
	};
	bool any = false;

	if (!i->hardware)
		return;
	for (size_t n = 0; n < i->stat_count; n++)
		for (size_t k = 0; k < ARRAY_SIZE(discards); k++)
			any |= tell_discard(d, i, &discards[k], &i->stats[n]);
	for (size_t k = 0; k < ARRAY_SIZE(of_all) && !any; k++) {
		if (!of_all[k].value)
			continue;
		any = true;
		report_found(r,
			     !of_all[k].few || lost_too_many(of_all[k].value, i->link.rx_packets)
				     ? DOCTOR_WARNING
				     : DOCTOR_NOTE,
			     "%s is %llu of %llu packets", of_all[k].name,
			     (unsigned long long)of_all[k].value,
			     (unsigned long long)i->link.rx_packets);
		report_mend(r, "ip -s -s link show dev %s; ethtool -S %s", i->name, i->name);
	}
	if (any)
		return;
	if (i->stats_rc && i->stats_rc != -EOPNOTSUPP)
		report_found(r, DOCTOR_UNKNOWN, "the driver does not show its counters: %s",
			     errno_text(-i->stats_rc));
	else
		report_found(r, DOCTOR_OK, "nothing was lost of %llu packets",
			     (unsigned long long)i->link.rx_packets);
}
