/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The port of RoCEv1 beside one end of a veth pair: what comes in by the other end, what comes out
 * there, and what goes to this host itself.
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
#include <sys/wait.h>
#include <cmocka.h>

#include "base/bytes.h"
#include "base/time.h"
#include "netns.h"
#include "port/raw/raw_port.h"
#include "port/raw/v1_packet.h"

#define SLOT	0x42
#define ANOTHER 0x43
#define SOON_NS (5 * NSEC_PER_SEC)

static const uint8_t mac_v0[] = {2, 0, 0, 0, 0, 1}, mac_v1[] = {2, 0, 0, 0, 0, 2};
static uint8_t payload[1024];

struct fixture {
	struct port *port;
	int wire; /* v1: what goes in there comes out of v0, and the other way round */
	unsigned taken;
	struct flow last;
	uint32_t last_icrc;
};

static struct gid gid(const char *text)
{
	struct gid g;

	assert_int_equal(inet_pton(AF_INET6, text, g.raw), 1);
	return g;
}

static int setup(void **state)
{
	struct sockaddr_ll at = {.sll_family = AF_PACKET,
				 .sll_protocol = htons(ETH_P_ALL),
				 .sll_ifindex = (int)if_nametoindex("v1")};
	struct fixture *f = calloc(1, sizeof(*f));
	char err[256] = "";

	f->wire = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK, htons(ETH_P_ALL));
	assert_true(f->wire >= 0);
	assert_int_equal(bind(f->wire, (struct sockaddr *)&at, sizeof(at)), 0);
	if (raw_port_create(&f->port, SLOT, err, sizeof(err)))
		fail_msg("%s", err);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	port_destroy(f->port);
	close(f->wire);
	free(f);
	return 0;
}

static bool take(void *ctx, const struct packet_rx *r)
{
	struct fixture *f = ctx;

	f->taken++;
	f->last = r->flow;
	f->last_icrc = r->icrc;
	return true;
}

static struct flow flow(const char *from, const char *to)
{
	return (struct flow){.sgid = gid(from), .dgid = gid(to), .rocev1 = 1};
}

static struct packet_tx packet(const struct flow *f, uint8_t slot, uint32_t len)
{
	return (struct packet_tx){.flow = f,
				  .hdr = {[0] = 0x04, [2] = 0xff, [3] = 0xff, [5] = slot, [7] = 7},
				  .hdr_len = BTH_LEN,
				  .niov = 1,
				  .payload_len = len,
				  .iov = {{payload, len}}};
}

/* ---- what comes ------------------------------------------------------------------------------ */

struct frame {
	uint8_t b[ETH_HLEN + V1_PACKET_MAX];
	size_t len;
};

static struct frame frame_to(const char *from, const char *to, uint8_t slot)
{
	const struct flow f = flow(from, to);
	const struct packet_tx t = packet(&f, slot, 100);
	struct frame r = {.len = ETH_HLEN + v1_packet_len(&t)};

	memcpy(r.b, mac_v0, sizeof(mac_v0));
	memcpy(r.b + 6, mac_v1, sizeof(mac_v1));
	st_be16(r.b + 12, V1_ETHERTYPE);
	v1_packet_put(r.b + ETH_HLEN, &t);
	return r;
}

static struct frame ours(void)
{
	return frame_to("::ffff:10.9.0.2", "::ffff:10.9.0.1", SLOT);
}

static void put(const struct fixture *f, const struct frame *r)
{
	assert_int_equal(send(f->wire, r->b, r->len, 0), (ssize_t)r->len);
}

/* Until so many have been taken. */
static void receive(struct fixture *f, unsigned want)
{
	struct pollfd p = {.fd = f->port->fd, .events = POLLIN};

	while (f->taken < want && poll(&p, 1, 5000) == 1)
		assert_true(port_rx(f->port, time_now_ns(), take, f) >= 0);
	assert_int_equal(f->taken, want);
}

/* Behind what is not taken comes one that is. */
static void is_not_taken(struct fixture *f, const struct frame *r)
{
	const struct frame last = ours();
	const unsigned before = f->taken;

	put(f, r);
	put(f, &last);
	receive(f, before + 1);
}

