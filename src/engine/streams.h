/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The streams of a core's queue pairs of iWARP, each a TCP connection: what has come to the queue
 * pairs, what they have to send to the sockets, and how each ends. As the loop over ports
 * (engine/drive.h) it knows no lock and no clock.
 */
#ifndef WEFT_ENGINE_STREAMS_H
#define WEFT_ENGINE_STREAMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "port/port.h"
#include "rnic/stream.h"

struct streams;

/* The stream of a queue pair has come to its end, by either side; its socket is closed. error: 0,
 * or -errno of a connection that was lost. The queue pair is in ERR; it stays the caller's. */
typedef void streams_ended(void *ctx, struct rnic_qp *, int error);

int streams_create(struct streams **ret, streams_ended *, void *ctx) must_use;
/* Whose queue pairs they are to be: before the first is added. */
void streams_serve(struct streams *, struct rnic *);
/* Breaks what is left. */
void streams_destroy(struct streams *);

/*
 * The port by which a drive has them: what has come by streams it takes in itself, what queue pairs
 * have to send it sends of its own, and no packet goes by it. Destroying it is streams_destroy().
 *
 * A peer has five seconds to close its side once we have closed ours; and before that five seconds
 * to take something of what is still to be sent, or to answer something, again and again; where
 * there is no queue pair any more, half a minute in all.
 */
struct port *streams_port(struct streams *);

/*
 * The socket, on which both sides have agreed, is a queue pair's stream from now on; early: what
 * came behind the peer's last word on that. The socket is taken, unless this fails: as
 * rnic_stream_begin(), or -ENOMEM, -errno of epoll. Of init the EMSS and the owner are not looked
 * at.
 */
int streams_add(struct streams *, struct rnic_qp *, int fd, const struct rnic_stream_init *init,
		const void *early, size_t early_len, uint64_t now) must_use;
/* Before the queue pair is destroyed or reset: its stream, if there still is one, ends; what was
 * sent still goes out, as programs that destroy it without a word count on. One that was to be
 * broken is. Nobody is told of its end. */
void streams_drop(struct rnic_qp *, uint64_t now);
/* Are there any such? A process that exits takes from their peers what is not there yet. */
bool streams_linger(const struct streams *);

#endif
