/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What go_back_n.c does with recovery's clocks; what they are told from elsewhere is in recovery.h.
 */
#ifndef WEFT_RNIC_IB_CLOCKS_H
#define WEFT_RNIC_IB_CLOCKS_H

#include "rnic/core.h"

#define CLOCK_DOUBT_NS NSEC_PER_MSEC

uint64_t clock_ack_timeout_ns(const struct rnic_qp *); /* 0: it has none */
/* After so long without an answer it is asked for. */
uint64_t clock_rto_ns(const struct rnic_qp *);
/* The timer is to fire when the next of them is due. */
void clock_arm(struct rnic_qp *);
/* Something was acknowledged, and more is not. */
void clock_restart(struct rnic_qp *, uint64_t now);
void clock_rtt_sample(struct rnic_qp *, uint64_t rtt_ns);
/* What is on the way tells nothing of round trips any more. */
void clock_time_nothing(struct rnic_qp *);

#endif
