/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* A network: hosts and switches in one world, joined as a topology says. */
#ifndef WEFT_FABRIC_NET_NETWORK_H
#define WEFT_FABRIC_NET_NETWORK_H

#include <stddef.h>

#include "base/compiler.h"
#include "fabric/net/topology.h"

struct network;

/* 0, or -errno and a sentence in err. */
int network_create(struct network **ret, const struct network_nature *, uint64_t seed, char *err,
		   size_t err_len) must_use;
/* The hosts' queue pairs are gone. */
void network_destroy(struct network *);

/* Before anything is sent: InfiniBand's manager sets up the subnet, for which time passes. 0, or
 * -errno and a sentence. */
int network_settle(struct network *, char *err, size_t err_len) must_use;

struct fabric *network_fabric(struct network *);
unsigned network_hosts(const struct network *);
struct host *network_host(struct network *, unsigned i);
unsigned network_switches(const struct network *);
struct netswitch *network_switch(struct network *, unsigned i);	     /* NULL: it is InfiniBand's */
struct ibswitch *network_ibswitch(struct network *, unsigned i);     /* NULL: it is Ethernet's */
const struct management *network_management(const struct network *); /* the same */
/* Dropped by switches. */
uint64_t network_dropped(const struct network *);
/* What is counted, of that and of ports, begins again at 0. */
void network_count_anew(struct network *);
/* All ports: of hosts, then of switches. */
unsigned network_ports(const struct network *);
struct netport *network_port(struct network *, unsigned i);
bool network_port_is_of_switch(const struct network *, unsigned i);
/* The least time that so many bytes take from one host to another, and until who sent them knows.
 */
uint64_t network_ideal_ns(const struct network *, unsigned from, unsigned to, uint64_t bytes);
/* And until they are there. */
uint64_t network_way_ns(const struct network *, unsigned from, unsigned to, uint64_t bytes);
/* Nothing is under way, no buffer holds anything, and nobody is kept from sending. */
bool network_is_idle(const struct network *);

#endif
