/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Connections one after another, for leaks.py, which looks at the processes between them.
 *
 *	leaks serve HOW ADDR PORT          until it is killed; HOW: itself, fork or exec
 *	leaks ask ADDR PORT COUNT TIMES    COUNT connections, "done", waits for SIGUSR1; so often
 */
#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static void die(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	exit(1);
}

#define check(x)                 \
	do {                     \
		if (!(x))        \
			die(#x); \
	} while (0)

static struct sockaddr_in at;

static void echo(int fd)
{
	char buf[256];
	ssize_t n;

	while ((n = read(fd, buf, sizeof(buf))) > 0)
		check(write(fd, buf, (size_t)n) == n);
	check(!n);
}

static void become_cat(int fd)
{
	check(dup2(fd, 0) == 0 && dup2(fd, 1) == 1);
	execlp("cat", "cat", (char *)NULL);
	die("cat");
}

static void __attribute__((noreturn)) serve(const char *how)
{
	int listener = socket(AF_INET, SOCK_STREAM, 0), one = 1;

	check(!setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)));
	check(!bind(listener, (struct sockaddr *)&at, sizeof(at)) && !listen(listener, 16));
	puts("listens");
	fflush(stdout);
	for (;;) {
		int fd = accept(listener, NULL, NULL), status;
		pid_t pid;

		check(fd >= 0);
		if (!strcmp(how, "itself")) {
			echo(fd);
			check(!close(fd));
			continue;
		}
		pid = fork();
		check(pid >= 0);
		if (!pid) {
			close(listener);
			if (!strcmp(how, "exec"))
				become_cat(fd);
			echo(fd);
			exit(0);
		}
		check(!close(fd));
		check(waitpid(pid, &status, 0) == pid && !status);
	}
}

static void ask(void)
{
	static const char question[] = "how many of us are there?";
	char answer[sizeof(question)];
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	check(fd >= 0 && !connect(fd, (struct sockaddr *)&at, sizeof(at)));
	check(write(fd, question, sizeof(question)) == sizeof(question));
	check(!shutdown(fd, SHUT_WR));
	check(recv(fd, answer, sizeof(answer), MSG_WAITALL) == sizeof(answer));
	check(!memcmp(answer, question, sizeof(answer)));
	check(!read(fd, answer, 1));
	check(!close(fd));
}

int main(int argc, char **argv)
{
	const bool serves = argc == 5 && !strcmp(argv[1], "serve");
	sigset_t go;
	int sig;

	if (!serves && (argc != 6 || strcmp(argv[1], "ask"))) {
		fprintf(stderr, "usage: leaks serve HOW ADDR PORT | ask ADDR PORT COUNT TIMES\n");
		return 2;
	}
	at = (struct sockaddr_in){.sin_family = AF_INET,
				  .sin_port = htons((uint16_t)atoi(argv[serves ? 4 : 3]))};
	check(inet_pton(AF_INET, argv[serves ? 3 : 2], &at.sin_addr) == 1);
	if (serves)
		serve(argv[2]);
	sigemptyset(&go);
	sigaddset(&go, SIGUSR1);
	check(!sigprocmask(SIG_BLOCK, &go, NULL));
	for (int times = atoi(argv[5]); times; times--) {
		for (int i = atoi(argv[4]); i; i--)
			ask();
		puts("done");
		fflush(stdout);
		check(!sigwait(&go, &sig));
	}
	return 0;
}
