/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A narrow place in a network, between two interfaces: what tbf and netem of Linux do, for kernels
 * that have them not. Each way has a line of its own with a queue before it, which loses what does
 * not fit and may mark from a length on, then a delay, and losses by chance.
 *
 *   narrow IF1 IF2 [rate MBIT] [delay US] [queue KB] [mark KB] [loss PPM] [seed N]
 *
 * Interfaces hand over what they have joined (GSO) as one; who wants single packets switches that
 * off. At the end, by a signal, it prints what it saw.
 */
#include <errno.h>
#include <linux/if_packet.h>
#include <linux/virtio_net.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <arpa/inet.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define FRAME_MAX 70000
#define FRAMES	  65536
#define OVERHEAD  24 /* preamble, FCS, gap */

struct frame {
	uint64_t due;
	uint32_t len;
	struct virtio_net_hdr vnet;
	uint8_t *data;
};

/* From one interface to the other. */
struct way {
	int from, to;
	struct frame *ring; /* FRAMES of them, in the order in which they are due */
	uint32_t head, tail;
	uint64_t free_ns; /* when its line has sent all that is in its queue */
	uint64_t frames, bytes, overflowed, lost, marked, delay_sum, delay_max;
};

static uint64_t rate_mbit = 100, delay_us = 1000, queue_kb = 100, mark_kb, loss_ppm, state = 1;
static volatile sig_atomic_t ended;

static void on_signal(int sig)
{
	(void)sig;
	ended = 1;
}

static _Noreturn void die(const char *what)
{
	fprintf(stderr, "narrow: %s: %s\n", what, strerror(errno));
	exit(1);
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static uint64_t random_u64(void)
{
	uint64_t x = state += 0x9e3779b97f4a7c15ull;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 27) * 0x94d049bb133111ebull;
	return x ^ x >> 31;
}

static int open_interface(const char *name)
{
	struct sockaddr_ll a = {.sll_family = AF_PACKET,
				.sll_protocol = htons(ETH_P_ALL),
				.sll_ifindex = (int)if_nametoindex(name)};
	struct packet_mreq m = {.mr_ifindex = a.sll_ifindex, .mr_type = PACKET_MR_PROMISC};
	int fd = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK, 0), one = 1, room = 64 << 20;

	if (!a.sll_ifindex || fd < 0)
		die(name);
	(void)setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof(room));
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof(room));
	if (setsockopt(fd, SOL_PACKET, PACKET_VNET_HDR, &one, sizeof(one)) ||
	    setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &one, sizeof(one)) ||
	    setsockopt(fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &m, sizeof(m)) ||
	    bind(fd, (struct sockaddr *)&a, sizeof(a)))
		die(name);
	return fd;
}

/* Congestion experienced, in the header of IPv4 or IPv6, if the packet is ready for it. */
static bool mark(uint8_t *f, uint32_t len)
{
	uint16_t type;
	uint32_t sum;

	if (len < 34)
		return false;
	type = (uint16_t)(f[12] << 8 | f[13]);
	if (type == ETH_P_IPV6 && (f[15] & 0x30)) {
		f[15] |= 0x30;
		return true;
	}
	if (type != ETH_P_IP || !(f[15] & 3))
		return false;
	/* RFC 1624: what the header's checksum becomes. */
	sum = (uint16_t) ~(f[24] << 8 | f[25]) + (uint16_t) ~(f[14] << 8 | f[15]);
	f[15] |= 3;
	sum += (uint16_t)(f[14] << 8 | f[15]);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = ~((sum & 0xffff) + (sum >> 16));
	f[24] = (uint8_t)(sum >> 8);
	f[25] = (uint8_t)sum;
	return true;
}

