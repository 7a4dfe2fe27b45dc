// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#include "rsocket/svc.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/time.h"
#include "rsocket/dgram.h"
#include "rsocket/stream.h"

/* What its descriptors are, to epoll. */
enum source { FROM_CHANNEL, FROM_WAKE, FROM_UDP };

static struct svc {
	pthread_mutex_t lock;
	struct rdma_event_channel *channel;
	int wake_fd; /* the first deadline has changed */
	int set;     /* of epoll: a datagram socket that is closed leaves it at once */
	struct list keepalive;
	struct list dgrams;
	struct list lingering;
	atomic_uint lingering_count;
	struct list asked; /* listeners */
	struct {
		_Atomic(bool (*)(void *)) look;
		void *arg;
		atomic_uint looks;
		atomic_bool done;
	} job; /* svc_look_until() */
} svc = {.lock = PTHREAD_MUTEX_INITIALIZER,
	 .lingering = {&svc.lingering, &svc.lingering},
	 .asked = {&svc.asked, &svc.asked}};

/* They take completions, which nobody tells the service of; and memory, half a megabyte each. */
enum { LINGER_LOOK_MS = 10, LINGERING_MAX = 128, EXIT_TRIES = 100 };
#define STUCK_NS NSEC_PER_SEC
/* Neither does a child that claims a listener tell. */
enum { ASKED_LOOK_MS = 10 };
enum { DEAF_MS = 1000 }; /* between two looks for a broker, where there was none to be had */

void svc_lock(void)
{
	pthread_mutex_lock(&svc.lock);
}

void svc_unlock(void)
{
	pthread_mutex_unlock(&svc.lock);
}

/* In a child there is no thread, and the channel is the parent's: begin anew when asked. */
static void child_of_fork(void)
{
	pthread_mutex_init(&svc.lock, NULL);
	svc.channel = NULL;
	list_init(&svc.lingering);
	list_init(&svc.asked);
	svc.lingering_count = 0;
}

/* ---- keepalives ------------------------------------------------------------------------------ */

void svc_keepalive(struct stream *s, unsigned int seconds)
{
	list_remove(&s->keepalive);
	s->keepalive_due_ns = 0;
	if (!seconds)
		return;
	s->keepalive_due_ns = time_now_ns() + seconds * NSEC_PER_SEC;
	list_push_tail(&svc.keepalive, &s->keepalive);
	(void)!eventfd_write(svc.wake_fd, 1);
}

/* Sends those due; returns the time until the next in milliseconds, -1 for never. */
static int keepalives(void)
{
	uint64_t now = time_now_ns(), next = UINT64_MAX;

	list_for_each(s, &svc.keepalive, struct stream, keepalive) {
		if (s->keepalive_due_ns <= now) {
			(void)stream_keepalive(s);
			s->keepalive_due_ns = now + s->keepalive_s * NSEC_PER_SEC;
		}
		next = min_of(next, s->keepalive_due_ns);
	}
	return next == UINT64_MAX ? -1 : (int)min_of((next - now) / NSEC_PER_MSEC + 1, 60000ull);
}

/* ---- closed by the application --------------------------------------------------------------- */

static void linger_no_more(struct stream *s)
{
	stream_destroy(s);
	svc.lingering_count--;
}

void svc_linger(struct stream *s)
{
	if (svc.lingering_count == LINGERING_MAX)
		linger_no_more(list_entry(svc.lingering.next, struct stream, lingering));
	svc.lingering_count++;
	list_push_tail(&svc.lingering, &s->lingering);
	s->linger_due_ns = stream_linger_end(s);
	sock_fini(&s->sock); /* its number is free, and nobody waits for it */
	(void)!eventfd_write(svc.wake_fd, 1);
}

/* As keepalives(). */
static int lingerers(void)
{
	const uint64_t now = time_now_ns();

	list_for_each(s, &svc.lingering, struct stream, lingering)
		if (now >= s->linger_due_ns || stream_all_sent(s))
			linger_no_more(s);
	return svc.lingering_count ? LINGER_LOOK_MS : -1;
}

/* At exit: as if close() had waited. A signal's handler may call exit() over one of our own calls,
 * whose lock nobody gives back then. */
__attribute__((destructor)) static void at_exit(void)
{
	const struct timespec look = {.tv_nsec = LINGER_LOOK_MS * NSEC_PER_MSEC};
	int locked = 0;

	while (atomic_load(&svc.lingering_count) && locked < EXIT_TRIES) {
		locked = pthread_mutex_trylock(&svc.lock) ? locked + 1 : 0;
		if (!locked)
			svc_unlock();
		nanosleep(&look, NULL);
	}
}

/* ---- the end of the process ------------------------------------------------------------------ */

/* As keepalives(). */
static int job(void)
{
	bool (*const look)(void *) = atomic_load(&svc.job.look);

	if (!look || atomic_load(&svc.job.done))
		return -1;
	if (look(svc.job.arg) && !atomic_load(&svc.lingering_count))
		atomic_store(&svc.job.done, true);
	atomic_fetch_add(&svc.job.looks, 1);
	return 1;
}

void svc_look_until(bool (*look)(void *arg), void *arg, uint64_t end_ns)
{
	static atomic_flag taken = ATOMIC_FLAG_INIT;
	const struct timespec pause = {.tv_nsec = 200 * NSEC_PER_USEC};
	uint64_t now = time_now_ns(), looked_ns = now;
	unsigned int looks;

	if (!svc.channel || atomic_flag_test_and_set(&taken))
		return;
	svc.job.arg = arg;
	atomic_store(&svc.job.done, false);
	looks = atomic_load(&svc.job.looks);
	atomic_store(&svc.job.look, look);
	(void)!eventfd_write(svc.wake_fd, 1);
	while (!atomic_load(&svc.job.done) && now < end_ns && now - looked_ns < STUCK_NS) {
		nanosleep(&pause, NULL);
		now = time_now_ns();
		if (atomic_load(&svc.job.looks) != looks)
			looked_ns = now;
		looks = atomic_load(&svc.job.looks);
	}
	atomic_store(&svc.job.look, NULL);
	atomic_flag_clear(&taken);
}

