/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The reference for small messages: two processes throw one datagram, or as many bytes of TCP,
 * to and fro over loopback, both polling, or both asleep until they come. Prints quantiles of half
 * the round trip in microseconds, as ib_send_lat counts.
 */
#include "raw_bench.h"

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static void catch_one(int fd, char *buf, size_t len)
{
	for (size_t got = 0; got < len;) {
		ssize_t n = recv(fd, buf + got, len - got, 0);

		if (n == 0 || (n < 0 && errno != EAGAIN))
			die("recv");
		got += n > 0 ? (size_t)n : 0;
	}
}

/* to: NULL where it is connected. */
static void throw_one(int fd, const char *buf, size_t len, const struct sockaddr_in6 *to)
{
	if (sendto(fd, buf, len, 0, (const struct sockaddr *)to, to ? sizeof(*to) : 0) !=
	    (ssize_t)len)
		die("sendto");
}

/* Sorted; as perftest takes its percentiles. */
static void print_quantiles(const uint64_t *took, size_t n)
{
	static const char *const percent[] = {"0",  "1",  "5",	"10",	"25",	"50",	 "75",
					      "90", "95", "99", "99.5", "99.9", "99.99", "100"};

	for (size_t i = 0; i < sizeof(percent) / sizeof(*percent); i++) {
		size_t at = (size_t)((double)n * strtod(percent[i], NULL) / 100);

		printf("p%s %.3f\n", percent[i], (double)took[at < n ? at : n - 1] / 2000.0);
	}
}

int main(int argc, char **argv)
{
	const char *by = argc > 1 ? argv[1] : "udp", *how = argc > 2 ? argv[2] : "poll";
	size_t size = argc > 3 ? strtoul(argv[3], NULL, 10) : 8;
	size_t iters = argc > 4 ? strtoul(argv[4], NULL, 10) : 20000;
	struct sockaddr_in6 addr[2], *here = NULL, *there = NULL;
	uint64_t *took = calloc(iters, sizeof(*took));
	char *buf = calloc(1, size + 1);
	int near = -1, far = -1;
	pid_t echo;

	if (!strcmp(by, "tcp")) {
		tcp_sockets(&near, &far);
	} else if (!strcmp(by, "udp")) {
		here = &addr[0];
		there = &addr[1];
		near = udp_socket(here);
		far = udp_socket(there);
	}
	if (near < 0 || !waits_by(how, near, far) || !took || !buf || size == 0 || size > 60000 ||
	    iters == 0) {
		fprintf(stderr, "usage: %s [udp|tcp [poll|sleep [BYTES [ITERATIONS]]]]\n", argv[0]);
		return 2;
	}
	echo = fork();
	if (echo < 0)
		die("fork");
	if (echo == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;) {
			catch_one(far, buf, size);
			throw_one(far, buf, size, here);
		}
	}
	for (size_t i = 0; i < iters; i++) {
		uint64_t begun = now_ns();

		throw_one(near, buf, size, there);
		catch_one(near, buf, size);
		took[i] = now_ns() - begun;
	}
	kill(echo, SIGKILL);
	waitpid(echo, NULL, 0);
	qsort(took, iters, sizeof(*took), by_value);
	print_quantiles(took, iters);
	return 0;
}
