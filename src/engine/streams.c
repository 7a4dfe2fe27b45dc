/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "engine/streams.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/heap.h"
#include "base/list.h"
#include "base/units.h"
#include "port/tcp/tcp_stream.h"

#define IN_MAX	   (256u << 10) /* of one stream at a time */
#define BATCH_MAX  (64u << 10)
#define ROUND_MAX  (1u << 20) /* sent within one hold of the caller's lock */
#define EVENTS_MAX 32
#define ENDING_NS  (5 * NSEC_PER_SEC)
#define LINGER_NS  (30 * NSEC_PER_SEC)
/* Linux's siw tells its connection manager that the peer has closed before that the connection
 * stands, if both come at once, and the kernel stops at that (docs/siw.md). So who has heard
 * nothing of its peer does not close earlier. */
#define GENTLE_NS (50 * NSEC_PER_MSEC)
/* And it calls a SEND failed that was sent and has been answered, if the peer closes before the
 * call that sends has come back to it (same place). */
#define CALM_NS	      (10 * NSEC_PER_MSEC) /* after the peer's last bytes */
#define BRIEF_MAX     (16 << 10)
#define ASK_ALL_EVERY 16 /* looks */
#define LOOK_EVERY    64 /* batches: what a segment holds may change */

struct stream {
	struct streams *set;
	struct list node;
	struct list ending_node;
	uint64_t gentle_ns; /* it is not shut before, unless the peer has shut its side */
	uint64_t ends_ns;   /* of one in the set's row of those that end: it is shut, or closed */
	uint64_t latest_ns; /* of one without a queue pair: it is closed then in any case */
	struct rnic_qp *qp; /* NULL: it is no more, and what it has sent still goes out */
	struct tcp_stream tcp;
	unsigned int batches;
	bool shut, heard_end; /* ours, and the peer's */
	bool asks;	      /* to be told when the socket takes more */
	bool hopeless;	      /* by its deadline, if nothing moves until then */
	int error;
};

struct streams {
	struct port port;
	struct port_counters counters;
	struct rnic *rnic; /* NULL: not told yet */
	streams_ended *ended;
	void *ctx;
	struct list all, ending; /* these in the order of their deadlines */
	unsigned int lingering;	 /* streams without a queue pair */
	struct stream *recent;	 /* of which something brief came last */
	unsigned int looks;	 /* at it alone */
	uint8_t *in;
	struct iovec iov[FPDU_BATCH_IOVS];
	uint8_t room[16 * FPDU_BATCH_ROOM];
};

static const struct port_ops ops;

/* ---- life ----------------------------------------------------------------------------------- */

int streams_create(struct streams **ret, streams_ended *ended, void *ctx)
{
	struct streams *s = calloc(1, sizeof(*s));
	int rc = -ENOMEM;

	if (!s)
		return rc;
	s->ended = ended;
	s->ctx = ctx;
	list_init(&s->all);
	list_init(&s->ending);
	s->in = malloc(IN_MAX);
	s->port = (struct port){.ops = &ops, .fd = -1, .counters = &s->counters};
	if (s->in)
		s->port.fd = epoll_create1(EPOLL_CLOEXEC);
	if (s->in && s->port.fd < 0)
		rc = -errno;
	if (s->port.fd < 0) {
		free(s->in);
		free(s);
		return rc;
	}
	*ret = s;
	return 0;
}

/* Before it is closed: a child that was forked has a copy of the descriptor, be it for a moment,
 * and until that is closed, too, the set would go on telling of it. */
static void unwatch(const struct stream *t)
{
	if (t->tcp.fd >= 0)
		(void)epoll_ctl(t->set->port.fd, EPOLL_CTL_DEL, t->tcp.fd, NULL);
}

static void forget(struct stream *t)
{
	t->set->lingering -= !t->qp;
	list_remove(&t->node);
	list_remove(&t->ending_node);
	if (t->set->recent == t)
		t->set->recent = NULL;
	unwatch(t);
	tcp_stream_break(&t->tcp);
	free(t);
}

