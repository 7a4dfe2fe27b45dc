/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The XDP port on one end of a veth pair: what comes in by the other end goes to it or to the
 * kernel's stack, where a plain UDP socket waits; what it reaches; how it ends.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <poll.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/wait.h>
#include <cmocka.h>

#include "../skip.h"
#include "base/bytes.h"
#include "base/time.h"
#include "netns.h"
#include "port/xdp/frame.h"
#include "port/xdp/steer.h"
#include "port/xdp/xdp_port.h"
#include "port/xdp/xsk.h"
#include "wire/icrc.h"
#include "wire/path_probe.h"

#define SLOT 0x42
#define MS   NSEC_PER_MSEC

static const struct frame_macs to_v0 = {{2, 0, 0, 0, 0, 1}, {2, 0, 0, 0, 0, 2}};
static uint8_t payload[1024];

struct fixture {
	struct port *port;
	int stack; /* a socket on port 4791 */
	int wire;  /* v1: what goes in there comes out of v0 */
	unsigned taken;
	struct packet_rx last;
};

static struct gid gid(const char *text)
{
	struct gid g;

	assert_int_equal(inet_pton(AF_INET6, text, g.raw), 1);
	return g;
}

static int wire_open(const char *ifname)
{
	struct sockaddr_ll at = {.sll_family = AF_PACKET,
				 .sll_protocol = htons(ETH_P_ALL),
				 .sll_ifindex = (int)if_nametoindex(ifname)};
	int fd = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK, htons(ETH_P_ALL));

	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	return fd;
}

static int stack_open(void)
{
	struct sockaddr_in6 any = {.sin6_family = AF_INET6, .sin6_port = htons(ROCEV2_UDP_PORT)};
	int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_NONBLOCK, 0);

	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&any, sizeof(any)), 0);
	return fd;
}

static int open_port(struct port **ret, char *err, size_t len)
{
	return xdp_port_create(ret, "v0", SLOT, err, len);
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	char err[256] = "";

	f->wire = wire_open("v1");
	f->stack = stack_open();
	if (open_port(&f->port, err, sizeof(err)))
		fail_msg("%s", err);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	if (f->port)
		port_destroy(f->port);
	close(f->stack);
	close(f->wire);
	free(f);
	return 0;
}

static bool take(void *ctx, const struct packet_rx *r)
{
	struct fixture *f = ctx;

	f->taken++;
	f->last = *r;
	return true;
}

/* Which of the two has got it. */
static enum { NOBODY, PORT, STACK } who_got_it(struct fixture *f)
{
	struct pollfd p[] = {{.fd = f->port->fd, .events = POLLIN},
			     {.fd = f->stack, .events = POLLIN}};
	unsigned before = f->taken;
	uint8_t b[2048];

	if (poll(p, 2, 2000) <= 0)
		return NOBODY;
	if (p[1].revents & POLLIN) {
		assert_true(recv(f->stack, b, sizeof(b), 0) > 0);
		assert_int_equal(port_rx(f->port, time_now_ns(), take, f), 0);
		return STACK;
	}
	assert_true(p[0].revents & POLLIN);
	assert_int_equal(port_rx(f->port, time_now_ns(), take, f), 1);
	assert_int_equal(port_rx(f->port, time_now_ns(), take, f), 0);
	return f->taken == before + 1 ? PORT : NOBODY;
}

struct frame {
	uint8_t b[2048];
	size_t len, udp;
};

static struct frame frame_to(const char *from, const char *to, uint8_t slot, uint16_t sport)
{
	struct flow f = {.sgid = gid(from), .dgid = gid(to), .tos = 1, .ttl = 7};
	struct packet_tx t = {.flow = &f,
			      .hdr = {[0] = 0x64, [2] = 0xff, [3] = 0xff, [5] = slot},
			      .hdr_len = BTH_LEN,
			      .niov = 1,
			      .payload_len = 256,
			      .iov = {{payload, 256}}};
	struct frame r = {.len = frame_len(&t), .udp = gid_is_ipv4(&f.dgid) ? 34 : 54};

