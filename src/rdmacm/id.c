// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/* Identifiers: their table, creation and end, binding, listening, resolution, options. */
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "rdmacm/brief.h"
#include "rdmacm/cma.h"
#include "verbs/private.h"

#define BUCKETS		 1024
#define PRIVILEGED_PORTS 1024

static pthread_mutex_t cma_lock = PTHREAD_MUTEX_INITIALIZER;
static struct list buckets[BUCKETS]; /* by handle */
static uint64_t next_cookie = 1;

/* The lock is held over the fork, so that the child's copy of the table is whole. */
static void fork_prepare(void)
{
	pthread_mutex_lock(&cma_lock);
}

static void fork_parent(void)
{
	pthread_mutex_unlock(&cma_lock);
}

static void fork_child(void)
{
	pthread_mutex_init(&cma_lock, NULL);
}

__attribute__((constructor)) static void watch_forks(void)
{
	pthread_atfork(fork_prepare, fork_parent, fork_child);
}

static struct list *bucket(uint32_t handle)
{
	struct list *b = &buckets[handle % BUCKETS];

	if (!b->next)
		list_init(b);
	return b;
}

void cma_id_show(struct cma_id *id)
{
	pthread_mutex_lock(&cma_lock);
	list_push_tail(bucket(id->handle), &id->node);
	pthread_mutex_unlock(&cma_lock);
}

struct cma_id *cma_id_take_event(uint32_t handle, uint64_t cookie)
{
	struct cma_id *found = NULL;

	pthread_mutex_lock(&cma_lock);
	list_for_each(id, bucket(handle), struct cma_id, node) {
		if (id->handle == handle && (id->cookie == cookie || id->first_cookie == cookie)) {
			pthread_mutex_lock(&id->lock);
			id->events_taken++;
			pthread_mutex_unlock(&id->lock);
			found = id;
			break;
		}
	}
	pthread_mutex_unlock(&cma_lock);
	return found;
}

void cma_id_ack_event(struct cma_id *id)
{
	pthread_mutex_lock(&id->lock);
	id->events_acked++;
	pthread_cond_broadcast(&id->cond);
	pthread_mutex_unlock(&id->lock);
}

static void wait_for_acks(struct cma_id *id)
{
	pthread_mutex_lock(&id->lock);
	while (id->events_acked != id->events_taken)
		pthread_cond_wait(&id->cond, &id->lock);
	pthread_mutex_unlock(&id->lock);
}

int cma_simple_call(enum broker_cm_msg_type type, uint32_t handle)
{
	struct broker_cm_id req = {.msg.type = type, .id = handle};
	struct broker_msg resp;

	return weft_private_call(&req, sizeof(req), &resp, sizeof(resp));
}

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
	pthread_mutex_init(&id->lock, NULL);
	pthread_cond_init(&id->cond, NULL);
	pthread_mutex_lock(&cma_lock);
	id->cookie = id->first_cookie = next_cookie++;
	pthread_mutex_unlock(&cma_lock);
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
	int rc = cma_simple_call(BROKER_CM_DESTROY_ID, id->handle);

	/* A broker that is gone has taken its ids along; there is nobody to have events from. */
	if (rc == -EINVAL)
		return cma_ret(rc);
	pthread_mutex_lock(&cma_lock);
	list_remove(&id->node);
	pthread_mutex_unlock(&cma_lock);
	cma_keep_event(api, NULL);
	wait_for_acks(id);
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
	wait_for_acks(id);
	return 0;
}

/* ---- addresses ------------------------------------------------------------------------------- */

/* attach: to the device that has the address, which the wildcard is not. */
static int bind_addr(struct cma_id *id, const struct sockaddr *addr, bool attach)
{
	struct broker_cm_bind req = {.msg.type = BROKER_CM_BIND, .id = id->handle}, resp;
	int rc;

	if (id->state != CMA_IDLE)
		return -EINVAL;
	id->src = cma_addr_gid(addr);
	if (gid_is_link_local(&id->src) && !cma_addr_scope(addr))
		return -EINVAL;
	if (cma_addr_port(addr) && cma_addr_port(addr) < PRIVILEGED_PORTS && geteuid() != 0)
		return -EACCES;
	id->scope = cma_addr_scope(addr);
	if (attach && !cma_addr_any(addr)) {
		rc = cma_bind_device(id);
		if (rc)
			return rc == -ENODEV ? -EADDRNOTAVAIL : rc;
	}
	req.af_ipv4 = cma_addr_any(addr) && addr->sa_family == AF_INET;
	req.addr = id->src;
	req.scope = id->scope;
	req.port = cma_addr_port(addr);
	req.reuse = id->reuse;
	req.af_only = id->af_only;
	rc = weft_private_call(&req, sizeof(req), &resp, sizeof(resp));
	if (rc) {
		id->dev = NULL;
		id->api.verbs = NULL;
		id->api.pd = NULL;
		return rc;
	}
	memcpy(&id->api.route.addr.src_storage, addr, cma_addr_len(addr));
	cma_addr_set_port(&id->api.route.addr.src_addr, resp.port);
	cma_move(id, CMA_IDLE, CMA_BOUND);
	return 0;
}

