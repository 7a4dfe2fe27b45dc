/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Connections of the host's queues: resolving, connecting, losing.
 *
 * The device is known once the admin queue's address is resolved; protection domain, completion
 * queue and registrations are made then, and anew with each association, since a reconnect may
 * go through another device.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/errno_text.h"
#include "base/heap.h" /* DEADLINE_NEVER */
#include "base/time.h"
#include "nvmf/rdma/nudge.h"
#include "nvmf/rdma/host.h"
#include "nvmf/rdma/weft_cm.h"
#include "nvmf/transport/address.h"
#include "wire/nvme_rdma.h"

enum {
	REJECT_NO_SERVICE = 8, /* reasons of the IB CM's REJ, also as rdma_cm gives them */
	REJECT_STALE = 10,
	REJECT_CONSUMER = 28,
	RETRY_COUNT = 7,
	RNR_RETRY_FOR_EVER = 7,
	READS_MAX = 128, /* outstanding RDMA READs the target may have */
	CM_POLL_NS = NSEC_PER_MSEC,
	WHY_NS = 100 * NSEC_PER_MSEC,
	BOUNCE_BYTES = 16 << 20, /* unless the configuration says how many */
};

/* --- the device ---------------------------------------------------------------------------- */

static void device_fini(struct rdma_host *r)
{
	for (unsigned int i = 0; i < r->region_count; i++) {
		if (r->regions[i].mr)
			ibv_dereg_mr(r->regions[i].mr);
		r->regions[i].mr = NULL;
	}
	if (r->cq) {
		if (r->unacked)
			ibv_ack_cq_events(r->cq, r->unacked);
		ibv_destroy_cq(r->cq);
	}
	if (r->channel)
		ibv_destroy_comp_channel(r->channel);
	if (r->pd)
		ibv_dealloc_pd(r->pd);
	r->cq = NULL;
	r->channel = NULL;
	r->pd = NULL;
	r->verbs = NULL;
	r->transport.fds_changed++;
	r->unacked = 0;
	r->notified = r->gone = false;
}

static int set_nonblocking(int fd)
{
	return fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) ? -errno : 0;
}

static int device_init(struct rdma_host *r, struct ibv_context *verbs)
{
	const char *what = "query it";
	uint32_t cqe;
	int err;

	r->verbs = verbs;
	err = -ibv_query_device(verbs, &r->attr);
	if (err)
		goto fail;
	r->windows = !r->config.plain_keys &&
		     (r->attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2B) && r->attr.max_mw;
	what = "allocate a protection domain";
	r->pd = ibv_alloc_pd(verbs);
	if (!r->pd)
		goto fail_errno;
	what = "create a completion channel";
	r->channel = ibv_create_comp_channel(verbs);
	if (!r->channel)
		goto fail_errno;
	r->transport.fds_changed++;
	err = set_nonblocking(r->channel->fd);
	if (err)
		goto fail;
	/* Every receive, and every send in case all are flushed. */
	cqe = (HOST_ADMIN_ENTRIES + (uint32_t)r->config.io_queues * r->config.io_entries) * 4;
	what = "create a completion queue";
	r->cq = ibv_create_cq(verbs, (int)min_of(cqe, (uint32_t)r->attr.max_cqe), NULL, r->channel,
			      0);
	if (!r->cq)
		goto fail_errno;
	for (unsigned int i = 0; i < r->region_count; i++) {
		err = rdma_host_register(r, &r->regions[i]);
		if (err)
			return err;
	}
	return 0;
fail_errno:
	err = -errno;
fail:
	rdma_host_say(r, "cannot use RDMA device %s: %s: %s", verbs->device->name, what,
		      errno_text(-err));
	return err;
}

/* --- connecting ---------------------------------------------------------------------------- */

static bool is_last(const struct rdma_host_queue *q)
{
	const struct rdma_host *r = q->r;

	for (uint16_t i = 0; i <= r->config.io_queues; i++)
		if (&r->queues[i] != q && r->queues[i].id)
			return false;
	return true;
}

