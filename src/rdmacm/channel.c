// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/*
 * Event channels. The descriptor is the reading end of a pipe in which the broker puts one event
 * after the other, so blocking, O_NONBLOCK and polling are the kernel's own.
 */
#include <stdlib.h>
#include <unistd.h>

#include "rdmacm/cma.h"
#include "rdmacm/group.h"
#include "verbs/private.h"

struct rdma_event_channel *rdma_create_event_channel(void)
{
	struct cma_channel *c = calloc(1, sizeof(*c));
	int rc;

	if (!c)
		return NULL;
	rc = weft_private_cm_channel(&c->handle, &c->api.fd);
	if (rc) {
		free(c);
		errno = -rc;
		return NULL;
	}
	c->owner = getpid();
	cma_channel_show(c);
	return &c->api;
}

void rdma_destroy_event_channel(struct rdma_event_channel *channel)
{
	struct cma_channel *c = container_of(channel, struct cma_channel, api);

	cma_channel_hide(c);
	/* Of no consequence if the broker is gone. */
	if (c->owner == getpid())
		(void)!cma_simple_call(BROKER_CM_CLOSE_CHANNEL, c->handle);
	close(channel->fd);
	free(c);
}

int rdma_ack_cm_event(struct rdma_cm_event *event)
{
	struct cma_event *e;

	if (!event)
		return cma_ret(-EINVAL);
	e = container_of(event, struct cma_event, api);
	if (e->group)
		cma_group_ack(e->owner, e->group);
	cma_id_ack_event(e->owner);
	free(e);
	return 0;
}
