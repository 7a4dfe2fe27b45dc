// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#include <limits.h>
#include <linux/futex.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>

#include "board.h"
#include "case.h"

bool server;
void *const volatile bad = (void *)BAD, *const volatile nowhere;
const volatile int minus = -1;
volatile sig_atomic_t signals;
struct board *board;

/* ---- the transcript -------------------------------------------------------------------------- */

static void append(const char *text, size_t n)
{
	struct transcript *t = &board->said[!server];
	size_t begin = atomic_fetch_add(&t->length, n);

	if (begin + n <= sizeof(t->text))
		memcpy(t->text + begin, text, n);
}

void say(const char *format, ...)
{
	char line[1024];
	int err = errno, n;
	va_list args;

	va_start(args, format);
	n = vsnprintf(line, sizeof(line) - 1, format, args);
	va_end(args);
	n = n < (int)sizeof(line) - 2 ? n : (int)sizeof(line) - 2;
	line[n] = '\n';
	append(line, (size_t)n + 1);
	errno = err;
}

long told(const char *call, long rc, bool number)
{
	if (rc == -1 && errno)
		say("%s: %s", call, strerrorname_np(errno));
	else if (number && rc >= 0)
		say("%s: ok", call);
	else
		say("%s: %ld", call, rc);
	return rc;
}

const char *events_name(unsigned events)
{
	static const struct {
		unsigned bit;
		const char *name;
	} names[] = {{POLLIN, "IN"},	     {POLLPRI, "PRI"},	     {POLLOUT, "OUT"},
		     {POLLERR, "ERR"},	     {POLLHUP, "HUP"},	     {POLLNVAL, "NVAL"},
		     {POLLRDNORM, "RDNORM"}, {POLLRDBAND, "RDBAND"}, {POLLWRNORM, "WRNORM"},
		     {POLLWRBAND, "WRBAND"}, {POLLRDHUP, "RDHUP"}};
	static _Thread_local char text[128];

	strcpy(text, events ? "" : "nothing");
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (events & names[i].bit)
			strcat(strcat(text, *text ? "|" : ""), names[i].name);
	return text;
}

void fail(const char *what, const char *file, int line)
{
	const char *name = strrchr(file, '/');

	say("%s:%d: %s: %s", name ? name + 1 : file, line, what, strerror(errno));
	_exit(98);
}

/* ---- in step --------------------------------------------------------------------------------- */

static void futex_wait(_Atomic(uint32_t) *word, uint32_t value)
{
	const struct timespec limit = {.tv_nsec = 100000000};

	syscall(SYS_futex, word, FUTEX_WAIT, value, &limit, NULL, 0);
}

void meet(void)
{
	const uint32_t mine = atomic_fetch_add(&board->met[!server], 1) + 1;

	syscall(SYS_futex, &board->met[!server], FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
	for (;;) {
		const bool gone = atomic_load(&board->gone[server]);
		const uint32_t theirs = atomic_load(&board->met[server]);

		if ((int32_t)(theirs - mine) >= 0)
			return;
		if (gone) {
			say("the other side is gone");
			_exit(97);
		}
		futex_wait(&board->met[server], theirs);
	}
}

void tell(int which, long value)
{
	atomic_store(&board->value[which], value);
}

long asked(int which)
{
	return atomic_load(&board->value[which]);
}

void nap(int ms)
{
	struct timespec left = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};

	while (nanosleep(&left, &left) && errno == EINTR)
		;
}

/* ---- connections ----------------------------------------------------------------------------- */

int port(int n)
{
	return (int)board->port + n;
}

static struct sockaddr_in v4(const char *text, int p)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)p)};

	need(inet_pton(AF_INET, text, &a.sin_addr) == 1);
	return a;
}

struct sockaddr_in at(bool servers, int p)
{
	return v4(board->address[!servers], p);
}

struct sockaddr_in6 at6(bool servers, int p)
{
	struct sockaddr_in6 a = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)p)};

	need(inet_pton(AF_INET6, board->address6[!servers], &a.sin6_addr) == 1);
	return a;
}

struct sockaddr_in silent(void)
{
	return v4(board->silent, port(0));
}

struct sockaddr_in unreachable(void)
{
	return v4("192.0.2.1", port(0));
}

int tcp_socket(int flags)
{
	int fd = socket(AF_INET, SOCK_STREAM | flags, 0);

	need(fd >= 0);
	return fd;
}

