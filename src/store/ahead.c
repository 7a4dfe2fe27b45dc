/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Threads that look at stores before they are opened. One that looks at a disk that hangs cannot be
 * ended: it is left behind, and what it shares with others is there until it comes back.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/time.h"
#include "store/nbd.h"

#define THREADS	    32 /* at most; each for one store after the other */
#define THREADS_ALL 64 /* with those that were left behind */
#define ANSWER_NS   (30 * NSEC_PER_SEC)
#define ENDING_S    1

/* One of them, or an error. */
struct found {
	struct nbd_link link;
	struct file_store *file;
	int error;
};

struct store_ahead {
	struct ahead_one {
		char *path;
		bool read_only, looked, taken;
		struct found found;
		char why[256]; /* of an error */
	} * v;
	unsigned count;
	struct store_file_options how;
	uint64_t deadline_ns;
	bool stop; /* by whoever */

	pthread_mutex_t lock; /* of what follows, and of who has looked */
	unsigned next, left, users;
	int fd; /* a timer: of the deadline, or at once; -1: nobody waits for it any more */

	pthread_t threads[THREADS];
	unsigned thread_count;
};

static unsigned threads_all;

static void discard(struct ahead_one *o)
{
	if (o->found.link.h)
		nbd_link_close(&o->found.link);
	if (o->found.file)
		file_forget(o->found.file);
}

static void put(struct store_ahead *a)
{
	unsigned users;

	pthread_mutex_lock(&a->lock);
	users = --a->users;
	pthread_mutex_unlock(&a->lock);
	if (users)
		return;
	for (unsigned i = 0; a->v && i < a->count; i++) {
		if (!a->v[i].taken)
			discard(&a->v[i]);
		free(a->v[i].path);
	}
	pthread_mutex_destroy(&a->lock);
	free(a->v);
	free(a);
}

/* --- looking ---------------------------------------------------------------------------------- */

static void wake_at(const struct store_ahead *a, uint64_t ns)
{
	const struct itimerspec t = {.it_value = {.tv_sec = (time_t)(ns / NSEC_PER_SEC),
						  .tv_nsec = (long)(ns % NSEC_PER_SEC)}};

	(void)timerfd_settime(a->fd, TFD_TIMER_ABSTIME, &t, NULL);
}

static void look(struct store_ahead *a, struct ahead_one *o)
{
	struct store_file_options how = a->how;
	const char *why = "";

	how.read_only = o->read_only;
	o->found.error = store_nbd_names(o->path) ? nbd_link_open(o->path, nbd_block_size(&how),
								  &a->stop, &o->found.link, &why)
						  : file_find(o->path, &how, &o->found.file, &why);
	if (o->found.error) /* libnbd's text is this thread's */
		snprintf(o->why, sizeof(o->why), "%s", why);
}

static void looked_at(struct store_ahead *a, struct ahead_one *o)
{
	o->looked = true;
	if (--a->left == 0 && a->fd >= 0)
		wake_at(a, 1);
}

static void *look_at_all(void *arg)
{
	struct store_ahead *a = arg;

	pthread_mutex_lock(&a->lock);
	while (a->next < a->count) {
		struct ahead_one *o = &a->v[a->next++];

		pthread_mutex_unlock(&a->lock);
		look(a, o);
		pthread_mutex_lock(&a->lock);
		looked_at(a, o);
	}
	pthread_mutex_unlock(&a->lock);
	put(a);
	__atomic_sub_fetch(&threads_all, 1, __ATOMIC_RELAXED);
	return NULL;
}

/* --- beginning -------------------------------------------------------------------------------- */

static int start_thread(struct store_ahead *a)
{
	int error;

	a->users++;
	__atomic_add_fetch(&threads_all, 1, __ATOMIC_RELAXED);
	error = pthread_create(&a->threads[a->thread_count], NULL, look_at_all, a);
	if (error) {
		a->users--;
		__atomic_sub_fetch(&threads_all, 1, __ATOMIC_RELAXED);
	} else {
		a->thread_count++;
	}
	return -error;
}

static void refuse_all(struct store_ahead *a)
{
	for (unsigned i = 0; i < a->count; i++) {
		a->v[i].found.error = -EAGAIN;
		snprintf(a->v[i].why, sizeof(a->v[i].why),
			 "disks that hang keep all threads that open some; this is to be tried "
			 "again when they answer");
		looked_at(a, &a->v[i]);
	}
	a->next = a->count;
}

