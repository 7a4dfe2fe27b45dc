/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * By what a process's packets go: UDP sockets; memory to processes of this host, unless WEFT_PORT
 * says udp or packets are captured; what else WEFT_PORT asks for; and RoCEv1's by frames, where
 * WEFT_ROCEV1 does. What is not to be had is said in the log, and done without.
 */
#ifndef WEFT_VERBS_PORT_CHOICE_H
#define WEFT_VERBS_PORT_CHOICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "broker/client.h"
#include "port/port.h"

#define PORT_CHOICE_MAX 3

/* The ports of this slot in the order in which they are asked what they reach; udp, the last of
 * them, may be behind a filter by then. capture: the file that packets are written to, or NULL.
 * Returns how many. */
size_t port_choice(struct port *ret[PORT_CHOICE_MAX], struct port *udp, struct broker_client *,
		   uint8_t slot, const char *capture) must_use;

/* Has this process RoCEv1, in the shard that was opened last? */
bool port_choice_has_rocev1(void);

/* In words, of this process: how its packets go. For weft-devices(1). */
const char *weft_private_ports(void);

#endif
