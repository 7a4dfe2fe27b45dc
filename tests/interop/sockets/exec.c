// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/* Sockets and other programs: exec(), posix_spawn(), what shells start. */
#include <spawn.h>

#include "case.h"

extern char **environ;

static void after_echo(int fd)
{
	char buf[16] = "";
	long n = recv(fd, buf, 5, MSG_WAITALL);

	show("the program got", buf, n);
	T(send(fd, "there", 5, 0));
	T(close(fd));
}

/* The process becomes another program, which goes on with the connection. */
static void exec_goes_on(void)
{
	int fd = joined();

	if (server)
		became(fd);
	T(send(fd, "hello", 5, 0));
	drain(fd);
}

static void exec_of_child(void)
{
	int fd = joined();
	pid_t pid;

	if (server) {
		pid = fork();
		if (!pid) {
			became(fd);
			_exit(1);
		}
		need(!close(fd));
		reap(pid);
	} else {
		T(send(fd, "hello", 5, 0));
		drain(fd);
	}
	meet();
}

/* What had come and was not read, the program reads. */
static void exec_unread(void)
{
	int fd = joined();

	if (server) {
		await_bytes(fd, 8);
		R(fd, 3, 0);
		became(fd);
	}
	T(send(fd, "oh hello", 8, 0));
	drain(fd);
}

static void after_nothing(int fd)
{
	T(fcntl(fd, F_GETFD));
}

/* Closed on exec(): the peer sees the end of what was written. */
static void exec_closes(void)
{
	int fd = joined();

	if (server) {
		need(!fcntl(fd, F_SETFD, FD_CLOEXEC));
		pour(fd, 1, 0, 50000);
		became(fd);
	}
	drain(fd);
}

static void exec_with_much(void)
{
	int fd = joined();

	if (server) {
		pour(fd, 1, 0, 300000);
		became(fd);
	}
	nap(200);
	drain(fd);
}

/* It is not there: nothing has happened. */
static void exec_fails(void)
{
	int fd = joined();
	char *argv[] = {(char *)(uintptr_t) "nothing", NULL};

	T(send(fd, "one", 3, 0));
	T(execv("/nonexistent/program", argv));
	T(send(fd, "two", 3, 0));
	T(posix_spawn(&(pid_t){0}, "/nonexistent/program", NULL, NULL, argv, environ));
	T(send(fd, "six", 3, 0));
	R(fd, 9, MSG_WAITALL);
	meet();
}

static void after_accept(int listener)
{
	int fd = F(accept(listener, NULL, NULL));

	drain(fd);
	T(listen(listener, 5));
	T(close(fd));
}

/* A listener that the program accepts from. */
static void exec_listener(void)
{
	int fd;

	if (server) {
		fd = listening();
		meet();
		became(fd);
	}
	meet();
	fd = connected();
	T(send(fd, "hello", 5, 0));
	T(close(fd));
}

/* cat, on a connection; as inetd starts it. */
static void cat_of_child(void)
{
	int fd = joined();
	pid_t pid;

	if (server) {
		pid = fork();
		if (!pid) {
			dup2(fd, 0);
			dup2(fd, 1);
			close(fd);
			execlp("cat", "cat", NULL);
			_exit(127);
		}
		T(close(fd));
		reap(pid);
	} else {
		pour(fd, 6, 0, 50000);
		T(shutdown(fd, SHUT_WR));
		drink(fd, 6, 0, 50000);
		drain(fd);
	}
	meet();
}

static void cat_spawned(void)
{
	char *argv[] = {(char *)(uintptr_t) "cat", NULL};
	posix_spawn_file_actions_t actions;
	int fd = joined();
	pid_t pid;

	if (server) {
		posix_spawn_file_actions_init(&actions);
		posix_spawn_file_actions_adddup2(&actions, fd, 0);
		posix_spawn_file_actions_adddup2(&actions, fd, 1);
		T(posix_spawnp(&pid, "cat", &actions, NULL, argv, environ));
		T(close(fd));
		reap(pid);
	} else {
		pour(fd, 6, 0, 50000);
		T(shutdown(fd, SHUT_WR));
		drink(fd, 6, 0, 50000);
		drain(fd);
	}
	meet();
}

static void cat_by_vfork(void)
{
	int fd = joined();
	pid_t pid;

	if (server) {
		pid = vfork();
		if (!pid) {
			dup2(fd, 0);
			dup2(fd, 1);
			execlp("cat", "cat", NULL);
			_exit(127);
		}
		T(close(fd));
		reap(pid);
	} else {
		pour(fd, 6, 0, 50000);
		T(shutdown(fd, SHUT_WR));
		drink(fd, 6, 0, 50000);
		drain(fd);
	}
	meet();
}

/* A program that has nothing to do with the connection, while that is in use. */
static void system_meanwhile(void)
{
	int fd = joined();
	char line[32] = "";
	FILE *f;

	T(send(fd, "one", 3, 0));
	T(system("exit 3") >> 8);
	R(fd, 3, MSG_WAITALL);
	f = popen("echo a line", "r");
	need(f && fgets(line, sizeof(line), f));
	T(send(fd, "two", 3, 0));
	T(pclose(f));
	say("%.6s", line);
	R(fd, 3, MSG_WAITALL);
	meet();
	T(close(fd));
}

const struct test_case exec_cases[] = {
	CASE_AFTER(exec_goes_on, after_echo),
	CASE_AFTER(exec_of_child, after_echo),
	CASE_AFTER(exec_unread, after_echo),
	CASE_AFTER(exec_closes, after_nothing),
	CASE_AFTER(exec_with_much, after_nothing),
	CASE(exec_fails),
	CASE_AFTER(exec_listener, after_accept),
	CASE(cat_of_child),
	CASE(cat_spawned),
	CASE(cat_by_vfork),
	CASE(system_meanwhile),
	{0},
};
