/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The sockets of connections.
 *
 * A connection ends for many reasons (the host's end of it, a broken protocol, a keep-alive that
 * ran out, our own end) and always the same way: tcp_queue_kill() puts it into the dying list, and
 * the end of the transport's process() buries it: what waits is sent as far as the socket takes
 * it, the target is told, our direction is closed. Then it lingers until the host has closed its
 * own, or time is up. When it is over with that, and the last store operation is done, it is freed.
 * Those that linger may be many, and are looked at one by one only when something becomes of them.
 */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/errno_text.h"
#include "base/watched.h"
#include "nvmf/tcp/socket.h"
#include "nvmf/tcp/target.h"
#include "nvmf/transport/address.h"

/* --- sending ---------------------------------------------------------------------------------- */

static void watch(struct tcp_queue *q, int op)
{
	struct epoll_event ev = {.events = EPOLLIN | (q->full ? EPOLLOUT : 0),
				 .data.ptr = &q->watch};

	if (epoll_ctl(q->tt->epoll_fd, op, q->fd, &ev) != 0)
		tcp_queue_fail(q, "the connection cannot be watched: %s", errno_text(errno));
}

static void set_full(struct tcp_queue *q, bool full)
{
	if (q->full == full)
		return;
	q->full = full;
	watch(q, EPOLL_CTL_MOD);
}

static int send_out(struct tcp_queue *q)
{
	if (q->fd < 0 || q->closed)
		return 0;
	return q->tls ? tcp_socket_send_tls(q->fd, q->tls, &q->tx) : tcp_socket_send(q->fd, &q->tx);
}

void tcp_flush(struct tcp_queue *q)
{
	int error = send_out(q);

	list_remove(&q->sending);
	if (error && error != -EAGAIN) {
		q->closed = true; /* nothing more can be said */
		tcp_queue_fail(q, "sending to the host fails: %s", errno_text(-error));
	} else {
		set_full(q, error == -EAGAIN);
	}
}

void tcp_flush_all(struct tcp_target *tt)
{
	while (!list_empty(&tt->sending)) {
		struct tcp_queue *q =
			list_entry(list_pop_head(&tt->sending), struct tcp_queue, sending);

		if (!q->full) /* else epoll says when */
			tcp_flush(q);
	}
}

/* --- receiving -------------------------------------------------------------------------------- */

static void receive(struct tcp_queue *q)
{
	struct tcp_target *tt = q->tt;
	bool drained = false;
	size_t len;
	ssize_t n;

	for (size_t all = 0; q->state != TCP_QUEUE_DYING && !drained && all < TCP_TURN_BYTES;
	     all += (size_t)n) {
		n = tcp_socket_read(q->fd, q->tls ? NULL : &q->rx, tt->buffer,
				    q->cmds ? sizeof(tt->buffer) : TCP_YOUNG_BYTES, &len, &drained);
		if (n == -EAGAIN)
			return;
		if (n <= 0) {
			q->closed = true;
			if (n == 0 || n == -ECONNRESET) /* the host's own doing */
				tcp_queue_cut(q);
			else
				tcp_queue_fail(q, "the connection is lost: %s",
					       errno_text((int)-n));
			return;
		}
		if (!tcp_queue_wire(q, tt->buffer, len)) {
			tcp_hand(q);
			return;
		}
	}
}

static void be_over(struct tcp_queue *q)
{
	list_remove(&q->link);
	list_push_tail(&q->tt->over, &q->link);
}

/* The host's end is awaited: what it says before means nothing. */
static void drain(struct tcp_queue *q)
{
	ssize_t n = recv(q->fd, NULL, TCP_TURN_BYTES, MSG_DONTWAIT | MSG_TRUNC);

	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
		be_over(q);
}

static void on_ready(struct tcp_watch *w, uint32_t events)
{
	struct tcp_queue *q = container_of(w, struct tcp_queue, watch);

	if (q->torn_down) {
		drain(q);
		return;
	}
	if (q->state == TCP_QUEUE_DYING)
		return;
	if (events & EPOLLOUT)
		tcp_flush(q);
	if (events & ~(uint32_t)EPOLLOUT)
		receive(q);
}