int listening(void)
{
	struct sockaddr_in a = at(true, port(0));
	int fd = tcp_socket(0), one = 1;

	need(!setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)));
	need(!bind(fd, SA(&a), sizeof(a)));
	need(!listen(fd, 16));
	return fd;
}

int connected(void)
{
	struct sockaddr_in a = at(true, port(0));
	int fd = tcp_socket(0);

	need(!connect(fd, SA(&a), sizeof(a)));
	return fd;
}

int joined_more(int *listener, int *fds, int n)
{
	if (server)
		need((*listener = listening()) >= 0);
	meet();
	for (int i = 0; i < n; i++) {
		fds[i] = server ? accept(*listener, NULL, NULL) : connected();
		need(fds[i] >= 0);
		meet();
	}
	return fds[0];
}

int joined(void)
{
	int listener, fd;

	joined_more(&listener, &fd, 1);
	if (server)
		need(!close(listener));
	meet();
	return fd;
}

void nonblocking(int fd, bool on)
{
	int flags = fcntl(fd, F_GETFL);

	need(!fcntl(fd, F_SETFL, on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK));
}

/* ---- data ------------------------------------------------------------------------------------ */

void fill(uint8_t *buf, unsigned seed, size_t offset, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		uint64_t x = (offset + i + 1) * 0x9e3779b97f4a7c15u + seed * 0xbf58476d1ce4e5b9u;

		buf[i] = (uint8_t)((x ^ x >> 29) * 0x94d049bb133111ebu >> 56);
	}
}

uint32_t digest(uint32_t so_far, const void *data, size_t n)
{
	const uint8_t *p = data;

	for (so_far = so_far ? so_far : 2166136261u; n--; p++)
		so_far = (so_far ^ *p) * 16777619u;
	return so_far;
}

enum { PIECE = 65536 };

/* 1, 2, 6, 12, ... up to a piece, again and again. */
static size_t odd_size(size_t *state, size_t left)
{
	*state = !*state || *state >= PIECE / 2 ? 1 : *state * 2 + *state % 3;
	return *state < left ? *state : left;
}

void pour(int fd, unsigned seed, size_t offset, size_t n)
{
	uint8_t *buf = malloc(PIECE);
	size_t state = seed % 7, done = 0;

	need(buf);
	while (done < n) {
		size_t part = odd_size(&state, n - done);
		ssize_t sent;

		fill(buf, seed, offset + done, part);
		sent = send(fd, buf, part, MSG_NOSIGNAL);
		if (sent <= 0) {
			say("send: %s", sent ? strerrorname_np(errno) : "0");
			break;
		}
		done += (size_t)sent;
	}
	free(buf);
}

bool gulp(int fd, unsigned seed, size_t offset, size_t n)
{
	uint8_t *buf = malloc(PIECE), *due = malloc(PIECE);
	size_t state = seed % 5 + 2, done = 0;

	need(buf && due);
	while (done < n) {
		ssize_t got = recv(fd, buf, odd_size(&state, n - done), 0);

		if (got <= 0) {
			say("recv after %zu bytes: %s", done, got ? strerrorname_np(errno) : "end");
			break;
		}
		fill(due, seed, offset + done, (size_t)got);
		if (memcmp(buf, due, (size_t)got)) {
			say("what came after %zu bytes is wrong", done);
			break;
		}
		done += (size_t)got;
	}
	free(buf);
	free(due);
	return done == n;
}

void drink(int fd, unsigned seed, size_t offset, size_t n)
{
	if (gulp(fd, seed, offset, n))
		say("%zu bytes as they were sent", n);
}

void drain(int fd)
{
	uint8_t *buf = malloc(PIECE);
	uint32_t sum = 0;
	size_t n = 0;
	ssize_t got;

	need(buf);
	while ((got = recv(fd, buf, PIECE, 0)) > 0) {
		sum = digest(sum, buf, (size_t)got);
		n += (size_t)got;
	}
	say("%zu bytes, %08x, then %s", n, sum, got ? strerrorname_np(errno) : "the end");
	free(buf);
}

void await_bytes(int fd, int n)
{
	int there = 0;

	for (int i = 0; i < 300; i++, nap(10)) {
		need(!ioctl(fd, FIONREAD, &there));
		if (there >= n)
			return;
	}
	say("of %d bytes %d are there", n, there);
}

