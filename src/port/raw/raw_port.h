/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * RoCEv1: frames of Ethernet 0x8915, by a packet socket of the process's own on all interfaces. For
 * programs that may (CAP_NET_RAW): who has such a socket can send what it likes, so the broker
 * opens none for others.
 *
 * It takes the flows that are RoCEv1's and no other, and gives none to another port. The kernel
 * sees to frames as little as to those of an adapter: what is for another MAC address, for a group,
 * or for a GID that is no address of this host is dropped here.
 */
#ifndef WEFT_PORT_RAW_RAW_PORT_H
#define WEFT_PORT_RAW_RAW_PORT_H

#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "port/port.h"

/* For the queue pairs of this slot. -errno, and in err a sentence that says why. */
int raw_port_create(struct port **ret, uint8_t slot, char *err, size_t err_len) must_use;

#endif
