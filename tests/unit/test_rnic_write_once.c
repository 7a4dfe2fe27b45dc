/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What a WRITE places is stored once, its last bytes last: the memory's owner may wait for them
 * and take back what it sees at once. One process carries out a WRITE; another has it go on by one
 * instruction at a time and does, in between, as such an owner would.
 *
 * And who sees a WRITE sees those before it. That can fail only where the processor changes the
 * order of stores.
 *
 * Not in builds with a sanitizer, whose memcpy() is not a store.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rnic_bed.h"

#define OFF	1000 /* a multiple of 8 */
#define LEN_MAX 300
#define WAITED	64 /* bytes at the end of a packet that are stored once; resp.c */
#define WRITTEN 0xa5
#define TAKEN	0x3c

/* Stops before and after it is delivered. */
static int carry_out(struct bed *b, uint32_t off, uint32_t len)
{
	struct bed_pkt *p;
	bool ok;

	memset(b->side[0].mem, WRITTEN, len);
	if (bed_rdma(b, 0, 1, RNIC_WR_RDMA_WRITE, 0, off, len) || !(p = bed_tx1(b, 0)))
		return 1;
	raise(SIGSTOP);
	ok = bed_deliver(b, p);
	raise(SIGSTOP);
	return ok ? 0 : 1;
}

static int stops(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSTOPPED(status));
	return WSTOPSIG(status);
}

static void look(pid_t pid, uint8_t *mem, uint8_t *ret, uint32_t len)
{
	struct iovec to = {ret, len}, from = {mem, len};

	assert_int_equal(process_vm_readv(pid, &to, 1, &from, 1, 0), len);
}

static void take(pid_t pid, uint8_t *byte)
{
	static uint8_t taken = TAKEN;
	struct iovec from = {&taken, 1}, to = {byte, 1};

	assert_int_equal(process_vm_writev(pid, &from, 1, &to, 1, 0), 1);
}

/* Takes each byte that a program may wait for as soon as it is there. */
static void watch(pid_t pid, uint8_t *mem, uint32_t len)
{
	uint32_t first = len > WAITED ? len - WAITED : 0, next = first;
	uint8_t now[LEN_MAX];

	assert_int_equal(stops(pid), SIGSTOP);
	assert_int_equal(ptrace(PTRACE_SETOPTIONS, pid, 0, PTRACE_O_EXITKILL), 0);
	do {
		look(pid, mem, now, len);
		for (uint32_t i = 0; i < first && next > first; i++)
			assert_int_equal(now[i], WRITTEN); /* the end tells of all before it */
		for (; next < len && now[next] == WRITTEN; next++)
			take(pid, mem + next);
		for (uint32_t i = next; i < len; i++)
			assert_int_not_equal(now[i], WRITTEN);
		assert_int_equal(ptrace(PTRACE_SINGLESTEP, pid, 0, 0), 0);
	} while (stops(pid) == SIGTRAP);
	assert_int_equal(next, len);
	look(pid, mem, now, len);
	for (uint32_t i = first; i < len; i++)
		assert_int_equal(now[i], TAKEN);
}

/* What a program reads at once, and has it aligned, is old or new. */
static void watch_words(pid_t pid, uint8_t *mem, uint32_t len)
{
	uint8_t now[LEN_MAX];

	assert_int_equal(stops(pid), SIGSTOP);
	assert_int_equal(ptrace(PTRACE_SETOPTIONS, pid, 0, PTRACE_O_EXITKILL), 0);
	do {
		look(pid, mem, now, len);
		for (uint32_t n = 2; n <= 8; n *= 2)
			for (uint32_t i = -(uintptr_t)mem % n; i + n <= len; i += n)
				for (uint32_t k = 1; k < n; k++)
					assert_int_equal(now[i + k], now[i]);
		assert_int_equal(ptrace(PTRACE_SINGLESTEP, pid, 0, 0), 0);
	} while (stops(pid) == SIGTRAP);
	look(pid, mem, now, len);
	for (uint32_t i = 0; i < len; i++)
		assert_int_equal(now[i], WRITTEN);
}

