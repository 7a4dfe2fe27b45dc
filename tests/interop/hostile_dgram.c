/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Datagram rsockets before headers that anybody can forge: a TAP device, from whose other side come
 * datagrams of senders who are not there and whom nobody finds.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <malloc.h>
#include <net/if.h>
#include <netinet/ip.h>
#include <netinet/udp.h>
#include <poll.h>
#include <rdma/rsocket.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

enum {
	PORT = 7500,
	SENDERS = 64,
	MANY = 20000,
	AT_A_TIME = 32,
	MEMORY_MAX = 1 << 20,
	OURS = 0x0a580001, /* 10.88.0.1/16 */
};

static int tap = -1, victim = -1, friend = -1;
static uint8_t mac[6];
static struct sockaddr_in at_victim = {.sin_family = AF_INET};

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int setup(void **state)
{
	struct ifreq req = {.ifr_name = "forged0", .ifr_flags = IFF_TAP | IFF_NO_PI};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	(void)state;
	tap = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
	if (tap < 0 || ioctl(tap, TUNSETIFF, &req)) {
		printf("SKIP: no TAP device to have here: %s\n", strerror(errno));
		exit(77);
	}
	if (ioctl(fd, SIOCGIFHWADDR, &req))
		return -1;
	memcpy(mac, req.ifr_hwaddr.sa_data, sizeof(mac));
	close(fd);
	if (system("ip addr add 10.88.0.1/16 dev forged0 && ip link set forged0 up"))
		return -1;
	at_victim.sin_port = htons(PORT);
	at_victim.sin_addr.s_addr = htonl(OURS);
	victim = rsocket(AF_INET, SOCK_DGRAM, 0);
	friend = rsocket(AF_INET, SOCK_DGRAM, 0);
	return victim < 0 || friend < 0 ||
	       rbind(victim, (struct sockaddr *)&at_victim, sizeof(at_victim));
}

static int teardown(void **state)
{
	(void)state;
	return rclose(victim) || rclose(friend) || close(tap);
}

static uint16_t ip_sum(const void *p, size_t len)
{
	const uint16_t *w = p;
	uint32_t sum = 0;

	for (size_t i = 0; i < len / 2; i++)
		sum += w[i];
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)~sum;
}

/* As the first datagram of a datagram socket of that address. */
static void forge(uint32_t from, uint16_t port, uint8_t op)
{
	struct {
		uint8_t eth[14];
		struct iphdr ip;
		struct udphdr udp;
		uint8_t header[16];
	} __attribute__((packed)) f = {
		.eth = {[6] = 2, [11] = 9, [12] = 8},
		.ip = {.version = 4,
		       .ihl = 5,
		       .tot_len = htons(20 + 8 + 16),
		       .ttl = 64,
		       .protocol = IPPROTO_UDP,
		       .saddr = htonl(from),
		       .daddr = htonl(OURS)},
		.udp = {.source = htons(port), .dest = htons(PORT), .len = htons(8 + 16)},
		.header = {0x55, 0x55, 0x55, 0x55, 4, op, 16, 0, 0, 0, 1, 2},
	};
	struct iphdr ip = f.ip;

	ip.check = ip_sum(&ip, sizeof(ip));
	f.ip = ip;
	memcpy(f.eth, mac, sizeof(mac));
	memcpy(f.header + 12, &f.ip.saddr, 4);
	assert_int_equal(write(tap, &f, sizeof(f)), sizeof(f));
}

static bool readable(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return rpoll(&p, 1, 3000) == 1;
}

static size_t empties;

/* Takes what was forged as well, which is empty. */
static ssize_t receive(int fd, struct sockaddr_in *from)
{
	socklen_t len = sizeof(*from);
	ssize_t n;
	char c;

	do {
		if (!readable(fd))
			return -1;
		n = rrecvfrom(fd, &c, 1, 0, (struct sockaddr *)from, &len);
		empties += !n;
	} while (!n);
	return n;
}

/* There and back, soon. */
static void a_friend_is_served(void)
{
	const double begun = now();
	struct sockaddr_in from;

	assert_int_equal(
		rsendto(friend, "x", 1, 0, (struct sockaddr *)&at_victim, sizeof(at_victim)), 1);
	assert_int_equal(receive(victim, &from), 1);
	assert_int_equal(rsendto(victim, "y", 1, 0, (struct sockaddr *)&from, sizeof(from)), 1);
	assert_int_equal(receive(friend, &from), 1);
	assert_true(now() - begun < 3);
}

/* Looking for one of them takes two seconds. */
static void senders_nobody_finds_hold_up_nobody(void **state)
{
	struct sockaddr_in from;
	char c;

	(void)state;
	a_friend_is_served();
	for (uint32_t i = 0; i < SENDERS; i++)
		forge(OURS + 1 + i, 1000, i & 1 ? 7 : 0);
	for (int i = 0; i < 5; i++)
		a_friend_is_served();
	while (empties <= SENDERS / 4) { /* those were, and come */
		assert_true(readable(victim));
		empties += !rrecvfrom(victim, &c, 1, MSG_DONTWAIT, (struct sockaddr *)&from,
				      &(socklen_t){sizeof(from)});
	}
}

static void as_many_senders_as_one_likes_take_no_more_memory(void **state)
{
	const size_t before = mallinfo2().uordblks;
	struct sockaddr_in from;
	size_t grown;
	char c;

	(void)state;
	empties = 0;
	for (uint32_t i = 0; i < MANY; i++) {
		forge(OURS + 1 + i % 1000, (uint16_t)(1000 + i / 1000), 0);
		if (i % AT_A_TIME)
			continue;
		usleep(500);
		while (rrecvfrom(victim, &c, 1, MSG_DONTWAIT, (struct sockaddr *)&from,
				 &(socklen_t){sizeof(from)}) >= 0)
			empties++;
	}
	a_friend_is_served();
	assert_true(empties > MANY / 4);
	grown = mallinfo2().uordblks - before;
	if (grown > MEMORY_MAX)
		fail_msg("%zu bytes more for %d senders", grown, MANY);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(senders_nobody_finds_hold_up_nobody),
		cmocka_unit_test(as_many_senders_as_one_likes_take_no_more_memory),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
