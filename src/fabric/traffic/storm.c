/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* storm: an adapter out of its mind tells its switch to pause, whatever there is. */
#include "base/bytes.h"
#include "fabric/traffic/each.h"

#define QUANTA_FULL 65535

static void pauses(struct happening *h)
{
	struct group *g = container_of(h, struct group, next);
	const struct traffic *t = g->traffic;
	struct play *p = g->play;

	for (unsigned i = 0; i < t->from.n; i++) {
		struct host *from = network_host(p->network, t->from.v[i]);
		unsigned dscp = t->dscp < 0 ? host_nature(from)->dscp : (unsigned)t->dscp;

		netport_send_pause(host_port(from), (uint8_t)(1u << (dscp >> 3)), QUANTA_FULL);
	}
	group_next(g, fabric_now(p->fabric) + t->every_ns);
}

static int start(struct group *g)
{
	g->next.happen = pauses;
	pauses(&g->next);
	return 0;
}

const struct kind kind_storm = {start, NULL};
