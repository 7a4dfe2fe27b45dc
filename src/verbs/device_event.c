// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#include "verbs/device_event.h"

#include "verbs/face.h"
#include "verbs/qp.h"

static struct list contexts = {&contexts, &contexts};
static pthread_mutex_t contexts_lock = PTHREAD_MUTEX_INITIALIZER;

void device_events_begin(struct face_context *c)
{
	for (size_t i = 0; i < DEVICE_EVENTS_MAX; i++)
		event_source_init(&c->device.event[i]);
	c->device.next = 0;
	pthread_mutex_lock(&contexts_lock);
	list_push_tail(&contexts, &c->device.open);
	pthread_mutex_unlock(&contexts_lock);
}

void device_events_end(struct face_context *c)
{
	pthread_mutex_lock(&contexts_lock);
	list_remove(&c->device.open);
	pthread_mutex_unlock(&contexts_lock);
}

void device_events_forked(void)
{
	pthread_mutex_init(&contexts_lock, NULL);
	/* The pipes of these are the parent's too: what is written here, the parent would read. */
	list_for_each(c, &contexts, struct face_context, device.open)
		list_remove(&c->device.open);
}

static void raise_event(struct face_context *c, enum ibv_event_type type)
{
	struct event_source *s = &c->device.event[c->device.next++ % DEVICE_EVENTS_MAX];

	event_pipe_forget(&c->async, s);
	event_pipe_mark(&c->async, s, 1u << type);
}

void device_changed(uint32_t ifindex, enum broker_device_change change)
{
	static const enum ibv_event_type types[] = {
		[BROKER_DEVICE_PORT_ERR] = IBV_EVENT_PORT_ERR,
		[BROKER_DEVICE_PORT_ACTIVE] = IBV_EVENT_PORT_ACTIVE,
		[BROKER_DEVICE_GID_CHANGE] = IBV_EVENT_GID_CHANGE,
		[BROKER_DEVICE_REMOVED] = IBV_EVENT_DEVICE_FATAL,
	};

	if ((size_t)change >= ARRAY_SIZE(types) || !types[change])
		return; /* of interest to connections only */
	pthread_mutex_lock(&contexts_lock);
	list_for_each(c, &contexts, struct face_context, device.open) {
		if (face_device(c->vctx.context.device)->ifindex != ifindex)
			continue;
		raise_event(c, types[change]);
		/* What is posted comes back, as from an adapter that fails. */
		if (change == BROKER_DEVICE_REMOVED)
			qp_device_gone(&c->vctx.context);
	}
	pthread_mutex_unlock(&contexts_lock);
}
