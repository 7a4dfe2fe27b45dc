/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What leaves the machine: packets are sent into one end of a veth pair and caught, with their IP
 * headers, where they come out. On the way the stack cuts super-packets: at once, behind a bridge,
 * under a VLAN; or it never does. Each packet's ICRC must be right with the identification that it
 * really has, or would get where the rest of the way cuts.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <poll.h>
#include <string.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "../skip.h"
#include "base/bytes.h"
#include "netns.h"
#include "port/udp/udp_port.h"
#include "port/udp/udp_socket.h"
#include "wire/icrc.h"

enum { N = 130, DATA = 4096, BATCH = 64, LONGEST_UDP = 65507 };

/* Which errno the kernel gives for a super-packet; 0: it takes them. */
static int refuse_segments;
/* What the packets have, and whether a program writes to it when it is about to be sent. */
static uint8_t data[N][DATA];
static bool written_to;
static bool have_bridge, have_vlan;

int __real_kernel_sendmmsg(int fd, struct mmsghdr *v, unsigned n);
int __wrap_kernel_sendmmsg(int fd, struct mmsghdr *v, unsigned n);

int __wrap_kernel_sendmmsg(int fd, struct mmsghdr *v, unsigned n)
{
	for (size_t i = 0; i < N && written_to; i++)
		memset(data[i], (int)i, DATA);
	for (unsigned i = 0; i < n && refuse_segments; i++) {
		struct msghdr *m = &v[i].msg_hdr;

		for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c))
			if (c->cmsg_level == SOL_UDP && c->cmsg_type == UDP_SEGMENT)
				return i ? __real_kernel_sendmmsg(fd, v, i) : -refuse_segments;
	}
	return __real_kernel_sendmmsg(fd, v, n);
}

/* ---- catching -------------------------------------------------------------------------------- */

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

struct catch
{
	unsigned packets, wrong;
	unsigned cut;	/* pieces but the first of a super-packet that came cut */
	unsigned whole; /* the same of super-packets that came whole */
	unsigned last;	/* the highest number of a piece */
};

/* Cuts what came as a stack or an adapter further on would, by the lengths that were sent. */
static void take(struct catch *seen, const struct packet_tx *tx, size_t n, const uint8_t *b,
		 size_t len)
{
	const uint8_t *udp;
	struct flow f;
	size_t left;
	uint16_t id;

	if (!parse(b, len, &f, &id, &udp, &left))
		return;
	seen->cut += id != 0;
	for (unsigned piece = 0; left; piece++) {
		const struct packet_tx *t = &tx[seen->packets];
		size_t want = t->hdr_len + t->payload_len + t->pad + ICRC_LEN;

		assert_true(seen->packets < n && want <= left);
		assert_memory_equal(udp, t->hdr, t->hdr_len);
		seen->whole += piece != 0;
		seen->wrong += !icrc_check(&f, (uint16_t)(id + piece), udp, want);
		seen->last = max_of(seen->last, id + piece);
		seen->packets++;
		udp += want;
		left -= want;
	}
}

/* ---- sending --------------------------------------------------------------------------------- */

struct way {
	const char *sgid, *dgid, *scope, *tap;
};

static struct packet_tx tx[N];
static struct flow flow;

/* Packet i, of these lengths. */
static void make(size_t i, size_t hdr_len, size_t payload_len)
{
	for (size_t k = 0; k < payload_len; k++)
		data[i][k] = (uint8_t)(i * 31 + k + (k >> 8));
	tx[i] = (struct packet_tx){.flow = &flow,
				   .hdr_len = (uint8_t)hdr_len,
				   .payload_len = (uint32_t)payload_len,
				   .pad = (uint8_t)(-payload_len & 3),
				   .niov = payload_len ? 1 : 0,
				   .iov[0] = {data[i], payload_len}};
	for (size_t k = BTH_LEN; k < hdr_len; k++)
		tx[i].hdr[k] = (uint8_t)(i ^ k);
	st_be24(tx[i].hdr + 9, (uint32_t)i);
}

static struct catch send_and_catch(const struct way *w, size_t n)
{
	static uint8_t b[65536 + 64];
	int fd = udp_socket_open(), tap = tap_open(w->tap);
	struct pollfd p = {.fd = tap, .events = POLLIN};
	struct catch seen = {0};
	struct port *port;

