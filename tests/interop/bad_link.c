/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A link between two network namespaces that does to frames what it is told to.
 *
 *	bad_link PID PID SEED
 *
 * Makes a TAP device eth0 in the namespace of either process and carries frames between them until
 * its standard input ends. A line of input is a state of the link, in words NAME=NUMBER that hold
 * until the next line: loss, dup, corrupt, reorder (in 1/1000 of the frames), delay, jitter (ms),
 * cut (1: nothing from the first to the second, 2: nothing back, 3: neither). Each is answered by a
 * line with the frames carried and dropped so far.
 *
 * A TAP and not a veth pair, since not every kernel has netem: so the kernel cuts its large packets
 * up and fills in checksums, as it does for a wire. Half of what is damaged in RoCEv2 keeps its UDP
 * checksum, so that it is weft that has to see it.
 */
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

enum { FRAME = 10000, HELD = 8192, ROCE_PORT = 4791, REORDERED_US = 2000 };

static struct {
	unsigned int loss, dup, corrupt, reorder, delay, jitter, cut;
} state;

struct frame { /* waits for its time */
	uint64_t due_us, order;
	int to;
	size_t len;
	uint8_t *data;
};

static struct frame *held[HELD]; /* a heap: the first is due first */
static size_t held_count;
static uint64_t order, random_state, carried, dropped;

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static uint64_t now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

static uint32_t below(uint32_t n) /* xorshift64* */
{
	random_state ^= random_state >> 12;
	random_state ^= random_state << 25;
	random_state ^= random_state >> 27;
	return n ? (uint32_t)((random_state * 2685821657736338717ull) >> 33) % n : 0;
}

static int tap_in(const char *pid)
{
	struct ifreq req = {.ifr_flags = IFF_TAP | IFF_NO_PI};
	char path[64];
	int ns, fd;

	snprintf(path, sizeof(path), "/proc/%s/ns/net", pid);
	ns = open(path, O_RDONLY | O_CLOEXEC);
	if (ns < 0 || setns(ns, CLONE_NEWNET))
		die(path);
	close(ns);
	fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
	strcpy(req.ifr_name, "eth0");
	if (fd < 0 || ioctl(fd, TUNSETIFF, &req))
		die("/dev/net/tun");
	return fd;
}

/* ---- frames that wait ------------------------------------------------------------------------ */

static bool before(const struct frame *a, const struct frame *b)
{
	return a->due_us < b->due_us || (a->due_us == b->due_us && a->order < b->order);
}

static void swap(size_t a, size_t b)
{
	struct frame *f = held[a];

	held[a] = held[b];
	held[b] = f;
}

static void hold(int to, const uint8_t *data, size_t len, uint64_t due_us)
{
	struct frame *f = held_count < HELD ? malloc(sizeof(*f) + len) : NULL;

	if (!f) {
		dropped++;
		return;
	}
	*f = (struct frame){due_us, order++, to, len, (uint8_t *)(f + 1)};
	memcpy(f->data, data, len);
	held[held_count] = f;
	for (size_t i = held_count++; i && before(held[i], held[(i - 1) / 2]); i = (i - 1) / 2)
		swap(i, (i - 1) / 2);
}

static struct frame *take_first(void)
{
	struct frame *first = held[0];
	size_t i = 0, child;

	held[0] = held[--held_count];
	for (; (child = 2 * i + 1) < held_count; i = child) {
		if (child + 1 < held_count && before(held[child + 1], held[child]))
			child++;
		if (before(held[i], held[child]))
			break;
		swap(i, child);
	}
	return first;
}

/* ---- what is done to a frame ----------------------------------------------------------------- */

static bool is_roce(const uint8_t *p, size_t len)
{
	/* Ethernet, IPv4 without options, UDP */
	return len > 14 + 20 + 8 + 12 && p[12] == 8 && p[13] == 0 && p[14] == 0x45 && p[23] == 17 &&
	       (p[36] << 8 | p[37]) == ROCE_PORT;
}

static void damage(uint8_t *p, size_t len)
{
	size_t words = (len - 42) / 2, a, b;
	uint8_t word[2];

	if (!is_roce(p, len) || below(2)) {
		p[14 + below((uint32_t)len - 14)] ^= (uint8_t)(1 << below(8));
		return;
	}
	/* Two words of the payload change places, which their sum does not show. */
	a = 42 + 2 * below((uint32_t)words);
	b = 42 + 2 * below((uint32_t)words);
	memcpy(word, p + a, 2);
	memcpy(p + a, p + b, 2);
	memcpy(p + b, word, 2);
}

static void carry(int to, unsigned int direction, uint8_t *data, size_t len)
{
	const uint64_t now = now_us();
	uint64_t due = now;

	if (state.cut & direction || below(1000) < state.loss) {
		dropped++;
		return;
	}
	carried++;
	if (below(1000) < state.corrupt && len > 60)
		damage(data, len);
	if (state.delay || state.jitter)
		due += state.delay * 1000 + below(state.jitter * 1000);
	if (below(1000) < state.reorder)
		due += 1 + below(REORDERED_US);
	if (below(1000) < state.dup)
		hold(to, data, len, due + below(REORDERED_US));
	if (due > now)
		hold(to, data, len, due);
	else if (write(to, data, len) < 0)
		dropped++; /* the interface is down */
}

/* False at the end of input. */
static bool take_orders(void)
{
	static const struct {
		const char *name;
		unsigned int *value;
	} names[] = {{"loss=", &state.loss},	   {"dup=", &state.dup},
		     {"corrupt=", &state.corrupt}, {"reorder=", &state.reorder},
		     {"delay=", &state.delay},	   {"jitter=", &state.jitter},
		     {"cut=", &state.cut}};
	char line[512], *word, *rest = line;

	if (!fgets(line, sizeof(line), stdin))
		return false;
	memset(&state, 0, sizeof(state));
	while ((word = strsep(&rest, " \n")))
		for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
			if (!strncmp(word, names[i].name, strlen(names[i].name)))
				*names[i].value = (unsigned int)atoi(word + strlen(names[i].name));
	printf("carried %llu dropped %llu\n", (unsigned long long)carried,
	       (unsigned long long)dropped);
	return !fflush(stdout);
}

int main(int argc, char **argv)
{
	struct pollfd fds[3] = {{.fd = STDIN_FILENO, .events = POLLIN}};
	static uint8_t data[FRAME];

	if (argc != 4)
		return 2;
	random_state = strtoull(argv[3], NULL, 0) * 2654435761u + 1;
	for (int i = 0; i < 2; i++)
		fds[1 + i] = (struct pollfd){.fd = tap_in(argv[1 + i]), .events = POLLIN};
	setvbuf(stdin, NULL, _IONBF, 0); /* what poll() does not see is not there */
	printf("up\n");
	fflush(stdout);
	for (;;) {
		uint64_t now = now_us();
		struct timespec wait = {0};

		while (held_count && held[0]->due_us <= now) {
			struct frame *f = take_first();

			if (write(f->to, f->data, f->len) < 0)
				dropped++;
			free(f);
		}
		if (held_count)
			wait.tv_nsec = (long)((held[0]->due_us - now) % 1000000 * 1000);
		if (ppoll(fds, 3, held_count ? &wait : NULL, NULL) < 0)
			die("ppoll");
		if (fds[0].revents && !take_orders())
			return 0;
		for (int i = 0; i < 2; i++) {
			ssize_t n;

			for (int k = 0; k < 64 && (n = read(fds[1 + i].fd, data, FRAME)) > 0; k++)
				carry(fds[2 - i].fd, 1u << i, data, (size_t)n);
		}
	}
}