void streams_destroy(struct streams *s)
{
	if (!s)
		return;
	while (!list_empty(&s->all))
		forget(list_entry(s->all.next, struct stream, node));
	if (s->port.fd >= 0)
		close(s->port.fd);
	free(s->in);
	free(s);
}

struct port *streams_port(struct streams *s)
{
	return &s->port;
}

void streams_serve(struct streams *s, struct rnic *rnic)
{
	s->rnic = rnic;
}

static int watch(struct stream *t, int op)
{
	struct epoll_event e = {
		.events = (t->heard_end ? 0u : EPOLLIN) | (t->asks ? EPOLLOUT : 0u),
		.data.ptr = t,
	};

	return epoll_ctl(t->set->port.fd, op, t->tcp.fd, &e) ? -errno : 0;
}

/* ---- the end -------------------------------------------------------------------------------- */

static void close_socket(struct stream *t, bool at_once)
{
	unwatch(t);
	if (at_once)
		tcp_stream_break(&t->tcp);
	else
		tcp_stream_close(&t->tcp);
	list_remove(&t->ending_node);
	if (t->qp)
		t->set->ended(t->set->ctx, t->qp, t->error);
	else
		forget(t);
}

static enum rnic_stream_fate fate(const struct stream *t)
{
	return t->qp ? rnic_stream_fate(t->qp) : RNIC_STREAM_ENDS;
}

static void ends_at(struct stream *t, uint64_t ns)
{
	struct list *at = &t->set->ending;

	list_remove(&t->ending_node);
	t->hopeless = false;
	t->ends_ns = ns;
	while (at->prev != &t->set->ending &&
	       list_entry(at->prev, struct stream, ending_node)->ends_ns > ns)
		at = at->prev;
	list_insert_before(at, &t->ending_node);
}

/* It is to end, and cannot yet: a peer that takes nothing, or answers nothing, has so long. */
static void hopes(struct stream *t, uint64_t now)
{
	if (!list_empty(&t->ending_node))
		return;
	ends_at(t, t->qp ? now + ENDING_NS : min_of(now + ENDING_NS, t->latest_ns));
	t->hopeless = true;
}

static void moves(struct stream *t)
{
	if (t->hopeless)
		list_remove(&t->ending_node);
	t->hopeless = false;
}

/* After anything that may have changed what is to become of it. */
static void settle(struct stream *t, uint64_t now)
{
	bool full = tcp_stream_is_full(&t->tcp);

	if (t->tcp.fd < 0)
		return;
	if (t->error) {
		close_socket(t, true);
		return;
	}
	switch (fate(t)) {
	case RNIC_STREAM_STAYS:
		break;
	case RNIC_STREAM_DRAINS:
		hopes(t, now);
		break;
	case RNIC_STREAM_BREAKS:
		close_socket(t, true);
		return;
	case RNIC_STREAM_ENDS:
		if (full) {
			hopes(t, now);
		} else if (!t->shut && now < t->gentle_ns) {
			ends_at(t, t->gentle_ns);
		} else if (!t->shut) {
			tcp_stream_shut(&t->tcp);
			t->shut = true;
			ends_at(t, now + ENDING_NS);
		}
	}
	if (t->shut && t->heard_end) { /* whatever there were to say */
		close_socket(t, false);
		return;
	}
	if (full != t->asks) {
		t->asks = full;
		(void)watch(t, EPOLL_CTL_MOD);
	}
}

static uint64_t next_deadline(const struct port *port)
{
	const struct streams *s = container_of(port, struct streams, port);

	return list_empty(&s->ending)
		       ? DEADLINE_NEVER
		       : list_entry(s->ending.next, struct stream, ending_node)->ends_ns;
}

static void tick(struct streams *s, uint64_t now)
{
	while (next_deadline(&s->port) <= now) {
		struct stream *t = list_entry(s->ending.next, struct stream, ending_node);

		if (!t->shut && !t->hopeless) {
			list_remove(&t->ending_node);
			settle(t, now);
			continue;
		}
		if (t->hopeless)
			t->error = -ETIMEDOUT;
		if (t->qp)
			rnic_stream_closed(t->qp, t->hopeless, now);
		close_socket(t, true);
	}
}

