/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Latencies in nanoseconds, in buckets whose width grows with their value: below 128 ns exact,
 * above within 1/64 (1.6 %) up to 2^63 ns. Adding is O(1) and allocates nothing.
 */
#ifndef WEFT_CLI_HISTOGRAM_H
#define WEFT_CLI_HISTOGRAM_H

#include <stdint.h>

enum {
	HISTOGRAM_SUB_BITS = 6,
	HISTOGRAM_BUCKETS = (64 - HISTOGRAM_SUB_BITS + 1) << HISTOGRAM_SUB_BITS,
};

struct histogram {
	uint64_t count, sum_ns, min_ns, max_ns;
	double squares; /* the sum of theirs */
	uint64_t bucket[HISTOGRAM_BUCKETS];
};

/* Zeroes are a valid empty histogram. */
void histogram_add(struct histogram *h, uint64_t ns);
void histogram_merge(struct histogram *into, const struct histogram *from);
/* The latency that per_10000 / 10000 of the samples do not exceed (9990: p99.9), as the
 * upper end of its bucket; 0 when there are no samples. */
uint64_t histogram_percentile(const struct histogram *h, unsigned int per_10000);
/* How many samples are below ns, a bucket that goes beyond it not among them. */
uint64_t histogram_below(const struct histogram *h, uint64_t ns);
uint64_t histogram_mean(const struct histogram *h);
/* The standard deviation, of the samples themselves, not of buckets. */
double histogram_deviation(const struct histogram *h);

#endif