	frame_put(r.b, &to_v0, &t, sport);
	return r;
}

/* Of IPv4, where a byte of the header has changed; and UDP without one, which is allowed there. */
static void mend_checksums(struct frame *r)
{
	uint32_t sum = 0;

	st_be16(r->b + 24, 0);
	for (size_t i = 14; i < 34; i += 2)
		sum += ld_be16(r->b + i);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	st_be16(r->b + 24, (uint16_t)~sum);
	st_be16(r->b + 40, 0);
}

static void put(struct fixture *f, const struct frame *r)
{
	assert_int_equal(send(f->wire, r->b, r->len, 0), (ssize_t)r->len);
}

static struct frame ours(void)
{
	return frame_to("::ffff:10.9.0.2", "::ffff:10.9.0.1", SLOT, 0xc123);
}

static void what_is_for_the_slot_comes_past_the_stack(void **state)
{
	struct fixture *f = *state;
	struct frame r = ours();

	put(f, &r);
	assert_int_equal(who_got_it(f), PORT);
	assert_int_equal(f->last.len, BTH_LEN + 256);
	assert_int_equal(f->last.flow.sport, 0xc123);
	assert_int_equal(f->last.flow.tos, 1);
	assert_int_equal(f->last.flow.ttl, 7);
	assert_int_equal(f->last.flow.scope, 0);
	r = frame_to("fd09::2", "fd09::1", SLOT, 0xc123);
	put(f, &r);
	assert_int_equal(who_got_it(f), PORT);
	assert_true(gid_equal(&f->last.flow.dgid, &(struct gid[]){gid("fd09::1")}[0]));
	r = frame_to("fe80::ff:fe00:2", "fe80::ff:fe00:1", SLOT, 0xc123);
	put(f, &r);
	assert_int_equal(who_got_it(f), PORT);
	assert_int_equal(f->last.flow.scope, if_nametoindex("v0"));
}

static void all_else_goes_to_the_stack(void **state)
{
	struct fixture *f = *state;
	struct frame r = frame_to("::ffff:10.9.0.2", "::ffff:10.9.0.1", SLOT + 1, 0xc123);

	put(f, &r);
	assert_int_equal(who_got_it(f), STACK);
	r = frame_to("fd09::2", "fd09::1", 0, 0xc123);
	put(f, &r);
	assert_int_equal(who_got_it(f), STACK);
	/* To the address of another interface: a stack that takes it may have its reasons. */
	r = frame_to("::ffff:10.9.0.2", "::ffff:10.8.0.1", SLOT, 0xc123);
	put(f, &r);
	assert_int_equal(who_got_it(f), STACK);
	/* Which says nothing of fragments: the ICRC is another's business. */
	r = ours();
	st_be16(r.b + 20, 0);
	mend_checksums(&r);
	put(f, &r);
	assert_int_equal(who_got_it(f), STACK);
	/* What asks for the path MTU is the broker's to answer, whatever slot it seems to have. */
	r = ours();
	st_be32(r.b + r.udp + 8, PATH_PROBE_ASK);
	mend_checksums(&r);
	put(f, &r);
	assert_int_equal(who_got_it(f), STACK);
	/* For another socket; nothing of it is ours. */
	r = ours();
	st_be16(r.b + r.udp + 2, ROCEV2_UDP_PORT + 1);
	mend_checksums(&r);
	put(f, &r);
	assert_int_equal(who_got_it(f), NOBODY);
	assert_int_equal(f->port->counters->rx_packets, 0);
}

static void what_is_damaged_is_counted_and_dropped(void **state)
{
	struct fixture *f = *state;
	struct frame r = ours();

	r.b[100] ^= 1;
	put(f, &r);
	assert_int_equal(who_got_it(f), NOBODY);
	assert_int_equal(f->port->counters->rx_icrc_bad, 1);
	r = ours();
	st_be16(r.b + r.udp + 4, 30);
	put(f, &r);
	assert_int_equal(who_got_it(f), NOBODY);
	assert_int_equal(f->port->counters->rx_short, 1);
}

