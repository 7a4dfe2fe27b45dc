/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The UDP port against itself, over loopback, in a network namespace of its own. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <poll.h>
#include <cmocka.h>

#include "base/bytes.h"
#include "base/time.h"
#include "netns.h"
#include "port/udp/udp_port.h"
#include "port/udp/udp_socket.h"
#include "wire/icrc.h"

#define N_MAX	 300
#define DATA_MAX 4096

/* What the kernel is made to refuse: set by the tests, looked at by the wrapped calls. */
static int refuse_segments, refuse_all;
static bool refuse_labels;
static unsigned long sends, messages;
/* Of what was sent last. */
static int sent_priority;
static uint32_t sent_label;

static uint32_t label_of(const struct msghdr *m)
{
	const struct sockaddr_in6 *to = m->msg_name;

	return to->sin6_family == AF_INET6 ? ntohl(to->sin6_flowinfo) : 0;
}

int __real_kernel_sendmmsg(int fd, struct mmsghdr *v, unsigned n);
int __wrap_kernel_sendmmsg(int fd, struct mmsghdr *v, unsigned n);

int __wrap_kernel_sendmmsg(int fd, struct mmsghdr *v, unsigned n)
{
	struct msghdr *m = &v[0].msg_hdr;
	socklen_t len = sizeof(sent_priority);

	sends++;
	messages += n;
	assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_PRIORITY, &sent_priority, &len), 0);
	sent_label = label_of(m);
	if (refuse_labels && sent_label)
		return -EINVAL;
	if (refuse_all)
		return -refuse_all;
	for (unsigned i = 0; i < n && refuse_segments; i++) {
		m = &v[i].msg_hdr;
		for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c))
			if (c->cmsg_level == SOL_UDP && c->cmsg_type == UDP_SEGMENT)
				return i ? __real_kernel_sendmmsg(fd, v, i) : -refuse_segments;
	}
	return __real_kernel_sendmmsg(fd, v, n);
}

static bool refuse_ipv6;
int __real_kernel_socket(int family, int type, int protocol);
int __wrap_kernel_socket(int family, int type, int protocol);

int __wrap_kernel_socket(int family, int type, int protocol)
{
	if (refuse_ipv6 && family == AF_INET6) {
		errno = EAFNOSUPPORT;
		return -1;
	}
	return __real_kernel_socket(family, type, protocol);
}

static struct gid v4(uint32_t a)
{
	struct gid g = {.raw = {[10] = 0xff, [11] = 0xff}};

	st_be32(g.raw + 12, a);
	return g;
}

static const struct gid v6_loopback = {.raw = {[15] = 1}};

struct fixture {
	struct port *port;
	struct packet_tx tx[N_MAX];
	uint8_t data[N_MAX][DATA_MAX];
	struct flow flow;
	size_t got;
	size_t bad; /* packets that differ from what was sent */
	uint16_t sport;
	uint8_t tos;
	uint32_t label;
	struct packet_sent sent[N_MAX]; /* what the sender says of them */
	size_t differ;			/* packets of which the receiver saw something else */
	size_t mistaken; /* packets that came in another class, or with other marks */
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	int fd = udp_socket_open();

	assert_true(fd >= 0);
	assert_int_equal(udp_port_create(&f->port, fd), 0);
	f->flow.sgid = f->flow.dgid = v4(INADDR_LOOPBACK);
	f->flow.sport = 0xc123;
	for (size_t i = 0; i < N_MAX; i++)
		for (size_t k = 0; k < DATA_MAX; k++)
			f->data[i][k] = (uint8_t)(i * 31 + k * 7 + (k >> 8));
	*state = f;
	return 0;
}

static int setup_without_ipv6(void **state)
{
	refuse_ipv6 = true;
	return setup(state);
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	port_destroy(f->port);
	free(f);
	refuse_segments = refuse_all = 0;
	refuse_labels = false;
	refuse_ipv6 = false;
	return 0;
}

