/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What a process has once: its connection to the broker and its shard. Both are opened at first
 * need (the device list asks for the broker alone) and stay until the process ends, whose death
 * tells the broker.
 *
 * All return 0 or -errno; the reason why there is no broker goes to the log as a sentence.
 */
#ifndef WEFT_VERBS_PROCESS_H
#define WEFT_VERBS_PROCESS_H

#include "base/compiler.h"
#include "broker/client.h"
#include "engine/shard.h"

int process_broker(struct broker_client **ret) must_use;
int process_shard(struct shard **ret) must_use;
/* NULL: it has not been needed yet. */
struct shard *process_shard_if_any(void);

/* The present table of devices, from the broker; free() it. */
int process_devices(struct broker_devices **ret) must_use;
/* Or one of a moment ago, of before the last change that the process has been told of: who finds in
 * it what he looks for need not ask. */
int process_devices_lately(struct broker_devices **ret) must_use;

#endif
