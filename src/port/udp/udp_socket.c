/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include <errno.h>
#include <linux/filter.h>
#include <string.h>
#include <unistd.h>

#include "base/kernel_socket.h"
#include "base/log.h"
#include "port/udp/udp_priv.h"

#define BUFFER_BYTES (8 << 20)
#define PORT_TRIES   16

/* An IPv4 packet that must not be fragmented and comes from an unconnected socket has
 * identification 0, which is what its ICRC is computed with. How long a packet may be the queue
 * pairs know, who have agreed on it: what ICMP says of it, which anybody can send, must not count,
 * as it does with IP_PMTUDISC_DO. The option of the IPv4 level is the one that counts for mapped
 * addresses. */
static int configure_tx(int fd, int family)
{
	int rc = kernel_socket_set(fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_PROBE);

	if (rc == 0 && family == AF_INET6)
		rc = kernel_socket_set(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0);
	if (rc == 0 && family == AF_INET6)
		rc = kernel_socket_set(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IP_PMTUDISC_PROBE);
	return rc;
}

static int configure_rx(int fd, int family)
{
	int rc = kernel_socket_set(fd, IPPROTO_IP, IP_RECVTOS, 1);

	if (rc == 0 && family == AF_INET)
		rc = kernel_socket_set(fd, IPPROTO_IP, IP_PKTINFO, 1);
	/* Says the destination of IPv4 packets too, as a mapped address. */
	if (rc == 0 && family == AF_INET6)
		rc = kernel_socket_set(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, 1);
	if (rc == 0 && family == AF_INET6)
		rc = kernel_socket_set(fd, IPPROTO_IPV6, IPV6_RECVTCLASS, 1);
	/* Linux rxe and some adapters send no UDP checksum: the ICRC is there. */
	if (rc == 0 && family == AF_INET6)
		rc = kernel_socket_set(fd, SOL_UDP, UDP_NO_CHECK6_RX, 1);
	if (rc == 0 && kernel_socket_set(fd, SOL_UDP, UDP_GRO, 1))
		log_info("udp", "no UDP_GRO here: packets are received one by one");
	return rc;
}

/* The kernel gives a datagram for a group to every socket on the port, whatever the steering says;
 * these options confine it to those that have joined. Where one is missing (IPv6's came with Linux
 * 4.20) the others get it too, and have no queue pair for it. */
static void configure_groups(int fd, int family)
{
	(void)kernel_socket_set(fd, IPPROTO_IP, IP_MULTICAST_ALL, 0);
	if (family == AF_INET6)
		(void)kernel_socket_set(fd, IPPROTO_IPV6, IPV6_MULTICAST_ALL, 0);
}

int udp_socket_group(int fd, const struct gid *group, uint32_t ifindex, bool join)
{
	struct ipv6_mreq m6 = {.ipv6mr_interface = ifindex};
	struct ip_mreqn m4 = {.imr_ifindex = (int)ifindex};
	int rc;

	if (gid_is_ipv4(group)) {
		memcpy(&m4.imr_multiaddr, group->raw + 12, 4);
		rc = setsockopt(fd, IPPROTO_IP, join ? IP_ADD_MEMBERSHIP : IP_DROP_MEMBERSHIP, &m4,
				sizeof(m4));
	} else {
		memcpy(&m6.ipv6mr_multiaddr, group->raw, 16);
		rc = setsockopt(fd, IPPROTO_IPV6, join ? IPV6_JOIN_GROUP : IPV6_LEAVE_GROUP, &m6,
				sizeof(m6));
	}
	return rc < 0 ? -errno : 0;
}

void udp_socket_want_headers(int fd, int family)
{
	(void)kernel_socket_set(fd, IPPROTO_IP, IP_RECVTTL, 1);
	if (family == AF_INET6) {
		(void)kernel_socket_set(fd, IPPROTO_IPV6, IPV6_RECVHOPLIMIT, 1);
		(void)kernel_socket_set(fd, IPPROTO_IPV6, IPV6_FLOWINFO, 1);
	}
}

static int bind_any(int fd, int family, uint16_t port)
{
	union udp_addr any = {.sa.sa_family = (sa_family_t)family};
	socklen_t len = sizeof(any.in);

	if (family == AF_INET6) {
		any.in6.sin6_port = htons(port);
		len = sizeof(any.in6);
	} else {
		any.in.sin_port = htons(port);
	}
	return bind(fd, &any.sa, len) < 0 ? -errno : 0;
}