static void queue_close(struct rdma_host_queue *q)
{
	if (q->state == RQ_CLOSED)
		return;
	if (q->state == RQ_UP)
		rdma_disconnect(q->id);
	q->state = RQ_CLOSED;
	q->generation++;
	rdma_host_queue_teardown(q);
	/* Before the last identifier, with which a device that has gone is closed. */
	if (is_last(q))
		device_fini(q->r);
	if (q->id)
		rdma_destroy_id(q->id);
	q->id = NULL;
}

static void close_op(void *t, uint16_t qid)
{
	struct rdma_host *r = rdma_host_of(t);

	queue_close(&r->queues[qid]);
}

/* Why there was no way to the present address: the network's reason, or this process's own. */
static void say_no_way(struct rdma_host *r, int error)
{
	bool own = error == EMFILE || error == ENFILE || error == ENOMEM;

	rdma_host_say(r, "cannot connect to %s:%s: %s%s", r->host, r->port,
		      own ? "" : "no RDMA device leads there: ", errno_text(error));
}

/* What no broker knows any more; a new association may have what another makes. */
static void renew_events(struct rdma_host *r)
{
	struct rdma_event_channel *events;

	for (uint16_t i = 0; i <= r->config.io_queues; i++)
		if (r->queues[i].id)
			return;
	events = rdma_create_event_channel();
	if (!events || set_nonblocking(events->fd)) {
		if (events)
			rdma_destroy_event_channel(events);
		return;
	}
	rdma_destroy_event_channel(r->events);
	r->events = events;
	r->deaf = (struct deaf){0};
	r->transport.fds_changed++;
}

/* Begins with the present address. */
static int begin_resolve(struct rdma_host_queue *q)
{
	struct rdma_host *r = q->r;
	struct sockaddr *source = r->source[0] ? (struct sockaddr *)&r->source_address : NULL;

	if (r->deaf.is)
		renew_events(r);
	if (rdma_create_id(r->events, &q->id, q, RDMA_PS_TCP)) {
		rdma_host_say(r, "cannot connect to %s:%s: no RDMA: %s", r->host, r->port,
			      errno_text(errno));
		return -EIO;
	}
	q->state = RQ_ADDRESS;
	if (r->only != IBV_TRANSPORT_UNKNOWN)
		weft_cm_on_transport(q->id, r->only);
	if (r->config.tos && rdma_set_option(q->id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS,
					     &r->config.tos, sizeof(r->config.tos))) {
		rdma_host_say(r, "cannot connect to %s:%s with the type of service %u: %s", r->host,
			      r->port, r->config.tos, errno_text(errno));
		return -EIO;
	}
	if (rdma_resolve_addr(q->id, source, r->address->ai_addr,
			      (int)r->config.resolve_timeout_ms)) {
		if (source && (errno == EADDRNOTAVAIL || errno == ENODEV))
			rdma_host_say(r,
				      "cannot connect to %s:%s from %s: no RDMA device has that "
				      "address; `weft devices` shows those there are",
				      r->host, r->port, r->source);
		else
			say_no_way(r, errno);
		return -EIO;
	}
	return 0;
}

/* The attempt with the present address has come to err: for the admin queue the next that can be
 * begun with. */
static int resolve_next(struct rdma_host_queue *q, int err)
{
	struct rdma_host *r = q->r;

	while (err && q->qid == 0 && r->address->ai_next) {
		queue_close(q);
		r->address = r->address->ai_next;
		err = begin_resolve(q);
	}
	return err;
}

static int open_op(void *t, uint16_t qid, uint16_t entries, uint16_t cntlid)
{
	struct rdma_host *r = rdma_host_of(t);
	struct rdma_host_queue *q = &r->queues[qid];
	int err;

	assert(q->state == RQ_CLOSED);
	if (qid == 0) {
		assert(!r->verbs);
		r->address = r->addresses;
	}
	q->entries = entries;
	q->cntlid = cntlid;
	q->stale_retries = 0;
	err = resolve_next(q, begin_resolve(q));
	if (err)
		queue_close(q);
	return err;
}

static const struct host_transport queue_ops = {
	.open = open_op,
	.close = close_op,
	.submit = rdma_host_queue_submit,
	.release = rdma_host_queue_release,
	.keyed = true,
};

