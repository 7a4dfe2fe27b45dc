/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Completion queues. */
#ifndef WEFT_VERBS_CQ_H
#define WEFT_VERBS_CQ_H

#include "verbs/face.h"

struct face_cq {
	union { /* ibv_cq is the first part of ibv_cq_ex */
		struct ibv_cq ibv;
		struct ibv_cq_ex ex;
	};
	struct rnic_cq *core;
	struct shard *shard;
	struct queue_mem mem;
	struct event_source comp; /* in the channel's pipe: counted */
	void (*tell)(void *arg);  /* instead of raising it (verbs/attend.h) */
	void *tell_arg;
	struct event_source async; /* in the context's: marked by type */
	/* Extended polling: held from start_poll to end_poll, unless the CQ is single-threaded. */
	pthread_mutex_t poll_lock;
	bool single_threaded;
	struct ibv_wc wc; /* the current one */
	uint64_t time_ns; /* when it came */
};

static inline struct face_cq *face_cq(struct ibv_cq *cq)
{
	return container_of(cq, struct face_cq, ibv);
}

struct face_cq *cq_create(struct ibv_context *, uint32_t cqe, void *cq_context,
			  struct ibv_comp_channel *, uint32_t comp_vector);

/* Has its memory from a parent domain's allocators from now on; before anybody knows of it. 0, or
 * -ENOMEM: it is as it was. */
int cq_place(struct face_cq *, struct ibv_pd *parent) must_use;
/* As ibv_poll_cq(). ret_time_ns: NULL, or for one that is polled, when it came. */
int cq_poll(struct face_cq *, int num, struct ibv_wc *, uint64_t *ret_time_ns);

#endif
