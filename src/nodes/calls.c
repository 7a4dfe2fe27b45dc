// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/*
 * The C library's calls that take a path, before the C library's own: of a path that the broker's
 * tree has they get the place there. stat() and access() know the device nodes besides.
 */
#undef _FILE_OFFSET_BITS /* or stat() would be another name of stat64() */
#undef _FORTIFY_SOURCE	 /* or some were inline functions */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "nodes/nodes.h"

/* What programs call that were built with _FORTIFY_SOURCE, and before glibc 2.33 for stat(). */
int __open_2(const char *, int);
int __open64_2(const char *, int);
int __openat_2(int, const char *, int);
int __openat64_2(int, const char *, int);
ssize_t __readlink_chk(const char *, char *, size_t, size_t);
ssize_t __readlinkat_chk(int, const char *, char *, size_t, size_t);
char *__realpath_chk(const char *, char *, size_t);
char *__getcwd_chk(char *, size_t, size_t);
int __xstat(int, const char *, struct stat *);
int __xstat64(int, const char *, struct stat64 *);
int __lxstat(int, const char *, struct stat *);
int __lxstat64(int, const char *, struct stat64 *);
int __fxstatat(int, int, const char *, struct stat *, int);
int __fxstatat64(int, int, const char *, struct stat64 *, int);

#define CALLS(X)                  \
	X(open)                   \
	X(open64)                 \
	X(openat)                 \
	X(openat64)               \
	X(__open_2)               \
	X(__open64_2)             \
	X(__openat_2)             \
	X(__openat64_2)           \
	X(fopen)                  \
	X(fopen64)                \
	X(opendir)                \
	X(scandir)                \
	X(scandir64)              \
	X(glob)                   \
	X(glob64)                 \
	X(chdir)                  \
	X(getcwd)                 \
	X(__getcwd_chk)           \
	X(realpath)               \
	X(__realpath_chk)         \
	X(canonicalize_file_name) \
	X(readlink)               \
	X(readlinkat)             \
	X(__readlink_chk)         \
	X(__readlinkat_chk)       \
	X(access)                 \
	X(euidaccess)             \
	X(faccessat)              \
	X(stat)                   \
	X(stat64)                 \
	X(lstat)                  \
	X(lstat64)                \
	X(fstatat)                \
	X(fstatat64)              \
	X(statx)                  \
	X(__xstat)                \
	X(__xstat64)              \
	X(__lxstat)               \
	X(__lxstat64)             \
	X(__fxstatat)             \
	X(__fxstatat64)           \
	X(getxattr)               \
	X(lgetxattr)

static struct {
#define MEMBER(name) __typeof__(&(name)) name##_;
	CALLS(MEMBER)
#undef MEMBER
} real;

/* At the start, not in a fork's child, where the lock of the dynamic linker may be another's; but
 * other libraries' constructors may call before it has run. */
__attribute__((constructor)) static void find_all(void)
{
#define FIND(name)                                                                         \
	__atomic_store_n(&real.name##_, (__typeof__(real.name##_))dlsym(RTLD_NEXT, #name), \
			 __ATOMIC_RELAXED);
	CALLS(FIND)
#undef FIND
}