/* ---- listeners that answer late -------------------------------------------------------------- */

void svc_look_after_asking(struct stream *listener)
{
	if (list_empty(&listener->waited_for))
		list_push_tail(&svc.asked, &listener->waited_for);
}

/* As keepalives(). */
static int asked(void)
{
	list_for_each(s, &svc.asked, struct stream, waited_for)
		if (!stream_look_after_asking(s))
			list_remove(&s->waited_for);
	return list_empty(&svc.asked) ? -1 : ASKED_LOOK_MS;
}

/* ---- datagrams ------------------------------------------------------------------------------- */

void svc_add_dgram(struct dgram *d)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.u32 = FROM_UDP};

	list_push_tail(&svc.dgrams, &d->service);
	(void)!epoll_ctl(svc.set, EPOLL_CTL_ADD, d->udp, &ev);
}

static void serve_dgrams(void)
{
	svc_lock();
	list_for_each(d, &svc.dgrams, struct dgram, service)
		dgram_service(d);
	svc_unlock();
}

/* ---- the thread ------------------------------------------------------------------------------ */

/* 0, or -errno when the channel gives no more. */
static int take_events(struct rdma_event_channel *channel)
{
	struct rdma_cm_event *event;
	int rc = 0;

	svc_lock();
	while (!rdma_get_cm_event(channel, &event)) {
		if (event->id->ps == RDMA_PS_UDP)
			dgram_cm_event(event);
		else
			stream_cm_event(event);
	}
	if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)
		rc = -errno;
	svc_unlock();
	return rc;
}

/* Of two timeouts in milliseconds, -1 being none. */
static int sooner(int a, int b)
{
	return a < 0 || (b >= 0 && b < a) ? b : a;
}

static int watch(int fd, enum source from)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.u32 = from};

	return epoll_ctl(svc.set, EPOLL_CTL_ADD, fd, &ev) ? -errno : 0;
}

static void *run(void *arg)
{
	struct rdma_event_channel *channel = arg;
	struct epoll_event ev[16];
	uint64_t deaf_until = 0;
	eventfd_t count;

	for (;;) {
		int n, timeout;

		svc_lock();
		timeout = sooner(sooner(keepalives(), lingerers()), asked());
		svc_unlock();
		timeout = sooner(timeout, job());
		if (deaf_until)
			timeout = sooner(timeout, DEAF_MS);
		n = epoll_wait(svc.set, ev, ARRAY_SIZE(ev), timeout);
		if (deaf_until && time_now_ns() >= deaf_until) {
			deaf_until = 0;
			(void)!watch(channel->fd, FROM_CHANNEL);
		}
		for (int i = 0; i < n; i++) {
			if (ev[i].data.u32 == FROM_WAKE)
				(void)!eventfd_read(svc.wake_fd, &count);
			else if (ev[i].data.u32 == FROM_UDP)
				serve_dgrams();
			else if (take_events(channel)) {
				/* Connections stay without connection management, and the next
				 * broker may be long in coming: of another user, say. */
				(void)!epoll_ctl(svc.set, EPOLL_CTL_DEL, channel->fd, NULL);
				deaf_until = time_now_ns() + DEAF_MS * NSEC_PER_MSEC;
			}
		}
	}
	return NULL;
}

/* The descriptors; what there is when it fails, stop() closes. */
static int open_all(void)
{
	int rc;

	svc.channel = rdma_create_event_channel();
	if (!svc.channel || fcntl(svc.channel->fd, F_SETFL, O_NONBLOCK))
		return -errno;
	svc.wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	svc.set = epoll_create1(EPOLL_CLOEXEC);
	if (svc.wake_fd < 0 || svc.set < 0)
		return -errno;
	rc = watch(svc.channel->fd, FROM_CHANNEL);
	return rc ? rc : watch(svc.wake_fd, FROM_WAKE);
}

static void stop(void)
{
	if (svc.set >= 0)
		close(svc.set);
	if (svc.wake_fd >= 0)
		close(svc.wake_fd);
	if (svc.channel)
		rdma_destroy_event_channel(svc.channel);
	svc.channel = NULL;
}

static int start(void)
{
	static bool watching_forks;
	sigset_t all, before;
	pthread_t thread;
	int rc;

	if (!watching_forks) {
		pthread_atfork(NULL, NULL, child_of_fork);
		watching_forks = true;
	}
	list_init(&svc.keepalive);
	list_init(&svc.dgrams);
	svc.wake_fd = svc.set = -1;
	rc = open_all();
	if (!rc) {
		/* Signals are the application's. */
		sigfillset(&all);
		pthread_sigmask(SIG_SETMASK, &all, &before);
		rc = -pthread_create(&thread, NULL, run, svc.channel);
		pthread_sigmask(SIG_SETMASK, &before, NULL);
	}
	if (rc) {
		stop();
		return rc;
	}
	pthread_setname_np(thread, "rsocket");
	pthread_detach(thread);
	return 0;
}

struct rdma_event_channel *svc_channel(void)
{
	struct rdma_event_channel *channel;
	int rc = 0;

	svc_lock();
	if (!svc.channel)
		rc = start();
	channel = svc.channel;
	svc_unlock();
	if (rc)
		errno = -rc;
	return rc ? NULL : channel;
}