static void what_is_for_the_slot_is_taken(void **state)
{
	struct fixture *f = *state;
	const struct frame r = ours();
	const struct gid from = gid("::ffff:10.9.0.2"), to = gid("::ffff:10.9.0.1");

	put(f, &r);
	receive(f, 1);
	assert_true(gid_equal(&f->last.sgid, &from));
	assert_true(gid_equal(&f->last.dgid, &to));
	assert_int_equal(f->last.ttl, 64);
	assert_int_equal(f->last.scope, 0);
	assert_true(f->last.rocev1);
	assert_int_equal(f->last_icrc, ld_le32(r.b + r.len - ICRC_LEN));
	assert_int_equal(f->port->counters->rx_packets, 1);
}

static void of_link_local_gids_it_says_where_they_are(void **state)
{
	struct fixture *f = *state;
	const struct frame r = frame_to("fe80::ff:fe00:2", "fe80::ff:fe00:1", SLOT);

	put(f, &r);
	receive(f, 1);
	assert_int_equal(f->last.scope, if_nametoindex("v0"));
}

static void what_is_anothers_is_not_taken(void **state)
{
	struct fixture *f = *state;
	struct frame r = frame_to("::ffff:10.9.0.2", "::ffff:10.9.0.1", ANOTHER);

	is_not_taken(f, &r);
	r = ours();
	r.b[5] = 9; /* to another MAC address */
	is_not_taken(f, &r);
	r = ours();
	r.b[0] |= 1; /* to a group */
	is_not_taken(f, &r);
	r = ours();
	st_be16(r.b + 12, ETH_P_IPV6); /* as which it is malformed */
	is_not_taken(f, &r);
	assert_int_equal(f->port->counters->rx_not_ours, 0);
}

static void what_is_to_no_address_of_ours_is_counted_and_dropped(void **state)
{
	struct fixture *f = *state;
	struct frame r = frame_to("::ffff:10.9.0.2", "::ffff:10.9.0.9", SLOT);

	is_not_taken(f, &r);
	r = frame_to("fe80::ff:fe00:2", "fe80::ff:fe00:9", SLOT);
	is_not_taken(f, &r);
	assert_int_equal(f->port->counters->rx_not_ours, 2);
	r = frame_to("::ffff:10.9.0.2", "::ffff:10.8.0.1", SLOT); /* the other interface's */
	is_not_taken(f, &r);
	assert_int_equal(f->port->counters->rx_not_ours, 3);
}

static void what_is_damaged_is_counted_and_dropped(void **state)
{
	struct fixture *f = *state;
	struct frame r = ours();

	r.b[r.len - 6] ^= 1;
	is_not_taken(f, &r);
	assert_int_equal(f->port->counters->rx_icrc_bad, 1);
	r = ours();
	r.len -= 4;
	is_not_taken(f, &r);
	assert_int_equal(f->port->counters->rx_short, 1);
}

static void an_address_that_is_new_is_soon_known(void **state)
{
	struct fixture *f = *state;
	const struct frame r = frame_to("::ffff:10.9.0.2", "::ffff:10.9.0.7", SLOT);

	is_not_taken(f, &r);
	assert_int_equal(system("ip addr add 10.9.0.7/24 dev v0"), 0);
	f->taken = 0;
	for (uint64_t end = time_now_ns() + SOON_NS; !f->taken && time_now_ns() < end;) {
		put(f, &r);
		usleep(10000);
		assert_true(port_rx(f->port, time_now_ns(), take, f) >= 0);
	}
	assert_true(f->taken > 0);
	assert_int_equal(system("ip addr del 10.9.0.7/24 dev v0"), 0);
}

/* ---- what goes ------------------------------------------------------------------------------- */

/* The next frame of that type that came out. Returns its length. */
static size_t caught(const struct fixture *f, uint16_t type, uint8_t *b, size_t size)
{
	struct pollfd p = {.fd = f->wire, .events = POLLIN};

	while (poll(&p, 1, 5000) == 1) {
		ssize_t n = recv(f->wire, b, size, 0);

		if (n > ETH_HLEN && ld_be16(b + 12) == type)
			return (size_t)n;
	}
	fail_msg("nothing came out of the other end");
	return 0;
}

static void what_is_sent_comes_out_whole(void **state)
{
	static const char *const ends[][2] = {{"::ffff:10.9.0.1", "::ffff:10.9.0.2"},
					      {"fd09::1", "fd09::2"}};
	struct fixture *f = *state;

	for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
		struct flow to = flow(ends[i][0], ends[i][1]);
		struct packet_tx t = packet(&to, ANOTHER, sizeof(payload));
		uint8_t b[4096], want[V1_PACKET_MAX];
		struct packet_sent sent;
		size_t len;

		to.tos = 0x62;
		to.flow_label = 0xabcde;
		to.sport = 0xc123;
		assert_int_equal(port_tx(f->port, &t, 1, &sent), 1);
		len = caught(f, V1_ETHERTYPE, b, sizeof(b));
		assert_memory_equal(b, mac_v1, sizeof(mac_v1));
		assert_memory_equal(b + 6, mac_v0, sizeof(mac_v0));
		assert_int_equal(len, ETH_HLEN + v1_packet_len(&t));
		assert_int_equal(v1_packet_put(want, &t), sent.icrc);
		assert_memory_equal(b + ETH_HLEN, want, len - ETH_HLEN);
		assert_int_equal(sent.sport, 0xc123);
	}
}

