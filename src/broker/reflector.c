/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "broker/reflector.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "base/pace.h"
#include "base/time.h"
#include "broker/answer_from.h"
#include "wire/flow.h"
#include "wire/path_probe.h"

#define AT_ONCE 64 /* then others have their turn */
/* Whoever asks in another's name has him answered. */
#define ANSWERS_PER_SEC 1000
#define BURST		200

union address {
	struct sockaddr sa;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
};

static in_port_t port_of(const union address *a)
{
	return ntohs(a->sa.sa_family == AF_INET6 ? a->in6.sin6_port : a->in.sin_port);
}

/* False: there is nothing more. */
static bool serve_one(int fd)
{
	uint8_t buf[PATH_PROBE_MAX];
	_Alignas(struct cmsghdr) uint8_t control[256];
	union address from;
	struct iovec iov = {buf, sizeof(buf)};
	struct msghdr m = {.msg_name = &from,
			   .msg_namelen = sizeof(from),
			   .msg_iov = &iov,
			   .msg_iovlen = 1,
			   .msg_control = control,
			   .msg_controllen = sizeof(control)};
	ssize_t n = recvmsg(fd, &m, MSG_DONTWAIT);
	static struct pace pace;
	struct path_probe p;

	if (n < 0)
		return errno == EINTR;
	/* Not to port 4791, where answers are of use to nobody. */
	if (m.msg_flags & MSG_TRUNC || !path_probe_decode(&p, buf, (size_t)n) ||
	    p.kind != PATH_PROBE_ASK || port_of(&from) == ROCEV2_UDP_PORT)
		return true;
	if (!pace_take(&pace, time_now_ns(), ANSWERS_PER_SEC, BURST))
		return true;
	p.kind = PATH_PROBE_ANSWER;
	path_probe_encode(&p, buf);
	answer_from(&m);
	m.msg_flags = 0;
	iov.iov_len = (size_t)n;
	if (sendmsg(fd, &m, MSG_DONTWAIT) < 0 && errno == EMSGSIZE) {
		iov.iov_len = PATH_PROBE_LEN;
		(void)!sendmsg(fd, &m, MSG_DONTWAIT);
	}
	return true;
}

void reflector_serve(int fd)
{
	for (int i = 0; i < AT_ONCE && serve_one(fd); i++)
		;
}
