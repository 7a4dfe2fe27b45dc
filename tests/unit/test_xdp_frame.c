/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Frames of Ethernet: what is laid out is, byte for byte, what the kernel sends of the same packet
 * for the UDP port, which is caught at the other end of a veth pair; and what is read is what was
 * laid out, or nothing.
 */
#include <arpa/inet.h>
#include <linux/ethtool.h>
#include <linux/if_packet.h>
#include <linux/sockios.h>
#include <net/ethernet.h>
#include <poll.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "base/bytes.h"
#include "netns.h"
#include "port/udp/udp_port.h"
#include "port/udp/udp_socket.h"
#include "port/xdp/frame.h"

#define FRAME_MAX 4200

static const struct frame_macs macs = {{2, 0, 0, 0, 0, 2}, {2, 0, 0, 0, 0, 1}};
static uint8_t data[2048];

static struct gid gid(const char *text)
{
	struct gid g;

	assert_int_equal(inet_pton(AF_INET6, text, g.raw), 1);
	return g;
}

/* A packet with a BTH, and a payload in two pieces. */
static struct packet_tx packet(const struct flow *f, uint32_t len)
{
	struct packet_tx t = {.flow = f,
			      .hdr = {[0] = 0x04, [2] = 0xff, [3] = 0xff, [5] = 0x42, [7] = 7},
			      .hdr_len = BTH_LEN,
			      .pad = (uint8_t)(-len & 3),
			      .niov = 2,
			      .payload_len = len,
			      .iov = {{data, len / 3}, {data + len / 3, len - len / 3}}};

	t.hdr[1] = (uint8_t)(t.pad << 4);
	return t;
}

/* ---- as the kernel does ---------------------------------------------------------------------- */

static int tap_open(void)
{
	struct sockaddr_ll at = {.sll_family = AF_PACKET,
				 .sll_protocol = htons(ETH_P_ALL),
				 .sll_ifindex = (int)if_nametoindex("v1")};
	int fd = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK, htons(ETH_P_ALL));

	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	return fd;
}

/* Where the UDP header is; 0: it is no RoCEv2 packet. */
static size_t udp_at(const uint8_t *b, size_t len)
{
	size_t at = len < 58 ? 0 : b[12] == 0x08 ? 34 : b[12] == 0x86 ? 54 : 0;

	return at && ld_be16(b + at + 2) == ROCEV2_UDP_PORT ? at : 0;
}

static size_t caught(int tap, uint8_t *b, size_t size)
{
	struct pollfd p = {.fd = tap, .events = POLLIN};

	while (poll(&p, 1, 5000) == 1) {
		ssize_t n = recv(tap, b, size, 0);

		if (n > 0 && udp_at(b, (size_t)n))
			return (size_t)n;
	}
	fail_msg("nothing came out of the other end");
	return 0;
}

static void same_as_the_kernels(struct port *udp, int tap, struct flow f, uint32_t payload)
{
	uint8_t theirs[FRAME_MAX], ours[FRAME_MAX];
	struct packet_tx t = packet(&f, payload);
	struct packet_sent as, sent;
	size_t len;

	assert_int_equal(port_tx(udp, &t, 1, &sent), 1);
	len = caught(tap, theirs, sizeof(theirs));
	/* Of IPv6 the kernel makes up a label for whoever gives none. */
	if (!gid_is_ipv4(&f.dgid))
		f.flow_label = ld_be32(theirs + 14) & 0xfffff;
	assert_int_equal(len, frame_len(&t));
	as = frame_put(ours, &macs, &t, sent.sport);
	assert_memory_equal(ours, theirs, len);
	assert_int_equal(as.icrc, sent.icrc);
	assert_int_equal(as.ip_id, sent.ip_id);
	assert_int_equal(as.sport, sent.sport);
}

