// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/*
 * Sending: data are copied into the send buffer and posted in pieces, so that the peer works on
 * the first while the next is copied.
 */
#include <string.h>

#include "rsocket/counted.h"
#include "rsocket/probe.h"
#include "rsocket/stream.h"

enum { PIECE_FIRST = 16384, PIECE_MAX = 65536 };

/* ---- from an iovec --------------------------------------------------------------------------- */

static void iov_take(struct iov_at *at, uint8_t *to, size_t n)
{
	while (n) {
		size_t left = at->iov->iov_len - at->offset, take = min_of(left, n);

		if (take) /* an empty place may have no address */
			memcpy(to, (const uint8_t *)at->iov->iov_base + at->offset, take);
		to += take;
		n -= take;
		at->offset += take;
		if (at->offset == at->iov->iov_len) {
			at->iov++;
			at->offset = 0;
		}
	}
}

static bool iov_readable(struct iov_at at, size_t n)
{
	for (; n; at.iov++, at.offset = 0) {
		const size_t take = min_of(at.iov->iov_len - at.offset, n);

		if (take && /* as above */
		    !probe_readable((const uint8_t *)at.iov->iov_base + at.offset, take))
			return false;
		n -= take;
	}
	return true;
}

/* Under slock. Behind the end of the send buffer comes its beginning: at most two pieces. */
static int into_sbuf(struct stream *s, struct iov_at *from, uint32_t length, struct ibv_sge sge[2])
{
	uint32_t first = min_of(length, s->set.sbuf_size - s->sbuf_head);
	uint32_t second = length - first;

	iov_take(from, s->sbuf + s->sbuf_head, first);
	sge[0] = (struct ibv_sge){(uintptr_t)s->sbuf + s->sbuf_head, first, s->smr->lkey};
	if (second) {
		iov_take(from, s->sbuf, second);
		sge[1] = (struct ibv_sge){(uintptr_t)s->sbuf, second, s->smr->lkey};
	}
	s->sbuf_head = (s->sbuf_head + length) % s->set.sbuf_size;
	return second ? 2 : 1;
}

/* Under slock: is this work request to be signaled, and what does its completion give back? */
static bool signaled(struct stream *s, uint32_t bytes, uint64_t *id)
{
	s->unsignaled_wrs++;
	s->unsignaled_bytes += bytes;
	if (s->unsignaled_wrs < (s->set.sq_size - RS_CTRL_WRS) / 4 &&
	    s->unsignaled_bytes < s->set.sbuf_size / 4) {
		*id = wr_id(WR_DATA, 0, 0);
		return false;
	}
	*id = wr_id(WR_DATA, s->unsignaled_wrs, s->unsignaled_bytes);
	s->unsignaled_wrs = s->unsignaled_bytes = 0;
	return true;
}

int stream_post_data(struct stream *s, struct iov_at *from, uint32_t length, uint32_t imm,
		     bool with_imm, uint64_t addr, uint32_t rkey)
{
	uint32_t in_sbuf = 0;
	uint8_t copy[256];
	struct ibv_sge sge[2];
	struct ibv_send_wr *bad, wr = {
					 .sg_list = sge,
					 .num_sge = 1,
					 .opcode = IBV_WR_RDMA_WRITE,
					 .wr.rdma = {addr, rkey},
				 };
	int rc;

	if (length <= s->set.sq_inline && from->offset + length <= from->iov->iov_len) {
		sge[0] = (struct ibv_sge){(uintptr_t)from->iov->iov_base + from->offset, length, 0};
		wr.send_flags = IBV_SEND_INLINE;
		from->offset += length;
		if (from->offset == from->iov->iov_len) {
			from->iov++;
			from->offset = 0;
		}
	} else if (length <= s->set.sq_inline && length <= sizeof(copy)) {
		iov_take(from, copy, length);
		sge[0] = (struct ibv_sge){(uintptr_t)copy, length, 0};
		wr.send_flags = IBV_SEND_INLINE;
	} else {
		in_sbuf = length;
		wr.num_sge = into_sbuf(s, from, length, sge);
		atomic_fetch_sub(&s->sbuf_free, length);
	}
	if (signaled(s, in_sbuf, &wr.wr_id))
		wr.send_flags |= IBV_SEND_SIGNALED;
	atomic_fetch_sub(&s->sqe_free, 1);
	rc = with_imm ? stream_post_message(s, &wr, imm) : ibv_post_send(s->id->qp, &wr, &bad);
	if (!rc)
		return 0;
	stream_fail(s, rc);
	return -ECONNRESET;
}

/* ---- to the peer's buffer -------------------------------------------------------------------- */

/*
 * Posts one message; returns its length, or -errno. The entry of the target SGL is moved on before
 * the message is posted: when it is used up the peer may write it anew as soon as it has that.
 */
static ssize_t send_piece(struct stream *s, struct iov_at *from, size_t left, uint32_t piece)
{
	const uint32_t at = atomic_load(&s->target_sge);
	volatile struct rs_sge *target = &s->target_sgl[at];
	const uint64_t addr = target->addr;
	const uint32_t room = target->length, key = target->key;
	uint32_t length = min_of(piece, room);
	int rc;

	length = min_of(length, atomic_load(&s->sbuf_free));
	length = (uint32_t)min_of((size_t)length, left);
	if (s->tcp && !iov_readable(*from, length))
		return -EFAULT;
	target->addr = addr + length;
	/* Who waits for room looks without the lock. */
	__atomic_store_n(&target->length, room - length, __ATOMIC_RELAXED);
	if (length == room)
		atomic_store(&s->target_sge, (at + 1) % RS_SGL_SIZE);
	s->sseq_no++;
	rc = stream_post_data(s, from, length, rs_imm(RS_OP_DATA, length), true, addr, key);
	return rc ? rc : (ssize_t)length;
}

