// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/*
 * The end of the process, by exit, _exit() or exec. What it has written is its kernel's with TCP,
 * and gets to the peer. Ours is lost with the process, so the process waits until it is there, as
 * long as after close(). The service thread does the looking: see svc_look_until().
 *
 * An exec may fail, so before it the streams are asked for a sign that all is there, and nothing is
 * said of the end; when it did not fail, the broker says that.
 */
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/time.h"
#include "rsocket/svc.h"
#include "sockets/real.h"
#include "sockets/sockets.h"

struct looking {
	bool exec;
	bool begun; /* each stream has been told */
	bool all;
	uint64_t since_ns;
};

static void look_at(struct entry *e, void *arg)
{
	struct looking *l = arg;
	struct stream *s = e->stream;
	const bool had_time = s && s->linger_s >= 0 &&
			      time_now_ns() - l->since_ns > (uint64_t)s->linger_s * NSEC_PER_SEC;

	if (!s || sock_inherited(&s->sock) || atomic_load(&s->state) < STREAM_CONNECTED || had_time)
		return;
	if (!l->exec && !l->begun)
		stream_say_end(s);
	if (!l->begun)
		e->settling = !l->exec;
	if (!e->settling && atomic_load(&s->state) == STREAM_CONNECTED)
		e->settling = stream_keepalive(s);
	else
		e->settling = true;
	if (!stream_all_sent(s) || !e->settling)
		l->all = false;
	else if (s->unread && atomic_load(&s->state) == STREAM_CONNECTED) /* as at close() */
		stream_reset(s);
}

static bool look(void *arg)
{
	struct looking *l = arg;

	l->all = relays_settled(!l->exec);
	each_entry(look_at, l);
	l->begun = true;
	return l->all;
}

static void wait_for_all(bool exec)
{
	/* Not on the stack: the service thread may come to it when nobody waits any more. */
	static struct looking l;
	const int err = errno;

	if (!table_mine())
		return;
	l = (struct looking){.exec = exec, .since_ns = time_now_ns()};
	svc_look_until(look, &l, l.since_ns + RS_LINGER_S * NSEC_PER_SEC);
	errno = err;
}

void end_of_process(void)
{
	wait_for_all(false);
}

__attribute__((destructor)) static void at_exit(void)
{
	if (table_mine())
		stdio_flush();
	end_of_process();
}

/* The arguments of execl() and its kin, and the NULL at their end. */
static size_t count(const char *first, va_list args)
{
	size_t n = 1;

	for (const char *at = first; at; at = va_arg(args, char *))
		n++;
	return n;
}

static void collect(char **argv, const char *first, va_list args)
{
	*argv = (char *)(uintptr_t)first;
	while (*argv++)
		*argv = va_arg(args, char *);
}

/* On the stack: it may be the child of a vfork(). */
#define ARGV(first)                                                 \
	({                                                          \
		char **list;                                        \
		va_list args;                                       \
		va_start(args, first);                              \
		list = alloca(count(first, args) * sizeof(char *)); \
		va_end(args);                                       \
		va_start(args, first);                              \
		collect(list, first, args);                         \
		va_end(args);                                       \
		list;                                               \
	})

#pragma GCC visibility push(default)

void _exit(int status)
{
	end_of_process();
	real()->_exit(status);
	__builtin_unreachable();
}

void _Exit(int status)
{
	_exit(status);
}

int execve(const char *path, char *const argv[], char *const env[])
{
	wait_for_all(true);
	return real()->execve(path, argv, env);
}

int execv(const char *path, char *const argv[])
{
	return execve(path, argv, environ);
}

int execvpe(const char *file, char *const argv[], char *const env[])
{
	wait_for_all(true);
	return real()->execvpe(file, argv, env);
}

int execvp(const char *file, char *const argv[])
{
	return execvpe(file, argv, environ);
}

int fexecve(int fd, char *const argv[], char *const env[])
{
	wait_for_all(true);
	return real()->fexecve(fd, argv, env);
}

int execveat(int dir, const char *path, char *const argv[], char *const env[], int flags)
{
	wait_for_all(true);
	return real()->execveat(dir, path, argv, env, flags);
}

int execl(const char *path, const char *first, ...)
{
	return execv(path, ARGV(first));
}

int execlp(const char *file, const char *first, ...)
{
	return execvp(file, ARGV(first));
}

int execle(const char *path, const char *first, ...)
{
	char **argv = ARGV(first), **env;
	va_list args;

	va_start(args, first);
	while (va_arg(args, char *))
		;
	env = va_arg(args, char **);
	va_end(args);
	return execve(path, argv, env);
}
