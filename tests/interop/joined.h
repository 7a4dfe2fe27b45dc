/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Two queue pairs of the first device, joined to each other in one process, for plain verbs
 * programs that look at what happens between them.
 */
#ifndef WEFT_TESTS_INTEROP_JOINED_H
#define WEFT_TESTS_INTEROP_JOINED_H

#include "first_device.h"

enum {
	PAGE = 4096,
	BUF = 16 * PAGE,
	ALL = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
	      IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND
};

extern struct bed {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq *cq; /* of both */
	struct ibv_qp *qp[2];
	struct ibv_mr *mr; /* all of buf, with ALL rights */
	uint8_t *buf;
} bed;

int setup(void **state);
int teardown(void **state);
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

/* New queue pairs in the place of those there are, if any. */
void join(void);
void join_in(struct ibv_pd *);
void join_uc(uint64_t ops);
void part(void);

/* Of the next completion, which must come. */
enum ibv_wc_status next_status(void);
/* One operation from qp[0]; what becomes of it. */
enum ibv_wc_status rdma(enum ibv_wr_opcode, const void *local, uint32_t lkey, uint64_t remote,
			uint32_t rkey, uint32_t length);

#endif
