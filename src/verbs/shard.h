/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The shard of a process: one, made at first need, which stays until the process ends. What its
 * upcalls lead to, and what the broker tells of peers and devices through the channel that its
 * thread watches, comes to the objects from here.
 */
#ifndef WEFT_VERBS_SHARD_H
#define WEFT_VERBS_SHARD_H

#include "base/compiler.h"
#include "engine/shard.h"

/* 0 or -errno; the reason goes to the log as a sentence. */
int process_shard(struct shard **ret) must_use;
/* NULL: it has not been needed yet. */
struct shard *process_shard_if_any(void);

#endif
