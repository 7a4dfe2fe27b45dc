/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What target and host do with their sockets. */
#ifndef WEFT_NVMF_TCP_SOCKET_H
#define WEFT_NVMF_TCP_SOCKET_H

#include <sys/socket.h>

#include "nvmf/tcp/rx.h"
#include "nvmf/tcp/tls.h"
#include "nvmf/tcp/tx.h"

/* No delay, and who is gone is noticed. */
void tcp_socket_tune(int fd);
/* Of a connection that stays on this machine: so much is on its way at a time as caches hold. */
void tcp_socket_near(int fd);
/* The same of a host, before it connects: and it takes what a deep queue asks for in small pieces.
 */
void tcp_socket_near_host(int fd);
/* Type of service, or traffic class. */
void tcp_socket_tos(int fd, int family, uint8_t tos);
/*
 * Reads what is there, to where it belongs (unless rx is NULL) and behind that into the buffer:
 * *ret_len bytes of it
 * are for the owner to eat. How many came together; 0: the other side has closed; -errno, -EAGAIN
 * if nothing is there. *ret_drained: nothing more is.
 */
ssize_t tcp_socket_read(int fd, struct tcp_rx *rx, uint8_t *buffer, size_t room, size_t *ret_len,
			bool *ret_drained) must_use;
/* Sends what waits. 0: all of it went; -EAGAIN: the socket takes no more; -errno. */
int tcp_socket_send(int fd, struct tcp_tx *tx) must_use;
/* The same in records. */
int tcp_socket_send_tls(int fd, struct tcp_tls *t, struct tcp_tx *tx) must_use;

#endif
