/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Listeners and connections.
 *
 * A connection ends for many reasons (the host's DREQ, a failed completion, a keep-alive that
 * ran out, our own end) and always the same way: rdma_queue_kill() puts it into the dying list,
 * and the end of rdma_target_process() buries it: disconnect, destroy the QP (from then on
 * nothing touches its memory), drain its CQ of what it left there, tell the target, and free it
 * when the last store operation is done.
 */
#include "nvmf/transport/rdma_target.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/errno_text.h"
#include "base/heap.h" /* DEADLINE_NEVER */
#include "base/log.h"
#include "nvmf/transport/nudge.h"
#include "nvmf/transport/rdma_target_internal.h"

/* While completions keep coming, connection events are looked for every so many rounds. */
#define EVENT_ROUNDS 64
#define EVENT_BATCH  32

/* --- connections ------------------------------------------------------------------------------ */

void rdma_queue_kill(struct rdma_queue *q)
{
	if (q->dying)
		return;
	q->dying = true;
	list_remove(&q->silent);
	rdma_young_remove(q);
	timer_cancel(&q->rt->timers, &q->timer);
	list_remove(&q->link);
	list_push_tail(&q->rt->dying, &q->link);
}

void rdma_queue_fail(struct rdma_queue *q, const char *fmt, ...)
{
	va_list ap;

	if (!q->dying && !q->tq.why[0]) {
		va_start(ap, fmt);
		vsnprintf(q->tq.why, sizeof(q->tq.why), fmt, ap);
		va_end(ap);
		log_info("nvmf", "queue %u of %s: %s", q->tq.qid,
			 q->tq.ctrl ? q->tq.ctrl->hostnqn : "a host", q->tq.why);
	}
	rdma_queue_kill(q);
}

static void queue_free(struct rdma_queue *q)
{
	struct rdma_cm_id *id = q->id;

	rdma_queue_close(q);
	rdma_cq_put(q->cq, q->cq_share);
	rdma_host_put(q->host);
	q->rt->queue_count--;
	list_remove(&q->link);
	free(q);
	rdma_destroy_id(id);
}

static void bury(struct rdma_queue *q)
{
	if (!q->torn_down) {
		(void)rdma_disconnect(q->id); /* harmless if the host was first */
		rdma_destroy_qp(q->id);
		q->torn_down = true;
		rdma_cq_drain(q->cq);
		target_queue_disconnected(&q->tq);
		rdma_queue_abandon(q);
	}
	if (q->tq.live == 0)
		queue_free(q);
}

static void bury_the_dying(struct rdma_target *rt)
{
	/* Burying one may kill others: a controller's end is that of all its queues. */
	for (bool more = true; more;) {
		more = false;
		list_for_each(q, &rt->dying, struct rdma_queue, link) {
			bool fresh = !q->torn_down;

			bury(q);
			if (fresh) {
				more = true;
				break;
			}
		}
	}
}

static void text_of_address(const struct sockaddr *sa, char *text, size_t room)
{
	socklen_t len = sa->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
						  : sizeof(struct sockaddr_in);

	if (getnameinfo(sa, len, text, (socklen_t)room, NULL, 0, NI_NUMERICHOST) != 0)
		text[0] = '\0';
}

static void reject(struct rdma_target *rt, struct rdma_cm_id *id, enum nvme_rdma_reject status)
{
	char peer[NVMF_PEER_LEN];
	struct nvme_rdma_rej rej = {.status = (uint16_t)status};
	uint8_t data[NVME_RDMA_REJ_LEN];
	struct wcursor w = wcursor_init(data, sizeof(data));

	nvme_rdma_rej_put(&w, &rej);
	text_of_address(rdma_get_peer_addr(id), peer, sizeof(peer));
	target_rejected(rt->target, peer, nvme_rdma_reject_name((uint16_t)status));
	rdma_reject(id, data, sizeof(data));
}