/* Nothing can be sent any more: why. */
static int no_more(struct stream *s)
{
	const enum stream_state state = atomic_load(&s->state);

	if (state == STREAM_CONNECTED)
		return -EPIPE;
	/* rdma-core has another word for it where the peer has gone. */
	return stream_take_error(s, s->tcp || state == STREAM_FAILED ? -EPIPE : -ECONNRESET);
}

int stream_wait_for_room(struct stream *s, int flags, uint64_t until_ns)
{
	const bool nonblock = sock_nonblocking(&s->sock, flags);
	int rc;

	/* rdma-core's callers count on each other's data staying in one piece. */
	while (!stream_has_room(s) || !atomic_load(&s->writable)) {
		rs_count(send_waits, 1);
		if (s->tcp)
			pthread_mutex_unlock(&s->slock);
		rc = stream_wait(s, stream_can_send, nonblock, sock_left_ms(until_ns));
		if (s->tcp)
			pthread_mutex_lock(&s->slock);
		if (rc)
			return rc;
		if (!atomic_load(&s->writable) || atomic_load(&s->state) != STREAM_CONNECTED)
			break;
	}
	return atomic_load(&s->writable) && atomic_load(&s->state) == STREAM_CONNECTED ? 0
										       : no_more(s);
}

/* The peer has closed, which TCP's sender cannot know: the first data go, the answer is a reset. */
static bool goes_to_nobody(struct stream *s)
{
	enum stream_state disconnected = STREAM_DISCONNECTED;

	if (!s->tcp || atomic_load(&s->ours_said) ||
	    !atomic_compare_exchange_strong(&s->state, &disconnected, STREAM_FAILED))
		return false;
	atomic_store(&s->err, EPIPE);
	sock_wake(&s->sock);
	return true;
}

/* Some has been sent, which is the answer: what ended it is the next one's. */
static void tell_later(struct stream *s, int rc)
{
	if (s->tcp && rc != -EPIPE && atomic_load(&s->state) == STREAM_FAILED)
		atomic_store(&s->err, -rc);
}

/* Before anything is sent: has the connection ended, though nobody has looked? */
static int look_before(struct stream *s, size_t total)
{
	if (atomic_load(&s->broken))
		stream_progress(s);
	if (total || (atomic_load(&s->state) == STREAM_CONNECTED && atomic_load(&s->writable)))
		return 0;
	return atomic_load(&s->state) == STREAM_DISCONNECTED && !atomic_load(&s->ours_said)
		       ? 0
		       : no_more(s);
}

ssize_t stream_sendv(struct stream *s, const struct iovec *iov, size_t count, int flags)
{
	const ssize_t total = iov_length(iov, count);
	const uint64_t until_ns = sock_until(s->sock.snd_timeout_ms);
	struct iov_at from = {.iov = iov};
	uint32_t piece = PIECE_FIRST;
	size_t left;
	int rc;

	if (total < 0)
		return total;
	if (flags & MSG_OOB)
		return -EOPNOTSUPP;
	rc = stream_connected(s, flags);
	if (!rc && s->tcp)
		rc = look_before(s, (size_t)total);
	if (rc)
		return rc;
	pthread_mutex_lock(&s->slock);
	if (atomic_load(&s->iomap_pending))
		rc = stream_tell_iomaps(s, flags);
	for (left = (size_t)total; left && !rc;) {
		ssize_t n;

		rc = stream_wait_for_room(s, flags, until_ns);
		if (rc)
			break;
		while (!from.iov->iov_len)
			from.iov++;
		n = send_piece(s, &from, left, piece);
		if (n < 0) {
			rc = (int)n;
			break;
		}
		left -= (size_t)n;
		piece = min_of(piece * 2, (uint32_t)PIECE_MAX);
	}
	pthread_mutex_unlock(&s->slock);
	rs_count(sent_bytes, (uint64_t)total - left);
	if (rc == -EPIPE && goes_to_nobody(s))
		return total;
	if (rc && left != (size_t)total)
		tell_later(s, rc);
	return left == (size_t)total && rc ? rc : total - (ssize_t)left;
}

void stream_sent_zerocopy(struct stream *s)
{
	atomic_fetch_add(&s->zerocopies, 1);
	sock_wake(&s->sock);
}

bool stream_tell_zerocopy(struct stream *s, uint32_t *ret_first, uint32_t *ret_last)
{
	const uint32_t end = atomic_load(&s->zerocopies);

	*ret_first = atomic_exchange(&s->zerocopies_told, end);
	*ret_last = end - 1;
	return *ret_first != end;
}

size_t stream_room(struct stream *s)
{
	size_t room = 0;

	pthread_mutex_lock(&s->slock);
	if (atomic_load(&s->state) != STREAM_CONNECTED || !atomic_load(&s->writable)) {
		room = SIZE_MAX;
	} else if (stream_has_room(s)) {
		room = min_of(atomic_load(&s->sbuf_free), stream_target_room(s));
		/* Of one message: another may have to wait for its credit. */
		room = min_of(room, (size_t)PIECE_FIRST);
	}
	pthread_mutex_unlock(&s->slock);
	return room;
}
