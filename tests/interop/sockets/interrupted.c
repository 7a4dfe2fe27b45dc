// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/* Calls that block, and what ends them: handlers with SA_RESTART and without, a stop, a timeout, a
 * shutdown, another thread's call on the same socket. */
#include <setjmp.h>
#include <sys/time.h>

#include "case.h"

/* On a busy machine, too, whoever is to have its signal, or is to wait, does by then: and nothing
 * comes from the other end before. */
enum { SIGNAL_MS = 150, LATE_MS = 1000 };

static void alarm_in(int ms)
{
	const struct itimerval v = {.it_value = {ms / 1000, ms % 1000 * 1000}};

	need(!setitimer(ITIMER_REAL, &v, NULL));
}

static void timeout_of(int fd, int name, int ms)
{
	const struct timeval v = {ms / 1000, ms % 1000 * 1000};

	T(setsockopt(fd, SOL_SOCKET, name, &v, sizeof(v)));
}

/* The server sends when the client, which waits for it, has had its signal. */
static int late_data(void)
{
	int fd = joined();

	if (server) {
		nap(LATE_MS);
		need(send(fd, "abc", 3, 0) == 3);
		meet();
		_exit(0);
	}
	return fd;
}

static void done(void)
{
	alarm_in(0);
	say("signals: %d", signals);
	meet();
}

/* ---- reading --------------------------------------------------------------------------------- */

static void read_with(int flags)
{
	int fd = late_data();
	char buf[8];

	on_signal(SIGALRM, flags);
	alarm_in(SIGNAL_MS);
	T(read(fd, buf, sizeof(buf)));
	done();
}

static void interrupted_read_restarts(void)
{
	read_with(SA_RESTART);
}

static void interrupted_read(void)
{
	read_with(0);
}

/* Of programs that have handlers of both kinds. */
static void interrupted_read_restarts_of_both(void)
{
	on_signal(SIGUSR1, 0);
	read_with(SA_RESTART);
}

static void interrupted_read_of_both(void)
{
	on_signal(SIGUSR1, SA_RESTART);
	read_with(0);
}

static void interrupted_read_ignored(void)
{
	int fd = late_data();
	char buf[8];

	signal(SIGALRM, SIG_IGN);
	alarm_in(SIGNAL_MS);
	T(read(fd, buf, sizeof(buf)));
	done();
}

static void count_signal(int sig)
{
	(void)sig;
	signals++;
}

/* What signal(2) makes restarts, until siginterrupt(3). */
static void interrupted_by_signal2(void)
{
	int fd = late_data();

	signal(SIGALRM, count_signal);
	alarm_in(SIGNAL_MS);
	R(fd, 8, 0);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
	siginterrupt(SIGALRM, 1);
#pragma GCC diagnostic pop
	alarm_in(SIGNAL_MS);
	R(fd, 8, 0);
	done();
}

static void interrupted_recvmsg_restarts(void)
{
	int fd = late_data();
	char buf[8];
	struct iovec iov = {buf, sizeof(buf)};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

	on_signal(SIGALRM, SA_RESTART);
	alarm_in(SIGNAL_MS);
	T(recvmsg(fd, &msg, 0));
	done();
}

/* With a timeout no call goes on. */
static void interrupted_recv_with_timeout(void)
{
	int fd = late_data();

	on_signal(SIGALRM, SA_RESTART);
	timeout_of(fd, SO_RCVTIMEO, 3000);
	alarm_in(SIGNAL_MS);
	R(fd, 8, 0);
	done();
}

static void interrupted_waitall(void)
{
	int fd = joined();

	if (server) {
		need(send(fd, "ab", 2, 0) == 2);
		meet();
		nap(LATE_MS);
		need(send(fd, "cdef", 4, 0) == 4);
	} else {
		meet();
		await_bytes(fd, 2);
		on_signal(SIGALRM, SA_RESTART);
		alarm_in(SIGNAL_MS);
		R(fd, 4, MSG_WAITALL);
		R(fd, 4, MSG_WAITALL);
		alarm_in(0);
	}
	meet();
}

/* ---- writing --------------------------------------------------------------------------------- */

