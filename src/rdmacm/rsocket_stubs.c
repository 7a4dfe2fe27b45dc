// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/*
 * The rsocket API, not there yet: rsocket(7) fails as on a machine whose RDMA devices cannot carry
 * it, and no descriptor of it comes to exist, so that the others are calls on a wrong descriptor.
 */
#include <errno.h>
#include <rdma/rsocket.h>
#include <stdarg.h>

int rsocket(int domain, int type, int protocol)
{
	(void)domain, (void)type, (void)protocol;
	errno = EOPNOTSUPP;
	return -1;
}

#define NO_SUCH_SOCKET(ret, name, ...) \
	ret name(__VA_ARGS__)          \
	{                              \
		errno = EBADF;         \
		return (ret)-1;        \
	}

#pragma GCC diagnostic ignored "-Wunused-parameter"
NO_SUCH_SOCKET(int, rbind, int socket, const struct sockaddr *addr, socklen_t addrlen)
NO_SUCH_SOCKET(int, rlisten, int socket, int backlog)
NO_SUCH_SOCKET(int, raccept, int socket, struct sockaddr *addr, socklen_t *addrlen)
NO_SUCH_SOCKET(int, rconnect, int socket, const struct sockaddr *addr, socklen_t addrlen)
NO_SUCH_SOCKET(int, rshutdown, int socket, int how)
NO_SUCH_SOCKET(int, rclose, int socket)
NO_SUCH_SOCKET(ssize_t, rrecv, int socket, void *buf, size_t len, int flags)
NO_SUCH_SOCKET(ssize_t, rrecvfrom, int socket, void *buf, size_t len, int flags,
	       struct sockaddr *src_addr, socklen_t *addrlen)
NO_SUCH_SOCKET(ssize_t, rrecvmsg, int socket, struct msghdr *msg, int flags)
NO_SUCH_SOCKET(ssize_t, rsend, int socket, const void *buf, size_t len, int flags)
NO_SUCH_SOCKET(ssize_t, rsendto, int socket, const void *buf, size_t len, int flags,
	       const struct sockaddr *dest_addr, socklen_t addrlen)
NO_SUCH_SOCKET(ssize_t, rsendmsg, int socket, const struct msghdr *msg, int flags)
NO_SUCH_SOCKET(ssize_t, rread, int socket, void *buf, size_t count)
NO_SUCH_SOCKET(ssize_t, rreadv, int socket, const struct iovec *iov, int iovcnt)
NO_SUCH_SOCKET(ssize_t, rwrite, int socket, const void *buf, size_t count)
NO_SUCH_SOCKET(ssize_t, rwritev, int socket, const struct iovec *iov, int iovcnt)
NO_SUCH_SOCKET(int, rgetpeername, int socket, struct sockaddr *addr, socklen_t *addrlen)
NO_SUCH_SOCKET(int, rgetsockname, int socket, struct sockaddr *addr, socklen_t *addrlen)
NO_SUCH_SOCKET(int, rsetsockopt, int socket, int level, int optname, const void *optval,
	       socklen_t optlen)
NO_SUCH_SOCKET(int, rgetsockopt, int socket, int level, int optname, void *optval,
	       socklen_t *optlen)
NO_SUCH_SOCKET(int, rfcntl, int socket, int cmd, ...)
NO_SUCH_SOCKET(off_t, riomap, int socket, void *buf, size_t len, int prot, int flags, off_t offset)
NO_SUCH_SOCKET(int, riounmap, int socket, void *buf, size_t len)
NO_SUCH_SOCKET(size_t, riowrite, int socket, const void *buf, size_t count, off_t offset, int flags)

/* These two take ordinary descriptors too, which is all there can be among theirs. */
int rpoll(struct pollfd *fds, nfds_t nfds, int timeout)
{
	return poll(fds, nfds, timeout);
}

int rselect(int nfds, fd_set *readfds, fd_set *writefds, fd_set *exceptfds, struct timeval *timeout)
{
	return select(nfds, readfds, writefds, exceptfds, timeout);
}