void tcp_connected(struct tcp_listener *l, int fd)
{
	struct tcp_target *tt = l->tt;
	struct sockaddr_storage own = {0}, peer = {0};
	socklen_t own_len = sizeof(own), peer_len = sizeof(peer);
	char traddr[NVMF_TRADDR_LEN] = "", raddr[NVMF_PEER_LEN] = "";
	struct tcp_queue *q;
	uint8_t key[16];

	if (getsockname(fd, (struct sockaddr *)&own, &own_len) != 0 ||
	    getpeername(fd, (struct sockaddr *)&peer, &peer_len) != 0) { /* it is gone again */
		close(fd);
		return;
	}
	address_text((struct sockaddr *)&own, traddr, sizeof(traddr));
	address_text((struct sockaddr *)&peer, raddr, sizeof(raddr));
	share_key_of((struct sockaddr *)&peer, key);
	q = tt->shutting_down ? NULL : tcp_queue_create(tt, &l->port, fd, key, traddr, raddr);
	if (!q) {
		target_rejected(tt->group->target, raddr, "no resources");
		close(fd);
		return;
	}
	tcp_socket_tune(fd);
	if (strcmp(traddr, raddr) == 0)
		tcp_socket_near(fd);
	q->watch.ready = on_ready;
	watch(q, EPOLL_CTL_ADD);
	tcp_tear_down_dying(tt); /* what gave way to it */
}

/* --- from group to group -----------------------------------------------------------------------
 */

/* What its group had for it, a command, a page and a place among its host's, is given back here,
 * and taken where it arrives; what waits to be sent goes along, and so does its TLS, once hands are
 * shaken: of that nothing is anybody else's but the context, which stays until all are gone. */
void tcp_hand(struct tcp_queue *q)
{
	struct tcp_target *from = q->tt;

	if (q->fd >= 0)
		(void)epoll_ctl(from->epoll_fd, EPOLL_CTL_DEL, q->fd, NULL);
	timer_cancel(&from->timers, &q->timer);
	tcp_queue_part(q);
	q->tt = q->to;
	atomic_fetch_add(&q->tt->arriving, 1);
	target_queue_hand(&q->tq, q->tt->group);
}

void tcp_arrived(struct tcp_queue *q)
{
	struct tcp_target *tt = q->tt;
	bool room = tcp_queue_join(q, q->tq.peer);

	tt->now_ns = max_of(tt->now_ns, tt->group->now_ns);
	list_push_tail(&tt->queues, &q->link);
	target_queue_init(&q->tq, tt->group->target, tt->now_ns);
	atomic_fetch_sub(&tt->arriving, 1);
	if (q->fd >= 0)
		watch(q, EPOLL_CTL_ADD);
	if (!room) {
		q->closed = true; /* it is nobody's share: its descriptor is not kept for it */
		tcp_queue_fail(q, "no resources");
	} else if (tt->shutting_down) {
		tcp_queue_kill(q);
	} else {
		if (q->tx.bytes)
			list_push_tail(&tt->sending, &q->sending);
		tcp_queue_go_on(q);
	}
}

/* --- ends ------------------------------------------------------------------------------------- */

static void tear_down(struct tcp_queue *q)
{
	tcp_flush(q);
	if (q->tls) {
		tcp_tls_close(q->tls);
		tcp_flush(q);
	}
	q->torn_down = true;
	tcp_queue_abandon(q);
	if (q->fd < 0 || q->closed) {
		be_over(q);
		return;
	}
	set_full(q, false);
	if (shutdown(q->fd, SHUT_WR) != 0 || q->tt->shutting_down) {
		be_over(q);
		return;
	}
	q->linger_ns = q->tt->now_ns + TCP_LINGER_NS;
	list_remove(&q->link);
	list_push_tail(&q->tt->lingering, &q->link);
}

/* Tearing one down may kill others: a controller's end is that of all its queues. */
void tcp_tear_down_dying(struct tcp_target *tt)
{
	while (!list_empty(&tt->dying))
		tear_down(list_entry(tt->dying.next, struct tcp_queue, link));
}

void tcp_bury_dying(struct tcp_target *tt)
{
	tcp_tear_down_dying(tt);
	list_for_each(q, &tt->lingering, struct tcp_queue, link) {
		if (q->linger_ns > tt->now_ns)
			break;
		be_over(q);
	}
	list_for_each(q, &tt->over, struct tcp_queue, link) {
		if (q->fd >= 0)
			watched_close(tt->epoll_fd, q->fd);
		q->fd = -1;
		if (q->tq.live == 0)
			tcp_queue_free(q);
	}
}

uint64_t tcp_linger_deadline(const struct tcp_target *tt)
{
	list_for_each(q, &tt->over, const struct tcp_queue, link)
		if (q->tq.live == 0) /* a store was done, between two calls of process */
			return 0;
	if (list_empty(&tt->lingering))
		return DEADLINE_NEVER;
	return list_entry(tt->lingering.next, const struct tcp_queue, link)->linger_ns;
}
