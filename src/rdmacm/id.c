// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/* Identifiers: creation and end, migration, options. */
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "rdmacm/cma.h"
#include "rdmacm/group.h"
#include "rdmacm/iw.h"
#include "verbs/private.h"

/* ---- creation and end ------------------------------------------------------------------------ */

static struct cma_id *id_alloc(struct rdma_event_channel *channel, void *context,
			       enum rdma_port_space ps, enum ibv_qp_type qp_type)
{
	struct cma_id *id = calloc(1, sizeof(*id));
	uint32_t psn = 0;

	if (!id)
		return NULL;
	id->api.channel = channel ? channel : rdma_create_event_channel();
	if (!id->api.channel) {
		free(id);
		return NULL;
	}
	id->sync = !channel;
	id->api.context = context;
	id->api.ps = ps;
	id->api.qp_type = qp_type;
	if (getrandom(&psn, sizeof(psn), 0) != sizeof(psn))
		psn = (uint32_t)(uintptr_t)id;
	id->starting_psn = psn & 0xffffff;
	list_init(&id->node);
	list_init(&id->groups);
	id->tcp_fd = -1;
	pthread_mutex_init(&id->lock, NULL);
	pthread_cond_init(&id->cond, NULL);
	id->cookie = id->first_cookie = cma_cookie_new();
	return id;
}

/* Of an id that is in no table. */
static void id_free(struct cma_id *id)
{
	if (id->sync)
		rdma_destroy_event_channel(id->api.channel);
	cma_groups_free(id);
	free(id->api.route.path_rec);
	free(id->qp_init_attr);
	free(id->connect_data);
	free(id);
}

static uint32_t channel_handle(const struct cma_id *id)
{
	return container_of(id->api.channel, struct cma_channel, api)->handle;
}

int cma_id_create(struct rdma_event_channel *channel, void *context, enum rdma_port_space ps,
		  enum ibv_qp_type qp_type, struct cma_id **ret)
{
	struct broker_cm_create_id req = {.msg.type = BROKER_CM_CREATE_ID,
					  .ps = ps,
					  .datagrams = qp_type == IBV_QPT_UD,
					  .xrc = qp_type == IBV_QPT_XRC_SEND ||
						 qp_type == IBV_QPT_XRC_RECV},
				   resp;
	struct cma_id *id;
	int rc;

	errno = ENOMEM;
	id = id_alloc(channel, context, ps, qp_type);
	if (!id)
		return -errno;
	req.channel = channel_handle(id);
	req.user = id->cookie;
	rc = weft_private_call(&req, sizeof(req), &resp, sizeof(resp));
	if (rc) {
		id_free(id);
		return rc;
	}
	id->handle = resp.id;
	cma_id_show(id);
	*ret = id;
	return 0;
}

int cma_id_adopt(struct cma_id *listener, uint32_t handle, struct cma_id **ret)
{
	struct cma_id *id;

	errno = ENOMEM;
	id = id_alloc(listener->api.channel, listener->api.context, listener->api.ps,
		      listener->api.qp_type);
	if (!id)
		return -errno;
	id->handle = handle;
	id->first_cookie = listener->cookie;
	id->state = CMA_REQUESTED;
	id->tos = listener->tos;
	id->ack_timeout = listener->ack_timeout;
	*ret = id;
	return 0;
}

int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
		   enum rdma_port_space ps)
{
	enum ibv_qp_type type = ps == RDMA_PS_UDP || ps == RDMA_PS_IPOIB ? IBV_QPT_UD : IBV_QPT_RC;
	struct cma_id *new;
	int rc = cma_id_create(channel, context, ps, type, &new);

	if (!rc)
		*id = &new->api;
	return cma_ret(rc);
}

int rdma_destroy_id(struct rdma_cm_id *api)
{
	struct cma_id *id = cma_id(api);
	const struct broker_cm_event gone = {.saved.id = id->handle};
	int rc = cma_simple_call(BROKER_CM_DESTROY_ID, id->handle);

	/* A broker that is gone has taken its ids along; there is nobody to have events from. */
	if (rc == -EINVAL)
		return cma_ret(rc);
	cma_id_hide(id);
	cma_iw_unlisten(id);
	cma_keep_event(api, NULL);
	cma_id_wait_for_acks(id);
	/* Not before: who has taken an event of it reads of its connection. */
	cma_iw_end(id);
	/* Who took an event of it just before may have noted it since, for the next broker. */
	weft_private_cm_event(&gone);
	id_free(id);
	return 0;
}

void cma_keep_event(struct rdma_cm_id *api, struct rdma_cm_event *ev)
{
	/* Several threads may ask one listener for requests. */
	struct rdma_cm_event *before = __atomic_exchange_n(&api->event, ev, __ATOMIC_ACQ_REL);

	if (before)
		rdma_ack_cm_event(before);
}

int rdma_migrate_id(struct rdma_cm_id *api, struct rdma_event_channel *channel)
{
	struct cma_id *id = cma_id(api);
	struct broker_cm_migrate req = {.msg.type = BROKER_CM_MIGRATE, .id = id->handle};
	struct rdma_event_channel *own = NULL;
	struct broker_msg resp;
	int rc;

	if (!channel) {
		if (id->sync)
			return cma_ret(-EINVAL);
		channel = own = rdma_create_event_channel();
		if (!channel)
			return -1;
	}
	req.channel = container_of(channel, struct cma_channel, api)->handle;
	/* Before rdma_accept the broker knows the id by its listener's cookie. */
	req.user = id->state == CMA_REQUESTED ? id->first_cookie : id->cookie;
	rc = weft_private_call(&req, sizeof(req), &resp, sizeof(resp));
	if (rc) {
		if (own)
			rdma_destroy_event_channel(own);
		return cma_ret(rc);
	}
	if (id->sync) {
		cma_keep_event(api, NULL);
		rdma_destroy_event_channel(api->channel);
	}
	id->sync = own;
	api->channel = channel;
	cma_id_wait_for_acks(id);
	return 0;
}

/* ---- options --------------------------------------------------------------------------------- */

static int set_id_option(struct cma_id *id, int name, const void *val, size_t len)
{
	uint8_t byte;
	int flag;

	switch (name) {
	case RDMA_OPTION_ID_TOS:
	case RDMA_OPTION_ID_ACK_TIMEOUT:
		if (len != sizeof(byte))
			return -EINVAL;
		memcpy(&byte, val, sizeof(byte));
		if (name == RDMA_OPTION_ID_TOS) {
			id->tos = byte;
		} else {
			if (byte > 31)
				return -EINVAL;
			id->ack_timeout = byte;
		}
		return 0;
	case RDMA_OPTION_ID_REUSEADDR:
	case RDMA_OPTION_ID_AFONLY:
		if (len != sizeof(flag))
			return -EINVAL;
		memcpy(&flag, val, sizeof(flag));
		if (name == RDMA_OPTION_ID_REUSEADDR) {
			if (id->state != CMA_IDLE && (!flag || id->state == CMA_LISTENING))
				return -EINVAL;
			id->reuse = flag;
		} else {
			if (id->state != CMA_IDLE && id->state != CMA_BOUND)
				return -EINVAL;
			id->af_only = flag;
		}
		return 0;
	default:
		return -ENOSYS;
	}
}

int rdma_set_option(struct rdma_cm_id *api, int level, int optname, void *optval, size_t optlen)
{
	if (level != RDMA_OPTION_ID) /* RDMA_OPTION_IB: a path of InfiniBand's subnet */
		return cma_ret(-ENOSYS);
	return cma_ret(set_id_option(cma_id(api), optname, optval, optlen));
}
