/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * libweft-sockets.so: a program's TCP over RDMA, by LD_PRELOAD. Its calls of the C library's socket
 * functions come here first.
 *
 * A program's TCP socket stays what it is, a socket of the kernel: it keeps the number, the
 * O_NONBLOCK flag, the options and the local address, which is also the RDMA one's. With connect()
 * or listen() it gets a stream (rsocket/stream.h), and from then on data go through that. Where
 * RDMA cannot connect, the kernel's socket does; a listener takes both. With WEFT_SOCKETS=only in
 * the environment nothing goes over TCP.
 *
 * An entry is a tracked socket, shared by the numbers that dup() made of it. Whether a number is
 * still that socket's the kernel is asked in every call (entry_get()): it may have been closed, and
 * be a file's, unseen by us. What is not tracked goes to the C library untouched, and so does
 * everything in the child of a vfork(), which shares this memory. In the child of a fork()
 * connections are the parent's, but for those that can be made sockets of the kernel for both
 * (relay.c). A listener answers when its process accepts (stream_answer_late()), so that who comes
 * while another process accepts in its stead is not left alone with a connection that nobody has:
 * it is rejected, and comes by TCP.
 *
 * Calls are inside (inside.h) while they have locks or entries.
 *
 * Locks: the table's, which guards references; an entry's, for its change from one kind to another;
 * epoll's (epoll.c). Order: entry, epoll, table.
 */
#ifndef WEFT_SOCKETS_SOCKETS_H
#define WEFT_SOCKETS_SOCKETS_H

#include <pthread.h>
#include <sys/epoll.h>
#include <sys/types.h>

#include "base/list.h"
#include "rsocket/guard.h"
#include "rsocket/pollset.h"
#include "rsocket/stream.h"
#include "sockets/inside.h"

struct file_id {
	dev_t dev;
	ino_t ino;
};

struct entry {
	int refs;    /* table's lock: numbers, and calls under way */
	int numbers; /* table's lock */
	int domain;
	int fd;		     /* a number of it: entry_number() */
	struct file_id file; /* the kernel's socket */
	pthread_mutex_t lock;
	struct stream *stream; /* NULL: the kernel's socket alone */
	struct stream *parked; /* given up; another thread may still look at it */
	int kernel_fd; /* a number of our own for the kernel's socket, or -1: a listener's, and of
			* what is relayed, whose options it keeps */
	int rcvbuf, sndbuf; /* as set by option, for the stream to come; 0: not set */
	bool listening;
	bool kernels;  /* connecting is the kernel's, until that fails */
	bool relayed;  /* it was a stream, and is one end of a local pair (relay.c) */
	bool told;     /* connect() said so: from now on EISCONN */
	bool settling; /* asked for a sign that all is there (end.c) */
	struct sockaddr_storage to;
	socklen_t to_len;
	struct list registrations; /* epoll's lock */
};

/* ---- table.c --------------------------------------------------------------------------------- */

/* May this process's table be touched? Not from the child of a vfork(). */
bool table_ours(void);
/* Has this process made the streams in it? */
bool table_mine(void);
/* The entry of a number, held, or NULL: also if the number is another file's by now. entry_put()
 * lets go of it; the last closes it. */
struct entry *entry_get(int fd);
void entry_put(struct entry *);
/* One that somebody else keeps, held once more; NULL if it is about to end. */
struct entry *entry_hold(struct entry *);
/* A new entry at a number that the kernel has given; -ENOMEM. */
int entry_add(int fd, int domain, struct stream *) must_use;
/* One more number of an entry, one fewer. */
void entry_share(struct entry *, int fd);
void entry_forget(int fd);
void entries_forget(unsigned int first, unsigned int last);
/* A number that is the entry's, or -1. */
int entry_number(struct entry *);
/* Its numbers have become another socket's of the kernel. */
void entry_refresh(struct entry *);
/* The stream, once it is clear whether it came to be: if not, the kernel's socket takes over. */
struct stream *entry_stream(struct entry *);
/* Who is about to accept: if it is a listener of the parent's, that one is to let go of it. */
void entry_claim(struct entry *);
/* Takes the stream away. */
void entry_drop_stream(struct entry *);
/* Before numbers go to another process: their connections become the kernel's (relay.c). */
void entries_passed(const int *fds, size_t n);
/* Each number's entry, held meanwhile. */
void each_entry(void (*)(struct entry *, void *), void *);
/* Nothing over TCP. */
bool rdma_only(void);