static unsigned events_of(int fd, short events)
{
	struct pollfd p = {.fd = fd, .events = events};

	if (poll(&p, 1, 0) < 0)
		say("poll: %s", strerrorname_np(errno));
	return (unsigned)(unsigned short)p.revents;
}

unsigned await_events(int fd, short events, short want)
{
	unsigned there = 0;

	for (int i = 0; i < 300; i++, nap(10)) {
		there = events_of(fd, events);
		if ((there & (unsigned)want) == (unsigned)want)
			break;
	}
	nap(20); /* what comes with it */
	there = events_of(fd, events);
	say("poll for %s", events_name((unsigned short)events));
	say("    %s", events_name(there));
	return there;
}

void show_events(int fd, short events)
{
	nap(100);
	say("poll for %s", events_name((unsigned short)events));
	say("    %s", events_name(events_of(fd, events)));
}

void show(const char *what, const void *data, long rc)
{
	if (rc < 0)
		say("%s: %s", what, strerrorname_np(errno));
	else if (rc <= 40)
		say("%s: %ld \"%.*s\"", what, rc, (int)rc, (const char *)data);
	else
		say("%s: %ld, %08x", what, rc, digest(0, data, (size_t)rc));
}

long take(int fd, size_t n, int flags, const char *what)
{
	char *buf = calloc(1, n + 1);
	ssize_t rc;

	need(buf);
	errno = 0;
	rc = recv(fd, buf, n, flags);
	show(what, buf, rc);
	free(buf);
	return rc;
}

/* ---- threads, children, programs ------------------------------------------------------------- */

pthread_t thread(void *(*f)(void *), void *arg)
{
	pthread_t t;

	need(!pthread_create(&t, NULL, f, arg));
	return t;
}

void *ended(pthread_t t)
{
	void *ret;

	need(!pthread_join(t, &ret));
	return ret;
}

pid_t tid_of(void)
{
	return (pid_t)syscall(SYS_gettid);
}

/* A few times in a row, 10 ms apart: weft's waiting may wake for a moment. */
void await_asleep(pid_t id)
{
	int asleep = 0;

	for (int i = 0; i < 500 && asleep < 5; i++, nap(10)) {
		char path[64], stat[512] = "", *end;
		int fd;

		snprintf(path, sizeof(path), "/proc/%d/stat", id);
		fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			return;
		(void)!syscall(SYS_read, fd, stat, sizeof(stat) - 1);
		syscall(SYS_close, fd);
		end = strrchr(stat, ')');
		asleep = end && end[2] == 'S' ? asleep + 1 : 0;
	}
}

void reap(pid_t pid)
{
	int status;

	need(waitpid(pid, &status, 0) == pid);
	if (WIFSIGNALED(status))
		say("the child is killed by SIG%s", sigabbrev_np(WTERMSIG(status)));
	else
		say("the child ends with %d", WEXITSTATUS(status));
}

/* The role's own, which may be another than the driver's. */
static char program[PATH];

char **again(int fd)
{
	static char number[16];
	static char *argv[5];

	snprintf(number, sizeof(number), "%d", fd);
	need(readlink("/proc/self/exe", program, PATH - 1) > 0);
	argv[0] = program;
	argv[1] = (char *)"after";
	argv[2] = (char *)(server ? "server" : "client");
	argv[3] = number;
	return argv;
}

void became(int fd)
{
	char **argv = again(fd);

	execv(argv[0], argv);
	say("execv: %s", strerrorname_np(errno));
}

static void count_signal(int sig)
{
	(void)sig;
	signals++;
}

void on_signal(int sig, int flags)
{
	struct sigaction a = {.sa_handler = count_signal, .sa_flags = flags};

	need(!sigaction(sig, &a, NULL));
}

static void *pest(void *arg)
{
	struct pest *p = arg;

	for (int i = 0; i < p->times; i++) {
		await_asleep(p->tid);
		nap(p->after_ms);
		pthread_kill(p->victim, p->sig);
	}
	return NULL;
}

void pester(struct pest *p, int sig, int times)
{
	sigset_t set, before;

	*p = (struct pest){.victim = pthread_self(),
			   .tid = tid_of(),
			   .sig = sig,
			   .times = times,
			   .after_ms = 20};
	sigfillset(&set);
	pthread_sigmask(SIG_BLOCK, &set, &before);
	p->thread = thread(pest, p);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void pester_end(struct pest *p)
{
	ended(p->thread);
}
