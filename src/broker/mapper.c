/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "broker/mapper.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <unistd.h>

#include "base/kernel_socket.h"
#include "base/time.h"
#include "broker/answer_from.h"
#include "wire/iwpm.h"

#define AT_ONCE 64 /* then others have their turn */

/* Of both families, or of IPv4 where there is no other. */
int mapper_open(void)
{
	const struct sockaddr_in6 any6 = {.sin6_family = AF_INET6, .sin6_port = htons(IWPM_PORT)};
	const struct sockaddr_in any4 = {.sin_family = AF_INET, .sin_port = htons(IWPM_PORT)};
	const int type = SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK;
	bool v6 = true;
	int fd = kernel_socket(AF_INET6, type, 0), rc;

	if (fd < 0 && errno == EAFNOSUPPORT) {
		v6 = false;
		fd = kernel_socket(AF_INET, type, 0);
	}
	if (fd < 0)
		return -errno;
	rc = v6 ? kernel_socket_set(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0)
		: kernel_socket_set(fd, IPPROTO_IP, IP_PKTINFO, 1);
	if (!rc && v6) /* of IPv4 packets too, as a mapped address */
		rc = kernel_socket_set(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, 1);
	if (!rc && bind(fd, v6 ? (const struct sockaddr *)&any6 : (const struct sockaddr *)&any4,
			v6 ? sizeof(any6) : sizeof(any4)))
		rc = -errno;
	if (!rc)
		return fd;
	close(fd);
	return rc;
}

static struct gid gid_of(const struct iwpm *m)
{
	struct gid g = {{[10] = 0xff, [11] = 0xff}};

	if (m->v6)
		memcpy(g.raw, m->called.addr, 16);
	else
		memcpy(g.raw + 12, m->called.addr, 4);
	return g;
}

/* False: there is nothing more. */
static bool serve_one(int fd, struct cm_service *cm)
{
	uint8_t buf[IWPM_REQUEST_LEN];
	_Alignas(struct cmsghdr) uint8_t control[256];
	struct sockaddr_storage from;
	struct iovec iov = {buf, sizeof(buf)};
	struct msghdr m = {.msg_name = &from,
			   .msg_namelen = sizeof(from),
			   .msg_iov = &iov,
			   .msg_iovlen = 1,
			   .msg_control = control,
			   .msg_controllen = sizeof(control)};
	ssize_t n = recvmsg(fd, &m, MSG_DONTWAIT);
	struct iwpm asked;
	struct gid called;
	int port;

	if (n < 0)
		return errno == EINTR;
	/* An acknowledgement is welcome, but nothing waits for it: who has heard nothing asks
	 * again. */
	if (m.msg_flags & MSG_TRUNC || iwpm_get(&asked, buf, (size_t)n) ||
	    asked.type != IWPM_REQUEST)
		return true;
	called = gid_of(&asked);
	port = cm_service_tcp_port(cm, &called, asked.called.port, time_now_ns());
	if (port < 0)
		return true;
	asked.type = port ? IWPM_ACCEPT : IWPM_REJECT;
	if (port)
		asked.called.port = (uint16_t)port;
	iov.iov_len = iwpm_put(buf, &asked);
	answer_from(&m);
	m.msg_flags = 0;
	(void)!sendmsg(fd, &m, MSG_DONTWAIT);
	return true;
}

void mapper_serve(int fd, struct cm_service *cm)
{
	for (int i = 0; i < AT_ONCE && serve_one(fd, cm); i++)
		;
}
