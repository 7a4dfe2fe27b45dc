// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/*
 * Data that go from one descriptor to another within the kernel, were the socket the kernel's:
 * sendfile() and splice(). Here they go by a buffer. What has been taken from a pipe cannot be put
 * back, so no more is taken than the stream has room for; what a stream has is looked at, and taken
 * when the pipe has it.
 */
#undef _FILE_OFFSET_BITS /* sendfile and sendfile64 are two names here */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "rsocket/probe.h"
#include "sockets/real.h"
#include "sockets/sockets.h"

enum { PIECE = 65536 };

static bool is_kind(int fd, mode_t kind)
{
	struct stat st;

	return !fstat(fd, &st) && (st.st_mode & S_IFMT) == kind;
}

/* ---- a file to a stream ---------------------------------------------------------------------- */

/* Until the file is at its end, or so much is sent, or no more can be sent without waiting. */
static ssize_t send_file(int out, int in, int64_t *offset, size_t count)
{
	/* Not the thread's own: programs make threads with no more stack than they need, and such
	 * memory comes out of it. */
	uint8_t *buf = malloc(PIECE);
	ssize_t done = 0, n, sent = 0;

	if (!buf)
		return -1;
	while ((size_t)done < count) {
		size_t want = min_of(count - (size_t)done, (size_t)PIECE);

		n = offset ? pread64(in, buf, want, *offset) : read(in, buf, want);
		if (n > 0)
			sent = io_send(out, buf, (size_t)n, 0);
		if (n > 0 && !offset && sent < n) /* what was not sent is to be read again */
			(void)!lseek64(in, max_of(sent, (ssize_t)0) - n, SEEK_CUR);
		if (n <= 0 || sent < 0) {
			done = done ? done : min_of(n, sent);
			break;
		}
		if (offset)
			*offset += sent;
		done += sent;
		if (sent < n)
			break;
	}
	free(buf);
	return done;
}

/* ---- between a stream and a pipe ------------------------------------------------------------- */

static bool nonblocking(int pipe, unsigned int flags)
{
	return flags & SPLICE_F_NONBLOCK || real()->fcntl64(pipe, F_GETFL) & O_NONBLOCK;
}

/* Waits for a pipe to have room for PIPE_BUF bytes, which write() then takes without waiting. */
static int room_in(int pipe, bool wait)
{
	struct pollfd p = {.fd = pipe, .events = POLLOUT};
	int n = real()->poll(&p, 1, wait ? -1 : 0);

	if (n < 0)
		return -errno;
	return n ? 0 : -EAGAIN;
}

/* So many bytes that were looked at are taken. */
static void take(int in, uint8_t *buf, size_t n)
{
	while (n) {
		const ssize_t got = io_recv(in, buf, n, MSG_DONTWAIT);

		if (got <= 0)
			return;
		n -= (size_t)got;
	}
}

/* All that there is at once, as far as the pipe has room. */
static ssize_t to_pipe(int in, int pipe, size_t count, unsigned int flags)
{
	uint8_t *buf = malloc(PIECE);
	ssize_t there = -1, done = 0, n = 0;
	int rc = 0;

	if (!buf)
		return -1;
	there = io_recv(in, buf, min_of(count, (size_t)PIECE), MSG_PEEK);
	while (done < there) {
		rc = room_in(pipe, !done && !nonblocking(pipe, flags));
		if (rc)
			break;
		n = real()->write(pipe, buf + done,
				  min_of((size_t)(there - done), (size_t)PIPE_BUF));
		rc = n < 0 ? -errno : 0;
		if (rc)
			break;
		done += n;
	}
	if (done)
		take(in, buf, (size_t)done);
	free(buf);
	return done || there <= 0 ? (there <= 0 ? there : done) : answer(rc);
}

