/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The port space of a network namespace for one rdma port space: who holds which address and port.
 * The rules are Linux's (cma_check_port): two may hold a port if their addresses differ and neither
 * is a wildcard, or if they are for one family only, each for another, or if both allow reuse; who
 * listens must be the only one to hold what he holds, and none joins him.
 */
#ifndef WEFT_BROKER_PORT_SPACE_H
#define WEFT_BROKER_PORT_SPACE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/list.h"
#include "wire/flow.h"

#define PORT_EPHEMERAL_FIRST 32768
#define PORT_EPHEMERAL_LAST  60999
#define PORT_SPACE_BUCKETS   1024

enum port_family { PORT_IPV4 = 1, PORT_IPV6 = 2 };

struct port_bind { /* the caller's memory; family, addr, reuse and port are his to set */
	struct list list;
	struct gid addr;  /* all zero: wildcard for the families */
	uint32_t scope;	  /* the interface of a link-local addr; 0: any */
	uint8_t families; /* enum port_family; both is for wildcards */
	bool af_only;	  /* IPv4, or RDMA_OPTION_ID_AFONLY */
	bool reuse;
	bool listening;
	uint16_t port; /* host order */
};

struct port_space {
	struct list bucket[PORT_SPACE_BUCKETS];
};

void port_space_init(struct port_space *);
/* Takes b->port, or with 0 an ephemeral one that nobody holds: from random upward. -EADDRINUSE for
 * an address that is held; -EADDRNOTAVAIL for or beside a wildcard, or when no ephemeral port is
 * free. */
int port_space_bind(struct port_space *, struct port_bind *b, uint32_t random) must_use;
/* When another holds some of what b covers: errors as above. */
int port_space_listen(struct port_space *, struct port_bind *b) must_use;
/* One who listens there, and receives what comes for this address; NULL: nobody. */
struct port_bind *port_space_listener(struct port_space *, const struct gid *addr, uint16_t port);
void port_space_release(struct port_bind *b);
/* Does b, bound, receive what comes for this address (on this interface, if link-local)? */
bool port_bind_covers(const struct port_bind *b, const struct gid *addr, uint32_t scope);

#endif
