// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/* Data, by every name that the C library has for it, those of _FORTIFY_SOURCE included. */
#undef _FILE_OFFSET_BITS /* sendfile and sendfile64 are two names here */
#include <signal.h>
#include <stdlib.h>
#include <sys/sendfile.h>
#include <unistd.h>

#include "sockets/real.h"
#include "sockets/sockets.h"

#pragma GCC visibility push(default)

struct held {
	struct entry *entry;
	struct stream *stream;
};

static struct held hold(int fd)
{
	struct held h = {.entry = entry_get(fd)};

	if (h.entry)
		h.stream = entry_stream(h.entry);
	if (h.entry && !h.stream) {
		entry_put(h.entry);
		h.entry = NULL;
	}
	return h;
}

static ssize_t let_go(struct held h, ssize_t rc)
{
	entry_put(h.entry);
	return answer(rc);
}

/* ---- receiving ------------------------------------------------------------------------------- */

ssize_t recv(int fd, void *buf, size_t len, int flags)
{
	struct held h = hold(fd);

	if (!h.stream)
		return real()->recv(fd, buf, len, flags);
	return let_go(h, stream_recvv(h.stream, &(struct iovec){buf, len}, 1, flags));
}

ssize_t recvfrom(int fd, void *restrict buf, size_t len, int flags, struct sockaddr *restrict src,
		 socklen_t *restrict srclen)
{
	struct held h = hold(fd);

	if (!h.stream)
		return real()->recvfrom(fd, buf, len, flags, src, srclen);
	if (src && srclen)
		*srclen = 0; /* as TCP: who is connected knows whom it hears */
	return let_go(h, stream_recvv(h.stream, &(struct iovec){buf, len}, 1, flags));
}

ssize_t recvmsg(int fd, struct msghdr *msg, int flags)
{
	struct held h = hold(fd);

	if (!h.stream)
		return real()->recvmsg(fd, msg, flags);
	msg->msg_flags = 0;
	msg->msg_namelen = 0;
	msg->msg_controllen = 0;
	return let_go(h, stream_recvv(h.stream, msg->msg_iov, msg->msg_iovlen, flags));
}

ssize_t read(int fd, void *buf, size_t count)
{
	struct held h = hold(fd);

	if (!h.stream)
		return real()->read(fd, buf, count);
	return let_go(h, stream_recvv(h.stream, &(struct iovec){buf, count}, 1, 0));
}

ssize_t readv(int fd, const struct iovec *iov, int count)
{
	struct held h = hold(fd);

	if (!h.stream)
		return real()->readv(fd, iov, count);
	return let_go(h, count < 0 ? -EINVAL : stream_recvv(h.stream, iov, (size_t)count, 0));
}

/* ---- sending --------------------------------------------------------------------------------- */

static ssize_t transmit(struct held h, const struct iovec *iov, size_t count, int flags)
{
	ssize_t rc = stream_sendv(h.stream, iov, count, flags);

	rc = let_go(h, rc);
	if (rc < 0 && errno == EPIPE && !(flags & MSG_NOSIGNAL)) {
		raise(SIGPIPE);
		errno = EPIPE;
	}
	return rc;
}

ssize_t send(int fd, const void *buf, size_t len, int flags)
{
	struct held h = hold(fd);

	if (!h.stream)
		return real()->send(fd, buf, len, flags);
	return transmit(h, &(struct iovec){(void *)(uintptr_t)buf, len}, 1, flags);
}

ssize_t sendto(int fd, const void *buf, size_t len, int flags, const struct sockaddr *dst,
	       socklen_t dstlen)
{
	struct held h = hold(fd);

	if (!h.stream)
		return real()->sendto(fd, buf, len, flags, dst, dstlen);
	return transmit(h, &(struct iovec){(void *)(uintptr_t)buf, len}, 1, flags);
}

static void pass_connections(const struct msghdr *msg)
{
	struct msghdr m = *msg; /* CMSG_NXTHDR() takes no const */

	for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c))
		if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS &&
		    c->cmsg_len >= CMSG_LEN(0))
			entries_passed((const int *)(const void *)CMSG_DATA(c),
				       (c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
}

ssize_t sendmsg(int fd, const struct msghdr *msg, int flags)
{
	struct held h = hold(fd);

	if (!h.stream) {
		if (table_ours() && msg && msg->msg_control)
			pass_connections(msg);
		return real()->sendmsg(fd, msg, flags);
	}
	return transmit(h, msg->msg_iov, msg->msg_iovlen, flags);
}

ssize_t write(int fd, const void *buf, size_t count)
{
	struct held h = hold(fd);

	if (!h.stream)
		return real()->write(fd, buf, count);
	return transmit(h, &(struct iovec){(void *)(uintptr_t)buf, count}, 1, 0);
}

ssize_t writev(int fd, const struct iovec *iov, int count)
{
	struct held h = hold(fd);

	if (!h.stream)
		return real()->writev(fd, iov, count);
	if (count < 0)
		return let_go(h, -EINVAL);
	return transmit(h, iov, (size_t)count, 0);
}

/* Until the file is at its end, or so much is sent, or no more can be sent without waiting. */
static ssize_t send_file(int out, int in, int64_t *offset, size_t count)
{
	enum { PIECE = 65536 };
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
			sent = send(out, buf, (size_t)n, 0);
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

ssize_t sendfile64(int out, int in, off64_t *offset, size_t count)
{
	struct held h = hold(out);

	if (!h.stream)
		return real()->sendfile64(out, in, offset, count);
	entry_put(h.entry);
	return send_file(out, in, offset, count);
}

ssize_t sendfile(int out, int in, off_t *offset, size_t count)
{
	return sendfile64(out, in, offset, count); /* off_t has 64 bits where weft runs */
}

/* ---- what _FORTIFY_SOURCE makes of them ------------------------------------------------------ */

ssize_t __read_chk(int fd, void *buf, size_t count, size_t size);
ssize_t __recv_chk(int fd, void *buf, size_t len, size_t size, int flags);
ssize_t __recvfrom_chk(int fd, void *buf, size_t len, size_t size, int flags, struct sockaddr *src,
		       socklen_t *srclen);
void __chk_fail(void) __attribute__((noreturn));

ssize_t __read_chk(int fd, void *buf, size_t count, size_t size)
{
	if (count > size)
		__chk_fail();
	return read(fd, buf, count);
}

ssize_t __recv_chk(int fd, void *buf, size_t len, size_t size, int flags)
{
	if (len > size)
		__chk_fail();
	return recv(fd, buf, len, flags);
}

ssize_t __recvfrom_chk(int fd, void *buf, size_t len, size_t size, int flags, struct sockaddr *src,
		       socklen_t *srclen)
{
	if (len > size)
		__chk_fail();
	return recvfrom(fd, buf, len, flags, src, srclen);
}
