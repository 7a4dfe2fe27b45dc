/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* So many in a second, and some at once. */
#ifndef WEFT_BASE_PACE_H
#define WEFT_BASE_PACE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/units.h"

struct pace {
	uint64_t paid_ns; /* until when what was taken is paid for */
};

/* One more? */
static inline bool pace_take(struct pace *p, uint64_t now_ns, uint32_t per_sec, uint32_t burst)
{
	uint64_t each = NSEC_PER_SEC / per_sec;

	if (p->paid_ns < now_ns)
		p->paid_ns = now_ns;
	if (p->paid_ns - now_ns > burst * each)
		return false;
	p->paid_ns += each;
	return true;
}

#endif
