/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What the manager's files share. A sweep goes through stages, each of which is a list of work
 * that is asked and told: one SMP each, as many on the way as the window has room for. manager.c
 * has the stages, requests.c what is on the way, discover.c and program.c what is asked and what
 * becomes of the answers; net.h what they make together.
 */
#ifndef WEFT_SUBNET_MANAGER_PRIV_H
#define WEFT_SUBNET_MANAGER_PRIV_H

#include "subnet/manager.h"
#include "subnet/net.h"

enum subnet_stage {
	STAGE_IDLE,
	STAGE_DISCOVER,
	STAGE_SWITCHES, /* tables */
	STAGE_PORTS,	/* LIDs, MTUs, lanes */
	STAGE_ARM,
	STAGE_ACTIVATE,
};

enum work_kind {
	WORK_PROBE, /* what is behind a port */
	WORK_DESCRIPTION,
	WORK_SWITCH_INFO,
	WORK_CLEAR_CHANGE, /* before the ports are read: what changes after is told again */
	WORK_PORT_INFO,
	WORK_SET_SWITCH,
	WORK_SET_BLOCK, /* of a forwarding table */
	WORK_SET_PORT,
	WORK_SET_LANES, /* SL to VL, from port more (or all) to port */
	WORK_SET_TURNS, /* VL arbitration, enum smp_vl_arbitration_block more */
	WORK_SET_ARMED,
	WORK_SET_ACTIVE,
	WORK_KINDS
};

struct work {
	uint16_t node; /* NET_NO_NODE: a probe of the manager's own */
	uint16_t more;
	uint8_t kind, port;
};

/* First in, first out; it grows. */
struct work_queue {
	struct work *at;
	size_t cap, head, n;
};
#define WORK_MAX (1u << 22)

struct request {
	bool is_open;
	struct work work;
	uint64_t tid, deadline_ns;
	unsigned tries;
	uint8_t mad[MAD_LEN];
};

struct subnet_manager {
	struct subnet_config config;
	struct subnet_ops ops;
	void *ctx;
	struct subnet_counters counters;
	struct net *net, *done; /* of the sweep under way, and of the last one */
	enum subnet_stage stage;
	unsigned at_node; /* in a stage: whose work comes next into the queue */
	struct work_queue queue;
	struct request *requests; /* config.window of them */
	unsigned open;
	uint64_t tid;
	bool is_pumping, sweeps_again;
	uint64_t next_sweep_ns;
	int rc;
	const char *why;
};

/* The first fault of a sweep is the one that is told. */
void subnet_fault(struct subnet_manager *, int rc, const char *why);
void subnet_want(struct subnet_manager *, enum work_kind, uint16_t node, uint8_t port,
		 uint16_t more);

/* ---- requests.c ---------------------------------------------------------------------------- */

/* There is a place in the window. False: it is not to be asked any more. */
bool request_send(struct subnet_manager *, const struct work *, uint64_t now);
/* The request that this answers, which is then closed; NULL: none, or not as it was asked. */
const struct request *request_answered(struct subnet_manager *, const struct smp *);
/* Sends again what is due; NULL: nothing has failed, or else the next that is closed so. */
const struct request *request_overdue(struct subnet_manager *, uint64_t now);
uint64_t request_deadline(const struct subnet_manager *);
void requests_drop(struct subnet_manager *);

/* ---- discover.c, program.c ----------------------------------------------------------------- */

/* ask: completes method, attribute, modifier and data; false: there is nothing to ask. told: an
 * answer; silent: there is none. */
bool discover_ask(struct subnet_manager *, const struct work *, struct smp *);
void discover_told(struct subnet_manager *, const struct work *, const struct smp *);
void discover_silent(struct subnet_manager *, const struct work *);

/* Puts into the queue what is to be done in this stage for a node. */
void program_want(struct subnet_manager *, uint16_t node);
bool program_ask(struct subnet_manager *, const struct work *, struct smp *);
void program_told(struct subnet_manager *, const struct work *, const struct smp *);
void program_silent(struct subnet_manager *, const struct work *);

#endif
