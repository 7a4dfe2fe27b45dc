/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * RoCEv2 over a UDP socket on port 4791: the default port. Frames what the core wants sent (ICRC,
 * super-packets through UDP_SEGMENT, batches through sendmmsg; the payload goes from application
 * memory straight into the kernel) and receives in batches (recvmmsg, UDP_GRO), checking and
 * cutting off each ICRC before anything is handed on. Falls back cleanly where a kernel refuses
 * GSO, GRO or dual-stack sockets. The source port is its own choice, not flow->sport.
 *
 * The descriptor comes from udp_socket_open() or, leased, from the broker.
 */
#ifndef WEFT_PORT_UDP_UDP_PORT_H
#define WEFT_PORT_UDP_UDP_PORT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "port/port.h"

/* Takes over fd, unless it fails: it is closed with the port. */
int udp_port_create(struct port **ret, int fd) must_use;

/* The rest is for ports of udp_port_create() only. */

/* What ICMP says of packets that were sent to slot 0 is kept from now on, for who asks. Returns a
 * descriptor, the port's, with EPOLLERR while there is something; or -errno. */
int udp_port_hear_refusals(struct port *) must_use;
/* One packet that did not get there, if anybody is to be believed who can send an ICMP message. */
struct udp_refusal {
	struct gid to;
	size_t len;
	uint8_t quoted[1280]; /* of the packet, from its transport header on */
};
bool udp_port_refusal(struct port *, struct udp_refusal *ret) must_use;

#endif
