/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The sections of a scenario's file, each read by one of these. */
#ifndef WEFT_FABRIC_SCENARIO_READ_PRIV_H
#define WEFT_FABRIC_SCENARIO_READ_PRIV_H

#include "fabric/scenario/keys.h"
#include "fabric/scenario/scenario.h"

bool read_topology(struct reader *, const yaml_node_t *, struct network_nature *);
bool read_links(struct reader *, const yaml_node_t *top, struct network_nature *);
bool read_hosts(struct reader *, const yaml_node_t *, struct network_nature *);
bool read_switches(struct reader *, const yaml_node_t *, struct network_nature *);
/* Before the hosts, and what depends on them. */
bool read_infiniband(struct reader *, const yaml_node_t *top, struct network_nature *);
bool fit_infiniband(struct reader *, const yaml_node_t *top, struct network_nature *);
bool read_traffic(struct reader *, const yaml_node_t *list, struct scenario *, unsigned hosts);
void traffic_fini(struct traffic *);
bool read_expect(struct reader *, const yaml_node_t *list, struct scenario *);

/* A number of hosts in the topology. */
uint64_t topology_hosts(const struct topology_nature *);
/* "3", "0-7", "all" or a list of these. */
bool read_hosts_set(struct reader *, const yaml_node_t *, unsigned hosts, struct host_set *);

#endif
