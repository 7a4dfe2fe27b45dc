/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "verbs/port_choice.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "port/pcap/pcap_port.h"
#include "port/xdp/xdp_port.h"
#include "verbs/local.h"

static enum { LOCAL = 1, XDP = 2 } had; /* besides UDP, by the shard that was opened last */

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

size_t port_choice(struct port *ret[PORT_CHOICE_MAX], struct port *udp,
		   struct broker_client *broker, uint8_t slot, const char *capture)
{
	const char *wanted = secure_getenv("WEFT_PORT") ?: "";
	const bool wants_xdp = strncmp(wanted, "xdp", 3) == 0 && (!wanted[3] || wanted[3] == ':');
	/* Who captures wants to see what goes to neighbours, too. */
	const bool local = strcmp(wanted, "udp") != 0 && (!capture || !*capture);
	char err[256] = "";
	size_t n = 0;

	if (*wanted && !wants_xdp && strcmp(wanted, "udp") != 0 && strcmp(wanted, "local") != 0)
		log_warn("verbs", "WEFT_PORT=%s is unknown: local, udp, xdp or xdp:INTERFACE",
			 wanted);
	if (wants_xdp) {
		if (open_xdp(&ret[0], wanted, slot, capture, err, sizeof(err)) == 0)
			n = 1;
		else
			log_warn("verbs", "WEFT_PORT=%s: packets go by UDP sockets: %s", wanted,
				 err);
	}
	had = (n ? XDP : 0) | (local && local_begin(&udp, broker, slot) ? LOCAL : 0);
	ret[n++] = udp;
	return n;
}

const char *weft_private_ports(void)
{
	static const char *const text[] = {
		[0] = "UDP",
		[LOCAL] = "memory within this host, UDP",
		[XDP] = "XDP, UDP",
		[XDP | LOCAL] = "memory within this host, XDP, UDP",
	};

	return text[had];
}
