/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What plain verbs programs under test begin with: the first device, and queue pairs of it that
 * are connected within one process. Whatever fails ends the test. */
#ifndef WEFT_TESTS_INTEROP_FIRST_DEVICE_H
#define WEFT_TESTS_INTEROP_FIRST_DEVICE_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <infiniband/verbs.h>

struct ibv_context *first_device(void);
/* The way from its first address to itself. */
struct ibv_ah_attr to_itself(struct ibv_context *);
/* From RESET, to RTR or RTS. Both halves of XRC are given all that RC needs, as programs do. */
void bring_up(struct ibv_qp *, uint32_t peer_qpn, struct ibv_ah_attr, unsigned int access,
	      enum ibv_qp_state to);
/* One queue pair with what it needs. The caller makes CQ and QP. */
struct lone_qp {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_mr *mr;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
};

/* All but CQ and QP. */
void lone_qp_open(struct lone_qp *, void *buf, size_t len, unsigned int access);
void lone_qp_close(struct lone_qp *);
/* The next completion, which must come. */
struct ibv_wc next_wc(struct ibv_cq *);

#endif
