/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "verbs/port_choice.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "port/pcap/pcap_port.h"
#include "port/raw/raw_port.h"
#include "port/xdp/xdp_port.h"
#include "verbs/local.h"

enum { LOCAL = 1, XDP = 2, ROCEV1 = 4 };
static int had; /* of these, besides UDP, by the shard that was opened last */

/* xdp, or xdp:INTERFACE */
static int open_xdp(struct port **ret, const char *wanted, uint8_t slot, const char *capture,
		    char *err, size_t err_len)
{
	const char *ifname = wanted[3] ? wanted + 4 : NULL;
	int rc = xdp_port_create(ret, ifname, slot, err, err_len);

	if (rc || !capture || !*capture)
		return rc;
	rc = pcap_port_before(ret, capture, NULL, NULL, err, err_len);
	if (rc)
		port_destroy(*ret);
	return rc;
}

/* Off unless it is asked for: the GID table is longer with it, and of several ports it is the
 * thread that receives what somebody waits for. */
static bool open_rocev1(struct port **ret, uint8_t slot)
{
	const char *wanted = secure_getenv("WEFT_ROCEV1") ?: "";
	char err[256] = "";

	if (!*wanted || strcmp(wanted, "0") == 0)
		return false;
	if (strcmp(wanted, "1") != 0)
		log_warn("verbs", "WEFT_ROCEV1=%s is unknown: 1, or 0 for none", wanted);
	else if (raw_port_create(ret, slot, err, sizeof(err)))
		log_warn("verbs", "WEFT_ROCEV1=1: there are no GIDs of RoCEv1: %s", err);
	else
		return true;
	return false;
}

size_t port_choice(struct port *ret[PORT_CHOICE_MAX], struct port *udp,
		   struct broker_client *broker, uint8_t slot, const char *capture)
{
	const char *wanted = secure_getenv("WEFT_PORT") ?: "";
	const bool wants_xdp = strncmp(wanted, "xdp", 3) == 0 && (!wanted[3] || wanted[3] == ':');
	/* Who captures wants to see what goes to neighbours, too. */
	const bool local = strcmp(wanted, "udp") != 0 && (!capture || !*capture);
	char err[256] = "";
	size_t n = 0;
	int has = 0;

	if (*wanted && !wants_xdp && strcmp(wanted, "udp") != 0 && strcmp(wanted, "local") != 0)
		log_warn("verbs", "WEFT_PORT=%s is unknown: local, udp, xdp or xdp:INTERFACE",
			 wanted);
	if (open_rocev1(&ret[n], slot)) {
		has |= ROCEV1;
		n++;
	}
	if (wants_xdp) {
		if (open_xdp(&ret[n], wanted, slot, capture, err, sizeof(err)) == 0) {
			has |= XDP;
			n++;
		} else {
			log_warn("verbs", "WEFT_PORT=%s: packets go by UDP sockets: %s", wanted,
				 err);
		}
	}
	if (local && local_begin(&udp, broker, slot))
		has |= LOCAL;
	had = has;
	ret[n++] = udp;
	return n;
}

bool port_choice_has_rocev1(void)
{
	return had & ROCEV1;
}

const char *weft_private_ports(void)
{
#define ROCEV1_TEXT ", frames of RoCEv1"
	static const char *const text[] = {
		[0] = "UDP",
		[LOCAL] = "memory within this host, UDP",
		[XDP] = "XDP, UDP",
		[XDP | LOCAL] = "memory within this host, XDP, UDP",
		[ROCEV1] = "UDP" ROCEV1_TEXT,
		[ROCEV1 | LOCAL] = "memory within this host, UDP" ROCEV1_TEXT,
		[ROCEV1 | XDP] = "XDP, UDP" ROCEV1_TEXT,
		[ROCEV1 | XDP | LOCAL] = "memory within this host, XDP, UDP" ROCEV1_TEXT,
	};
#undef ROCEV1_TEXT

	return text[had];
}
