/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What is known of a flow's way, which counts for a while, so that a change is followed within
 * KNOWN_KEEP_NS. What else is known of it stands behind a struct known, in the owner's entries,
 * which are all of one size.
 */
#ifndef WEFT_PORT_HOP_KNOWN_H
#define WEFT_PORT_HOP_KNOWN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/units.h"
#include "wire/flow.h"

#define KNOWN_KEEP_NS  NSEC_PER_SEC
#define KNOWN_RETRY_NS (50 * NSEC_PER_MSEC) /* where there is no way: it may come any time */
#define KNOWN_SETS     256
#define KNOWN_WAYS     4
#define KNOWN_MAX      (KNOWN_SETS * KNOWN_WAYS) /* entries */

struct known {
	struct gid sgid, dgid;
	uint32_t scope;
	bool there;	/* a way */
	uint64_t until; /* 0: nothing is kept here */
};

/* Among KNOWN_MAX entries at v the one of this flow. NULL: nothing is known of it, or no more. */
struct known *known_find(void *v, size_t size, const struct flow *, uint64_t now);
/* An entry that is to be filled in: zeroes but for the flow, in the place of what it was, or of
 * what counts for the shortest time. */
struct known *known_begin(void *v, size_t size, const struct flow *);
/* It is. */
void known_end(struct known *, uint64_t now);

#endif