static void lost(struct stream *t, int error, uint64_t now)
{
	t->error = error;
	if (t->qp)
		rnic_stream_closed(t->qp, true, now);
}

void streams_drop(struct rnic_qp *qp, uint64_t now)
{
	struct stream *t = rnic_stream_owner(qp);

	if (!t)
		return;
	rnic_stream_disown(qp);
	if (t->tcp.fd < 0 || t->error || rnic_stream_fate(qp) == RNIC_STREAM_BREAKS) {
		forget(t);
		return;
	}
	t->qp = NULL;
	t->latest_ns = now + LINGER_NS;
	t->set->lingering++;
	settle(t, now);
}

bool streams_linger(const struct streams *s)
{
	return s->lingering;
}

/* ---- receiving ------------------------------------------------------------------------------ */

/* True: something came. */
static bool receive(struct stream *t, uint64_t now)
{
	ssize_t got = tcp_stream_receive(&t->tcp, t->set->in, IN_MAX);

	t->set->recent = got >= 0 && got < BRIEF_MAX ? t : NULL;
	if (got > 0) {
		if (list_empty(&t->ending_node))
			t->gentle_ns = now + CALM_NS;
		/* It is an answer that is waited for, perhaps. */
		if (fate(t) == RNIC_STREAM_DRAINS && !tcp_stream_is_full(&t->tcp))
			moves(t);
		/* In ERR it is thrown away: unread it would make an RST of our FIN. */
		if (t->qp)
			rnic_stream_rx(t->qp, t->set->in, (size_t)got, now);
	} else if (got == -EPIPE) {
		t->heard_end = true;
		t->gentle_ns = 0;
		(void)watch(t, EPOLL_CTL_MOD);
		if (t->qp)
			rnic_stream_closed(t->qp, false, now);
	} else if (got < 0) {
		lost(t, (int)got, now);
	}
	return got;
}

/* It could not be sent. What the peer had sent before it went counts. */
static void not_sent(struct stream *t, int error, uint64_t now)
{
	while (!t->error && !t->heard_end && receive(t, now))
		;
	if (!t->error)
		lost(t, error, now);
}

/* The one that something brief came of last is asked itself: that saves who polls a call. */
static int look(struct streams *s, uint64_t now)
{
	struct stream *t = s->recent;

	if (!t || ++s->looks % ASK_ALL_EVERY == 0 || t->tcp.fd < 0 || t->heard_end || t->asks)
		return -EAGAIN;
	if (!receive(t, now))
		return t->node.next == t->node.prev ? 0 : -EAGAIN;
	settle(t, now);
	return 1;
}

