/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Which discovery controllers there are, as avahi-daemon hears of them.
 *
 * An instance on an interface is one controller, with one address of each family; those that this
 * machine publishes are one on all interfaces, and what leads to the same port of the same address
 * is listed once. There are no more than so many, however many the network tells of.
 */
#ifndef WEFT_MDNS_BROWSE_H
#define WEFT_MDNS_BROWSE_H

#include <net/if.h>
#include <netinet/in.h>

#include "base/compiler.h"
#include "mdns/mdns.h"

#define MDNS_FOUND_MAX	   256
#define MDNS_ADDRESSES_MAX 8

struct mdns_found {
	char name[MDNS_PLAIN_ROOM], host[MDNS_PLAIN_ROOM]; /* to be shown */
	const char *type;
	char interface[IF_NAMESIZE];
	bool local; /* of this machine */
	enum mdns_kind kind;
	uint16_t port;
	char nqn[MDNS_NQN_MAX + 1]; /* as it came; "": not told */
	char addresses[MDNS_ADDRESSES_MAX][INET6_ADDRSTRLEN + 1 + IF_NAMESIZE];
	unsigned address_count;
	const char *fault; /* why it cannot be asked; NULL: it can */
};

struct mdns_list {
	struct mdns_found *v; /* sorted by name; to be freed */
	size_t count;
	unsigned left_out; /* beyond MDNS_FOUND_MAX */
};

/*
 * Listens for `seconds`; 0: until the daemon takes it that it has heard of all. -errno, and why:
 * there is nobody to ask.
 */
int mdns_browse(unsigned seconds, struct mdns_list *ret, char *why, size_t room) must_use;

#endif
