/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A lossless fabric's settings, by DCB: PFC, traffic classes, DSCP, and pause. A port without DCB
 * has none of it to be wrong; an adapter's, or one that has PFC on, is looked at.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/errno_text.h"
#include "doctor/checks.h"

static bool lossless(const struct iface *i)
{
	return i->dcb.rc == 0 && i->dcb.has_pfc && i->dcb.pfc.pfc_en;
}

static bool matters(const struct iface *i)
{
	return i->rnic || lossless(i);
}

/* Says why it could not be looked at, where it matters. */
static bool unreadable(struct doctor *d, const struct iface *i, bool has)
{
	if (i->dcb.rc == 0 && has)
		return false;
	if (i->rnic)
		report_found(&d->report, DOCTOR_UNKNOWN, "the driver does not tell by DCB%s%s",
			     i->dcb.rc ? ": " : "", i->dcb.rc ? errno_text(-i->dcb.rc) : "");
	return true;
}

/* "0, 3"; buf of 32 bytes is enough. */
static const char *list(char buf[32], uint8_t mask)
{
	size_t n = 0;

	buf[0] = 0;
	for (unsigned p = 0; p < DCB_PRIORITIES; p++)
		if (mask >> p & 1)
			n += (size_t)snprintf(buf + n, 32 - n, "%s%u", n ? ", " : "", p);
	return buf;
}

void check_pfc(struct doctor *d, const struct iface *i)
{
	uint8_t roce = dcb_roce_priority(&i->dcb), on = i->dcb.pfc.pfc_en;
	struct report *r = &d->report;
	char text[32];

	if (!matters(i) || unreadable(d, i, i->dcb.has_pfc))
		return;
	if (!on) {
		report_found(r, DOCTOR_NOTE,
			     "PFC is off for all priorities: switches drop what they have no room "
			     "for, and ECN alone has to prevent it");
	} else if (!(on >> roce & 1)) {
		report_found(r, DOCTOR_WARNING, "PFC is on for priority %s, and RoCE has %u",
			     list(text, on), roce);
	} else if (on & (on - 1)) {
		report_found(r, DOCTOR_WARNING,
			     "PFC is on for priorities %s, of which RoCE has %u alone",
			     list(text, on), roce);
	} else {
		report_found(r, DOCTOR_OK, "PFC is on for priority %u, which RoCE has", roce);
		return;
	}
	report_mend(r, "dcb pfc set dev %s prio-pfc all:off %u:on    # as switches have it",
		    i->name, roce);
}

#define ROCE_SHARE   50 /* of the link, beside all others */
#define STRICT_SHARE 10 /* what a class counts for that had no share */

/* Classes with packets that wait for RoCE's one where that has strict priority. */
static uint8_t behind_strict(const struct ieee_ets *e, unsigned roce)
{
	uint8_t ret = 0;

	for (unsigned p = 0; p < DCB_PRIORITIES; p++) {
		unsigned tc = e->prio_tc[p] & 7;

		if (tc != roce && (e->tc_tsa[tc] == IEEE_8021QAZ_TSA_ETS ||
				   (e->tc_tsa[tc] == IEEE_8021QAZ_TSA_STRICT && tc < roce)))
			ret |= (uint8_t)(1u << tc);
	}
	return ret;
}

/* " 0:50 3:50", of RoCE's class, of those that are strict and are to have a share, and of those
 * that have one: drivers refuse what is not 100 in all. */
static const char *shares(char buf[64], const struct ieee_ets *e, unsigned roce, uint8_t strict)
{
	unsigned v[DCB_PRIORITIES] = {0}, sum = 0, left = 100;
	size_t n = 0;

	for (unsigned tc = 0; tc < DCB_PRIORITIES; tc++) {
		if (tc == roce)
			continue;
		if (strict >> tc & 1)
			v[tc] = STRICT_SHARE;
		else if (e->tc_tsa[tc] == IEEE_8021QAZ_TSA_ETS)
			v[tc] = e->tc_tx_bw[tc];
		sum += v[tc];
	}
	for (unsigned tc = 0; tc < DCB_PRIORITIES; tc++) {
		if (v[tc])
			v[tc] = max_of(v[tc] * (100 - ROCE_SHARE) / sum, 1u);
		left -= v[tc];
	}
	v[roce] = left;
	buf[0] = 0;
	for (unsigned tc = 0; tc < DCB_PRIORITIES; tc++)
		if (v[tc])
			n += (size_t)snprintf(buf + n, 64 - n, " %u:%u", tc, v[tc]);
	return buf;
}

