/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A process's connection to the broker, and what it has asked it of devices. It is opened at first
 * need and stays until the process ends, whose death tells the broker.
 *
 * All return 0 or -errno; the reason why there is no broker goes to the log as a sentence.
 */
#ifndef WEFT_VERBS_PROCESS_H
#define WEFT_VERBS_PROCESS_H

#include "base/compiler.h"
#include "broker/client.h"

int process_broker(struct broker_client **ret) must_use;

/* The present table of devices, from the broker; free() it. */
int process_devices(struct broker_devices **ret) must_use;
/* Or one of a moment ago, of before the last change that the process has been told of: who finds in
 * it what he looks for need not ask. */
int process_devices_lately(struct broker_devices **ret) must_use;
/* From now on the process is told of changes; this is one. */
void process_device_told(void);
void process_device_changed(void);

#endif
