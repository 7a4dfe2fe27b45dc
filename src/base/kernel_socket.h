/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A socket of the kernel's, for our own use. Where rsockets are preloaded (librspreload) the
 * program's socket() makes rsockets of ours too, which then ask for a socket, and so on.
 */
#ifndef WEFT_BASE_KERNEL_SOCKET_H
#define WEFT_BASE_KERNEL_SOCKET_H

#include <sys/socket.h>

/* As socket(2), accept4(2), and close(2) of one of these; none is a point of cancellation. */
int kernel_socket(int domain, int type, int protocol);
int kernel_accept(int fd, int flags);
void kernel_close(int fd);

/* As recvmmsg(2) and sendmmsg(2), which do not wait: how many, or -errno. */
int kernel_recvmmsg(int fd, struct mmsghdr *v, unsigned int n);
int kernel_sendmmsg(int fd, struct mmsghdr *v, unsigned int n);
/* An option that is a number: 0 or -errno. */
int kernel_socket_set(int fd, int level, int name, int value);
/* Both buffers: beyond net.core.[rw]mem_max with CAP_NET_ADMIN in the namespace, else as much as
 * that allows. */
void kernel_socket_grow(int fd, int bytes);
/* What its packets carry from now on: the traffic class, of both families as far as it has them,
 * and the kernel's priority, or what is next to it without CAP_NET_ADMIN. */
void kernel_socket_class(int fd, int tos, int priority);

#endif
