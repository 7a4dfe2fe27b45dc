/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A port on a simulated wire. It does what a port does, frames packets with their ICRC, checks and
 * cuts it off; what becomes of them in between is somebody else's business (fabric/link.h).
 */
#ifndef WEFT_PORT_SIM_SIM_PORT_H
#define WEFT_PORT_SIM_SIM_PORT_H

#include <stdint.h>

#include "base/compiler.h"
#include "port/port.h"

/* On the wire: what UDP would carry, with its ICRC. From malloc(), its owner's to free. */
struct sim_packet {
	struct sim_packet *next; /* of those that have arrived */
	struct flow flow;
	uint32_t len;
	uint8_t data[];
};

/* carry takes each packet that is sent, and owns it. */
int sim_port_create(struct port **ret, void (*carry)(void *ctx, struct sim_packet *),
		    void *ctx) must_use;
/* A packet has come: it waits to be received, and is the port's. */
void sim_port_arrive(struct port *, struct sim_packet *);

#endif