static void rings_go_round_more_than_once(void **state)
{
	struct fixture *f = *state;
	struct frame r = ours();

	for (unsigned n = 0; n < 10000; n++) {
		r.len = ours().len;
		put(f, &r);
		if (n % 50 == 49)
			while (f->taken < n + 1) {
				struct pollfd p = {.fd = f->port->fd, .events = POLLIN};

				assert_int_equal(poll(&p, 1, 5000), 1);
				assert_true(port_rx(f->port, time_now_ns(), take, f) > 0);
			}
	}
	assert_int_equal(f->taken, 10000);
}

/* ---- sending --------------------------------------------------------------------------------- */

/* Of the frames that come out of v1 the next that is RoCEv2's. */
static size_t caught(int wire, uint8_t *b, size_t size)
{
	struct pollfd p = {.fd = wire, .events = POLLIN};

	while (poll(&p, 1, 5000) == 1) {
		ssize_t n = recv(wire, b, size, 0);

		if (n >= 58 &&
		    (ld_be16(b + 36) == ROCEV2_UDP_PORT || ld_be16(b + 56) == ROCEV2_UDP_PORT))
			return (size_t)n;
	}
	fail_msg("nothing came out of the other end");
	return 0;
}

static void what_is_sent_comes_out_whole(void **state)
{
	struct fixture *f = *state;
	const struct flow flows[] = {
		{.sgid = gid("::ffff:10.9.0.1"), .dgid = gid("::ffff:10.9.0.2")},
		{.sgid = gid("fd09::1"), .dgid = gid("fd09::2")},
	};
	struct packet_tx t[64];
	struct packet_sent sent[64];
	uint8_t b[2048];

	/* More than the kernel sends each time, and than there are frames. */
	for (unsigned round = 0; round < 40; round++) {
		for (unsigned i = 0; i < 64; i++)
			t[i] = (struct packet_tx){
				.flow = &flows[i / 32],
				.hdr = {[5] = 9, [10] = (uint8_t)round, [11] = (uint8_t)i},
				.hdr_len = BTH_LEN,
				.niov = 1,
				.payload_len = 1024,
				.iov = {{payload, 1024}}};
		assert_int_equal(port_tx(f->port, t, 64, sent), 64);
		for (unsigned i = 0; i < 64; i++) {
			size_t len = caught(f->wire, b, sizeof(b));
			struct packet_rx r;

			assert_int_equal(frame_take(b, len, &r), FRAME_GOOD);
			assert_memory_equal(
				b, (&(struct frame_macs){{2, 0, 0, 0, 0, 2}, {2, 0, 0, 0, 0, 1}}),
				12);
			assert_true(gid_equal(&r.flow.dgid, &flows[i / 32].dgid));
			assert_memory_equal(r.data + 10, ((uint8_t[]){(uint8_t)round, (uint8_t)i}),
					    2);
			assert_int_equal(r.icrc, sent[i].icrc);
			assert_int_equal(r.flow.sport, sent[i].sport);
		}
	}
	assert_int_equal(f->port->counters->tx_packets, 40 * 64);
}

static void what_is_longer_than_the_interface_takes_is_refused(void **state)
{
	struct fixture *f = *state;
	struct flow to = {.sgid = gid("::ffff:10.9.0.1"), .dgid = gid("::ffff:10.9.0.2")};
	struct packet_tx t = {.flow = &to,
			      .hdr_len = BTH_LEN,
			      .niov = 2,
			      .payload_len = 1460,
			      .iov = {{payload, 1024}, {payload, 436}}};

	assert_int_equal(port_tx(f->port, &t, 1, NULL), 0);
	assert_int_equal(f->port->counters->tx_refused, 1);
}

