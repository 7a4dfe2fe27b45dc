// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/*
 * Multicast groups of an identifier. RoCE has no subnet manager to join them at: what there is to
 * know of a group follows from its address. The event tells it, as it does on InfiniBand, and
 * taking the event attaches the identifier's queue pair, as librdmacm does; with that the host
 * joins.
 */
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "rdmacm/cma.h"
#include "verbs/private.h"
#include "wire/bth.h"

struct cma_group {
	struct list list; /* the id's lock */
	uint64_t token;	  /* never used twice: names it in its event */
	void *context;
	struct sockaddr_storage addr;
	union ibv_gid mgid;
	bool send_only;
	uint32_t events_taken, events_acked; /* the id's lock */
};

/* ---- joining --------------------------------------------------------------------------------- */

static struct cma_group *group_new(struct cma_id *id, const struct sockaddr *addr, bool send_only,
				   void *context)
{
	static atomic_uint_fast64_t next_token = 1;
	struct cma_group *g = calloc(1, sizeof(*g));
	struct gid mgid = cma_addr_gid(addr);

	if (!g)
		return NULL;
	g->token = atomic_fetch_add(&next_token, 1);
	g->context = context;
	g->send_only = send_only;
	memcpy(&g->addr, addr, cma_addr_len(addr));
	memcpy(g->mgid.raw, mgid.raw, sizeof(g->mgid.raw));
	pthread_mutex_lock(&id->lock);
	list_push_tail(&id->groups, &g->list);
	pthread_mutex_unlock(&id->lock);
	return g;
}

/* Waits until nobody looks at an event of it any more. */
static void group_free(struct cma_id *id, struct cma_group *g)
{
	pthread_mutex_lock(&id->lock);
	list_remove(&g->list);
	while (g->events_acked != g->events_taken)
		pthread_cond_wait(&id->cond, &id->lock);
	pthread_mutex_unlock(&id->lock);
	free(g);
}

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
	g = group_new(id, addr, send_only, context);
	if (!g)
		return -ENOMEM;
	req.token = g->token;
	rc = weft_private_call(&req, sizeof(req), &resp, sizeof(resp));
	if (rc)
		group_free(id, g);
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

/* ---- the event ------------------------------------------------------------------------------- */

static struct cma_group *group_take(struct cma_id *id, uint64_t token)
{
	struct cma_group *found = NULL;

	pthread_mutex_lock(&id->lock);
	list_for_each(g, &id->groups, struct cma_group, list)
		if (g->token == token) {
			g->events_taken++;
			found = g;
		}
	pthread_mutex_unlock(&id->lock);
	return found;
}

void cma_group_ack(struct cma_id *id, struct cma_group *g)
{
	pthread_mutex_lock(&id->lock);
	g->events_acked++;
	pthread_cond_broadcast(&id->cond);
	pthread_mutex_unlock(&id->lock);
}

/* While its event is handed out: another thread takes its queue pair out of the group, if it is in
 * already. */
static bool group_left(struct cma_id *id, const struct cma_group *g)
{
	bool left;

	pthread_mutex_lock(&id->lock);
	left = list_empty(&g->list);
	pthread_mutex_unlock(&id->lock);
	return left;
}

static int attach(struct cma_id *id, const struct cma_group *g)
{
	struct ibv_qp *qp = g->send_only ? NULL : cma_qp_get(id);
	int rc = qp ? ibv_attach_mcast(qp, &g->mgid, 0) : 0;

	if (qp && !rc && group_left(id, g))
		(void)!ibv_detach_mcast(qp, &g->mgid, 0);
	cma_qp_put(id, qp);
	return rc;
}

bool cma_group_joined(struct cma_event *e, uint64_t token)
{
	struct rdma_ud_param *ud = &e->api.param.ud;
	struct cma_id *id = e->owner;
	struct cma_group *g = group_take(id, token);

	if (!g)
		return false; /* left meanwhile */
	e->group = g;
	cma_default_qkey(id);
	*ud = (struct rdma_ud_param){
		.private_data = g->context,
		.ah_attr = cma_ah_attr(id),
		.qp_num = MULTICAST_QPN,
		.qkey = id->qkey,
	};
	ud->ah_attr.grh.dgid = g->mgid;
	e->api.event = RDMA_CM_EVENT_MULTICAST_JOIN;
	if (attach(id, g)) {
		e->api.event = RDMA_CM_EVENT_MULTICAST_ERROR;
		e->api.status = -1; /* as librdmacm has it */
	}
	return true;
}

/* ---- leaving --------------------------------------------------------------------------------- */

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
	group_free(id, found);
	return 0;
}

void cma_groups_free(struct cma_id *id)
{
	struct list *n;

	while ((n = list_pop_head(&id->groups)))
		free(list_entry(n, struct cma_group, list));
}