/* It is no more in the pipe: though another thread has taken the room meanwhile, it goes. */
static ssize_t send_whole(int out, const uint8_t *buf, size_t len)
{
	struct pollfd room = {.fd = out, .events = POLLOUT};
	size_t done = 0;
	ssize_t n;

	while (done < len) {
		n = io_send(out, buf + done, len - done, 0);
		if (n > 0)
			done += (size_t)n;
		else if (n < 0 && (errno == EAGAIN || errno == EINTR))
			(void)poll(&room, 1, -1);
		else
			break;
	}
	return done ? (ssize_t)done : -1;
}

static ssize_t from_pipe(int pipe, int out, struct stream *s, size_t count, unsigned int flags)
{
	struct pollfd there = {.fd = pipe, .events = POLLIN}, room = {.fd = out, .events = POLLOUT};
	const bool wait = !sock_nonblocking(&s->sock, 0);
	uint8_t *buf;
	ssize_t n;

	/* The pipe first, as the kernel has it: an empty one says nothing of the socket. */
	n = real()->poll(&there, 1, nonblocking(pipe, flags) ? 0 : -1);
	if (n > 0 && !(there.revents & POLLIN))
		return 0; /* nobody will write any more */
	if (n > 0)
		n = poll(&room, 1, wait ? -1 : 0);
	if (n <= 0)
		return n < 0 ? n : answer(-EAGAIN);
	if (io_send(out, "", 0, 0) < 0) /* nothing is lost where nothing can be sent */
		return -1;
	count = min_of(count, (size_t)PIECE);
	count = min_of(count, stream_room(s));
	if (!count)
		return answer(-EAGAIN);
	buf = malloc(count);
	if (!buf)
		return -1;
	n = real()->read(pipe, buf, count);
	if (n > 0)
		n = send_whole(out, buf, (size_t)n);
	free(buf);
	return n;
}

#pragma GCC visibility push(default)

/* What is wrong with the rest, the kernel says of its own socket. */
ssize_t splice(int in, off64_t *in_offset, int out, off64_t *out_offset, size_t count,
	       unsigned int flags)
{
	const bool sound = !in_offset && !out_offset && count &&
			   !(flags & ~(SPLICE_F_MOVE | SPLICE_F_NONBLOCK | SPLICE_F_MORE));
	struct held from = sound ? hold_or_end(in) : (struct held){0};
	struct held to = sound && !from.stream ? hold(out) : (struct held){0};
	struct entry *e = from.entry ? from.entry : to.entry;
	struct guard guard;
	ssize_t rc;

	if (!e)
		return real()->splice(in, in_offset, out, out_offset, count, flags);
	guard_begin(&guard, entry_left, e);
	inside_end(); /* each piece is */
	if (from.stream && is_kind(out, S_IFIFO))
		rc = to_pipe(in, out, count, flags);
	else if (to.stream && is_kind(in, S_IFIFO))
		rc = from_pipe(in, out, to.stream, count, flags);
	else
		rc = real()->splice(in, in_offset, out, out_offset, count, flags);
	inside_begin();
	guard_end(&guard);
	entry_end(e);
	return rc;
}

static bool has_stream(int fd)
{
	struct held h = hold(fd);

	if (h.stream)
		(void)let_go(h, 0);
	return h.stream;
}

static ssize_t to_stream(int out, int in, int64_t *offset, size_t count)
{
	if (!probe_readable(offset, offset ? sizeof(*offset) : 0))
		return answer(-EFAULT);
	if ((ssize_t)count < 0 || is_kind(in, S_IFIFO) || is_kind(in, S_IFSOCK) ||
	    is_kind(in, S_IFDIR))
		return answer(-EINVAL);
	return send_file(out, in, offset, count);
}

/* These hold the sockets for themselves. */
ssize_t sendfile64(int out, int in, off64_t *offset, size_t count)
{
	if (has_stream(out))
		return to_stream(out, in, offset, count);
	if (!offset && has_stream(in) && is_kind(out, S_IFIFO))
		return count ? to_pipe(in, out, count, 0) : 0;
	return real()->sendfile64(out, in, offset, count);
}

ssize_t sendfile(int out, int in, off_t *offset, size_t count)
{
	return sendfile64(out, in, offset, count); /* off_t has 64 bits where weft runs */
}