static void interrupted_write_in_part(void)
{
	int fd = joined();

	if (server) {
		nap(LATE_MS);
		for (char buf[4096]; recv(fd, buf, sizeof(buf), 0) > 0;)
			;
	} else {
		const size_t much = 64 << 20;
		void *p = mmap(NULL, much, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		ssize_t n;

		on_signal(SIGALRM, SA_RESTART);
		alarm_in(SIGNAL_MS);
		n = write(fd, p, much);
		say("%s", n < 0 ? strerrorname_np(errno) : (size_t)n < much ? "in part" : "all");
		need(!shutdown(fd, SHUT_WR));
	}
	meet();
}

/* ---- accepting ------------------------------------------------------------------------------- */

static void accept_with(int flags, int timeout_ms)
{
	if (server) {
		int fd = listening();

		on_signal(SIGALRM, flags);
		if (timeout_ms)
			timeout_of(fd, SO_RCVTIMEO, timeout_ms);
		meet();
		alarm_in(SIGNAL_MS);
		F(accept(fd, NULL, NULL));
		alarm_in(0);
		say("signals: %d", signals);
		meet();
		F(accept(fd, NULL, NULL));
	} else {
		meet();
		nap(LATE_MS);
		need(connected() >= 0);
		meet();
		need(connected() >= 0);
	}
	meet();
}

static void interrupted_accept_restarts(void)
{
	accept_with(SA_RESTART, 0);
}

static void interrupted_accept(void)
{
	accept_with(0, 0);
}

static void interrupted_accept_with_timeout(void)
{
	accept_with(SA_RESTART, 5000);
}

static void accept_times_out(void)
{
	if (server) {
		int fd = listening();

		timeout_of(fd, SO_RCVTIMEO, 200);
		F(accept(fd, NULL, NULL));
	}
	meet();
}

static void *accept_once(void *arg)
{
	const int fd = accept(*(int *)arg, NULL, NULL);

	return (void *)(intptr_t)(fd < 0 ? errno : 0);
}

static void accepts_no_more(int how)
{
	if (server) {
		int fd = listening(), accepting = -1;
		socklen_t len = sizeof(accepting);
		pthread_t t = thread(accept_once, &fd);

		nap(200);
		T(shutdown(fd, how));
		say("who waited: %s", strerrorname_np((int)(intptr_t)ended(t)));
		F(accept(fd, NULL, NULL));
		show_events(fd, POLLIN | POLLOUT | POLLRDHUP);
		T(getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &accepting, &len));
		say("accepts: %d", accepting);
		T(shutdown(fd, how));
		meet();
		meet();
		T(listen(fd, 3));
		T(getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &accepting, &len));
		say("accepts: %d", accepting);
		meet();
		F(accept(fd, NULL, NULL));
	} else {
		struct sockaddr_in to = at(true, port(0));
		int fd = tcp_socket(0);

		meet();
		T(connect(fd, SA(&to), sizeof(to)));
		meet();
		meet();
		F(connected());
	}
	meet();
}

static void accept_after_shutdown(void)
{
	accepts_no_more(SHUT_RD);
}

static void accept_after_shutdown_of_both(void)
{
	accepts_no_more(SHUT_RDWR);
}

/* ---- poll and select ------------------------------------------------------------------------- */

static void interrupted_poll(void)
{
	int fd = late_data();
	struct pollfd p = {.fd = fd, .events = POLLIN};

	on_signal(SIGALRM, SA_RESTART);
	alarm_in(SIGNAL_MS);
	T(poll(&p, 1, 3000));
	T(poll(&p, 1, 3000));
	done();
}

static void interrupted_select(void)
{
	int fd = late_data();
	fd_set set;

	FD_ZERO(&set);
	FD_SET(fd, &set);
	on_signal(SIGALRM, SA_RESTART);
	alarm_in(SIGNAL_MS);
	T(select(fd + 1, &set, NULL, NULL, NULL));
	T(select(fd + 1, &set, NULL, NULL, NULL));
	done();
}

/* A signal that waits for the mask to let it through; the mask before it, to be given. */
static sigset_t blocked(int sig, int flags)
{
	sigset_t set, before;

	on_signal(sig, flags);
	sigemptyset(&set);
	sigaddset(&set, sig);
	need(!sigprocmask(SIG_BLOCK, &set, &before));
	need(!raise(sig));
	return before;
}