/* The attempt has failed, error is said: another address, or the end of it. */
static void attempt_failed(struct rdma_host_queue *q)
{
	struct rdma_host *r = q->r;

	if (resolve_next(q, -EIO))
		host_queue_lost(r->h, q->qid, NULL, r->now_ns);
}

static void try_again(struct rdma_host_queue *q)
{
	queue_close(q);
	if (begin_resolve(q))
		attempt_failed(q);
}

static void address_resolved(struct rdma_host_queue *q)
{
	struct rdma_host *r = q->r;

	const enum ibv_transport_type type = q->id->verbs->device->transport_type;

	if (r->only != IBV_TRANSPORT_UNKNOWN && r->only != type) {
		rdma_host_say(r,
			      "cannot connect to %s:%s: the RDMA device that leads there, %s, is "
			      "not of %s",
			      r->host, r->port, ibv_get_device_name(q->id->verbs->device),
			      r->only == IBV_TRANSPORT_IWARP ? "iWARP" : "RoCE");
		attempt_failed(q);
		return;
	}
	q->state = RQ_ROUTE;
	if (rdma_resolve_route(q->id, (int)r->config.resolve_timeout_ms)) {
		say_no_way(r, errno);
		attempt_failed(q);
	}
}

static void route_resolved(struct rdma_host_queue *q)
{
	struct rdma_host *r = q->r;
	uint8_t private_data[NVME_RDMA_REQ_LEN];
	struct wcursor w = wcursor_init(private_data, sizeof(private_data));
	struct nvme_rdma_req req = {
		.qid = q->qid,
		.hrqsize = q->entries,
		.hsqsize = (uint16_t)(q->entries - 1),
		.cntlid = q->cntlid,
	};
	struct rdma_conn_param param = {
		.private_data = private_data,
		.private_data_len = sizeof(private_data),
		.retry_count = RETRY_COUNT,
		.rnr_retry_count = RNR_RETRY_FOR_EVER,
		.flow_control = 1,
	};

	if (!r->verbs && device_init(r, q->id->verbs)) {
		attempt_failed(q);
		return;
	}
	if (r->verbs != q->id->verbs) {
		rdma_host_say(r, "cannot connect to %s:%s: its queues lead to different devices",
			      r->host, r->port);
		attempt_failed(q);
		return;
	}
	/* Only the target reads. */
	param.responder_resources = (uint8_t)min_of(r->attr.max_qp_rd_atom, (int)READS_MAX);
	nvme_rdma_req_put(&w, &req);
	q->state = RQ_CONNECTING;
	if (rdma_host_queue_setup(q)) {
		attempt_failed(q);
		return;
	}
	if (rdma_connect(q->id, &param)) {
		rdma_host_say(r, "cannot connect to %s:%s: %s", r->host, r->port,
			      errno_text(errno));
		attempt_failed(q);
	}
}

static void established(struct rdma_host_queue *q, const struct rdma_cm_event *event)
{
	struct rdma_host *r = q->r;
	const struct rdma_conn_param *param = &event->param.conn;
	struct cursor c = cursor_init(param->private_data, param->private_data_len);
	struct nvme_rdma_rep rep;

	nvme_rdma_rep_get(&c, &rep);
	if (c.overrun || rep.recfmt != 0 || rep.crqsize == 0) {
		q->state = RQ_UP;
		rdma_host_say(r, "%s:%s accepts the connection but speaks no NVMe/RDMA", r->host,
			      r->port);
		host_queue_lost(r->h, q->qid, NULL, r->now_ns);
		return;
	}
	q->state = RQ_UP;
	if (nudge_wanted(r->verbs)) {
		q->nudge_wait_ns = NUDGE_HOST_NS;
		q->nudge_ns = r->now_ns + NUDGE_HOST_NS;
		r->nudge_ns = min_of(r->nudge_ns, q->nudge_ns);
	}
	host_queue_opened(r->h, q->qid, rep.crqsize, r->now_ns);
}