/* 0, or why a REQ is refused. */
static uint16_t check_req(const struct rdma_conn_param *p, struct nvme_rdma_req *req)
{
	struct cursor c = cursor_init(p->private_data, p->private_data_len);

	nvme_rdma_req_get(&c, req);
	if (c.overrun)
		return NVME_RDMA_REJ_LENGTH;
	if (req->recfmt != 0)
		return NVME_RDMA_REJ_RECFMT;
	if (req->qid > TARGET_IO_QUEUES_MAX)
		return NVME_RDMA_REJ_QID;
	/* Zero-based, and a queue has two entries at least. */
	if (req->hsqsize == 0 || req->hsqsize >= TARGET_QUEUE_ENTRIES_MAX)
		return NVME_RDMA_REJ_HSQSIZE;
	if (req->hrqsize == 0)
		return NVME_RDMA_REJ_HRQSIZE;
	if (p->initiator_depth == 0) /* then a write's data could not be fetched */
		return NVME_RDMA_REJ_IRD;
	return 0;
}

static int accept_queue(struct rdma_queue *q)
{
	struct nvme_rdma_rep rep = {.crqsize = q->depth};
	uint8_t data[NVME_RDMA_REP_LEN];
	struct wcursor w = wcursor_init(data, sizeof(data));
	struct rdma_conn_param param = {
		.private_data = data,
		.private_data_len = sizeof(data),
		.initiator_depth = (uint8_t)q->reads_free,
		.flow_control = 1,
		.rnr_retry_count = 7,
	};

	nvme_rdma_rep_put(&w, &rep);
	return rdma_accept(q->id, &param) != 0 ? -errno : 0;
}

static void on_connect_request(struct rdma_target *rt, struct rdma_cm_event *ev)
{
	struct rdma_listener *l = ev->listen_id->context;
	const struct rdma_conn_param *p = &ev->param.conn;
	struct rdma_cm_id *id = ev->id;
	struct nvme_rdma_req req;
	struct rdma_queue *q = NULL, *victim;
	uint16_t why = check_req(p, &req);
	uint32_t reads, reads_max;
	int error;

	if (!why && rt->shutting_down)
		why = NVME_RDMA_REJ_RESOURCES;
	if (why) {
		reject(rt, id, (enum nvme_rdma_reject)why);
		rdma_destroy_id(id);
		return;
	}
	q = calloc(1, sizeof(*q));
	if (!q)
		goto no_resources;
	q->rt = rt;
	q->id = id;
	list_init(&q->silent);
	list_init(&q->turn);
	list_init(&q->young);
	id->context = q;
	q->host = rdma_host_get(rt, rdma_get_peer_addr(id));
	if (!q->host || !rdma_host_has_room(rt, q->host))
		goto no_resources;
	victim = rdma_young_victim(rt, q->host);
	if (victim) {
		rdma_queue_fail(victim, "it gave way to newer connections");
		bury_the_dying(rt);
	}
	q->depth = (uint16_t)(req.hsqsize + 1);
	q->dev = rdma_dev_get(rt, id->verbs);
	if (!q->dev)
		goto no_resources;
	/* At the least the data of a whole list of descriptors and the response. */
	q->sends_free = max_of(4u * q->depth, TARGET_SGL_MAX + 1u);
	q->sends_free = min_of(q->sends_free, (uint32_t)q->dev->attr.max_qp_wr);
	/* Receives, and all that is sent: what is not signaled completes if it fails. */
	q->cq_share = q->depth + q->sends_free;
	q->cq = rdma_cq_get(q->dev, q->cq_share);
	if (!q->cq)
		goto no_resources;
	reads = min_of((uint32_t)p->initiator_depth, (uint32_t)RDMA_READS_MAX);
	reads_max = (uint32_t)max_of(q->dev->attr.max_qp_init_rd_atom, 1);
	q->reads_free = min_of(reads, reads_max);
	q->tq = (struct target_queue){
		.ops = &rdma_target_ops,
		.port = &l->port,
		.qid = req.qid,
		.entries_max = q->depth,
		.capsule_data_max = req.qid ? TARGET_CAPSULE_DATA : 0,
	};
	memcpy(q->tq.peer, q->host->key, sizeof(q->tq.peer));
	text_of_address(rdma_get_local_addr(id), q->tq.traddr, sizeof(q->tq.traddr));
	text_of_address(rdma_get_peer_addr(id), q->tq.raddr, sizeof(q->tq.raddr));
	error = rdma_queue_open(q);
	if (error) {
		log_err("nvmf", "no resources for a connection: %s", strerror(-error));
		goto no_resources;
	}
	rt->queue_count++;
	rdma_young_add(q);
	list_push_tail(&rt->queues, &q->link);
	target_queue_init(&q->tq, rt->target, rt->now_ns);
	error = accept_queue(q);
	if (error) {
		rdma_queue_fail(q, "accepting the connection fails: %s", strerror(-error));
	}
	return;
no_resources:
	if (q) {
		if (id->qp)
			rdma_destroy_qp(id);
		rdma_queue_close(q);
		if (q->cq)
			rdma_cq_put(q->cq, q->cq_share);
		if (q->host)
			rdma_host_put(q->host);
		free(q);
	}
	reject(rt, id, NVME_RDMA_REJ_RESOURCES);
	rdma_destroy_id(id);
}

