/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "verbs/port_choice.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "port/pcap/pcap_port.h"
#include "port/xdp/xdp_port.h"

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

size_t port_choice(struct port *v[PORT_CHOICE_MAX], uint8_t slot, const char *capture)
{
	const char *wanted = secure_getenv("WEFT_PORT");
	char err[256] = "";

	if (!wanted || !*wanted || strcmp(wanted, "udp") == 0)
		return 0;
	if (strcmp(wanted, "xdp") != 0 && strncmp(wanted, "xdp:", 4) != 0) {
		log_warn("verbs", "WEFT_PORT=%s is unknown: udp, xdp or xdp:INTERFACE", wanted);
		return 0;
	}
	if (open_xdp(&v[0], wanted, slot, capture, err, sizeof(err)) == 0)
		return 1;
	log_warn("verbs", "WEFT_PORT=%s: packets go by UDP sockets: %s", wanted, err);
	return 0;
}
