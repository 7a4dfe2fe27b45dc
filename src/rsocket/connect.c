// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/*
 * Connections come about: binding, listening, accepting, connecting. The steps that follow an
 * event are the service thread's, so that a peer's connect() ends while we are at something else,
 * as it does with TCP.
 */
#include <dlfcn.h>
#include <string.h>
#include <sys/mman.h>

#include "base/log.h"
#include "base/time.h"
#include "rsocket/counted.h"
#include "rsocket/stream.h"
#include "rsocket/svc.h"

enum {
	STEP_TRIES = 7,
	STEP_TIMEOUT_MS = 1000, /* of the first try; each further one twice as long */
	BRIEF_TIMEOUT_MS = 300, /* of the only one, see stream_be_brief() */
	BACKLOG_MIN = 128,	/* connections are made before anybody accepts them */
	BACKLOG_MAX = 4096,
	HANDSHAKE_MS = 1000, /* has the right of way so long when the backlog is full */
	ASKING_MS = 1000,    /* waits so long for somebody to accept */
	RETRY_INFINITE = 7,
};

/* ---- binding and listening ------------------------------------------------------------------- */

int stream_bind(struct stream *s, const struct sockaddr *addr, socklen_t len)
{
	struct sockaddr_storage to;
	int rc = addr_copy_in(&s->sock, addr, len, &to);

	if (rc)
		return rc;
	if (atomic_load(&s->state) != STREAM_INIT)
		return -EINVAL;
	if (rdma_bind_addr(s->id, (struct sockaddr *)&to))
		return -errno;
	atomic_store(&s->state, STREAM_BOUND);
	return 0;
}

int stream_listen(struct stream *s, int backlog)
{
	struct sockaddr_storage any = {.ss_family = (sa_family_t)s->sock.domain};
	int rc = 0;

	s->backlog = (int)clamp_u32((uint32_t)max_of(backlog, 0), BACKLOG_MIN, BACKLOG_MAX);
	switch (atomic_load(&s->state)) {
	case STREAM_LISTENING:
		return 0;
	case STREAM_INIT:
		if (rdma_bind_addr(s->id, (struct sockaddr *)&any))
			return -errno;
		break;
	case STREAM_BOUND:
		break;
	default:
		return -EINVAL;
	}
	/* Requests may be there before rdma_listen() is back. */
	svc_lock();
	if (!s->deaf && rdma_listen(s->id, s->backlog)) {
		rc = -errno;
		atomic_store(&s->state, STREAM_BOUND);
	} else {
		atomic_store(&s->state, STREAM_LISTENING);
		s->deaf = false;
	}
	svc_unlock();
	return rc;
}

static void turn_away(struct stream *);

int stream_unlisten(struct stream *s)
{
	struct list *n;

	svc_lock();
	s->deaf = true;
	atomic_store(&s->state, STREAM_BOUND);
	while ((n = list_pop_head(&s->asking)))
		turn_away(list_entry(n, struct stream, node));
	while ((n = list_pop_head(&s->accepting)) || (n = list_pop_head(&s->accepted))) {
		s->queued--;
		stream_destroy(list_entry(n, struct stream, node));
	}
	svc_unlock();
	sock_wake(&s->sock);
	return 0;
}

