/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "engine/shard.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/list.h"
#include "base/log.h"
#include "base/time.h"
#include "base/uncancelled.h"
#include "engine/failure.h"
#include "engine/pages.h"

#define SLICE_NS  (100 * NSEC_PER_USEC) /* the least that is granted */
#define LOOK_NS	  (100 * NSEC_PER_MSEC)
#define TX_BATCH  64
#define TX_ROUNDS 16 /* batches within one hold of the lock */

#define WINDOW_LARGE (512 << 10)

/*
 * A poller that calls without a pause for spin_ns gets the socket to itself for LEASE_NS from its
 * last call; the thread then looks after it. One that let its lease run out, and comes back to
 * send as soon as the thread has received for it (BACK_NS), is no good poller: it was waiting for
 * memory to change. The next time it has to go on for twice as long, until it keeps a lease for
 * KEPT_NS. (One that comes back late, or to poll, was not running: that is no fault.)
 */
#define PAUSE_NS    (200 * NSEC_PER_USEC)
#define SPIN_MIN_NS (20 * NSEC_PER_USEC)
#define SPIN_MAX_NS (20 * NSEC_PER_MSEC)
#define LEASE_NS    (500 * NSEC_PER_USEC)
#define BACK_NS	    (100 * NSEC_PER_USEC)
#define KEPT_NS	    (2 * NSEC_PER_MSEC)

/* For who attends: that long it may be at something else. */
#define ATTEND_LEASE_NS (2 * NSEC_PER_MSEC)
/* After one left while others slept: so long the thread serves them all. */
#define SHARED_NS (10 * NSEC_PER_MSEC)
/* So long a packet may wait for one who said to attend and never came, being cancelled perhaps. */
#define ATTEND_GUARD_NS (200 * NSEC_PER_MSEC)

#define CATCH_UP_BATCHES 1024 /* more than a full socket holds */

struct shard {
	struct list link; /* of all */
	pthread_mutex_t lock;
	atomic_int waiters; /* for the lock; the thread lets them go first */

	/* Guarded by the lock. */
	struct rnic *rnic;
	struct udp_port *port;
	bool headers;	       /* the port has been asked for them */
	uint64_t now;	       /* of the receive batch under way */
	uint64_t clock;	       /* handed out by shard_now() since the lock was taken, 0: not */
	uint64_t poll_since;   /* when a caller began to poll without a pause */
	uint64_t poll_last;    /* its last call */
	uint64_t lease_since;  /* 0: no lease */
	uint64_t lease_until;  /* 0: no lease */
	uint64_t spin_ns;      /* how long one must poll for a lease */
	uint64_t sleeps_until; /* the thread, 0 while it is awake */
	uint64_t lost_at;      /* a lease ran out, and its owner has not come back: 0 or when */
	bool listens;	       /* the thread sleeps on the socket */
	uint64_t attended;     /* the ticket of who sleeps on the socket, 0: nobody */
	uint64_t tickets;      /* given out */
	bool put_off;	       /* what an attendant had to send, when it last came */
	uint64_t guard;	       /* while attended: when the thread looks for itself */
	unsigned int refused;  /* would have attended, and sleep */
	uint64_t shared;       /* so long nobody attends */
	bool channels;	       /* somebody waits for completion events, and attends nothing */
	bool stop, dead;
	uint8_t random[256]; /* fresh random bytes, used from the end */
	size_t random_left;
	struct rnic_tx tx[TX_BATCH];

	struct watch {
		int fd; /* -1: none */
		bool (*ready)(int fd);
		unsigned nr; /* whether it is still the same */
	} watch;

	struct shard_upcalls up;
	pthread_t thread;
	int wake_fd;
};

/* ---- what the core is handed --------------------------------------------------------------- */

static void *core_alloc(void *ctx, size_t bytes)
{
	(void)ctx;
	return calloc(1, bytes);
}

static void core_free(void *ctx, void *p)
{
	(void)ctx;
	free(p);
}