/* As Linux takes it: without asking anybody. */
static void a_link_local_gid_leads_to_the_mac_address_in_it(void **state)
{
	static const uint8_t there[] = {2, 0, 0, 0, 0, 5};
	struct fixture *f = *state;
	struct flow to = flow("fe80::ff:fe00:1", "fe80::ff:fe00:5");
	struct packet_tx t = packet(&to, ANOTHER, 8);
	uint8_t b[4096];

	to.scope = if_nametoindex("v0");
	assert_int_equal(port_tx(f->port, &t, 1, NULL), 1);
	caught(f, V1_ETHERTYPE, b, sizeof(b));
	assert_memory_equal(b, there, sizeof(there));
}

static void whom_nobody_knows_the_kernel_asks_for(void **state)
{
	struct fixture *f = *state;
	struct flow to = flow("::ffff:10.9.0.1", "::ffff:10.9.0.77");
	struct packet_tx t = packet(&to, ANOTHER, 8);
	uint8_t b[4096];

	assert_int_equal(port_tx(f->port, &t, 1, NULL), 0);
	assert_int_equal(f->port->counters->tx_refused, 1);
	caught(f, ETH_P_ARP, b, sizeof(b));
	assert_int_equal(b[ETH_HLEN + 27], 77);
	assert_int_equal(system("ip neigh replace 10.9.0.77 lladdr 02:00:00:00:00:02 dev v0 "
				"nud permanent"),
			 0);
	for (uint64_t end = time_now_ns() + SOON_NS;
	     !port_tx(f->port, &t, 1, NULL) && time_now_ns() < end;)
		usleep(10000);
	caught(f, V1_ETHERTYPE, b, sizeof(b));
	assert_memory_equal(b, mac_v1, sizeof(mac_v1));
	assert_int_equal(system("ip neigh del 10.9.0.77 dev v0"), 0);
}

static size_t sent_to(struct fixture *f, const char *from, const char *to)
{
	struct flow way = flow(from, to);
	struct packet_tx t = packet(&way, ANOTHER, 8);

	return port_tx(f->port, &t, 1, NULL);
}

static void routers_and_groups_are_no_way(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(system("ip route add 192.0.2.0/24 via 10.9.0.2"), 0);
	assert_int_equal(sent_to(f, "::ffff:10.9.0.1", "::ffff:192.0.2.2"), 0);
	assert_int_equal(system("ip route del 192.0.2.0/24 via 10.9.0.2"), 0);
	assert_int_equal(sent_to(f, "::ffff:10.9.0.1", "::ffff:198.51.100.1"), 0); /* no route */
	assert_int_equal(sent_to(f, "::ffff:10.9.0.1", "::ffff:239.1.2.3"), 0);
	assert_int_equal(sent_to(f, "fd09::1", "ff15::1"), 0);
	assert_int_equal(f->port->counters->tx_refused, 4);
	assert_int_equal(sent_to(f, "::ffff:10.9.0.1", "::ffff:10.9.0.2"), 1);
}

static void what_is_longer_than_the_interface_takes_is_refused(void **state)
{
	struct fixture *f = *state;
	struct flow to = flow("::ffff:10.9.0.1", "::ffff:10.9.0.2");
	struct packet_tx t[] = {packet(&to, ANOTHER, 8), packet(&to, ANOTHER, 1024),
				packet(&to, ANOTHER, 8)};
	struct packet_sent sent[ARRAY_SIZE(t)];

	t[1].niov = 2;
	t[1].payload_len = 2048;
	t[1].iov[1] = (struct iovec){payload, 1024};
	assert_int_equal(port_tx(f->port, t, ARRAY_SIZE(t), sent), 2);
	assert_int_equal(f->port->counters->tx_refused, 1);
	assert_true(sent[0].icrc && !sent[1].icrc && sent[2].icrc);
}

/* ---- within this host ------------------------------------------------------------------------ */