static void pending_ppoll(void)
{
	int fd = late_data();
	const sigset_t before = blocked(SIGUSR1, SA_RESTART);
	struct pollfd p = {.fd = fd, .events = POLLIN};
	struct timespec t = {.tv_sec = 3};

	T(ppoll(&p, 1, &t, &before));
	say("signals: %d", signals);
	raise(SIGUSR1);
	T(ppoll(&p, 1, &(struct timespec){0}, &before)); /* without waiting, too */
	say("signals: %d", signals);
	T(ppoll(&p, 1, &t, &before));
	raise(SIGUSR1);
	T(ppoll(&p, 1, &t, &before)); /* what is there goes before */
	done();
}

static void pending_pselect(void)
{
	int fd = late_data();
	const sigset_t before = blocked(SIGUSR1, 0);
	fd_set set;

	FD_ZERO(&set);
	FD_SET(fd, &set);
	T(pselect(fd + 1, &set, NULL, NULL, &(struct timespec){.tv_sec = 3}, &before));
	done();
}

static void later_ppoll(void)
{
	int fd = late_data();
	const sigset_t before = blocked(SIGALRM, 0);
	struct pollfd p = {.fd = fd, .events = POLLIN};

	T(ppoll(&p, 1, &(struct timespec){.tv_sec = 3}, &before));
	alarm_in(SIGNAL_MS);
	T(ppoll(&p, 1, &(struct timespec){.tv_sec = 3}, &before));
	done();
}

static void stopped(void)
{
	int fd = late_data();
	const pid_t us = getpid();
	pid_t child = fork();

	if (!child) {
		nap(100);
		kill(us, SIGSTOP);
		nap(100);
		kill(us, SIGCONT);
		_exit(0);
	}
	R(fd, 8, 0);
	reap(child);
	done();
}

/* ---- several threads on one socket ----------------------------------------------------------- */

static void *read_some(void *arg)
{
	char buf[8];
	const ssize_t n = recv(*(int *)arg, buf, sizeof(buf), 0);

	return (void *)(intptr_t)(n < 0 ? errno : -n);
}

/* Both wait for the same, and each is interrupted by its own signal. */
static void interrupted_threads(void)
{
	int fd = joined();

	if (!server) {
		pthread_t first, second;

		on_signal(SIGUSR1, 0);
		first = thread(read_some, &fd);
		nap(100);
		second = thread(read_some, &fd);
		nap(100);
		pthread_kill(second, SIGUSR1);
		say("second: %s", strerrorname_np((int)(intptr_t)ended(second)));
		pthread_kill(first, SIGUSR1);
		say("first: %s", strerrorname_np((int)(intptr_t)ended(first)));
	}
	meet();
}

/* One that waits holds up no other. */
static void beside_a_reader(void)
{
	int fd = joined();

	if (!server) {
		pthread_t reader = thread(read_some, &fd);
		int n = -1;

		nap(100);
		R(fd, 8, MSG_DONTWAIT);
		T(ioctl(fd, FIONREAD, &n));
		say("there: %d", n);
		timeout_of(fd, SO_RCVTIMEO, 100);
		R(fd, 8, 0);
		meet();
		say("reader: %d", (int)(intptr_t)ended(reader));
	} else {
		meet();
		need(send(fd, "abc", 3, 0) == 3);
	}
	meet();
}

static void *write_much(void *arg)
{
	static char much[32 << 20];

	need(send(*(int *)arg, much, sizeof(much), 0) == sizeof(much));
	return NULL;
}

static void beside_a_writer(void)
{
	int fd = joined();

	if (!server) {
		pthread_t writer = thread(write_much, &fd);

		nap(300);
		/* Whether there is room for it is chance. */
		need(send(fd, "abc", 3, MSG_DONTWAIT) == 3 || errno == EAGAIN);
		meet();
		ended(writer);
		need(!shutdown(fd, SHUT_WR));
	} else {
		size_t total = 0;
		ssize_t n;

		meet();
		for (char buf[65536]; (n = recv(fd, buf, sizeof(buf), 0)) > 0;)
			total += (size_t)n;
		say("all but %zu", (32u << 20) - (total & ~(size_t)3));
	}
	meet();
}

