/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Connections of the host's queues: connecting, watching, losing. */
#include "nvmf/tcp/host.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/errno_text.h"
#include "base/heap.h" /* DEADLINE_NEVER */
#include "base/time.h"
#include "base/watched.h"
#include "nvmf/tcp/socket.h"
#include "nvmf/transport/address.h"

#define EVENT_BATCH 64
/* Who polls has all sockets looked at now and then; else only those that owe an answer. */
#define LOOK_NS NSEC_PER_MSEC

/* --- connecting ------------------------------------------------------------------------------- */

static void queue_close(struct tcp_host_queue *q)
{
	if (q->state == TCP_HOST_CLOSED)
		return;
	q->state = TCP_HOST_CLOSED;
	q->generation++;
	tcp_host_queue_teardown(q);
	if (q->fd >= 0)
		watched_close(q->t->epoll_fd, q->fd);
	q->fd = -1;
}

static void close_op(void *t, uint16_t qid)
{
	queue_close(&tcp_host_of(t)->queues[qid]);
}

static void say_why(struct tcp_host *t, int error)
{
	if (error == ECONNREFUSED)
		tcp_host_say(t,
			     "cannot connect to %s:%s: refused; does a target listen there for "
			     "NVMe/TCP?",
			     t->host, t->port);
	else if (t->interface[0] && (error == ENODEV || error == EPERM))
		tcp_host_say(t, "cannot connect to %s:%s by interface '%s': %s", t->host, t->port,
			     t->interface,
			     error == ENODEV ? "there is none of that name; `ip link` shows them"
					     : "the kernel wants CAP_NET_RAW for that");
	else if (t->source[0] && error == EADDRNOTAVAIL)
		tcp_host_say(t,
			     "cannot connect to %s:%s from %s: no interface of this machine has "
			     "that address",
			     t->host, t->port, t->source);
	else
		tcp_host_say(t, "cannot connect to %s:%s: %s", t->host, t->port, errno_text(error));
}

/* -errno. */
static int try_address(struct tcp_host_queue *q)
{
	struct tcp_host *t = q->t;
	const struct addrinfo *a = t->address;

	q->fd = socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	q->events = 0;
	if (q->fd < 0)
		return -errno;
	tcp_socket_tune(q->fd);
	if (address_is_here(a->ai_addr))
		tcp_socket_near_host(q->fd);
	if (t->interface[0] && setsockopt(q->fd, SOL_SOCKET, SO_BINDTODEVICE, t->interface,
					  (socklen_t)strlen(t->interface)) != 0)
		return -errno;
	if (t->config.tos)
		tcp_socket_tos(q->fd, a->ai_family, t->config.tos);
	if (t->source[0] && bind(q->fd, (struct sockaddr *)&t->source_address,
				 a->ai_family == AF_INET6 ? sizeof(struct sockaddr_in6)
							  : sizeof(struct sockaddr_in)) != 0)
		return -errno;
	if (connect(q->fd, a->ai_addr, a->ai_addrlen) != 0 && errno != EINPROGRESS)
		return -errno;
	tcp_host_queue_watch(q, EPOLLOUT);
	return 0;
}

/* Begins with the present address; where that cannot even be begun, with one of the next. */
static int begin_connect(struct tcp_host_queue *q)
{
	struct tcp_host *t = q->t;
	int error;

	for (;;) {
		q->state = TCP_HOST_CONNECTING;
		error = tcp_host_queue_setup(q);
		if (!error)
			error = try_address(q);
		if (!error)
			return 0;
		say_why(t, -error);
		queue_close(q);
		if (q->qid || !t->address->ai_next)
			return -EIO;
		t->address = t->address->ai_next;
	}
}

static int open_op(void *transport, uint16_t qid, uint16_t entries, uint16_t cntlid)
{
	struct tcp_host *t = tcp_host_of(transport);
	struct tcp_host_queue *q = &t->queues[qid];

	(void)cntlid; /* Connect has it */
	assert(q->state == TCP_HOST_CLOSED);
	if (qid == 0)
		t->address = t->addresses;
	q->entries = entries;
	return begin_connect(q);
}

static int secure_op(void *transport, const struct auth_psk *psk)
{
	struct tcp_host *t = tcp_host_of(transport);

	if (psk && !t->tls)
		t->tls = tcp_tls_context_create(false);
	if (psk && !t->tls)
		return -EOPNOTSUPP;
	auth_wipe(&t->psk, sizeof(t->psk));
	if (psk)
		t->psk = *psk;
	t->generated = psk;
	return 0;
}

static const struct host_transport queue_ops = {
	.open = open_op,
	.close = close_op,
	.submit = tcp_host_queue_submit,
	.release = tcp_host_queue_release,
	.secure = secure_op,
	.no_sq_flow = true,
};

