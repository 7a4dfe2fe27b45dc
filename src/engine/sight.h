/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What is seen of a shard from outside (base/sight.h): the counters of its core, a row for
 * each of its queue pairs, and the events of its core while somebody traces them.
 *
 * Who traces writes into the table "traced" until when (CLOCK_MONOTONIC) he wants an event, and
 * does so again before that time has come: who has gone traces nothing any more. The table "trace"
 * is a ring: event number n is in row n % TRACE_ROWS, and the first figure of "traced" is the
 * number of the last. It moves before the row is written.
 */
#ifndef WEFT_ENGINE_SIGHT_H
#define WEFT_ENGINE_SIGHT_H

#include "rnic/rnic.h"

#define QP_ROWS	   4096
#define TRACE_ROWS 16384

#define TRACE_KEYS "number time_ns event qpn a b "

struct trace_row {
	uint64_t number, time_ns, event, qpn, a, b;
};

struct shard_sight {
	struct rnic_counters *core;
	struct rnic_qp_row *qps;
	uint64_t *traced; /* [0]: the last event's number */
	struct trace_row *trace;
	uint64_t number; /* as we know it ourselves */
};

/* The core is to count there. -ENOMEM. */
int shard_sight_take(struct shard_sight *, struct rnic_config *) must_use;
void shard_sight_release(struct shard_sight *);
/* An event that is traced, it seems. */
void shard_sight_trace(struct shard_sight *, int event, uint32_t qpn, uint64_t a, uint64_t b);

#endif
