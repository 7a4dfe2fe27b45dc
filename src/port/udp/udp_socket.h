/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The sockets that RoCEv2 needs, for who makes them and lends them out: the broker. */
#ifndef WEFT_PORT_UDP_UDP_SOCKET_H
#define WEFT_PORT_UDP_UDP_SOCKET_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/compiler.h"
#include "wire/flow.h"

/* A non-blocking, unconnected, dual-stack (IPv4-only where IPv6 is absent) UDP socket bound to the
 * wildcard address and port 4791 with SO_REUSEPORT, IP_PMTUDISC_PROBE, packet info and ECN
 * received, buffers as large as may be had. Returns the descriptor or -errno. */
int udp_socket_open(void) must_use;

/* As that, but for a program of another user: on a port of its own, which it can neither leave nor
 * share with sockets of this process's user; marked, for which the caller needs CAP_NET_ADMIN. */
int udp_socket_open_private(uint32_t mark, uid_t uid) must_use;

/* The port that a UDP socket is bound to; 0: none, or it is no such socket. */
uint16_t udp_socket_port(int fd);

/* Joins such a socket to a group on an interface, or leaves it. A socket takes only what is sent to
 * groups that it has joined itself. -errno: ENOBUFS beyond net.ipv4.igmp_max_memberships, ENODEV.
 */
int udp_socket_group(int fd, const struct gid *group, uint32_t ifindex, bool join) must_use;

/* Deaf, such a socket drops whatever comes, so that one that nobody reads keeps nothing. Without
 * effect where its holder has locked the filter. */
void udp_socket_deafen(int fd, bool deaf);

/* A socket on port 4791 of an IPv4 group's address, outside of the group of those above, that takes
 * nothing: see broker/groups.h. Returns the descriptor or -errno. */
int udp_decoy_open(const struct gid *group) must_use;

/* 0 if nobody has a socket on port 4791 here, -EADDRINUSE if somebody has, or -errno. */
int udp_port_is_free(void) must_use;

#endif