static void a_frame_is_what_the_kernel_sends(void **state)
{
	static const uint32_t payloads[] = {0, 1, 2, 3, 4, 8, 77, 511, 512, 513, 1023, 1024};
	struct port *udp;
	int fd = udp_socket_open(), tap = tap_open();

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(udp_port_create(&udp, fd), 0);
	for (unsigned i = 0; i < ARRAY_SIZE(payloads); i++)
		for (unsigned tos = 0; tos < 256; tos += 0x62) {
			struct flow f = {.sgid = gid("::ffff:10.9.0.1"),
					 .dgid = gid("::ffff:10.9.0.2"),
					 .tos = (uint8_t)tos,
					 .ttl = tos ? 3 : 0};

			same_as_the_kernels(udp, tap, f, payloads[i]);
			f.sgid = gid("fd09::1");
			f.dgid = gid("fd09::2");
			same_as_the_kernels(udp, tap, f, payloads[i]);
		}
	close(tap);
	port_destroy(udp);
}

/* ---- by itself ------------------------------------------------------------------------------- */

static struct flow flow(bool v4)
{
	return (struct flow){.sgid = gid(v4 ? "::ffff:10.9.0.1" : "fd09::1"),
			     .dgid = gid(v4 ? "::ffff:10.9.0.2" : "fd09::2"),
			     .tos = 0x62,
			     .ttl = 9,
			     .flow_label = v4 ? 0 : 0xabcde};
}

static void what_is_laid_out_is_read(void **state)
{
	(void)state;
	for (int v4 = 0; v4 < 2; v4++)
		for (uint32_t payload = 0; payload < 70; payload++) {
			uint8_t b[FRAME_MAX];
			struct flow f = flow(v4);
			struct packet_tx t = packet(&f, payload);
			struct packet_sent as = frame_put(b, &macs, &t, 61000);
			struct packet_rx r;

			/* Ethernet's shortest frame is longer: the rest is filling. */
			assert_int_equal(frame_take(b, frame_len(&t) + 20, &r), FRAME_GOOD);
			assert_true(gid_equal(&r.flow.sgid, &f.sgid));
			assert_true(gid_equal(&r.flow.dgid, &f.dgid));
			assert_int_equal(r.flow.sport, 61000);
			assert_int_equal(r.flow.tos, f.tos);
			assert_int_equal(r.flow.ttl, f.ttl);
			assert_int_equal(r.flow.flow_label, f.flow_label);
			assert_int_equal(r.icrc, as.icrc);
			assert_int_equal(r.len, BTH_LEN + payload + t.pad);
			assert_memory_equal(r.data, t.hdr, BTH_LEN);
			assert_memory_equal(r.data + BTH_LEN, data, payload);
		}
}

/* Which the ICRC does not cover, and nothing else looks at: TOS and TTL of IPv4 have a checksum. */
static bool may_change(bool v4, size_t at, unsigned bit)
{
	size_t udp = v4 ? 34 : 54;

	if (at < 12 || at == udp + 6 || at == udp + 7 || at == udp + 8 + 4)
		return true;
	return !v4 && ((at == 14 && bit < 4) || (at > 14 && at < 18) || at == 14 + 7);
}

static void a_damaged_frame_is_not_taken(void **state)
{
	(void)state;
	for (int v4 = 0; v4 < 2; v4++) {
		uint8_t b[FRAME_MAX];
		struct flow f = flow(v4);
		struct packet_tx t = packet(&f, 66);
		size_t len = frame_len(&t);
		struct packet_rx r;

		frame_put(b, &macs, &t, 61000);
		for (size_t i = 0; i < len; i++)
			for (unsigned bit = 0; bit < 8; bit++) {
				b[i] ^= (uint8_t)(1u << bit);
				assert_int_equal(frame_take(b, len, &r) == FRAME_GOOD,
						 may_change(v4, i, bit));
				b[i] ^= (uint8_t)(1u << bit);
			}
	}
}

static void a_frame_that_was_cut_is_not_taken(void **state)
{
	(void)state;
	for (int v4 = 0; v4 < 2; v4++) {
		uint8_t b[FRAME_MAX];
		struct flow f = flow(v4);
		struct packet_tx t = packet(&f, 66);
		struct packet_rx r;

		frame_put(b, &macs, &t, 61000);
		for (size_t len = 0; len < frame_len(&t); len++) {
			uint8_t *cut = malloc(len + 1); /* sanitizers see what is read behind it */

			memcpy(cut, b, len);
			assert_int_equal(frame_take(cut, len, &r), FRAME_SHORT);
			free(cut);
		}
	}
}

