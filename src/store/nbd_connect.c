/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/time.h"
#include "store/nbd.h"

#define CONNECT_NS     (10 * NSEC_PER_SEC)
#define LOOK_MS	       100 /* so often a thread that connects looks whether it is to stop */
#define AGAIN_FIRST_NS (NSEC_PER_SEC / 4)
#define AGAIN_LAST_NS  (10 * NSEC_PER_SEC)
/* A server that is gone without a word is given up after so long. */
#define SILENCE_MS 30000
/* Of one command where the server names no limit: what all servers take. */
#define DEFAULT_MAX_LEN (32u << 20)

/* --- one connection --------------------------------------------------------------------------- */

static int libnbd_error(const char **ret_why)
{
	const char *text = nbd_get_error(), *call = strstr(text, ": ");
	int error = nbd_get_errno();

	/* Without the name of libnbd's function. */
	*ret_why = strncmp(text, "nbd_", 4) == 0 && call ? call + 2 : text;
	return error ? -error : -EIO;
}

static int refuse(int error, const char *why, const char **ret_why)
{
	*ret_why = why;
	return error;
}

static bool stopped(const bool *stop)
{
	return stop && __atomic_load_n(stop, __ATOMIC_ACQUIRE);
}

static int shake_hands(struct nbd_handle *h, const char *uri, const bool *stop,
		       const char **ret_why)
{
	uint64_t deadline = time_now_ns() + CONNECT_NS;

	/* A URI may name a file with the keys of TLS: who says what is served may read it. */
	if (nbd_set_uri_allow_local_file(h, true) != 0 || nbd_aio_connect_uri(h, uri) != 0)
		return libnbd_error(ret_why);
	while (nbd_aio_is_connecting(h)) {
		if (stopped(stop) || time_now_ns() > deadline)
			return refuse(-ETIMEDOUT, "its server does not answer", ret_why);
		if (nbd_poll(h, LOOK_MS) < 0)
			return libnbd_error(ret_why);
	}
	return nbd_aio_is_ready(h) ? 0 : libnbd_error(ret_why);
}

static int look_at_export(struct nbd_link *l, uint32_t block_size, const char **ret_why)
{
	int64_t size = nbd_get_size(l->h), least = nbd_get_block_size(l->h, LIBNBD_SIZE_MINIMUM),
		most = nbd_get_block_size(l->h, LIBNBD_SIZE_MAXIMUM),
		best = nbd_get_block_size(l->h, LIBNBD_SIZE_PREFERRED);

	if (size < 0)
		return libnbd_error(ret_why);
	if (least > block_size)
		return refuse(-EINVAL,
			      least > 4096 ? "its server takes only blocks of more than 4096 bytes"
					   : "its server takes only larger blocks: use "
					     "--block-size 4096",
			      ret_why);
	l->size = (uint64_t)size;
	l->max_len = most > 0 ? (uint64_t)most : DEFAULT_MAX_LEN;
	l->max_len = max_of(l->max_len - l->max_len % block_size, (uint64_t)block_size);
	l->optimal_io = best > 0 && best <= UINT32_MAX ? (uint32_t)best : 0;
	l->read_only = nbd_is_read_only(l->h) > 0;
	l->flush = nbd_can_flush(l->h) > 0;
	l->fua = nbd_can_fua(l->h) > 0;
	l->trim = nbd_can_trim(l->h) > 0;
	l->zero = nbd_can_zero(l->h) > 0;
	return 0;
}

static void set(int fd, int level, int option, int value)
{
	(void)setsockopt(fd, level, option, &value, sizeof(value)); /* of TCP; not of UNIX */
}

int nbd_link_open(const char *uri, uint32_t block_size, const bool *stop, struct nbd_link *ret,
		  const char **ret_why)
{
	struct nbd_link l = {.h = nbd_create()};
	int error, fd;

	if (!l.h)
		return libnbd_error(ret_why);
	error = shake_hands(l.h, uri, stop, ret_why);
	if (!error)
		error = look_at_export(&l, block_size, ret_why);
	if (error) {
		nbd_close(l.h); /* what libnbd says of the error is the thread's, and stays */
		return error;
	}
	fd = nbd_aio_get_fd(l.h);
	set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
	set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
	set(fd, IPPROTO_TCP, TCP_KEEPIDLE, SILENCE_MS / 2000);
	set(fd, IPPROTO_TCP, TCP_KEEPINTVL, 5);
	set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, SILENCE_MS);
	*ret = l;
	return 0;
}

