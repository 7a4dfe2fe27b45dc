/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A TCP connection that is the stream of a queue pair of iWARP, from the moment on that both sides
 * have agreed on it. No call blocks.
 */
#ifndef WEFT_PORT_TCP_TCP_STREAM_H
#define WEFT_PORT_TCP_TCP_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "base/compiler.h"

struct tcp_stream {
	int fd;
	uint8_t *rest; /* that the socket did not take */
	size_t rest_at, rest_end, rest_room;
};

/* Takes over a connected socket. */
void tcp_stream_init(struct tcp_stream *, int fd);
/* Gives the socket up: what was sent still goes out, and the peer is told of the end. Of something
 * that has come and was not received TCP tells the peer by RST, which may take from it what was
 * sent. */
void tcp_stream_close(struct tcp_stream *);
/* Gives it up at once: RST. */
void tcp_stream_break(struct tcp_stream *);

/* Sends all pieces; what the socket does not take is copied, and goes before anything else. 0;
 * -errno: the connection is lost. */
int tcp_stream_send(struct tcp_stream *, struct iovec *, size_t n) must_use;
/* Is there something that the socket has not taken? Then it is to be asked (POLLOUT) and this
 * called before there is more to send. As tcp_stream_send(). */
static inline bool tcp_stream_is_full(const struct tcp_stream *s)
{
	return s->rest_at != s->rest_end;
}
int tcp_stream_flush(struct tcp_stream *) must_use;

/* Up to len bytes of what has come: their number; 0: there is nothing now; -EPIPE: the peer has
 * sent its last; -errno: the connection is lost. */
ssize_t tcp_stream_receive(struct tcp_stream *, void *to, size_t len) must_use;
/* Nothing more is sent: FIN, once all is. */
void tcp_stream_shut(struct tcp_stream *);
/* What a segment holds at present, bytes. */
uint32_t tcp_stream_emss(const struct tcp_stream *);

#endif
