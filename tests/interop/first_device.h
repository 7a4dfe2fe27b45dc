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
/* The next completion, which must come. */
struct ibv_wc next_wc(struct ibv_cq *);

#endif
