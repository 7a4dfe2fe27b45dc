/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "cm_sides.h"

#include <string.h>

struct sides bed;

int sides_setup(enum rdma_port_space space)
{
	memset(&bed, 0, sizeof(bed));
	for (int i = 0; i < SIDES; i++) {
		bed.channel[i] = rdma_create_event_channel();
		if (!bed.channel[i])
			return -1;
	}
	return rdma_create_id(bed.channel[PASSIVE], &bed.listener, &bed, space) ||
	       rdma_create_id(bed.channel[ACTIVE], &bed.active, NULL, space);
}

int sides_teardown(void **state)
{
	struct rdma_cm_id *ids[] = {bed.active, bed.passive, bed.listener};
	int rc = 0;

	(void)state;
	for (int i = 0; i < 3; i++) {
		if (ids[i] && ids[i]->qp)
			rdma_destroy_qp(ids[i]);
		if (ids[i])
			rc |= rdma_destroy_id(ids[i]);
	}
	for (int i = 0; i < SIDES; i++)
		rdma_destroy_event_channel(bed.channel[i]);
	return rc;
}

struct rdma_cm_event *event(int side, enum rdma_cm_event_type type)
{
	return next_event(bed.channel[side], type);
}

void expect(int side, enum rdma_cm_event_type type, int status)
{
	expect_event(bed.channel[side], type, status);
}