#define REAL(name)                                                     \
	({                                                             \
		if (!__atomic_load_n(&real.name##_, __ATOMIC_RELAXED)) \
			find_all();                                    \
		real.name##_;                                          \
	})

/* The call, in which "there" is the path's place. */
#define AT(dir, path, call)                                 \
	({                                                  \
		char *place = tree_find(dir, path);         \
		const char *there = place ? place : (path); \
		__typeof__(call) ret = (call);              \
                                                            \
		free(place); /* leaves errno alone */       \
		ret;                                        \
	})
#define HERE(path, call) AT(AT_FDCWD, path, call)

/* ---- open -------------------------------------------------------------------------------------
 */

/* O_TMPFILE contains O_DIRECTORY. */
#define MODE(flags)                                                        \
	({                                                                 \
		mode_t mode_ = 0;                                          \
                                                                           \
		if ((flags)&O_CREAT || ((flags)&O_TMPFILE) == O_TMPFILE) { \
			va_list args;                                      \
                                                                           \
			va_start(args, flags);                             \
			mode_ = va_arg(args, mode_t);                      \
			va_end(args);                                      \
		}                                                          \
		mode_;                                                     \
	})

#define OPEN(name)                                                   \
	int name(const char *path, int flags, ...)                   \
	{                                                            \
		mode_t mode = MODE(flags);                           \
                                                                     \
		return HERE(path, REAL(name)(there, flags, mode));   \
	}                                                            \
	int __##name##_2(const char *path, int flags)                \
	{                                                            \
		return HERE(path, REAL(__##name##_2)(there, flags)); \
	}
OPEN(open)
OPEN(open64)

#define OPEN_AT(name)                                                        \
	int name(int dir, const char *path, int flags, ...)                  \
	{                                                                    \
		mode_t mode = MODE(flags);                                   \
                                                                             \
		return AT(dir, path, REAL(name)(dir, there, flags, mode));   \
	}                                                                    \
	int __##name##_2(int dir, const char *path, int flags)               \
	{                                                                    \
		return AT(dir, path, REAL(__##name##_2)(dir, there, flags)); \
	}
OPEN_AT(openat)
OPEN_AT(openat64)

FILE *fopen(const char *restrict path, const char *restrict mode)
{
	return HERE(path, REAL(fopen)(there, mode));
}

FILE *fopen64(const char *restrict path, const char *restrict mode)
{
	return HERE(path, REAL(fopen64)(there, mode));
}

/* ---- directories ------------------------------------------------------------------------------
 */

DIR *opendir(const char *path)
{
	return HERE(path, REAL(opendir)(there));
}

#define SCANDIR(name, type)                                                  \
	int name(const char *restrict path, struct type ***restrict list,    \
		 int (*filter)(const struct type *),                         \
		 int (*compare)(const struct type **, const struct type **)) \
	{                                                                    \
		return HERE(path, REAL(name)(there, list, filter, compare)); \
	}
SCANDIR(scandir, dirent)
SCANDIR(scandir64, dirent64)

/* It opens and reads directories by inner calls of the C library's; so it gets ours, where it is
 * about us. */
#define GLOB(name, glob_type, dirent_type, readdir_, stat_, lstat_)                         \
	static struct dirent_type *name##_next(void *dir)                                   \
	{                                                                                   \
		return readdir_(dir);                                                       \
	}                                                                                   \
	int name(const char *restrict pattern, int flags, int (*failed)(const char *, int), \
		 glob_type *restrict found)                                                 \
	{                                                                                   \
		if (!(flags & GLOB_ALTDIRFUNC) && strstr(pattern, "/infiniband")) {         \
			flags |= GLOB_ALTDIRFUNC;                                           \
			found->gl_opendir = glob_opendir;                                   \
			found->gl_readdir = name##_next;                                    \
			found->gl_closedir = glob_closedir;                                 \
			found->gl_stat = stat_;                                             \
			found->gl_lstat = lstat_;                                           \
		}                                                                           \
		return REAL(name)(pattern, flags, failed, found);                           \
	}

static void *glob_opendir(const char *path)
{
	return opendir(path);
}

static void glob_closedir(void *dir)
{
	closedir(dir);
}

GLOB(glob, glob_t, dirent, readdir, stat, lstat)
GLOB(glob64, glob64_t, dirent64, readdir64, stat64, lstat64)

int chdir(const char *path)
{
	return HERE(path, REAL(chdir)(there));
}

char *getcwd(char *buf, size_t size)
{
	return tree_shown(REAL(getcwd)(buf, size));
}

char *__getcwd_chk(char *buf, size_t size, size_t room)
{
	return tree_shown(REAL(__getcwd_chk)(buf, size, room));
}

/* ---- links ------------------------------------------------------------------------------------
 */

char *realpath(const char *restrict path, char *restrict resolved)
{
	return tree_shown(HERE(path, REAL(realpath)(there, resolved)));
}

char *__realpath_chk(const char *path, char *resolved, size_t room)
{
	return tree_shown(HERE(path, REAL(__realpath_chk)(there, resolved, room)));
}

char *canonicalize_file_name(const char *path)
{
	return tree_shown(HERE(path, REAL(canonicalize_file_name)(there)));
}

ssize_t readlink(const char *restrict path, char *restrict buf, size_t size)
{
	return HERE(path, REAL(readlink)(there, buf, size));
}

ssize_t readlinkat(int dir, const char *restrict path, char *restrict buf, size_t size)
{
	return AT(dir, path, REAL(readlinkat)(dir, there, buf, size));
}

ssize_t __readlink_chk(const char *path, char *buf, size_t size, size_t room)
{
	return HERE(path, REAL(__readlink_chk)(there, buf, size, room));
}

ssize_t __readlinkat_chk(int dir, const char *path, char *buf, size_t size, size_t room)
{
	return AT(dir, path, REAL(__readlinkat_chk)(dir, there, buf, size, room));
}

/* ---- whether it is there, and what it is ------------------------------------------------------
 */

/* The call has missed a node of ours. */
static bool missed(int rc, const char *path)
{
	return rc < 0 && (errno == ENOENT || errno == EACCES) && node_is_ours(path);
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
	int rc = HERE(path, REAL(access)(there, mode));

	return missed(rc, path) ? may(mode) : rc;
}

int euidaccess(const char *path, int mode)
{
	int rc = HERE(path, REAL(euidaccess)(there, mode));

	return missed(rc, path) ? may(mode) : rc;
}

int eaccess(const char *path, int mode)
{
	return euidaccess(path, mode);
}

int faccessat(int dir, const char *path, int mode, int flags)
{
	int rc = AT(dir, path, REAL(faccessat)(dir, there, mode, flags));

	return missed(rc, path) ? may(mode) : rc;
}

/* struct stat and struct stat64 are the same here. */
static int fill(void *st)
{
	node_fill(st);
	return 0;
}

_Static_assert(sizeof(struct stat) == sizeof(struct stat64), "one fill() does for both");

#define STAT(name, type)                                              \
	int name(const char *restrict path, struct type *restrict st) \
	{                                                             \
		int rc = HERE(path, REAL(name)(there, st));           \
                                                                      \
		return missed(rc, path) ? fill(st) : rc;              \
	}
STAT(stat, stat)
STAT(stat64, stat64)
STAT(lstat, stat)
STAT(lstat64, stat64)

#define STAT_AT(name, type)                                                               \
	int name(int dir, const char *restrict path, struct type *restrict st, int flags) \
	{                                                                                 \
		int rc = AT(dir, path, REAL(name)(dir, there, st, flags));                \
                                                                                          \
		return missed(rc, path) ? fill(st) : rc;                                  \
	}
STAT_AT(fstatat, stat)
STAT_AT(fstatat64, stat64)

/* What stat() was to programs built before glibc 2.33; it may be there no more. */
#define STAT_VERSION(name, type)                                     \
	int name(int version, const char *path, struct type *st)     \
	{                                                            \
		__typeof__(&(name)) f = REAL(name);                  \
		int rc = f ? HERE(path, f(version, there, st)) : -1; \
                                                                     \
		return missed(rc, path) ? fill(st) : rc;             \
	}
STAT_VERSION(__xstat, stat)
STAT_VERSION(__xstat64, stat64)
STAT_VERSION(__lxstat, stat)
STAT_VERSION(__lxstat64, stat64)

#define STAT_VERSION_AT(name, type)                                                  \
	int name(int version, int dir, const char *path, struct type *st, int flags) \
	{                                                                            \
		__typeof__(&(name)) f = REAL(name);                                  \
		int rc = f ? AT(dir, path, f(version, dir, there, st, flags)) : -1;  \
                                                                                     \
		return missed(rc, path) ? fill(st) : rc;                             \
	}
STAT_VERSION_AT(__fxstatat, stat)
STAT_VERSION_AT(__fxstatat64, stat64)

int statx(int dir, const char *restrict path, int flags, unsigned mask, struct statx *restrict st)
{
	int rc = AT(dir, path, REAL(statx)(dir, there, flags, mask, st));

	if (!missed(rc, path))
		return rc;
	node_fillx(st);
	return 0;
}

/* ls -l asks whether there is an access control list. */
ssize_t getxattr(const char *path, const char *name, void *value, size_t size)
{
	return HERE(path, REAL(getxattr)(there, name, value, size));
}

ssize_t lgetxattr(const char *path, const char *name, void *value, size_t size)
{
	return HERE(path, REAL(lgetxattr)(there, name, value, size));
}
