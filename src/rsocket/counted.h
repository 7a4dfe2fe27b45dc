/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What sockets count, where others can look (base/sight.h): by whatever thread. */
#ifndef WEFT_RSOCKET_COUNTED_H
#define WEFT_RSOCKET_COUNTED_H

#include <stdatomic.h>
#include <stdint.h>

struct rsocket_counters { /* one line each in rsocket/counters.def, which also documents them */
#define X(name, unit, text) _Atomic(uint64_t) name;
#include "rsocket/counters.def"
#undef X
};

extern _Atomic(struct rsocket_counters *) rsocket_counters;

#define rs_count(name, n)                                                                  \
	((void)atomic_fetch_add_explicit(                                                  \
		&atomic_load_explicit(&rsocket_counters, memory_order_relaxed)->name, (n), \
		memory_order_relaxed))

/* With a socket: from the first of a process on it is seen. */
void rs_counted(void);
/* In a fork's child, which counts for itself. */
void rs_counted_forked(void);

#endif
