// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/* Receiving: what the peer has written is copied out of the receive buffer, a ring. */
#include <string.h>

#include "rsocket/counted.h"
#include "rsocket/probe.h"
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

/* Up to len bytes of what is there, into nothing if `to` is NULL; returns how many. */
static size_t read_some(struct stream *s, struct place *p, uint8_t *to, size_t len)
{
	const uint32_t end = atomic_load(&s->msg_tail);
	size_t done = 0;

	while (done < len && p->head != end) {
		uint32_t there = s->msg[p->head] - p->used;
		uint32_t n = (uint32_t)min_of((size_t)there, len - done);

		if (to)
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

/* Under rlock. */
static size_t unread(struct stream *s)
{
	const uint32_t end = atomic_load(&s->msg_tail);
	size_t total = 0;

	for (uint32_t i = atomic_load(&s->msg_head); i != end; i = i == s->set.rq_size ? 0 : i + 1)
		total += s->msg[i];
	return total;
}

/* Is there memory for what there is? */
static bool room_for(struct stream *s, const struct iovec *iov, size_t count, size_t skip)
{
	size_t left = unread(s);

	for (size_t i = 0; i < count && left; i++) {
		const size_t from = min_of(skip, iov[i].iov_len);
		const size_t n = min_of(iov[i].iov_len - from, left);

		if (n && !probe_writable((uint8_t *)iov[i].iov_base + from, n))
			return false;
		skip -= from;
		left -= n;
	}
	return true;
}

static size_t take(struct stream *s, const struct iovec *iov, size_t count, size_t skip, int flags)
{
	/* As TCP's, which throws away what it is asked for by MSG_TRUNC. */
	const bool drop = s->tcp && flags & MSG_TRUNC;
	struct place p = {.head = atomic_load(&s->msg_head), .tail = s->rbuf_tail};
	size_t total = 0;

	for (size_t i = 0; i < count; i++) {
		size_t n;

		if (skip >= iov[i].iov_len) {
			skip -= iov[i].iov_len;
			continue;
		}
		n = read_some(s, &p, drop ? NULL : (uint8_t *)iov[i].iov_base + skip,
			      iov[i].iov_len - skip);
		total += n;
		if (n < iov[i].iov_len - skip)
			break;
		skip = 0;
	}
	if (!(flags & MSG_PEEK) && total) {
		consume(s, &p, total);
		rs_count(received_bytes, total);
	}
	return total;
}

/* With SO_RCVLOWAT, which is no more than there can be. */
static size_t enough(const struct stream *s)
{
	return min_of((size_t)s->rcv_low, (size_t)s->set.rbuf_size / 2);
}

bool stream_has_enough(struct stream *s)
{
	return stream_has_data(s) && (s->rcv_low <= 1 || stream_unread(s) >= enough(s));
}

/* No data, and there will be none: the end of the stream is 0, once its error is told. */
static int at_end(struct stream *s)
{
	if (atomic_load(&s->state) != STREAM_FAILED || (s->tcp && atomic_load(&s->fin)))
		return 0;
	return stream_take_error(s, 0);
}

/* Under rlock, which is let go meanwhile: others who read are not to be held up by us. */
static int wait_for_data(struct stream *s, bool nonblock, uint64_t until_ns)
{
	int rc;

	pthread_mutex_unlock(&s->rlock);
	rc = stream_wait(s, stream_can_recv, nonblock, sock_left_ms(until_ns));
	pthread_mutex_lock(&s->rlock);
	return rc;
}

/* TCP's other ways to read: with no room it waits for something to be there; and a look at all of
 * what is asked for waits for all of it. */
static int wait_first(struct stream *s, size_t total, int flags)
{
	const bool nonblock = sock_nonblocking(&s->sock, flags);
	int rc = 0;

	if (flags & MSG_ERRQUEUE)
		return -EAGAIN; /* no data are ever on it */
	if (!total) {
		rc = stream_wait(s, stream_can_recv, nonblock, s->sock.rcv_timeout_ms);
		if (rc == -EAGAIN && !nonblock)
			return 0;
		return rc || stream_has_data(s) ? rc : at_end(s);
	}
	if (flags & MSG_PEEK && flags & MSG_WAITALL && !nonblock)
		rc = stream_wait_for_bytes(s, total, s->sock.rcv_timeout_ms);
	/* What there is by then is the answer. */
	return stream_has_data(s) ? 0 : rc;
}

ssize_t stream_recvv(struct stream *s, const struct iovec *iov, size_t count, int flags)
{
	const ssize_t total = iov_length(iov, count);
	const bool nonblock = sock_nonblocking(&s->sock, flags);
	const uint64_t until_ns = sock_until(s->sock.rcv_timeout_ms);
	size_t done = 0, least = 1;
	bool ended = false;
	int rc;

	if (total < 0)
		return total;
	if (flags & MSG_OOB)
		return -EINVAL;
	rc = stream_connected(s, flags);
	if (!rc && s->tcp)
		rc = wait_first(s, (size_t)total, flags);
	if (rc)
		return rc;
	if (s->tcp)
		least = enough(s);
	pthread_mutex_lock(&s->rlock);
	while (done < (size_t)total) {
		while (!rc && !stream_has_data(s) && !ended) {
			rc = wait_for_data(s, nonblock, until_ns);
			ended = !rc && stream_at_end(s);
		}
		if (rc)
			break;
		if (!stream_has_data(s)) {
			if (!done)
				rc = at_end(s);
			break;
		}
		if (s->tcp && !(flags & MSG_TRUNC) && !room_for(s, iov, count, done)) {
			rc = -EFAULT;
			break;
		}
		done += take(s, iov, count, done, flags);
		if (flags & MSG_PEEK || (!(flags & MSG_WAITALL) && (nonblock || done >= least)))
			break;
	}
	if (done && stream_owes_credits(s))
		stream_progress(s); /* the peer may be waiting for it */
	pthread_mutex_unlock(&s->rlock);
	return done ? (ssize_t)done : rc;
}

size_t stream_unread(struct stream *s)
{
	size_t total;

	pthread_mutex_lock(&s->rlock);
	total = unread(s);
	pthread_mutex_unlock(&s->rlock);
	return total;
}