int rdma_bind_addr(struct rdma_cm_id *api, struct sockaddr *addr)
{
	if (!cma_addr_len(addr))
		return cma_ret(-EINVAL);
	/*
	 * Linux takes a loopback address for a wildcard, and libfabric, which asks so for the
	 * devices there are, tells by the device that is missing then. It names no port. Who does
	 * is a server, and takes the device of what he has bound: so do rdma-core's own tests.
	 */
	return cma_ret(bind_addr(cma_id(api), addr,
				 !cma_addr_loopback(addr) || cma_addr_port(addr) ||
					 api->ps != RDMA_PS_TCP));
}

int cma_attach(struct cma_id *id)
{
	int rc;

	if (id->state != CMA_BOUND || id->dev || !cma_addr_loopback(&id->api.route.addr.src_addr))
		return 0;
	rc = cma_bind_device(id);
	return rc == -ENODEV ? -EADDRNOTAVAIL : rc;
}

int rdma_listen(struct rdma_cm_id *api, int backlog)
{
	struct cma_id *id = cma_id(api);
	struct broker_cm_listen req = {
		.msg.type = BROKER_CM_LISTEN,
		.id = id->handle,
		.backlog = backlog > 0 ? (uint32_t)backlog : 0,
	};
	struct broker_msg resp;
	int rc = 0;

	if (id->state == CMA_IDLE) {
		const struct sockaddr_in any = {.sin_family = AF_INET};

		rc = bind_addr(id, (const struct sockaddr *)&any, false);
	}
	if (!rc)
		rc = cma_attach(id);
	if (!rc && !cma_move(id, CMA_BOUND, CMA_LISTENING))
		rc = -EINVAL;
	if (rc)
		return cma_ret(rc);
	rc = weft_private_call(&req, sizeof(req), &resp, sizeof(resp));
	if (rc)
		cma_move(id, CMA_LISTENING, CMA_BOUND);
	return cma_ret(rc);
}

/* An event that the library has made itself comes back through the id's channel. */
static int post_event(struct cma_id *id, enum broker_cm_event_type type, int status, int timeout_ms,
		      bool at_once)
{
	struct broker_cm_post req = {
		.msg.type = BROKER_CM_POST, .id = id->handle, .type = type, .status = status};
	struct broker_msg resp;

	if (type == BROKER_CM_EV_ADDR_RESOLVED) {
		req.src = id->src;
		req.dst = id->dst;
		req.scope = id->scope;
		req.timeout_ms = timeout_ms > 0 ? (uint32_t)timeout_ms : 0;
		req.brief = id->brief;
		req.at_once = at_once;
	}

	return weft_private_call(&req, sizeof(req), &resp, sizeof(resp));
}

