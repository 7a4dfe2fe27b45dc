/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What the tests of the rdma_cm face have in common. */
#ifndef WEFT_TESTS_INTEROP_CM_EVENT_H
#define WEFT_TESTS_INTEROP_CM_EVENT_H

#include <rdma/rdma_cma.h>

/* The next event of a channel, which must come within seconds and be of this type; the caller
 * acknowledges it. */
struct rdma_cm_event *next_event(struct rdma_event_channel *, enum rdma_cm_event_type);
/* The same for an event of which the status is all that matters. */
void expect_event(struct rdma_event_channel *, enum rdma_cm_event_type, int status);

#endif