void nbd_link_close(struct nbd_link *l)
{
	nbd_close(l->h);
	l->h = NULL;
}

/* --- the thread ------------------------------------------------------------------------------- */

/* Until it is time, or to stop. */
static void rest(struct nbd_seeker *s, uint64_t ns)
{
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	ns += (uint64_t)until.tv_nsec;
	until.tv_sec += (time_t)(ns / NSEC_PER_SEC);
	until.tv_nsec = (long)(ns % NSEC_PER_SEC);
	pthread_mutex_lock(&s->lock);
	while (!stopped(&s->stop) &&
	       pthread_cond_timedwait(&s->changed, &s->lock, &until) != ETIMEDOUT)
		;
	pthread_mutex_unlock(&s->lock);
}

static void put(struct nbd_seeker *s)
{
	unsigned users;

	pthread_mutex_lock(&s->lock);
	users = --s->users;
	pthread_mutex_unlock(&s->lock);
	if (users)
		return;
	if (s->found.h)
		nbd_link_close(&s->found);
	pthread_cond_destroy(&s->changed);
	pthread_mutex_destroy(&s->lock);
	close(s->event_fd);
	free(s->uri);
	free(s);
}

static void *seek(void *arg)
{
	struct nbd_seeker *s = arg;
	const char *why = NULL;
	struct nbd_link l;

	for (uint64_t wait = AGAIN_FIRST_NS; !stopped(&s->stop);
	     wait = min_of(2 * wait, AGAIN_LAST_NS)) {
		if (nbd_link_open(s->uri, s->block_size, &s->stop, &l, &why) == 0) {
			pthread_mutex_lock(&s->lock);
			s->found = l;
			pthread_mutex_unlock(&s->lock);
			if (write(s->event_fd, &(uint64_t){1}, sizeof(uint64_t)) < 0)
				log_err("store", "an eventfd fails: error %d", errno);
			break;
		}
		log_info("store", "%s: %s", s->uri, why);
		rest(s, wait);
	}
	put(s);
	return NULL;
}

static void join(struct nbd_seeker *s)
{
	if (s->runs)
		pthread_join(s->thread, NULL);
	s->runs = false;
}

int nbd_seeker_create(const char *uri, uint32_t block_size, struct nbd_seeker **ret)
{
	struct nbd_seeker *s = calloc(1, sizeof(*s));
	pthread_condattr_t attr;
	int error = -ENOMEM;

	if (!s)
		return error;
	*s = (struct nbd_seeker){.uri = strdup(uri), .block_size = block_size, .users = 1};
	s->event_fd = s->uri ? eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC) : -1;
	if (s->event_fd < 0) {
		error = s->uri ? -errno : error;
		free(s->uri);
		free(s);
		return error;
	}
	pthread_mutex_init(&s->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&s->changed, &attr);
	pthread_condattr_destroy(&attr);
	*ret = s;
	return 0;
}

void nbd_seeker_leave(struct nbd_seeker *s)
{
	pthread_mutex_lock(&s->lock);
	__atomic_store_n(&s->stop, true, __ATOMIC_RELEASE);
	pthread_cond_signal(&s->changed);
	pthread_mutex_unlock(&s->lock);
	if (s->runs)
		leave_thread(s->thread);
	put(s);
}

void nbd_seeker_start(struct nbd_seeker *s)
{
	int error;

	if (s->runs)
		return;
	s->users++; /* no thread has it beside this one */
	error = pthread_create(&s->thread, NULL, seek, s);
	s->runs = error == 0;
	if (error) {
		s->users--;
		log_err("store", "%s: no thread to connect in (error %d)", s->uri, error);
	}
}

bool nbd_seeker_take(struct nbd_seeker *s, struct nbd_link *ret)
{
	uint64_t count;

	if (read(s->event_fd, &count, sizeof(count)) < 0)
		return false;
	join(s); /* it is at its end */
	*ret = s->found;
	s->found.h = NULL;
	return true;
}
