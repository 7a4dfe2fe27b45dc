/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Spans of time, in the nanoseconds that all of weft counts in. */
#ifndef WEFT_BASE_UNITS_H
#define WEFT_BASE_UNITS_H

#define NSEC_PER_USEC 1000ull
#define NSEC_PER_MSEC 1000000ull
#define NSEC_PER_SEC  1000000000ull

#endif
