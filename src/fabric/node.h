/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A node: a core and a simulated port at the end of a link, driven by the loop that drives them in
 * a process too (engine/drive.h). What makes a process slow, another's turn on the processor, is
 * chance here.
 */
#ifndef WEFT_FABRIC_NODE_H
#define WEFT_FABRIC_NODE_H

#include "fabric/link.h"
#include "rnic/rnic.h"

struct node_nature {
	uint64_t tx_lag_ns;   /* it begins to send up to so long after it could */
	uint64_t keep_ns;     /* so long rnic_tx_only_acks() waits for something to go along with */
	uint64_t tick_lag_ns; /* and serves its timers up to so long after they are due */
};

struct node;

/* The core stays the caller's. */
int node_create(struct node **ret, struct fabric *, struct link *, const struct gid *,
		struct rnic *, const struct node_nature *) must_use;
/* Nothing of its world may happen after that. */
void node_destroy(struct node *);
/* Before anything happens: it is a process of a host that has others, which have its address and
 * slots of their own. Between those packets go by memory (port/local) from node_meet() on. */
int node_share_host(struct node *, uint8_t slot) must_use;
int node_meet(struct node *, struct node *other) must_use;
/* Before anything happens: writes its packets to a file (port/pcap), in its world's time. */
int node_capture(struct node *, const char *file, char *err, size_t err_len) must_use;
/* It is gone for good: what it had on the wire still arrives, nothing reaches it. */
void node_vanish(struct node *);
/* Something was posted to its core, or its QPs changed. */
void node_kick(struct node *);
/* The most that has been in the link's queue before it since this was asked, bytes. */
uint64_t node_queue_peak(struct node *);
const struct port_counters *node_port_counters(const struct node *);

#endif
