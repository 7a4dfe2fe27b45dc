/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Listeners: who calls them is heard, and waits with its request until somebody takes it. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/kernel_socket.h"
#include "base/time.h"
#include "iwcm/iwcm_priv.h"

#define ACCEPTS 64 /* before others have their turn */
#define POOR_NS (100 * NSEC_PER_MSEC)

int iwcm_bind(const struct sockaddr *addr, socklen_t len, bool ipv6_only, int *ret_fd,
	      uint16_t *ret_port)
{
	struct sockaddr_storage got;
	socklen_t got_len = sizeof(got);
	int one = 1, only = ipv6_only, rc = 0;
	int fd = kernel_socket(addr->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (addr->sa_family == AF_INET6)
		(void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &only, sizeof(only));
	if (bind(fd, addr, len) || getsockname(fd, (struct sockaddr *)&got, &got_len))
		rc = -errno;
	if (rc) {
		kernel_close(fd);
		return rc;
	}
	*ret_fd = fd;
	/* At the same place in both families. */
	*ret_port = ntohs(((struct sockaddr_in *)(void *)&got)->sin_port);
	return 0;
}

int iwcm_listen(int fd, uint32_t id, int backlog, struct iwcm_listener **ret)
{
	struct iwcm_listener *n = calloc(1, sizeof(*n));
	int rc;

	if (!n)
		return -ENOMEM;
	list_init(&n->s.node);
	list_init(&n->hearing);
	list_init(&n->requests);
	n->s.fd = fd;
	n->s.listens = true;
	n->id = id;
	n->backlog = backlog > 0 && backlog < IWCM_BACKLOG_MAX ? (unsigned int)backlog
							       : IWCM_BACKLOG_MAX;
	iwcm_lock();
	rc = listen(fd, (int)n->backlog) ? -errno : socket_add(&n->s, EPOLLIN);
	if (rc)
		socket_forget(&n->s);
	iwcm_unlock();
	if (rc)
		free(n);
	else
		*ret = n;
	return rc;
}

void iwcm_unlisten(struct iwcm_listener *n)
{
	uint8_t no[IW_OUT_MAX];

	iwcm_lock();
	while (!list_empty(&n->hearing))
		link_over(list_entry(n->hearing.next, struct iwcm_link, mine), true);
	while (!list_empty(&n->requests)) {
		struct iwcm_link *l = list_entry(n->requests.next, struct iwcm_link, mine);

		link_close_with(l, no, (size_t)iw_reject(&l->conn, NULL, 0, no));
	}
	timer_cancel(&iwcm.timers, &n->s.timer);
	socket_close(&n->s);
	socket_forget(&n->s);
	iwcm_unlock();
	free(n);
}

static void heard_of(struct iwcm_listener *n, int fd)
{
	struct iwcm_link *l = link_new(fd);
	int one = 1;

	if (!l) {
		kernel_close(fd);
		return;
	}
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	iw_listen(&l->conn);
	l->phase = HEARING;
	l->listener = n;
	n->silent++;
	list_push_tail(&n->hearing, &l->mine);
	if (socket_add(&l->s, EPOLLIN))
		link_over(l, true);
	else
		timer_arm(&iwcm.timers, &l->s.timer, time_now_ns() + IWCM_ASK_NS);
	if (n->silent > IWCM_SILENT_MAX)
		link_over(list_entry(n->hearing.next, struct iwcm_link, mine), true);
}

void listener_ready(struct iwcm_listener *n)
{
	for (int i = 0; i < ACCEPTS; i++) {
		int fd = kernel_accept(n->s.fd, SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd >= 0) {
			heard_of(n, fd);
			continue;
		}
		/* Without descriptors or memory it would be ready for ever. */
		if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
			socket_wait(&n->s, 0);
			timer_arm(&iwcm.timers, &n->s.timer, time_now_ns() + POOR_NS);
		}
		break;
	}
}

void listener_late(struct iwcm_listener *n)
{
	socket_wait(&n->s, EPOLLIN);
}