int stream_answer_late(struct stream *s, bool insists)
{
	void *shared = mmap(NULL, sizeof(*s->claimed), PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (shared == MAP_FAILED)
		return -errno;
	s->claimed = shared;
	s->late = true;
	s->insists = insists;
	return 0;
}

bool stream_claim(struct stream *s)
{
	return s->claimed && !atomic_exchange(s->claimed, true);
}

struct accept {
	struct stream *listener, *taken;
};

static void answer_all(struct stream *listener);

static bool take_accepted(void *arg)
{
	struct accept *a = arg;
	struct list *n;

	svc_lock();
	a->listener->away = false;
	if (list_empty(&a->listener->accepted))
		answer_all(a->listener);
	n = list_pop_head(&a->listener->accepted);
	if (n) {
		a->taken = list_entry(n, struct stream, node);
		a->taken->listener = NULL;
		a->listener->queued--;
	}
	svc_unlock();
	return n;
}

static int no_fd(void *arg)
{
	(void)arg;
	return -1;
}

int stream_accept_now(struct stream *s, struct stream **ret)
{
	struct accept a = {.listener = s};

	if (atomic_load(&s->state) != STREAM_LISTENING)
		return -EINVAL;
	if (!take_accepted(&a))
		return -EAGAIN;
	*ret = a.taken;
	return 0;
}

void stream_put_back(struct stream *listener, struct stream *s)
{
	bool kept;

	svc_lock();
	kept = atomic_load(&listener->state) == STREAM_LISTENING;
	if (kept) {
		s->listener = listener;
		listener->queued++;
		list_push_head(&listener->accepted, &s->node);
	}
	svc_unlock();
	if (!kept)
		(void)!stream_close(s);
}

int stream_accept(struct stream *s, struct stream **ret)
{
	struct accept a = {.listener = s};
	int rc = stream_accept_now(s, ret);

	if (rc != -EAGAIN || sock_nonblocking(&s->sock, 0))
		return rc;
	rc = sock_sleep(&s->sock, &(struct sock_waiting){take_accepted, no_fd, NULL, &a},
			s->sock.rcv_timeout_ms);
	if (!a.taken)
		return rc;
	*ret = a.taken;
	return 0;
}

/* ---- connecting, the application's part ------------------------------------------------------ */

static bool connecting_over(void *arg)
{
	return atomic_load(&((struct stream *)arg)->state) != STREAM_CONNECTING;
}

static int wait_connected(struct stream *s, int timeout_ms)
{
	int rc;

	do {
		rc = sock_sleep(&s->sock, &(struct sock_waiting){connecting_over, no_fd, NULL, s},
				timeout_ms);
	} while (rc == -ERESTART);
	if (rc == -EAGAIN)
		return -EINPROGRESS; /* SO_SNDTIMEO is over */
	if (rc)
		return rc;
	return atomic_load(&s->state) == STREAM_CONNECT_FAILED ? stream_take_error(s, -ECONNABORTED)
							       : 0;
}

/* What weft's librdmacm has for us; src/rdmacm/brief.h tells of it. */
static struct {
	void (*brief)(struct rdma_cm_id *);
	int (*resolve)(struct rdma_cm_id *, struct sockaddr *dst, int timeout_ms);
	void (*tcp_elsewhere)(struct rdma_cm_id *);
} weft;

static void find(void)
{
#define FIND(name)                                                                     \
	weft.name = (__typeof__(weft.name))dlvsym(RTLD_DEFAULT, "weft_private_" #name, \
						  "WEFT_PRIVATE_1")
	FIND(brief);
	FIND(resolve);
	FIND(tcp_elsewhere);
#undef FIND
}

static void find_weft(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, find);
}

void stream_beside_tcp(struct stream *s)
{
	find_weft();
	s->tcp = true;
	if (weft.tcp_elsewhere)
		weft.tcp_elsewhere(s->id);
}

void stream_be_brief(struct stream *s)
{
	find_weft();
	s->brief = true;
	if (weft.brief)
		weft.brief(s->id);
}

static int step_timeout(struct stream *s)
{
	const int timeout = s->brief ? BRIEF_TIMEOUT_MS : STEP_TIMEOUT_MS << s->tries;

	s->tries++;
	return timeout;
}

static int resolve_addr(struct stream *s, struct sockaddr *to)
{
	const int timeout = step_timeout(s);

	return rdma_resolve_addr(s->id, NULL, to, timeout) ? -errno : 0;
}

static void connect_failed(struct stream *, int err);
static int send_request(struct stream *);