/* Its first capsule may have been seen before this event. */
static void on_established(struct rdma_queue *q)
{
	struct rdma_target *rt = q->rt;

	q->established = true;
	if (q->heard || q->dying || !nudge_wanted(q->dev->ctx))
		return;
	q->nudge_ns = rt->now_ns + NUDGE_TARGET_NS;
	list_push_tail(&rt->silent, &q->silent);
}

/*
 * The event is acknowledged before the connection is freed, which happens later, in
 * bury_the_dying(); a refused one is destroyed at once, so its REQ is acknowledged first.
 */
static void on_event(struct rdma_target *rt, struct rdma_cm_event *ev)
{
	struct rdma_cm_event copy = *ev;
	uint8_t private_data[256];
	struct rdma_queue *q;

	if (ev->event == RDMA_CM_EVENT_CONNECT_REQUEST) {
		size_t len = min_of(sizeof(private_data), (size_t)ev->param.conn.private_data_len);

		if (len)
			memcpy(private_data, ev->param.conn.private_data, len);
		copy.param.conn.private_data = private_data;
		copy.param.conn.private_data_len = (uint8_t)len;
		rdma_ack_cm_event(ev);
		on_connect_request(rt, &copy);
		return;
	}
	rdma_ack_cm_event(ev);
	q = copy.id->context; /* but for DEVICE_REMOVAL no listener gets these */
	switch (copy.event) {
	case RDMA_CM_EVENT_ESTABLISHED:
		on_established(q);
		break;
	case RDMA_CM_EVENT_CONNECT_ERROR:
	case RDMA_CM_EVENT_UNREACHABLE:
	case RDMA_CM_EVENT_REJECTED:
		rdma_queue_fail(q, "the connection is not established: %s",
				rdma_event_str(copy.event));
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
		rdma_queue_kill(q);
		break;
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		log_err("nvmf", "device %s is gone", ibv_get_device_name(copy.id->verbs->device));
		for (uint32_t i = 0; i < rt->listener_count; i++)
			if (rt->listeners[i].id == copy.id)
				q = NULL;
		if (q)
			rdma_queue_fail(q, "the device is gone");
		break;
	default: /* address changes, the end of timewait: nothing to do */
		log_debug("nvmf", "event %s", rdma_event_str(copy.event));
		break;
	}
}

static bool take_events(struct rdma_target *rt)
{
	struct rdma_cm_event *ev;
	bool any = false;

	/* Not all at once: they may come as fast as they are handled. */
	for (int i = 0; i < EVENT_BATCH && rdma_get_cm_event(rt->events, &ev) == 0; i++) {
		on_event(rt, ev);
		any = true;
	}
	return any;
}

/* --- listening -------------------------------------------------------------------------------- */

/* An address has RDMA if an identifier bound to it finds a device; at a loopback address, which is
 * bound to none by itself, when it listens. */
static bool has_rdma(const struct sockaddr *sa)
{
	struct rdma_cm_id *id;
	bool found;

	if (rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP) != 0)
		return false;
	found = rdma_bind_addr(id, (struct sockaddr *)sa) == 0 &&
		(id->verbs || (rdma_listen(id, 1) == 0 && id->verbs));
	rdma_destroy_id(id);
	return found;
}

