// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/*
 * Enhanced connection establishment: what adapters of one vendor tell each other in REQ and REP.
 * Our queue pairs have nothing to negotiate by it; an application that brings queue pairs of its
 * own may, and the connection manager carries what it says.
 */
#include <string.h>

#include "rdmacm/cma.h"

int rdma_set_local_ece(struct rdma_cm_id *id, struct ibv_ece *ece)
{
	if (!id || id->qp || !ece || !ece->vendor_id || ece->comp_mask)
		return cma_ret(-EINVAL);
	cma_id(id)->local_ece = *ece;
	return 0;
}

int rdma_get_remote_ece(struct rdma_cm_id *id, struct ibv_ece *ece)
{
	if (!id || id->qp || !ece)
		return cma_ret(-EINVAL);
	*ece = cma_id(id)->remote_ece;
	return 0;
}

void cma_ece_received(struct cma_id *id, const struct broker_cm_param *p)
{
	id->remote_ece = (struct ibv_ece){.vendor_id = p->ece_vendor, .options = p->ece_options};
}
