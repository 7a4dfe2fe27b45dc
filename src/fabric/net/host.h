/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A host: the product's core, driven by the product's loop (engine/drive.h), with an adapter that
 * takes from it no more than its line is about to send. It has no other memory than zeros.
 */
#ifndef WEFT_FABRIC_NET_HOST_H
#define WEFT_FABRIC_NET_HOST_H

#include <stdint.h>

#include "base/compiler.h"
#include "fabric/net/ibnode.h"
#include "fabric/net/netport.h"
#include "rnic/cc/cc.h"
#include "rnic/rnic.h"

struct host_nature {
	const struct cc_ops *cc; /* NULL: the product's default */
	struct cc_params params;
	bool selective; /* repeats no more than was lost */
	enum rnic_mtu mtu;
	uint32_t window_bytes; /* that may be on the way, per queue pair */
	uint32_t turn_bytes;   /* of a queue pair, before it is another's turn */
	uint32_t ask_bytes;    /* of a READ at once */
	uint8_t dscp;
	uint8_t ttl;
	uint8_t timeout, retries; /* as ibv_qp_attr has them; retries 7 */
	uint32_t max_qps;
	struct scheduler_nature scheduler;
	const struct ibnode_nature *ib; /* NULL: its link is Ethernet */
};

struct host;

/* Its completions have come: whose they are is taken from its queue. */
typedef void host_done(void *ctx, struct host *, const struct rnic_wc *);

/* lids: of all hosts by their numbers, which somebody fills in; InfiniBand alone has them. */
int host_create(struct host **ret, struct fabric *, struct frame_pool *, uint8_t *room,
		unsigned number, const struct host_nature *, const uint16_t *lids) must_use;
/* Its queue pairs are gone. */
void host_destroy(struct host *);
void host_on_done(struct host *, host_done *, void *ctx);

unsigned host_number(const struct host *);
struct netport *host_port(struct host *);
struct ibnode *host_node(struct host *); /* InfiniBand; else NULL */
struct rnic *host_rnic(struct host *);
struct rnic_pd *host_pd(struct host *);
struct rnic_cq *host_cq(struct host *);
/* Of a queue pair on it: so many more work requests may complete, or less again. -ENOMEM. */
int host_expect(struct host *, int more) must_use;
/* Of all its memory, for itself and for peers. */
uint32_t host_key(const struct host *);
const struct host_nature *host_nature(const struct host *);
/* Packets with a payload that have come. */
uint64_t host_data_packets(const struct host *);
/* Something was posted to its core, or its queue pairs changed. */
void host_kick(struct host *);

#endif