static uint32_t core_random(void *ctx)
{
	struct shard *s = ctx;
	uint32_t v;

	if (s->random_left < sizeof(v)) {
		int before = uncancelled_begin();
		ssize_t got = getrandom(s->random, sizeof(s->random), 0);

		uncancelled_end(before);
		/* Up to 256 bytes never come short once the kernel's pool is ready. */
		assert(got == sizeof(s->random));
		s->random_left = sizeof(s->random);
	}
	s->random_left -= sizeof(v);
	memcpy(&v, s->random + s->random_left, sizeof(v));
	return v;
}

static void core_cq_notify(void *ctx, void *cq_user)
{
	struct shard *s = ctx;

	s->up.cq_notify(cq_user);
}

static void core_async_event(void *ctx, enum rnic_event event, void *object_user)
{
	struct shard *s = ctx;

	s->up.async_event(event, object_user);
}

static void core_mtu_suspected(void *ctx, uint32_t qpn, uint32_t mtu)
{
	(void)ctx;
	log_warn("engine",
		 "queue pair 0x%06x: retries ran out, and no packet of %u bytes, the path MTU, was "
		 "ever "
		 "acknowledged, but shorter ones were: the peer or the way to it takes less",
		 qpn, mtu);
}

static void core_qp_failed(void *ctx, const struct rnic_failure *f)
{
	(void)ctx;
	if (log_enabled(LOG_LEVEL_INFO))
		failure_log(f);
}

static bool core_page_in(void *ctx, void *p, size_t len, bool write)
{
	(void)ctx;
	return !pages_populate(p, len, write);
}

static const struct rnic_ops core_ops = {
	.alloc = core_alloc,
	.free = core_free,
	.random = core_random,
	.cq_notify = core_cq_notify,
	.async_event = core_async_event,
	.page_in = core_page_in,
	.mtu_suspected = core_mtu_suspected,
	.qp_failed = core_qp_failed,
};

/* ---- progress; all with the lock held ------------------------------------------------------- */

static void wake(struct shard *s)
{
	uint64_t one = 1;

	/* Until it has looked, further deadlines are seen without waking. */
	s->sleeps_until = 0;
	if (uncancelled_write(s->wake_fd, &one, sizeof(one)) < 0)
		log_err("engine", "cannot wake the thread: %s", strerror(errno));
}

/* Sends what is to be sent, at most TX_ROUNDS batches. True if more is left. */
static bool transmit(struct shard *s, uint64_t now)
{
	for (int i = 0; i < TX_ROUNDS; i++) {
		size_t n = rnic_tx(s->rnic, s->tx, TX_BATCH, now);

		if (n)
			udp_port_tx(s->port, s->tx, n);
		if (n < TX_BATCH)
			return rnic_tx_pending(s->rnic);
	}
	return rnic_tx_pending(s->rnic);
}

static bool received(void *ctx, const struct rnic_rx *rx)
{
	struct shard *s = ctx;

	return rnic_rx(s->rnic, rx, s->now);
}

/* One receive batch and the timers that are due. Number of packets received. */
static int receive(struct shard *s, uint64_t now)
{
	int got;

	s->now = now;
	got = udp_port_rx(s->port, now, received, s);
	if (rnic_next_deadline(s->rnic) <= now)
		rnic_tick(s->rnic, now);
	return got;
}

/* A call of the application: is it one that polls without a pause? */
static void renew_lease(struct shard *s, uint64_t now)
{
	if (now - s->poll_last > PAUSE_NS)
		s->poll_since = now;
	s->poll_last = now;
	if (now - s->poll_since < s->spin_ns)
		return;
	if (!s->lease_since)
		s->lease_since = now;
	else if (now - s->lease_since > KEPT_NS)
		s->spin_ns = SPIN_MIN_NS;
	s->lease_until = now + LEASE_NS;
}

bool shard_progress(struct shard *s)
{
	uint64_t now;
	int got;

	if (s->dead)
		return false;
	now = time_now_ns();
	s->lost_at = 0;
	renew_lease(s, now);
	if (s->lease_until > now) {
		/* It will call again: what follows from this batch, acknowledgements mostly, goes
		 * out then, or along with what it posts until then. */
		if (rnic_tx_pending(s->rnic))
			transmit(s, now);
		got = receive(s, now);
	} else {
		got = receive(s, now);
		if (rnic_tx_pending(s->rnic))
			transmit(s, now);
	}
	return got > 0;
}

