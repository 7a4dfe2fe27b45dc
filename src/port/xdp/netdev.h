/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What there is to know of the interface that frames go by. */
#ifndef WEFT_PORT_XDP_NETDEV_H
#define WEFT_PORT_XDP_NETDEV_H

#include <net/if.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "wire/flow.h"

struct netdev {
	char name[IF_NAMESIZE];
	uint32_t ifindex, mtu, queues;
	bool joins;  /* the kernel joins packets that it receives (GRO) */
	bool on_bus; /* hardware, or what passes for it: it stands on no other interface */
};

/* Of this name, or, NULL, the only one that is up and has Ethernet's frames and an address. -errno,
 * and in err a sentence that says why. */
int netdev_look(struct netdev *, const char *name, char *err, size_t err_len) must_use;
/* Its addresses. */
void netdev_addresses(const struct netdev *, void (*each)(void *ctx, const struct gid *),
		      void *ctx);

#endif
