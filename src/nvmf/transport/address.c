/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "nvmf/transport/address.h"

#include <netdb.h>
#include <netinet/in.h>

void address_text(const struct sockaddr *sa, char *text, size_t room)
{
	socklen_t len = sa->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
						  : sizeof(struct sockaddr_in);

	if (getnameinfo(sa, len, text, (socklen_t)room, NULL, 0, NI_NUMERICHOST) != 0)
		text[0] = '\0';
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
