// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/*
 * stdio on sockets. What fdopen() makes reads and writes within the C library, past us; so for a
 * socket of ours it is a stream of fopencookie() instead, whose calls come here, with the number in
 * its place for fileno(). What stands at 0, 1 or 2 is none: see dup2() in fd.c.
 */
#undef _FILE_OFFSET_BITS /* freopen and freopen64 are two names here */
#include <fcntl.h>
#include <stdarg.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sockets/real.h"
#include "sockets/sockets.h"

/* Of FILE._flags, which <stdio.h> shows without its bits. */
enum { NO_READS = 0x4, NO_WRITES = 0x8 };

struct file {
	struct list node;
	FILE *stream;
	int fd;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct list files = {&files, &files};

static void take_lock(void)
{
	pthread_mutex_lock(&lock);
}

static void give_lock(void)
{
	pthread_mutex_unlock(&lock);
}

static void watch_forks(void)
{
	pthread_atfork(take_lock, give_lock, give_lock);
}

static bool is_tracked(int fd)
{
	struct entry *e;

	if (!table_ours())
		return false;
	e = entry_begin(fd);
	entry_end(e);
	return e;
}

static ssize_t write_all(int fd, const char *buf, size_t len)
{
	size_t done = 0;

	while (done < len) {
		ssize_t n = write(fd, buf + done, len - done);

		if (n < 0)
			break;
		done += (size_t)n;
	}
	return (ssize_t)done;
}

/* ---- what the C library calls ---------------------------------------------------------------- */

static ssize_t file_read(void *cookie, char *buf, size_t len)
{
	return read(((struct file *)cookie)->fd, buf, len);
}

static ssize_t file_write(void *cookie, const char *buf, size_t len)
{
	return write_all(((struct file *)cookie)->fd, buf, len);
}

static int file_seek(void *cookie, off64_t *offset, int whence)
{
	off64_t at = lseek64(((struct file *)cookie)->fd, *offset, whence); /* ESPIPE */

	if (at < 0)
		return -1;
	*offset = at;
	return 0;
}

static int file_close(void *cookie)
{
	struct file *f = cookie;
	const int fd = f->fd;

	pthread_mutex_lock(&lock);
	list_remove(&f->node);
	pthread_mutex_unlock(&lock);
	free(f);
	return close(fd);
}

static FILE *open_file(int fd, const char *mode)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	static const cookie_io_functions_t functions = {
		.read = file_read, .write = file_write, .seek = file_seek, .close = file_close};
	struct file *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	pthread_once(&once, watch_forks);
	f->fd = fd;
	f->stream = fopencookie(f, mode, functions);
	if (!f->stream) {
		free(f);
		return NULL;
	}
	f->stream->_fileno = fd;
	pthread_mutex_lock(&lock);
	list_push_tail(&files, &f->node);
	pthread_mutex_unlock(&lock);
	return f->stream;
}

static struct file *file_of(const FILE *stream)
{
	struct file *found = NULL;

	pthread_mutex_lock(&lock);
	list_for_each(f, &files, struct file, node)
		if (f->stream == stream)
			found = f;
	pthread_mutex_unlock(&lock);
	return found;
}

/* The C library does it when our streams have ended. Who is in a call on one may never come back
 * from it. */
static void flush(FILE *f)
{
	if (ftrylockfile(f))
		return;
	fflush_unlocked(f);
	funlockfile(f);
}

void stdio_flush(void)
{
	if (is_tracked(STDOUT_FILENO))
		flush(stdout);
	if (pthread_mutex_trylock(&lock))
		return;
	list_for_each(f, &files, struct file, node)
		flush(f->stream);
	pthread_mutex_unlock(&lock);
}

/* ---- what programs call ---------------------------------------------------------------------- */

#pragma GCC visibility push(default)

FILE *fdopen(int fd, const char *mode)
{
	return is_tracked(fd) ? open_file(fd, mode) : real()->fdopen(fd, mode);
}

/* Of a file's that has got a socket's number, the number is closed within the C library. */
int fclose(FILE *stream)
{
	const int fd = stream ? fileno_unlocked(stream) : -1;

	if (fd >= 0 && is_tracked(fd) && !file_of(stream)) {
		(void)!fflush(stream);
		entry_forget(fd);
	}
	return real()->fclose(stream);
}

/* The C library's would take our stream apart, which it has not made. */
static FILE *reopen(struct file *f, const char *path, const char *mode)
{
	const bool both = strchr(mode, '+'), reads = *mode == 'r' || both,
		   writes = *mode != 'r' || both;
	const int flags = (both	   ? O_RDWR
			   : reads ? O_RDONLY
				   : O_WRONLY) |
			  (*mode == 'w' ? O_CREAT | O_TRUNC : 0) |
			  (*mode == 'a' ? O_CREAT | O_APPEND : 0) |
			  (strchr(mode, 'e') ? O_CLOEXEC : 0) | (strchr(mode, 'x') ? O_EXCL : 0);
	int fd;

	(void)!fflush(f->stream);
	fd = path ? open(path, flags, 0666) : -1;
	if (fd < 0) {
		const int err = path ? errno : ENXIO; /* as of a socket */

		(void)!real()->fclose(f->stream);
		errno = err;
		return NULL;
	}
	close(f->fd);
	if (real()->dup3(fd, f->fd, flags & O_CLOEXEC) < 0)
		f->fd = f->stream->_fileno = fd;
	else
		close(fd);
	__fpurge(f->stream);
	clearerr(f->stream);
	f->stream->_flags &= ~(NO_READS | NO_WRITES);
	f->stream->_flags |= (reads ? 0 : NO_READS) | (writes ? 0 : NO_WRITES);
	return f->stream;
}

FILE *freopen64(const char *restrict path, const char *restrict mode, FILE *restrict stream)
{
	struct file *f = file_of(stream);

	return f ? reopen(f, path, mode) : real()->freopen64(path, mode, stream);
}

FILE *freopen(const char *restrict path, const char *restrict mode, FILE *restrict stream)
{
	return freopen64(path, mode, stream); /* off_t has 64 bits where weft runs */
}

int vdprintf(int fd, const char *format, va_list args)
{
	char *text;
	int n;

	if (!is_tracked(fd))
		return real()->vdprintf(fd, format, args);
	n = vasprintf(&text, format, args);
	if (n < 0)
		return n;
	if (write_all(fd, text, (size_t)n) < n)
		n = -1;
	free(text);
	return n;
}

int dprintf(int fd, const char *format, ...)
{
	va_list args;
	int n;

	va_start(args, format);
	n = vdprintf(fd, format, args);
	va_end(args);
	return n;
}

/* ---- what _FORTIFY_SOURCE makes of them ------------------------------------------------------ */

int __vdprintf_chk(int fd, int flag, const char *format, va_list args);
int __dprintf_chk(int fd, int flag, const char *format, ...);

int __vdprintf_chk(int fd, int flag, const char *format, va_list args)
{
	(void)flag;
	return vdprintf(fd, format, args);
}

int __dprintf_chk(int fd, int flag, const char *format, ...)
{
	va_list args;
	int n;

	(void)flag;
	va_start(args, format);
	n = vdprintf(fd, format, args);
	va_end(args);
	return n;
}
