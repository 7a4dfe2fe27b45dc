/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The reference for two processes of one host: "flag" has them set a word in shared memory to and
 * fro, both polling, and prints half the median round trip in microseconds; "copy BYTES" has one
 * write into the other's memory by process_vm_writev(), MiB/s.
 */
#include <stdatomic.h>
#include <sys/mman.h>

#include "raw_bench.h"

enum { ROUNDS = 200000, WARM = 1000 };

static struct shared {
	_Alignas(128) atomic_uint ping;
	_Alignas(128) atomic_uint pong;
	_Alignas(128) _Atomic(uintptr_t) at;
} * shared;

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static pid_t neighbour(void (*does)(size_t), size_t bytes)
{
	pid_t pid = fork();

	if (pid < 0)
		die("fork");
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		does(bytes);
		_exit(0);
	}
	return pid;
}

static void answer(size_t bytes)
{
	(void)bytes;
	for (unsigned i = 1;; i++) {
		while (atomic_load_explicit(&shared->ping, memory_order_acquire) != i)
			;
		atomic_store_explicit(&shared->pong, i, memory_order_release);
	}
}

static void flag(void)
{
	static uint64_t took[ROUNDS];

	for (unsigned i = 1; i <= WARM + ROUNDS; i++) {
		uint64_t begun = now_ns();

		atomic_store_explicit(&shared->ping, i, memory_order_release);
		while (atomic_load_explicit(&shared->pong, memory_order_acquire) != i)
			;
		took[i > WARM ? i - WARM - 1 : 0] = now_ns() - begun;
	}
	qsort(took, ROUNDS, sizeof(*took), by_value);
	printf("p50 %.3f\n", (double)took[ROUNDS / 2] / 2000.0);
}

static void lend(size_t bytes)
{
	char *p = malloc(bytes);

	if (!p)
		die("malloc");
	memset(p, 1, bytes);
	atomic_store(&shared->at, (uintptr_t)p);
	for (;;)
		pause();
}

static void copy(pid_t to, size_t bytes)
{
	const size_t times = ((size_t)2 << 30) / bytes;
	char *from = malloc(bytes);
	struct iovec here = {from, bytes}, there = {NULL, bytes};
	uint64_t begun;

	if (!from)
		die("malloc");
	memset(from, 2, bytes);
	while (!(there.iov_base = (void *)atomic_load(&shared->at)))
		;
	begun = now_ns();
	for (size_t i = 0; i < times; i++)
		if (process_vm_writev(to, &here, 1, &there, 1, 0) != (ssize_t)bytes)
			die("process_vm_writev");
	printf("MiB/s %.0f\n",
	       (double)(times * bytes) / (1 << 20) / ((double)(now_ns() - begun) / 1e9));
}

int main(int argc, char **argv)
{
	size_t bytes = argc > 2 ? strtoul(argv[2], NULL, 10) : 0;
	bool copies = argc > 1 && !strcmp(argv[1], "copy");
	pid_t pid;

	if (argc < 2 ||
	    (copies ? bytes == 0 || bytes > (64 << 20) : strcmp(argv[1], "flag") != 0)) {
		fprintf(stderr, "usage: %s flag | copy BYTES\n", argv[0]);
		return 2;
	}
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (shared == MAP_FAILED)
		die("mmap");
	pid = neighbour(copies ? lend : answer, bytes);
	if (copies)
		copy(pid, bytes);
	else
		flag();
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	return 0;
}
