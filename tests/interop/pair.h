/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Two processes joined by one reliable connection, for the test programs of this directory:
 * plain rdma_cm and verbs as any application uses them, nothing of weft's own.
 *
 * Each side registers one buffer and tells the other where it is in the CM's private data.
 */
#ifndef WEFT_TESTS_INTEROP_PAIR_H
#define WEFT_TESTS_INTEROP_PAIR_H

#include <rdma/rdma_cma.h>
#include <stddef.h>
#include <stdint.h>

enum { PAIR_DEPTH = 64 }; /* work requests per queue; a multiple of what the programs post */

struct pair_buf { /* where a side's buffer is, as it travels in private data */
	uint64_t addr;
	uint32_t rkey;
	uint32_t pad;
};

struct pair {
	struct rdma_event_channel *events;
	struct rdma_cm_id *listener; /* server only */
	struct rdma_cm_id *id;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq; /* of both queues */
	struct ibv_mr *mr;
	void *buf;
	size_t len;
	struct pair_buf peer;
};

/* Called when the QP is there and before the connection is: the place to post receives. */
typedef void pair_ready_fn(struct pair *);

/* Both end the process with a sentence on stderr and status 1 when anything fails. */
void pair_serve(struct pair *, const char *addr, const char *port, size_t len, pair_ready_fn *);
void pair_connect(struct pair *, const char *addr, const char *port, size_t len, pair_ready_fn *);
void pair_close(struct pair *);

void die(const char *what) __attribute__((noreturn));
uint64_t now_ms(void);

#endif
