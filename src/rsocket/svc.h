/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The service thread, one per process with rsockets: it takes the connection management events of
 * all of them from one channel, so that connections come about and end whatever the application
 * is at, sends keepalives, and ends what was closed while its data were still on the way.
 *
 * svc_lock() keeps it from looking at anything: whoever destroys a stream holds it, so that no
 * event is in hand then.
 */
#ifndef WEFT_RSOCKET_SVC_H
#define WEFT_RSOCKET_SVC_H

#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"

struct stream;
struct dgram;

/* The channel for a new id; starts the thread when there is none in this process. NULL: errno. */
struct rdma_event_channel *svc_channel(void);
void svc_lock(void);
void svc_unlock(void);

/* Under svc_lock(): seconds from now, and from then on; 0 ends it. */
void svc_keepalive(struct stream *, unsigned int seconds);
/* Under svc_lock(): it is the service's from now on, which destroys it when all is sent, or its
 * time is up, or too many have come after it. */
void svc_linger(struct stream *);
/*
 * The service thread calls look() until it is true and nothing lingers any more, and the caller
 * waits for that, until end_ns (time_now_ns()) at most. No lock is taken for it: a signal's handler
 * may call this over one of our own calls, whose locks nobody gives back then. Does the service
 * thread come to such a lock it is over after a moment.
 */
void svc_look_until(bool (*look)(void *arg), void *arg, uint64_t end_ns);
/* Under svc_lock(): looks after those who ask the listener, as long as there are any. */
void svc_look_after_asking(struct stream *listener);
/* Under svc_lock(): reads its UDP socket from now on. */
void svc_add_dgram(struct dgram *);

#endif