/* The C library's, of any name: errno and -1 from -errno. */
static inline ssize_t answer(ssize_t rc)
{
	if (rc >= 0)
		return rc;
	errno = (int)-rc;
	return -1;
}

/* An entry that has a stream, for one call, which is inside from then on; both NULL: the call is
 * the kernel's. */
struct held {
	struct entry *entry;
	struct stream *stream;
	int err; /* errno before: what succeeds leaves it */
};

/* As entry_get(), and inside in any case until its end, which takes NULL too. */
static inline struct entry *entry_begin(int fd)
{
	inside_begin();
	return entry_get(fd);
}

static inline void entry_end(struct entry *e)
{
	if (e)
		entry_put(e);
	inside_end();
}

static inline struct held hold(int fd)
{
	struct held h = {.err = errno};

	h.entry = entry_begin(fd);
	if (h.entry)
		h.stream = entry_stream(h.entry);
	if (h.stream)
		return h;
	entry_end(h.entry);
	errno = h.err;
	return (struct held){0};
}

/* For points of cancellation (pthreads(7)): who is to end does so before anything is done, and not
 * only if the call sleeps. */
static inline struct held hold_or_end(int fd)
{
	pthread_testcancel();
	return hold(fd);
}

/* send() and recv() for a call that has begun: points of cancellation only where they sleep, so
 * that what is between two descriptors is not lost. */
ssize_t io_send(int fd, const void *buf, size_t len, int flags);
ssize_t io_recv(int fd, void *buf, size_t len, int flags);

/* A guard's: the thread has left its call. */
static inline void entry_left(void *entry)
{
	entry_put(entry);
}

static inline ssize_t let_go(struct held h, ssize_t rc)
{
	errno = h.err;
	rc = answer(rc);
	entry_end(h.entry);
	return rc;
}

/* ---- relay.c --------------------------------------------------------------------------------- */

/* Before a fork, or before it is passed on, relay_before_fork() first: the connection becomes a
 * socket of the kernel, for who comes to use it. */
void relay_before_fork(void);
void relay_begin(struct entry *);
/* After it. */
void relay_in_parent(void);
void relay_in_child(void);
/* If the socket is one made so, in this process or another, the address of this end or the peer's
 * as TCP would have it. */
bool relay_name(int fd, bool peer, struct sockaddr_storage *ret) must_use;

/* One more look at what others' processes wrote: has all of it got to the peers? With `end` their
 * streams end then. */
bool relays_settled(bool end) must_use;

/* ---- end.c ----------------------------------------------------------------------------------- */

/* What was written gets to the peers before the process is over. */
void end_of_process(void);

/* ---- epoll.c --------------------------------------------------------------------------------- */

/* The entry is of another kind now: what its epoll sets watch changes. */
void epoll_entry_changed(struct entry *);
void epoll_forget_entry(struct entry *);
/* The sets are held over a fork, so that they are whole in the child, too. */
void epoll_before_fork(void);
void epoll_after_fork(void);
void epoll_in_child(void);
/* A descriptor is closed; it may have been an epoll set. */
void epoll_closed(int fd);
void epoll_closed_range(unsigned int first, unsigned int last);
/* The second has become another number of the first, which may be an epoll set. */
void epoll_doubled(int old, int now);
/* If both are epoll sets: a set in a set. */
bool epoll_ctl_nested(int epfd, int op, int fd, const struct epoll_event *, int *ret) must_use;
/* Around a poll() of a set: -1 if it is none with streams in it, or a number of our own for it. In
 * between that tells, and epoll_poll_ready() says whether it holds. */
int epoll_poll_begin(int fd) must_use;
bool epoll_poll_ready(int fd) must_use;
void epoll_poll_end(int fd);

/* ---- stdio.c --------------------------------------------------------------------------------- */

/* At exit: what the program wrote by stdio to sockets. */
void stdio_flush(void);

#endif
