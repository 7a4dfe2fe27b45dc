// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/* What a signal's handler may do in the middle of whatever call on a socket, as signal-safety(7)
 * has it; and a thread that is cancelled there. */
#include <sys/time.h>

#include "case.h"

static int the_fd, idle_fd;
static volatile sig_atomic_t wrong;

static void alarms(int first_us, int then_us)
{
	struct itimerval it = {{0, then_us}, {0, first_us}};

	need(!setitimer(ITIMER_REAL, &it, NULL));
}

static void often(int us)
{
	alarms(us, us);
}

static void handle(int sig, void (*f)(int), int flags)
{
	struct sigaction a = {.sa_handler = f, .sa_flags = flags};

	need(!sigaction(sig, &a, NULL));
}

enum { MUCH = 3000000 };

/* Each pours and drinks with handlers coming; then nothing is left of them. */
static void busy(int fd)
{
	sigset_t now;

	if (server)
		pour(fd, 1, 0, MUCH);
	drink(fd, server ? 0 : 1, 0, MUCH);
	if (!server)
		pour(fd, 0, 0, MUCH);
	alarms(0, 0);
	need(!sigprocmask(SIG_BLOCK, NULL, &now));
	say("signals: %d, wrong: %d, blocked: %d", signals > 10, wrong, sigismember(&now, SIGUSR1));
	meet();
}

static void sends(int sig)
{
	int err = errno;

	(void)sig;
	wrong |= send(the_fd, "x", 1, MSG_DONTWAIT) != 1 && errno != EAGAIN;
	signals++;
	errno = err;
}

/* On the connection that the call is on: after all that was sent by then. */
static void handler_sends(void)
{
	char buf[4096];
	int n, xs = 0;

	the_fd = joined();
	if (server) {
		handle(SIGALRM, sends, SA_RESTART);
		often(300);
		drink(the_fd, 1, 0, 20000000);
		often(0);
		say("signals: %d, wrong: %d", signals > 10, wrong);
		T(shutdown(the_fd, SHUT_WR));
	} else {
		pour(the_fd, 1, 0, 20000000);
		while ((n = (int)recv(the_fd, buf, sizeof(buf), 0)) > 0)
			for (int i = 0; i < n; i++)
				xs += buf[i] == 'x' ? 1 : 1 << 20;
		say("xs: %d", xs > 10 && xs < 1 << 20);
	}
	meet();
}

static void asks(int sig)
{
	int err = errno, v;
	struct pollfd p = {.fd = idle_fd, .events = POLLIN};
	struct sockaddr_in a;
	socklen_t len = sizeof(a);

	(void)sig;
	wrong |= poll(&p, 1, 0) || recv(idle_fd, &v, 1, MSG_DONTWAIT) != -1 ||
		 getpeername(idle_fd, SA(&a), &len);
	len = sizeof(v);
	wrong |= getsockopt(idle_fd, SOL_SOCKET, SO_ERROR, &v, &len) || v;
	signals++;
	errno = err;
}

static void handler_asks(void)
{
	int listener, fds[2];

	joined_more(&listener, fds, 2);
	idle_fd = fds[1];
	handle(SIGALRM, asks, SA_RESTART);
	often(300);
	busy(fds[0]);
}

static void looks_at_mask(int sig)
{
	sigset_t now;

	(void)sig;
	wrong |= sigprocmask(SIG_BLOCK, NULL, &now) || !sigismember(&now, SIGALRM) ||
		 !sigismember(&now, SIGUSR2) || sigismember(&now, SIGUSR1) ||
		 sigismember(&now, SIGHUP);
	signals++;
}

/* What is blocked in it is what the program said. */
static void handler_masks(void)
{
	struct sigaction a = {.sa_handler = looks_at_mask, .sa_flags = SA_RESTART};
	int fd = joined();

	sigaddset(&a.sa_mask, SIGUSR2);
	need(!sigaction(SIGALRM, &a, NULL));
	often(300);
	busy(fd);
}

static void looks_at_info(int sig, siginfo_t *info, void *context)
{
	wrong |= sig != SIGALRM || info->si_signo != SIGALRM || info->si_code != SI_KERNEL ||
		 !context;
	signals++;
}

static void handler_told_much(void)
{
	struct sigaction a = {.sa_sigaction = looks_at_info, .sa_flags = SA_RESTART | SA_SIGINFO};
	int fd = joined();

	need(!sigaction(SIGALRM, &a, NULL));
	often(300);
	busy(fd);
}

static void again_once(int sig);