	flow = (struct flow){.sgid = gid(w->sgid), .dgid = gid(w->dgid)};
	if (w->scope)
		flow.scope = if_nametoindex(w->scope);
	assert_true(fd >= 0);
	assert_int_equal(udp_port_create(&port, fd), 0);
	for (size_t done = 0; done < n;) {
		size_t count = min_of(n - done, (size_t)BATCH);

		assert_int_equal(port_tx(port, tx + done, count, NULL), count);
		done += count;
		while (seen.packets < done && poll(&p, 1, 1000) > 0) {
			ssize_t len = recv(tap, b, sizeof(b), 0);

			if (len > 0)
				take(&seen, tx, done, b, (size_t)len);
		}
	}
	port_destroy(port);
	close(tap);
	assert_int_equal(seen.packets, n);
	assert_int_equal(seen.wrong, 0);
	return seen;
}

/* A full super-packet, a short end behind a second one, then lone ones of rising length. */
static struct catch send_mixture(const struct way *w)
{
	for (size_t i = 0; i < N; i++)
		make(i, BTH_LEN, i < 100 ? 1000 : i * 4);
	return send_and_catch(w, N);
}

static const struct way ipv4 = {"::ffff:10.9.0.1", "::ffff:10.9.0.2", NULL, "v1"};
static const struct way ipv6 = {"fd09::1", "fd09::2", NULL, "v1"};
static const struct way *const both[] = {&ipv4, &ipv6};

static void the_pieces_of_a_super_packet_are_numbered_from_0(void **state)
{
	struct catch s = send_mixture(&ipv4);

	(void)state;
	assert_int_equal(s.cut, 63 + 36);
	assert_int_equal(s.last, 63);
	assert_int_equal(s.whole, 0);
}

static void every_icrc_on_the_wire_fits_its_ipv6_header(void **state)
{
	(void)state;
	assert_int_equal(send_mixture(&ipv6).whole, 0); /* the stack did cut */
}

/* Another interface has the same address. */
static void a_link_local_address_means_that_of_the_scope(void **state)
{
	(void)state;
	send_mixture(&(struct way){"fe80::ff:fe00:1", "fe80::ff:fe00:2", "v0", "v1"});
}

static void each_path_mtu_goes_out_right(void **state)
{
	(void)state;
	for (size_t mtu = 256; mtu <= 4096; mtu *= 2) {
		size_t most = LONGEST_UDP / (BTH_LEN + mtu + ICRC_LEN);
		struct catch s;

		for (size_t short_by = 1; short_by < mtu; short_by *= 7) {
			for (size_t i = 0; i < BATCH; i++)
				make(i, BTH_LEN, i < BATCH - 1 ? mtu : mtu - short_by);
			s = send_and_catch(&ipv4, BATCH);
			assert_int_equal(s.last, min_of(most, (size_t)BATCH) - 1);
			send_and_catch(&ipv6, BATCH);
		}
	}
}

static void every_kind_of_packet_goes_out_right(void **state)
{
	static const uint8_t kinds[][2] = {
		{28, 0},   /* READ request */
		{16, 0},   /* acknowledgement */
		{24, 0},   /* atomic acknowledgement */
		{40, 0},   /* atomic */
		{16, 250}, /* READ response, first or last */
		{12, 250}, /* ... middle */
		{32, 200}, /* WRITE with immediate */
		{24, 200}, /* UD with immediate */
	};

	(void)state;
	for (unsigned v = 0; v < 2; v++) {
		struct catch s;

		for (size_t i = 0; i < N; i++) /* a CM's, at last */
			make(i, i < 128 ? kinds[i / 16][0] : 20, i < 128 ? kinds[i / 16][1] : 256);
		s = send_and_catch(both[v], N);
		assert_int_equal(s.whole, 0);
		/* Sixteen of a kind; a shorter one of the next ends the run. */
		assert_int_equal(s.last, v ? 0 : 16);
	}
}

static void what_a_peer_reads_may_be_written_to_meanwhile(void **state)
{
	(void)state;
	for (size_t i = 0; i < BATCH; i++) {
		make(i, BTH_LEN, i < BATCH - 1 ? DATA : 600);
		tx[i].hdr[0] = OPCODE_RC_READ_RESPONSE_MIDDLE;
	}
	written_to = true;
	send_and_catch(&ipv4, BATCH);
	written_to = false;
}

static void groups_get_right_packets(void **state)
{
	struct catch s =
		send_mixture(&(struct way){"::ffff:10.9.0.1", "::ffff:239.1.2.3", "v0", "v1"});

	(void)state;
	assert_int_equal(s.last, 63);
	send_mixture(&(struct way){"fd09::1", "ff15::123", "v0", "v1"});
}

static void where_super_packets_are_refused_single_ones_are_right(void **state)
{
	static const int refusals[] = {EIO, EINVAL, EMSGSIZE};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(refusals); i++) {
		refuse_segments = refusals[i];
		for (unsigned v = 0; v < 2; v++) {
			struct catch s = send_mixture(both[v]);

			assert_int_equal(s.cut + s.whole, 0);
		}
	}
	refuse_segments = 0;
}

