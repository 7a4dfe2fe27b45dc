/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "nvmf/tcp/socket.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/socket.h>

#define PIECES		256 /* of a sendmsg() */
#define PLACES		64  /* of a recvmsg() */
#define KEEP_IDLE_S	30
#define KEEP_INTERVAL_S 5
#define KEEP_COUNT	3
/* What the kernel doubles, and has for any other connection by some MiB. */
#define NEAR_SEND    (160 << 10)
#define NEAR_RECEIVE (512 << 10)

/* What fails here costs speed, or that somebody who is gone is noticed later. */
static void set(int fd, int level, int option, int value)
{
	(void)setsockopt(fd, level, option, &value, sizeof(value));
}

void tcp_socket_tune(int fd)
{
	set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
	set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
	set(fd, IPPROTO_TCP, TCP_KEEPIDLE, KEEP_IDLE_S);
	set(fd, IPPROTO_TCP, TCP_KEEPINTVL, KEEP_INTERVAL_S);
	set(fd, IPPROTO_TCP, TCP_KEEPCNT, KEEP_COUNT);
}

void tcp_socket_near(int fd)
{
	set(fd, SOL_SOCKET, SO_SNDBUF, NEAR_SEND);
}

/* What everybody may ask for; 0: that cannot be seen, as in a network namespace of one's own. */
static int receive_max(void)
{
	FILE *f = fopen("/proc/sys/net/core/rmem_max", "re");
	int most = 0;

	if (!f)
		return 0;
	if (fscanf(f, "%d", &most) != 1)
		most = 0;
	fclose(f);
	return most;
}

/* Less than that would be worse than what the kernel finds out by itself. */
void tcp_socket_near_host(int fd)
{
	const int bytes = NEAR_RECEIVE;

	tcp_socket_near(fd);
	if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof(bytes)) != 0 &&
	    receive_max() >= bytes)
		set(fd, SOL_SOCKET, SO_RCVBUF, bytes);
}

void tcp_socket_tos(int fd, int family, uint8_t tos)
{
	if (family == AF_INET6)
		set(fd, IPPROTO_IPV6, IPV6_TCLASS, tos);
	else
		set(fd, IPPROTO_IP, IP_TOS, tos);
}

ssize_t tcp_socket_read(int fd, struct tcp_rx *rx, uint8_t *buffer, size_t room, size_t *ret_len,
			bool *ret_drained)
{
	struct iovec iov[PLACES + 1];
	unsigned int places = rx ? tcp_rx_wants(rx, iov, PLACES) : 0;
	struct msghdr msg = {.msg_iov = iov, .msg_iovlen = places + 1};
	size_t placed, wanted = 0;
	ssize_t n;

	if (rx)
		room = tcp_rx_room(rx, room);
	for (unsigned int i = 0; i < places; i++)
		wanted += iov[i].iov_len;
	/* Not all the places fit: the buffer is for what comes behind them. */
	if (places == PLACES)
		msg.msg_iovlen = places;
	else
		iov[places] = (struct iovec){buffer, room};
	do {
		if (places)
			n = recvmsg(fd, &msg, MSG_DONTWAIT);
		else
			n = recv(fd, buffer, room, MSG_DONTWAIT);
	} while (n < 0 && errno == EINTR);
	if (n <= 0)
		return n < 0 ? -errno : 0;
	placed = min_of((size_t)n, wanted);
	if (placed)
		tcp_rx_placed(rx, (uint32_t)placed);
	*ret_len = (size_t)n - placed;
	*ret_drained = (size_t)n < wanted + (places == PLACES ? 0 : room);
	return n;
}

int tcp_socket_send(int fd, struct tcp_tx *tx)
{
	struct iovec iov[PIECES];
	struct msghdr msg = {.msg_iov = iov};
	ssize_t n;

	while ((msg.msg_iovlen = tcp_tx_iov(tx, iov, PIECES))) {
		n = sendmsg(fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n < 0 && errno != EINTR)
			return -errno;
		if (n > 0)
			tcp_tx_sent(tx, (size_t)n);
	}
	return 0;
}

int tcp_socket_send_tls(int fd, struct tcp_tls *t, struct tcp_tx *tx)
{
	const void *p;
	size_t len;
	ssize_t n;

	for (;;) {
		tcp_tls_put(t, tx);
		len = tcp_tls_out(t, &p);
		if (!len)
			return 0;
		n = send(fd, p, len, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n < 0 && errno != EINTR)
			return -errno;
		if (n > 0)
			tcp_tls_sent(t, (size_t)n);
	}
}
