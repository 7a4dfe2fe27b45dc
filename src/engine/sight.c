/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "engine/sight.h"

#include <errno.h>

#include "base/sight.h"
#include "base/time.h"

#define X(name, unit, text) #name " "
static const char core_keys[] =
#include "rnic/counters.def"
	;
static const char qp_keys[] =
#include "rnic/qp_shown.def"
#undef X
#define X(name, unit, text)
#define Q(name, unit, text) #name " "
#include "rnic/counters.def"
#undef X
	;
static const char traced_keys[] = "number "
#define X(name, text, a, b) #name " "
#include "rnic/trace.def"
#undef X
	;

enum traced_columns {
	TRACED_NUMBER,
#define X(name, text, a, b) TRACED_##name,
#include "rnic/trace.def"
#undef X
	TRACED_COLUMNS
};

int shard_sight_take(struct shard_sight *s, struct rnic_config *config)
{
	s->core = sight_take("core", core_keys, SIGHT_COLUMNS(*s->core), 1);
	s->qps = sight_take("queue-pairs", qp_keys, SIGHT_COLUMNS(*s->qps), QP_ROWS);
	s->traced = sight_take("traced", traced_keys, TRACED_COLUMNS, 1);
	s->trace = sight_take("trace", TRACE_KEYS, SIGHT_COLUMNS(*s->trace), TRACE_ROWS);
	if (!s->core || !s->qps || !s->traced || !s->trace) {
		shard_sight_release(s);
		return -ENOMEM;
	}
	config->counters = s->core;
	config->qp_rows = s->qps;
	config->qp_rows_max = QP_ROWS;
	config->traced = s->traced + TRACED_NUMBER + 1;
	return 0;
}

void shard_sight_release(struct shard_sight *s)
{
	sight_release(s->core);
	sight_release(s->qps);
	sight_release(s->traced);
	sight_release(s->trace);
	*s = (struct shard_sight){0};
}

void shard_sight_trace(struct shard_sight *s, int event, uint32_t qpn, uint64_t a, uint64_t b)
{
	uint64_t *until = &s->traced[TRACED_NUMBER + 1 + event], now = time_now_ns();
	struct trace_row *row;

	if (now > __atomic_load_n(until, __ATOMIC_RELAXED)) {
		__atomic_store_n(until, 0, __ATOMIC_RELAXED);
		return;
	}
	row = &s->trace[++s->number % TRACE_ROWS];
	__atomic_store_n(&s->traced[TRACED_NUMBER], s->number, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_RELEASE); /* before what is written of the row */
	*row = (struct trace_row){
		.time_ns = now, .event = (uint64_t)event, .qpn = qpn, .a = a, .b = b};
	__atomic_store_n(&row->number, s->number, __ATOMIC_RELEASE);
}
