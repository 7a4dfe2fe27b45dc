/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What happens to ports and devices, as asynchronous events of the contexts that are open on them.
 * The broker tells; the shard's thread brings it here.
 *
 * Lock order: contexts before a QP's, a shard's or a pipe's.
 */
#ifndef WEFT_VERBS_DEVICE_EVENT_H
#define WEFT_VERBS_DEVICE_EVENT_H

#include "base/list.h"
#include "broker/proto.h"
#include "verbs/event_pipe.h"

/* Events that an application has not fetched: of more than these the oldest is dropped. */
#define DEVICE_EVENTS_MAX 32

/* A bit for each type. */
#define DEVICE_EVENTS                                                                            \
	(1u << IBV_EVENT_DEVICE_FATAL | 1u << IBV_EVENT_PORT_ACTIVE | 1u << IBV_EVENT_PORT_ERR | \
	 1u << IBV_EVENT_GID_CHANGE)

struct device_events { /* of one context */
	struct list open;
	struct event_source event[DEVICE_EVENTS_MAX]; /* each holds one, so they keep their order */
	unsigned next;
};

struct face_context;

void device_events_begin(struct face_context *);
void device_events_end(struct face_context *);
void device_changed(uint32_t ifindex, enum broker_device_change);
void device_events_forked(void);

#endif
