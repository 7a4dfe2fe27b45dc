/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * For those who wait for many completion queues and other things at once, as sockets do: symbols of
 * the version node WEFT_PRIVATE_1, which rsocket/attend.c looks for by name. The shard is the
 * process's; where it has none yet nothing is attended.
 */
#ifndef WEFT_VERBS_ATTEND_H
#define WEFT_VERBS_ATTEND_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"

/* As shard_look(). */
void weft_private_look(void);
/* As shard_attend(), shard_attended(). -ENODEV: there is no shard, and nothing to come back with.
 */
int weft_private_attend(bool sleeps, bool *ret_come, uint64_t *ret_ticket) must_use;
void weft_private_attended(uint64_t ticket, bool readable);
/* What polling an empty completion queue does. */
void weft_private_progress(void);

/* Instead of raising an event in its channel an armed queue calls tell(arg), from whichever thread
 * receives, under the shard's lock: it must not block nor call back. */
void weft_private_cq_tell(struct ibv_cq *, void (*tell)(void *arg), void *arg);
/* Arms such a queue; true if there is something in it. */
bool weft_private_cq_arm(struct ibv_cq *) must_use;

#endif
