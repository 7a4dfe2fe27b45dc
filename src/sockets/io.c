// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/* Data, by every name that the C library has for it, those of _FORTIFY_SOURCE included. */
#undef _FILE_OFFSET_BITS /* preadv2 and preadv64v2 are two names here */
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <linux/errqueue.h> /* after the above, of which it has its times */

#include "base/time.h"
#include "rsocket/probe.h"
#include "sockets/own.h"
#include "sockets/real.h"
#include "sockets/sockets.h"

#pragma GCC visibility push(default)

/* Of those of Linux 6.1; a kernel that knows fewer says so of its own socket. */
enum {
	RWF_READ = RWF_HIPRI | RWF_NOWAIT,
	RWF_WRITE = RWF_READ | RWF_DSYNC | RWF_SYNC | RWF_APPEND
};

/* What an iovec of the program's says, or -errno as the kernel has it. */
static int checked(const struct iovec *iov, size_t count, int too_many)
{
	bool beyond = false; /* where no program has memory */

	if (count > IOV_MAX)
		return too_many;
	if (!probe_readable(iov, count * sizeof(*iov)))
		return -EFAULT;
	for (size_t i = 0; i < count; i++) {
		if (iov[i].iov_len > SSIZE_MAX)
			return -EINVAL;
		beyond |= (uintptr_t)iov[i].iov_base + iov[i].iov_len > INTPTR_MAX;
	}
	return beyond ? -EFAULT : 0;
}

static int checked_message(const struct msghdr *msg)
{
	if (!probe_readable(msg, sizeof(*msg)))
		return -EFAULT;
	return checked(msg->msg_iov, msg->msg_iovlen, -EMSGSIZE);
}

static bool nothing(const struct iovec *iov, int count)
{
	for (int i = 0; i < count; i++)
		if (iov[i].iov_len)
			return false;
	return true;
}

/* ---- receiving ------------------------------------------------------------------------------- */

static ssize_t receive(struct held h, const struct iovec *iov, size_t count, int flags)
{
	struct guard guard;
	ssize_t rc;

	guard_begin(&guard, entry_left, h.entry);
	do
		rc = stream_recvv(h.stream, iov, count, flags);
	while (rc == -ERESTART);
	guard_end(&guard);
	return let_go(h, rc);
}

__attribute__((visibility("hidden"))) ssize_t io_recv(int fd, void *buf, size_t len, int flags)
{
	struct held h = hold(fd);

	if (!h.stream)
		return real()->recv(fd, buf, len, flags);
	return receive(h, &(struct iovec){buf, len}, 1, flags);
}

ssize_t recv(int fd, void *buf, size_t len, int flags)
{
	pthread_testcancel();
	return io_recv(fd, buf, len, flags);
}

ssize_t recvfrom(int fd, void *restrict buf, size_t len, int flags, struct sockaddr *restrict src,
		 socklen_t *restrict srclen)
{
	struct held h = hold_or_end(fd);

	if (!h.stream)
		return real()->recvfrom(fd, buf, len, flags, src, srclen);
	if (src && !probe_writable(srclen, sizeof(*srclen)))
		return let_go(h, -EFAULT);
	if (src)
		*srclen = 0; /* as TCP: who is connected knows whom it hears */
	return receive(h, &(struct iovec){buf, len}, 1, flags);
}

/* Descriptors that the broker gives us. */
static void keep_passed(struct msghdr *msg)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		const bool fds = c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS;

		for (size_t at = CMSG_LEN(0); fds && at + sizeof(int) <= c->cmsg_len;
		     at += sizeof(int)) {
			int fd;

			memcpy(&fd, (uint8_t *)c + at, sizeof(fd));
			fd = own_keep(fd);
			memcpy((uint8_t *)c + at, &fd, sizeof(fd));
		}
	}
}

/* Of sends with MSG_ZEROCOPY: they have copied, and their memory is the program's again. */
static bool told_of_zerocopy(struct stream *s, struct msghdr *msg)
{
	const bool v6 = s->sock.domain == AF_INET6;
	/* The address of nobody stands behind it. */
	const size_t size = sizeof(struct sock_extended_err) +
			    (v6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in));
	const size_t room = msg->msg_control ? msg->msg_controllen : 0;
	struct sock_extended_err err = {.ee_origin = SO_EE_ORIGIN_ZEROCOPY,
					.ee_code = SO_EE_CODE_ZEROCOPY_COPIED};
	struct cmsghdr *c = msg->msg_control;

	if (!stream_tell_zerocopy(s, &err.ee_info, &err.ee_data))
		return false;
	msg->msg_flags = MSG_ERRQUEUE;
	msg->msg_namelen = 0;
	msg->msg_controllen = 0;
	if (room < CMSG_LEN(sizeof(err))) {
		msg->msg_flags |= MSG_CTRUNC;
		return true;
	}
	memset(c, 0, min_of(room, CMSG_SPACE(size)));
	c->cmsg_level = v6 ? SOL_IPV6 : SOL_IP;
	c->cmsg_type = v6 ? IPV6_RECVERR : IP_RECVERR;
	c->cmsg_len = min_of(room, CMSG_LEN(size));
	memcpy(CMSG_DATA(c), &err, sizeof(err));
	msg->msg_controllen = min_of(room, CMSG_SPACE(size));
	return true;
}

