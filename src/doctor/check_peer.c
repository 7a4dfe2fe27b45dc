/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The way to a peer, from what was measured. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/errno_text.h"
#include "doctor/checks.h"
#include "wire/bth.h"
#include "wire/flow.h"

#define ROOM_SMALL (2 * 212992u) /* what Linux's own net.core.rmem_max makes */
#define ROOM_LARGE (2u << 20)	 /* from there on the window is the large one */

void check_peer(struct doctor *d, const struct path *p)
{
	struct report *r = &d->report;

	if (p->answered) {
		report_found(r, DOCTOR_OK, "weft answers there, by %s",
			     p->iface[0] ? p->iface : "an interface that is not known");
	} else if (p->error == -ECONNREFUSED) {
		report_found(r, DOCTOR_WARNING,
			     "the host is there, and nobody has UDP port %u, or a rule rejects it",
			     ROCEV2_UDP_PORT);
		report_mend(r, "weft broker -f    # there; or its rules: sudo weft doctor");
	} else if (p->error) {
		report_found(r, DOCTOR_ERROR, "nothing can be sent there: %s",
			     errno_text(-p->error));
		report_mend(r, "ip route get %s; ip neigh", p->peer);
	} else if (p->echoes) {
		report_found(r, DOCTOR_WARNING,
			     "the host answers echo requests, and nothing to UDP port %u: a rule "
			     "drops it there or on the way, or its RNIC is not weft's and does not "
			     "know the question",
			     ROCEV2_UDP_PORT);
		report_mend(r, "sudo weft doctor    # there: firewall, port-4791");
	} else if (!p->asked_echo) {
		report_found(r, DOCTOR_WARNING,
			     "no answer, and no right to send echo requests here, which would tell "
			     "whether the host is there");
		report_mend(r, "sudo weft doctor --peer %s", p->peer);
	} else {
		report_found(r, DOCTOR_ERROR,
			     "no answer, neither to weft's question nor to echo "
			     "requests");
		report_mend(r, "ip route get %s; ping %s; and weft doctor there", p->peer, p->peer);
	}
}

/* False: it was told that nothing is known. */
static bool known(struct doctor *d, const struct path *p, bool told)
{
	if (p->answered && (p->told || !told))
		return true;
	report_found(&d->report, DOCTOR_UNKNOWN,
		     p->answered ? "the peer's weft is older and does not tell"
				 : "the peer does not answer");
	return false;
}

void check_path_mtu(struct doctor *d, const struct path *p)
{
	struct report *r = &d->report;
	const char *iface = p->iface[0] ? p->iface : "IFACE";

	if (!known(d, p, false))
		return;
	if (!p->passes) {
		report_found(r, DOCTOR_ERROR,
			     "short packets come back, and none of %u bytes or more", p->fails);
		report_mend(r, "tracepath -n %s    # which link of the way it is", p->peer);
	} else if (p->fails) {
		char theirs[40] = "";

		if (p->peer_mtu)
			snprintf(theirs, sizeof(theirs), " and the peer's %u", p->peer_mtu);
		report_found(
			r, DOCTOR_WARNING,
			"packets of %u bytes come back and of %u do not%s, though the MTU of %s "
			"is %u%s",
			p->passes, p->fails,
			p->answer_cut ? ", for the peer cannot answer with as much" : "", iface,
			p->iface_mtu, theirs);
		if (p->peer_mtu && p->peer_mtu < p->iface_mtu)
			report_mend(r, "ip link set dev IFACE mtu %u    # there; or %u for %s here",
				    p->iface_mtu, p->peer_mtu, iface);
		else
			report_mend(r,
				    "tracepath -n %s    # a switch or router between has less: "
				    "raise it (9216), or ip link set dev %s mtu 1500 on both hosts",
				    p->peer, iface);
	} else if (p->peer_mtu > p->iface_mtu && p->iface_mtu &&
		   path_mtu_of(p->peer_mtu) > path_mtu_of(p->iface_mtu)) {
		report_found(r, DOCTOR_WARNING,
			     "the peer's interface has the MTU %u and %s here %u: its full packets "
			     "do not arrive",
			     p->peer_mtu, iface, p->iface_mtu);
		report_mend(r, "ip link set dev %s mtu %u", iface, p->peer_mtu);
	} else {
		report_found(r, DOCTOR_OK, "packets of %u bytes come back: path MTU %u", p->passes,
			     128u << path_mtu_of(p->passes));
	}
}