static bool reaches(struct fixture *f, const char *from, const char *to)
{
	return port_reaches(f->port, &(struct flow){.sgid = gid(from), .dgid = gid(to)});
}

static void it_reaches_neighbours_on_its_interface(void **state)
{
	struct fixture *f = *state;

	assert_true(reaches(f, "::ffff:10.9.0.1", "::ffff:10.9.0.2"));
	assert_true(reaches(f, "fd09::1", "fd09::2"));
	assert_false(reaches(f, "::ffff:10.9.0.1", "::ffff:10.9.0.1"));	  /* ourselves */
	assert_false(reaches(f, "::ffff:10.9.0.1", "::ffff:239.1.2.3"));  /* a group */
	assert_false(reaches(f, "::ffff:127.0.0.1", "::ffff:127.0.0.1")); /* another interface */
	assert_false(reaches(f, "::ffff:10.9.0.1", "::ffff:10.9.0.3"));	  /* nobody knows it */
	assert_false(reaches(f, "::ffff:10.9.0.1", "::ffff:192.0.2.1"));  /* no route */
	/* Behind a router. */
	assert_int_equal(system("ip route add 192.0.2.0/24 via 10.9.0.2"), 0);
	assert_true(reaches(f, "::ffff:10.9.0.1", "::ffff:192.0.2.2"));
	assert_int_equal(system("ip route del 192.0.2.0/24 via 10.9.0.2"), 0);
}

static bool soon(struct fixture *f, const char *to, bool want)
{
	for (uint64_t end = time_now_ns() + 5 * NSEC_PER_SEC; time_now_ns() < end; usleep(10000))
		if (reaches(f, "::ffff:10.9.0.1", to) == want)
			return true;
	return false;
}

static void it_follows_what_becomes_of_neighbours(void **state)
{
	struct fixture *f = *state;

	assert_false(reaches(f, "::ffff:10.9.0.1", "::ffff:10.9.0.4"));
	assert_int_equal(
		system("ip neigh add 10.9.0.4 lladdr 02:00:00:00:00:04 dev v0 nud permanent"), 0);
	assert_true(soon(f, "::ffff:10.9.0.4", true));
	assert_int_equal(system("ip neigh del 10.9.0.4 dev v0"), 0);
	assert_true(soon(f, "::ffff:10.9.0.4", false));
}

/* Packets as long as it allows now might not fit. */
static void on_an_interface_of_another_mtu_it_reaches_nobody(void **state)
{
	struct fixture *f = *state;

	assert_true(soon(f, "::ffff:10.9.0.2", true));
	assert_int_equal(system("ip link set v0 mtu 2500"), 0);
	assert_true(soon(f, "::ffff:10.9.0.2", false));
	assert_int_equal(system("ip link set v0 mtu 1500"), 0);
	assert_true(soon(f, "::ffff:10.9.0.2", true));
}

/* With which the kernel forgets the neighbours. */
static int set_mac_address(const char *mac)
{
	char command[512];

	snprintf(command, sizeof(command),
		 "set -e; ip link set v0 address %s\n"
		 "for a in 10.9.0.2 fd09::2 fe80::ff:fe00:2; do\n"
		 "  ip neigh replace $a lladdr 02:00:00:00:00:02 dev v0 nud permanent\n"
		 "done\n",
		 mac);
	return system(command);
}

static void it_sends_from_the_mac_address_that_there_is(void **state)
{
	struct fixture *f = *state;
	struct flow to = {.sgid = gid("::ffff:10.9.0.1"), .dgid = gid("::ffff:10.9.0.2")};
	struct packet_tx t = {.flow = &to, .hdr_len = BTH_LEN};
	uint8_t b[2048] = {0};

	assert_int_equal(set_mac_address("02:00:00:00:00:07"), 0);
	for (uint64_t end = time_now_ns() + 5 * NSEC_PER_SEC; b[11] != 7 && time_now_ns() < end;
	     usleep(50000))
		if (port_tx(f->port, &t, 1, NULL))
			caught(f->wire, b, sizeof(b));
	assert_int_equal(b[11], 7);
	assert_int_equal(set_mac_address("02:00:00:00:00:01"), 0);
}