/* As far as it goes without waiting. */
static int begin_to_connect(struct stream *s, struct sockaddr *to)
{
	int rc;

	find_weft();
	s->tries = 0;
	rc = weft.resolve ? weft.resolve(s->id, to, step_timeout(s)) : resolve_addr(s, to);
	if (rc < 0)
		return rc;
	atomic_store(&s->state, STREAM_CONNECTING);
	if (!rc)
		return 0;
	rc = send_request(s);
	if (rc)
		connect_failed(s, 0);
	return rc;
}

int stream_connect(struct stream *s, const struct sockaddr *addr, socklen_t len)
{
	struct sockaddr_storage to;
	int rc;

	switch (atomic_load(&s->state)) {
	case STREAM_INIT:
	case STREAM_BOUND:
		break;
	case STREAM_CONNECTING:
		if (sock_nonblocking(&s->sock, 0))
			return -EINPROGRESS;
		return wait_connected(s, s->sock.snd_timeout_ms);
	case STREAM_CONNECTED:
		return 0;
	case STREAM_LISTENING:
		return -EISCONN;
	default:
		return stream_take_error(s, -ENOTCONN);
	}
	rc = addr_copy_in(&s->sock, addr, len, &to);
	if (rc)
		return rc;
	/* The event may come before rdma_resolve_addr() is back. */
	svc_lock();
	rc = begin_to_connect(s, (struct sockaddr *)&to);
	svc_unlock();
	if (rc)
		return rc;
	if (sock_nonblocking(&s->sock, 0))
		return -EINPROGRESS;
	return wait_connected(s, s->sock.snd_timeout_ms);
}

int stream_connected(struct stream *s, int flags)
{
	int rc;

	switch (atomic_load(&s->state)) {
	case STREAM_CONNECTING:
		if (sock_nonblocking(&s->sock, flags))
			return -EAGAIN;
		rc = wait_connected(s, s->sock.snd_timeout_ms);
		return rc == -EINPROGRESS ? -EAGAIN : rc;
	case STREAM_INIT:
	case STREAM_BOUND:
	case STREAM_LISTENING:
		return -ENOTCONN;
	case STREAM_CONNECT_FAILED:
		return stream_take_error(s, -ENOTCONN);
	default:
		return 0;
	}
}

/* ---- events, under svc_lock ------------------------------------------------------------------ */

static void connect_failed(struct stream *s, int err)
{
	rs_count(connects_failed, 1);
	atomic_store(&s->err, err);
	atomic_store(&s->state, STREAM_CONNECT_FAILED);
	sock_wake(&s->sock);
}

static int send_request(struct stream *s)
{
	uint8_t data[RS_CONN_LEN];
	struct rdma_conn_param param = {
		.private_data = data,
		.private_data_len = sizeof(data),
		.flow_control = 1,
		.retry_count = RETRY_INFINITE,
		.rnr_retry_count = RETRY_INFINITE,
	};
	struct rs_conn conn;
	int rc = stream_setup(s);

	if (rc)
		return rc;
	stream_conn_data(s, &conn);
	rs_conn_encode(&conn, data);
	return rdma_connect(s->id, &param) ? -errno : 0;
}

static int take_reply(struct stream *s, const struct rdma_conn_param *param)
{
	struct rs_conn conn;

	if (rs_conn_decode(&conn, param->private_data, param->private_data_len))
		return -ENOTSUP; /* who answered speaks something else */
	return stream_take_conn_data(s, &conn);
}

static void be_kept_alive(struct stream *s)
{
	if (s->keepalive_s && s->so_opts & 1u << SO_KEEPALIVE)
		svc_keepalive(s, s->keepalive_s);
}

static void established(struct stream *s, const struct rdma_conn_param *param)
{
	struct stream *listener = s->listener;
	int rc;

	if (listener) {
		be_kept_alive(s);
		rs_count(accepted, 1);
		atomic_store(&s->state, STREAM_CONNECTED);
		stream_progress(s); /* gives the second half of the buffer */
		list_remove(&s->node);
		list_push_tail(&listener->accepted, &s->node);
		sock_wake(&listener->sock);
		return;
	}
	rc = take_reply(s, param);
	if (rc) {
		rdma_disconnect(s->id);
		connect_failed(s, -rc);
		return;
	}
	be_kept_alive(s);
	rs_count(connected, 1);
	atomic_store(&s->state, STREAM_CONNECTED);
	stream_progress(s);
	sock_wake(&s->sock);
}