static void *read_until_cancelled(void *arg)
{
	char c;

	(void)!read(*(int *)arg, &c, 1);
	return NULL;
}

static void *poll_until_cancelled(void *arg)
{
	struct pollfd p = {.fd = *(int *)arg, .events = POLLIN};

	(void)!poll(&p, 1, -1);
	return NULL;
}

static void *epoll_until_cancelled(void *arg)
{
	struct epoll_event e = {.events = EPOLLIN};
	int set = epoll_create1(0);

	need(!epoll_ctl(set, EPOLL_CTL_ADD, *(int *)arg, &e));
	(void)!epoll_wait(set, &e, 1, -1);
	return NULL;
}

/* A thread that is cancelled in a call leaves the socket to the others. */
static void cancelled_in(void *(*call)(void *))
{
	int fd = joined();

	if (server) {
		meet();
		nap(200);
		need(send(fd, "abc", 3, 0) == 3);
	} else {
		for (int i = 0; i < 2; i++) {
			pthread_t t = thread(call, &fd);

			nap(100);
			need(!pthread_cancel(t));
			say("%s", ended(t) == PTHREAD_CANCELED ? "cancelled" : "came back");
		}
		meet();
		R(fd, 9, 0);
		T(send(fd, "abc", 3, 0));
	}
	meet();
}

static void cancelled_reader(void)
{
	cancelled_in(read_until_cancelled);
}

static void cancelled_poll(void)
{
	cancelled_in(poll_until_cancelled);
}

static void cancelled_epoll(void)
{
	cancelled_in(epoll_until_cancelled);
}

/* As old programs limit a call. */
static jmp_buf out;

static void jump(int sig)
{
	(void)sig;
	siglongjmp(out, 1);
}

static void jumped_out_of_read(void)
{
	int fd = joined();

	if (server) {
		meet();
		nap(200);
		need(send(fd, "abc", 3, 0) == 3);
	} else {
		signal(SIGALRM, jump);
		alarm_in(SIGNAL_MS);
		if (!sigsetjmp(out, 1))
			R(fd, 9, 0);
		else
			say("time is up");
		alarm_in(0);
		meet();
		R(fd, 9, 0);
	}
	meet();
}

/* ---- set before there is a connection -------------------------------------------------------- */

static void timeout_before(void)
{
	if (server) {
		int fd = listening(), conn;

		timeout_of(fd, SO_RCVTIMEO, 3000); /* the connection's, too */
		meet();
		conn = F(accept(fd, NULL, NULL));
		R(conn, 8, 0);
	} else {
		struct sockaddr_in to = at(true, port(0));
		int fd = tcp_socket(0);

		timeout_of(fd, SO_RCVTIMEO, 200);
		meet();
		T(connect(fd, SA(&to), sizeof(to)));
		R(fd, 8, 0);
	}
	meet();
}

static void timeout_negative(void)
{
	int fd = joined();

	timeout_of(fd, SO_RCVTIMEO, -1000);
	R(fd, 8, 0);
	meet();
}

const struct test_case interrupted_cases[] = {
	CASE(interrupted_read_restarts),
	CASE(interrupted_read),
	CASE(interrupted_read_restarts_of_both),
	CASE(interrupted_read_of_both),
	CASE(interrupted_read_ignored),
	CASE(interrupted_by_signal2),
	CASE(interrupted_recvmsg_restarts),
	CASE(interrupted_recv_with_timeout),
	CASE(interrupted_waitall),
	CASE(interrupted_write_in_part),
	CASE(interrupted_accept_restarts),
	CASE(interrupted_accept),
	CASE(interrupted_accept_with_timeout),
	CASE(accept_times_out),
	CASE(accept_after_shutdown),
	CASE(accept_after_shutdown_of_both),
	CASE(interrupted_poll),
	CASE(interrupted_select),
	CASE(pending_ppoll),
	CASE(pending_pselect),
	CASE(later_ppoll),
	CASE(stopped),
	CASE(interrupted_threads),
	CASE(beside_a_reader),
	CASE(beside_a_writer),
	CASE(cancelled_reader),
	CASE(cancelled_poll),
	CASE(cancelled_epoll),
	CASE(jumped_out_of_read),
	CASE(timeout_before),
	CASE(timeout_negative),
	{0},
};
