/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Listening sockets that this process was handed when it was started, as sd_listen_fds(3)
 * describes: LISTEN_FDS says how many, from descriptor 3 on, LISTEN_PID for whom, LISTEN_FDNAMES
 * what they are called. Who is about to listen on an address asks here first whether it is such a
 * one's. A socket stays here: what listens gets a duplicate, and may close it and come again.
 *
 * Of one thread, before others begin; later whoever listens, one at a time.
 */
#ifndef WEFT_BASE_HANDED_H
#define WEFT_BASE_HANDED_H

#include <stdbool.h>
#include <sys/socket.h>

#include "base/compiler.h"

#define HANDED_MAX 64

struct handed {
	int fd;
	const char *name; /* what it is called, or "" */
	char at[80];	  /* ADDRESS:PORT, [ADDRESS]:PORT; or "" where it has no IP address */
	struct sockaddr_storage address;
	bool listens; /* a stream socket that does, of IP */
	bool both;    /* of IPv6, and takes IPv4 too */
	bool used;
};

/* What the environment says, which children do not inherit. How many; -EINVAL, -EBADF: it says what
 * is not so; -E2BIG. */
int handed_take(void) must_use;
/* NULL: there are no more. */
struct handed *handed_at(unsigned i);
/*
 * A duplicate of that which listens there, set not to block. -ENOENT: none does. -EPROTOTYPE: every
 * address of a family is meant, and there is one for all of both: two listeners cannot share it.
 */
int handed_socket(const struct sockaddr *sa) must_use;

#endif
