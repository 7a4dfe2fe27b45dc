/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Steering survives the receiving host's GRO. Two namespaces and a veth pair, whose receiving end
 * joins what comes close together, as a network card's driver does: packets for two slots that are
 * sent by turns must each reach the socket of their slot. Nor does it join what is marked (ECN) and
 * what is not: each packet says which it is.
 */
#include <arpa/inet.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <netinet/udp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <cmocka.h>

#include "base/bytes.h"
#include "base/time.h"
#include "broker/leases.h"
#include "netns.h"
#include "port/udp/udp_port.h"
#include "port/udp/udp_socket.h"

#define SLOTS	 2
#define PER_SLOT 20
#define TRAIN	 40
#define PLAIN	 (26 << 2 | 2) /* ECT(0) */
#define MARKED	 (26 << 2 | 3) /* CE */

static struct gid v4(const char *text)
{
	struct gid g = {.raw = {[10] = 0xff, [11] = 0xff}};

	assert_int_equal(inet_pton(AF_INET, text, g.raw + 12), 1);
	return g;
}

static bool set_offload(const char *ifname, uint32_t command, uint32_t value)
{
	struct ethtool_value v = {.cmd = command, .data = value};
	struct ifreq req = {.ifr_data = (void *)&v};
	int fd = socket(AF_INET, SOCK_DGRAM, 0), rc;

	snprintf(req.ifr_name, sizeof(req.ifr_name), "%s", ifname);
	rc = ioctl(fd, SIOCETHTOOL, &req);
	close(fd);
	return rc == 0;
}

struct tally {
	unsigned packets, foreign; /* foreign: for another slot */
	unsigned batches;	   /* datagrams received: fewer than packets if GRO did its work */
	unsigned joined;	   /* that came behind another in one datagram */
	unsigned marked, mistaken; /* of a train */
	const uint8_t *end;	   /* of the packet before */
	uint8_t slot;
};

/* Of a train that a switch has marked some of: by themselves, and several together. */
static bool is_marked(uint32_t psn)
{
	return psn % 8 == 3 || psn % 8 > 5;
}

static bool count(void *ctx, const struct packet_rx *rx)
{
	struct tally *t = ctx;

	t->packets++;
	t->foreign += rx->data[5] != t->slot;
	t->joined += rx->data == t->end;
	t->end = rx->data + rx->len + ICRC_LEN;
	t->marked += rx->flow.tos == MARKED;
	t->mistaken += rx->flow.tos != (is_marked(ld_be24(rx->data + 9)) ? MARKED : PLAIN);
	return true;
}

/* Says on `out` what came within some seconds, or as soon as so many did. */
static bool tell(struct port *port, uint8_t slot, unsigned packets, int out)
{
	struct tally t = {.slot = slot};
	uint64_t end = time_now_ns() + 5 * NSEC_PER_SEC;

	/* The neighbour is to be found and GRO lets go by a timer: that takes its time. */
	do {
		while (port_rx(port, time_now_ns(), count, &t) > 0)
			t.batches++;
		usleep(1000);
	} while (t.packets < packets && time_now_ns() < end);
	return write(out, &t, sizeof(t)) == sizeof(t);
}

/* The receiving host. Says on `out` when it is ready and then, asked on `in`, what came. */
static int receive(int in, int out)
{
	struct leases l;
	struct port *port[SLOTS];
	char err[512], go;
	bool heir;

	if (mount("sysfs", "/sys", "sysfs", 0, NULL) ||
	    system("ip link set v1 up && ip addr add 10.9.0.2/24 dev v1 &&"
		   "echo 20000000 > /sys/class/net/v1/gro_flush_timeout &&"
		   "echo 1 > /sys/class/net/v1/napi_defer_hard_irqs") ||
	    !set_offload("v1", ETHTOOL_SGRO, 1))
		return 77;
	if (leases_init(&l, -1, -1, &heir, err, sizeof(err)))
		return 1;
	for (int i = 0; i < SLOTS; i++) {
		int fd;

		if (leases_take(&l, geteuid(), 1, &fd) != i + 1 ||
		    udp_port_create(&port[i], dup(fd)))
			return 1;
	}
	if (write(out, "", 1) != 1 || read(in, &go, 1) != 1)
		return 1;
	for (uint8_t i = 0; i < SLOTS; i++)
		if (!tell(port[i], (uint8_t)(i + 1), PER_SLOT, out))
			return 1;
	for (int gro = 1; gro >= 0; gro--)
		if (setsockopt(port[0]->fd, SOL_UDP, UDP_GRO, &gro, sizeof(gro)) ||
		    write(out, "", 1) != 1 || !tell(port[0], 1, TRAIN, out))
			return 1;
	return 0;
}

