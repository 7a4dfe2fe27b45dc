/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Connections.
 *
 * A connection ends for many reasons (the host's DREQ, a failed completion, a keep-alive that
 * ran out, our own end) and always the same way: rdma_queue_kill() puts it into the dying list,
 * and the end of the transport's process() buries it: disconnect, destroy the QP (from then on
 * nothing touches its memory), drain its CQ of what it left there, tell the target, and free it
 * when the last store operation is done.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/errno_text.h"
#include "base/log.h"
#include "base/time.h"
#include "nvmf/rdma/nudge.h"
#include "nvmf/rdma/target.h"
#include "nvmf/transport/address.h"

#define EVENT_BATCH 32

static void queue_free(struct rdma_queue *q)
{
	struct target_port *port = q->tq.port;
	struct rdma_cm_id *id = q->id;

	rdma_queue_close(q);
	rdma_cq_put(q->cq, q->cq_share);
	share_queue_fini(&q->share);
	list_remove(&q->link);
	free(q);
	rdma_destroy_id(id);
	atomic_fetch_sub(&port->connections, 1);
}

static void bury(struct rdma_queue *q)
{
	if (!q->torn_down) {
		(void)rdma_disconnect(q->id); /* harmless if the host was first */
		rdma_destroy_qp(q->id);
		q->torn_down = true;
		rdma_cq_drain(q->cq);
		rdma_queue_abandon(q);
	}
	if (q->tq.live == 0)
		queue_free(q);
}

void rdma_bury_dying(struct rdma_target *rt)
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

static void op_has_memory(struct share_cmd *s)
{
	rdma_cmd_has_memory(container_of(s, struct rdma_cmd, share));
}

static void op_give_way(struct share_queue *s)
{
	struct rdma_queue *q = container_of(s, struct rdma_queue, share);

	rdma_queue_fail(q, "it gave way to newer connections");
	rdma_bury_dying(q->rt);
}

static const struct share_ops share_ops = {
	.has_memory = op_has_memory,
	.give_way = op_give_way,
};

struct refusal {
	struct target_msg msg;
	struct target *target;
	char peer[NVMF_PEER_LEN];
	const char *why;
};

static void refused(struct target_msg *m)
{
	struct refusal *r = container_of(m, struct refusal, msg);

	target_rejected(r->target, r->peer, r->why);
	free(r);
}

/* The first group's thread tells of it. */
static void tell_refused(struct rdma_target *rt, const char peer[NVMF_PEER_LEN], const char *why)
{
	struct target *t = rt->group->target;
	struct refusal *r;

	if (rt->group == &t->group) {
		target_rejected(t, peer, why);
		return;
	}
	r = malloc(sizeof(*r));
	if (!r)
		return;
	*r = (struct refusal){.target = t, .why = why};
	memcpy(r->peer, peer, sizeof(r->peer));
	group_tell(rt->group, &t->group, &r->msg, refused);
}

static void reject(struct rdma_target *rt, struct rdma_cm_id *id, enum nvme_rdma_reject status)
{
	char peer[NVMF_PEER_LEN] = "";
	struct nvme_rdma_rej rej = {.status = (uint16_t)status};
	uint8_t data[NVME_RDMA_REJ_LEN];
	struct wcursor w = wcursor_init(data, sizeof(data));

	nvme_rdma_rej_put(&w, &rej);
	address_text(rdma_get_peer_addr(id), peer, sizeof(peer));
	tell_refused(rt, peer, nvme_rdma_reject_name((uint16_t)status));
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
	if (req->hsqsize == 0 || req->hsqsize >= rdma_target_ops.entries_max)
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

/* Somebody who asks for a connection, and may have one. */
struct request {
	struct target_msg msg; /* on its way to its group */
	struct rdma_target *rt;
	struct rdma_cm_id *id;
	struct rdma_listener *listener;
	struct nvme_rdma_req req;
	uint32_t initiator_depth;
};

static void take_request(const struct request *r)
{
	struct rdma_target *rt = r->rt;
	struct rdma_cm_id *id = r->id;
	struct rdma_queue *q = NULL;
	uint8_t key[16];
	uint32_t reads, reads_max;
	int error;

	if (rt->shutting_down)
		goto no_resources;
	q = calloc(1, sizeof(*q));
	if (!q)
		goto no_resources;
	q->rt = rt;
	q->id = id;
	list_init(&q->silent);
	list_init(&q->pumping);
	id->context = q;
	share_key_of(rdma_get_peer_addr(id), key);
	if (!share_queue_init(&q->share, rt->shares, &share_ops, key))
		goto no_resources;
	q->depth = (uint16_t)(r->req.hsqsize + 1);
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
	reads = min_of(r->initiator_depth, (uint32_t)RDMA_READS_MAX);
	reads_max = (uint32_t)max_of(q->dev->attr.max_qp_init_rd_atom, 1);
	q->reads_free = min_of(reads, reads_max);
	q->tq = (struct target_queue){
		.group = rt->group,
		.ops = &rdma_target_ops,
		.port = &r->listener->port,
		.qid = r->req.qid,
		.entries_max = q->depth,
		.capsule_data_max =
			r->req.qid ? target_port_capsule_room(&r->listener->port, &rdma_target_ops)
				   : 0,
	};
	memcpy(q->tq.peer, key, sizeof(q->tq.peer));
	address_text(rdma_get_local_addr(id), q->tq.traddr, sizeof(q->tq.traddr));
	address_text(rdma_get_peer_addr(id), q->tq.raddr, sizeof(q->tq.raddr));
	error = rdma_queue_open(q);
	if (error) {
		log_err("nvmf", "no resources for a connection: %s", strerror(-error));
		goto no_resources;
	}
	list_push_tail(&rt->queues, &q->link);
	target_queue_init(&q->tq, rt->group->target, rt->now_ns);
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
		if (q->share.shares)
			share_queue_fini(&q->share);
		free(q);
	}
	reject(rt, id, NVME_RDMA_REJ_RESOURCES);
	rdma_destroy_id(id);
	atomic_fetch_sub(&r->listener->port.connections, 1);
}

