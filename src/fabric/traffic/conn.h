/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* A connection between two hosts: a queue pair at each, a reliable one unless another is asked for.
 */
#ifndef WEFT_FABRIC_TRAFFIC_CONN_H
#define WEFT_FABRIC_TRAFFIC_CONN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "fabric/net/host.h"

#define CONN_DEPTH_MAX 32 /* work requests at a time */
#define CONN_RECVS     64 /* receives of one that is not reliable */

struct conn {
	struct host *from, *to;
	enum rnic_qp_type type;
	struct flow flow;      /* there; for datagrams */
	struct rnic_qp *qp[2]; /* at either */
	unsigned room[2];      /* work requests and receives of these */
	uint64_t last_done_ns; /* when the last of its messages was done; 0: none is */
};

/* Who hears of what nobody waits for as for an item: what has come, to begin with. */
struct taker {
	void (*took)(struct taker *, const struct rnic_wc *);
};

/* -ENOMEM: a host has no room for more queue pairs. dscp: -1: the hosts'. */
int conn_open(struct conn *, struct host *from, struct host *to, unsigned depth, int dscp,
	      struct prng *, uint64_t now) must_use;
int conn_open_as(struct conn *, enum rnic_qp_type, struct host *from, struct host *to,
		 unsigned depth, int dscp, struct prng *, uint64_t now) must_use;
/* A reliable one by which both send: so many work requests, and so many receives, at each. */
int conn_open_both(struct conn *, struct host *from, struct host *to, unsigned sends,
		   unsigned recvs, int dscp, struct prng *, uint64_t now) must_use;
void conn_close(struct conn *);
/* Writes, or reads, so many bytes; the completion has the wr_id. */
int conn_post(struct conn *, uint64_t bytes, bool reads, uint64_t wr_id, uint64_t now) must_use;
/* From the one side (0) or the other; who hears of it is a taker. opcode: enum rnic_wr_opcode. */
int conn_post_from(struct conn *, int side, uint32_t opcode, uint32_t bytes, const struct taker *,
		   uint64_t now) must_use;
/* A receive; the completion's wr_id is the taker, with its lowest bit set. */
int conn_expect(struct conn *, uint32_t room, struct taker *) must_use;
int conn_expect_at(struct conn *, int side, uint32_t room, struct taker *) must_use;

#endif
