// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/time.h"
#include "sockets/own.h"
#include "sockets/real.h"
#include "sockets/sockets.h"

/* Two levels; a number that was never tracked costs one look and no lock. */
enum { LEAF_BITS = 10, LEAF_SIZE = 1 << LEAF_BITS, LEAVES = 1 << 12 };

struct leaf {
	_Atomic(struct entry *) entry[LEAF_SIZE];
};

static struct {
	pthread_mutex_t lock;
	_Atomic(struct leaf *) leaf[LEAVES];
	_Atomic(pid_t) pid; /* 0: nothing is tracked yet */
} table = {.lock = PTHREAD_MUTEX_INITIALIZER};

bool rdma_only(void)
{
	const char *v = secure_getenv("WEFT_SOCKETS");

	return v && !strcmp(v, "only");
}

static void before_fork(void);

static void child_of_fork(void)
{
	epoll_in_child();
	pthread_mutex_init(&table.lock, NULL);
	table.pid = getpid();
	relay_in_child();
	inside_end();
}

static void after_fork(void)
{
	epoll_after_fork();
	relay_in_parent();
	inside_end();
}

bool table_ours(void)
{
	return !table.pid || table.pid == getpid();
}

bool table_mine(void)
{
	return table.pid && table.pid == getpid();
}

static _Atomic(struct entry *) *slot_of(int fd)
{
	struct leaf *l;

	if (fd < 0 || fd >= LEAVES * LEAF_SIZE)
		return NULL;
	l = atomic_load_explicit(&table.leaf[fd >> LEAF_BITS], memory_order_acquire);
	return l ? &l->entry[fd & (LEAF_SIZE - 1)] : NULL;
}

static struct entry *entry_of(int fd)
{
	_Atomic(struct entry *) *slot = slot_of(fd);
	struct entry *e;

	if (!slot || !atomic_load_explicit(slot, memory_order_acquire))
		return NULL;
	pthread_mutex_lock(&table.lock);
	e = atomic_load(slot);
	if (e)
		e->refs++;
	pthread_mutex_unlock(&table.lock);
	return e;
}

/* What the kernel calls the file of a number. */
static struct file_id file_of(int fd)
{
	const int err = errno;
	struct stat st = {0};

	(void)!fstat(fd, &st);
	errno = err;
	return (struct file_id){st.st_dev, st.st_ino};
}

/* Held. Numbers are also closed where nobody tells us, within the C library and by system calls
 * without it, and then they are other files'. That is seen here. */
static bool is_still(const struct entry *e, int fd)
{
	const struct file_id now = file_of(fd);

	return now.dev == e->file.dev && now.ino == e->file.ino;
}

static void forget(int fd, const struct entry *only);

struct entry *entry_hold(struct entry *e)
{
	pthread_mutex_lock(&table.lock);
	if (e->refs)
		e->refs++;
	else
		e = NULL;
	pthread_mutex_unlock(&table.lock);
	return e;
}

struct entry *entry_get(int fd)
{
	struct entry *e = entry_of(fd);

	if (!e || is_still(e, fd))
		return e;
	if (table_ours()) /* to the child of a vfork() its own numbers, but our memory */
		forget(fd, e);
	entry_put(e);
	return NULL;
}

void entry_refresh(struct entry *e)
{
	e->file = file_of(e->fd);
}

static void entry_close(struct entry *e)
{
	epoll_forget_entry(e);
	if (e->stream)
		(void)!stream_close(e->stream);
	if (e->parked)
		(void)!stream_close(e->parked);
	if (e->kernel_fd >= 0)
		own_end(e->kernel_fd);
	pthread_mutex_destroy(&e->lock);
	free(e);
}

void entry_put(struct entry *e)
{
	int left;

	pthread_mutex_lock(&table.lock);
	left = --e->refs;
	pthread_mutex_unlock(&table.lock);
	if (!left)
		entry_close(e);
}

/* Under the table's lock. */
static int make_leaf(int fd)
{
	_Atomic(struct leaf *) *at;

	if (fd < 0 || fd >= LEAVES * LEAF_SIZE)
		return -EMFILE;
	at = &table.leaf[fd >> LEAF_BITS];
	if (!atomic_load(at))
		atomic_store(at, calloc(1, sizeof(struct leaf)));
	return atomic_load(at) ? 0 : -ENOMEM;
}

