/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* fork(): a child has no part in its parent's shards. */
#include "engine/shard_priv.h"

#include <unistd.h>

static struct list shards = {&shards, &shards};
static pthread_mutex_t shards_lock = PTHREAD_MUTEX_INITIALIZER;

/* The locks are held over the fork, so that the child's copy of the core is whole. */
static void fork_prepare(void)
{
	pthread_mutex_lock(&shards_lock);
	list_for_each(s, &shards, struct shard, link)
		shard_lock(s);
}

static void fork_parent(void)
{
	list_for_each(s, &shards, struct shard, link)
		shard_unlock(s);
	pthread_mutex_unlock(&shards_lock);
}

static void fork_child(void)
{
	list_for_each(s, &shards, struct shard, link) {
		atomic_store(&s->waiters, 0);
		shard_unlock(s);
		if (s->dead)
			continue;
		s->dead = true;
		for (size_t i = 0; i < s->drive.ports; i++)
			port_forked(s->drive.port[i]);
		close(s->wake_fd);
	}
	pthread_mutex_unlock(&shards_lock);
}

/* As early as there can be others who do something at a fork: the last who comes is asked first,
 * and whoever has a lock of his own may hold it when he takes ours. */
__attribute__((constructor)) static void watch_forks(void)
{
	pthread_atfork(fork_prepare, fork_parent, fork_child);
}

int shard_enlist(struct shard *s)
{
	int rc;

	pthread_mutex_lock(&shards_lock);
	rc = shard_thread_start(s);
	if (rc == 0)
		list_push_tail(&shards, &s->link);
	pthread_mutex_unlock(&shards_lock);
	return rc;
}

void shard_unlist(struct shard *s)
{
	pthread_mutex_lock(&shards_lock);
	list_remove(&s->link);
	pthread_mutex_unlock(&shards_lock);
}