ssize_t recvmsg(int fd, struct msghdr *msg, int flags)
{
	const bool ours = own_caller(__builtin_return_address(0));
	struct held h = hold_or_end(fd);
	int rc;

	if (!h.stream) {
		ssize_t n = real()->recvmsg(fd, msg, flags);

		if (ours && n >= 0)
			keep_passed(msg);
		return n;
	}
	rc = checked_message(msg);
	if (rc)
		return let_go(h, rc);
	if (flags & MSG_ERRQUEUE && told_of_zerocopy(h.stream, msg))
		return let_go(h, 0);
	msg->msg_flags = 0;
	msg->msg_namelen = 0;
	msg->msg_controllen = 0;
	return receive(h, msg->msg_iov, msg->msg_iovlen, flags);
}

/* A message after another until there are so many, as far as they can be had. */
int recvmmsg(int fd, struct mmsghdr *msgs, unsigned int n, int flags, struct timespec *timeout)
{
	struct held h = hold_or_end(fd);
	uint64_t end = UINT64_MAX;
	unsigned int done = 0;
	ssize_t rc = 0;

	if (!h.stream)
		return real()->recvmmsg(fd, msgs, n, flags, timeout);
	(void)!let_go(h, 0);
	if (timeout && !probe_readable(timeout, sizeof(*timeout)))
		return (int)answer(-EFAULT);
	if (timeout &&
	    (timeout->tv_sec < 0 || timeout->tv_nsec < 0 || timeout->tv_nsec >= (long)NSEC_PER_SEC))
		return (int)answer(-EINVAL);
	if (timeout)
		end = time_now_ns() + (uint64_t)timeout->tv_sec * NSEC_PER_SEC +
		      (uint64_t)timeout->tv_nsec;
	for (; done < n; done++) {
		if (!probe_writable(&msgs[done].msg_len, sizeof(msgs[done].msg_len)))
			rc = answer(-EFAULT);
		else
			rc = recvmsg(fd, &msgs[done].msg_hdr, flags & ~MSG_WAITFORONE);
		if (rc < 0)
			break;
		msgs[done].msg_len = (unsigned int)rc;
		if (flags & MSG_WAITFORONE)
			flags |= MSG_DONTWAIT;
		if (time_now_ns() >= end) {
			done++;
			break;
		}
	}
	return done ? (int)done : (int)rc;
}

ssize_t read(int fd, void *buf, size_t count)
{
	struct held h = hold_or_end(fd);

	if (!h.stream)
		return real()->read(fd, buf, count);
	if (!count)
		return let_go(h, 0);
	return receive(h, &(struct iovec){buf, count}, 1, 0);
}

static ssize_t read_vector(struct held h, const struct iovec *iov, int count, int flags)
{
	const int rc = checked(iov, (size_t)count, -EINVAL);

	if (rc || nothing(iov, count))
		return let_go(h, rc);
	return receive(h, iov, (size_t)count, flags);
}

ssize_t readv(int fd, const struct iovec *iov, int count)
{
	struct held h = hold_or_end(fd);

	if (!h.stream)
		return real()->readv(fd, iov, count);
	return read_vector(h, iov, count, 0);
}

/* At no offset, which a socket has not, it is readv() with flags. */
ssize_t preadv64v2(int fd, const struct iovec *iov, int count, off64_t offset, int flags)
{
	struct held h = offset == -1 && !(flags & ~RWF_READ) ? hold_or_end(fd) : (struct held){0};

	if (!h.stream)
		return real()->preadv64v2(fd, iov, count, offset, flags);
	return read_vector(h, iov, count, flags & RWF_NOWAIT ? MSG_DONTWAIT : 0);
}

ssize_t preadv2(int fd, const struct iovec *iov, int count, off_t offset, int flags)
{
	return preadv64v2(fd, iov, count, offset, flags);
}

/* ---- sending --------------------------------------------------------------------------------- */

static ssize_t transmit(struct held h, const struct iovec *iov, size_t count, int flags)
{
	struct guard guard;
	ssize_t rc;

	guard_begin(&guard, entry_left, h.entry);
	do
		rc = stream_sendv(h.stream, iov, count, flags);
	while (rc == -ERESTART);
	guard_end(&guard);
	if (rc > 0 && flags & MSG_ZEROCOPY && h.stream->zerocopy)
		stream_sent_zerocopy(h.stream);
	rc = let_go(h, rc == -ENOTCONN ? -EPIPE : rc);
	if (rc < 0 && errno == EPIPE && !(flags & MSG_NOSIGNAL)) {
		raise(SIGPIPE);
		errno = EPIPE;
	}
	return rc;
}

