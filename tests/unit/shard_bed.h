/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Two shards, as two processes would have them, over real sockets on loopback, with connected QPs.
 * In a network namespace of the test's own.
 */
#ifndef WEFT_TESTS_SHARD_BED_H
#define WEFT_TESTS_SHARD_BED_H

#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "engine/shard.h"

#define MEM (4u << 20)
#define ALL                                                                             \
	(RNIC_ACCESS_LOCAL_WRITE | RNIC_ACCESS_REMOTE_WRITE | RNIC_ACCESS_REMOTE_READ | \
	 RNIC_ACCESS_REMOTE_ATOMIC)
#define QPS	4
#define LIMIT_S 20

struct end {
	struct shard *shard;
	struct port *port; /* the one in use */
	uint8_t slot;
	struct rnic_pd *pd;
	struct rnic_cq *cq;
	struct rnic_mr *mr;
	struct rnic_qp *qp[QPS];
	uint8_t *mem;
	atomic_int notified;
};

struct leases;

struct fixture {
	struct leases *leases;
	struct end end[2];
};

/* A port of nothing but a descriptor, to stand alone or before the one in use. */
struct bare_port {
	struct port port; /* first */
	struct port_counters counters;
	bool sleeps, looked; /* whether it was said to when something was asked for last */
};

extern const struct shard_upcalls upcalls;

/* One way from each to the other; a second one before it, to nobody; memory; a broken one before
 * it. */
int setup(void **state);
int setup_two_ports(void **state);
int setup_local(void **state);
int setup_one_of_two_broken(void **state);
int teardown(void **state);
void destroy_objects(struct end *e);

struct port *bare_port(int fd);

/* then: with the lock held, after it. */
void post_as(void (*then)(struct shard *), struct end *e, int qp, uint32_t opcode, size_t at,
	     uint32_t len, const struct end *peer);
void post(struct end *e, int qp, uint32_t opcode, size_t at, uint32_t len, const struct end *peer);
void post_recv(struct end *e, int qp, size_t at, uint32_t len);
/* As ibv_poll_cq has it. */
int poll_cq(struct end *e, struct rnic_wc *wc, int max, bool progress);
/* poll: as who polls; else the thread alone moves. */
struct rnic_wc await(struct end *e, bool poll);

/* What its shard does to an end's memory, and what we do, comes before or after this; a program
 * learns it from a completion, which came over the network, of which a thread checker knows
 * nothing. */
void meet(struct end *e);
void expect_equal(struct end *a, struct end *b, size_t at, size_t len);
void fill(struct end *e, size_t at, size_t len, unsigned seed);

#endif