static void lost(struct rdma_host_queue *q, const char *why)
{
	struct rdma_host *r = q->r;

	rdma_host_say(r, "connection to %s:%s lost: %s", r->host, r->port, why);
	host_queue_lost(r->h, q->qid, NULL, r->now_ns);
}

/* Of a connection that is up these mean its end: where the address goes to another machine the
 * kernel says UNREACHABLE, and a target that has given it up before it was up rejects it. */
static void rejected(struct rdma_host_queue *q, const struct rdma_cm_event *event)
{
	struct rdma_host *r = q->r;
	struct cursor c =
		cursor_init(event->param.conn.private_data, event->param.conn.private_data_len);
	struct nvme_rdma_rej rej;

	if (q->state == RQ_UP) {
		lost(q, "the target has rejected it");
		return;
	}
	if (event->status == REJECT_STALE && q->stale_retries++ < STALE_RETRIES_MAX) {
		try_again(q);
		return;
	}
	nvme_rdma_rej_get(&c, &rej);
	if (event->status == REJECT_NO_SERVICE || event->status == -ECONNREFUSED)
		rdma_host_say(r,
			      "cannot connect to %s:%s: refused; does a target listen there for "
			      "NVMe/RDMA?",
			      r->host, r->port);
	else if (event->status == REJECT_CONSUMER && !c.overrun)
		rdma_host_say(r, "cannot connect to %s:%s: the target refuses queue %u: %s",
			      r->host, r->port, q->qid, nvme_rdma_reject_name(rej.status));
	else
		rdma_host_say(r, "cannot connect to %s:%s: rejected, reason %d", r->host, r->port,
			      event->status);
	attempt_failed(q);
}

static void unreachable(struct rdma_host_queue *q, const char *what, int status)
{
	struct rdma_host *r = q->r;

	if (q->state == RQ_UP) {
		lost(q, what);
		return;
	}
	rdma_host_say(r, "cannot connect to %s:%s: %s%s%s", r->host, r->port, what,
		      status < 0 ? ": " : "", status < 0 ? errno_text(-status) : "");
	attempt_failed(q);
}

static bool host_events(struct rdma_host *r);

/* A flush is a consequence: the connection's event may know the cause, and comes by another way. */
static void look_why(struct rdma_host *r)
{
	if (!r->why_ns)
		r->why_ns = r->now_ns + WHY_NS;
	r->flushed = false;
	host_events(r);
	for (uint16_t i = 0; i <= r->config.io_queues; i++) {
		struct rdma_host_queue *q = &r->queues[i];

		if (q->flushed && q->state == RQ_UP && r->now_ns < r->why_ns) {
			r->flushed = true;
			continue;
		}
		if (q->flushed && q->state == RQ_UP)
			lost(q, "it was closed");
		q->flushed = false;
	}
	if (!r->flushed)
		r->why_ns = 0;
}

/* What completions lead to is posted at once, in batches. */
static bool poll_queues(struct rdma_host *r)
{
	bool any;

	r->batching = true;
	any = rdma_host_queues_poll(r);
	if (r->flushed)
		look_why(r);
	if (r->bounce_freed) {
		rdma_host_queues_unstarve(r);
		any = true;
	}
	r->batching = false;
	if (any)
		rdma_host_queues_flush(r);
	return any;
}

/* private_data of the event is valid: the caller acknowledges afterwards what is a copy. */
static void handle_event(struct rdma_host_queue *q, const struct rdma_cm_event *event)
{
	const uint16_t generation = q->generation;

	switch (event->event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		address_resolved(q);
		break;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		route_resolved(q);
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
		established(q, event);
		break;
	case RDMA_CM_EVENT_REJECTED:
		rejected(q, event);
		break;
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_ROUTE_ERROR:
		unreachable(q,
			    event->status == -ETIMEDOUT ? "nobody has that address"
							: "no RDMA device leads there",
			    event->status);
		break;
	case RDMA_CM_EVENT_UNREACHABLE:
		unreachable(q, "no answer: " RDMA_NO_ANSWER, 0);
		break;
	case RDMA_CM_EVENT_CONNECT_ERROR:
		unreachable(q, "the connection could not be set up", event->status);
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
		/* What came before that counts, and may be the cause. */
		if (q->state == RQ_UP && !q->r->batching)
			poll_queues(q->r);
		if (q->generation != generation || q->state == RQ_CLOSED)
			break;
		if (q->state == RQ_UP)
			lost(q, "the target closed it");
		else
			unreachable(q, "the target closed the connection", 0);
		break;
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		lost(q, "the RDMA device went away");
		break;
	case RDMA_CM_EVENT_CONNECT_REQUEST:
	case RDMA_CM_EVENT_CONNECT_RESPONSE:
	case RDMA_CM_EVENT_MULTICAST_JOIN:
	case RDMA_CM_EVENT_MULTICAST_ERROR:
	case RDMA_CM_EVENT_ADDR_CHANGE:
	case RDMA_CM_EVENT_TIMEWAIT_EXIT:
		break;
	}
}

