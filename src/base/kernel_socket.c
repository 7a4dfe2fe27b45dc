// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#include "base/kernel_socket.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PRIORITY_MAX 6 /* that anybody may have */

/* libweft-sockets.so's, where that is preloaded: our numbers are to be out of a program's way. */
int weft_private_keep_number(int fd) __attribute__((weak));
/* False: it is closed already. */
bool weft_private_end_number(int fd) __attribute__((weak));

static int keep(int fd)
{
	return weft_private_keep_number ? weft_private_keep_number(fd) : fd;
}

int kernel_socket(int domain, int type, int protocol)
{
	return keep((int)syscall(SYS_socket, domain, type, protocol));
}

int kernel_accept(int fd, int flags)
{
	return keep((int)syscall(SYS_accept4, fd, NULL, NULL, flags));
}

void kernel_close(int fd)
{
	if (!weft_private_end_number || weft_private_end_number(fd))
		(void)syscall(SYS_close, fd);
}

int kernel_recvmmsg(int fd, struct mmsghdr *v, unsigned int n)
{
	long rc = syscall(SYS_recvmmsg, fd, v, n, MSG_DONTWAIT, NULL);

	return rc < 0 ? -errno : (int)rc;
}

int kernel_sendmmsg(int fd, struct mmsghdr *v, unsigned int n)
{
	long rc = syscall(SYS_sendmmsg, fd, v, n, MSG_DONTWAIT);

	return rc < 0 ? -errno : (int)rc;
}

int kernel_socket_set(int fd, int level, int name, int value)
{
	return setsockopt(fd, level, name, &value, sizeof(value)) < 0 ? -errno : 0;
}

void kernel_socket_grow(int fd, int bytes)
{
	if (kernel_socket_set(fd, SOL_SOCKET, SO_RCVBUFFORCE, bytes))
		(void)kernel_socket_set(fd, SOL_SOCKET, SO_RCVBUF, bytes);
	if (kernel_socket_set(fd, SOL_SOCKET, SO_SNDBUFFORCE, bytes))
		(void)kernel_socket_set(fd, SOL_SOCKET, SO_SNDBUF, bytes);
}

void kernel_socket_class(int fd, int tos, int priority)
{
	(void)kernel_socket_set(fd, IPPROTO_IP, IP_TOS, tos);
	(void)kernel_socket_set(fd, IPPROTO_IPV6, IPV6_TCLASS, tos);
	/* Behind IP_TOS, by which the kernel chooses another. */
	if (kernel_socket_set(fd, SOL_SOCKET, SO_PRIORITY, priority))
		(void)kernel_socket_set(fd, SOL_SOCKET, SO_PRIORITY, PRIORITY_MAX);
}