static void mend_strict(struct report *r, const struct iface *i, unsigned roce, uint8_t behind)
{
	const struct ieee_ets *e = &i->dcb.ets;
	char by_share[64], now[64];
	uint8_t strict = 0;
	size_t n = 0;

	for (unsigned tc = 0; tc < DCB_PRIORITIES; tc++) {
		if (tc != roce && !(behind >> tc & 1 && e->tc_tsa[tc] == IEEE_8021QAZ_TSA_STRICT))
			continue;
		strict |= (uint8_t)(1u << tc);
		n += (size_t)snprintf(now + n, sizeof(now) - n, " %u:ets", tc);
	}
	report_mend(r, "dcb ets set dev %s tc-tsa%s tc-bw%s", i->name, now,
		    shares(by_share, e, roce, strict));
}

void check_ets(struct doctor *d, const struct iface *i)
{
	uint8_t roce = dcb_roce_priority(&i->dcb);
	const struct ieee_ets *e = &i->dcb.ets;
	struct report *r = &d->report;
	uint8_t tc = e->prio_tc[roce] & 7, shared = 0, behind = behind_strict(e, tc);
	char text[64];

	if (!matters(i) || unreadable(d, i, i->dcb.has_ets))
		return;
	for (unsigned p = 0; p < DCB_PRIORITIES; p++)
		if (p != roce && e->prio_tc[p] == e->prio_tc[roce])
			shared |= (uint8_t)(1u << p);
	if (shared) {
		report_found(r, lossless(i) ? DOCTOR_WARNING : DOCTOR_NOTE,
			     "priority %u, which RoCE has, is in traffic class %u with %s", roce,
			     tc, list(text, shared));
		if (e->ets_cap && e->ets_cap < DCB_PRIORITIES)
			report_mend(r, "dcb ets set dev %s prio-tc all:0 %u:1", i->name, roce);
		else
			report_mend(r, "dcb ets set dev %s prio-tc 0:0 1:1 2:2 3:3 4:4 5:5 6:6 7:7",
				    i->name);
	} else if (e->tc_tsa[tc] == IEEE_8021QAZ_TSA_ETS && !e->tc_tx_bw[tc]) {
		report_found(r, DOCTOR_WARNING,
			     "traffic class %u, which RoCE has, has 0 %% of the link", tc);
		report_mend(r, "dcb ets set dev %s tc-bw%s", i->name, shares(text, e, tc, 0));
	} else if (e->tc_tsa[tc] == IEEE_8021QAZ_TSA_STRICT && behind && lossless(i)) {
		report_found(r, DOCTOR_NOTE,
			     "traffic class %u, which RoCE has, goes before all below it: these "
			     "can starve",
			     tc);
		mend_strict(r, i, tc, behind);
	} else {
		report_found(r, DOCTOR_OK, "RoCE has traffic class %u for itself", tc);
	}
}

