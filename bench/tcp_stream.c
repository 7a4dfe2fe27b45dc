/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The reference for bandwidth over TCP: one process writes blocks into a connection over loopback,
 * another reads them, each into memory that it uses again and again. Both poll, or both sleep when
 * there is nothing to do. Prints bytes per second, bytes, and the processor time that both took for
 * them, in seconds.
 */
#include "raw_bench.h"

enum { BLOCK_MAX = 1 << 20 };

static char buf[BLOCK_MAX];

static void receive(int fd, size_t block)
{
	for (;;) {
		ssize_t n = recv(fd, buf, block, 0);

		if (n == 0)
			_exit(0);
		if (n < 0 && errno != EAGAIN)
			die("recv");
	}
}

/* What the connection took, bytes. */
static uint64_t send_for(int fd, size_t block, double seconds, double *ret_seconds)
{
	uint64_t sent = 0, begun = now_ns(), now = begun;

	while (now - begun < (uint64_t)(seconds * 1e9)) {
		ssize_t n = send(fd, buf, block, MSG_NOSIGNAL);

		if (n < 0 && errno != EAGAIN)
			die("send");
		sent += n > 0 ? (uint64_t)n : 0;
		now = now_ns();
	}
	*ret_seconds = (double)(now - begun) / 1e9;
	return sent;
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "poll";
	double seconds = argc > 2 ? strtod(argv[2], NULL) : 1.0, took, bytes;
	size_t block = argc > 3 ? strtoul(argv[3], NULL, 10) : 1 << 16;
	int near, far;
	pid_t receiver;

	tcp_sockets(&near, &far);
	if (!waits_by(how, near, far) || seconds <= 0 || seconds > 60 || block == 0 ||
	    block > BLOCK_MAX) {
		fprintf(stderr, "usage: %s [poll|sleep [SECONDS [BYTES]]]\n", argv[0]);
		return 2;
	}
	receiver = fork();
	if (receiver < 0)
		die("fork");
	if (receiver == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(near);
		receive(far, block);
	}
	close(far);
	bytes = (double)send_for(near, block, seconds, &took);
	close(near);
	waitpid(receiver, NULL, 0);
	printf("bytes_per_s %.0f\nbytes %.0f\ncpu_s %.6f\n", bytes / took, bytes,
	       cpu_seconds(RUSAGE_SELF) + cpu_seconds(RUSAGE_CHILDREN));
	return 0;
}
