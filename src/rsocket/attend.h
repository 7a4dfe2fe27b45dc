/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Waiting at the RNIC's own descriptor. Where the library below is weft's libibverbs, who sleeps
 * can take in itself what comes on the wire, instead of being woken through a completion channel
 * by the library's thread; and completion queues tell by an upcall. With any other library nothing
 * is attended, and the channels serve.
 */
#ifndef WEFT_RSOCKET_ATTEND_H
#define WEFT_RSOCKET_ATTEND_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"

bool attend_usable(void);

/* Before a sleep, without locks: looks for a moment whether something comes, where that pays. */
void attend_look(void);

/* Around a sleep, or a look that will not sleep: the descriptor to sleep on besides, or -1. Where
 * something has come already there is to be no sleep, but a look. */
struct attendance {
	uint64_t ticket;
	int fd;
	bool begun, come;
};
int attend_begin(struct attendance *, bool sleeps);
void attend_end(const struct attendance *, bool readable);

/* One look at what has come, where attend_usable(). */
void attend_progress(void);

/* Where attend_usable(). tell(): under the RNIC's lock, must not block nor call verbs. */
void attend_cq_tell(struct ibv_cq *, void (*tell)(void *arg), void *arg);
/* Arms it; true if there is something in it. */
bool attend_cq_arm(struct ibv_cq *) must_use;

/* Of what failed: the peer's process has ended, and all that it sent has come. */
bool attend_peer_died(const struct ibv_wc *);

/* Stands for the calling thread. */
const void *attend_self(void);

#endif