__attribute__((visibility("hidden"))) ssize_t io_send(int fd, const void *buf, size_t len,
						      int flags)
{
	struct held h = hold(fd);

	if (!h.stream)
		return real()->send(fd, buf, len, flags);
	return transmit(h, &(struct iovec){(void *)(uintptr_t)buf, len}, 1, flags);
}

ssize_t send(int fd, const void *buf, size_t len, int flags)
{
	pthread_testcancel();
	return io_send(fd, buf, len, flags);
}

ssize_t sendto(int fd, const void *buf, size_t len, int flags, const struct sockaddr *dst,
	       socklen_t dstlen)
{
	struct held h = hold_or_end(fd);

	if (!h.stream)
		return real()->sendto(fd, buf, len, flags, dst, dstlen);
	if (dst && !probe_readable(dst, dstlen))
		return let_go(h, -EFAULT);
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

static bool carries_control(const struct msghdr *msg)
{
	return probe_readable(msg, sizeof(*msg)) && msg->msg_control &&
	       probe_readable(msg->msg_control, msg->msg_controllen);
}

/* As TCP's, which knows some of no meaning to it, and refuses others. */
static int checked_control(const struct msghdr *msg)
{
	struct msghdr m = *msg;

	if (!m.msg_controllen)
		return 0;
	if (!probe_readable(m.msg_control, m.msg_controllen))
		return -EFAULT;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
		const size_t left =
			m.msg_controllen - (size_t)((uint8_t *)c - (uint8_t *)m.msg_control);

		if (c->cmsg_len < sizeof(*c) || c->cmsg_len > left)
			return -EINVAL;
		if (c->cmsg_level == SOL_SOCKET && c->cmsg_type != SCM_RIGHTS &&
		    c->cmsg_type != SCM_CREDENTIALS && c->cmsg_type != SO_MARK &&
		    c->cmsg_type != SO_TIMESTAMPING && c->cmsg_type != SO_PRIORITY)
			return -EINVAL;
	}
	return 0;
}

ssize_t sendmsg(int fd, const struct msghdr *msg, int flags)
{
	struct held h = hold_or_end(fd);

	int rc;

	if (!h.stream) {
		if (table_ours() && carries_control(msg))
			pass_connections(msg);
		return real()->sendmsg(fd, msg, flags);
	}
	rc = checked_message(msg);
	if (!rc)
		rc = checked_control(msg);
	if (rc)
		return let_go(h, rc);
	return transmit(h, msg->msg_iov, msg->msg_iovlen, flags);
}

int sendmmsg(int fd, struct mmsghdr *msgs, unsigned int n, int flags)
{
	struct held h = hold_or_end(fd);
	unsigned int done = 0;
	ssize_t rc = 0;

	if (!h.stream) {
		for (unsigned int i = 0; table_ours() && i < n && i < IOV_MAX; i++)
			if (carries_control(&msgs[i].msg_hdr))
				pass_connections(&msgs[i].msg_hdr);
		return real()->sendmmsg(fd, msgs, n, flags);
	}
	(void)!let_go(h, 0);
	for (n = min_of(n, (unsigned int)IOV_MAX); done < n; done++) {
		if (!probe_writable(&msgs[done].msg_len, sizeof(msgs[done].msg_len)))
			rc = answer(-EFAULT);
		else
			rc = sendmsg(fd, &msgs[done].msg_hdr, flags);
		if (rc < 0)
			break;
		msgs[done].msg_len = (unsigned int)rc;
	}
	return done ? (int)done : (int)rc;
}

ssize_t write(int fd, const void *buf, size_t count)
{
	struct held h = hold_or_end(fd);

	if (!h.stream)
		return real()->write(fd, buf, count);
	return transmit(h, &(struct iovec){(void *)(uintptr_t)buf, count}, 1, 0);
}

static ssize_t write_vector(struct held h, const struct iovec *iov, int count, int flags)
{
	const int rc = checked(iov, (size_t)count, -EINVAL);

	if (rc || nothing(iov, count))
		return let_go(h, rc);
	return transmit(h, iov, (size_t)count, flags);
}

ssize_t writev(int fd, const struct iovec *iov, int count)
{
	struct held h = hold_or_end(fd);

	if (!h.stream)
		return real()->writev(fd, iov, count);
	return write_vector(h, iov, count, 0);
}

ssize_t pwritev64v2(int fd, const struct iovec *iov, int count, off64_t offset, int flags)
{
	struct held h = offset == -1 && !(flags & ~RWF_WRITE) ? hold_or_end(fd) : (struct held){0};

	if (!h.stream)
		return real()->pwritev64v2(fd, iov, count, offset, flags);
	return write_vector(h, iov, count, flags & RWF_NOWAIT ? MSG_DONTWAIT : 0);
}

ssize_t pwritev2(int fd, const struct iovec *iov, int count, off_t offset, int flags)
{
	return pwritev64v2(fd, iov, count, offset, flags);
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