static void one_write(uint32_t off, uint32_t len,
		      void (*watcher)(pid_t pid, uint8_t *mem, uint32_t len))
{
	struct bed *b = bed_open(NULL);
	pid_t pid;
	int status;

	memset(b->side[1].mem + off, 0, len);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		if (ptrace(PTRACE_TRACEME, 0, 0, 0) < 0)
			_exit(1);
		_exit(carry_out(b, off, len));
	}
	watcher(pid, b->side[1].mem + off, len);
	assert_int_equal(ptrace(PTRACE_CONT, pid, 0, 0), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	bed_close(b);
}

static void every_byte_is_stored_once(void **state)
{
	(void)state;
	for (uint32_t len = 1; len <= WAITED + 2; len++)
		one_write(OFF, len, watch);
	one_write(OFF, 2 * WAITED + 1, watch);
	one_write(OFF, LEN_MAX, watch);
	one_write(OFF + 5, 100, watch);
}

static void aligned_words_are_old_or_new(void **state)
{
	static const struct {
		uint32_t off, len;
	} at[] = {{0, 4}, {0, 12}, {0, 76}, {0, 100}, {3, 23}, {3, 100}, {4, 12}};

	(void)state;
	for (uint32_t i = 0; i < ARRAY_SIZE(at); i++)
		one_write(OFF + at[i].off, at[i].len, watch_words);
}

/* ---- one behind another ---------------------------------------------------------------------- */

#define ROUNDS	 20000
#define DATA	 200u
#define FLAG_OFF 4096u

struct litmus {
	struct bed *b;
	atomic_bool over;
	uint64_t wrong; /* rounds in which the flag came before what it stands for */
};

static uint64_t word_at(const uint8_t *p)
{
	return __atomic_load_n((const uint64_t *)p, __ATOMIC_RELAXED);
}

/* What the flag says, or what came later. */
static void *look_at_both(void *arg)
{
	struct litmus *l = arg;
	const uint8_t *mem = l->b->side[1].mem;

	while (!atomic_load_explicit(&l->over, memory_order_relaxed)) {
		uint64_t n = __atomic_load_n((const uint64_t *)(mem + FLAG_OFF), __ATOMIC_ACQUIRE);
		bool old = false;

		for (uint32_t i = 0; i < DATA; i += 8)
			old |= word_at(mem + i) < n;
		l->wrong += old;
	}
	return NULL;
}

static void write_word(struct bed *b, uint64_t n, uint32_t remote_off, uint32_t len)
{
	uint64_t *from = (uint64_t *)b->side[0].mem;

	for (uint32_t i = 0; i < len / 8; i++)
		from[i] = n;
	assert_int_equal(bed_rdma(b, 0, n, RNIC_WR_RDMA_WRITE, 0, remote_off, len), 0);
	assert_true(bed_deliver(b, bed_tx1(b, 0)));
}

static void who_sees_a_write_sees_those_before_it(void **state)
{
	struct litmus l = {.b = bed_open(NULL)};
	struct rnic_wc wc;
	pthread_t looker;

	(void)state;
	memset(l.b->side[1].mem, 0, FLAG_OFF + 8);
	assert_int_equal(pthread_create(&looker, NULL, look_at_both, &l), 0);
	for (uint64_t n = 1; n <= ROUNDS; n++) {
		write_word(l.b, n, 0, DATA);
		write_word(l.b, n, FLAG_OFF, 8);
		bed_run(l.b);
		while (rnic_cq_poll(l.b->side[0].scq, &wc, 1))
			;
		l.b->nlog = 0;
	}
	atomic_store(&l.over, true);
	pthread_join(looker, NULL);
	assert_int_equal(l.wrong, 0);
	bed_close(l.b);
}

/* ---------------------------------------------------------------------------------------------- */

/* Says why not, or returns. */
static void need_ptrace(void)
{
	pid_t pid = fork();
	int status;

	if (!pid)
		_exit(ptrace(PTRACE_TRACEME, 0, 0, 0) < 0 ? errno : 0);
	if (pid > 0 && waitpid(pid, &status, 0) == pid && status == 0)
		return;
	printf("SKIP: ptrace() is not permitted here\n");
	exit(77);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_byte_is_stored_once),
		cmocka_unit_test(aligned_words_are_old_or_new),
		cmocka_unit_test(who_sees_a_write_sees_those_before_it),
	};

	need_ptrace();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