/* Packet i: a BTH that tells i, and len bytes of payload in two pieces. */
static void make_packet(struct fixture *f, size_t i, size_t len)
{
	struct packet_tx *t = &f->tx[i];

	memset(t, 0, sizeof(*t));
	t->flow = &f->flow;
	t->hdr_len = BTH_LEN;
	st_be16(t->hdr + 2, PKEY_DEFAULT);
	st_be24(t->hdr + 5, 0x030000);
	st_be24(t->hdr + 9, (uint32_t)i);
	t->payload_len = (uint32_t)len;
	t->pad = (uint8_t)(-len & 3);
	if (len) {
		t->niov = 2;
		t->iov[0] = (struct iovec){f->data[i], len / 3};
		t->iov[1] = (struct iovec){f->data[i] + len / 3, len - len / 3};
	}
}

static bool take(void *ctx, const struct packet_rx *r)
{
	struct fixture *f = ctx;
	size_t i = ld_be24(r->data + 9);
	const struct packet_tx *t = &f->tx[i];
	bool ok = i < N_MAX && i == f->got && gid_equal(&r->flow.sgid, &f->flow.sgid) &&
		  gid_equal(&r->flow.dgid, &f->flow.dgid) &&
		  r->len == (size_t)BTH_LEN + t->payload_len + t->pad &&
		  memcmp(r->data, t->hdr, BTH_LEN) == 0 &&
		  memcmp(r->data + BTH_LEN, f->data[i], t->payload_len) == 0;

	f->bad += !ok;
	f->got++;
	f->sport = r->flow.sport;
	f->tos = r->flow.tos;
	f->label = r->flow.flow_label;
	f->mistaken += i < N_MAX && r->flow.tos != t->flow->tos;
	f->differ += i < N_MAX && (r->flow.sport != f->sent[i].sport ||
				   (gid_is_ipv4(&r->flow.sgid) && r->ip_id != f->sent[i].ip_id) ||
				   r->icrc != f->sent[i].icrc);
	return true;
}

static void drain(struct fixture *f)
{
	struct pollfd p = {.fd = f->port->fd, .events = POLLIN};

	while (poll(&p, 1, 50) > 0)
		assert_true(port_rx(f->port, time_now_ns(), take, f) > 0);
}

static void a_packet_comes_back_as_it_was_sent(void **state)
{
	struct fixture *f = *state;

	f->flow.tos = 0x2a; /* with an ECN codepoint */
	f->flow.ttl = 9;
	make_packet(f, 0, 1001);
	assert_int_equal(port_tx(f->port, f->tx, 1, NULL), 1);
	drain(f);
	assert_int_equal(f->got, 1);
	assert_int_equal(f->bad, 0);
	assert_int_equal(f->tos, 0x2a);
	assert_int_equal(port_rx(f->port, time_now_ns(), take, f), 0);
}

static void ipv6_goes_over_the_same_socket(void **state)
{
	struct fixture *f = *state;

	f->flow.sgid = f->flow.dgid = v6_loopback;
	f->flow.tos = 2;
	f->flow.ttl = 3;
	for (size_t i = 0; i < 5; i++)
		make_packet(f, i, 777);
	assert_int_equal(port_tx(f->port, f->tx, 5, NULL), 5);
	drain(f);
	assert_int_equal(f->got, 5);
	assert_int_equal(f->bad, 0);
	assert_int_equal(f->tos, 2);
}

/* As Linux rxe sends. */
static void ipv6_packets_without_a_udp_checksum_are_received(void **state)
{
	struct fixture *f = *state;
	struct sockaddr_in6 to = {.sin6_family = AF_INET6,
				  .sin6_port = htons(ROCEV2_UDP_PORT),
				  .sin6_addr = IN6ADDR_LOOPBACK_INIT};
	socklen_t len = sizeof(to);
	int fd = socket(AF_INET6, SOCK_DGRAM, 0), on = 1;
	uint8_t b[BTH_LEN + ICRC_LEN];

	assert_true(fd >= 0);
	assert_int_equal(setsockopt(fd, SOL_UDP, UDP_NO_CHECK6_TX, &on, sizeof(on)), 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&to, &len), 0);
	f->flow.sgid = f->flow.dgid = v6_loopback;
	f->flow.sport = ntohs(to.sin6_port);
	make_packet(f, 0, 0);
	memcpy(b, f->tx[0].hdr, BTH_LEN);
	st_le32(b + BTH_LEN, icrc_end(icrc_begin(&f->flow, 0, sizeof(b), b, BTH_LEN)));
	assert_int_equal(send(fd, b, sizeof(b), 0), sizeof(b));
	close(fd);
	drain(f);
	assert_int_equal(f->got, 1);
	assert_int_equal(f->bad, 0);
}