/* What an event says of why there is no connection. */
static int reason(const struct rdma_cm_event *event)
{
	if (event->event == RDMA_CM_EVENT_REJECTED)
		return ECONNREFUSED;
	if (event->status < 0)
		return -event->status;
	return event->event == RDMA_CM_EVENT_UNREACHABLE ? ETIMEDOUT : EHOSTUNREACH;
}

/* One more step of who connects; an error ends it. */
static void connecting_event(struct stream *s, const struct rdma_cm_event *event)
{
	int rc = 0;

	switch (event->event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		s->tries = 0;
		rc = rdma_resolve_route(s->id, STEP_TIMEOUT_MS << s->tries++) ? -errno : 0;
		break;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		rc = send_request(s);
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
		established(s, &event->param.conn);
		break;
	case RDMA_CM_EVENT_ADDR_ERROR:
		if (event->status == -ETIMEDOUT && s->tries < STEP_TRIES && !s->brief)
			rc = resolve_addr(s, rdma_get_peer_addr(s->id));
		else
			rc = -reason(event);
		break;
	case RDMA_CM_EVENT_ROUTE_ERROR:
		if (event->status == -ETIMEDOUT && s->tries < STEP_TRIES)
			rc = rdma_resolve_route(s->id, STEP_TIMEOUT_MS << s->tries++) ? -errno : 0;
		else
			rc = -reason(event);
		break;
	default:
		rc = -reason(event);
		break;
	}
	if (rc)
		connect_failed(s, -rc);
}

/* Of an accepted id before it is established: it is gone, and nobody ever saw it. */
static bool never_came(enum rdma_cm_event_type type)
{
	return type == RDMA_CM_EVENT_REJECTED || type == RDMA_CM_EVENT_UNREACHABLE ||
	       type == RDMA_CM_EVENT_CONNECT_ERROR || type == RDMA_CM_EVENT_DISCONNECTED ||
	       type == RDMA_CM_EVENT_DEVICE_REMOVAL;
}

static int answer_request(struct stream *s)
{
	struct rdma_conn_param param = s->request.param;
	uint8_t data[RS_CONN_LEN];
	struct rs_conn conn;
	int rc;

	rc = stream_setup(s);
	if (!rc)
		rc = stream_take_conn_data(s, &s->request.conn);
	if (rc)
		return rc;
	stream_conn_data(s, &conn);
	rs_conn_encode(&conn, data);
	param.private_data = data;
	param.private_data_len = sizeof(data);
	return rdma_accept(s->id, &param) ? -errno : 0;
}

/* A place in the backlog: one whose peer has been owing the last message of the handshake for long
 * makes way, or a few such peers would keep all others out. */
static bool place_free(struct stream *listener)
{
	struct stream *oldest;

	if (listener->queued < listener->backlog)
		return true;
	if (list_empty(&listener->accepting))
		return false;
	oldest = list_entry(listener->accepting.next, struct stream, node);
	if (time_now_ns() - oldest->asked_ns < HANDSHAKE_MS * NSEC_PER_MSEC)
		return false;
	listener->queued--;
	stream_destroy(oldest);
	return true;
}

static void turn_away(struct stream *s)
{
	s->listener->queued--;
	rdma_reject(s->id, NULL, 0);
	stream_destroy(s);
}

static void answer(struct stream *s)
{
	list_remove(&s->node);
	if (answer_request(s)) {
		turn_away(s);
		return;
	}
	s->asked_ns = time_now_ns();
	list_push_tail(&s->listener->accepting, &s->node);
}

static void answer_all(struct stream *listener)
{
	list_for_each(s, &listener->asking, struct stream, node)
		answer(s);
}

