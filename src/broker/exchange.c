/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "broker/exchange.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "broker/fd_msg.h"

/* Cuts off what is saved, which comes with success only. */
static ssize_t take_saved(const uint8_t *reply, ssize_t n, struct broker_cm_saved *ret)
{
	if ((size_t)n < sizeof(struct broker_msg) + sizeof(*ret))
		return n;
	n -= (ssize_t)sizeof(*ret);
	memcpy(ret, reply + n, sizeof(*ret));
	return n;
}

int exchange(int fd, const void *req, size_t req_len, int pass_fd, void *resp, size_t resp_len,
	     struct broker_cm_saved *ret_saved, int *ret_fd)
{
	const struct broker_msg *sent = req, *got = resp;
	_Alignas(max_align_t) uint8_t room[2048];
	struct broker_cm_saved saved = {0};
	bool of_cm = sent->type >= BROKER_CM_FIRST;
	ssize_t n;
	int came;

	while ((n = fd_msg_send(fd, req, req_len, 0, pass_fd)) == -EINTR)
		;
	if (n < 0)
		return (int)n;
	do
		n = fd_msg_recv(fd, of_cm ? (void *)room : resp, of_cm ? sizeof(room) : resp_len,
				MSG_TRUNC, &came);
	while (n == -EINTR);
	if (n < 0)
		return n == -EAGAIN ? -ETIMEDOUT : (int)n;
	if (n == 0)
		return -ECONNRESET;
	if (of_cm && (size_t)n <= sizeof(room)) {
		n = take_saved(room, n, &saved);
		memcpy(resp, room, min_of((size_t)n, resp_len));
	}
	if ((size_t)n < sizeof(*got) || got->type != sent->type || (size_t)n > resp_len ||
	    (got->error == 0 && (size_t)n != resp_len)) {
		if (came >= 0)
			close(came);
		return -EPROTO;
	}
	memset((char *)resp + n, 0, resp_len - (size_t)n);
	if (ret_saved)
		*ret_saved = saved;
	if (ret_fd)
		*ret_fd = came;
	else if (came >= 0)
		close(came);
	return 0;
}
