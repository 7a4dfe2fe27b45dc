/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The shards of a process: one of each kind of device, made at first need, which stay until the
 * process ends. What their upcalls lead to, and what the broker tells of peers and devices through
 * the channel that its the first one's thread watches, comes to the objects from here.
 */
#ifndef WEFT_VERBS_SHARD_H
#define WEFT_VERBS_SHARD_H

#include "base/compiler.h"
#include "engine/shard.h"
#include "verbs/transport.h"

/* 0 or -errno; the reason goes to the log as a sentence. */
int process_shard(enum face_transport, struct shard **ret) must_use;
/* NULL: it has not been needed yet. */
struct shard *process_shard_if_any(enum face_transport);

#endif