/* The group's. */
static void arrive(struct target_msg *m)
{
	struct request *r = container_of(m, struct request, msg);
	struct rdma_target *rt = r->rt;

	rt->now_ns = max_of(rt->now_ns, rt->group->now_ns);
	take_request(r);
	atomic_fetch_sub(&rt->arriving, 1);
	free(r);
}

/* An I/O queue's to the group whose turn it is; false: it is ours, or stays. */
static bool hand_on(const struct request *r)
{
	struct rdma_target *rt = r->rt, *to = NULL;
	const struct target_group *g;
	struct request *copy;

	if (!r->req.qid || list_empty(&rt->others))
		return false;
	g = target_group_next(rt->group->target);
	list_for_each(o, &rt->others, struct rdma_target, link)
		if (o->group == g)
			to = o;
	copy = to ? malloc(sizeof(*copy)) : NULL;
	if (!copy)
		return false;
	*copy = *r;
	copy->rt = to;
	r->id->context = NULL; /* its events mean nothing before it has arrived */
	if (rdma_migrate_id(r->id, to->events) != 0) {
		free(copy);
		return false;
	}
	atomic_fetch_add(&to->arriving, 1);
	group_tell(rt->group, to->group, &copy->msg, arrive);
	return true;
}

static void on_connect_request(struct rdma_target *rt, struct rdma_cm_event *ev)
{
	struct request r = {.rt = rt,
			    .id = ev->id,
			    .listener = ev->listen_id->context,
			    .initiator_depth = ev->param.conn.initiator_depth};
	uint16_t why = check_req(&ev->param.conn, &r.req);

	if (!why && rt->shutting_down)
		why = NVME_RDMA_REJ_RESOURCES;
	if (why) {
		reject(rt, r.id, (enum nvme_rdma_reject)why);
		rdma_destroy_id(r.id);
		return;
	}
	atomic_fetch_add(&r.listener->port.connections, 1);
	if (!hand_on(&r))
		take_request(&r);
}

/* Its first capsule may have been seen before this event. */
static void on_established(struct rdma_queue *q)
{
	struct rdma_target *rt = q->rt;

	rdma_queue_takes_no_writes(q);
	q->share.established = true;
	if (q->heard || q->dying || !nudge_wanted(q->dev->ctx))
		return;
	q->nudge_ns = rt->now_ns + NUDGE_TARGET_NS;
	list_push_tail(&rt->silent, &q->silent);
}

/*
 * The event is acknowledged before the connection is freed, which happens later, in
 * rdma_bury_dying(); a refused one is destroyed at once, so its REQ is acknowledged first.
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
	if (!q)
		return;
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
		if (!rdma_listener_lost(rt, copy.id))
			rdma_queue_fail(q, "the device is gone");
		break;
	default: /* address changes, the end of timewait: nothing to do */
		log_debug("nvmf", "event %s", rdma_event_str(copy.event));
		break;
	}
}

static void deaf_changed(struct rdma_target *rt, int error)
{
	if (rt->deaf.is) {
		(void)epoll_ctl(rt->epoll_fd, EPOLL_CTL_DEL, rt->events->fd, NULL);
		log_err("nvmf",
			"the connections' events come no more (%s): no RDMA host is heard until "
			"there is a broker again; those that are connected are served. If what is "
			"lost does not come back, start this anew",
			errno_text(error));
	} else if (rdma_watch(rt, rt->events->fd) == 0) {
		log_warn("nvmf", "RDMA hosts are heard again");
	}
}

bool rdma_take_events(struct rdma_target *rt)
{
	struct rdma_cm_event *ev;
	int n = 0, error;

	if (!deaf_looks(&rt->deaf, rt->shutting_down ? 0 : rt->now_ns))
		return false;
	/* Not all at once: they may come as fast as they are handled. */
	while (n < EVENT_BATCH && rdma_get_cm_event(rt->events, &ev) == 0) {
		on_event(rt, ev);
		n++;
	}
	error = n < EVENT_BATCH ? errno : 0;
	if (deaf_changes(&rt->deaf, error, rt->now_ns))
		deaf_changed(rt, error);
	return n > 0;
}
