/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The abstract socket by which a network namespace's broker is found: there is one of it, so there
 * is one broker. */
#ifndef WEFT_BROKER_NAME_H
#define WEFT_BROKER_NAME_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

#include "base/compiler.h"

/* Fills in the address, and returns its length. */
socklen_t name_address(struct sockaddr_un *ret);
/*
 * 0 if the name is ours now; -EEXIST if another broker listens, who is other; or -errno. One that
 * has the name but does not listen is about to begin or to end, and waited for. *ret_fd is the
 * caller's to close in every case, or -1.
 */
int name_take(int *ret_fd, struct ucred *ret_other) must_use;
/* A sentence about what name_take() has returned. */
void name_explain(int rc, const struct ucred *other, char *err, size_t err_len);
/* May a broker of this user's serve us? One of a third user's could hand out sockets that it reads
 * too. */
bool name_is_trusted(uid_t);

#endif
