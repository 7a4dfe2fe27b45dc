/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What becomes of a TCP connection when its number is closed, doubled, taken by another file or
 * wrapped into a FILE in one of the ways that programs have, and when its process ends. Run as
 * both_ends.h says.
 */
#include "both_ends.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOMENT_MS = 300 };

/* A file that holds a text, at that number or the next that is free. */
static int file_at(int number, const char *text)
{
	int fd = syscall(SYS_memfd_create, "file", 0);

	check(fd >= 0 && syscall(SYS_write, fd, text, strlen(text)) == (long)strlen(text));
	check(syscall(SYS_lseek, fd, 0, SEEK_SET) == 0);
	if (fd != number) {
		check(syscall(SYS_dup3, fd, number, 0) == number);
		syscall(SYS_close, fd);
	}
	return number;
}

/* The number is a file's now: that is what is read and written. */
static void is_a_file(int number, int peer, bool peer_ended)
{
	struct iovec iov;
	char got[16] = "";

	iov = (struct iovec){got, 4};
	check(read(number, got, 4) == 4 && !memcmp(got, "file", 4));
	check(write(number, "mine", 4) == 4);
	check(lseek(number, 0, SEEK_SET) == 0);
	check(readv(number, &iov, 1) == 4 && !memcmp(got, "file", 4));
	check(recv(number, got, 4, MSG_DONTWAIT) < 0 && errno == ENOTSOCK);
	check(send(number, "mine", 4, MSG_NOSIGNAL) < 0 && errno == ENOTSOCK);
	check(lseek(number, 0, SEEK_END) == 8);
	if (peer_ended)
		ends(peer);
	else
		check(!readable(peer, MOMENT_MS) || read(peer, got, 1) <= 0);
}

/* ---- closed ---------------------------------------------------------------------------------- */

static void closed_by_close_range(void)
{
	int a, b;

	connect_pair(&a, &b);
	check(!close_range((unsigned int)a, (unsigned int)a, 0));
	ends(b);
	check(read(a, &a, 1) < 0 && errno == EBADF);
	is_a_file(file_at(a, "file"), b, true);
}

static void close_range_that_marks(void)
{
	int a, b;

	connect_pair(&a, &b);
	check(!close_range((unsigned int)a, (unsigned int)a, CLOSE_RANGE_CLOEXEC));
	check(close_range((unsigned int)a, (unsigned int)a, 1 << 30) < 0 && errno == EINVAL);
	send_text(a, "still there");
	comes(b, "still there");
}

static void closed_by_a_system_call(void)
{
	int a, b, to = 100;

	connect_pair(&a, &b);
	check(dup2(a, to) == to);
	send_text(b, "not for a file");
	check(readable(a, PATIENCE_MS));
	check(!syscall(SYS_close, a));
	is_a_file(file_at(a, "file"), b, false);
	comes(to, "not for a file"); /* the other number is what it was */
	send_text(to, "hello");
	comes(b, "hello");
}

static void taken_by_a_system_call(void)
{
	int a, b;

	connect_pair(&a, &b);
	send_text(b, "not for a file");
	check(readable(a, PATIENCE_MS));
	is_a_file(file_at(a, "file"), b, false);
}