int entry_add(int fd, int domain, struct stream *s)
{
	struct entry *e = calloc(1, sizeof(*e));
	int rc;

	if (!e)
		return -ENOMEM;
	entry_forget(fd); /* if it was closed unseen */
	*e = (struct entry){.refs = 1,
			    .numbers = 1,
			    .domain = domain,
			    .fd = fd,
			    .file = file_of(fd),
			    .stream = s,
			    .kernel_fd = -1,
			    .told = s};
	pthread_mutex_init(&e->lock, NULL);
	list_init(&e->registrations);
	pthread_mutex_lock(&table.lock);
	if (!table.pid) {
		table.pid = getpid();
		pthread_atfork(before_fork, after_fork, child_of_fork);
		at_quick_exit(end_of_process);
	}
	rc = make_leaf(fd);
	if (!rc)
		atomic_store(slot_of(fd), e);
	pthread_mutex_unlock(&table.lock);
	if (rc)
		free(e);
	return rc;
}

void entry_share(struct entry *e, int fd)
{
	pthread_mutex_lock(&table.lock);
	if (!make_leaf(fd)) {
		e->refs++;
		e->numbers++;
		atomic_store(slot_of(fd), e);
	}
	pthread_mutex_unlock(&table.lock);
}

/* The first number from `fd` on that is tracked, or -1. */
static int next_tracked(int fd)
{
	for (; fd < LEAVES * LEAF_SIZE; fd++) {
		if (!atomic_load(&table.leaf[fd >> LEAF_BITS]))
			fd |= LEAF_SIZE - 1;
		else if (atomic_load(slot_of(fd)))
			return fd;
	}
	return -1;
}

/* Under the table's lock: the first of an entry's numbers from `fd` on, or -1. */
static int number_from(const struct entry *e, int fd)
{
	while ((fd = next_tracked(fd)) >= 0 && atomic_load(slot_of(fd)) != e)
		fd++;
	return fd;
}

/* If the number is that entry's; of any, if it is NULL. */
static void forget(int fd, const struct entry *only)
{
	_Atomic(struct entry *) *slot = slot_of(fd);
	struct entry *e;

	if (!slot || !atomic_load(slot))
		return;
	pthread_mutex_lock(&table.lock);
	e = atomic_load(slot);
	if (only && e != only)
		e = NULL;
	if (e) {
		atomic_store(slot, NULL);
		if (--e->numbers && e->fd == fd)
			e->fd = number_from(e, 0);
	}
	pthread_mutex_unlock(&table.lock);
	if (e)
		entry_put(e);
}

void entry_forget(int fd)
{
	forget(fd, NULL);
}

int entry_number(struct entry *e)
{
	int fd;

	while ((fd = e->fd) >= 0 && !is_still(e, fd))
		forget(fd, e);
	return fd;
}

void entries_forget(unsigned int first, unsigned int last)
{
	if (first >= LEAVES * LEAF_SIZE)
		return;
	for (int fd = (int)first; (fd = next_tracked(fd)) >= 0 && (unsigned int)fd <= last; fd++)
		entry_forget(fd);
}

/* What was closed unseen. */
static void forget_stale(void)
{
	for (int fd = 0; (fd = next_tracked(fd)) >= 0; fd++) {
		struct entry *e = entry_get(fd);

		if (e)
			entry_put(e);
	}
}

/* Under the table's lock: is none of its numbers another file's by now? */
static bool all_still(const struct entry *e)
{
	if (e->numbers == 1)
		return is_still(e, e->fd);
	for (int fd = 0; (fd = number_from(e, fd)) >= 0; fd++)
		if (!is_still(e, fd))
			return false;
	return true;
}

/* Under the table's lock: a connection that nobody is in a call on, nor waits for by epoll. */
static bool can_be_passed(struct entry *e)
{
	return e->refs == e->numbers && e->stream && !sock_inherited(&e->stream->sock) &&
	       !e->listening && list_empty(&e->registrations) &&
	       atomic_load(&e->stream->state) >= STREAM_CONNECTED && all_still(e);
}

/* All its numbers become those of the kernel's socket. */
static void pass(struct entry *e)
{
	relay_begin(e);
	if (!e->relayed || e->numbers == 1)
		return;
	for (int fd = -1; (fd = number_from(e, fd + 1)) >= 0;) {
		const int flags = real()->fcntl64(fd, F_GETFD);

		if (fd != e->fd)
			real()->dup3(e->fd, fd, flags & FD_CLOEXEC ? O_CLOEXEC : 0);
	}
}

