/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* A GID of RoCE as the address of a socket. */
#ifndef WEFT_PORT_HOP_GID_SOCKADDR_H
#define WEFT_PORT_HOP_GID_SOCKADDR_H

#include <netinet/in.h>
#include <sys/socket.h>

#include "wire/flow.h"

/* port: host order. scope: the interface, for addresses that mean something on one only. The
 * address's length. */
static inline socklen_t gid_to_sockaddr(struct sockaddr_storage *ret, const struct gid *g,
					uint32_t scope, uint16_t port)
{
	memset(ret, 0, sizeof(*ret));
	if (gid_is_ipv4(g)) {
		struct sockaddr_in *a = (struct sockaddr_in *)ret;

		a->sin_family = AF_INET;
		a->sin_port = htons(port);
		memcpy(&a->sin_addr, g->raw + 12, 4);
		return sizeof(*a);
	}
	struct sockaddr_in6 *a = (struct sockaddr_in6 *)ret;

	a->sin6_family = AF_INET6;
	a->sin6_port = htons(port);
	memcpy(&a->sin6_addr, g->raw, 16);
	if (gid_is_link_local(g))
		a->sin6_scope_id = scope;
	return sizeof(*a);
}

#endif