/* Addresses of IPv4 in an IPv6 header would make somebody else of the sender, above. */
static void ipv6_does_not_pass_for_ipv4(void **state)
{
	static const size_t places[] = {14 + 8, 14 + 24};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		uint8_t b[FRAME_MAX];
		struct flow f = flow(false);
		struct packet_tx t = packet(&f, 8);
		struct gid mapped = gid("::ffff:10.9.0.2");
		struct packet_rx r;

		frame_put(b, &macs, &t, 61000);
		memcpy(b + places[i], mapped.raw, 16);
		assert_int_equal(frame_take(b, frame_len(&t), &r), FRAME_SHORT);
	}
}

static void the_identification_that_a_sender_counts_is_checked(void **state)
{
	uint8_t b[FRAME_MAX];
	struct flow f = flow(true);
	struct packet_tx t = packet(&f, 8);
	struct packet_rx r;

	(void)state;
	frame_put(b, &macs, &t, 61000);
	/* A sender that counts, whose header's checksum is right and whose ICRC is for another. */
	st_be16(b + 18, 5);
	st_be16(b + 24, (uint16_t)(ld_be16(b + 24) - 5));
	assert_int_equal(frame_take(b, frame_len(&t), &r), FRAME_ICRC_BAD);
	assert_int_equal(r.ip_id, 5);
}

/* Receivers join packets of equal ports, and give them all to the slot of the first. */
static void equal_source_ports_go_to_one_slot(void **state)
{
	struct flow f = flow(true);
	struct packet_tx t = packet(&f, 0);

	(void)state;
	for (unsigned slot = 0; slot < 256; slot++)
		for (unsigned wish = 0xc000; wish < 0x10000; wish += 77) {
			t.hdr[5] = (uint8_t)slot;
			f.sport = (uint16_t)wish;
			assert_int_equal(frame_sport(&t) & 0xff, slot);
			assert_true(frame_sport(&t) > 60999); /* the kernel's own are below */
		}
}

/* Or the kernel leaves checksums to the hardware, of which there is none. */
static int compute_checksums(void)
{
	struct ethtool_value v = {.cmd = ETHTOOL_STXCSUM, .data = 0};
	struct ifreq r = {.ifr_name = "v0", .ifr_data = (void *)&v};
	int fd = socket(AF_INET, SOCK_DGRAM, 0), rc = ioctl(fd, SIOCETHTOOL, &r);

	close(fd);
	return rc;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_frame_is_what_the_kernel_sends),
		cmocka_unit_test(what_is_laid_out_is_read),
		cmocka_unit_test(a_damaged_frame_is_not_taken),
		cmocka_unit_test(a_frame_that_was_cut_is_not_taken),
		cmocka_unit_test(ipv6_does_not_pass_for_ipv4),
		cmocka_unit_test(the_identification_that_a_sender_counts_is_checked),
		cmocka_unit_test(equal_source_ports_go_to_one_slot),
	};

	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(i * 7 + (i >> 8));
	netns_enter();
	if (system("set -e\n"
		   "ip link add v0 address 02:00:00:00:00:01 type veth "
		   "peer name v1 address 02:00:00:00:00:02\n"
		   "for v in v0 v1; do ip link set $v addrgenmode none; ip link set $v up; done\n"
		   "ip addr add 10.9.0.1/24 dev v0\n"
		   "ip addr add fd09::1/64 dev v0 nodad\n"
		   "for a in 10.9.0.2 fd09::2; do\n"
		   "  ip neigh add $a lladdr 02:00:00:00:00:02 dev v0 nud permanent\n"
		   "done\n") ||
	    compute_checksums()) {
		puts("SKIP: no veth pair can be set up here");
		return 77;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