void shard_catch_up(struct shard *s)
{
	for (int i = 0; !s->dead && i < CATCH_UP_BATCHES; i++)
		if (receive(s, time_now_ns()) <= 0)
			break;
	shard_flush(s);
}

void shard_polled(struct shard *s)
{
	s->lost_at = 0;
}

void shard_flush(struct shard *s)
{
	uint64_t now = s->clock ? s->clock : time_now_ns();
	bool more;

	if (s->dead)
		return;
	if (s->lost_at && now - s->lost_at < BACK_NS)
		s->spin_ns = min_of(s->spin_ns * 2, SPIN_MAX_NS);
	s->lost_at = 0;
	if (s->lease_until)
		renew_lease(s, now);
	more = transmit(s, now);
	/* A poller looks at the timers itself. */
	if (s->sleeps_until && s->lease_until <= now &&
	    (more || rnic_next_deadline(s->rnic) < s->sleeps_until))
		wake(s);
}

void shard_watch(struct shard *s, int fd, bool (*ready)(int fd))
{
	shard_lock(s);
	s->watch = (struct watch){fd, ready, s->watch.nr + 1};
	if (!s->dead)
		wake(s);
	shard_unlock(s);
}

void shard_sleeping(struct shard *s)
{
	s->channels = true;
	s->poll_last = 0;
	if (!s->lease_until || s->dead)
		return;
	s->lease_until = s->lease_since = 0;
	if (s->sleeps_until)
		wake(s);
}

/* ---- who sleeps on the socket ---------------------------------------------------------------- */

int shard_attend(struct shard *s, bool sleeps, uint64_t *ret_ticket)
{
	uint64_t now;

	*ret_ticket = 0;
	if (s->dead)
		return -1;
	now = time_now_ns();
	if (rnic_tx_pending(s->rnic) && (sleeps || s->put_off))
		transmit(s, now);
	s->put_off = !sleeps;
	/* A thread that listens as well stops that with the next packet. */
	if (s->sleeps_until &&
	    ((sleeps && rnic_tx_pending(s->rnic)) || rnic_next_deadline(s->rnic) < s->sleeps_until))
		wake(s);
	if (s->attended || s->channels || now < s->shared) {
		s->refused++;
		return -1;
	}
	*ret_ticket = s->attended = ++s->tickets;
	s->guard = now + ATTEND_GUARD_NS;
	return udp_port_fd(s->port);
}

/*
 * What follows from what has come is sent with what the caller posts now, or when it sleeps again.
 * Meanwhile others may depend on the socket: then the thread has it at once.
 */
void shard_attended(struct shard *s, uint64_t ticket, bool readable)
{
	uint64_t now;

	if (s->dead)
		return;
	if (!ticket) {
		s->refused--;
		return;
	}
	now = time_now_ns();
	if (readable)
		receive(s, now);
	if (s->attended != ticket)
		return;
	s->attended = 0;
	if (s->refused || s->channels) {
		s->shared = now + SHARED_NS;
		if (s->sleeps_until && !s->listens)
			wake(s);
		return;
	}
	s->lease_until = now + ATTEND_LEASE_NS;
	if (s->sleeps_until > s->lease_until)
		wake(s);
}

/* ---- the thread ------------------------------------------------------------------------------ */

static void unlock_fairly(struct shard *s)
{
	pthread_mutex_unlock(&s->lock);
	if (atomic_load_explicit(&s->waiters, memory_order_relaxed))
		sched_yield();
}

/* Sleeps until the time comes, something is sent to us if we listen, or we are woken. True if the
 * watched descriptor is ready. */
static bool thread_sleep(struct shard *s, uint64_t now, uint64_t until, int watched, bool listen)
{
	struct pollfd p[] = {
		{.fd = s->wake_fd, .events = POLLIN},
		{.fd = watched, .events = POLLIN},
		{.fd = udp_port_fd(s->port), .events = POLLIN},
	};
	uint64_t ns = until > now ? until - now : 0, count;
	struct timespec ts = {
		.tv_sec = (time_t)(ns / NSEC_PER_SEC),
		.tv_nsec = (long)(ns % NSEC_PER_SEC),
	};

	if (ppoll(p, listen ? 3 : 2, until == DEADLINE_NEVER ? NULL : &ts, NULL) < 0)
		return false;
	if ((p[0].revents & POLLIN) && read(s->wake_fd, &count, sizeof(count)) < 0)
		log_err("engine", "eventfd: %s", strerror(errno));
	return p[1].revents;
}

