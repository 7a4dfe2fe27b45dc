/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "base/handed.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FIRST 3

static struct handed all[HANDED_MAX];
static unsigned count;
static char *names; /* what theirs point into */

static int option(int fd, int level, int name)
{
	int value = 0;
	socklen_t len = sizeof(value);

	return getsockopt(fd, level, name, &value, &len) == 0 ? value : -1;
}

static uint16_t port_of(const struct sockaddr_storage *a)
{
	return ntohs(a->ss_family == AF_INET6 ? ((const struct sockaddr_in6 *)a)->sin6_port
					      : ((const struct sockaddr_in *)a)->sin_port);
}

static void look_at(struct handed *h)
{
	socklen_t len = sizeof(h->address);
	char text[INET6_ADDRSTRLEN];
	bool v6;

	if (getsockname(h->fd, (struct sockaddr *)&h->address, &len) != 0 ||
	    (h->address.ss_family != AF_INET && h->address.ss_family != AF_INET6))
		return;
	v6 = h->address.ss_family == AF_INET6;
	inet_ntop(h->address.ss_family,
		  v6 ? (const void *)&((struct sockaddr_in6 *)&h->address)->sin6_addr
		     : (const void *)&((struct sockaddr_in *)&h->address)->sin_addr,
		  text, sizeof(text));
	snprintf(h->at, sizeof(h->at), v6 ? "[%s]:%u" : "%s:%u", text, port_of(&h->address));
	h->listens = option(h->fd, SOL_SOCKET, SO_TYPE) == SOCK_STREAM &&
		     option(h->fd, SOL_SOCKET, SO_ACCEPTCONN) == 1;
	h->both = v6 && option(h->fd, IPPROTO_IPV6, IPV6_V6ONLY) == 0;
}

static int take(const char *fds, const char *pid)
{
	char *end, *rest, *name;
	unsigned long n;

	if (!fds || !pid || strtoul(pid, &end, 10) != (unsigned long)getpid() || *end)
		return 0;
	n = strtoul(fds, &end, 10);
	if (*end || end == fds)
		return -EINVAL;
	if (n > HANDED_MAX)
		return -E2BIG;
	name = rest = names;
	for (unsigned long i = 0; i < n; i++) {
		struct handed *h = &all[i];
		int fd = FIRST + (int)i;

		if (fcntl(fd, F_SETFD, FD_CLOEXEC) != 0)
			return -EBADF;
		name = rest ? strsep(&rest, ":") : NULL;
		*h = (struct handed){.fd = fd, .name = name ? name : ""};
		look_at(h);
	}
	count = (unsigned)n;
	return (int)n;
}

int handed_take(void)
{
	const char *text = secure_getenv("LISTEN_FDNAMES");
	int n;

	names = text ? strdup(text) : NULL;
	n = take(secure_getenv("LISTEN_FDS"), secure_getenv("LISTEN_PID"));
	unsetenv("LISTEN_FDS");
	unsetenv("LISTEN_PID");
	unsetenv("LISTEN_FDNAMES");
	return n;
}

struct handed *handed_at(unsigned i)
{
	return i < count ? &all[i] : NULL;
}

static bool is_any(const struct sockaddr_storage *a)
{
	if (a->ss_family == AF_INET)
		return ((const struct sockaddr_in *)a)->sin_addr.s_addr == INADDR_ANY;
	return IN6_IS_ADDR_UNSPECIFIED(&((const struct sockaddr_in6 *)a)->sin6_addr);
}

static bool same(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
	const struct sockaddr_in6 *a6 = (const void *)a, *b6 = (const void *)b;

	if (a->ss_family != b->ss_family || port_of(a) != port_of(b))
		return false;
	if (a->ss_family == AF_INET)
		return ((const struct sockaddr_in *)a)->sin_addr.s_addr ==
		       ((const struct sockaddr_in *)b)->sin_addr.s_addr;
	return IN6_ARE_ADDR_EQUAL(&a6->sin6_addr, &b6->sin6_addr) &&
	       a6->sin6_scope_id == b6->sin6_scope_id;
}

int handed_socket(const struct sockaddr *sa)
{
	struct sockaddr_storage want = {0};
	int fd;

	memcpy(&want, sa,
	       sa->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
					 : sizeof(struct sockaddr_in));
	for (unsigned i = 0; i < count; i++) {
		struct handed *h = &all[i];

		if (!h->listens)
			continue;
		if (h->both && is_any(&h->address) && is_any(&want) &&
		    port_of(&h->address) == port_of(&want))
			return -EPROTOTYPE;
		if (!same(&h->address, &want))
			continue;
		fd = fcntl(h->fd, F_DUPFD_CLOEXEC, 0);
		if (fd < 0 || fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) != 0)
			return -errno;
		h->used = true;
		return fd;
	}
	return -ENOENT;
}
