/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * RoCEv2 past the kernel's stack: frames by AF_XDP on one interface. For programs that may (a
 * socket takes CAP_NET_RAW, the program that steers CAP_NET_ADMIN and CAP_BPF), and one at a time:
 * an interface has one such program, and a receive queue one such socket.
 *
 * It stands before another port that reaches the rest of the world: flows that lead over other
 * interfaces, to this host itself, to groups, or to a neighbour whom the kernel has not found yet.
 * The other port also receives what the program leaves to the stack (steer.h). On a queue that
 * finds no socket nothing is lost for the same reason.
 */
#ifndef WEFT_PORT_XDP_XDP_PORT_H
#define WEFT_PORT_XDP_XDP_PORT_H

#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "port/port.h"

/* On the interface of this name; NULL: on the only one of Ethernet that is up. -errno, and in err a
 * sentence that says why. */
int xdp_port_create(struct port **ret, const char *ifname, uint8_t slot, char *err,
		    size_t err_len) must_use;

#endif
