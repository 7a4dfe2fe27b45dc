// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/*
 * Enhanced connection establishment: what adapters of one vendor tell each other in REQ and REP.
 * Of an identifier's queue pair it is the RNIC that says what (verbs/ece.c); an application that
 * brings queue pairs of its own says it itself.
 */
#include <errno.h>
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

struct ibv_ece cma_ece_offer(const struct cma_id *id, struct ibv_qp *qp)
{
	struct ibv_ece ece = id->local_ece;

	if (qp && ibv_query_ece(qp, &ece))
		return (struct ibv_ece){0};
	return ece;
}

bool cma_ece_agree(const struct cma_id *id, struct ibv_qp *qp)
{
	struct ibv_ece ece = id->remote_ece;

	return qp && ece.vendor_id && ece.options && ibv_set_ece(qp, &ece) == 0;
}

int cma_ece_answered(const struct cma_id *id, struct ibv_qp *qp)
{
	struct ibv_ece offer = cma_ece_offer(id, qp);

	if (!qp || !id->remote_ece.options || id->remote_ece.vendor_id != offer.vendor_id ||
	    id->remote_ece.options == offer.options || cma_ece_agree(id, qp))
		return 0;
	return -errno;
}

void cma_ece_received(struct cma_id *id, const struct broker_cm_param *p)
{
	id->remote_ece = (struct ibv_ece){.vendor_id = p->ece_vendor, .options = p->ece_options};
}
