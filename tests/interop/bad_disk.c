/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A disk that fails, for a `weft serve` that has this library preloaded. The file that BAD_DISK
 * names says how, by its first letter: e for EIO, n for no space left when writing, s for short
 * transfers, h for transfers that hang until it says otherwise; anything else for a good disk.
 *
 * A library and not a FUSE file system: it needs no rights and no kernel module. What io_uring does
 * passes by the C library, so there is none here, and the store turns to its threads, which do the
 * same operations by preadv2(), pwritev2() and fdatasync().
 */
#undef _FILE_OFFSET_BITS /* preadv2 and preadv64v2 are two names here */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <unistd.h>

#pragma GCC visibility push(default)

struct io_uring;
int io_uring_queue_init(unsigned int entries, struct io_uring *, unsigned int flags);

int io_uring_queue_init(unsigned int entries, struct io_uring *ring, unsigned int flags)
{
	(void)entries, (void)ring, (void)flags;
	return -ENOSYS;
}

static char how(void)
{
	const char *path = getenv("BAD_DISK");
	char letter = 'g';
	int fd;

	do {
		if (letter == 'h')
			usleep(20000);
		fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
		if (fd < 0 || read(fd, &letter, 1) != 1)
			letter = 'g';
		if (fd >= 0)
			close(fd);
	} while (letter == 'h');
	return letter;
}

typedef ssize_t transfer(int fd, const struct iovec *iov, int count, off_t at, int flags);

static ssize_t do_transfer(const char *name, int fd, const struct iovec *iov, int count, off_t at,
			   int flags, int writing)
{
	transfer *real = (transfer *)dlsym(RTLD_NEXT, name);
	struct iovec half = *iov;

	switch (how()) {
	case 'e':
		errno = EIO;
		return -1;
	case 'n':
		if (!writing)
			break;
		errno = ENOSPC;
		return -1;
	case 's':
		half.iov_len = half.iov_len > 512 ? half.iov_len / 2 / 512 * 512 : half.iov_len;
		return real(fd, &half, 1, at, flags);
	default:
		break;
	}
	return real(fd, iov, count, at, flags);
}

ssize_t preadv2(int fd, const struct iovec *iov, int count, off_t at, int flags)
{
	return do_transfer("preadv2", fd, iov, count, at, flags, 0);
}

ssize_t pwritev2(int fd, const struct iovec *iov, int count, off_t at, int flags)
{
	return do_transfer("pwritev2", fd, iov, count, at, flags, 1);
}

ssize_t preadv64v2(int fd, const struct iovec *iov, int count, off_t at, int flags)
{
	return do_transfer("preadv64v2", fd, iov, count, at, flags, 0);
}

ssize_t pwritev64v2(int fd, const struct iovec *iov, int count, off_t at, int flags)
{
	return do_transfer("pwritev64v2", fd, iov, count, at, flags, 1);
}

int fdatasync(int fd)
{
	int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");

	if (how() == 'e') {
		errno = EIO;
		return -1;
	}
	return real(fd);
}