/* What can be passed is perhaps for the child. */
static void before_fork(void)
{
	inside_begin();
	relay_before_fork();
	pthread_mutex_lock(&table.lock);
	for (int fd = 0; (fd = next_tracked(fd)) >= 0; fd++) {
		struct entry *e = atomic_load(slot_of(fd));

		if (can_be_passed(e))
			pass(e);
	}
	pthread_mutex_unlock(&table.lock);
	epoll_before_fork();
}

void entries_passed(const int *fds, size_t n)
{
	bool any = false;

	for (size_t i = 0; i < n && !any; i++) {
		_Atomic(struct entry *) *slot = slot_of(fds[i]);

		any = slot && atomic_load(slot);
	}
	if (!any)
		return;
	inside_begin();
	forget_stale();
	relay_before_fork();
	pthread_mutex_lock(&table.lock);
	for (size_t i = 0; i < n; i++) {
		_Atomic(struct entry *) *slot = slot_of(fds[i]);
		struct entry *e = slot ? atomic_load(slot) : NULL;

		if (e && can_be_passed(e))
			pass(e);
		else if (e && e->stream && !sock_inherited(&e->stream->sock) && !e->listening)
			log_err("sockets",
				"descriptor %d: the connection is in an epoll set or in use by "
				"a thread, and stays with the process that has it; pass it "
				"before",
				fds[i]);
	}
	pthread_mutex_unlock(&table.lock);
	relay_in_parent();
	inside_end();
}

/* ---- streams --------------------------------------------------------------------------------- */

void entry_drop_stream(struct entry *e)
{
	struct stream *s = e->stream, *older = e->parked;

	if (!s)
		return;
	e->parked = s;
	e->stream = NULL;
	epoll_entry_changed(e);
	if (older)
		(void)!stream_close(older);
}

/* RDMA could not connect: the kernel's socket is to. Its own failure at once is the outcome. Who
 * calls waits for nothing: a socket that would wait has one whose connect() a signal or SO_SNDTIMEO
 * has ended. */
static void take_over(struct entry *e)
{
	const int fd = entry_number(e), flags = real()->fcntl64(fd, F_GETFL);
	int rc;

	if (!(flags & O_NONBLOCK))
		real()->fcntl64(fd, F_SETFL, flags | O_NONBLOCK);
	rc = real()->connect(fd, (struct sockaddr *)&e->to, e->to_len) ? errno : 0;
	if (!(flags & O_NONBLOCK))
		real()->fcntl64(fd, F_SETFL, flags);
	e->to_len = 0;
	if (rc && rc != EINPROGRESS) {
		atomic_store(&e->stream->err, rc);
		return;
	}
	e->kernels = true;
	entry_drop_stream(e);
}

struct stream *entry_stream(struct entry *e)
{
	struct stream *s = e->stream;

	if (!s)
		return NULL;
	if (sock_inherited(&s->sock)) { /* the parent's; what we have is the kernel's socket */
		if (!e->listening && atomic_load(&s->state) >= STREAM_CONNECTED)
			log_err("sockets",
				"descriptor %d: the connection was in an epoll set or in use by a "
				"thread at fork(), and stays with the parent; fork before",
				e->fd);
		entry_drop_stream(e);
		return NULL;
	}
	if (atomic_load(&s->state) == STREAM_CONNECT_FAILED && e->to_len && !rdma_only()) {
		int err = errno;

		pthread_mutex_lock(&e->lock);
		if (e->stream == s && e->to_len)
			take_over(e);
		pthread_mutex_unlock(&e->lock);
		errno = err;
	}
	return e->stream;
}

void entry_claim(struct entry *e)
{
	struct stream *s = e->stream ? e->stream : e->parked;

	if (!e->listening || !s || !sock_inherited(&s->sock))
		return;
	if (!stream_claim(s))
		return;
	if (rdma_only())
		log_err("sockets",
			"descriptor %d: connections by RDMA go to the process that called "
			"listen(), not to its child; let the child call listen() itself",
			e->fd);
	else
		log_warn("sockets",
			 "descriptor %d: a child accepts from its parent's listener: "
			 "its connections come by TCP",
			 e->fd);
}

void each_entry(void (*f)(struct entry *, void *), void *arg)
{
	for (int fd = 0; (fd = next_tracked(fd)) >= 0; fd++) {
		struct entry *e = entry_of(fd);

		if (!e)
			continue;
		f(e, arg);
		entry_put(e);
	}
}