/* True: it was one. */
static bool take(struct way *w)
{
	static uint8_t data[FRAME_MAX];
	struct virtio_net_hdr vnet;
	struct iovec iov[2] = {{&vnet, sizeof(vnet)}, {data, sizeof(data)}};
	ssize_t n = readv(w->from, iov, 2);
	uint64_t now, waits;
	struct frame *f;
	uint32_t len;

	if (n < (ssize_t)sizeof(vnet) + ETH_HLEN)
		return false;
	len = (uint32_t)(n - (ssize_t)sizeof(vnet));
	now = now_ns();
	waits = w->free_ns > now ? w->free_ns - now : 0;
	w->frames++;
	if (waits * rate_mbit / 8000 + len > queue_kb * 1000 || w->head - w->tail == FRAMES) {
		w->overflowed++;
		return true;
	}
	w->bytes += len;
	w->delay_sum += waits;
	w->delay_max = waits > w->delay_max ? waits : w->delay_max;
	if (mark_kb && waits * rate_mbit / 8000 > mark_kb * 1000 && mark(data, len))
		w->marked++;
	w->free_ns = now + waits + (len + OVERHEAD) * 8000ull / rate_mbit;
	if (loss_ppm && random_u64() % 1000000 < loss_ppm) {
		w->lost++;
		return true;
	}
	f = &w->ring[w->head++ % FRAMES];
	f->due = w->free_ns + delay_us * 1000;
	f->len = len;
	f->vnet = vnet;
	f->data = malloc(len);
	if (!f->data)
		die("a frame");
	memcpy(f->data, data, len);
	return true;
}

/* Sends what is due; when the next will be, or UINT64_MAX. */
static uint64_t give(struct way *w)
{
	while (w->tail != w->head) {
		struct frame *f = &w->ring[w->tail % FRAMES];
		struct iovec iov[2] = {{&f->vnet, sizeof(f->vnet)}, {f->data, f->len}};

		if (f->due > now_ns())
			return f->due;
		if (writev(w->to, iov, 2) < 0 && errno == EAGAIN)
			return now_ns() + 50000;
		free(f->data);
		w->tail++;
	}
	return UINT64_MAX;
}

static void tell(const char *from, const char *to, const struct way *w)
{
	printf("%s %s frames %llu bytes %llu overflowed %llu lost %llu marked %llu mean_delay_us "
	       "%llu "
	       "max_delay_us %llu\n",
	       from, to, (unsigned long long)w->frames, (unsigned long long)w->bytes,
	       (unsigned long long)w->overflowed, (unsigned long long)w->lost,
	       (unsigned long long)w->marked,
	       (unsigned long long)(w->frames ? w->delay_sum / w->frames / 1000 : 0),
	       (unsigned long long)w->delay_max / 1000);
}

static void option(const char *name, const char *value)
{
	static const struct {
		const char *name;
		uint64_t *value;
	} all[] = {{"rate", &rate_mbit}, {"delay", &delay_us}, {"queue", &queue_kb},
		   {"mark", &mark_kb},	 {"loss", &loss_ppm},  {"seed", &state}};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (strcmp(name, all[i].name) == 0) {
			*all[i].value = strtoull(value, NULL, 10);
			return;
		}
	fprintf(stderr, "narrow: there is no %s\n", name);
	exit(2);
}

int main(int argc, char **argv)
{
	struct sigaction act = {.sa_handler = on_signal};
	struct way w[2] = {0};

	if (argc < 3 || argc % 2 == 0) {
		fprintf(stderr, "usage: narrow IF1 IF2 [NAME VALUE]...\n");
		return 2;
	}
	for (int i = 3; i < argc; i += 2)
		option(argv[i], argv[i + 1]);
	if (!rate_mbit)
		return 2;
	sigaction(SIGTERM, &act, NULL);
	sigaction(SIGINT, &act, NULL);
	prctl(PR_SET_TIMERSLACK, 1ul);
	w[0].from = w[1].to = open_interface(argv[1]);
	w[1].from = w[0].to = open_interface(argv[2]);
	for (int i = 0; i < 2; i++) {
		w[i].ring = calloc(FRAMES, sizeof(*w[i].ring));
		if (!w[i].ring)
			die("its queue");
	}
	printf("ready\n");
	fflush(stdout);
	while (!ended) {
		struct pollfd p[2] = {{w[0].from, POLLIN, 0}, {w[1].from, POLLIN, 0}};
		uint64_t next = UINT64_MAX, now;
		bool any = false;

		for (int i = 0; i < 2; i++) {
			uint64_t due;

			for (int k = 0; k < 32 && take(&w[i]); k++)
				any = true;
			due = give(&w[i]);
			next = due < next ? due : next;
		}
		if (any)
			continue;
		now = now_ns();
		if (next == UINT64_MAX) {
			(void)ppoll(p, 2, NULL, NULL);
		} else if (next > now) {
			struct timespec t = {(time_t)((next - now) / 1000000000),
					     (long)((next - now) % 1000000000)};

			(void)ppoll(p, 2, &t, NULL);
		}
	}
	tell(argv[1], argv[2], &w[0]);
	tell(argv[2], argv[1], &w[1]);
	return 0;
}
