/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "engine/shard_priv.h"

#include <sched.h>
#include <time.h>

#include "base/time.h"

void shard_lock_init(struct shard *s)
{
	pthread_mutexattr_t a;

	pthread_mutexattr_init(&a);
	pthread_mutexattr_settype(&a, PTHREAD_MUTEX_ADAPTIVE_NP);
	pthread_mutex_init(&s->lock, &a);
	pthread_mutexattr_destroy(&a);
}

void shard_lock(struct shard *s)
{
	if (pthread_mutex_trylock(&s->lock)) {
		atomic_fetch_add_explicit(&s->waiters, 1, memory_order_relaxed);
		pthread_mutex_lock(&s->lock);
		atomic_fetch_sub_explicit(&s->waiters, 1, memory_order_relaxed);
	}
	s->clock = 0;
}

/* Not by pthread_mutex_clocklock(), which ThreadSanitizer does not see in every compiler. */
bool shard_lock_within(struct shard *s, uint64_t ns)
{
	const struct timespec pause = {.tv_nsec = 100 * NSEC_PER_USEC};
	const uint64_t end = time_now_ns() + ns;

	while (pthread_mutex_trylock(&s->lock)) {
		if (time_now_ns() >= end)
			return false;
		nanosleep(&pause, NULL);
	}
	s->clock = 0;
	return true;
}

void shard_unlock(struct shard *s)
{
	pthread_mutex_unlock(&s->lock);
}

void shard_unlock_fairly(struct shard *s)
{
	pthread_mutex_unlock(&s->lock);
	if (atomic_load_explicit(&s->waiters, memory_order_relaxed))
		sched_yield();
}
