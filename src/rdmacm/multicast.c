// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/* Joining and leaving multicast groups. */
#include <string.h>

#include "rdmacm/cma.h"
#include "rdmacm/group.h"
#include "verbs/private.h"

static int join(struct cma_id *id, const struct sockaddr *addr, bool send_only, void *context)
{
	struct broker_cm_post req = {
		.msg.type = BROKER_CM_POST, .id = id->handle, .type = BROKER_CM_EV_MULTICAST_JOIN};
	struct broker_msg resp;
	struct cma_group *g;
	int rc;

	if (!id->dev || (id->state != CMA_BOUND && id->state != CMA_ADDR_RESOLVED) ||
	    !cma_is_ud(id) || cma_addr_any(addr))
		return -EINVAL;
	g = cma_group_new(id, addr, send_only, context);
	if (!g)
		return -ENOMEM;
	req.token = g->token;
	rc = weft_private_call(&req, sizeof(req), &resp, sizeof(resp));
	if (rc)
		cma_group_free(id, g);
	return rc;
}

int rdma_join_multicast(struct rdma_cm_id *api, struct sockaddr *addr, void *context)
{
	const bool sync = cma_id(api)->sync;
	int rc = cma_addr_len(addr) ? join(cma_id(api), addr, false, context) : -EINVAL;

	return rc ? cma_ret(rc) : cma_complete(cma_id(api), sync);
}

int rdma_join_multicast_ex(struct rdma_cm_id *api, struct rdma_cm_join_mc_attr_ex *attr,
			   void *context)
{
	const uint32_t both = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS;
	const bool sync = cma_id(api)->sync;
	int rc;

	if (attr->comp_mask & ~both)
		return cma_ret(-ENOTSUP);
	if (attr->comp_mask != both || attr->join_flags >= RDMA_MC_JOIN_FLAG_RESERVED ||
	    !cma_addr_len(attr->addr))
		return cma_ret(-EINVAL);
	rc = join(cma_id(api), attr->addr,
		  attr->join_flags == RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER, context);
	return rc ? cma_ret(rc) : cma_complete(cma_id(api), sync);
}

int rdma_leave_multicast(struct rdma_cm_id *api, struct sockaddr *addr)
{
	struct cma_id *id = cma_id(api);
	struct cma_group *found = NULL;
	socklen_t len = cma_addr_len(addr);
	struct ibv_qp *qp;

	if (!len)
		return cma_ret(-EINVAL);
	pthread_mutex_lock(&id->lock);
	list_for_each(g, &id->groups, struct cma_group, list)
		if (!found && !memcmp(&g->addr, addr, len)) {
			list_remove(&g->list);
			found = g;
		}
	pthread_mutex_unlock(&id->lock);
	if (!found)
		return cma_ret(-EADDRNOTAVAIL);
	qp = found->send_only ? NULL : cma_qp_get(id);
	if (qp)
		(void)!ibv_detach_mcast(qp, &found->mgid, 0); /* if it was attached at all */
	cma_qp_put(id, qp);
	cma_group_free(id, found);
	return 0;
}