static void this_host_is_reached_by_loopback(void **state)
{
	static const struct {
		const char *gid, *scope;
	} own[] = {{"::ffff:10.9.0.1", ""}, {"fd09::1", ""}, {"fe80::ff:fe00:1", "v0"}};
	struct fixture *f = *state;

	for (unsigned i = 0; i < ARRAY_SIZE(own); i++) {
		struct flow to = flow(own[i].gid, own[i].gid);
		struct packet_tx t = packet(&to, SLOT, 512);

		to.scope = *own[i].scope ? if_nametoindex(own[i].scope) : 0;
		assert_int_equal(port_tx(f->port, &t, 1, NULL), 1);
		receive(f, i + 1);
		assert_true(gid_equal(&f->last.sgid, &to.sgid));
		assert_true(gid_equal(&f->last.dgid, &to.dgid));
		assert_int_equal(f->last.scope, to.scope);
	}
}

static void many_at_once_go_and_come(void **state)
{
	struct fixture *f = *state;
	struct flow to = flow("::ffff:10.9.0.1", "::ffff:10.9.0.1");
	struct packet_tx t[150];

	for (size_t i = 0; i < ARRAY_SIZE(t); i++)
		t[i] = packet(&to, SLOT, 64);
	assert_int_equal(port_tx(f->port, t, ARRAY_SIZE(t), NULL), ARRAY_SIZE(t));
	receive(f, ARRAY_SIZE(t));
	assert_int_equal(f->port->counters->rx_packets, ARRAY_SIZE(t));
	assert_int_equal(f->port->counters->tx_packets, ARRAY_SIZE(t));
}

/* ---- the rest -------------------------------------------------------------------------------- */

static void it_is_for_rocev1_alone(void **state)
{
	struct fixture *f = *state;
	struct flow to = flow("::ffff:10.9.0.1", "::ffff:10.9.0.2");

	assert_true(port_reaches(f->port, &to));
	to.rocev1 = 0;
	assert_false(port_reaches(f->port, &to));
}

static void a_fork_changes_nothing_for_the_parent(void **state)
{
	struct fixture *f = *state;
	struct flow to = flow("::ffff:10.9.0.1", "::ffff:10.9.0.2");
	struct packet_tx t = packet(&to, ANOTHER, 8);
	const struct frame r = ours();
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		bool nothing;

		port_forked(f->port);
		nothing = f->port->fd < 0 && port_tx(f->port, &t, 1, NULL) == 0;
		port_destroy(f->port);
		_exit(nothing ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	put(f, &r);
	receive(f, 1);
	assert_int_equal(port_tx(f->port, &t, 1, NULL), 1);
}

static int make_wire(void)
{
	return system(
		"set -e\n"
		"ip link add v0 address 02:00:00:00:00:01 type veth "
		"peer name v1 address 02:00:00:00:00:02\n"
		"for v in v0 v1; do ip link set $v addrgenmode none; ip link set $v up; done\n"
		"ip addr add 10.9.0.1/24 dev v0; ip addr add 10.8.0.1/24 dev v1\n"
		"ip addr add fd09::1/64 dev v0 nodad\n"
		"ip addr add fe80::ff:fe00:1/64 dev v0 nodad\n"
		"for a in 10.9.0.2 fd09::2; do\n"
		"  ip neigh add $a lladdr 02:00:00:00:00:02 dev v0 nud permanent\n"
		"done\n");
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		CASE(what_is_for_the_slot_is_taken),
		CASE(of_link_local_gids_it_says_where_they_are),
		CASE(what_is_anothers_is_not_taken),
		CASE(what_is_to_no_address_of_ours_is_counted_and_dropped),
		CASE(what_is_damaged_is_counted_and_dropped),
		CASE(an_address_that_is_new_is_soon_known),
		CASE(what_is_sent_comes_out_whole),
		CASE(a_link_local_gid_leads_to_the_mac_address_in_it),
		CASE(whom_nobody_knows_the_kernel_asks_for),
		CASE(routers_and_groups_are_no_way),
		CASE(what_is_longer_than_the_interface_takes_is_refused),
		CASE(this_host_is_reached_by_loopback),
		CASE(many_at_once_go_and_come),
		CASE(it_is_for_rocev1_alone),
		CASE(a_fork_changes_nothing_for_the_parent),
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
	rc = raw_port_create(&port, SLOT, err, sizeof(err));
	if (rc == -EPERM || rc == -EAFNOSUPPORT) {
		printf("SKIP: %s\n", err);
		return 77;
	}
	if (rc == 0)
		port_destroy(port);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
