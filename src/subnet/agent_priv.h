/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What the agent's files share: agent.c makes it, agent_take.c finds an SMP's way, and
 * agent_answer.c does what it asks for. */
#ifndef WEFT_SUBNET_AGENT_PRIV_H
#define WEFT_SUBNET_AGENT_PRIV_H

#include "subnet/agent.h"

struct agent_port {
	struct smp_port_info info;
	struct smp_vl_arbitration high, low;
	struct smp_pkey_block pkeys;
	bool linked; /* a link is there, whatever the manager makes of the port */
};

struct agent {
	struct agent_nature nature;
	struct agent_ops ops;
	void *ctx;
	uint8_t description[SMP_DATA_LEN];
	struct smp_switch_info switch_info;
	struct agent_port *ports;   /* from 0; an adapter's first is not used */
	struct smp_sl_to_vl *lanes; /* of a switch's pairs, and of an adapter's ports */
	uint8_t *forward;	    /* switch_info.linear_cap ports */
	bool has_news;		    /* for the manager: a trap */
	uint64_t trap_tid;
};

/* NULL: there is no such pair of ports, or port. */
struct smp_sl_to_vl *agent_sl_to_vl(const struct agent *, unsigned in, unsigned out);
/* By the link and by what was set: Down, or Initialize. */
void agent_restart_port(struct agent_port *);
void agent_say_changed(const struct agent *, unsigned port);
/* A Get or Set has come by this port (as agent_take() has it): s becomes the answer, but for its
 * way. */
void agent_answer(struct agent *, struct smp *, unsigned port);

#endif
