/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What a WRITE places is stored once, its last bytes last: the memory's owner may wait for them
 * and take back what it sees at once. One process carries out a WRITE; another has it go on by one
 * instruction at a time and does, in between, as such an owner would.
 *
 * Not in builds with a sanitizer, whose memcpy() is not a store.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rnic_bed.h"

#define OFF	1000 /* of no alignment */
#define LEN_MAX 300
#define WAITED	64 /* bytes at the end of a packet that are stored once; resp.c */
#define WRITTEN 0xa5
#define TAKEN	0x3c

/* Stops before and after it is delivered. */
static int carry_out(struct bed *b, uint32_t len)
{
	struct bed_pkt *p;
	bool ok;

	memset(b->side[0].mem, WRITTEN, len);
	if (bed_rdma(b, 0, 1, RNIC_WR_RDMA_WRITE, 0, OFF, len) || !(p = bed_tx1(b, 0)))
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

static void one_write(uint32_t len)
{
	struct bed *b = bed_open(NULL);
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (!pid) {
		if (ptrace(PTRACE_TRACEME, 0, 0, 0) < 0)
			_exit(1);
		_exit(carry_out(b, len));
	}
	watch(pid, b->side[1].mem + OFF, len);
	assert_int_equal(ptrace(PTRACE_CONT, pid, 0, 0), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	bed_close(b);
}

static void every_byte_is_stored_once(void **state)
{
	(void)state;
	for (uint32_t len = 1; len <= WAITED + 2; len++)
		one_write(len);
	one_write(2 * WAITED + 1);
	one_write(LEN_MAX);
}

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
	};

	need_ptrace();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