static int begin(struct store_ahead *a, const struct store_wanted *wanted)
{
	int error = 0;

	a->fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	if (a->fd < 0)
		return -errno;
	a->deadline_ns = time_now_ns() + ANSWER_NS;
	wake_at(a, a->deadline_ns);
	for (unsigned i = 0; i < a->count; i++) {
		a->v[i].read_only = wanted[i].read_only;
		a->v[i].path = strdup(wanted[i].path);
		if (!a->v[i].path)
			return -ENOMEM;
	}
	if (__atomic_load_n(&threads_all, __ATOMIC_RELAXED) > THREADS_ALL - THREADS) {
		refuse_all(a);
		return 0;
	}
	pthread_mutex_lock(&a->lock);
	while (!error && a->thread_count < min_of(a->count, (unsigned)THREADS))
		error = start_thread(a);
	pthread_mutex_unlock(&a->lock);
	return a->thread_count ? 0 : error; /* few do it, too */
}

int store_ahead_begin(const struct store_wanted *wanted, unsigned count,
		      const struct store_file_options *how, struct store_ahead **ret)
{
	struct store_ahead *a = calloc(1, sizeof(*a));
	int error = -ENOMEM;

	if (!a)
		return error;
	*a = (struct store_ahead){.count = count, .left = count, .users = 1, .how = *how, .fd = -1};
	a->how.ahead = NULL;
	pthread_mutex_init(&a->lock, NULL);
	a->v = calloc(count + 1, sizeof(*a->v));
	if (a->v)
		error = begin(a, wanted);
	if (error)
		store_ahead_end(a);
	else
		*ret = a;
	return error;
}

/* --- for who waits ---------------------------------------------------------------------------- */

int store_ahead_fd(const struct store_ahead *a)
{
	return a->fd;
}

bool store_ahead_done(struct store_ahead *a)
{
	bool all;

	pthread_mutex_lock(&a->lock);
	all = a->left == 0;
	pthread_mutex_unlock(&a->lock);
	return all || time_now_ns() >= a->deadline_ns;
}

bool store_ahead_is_for(const struct store_ahead *a, const struct store_wanted *wanted,
			unsigned count)
{
	bool same = a->count == count;

	for (unsigned i = 0; same && i < count; i++)
		same = strcmp(a->v[i].path, wanted[i].path) == 0 &&
		       a->v[i].read_only == wanted[i].read_only;
	return same;
}

/* Who looks at a server soon sees that it is to stop; who had its time hangs. */
static void join_all(struct store_ahead *a)
{
	struct timespec until = {0};

	if (time_now_ns() < a->deadline_ns) {
		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_sec += ENDING_S;
	}
	for (unsigned i = 0; i < a->thread_count; i++)
		if (pthread_timedjoin_np(a->threads[i], NULL, &until) != 0)
			pthread_detach(a->threads[i]);
}

void store_ahead_end(struct store_ahead *a)
{
	if (!a)
		return;
	__atomic_store_n(&a->stop, true, __ATOMIC_RELEASE);
	pthread_mutex_lock(&a->lock);
	a->next = a->count;
	if (a->fd >= 0)
		close(a->fd);
	a->fd = -1;
	pthread_mutex_unlock(&a->lock);
	join_all(a);
	put(a);
}

/* --- opening ---------------------------------------------------------------------------------- */

static bool is_called(const struct ahead_one *o, const char *path, bool read_only)
{
	return strcmp(o->path, path) == 0 && o->read_only == read_only;
}

/*
 * What came of looking at it, which is the caller's, and if it is an error, in *ret_why what is to
 * be said of it, as long as there is a. False: nobody has looked.
 */
static bool take(struct store_ahead *a, const char *path, const struct store_file_options *o,
		 struct found *ret, const char **ret_why)
{
	struct ahead_one *one = NULL;
	bool looked;

	if (!a || !store_ahead_done(a) || a->how.block_size != o->block_size ||
	    a->how.direct != o->direct)
		return false;
	for (unsigned i = 0; i < a->count && !one; i++)
		if (!a->v[i].taken && is_called(&a->v[i], path, o->read_only))
			one = &a->v[i];
	if (!one)
		return false;
	pthread_mutex_lock(&a->lock);
	looked = one->looked;
	pthread_mutex_unlock(&a->lock);
	if (!looked) {
		*ret_why = "it does not answer; see what is with its disk or server, or leave it "
			   "out";
		*ret = (struct found){.error = -ETIMEDOUT};
		return true;
	}
	one->taken = true;
	*ret = one->found;
	*ret_why = one->why;
	return true;
}

int store_open(struct store_engine *e, const char *path, const struct store_file_options *o,
	       struct store **ret, const char **ret_why)
{
	const bool nbd = store_nbd_names(path);
	struct found found = {0};

	if (!take(o->ahead, path, o, &found, ret_why))
		return nbd ? store_nbd_open(e, path, o, ret, ret_why)
			   : store_file_open(e, path, o, ret, ret_why);
	if (found.error)
		return found.error;
	return nbd ? nbd_attach(&found.link, e, path, o, ret, ret_why)
		   : file_attach(found.file, e, o, ret, ret_why);
}