/* As a forged ICMP message makes the kernel believe: with a lock, where it told of less than any
 * link carries, so that the kernel would fragment and number what other sockets send. */
static void what_the_route_is_said_to_carry_changes_nothing(void **state)
{
	(void)state;
	assert_int_equal(system("set -e\n"
				"ip route add 10.9.0.2 dev v0 src 10.9.0.1 mtu lock 552\n"
				"ip -6 route add fd09::2 dev v0 mtu lock 1280\n"),
			 0);
	assert_int_equal(send_mixture(&ipv4).last, 63);
	send_mixture(&ipv6);
	assert_int_equal(system("set -e\n"
				"ip route del 10.9.0.2 dev v0\n"
				"ip -6 route del fd09::2 dev v0\n"),
			 0);
}

/* ---- further on ------------------------------------------------------------------------------ */

static void what_comes_whole_is_right_wherever_it_is_cut(void **state)
{
	(void)state;
	if (!have_bridge)
		SKIP_CASE("no bridge can be set up here");
	for (unsigned v = 0; v < 2; v++) {
		struct way w = {v ? "fd08::1" : "::ffff:10.8.0.1",
				v ? "fd08::2" : "::ffff:10.8.0.2", NULL, "u1"};
		struct catch s = send_mixture(&w);

		assert_int_equal(s.whole, 63 + 36);
		assert_int_equal(s.cut, 0);
		w.tap = "x1"; /* behind the bridge */
		s = send_mixture(&w);
		assert_int_equal(s.whole, 0);
		assert_int_equal(s.cut, v ? 0 : 63 + 36);
	}
}

static void a_vlan_changes_nothing(void **state)
{
	(void)state;
	if (!have_vlan)
		SKIP_CASE("no VLAN can be set up here");
	assert_int_equal(
		send_mixture(&(struct way){"::ffff:10.7.0.1", "::ffff:10.7.0.2", NULL, "v1"}).last,
		63);
	send_mixture(&(struct way){"fd07::1", "fd07::2", NULL, "v1"});
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_pieces_of_a_super_packet_are_numbered_from_0),
		cmocka_unit_test(every_icrc_on_the_wire_fits_its_ipv6_header),
		cmocka_unit_test(a_link_local_address_means_that_of_the_scope),
		cmocka_unit_test(each_path_mtu_goes_out_right),
		cmocka_unit_test(every_kind_of_packet_goes_out_right),
		cmocka_unit_test(what_a_peer_reads_may_be_written_to_meanwhile),
		cmocka_unit_test(groups_get_right_packets),
		cmocka_unit_test(where_super_packets_are_refused_single_ones_are_right),
		cmocka_unit_test(what_the_route_is_said_to_carry_changes_nothing),
		cmocka_unit_test(what_comes_whole_is_right_wherever_it_is_cut),
		cmocka_unit_test(a_vlan_changes_nothing),
	};

	netns_enter();
	if (system("set -e\n"
		   "ip link add v0 mtu 9000 address 02:00:00:00:00:01 type veth "
		   "peer name v1 mtu 9000 address 02:00:00:00:00:02\n"
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
	have_bridge = system("set -e; exec 2>&-\n"
			     "ip link add u0 type veth peer name u1\n"
			     "ip link add x0 type veth peer name x1 address 02:00:00:00:00:04\n"
			     "ip link add b0 type bridge mcast_snooping 0\n"
			     "ip link set u1 master b0; ip link set x0 master b0\n"
			     "ip link set x0 gso_max_segs 1\n"
			     "for v in u0 u1 x0 x1 b0; do\n"
			     "  ip link set $v addrgenmode none; ip link set $v up\n"
			     "done\n"
			     "ip addr add 10.8.0.1/24 dev u0\n"
			     "ip addr add fd08::1/64 dev u0 nodad\n"
			     "for a in 10.8.0.2 fd08::2; do\n"
			     "  ip neigh add $a lladdr 02:00:00:00:00:04 dev u0 nud permanent\n"
			     "done\n") == 0;
	have_vlan = system("set -e; exec 2>&-\n"
			   "ip link add link v0 name v0.7 type vlan id 7\n"
			   "ip link set v0.7 addrgenmode none; ip link set v0.7 up\n"
			   "ip addr add 10.7.0.1/24 dev v0.7\n"
			   "ip addr add fd07::1/64 dev v0.7 nodad\n"
			   "for a in 10.7.0.2 fd07::2; do\n"
			   "  ip neigh add $a lladdr 02:00:00:00:00:02 dev v0.7 nud permanent\n"
			   "done\n") == 0;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