/* at_once: -EALREADY if there is nothing to wait for, and no event then. */
static int resolve_addr(struct cma_id *id, const struct sockaddr *src, const struct sockaddr *dst,
			int timeout_ms, bool at_once)
{
	struct sockaddr_storage to = {0}, from;
	struct sockaddr *own = &id->api.route.addr.src_addr;
	enum cma_state before;
	int rc = 0, status = 0;

	if (src && id->state == CMA_IDLE)
		rc = bind_addr(id, src, true);
	else
		rc = cma_attach(id);
	if (rc)
		return rc;
	if (id->state != CMA_IDLE && id->state != CMA_BOUND)
		return -EINVAL;
	memcpy(&to, dst, cma_addr_len(dst));
	if (cma_addr_any(dst)) { /* a wildcard means this host */
		if (dst->sa_family == AF_INET)
			((struct sockaddr_in *)&to)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		else
			((struct sockaddr_in6 *)&to)->sin6_addr = in6addr_loopback;
	}
	if (id->state == CMA_BOUND && own->sa_family != to.ss_family)
		return -EINVAL;
	rc = cma_source_for(id->dev ? own : NULL, (struct sockaddr *)&to, &from);
	if (rc)
		return rc;
	if (id->state == CMA_IDLE) {
		cma_addr_set_port((struct sockaddr *)&from, 0);
		rc = bind_addr(id, (struct sockaddr *)&from, true);
	} else if (!id->dev) { /* bound to a port of the wildcard */
		uint16_t port = cma_addr_port(own);

		id->src = cma_addr_gid((struct sockaddr *)&from);
		id->scope = cma_addr_scope((struct sockaddr *)&from);
		rc = cma_bind_device(id);
		memcpy(&id->api.route.addr.src_storage, &from, sizeof(from));
		cma_addr_set_port(own, port);
	}
	/* Bad luck with the device is told by the event, as the kernel does. */
	if (rc == -EADDRNOTAVAIL || rc == -ENODEV)
		status = -ENODEV;
	else if (rc == -EINVAL && id->api.ps == RDMA_PS_IPOIB)
		status = rc;
	else if (rc)
		return rc;
	id->dst = cma_addr_gid((struct sockaddr *)&to);
	memcpy(id->api.route.addr.addr.ibaddr.dgid.raw, id->dst.raw, sizeof(id->dst.raw));
	memcpy(&id->api.route.addr.dst_storage, &to, sizeof(to));
	/* Before the event: another thread may have it before this one is back. */
	before = id->state;
	if (!cma_move(id, before, CMA_RESOLVING_ADDR))
		return -EINVAL;
	rc = post_event(id, BROKER_CM_EV_ADDR_RESOLVED, status, timeout_ms, at_once);
	if (rc == -EALREADY)
		cma_move(id, CMA_RESOLVING_ADDR, CMA_ADDR_RESOLVED);
	else if (rc)
		cma_move(id, CMA_RESOLVING_ADDR, before);
	return rc;
}

int rdma_resolve_addr(struct rdma_cm_id *api, struct sockaddr *src, struct sockaddr *dst,
		      int timeout_ms)
{
	const bool sync = cma_id(api)->sync;
	int rc;

	if (!cma_addr_len(dst) || (src && !cma_addr_len(src)))
		return cma_ret(-EINVAL);
	rc = resolve_addr(cma_id(api), src, dst, timeout_ms, false);
	return rc ? cma_ret(rc) : cma_complete(cma_id(api), sync);
}

int rdma_resolve_route(struct rdma_cm_id *api, int timeout_ms)
{
	struct cma_id *id = cma_id(api);
	const bool sync = id->sync;
	int rc;

	(void)timeout_ms;
	if (!cma_move(id, CMA_ADDR_RESOLVED, CMA_RESOLVING_ROUTE))
		return cma_ret(-EINVAL);
	cma_probe_path_mtu(id);
	rc = post_event(id, BROKER_CM_EV_ROUTE_RESOLVED, 0, 0, false);
	if (rc) {
		cma_move(id, CMA_RESOLVING_ROUTE, CMA_ADDR_RESOLVED);
		return cma_ret(rc);
	}
	return cma_complete(id, sync);
}

__be16 rdma_get_src_port(struct rdma_cm_id *id)
{
	return htobe16(cma_addr_port(&id->route.addr.src_addr));
}

__be16 rdma_get_dst_port(struct rdma_cm_id *id)
{
	return htobe16(cma_addr_port(&id->route.addr.dst_addr));
}

int weft_private_resolve(struct rdma_cm_id *api, struct sockaddr *dst, int timeout_ms)
{
	struct cma_id *id = cma_id(api);
	int rc = cma_addr_len(dst) ? resolve_addr(id, NULL, dst, timeout_ms, true) : -EINVAL;

	if (rc != -EALREADY)
		return rc;
	if (!cma_path_mtu_settled(id)) { /* to be asked for by who takes the event */
		cma_move(id, CMA_ADDR_RESOLVED, CMA_RESOLVING_ADDR);
		return post_event(id, BROKER_CM_EV_ADDR_RESOLVED, 0, timeout_ms, false);
	}
	cma_probe_path_mtu(id);
	rc = cma_fill_path(id);
	if (rc)
		return rc;
	cma_move(id, CMA_ADDR_RESOLVED, CMA_ROUTE_RESOLVED);
	return 1;
}

void weft_private_brief(struct rdma_cm_id *api)
{
	cma_id(api)->brief = true;
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