static void send_mixture(struct fixture *f, size_t n)
{
	/* Runs of equal length with shorter ends, empty packets, sizes around the copy limit. */
	for (size_t i = 0; i < n; i++)
		make_packet(f, i, i % 40 < 30 ? 4096 : i % 40 == 39 ? 0 : i % 40 * 17);
	assert_int_equal(port_tx(f->port, f->tx, n, NULL), n);
	drain(f);
	assert_int_equal(f->got, n);
	assert_int_equal(f->bad, 0);
	assert_int_equal(f->port->counters->rx_icrc_bad, 0);
}

static void equal_packets_travel_as_super_packets(void **state)
{
	struct fixture *f = *state;
	const struct port_counters *c = f->port->counters;

	for (size_t i = 0; i < 60; i++)
		make_packet(f, i, 1024);
	sends = 0;
	assert_int_equal(port_tx(f->port, f->tx, 60, NULL), 60);
	assert_int_equal(sends, 1);
	assert_int_equal(port_rx(f->port, time_now_ns(), take, f),
			 60); /* one datagram for the receiver */
	assert_int_equal(f->bad, 0);
	assert_int_equal(c->rx_batches, 1);
}

/* How many of the first n were sent, as far as the port says. */
static size_t sent_of(const struct fixture *f, size_t n)
{
	size_t sent = 0;

	for (size_t i = 0; i < n; i++)
		sent += f->sent[i].sport != 0;
	return sent;
}

/* As super-packets and without them, over both versions of IP. */
static void a_sender_can_know_what_its_packets_look_like(void **state)
{
	struct fixture *f = *state;

	for (int round = 0; round < 4; round++) {
		if (round == 1)
			refuse_segments = EIO;
		if (round == 3)
			f->flow.sgid = f->flow.dgid = v6_loopback;
		for (size_t i = 0; i < 50; i++)
			make_packet(f, i, i < 40 ? 700 : i * 13);
		f->got = 0;
		assert_int_equal(port_tx(f->port, f->tx, 50, f->sent), 50);
		assert_int_equal(sent_of(f, 50), 50);
		drain(f);
		assert_int_equal(f->got, 50);
		assert_int_equal(f->differ, 0);
	}
}

static void a_mixture_of_lengths_arrives_in_order(void **state)
{
	send_mixture(*state, N_MAX);
}

static void a_kernel_without_segmentation_gets_single_packets(void **state)
{
	struct fixture *f = *state;

	refuse_segments = EIO;
	send_mixture(f, 200);
	/* It has been remembered: nothing is tried in vain any more. */
	f->got = 0;
	sends = 0;
	make_packet(f, 0, 1024);
	make_packet(f, 1, 1024);
	assert_int_equal(port_tx(f->port, f->tx, 2, NULL), 2);
	assert_int_equal(sends, 1);
	drain(f);
	assert_int_equal(f->got, 2);
	assert_int_equal(f->bad, 0);
}

static void sends_ten_to(struct fixture *f, uint8_t slot)
{
	f->got = 0;
	for (size_t i = 0; i < 10; i++) {
		make_packet(f, i, 1024);
		f->tx[i].hdr[5] = slot;
	}
	messages = 0;
	assert_int_equal(port_tx(f->port, f->tx, 10, NULL), 10);
	drain(f);
	assert_int_equal(f->got, 10);
	assert_int_equal(f->bad, 0);
}

static void a_way_that_cannot_segment_is_one_peers_alone(void **state)
{
	struct fixture *f = *state;

	refuse_segments = EIO;
	sends_ten_to(f, 3);
	refuse_segments = 0;
	sends_ten_to(f, 4);
	assert_int_equal(messages, 1);
	sends_ten_to(f, 3); /* it has been remembered */
	assert_int_equal(messages, 10);
}

