/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What host.c (the states) and queue.c (the commands of a queue) know of each other. */
#ifndef WEFT_NVMF_HOST_INTERNAL_H
#define WEFT_NVMF_HOST_INTERNAL_H

#include "nvmf/host/host.h"

#define NS_PER_MS 1000000ull

static inline bool host_own_request(const struct host *h, const struct host_request *req)
{
	return req == &h->step || req == &h->keep_alive || req == &h->event;
}

/* Marks the connection lost; the first reason counts. Handled when the outermost call ends. */
void host_lose(struct host *h, const struct host_failure *why);
static inline void host_lose_for(struct host *h, enum host_failure_kind kind, uint16_t qid,
				 const char *detail)
{
	host_lose(h, &(struct host_failure){.kind = kind, .qid = qid, .detail = detail});
}

/* Around every public entry; the loss of a connection is handled in the outermost leave. */
void host_enter(struct host *h);
void host_leave(struct host *h, uint64_t now_ns);

void queue_init(struct host_queue *q, struct slot *slots, uint16_t capacity);
/* Fresh command IDs for a new connection. */
void queue_open(struct host_queue *q, uint16_t entries, uint16_t limit);
/* Puts a request of the host's own in front of all others and sends what can be sent. */
void queue_push_own(struct host *h, uint16_t qid, struct host_request *req, uint64_t now_ns);
/* Sends waiting requests while there is room. */
void queue_pump(struct host *h, uint16_t qid, uint64_t now_ns);
/* After close: sent requests that may go again wait once more, in their order, if `again`;
 * all others of the caller's end with error. */
void queue_drain(struct host *h, uint16_t qid, bool again, int error, uint64_t now_ns);
/* The deadline of the oldest command, UINT64_MAX if none has one. */
uint64_t queue_deadline(const struct host_queue *q);

#endif
