// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/*
 * The numbers of our own descriptors: eventfds, pipes, sockets of the RNIC and to the broker,
 * whoever of our libraries makes them. They stand above those that a program gets, which are then
 * what they would be with TCP, and it neither closes nor replaces them: programs close what they
 * have not opened, up to the highest number there can be, and put files where they like.
 *
 * Whether a call is ours is told by where it comes from.
 */
#include "sockets/own.h"

#include <dlfcn.h>
#include <link.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "sockets/real.h"
#include "sockets/sockets.h"

/* No higher than need be: what a fork copies goes up to the highest. */
enum { NUMBERS = 1 << 16, FIRST = 1024, LIBRARIES = 3 };
/* INHERITED: the parent's, which the program may close. GONE: it has, and its number is anybody's.
 */
enum state { NOBODYS, OWN, INHERITED, GONE };

static _Atomic(unsigned char) state[NUMBERS];
static struct range {
	uintptr_t from, to;
} libraries[LIBRARIES];

static bool known(int fd)
{
	return fd >= 0 && fd < NUMBERS;
}

static int take_range(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct range *r = arg;
	uintptr_t to = 0;
	bool here = false;

	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];

		if (p->p_type != PT_LOAD)
			continue;
		to = max_of(to, (uintptr_t)(info->dlpi_addr + p->p_vaddr + p->p_memsz));
		here |= r->from - (info->dlpi_addr + p->p_vaddr) < p->p_memsz;
	}
	if (!here)
		return 0;
	*r = (struct range){info->dlpi_addr, to};
	return 1;
}

static void child_of_fork(void)
{
	for (int fd = 0; fd < NUMBERS; fd++)
		if (atomic_load(&state[fd]) == OWN)
			atomic_store(&state[fd], INHERITED);
}

static void find_libraries(void)
{
	/* A function of each. */
	const uintptr_t in[] = {(uintptr_t)own_keep, (uintptr_t)ibv_get_device_list,
				(uintptr_t)rdma_create_event_channel};

	for (int i = 0; i < LIBRARIES; i++) {
		struct range r = {.from = in[i]};

		if (dl_iterate_phdr(take_range, &r))
			libraries[i] = r;
	}
	pthread_atfork(NULL, NULL, child_of_fork);
}

bool own_caller(const void *from)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	const uintptr_t at = (uintptr_t)from;

	pthread_once(&once, find_libraries);
	for (int i = 0; i < LIBRARIES; i++)
		if (at >= libraries[i].from && at < libraries[i].to)
			return true;
	return false;
}

int own_keep(int fd)
{
	struct rlimit limit;
	int high = -1;

	if (fd < 0)
		return fd;
	if (!getrlimit(RLIMIT_NOFILE, &limit))
		high = real()->fcntl64(fd, F_DUPFD_CLOEXEC,
				       (int)min_of(limit.rlim_cur / 2, (rlim_t)FIRST));
	if (high >= 0) {
		real()->close(fd);
		fd = high;
	}
	if (known(fd))
		atomic_store(&state[fd], OWN);
	return fd;
}

bool own_close(int fd, bool ours)
{
	enum state was;

	if (!known(fd))
		return true;
	was = atomic_load(&state[fd]);
	if (was == NOBODYS)
		return true;
	if (ours) {
		atomic_store(&state[fd], NOBODYS);
		return was != GONE;
	}
	if (was == INHERITED)
		atomic_store(&state[fd], GONE);
	return was != OWN;
}

void own_end(int fd)
{
	if (own_close(fd, true))
		real()->close(fd);
}

bool own_number(int fd)
{
	return known(fd) && atomic_load(&state[fd]) == OWN;
}

int own_close_range(unsigned int first, unsigned int last, int flags)
{
	unsigned int from = first;
	int rc = 0;

	for (unsigned int fd = first; fd <= last && fd < NUMBERS; fd++) {
		if (own_close((int)fd, false))
			continue;
		if (from < fd && real()->close_range(from, fd - 1, flags))
			rc = -1;
		from = fd + 1;
	}
	if (from <= last && real()->close_range(from, last, flags))
		rc = -1;
	return rc;
}

#pragma GCC visibility push(default)

int weft_private_keep_number(int fd);

int weft_private_keep_number(int fd)
{
	return own_keep(fd);
}

bool weft_private_end_number(int fd);

bool weft_private_end_number(int fd)
{
	return own_close(fd, true);
}

/* ---- where ours come from -------------------------------------------------------------------- */

int eventfd(unsigned int count, int flags)
{
	const bool ours = own_caller(__builtin_return_address(0));
	int fd = real()->eventfd(count, flags);

	return ours ? own_keep(fd) : fd;
}

int pipe2(int fd[2], int flags)
{
	const bool ours = own_caller(__builtin_return_address(0));
	int rc = real()->pipe2(fd, flags);

	for (int i = 0; ours && !rc && i < 2; i++)
		fd[i] = own_keep(fd[i]);
	return rc;
}

int memfd_create(const char *name, unsigned int flags)
{
	const bool ours = own_caller(__builtin_return_address(0));
	int fd = real()->memfd_create(name, flags);

	return ours ? own_keep(fd) : fd;
}
