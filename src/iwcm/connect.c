/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What an identifier does with its connection. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "iwcm/iwcm_priv.h"

int iwcm_connect(const struct iwcm_call *c, const struct iw_params *p, struct iwcm_link **ret)
{
	struct iwcm_link *l = link_new(c->fd);
	int rc;

	if (!l)
		return -ENOMEM;
	memcpy(&l->src, c->src, c->src_len);
	memcpy(&l->dst, c->dst, c->dst_len);
	l->src_len = c->src_len;
	l->dst_len = c->dst_len;
	l->tos = c->tos;
	l->brief = c->brief;
	l->ask_first = c->ask_first;
	l->qpn = c->qpn;
	l->id = c->id;
	l->owned = true;
	rc = iw_connect(&l->conn, p, l->out);
	if (rc < 0) {
		free(l);
		return rc;
	}
	l->out_len = (size_t)rc;
	rc = 0;
	iwcm_lock();
	socket_number(&l->s);
	__atomic_store_n(ret, l, __ATOMIC_RELEASE);
	if (c->ask_first)
		link_ask(l, -ECONNREFUSED);
	else
		rc = link_call(l);
	if (rc) {
		*ret = NULL;
		/* A socket of the caller's stays so. */
		if (l->s.fd == c->fd)
			l->s.fd = -1;
		l->owned = false;
		link_over(l, true);
	}
	iwcm_unlock();
	return rc;
}

struct iwcm_link *iwcm_take(uint32_t listener_id, uint64_t nr)
{
	struct socket_of *s;
	struct iwcm_link *l = NULL;

	iwcm_lock();
	s = socket_find(nr);
	if (s && !s->listens)
		l = container_of(s, struct iwcm_link, s);
	if (l && l->phase == ASKED && l->listener && l->listener->id == listener_id) {
		link_leave_listener(l);
		l->owned = true;
	} else {
		l = NULL;
	}
	iwcm_unlock();
	return l;
}

const struct iw_conn *iwcm_conn(const struct iwcm_link *l)
{
	return &l->conn;
}

uint64_t iwcm_nr(const struct iwcm_link *l)
{
	return l->s.nr;
}

uint16_t iwcm_own_port(const struct iwcm_link *l)
{
	return l->own_port;
}

int iwcm_addresses(const struct iwcm_link *l, struct sockaddr_storage *own,
		   struct sockaddr_storage *peer)
{
	socklen_t own_len = sizeof(*own), peer_len = sizeof(*peer);

	memset(own, 0, sizeof(*own));
	memset(peer, 0, sizeof(*peer));
	return getsockname(l->s.fd, (struct sockaddr *)own, &own_len) ||
			       getpeername(l->s.fd, (struct sockaddr *)peer, &peer_len)
		       ? -errno
		       : 0;
}

int iwcm_accept(struct iwcm_link *l, uint32_t id, uint32_t qpn, uint8_t tos,
		const struct iw_params *p)
{
	uint8_t out[IW_OUT_MAX];
	ssize_t sent;
	int rc;

	rc = iwcm.ops->may_begin(qpn);
	if (!rc)
		rc = iw_accept(&l->conn, p, out);
	if (rc < 0)
		return rc;
	link_set_class(l, tos);
	sent = syscall(SYS_sendto, l->s.fd, out, (size_t)rc, MSG_NOSIGNAL | MSG_DONTWAIT, NULL, 0);
	if (sent != rc)
		return sent < 0 ? -errno : -ECONNRESET;
	iwcm_lock();
	l->phase = BEGUN;
	l->id = id;
	l->qpn = qpn;
	rc = link_begin(l);
	if (!rc)
		link_says(l, IWCM_ESTABLISHED, 0);
	else
		link_over(l, true);
	iwcm_unlock();
	return rc;
}

int iwcm_reject(struct iwcm_link *l, const void *private_data, size_t len)
{
	uint8_t out[IW_OUT_MAX];
	int rc;

	iwcm_lock();
	rc = l->phase == ASKED ? iw_reject(&l->conn, private_data, len, out) : -EINVAL;
	if (rc > 0)
		link_close_with(l, out, (size_t)rc);
	iwcm_unlock();
	return rc > 0 ? 0 : rc;
}

/* It has become a stream, and nobody is busy with that. */
static bool stands(const struct iwcm_link *l)
{
	return l->phase == BEGUN && l->s.fd < 0 && !l->busy;
}

int iwcm_disconnect(struct iwcm_link *l)
{
	bool ends;

	iwcm_lock();
	ends = stands(l);
	l->leaves = true;
	iwcm_unlock();
	return ends ? iwcm.ops->end(l->qpn, l, false) : 0;
}

void link_ended(struct iwcm_link *l)
{
	struct iwcm_link *before = __atomic_load_n(&iwcm.ended, __ATOMIC_RELAXED);

	do
		l->ended_before = before;
	while (!__atomic_compare_exchange_n(&iwcm.ended, &before, l, false, __ATOMIC_RELEASE,
					    __ATOMIC_RELAXED));
}

void iwcm_ended(struct iwcm_link *l)
{
	link_ended(l);
	thread_wake();
}

void iwcm_put(struct iwcm_link *l)
{
	const uint32_t qpn = l->qpn; /* l may be gone when it is used */
	uint8_t no[IW_OUT_MAX];
	bool ends;

	iwcm_lock();
	ends = stands(l) && !l->leaves;
	l->owned = false;
	switch (l->phase) {
	case CALLING:
	case MAPPING:
	case RESTING:
	case ASKING:
		link_over(l, true);
		break;
	case ASKED:
		link_close_with(l, no, (size_t)iw_reject(&l->conn, NULL, 0, no));
		break;
	case BEGUN:
		/* The thread was yet to begin it. */
		if (l->says & 1u << BEGIN) {
			link_was_told(l, BEGIN);
			link_over(l, true);
		}
		break;
	case HEARING:
	case CLOSING:
		break;
	case OVER:
		link_free_if_over(l);
		break;
	}
	iwcm_unlock();
	if (ends)
		(void)iwcm.ops->end(qpn, l, true);
}