static void counts_once(int sig)
{
	struct sigaction now;

	(void)sig;
	signals++;
	wrong |= sigaction(SIGALRM, NULL, &now) || now.sa_handler != SIG_DFL;
	again_once(sig);
	alarms(300, 0);
}

static void again_once(int sig)
{
	handle(sig, counts_once, (int)(SA_RESETHAND | SA_RESTART));
}

/* One that is gone as it runs, and no sooner. */
static void handler_once(void)
{
	int fd = joined();

	again_once(SIGALRM);
	alarms(300, 0); /* over a second one the kernel would find no handler: it blocks it later */
	busy(fd);
}

static void reads(int sig)
{
	char c;

	(void)sig;
	if (read(the_fd, &c, 1) == 1 && c == 'a')
		signals++;
}

/* Over a call that sleeps for the same. */
static void handler_reads(void)
{
	struct pest p;
	char c = '-';

	the_fd = joined();
	if (server) {
		handle(SIGUSR1, reads, SA_RESTART);
		pester(&p, SIGUSR1, 1);
		T(read(the_fd, &c, 1));
		pester_end(&p);
		say("handler: %d, then %c", signals, c);
	} else {
		nap(500);
		T(send(the_fd, "a", 1, 0));
		nap(200);
		T(send(the_fd, "b", 1, 0));
	}
	meet();
}

static const char *name(void (*f)(int))
{
	return f == SIG_ERR    ? "error"
	       : f == SIG_DFL  ? "default"
	       : f == SIG_IGN  ? "ignored"
	       : f == SIG_HOLD ? "held"
	       : f == sends    ? "sends"
	       : f == reads    ? "reads"
			       : "another";
}

static void show_handler(int sig)
{
	struct sigaction a;

	need(!sigaction(sig, NULL, &a));
	say("%d: %s%s%s%s%s", sig, name(a.sa_handler), a.sa_flags & SA_RESTART ? " restart" : "",
	    a.sa_flags & SA_SIGINFO ? " info" : "", a.sa_flags & SA_NODEFER ? " nodefer" : "",
	    (unsigned)a.sa_flags & SA_RESETHAND ? " resets" : "");
}

/* Who asks is told the program's own. Old programs have old names. */
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
static void handler_names(void)
{
	if (server) {
		say("%s", name(signal(SIGUSR1, sends)));
		show_handler(SIGUSR1);
		say("%s", name(signal(SIGUSR1, reads)));
		T(siginterrupt(SIGUSR1, 1));
		show_handler(SIGUSR1);
		say("%s", name(signal(SIGUSR1, sends)));
		show_handler(SIGUSR1);
		T(siginterrupt(SIGUSR1, 0));
		show_handler(SIGUSR1);
		say("%s", name(sysv_signal(SIGUSR1, reads)));
		show_handler(SIGUSR1);
		say("%s", name(sigset(SIGUSR1, sends)));
		show_handler(SIGUSR1);
		say("%s", name(sigset(SIGUSR1, SIG_HOLD)));
		say("%s", name(sigset(SIGUSR1, reads)));
		say("%s", name(signal(SIGUSR1, SIG_IGN)));
		show_handler(SIGUSR1);
		say("%s", name(signal(SIGKILL, sends)));
		say("%s", name(signal(70, sends)));
		say("%s", name(signal(SIGUSR1, SIG_ERR)));
		T(sigaction(0, NULL, NULL));
	}
	meet();
}

static void *writes_for_ever(void *arg)
{
	while (write(*(int *)arg, "ab", 2) == 2)
		;
	return NULL;
}

/* Wherever in its calls it is then, the socket is the others' to use. */
static void handler_cancelled(void)
{
	int fd = joined();

	if (server) {
		for (int i = 0; i < 100; i++) {
			pthread_t t = thread(writes_for_ever, &fd);

			usleep((unsigned)(i % 7) * 100);
			need(!pthread_cancel(t));
			need(ended(t) == PTHREAD_CANCELED);
		}
		T(send(fd, "end", 3, 0));
		T(shutdown(fd, SHUT_WR));
	} else {
		char last[3] = "", buf[65536];
		ssize_t n;

		while ((n = recv(fd, buf, sizeof(buf), 0)) > 0)
			for (ssize_t i = 0; i < n; i++) {
				last[0] = last[1];
				last[1] = last[2];
				last[2] = buf[i];
			}
		say("%zd %.3s", n, last);
	}
	meet();
}

const struct test_case handlers_cases[] = {
	CASE(handler_sends),	 CASE(handler_asks),	  CASE(handler_masks),
	CASE(handler_told_much), CASE(handler_once),	  CASE(handler_reads),
	CASE(handler_names),	 CASE(handler_cancelled), {0},
};