static void packets_to_different_slots_never_share_a_super_packet(void **state)
{
	struct fixture *f = *state;
	uint16_t sport[2];

	for (size_t i = 0; i < 2; i++) {
		make_packet(f, i, 64);
		f->tx[i].hdr[5] = (uint8_t)(3 + i);
	}
	sends = 0;
	assert_int_equal(port_tx(f->port, f->tx, 2, NULL), 2);
	assert_int_equal(sends, 2);
	/* Nor can a receiving host's GRO join them. */
	for (size_t i = 0; i < 2; i++) {
		f->got = i;
		make_packet(f, i, 64);
		f->tx[i].hdr[5] = (uint8_t)(3 + i);
		assert_int_equal(port_tx(f->port, &f->tx[i], 1, NULL), 1);
		drain(f);
		sport[i] = f->sport;
	}
	assert_int_not_equal(sport[0], sport[1]);
}

static void go_and_come(struct fixture *f)
{
	f->got = 0;
	make_packet(f, 0, 100);
	assert_int_equal(port_tx(f->port, f->tx, 1, NULL), 1);
	drain(f);
	assert_int_equal(f->got, 1);
	assert_int_equal(f->bad, 0);
}

/* More classes than there are sockets for, in turn and together, over both versions of IP. */
static void each_class_has_its_priority(void **state)
{
	static const struct {
		uint8_t tos, sl;
		int priority;
	} classes[] = {{0, 0, 0},	{26 << 2 | 2, 0, 3}, {26 << 2 | 2, 5, 5}, {48 << 2, 0, 6},
		       {10 << 2, 0, 1}, {0x1c, 0, 0},	     {26 << 2 | 2, 8, 0}};
	struct fixture *f = *state;
	struct flow flows[ARRAY_SIZE(classes)];
	uint16_t sport[ARRAY_SIZE(classes)];

	for (size_t round = 0; round < 4; round++) {
		if (round == 2)
			f->flow.sgid = f->flow.dgid = v6_loopback;
		for (size_t i = 0; i < ARRAY_SIZE(classes); i++) {
			f->flow.tos = classes[i].tos;
			f->flow.sl = classes[i].sl;
			flows[i] = f->flow;
			go_and_come(f);
			assert_int_equal(f->tos, classes[i].tos);
			assert_int_equal(sent_priority, classes[i].priority);
			sport[i] = f->sport;
		}
		assert_int_not_equal(sport[0], sport[1]);
		assert_int_not_equal(sport[1], sport[2]);
		assert_int_not_equal(sport[2], sport[3]);
	}
	for (size_t i = 0; i < ARRAY_SIZE(classes); i++) {
		make_packet(f, i, 100);
		f->tx[i].flow = &flows[i];
	}
	f->got = 0;
	sends = 0;
	assert_int_equal(port_tx(f->port, f->tx, ARRAY_SIZE(classes), NULL), ARRAY_SIZE(classes));
	assert_int_equal(sends, ARRAY_SIZE(classes));
	drain(f);
	assert_int_equal(f->got, ARRAY_SIZE(classes));
	assert_int_equal(f->bad, 0);
}

/* Of a train that a switch has marked some of, as super-packets and one by one. */
static void each_packet_says_whether_it_is_marked(void **state)
{
	struct fixture *f = *state;
	struct flow marked;

	for (int round = 0; round < 4; round++) {
		int joined = !(round & 1);

		assert_int_equal(setsockopt(f->port->fd, SOL_UDP, UDP_GRO, &joined, sizeof(joined)),
				 0);
		if (round == 2)
			f->flow.sgid = f->flow.dgid = v6_loopback;
		f->flow.tos = 26 << 2 | 2;
		marked = f->flow;
		marked.tos |= 3;
		for (size_t i = 0; i < 100; i++) {
			make_packet(f, i, 700);
			if (i % 7 == 2 || i % 7 > 4) /* by themselves, and two together */
				f->tx[i].flow = &marked;
		}
		f->got = 0;
		assert_int_equal(port_tx(f->port, f->tx, 100, NULL), 100);
		drain(f);
		assert_int_equal(f->got, 100);
		assert_int_equal(f->bad, 0);
		assert_int_equal(f->mistaken, 0);
	}
}

