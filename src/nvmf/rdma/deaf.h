/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What to do about a channel of connections' events that has failed: its broker has ended, say, and
 * no other can be had. It is readable for ever, and each look at it may take long, for then a
 * broker is looked for: it is not waited on, and looked at once in a while, for a tenth of the time
 * at most.
 */
#ifndef WEFT_NVMF_RDMA_DEAF_H
#define WEFT_NVMF_RDMA_DEAF_H

#include <errno.h>
#include <stdbool.h>

#include "base/compiler.h"
#include "base/time.h"

#define DEAF_NS	  NSEC_PER_SEC
#define DEAF_REST 10 /* a look that took long is followed by so much more of other work */

struct deaf {
	bool is;	  /* no event comes any more, for all that is known */
	uint64_t look_ns; /* of that: when it is looked at again */
};

/* Whether it is to be looked at. */
static inline bool deaf_looks(const struct deaf *d, uint64_t now_ns)
{
	return !d->is || now_ns >= d->look_ns;
}

/* After a look, begun at that time, that has ended with an error, or with 0 before all was seen:
 * true if it is deaf, or not, since that. */
static inline bool deaf_changes(struct deaf *d, int error, uint64_t begun_ns)
{
	const bool is = error && error != EAGAIN && error != EINTR, was = d->is;
	uint64_t now_ns;

	if (!is && !was)
		return false;
	now_ns = time_now_ns();
	d->is = is;
	d->look_ns = now_ns + max_of(DEAF_NS, DEAF_REST * (now_ns - begun_ns));
	return is != was;
}

#endif
