/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* poll(2) with a deadline of the edges' clock. */
#ifndef WEFT_BASE_POLL_UNTIL_H
#define WEFT_BASE_POLL_UNTIL_H

#include <poll.h>
#include <signal.h>
#include <stdint.h>

#include "base/heap.h" /* DEADLINE_NEVER */
#include "base/time.h"

/* As ppoll(2), until then; DEADLINE_NEVER: for ever. signals: those blocked meanwhile, NULL: as
 * they are. */
static inline int poll_until(struct pollfd *p, nfds_t n, uint64_t until, const sigset_t *signals)
{
	const uint64_t now = until == DEADLINE_NEVER ? 0 : time_now_ns();
	const uint64_t ns = until > now ? until - now : 0;
	const struct timespec ts = {
		.tv_sec = (time_t)(ns / NSEC_PER_SEC),
		.tv_nsec = (long)(ns % NSEC_PER_SEC),
	};

	return ppoll(p, n, until == DEADLINE_NEVER ? NULL : &ts, signals);
}

#endif