static void a_neighbour_in_use_is_looked_after(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(
		system("ip neigh replace 10.9.0.5 lladdr 02:00:00:00:00:05 dev v0 nud stale"), 0);
	assert_true(soon(f, "::ffff:10.9.0.5", true));
	/* The kernel is about to ask, as it would had it sent there itself. */
	assert_int_equal(system("ip neigh show 10.9.0.5 dev v0 | grep -qE 'DELAY|PROBE'"), 0);
	assert_int_equal(system("ip neigh del 10.9.0.5 dev v0"), 0);
}

/* ---- several queues -------------------------------------------------------------------------- */

static unsigned received_from(struct port *port, struct fixture *f, unsigned want)
{
	struct pollfd p = {.fd = port->fd, .events = POLLIN};

	f->taken = 0;
	while (f->taken < want && poll(&p, 1, 5000) == 1)
		if (port_rx(port, time_now_ns(), take, f) < 0)
			break;
	return f->taken;
}

static void each_queue_of_the_interface_is_received_from(void **state)
{
	struct fixture *f = *state;
	struct port *port;
	char err[256] = "";
	int wire;

	if (system("set -e\n"
		   "ip link add q0 numtxqueues 4 numrxqueues 4 type veth "
		   "peer name q1 numtxqueues 4 numrxqueues 4\n"
		   "for v in q0 q1; do ip link set $v addrgenmode none; ip link set $v up; done\n"
		   "ip addr add 10.5.0.1/24 dev q0\n"))
		SKIP_CASE("no veth pair of several queues can be set up here");
	wire = wire_open("q1");
	if (xdp_port_create(&port, "q0", SLOT, err, sizeof(err)))
		fail_msg("%s", err);
	for (uint16_t i = 0; i < 64; i++) {
		struct frame r = frame_to("::ffff:10.5.0.2", "::ffff:10.5.0.1", SLOT, 0xc000 + i);

		assert_int_equal(send(wire, r.b, r.len, 0), (ssize_t)r.len);
	}
	assert_int_equal(received_from(port, f, 64), 64);
	assert_int_equal(port->counters->rx_icrc_bad, 0);
	port_destroy(port);
	close(wire);
	assert_int_equal(system("ip link del q0"), 0);
}

/* ---- a driver without XDP -------------------------------------------------------------------- */

/* As a macvlan's is. The kernel then runs the program behind where packets may have been joined,
 * below, so that the port does without; but as far as that goes it works. */
static void where_the_driver_has_none_the_kernel_does_it(void **state)
{
	struct frame r = frame_to("::ffff:10.7.0.2", "::ffff:10.7.0.1", SLOT, 0xc123);
	const char *what;
	struct steer s;
	struct xsk x;
	struct port *port;
	struct gid to = gid("::ffff:10.7.0.1");
	struct pollfd p = {.events = POLLIN};
	struct packet_rx rx;
	const uint8_t *b;
	char err[256] = "";
	size_t len;
	int wire;

	(void)state;
	if (system("set -e; exec 2>&-\n"
		   "ip link add g0 type veth peer name g1\n"
		   "ip link add link g0 name m0 address 02:00:00:00:00:01 type macvlan mode "
		   "bridge\n"
		   "for v in g0 g1 m0; do ip link set $v addrgenmode none; ip link set $v up; "
		   "done\n"
		   "ip addr add 10.7.0.1/24 dev m0\n"))
		SKIP_CASE("no macvlan can be set up here");
	assert_int_equal(xdp_port_create(&port, "m0", SLOT, err, sizeof(err)), -EOPNOTSUPP);
	assert_non_null(strstr(err, "the driver of m0 has no XDP"));
	assert_int_equal(steer_open(&s, SLOT, xsk_longest(1500), 1, &what), 0);
	assert_int_equal(steer_attach(&s, if_nametoindex("m0")), 0);
	assert_true(s.generic);
	assert_int_equal(xsk_open(&x, if_nametoindex("m0"), 0, 1500, &what), 0);
	assert_int_equal(steer_add_socket(&s, 0, x.fd), 0);
	assert_int_equal(steer_add_address(&s, &to), 0);
	wire = wire_open("g1");
	assert_int_equal(send(wire, r.b, r.len, 0), (ssize_t)r.len);
	p.fd = x.fd;
	assert_int_equal(poll(&p, 1, 5000), 1);
	b = xsk_rx(&x, &len);
	assert_non_null(b);
	assert_int_equal(frame_take(b, len, &rx), FRAME_GOOD);
	xsk_close(&x);
	steer_close(&s);
	close(wire);
	assert_int_equal(system("ip link del g0"), 0);
}