static bool claimed(const struct stream *listener)
{
	return listener->late && atomic_load(listener->claimed);
}

bool stream_look_after_asking(struct stream *listener)
{
	const uint64_t now = time_now_ns();
	struct list *n;

	list_for_each(s, &listener->asking, struct stream, node) {
		if (claimed(listener)) {
			turn_away(s);
		} else if (now - s->asked_ns < ASKING_MS * NSEC_PER_MSEC) {
			break; /* and those after it */
		} else if (listener->insists) {
			answer(s);
		} else {
			if (!listener->away)
				log_info("rsocket", "nobody accepts: connections are rejected");
			listener->away = true;
			turn_away(s);
		}
	}
	/* Who was answered and then forgotten by us is at least to know. */
	while (claimed(listener) && (n = list_pop_head(&listener->accepted))) {
		listener->queued--;
		stream_destroy(list_entry(n, struct stream, node));
	}
	return !list_empty(&listener->asking) || !list_empty(&listener->accepting) ||
	       !list_empty(&listener->accepted);
}

/* Rejected requests leave nothing behind; returns the id to be destroyed after the event. */
static struct rdma_cm_id *connect_request(const struct rdma_cm_event *event)
{
	struct stream *listener = event->listen_id->context, *s;
	const struct rdma_conn_param *param = &event->param.conn;
	struct rs_conn conn;

	if (listener->deaf || listener->away || claimed(listener) || !place_free(listener) ||
	    rs_conn_decode(&conn, param->private_data, param->private_data_len) ||
	    stream_adopt(listener, event->id, &s)) {
		rdma_reject(event->id, NULL, 0);
		return event->id;
	}
	atomic_store(&s->state, STREAM_CONNECTING);
	s->request.param = *param;
	s->request.conn = conn;
	s->listener = listener;
	s->asked_ns = time_now_ns();
	listener->queued++;
	list_push_tail(&listener->asking, &s->node);
	if (!listener->late) {
		answer(s);
	} else {
		svc_look_after_asking(listener);
		sock_wake(&listener->sock);
	}
	return NULL;
}

/* Before it was established. Who answered late has been told of it already: it is accepted, and
 * ends, as TCP's would. */
static struct stream *did_not_come(struct stream *s)
{
	struct stream *listener = s->listener;

	if (!listener->late || !s->id->qp) {
		listener->queued--;
		return s;
	}
	atomic_store(&s->err, ECONNRESET);
	atomic_store(&s->state, STREAM_FAILED);
	list_remove(&s->node);
	list_push_tail(&listener->accepted, &s->node);
	sock_wake(&listener->sock);
	return NULL;
}

/* What came before is in the completion queue; behind it, the receives flushed. */
static void connection_ends(struct stream *s)
{
	atomic_store(&s->broken, true);
	rdma_disconnect(s->id);
	sock_wake(&s->sock);
}

/* Who disconnects was connected: what said so was lost, and what it sent may be here. */
static bool came_and_went(const struct stream *s, enum rdma_cm_event_type type)
{
	return type == RDMA_CM_EVENT_DISCONNECTED && s->listener && s->listener->late && s->id->qp;
}

void stream_cm_event(struct rdma_cm_event *event)
{
	struct stream *s = event->id->context, *gone = NULL;
	struct rdma_cm_id *rejected = NULL;

	if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST) {
		rejected = connect_request(event);
	} else if (event->event == RDMA_CM_EVENT_TIMEWAIT_EXIT) {
		; /* of a queue pair that is not used again */
	} else if (atomic_load(&s->state) != STREAM_CONNECTING) {
		if (never_came(event->event))
			connection_ends(s);
	} else if (came_and_went(s, event->event)) {
		established(s, NULL);
		connection_ends(s);
	} else if (s->listener && never_came(event->event)) {
		gone = did_not_come(s);
	} else {
		connecting_event(s, event);
	}
	rdma_ack_cm_event(event);
	if (gone)
		stream_destroy(gone);
	if (rejected)
		rdma_destroy_id(rejected);
}
