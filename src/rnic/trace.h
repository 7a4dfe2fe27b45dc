/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The core's typed trace events, as given to rnic_ops.trace: one line each in trace.def. */
#ifndef WEFT_RNIC_TRACE_H
#define WEFT_RNIC_TRACE_H

enum trace_event {
#define X(name, text, a, b) TRACE_##name,
#include "rnic/trace.def"
#undef X
	TRACE_EVENTS
};

#endif
