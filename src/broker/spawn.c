/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The process is made by bare clone(2) calls: as a fork without exit signal, and without the fork
 * handlers of the program we live in, of whose threads and libraries we know nothing. Until it
 * executes, the child makes only calls that are safe after a fork of a threaded program.
 */
#include "broker/spawn.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/errno_text.h"
#include "base/log.h"

#define READY_MS 10000 /* more than leases_init() waits for the port */
#define READY_FD 3
#define BAG_IN	 4
#define BAG_OUT	 5

/* What goes over the ready pipe, as far as it is filled. */
struct ready {
	enum { READY_LISTENS = 1, READY_FAILED, READY_NO_EXEC } kind;
	int error; /* -errno */
	char text[480];
};
#define READY_LEN offsetof(struct ready, text)

static pid_t bare_fork(void)
{
	return (pid_t)syscall(SYS_clone, 0, NULL, NULL, NULL, NULL);
}

/* Fills path with the program to execute; a name without a slash is looked for on PATH. False: who
 * runs a program with another's privileges has said what PATH is, and there is no other way. */
static bool find_program(char path[PATH_MAX])
{
	/* In the build tree, and installed. */
	static const char *const beside[] = {"../weft", WEFT_PROGRAM_FROM_LIBS};
	const char *env = secure_getenv("WEFT_BROKER");
	struct stat st;
	Dl_info info;

	if (env && *env) {
		snprintf(path, PATH_MAX, "%s", env);
		return true;
	}
	if (dladdr((void *)(uintptr_t)broker_spawn, &info) && info.dli_fname) {
		const char *slash = strrchr(info.dli_fname, '/');
		int dir = slash ? (int)(slash - info.dli_fname) : 0;

		for (size_t i = 0; slash && i < ARRAY_SIZE(beside); i++) {
			snprintf(path, PATH_MAX, "%.*s/%s", dir, info.dli_fname, beside[i]);
			/* Installed, the first is the libraries' own directory. */
			if (stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0)
				return true;
		}
	}
	snprintf(path, PATH_MAX, "weft");
	return !getauxval(AT_SECURE);
}

/* The environment without what would load other people's libraries into the broker, or have it, who
 * stays for others, write a program's capture. */
static char **clean_environment(void)
{
	size_t n = 0, k = 0;
	char **env;

	while (environ && environ[n])
		n++;
	env = calloc(n + 1, sizeof(*env));
	for (size_t i = 0; env && i < n; i++)
		if (strncmp(environ[i], "LD_PRELOAD=", 11) != 0 &&
		    strncmp(environ[i], "WEFT_PCAP=", 10) != 0)
			env[k++] = environ[i];
	return env;
}

/* Not _exit(), in which a sanitizer of the program would wait for threads that are not here. */
static void __attribute__((noreturn)) leave(int status)
{
	for (;;)
		syscall(SYS_exit_group, status);
}