/*
 * The application may keep every processor busy, waiting for what only this thread can bring. With
 * a short slice Linux (6.12 and later) lets it run as soon as it wakes, for as long as it stays
 * short; older kernels ignore the wish.
 */
static void ask_for_short_slices(void)
{
	struct { /* sched_setattr(2); <linux/sched/types.h> and <sched.h> exclude each other */
		uint32_t size, policy;
		uint64_t flags;
		int32_t nice;
		uint32_t priority;
		uint64_t runtime_ns, deadline_ns, period_ns;
	} a = {
		.size = sizeof(a),
		.policy = SCHED_OTHER,
		.nice = getpriority(PRIO_PROCESS, 0),
		.runtime_ns = SLICE_NS,
	};

	if (syscall(SYS_sched_setattr, 0, &a, 0) < 0)
		log_info("engine", "no short slices: %s", strerror(errno));
}

/* Others receive: when is the thread to look again? 0: nobody does. */
static uint64_t others_receive(const struct shard *s, uint64_t now)
{
	uint64_t until;

	if (s->lease_until > now)
		return s->lease_until;
	until = min_of(s->guard, rnic_next_deadline(s->rnic));
	if (!s->attended || until <= now)
		return 0;
	/* So that one who comes and goes all the time need not wake the thread each time. */
	return s->lease_until + ATTEND_LEASE_NS > now ? min_of(until, now + ATTEND_LEASE_NS)
						      : until;
}

static void *thread_main(void *arg)
{
	struct shard *s = arg;
	uint64_t woken_at = DEADLINE_NEVER; /* what the last sleep was meant to last until */
	uint64_t look_at = 0;		    /* at the watched descriptor, however busy */

	prctl(PR_SET_NAME, "weft-shard");
	ask_for_short_slices();
	prctl(PR_SET_TIMERSLACK, 1000ul); /* RNR timers are of tens of microseconds */
	pthread_mutex_lock(&s->lock);
	while (!s->stop) {
		uint64_t until, now = time_now_ns();
		struct watch watch;
		bool go_on, listen, busy;

		until = others_receive(s, now);
		listen = !until;
		if (listen) {
			int got;

			if (s->lease_since)
				s->lost_at = now;
			s->lease_until = s->lease_since = 0;
			got = receive(s, now);
			transmit(s, now);
			s->guard = now + ATTEND_GUARD_NS;
			if (got > 0)
				s->attended = 0;
			busy = got > 0 || rnic_tx_pending(s->rnic);
			if (busy && now < look_at) {
				unlock_fairly(s);
				pthread_mutex_lock(&s->lock);
				continue;
			}
			if (got < 0) {
				log_err("engine", "the socket is broken: %s", strerror(-got));
				break;
			}
			until = busy ? now : rnic_next_deadline(s->rnic);
			/* A deadline that has been put off since is kept: waking once too often
			 * costs less than being woken for the next packet's timer. */
			if (woken_at > now)
				until = min_of(until, woken_at);
			woken_at = until;
			if (s->attended) {
				until = min_of(until, s->guard);
				listen = false;
			}
		}
		look_at = now + LOOK_NS;
		s->sleeps_until = until;
		s->listens = listen;
		watch = s->watch;
		pthread_mutex_unlock(&s->lock);
		go_on = !thread_sleep(s, now, until, watch.fd, listen) || watch.ready(watch.fd);
		pthread_mutex_lock(&s->lock);
		if (!go_on && s->watch.nr == watch.nr)
			s->watch.fd = -1;
		s->sleeps_until = 0;
	}
	pthread_mutex_unlock(&s->lock);
	return NULL;
}

/* ---- forks ----------------------------------------------------------------------------------- */

static struct list shards = {&shards, &shards};
static pthread_mutex_t shards_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