/* ---- beginning and end ----------------------------------------------------------------------- */

static void there_is_one_of_them_on_an_interface(void **state)
{
	struct fixture *f = *state;
	struct frame r = ours();
	struct port *second;
	char err[256] = "";

	assert_int_equal(open_port(&second, err, sizeof(err)), -EBUSY);
	assert_non_null(strstr(err, "another program has XDP on v0"));
	put(f, &r);
	assert_int_equal(who_got_it(f), PORT);
	port_destroy(f->port);
	f->port = NULL;
	if (open_port(&f->port, err, sizeof(err)))
		fail_msg("%s", err);
	put(f, &r);
	assert_int_equal(who_got_it(f), PORT);
}

static void where_it_cannot_be_it_says_why(void **state)
{
	struct port *port;
	char err[256] = "";

	(void)state;
	assert_int_equal(xdp_port_create(&port, "nowhere", SLOT, err, sizeof(err)), -ENODEV);
	assert_non_null(strstr(err, "nowhere"));
	assert_int_equal(xdp_port_create(&port, "lo", SLOT, err, sizeof(err)), -EPROTONOSUPPORT);
	assert_non_null(strstr(err, "Ethernet"));
	/* v0 has its port, but there is v1, too. */
	assert_int_equal(system("ip addr add 10.6.0.1/24 dev v1"), 0);
	assert_int_equal(xdp_port_create(&port, NULL, SLOT, err, sizeof(err)), -EINVAL);
	assert_non_null(strstr(err, "several"));
	assert_int_equal(system("ip addr del 10.6.0.1/24 dev v1\n"
				"ip link add w0 mtu 9000 type veth peer name w1"),
			 0);
	assert_int_equal(xdp_port_create(&port, "w0", SLOT, err, sizeof(err)), -EMSGSIZE);
	assert_non_null(strstr(err, "9000"));
	assert_int_equal(system("ip link del w0"), 0);
}

static void a_fork_changes_nothing_for_the_parent(void **state)
{
	struct fixture *f = *state;
	struct flow to = {.sgid = gid("::ffff:10.9.0.1"), .dgid = gid("::ffff:10.9.0.2")};
	struct packet_tx t = {.flow = &to, .hdr_len = BTH_LEN};
	struct frame r = ours();
	int status;
	pid_t pid;

	for (int i = 0; i < 2; i++) {
		pid = fork();
		if (pid == 0) {
			bool nothing;

			port_forked(f->port);
			nothing = f->port->fd < 0 && port_tx(f->port, &t, 1, NULL) == 0 &&
				  !port_reaches(f->port, &to);
			port_destroy(f->port);
			_exit(nothing ? 0 : 1);
		}
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(status, 0);
		put(f, &r);
		assert_int_equal(who_got_it(f), PORT);
		assert_int_equal(port_tx(f->port, &t, 1, NULL), 1);
	}
}

