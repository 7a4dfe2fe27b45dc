/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * RoCEv2 over a UDP socket on port 4791: the default port. Frames what the core wants sent (ICRC,
 * super-packets through UDP_SEGMENT, batches through sendmmsg; the payload goes from application
 * memory straight into the kernel) and receives in batches (recvmmsg, UDP_GRO), checking and
 * cutting off each ICRC before anything is handed on. Falls back cleanly where a kernel refuses
 * GSO, GRO or dual-stack sockets.
 *
 * The descriptor comes from udp_socket_open() or, leased, from the broker.
 * Single-threaded: the caller (a shard) serialises.
 */
#ifndef WEFT_PORT_UDP_UDP_PORT_H
#define WEFT_PORT_UDP_UDP_PORT_H

#include <stdint.h>
#include <sys/types.h>

#include "rnic/rnic.h"

struct udp_port;

struct udp_port_counters {
	uint64_t rx_packets, rx_batches, rx_icrc_bad, rx_short;
	uint64_t tx_packets, tx_batches, tx_would_block, tx_refused;
};

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

/* Takes over fd: it is closed with the port. */
int udp_port_create(struct udp_port **ret, int fd) must_use;
void udp_port_destroy(struct udp_port *);
int udp_port_fd(const struct udp_port *);
const struct udp_port_counters *udp_port_counters(const struct udp_port *);

/* From now on what is received says its TTL or hop limit, and the IPv6 flow label, in its flow: the
 * network header before a datagram has them, and connections need not pay for it. Where a kernel
 * does not say they stay 0. */
void udp_port_want_headers(struct udp_port *);

/* What ICMP says of packets that were sent to slot 0 is kept from now on, for who asks. Returns a
 * descriptor, the port's, with EPOLLERR while there is something; or -errno. */
int udp_port_hear_refusals(struct udp_port *) must_use;
/* One packet that did not get there, if anybody is to be believed who can send an ICMP message. */
struct udp_refusal {
	struct gid to;
	size_t len;
	uint8_t quoted[1280]; /* of the packet, from its transport header on */
};
bool udp_port_refusal(struct udp_port *, struct udp_refusal *ret) must_use;

/* In a forked child: closes its copies of the descriptors. The port then sends and receives
 * nothing, and is to be destroyed only. */
void udp_port_forked(struct udp_port *);

/* Receives one batch and calls rx for every good packet. What rx returns is whether it was one that
 * nobody but its sender could have sent: see ip_id.h. Returns the number of packets taken, bad
 * ones included, 0 when nothing waits, or -errno for a broken socket. now: monotonic. */
int udp_port_rx(struct udp_port *, uint64_t now, bool (*rx)(void *ctx, const struct rnic_rx *),
		void *ctx) must_use;

/* Sends n packets, each from the port's own choice of source port, not flow->sport. A packet that
 * the kernel would not take for want of room counts as lost on the wire: the transport recovers.
 * Returns the number handed to the kernel. */
size_t udp_port_tx(struct udp_port *, const struct rnic_tx *pkts, size_t n);

#endif