static void taken_by_another_socket(void)
{
	int a, b, pair[2];

	connect_pair(&a, &b);
	check(!socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
	check(syscall(SYS_dup3, pair[0], a, 0) == a);
	send_text(a, "local");
	comes(pair[1], "local");
	send_text(pair[1], "back");
	comes(a, "back");
}

static void closed_unseen_before_a_fork(void)
{
	int a, b, status;

	connect_pair(&a, &b);
	file_at(a, "file");
	if (!fork()) {
		char got[4];

		_exit(read(a, got, 4) != 4 || memcmp(got, "file", 4));
	}
	check(wait(&status) > 0 && !status);
	check(lseek(a, 0, SEEK_SET) == 0);
	is_a_file(a, b, true);
}

/* ---- numbers that the program has not opened ------------------------------------------------- */

/* A moment of another thread's apart. */
static void numbers_are_low(void)
{
	int pairs[10][2];

	for (int i = 0; i < 10; i++) {
		connect_pair(&pairs[i][0], &pairs[i][1]);
		check(pairs[i][0] < 40 && pairs[i][1] < 40);
	}
	check(dup(pairs[0][0]) < 40 && epoll_create1(0) < 40);
}

static void talk(int a, int b)
{
	for (int i = 0; i < 100; i++) {
		send_text(a, "there");
		comes(b, "there");
		send_text(b, "and back");
		comes(a, "and back");
	}
}

static void all_others_are_closed(void)
{
	enum { HIGHEST = 3000, FILES = 200 };
	int a, b, c, d, last, files[FILES];

	connect_pair(&a, &b);
	talk(a, b);
	last = a > b ? a : b;
	for (int fd = 3; fd < HIGHEST; fd++)
		if (fd != a && fd != b)
			close(fd);
	closefrom(last + 1);
	check(!close_range((unsigned int)last + 1, ~0u, 0));
	for (int i = 0; i < FILES; i++)
		files[i] = memfd_create("file", 0);
	talk(a, b);
	connect_pair(&c, &d);
	talk(c, d);
	talk(a, b);
	for (int i = 0; i < FILES; i++)
		check(files[i] >= 0 && lseek(files[i], 0, SEEK_END) == 0);
	close(a);
	ends(b);
}

/* ---- stdio ----------------------------------------------------------------------------------- */

static void lines_by_fdopen(void)
{
	char line[64];
	int a, b, twice;
	FILE *in, *out;

	connect_pair(&a, &b);
	twice = dup(a);
	in = fdopen(a, "r");
	out = fdopen(twice, "w");
	check(in && out && fileno(in) == a && fileno(out) == twice);
	check(!setvbuf(out, NULL, _IOLBF, 0));
	check(fseek(in, 0, SEEK_CUR) < 0 && errno == ESPIPE);
	check(fprintf(out, "hello %d\nand", 7) == 11);
	comes(b, "hello 7\n");
	check(!readable(b, MOMENT_MS));
	check(!fflush(out));
	comes(b, "and");
	send_text(b, "one\ntwo\nthree");
	check(fgets(line, sizeof(line), in) && !strcmp(line, "one\n"));
	check(fgets(line, sizeof(line), in) && !strcmp(line, "two\n"));
	check(!shutdown(b, SHUT_WR));
	check(fgets(line, sizeof(line), in) && !strcmp(line, "three"));
	check(!fgets(line, sizeof(line), in) && feof(in) && !ferror(in));
	check(fputs("last", out) >= 0 && !fclose(out));
	comes(b, "last");
	check(!readable(b, MOMENT_MS)); /* the other number is open */
	check(!fclose(in));
	ends(b);
	check(fcntl(a, F_GETFD) < 0 && fcntl(twice, F_GETFD) < 0);
}

static void both_ways_by_one_file(void)
{
	char line[64];
	FILE *f;
	int a, b;

	connect_pair(&a, &b);
	f = fdopen(a, "r+");
	check(f && fputs("ask\n", f) >= 0 && !fflush(f));
	comes(b, "ask\n");
	send_text(b, "answer\n");
	check(fgets(line, sizeof(line), f) && !strcmp(line, "answer\n"));
	fseek(f, 0, SEEK_CUR);
	check(fputs("again\n", f) >= 0 && !fclose(f));
	comes(b, "again\n");
	ends(b);
}

static void fdopen_refuses(void)
{
	int a, b;

	connect_pair(&a, &b);
	check(!fdopen(a, "x") && errno == EINVAL);
	check(!fdopen(999, "r") && errno == EBADF);
	send_text(a, "hello");
	comes(b, "hello");
}

static void fclose_closes(void)
{
	FILE *f = tmpfile();
	int a, b, number = fileno(f);

	connect_pair(&a, &b);
	check(dup2(a, number) == number && !close(a));
	check(!fclose(f));
	ends(b);
	is_a_file(file_at(number, "file"), b, true);
}

static void dprintf_writes(void)
{
	int a, b;

	connect_pair(&a, &b);
	check(dprintf(a, "%s %d", "number", 5) == 8);
	comes(b, "number 5");
}

static void stdout_is_a_socket(void)
{
	char line[64];
	int a, b, saved = dup(STDOUT_FILENO);

	connect_pair(&a, &b);
	check(dup2(a, STDOUT_FILENO) == STDOUT_FILENO && dup2(a, STDIN_FILENO) == STDIN_FILENO);
	printf("hello\n");
	check(!fflush(stdout));
	comes(b, "hello\n");
	send_text(b, "back\n");
	check(fgets(line, sizeof(line), stdin) && !strcmp(line, "back\n"));
	send_text(a, "beside");
	comes(b, "beside");
	close(a);
	close(STDIN_FILENO);
	check(dup2(saved, STDOUT_FILENO) == STDOUT_FILENO);
	ends(b);
}

/* ---- the end of a process -------------------------------------------------------------------- */

enum { LONG = 200000, ENOUGH = 100000 };

/* A child at the other end; its number, which the child knows as its argument. */
static int connect_child(void (*child)(int), pid_t *ret)
{
	socklen_t len = sizeof(at);
	int listener, conn;

	at.sin_port = 0;
	listener = socket(AF_INET, SOCK_STREAM, 0);
	check(!bind(listener, (struct sockaddr *)&at, sizeof(at)));
	check(!getsockname(listener, (struct sockaddr *)&at, &len));
	*ret = fork();
	if (!*ret) {
		close(listener);
		conn = -1;
		/* Until somebody listens. */
		for (int i = 0; i < 100; i++) {
			conn = socket(AF_INET, SOCK_STREAM, 0);
			if (!connect(conn, (struct sockaddr *)&at, sizeof(at)))
				break;
			close(conn);
			usleep(20000);
		}
		child(conn);
		_exit(1);
	}
	check(!listen(listener, 1));
	conn = accept(listener, NULL, NULL);
	check(conn >= 0);
	close(listener);
	return conn;
}

static char pattern(size_t i)
{
	return (char)(i * 31 + i / 253);
}

/* Into a socket that is read later, as much as it takes. */
static void send_what_fits(int conn)
{
	static char buf[LONG];
	uint32_t n = 0;

	for (size_t i = 0; i < LONG; i++)
		buf[i] = pattern(i);
	while (n < ENOUGH) {
		ssize_t sent = send(conn, buf + n, 4096, MSG_DONTWAIT);

		if (sent < 0)
			break;
		n += (uint32_t)sent;
	}
	if (n < ENOUGH)
		_exit(2);
}

static void sender_exits_at_once(int conn)
{
	send_what_fits(conn);
	_exit(0);
}

static void sender_quick_exits(int conn)
{
	send_what_fits(conn);
	quick_exit(0);
}

static void on_term(int sig)
{
	(void)sig;
	_exit(0);
}

static void sender_exits_in_a_handler(int conn)
{
	char c;

	signal(SIGTERM, on_term);
	send_what_fits(conn);
	kill(getppid(), SIGUSR1);
	(void)!read(conn, &c, 1);
}

static void sender_execs(int conn)
{
	fcntl(conn, F_SETFD, FD_CLOEXEC);
	send_what_fits(conn);
	execlp("true", "true", (char *)NULL);
}

static void sender_waits(int conn)
{
	send_text(conn, "all of it");
	pause();
}

/* So many bytes at least, right ones, and then the end. */
static void all_comes(int conn, size_t least)
{
	static char buf[65536];
	size_t total = 0;
	ssize_t n;

	usleep(300000); /* the other end is over by now */
	while ((n = read(conn, buf, sizeof(buf))) > 0) {
		for (ssize_t i = 0; i < n; i++)
			check(buf[i] == pattern(total + (size_t)i));
		total += (size_t)n;
	}
	check(n == 0);
	check(total >= least);
}

static void ends_with(void (*child)(int))
{
	pid_t pid;
	int status, conn = connect_child(child, &pid);

	all_comes(conn, ENOUGH);
	check(waitpid(pid, &status, 0) == pid && !status);
}

static void data_before_exit_at_once(void)
{
	ends_with(sender_exits_at_once);
}

static void data_before_quick_exit(void)
{
	ends_with(sender_quick_exits);
}

static void data_before_exec(void)
{
	ends_with(sender_execs);
}

static void data_before_exit_in_a_handler(void)
{
	int status, conn;
	sigset_t usr1;
	pid_t pid;

	sigemptyset(&usr1);
	sigaddset(&usr1, SIGUSR1);
	sigprocmask(SIG_BLOCK, &usr1, NULL);
	conn = connect_child(sender_exits_in_a_handler, &pid);
	sigwaitinfo(&usr1, NULL);
	kill(pid, SIGTERM);
	all_comes(conn, ENOUGH);
	check(waitpid(pid, &status, 0) == pid && !status);
}

static void killed(int sig)
{
	int status, conn;
	pid_t pid;
	char c;

	conn = connect_child(sender_waits, &pid);
	comes(conn, "all of it");
	check(recv(conn, &c, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN);
	kill(pid, sig);
	ends(conn);
	check(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status));
	check(read(conn, &c, 1) == 0);
}

static void killed_by_sigkill(void)
{
	killed(SIGKILL);
}

static void killed_by_sigterm(void)
{
	killed(SIGTERM);
}

static void killed_before_it_is_read(void)
{
	char got[16] = "";
	int status, conn;
	pid_t pid;

	conn = connect_child(sender_waits, &pid);
	usleep(MOMENT_MS * 1000);
	kill(pid, SIGKILL);
	check(waitpid(pid, &status, 0) == pid);
	usleep(MOMENT_MS * 1000);
	check(recv(conn, got, 9, MSG_WAITALL) == 9 && !strcmp(got, "all of it"));
	ends(conn);
}

static void sender_fails_to_exec(int conn)
{
	char nowhere[] = "/nowhere", *const argv[] = {nowhere, NULL};

	send_text(conn, "before");
	if (execve(argv[0], argv, NULL) < 0 && errno == ENOENT)
		send_text(conn, " and after");
	pause();
}

static void exec_that_fails(void)
{
	pid_t pid;
	int conn = connect_child(sender_fails_to_exec, &pid);

	comes(conn, "before and after");
	kill(pid, SIGKILL);
	ends(conn);
}

static void sender_prints(int conn)
{
	FILE *f = fdopen(conn, "w");

	dup2(conn, STDOUT_FILENO);
	fprintf(f, "by a file");
	exit(0);
}

static void stdio_before_exit(void)
{
	pid_t pid;
	int conn = connect_child(sender_prints, &pid);

	comes(conn, "by a file");
	ends(conn);
}

static void sender_prints_to_stdout(int conn)
{
	check(dup2(conn, STDOUT_FILENO) == STDOUT_FILENO);
	close(conn);
	printf("by stdout");
	exit(0);
}

static void stdout_before_exit(void)
{
	pid_t pid;
	int conn = connect_child(sender_prints_to_stdout, &pid);

	comes(conn, "by stdout");
	ends(conn);
}

/* ---- all ------------------------------------------------------------------------------------- */

static const struct both_ends_case cases[] = {
#define X(name)             \
	{                   \
#name, name \
	}
	/* clang-format off */
	X(closed_by_close_range),
	X(close_range_that_marks),
	X(closed_by_a_system_call),
	X(taken_by_a_system_call),
	X(taken_by_another_socket),
	X(closed_unseen_before_a_fork),
	X(numbers_are_low),
	X(all_others_are_closed),
	X(lines_by_fdopen),
	X(both_ways_by_one_file),
	X(fdopen_refuses),
	X(fclose_closes),
	X(dprintf_writes),
	X(stdout_is_a_socket),
	X(data_before_exit_at_once),
	X(data_before_quick_exit),
	X(data_before_exec),
	X(data_before_exit_in_a_handler),
	X(killed_by_sigkill),
	X(killed_by_sigterm),
	X(killed_before_it_is_read),
	X(exec_that_fails),
	X(stdio_before_exit),
	X(stdout_before_exit),
/* clang-format on */
#undef X
};

int main(int argc, char **argv)
{
	return both_ends_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
