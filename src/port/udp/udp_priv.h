/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What the sending and the receiving half of the UDP port share. */
#ifndef WEFT_PORT_UDP_UDP_PRIV_H
#define WEFT_PORT_UDP_UDP_PRIV_H

#include <netinet/in.h>
#include <netinet/udp.h>
#include <stdbool.h>
#include <sys/socket.h>

#include "port/udp/ip_id.h"
#include "port/udp/udp_port.h"
#include "port/udp/udp_socket.h"

#ifndef IPV6_FLOWINFO /* of <linux/in6.h>, which does not go with the C library's */
#define IPV6_FLOWINFO 11
#endif

#ifndef IPV6_FLOWINFO_SEND
#define IPV6_FLOWINFO_SEND 33
#endif

#define UDP_RX_BATCH	16    /* datagrams, each possibly of many packets, per recvmmsg */
#define UDP_RX_BUF	65536 /* a super-packet is an IP packet: it is never longer */
#define UDP_RX_STRIDE	(UDP_RX_BUF + 576) /* so that the buffers' heads share no cache set */
#define UDP_TX_BATCH	64		   /* packets per sendmmsg */
#define UDP_TX_SEGMENTS 64		   /* UDP_MAX_SEGMENTS of the older kernels */
#define UDP_TX_CLASSES	4		   /* sockets for one slot */
#define UDP_TX_FURTHER	64    /* of all slots, beyond one for each: peers choose classes */
#define UDP_TX_COPY	512   /* payloads up to this length are copied beside their headers */
#define UDP_TX_PAYLOAD	4096  /* the greatest path MTU */
#define UDP_TX_BYTES	65507 /* the longest IPv4 UDP payload */
#define UDP_TX_IOVS	1024  /* UIO_MAXIOV: the most that one message may have */

_Static_assert(UDP_TX_SEGMENTS <= IP_ID_SMALL,
	       "a receiver believes the last piece's identification");

union udp_addr {
	struct sockaddr sa;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
};

struct udp_rx_slot {
	union udp_addr from;
	struct iovec iov;
	/* destination address, TOS, segment size; room for what else a kernel may say */
	_Alignas(struct cmsghdr) uint8_t control[256];
};

/* One message of a sendmmsg call: a run of packets pkt[first], ... of one flow. */
struct udp_tx_msg {
	size_t first, count;
	union udp_addr to;
	_Alignas(struct cmsghdr) uint8_t control[160];
	bool unlabelled; /* its flow label was taken away: it was refused */
};

/* A socket to send by, and the class that it is set to. */
struct udp_tx_socket {
	int fd; /* -1: not yet */
	uint16_t sport;
	uint8_t tos, priority;
	bool singly; /* the way of its packets cannot segment */
};

struct udp_port {
	struct port port; /* first. Its descriptor receives; -1 after a fork */
	int family;
	bool gso; /* the kernel can segment */
	bool hears_refusals;

	struct {
		uint8_t *buf; /* UDP_RX_BATCH strides */
		size_t used;  /* headers the last batch has written to */
		size_t want;  /* datagrams to ask for: where few come, asking for more costs time */
		struct mmsghdr msg[UDP_RX_BATCH];
		struct udp_rx_slot slot[UDP_RX_BATCH];
		struct ip_id_table ids;
	} rx;

	struct {
		/* By the destination's slot, opened when first needed: see udp_tx.c. */
		struct udp_tx_socket sock[256][UDP_TX_CLASSES];
		struct udp_tx_socket own; /* the receiving one, where no other is to be had */
		unsigned int further;	  /* sockets beyond the first of a slot */
		bool labels;		  /* flow labels may be said */
		struct icrc_memo headers;
		struct mmsghdr msg[UDP_TX_BATCH];
		struct udp_tx_msg run[UDP_TX_BATCH];
		size_t msgs, iovs, room_used;
		/* Of the call under way. */
		const struct packet_tx *pkts;
		struct packet_sent *ret_sent; /* of each of them; NULL: nobody asks */
		struct iovec iov[UDP_TX_BATCH * (PACKET_IOV_MAX + 2)];
		uint8_t room[UDP_TX_BATCH * (PKT_HDR_MAX + UDP_TX_PAYLOAD + 3 + ICRC_LEN)];
	} tx;
};

static inline struct udp_port *udp_port_of(struct port *p)
{
	return (struct udp_port *)p;
}

size_t udp_port_tx(struct port *, const struct packet_tx *pkts, size_t n,
		   struct packet_sent *ret_sent);
/* recvmmsg(2) and sendmmsg(2) without the C library's wrappers: those are cancellation points,
 * which costs time in a threaded process and must not be under a lock. -errno on failure. */
void udp_socket_want_headers(int fd, int family);
/* A socket that only sends, on a port that the kernel chooses. Returns it or -errno. */
int udp_tx_socket_open(int family, uint16_t *ret_sport) must_use;
/* The address in the form that flows have, and the port in host order. */
void udp_gid_of(struct gid *, const union udp_addr *, uint16_t *ret_port);
void udp_tx_init(struct udp_port *);
void udp_tx_close(struct udp_port *);

#endif
