// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/* Socket addresses and GIDs, and the one question to the routing tables. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/kernel_socket.h"
#include "rdmacm/cma.h"

static const struct sockaddr_in *in4(const struct sockaddr *a)
{
	return (const struct sockaddr_in *)(const void *)a;
}

static const struct sockaddr_in6 *in6(const struct sockaddr *a)
{
	return (const struct sockaddr_in6 *)(const void *)a;
}

socklen_t cma_addr_len(const struct sockaddr *a)
{
	if (!a)
		return 0;
	return a->sa_family == AF_INET	  ? sizeof(struct sockaddr_in)
	       : a->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
					  : 0;
}

bool cma_addr_any(const struct sockaddr *a)
{
	return a->sa_family == AF_INET ? in4(a)->sin_addr.s_addr == INADDR_ANY
				       : IN6_IS_ADDR_UNSPECIFIED(&in6(a)->sin6_addr);
}

bool cma_addr_loopback(const struct sockaddr *a)
{
	return a->sa_family == AF_INET ? ntohl(in4(a)->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET
				       : IN6_IS_ADDR_LOOPBACK(&in6(a)->sin6_addr);
}

uint16_t cma_addr_port(const struct sockaddr *a)
{
	/* At the same place in both. */
	return cma_addr_len(a) ? ntohs(in4(a)->sin_port) : 0;
}

void cma_addr_set_port(struct sockaddr *a, uint16_t port)
{
	((struct sockaddr_in *)(void *)a)->sin_port = htons(port);
}

uint32_t cma_addr_scope(const struct sockaddr *a)
{
	return a->sa_family == AF_INET6 ? in6(a)->sin6_scope_id : 0;
}

struct gid cma_addr_gid(const struct sockaddr *a)
{
	struct gid g = {.raw = {[10] = 0xff, [11] = 0xff}};

	if (a->sa_family == AF_INET)
		memcpy(g.raw + 12, &in4(a)->sin_addr, 4);
	else
		memcpy(g.raw, &in6(a)->sin6_addr, 16);
	return g;
}

/* Connecting a datagram socket sends nothing, but has the kernel choose route and source. */
int cma_source_for(const struct sockaddr *src, const struct sockaddr *dst,
		   struct sockaddr_storage *ret)
{
	struct sockaddr_storage to = {0}, from = {0};
	socklen_t len = sizeof(*ret);
	int fd, rc = 0;

	memcpy(&to, dst, cma_addr_len(dst));
	cma_addr_set_port((struct sockaddr *)&to, ROCEV2_UDP_PORT);
	fd = kernel_socket(dst->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	if (src) {
		memcpy(&from, src, cma_addr_len(src));
		cma_addr_set_port((struct sockaddr *)&from, 0);
		if (bind(fd, (struct sockaddr *)&from, cma_addr_len(src)))
			rc = -errno;
	}
	if (!rc && connect(fd, (struct sockaddr *)&to, cma_addr_len(dst)))
		rc = -errno;
	if (!rc && getsockname(fd, (struct sockaddr *)ret, &len))
		rc = -errno;
	close(fd);
	return rc;
}