/*
 * rdma_cm calls a port unavailable, not in use, when one of the two that want it wants it on
 * every address.
 */
static bool port_is_taken(int error, const struct sockaddr *sa, bool wildcard)
{
	struct sockaddr_storage any_port = {0};

	if (error != EADDRNOTAVAIL || wildcard)
		return error == EADDRNOTAVAIL;
	if (sa->sa_family == AF_INET6) {
		memcpy(&any_port, sa, sizeof(struct sockaddr_in6));
		((struct sockaddr_in6 *)&any_port)->sin6_port = 0;
	} else {
		memcpy(&any_port, sa, sizeof(struct sockaddr_in));
		((struct sockaddr_in *)&any_port)->sin_port = 0;
	}
	return has_rdma((const struct sockaddr *)&any_port);
}

static int listen_error(int error, const struct rdma_listener *l, char *why, size_t room)
{
	const char *at = l->port.wildcard ? "" : l->port.traddr, *port = l->port.trsvcid;
	bool v6 = strchr(at, ':');

	if (error == EADDRINUSE)
		snprintf(why, room,
			 "port %s%s%s is in use; another target is running there, or choose a port "
			 "with --listen rdma://%s%s%s:PORT",
			 port, *at ? " of " : "", at, v6 ? "[" : "", at, v6 ? "]" : "");
	else if (error == ENODEV || error == EADDRNOTAVAIL)
		snprintf(why, room,
			 "no RDMA device has the address %s; `weft devices` shows those that there "
			 "are",
			 l->port.traddr);
	else
		snprintf(why, room, "cannot listen on %s port %s: %s", l->port.traddr, port,
			 errno_text(error));
	return -error;
}

static int listen_on(struct rdma_target *rt, const struct sockaddr *sa, bool wildcard,
		     const char *port, char *why, size_t room)
{
	struct rdma_listener *l = &rt->listeners[rt->listener_count];
	int error, only_v6 = 1;

	if (rt->listener_count == RDMA_LISTENERS_MAX) {
		snprintf(why, room, "more than %d addresses to listen on", RDMA_LISTENERS_MAX);
		return -ENOSPC;
	}
	*l = (struct rdma_listener){.rt = rt};
	l->port = (struct target_port){
		.trtype = NVMF_TRTYPE_RDMA,
		.adrfam = sa->sa_family == AF_INET6 ? NVMF_ADRFAM_IPV6 : NVMF_ADRFAM_IPV4,
		.wildcard = wildcard,
	};
	text_of_address(sa, l->port.traddr, sizeof(l->port.traddr));
	snprintf(l->port.trsvcid, sizeof(l->port.trsvcid), "%s", port);
	if (rdma_create_id(rt->events, &l->id, l, RDMA_PS_TCP) != 0)
		return listen_error(errno, l, why, room);
	if (sa->sa_family == AF_INET6) /* the two families have listeners of their own */
		(void)rdma_set_option(l->id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &only_v6,
				      sizeof(only_v6));
	if (rdma_bind_addr(l->id, (struct sockaddr *)sa) != 0 || rdma_listen(l->id, 128) != 0) {
		error = errno;
		rdma_destroy_id(l->id);
		if (port_is_taken(error, sa, wildcard))
			error = EADDRINUSE;
		return listen_error(error, l, why, room);
	}
	if (l->id->verbs && !rdma_dev_get(rt, l->id->verbs)) {
		rdma_destroy_id(l->id);
		snprintf(why, room, "the RDMA device of %s cannot be used", l->port.traddr);
		return -ENODEV;
	}
	rt->listener_count++;
	target_port_add(rt->target, &l->port);
	return 0;
}

/* Hosts may come to any device: better to know now than then that one cannot be used. */
static void open_all_devices(struct rdma_target *rt)
{
	struct ibv_context **list = rdma_get_devices(NULL);

	for (int i = 0; list && list[i]; i++)
		(void)rdma_dev_get(rt, list[i]);
	if (list)
		rdma_free_devices(list);
}

