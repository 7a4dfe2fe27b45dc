// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#include "rsocket/probe.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* No memory is in the first page, whose address is also how the calls below say that there is none.
 */
enum { WORD = 8, PAGE = 4096, STACK_NEAR = 32768 };

/* Callers' frames are there as long as we are. */
static bool on_stack(const void *at, size_t len)
{
	const uintptr_t above = (uintptr_t)at - (uintptr_t)__builtin_frame_address(0);

	return above < STACK_NEAR && len < STACK_NEAR - above;
}

/* There is no way to block signals of this name, so the kernel goes no further than reading the
 * set: a word that holds the byte and crosses no page. */
static bool word_readable(uintptr_t at)
{
	return syscall(SYS_rt_sigprocmask, INT32_MAX, at & ~(uintptr_t)(WORD - 1), NULL, WORD) !=
		       -1 ||
	       errno != EFAULT;
}

bool probe_readable(const void *at, size_t len)
{
	const uintptr_t first = (uintptr_t)at, last = first + len - 1;
	const int err = errno;
	bool ok;

	if (!len || on_stack(at, len))
		return true;
	ok = last >= first && first >= PAGE && word_readable(first) &&
	     (first / PAGE == last / PAGE || word_readable(last));
	errno = err;
	return ok;
}

/* The thread's mask goes there. */
static bool word_writable(uintptr_t at)
{
	return syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, at, WORD) != -1;
}

/* A byte, whether one of our own pages is in memory, goes there. */
static bool byte_writable(uintptr_t at)
{
	static char ours;
	const uintptr_t page = (uintptr_t)&ours & ~(uintptr_t)(PAGE - 1);

	return syscall(SYS_mincore, page, 1, at) != -1;
}

bool probe_writable(void *at, size_t len)
{
	const uintptr_t first = (uintptr_t)at, last = first + len - 1;
	const int err = errno;
	bool ok;

	if (!len || on_stack(at, len))
		return true;
	if (last < first || first < PAGE)
		return false;
	if (len < WORD)
		ok = byte_writable(first) && (first / PAGE == last / PAGE || byte_writable(last));
	else
		ok = word_writable(first) &&
		     (first / PAGE == last / PAGE || word_writable(last - WORD + 1));
	errno = err;
	return ok;
}
