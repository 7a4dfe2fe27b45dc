/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Where the target listens, and where it could. */
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/errno_text.h"
#include "base/handed.h"
#include "base/log.h"
#include "base/watched.h"
#include "nvmf/tcp/target.h"
#include "nvmf/transport/address.h"

#define BACKLOG	     128
#define ACCEPT_BATCH 16
/* When there were no descriptors left, how long to wait for some. */
#define RESUME_NS (100 * NSEC_PER_MSEC)
/* That is told no more often than so: what is missing stays missing, and hosts ask again. */
#define TELL_NS (60 * NSEC_PER_SEC)

void tcp_listeners_enable(struct tcp_target *tt, bool on)
{
	list_for_each(l, &tt->listeners, struct tcp_listener, link) {
		struct epoll_event ev = {.events = on ? EPOLLIN : 0, .data.ptr = &l->watch};

		if (l->fd >= 0)
			(void)epoll_ctl(tt->epoll_fd, EPOLL_CTL_MOD, l->fd, &ev);
	}
	tt->resume_ns = on ? DEADLINE_NEVER : tt->now_ns + RESUME_NS;
}

static void starve(struct tcp_target *tt, int error)
{
	tcp_listeners_enable(tt, false);
	if (tt->now_ns < tt->tell_ns)
		return;
	tt->tell_ns = tt->now_ns + TELL_NS;
	log_warn("nvmf", "a connection is not taken: %s", errno_text(error));
}

static void on_ready(struct tcp_watch *w, uint32_t events)
{
	struct tcp_listener *l = container_of(w, struct tcp_listener, watch);
	int fd;

	(void)events;
	/* Not all at once: they may come as fast as they are taken. */
	for (int i = 0; i < ACCEPT_BATCH; i++) {
		fd = accept4(l->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (fd >= 0) {
			tcp_connected(l, fd);
			continue;
		}
		if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
			starve(l->tt, errno);
		return;
	}
}

static int listen_error(int error, const struct tcp_listener *l, char *why, size_t room)
{
	const char *at = l->port.wildcard ? "" : l->port.traddr, *port = l->port.trsvcid;
	bool v6 = strchr(at, ':');

	if (error == EADDRINUSE)
		snprintf(why, room,
			 "port %s%s%s is in use; another target is running there, or choose a port "
			 "with --listen tcp://%s%s%s:PORT",
			 port, *at ? " of " : "", at, v6 ? "[" : "", at, v6 ? "]" : "");
	else if (error == EADDRNOTAVAIL)
		snprintf(why, room, "no interface of this machine has the address %s",
			 l->port.traddr);
	else if (error == EACCES && atoi(port) < 1024)
		snprintf(why, room,
			 "cannot listen on %s port %s: ports below 1024 take CAP_NET_BIND_SERVICE, "
			 "or a smaller net.ipv4.ip_unprivileged_port_start; 4420 does not",
			 l->port.traddr, port);
	else if (error == EPROTOTYPE)
		snprintf(why, room,
			 "the socket of port %s that was handed over takes IPv6 and IPv4; have one "
			 "for each, with BindIPv6Only=ipv6-only for the first",
			 port);
	else
		snprintf(why, room, "cannot listen on %s port %s: %s", l->port.traddr, port,
			 errno_text(error));
	return -error;
}

void tcp_listener_close(struct tcp_listener *l)
{
	watched_close(l->tt->epoll_fd, l->fd);
	l->fd = -1;
}

/* A socket that is bound already. */
static int adopt(struct tcp_listener *l, struct epoll_event *ev)
{
	int error;

	if (listen(l->fd, BACKLOG) == 0 &&
	    epoll_ctl(l->tt->epoll_fd, EPOLL_CTL_ADD, l->fd, ev) == 0)
		return 0;
	error = errno;
	tcp_listener_close(l);
	return error;
}

static int open_listener(struct tcp_listener *l, const struct sockaddr *sa)
{
	bool v6 = sa->sa_family == AF_INET6;
	socklen_t len = v6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
	struct epoll_event ev = {.events = EPOLLIN, .data.ptr = &l->watch};
	int on = 1, error;

	l->fd = handed_socket(sa);
	if (l->fd >= 0)
		return adopt(l, &ev);
	if (l->fd == -EPROTOTYPE)
		return EPROTOTYPE;
	l->fd = socket(sa->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (l->fd < 0)
		return errno;
	(void)setsockopt(l->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (v6) /* the two families have listeners of their own */
		(void)setsockopt(l->fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
	if (bind(l->fd, sa, len) == 0)
		return adopt(l, &ev);
	error = errno;
	close(l->fd);
	l->fd = -1;
	return error;
}

/* Closed ones stay until nothing that came by them is left. */
static void free_closed(struct tcp_target *tt)
{
	list_for_each(l, &tt->listeners, struct tcp_listener, link)
		if (l->fd < 0 && !l->port.connections) {
			list_remove(&l->link);
			free(l);
		}
}

static int listen_on(void *ctx, const struct sockaddr *sa, bool wildcard, const char *port,
		     char *why, size_t room)
{
	struct tcp_target *tt = ctx;
	struct tcp_listener *l;
	int error;

	free_closed(tt);
	l = malloc(sizeof(*l));
	if (!l) {
		snprintf(why, room, "%s", errno_text(ENOMEM));
		return -ENOMEM;
	}
	*l = (struct tcp_listener){.watch.ready = on_ready, .tt = tt};
	address_port(&l->port, &tcp_target_ops, sa, wildcard, port);
	error = open_listener(l, sa);
	if (error) {
		error = listen_error(error, l, why, room);
		free(l);
		return error;
	}
	list_push_tail(&tt->listeners, &l->link);
	target_port_add(tt->group->target, &l->port);
	return 0;
}

void tcp_listeners_close(struct tcp_target *tt)
{
	list_for_each(l, &tt->listeners, struct tcp_listener, link) {
		if (l->fd < 0)
			continue;
		target_port_remove(tt->group->target, &l->port);
		tcp_listener_close(l);
	}
}

void tcp_listeners_free(struct tcp_target *tt)
{
	list_for_each(l, &tt->listeners, struct tcp_listener, link) {
		if (l->fd >= 0)
			close(l->fd);
		free(l);
	}
}

void tcp_unlisten(struct transport_target *t, struct target_port *port)
{
	struct tcp_target *tt = tcp_target_of(t);
	struct tcp_listener *l = container_of(port, struct tcp_listener, port);

	target_port_remove(tt->group->target, port);
	tcp_listener_close(l);
	list_for_each(q, &tt->queues, struct tcp_queue, link)
		if (q->tq.port == port)
			tcp_queue_fail(q, "its port is closed");
}

int tcp_listen_on(struct transport_target *t, const char *address, const char *port, char *why,
		  size_t room)
{
	return address_listen(address, port, listen_on, tcp_target_of(t), why, room);
}

static bool any_address(const struct sockaddr *sa)
{
	(void)sa;
	return true;
}

int tcp_addresses(int family, void (*show)(void *ctx, const char *address, bool loopback),
		  void *ctx)
{
	return address_each(family, any_address, show, ctx);
}