static void lock_init(pthread_mutex_t *m)
{
	pthread_mutexattr_t a;

	pthread_mutexattr_init(&a);
	pthread_mutexattr_settype(&a, PTHREAD_MUTEX_ADAPTIVE_NP);
	pthread_mutex_init(m, &a);
	pthread_mutexattr_destroy(&a);
}

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
		lock_init(&s->lock);
		atomic_store(&s->waiters, 0);
		if (s->dead)
			continue;
		s->dead = true;
		udp_port_forked(s->port);
		close(s->wake_fd);
	}
	pthread_mutex_init(&shards_lock, NULL);
}

static void watch_forks(void)
{
	pthread_atfork(fork_prepare, fork_parent, fork_child);
}

/* ---- life ------------------------------------------------------------------------------------ */

static int start_thread(struct shard *s)
{
	sigset_t all, old;
	int rc;

	/* The application's signals are for its own threads. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	rc = pthread_create(&s->thread, NULL, thread_main, s);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return -rc;
}

/*
 * How much may be on the way to a socket like ours, peers being taken for our like. The kernel's
 * figure counts its own bookkeeping too; without privilege it is 416 KiB on a plain Debian, where
 * the core's default just fits.
 */
static uint32_t window_for(int fd)
{
	socklen_t len = sizeof(int);
	int room = 0;

	if (getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, &len) < 0 || room < 4 * WINDOW_LARGE)
		return 0; /* the core's default */
	return WINDOW_LARGE;
}

int shard_create(struct shard **ret, int fd, uint8_t slot, const struct shard_upcalls *up)
{
	uint32_t window = window_for(fd);
	struct rnic_config config = {.slot = slot, .window_bytes = window, .socket_bytes = window};
	struct shard *s = calloc(1, sizeof(*s));
	int rc;

	if (!s)
		return -ENOMEM;
	lock_init(&s->lock);
	s->up = *up;
	s->spin_ns = SPIN_MIN_NS;
	s->watch.fd = -1;
	s->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (s->wake_fd < 0) {
		rc = -errno;
		goto fail;
	}
	rc = rnic_create(&s->rnic, &config, &core_ops, s);
	if (rc)
		goto fail_wake;
	pthread_once(&fork_once, watch_forks);
	pthread_mutex_lock(&shards_lock);
	shard_lock(s); /* the thread waits for it */
	rc = start_thread(s);
	if (rc) {
		shard_unlock(s);
		pthread_mutex_unlock(&shards_lock);
		goto fail_rnic;
	}
	/* Last, as it takes over fd. */
	rc = udp_port_create(&s->port, fd);
	s->stop = rc != 0;
	if (rc == 0)
		list_push_tail(&shards, &s->link);
	shard_unlock(s);
	pthread_mutex_unlock(&shards_lock);
	if (rc) {
		pthread_join(s->thread, NULL);
		goto fail_rnic;
	}
	*ret = s;
	return 0;
fail_rnic:
	rnic_destroy(s->rnic);
fail_wake:
	close(s->wake_fd);
fail:
	pthread_mutex_destroy(&s->lock);
	free(s);
	return rc;
}

void shard_destroy(struct shard *s)
{
	if (!s)
		return;
	pthread_mutex_lock(&shards_lock);
	list_remove(&s->link);
	pthread_mutex_unlock(&shards_lock);
	if (!s->dead) {
		shard_lock(s);
		s->stop = true;
		wake(s);
		shard_unlock(s);
		pthread_join(s->thread, NULL);
		close(s->wake_fd);
	}
	udp_port_destroy(s->port);
	rnic_destroy(s->rnic);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

struct rnic *shard_rnic(struct shard *s)
{
	return s->rnic;
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
	const struct timespec pause = {.tv_nsec = 100000};
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

bool shard_is_dead(const struct shard *s)
{
	return s->dead;
}

uint64_t shard_now(struct shard *s)
{
	s->clock = time_now_ns();
	return s->clock;
}

void shard_want_headers(struct shard *s)
{
	if (!s->headers)
		udp_port_want_headers(s->port);
	s->headers = true;
}

const struct udp_port_counters *shard_port_counters(const struct shard *s)
{
	return udp_port_counters(s->port);
}
