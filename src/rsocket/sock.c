// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#include "rsocket/sock.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/time.h"
#include "rsocket/attend.h"
#include "rsocket/counted.h"
#include "rsocket/guard.h"

#define CONF_DIR "/etc/rdma/rsocket/"

/* ---- settings -------------------------------------------------------------------------------- */

static struct settings defaults = {
	/* Twice rdma-core's: a thread that wakes late finds more to do, and wakes less often. */
	.sbuf_size = 1 << 18, .rbuf_size = 1 << 18, .sq_size = 384,   .rq_size = 384,
	.sq_inline = 64,      .iomap_size = 0,	    .polling_us = 10, .wake_up_ms = RS_WAKE_UP_MS,
};

static void read_setting(const char *name, uint32_t min, uint32_t max, uint32_t *value)
{
	char path[64];
	unsigned int v;
	FILE *f;

	snprintf(path, sizeof(path), CONF_DIR "%s", name);
	f = fopen(path, "re");
	if (!f)
		return;
	if (fscanf(f, "%u", &v) == 1)
		*value = clamp_u32(v, min, max);
	fclose(f);
}

static void read_settings(void)
{
	uint32_t wake_up = (uint32_t)defaults.wake_up_ms;

	read_setting("polling_time", 0, UINT32_MAX, &defaults.polling_us);
	read_setting("wake_up_interval", 1, INT32_MAX, &wake_up);
	read_setting("inline_default", 0, UINT16_MAX, &defaults.sq_inline);
	read_setting("sqsize_default", RS_QP_SIZE_MIN, RS_QP_SIZE_MAX, &defaults.sq_size);
	read_setting("rqsize_default", RS_QP_SIZE_MIN, RS_QP_SIZE_MAX, &defaults.rq_size);
	read_setting("mem_default", 2, 1u << 30, &defaults.rbuf_size);
	read_setting("wmem_default", 2 * RS_SNDLOWAT, 1u << 30, &defaults.sbuf_size);
	read_setting("iomap_size", 0, UINT16_MAX, &defaults.iomap_size);
	defaults.wake_up_ms = (int)wake_up;
}

const struct settings *settings_default(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, read_settings);
	return &defaults;
}

/* ---- the table ------------------------------------------------------------------------------- */

/* Two levels, so that a lookup takes no lock: what is there once stays. */
enum { LEAF_BITS = 10, LEAF_SIZE = 1 << LEAF_BITS, LEAVES = 1 << 12 };

struct leaf {
	_Atomic(struct sock *) sock[LEAF_SIZE];
};

static _Atomic(struct leaf *) table[LEAVES];
static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned int generation;

static void child_of_fork(void)
{
	generation++;
	rs_counted_forked();
	pthread_mutex_init(&table_lock, NULL);
}

static void watch_forks(void)
{
	pthread_atfork(NULL, NULL, child_of_fork);
}

unsigned int sock_generation(void)
{
	return generation;
}

static _Atomic(struct sock *) *slot_of(int fd)
{
	struct leaf *l;

	if (fd < 0 || fd >= LEAVES * LEAF_SIZE)
		return NULL;
	l = atomic_load_explicit(&table[fd >> LEAF_BITS], memory_order_acquire);
	return l ? &l->sock[fd & (LEAF_SIZE - 1)] : NULL;
}

struct sock *sock_lookup(int fd)
{
	_Atomic(struct sock *) *slot = slot_of(fd);
	struct sock *s = slot ? atomic_load_explicit(slot, memory_order_acquire) : NULL;

	if (!s)
		errno = EBADF;
	return s;
}

int sock_insert(struct sock *s)
{
	_Atomic(struct leaf *) *at;

	if (s->fd >= LEAVES * LEAF_SIZE)
		return -EMFILE;
	at = &table[s->fd >> LEAF_BITS];
	pthread_mutex_lock(&table_lock);
	if (!atomic_load(at))
		atomic_store(at, calloc(1, sizeof(struct leaf)));
	pthread_mutex_unlock(&table_lock);
	if (!atomic_load(at))
		return -ENOMEM;
	atomic_store_explicit(slot_of(s->fd), s, memory_order_release);
	return 0;
}

void sock_remove(struct sock *s)
{
	_Atomic(struct sock *) *slot = slot_of(s->fd);

	if (slot && atomic_load(slot) == s)
		atomic_store(slot, NULL);
}

/* ---- life and waiting ------------------------------------------------------------------------ */

int sock_init(struct sock *s, int type, int domain)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, watch_forks);
	rs_counted();
	rs_count(sockets, 1);
	pthread_mutex_init(&s->sleepers.lock, NULL);
	pthread_mutex_init(&s->watch_lock, NULL);
	list_init(&s->watchers);
	s->type = type;
	s->domain = domain;
	s->generation = generation;
	s->rcv_timeout_ms = s->snd_timeout_ms = -1;
	s->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	return s->fd < 0 ? -errno : 0;
}

