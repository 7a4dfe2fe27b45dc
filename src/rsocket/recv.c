// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/* Receiving: what the peer has written is copied out of the receive buffer, a ring. */
#include <string.h>

#include "rsocket/stream.h"

/* Where a reader stands; a peek leaves the socket's own where it is. */
struct place {
	uint32_t head; /* of the messages */
	uint32_t used; /* of that message, by peeking */
	uint32_t tail; /* in the receive buffer */
};

static void copy_out(const struct stream *s, uint32_t from, uint8_t *to, uint32_t n)
{
	uint32_t first = min_of(n, s->set.rbuf_size - from);

	memcpy(to, s->rbuf + from, first);
	memcpy(to + first, s->rbuf, n - first);
}

/* Up to len bytes of what is there; returns how many. */
static size_t read_some(struct stream *s, struct place *p, uint8_t *to, size_t len)
{
	const uint32_t end = atomic_load(&s->msg_tail);
	size_t done = 0;

	while (done < len && p->head != end) {
		uint32_t there = s->msg[p->head] - p->used;
		uint32_t n = (uint32_t)min_of((size_t)there, len - done);

		copy_out(s, p->tail, to + done, n);
		done += n;
		p->tail = (p->tail + n) % s->set.rbuf_size;
		p->used += n;
		if (n == there) {
			p->head = p->head == s->set.rq_size ? 0 : p->head + 1;
			p->used = 0;
		}
	}
	return done;
}

/* What was read is the peer's to write again. */
static void consume(struct stream *s, const struct place *p, size_t bytes)
{
	uint32_t head = atomic_load(&s->msg_head), messages = 0;

	for (; head != p->head; messages++)
		head = head == s->set.rq_size ? 0 : head + 1;
	if (p->used)
		s->msg[p->head] -= p->used;
	s->rbuf_tail = p->tail;
	atomic_store(&s->msg_head, p->head);
	atomic_fetch_add(&s->rseq_no, (uint16_t)messages);
	atomic_fetch_add(&s->rbuf_free, (uint32_t)bytes);
}

static size_t take(struct stream *s, const struct iovec *iov, size_t count, size_t skip, bool peek)
{
	struct place p = {.head = atomic_load(&s->msg_head), .tail = s->rbuf_tail};
	size_t total = 0;

	for (size_t i = 0; i < count; i++) {
		size_t n;

		if (skip >= iov[i].iov_len) {
			skip -= iov[i].iov_len;
			continue;
		}
		n = read_some(s, &p, (uint8_t *)iov[i].iov_base + skip, iov[i].iov_len - skip);
		total += n;
		if (n < iov[i].iov_len - skip)
			break;
		skip = 0;
	}
	if (!peek && total)
		consume(s, &p, total);
	return total;
}

/* No data, and there will be none: the end of the stream is 0, once its error is told. */
static int at_end(struct stream *s)
{
	return atomic_load(&s->state) == STREAM_FAILED ? stream_take_error(s, 0) : 0;
}

ssize_t stream_recvv(struct stream *s, const struct iovec *iov, size_t count, int flags)
{
	const ssize_t total = iov_length(iov, count);
	const bool nonblock = sock_nonblocking(&s->sock, flags), peek = flags & MSG_PEEK;
	size_t done = 0;
	int rc;

	if (total < 0)
		return total;
	if (flags & MSG_OOB)
		return -EINVAL;
	rc = stream_connected(s, flags);
	if (rc)
		return rc;
	pthread_mutex_lock(&s->rlock);
	while (done < (size_t)total) {
		if (!stream_has_data(s)) {
			rc = stream_wait(s, stream_can_recv, nonblock, s->sock.rcv_timeout_ms);
			if (!rc && !stream_has_data(s)) {
				if (!done)
					rc = at_end(s);
				break;
			}
		}
		if (rc)
			break;
		done += take(s, iov, count, done, peek);
		if (peek || !(flags & MSG_WAITALL))
			break;
	}
	if (done && stream_owes_credits(s))
		stream_progress(s); /* the peer may be waiting for it */
	pthread_mutex_unlock(&s->rlock);
	return done ? (ssize_t)done : rc;
}

size_t stream_unread(struct stream *s)
{
	uint32_t end = atomic_load(&s->msg_tail);
	size_t total = 0;

	pthread_mutex_lock(&s->rlock);
	for (uint32_t i = atomic_load(&s->msg_head); i != end; i = i == s->set.rq_size ? 0 : i + 1)
		total += s->msg[i];
	pthread_mutex_unlock(&s->rlock);
	return total;
}