static bool host_events(struct rdma_host *r)
{
	struct rdma_cm_event *event;
	bool any = false;

	if (!deaf_looks(&r->deaf, r->now_ns))
		return false;
	while (rdma_get_cm_event(r->events, &event) == 0) {
		struct rdma_cm_event copy = *event;
		struct rdma_cm_id *id = event->id;
		uint8_t private_data[256];

		/* An ID cannot be destroyed while an event of it is unacknowledged. */
		if (copy.param.conn.private_data && copy.param.conn.private_data_len) {
			memcpy(private_data, copy.param.conn.private_data,
			       copy.param.conn.private_data_len);
			copy.param.conn.private_data = private_data;
		} else {
			copy.param.conn.private_data_len = 0;
		}
		rdma_ack_cm_event(event);
		any = true;
		for (uint16_t i = 0; i <= r->config.io_queues; i++) {
			if (r->queues[i].state != RQ_CLOSED && r->queues[i].id == id) {
				handle_event(&r->queues[i], &copy);
				break;
			}
		}
	}
	if (deaf_changes(&r->deaf, errno, r->now_ns))
		r->transport.fds_changed++;
	return any;
}

/* --- the caller's ------------------------------------------------------------------------- */

static void op_attach(struct transport_host *t, struct host *h)
{
	rdma_host_of(t)->h = h;
}

static int op_add_memory(struct transport_host *t, void *addr, size_t len)
{
	return rdma_host_add_memory(rdma_host_of(t), addr, len);
}

static int op_remove_memory(struct transport_host *t, void *addr)
{
	return rdma_host_remove_memory(rdma_host_of(t), addr);
}

static unsigned int op_pollfds(const struct transport_host *t,
			       struct pollfd fds[TRANSPORT_HOST_FDS])
{
	const struct rdma_host *r = rdma_host_of(t);
	unsigned int n = 0;

	if (!r->deaf.is)
		fds[n++] = (struct pollfd){.fd = r->events->fd, .events = POLLIN};
	if (r->channel && !r->gone)
		fds[n++] = (struct pollfd){.fd = r->channel->fd, .events = POLLIN};
	return n;
}

static void op_polled(struct transport_host *t, const struct pollfd *fds, unsigned int n)
{
	struct rdma_host *r = rdma_host_of(t);

	for (unsigned int i = 0; i < n; i++) {
		if (!fds[i].revents)
			continue;
		if (fds[i].fd == r->events->fd)
			r->events_ns = 0;
		else
			r->notified = true;
	}
}

/* One event; where there is another the descriptor says so again. */
static void take_notification(struct rdma_host *r)
{
	struct ibv_cq *cq;
	void *context;

	r->notified = false;
	if (!r->channel)
		return;
	if (ibv_get_cq_event(r->channel, &cq, &context) == 0) {
		r->unacked++;
	} else if (errno != EAGAIN && errno != EINTR) { /* it would be readable for ever */
		r->gone = true;
		r->transport.fds_changed++;
	}
}

