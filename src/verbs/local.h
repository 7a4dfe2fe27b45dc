/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The way to other processes of this host, past the kernel: port/local, agreed on by the broker. */
#ifndef WEFT_VERBS_LOCAL_H
#define WEFT_VERBS_LOCAL_H

#include <stdbool.h>
#include <stdint.h>

#include "broker/client.h"
#include "engine/shard.h"

/* Puts it before a port that is to be the slot's. Who cannot have it does without: false. */
bool local_begin(struct port **io, struct broker_client *, uint8_t slot);
/* Something is going to be sent by this flow: to that queue pair, or, where that is told later, to
 * whichever. If both ends are of this host, and the other offers it, that will be by memory. Calls
 * the broker, without the shard's lock. */
void local_meet(struct shard *, const struct flow *, uint32_t qpn);
void local_meet_all(struct shard *, const struct flow *);

#endif
