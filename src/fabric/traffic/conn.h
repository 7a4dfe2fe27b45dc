/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* A connection between two hosts: a reliable queue pair at each. */
#ifndef WEFT_FABRIC_TRAFFIC_CONN_H
#define WEFT_FABRIC_TRAFFIC_CONN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "fabric/net/host.h"

#define CONN_DEPTH_MAX 32 /* work requests at a time */

struct conn {
	struct host *from, *to;
	struct rnic_qp *qp[2]; /* at either */
};

/* -ENOMEM: a host has no room for more queue pairs. dscp: -1: the hosts'. */
int conn_open(struct conn *, struct host *from, struct host *to, unsigned depth, int dscp,
	      struct prng *, uint64_t now) must_use;
void conn_close(struct conn *);
/* Writes, or reads, so many bytes; the completion has the wr_id. */
int conn_post(struct conn *, uint64_t bytes, bool reads, uint64_t wr_id, uint64_t now) must_use;

#endif
