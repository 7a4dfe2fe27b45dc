// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#include "rdmacm/group.h"

#include <netinet/in.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "wire/bth.h"

struct cma_group *cma_group_new(struct cma_id *id, const struct sockaddr *addr, bool send_only,
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

void cma_group_free(struct cma_id *id, struct cma_group *g)
{
	pthread_mutex_lock(&id->lock);
	list_remove(&g->list);
	while (g->events_acked != g->events_taken)
		pthread_cond_wait(&id->cond, &id->lock);
	pthread_mutex_unlock(&id->lock);
	free(g);
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

void cma_groups_free(struct cma_id *id)
{
	struct list *n;

	while ((n = list_pop_head(&id->groups)))
		free(list_entry(n, struct cma_group, list));
}
