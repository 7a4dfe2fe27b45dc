/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What the cases of the differential tester have in common.
 *
 * A case is a function that two processes run, the server and the client, each in a network of its
 * own. What it says is its transcript: the same over TCP and over `weft run --sockets`, so nothing
 * of it may depend on time, on ports or on chance. Transcripts, and what keeps the two in step, are
 * in memory that both share: no descriptor of the tester's own is in a case's way.
 */
#ifndef INTEROP_SOCKETS_CASE_H
#define INTEROP_SOCKETS_CASE_H

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

struct test_case {
	const char *name;
	void (*run)(void);
	void (*after)(int fd); /* what the program does that became() starts */
	unsigned limit_s;      /* 0: the usual */
};

#define CASE(function)                             \
	{                                          \
		.name = #function, .run = function \
	}
#define CASE_AFTER(function, then)                                \
	{                                                         \
		.name = #function, .run = function, .after = then \
	}

/* ---- who we are ------------------------------------------------------------------------------ */

extern bool server; /* or the client */

enum { BAD = 16, NAME = 64 };
/* Never an address, and none as compilers see it. */
extern void *const volatile bad, *const volatile nowhere;
/* -1, likewise. */
extern const volatile int minus;

/* ---- the transcript -------------------------------------------------------------------------- */

void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* A call, as it stands in the source, with its number or its errno; of descriptors: "ok". */
#define T(call) (errno = 0, told(#call, (long)(call), false))
#define F(call) ((int)(errno = 0, told(#call, (long)(call), true)))
long told(const char *call, long rc, bool number);
const char *events_name(unsigned events); /* in a buffer of this thread's */
/* What the tester relies on, and no promise of sockets: ends the role. */
#define need(x)                                       \
	do {                                          \
		if (!(x))                             \
			fail(#x, __FILE__, __LINE__); \
	} while (0)
void fail(const char *what, const char *file, int line) __attribute__((noreturn));

/* ---- in step --------------------------------------------------------------------------------- */

/* Both are here. Ends the role if the other has ended. */
void meet(void);
/* A few numbers from one to the other; meet() orders them. */
void tell(int which, long value);
long asked(int which);
void nap(int ms);

/* ---- connections ----------------------------------------------------------------------------- */

struct sockaddr_in at(bool servers, int port);
struct sockaddr_in6 at6(bool servers, int port);
#define SA(a) ((struct sockaddr *)(a))
/* The case's port, and nine more. */
int port(int n);
/* One that takes everything and answers nothing; one where no route leads. */
struct sockaddr_in silent(void);
struct sockaddr_in unreachable(void);

int tcp_socket(int flags);
/* At port(0), backlog 16. */
int listening(void);
int connected(void);
/* Server: listens, accepts. Client: connects. Both have it when either goes on. */
int joined(void);
/* The same with the listener kept, and so many of them, made one by one. */
int joined_more(int *listener, int *fds, int n);
void nonblocking(int fd, bool);

/* ---- data ------------------------------------------------------------------------------------ */

/* So many bytes of a sequence, from an offset in it: by pieces of odd sizes. */
void pour(int fd, unsigned seed, size_t offset, size_t n);
/* Reads so many and says whether they are those. */
void drink(int fd, unsigned seed, size_t offset, size_t n);
bool gulp(int fd, unsigned seed, size_t offset, size_t n);
/* Reads to the end, and says how many and which, and what the end was. */
void drain(int fd);
void fill(uint8_t *buf, unsigned seed, size_t offset, size_t n);
uint32_t digest(uint32_t so_far, const void *, size_t);
/* Waits for the bytes to be there without reading them. */
void await_bytes(int fd, int n);
/* Waits for all of `want`, three seconds at most, and says what there is. */
unsigned await_events(int fd, short events, short want);
/* What there is at once, and a little later. */
void show_events(int fd, short events);
/* The bytes by name: "5 hello". */
void show(const char *what, const void *, long rc);
#define R(fd, n, flags) take(fd, n, flags, "recv(" #fd ", " #n ", " #flags ")")
long take(int fd, size_t n, int flags, const char *what);

/* ---- threads, children, programs ------------------------------------------------------------- */

pthread_t thread(void *(*)(void *), void *);
void *ended(pthread_t);
/* Has it got to sleep in a call? Waited for. */
void await_asleep(pid_t thread_or_process);
pid_t tid_of(void);
/* Waits for a child, and says how it ended. */
void reap(pid_t);
/* This program again, in place of this process: runs the case's `after` on a descriptor. */
void became(int fd);
/* Its argv, for posix_spawn() and the like. */
char **again(int fd);

/* A handler that counts; flags as SA_RESTART. */
void on_signal(int sig, int flags);
extern volatile sig_atomic_t signals;
/* A thread that sends `sig` to the thread that calls this, once that sleeps, every 50 ms until
 * told to end. */
struct pest {
	pthread_t thread, victim;
	pid_t tid;
	int sig, times, after_ms;
};
void pester(struct pest *, int sig, int times);
void pester_end(struct pest *);

#endif
