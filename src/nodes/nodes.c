// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/*
 * UCX (and with it MPI) uses a device only if its character device below /dev/infiniband is there
 * and may be read and written. It never opens it, which is libibverbs' matter, and weft's has none.
 * So `weft run` preloads this: stat() and access(), with their kin, answer for the nodes of
 * interfaces that there are, where the system has nothing of the name.
 */
#undef _FILE_OFFSET_BITS /* or stat() would be another name of stat64() */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define DIR    "/dev/infiniband/"
#define PREFIX "weft_" /* of a device's name; then its interface's (broker/devices.c) */
#define MAJOR  231     /* of uverbs */
#define MINOR  192

static bool is_node(const char *path)
{
	int before = errno;
	bool yes;

	if (!path || strncmp(path, DIR, sizeof(DIR) - 1) != 0)
		return false;
	path += sizeof(DIR) - 1;
	if (strncmp(path, PREFIX, sizeof(PREFIX) - 1) != 0)
		return false;
	yes = if_nametoindex(path + sizeof(PREFIX) - 1) != 0;
	errno = before;
	return yes;
}

/* The call as it was, and whether it missed a node of ours. */
static bool missed(int rc, const char *path)
{
	return rc < 0 && (errno == ENOENT || errno == EACCES) && is_node(path);
}

#define REAL(name) ((__typeof__(&name))real(#name))

static void *real(const char *name)
{
	return dlsym(RTLD_NEXT, name);
}

static int may(int mode)
{
	if (!(mode & X_OK))
		return 0;
	errno = EACCES;
	return -1;
}

int access(const char *path, int mode)
{
	int rc = REAL(access)(path, mode);

	return missed(rc, path) ? may(mode) : rc;
}

int euidaccess(const char *path, int mode)
{
	int rc = REAL(euidaccess)(path, mode);

	return missed(rc, path) ? may(mode) : rc;
}

int eaccess(const char *path, int mode)
{
	return euidaccess(path, mode);
}

int faccessat(int dir, const char *path, int mode, int flags)
{
	int rc = REAL(faccessat)(dir, path, mode, flags);

	return missed(rc, path) ? may(mode) : rc;
}

/* struct stat and struct stat64 are the same here. */
static int fill(struct stat *st)
{
	*st = (struct stat){
		.st_mode = S_IFCHR | 0666,
		.st_nlink = 1,
		.st_rdev = makedev(MAJOR, MINOR),
		.st_blksize = 4096,
	};
	return 0;
}

_Static_assert(sizeof(struct stat) == sizeof(struct stat64), "one fill() does for both");

#define STAT(name, type)                                                \
	int name(const char *restrict path, struct type *restrict st)   \
	{                                                               \
		int rc = REAL(name)(path, st);                          \
                                                                        \
		return missed(rc, path) ? fill((struct stat *)st) : rc; \
	}
STAT(stat, stat)
STAT(stat64, stat64)
STAT(lstat, stat)
STAT(lstat64, stat64)

#define STAT_AT(name, type)                                                               \
	int name(int dir, const char *restrict path, struct type *restrict st, int flags) \
	{                                                                                 \
		int rc = REAL(name)(dir, path, st, flags);                                \
                                                                                          \
		return missed(rc, path) ? fill((struct stat *)st) : rc;                   \
	}
STAT_AT(fstatat, stat)
STAT_AT(fstatat64, stat64)

/* What stat() was to programs built before glibc 2.33. */
#define STAT_VERSION(name, type)                                          \
	int name(int version, const char *path, struct type *st)          \
	{                                                                 \
		int (*f)(int, const char *, struct type *) = real(#name); \
		int rc = f ? f(version, path, st) : -1;                   \
                                                                          \
		return missed(rc, path) ? fill((struct stat *)st) : rc;   \
	}
int __xstat(int, const char *, struct stat *);
int __xstat64(int, const char *, struct stat64 *);
STAT_VERSION(__xstat, stat)
STAT_VERSION(__xstat64, stat64)
