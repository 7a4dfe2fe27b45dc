/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Both sides of rdma_cm in one process, on event channels of their own. */
#ifndef WEFT_TESTS_INTEROP_CM_SIDES_H
#define WEFT_TESTS_INTEROP_CM_SIDES_H

#include <rdma/rdma_cma.h>

#include "cm_event.h"

enum { PASSIVE, ACTIVE, SIDES };

extern struct sides {
	struct rdma_event_channel *channel[SIDES];
	/* The listener's context is the bed itself; passive, what came of a request, a test puts
	 * here. */
	struct rdma_cm_id *listener, *passive, *active;
} bed;

/* For cmocka: everything but passive. */
int sides_setup(enum rdma_port_space);
int sides_teardown(void **state);

/* next_event() and expect_event() at one side. */
struct rdma_cm_event *event(int side, enum rdma_cm_event_type);
void expect(int side, enum rdma_cm_event_type, int status);

#endif
