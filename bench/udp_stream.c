/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The reference for large messages: one process sends a stream of UDP super-packets (UDP_SEGMENT)
 * over loopback, another takes them with UDP_GRO. Pieces have the size of a RoCEv2 packet with a
 * path MTU of 4096. The receiver returns a word for every WINDOW / 4 bytes and the sender keeps
 * at most WINDOW on the way, so that nothing is lost and every byte sent is one received. Both
 * poll. Prints what the receiver took, in MiB/s.
 */
#include "udp_bench.h"

enum { PIECE = 4096 + 16, PIECES = 15, SUPER = PIECE * PIECES, WINDOW = 1 << 20 };

static void receive(int fd, const struct sockaddr_in6 *sender)
{
	static char buf[1 << 16];
	int on = 1;
	uint64_t taken = 0, told = 0;

	if (setsockopt(fd, IPPROTO_UDP, UDP_GRO, &on, sizeof(on)))
		die("UDP_GRO");
	for (;;) {
		ssize_t n = recv(fd, buf, sizeof(buf), 0);

		if (n < 0 && errno != EAGAIN)
			die("recv");
		if (n > 0)
			taken += (uint64_t)n;
		if (taken - told < WINDOW / 4)
			continue;
		told = taken;
		if (sendto(fd, &taken, sizeof(taken), 0, (const struct sockaddr *)sender,
			   sizeof(*sender)) < 0)
			die("sendto");
	}
}

int main(int argc, char **argv)
{
	double seconds = argc > 1 ? strtod(argv[1], NULL) : 1.0;
	struct sockaddr_in6 here, there;
	int near = udp_socket(&here), far = udp_socket(&there), piece = PIECE;
	uint64_t sent = 0, taken = 0, begun, heard;
	static char buf[SUPER];
	pid_t receiver;

	if (seconds <= 0 || seconds > 60) {
		fprintf(stderr, "usage: %s [SECONDS]\n", argv[0]);
		return 2;
	}
	if (setsockopt(near, IPPROTO_UDP, UDP_SEGMENT, &piece, sizeof(piece))) {
		puts("SKIP: this kernel has no UDP_SEGMENT");
		return 77;
	}
	receiver = fork();
	if (receiver < 0)
		die("fork");
	if (receiver == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		receive(far, &here);
	}
	begun = heard = now_ns();
	while (heard - begun < (uint64_t)(seconds * 1e9)) {
		while (sent - taken + SUPER <= WINDOW &&
		       sendto(near, buf, SUPER, 0, (struct sockaddr *)&there, sizeof(there)) ==
			       SUPER)
			sent += SUPER;
		if (recv(near, &taken, sizeof(taken), 0) == sizeof(taken))
			heard = now_ns();
		else if (now_ns() - heard > 10000000000u)
			die("no word from the receiver for ten seconds");
	}
	kill(receiver, SIGKILL);
	waitpid(receiver, NULL, 0);
	printf("%.0f\n", (double)taken / ((double)(heard - begun) / 1e9) / (1 << 20));
	return 0;
}
