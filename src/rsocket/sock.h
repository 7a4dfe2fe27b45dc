/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What stream and datagram sockets have in common: a number, flags, the settings they begin with,
 * and a way to be waited for.
 *
 * This room stands on the public verbs and rdma_cm APIs and nothing else, as rdma-core's rsockets
 * do, so it runs on any RNIC. Functions that are not of rsocket(7) return 0, a count, or -errno.
 *
 * Waiting: what a thread waits for happens either on the completion queue, whose channel is a
 * descriptor, or elsewhere: the service thread makes a connection, another thread takes the
 * channel's event. For the latter a socket has an eventfd, which is also its number in
 * rsocket(7). Whoever changes what others may wait for calls sock_wake(); who waits counts itself
 * in `waiters` first and then looks once more, so that one of the two sees the other. Of the
 * threads that block in one socket's calls one sleeps on the descriptors and wakes the others
 * (struct sleepers), so none can take an event from under another. Who waits for many sockets
 * watches them (struct sock_watcher) and has a descriptor of its own to be woken by.
 *
 * Where the RNIC is weft's own a sleeper can do better, see rsocket/attend.h.
 */
#ifndef WEFT_RSOCKET_SOCK_H
#define WEFT_RSOCKET_SOCK_H

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/compiler.h"
#include "base/list.h"
#include "base/time.h"

/* ---- settings -------------------------------------------------------------------------------- */

enum {
	RS_SNDLOWAT = 2048, /* a sender waits until so much of its buffer is free */
	RS_QP_SIZE_MIN = 16,
	RS_QP_SIZE_MAX = 0xfffe,
	RS_WAKE_UP_MS = 500, /* the longest sleep in rpoll(): a guard, nothing depends on it */
};

struct settings {
	uint32_t sbuf_size, rbuf_size;
	uint32_t sq_size, rq_size;
	uint32_t sq_inline;
	uint32_t iomap_size;
	uint32_t polling_us;
	int wake_up_ms;
};

/* The defaults, with what the files of /etc/rdma/rsocket say. */
const struct settings *settings_default(void);

/* ---- sockets --------------------------------------------------------------------------------- */

struct sock {
	int type;   /* SOCK_STREAM or SOCK_DGRAM */
	int domain; /* AF_INET or AF_INET6 */
	int fd;	    /* its number and its eventfd */
	int fd_flags;
	_Atomic int fl_flags;
	unsigned int generation; /* of the process: a fork makes what it inherits useless */
	atomic_int waiters;	 /* those who block in its calls */
	struct sleepers {
		pthread_mutex_t lock;
		_Atomic uint32_t turn;		 /* a futex: has changed when they are to look */
		unsigned int behind;		 /* so many sleep on it */
		bool led;			 /* one is on the descriptors */
		_Atomic(const void *) attendant; /* that one: attend_self() */
	} sleepers;
	atomic_int watching;
	pthread_mutex_t watch_lock;
	struct list watchers;
	int rcv_timeout_ms, snd_timeout_ms; /* -1: none */
};

/* told() is called by sock_wake(), from any thread, that of the watcher included if it receives for
 * itself; it must not block nor call back. */
struct sock_watcher {
	struct list node;
	void (*told)(struct sock_watcher *);
};

/* With an eventfd; fd -1 if there is none to have. */
int sock_init(struct sock *, int type, int domain) must_use;
void sock_fini(struct sock *);
/* Moves it to the lowest number that is free: what accept() gives is numbered when it gives it. */
int sock_renumber(struct sock *) must_use;

/* The socket of that number, or NULL with errno EBADF. */
struct sock *sock_lookup(int fd);
int sock_insert(struct sock *) must_use;
void sock_remove(struct sock *);

/* What this process counts its generation by; see struct sock. */
unsigned int sock_generation(void);
static inline bool sock_inherited(const struct sock *s)
{
	return s->generation != sock_generation();
}

static inline bool sock_nonblocking(const struct sock *s, int flags)
{
	return (atomic_load_explicit(&s->fl_flags, memory_order_relaxed) & O_NONBLOCK) ||
	       (flags & MSG_DONTWAIT);
}

void sock_wake(struct sock *);
void sock_watch(struct sock *, struct sock_watcher *);
void sock_unwatch(struct sock *, struct sock_watcher *);
/*
 * Around each sleep of a call, in which nothing is locked; p for begin() is end()'s. What begin()
 * gives but 0 is the sleep's outcome, without any; end() has the outcome and gives it, or another.
 * `restarts`: -ERESTART after a handler with SA_RESTART, for what is to go on if it has done
 * nothing yet, and to say what it has done if it has, as the kernel has it. This is so with
 * --sockets, which puts its own functions here; with rsocket(7) every handler is -EINTR.
 */
struct sock_pause {
	unsigned int depth;
	int cancel_state;
};
extern struct sock_sleeping {
	int (*begin)(struct sock_pause *, bool restarts);
	int (*end)(const struct sock_pause *, int rc, bool restarts);
	int (*ppoll)(struct pollfd *, nfds_t, const struct timespec *, const sigset_t *);
} sock_sleeping;
/* As ppoll(2), but -errno, and so. */
int sock_sleep_on(struct pollfd *, nfds_t, int timeout_ms, const sigset_t *mask,
		  bool restarts) must_use;
/* When a call that has begun now, with such a timeout, has waited long enough; and what is left of
 * that. */
static inline uint64_t sock_until(int timeout_ms)
{
	return timeout_ms < 0 ? UINT64_MAX : time_now_ns() + (uint64_t)timeout_ms * NSEC_PER_MSEC;
}

static inline int sock_left_ms(uint64_t until_ns)
{
	uint64_t now_ns;

	if (until_ns == UINT64_MAX)
		return -1;
	now_ns = time_now_ns();
	return until_ns <= now_ns ? 0
				  : (int)((until_ns - now_ns + NSEC_PER_MSEC - 1) / NSEC_PER_MSEC);
}

/*
 * Sleeps until ready(), which is asked under sleepers.lock: 0, -EAGAIN after timeout_ms (-1:
 * never), -EINTR or -ERESTART; as signal(7) has it, with a timeout no call goes on. event_fd()
 * gives the descriptor to sleep on besides the eventfd, or -1, and taken() is called when it was
 * readable.
 */
struct sock_waiting {
	bool (*ready)(void *arg);
	int (*event_fd)(void *arg);
	void (*taken)(void *arg);
	void *arg;
};
int sock_sleep(struct sock *, const struct sock_waiting *, int timeout_ms) must_use;

static inline uint32_t clamp_u32(uint32_t v, uint32_t lo, uint32_t hi)
{
	return v < lo ? lo : v > hi ? hi : v;
}

/* Of an iovec, -EINVAL if it is none. */
ssize_t iov_length(const struct iovec *, size_t count) must_use;

/* ---- addresses ------------------------------------------------------------------------------- */

/* The length of an address of a family that we have, or 0. */
socklen_t addr_length(const struct sockaddr *);
/* Copies as getsockname(2) does; an IPv4 address on an IPv6 socket goes out in mapped form. */
int addr_copy_out(const struct sock *, const struct sockaddr *from, struct sockaddr *to,
		  socklen_t *len);
/* Checks an address that the application gave, and takes it out of mapped form. */
int addr_copy_in(const struct sock *, const struct sockaddr *from, socklen_t len,
		 struct sockaddr_storage *to) must_use;

#endif
