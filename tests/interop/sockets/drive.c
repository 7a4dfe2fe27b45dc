// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/*
 * The driver: for each line of its standard input it starts the two roles of a case in two
 * networks, waits for both, ends what they leave behind, and prints
 *
 *	CASE MODE TCP SERVER-BYTES CLIENT-BYTES
 *
 * with the two transcripts behind it. TCP is how many segments the networks' kernels have sent
 * meanwhile. MODE is who runs by `weft run --sockets`: plain, both, server, client.
 */
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>

#include "board.h"
#include "drive.h"

struct role {
	int net; /* its network */
	int pidfd;
	pid_t pid;
	bool weft;
};

static long now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static int open_proc(int pid, const char *what)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, what);
	return open(path, O_RDONLY | O_CLOEXEC);
}

/* Segments sent and connections opened in the network of a process. */
static long tcp_sent(int pid)
{
	long v[16] = {0};
	char text[4096], *line;
	int fd = open_proc(pid, "net/snmp");
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	if (fd >= 0)
		close(fd);
	if (n <= 0)
		return 0;
	text[n] = 0;
	line = strstr(text, "\nTcp:");
	line = line ? strstr(line + 1, "\nTcp:") : NULL;
	if (!line || sscanf(line, "\nTcp: %ld %ld %ld %ld %ld %ld %ld %ld %ld %ld %ld", v, v + 1,
			    v + 2, v + 3, v + 4, v + 5, v + 6, v + 7, v + 8, v + 9, v + 10) != 11)
		return 0;
	return v[4] + v[10]; /* ActiveOpens, OutSegs */
}

static void become_role(const struct role *r, bool is_server, const char *weft)
{
	char *renamed = getenv("SOCKETS_CASES_RENAMED"), *argv[10], **a = argv;
	sigset_t none;

	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (setns(r->net, CLONE_NEWNET)) {
		perror("setns");
		_exit(96);
	}
	if (r->weft) {
		*a++ = (char *)(uintptr_t)weft;
		*a++ = (char *)"run";
		if (!renamed)
			*a++ = (char *)"--sockets";
		*a++ = (char *)"--";
	}
	*a++ = r->weft && renamed ? renamed : board->program;
	*a++ = (char *)"role";
	*a++ = (char *)(is_server ? "server" : "client");
	*a = NULL;
	execv(argv[0], argv);
	perror(argv[0]);
	_exit(96);
}

static void start(struct role *r, bool is_server, const char *weft)
{
	r->pid = fork();
	if (!r->pid)
		become_role(r, is_server, weft);
	setpgid(r->pid, r->pid);
	r->pidfd = (int)syscall(SYS_pidfd_open, r->pid, 0);
}

static void ended_role(struct role *r, bool is_server)
{
	siginfo_t info = {0};

	close(r->pidfd);
	r->pidfd = -1;
	waitid(P_PID, (id_t)r->pid, &info, WEXITED);
	kill(-r->pid, SIGKILL); /* its children */
	server = is_server;
	if (info.si_code == CLD_EXITED)
		say("ends with %d", info.si_status);
	else
		say("is killed by SIG%s", sigabbrev_np(info.si_status));
	atomic_store(&board->gone[!is_server], 1);
	syscall(SYS_futex, &board->met[!is_server], FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static void run(struct role roles[2], const char *weft, long limit_ms)
{
	const long end = now_ms() + limit_ms;
	bool late = false;

	start(&roles[0], true, weft);
	start(&roles[1], false, weft);
	while (roles[0].pidfd >= 0 || roles[1].pidfd >= 0) {
		struct pollfd p[2] = {{.fd = roles[0].pidfd, .events = POLLIN},
				      {.fd = roles[1].pidfd, .events = POLLIN}};
		const long left = end - now_ms();

		if (poll(p, 2, left > 0 ? (int)left : 0) == 0 && !late) {
			late = true;
			for (int i = 0; i < 2; i++) {
				server = !i;
				if (roles[i].pidfd < 0)
					continue;
				say("timeout");
				kill(-roles[i].pid, SIGKILL);
			}
		}
		for (int i = 0; i < 2; i++)
			if (p[i].revents)
				ended_role(&roles[i], !i);
	}
}

static size_t length(int who)
{
	size_t n = board->said[who].length;

	return n < TRANSCRIPT_MAX ? n : TRANSCRIPT_MAX;
}

int drive(char **words)
{
	const char *weft = words[0];
	const int server_pid = atoi(words[2]), client_pid = atoi(words[5]);
	struct role roles[2] = {{.net = open_proc(server_pid, "ns/net")},
				{.net = open_proc(client_pid, "ns/net")}};
	char name[ADDRESS], mode[16];
	unsigned first;
	long limit_ms;

	if (roles[0].net < 0 || roles[1].net < 0) {
		perror("the networks");
		return 1;
	}
	need(readlink("/proc/self/exe", board->program, PATH - 1) > 0);
	snprintf(board->silent, ADDRESS, "%s", words[1]);
	for (int i = 0; i < 2; i++) {
		snprintf(board->address[i], ADDRESS, "%s", words[3 + 3 * i]);
		snprintf(board->address6[i], ADDRESS, "%s", words[4 + 3 * i]);
	}
	signal(SIGPIPE, SIG_DFL);
	while (scanf("%63s %15s %u %ld", name, mode, &first, &limit_ms) == 4) {
		long before;

		memset(board, 0, offsetof(struct board, port));
		for (int i = 0; i < 2; i++)
			board->said[i].length = 0;
		board->port = first;
		strcpy(board->name, name);
		roles[0].weft = !strcmp(mode, "both") || !strcmp(mode, "server");
		roles[1].weft = !strcmp(mode, "both") || !strcmp(mode, "client");
		before = tcp_sent(server_pid) + tcp_sent(client_pid);
		run(roles, weft, limit_ms);
		printf("%s %s %ld %zu %zu\n", name, mode,
		       tcp_sent(server_pid) + tcp_sent(client_pid) - before, length(0), length(1));
		for (int i = 0; i < 2; i++)
			fwrite(board->said[i].text, 1, length(i), stdout);
		fflush(stdout);
	}
	return 0;
}