/* The program goes with the process. */
static void one_that_is_killed_leaves_nothing_behind(void **state)
{
	struct fixture *f = *state;
	struct frame r = ours();
	char err[256] = "";
	int up[2], status;
	pid_t pid;
	char c;

	port_destroy(f->port);
	f->port = NULL;
	assert_int_equal(pipe(up), 0);
	pid = fork();
	if (pid == 0) {
		c = open_port(&f->port, err, sizeof(err)) == 0;
		(void)!write(up[1], &c, 1);
		pause();
		_exit(0);
	}
	assert_int_equal(read(up[0], &c, 1), 1);
	assert_int_equal(c, 1);
	assert_int_equal(open_port(&f->port, err, sizeof(err)), -EBUSY);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	/* What the kernel frees later than a process ends is a matter of milliseconds. */
	for (uint64_t end = time_now_ns() + 5 * NSEC_PER_SEC;
	     open_port(&f->port, err, sizeof(err)) == -EBUSY && time_now_ns() < end;)
		usleep(10000);
	put(f, &r);
	assert_int_equal(who_got_it(f), PORT);
	close(up[0]);
	close(up[1]);
}

static void without_its_interface_it_is_broken(void **state)
{
	struct fixture *f = *state;
	int rc = 0;

	assert_int_equal(system("ip link del v0"), 0);
	for (uint64_t end = time_now_ns() + 5 * NSEC_PER_SEC; rc == 0 && time_now_ns() < end;)
		rc = port_rx(f->port, time_now_ns(), take, f);
	assert_true(rc < 0);
}

static int make_wire(void)
{
	return system(
		"set -e\n"
		"ip link add v0 address 02:00:00:00:00:01 type veth "
		"peer name v1 address 02:00:00:00:00:02\n"
		"for v in v0 v1; do ip link set $v addrgenmode none; ip link set $v up; done\n"
		"ip addr add 10.9.0.1/24 dev v0\n"
		"ip addr add 10.8.0.1/32 dev lo\n"
		"ip addr add fd09::1/64 dev v0 nodad\n"
		"ip addr add fe80::ff:fe00:1/64 dev v0 nodad\n"
		"for a in 10.9.0.2 fd09::2 fe80::ff:fe00:2; do\n"
		"  ip neigh add $a lladdr 02:00:00:00:00:02 dev v0 nud permanent\n"
		"done\n");
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		CASE(what_is_for_the_slot_comes_past_the_stack),
		CASE(all_else_goes_to_the_stack),
		CASE(what_is_damaged_is_counted_and_dropped),
		CASE(rings_go_round_more_than_once),
		CASE(what_is_sent_comes_out_whole),
		CASE(what_is_longer_than_the_interface_takes_is_refused),
		CASE(it_reaches_neighbours_on_its_interface),
		CASE(it_follows_what_becomes_of_neighbours),
		CASE(on_an_interface_of_another_mtu_it_reaches_nobody),
		CASE(it_sends_from_the_mac_address_that_there_is),
		CASE(a_neighbour_in_use_is_looked_after),
		CASE(each_queue_of_the_interface_is_received_from),
		CASE(where_the_driver_has_none_the_kernel_does_it),
		CASE(there_is_one_of_them_on_an_interface),
		CASE(where_it_cannot_be_it_says_why),
		CASE(a_fork_changes_nothing_for_the_parent),
		CASE(one_that_is_killed_leaves_nothing_behind),
		CASE(without_its_interface_it_is_broken), /* the last: it takes it along */
	};
#undef CASE
	struct port *port;
	char err[256] = "";
	int rc;

	netns_enter();
	if (make_wire()) {
		puts("SKIP: no veth pair can be set up here");
		return 77;
	}
	rc = open_port(&port, err, sizeof(err));
	if (rc == -EPERM || rc == -EACCES || rc == -EAFNOSUPPORT || rc == -ENOSYS ||
	    rc == -ENOBUFS) {
		printf("SKIP: %s\n", err);
		return 77;
	}
	if (rc == 0)
		port_destroy(port);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