/* The attempt has ended one way or the other. */
static void connected(struct tcp_host_queue *q)
{
	struct tcp_host *t = q->t;
	socklen_t len = sizeof(int);
	int error = 0;

	if (getsockopt(q->fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0)
		error = errno;
	if (!error) {
		tcp_host_queue_begin(q);
		return;
	}
	say_why(t, error);
	if (q->qid == 0 && t->address->ai_next) {
		queue_close(q);
		t->address = t->address->ai_next;
		if (begin_connect(q) == 0)
			return;
	}
	host_queue_lost(t->h, q->qid, NULL, t->now_ns);
}

/* --- the caller's ----------------------------------------------------------------------------- */

static void op_attach(struct transport_host *t, struct host *h)
{
	tcp_host_of(t)->h = h;
}

static int op_add_memory(struct transport_host *t, void *addr, size_t len)
{
	(void)t; /* a socket takes any */
	(void)addr;
	(void)len;
	return 0;
}

static int op_remove_memory(struct transport_host *t, void *addr)
{
	(void)t;
	(void)addr;
	return 0;
}

static unsigned int op_pollfds(const struct transport_host *t,
			       struct pollfd fds[TRANSPORT_HOST_FDS])
{
	fds[0] = (struct pollfd){.fd = tcp_host_of(t)->epoll_fd, .events = POLLIN};
	return 1;
}

static void op_polled(struct transport_host *t, const struct pollfd *fds, unsigned int n)
{
	if (n && fds[0].revents)
		tcp_host_of(t)->notified = true;
}

static void on_event(struct tcp_host_queue *q, uint32_t events)
{
	const uint32_t generation = q->generation;

	if (q->state == TCP_HOST_CONNECTING) {
		connected(q);
		return;
	}
	if (events & EPOLLOUT)
		tcp_host_queue_flush(q);
	if (events & ~(uint32_t)EPOLLOUT && q->generation == generation)
		tcp_host_queue_receive(q);
}

static bool look_at_all(struct tcp_host *t)
{
	struct epoll_event ev[EVENT_BATCH];
	int n = epoll_wait(t->epoll_fd, ev, EVENT_BATCH, 0);

	t->looked_ns = t->now_ns;
	t->notified = false;
	for (int i = 0; i < n; i++) {
		struct tcp_host_queue *q = &t->queues[ev[i].data.u32];

		if (q->state != TCP_HOST_CLOSED) /* since, by another's end */
			on_event(q, ev[i].events);
	}
	return n > 0;
}

static bool look_at_busy(struct tcp_host *t)
{
	bool any = false;

	for (uint16_t i = 1; i <= t->config.io_queues; i++) {
		struct tcp_host_queue *q = &t->queues[i];

		if (q->full) /* epoll says when it takes more */
			return look_at_all(t) || any;
		if (q->state == TCP_HOST_UP && q->outstanding)
			any |= tcp_host_queue_receive(q);
	}
	return any;
}

static bool op_process(struct transport_host *transport, uint64_t now_ns, bool sleepy)
{
	struct tcp_host *t = tcp_host_of(transport);
	bool any;

	t->now_ns = now_ns;
	t->batching = true;
	if (sleepy || t->notified || now_ns - t->looked_ns >= LOOK_NS)
		any = look_at_all(t);
	else
		any = look_at_busy(t);
	t->batching = false;
	for (uint16_t i = 0; i <= t->config.io_queues; i++) {
		struct tcp_host_queue *q = &t->queues[i];

		if (q->state == TCP_HOST_UP && q->sending && !q->full)
			tcp_host_queue_flush(q);
	}
	return any;
}

static uint64_t op_next_deadline(const struct transport_host *t)
{
	(void)t;
	return DEADLINE_NEVER;
}

static const char *op_error(const struct transport_host *t)
{
	return tcp_host_of(t)->error;
}

static void op_info(const struct transport_host *t, struct transport_host_info *ret)
{
	(void)t;
	*ret = (struct transport_host_info){0};
}

static void op_destroy(struct transport_host *transport)
{
	struct tcp_host *t = tcp_host_of(transport);

	for (uint16_t i = 0; t->queues && i <= t->config.io_queues; i++)
		queue_close(&t->queues[i]);
	if (t->epoll_fd >= 0)
		close(t->epoll_fd);
	if (t->addresses)
		freeaddrinfo(t->addresses);
	tcp_tls_context_destroy(t->tls);
	auth_wipe(&t->psk, sizeof(t->psk));
	free(t->queues);
	free(t);
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

struct transport_host *tcp_host_create(const struct transport_host_config *config, char *why,
				       size_t room)
{
	struct tcp_host *t = calloc(1, sizeof(*t));

	if (!t) {
		snprintf(why, room, "out of memory");
		return NULL;
	}
	t->transport.ops = &host_ops;
	t->config = *config;
	/* As it stands before a port, for messages. */
	snprintf(t->host, sizeof(t->host), strchr(config->host, ':') ? "[%s]" : "%s", config->host);
	snprintf(t->port, sizeof(t->port), "%s", config->port);
	snprintf(t->source, sizeof(t->source), "%s", config->source ? config->source : "");
	snprintf(t->interface, sizeof(t->interface), "%s",
		 config->interface ? config->interface : "");
	t->epoll_fd = -1;
	if (address_of_target(config, &t->source_address, &t->addresses, "ip address", why, room))
		goto fail;
	if (config->tls) {
		t->psk = *config->tls;
		t->config.tls = &t->psk;
		t->tls = tcp_tls_context_create(false);
		if (!t->tls) {
			snprintf(why, room,
				 "TLS cannot be used: out of memory, or OpenSSL lacks "
				 "TLS 1.3");
			goto fail;
		}
	}
	t->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	t->queues = calloc(1u + config->io_queues, sizeof(*t->queues));
	if (t->epoll_fd < 0 || !t->queues) {
		snprintf(why, room, "cannot prepare for connections: %s", errno_text(errno));
		goto fail;
	}
	for (uint16_t i = 0; i <= config->io_queues; i++) {
		t->queues[i].t = t;
		t->queues[i].qid = i;
		t->queues[i].fd = -1;
	}
	return &t->transport;
fail:
	op_destroy(&t->transport);
	return NULL;
}
