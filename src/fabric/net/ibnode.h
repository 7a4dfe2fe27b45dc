/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What every node of an InfiniBand subnet has, switch or adapter: an agent of its management, and
 * links with credits. */
#ifndef WEFT_FABRIC_NET_IBNODE_H
#define WEFT_FABRIC_NET_IBNODE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "fabric/net/iblink.h"

struct ibnode_nature {
	struct iblink_nature link;
	unsigned mtu_code; /* as PortInfo has it */
};

struct ibnode {
	struct fabric *fabric;
	struct frame_pool *pool;
	struct agent *agent;
	struct iblink *links;
	unsigned ports;
	void (*changed)(void *owner); /* the manager has set something; NULL */
	void *owner;
	/* SMPs for the manager at this node; NULL: there is none. */
	void (*to_manager)(void *ctx, const uint8_t mad[MAD_LEN]);
	void *manager;
};

/* guid: its own, and of as many ports behind it. port: its ports, which stay the owner's. -ENOMEM.
 */
int ibnode_create(struct ibnode **ret, const struct ibnode_nature *, bool is_switch, unsigned ports,
		  uint64_t guid, const char *name, struct netport *(*port)(void *owner, unsigned i),
		  void *owner) must_use;
void ibnode_destroy(struct ibnode *);
/* All its lines are joined. */
void ibnode_up(struct ibnode *);
/* A frame has come. False: it was the link's own, and is gone; or there was no room for it. */
bool ibnode_arrived(struct ibnode *, struct netport *, struct frame *) must_use;
/* An SMP of the manager at this node. */
void ibnode_manage(struct ibnode *, const uint8_t mad[MAD_LEN]);

#endif
