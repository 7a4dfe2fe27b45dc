// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#include <stdlib.h>

#include "rdmacm/cma.h"

int cma_complete(struct cma_id *id, bool sync)
{
	struct rdma_cm_event *ev;

	if (!sync)
		return 0;
	cma_keep_event(&id->api, NULL);
	if (rdma_get_cm_event(id->api.channel, &ev))
		return -1;
	cma_keep_event(&id->api, ev);
	if (!ev->status)
		return 0;
	errno = ev->event == RDMA_CM_EVENT_REJECTED ? ECONNREFUSED : abs(ev->status);
	return -1;
}