void check_dscp(struct doctor *d, const struct iface *i)
{
	const struct dcb *b = &i->dcb;
	struct report *r = &d->report;

	if (!matters(i) || unreadable(d, i, true))
		return;
	if (!b->has_dscp) {
		report_found(r, lossless(i) ? DOCTOR_WARNING : DOCTOR_NOTE,
			     "no DSCP has a priority: packets without VLAN tag have priority 0");
	} else if (b->dscp_priority[ROCE_DSCP] == DCB_NO_PRIORITY) {
		report_found(r, lossless(i) ? DOCTOR_WARNING : DOCTOR_NOTE,
			     "DSCP %u, which RoCE has by custom, has no priority", ROCE_DSCP);
	} else if (b->dscp_priority[ROCE_CNP_DSCP] == b->dscp_priority[ROCE_DSCP]) {
		report_found(r, DOCTOR_NOTE,
			     "notifications of congestion (DSCP %u) have the priority %u of the "
			     "data that they are to slow down",
			     ROCE_CNP_DSCP, b->dscp_priority[ROCE_DSCP]);
		report_mend(r, "dcb app replace dev %s dscp-prio %u:6", i->name, ROCE_CNP_DSCP);
		return;
	} else {
		report_found(r, DOCTOR_OK, "DSCP %u has priority %u", ROCE_DSCP,
			     b->dscp_priority[ROCE_DSCP]);
		return;
	}
	report_mend(r, "dcb app replace dev %s dscp-prio %u:%u %u:6", i->name, ROCE_DSCP,
		    ROCE_PRIORITY, ROCE_CNP_DSCP);
}

void check_global_pause(struct doctor *d, const struct iface *i)
{
	struct report *r = &d->report;
	const char *which = i->pause.rx && i->pause.tx ? "both ways"
			    : i->pause.rx	       ? "to receive"
						       : "to send";

	if (!matters(i))
		return;
	if (i->pause.rc) {
		report_found(r, DOCTOR_UNKNOWN, "the driver does not tell: %s",
			     errno_text(-i->pause.rc));
	} else if (!i->pause.rx && !i->pause.tx) {
		report_found(r, DOCTOR_OK, "global pause is off");
	} else {
		report_found(r, lossless(i) ? DOCTOR_WARNING : DOCTOR_NOTE,
			     "global pause is on %s%s", which, lossless(i) ? ", and PFC, too" : "");
		report_mend(r, "ethtool -A %s rx off tx off", i->name);
	}
}

void check_pause(struct doctor *d, const struct iface *i)
{
	uint8_t roce = dcb_roce_priority(&i->dcb);
	struct report *r = &d->report;
	uint64_t sent = 0, received = 0, elsewhere = 0, held_us;
	char name[32], held[64] = "";

	if (!matters(i) || i->dcb.rc || !i->dcb.has_pfc)
		return;
	for (unsigned p = 0; p < DCB_PRIORITIES; p++) {
		uint64_t rx = i->dcb.pfc.indications[p], tx = i->dcb.pfc.requests[p], v;

		/* Where the driver has these the kernel has the same, or nothing. */
		snprintf(name, sizeof(name), "rx_prio%u_pause", p);
		if (iface_stat(i, name, &v))
			rx = max_of(rx, v);
		snprintf(name, sizeof(name), "tx_prio%u_pause", p);
		if (iface_stat(i, name, &v))
			tx = max_of(tx, v);
		if (p == roce) {
			received = rx;
			sent = tx;
		} else {
			elsewhere += rx + tx;
		}
	}
	if (elsewhere) {
		report_found(r, DOCTOR_WARNING,
			     "%llu pause frames were of priorities that RoCE does not have: the "
			     "switch has PFC on for others",
			     (unsigned long long)elsewhere);
		report_mend(r, "dcb pfc show dev %s    # and at the switch: priority %u alone",
			    i->name, roce);
	}
	snprintf(name, sizeof(name), "rx_prio%u_pause_duration", roce);
	if (iface_stat(i, name, &held_us))
		snprintf(held, sizeof(held), ", and held the port for %llu us",
			 (unsigned long long)held_us);
	if (sent || received) {
		report_found(
			r, DOCTOR_NOTE,
			"of priority %u %llu pause frames came%s, and %llu were sent since the "
			"driver began; ECN should have answered before",
			roce, (unsigned long long)received, held, (unsigned long long)sent);
		report_mend(r, "ethtool -S %s | grep pause    # twice, some seconds apart",
			    i->name);
	} else if (!elsewhere) {
		report_found(r, DOCTOR_OK, "no pause frames");
	}
}