static void an_address_can_say_the_flow_label(void **state)
{
	struct fixture *f = *state;

	port_want_headers(f->port);
	f->flow.sgid = f->flow.dgid = v6_loopback;
	f->flow.flow_label = 0x12345;
	go_and_come(f);
	assert_int_equal(sent_label, 0x12345);
	assert_int_equal(f->label, 0x12345);
	/* Where somebody has leased one for himself, it goes without. */
	refuse_labels = true;
	go_and_come(f);
	assert_int_equal(sent_label, 0);
	assert_int_not_equal(f->label, 0x12345);
	assert_int_equal(f->port->counters->tx_refused, 0);
	sends = 0;
	go_and_come(f);
	assert_int_equal(sends, 1);
	f->flow.sgid = f->flow.dgid = v4(INADDR_LOOPBACK);
	go_and_come(f);
}

static void a_full_socket_counts_as_loss(void **state)
{
	struct fixture *f = *state;
	const struct port_counters *c = f->port->counters;

	make_packet(f, 0, 100);
	make_packet(f, 1, 90);
	make_packet(f, 2, 90);
	refuse_all = EAGAIN;
	assert_int_equal(port_tx(f->port, f->tx, 3, f->sent), 0);
	assert_int_equal(c->tx_would_block, 3);
	assert_int_equal(sent_of(f, 3), 0);
	refuse_all = ENETUNREACH;
	assert_int_equal(port_tx(f->port, f->tx, 3, f->sent), 0);
	assert_int_equal(c->tx_refused, 3);
	assert_int_equal(sent_of(f, 3), 0);
	refuse_all = 0;
	assert_int_equal(port_tx(f->port, f->tx, 3, NULL), 3);
}

static void a_packet_too_long_for_the_way_is_refused_alone(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(system("ip link set lo mtu 1400"), 0);
	for (size_t i = 0; i < 4; i++)
		make_packet(f, i, 2048);
	make_packet(f, 4, 1024);
	make_packet(f, 5, 1024);
	assert_int_equal(port_tx(f->port, f->tx, 6, f->sent), 2);
	assert_int_equal(f->port->counters->tx_refused, 4);
	assert_int_equal(sent_of(f, 4), 0);
	assert_int_equal(sent_of(f, 6), 2);
	f->got = 4;
	drain(f);
	assert_int_equal(f->got, 6);
	assert_int_equal(f->bad, 0);
	/* That was not the fault of segmentation. */
	sends = 0;
	for (size_t i = 0; i < 60; i++)
		make_packet(f, i, 512);
	assert_int_equal(port_tx(f->port, f->tx, 60, NULL), 60);
	assert_int_equal(sends, 1);
	assert_int_equal(system("ip link set lo mtu 65536"), 0);
}

static void ipv4_alone_will_do(void **state)
{
	struct fixture *f = *state;
	int family;
	socklen_t len = sizeof(family);

	assert_int_equal(getsockopt(f->port->fd, SOL_SOCKET, SO_DOMAIN, &family, &len), 0);
	assert_int_equal(family, AF_INET);
	f->flow.tos = 2;
	send_mixture(f, 100);
	assert_int_equal(f->tos, 2);
	/* IPv6 has no way out. */
	f->flow.sgid = f->flow.dgid = v6_loopback;
	make_packet(f, 0, 100);
	assert_int_equal(port_tx(f->port, f->tx, 1, NULL), 0);
	assert_int_equal(f->port->counters->tx_refused, 1);
}

/* On another port than 4791, where nobody is then. */
static int setup_alone(void **state)
{
	struct fixture *f;
	int fd;

	setup(state);
	f = *state;
	port_destroy(f->port);
	fd = udp_socket_open_private(1, getuid());
	assert_true(fd >= 0);
	assert_int_equal(udp_port_create(&f->port, fd), 0);
	return 0;
}

