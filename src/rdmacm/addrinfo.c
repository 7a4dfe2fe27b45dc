// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/* rdma_getaddrinfo(): getaddrinfo(3) in terms of queue pair types and port spaces. */
#include <netdb.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "rdmacm/cma.h"

static int copy_addr(struct sockaddr **dst, socklen_t *dst_len, const struct sockaddr *src,
		     socklen_t len)
{
	*dst = malloc(len);
	if (!*dst)
		return cma_ret(-ENOMEM);
	memcpy(*dst, src, len);
	*dst_len = len;
	return 0;
}

static struct addrinfo to_socket_hints(const struct rdma_addrinfo *h)
{
	struct addrinfo ai = {.ai_family = h->ai_family};

	if (h->ai_flags & RAI_PASSIVE)
		ai.ai_flags |= AI_PASSIVE;
	if (h->ai_flags & RAI_NUMERICHOST)
		ai.ai_flags |= AI_NUMERICHOST;
	if (h->ai_qp_type)
		ai.ai_socktype = h->ai_qp_type == IBV_QPT_UD ? SOCK_DGRAM : SOCK_STREAM;
	if (h->ai_port_space == RDMA_PS_TCP)
		ai.ai_protocol = IPPROTO_TCP;
	else if (h->ai_port_space == RDMA_PS_UDP || h->ai_port_space == RDMA_PS_IPOIB)
		ai.ai_protocol = IPPROTO_UDP;
	return ai;
}

/* 0, an EAI_ code, or -1 with errno set. */
static int look_up(const char *node, const char *service, const struct rdma_addrinfo *h,
		   struct rdma_addrinfo *ret)
{
	const bool passive = h->ai_flags & RAI_PASSIVE;
	struct addrinfo hints = to_socket_hints(h), *ai;
	char *name;
	int rc = getaddrinfo(node, service, &hints, &ai);

	if (rc)
		return rc;
	ret->ai_flags = passive ? RAI_PASSIVE : 0;
	ret->ai_family = ai->ai_family;
	ret->ai_qp_type = h->ai_qp_type			  ? h->ai_qp_type
			  : ai->ai_socktype == SOCK_DGRAM ? IBV_QPT_UD
							  : IBV_QPT_RC;
	ret->ai_port_space = h->ai_port_space		      ? h->ai_port_space
			     : ai->ai_protocol == IPPROTO_UDP ? RDMA_PS_UDP
							      : RDMA_PS_TCP;
	name = ai->ai_canonname ? strdup(ai->ai_canonname) : NULL;
	if (passive) {
		ret->ai_src_canonname = name;
		rc = copy_addr(&ret->ai_src_addr, &ret->ai_src_len, ai->ai_addr, ai->ai_addrlen);
	} else {
		ret->ai_dst_canonname = name;
		rc = copy_addr(&ret->ai_dst_addr, &ret->ai_dst_len, ai->ai_addr, ai->ai_addrlen);
	}
	freeaddrinfo(ai);
	return rc;
}

int rdma_getaddrinfo(const char *node, const char *service, const struct rdma_addrinfo *hints,
		     struct rdma_addrinfo **res)
{
	static const struct rdma_addrinfo none;
	struct rdma_addrinfo *rai;
	int rc = 0;

	if (!node && !service && !hints)
		return cma_ret(-EINVAL);
	rai = calloc(1, sizeof(*rai));
	if (!rai)
		return cma_ret(-ENOMEM);
	if (!hints)
		hints = &none;
	if (node || service) {
		rc = look_up(node, service, hints, rai);
	} else {
		rai->ai_flags = hints->ai_flags;
		rai->ai_family = hints->ai_family;
		rai->ai_qp_type = hints->ai_qp_type;
		rai->ai_port_space = hints->ai_port_space;
		if (hints->ai_dst_len)
			rc = copy_addr(&rai->ai_dst_addr, &rai->ai_dst_len, hints->ai_dst_addr,
				       hints->ai_dst_len);
	}
	if (!rc && !rai->ai_src_len && hints->ai_src_len)
		rc = copy_addr(&rai->ai_src_addr, &rai->ai_src_len, hints->ai_src_addr,
			       hints->ai_src_len);
	if (rc) {
		rdma_freeaddrinfo(rai);
		return rc;
	}
	*res = rai;
	return 0;
}

void rdma_freeaddrinfo(struct rdma_addrinfo *res)
{
	while (res) {
		struct rdma_addrinfo *next = res->ai_next;

		free(res->ai_src_addr);
		free(res->ai_dst_addr);
		free(res->ai_src_canonname);
		free(res->ai_dst_canonname);
		free(res->ai_route);
		free(res->ai_connect);
		free(res);
		res = next;
	}
}