static int look_at_all(struct streams *s, uint64_t now)
{
	struct epoll_event e[EVENTS_MAX];
	int n = look(s, now);

	if (n >= 0)
		return n;
	n = (int)syscall(SYS_epoll_pwait, s->port.fd, e, EVENTS_MAX, 0, NULL, 0);
	if (n < 0)
		return errno == EINTR ? 0 : -errno;
	for (int i = 0; i < n; i++) {
		struct stream *t = e[i].data.ptr;

		if (e[i].events & EPOLLOUT) {
			int rc = tcp_stream_flush(&t->tcp);

			moves(t);
			if (rc)
				not_sent(t, rc, now);
			else if (t->qp && !tcp_stream_is_full(&t->tcp))
				rnic_stream_wake(t->qp);
		}
		if (!t->error && (e[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
			(void)receive(t, now);
		settle(t, now);
	}
	return n;
}

/* Who was stopped for a while looks at what has come meanwhile before it says that nothing has. */
static int rx(struct port *port, uint64_t now, port_take *take, void *ctx)
{
	struct streams *s = container_of(port, struct streams, port);
	int n;

	(void)take, (void)ctx;
	if (s->port.fd < 0)
		return 0;
	n = look_at_all(s, now);
	tick(s, now);
	return n;
}

/* ---- sending -------------------------------------------------------------------------------- */

/* One batch of a stream. */
static size_t send_some(struct stream *t, uint64_t now)
{
	struct streams *s = t->set;
	struct fpdu_batch b = {
		.iov = s->iov,
		.iovs_max = FPDU_BATCH_IOVS,
		.room = s->room,
		.room_max = sizeof(s->room),
		.copies = s->in, /* of which nothing is being taken now */
		.copies_max = IN_MAX,
	};
	int rc;

	(void)rnic_stream_tx(t->qp, &b, BATCH_MAX, now);
	if (b.bytes)
		moves(t);
	s->counters.tx_batches += b.iovs != 0;
	rc = b.iovs ? tcp_stream_send(&t->tcp, b.iov, b.iovs) : 0;
	if (rc)
		not_sent(t, rc, now);
	else if (++t->batches % LOOK_EVERY == 0)
		rnic_stream_set_emss(t->qp, tcp_stream_emss(&t->tcp));
	settle(t, now);
	return b.bytes;
}

static bool push(struct port *port, uint64_t now)
{
	struct streams *s = container_of(port, struct streams, port);
	struct rnic_qp *qp;

	if (!s->rnic)
		return false;
	for (size_t sent = 0; sent < ROUND_MAX;) {
		struct stream *t;

		qp = rnic_stream_next(s->rnic);
		if (!qp)
			return false;
		t = rnic_stream_owner(qp);
		/* One whose socket is full has its turn when that takes more. One that is shut has
		 * none: a request that crossed our end stays without an answer, and what was sent
		 * before gets there. */
		if (t && (t->shut || tcp_stream_is_full(&t->tcp)))
			settle(t, now);
		else if (t && t->tcp.fd >= 0)
			sent += send_some(t, now);
	}
	return rnic_stream_pending(s->rnic);
}

static bool pushes(const struct port *port)
{
	const struct streams *s = container_of(port, struct streams, port);

	return s->rnic && rnic_stream_pending(s->rnic);
}

/* ---- the beginning -------------------------------------------------------------------------- */

int streams_add(struct streams *s, struct rnic_qp *qp, int fd, const struct rnic_stream_init *init,
		const void *early, size_t early_len, uint64_t now)
{
	struct stream *t = calloc(1, sizeof(*t));
	struct rnic_stream_init mine = *init;
	int rc;

	if (!t)
		return -ENOMEM;
	list_init(&t->ending_node);
	t->set = s;
	t->qp = qp;
	t->gentle_ns = now + GENTLE_NS;
	tcp_stream_init(&t->tcp, fd);
	mine.owner = t;
	mine.emss = tcp_stream_emss(&t->tcp);
	rc = watch(t, EPOLL_CTL_ADD);
	if (!rc)
		rc = rnic_stream_begin(qp, &mine, now);
	if (rc) {
		(void)epoll_ctl(s->port.fd, EPOLL_CTL_DEL, fd, NULL);
		free(t);
		return rc;
	}
	list_push_tail(&s->all, &t->node);
	if (early_len)
		rnic_stream_rx(qp, early, early_len, now);
	return 0;
}

/* ---- the port ------------------------------------------------------------------------------- */

static size_t tx(struct port *port, const struct packet_tx *pkts, size_t n,
		 struct packet_sent *ret_sent)
{
	(void)port, (void)pkts, (void)n, (void)ret_sent;
	return 0;
}

static bool reaches(const struct port *port, const struct flow *f)
{
	(void)port, (void)f;
	return false;
}

/* The parent's connections stay the parent's: only the copies of their descriptors go. */
static void forked(struct port *port)
{
	struct streams *s = container_of(port, struct streams, port);

	list_for_each(t, &s->all, struct stream, node)
		tcp_stream_close(&t->tcp);
	if (s->port.fd >= 0)
		close(s->port.fd);
	s->port.fd = -1;
}

static void destroy(struct port *port)
{
	streams_destroy(container_of(port, struct streams, port));
}

static const struct port_ops ops = {
	.rx = rx,
	.tx = tx,
	.reaches = reaches,
	.push = push,
	.pushes = pushes,
	.next_deadline = next_deadline,
	.forked = forked,
	.destroy = destroy,
};