static void be_refused(struct fixture *f, int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	struct udp_refusal r;

	for (size_t i = 0; i < 3; i++) { /* what is said of one holds up no other */
		make_packet(f, i, 100);
		f->tx[i].hdr[5] = 0;
		assert_int_equal(port_tx(f->port, &f->tx[i], 1, NULL), 1);
	}
	assert_int_equal(poll(&p, 1, 1000), 1);
	assert_int_equal(p.revents, POLLERR);
	for (size_t i = 0; i < 3; i++) {
		assert_true(udp_port_refusal(f->port, &r));
		assert_true(gid_equal(&r.to, &f->flow.dgid));
		assert_in_range(r.len, BTH_LEN + 100, BTH_LEN + 100 + ICRC_LEN);
		assert_memory_equal(r.quoted, f->tx[i].hdr, BTH_LEN);
		assert_memory_equal(r.quoted + BTH_LEN, f->data[i], 100);
	}
	assert_false(udp_port_refusal(f->port, &r));
	assert_int_equal(poll(&p, 1, 0), 0);
}

static void an_unreachable_port_is_told_of_with_the_packet(void **state)
{
	struct fixture *f = *state;
	int fd = udp_port_hear_refusals(f->port);

	assert_true(fd >= 0);
	be_refused(f, fd);
	f->flow.sgid = f->flow.dgid = v6_loopback;
	be_refused(f, fd);
	assert_int_equal(f->port->counters->tx_refused, 0);
}

static void corrupt_and_short_packets_are_dropped(void **state)
{
	struct fixture *f = *state;
	const struct port_counters *c = f->port->counters;
	struct sockaddr_in to = {.sin_family = AF_INET,
				 .sin_port = htons(ROCEV2_UDP_PORT),
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_DGRAM, 0), rc;
	uint8_t junk[64];

	/* Known to the table as one that sends small identifications: then 2^-26 each. */
	make_packet(f, 0, 100);
	assert_int_equal(port_tx(f->port, f->tx, 1, NULL), 1);
	drain(f);
	srand(7);
	for (size_t len = 0; len <= sizeof(junk); len++) {
		for (size_t i = 0; i < len; i++)
			junk[i] = (uint8_t)rand();
		rc = (int)sendto(fd, junk, len, 0, (struct sockaddr *)&to, sizeof(to));
		assert_int_equal(rc, len);
	}
	close(fd);
	drain(f);
	assert_int_equal(f->got, 1);
	assert_int_equal(c->rx_short, 16);
	assert_int_equal(c->rx_icrc_bad, 64 - 15 - 1); /* PORT_DOORBELL_LEN is passed over */
}

int main(void)
{
#define PORT_TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		PORT_TEST(a_packet_comes_back_as_it_was_sent),
		PORT_TEST(ipv6_goes_over_the_same_socket),
		PORT_TEST(ipv6_packets_without_a_udp_checksum_are_received),
		PORT_TEST(equal_packets_travel_as_super_packets),
		PORT_TEST(a_sender_can_know_what_its_packets_look_like),
		PORT_TEST(a_mixture_of_lengths_arrives_in_order),
		PORT_TEST(a_kernel_without_segmentation_gets_single_packets),
		PORT_TEST(a_way_that_cannot_segment_is_one_peers_alone),
		PORT_TEST(packets_to_different_slots_never_share_a_super_packet),
		PORT_TEST(each_class_has_its_priority),
		PORT_TEST(each_packet_says_whether_it_is_marked),
		PORT_TEST(an_address_can_say_the_flow_label),
		PORT_TEST(a_full_socket_counts_as_loss),
		PORT_TEST(a_packet_too_long_for_the_way_is_refused_alone),
		PORT_TEST(corrupt_and_short_packets_are_dropped),
		cmocka_unit_test_setup_teardown(an_unreachable_port_is_told_of_with_the_packet,
						setup_alone, teardown),
		cmocka_unit_test_setup_teardown(ipv4_alone_will_do, setup_without_ipv6, teardown),
	};

	netns_enter();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
