/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Connections to NBD servers that are made before they are asked for, by threads. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "store/nbd.h"

#define THREADS 32 /* at most; each for one server after the other */

struct store_ahead {
	struct ahead_one {
		char *uri;
		bool taken;
		int error; /* of the connecting */
		char why[256];
		struct nbd_link link; /* if there was none */
	} * v;
	unsigned count, next, left; /* these two by whoever */
	uint32_t block_size;
	int fd;
	bool stop;
	pthread_t threads[THREADS];
	unsigned thread_count;
};

static void connect_one(struct store_ahead *a, struct ahead_one *o)
{
	const char *why = "";

	o->error = nbd_link_open(o->uri, a->block_size, &a->stop, &o->link, &why);
	if (o->error) /* libnbd's text is this thread's */
		snprintf(o->why, sizeof(o->why), "%s", why);
}

static void *connect_all(void *arg)
{
	struct store_ahead *a = arg;
	unsigned i;

	while ((i = __atomic_fetch_add(&a->next, 1, __ATOMIC_RELAXED)) < a->count) {
		connect_one(a, &a->v[i]);
		if (__atomic_sub_fetch(&a->left, 1, __ATOMIC_ACQ_REL) == 0)
			(void)!write(a->fd, &(uint64_t){1}, sizeof(uint64_t));
	}
	return NULL;
}

static int begin(struct store_ahead *a, const char *const *uris)
{
	int error = 0;

	a->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (a->fd < 0)
		return -errno;
	for (unsigned i = 0; i < a->count; i++) {
		a->v[i].uri = strdup(uris[i]);
		if (!a->v[i].uri)
			return -ENOMEM;
	}
	while (!error && a->thread_count < min_of(a->count, (unsigned)THREADS)) {
		error = pthread_create(&a->threads[a->thread_count], NULL, connect_all, a);
		a->thread_count += !error;
	}
	return a->thread_count ? 0 : -error; /* few do it, too */
}

int store_ahead_begin(const char *const *uris, unsigned count, uint32_t block_size,
		      struct store_ahead **ret)
{
	struct store_ahead *a = calloc(1, sizeof(*a));
	int error = -ENOMEM;

	if (!a)
		return error;
	*a = (struct store_ahead){
		.count = count, .left = count, .block_size = block_size, .fd = -1};
	a->v = calloc(count + 1, sizeof(*a->v));
	if (a->v)
		error = begin(a, uris);
	if (error)
		store_ahead_end(a);
	else
		*ret = a;
	return error;
}

int store_ahead_fd(const struct store_ahead *a)
{
	return a->fd;
}

bool store_ahead_done(const struct store_ahead *a)
{
	return __atomic_load_n(&a->left, __ATOMIC_ACQUIRE) == 0;
}

bool store_ahead_is_for(const struct store_ahead *a, const char *const *uris, unsigned count)
{
	bool same = a->count == count;

	for (unsigned i = 0; same && i < count; i++)
		same = strcmp(a->v[i].uri, uris[i]) == 0;
	return same;
}

int nbd_ahead_take(struct store_ahead *a, const char *uri, uint32_t block_size,
		   struct nbd_link *ret, const char **ret_why)
{
	if (!a || !store_ahead_done(a) || a->block_size != block_size)
		return -ENOENT;
	for (unsigned i = 0; i < a->count; i++) {
		struct ahead_one *o = &a->v[i];

		if (o->taken || strcmp(o->uri, uri) != 0)
			continue;
		o->taken = true;
		*ret = o->link;
		*ret_why = o->why;
		return o->error;
	}
	return -ENOENT;
}

void store_ahead_end(struct store_ahead *a)
{
	if (!a)
		return;
	__atomic_store_n(&a->stop, true, __ATOMIC_RELEASE);
	__atomic_store_n(&a->next, a->count, __ATOMIC_RELAXED);
	for (unsigned i = 0; i < a->thread_count; i++)
		pthread_join(a->threads[i], NULL);
	for (unsigned i = 0; a->v && i < a->count; i++) {
		if (!a->v[i].taken && a->v[i].link.h)
			nbd_link_close(&a->v[i].link);
		free(a->v[i].uri);
	}
	if (a->fd >= 0)
		close(a->fd);
	free(a->v);
	free(a);
}
