/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "port/local/inbox.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#define SEALS	  (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)
#define PAGE_MAX  ((size_t)65536) /* of any architecture of ours */
#define HEAD_SIZE ((sizeof(struct inbox) + PAGE_MAX - 1) / PAGE_MAX * PAGE_MAX)
#define FULL_SIZE (HEAD_SIZE + INBOX_SLOTS * INBOX_RING)

static int map_head(int fd, struct inbox **ret)
{
	void *p = mmap(NULL, HEAD_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (p == MAP_FAILED)
		return -errno;
	/* A child of fork() has no part in it. */
	(void)!madvise(p, HEAD_SIZE, MADV_DONTFORK);
	*ret = p;
	return 0;
}

/* A file longer than the process may write ends it by SIGXFSZ. */
static bool may_be_so_long(void)
{
	struct rlimit r;

	return getrlimit(RLIMIT_FSIZE, &r) == 0 &&
	       (r.rlim_cur == RLIM_INFINITY || r.rlim_cur >= FULL_SIZE);
}

int inbox_create(struct inbox **ret)
{
	int fd, rc;

	if (!may_be_so_long())
		return -EFBIG;
	fd = memfd_create("weft-inbox", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return -errno;
	rc = ftruncate(fd, FULL_SIZE) < 0 || fcntl(fd, F_ADD_SEALS, SEALS) < 0 ? -errno
									       : map_head(fd, ret);
	if (rc) {
		close(fd);
		return rc;
	}
	return fd;
}

int inbox_map(int fd, struct inbox **ret)
{
	int seals = fcntl(fd, F_GET_SEALS);

	/* Nothing but memory has seals, so that its size is known at once and for ever. */
	if (seals < 0 || (seals & SEALS) != SEALS || lseek(fd, 0, SEEK_END) != (off_t)FULL_SIZE)
		return -EINVAL;
	return map_head(fd, ret);
}

void inbox_unmap(struct inbox *i)
{
	munmap(i, HEAD_SIZE);
}

int inbox_map_ring(int fd, unsigned slot, uint8_t **ret)
{
	off_t at = (off_t)(HEAD_SIZE + slot * INBOX_RING);
	uint8_t *p = mmap(NULL, 2 * INBOX_RING, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return -errno;
	for (int i = 0; i < 2; i++)
		if (mmap(p + (size_t)i * INBOX_RING, INBOX_RING, PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_FIXED, fd, at) == MAP_FAILED) {
			int rc = -errno;

			inbox_unmap_ring(p);
			return rc;
		}
	(void)!madvise(p, 2 * INBOX_RING, MADV_DONTFORK);
	*ret = p;
	return 0;
}

void inbox_unmap_ring(uint8_t *p)
{
	munmap(p, 2 * INBOX_RING);
}

static void set_closed(int fd, bool closed)
{
	struct inbox *i = NULL;

	if (inbox_map(fd, &i))
		return;
	atomic_store(&i->closed, closed);
	inbox_unmap(i);
}

void inbox_close(int fd)
{
	set_closed(fd, true);
}

void inbox_open(int fd)
{
	set_closed(fd, false);
}

void inbox_tell(int fd)
{
	struct inbox *i = NULL;

	if (inbox_map(fd, &i))
		return;
	atomic_fetch_add(&i->news, 1);
	inbox_unmap(i);
}
