/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A socket of the kernel's, for our own use. Where rsockets are preloaded (librspreload) the
 * program's socket() makes rsockets of ours too, which then ask for a socket, and so on.
 */
#ifndef WEFT_BASE_KERNEL_SOCKET_H
#define WEFT_BASE_KERNEL_SOCKET_H

/* As socket(2), accept4(2), and close(2) of one of these; none is a point of cancellation. */
int kernel_socket(int domain, int type, int protocol);
int kernel_accept(int fd, int flags);
void kernel_close(int fd);

#endif
