/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Steering survives the receiving host's GRO. Two namespaces and a veth pair, whose receiving end
 * joins what comes close together, as a network card's driver does: packets for two slots that are
 * sent by turns must each reach the socket of their slot.
 */
#include <arpa/inet.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
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
	uint8_t slot;
};

static bool count(void *ctx, const struct packet_rx *rx)
{
	struct tally *t = ctx;

	t->packets++;
	t->foreign += rx->data[5] != t->slot;
	return true;
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
	for (uint8_t i = 0; i < SLOTS; i++) {
		struct tally t = {.slot = (uint8_t)(i + 1)};
		uint64_t end = time_now_ns() + 5 * NSEC_PER_SEC;

		/* The neighbour is to be found and GRO lets go by a timer: that takes its time. */
		do {
			while (port_rx(port[i], time_now_ns(), count, &t) > 0)
				t.batches++;
			usleep(1000);
		} while (t.packets < PER_SLOT && time_now_ns() < end);
		if (write(out, &t, sizeof(t)) != sizeof(t))
			return 1;
	}
	return 0;
}

static void each_packet_reaches_its_slot(void **state)
{
	static const uint8_t data[256];
	struct flow flow = {.sgid = v4("10.9.0.1"), .dgid = v4("10.9.0.2")};
	struct packet_tx tx[SLOTS * PER_SLOT];
	int in = (*(int **)state)[0], out = (*(int **)state)[1], fd = udp_socket_open();
	struct port *port;
	unsigned batches = 0;

	assert_true(fd >= 0);
	assert_int_equal(udp_port_create(&port, fd), 0);
	for (size_t i = 0; i < ARRAY_SIZE(tx); i++) {
		tx[i] = (struct packet_tx){
			.flow = &flow,
			.hdr_len = BTH_LEN,
			.payload_len = sizeof(data),
			.niov = 1,
			.iov[0] = {(void *)data, sizeof(data)},
		};
		tx[i].hdr[5] = (uint8_t)(1 + i % SLOTS);
		st_be24(tx[i].hdr + 9, (uint32_t)i);
	}
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
	};
	rc = cmocka_run_group_tests(tests, NULL, NULL);
	waitpid(pid, &status, 0);
	return rc || !WIFEXITED(status) ? 1 : WEXITSTATUS(status);
}