static int listen_everywhere(struct rdma_target *rt, const char *port, char *why, size_t room)
{
	struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};
	struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = v4.sin_port};
	char unused[256];
	int error = listen_on(rt, (struct sockaddr *)&v4, true, port, why, room);

	/* A machine need not have IPv6. */
	if (!error &&
	    listen_on(rt, (struct sockaddr *)&v6, true, port, unused, sizeof(unused)) != 0)
		log_info("nvmf", "not listening on IPv6: %s", unused);
	if (!error)
		open_all_devices(rt);
	return error;
}

int rdma_target_wildcard(const char *address)
{
	struct addrinfo hints = {.ai_flags = AI_NUMERICHOST, .ai_socktype = SOCK_STREAM}, *list;
	int family = AF_UNSPEC;

	if (getaddrinfo(address, NULL, &hints, &list) != 0)
		return AF_UNSPEC;
	if (list->ai_family == AF_INET &&
	    ((struct sockaddr_in *)list->ai_addr)->sin_addr.s_addr == INADDR_ANY)
		family = AF_INET;
	if (list->ai_family == AF_INET6 &&
	    IN6_IS_ADDR_UNSPECIFIED(&((struct sockaddr_in6 *)list->ai_addr)->sin6_addr))
		family = AF_INET6;
	freeaddrinfo(list);
	return family;
}

int rdma_target_listen(struct rdma_target *rt, const char *address, const char *port, char *why,
		       size_t room)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list;
	int error;

	if (!address)
		return listen_everywhere(rt, port, why, room);
	error = getaddrinfo(address, port, &hints, &list);
	if (error) {
		snprintf(why, room, "%s is no address of this machine: %s", address,
			 gai_strerror(error));
		return -EINVAL;
	}
	error = listen_on(rt, list->ai_addr, rdma_target_wildcard(address) != AF_UNSPEC, port, why,
			  room);
	freeaddrinfo(list);
	return error;
}

/* --- the whole -------------------------------------------------------------------------------- */