int sock_renumber(struct sock *s)
{
	int fd = fcntl(s->fd, F_DUPFD_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	close(s->fd);
	s->fd = fd;
	return 0;
}

void sock_fini(struct sock *s)
{
	if (s->fd >= 0)
		close(s->fd);
	s->fd = -1;
}

void sock_wake(struct sock *s)
{
	/* Fails when it is readable anyway. A sleeper that receives looks by itself. */
	if (atomic_load(&s->waiters) && atomic_load(&s->sleepers.attendant) != attend_self())
		(void)!eventfd_write(s->fd, 1);
	if (!atomic_load(&s->watching))
		return;
	pthread_mutex_lock(&s->watch_lock);
	list_for_each(w, &s->watchers, struct sock_watcher, node)
		w->told(w);
	pthread_mutex_unlock(&s->watch_lock);
}

void sock_watch(struct sock *s, struct sock_watcher *w)
{
	pthread_mutex_lock(&s->watch_lock);
	list_push_tail(&s->watchers, &w->node);
	atomic_fetch_add(&s->watching, 1);
	pthread_mutex_unlock(&s->watch_lock);
}

void sock_unwatch(struct sock *s, struct sock_watcher *w)
{
	pthread_mutex_lock(&s->watch_lock);
	list_remove(&w->node);
	atomic_fetch_sub(&s->watching, 1);
	pthread_mutex_unlock(&s->watch_lock);
}

static int begin_nothing(struct sock_pause *p, bool restarts)
{
	(void)p;
	(void)restarts;
	return 0;
}

static int end_nothing(const struct sock_pause *p, int rc, bool restarts)
{
	(void)p;
	(void)restarts;
	return rc;
}

static int sleep_in_ppoll(struct pollfd *fds, nfds_t n, const struct timespec *timeout,
			  const sigset_t *mask)
{
	return ppoll(fds, n, timeout, mask) < 0 ? -errno : 0;
}

struct sock_sleeping sock_sleeping = {begin_nothing, end_nothing, sleep_in_ppoll};

int sock_sleep_on(struct pollfd *fds, nfds_t n, int timeout_ms, const sigset_t *mask, bool restarts)
{
	const struct timespec timeout = {timeout_ms / 1000,
					 timeout_ms % 1000 * (long)NSEC_PER_MSEC};
	struct sock_pause p;
	int rc = sock_sleeping.begin(&p, restarts);

	if (!rc)
		rc = sock_sleeping.ppoll(fds, n, timeout_ms < 0 ? NULL : &timeout, mask);
	return sock_sleeping.end(&p, rc, restarts);
}

static void wake_behind(struct sleepers *z)
{
	atomic_fetch_add(&z->turn, 1);
	if (z->behind)
		syscall(SYS_futex, &z->turn, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

/* A thread that is gone from its sleep leads no more, nor waits. */
static void left(struct sock *s, bool led)
{
	struct sleepers *z = &s->sleepers;

	pthread_mutex_lock(&z->lock);
	if (led)
		z->led = false;
	else
		z->behind--;
	wake_behind(z);
	pthread_mutex_unlock(&z->lock);
	atomic_fetch_sub(&s->waiters, 1);
}

struct leading {
	struct sock *s;
	struct attendance a;
};

static void left_leading(void *arg)
{
	struct leading *l = arg;

	attend_end(&l->a, false);
	atomic_store(&l->s->sleepers.attendant, NULL);
	left(l->s, true);
}

static int sleep_on_descriptors(struct sock *s, const struct sock_waiting *w, int timeout_ms)
{
	struct pollfd fds[] = {{.fd = s->fd, .events = POLLIN},
			       {.fd = w->event_fd(w->arg), .events = POLLIN},
			       {.events = POLLIN}};
	struct leading l = {.s = s};
	struct guard guard;
	eventfd_t count;
	int rc;

	attend_look();
	atomic_store(&s->sleepers.attendant, attend_self());
	fds[2].fd = attend_begin(&l.a, true);
	guard_begin(&guard, left_leading, &l);
	rc = sock_sleep_on(fds, ARRAY_SIZE(fds), l.a.come ? 0 : timeout_ms, NULL, timeout_ms < 0);
	guard_end(&guard);
	attend_end(&l.a, !rc && fds[2].revents);
	atomic_store(&s->sleepers.attendant, NULL);
	if (rc)
		return rc;
	if (fds[0].revents)
		(void)!eventfd_read(s->fd, &count);
	if (fds[1].revents)
		w->taken(w->arg);
	return 0;
}

/* Another sleeps on the descriptors and will tell; or the time is up. */
static void left_behind(void *sock)
{
	left(sock, false);
}

static int sleep_behind(struct sock *s, int timeout_ms)
{
	struct sleepers *z = &s->sleepers;
	const struct timespec timeout = {timeout_ms / 1000,
					 timeout_ms % 1000 * (long)NSEC_PER_MSEC};
	const uint32_t turn = atomic_load(&z->turn);
	struct sock_pause p;
	struct guard guard;
	int rc, type;

	z->behind++;
	pthread_mutex_unlock(&z->lock);
	guard_begin(&guard, left_behind, s);
	rc = sock_sleeping.begin(&p, timeout_ms < 0);
	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &type); /* as poll() does */
	if (!rc && syscall(SYS_futex, &z->turn, FUTEX_WAIT_PRIVATE, turn,
			   timeout_ms < 0 ? NULL : &timeout, NULL, 0))
		rc = errno == EINTR ? -EINTR : 0;
	pthread_setcanceltype(type, &type);
	rc = sock_sleeping.end(&p, rc, timeout_ms < 0);
	guard_end(&guard);
	pthread_mutex_lock(&z->lock);
	z->behind--;
	return rc;
}

int sock_sleep(struct sock *s, const struct sock_waiting *w, int timeout_ms)
{
	const uint64_t end =
		timeout_ms < 0 ? UINT64_MAX : time_now_ns() + (uint64_t)timeout_ms * NSEC_PER_MSEC;
	struct sleepers *z = &s->sleepers;
	int rc = 0;

	atomic_fetch_add(&s->waiters, 1);
	pthread_mutex_lock(&z->lock);
	while (!w->ready(w->arg) && !rc) {
		int left_ms = -1;

		if (end != UINT64_MAX) {
			uint64_t now = time_now_ns();

			if (now >= end) {
				rc = -EAGAIN;
				break;
			}
			left_ms = (int)((end - now) / NSEC_PER_MSEC) + 1;
		}
		/* Its own handler's call, over one that leads, has nobody else to wait for. */
		if (z->led && atomic_load(&z->attendant) != attend_self()) {
			rc = sleep_behind(s, left_ms);
			continue;
		}
		z->led = true;
		pthread_mutex_unlock(&z->lock);
		rc = sleep_on_descriptors(s, w, left_ms);
		pthread_mutex_lock(&z->lock);
		z->led = false;
		wake_behind(z);
	}
	wake_behind(z); /* somebody else may have to lead */
	pthread_mutex_unlock(&z->lock);
	atomic_fetch_sub(&s->waiters, 1);
	return rc;
}

ssize_t iov_length(const struct iovec *iov, size_t count)
{
	size_t total = 0;

	if (count > IOV_MAX)
		return -EMSGSIZE;
	for (size_t i = 0; i < count; i++) {
		if (iov[i].iov_len > SSIZE_MAX - total)
			return -EINVAL;
		total += iov[i].iov_len;
	}
	return (ssize_t)total;
}

/* ---- addresses ------------------------------------------------------------------------------- */

socklen_t addr_length(const struct sockaddr *a)
{
	switch (a->sa_family) {
	case AF_INET:
		return sizeof(struct sockaddr_in);
	case AF_INET6:
		return sizeof(struct sockaddr_in6);
	default:
		return 0;
	}
}

int addr_copy_out(const struct sock *s, const struct sockaddr *from, struct sockaddr *to,
		  socklen_t *len)
{
	const struct sockaddr_in *v4 = (const struct sockaddr_in *)from;
	struct sockaddr_in6 six = {.sin6_family = AF_INET6};
	struct sockaddr_in none = {.sin_family = AF_INET};
	const void *out = from;
	socklen_t n = addr_length(from);

	if (!len || (!to && *len))
		return -EFAULT;
	if (*len > INT_MAX) /* as the kernel has it: a negative one */
		return -EINVAL;
	if (s->domain == AF_INET6 && from->sa_family != AF_INET6) {
		if (from->sa_family == AF_INET) {
			six.sin6_port = v4->sin_port;
			memset(six.sin6_addr.s6_addr + 10, 0xff, 2);
			memcpy(six.sin6_addr.s6_addr + 12, &v4->sin_addr, 4);
		}
		out = &six;
		n = sizeof(six);
	} else if (!n) { /* not bound: the wildcard */
		out = &none;
		n = sizeof(none);
	}
	memcpy(to, out, min_of(*len, n));
	*len = n;
	return 0;
}

int addr_copy_in(const struct sock *s, const struct sockaddr *from, socklen_t len,
		 struct sockaddr_storage *to)
{
	const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)from;
	struct sockaddr_in *v4 = (struct sockaddr_in *)to;

	if (!from)
		return -EFAULT;
	if (len < sizeof(from->sa_family) || len > sizeof(*to))
		return -EINVAL;
	if (from->sa_family != s->domain)
		return -EAFNOSUPPORT;
	if (len < addr_length(from))
		return -EINVAL;
	memset(to, 0, sizeof(*to));
	memcpy(to, from, addr_length(from));
	if (from->sa_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&six->sin6_addr)) {
		memset(to, 0, sizeof(*to));
		v4->sin_family = AF_INET;
		v4->sin_port = six->sin6_port;
		memcpy(&v4->sin_addr, six->sin6_addr.s6_addr + 12, 4);
	}
	return 0;
}