static struct packet_tx packet_to(uint8_t slot, uint32_t psn, const struct flow *flow)
{
	static const uint8_t data[256];
	struct packet_tx tx = {
		.flow = flow,
		.hdr_len = BTH_LEN,
		.payload_len = sizeof(data),
		.niov = 1,
		.iov[0] = {(void *)data, sizeof(data)},
	};

	tx.hdr[5] = slot;
	st_be24(tx.hdr + 9, psn);
	return tx;
}

static void each_packet_reaches_its_slot(void **state)
{
	struct flow flow = {.sgid = v4("10.9.0.1"), .dgid = v4("10.9.0.2")};
	struct packet_tx tx[SLOTS * PER_SLOT];
	int in = (*(int **)state)[0], out = (*(int **)state)[1], fd = udp_socket_open();
	struct port *port;
	unsigned batches = 0;

	assert_true(fd >= 0);
	assert_int_equal(udp_port_create(&port, fd), 0);
	for (size_t i = 0; i < ARRAY_SIZE(tx); i++)
		tx[i] = packet_to((uint8_t)(1 + i % SLOTS), (uint32_t)i, &flow);
	assert_int_equal(port_tx(port, tx, ARRAY_SIZE(tx), NULL), ARRAY_SIZE(tx));
	port_destroy(port);
	assert_int_equal(write(out, "", 1), 1);
	for (int i = 0; i < SLOTS; i++) {
		struct tally t;

		assert_int_equal(read(in, &t, sizeof(t)), sizeof(t));
		assert_int_equal(t.packets, PER_SLOT);
		assert_int_equal(t.foreign, 0);
		batches += t.batches;
	}
	assert_true(batches < ARRAY_SIZE(tx)); /* GRO was there */
}

/* Both kinds from one source port, as what a switch has marked: who wants to hear of refusals sends
 * all to a slot by one socket. */
static void marks_are_told_of_whatever_is_joined(void **state)
{
	struct flow flow[2] = {{.sgid = v4("10.9.0.1"), .dgid = v4("10.9.0.2"), .tos = PLAIN},
			       {.sgid = v4("10.9.0.1"), .dgid = v4("10.9.0.2"), .tos = MARKED}};
	int in = (*(int **)state)[0], fd = udp_socket_open();
	struct packet_tx tx[TRAIN];
	struct port *port;

	assert_true(fd >= 0);
	assert_int_equal(udp_port_create(&port, fd), 0);
	assert_true(udp_port_hear_refusals(port) >= 0);
	for (uint32_t i = 0; i < TRAIN; i++)
		tx[i] = packet_to(1, i, &flow[is_marked(i)]);
	for (int gro = 1; gro >= 0; gro--) {
		struct tally t;
		char ready;

		assert_int_equal(read(in, &ready, 1), 1);
		assert_int_equal(port_tx(port, tx, TRAIN, NULL), TRAIN);
		assert_int_equal(read(in, &t, sizeof(t)), sizeof(t));
		assert_int_equal(t.packets, TRAIN);
		assert_int_equal(t.marked, TRAIN * 3 / 8);
		assert_int_equal(t.mistaken, 0);
		assert_int_equal(t.joined != 0, gro);
	}
	port_destroy(port);
}

int main(void)
{
	int to[2], from[2], ends[2], status, rc;
	char cmd[128], ready;
	pid_t pid;

	netns_enter();
	if (pipe(to) || pipe(from))
		return 1;
	pid = fork();
	if (pid == 0) {
		close(to[1]);
		if (unshare(CLONE_NEWNET | CLONE_NEWNS) || write(from[1], "", 1) != 1 ||
		    read(to[0], &ready, 1) != 1)
			_exit(77);
		_exit(receive(to[0], from[1]));
	}
	close(from[1]);
	snprintf(cmd, sizeof(cmd),
		 "ip link add v0 type veth peer name v1 netns %d && ip link set v0 up &&"
		 "ip addr add 10.9.0.1/24 dev v0",
		 pid);
	/* A veth receives like a card only what was not made for segmentation. */
	if (read(from[0], &ready, 1) != 1 || system(cmd) || !set_offload("v0", ETHTOOL_SSG, 0) ||
	    write(to[1], "", 1) != 1 || read(from[0], &ready, 1) != 1) {
		kill(pid, SIGKILL);
		waitpid(pid, &status, 0);
		if (WIFEXITED(status) ? WEXITSTATUS(status) != 77 : WTERMSIG(status) != SIGKILL)
			return 1; /* it is what is tested that cannot be set up */
		puts("SKIP: no two namespaces with a veth pair and GRO can be set up here");
		return 77;
	}
	ends[0] = from[0];
	ends[1] = to[1];
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_prestate(each_packet_reaches_its_slot, ends),
		cmocka_unit_test_prestate(marks_are_told_of_whatever_is_joined, ends),
	};
	rc = cmocka_run_group_tests(tests, NULL, NULL);
	waitpid(pid, &status, 0);
	return rc || !WIFEXITED(status) ? 1 : WEXITSTATUS(status);
}
