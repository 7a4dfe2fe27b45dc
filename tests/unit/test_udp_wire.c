/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What leaves the machine: packets are sent into one end of a veth pair whose segmentation is
 * switched off, so that the stack itself cuts the super-packets, and are caught at the other end
 * with their IP headers. Each one's ICRC must be right with the identification it really has.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/ip6.h>
#include <poll.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "base/bytes.h"
#include "netns.h"
#include "port/udp/udp_port.h"
#include "wire/icrc.h"

#define N 130

static struct gid gid(const char *text)
{
	struct gid g;

	assert_int_equal(inet_pton(AF_INET6, text, g.raw), 1);
	return g;
}

static int tap_open(const char *ifname)
{
	struct sockaddr_ll at = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL)};
	int fd = socket(AF_PACKET, SOCK_DGRAM | SOCK_NONBLOCK, htons(ETH_P_ALL));
	int bytes = 8 << 20;

	at.sll_ifindex = (int)if_nametoindex(ifname);
	assert_true(fd >= 0);
	(void)setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof(bytes));
	assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	return fd;
}

/* Reads an IP packet for port 4791; false if it is another. */
static bool parse(const uint8_t *b, size_t len, struct flow *f, uint16_t *id, const uint8_t **udp,
		  size_t *udp_len)
{
	const uint8_t *u;

	memset(f, 0, sizeof(*f));
	*id = 0;
	if (len >= 28 && b[0] == 0x45 && b[9] == IPPROTO_UDP) {
		f->sgid.raw[10] = f->sgid.raw[11] = f->dgid.raw[10] = f->dgid.raw[11] = 0xff;
		memcpy(f->sgid.raw + 12, b + 12, 4);
		memcpy(f->dgid.raw + 12, b + 16, 4);
		*id = ld_be16(b + 4);
		u = b + 20;
	} else if (len >= 48 && b[0] >> 4 == 6 && b[6] == IPPROTO_UDP) {
		memcpy(f->sgid.raw, b + 8, 16);
		memcpy(f->dgid.raw, b + 24, 16);
		u = b + 40;
	} else {
		return false;
	}
	f->sport = ld_be16(u);
	*udp = u + 8;
	*udp_len = (size_t)ld_be16(u + 4) - 8;
	return ld_be16(u + 2) == ROCEV2_UDP_PORT && *udp + *udp_len == b + len;
}

struct seen {
	unsigned packets, wrong, cut;
};

static struct seen send_and_catch(const char *sgid, const char *dgid, uint32_t scope)
{
	static uint8_t data[N][1024];
	static struct rnic_tx tx[N];
	static uint8_t b[65536 + 64];
	struct flow flow = {.sgid = gid(sgid), .dgid = gid(dgid), .scope = scope};
	int fd = udp_socket_open(), tap = tap_open("v1");
	struct pollfd p = {.fd = tap, .events = POLLIN};
	struct udp_port *port;
	struct seen seen = {0};

	for (size_t i = 0; i < N; i++) {
		for (size_t k = 0; k < sizeof(data[i]); k++)
			data[i][k] = (uint8_t)(i + k);
		tx[i] = (struct rnic_tx){.flow = &flow, .hdr_len = BTH_LEN, .niov = 1};
		st_be24(tx[i].hdr + 9, (uint32_t)i);
		/* 64 pieces, then a short end, then lone ones of rising length. */
		tx[i].payload_len = i < 100 ? 1024 : (uint32_t)(i * 4);
		tx[i].iov[0] = (struct iovec){data[i], tx[i].payload_len};
	}
	assert_true(fd >= 0);
	assert_int_equal(udp_port_create(&port, fd), 0);
	assert_int_equal(udp_port_tx(port, tx, N), N);
	while (seen.packets < N && poll(&p, 1, 1000) > 0) {
		ssize_t len = recv(tap, b, sizeof(b), 0);
		const uint8_t *udp;
		size_t udp_len;
		struct flow f;
		uint16_t id;

		if (len <= 0 || !parse(b, (size_t)len, &f, &id, &udp, &udp_len))
			continue;
		assert_true(udp_len >= BTH_LEN);
		assert_int_equal(ld_be24(udp + 9), seen.packets);
		seen.cut += id != 0;
		seen.wrong += !icrc_check(&f, id, udp, udp_len);
		seen.packets++;
	}
	udp_port_destroy(port);
	close(tap);
	return seen;
}

static void every_icrc_on_the_wire_fits_its_ipv4_header(void **state)
{
	struct seen s = send_and_catch("::ffff:10.9.0.1", "::ffff:10.9.0.2", 0);

	(void)state;
	assert_int_equal(s.packets, N);
	assert_int_equal(s.wrong, 0);
	assert_in_range(s.cut, 90, 100); /* the stack did cut super-packets */
}

static void every_icrc_on_the_wire_fits_its_ipv6_header(void **state)
{
	struct seen s = send_and_catch("fd09::1", "fd09::2", 0);

	(void)state;
	assert_int_equal(s.packets, N);
	assert_int_equal(s.wrong, 0);
}

/* Another interface has the same address. */
static void a_link_local_address_means_that_of_the_scope(void **state)
{
	struct seen s = send_and_catch("fe80::ff:fe00:1", "fe80::ff:fe00:2", if_nametoindex("v0"));

	(void)state;
	assert_int_equal(s.packets, N);
	assert_int_equal(s.wrong, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_icrc_on_the_wire_fits_its_ipv4_header),
		cmocka_unit_test(every_icrc_on_the_wire_fits_its_ipv6_header),
		cmocka_unit_test(a_link_local_address_means_that_of_the_scope),
	};

	netns_enter();
	if (system("set -e\n"
		   "ip link add v0 address 02:00:00:00:00:01 type veth "
		   "peer name v1 address 02:00:00:00:00:02\n"
		   "for v in v0 v1; do ip link set $v addrgenmode none; ip link set $v up; done\n"
		   "ip addr add 10.9.0.1/24 dev v0\n"
		   "ip addr add fd09::1/64 dev v0 nodad\n"
		   "ip link add w0 type veth peer name w1\n"
		   "for v in w0 w1; do ip link set $v addrgenmode none; ip link set $v up; done\n"
		   "ip addr add fe80::ff:fe00:1/64 dev w0 nodad\n"
		   "ip addr add fe80::ff:fe00:1/64 dev v0 nodad\n"
		   "for a in 10.9.0.2 fd09::2 fe80::ff:fe00:2; do\n"
		   "  ip neigh add $a lladdr 02:00:00:00:00:02 dev v0 nud permanent\n"
		   "done\n"
		   "ip link set v0 gso_max_segs 1\n")) {
		puts("SKIP: no veth pair can be set up here");
		return 77;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
