/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "verbs/yielding.h"

#include "base/units.h"

#define LONG_NS	 NSEC_PER_MSEC	       /* less than anybody's slice */
#define ALONE_NS NSEC_PER_USEC	       /* less than it takes to run another and come back */
#define AGAIN_NS (10 * NSEC_PER_USEC)  /* after that, and less than a peer can be kept waiting */
#define LOOK_NS	 (100 * NSEC_PER_USEC) /* a few round trips */
#define KEEP_NS	 (20 * NSEC_PER_MSEC)

bool yielding_due(struct yielding *y, uint64_t now_ns, yielding_switches *switches)
{
	y->vain = 0;
	if (now_ns < y->keeps_until || now_ns < y->alone_until)
		return false;
	if (!y->long_one)
		return true;
	if (!y->looks_since) {
		y->looks_since = now_ns;
		y->switches = switches();
	}
	if (now_ns - y->looks_since < LOOK_NS)
		return false;
	y->looks_since = 0;
	return true;
}

void yielding_done(struct yielding *y, uint64_t from_ns, uint64_t to_ns)
{
	y->long_one = to_ns - from_ns >= LONG_NS;
	if (to_ns - from_ns < ALONE_NS)
		y->alone_until = to_ns + AGAIN_NS;
}

void yielding_found(struct yielding *y, uint64_t now_ns, yielding_switches *switches)
{
	/* What had come before was not there at the poll in between. */
	if (y->vain && switches() == y->switches)
		y->keeps_until = now_ns + KEEP_NS;
	else
		y->long_one = false;
	y->looks_since = 0;
}
