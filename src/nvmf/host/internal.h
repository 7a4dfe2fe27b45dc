/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What the files of the host know of each other, from the bottom to the top. */
#ifndef WEFT_NVMF_HOST_INTERNAL_H
#define WEFT_NVMF_HOST_INTERNAL_H

#include "base/time.h"
#include "nvmf/host/host.h"

/* --- state.c ---------------------------------------------------------------------------------- */

/* The one place where the state changes. */
void host_set_state(struct host *h, enum host_state to, uint64_t now_ns);
/* Marks the connection lost; the first reason counts. Handled when the outermost call ends. */
void host_lose(struct host *h, const struct host_failure *why);
static inline void host_lose_for(struct host *h, enum host_failure_kind kind, uint16_t qid,
				 const char *detail)
{
	host_lose(h, &(struct host_failure){.kind = kind, .qid = qid, .detail = detail});
}
/* The same, as a command of the host's own was refused. */
void host_refused(struct host *h, uint16_t qid, const struct host_request *req);
/* Whether any request may go; after each change of what that depends on. */
void host_set_ready(struct host *h);
/* Ends the connections of the queues from first on. */
void host_close_queues(struct host *h, uint16_t first);

/* It is for discovery, by whatever name: it says so itself. What it has to prove that does not
 * change. */
static inline bool host_is_for_discovery(const struct host *h)
{
	return h->discovery || h->id.cntrltype == NVME_CNTRLTYPE_DISCOVERY;
}

/* Events that the caller may want of this controller, as bits of OAES; of one for discovery, if it
 * is to stay. */
static inline uint32_t host_events(const struct host *h)
{
	if (!host_is_for_discovery(h))
		return h->id.oaes & NVME_OAES_NS_ATTR;
	return h->config.keep_alive_ms ? h->id.oaes & NVME_OAES_DISCOVERY : 0;
}

/* --- queue.c ---------------------------------------------------------------------------------- */

void queue_init(struct host_queue *q, struct handle_place *places, uint16_t capacity);
/* Fresh command IDs for a new connection. */
void queue_open(struct host_queue *q, uint16_t entries, uint16_t limit);
/* Puts a request of the host's own in front of all others and sends what can be sent. */
void queue_push_own(struct host *h, uint16_t qid, struct host_request *req, uint64_t now_ns);
/* Sends waiting requests while there is room. */
void queue_pump(struct host *h, uint16_t qid, uint64_t now_ns);
void queue_respond(struct host *h, uint16_t qid, const void *capsule, uint32_t len,
		   uint64_t now_ns);
/* Ends those that the transport has refused. */
void queues_refuse(struct host *h, uint64_t now_ns);
/* After close, of the queues from first on: sent requests that may go again wait once more, in
 * their order, if `again`; all others of the caller's end with error. */
void queues_drain(struct host *h, uint16_t first, bool again, int error, uint64_t now_ns);
/* After close of all: a final state that was entered is one when no request is left. */
void queues_end(struct host *h, int error, uint64_t now_ns);
/* Of the connection that is made, or of the oldest command; UINT64_MAX if there is none. */
uint64_t queue_deadline(const struct host_queue *q);

/* --- namespaces.c ----------------------------------------------------------------------------- */

/* Looks at those that are known, one after the other; ended: then. */
void namespaces_look(struct host *h, void (*ended)(struct host *h, uint64_t now_ns),
		     uint64_t now_ns);
/* The controller says that some have changed. */
void namespaces_changed(struct host *h, uint64_t now_ns);
/* It is I/O for one that is lost. */
bool namespaces_lost(const struct host *h, const struct nvme_sqe *sqe);

/* --- live.c ----------------------------------------------------------------------------------- */

void live_enter(struct host *h, uint64_t now_ns);
/* The keep-alive. */
void live_tick(struct host *h, uint64_t now_ns);
void live_event_done(struct host_request *req, uint64_t now_ns);
void live_keep_alive_done(struct host_request *req, uint64_t now_ns);

/* --- auth.c ----------------------------------------------------------------------------------- */

enum host_auth_next {
	HOST_AUTH_SEND,	 /* h->auth.len bytes of the message */
	HOST_AUTH_FETCH, /* as many at most */
	HOST_AUTH_DONE,
	HOST_AUTH_FAILED, /* h->auth.why */
};

uint8_t *host_auth_message(struct host *h);
enum host_auth_next host_auth_begin(struct host *h, uint16_t qid);
/* What was to be sent is, what was to be fetched is there. */
enum host_auth_next host_auth_go_on(struct host *h);

/* --- steps.c ---------------------------------------------------------------------------------- */

void steps_bring_up(struct host *h, uint64_t now_ns);
void steps_shut_down(struct host *h, uint64_t now_ns);
/* Of the live admin queue, once more. */
void steps_authenticate(struct host *h, uint64_t now_ns);
/* The connection of a queue is there. */
void steps_opened(struct host *h, uint16_t qid, uint64_t now_ns);
/* Looks at CSTS again. */
void steps_poll(struct host *h, uint64_t now_ns);

#endif
