/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The clock of the edges: CLOCK_MONOTONIC in nanoseconds. The cores are handed `now` instead. */
#ifndef WEFT_BASE_TIME_H
#define WEFT_BASE_TIME_H

#include <stdint.h>
#include <time.h>

#include "base/units.h"

static inline uint64_t time_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
}

#endif