/* ---- classes and marks ----------------------------------------------------------------------- */

static unsigned dscp_of(uint8_t tos)
{
	return tos >> FLOW_DSCP_SHIFT;
}

static const char *ecn_of(uint8_t tos)
{
	static const char *const names[] = {"Not-ECT", "ECT(1)", "ECT(0)", "CE"};

	return names[tos & FLOW_ECN_MASK];
}

void check_dscp_path(struct doctor *d, const struct path *p)
{
	struct report *r = &d->report;
	bool any = false, wrong = false;

	if (!known(d, p, true))
		return;
	for (int i = 0; i < PATH_MARKS; i++) {
		const struct path_mark *m = &p->mark[i];

		if (!m->answered || i == PATH_CE) /* the class of which is the first's */
			continue;
		any = true;
		if (dscp_of(m->there) != dscp_of(m->sent)) {
			wrong = true;
			report_found(r, DOCTOR_WARNING, "DSCP %u arrives there as %u",
				     dscp_of(m->sent), dscp_of(m->there));
			report_mend(r,
				    "sudo tcpdump -nvi any udp port %u    # hop by hop, its tos; "
				    "switches: trust DSCP",
				    ROCEV2_UDP_PORT);
		}
		if (dscp_of(m->back) != dscp_of(m->sent)) {
			wrong = true;
			report_found(r, DOCTOR_WARNING, "DSCP %u arrives here as %u",
				     dscp_of(m->sent), dscp_of(m->back));
			report_mend(
				r, "sudo weft doctor    # there: mark-rules; switches: trust DSCP");
		}
	}
	if (!any)
		report_found(r, DOCTOR_UNKNOWN,
			     "packets of RoCE's classes were not answered, "
			     "though others were");
	else if (!wrong)
		report_found(r, DOCTOR_OK, "DSCP %u and %u arrive as they are", ROCE_DSCP,
			     ROCE_CNP_DSCP);
}

static bool ecn_wrong(struct report *r, uint8_t sent, uint8_t came, const char *where)
{
	if ((sent & FLOW_ECN_MASK) == (came & FLOW_ECN_MASK))
		return false;
	if ((sent & FLOW_ECN_MASK) == FLOW_ECN_ECT0 && (came & FLOW_ECN_MASK) == FLOW_ECN_CE) {
		report_found(r, DOCTOR_NOTE,
			     "the packet arrives %s marked (CE): the way is congested now", where);
		report_mend(r, "weft stat    # rx_ecn_marked there, rx_cnp here");
		return true;
	}
	report_found(r, DOCTOR_WARNING, "%s arrives %s as %s", ecn_of(sent), where, ecn_of(came));
	report_mend(r,
		    "sudo weft doctor    # here and there: mark-rules; then tunnels and switches "
		    "between, hop by hop");
	return true;
}

void check_ecn_path(struct doctor *d, const struct path *p)
{
	struct report *r = &d->report;
	bool any = false, wrong = false;

	if (!known(d, p, true))
		return;
	for (int i = PATH_ECT; i <= PATH_CE; i++) {
		const struct path_mark *m = &p->mark[i];

		if (!m->answered)
			continue;
		any = true;
		wrong |= ecn_wrong(r, m->sent, m->there, "there");
		wrong |= ecn_wrong(r, m->sent, m->back, "here");
	}
	if (!any)
		report_found(r, DOCTOR_UNKNOWN,
			     "packets with bits of ECN were not answered, though "
			     "others were");
	else if (!wrong)
		report_found(r, DOCTOR_OK, "ECT(0) and CE arrive as they are");
}

void check_peer_rmem(struct doctor *d, const struct path *p)
{
	struct report *r = &d->report;

	if (!p->told || !p->peer_room || p->here)
		return;
	if (p->peer_room >= ROOM_LARGE) {
		report_found(r, DOCTOR_OK, "its sockets have room for %u bytes", p->peer_room);
		return;
	}
	report_found(r, p->peer_room < ROOM_SMALL ? DOCTOR_WARNING : DOCTOR_NOTE,
		     "its sockets have room for %u bytes%s", p->peer_room,
		     p->peer_room < ROOM_SMALL ? ", less than a window"
					       : ": a queue pair has 256 KiB on the way instead of "
						 "512");
	report_mend(r, "sudo sysctl -w net.core.rmem_max=8388608    # there, before its programs");
}
