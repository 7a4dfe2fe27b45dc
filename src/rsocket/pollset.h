/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Waiting for any of several sockets and ordinary descriptors. */
#ifndef WEFT_RSOCKET_POLLSET_H
#define WEFT_RSOCKET_POLLSET_H

#include <signal.h>
#include <sys/select.h>

#include "rsocket/sock.h"

struct poll_item {
	struct sock *sock; /* or NULL */
	int fd;		   /* an ordinary descriptor, asked besides, or -1 */
	short events, revents;
};

struct poll_how {
	int64_t timeout_ns;   /* -1: none */
	const sigset_t *mask; /* as ppoll(2) has it, or NULL */
	bool restarts;	      /* after signals: sock_sleep_on() */
};

/* As poll(2), but -errno. */
int pollset_wait(struct poll_item *, nfds_t n, const struct poll_how *) must_use;

/* What select(2) asks in poll(2)'s terms, in up to FD_SETSIZE places; and the answer, or -EBADF. */
nfds_t select_to_poll(int nfds, fd_set *rd, fd_set *wr, fd_set *ex, struct pollfd *);
int poll_to_select(const struct pollfd *, nfds_t, fd_set *rd, fd_set *wr, fd_set *ex) must_use;

/* Of one socket, as poll(2) has it: what holds now, of the events asked for. */
short sock_poll(struct sock *, short events);
/* The descriptor that tells of events from now on besides the eventfd, or -1. */
int sock_arm(struct sock *);
/* That descriptor was readable. */
void sock_taken(struct sock *);

#endif
