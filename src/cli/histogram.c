/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "cli/histogram.h"

#include <math.h>

#define SUB (1u << HISTOGRAM_SUB_BITS)

/* Values below 2 * SUB are their own bucket; above, the SUB_BITS bits after the leading one pick
 * a bucket within its power of two. */
static unsigned int bucket_of(uint64_t ns)
{
	unsigned int shift;

	if (ns < 2 * SUB)
		return (unsigned int)ns;
	shift = 63 - (unsigned int)__builtin_clzll(ns) - HISTOGRAM_SUB_BITS;
	return (shift << HISTOGRAM_SUB_BITS) + (unsigned int)(ns >> shift);
}

static uint64_t bucket_last(unsigned int bucket)
{
	unsigned int shift;

	if (bucket < 2 * SUB)
		return bucket;
	shift = (bucket >> HISTOGRAM_SUB_BITS) - 1;
	return ((((uint64_t)bucket & (SUB - 1)) + SUB + 1) << shift) - 1;
}

void histogram_add(struct histogram *h, uint64_t ns)
{
	if (h->count == 0 || ns < h->min_ns)
		h->min_ns = ns;
	if (ns > h->max_ns)
		h->max_ns = ns;
	h->count++;
	h->sum_ns += ns;
	h->squares += (double)ns * (double)ns;
	h->bucket[bucket_of(ns)]++;
}

void histogram_merge(struct histogram *into, const struct histogram *from)
{
	if (from->count == 0)
		return;
	if (into->count == 0 || from->min_ns < into->min_ns)
		into->min_ns = from->min_ns;
	if (from->max_ns > into->max_ns)
		into->max_ns = from->max_ns;
	into->count += from->count;
	into->sum_ns += from->sum_ns;
	into->squares += from->squares;
	for (unsigned int i = 0; i < HISTOGRAM_BUCKETS; i++)
		into->bucket[i] += from->bucket[i];
}

uint64_t histogram_percentile(const struct histogram *h, unsigned int per_10000)
{
	/* The rank is rounded up, so that p100 is the largest and one sample is every percentile.
	 */
	uint64_t rank = (h->count * per_10000 + 9999) / 10000;
	uint64_t seen = 0;

	for (unsigned int i = 0; i < HISTOGRAM_BUCKETS; i++) {
		seen += h->bucket[i];
		if (seen >= rank && seen) {
			uint64_t last = bucket_last(i);

			return last < h->max_ns ? last : h->max_ns;
		}
	}
	return 0;
}

uint64_t histogram_below(const struct histogram *h, uint64_t ns)
{
	uint64_t seen = 0;

	for (unsigned int i = 0; i < HISTOGRAM_BUCKETS && bucket_last(i) < ns; i++)
		seen += h->bucket[i];
	return seen;
}

uint64_t histogram_mean(const struct histogram *h)
{
	return h->count ? h->sum_ns / h->count : 0;
}

double histogram_deviation(const struct histogram *h)
{
	double n = (double)h->count, mean = n > 0 ? (double)h->sum_ns / n : 0;
	double variance = n > 0 ? h->squares / n - mean * mean : 0;

	return variance > 0 ? sqrt(variance) : 0;
}
