/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Completion channels. One that waits in ibv_get_cq_event() sleeps on the RNIC's own descriptor
 * where it can (shard_attend()) and takes in itself what comes. One that waits elsewhere, in
 * poll(2) with other descriptors, is told by the shard's thread.
 */
#ifndef WEFT_VERBS_CHANNEL_H
#define WEFT_VERBS_CHANNEL_H

#include "verbs/face.h"

struct face_channel {
	struct ibv_comp_channel ibv; /* refcnt under pipe.lock */
	struct event_pipe pipe;
	struct shard *shard;
	/* Under the shard's lock. */
	bool attends;	     /* who waits comes and attends */
	bool told;	     /* who waits is told: the shard knows */
	unsigned int slept;  /* so often in succession in ibv_get_cq_event() */
	unsigned int enough; /* of that to be taken for one that attends */
};

static inline struct face_channel *face_channel(struct ibv_comp_channel *c)
{
	return container_of(c, struct face_channel, ibv);
}

/* A completion queue more that has it, or one less. */
void channel_get(struct face_channel *);
void channel_put(struct face_channel *);
/* With the shard's lock held, when a queue of its, or of none (NULL), has been armed. */
void channel_armed(struct face_channel *, struct shard *);

/* Upcall of the core, under the shard's lock: a completion on a CQ that was armed. */
void cq_notify(void *cq_user);

#endif
