/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "nvmf/transport/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "nvmf/transport/transport.h"

static socklen_t sockaddr_len(const struct sockaddr *sa)
{
	return sa->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
}

void address_text(const struct sockaddr *sa, char *text, size_t room)
{
	if (getnameinfo(sa, sockaddr_len(sa), text, (socklen_t)room, NULL, 0, NI_NUMERICHOST) != 0)
		text[0] = '\0';
}

/* Then whoever sends there does so from that address. No packet is sent. */
bool address_is_here(const struct sockaddr *sa)
{
	int fd = socket(sa->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	char here[NVMF_TRADDR_LEN] = "", there[NVMF_TRADDR_LEN] = "";
	struct sockaddr_storage own = {0};
	socklen_t len = sizeof(own);

	if (fd < 0)
		return false;
	if (connect(fd, sa, sockaddr_len(sa)) == 0 &&
	    getsockname(fd, (struct sockaddr *)&own, &len) == 0)
		address_text((struct sockaddr *)&own, here, sizeof(here));
	close(fd);
	address_text(sa, there, sizeof(there));
	return strcmp(here, there) == 0;
}

int address_wildcard(const char *address)
{
	struct addrinfo hints = {.ai_flags = AI_NUMERICHOST, .ai_socktype = SOCK_STREAM}, *list;
	int family = AF_UNSPEC;

	if (getaddrinfo(address, NULL, &hints, &list) != 0)
		return AF_UNSPEC;
	if (list->ai_family == AF_INET &&
	    ((struct sockaddr_in *)list->ai_addr)->sin_addr.s_addr == INADDR_ANY)
		family = AF_INET;
	if (list->ai_family == AF_INET6 &&
	    IN6_IS_ADDR_UNSPECIFIED(&((struct sockaddr_in6 *)list->ai_addr)->sin6_addr))
		family = AF_INET6;
	freeaddrinfo(list);
	return family;
}

/* --- of targets --------------------------------------------------------------------------------
 */

void address_port(struct target_port *p, const struct target_transport_ops *ops,
		  const struct sockaddr *sa, bool wildcard, const char *port)
{
	*p = (struct target_port){
		.ops = ops,
		.adrfam = sa->sa_family == AF_INET6 ? NVMF_ADRFAM_IPV6 : NVMF_ADRFAM_IPV4,
		.wildcard = wildcard,
	};
	address_text(sa, p->traddr, sizeof(p->traddr));
	snprintf(p->trsvcid, sizeof(p->trsvcid), "%s", port);
}

static int listen_everywhere(const char *port, address_listen_fn *one, void *ctx, char *why,
			     size_t room)
{
	struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};
	struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = v4.sin_port};
	char unused[256];
	int error = one(ctx, (struct sockaddr *)&v4, true, port, why, room);

	/* A machine need not have IPv6. */
	if (!error && one(ctx, (struct sockaddr *)&v6, true, port, unused, sizeof(unused)) != 0)
		log_info("nvmf", "not listening on IPv6: %s", unused);
	return error;
}

int address_listen(const char *address, const char *port, address_listen_fn *one, void *ctx,
		   char *why, size_t room)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list;
	int error;

	if (!address)
		return listen_everywhere(port, one, ctx, why, room);
	error = getaddrinfo(address, port, &hints, &list);
	if (error) {
		snprintf(why, room, "%s is no address of this machine: %s", address,
			 gai_strerror(error));
		return -EINVAL;
	}
	error = one(ctx, list->ai_addr, address_wildcard(address) != AF_UNSPEC, port, why, room);
	freeaddrinfo(list);
	return error;
}

static bool is_shown(const struct ifaddrs *a, int family)
{
	const struct sockaddr_in6 *v6 = (const void *)a->ifa_addr;

	if (!a->ifa_addr || !(a->ifa_flags & IFF_UP) ||
	    (family != AF_UNSPEC && a->ifa_addr->sa_family != family))
		return false;
	return a->ifa_addr->sa_family == AF_INET ||
	       (a->ifa_addr->sa_family == AF_INET6 && !IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr));
}

int address_each(int family, bool (*usable)(const struct sockaddr *sa),
		 void (*show)(void *ctx, const char *address, bool loopback), void *ctx)
{
	struct ifaddrs *list, *a;
	char text[INET6_ADDRSTRLEN + 16];
	int count = 0;

	if (getifaddrs(&list) != 0)
		return 0;
	/* Loopback last: it is of use on this machine alone. */
	for (int loopback = 0; loopback < 2; loopback++)
		for (a = list; a; a = a->ifa_next) {
			if (!!(a->ifa_flags & IFF_LOOPBACK) != loopback || !is_shown(a, family) ||
			    !usable(a->ifa_addr))
				continue;
			address_text(a->ifa_addr, text, sizeof(text));
			show(ctx, text, loopback);
			count++;
		}
	freeifaddrs(list);
	return count;
}

/* --- of hosts ----------------------------------------------------------------------------------
 */

int address_of_target(const struct transport_host_config *config, struct sockaddr_storage *source,
		      struct addrinfo **ret, const char *what, char *why, size_t room)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST}, *own;
	const char *from = config->source ? config->source : "";
	int err;

	if (*from) {
		if (getaddrinfo(from, NULL, &hints, &own)) {
			snprintf(why, room,
				 "'%s' is no address that one could connect from; `%s` shows those "
				 "there are",
				 from, what);
			return -EINVAL;
		}
		memcpy(source, own->ai_addr, own->ai_addrlen);
		hints.ai_family = own->ai_family;
		freeaddrinfo(own);
	}
	hints.ai_flags = 0;
	err = getaddrinfo(config->host, config->port, &hints, ret);
	if (err)
		snprintf(why, room, "cannot find the address of host '%s'%s%s: %s", config->host,
			 *from ? " to be reached from " : "", from,
			 err == EAI_SYSTEM ? strerror(errno) : gai_strerror(err));
	return err ? -EINVAL : 0;
}
