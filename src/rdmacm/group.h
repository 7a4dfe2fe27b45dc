/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Multicast groups of an identifier. RoCE has no subnet manager to join them at: what there is to
 * know of a group follows from its address. The event tells it, as it does on InfiniBand, and
 * taking the event attaches the identifier's queue pair, as librdmacm does; with that the host
 * joins.
 */
#ifndef WEFT_RDMACM_GROUP_H
#define WEFT_RDMACM_GROUP_H

#include "rdmacm/cma.h"

struct cma_group {
	struct list list; /* the id's lock */
	uint64_t token;	  /* never used twice: names it in its event */
	void *context;
	struct sockaddr_storage addr;
	union ibv_gid mgid;
	bool send_only;
	uint32_t events_taken, events_acked; /* the id's lock */
};

struct cma_group *cma_group_new(struct cma_id *, const struct sockaddr *, bool send_only,
				void *context);
/* Waits until nobody looks at an event of it any more. */
void cma_group_free(struct cma_id *, struct cma_group *);
/* False: the application has left the group meanwhile. */
bool cma_group_joined(struct cma_event *, uint64_t token);
void cma_group_ack(struct cma_id *, struct cma_group *);
/* Of an id whose events are all acknowledged. */
void cma_groups_free(struct cma_id *);

#endif
