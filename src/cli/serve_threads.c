/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "cli/serve_threads.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/errno_text.h"
#include "base/time.h"
#include "cli/counted.h"

/* While hosts have queues here, so often disks that take long are looked for. */
#define WATCH_NS NSEC_PER_SEC
/* One that was told to end does so in a fraction of this, unless it hangs. */
#define JOIN_NS NSEC_PER_SEC

/* --- waking ----------------------------------------------------------------------------------- */

/* The counter of an eventfd cannot overflow by ones. */
static void wake(int fd)
{
	if (write(fd, &(uint64_t){1}, sizeof(uint64_t)) < 0)
		abort();
}

static void wake_thread(void *ctx)
{
	wake(((struct serve_thread *)ctx)->wake_fd);
}

static void wake_first(void *ctx)
{
	wake(((struct serve_threads *)ctx)->wake_fd);
}

static void clear(int fd)
{
	uint64_t count;

	(void)!read(fd, &count, sizeof(count));
}

void serve_threads_clear(struct serve_threads *t)
{
	clear(t->wake_fd);
}

/* --- a thread --------------------------------------------------------------------------------- */

static void watch_stores(struct serve_thread *t, uint64_t now)
{
	bool queues = !target_group_idle(&t->group);

	if (now >= t->watch_ns)
		target_group_watch(&t->group, now);
	if (!queues || now >= t->watch_ns || t->watch_ns == DEADLINE_NEVER)
		t->watch_ns = queues ? now + WATCH_NS : DEADLINE_NEVER;
}

static void sleep_until_something(struct serve_thread *t, uint64_t now)
{
	uint64_t deadline = min_of(target_group_next_deadline(&t->group), t->watch_ns);
	struct epoll_event ev[4];
	int timeout_ms = -1, n;

	deadline = min_of(deadline, serve_transports_next_deadline(&t->transports));
	if (deadline != DEADLINE_NEVER) {
		uint64_t ms = deadline > now ? (deadline - now) / NSEC_PER_MSEC + 1 : 0;

		timeout_ms = (int)min_of(ms, (uint64_t)INT_MAX);
	}
	n = epoll_wait(t->epoll_fd, ev, ARRAY_SIZE(ev), timeout_ms);
	for (int i = 0; i < n; i++) {
		if (ev[i].data.fd == t->wake_fd)
			clear(t->wake_fd);
		else if (ev[i].data.fd == store_engine_fd(t->engine))
			store_engine_clear(t->engine);
	}
}

/* What the first thread wants besides what the target's messages say. */
static void obey(struct serve_thread *t, bool *stopped)
{
	if (!*stopped) {
		*stopped = true;
		serve_transports_shutdown(&t->transports);
	}
	if (!t->idle && serve_transports_idle(&t->transports) && target_group_idle(&t->group)) {
		t->idle = true;
		wake(t->of->wake_fd);
	}
}

static void *run(void *arg)
{
	struct serve_thread *t = arg;
	uint64_t awake_until = 0;
	bool stopped = false;

	while (!atomic_load_explicit(&t->of->quit, memory_order_relaxed)) {
		uint64_t now = time_now_ns();
		bool sleepy = now >= awake_until, any;

		target_group_turn(&t->group, now);
		/* As in the first thread: what was sent is read before a timer fires. */
		any = serve_transports_process(&t->transports, now, sleepy);
		any |= target_group_process(&t->group, now);
		any |= store_engine_reap(t->engine) != 0;
		watch_stores(t, now);
		if (atomic_load_explicit(&t->of->stop, memory_order_acquire))
			obey(t, &stopped);
		if (any) { /* from the end of a turn on: it may take longer than that */
			uint64_t end = time_now_ns();

			if (t->group.figures)
				figures_settle(t->group.figures, end);
			awake_until = end + SERVE_POLL_NS;
		} else if (sleepy) {
			sleep_until_something(t, now);
		}
	}
	t->ended = true;
	return NULL;
}

/* --- all -------------------------------------------------------------------------------------- */

static int watch(const struct serve_thread *t, int fd)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.fd = fd};

	return epoll_ctl(t->epoll_fd, EPOLL_CTL_ADD, fd, &ev);
}

