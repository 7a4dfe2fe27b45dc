/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Messages of a UNIX socket that may carry one descriptor. */
#ifndef WEFT_BROKER_FD_MSG_H
#define WEFT_BROKER_FD_MSG_H

#include <stddef.h>
#include <sys/types.h>

#include "base/compiler.h"

/* fd -1: none. flags as of send(2). 0 or -errno. */
int fd_msg_send(int sock, const void *msg, size_t len, int flags, int fd) must_use;
/* As recv(2), MSG_TRUNC included, -errno on failure; *ret_fd: the one that came, -1 for none. More
 * than one descriptor is -EPROTO, and all of them are closed; -EMFILE: no place for one more. */
ssize_t fd_msg_recv(int sock, void *msg, size_t room, int flags, int *ret_fd) must_use;
/* Closes the connection of somebody who is not trusted, with whatever it has sent and nobody has
 * read. */
void fd_msg_hang_up(int sock);

#endif
