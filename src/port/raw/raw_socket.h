/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A packet socket of the kernel's (packet(7)) for RoCEv1: it sends and receives what stands behind
 * the header of Ethernet, on all interfaces of the network namespace. Such sockets do not take
 * packets from one another, each gets a copy of all; so a filter leaves to this one what is for
 * its slot, before anything is copied.
 */
#ifndef WEFT_PORT_RAW_RAW_SOCKET_H
#define WEFT_PORT_RAW_RAW_SOCKET_H

#include <stdint.h>
#include <sys/socket.h>

#include "base/compiler.h"

/* The descriptor, or -errno: -EPERM without CAP_NET_RAW. */
int raw_socket_open(uint8_t slot) must_use;
/* What the filter is: it sees a packet from its GRH on. 0 or -errno. */
int raw_socket_filter(int fd, uint8_t slot) must_use;

/* recvmmsg(2) and sendmmsg(2), without waiting, and without the C library's points of
 * cancellation. -errno on failure. */

#endif