static int dgram_socket(int family)
{
	int fd = kernel_socket(family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	return fd < 0 ? -errno : fd;
}

/* Dual-stack where IPv6 is, else IPv4. */
static int best_socket(int *ret_family)
{
	int fd = dgram_socket(AF_INET6);

	*ret_family = AF_INET6;
	if (fd == -EAFNOSUPPORT || fd == -EPROTONOSUPPORT) {
		*ret_family = AF_INET;
		fd = dgram_socket(AF_INET);
	}
	return fd;
}

int udp_port_is_free(void)
{
	int family, fd = best_socket(&family), rc;

	if (fd < 0)
		return fd;
	rc = configure_tx(fd, family);
	if (rc == 0)
		rc = bind_any(fd, family, ROCEV2_UDP_PORT);
	close(fd);
	return rc;
}

static int configured_socket(int *ret_family)
{
	int fd = best_socket(ret_family), rc;

	if (fd < 0)
		return fd;
	rc = configure_tx(fd, *ret_family);
	if (rc == 0)
		rc = configure_rx(fd, *ret_family);
	if (rc) {
		close(fd);
		return rc;
	}
	configure_groups(fd, *ret_family);
	return fd;
}

int udp_socket_open(void)
{
	int family, fd = configured_socket(&family), rc;

	if (fd < 0)
		return fd;
	rc = kernel_socket_set(fd, SOL_SOCKET, SO_REUSEPORT, 1);
	if (rc == 0)
		rc = bind_any(fd, family, ROCEV2_UDP_PORT);
	if (rc) {
		close(fd);
		return rc;
	}
	kernel_socket_grow(fd, BUFFER_BYTES);
	return fd;
}

/* A port that was free a moment ago; 0: none. */
static uint16_t free_port(int family)
{
	int fd = dgram_socket(family);
	uint16_t port = 0;

	if (fd < 0)
		return 0;
	if (bind_any(fd, family, 0) == 0)
		port = udp_socket_port(fd);
	close(fd);
	return port;
}

int udp_socket_open_private(uint32_t mark, uid_t uid)
{
	int family, fd = configured_socket(&family), rc;

	if (fd < 0)
		return fd;
	/* Or it could be bound to port 4791 after all, as a socket of ours that shares it: the
	 * kernel asks whose the socket is, and lets go of a port that it chose by itself. */
	rc = fchown(fd, uid, (gid_t)-1) < 0 ? -errno
					    : kernel_socket_set(fd, SOL_SOCKET, SO_MARK, (int)mark);
	for (int tries = 0; rc == 0 && tries < PORT_TRIES; tries++) {
		uint16_t port = free_port(family);

		if (port && bind_any(fd, family, port) == 0) {
			kernel_socket_grow(fd, BUFFER_BYTES);
			return fd;
		}
	}
	close(fd);
	return rc ? rc : -EADDRINUSE;
}

uint16_t udp_socket_port(int fd)
{
	union udp_addr self;
	socklen_t len = sizeof(self);

	if (getsockname(fd, &self.sa, &len) < 0)
		return 0;
	switch (self.sa.sa_family) {
	case AF_INET6:
		return ntohs(self.in6.sin6_port);
	case AF_INET:
		return ntohs(self.in.sin_port);
	default:
		return 0;
	}
}

static int drop_everything(int fd)
{
	static struct sock_filter drop[] = {{.code = BPF_RET | BPF_K, .k = 0}};
	static const struct sock_fprog prog = {.len = 1, .filter = drop};

	return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &prog, sizeof(prog)) < 0 ? -errno : 0;
}

void udp_socket_deafen(int fd, bool deaf)
{
	int none = 0;

	if (deaf)
		(void)!drop_everything(fd);
	else
		(void)!setsockopt(fd, SOL_SOCKET, SO_DETACH_FILTER, &none, sizeof(none));
}

int udp_decoy_open(const struct gid *group)
{
	union udp_addr at = {.in = {.sin_family = AF_INET, .sin_port = htons(ROCEV2_UDP_PORT)}};
	int fd = dgram_socket(AF_INET), rc;

	if (fd < 0)
		return fd;
	memcpy(&at.in.sin_addr, group->raw + 12, 4);
	/* Or each super-packet would be cut for it. */
	(void)kernel_socket_set(fd, SOL_UDP, UDP_GRO, 1);
	rc = drop_everything(fd);
	if (rc == 0)
		rc = kernel_socket_set(fd, SOL_SOCKET, SO_REUSEPORT, 1);
	if (rc == 0 && bind(fd, &at.sa, sizeof(at.in)) < 0)
		rc = -errno;
	if (rc) {
		close(fd);
		return rc;
	}
	return fd;
}

int udp_tx_socket_open(int family, uint16_t *ret_sport)
{
	int fd = dgram_socket(family), rc;

	if (fd < 0)
		return fd;
	rc = configure_tx(fd, family);
	if (family == AF_INET6)
		(void)kernel_socket_set(fd, IPPROTO_IPV6, IPV6_FLOWINFO_SEND, 1);
	/* Nothing that is sent to this port is for us. */
	if (rc == 0)
		rc = drop_everything(fd);
	if (rc == 0)
		rc = bind_any(fd, family, 0);
	if (rc) {
		close(fd);
		return rc;
	}
	kernel_socket_grow(fd, BUFFER_BYTES);
	*ret_sport = udp_socket_port(fd);
	return fd;
}
