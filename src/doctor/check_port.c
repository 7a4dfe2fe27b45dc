/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Who has UDP port 4791 of this network namespace. */
#include <stdio.h>
#include <string.h>

#include "base/errno_text.h"
#include "doctor/checks.h"
#include "doctor/files.h"
#include "wire/flow.h"

#define BROKER "@weft-broker" /* what it listens on begins so */
#define WHO    "sudo ss -ulnp 'sport = :%u'"

struct sockets {
	unsigned count; /* of the port */
	bool broker;
};

static void see_udp(void *ctx, char *line)
{
	struct sockets *s = ctx;
	unsigned port;

	if (sscanf(line, " %*[0-9]: %*[0-9A-F]:%x", &port) == 1 && port == ROCEV2_UDP_PORT)
		s->count++;
}

static void see_unix(void *ctx, char *line)
{
	struct sockets *s = ctx;

	s->broker |= strstr(line, BROKER) != NULL;
}

void check_port(struct doctor *d)
{
	struct report *r = &d->report;
	const struct rnic *rxe = NULL;
	struct sockets s = {0};
	uint64_t users;
	int rc = file_lines(d->proc, "net/udp", see_udp, &s);
	int rc6 = file_lines(d->proc, "net/udp6", see_udp, &s);

	if (rc && rc6) {
		report_found(r, DOCTOR_UNKNOWN, "%s/net/udp: %s", d->proc, errno_text(-rc));
		return;
	}
	(void)!file_lines(d->proc, "net/unix", see_unix, &s);
	for (size_t i = 0; i < d->rnic_count && !rxe; i++)
		rxe = d->rnics[i].rxe ? &d->rnics[i] : NULL;
	if (!s.count) {
		report_found(r, DOCTOR_OK,
			     "UDP port %u is free, and a program that needs weft's "
			     "broker starts it",
			     ROCEV2_UDP_PORT);
	} else if (s.broker) {
		report_found(r, DOCTOR_OK, "weft's broker has UDP port %u", ROCEV2_UDP_PORT);
	} else if (rxe) {
		report_found(r, DOCTOR_ERROR,
			     "the kernel's software RNIC %s has UDP port %u, and weft's broker "
			     "cannot start",
			     rxe->name, ROCEV2_UDP_PORT);
		report_mend(r, RXE_END "    # or work on it: --provider system", rxe->name);
	} else if (file_number(d->sys, &users, "module/" RXE_MODULE "/refcnt") == 0) {
		report_found(
			r, DOCTOR_ERROR,
			"the kernel's software RNIC, by all appearances, has UDP port %u still, "
			"without a device: as long as its module is loaded",
			ROCEV2_UDP_PORT);
		report_mend(r, "sudo modprobe -r " RXE_MODULE "    # or see who it is: " WHO,
			    ROCEV2_UDP_PORT);
	} else {
		/* A socket of the kernel's looks as any other: vxlan may be there, too. */
		report_found(r, DOCTOR_ERROR,
			     "another program than weft's broker, or the kernel, has UDP port %u",
			     ROCEV2_UDP_PORT);
		report_mend(r,
			    WHO "    # names it, if it is a program; one that outlived its broker "
				"may be it",
			    ROCEV2_UDP_PORT);
	}
}
