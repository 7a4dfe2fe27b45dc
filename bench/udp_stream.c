/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The reference for bandwidth and for message rate: one process sends a stream of UDP super-packets
 * (UDP_SEGMENT) over loopback, another takes them with UDP_GRO. A packet is as large as that of
 * RoCEv2 which it stands for. The receiver returns a word for every quarter of a window, and the
 * sender keeps at most a window on the way, so that nothing is lost and every byte sent is one
 * received. Both poll, or both sleep when there is nothing to do.
 *
 * Prints packets per second, packets, and the processor time that both took for them, in seconds.
 */
#include "raw_bench.h"

enum { WINDOW_MAX = 1 << 20, SUPER_MAX = 65000, PACKETS_MAX = 64, PATIENCE_S = 10 };

struct stream {
	int near, far;
	struct sockaddr_in6 here, there;
	size_t packet, super; /* bytes */
	uint64_t window;
};

/* What the receiver's buffer holds for certain: the kernel counts its own structures, too. */
static uint64_t window(int fd)
{
	int bytes = 0;
	socklen_t len = sizeof(bytes);

	if (getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, &len))
		die("SO_RCVBUF");
	return bytes / 4 < WINDOW_MAX ? (uint64_t)bytes / 4 : WINDOW_MAX;
}

static void receive(const struct stream *s)
{
	static char buf[1 << 16];
	int on = 1;
	uint64_t taken = 0, told = 0;

	if (setsockopt(s->far, IPPROTO_UDP, UDP_GRO, &on, sizeof(on)))
		die("UDP_GRO");
	for (;;) {
		ssize_t n = recv(s->far, buf, sizeof(buf), 0);

		if (n < 0 && errno != EAGAIN)
			die("recv");
		if (n > 0)
			taken += (uint64_t)n;
		if (taken - told < s->window / 4)
			continue;
		told = taken;
		if (sendto(s->far, &taken, sizeof(taken), 0, (const struct sockaddr *)&s->here,
			   sizeof(s->here)) < 0)
			die("sendto");
	}
}

/* For so many seconds; what the receiver took, in bytes, and how long it was. */
static uint64_t send_for(const struct stream *s, double seconds, double *ret_seconds)
{
	static const char buf[SUPER_MAX];
	uint64_t sent = 0, taken = 0, begun = now_ns(), heard = begun;

	while (heard - begun < (uint64_t)(seconds * 1e9)) {
		while (sent - taken + s->super <= s->window &&
		       sendto(s->near, buf, s->super, 0, (const struct sockaddr *)&s->there,
			      sizeof(s->there)) == (ssize_t)s->super)
			sent += s->super;
		if (recv(s->near, &taken, sizeof(taken), 0) == sizeof(taken))
			heard = now_ns();
		else if (now_ns() - heard > PATIENCE_S * 1000000000ull)
			die("no word from the receiver for ten seconds");
	}
	*ret_seconds = (double)(heard - begun) / 1e9;
	return taken;
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "poll";
	double seconds = argc > 2 ? strtod(argv[2], NULL) : 1.0, took, packets;
	size_t packet = argc > 3 ? strtoul(argv[3], NULL, 10) : 4096 + 16;
	size_t at_once = argc > 4 ? strtoul(argv[4], NULL, 10) : 15;
	const struct timeval patience = {.tv_sec = PATIENCE_S};
	int segment = (int)packet;
	struct stream s = {.packet = packet, .super = packet * at_once};
	pid_t receiver;

	s.near = udp_socket(&s.here);
	s.far = udp_socket(&s.there);
	s.window = window(s.far);
	if (!waits_by(how, s.near, s.far) || seconds <= 0 || seconds > 60 || packet == 0 ||
	    at_once == 0 || at_once > PACKETS_MAX || s.super > SUPER_MAX || s.super > s.window) {
		fprintf(stderr, "usage: %s [poll|sleep [SECONDS [BYTES [PACKETS AT ONCE]]]]\n",
			argv[0]);
		return 2;
	}
	if (setsockopt(s.near, IPPROTO_UDP, UDP_SEGMENT, &segment, sizeof(segment))) {
		puts("SKIP: this kernel has no UDP_SEGMENT");
		return 77;
	}
	if (setsockopt(s.near, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)))
		die("SO_RCVTIMEO");
	receiver = fork();
	if (receiver < 0)
		die("fork");
	if (receiver == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		receive(&s);
	}
	packets = (double)send_for(&s, seconds, &took) / (double)packet;
	kill(receiver, SIGKILL);
	waitpid(receiver, NULL, 0);
	printf("packets_per_s %.0f\npackets %.0f\ncpu_s %.6f\n", packets / took, packets,
	       cpu_seconds(RUSAGE_SELF) + cpu_seconds(RUSAGE_CHILDREN));
	return 0;
}
