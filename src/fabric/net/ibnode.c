/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "fabric/net/ibnode.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "fabric/memory.h"

/* Four times 25 Gb/s, whatever a line's rate is: PortInfo has few words for it, and nobody here
 * goes by them. */
#define WIDTH_4X     2
#define SPEED_10     4
#define SPEED_EXT_25 2

static void changed(void *ctx, unsigned port)
{
	struct ibnode *n = ctx;

	for (unsigned i = 0; n->links && i < n->ports; i++)
		if (!port || port == i + 1)
			iblink_set(&n->links[i]);
	if (n->changed)
		n->changed(n->owner);
}

static const struct agent_ops agent_ops = {
	.alloc = fabric_alloc,
	.free = fabric_free,
	.changed = changed,
};

static void go(struct ibnode *n, const uint8_t *mad, int port)
{
	struct frame *f;

	if (port == 0) {
		if (n->to_manager)
			n->to_manager(n->manager, mad);
		return;
	}
	if (port < 0 || (unsigned)port > n->ports)
		return;
	f = frame_alloc(n->pool);
	frame_of_management(f, mad);
	netport_send_link(n->links[port - 1].port, f);
}

void ibnode_manage(struct ibnode *n, const uint8_t mad[MAD_LEN])
{
	uint8_t m[MAD_LEN];

	memcpy(m, mad, MAD_LEN);
	go(n, m, agent_take(n->agent, m, 0));
}

bool ibnode_arrived(struct ibnode *n, struct netport *p, struct frame *f)
{
	struct iblink *l = &n->links[p->index];

	switch (f->kind) {
	case FRAME_CREDIT:
		iblink_heed(l, f);
		break;
	case FRAME_MANAGEMENT:
		go(n, f->mad, agent_take(n->agent, f->mad, l->number));
		break;
	default:
		if (iblink_take(l, f))
			return true;
		break;
	}
	frame_free(n->pool, f);
	return false;
}

int ibnode_create(struct ibnode **ret, const struct ibnode_nature *nature, bool is_switch,
		  unsigned ports, uint64_t guid, const char *name,
		  struct netport *(*port)(void *owner, unsigned i), void *owner)
{
	const struct agent_nature a = {
		.is_switch = is_switch,
		.ports = ports,
		.node_guid = guid,
		.lanes = nature->link.lanes,
		.mtu_code = nature->mtu_code,
		.width_code = WIDTH_4X,
		.speed_code = SPEED_10,
		.speed_ext_code = SPEED_EXT_25,
		.description = name,
	};
	struct ibnode *n = calloc(1, sizeof(*n));

	if (!n)
		return -ENOMEM;
	n->ports = ports;
	n->owner = owner;
	n->pool = port(owner, 0)->pool;
	n->fabric = port(owner, 0)->fabric;
	if (agent_create(&n->agent, &a, &agent_ops, n))
		n->agent = NULL;
	n->links = calloc(ports, sizeof(*n->links));
	if (!n->agent || !n->links) {
		ibnode_destroy(n);
		return -ENOMEM;
	}
	for (unsigned i = 0; i < ports; i++)
		iblink_init(&n->links[i], port(owner, i), n->agent, i + 1, &nature->link);
	*ret = n;
	return 0;
}

void ibnode_destroy(struct ibnode *n)
{
	for (unsigned i = 0; n->links && i < n->ports; i++)
		iblink_fini(&n->links[i]);
	if (n->agent)
		agent_destroy(n->agent);
	free(n->links);
	free(n);
}

void ibnode_up(struct ibnode *n)
{
	for (unsigned i = 0; i < n->ports; i++)
		iblink_up(&n->links[i]);
}