static void __attribute__((noreturn))
become_broker(const char *path, const char *const *argv, char **env, int report, const int *bag)
{
	struct ready failed = {.kind = READY_NO_EXEC};
	struct sigaction dfl = {.sa_handler = SIG_DFL};
	sigset_t none;
	int null, in, out;

	/* Out of the way of the places that they get. */
	report = fcntl(report, F_DUPFD, BAG_OUT + 1);
	in = bag ? fcntl(bag[0], F_DUPFD, BAG_OUT + 1) : -1;
	out = bag ? fcntl(bag[1], F_DUPFD, BAG_OUT + 1) : -1;
	if (report < 0 || (bag && (in < 0 || out < 0)))
		leave(1);
	null = open("/dev/null", O_RDWR);
	for (int fd = 0; fd < READY_FD && null >= 0; fd++)
		dup2(null, fd);
	dup2(report, READY_FD);
	if (bag && dup2(in, BAG_IN) >= 0)
		dup2(out, BAG_OUT);
	close_range(bag ? BAG_OUT + 1 : READY_FD + 1, UINT_MAX, 0);
	if (chdir("/") < 0)
		leave(1);
	for (int s = 1; s < NSIG; s++)
		sigaction(s, &dfl, NULL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	execvpe(path, (char *const *)argv, env);
	failed.error = -errno;
	if (write(READY_FD, &failed, READY_LEN) < 0)
		leave(2);
	leave(1);
}

/* Reads to the end of the pipe what the broker says of its start. */
static int await_ready(int fd, const char *path, char *err, size_t err_len)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	struct ready r = {0};
	size_t len = 0, max = sizeof(r) - 1;
	ssize_t got = -1;
	int rc;

	do {
		rc = poll(&p, 1, READY_MS);
		if (rc < 0 && errno == EINTR)
			continue;
		if (rc <= 0) {
			snprintf(err, err_len, "the broker (%s) does not get ready", path);
			return -ETIMEDOUT;
		}
		got = read(fd, (char *)&r + len, max - len);
		len += got > 0 ? (size_t)got : 0;
		/* Its end may be long in coming: a fork of another thread's has the pipe, too. */
	} while (got != 0 && len < READY_LEN);
	switch (len >= READY_LEN ? (int)r.kind : 0) {
	case READY_LISTENS:
		return 0;
	case READY_FAILED:
		snprintf(err, err_len, "%s", r.text);
		return r.error;
	case READY_NO_EXEC:
		snprintf(err, err_len,
			 "cannot execute the broker %s: %s; let WEFT_BROKER name the weft program",
			 path, strerror(-r.error));
		return r.error;
	default:
		snprintf(err, err_len,
			 "the broker %s ended at once; `weft broker --foreground` shows why", path);
		return -ECHILD;
	}
}

int broker_spawn(const char *program, const int bag[2], const char *capture, char *err,
		 size_t err_len)
{
	char path[PATH_MAX], idle[16], fd[16], bag_fd[16];
	const char *argv[12] = {"weft",	      "broker", "--foreground", "--idle-exit-ms", idle,
				"--ready-fd", fd};
	size_t argc = 7;
	int ready[2], status, rc;
	char **env;
	pid_t pid;

	if (program) {
		snprintf(path, sizeof(path), "%s", program);
	} else if (!find_program(path)) {
		snprintf(err, err_len,
			 "no broker runs, none is installed beside the library, and a program with "
			 "privileges of its own starts no other");
		return -EPERM;
	}
	snprintf(idle, sizeof(idle), "%d", BROKER_IDLE_EXIT_MS);
	snprintf(fd, sizeof(fd), "%d", READY_FD);
	snprintf(bag_fd, sizeof(bag_fd), "%d", BAG_IN);
	if (bag) {
		argv[argc++] = "--bag-fd";
		argv[argc++] = bag_fd;
	}
	if (capture) {
		argv[argc++] = "--pcap";
		argv[argc++] = capture;
	}
	env = clean_environment();
	if (!env || pipe2(ready, O_CLOEXEC) < 0) {
		rc = env ? -errno : -ENOMEM;
		snprintf(err, err_len, "cannot start the broker: %s", errno_text(-rc));
		goto out;
	}
	pid = bare_fork();
	if (pid == 0) {
		/* The terminal's signals are not for it. No session of its own: it would be an
		 * autogroup of its own, too (sched(7)), and the scheduler of Linux 6.18 lets one
		 * wait for seconds beside another that is busy. */
		setpgid(0, 0);
		/* Twice, so that the broker is nobody's child. */
		if (bare_fork() == 0)
			become_broker(path, argv, env, ready[1], bag);
		leave(0);
	}
	rc = pid < 0 ? -errno : 0;
	close(ready[1]);
	if (rc == 0) {
		while (waitpid(pid, &status, __WALL) < 0 && errno == EINTR)
			;
		rc = await_ready(ready[0], path, err, err_len);
	} else {
		snprintf(err, err_len, "cannot start the broker: %s", errno_text(-rc));
	}
	close(ready[0]);
out:
	free(env);
	return rc;
}

void broker_spawn_report(int fd, int error, const char *text)
{
	struct ready r = {.kind = error ? READY_FAILED : READY_LISTENS, .error = error};

	if (error)
		snprintf(r.text, sizeof(r.text), "%s", text);
	/* Whoever waited may be gone: then nobody needs to know. */
	if (write(fd, &r, READY_LEN + strlen(r.text)) < 0)
		log_info("broker", "nobody waits for this broker: %s", strerror(errno));
	close(fd);
}
