/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A port that TCP refuses may be another adapter's, which listens elsewhere: the peer's port mapper
 * knows where (wire/iwpm.h). It is asked only then, so that peers without one, which are most, cost
 * a call that fails a round trip, and one that succeeds nothing; or first, by who knows that TCP
 * would not refuse it. Meanwhile the port is held that the call will come from, for the mapper
 * tells it to its adapter.
 */
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/kernel_socket.h"
#include "iwcm/iwcm_priv.h"
#include "wire/iwpm.h"

/* An address of IPv4 is one, however it is written. */
static bool is_v6(const struct sockaddr_storage *a)
{
	return a->ss_family == AF_INET6 &&
	       !IN6_IS_ADDR_V4MAPPED(&((const struct sockaddr_in6 *)(const void *)a)->sin6_addr);
}

static struct iwpm_end end_of(const struct sockaddr_storage *a)
{
	const struct sockaddr_in *v4 = (const void *)a;
	const struct sockaddr_in6 *v6 = (const void *)a;
	struct iwpm_end e = {.port = ntohs(v4->sin_port)};

	if (a->ss_family == AF_INET)
		memcpy(e.addr, &v4->sin_addr, sizeof(v4->sin_addr));
	else if (!is_v6(a))
		memcpy(e.addr, &v6->sin6_addr.s6_addr[12], sizeof(v4->sin_addr));
	else
		memcpy(e.addr, &v6->sin6_addr, sizeof(v6->sin6_addr));
	return e;
}

/* At the same place in both families. */
static void set_port(struct sockaddr_storage *a, uint16_t port)
{
	((struct sockaddr_in *)(void *)a)->sin_port = htons(port);
}

static bool same_end(const struct iwpm_end *a, const struct iwpm_end *b)
{
	return a->port == b->port && memcmp(a->addr, b->addr, sizeof(a->addr)) == 0;
}

static int send_to_mapper(const struct iwcm_link *l, const struct iwpm *m)
{
	uint8_t out[IWPM_REQUEST_LEN];
	const size_t len = iwpm_put(out, m);

	return syscall(SYS_sendto, l->s.fd, out, len, MSG_NOSIGNAL | MSG_DONTWAIT, NULL, 0) < 0
		       ? -errno
		       : 0;
}

static int open_to_mapper(struct iwcm_link *l)
{
	struct sockaddr_storage own = l->src, mapper = l->dst;

	set_port(&own, 0);
	set_port(&mapper, IWPM_PORT);
	l->s.fd = kernel_socket(l->src.ss_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (l->s.fd < 0 || bind(l->s.fd, (struct sockaddr *)&own, l->src_len) ||
	    syscall(SYS_connect, l->s.fd, &mapper, l->dst_len))
		return -errno;
	return 0;
}

static int make_request(const struct iwcm_link *l, struct iwpm *ret)
{
	struct sockaddr_storage from;
	socklen_t len = sizeof(from);

	if (getsockname(l->held, (struct sockaddr *)&from, &len))
		return -errno;
	*ret = (struct iwpm){
		.type = IWPM_REQUEST,
		.v6 = is_v6(&from),
		.caller = end_of(&from),
		.called = end_of(&l->dst),
		.mapped_caller = end_of(&from),
	};
	return syscall(SYS_getrandom, &ret->handle, sizeof(ret->handle), GRND_NONBLOCK) < 0 ? -errno
											    : 0;
}

int portmap_ask(struct iwcm_link *l)
{
	int rc;

	l->held = l->s.fd;
	l->s.fd = -1;
	rc = open_to_mapper(l);
	if (!rc)
		rc = make_request(l, &l->map);
	if (!rc)
		rc = send_to_mapper(l, &l->map);
	if (!rc)
		rc = socket_add(&l->s, EPOLLIN);
	l->asks_left = l->brief ? 0 : IWCM_MAP_ASKS - 1;
	return rc;
}

bool portmap_ask_again(struct iwcm_link *l)
{
	if (!l->asks_left)
		return false;
	l->asks_left--;
	return send_to_mapper(l, &l->map) == 0;
}

enum portmap_heard portmap_hear(struct iwcm_link *l)
{
	uint8_t in[IWPM_REQUEST_LEN + 1];
	const ssize_t got =
		syscall(SYS_recvfrom, l->s.fd, in, sizeof(in), MSG_DONTWAIT, NULL, NULL);
	struct iwpm m;

	if (got < 0)
		/* Who has nothing else to try waits: it may not be there yet. */
		return errno == EAGAIN || errno == EINTR || (l->ask_first && !l->brief)
			       ? PORTMAP_NOTHING
			       : PORTMAP_NONE;
	/* Another port, but never another address than was asked for. */
	if (iwpm_get(&m, in, (size_t)got) || m.handle != l->map.handle || m.v6 != l->map.v6 ||
	    !same_end(&m.caller, &l->map.caller) ||
	    memcmp(m.called.addr, l->map.called.addr, sizeof(m.called.addr)) != 0)
		return PORTMAP_NOTHING;
	if (m.type == IWPM_REJECT)
		return PORTMAP_NONE;
	if (m.type != IWPM_ACCEPT || !m.called.port)
		return PORTMAP_NOTHING;
	/* Where that is lost the mapper repeats itself a while, to nobody. */
	m.type = IWPM_ACK;
	(void)!send_to_mapper(l, &m);
	set_port(&l->dst, m.called.port);
	socket_close(&l->s);
	l->s.fd = l->held;
	l->held = -1;
	return PORTMAP_FOUND;
}