static int make(struct serve_thread *t, size_t pool_bytes)
{
	int error = store_engine_create(STORE_ENGINE_AUTO, &t->engine);

	if (error)
		return error;
	t->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	t->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (t->epoll_fd < 0 || t->wake_fd < 0 || watch(t, t->wake_fd) < 0 ||
	    watch(t, store_engine_fd(t->engine)) < 0)
		return -errno;
	error = shares_init(&t->shares, pool_bytes);
	if (!error)
		store_engine_lend(t->engine, t->shares.pool.base, t->shares.pool.len);
	return error;
}

int serve_threads_init(struct serve_threads *t, unsigned count, struct target *target,
		       struct store_engine *engine, struct serve_transports *transports,
		       size_t pool_bytes, char *why, size_t room)
{
	int error = 0;

	*t = (struct serve_threads){.target = target, .wake_fd = -1, .engines[0] = engine};
	if (!count)
		return 0;
	t->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	t->v = calloc(count, sizeof(*t->v));
	if (t->wake_fd < 0 || !t->v)
		error = -errno;
	for (unsigned i = 0; !error && i < count; i++) {
		struct serve_thread *one = &t->v[t->count++];

		one->of = t;
		one->watch_ns = DEADLINE_NEVER;
		error = make(one, pool_bytes);
		target_group_init(&one->group, target, counted_target(), wake_thread, one,
				  time_now_ns());
		one->group.figures = counted_figures();
		if (one->group.figures)
			figures_init(one->group.figures);
		serve_transports_init(&one->transports, one->epoll_fd);
		serve_transports_join(transports, &one->transports, &one->group, &one->shares);
		t->engines[t->count] = one->engine;
	}
	target->group.wake = wake_first;
	target->group.ctx = t;
	if (error)
		snprintf(why, room, "no resources for %u threads: %s", count + 1,
			 errno_text(-error));
	return error;
}

int serve_threads_start(struct serve_threads *t, char *why, size_t room)
{
	for (unsigned i = 0; i < t->count; i++) {
		int error = pthread_create(&t->v[i].thread, NULL, run, &t->v[i]);

		if (error) {
			snprintf(why, room, "no more than %u threads: %s", i + 1,
				 errno_text(error));
			return -error;
		}
		t->v[i].runs = true;
	}
	return 0;
}

static void wake_all(struct serve_threads *t)
{
	for (unsigned i = 0; i < t->count; i++)
		wake(t->v[i].wake_fd);
}

void serve_threads_shutdown(struct serve_threads *t)
{
	atomic_store_explicit(&t->stop, true, memory_order_release);
	wake_all(t);
}

bool serve_threads_idle(const struct serve_threads *t)
{
	for (unsigned i = 0; i < t->count; i++)
		if (!t->v[i].idle)
			return false;
	return true;
}

static bool all_ended(const struct serve_threads *t)
{
	for (unsigned i = 0; i < t->count; i++)
		if (t->v[i].runs && !t->v[i].ended)
			return false;
	return true;
}

/* What they sent last: all is the caller's thread's now. */
static void deliver_the_last(struct serve_threads *t)
{
	for (bool any = true; any;) {
		any = target_group_process(&t->target->group, time_now_ns());
		for (unsigned i = 0; i < t->count; i++)
			any |= target_group_process(&t->v[i].group, time_now_ns());
	}
}

bool serve_threads_join(struct serve_threads *t)
{
	const uint64_t end = time_now_ns() + JOIN_NS;

	t->quit = true;
	wake_all(t);
	while (!all_ended(t)) {
		if (time_now_ns() > end)
			return false;
		usleep(100);
	}
	for (unsigned i = 0; i < t->count; i++) {
		if (t->v[i].runs)
			pthread_join(t->v[i].thread, NULL);
		t->v[i].runs = false;
	}
	deliver_the_last(t);
	return true;
}

void serve_threads_fini(struct serve_threads *t)
{
	for (unsigned i = 0; i < t->count; i++) {
		struct serve_thread *one = &t->v[i];

		serve_transports_destroy(&one->transports);
		shares_fini(&one->shares);
		target_group_fini(&one->group);
		counted_figures_free(one->group.figures);
		close(one->wake_fd);
		close(one->epoll_fd);
	}
}

void serve_threads_free(struct serve_threads *t)
{
	for (unsigned i = 0; i < t->count; i++)
		store_engine_destroy(t->v[i].engine);
	free(t->v);
	if (t->wake_fd >= 0)
		close(t->wake_fd);
}