int rdma_target_create(struct target *t, size_t pool_bytes, struct rdma_target **ret, char *why,
		       size_t room)
{
	struct rdma_target *rt = calloc(1, sizeof(*rt));
	int error;

	if (rt)
		rt->zeroes =
			mmap(NULL, TARGET_DATA_MAX, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (!rt || rt->zeroes == MAP_FAILED ||
	    data_pool_init(&rt->pool,
			   pool_bytes + RDMA_ADMIN_BYTES + RDMA_YOUNG_MAX * DATA_POOL_PAGE) != 0) {
		if (rt && rt->zeroes != MAP_FAILED)
			munmap(rt->zeroes, TARGET_DATA_MAX);
		free(rt);
		snprintf(why, room, "no memory for %zu MiB of data under way", pool_bytes >> 20);
		return -ENOMEM;
	}
	rt->target = t;
	list_init(&rt->devs);
	list_init(&rt->queues);
	list_init(&rt->dying);
	list_init(&rt->young);
	list_init(&rt->hosts);
	list_init(&rt->waiting);
	rt->budget[RDMA_FOR_IO].len = pool_bytes;
	rt->budget[RDMA_FOR_ADMIN].len = RDMA_ADMIN_BYTES;
	list_init(&rt->silent);
	rt->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	rt->events = rdma_create_event_channel();
	if (rt->epoll_fd < 0 || !rt->events) {
		error = -errno;
		snprintf(why, room, "RDMA cannot be used: %s%s", errno_text(errno),
			 errno == ENODEV ? " (no rdma_cm; is the module rdma_ucm loaded?)" : "");
		goto fail;
	}
	error = rdma_nonblocking(rt->events->fd);
	if (!error)
		error = rdma_watch(rt, rt->events->fd);
	if (error) {
		snprintf(why, room, "RDMA cannot be used: %s", errno_text(-error));
		goto fail;
	}
	*ret = rt;
	return 0;
fail:
	rdma_target_destroy(rt);
	return error;
}

int rdma_target_fd(const struct rdma_target *rt)
{
	return rt->epoll_fd;
}

static struct rdma_queue *first_silent(const struct rdma_target *rt)
{
	return list_empty(&rt->silent) ? NULL
				       : list_entry(rt->silent.next, struct rdma_queue, silent);
}

uint64_t rdma_target_next_deadline(const struct rdma_target *rt)
{
	const struct rdma_queue *q = first_silent(rt);
	uint64_t timers = timer_heap_next(&rt->timers);

	if (rt->memory_freed && !list_empty(&rt->waiting))
		return 0; /* by a store, between two calls of process */
	return q ? min_of(q->nudge_ns, timers) : timers;
}

static void nudge_the_silent(struct rdma_target *rt)
{
	struct rdma_queue *q;

	while ((q = first_silent(rt)) && q->nudge_ns <= rt->now_ns) {
		list_remove(&q->silent);
		rdma_queue_nudge(q);
	}
}

bool rdma_target_process(struct rdma_target *rt, uint64_t now_ns, bool sleepy)
{
	struct timer *tm;
	bool any;

	rt->now_ns = now_ns;
	any = rdma_poll_all(rt);
	if (sleepy || ++rt->quiet_rounds >= EVENT_ROUNDS) {
		rt->quiet_rounds = 0;
		any |= take_events(rt);
	}
	nudge_the_silent(rt);
	while ((tm = timer_pop_due(&rt->timers, now_ns)))
		rdma_queue_tick(container_of(tm, struct rdma_queue, timer));
	bury_the_dying(rt);
	any |= rdma_memory_pump(rt);
	if (sleepy && !any) {
		/* What came between the poll and the arming would wake nobody. */
		rdma_arm_all(rt);
		any = rdma_poll_all(rt);
		bury_the_dying(rt);
	}
	return any;
}

void rdma_target_shutdown(struct rdma_target *rt)
{
	rt->shutting_down = true;
	for (uint32_t i = 0; i < rt->listener_count; i++) {
		target_port_remove(rt->target, &rt->listeners[i].port);
		rdma_destroy_id(rt->listeners[i].id);
	}
	rt->listener_count = 0;
	list_for_each(q, &rt->queues, struct rdma_queue, link)
		rdma_queue_kill(q);
	bury_the_dying(rt);
}

bool rdma_target_idle(const struct rdma_target *rt)
{
	return rt->queue_count == 0;
}

void rdma_target_destroy(struct rdma_target *rt)
{
	assert(rt->queue_count == 0);
	list_for_each(d, &rt->devs, struct rdma_dev, link)
		rdma_dev_free(d);
	if (rt->events)
		rdma_destroy_event_channel(rt->events);
	if (rt->epoll_fd >= 0)
		close(rt->epoll_fd);
	data_pool_fini(&rt->pool);
	munmap(rt->zeroes, TARGET_DATA_MAX);
	free(rt);
}

int rdma_target_addresses(int family, void (*show)(void *ctx, const char *address, bool loopback),
			  void *ctx)
{
	struct ifaddrs *list, *a;
	char text[INET6_ADDRSTRLEN + 16];
	int count = 0;

	if (getifaddrs(&list) != 0)
		return 0;
	/* Loopback last: it is of use on this machine alone. */
	for (int loopback = 0; loopback < 2; loopback++)
		for (a = list; a; a = a->ifa_next) {
			const struct sockaddr_in6 *v6 = (void *)a->ifa_addr;

			if (!a->ifa_addr || !(a->ifa_flags & IFF_UP) ||
			    !!(a->ifa_flags & IFF_LOOPBACK) != loopback ||
			    (family != AF_UNSPEC && a->ifa_addr->sa_family != family))
				continue;
			if (a->ifa_addr->sa_family != AF_INET &&
			    (a->ifa_addr->sa_family != AF_INET6 ||
			     IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr)))
				continue;
			if (!has_rdma(a->ifa_addr))
				continue;
			text_of_address(a->ifa_addr, text, sizeof(text));
			show(ctx, text, loopback);
			count++;
		}
	freeifaddrs(list);
	return count;
}
