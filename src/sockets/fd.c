// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/* Numbers: closed, doubled, asked for flags. */
#undef _FILE_OFFSET_BITS /* fcntl and fcntl64 are two names here */
#include <fcntl.h>
#include <spawn.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/log.h"
#include "rsocket/probe.h"
#include "sockets/own.h"
#include "sockets/real.h"
#include "sockets/sockets.h"

#pragma GCC visibility push(default)

int close(int fd)
{
	const bool ours = own_caller(__builtin_return_address(0));

	pthread_testcancel();
	if (!own_close(fd, ours)) {
		errno = EBADF;
		return ours ? 0 : -1;
	}
	if (table_ours()) {
		inside_begin();
		entry_forget(fd);
		epoll_closed(fd);
		inside_end();
	}
	return real()->close(fd);
}

/* Not one that the kernel would refuse. */
static bool closes(unsigned int first, unsigned int last, int flags)
{
	return !(flags & ~CLOSE_RANGE_UNSHARE) && first <= last && table_ours();
}

int close_range(unsigned int first, unsigned int last, int flags)
{
	int rc;

	if (!closes(first, last, flags))
		return real()->close_range(first, last, flags);
	inside_begin();
	entries_forget(first, last);
	epoll_closed_range(first, last);
	rc = own_close_range(first, last, flags);
	inside_end();
	return rc;
}

void closefrom(int first)
{
	(void)!close_range((unsigned int)max_of(first, 0), UINT_MAX, 0);
}

/* `now` has become another number of the socket that `old` is. */
static int doubled(int old, int now)
{
	struct entry *e;

	if (now < 0 || now == old || !table_ours())
		return now;
	inside_begin();
	entry_forget(now); /* what dup2() closed */
	epoll_doubled(old, now);
	e = entry_get(old);
	if (e)
		entry_share(e, now);
	entry_end(e);
	return now;
}

int dup(int fd)
{
	return doubled(fd, real()->dup(fd));
}

/* What stands at 0, 1 or 2 the program reads and writes by stdin, stdout and stderr, whose calls
 * are within the C library: there it must be a socket of the kernel. */
static void make_standard(int fd, int to)
{
	if (to >= STDIN_FILENO && to <= STDERR_FILENO && to != fd && table_ours())
		entries_passed(&fd, 1);
}

/* One of ours gives no way to another's. */
static bool is_taken(int to)
{
	if (!own_number(to) || !table_ours())
		return false;
	errno = EBUSY;
	return true;
}

/* A child of posix_spawn() makes it so without us. */
int posix_spawn_file_actions_adddup2(posix_spawn_file_actions_t *actions, int fd, int to)
{
	if (table_ours())
		entries_passed(&fd, 1);
	return real()->posix_spawn_file_actions_adddup2(actions, fd, to);
}

int dup2(int fd, int to)
{
	if (is_taken(to))
		return -1;
	make_standard(fd, to);
	return doubled(fd, real()->dup2(fd, to));
}

int dup3(int fd, int to, int flags)
{
	if (is_taken(to))
		return -1;
	make_standard(fd, to);
	return doubled(fd, real()->dup3(fd, to, flags));
}

/* O_NONBLOCK is the kernel's socket's; the stream follows it. */
static void follow(int fd)
{
	struct entry *e = entry_begin(fd);
	struct stream *s = e ? entry_stream(e) : NULL;

	if (s)
		atomic_store(&s->sock.fl_flags, real()->fcntl64(fd, F_GETFL) & O_NONBLOCK);
	entry_end(e);
}

/* Nothing tells of data while the program does something else. */
static bool no_signals(int fd)
{
	struct held h = hold(fd);

	if (!h.stream)
		return false;
	log_warn("sockets",
		 "descriptor %d: no SIGIO over RDMA; set O_ASYNC before connect() or "
		 "listen(), which go by TCP then",
		 fd);
	return let_go(h, -EINVAL) < 0;
}

int fcntl64(int fd, int cmd, ...)
{
	va_list args;
	void *arg;
	int rc;

	va_start(args, cmd);
	arg = va_arg(args, void *);
	va_end(args);
	if (cmd == F_SETFL && (intptr_t)arg & O_ASYNC && no_signals(fd))
		return -1;
	rc = real()->fcntl64(fd, cmd, arg);
	if (cmd == F_DUPFD || cmd == F_DUPFD_CLOEXEC)
		return doubled(fd, rc);
	if (cmd == F_SETFL && !rc)
		follow(fd);
	return rc;
}

int fcntl(int fd, int cmd, ...)
{
	va_list args;
	void *arg;

	va_start(args, cmd);
	arg = va_arg(args, void *);
	va_end(args);
	return fcntl64(fd, cmd, arg);
}

static int readable_bytes(struct stream *s)
{
	stream_progress(s);
	return (int)stream_unread(s);
}

int ioctl(int fd, unsigned long request, ...)
{
	struct held h;
	va_list args;
	void *arg;
	int rc;

	va_start(args, request);
	arg = va_arg(args, void *);
	va_end(args);
	if (request == FIOASYNC && probe_readable(arg, sizeof(int)) && *(int *)arg &&
	    no_signals(fd))
		return -1;
	h = request == FIONREAD ? hold(fd) : (struct held){0};
	if (h.stream && atomic_load(&h.stream->state) >= STREAM_CONNECTED) {
		rc = probe_writable(arg, sizeof(int)) ? 0 : -EFAULT;
		if (!rc)
			*(int *)arg = readable_bytes(h.stream);
		return (int)let_go(h, rc);
	}
	if (h.stream)
		(void)let_go(h, 0);
	rc = real()->ioctl(fd, request, arg);
	if (request == FIONBIO && !rc)
		follow(fd);
	return rc;
}