static bool op_process(struct transport_host *t, uint64_t now_ns, bool sleepy)
{
	struct rdma_host *r = rdma_host_of(t);
	bool any = false;

	r->now_ns = now_ns;
	/* Looking for connections' events is a system call: when they are announced, and now and
	 * then for callers that never wait. */
	if (now_ns - r->events_ns >= CM_POLL_NS) {
		r->events_ns = now_ns;
		any = host_events(r);
	}
	if (r->notified)
		take_notification(r);
	any |= poll_queues(r);
	if (now_ns >= r->nudge_ns)
		rdma_host_queues_nudge(r);
	if (any || !sleepy || !r->cq)
		return any;
	/* Armed as it may be: an RNIC that leaves its work to who polls is told that nobody will.
	 */
	(void)!ibv_req_notify_cq(r->cq, 0);
	/* What came between the last look and the arming made no event. */
	return poll_queues(r);
}

static uint64_t op_next_deadline(const struct transport_host *t)
{
	const struct rdma_host *r = rdma_host_of(t);
	const uint64_t due = r->why_ns ? min_of(r->nudge_ns, r->why_ns) : r->nudge_ns;

	return r->deaf.is ? min_of(due, r->deaf.look_ns) : due;
}

static const char *op_error(const struct transport_host *t)
{
	return rdma_host_of(t)->error;
}

static void op_info(const struct transport_host *t, struct transport_host_info *ret)
{
	const struct rdma_host *r = rdma_host_of(t);

	ret->device = r->verbs ? r->verbs->device->name : NULL;
	ret->keys = r->windows ? "windows" : "plain";
}

static void op_destroy(struct transport_host *t)
{
	struct rdma_host *r = rdma_host_of(t);

	for (uint16_t i = 0; r->queues && i <= r->config.io_queues; i++)
		queue_close(&r->queues[i]);
	if (r->events)
		rdma_destroy_event_channel(r->events);
	if (r->addresses)
		freeaddrinfo(r->addresses);
	rdma_host_data_fini(r);
	free(r->queues);
	free(r);
}

static const struct transport_host_ops host_ops = {
	.queues = &queue_ops,
	.attach = op_attach,
	.add_memory = op_add_memory,
	.remove_memory = op_remove_memory,
	.pollfds = op_pollfds,
	.polled = op_polled,
	.process = op_process,
	.next_deadline = op_next_deadline,
	.error = op_error,
	.info = op_info,
	.destroy = op_destroy,
};

static enum ibv_transport_type transport_type_of(const char *name)
{
	if (!name || !*name)
		return IBV_TRANSPORT_UNKNOWN;
	return strcmp(name, "iwarp") == 0 ? IBV_TRANSPORT_IWARP : IBV_TRANSPORT_IB;
}

struct transport_host *rdma_host_create(const struct transport_host_config *config, char *why,
					size_t room)
{
	struct rdma_host *r = calloc(1, sizeof(*r));

	if (!r) {
		snprintf(why, room, "out of memory");
		return NULL;
	}
	r->transport.ops = &host_ops;
	r->config = *config;
	if (!r->config.bounce_bytes)
		r->config.bounce_bytes = BOUNCE_BYTES;
	r->nudge_ns = DEADLINE_NEVER;
	r->only = transport_type_of(config->rdma_transport);
	/* As it stands before a port, for messages. */
	snprintf(r->host, sizeof(r->host), strchr(config->host, ':') ? "[%s]" : "%s", config->host);
	snprintf(r->port, sizeof(r->port), "%s", config->port);
	snprintf(r->source, sizeof(r->source), "%s", config->source ? config->source : "");
	if (address_of_target(config, &r->source_address, &r->addresses, "weft devices", why, room))
		goto fail;
	r->events = rdma_create_event_channel();
	if (!r->events) {
		snprintf(why, room, "cannot use RDMA here: %s%s", errno_text(errno),
			 errno == ENODEV ? "; is there an RDMA device?" : "");
		goto fail;
	}
	r->queues = calloc(1u + config->io_queues, sizeof(*r->queues));
	if (!r->queues || set_nonblocking(r->events->fd)) {
		snprintf(why, room, "cannot prepare for RDMA events: %s", errno_text(errno));
		goto fail;
	}
	for (uint16_t i = 0; i <= config->io_queues; i++) {
		r->queues[i].r = r;
		r->queues[i].qid = i;
	}
	return &r->transport;
fail:
	op_destroy(&r->transport);
	return NULL;
}
