// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#include "verbs/process.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/errno_text.h"
#include "base/log.h"
#include "base/time.h"
#include "broker/proto_cm.h"
#include "verbs/cq.h"
#include "verbs/device_event.h"
#include "verbs/face.h"
#include "verbs/private.h"
#include "verbs/qp.h"
#include "verbs/shared.h"

/* Whoever else has the shard's lock is done with it in a fraction of this. */
#define EXIT_PATIENCE_NS (100 * NSEC_PER_MSEC)
/* Between tries to find another broker: twice as long each time. */
#define RECOVER_FIRST_NS (50 * NSEC_PER_MSEC)
#define RECOVER_MAX_S	 10
/* How old a table of devices may be that is good enough for one more connection. */
#define LATELY_NS (100 * NSEC_PER_MSEC)

static struct {
	pthread_mutex_t lock;
	struct broker_client *broker;
	struct shard *shard;
	int watch_fd;
} process = {.lock = PTHREAD_MUTEX_INITIALIZER, .watch_fd = -1};

/* The table that was asked for last. Whoever changes a device has the broker tell us. */
static struct {
	struct broker_devices *table; /* process.lock; NULL: none */
	uint64_t until;
	unsigned int changes; /* before it was asked for */
} lately;

static atomic_uint device_changes;

/*
 * A child of fork() begins anew: its parent's connection and shard are not its own (broker/client.c
 * and engine/shard.c see to their halves). What it inherited of objects it can only destroy.
 */
static void forked(void)
{
	pthread_mutex_init(&process.lock, NULL);
	event_pipes_forked();
	qp_forked();
	shared_forked();
	mcast_forked();
	device_events_forked();
	xrc_forked();
	process.broker = NULL;
	process.shard = NULL;
	lately.until = 0;
	if (process.watch_fd >= 0)
		close(process.watch_fd);
	process.watch_fd = -1;
}

static void watch_forks(void)
{
	pthread_atfork(NULL, NULL, forked);
}

static int broker_locked(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	char err[256];
	int rc;

	if (process.broker)
		return 0;
	pthread_once(&once, watch_forks);
	rc = broker_client_open(&process.broker, err, sizeof(err));
	if (rc) {
		process.broker = NULL;
		log_err("verbs", "%s", err);
	}
	return rc;
}

int process_broker(struct broker_client **ret)
{
	int rc;

	pthread_mutex_lock(&process.lock);
	rc = broker_locked();
	*ret = process.broker;
	pthread_mutex_unlock(&process.lock);
	return rc;
}

/* ---- when the broker ends -------------------------------------------------------------------- */

static bool watch_ready(int fd);

/* In a thread of its own: the shard's is there for packets, which come and go as before. */
static void *recover(void *arg)
{
	struct broker_client *broker = arg;
	struct timespec pause = {.tv_nsec = RECOVER_FIRST_NS};

	while (broker_client_recover(broker)) {
		nanosleep(&pause, NULL);
		if (pause.tv_sec < RECOVER_MAX_S) {
			uint64_t ns = 2 * (uint64_t)(pause.tv_sec * NSEC_PER_SEC + pause.tv_nsec);

			pause = (struct timespec){(time_t)(ns / NSEC_PER_SEC),
						  (long)(ns % NSEC_PER_SEC)};
		}
	}
	pthread_mutex_lock(&process.lock);
	if (process.broker == broker && process.watch_fd >= 0)
		shard_watch(process.shard, process.watch_fd, watch_ready);
	pthread_mutex_unlock(&process.lock);
	return NULL;
}

static void begin_recovery(void)
{
	sigset_t all, old;
	pthread_t thread;
	int rc;

	/* The application's signals are for its own threads. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	rc = pthread_create(&thread, NULL, recover, process.broker);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (rc == 0)
		pthread_detach(thread);
	else
		log_warn("verbs", "no thread to look for another broker: %s", strerror(rc));
}

/*
 * The broker tells what becomes of devices, and when the process at the other end of a connection
 * has died. A program that only receives, and looks at no CM event meanwhile, would wait for ever,
 * as no timer of its runs; so its QP goes to the error state, and what it posted comes back.
 */
static bool watch_ready(int fd)
{
	struct broker_cm_event ev;

	ssize_t n = read(fd, &ev, sizeof(ev));

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return true;
	if (n != sizeof(ev)) {
		atomic_fetch_add(&device_changes, 1);
		begin_recovery();
		return false;
	}
	if (ev.type == BROKER_CM_EV_PEER_DIED)
		qp_peer_died(process.shard, ev.param.qpn);
	else if (ev.type == BROKER_CM_EV_DEVICE) {
		atomic_fetch_add(&device_changes, 1);
		device_changed(ev.id, (enum broker_device_change)ev.status);
	}
	return true;
}

/* Not to have it is a comfort less, and no reason to fail. */
static void watch_broker_locked(void)
{
	struct broker_cm_id req = {.msg.type = BROKER_CM_WATCH};
	struct broker_msg resp;
	int fd, rc = broker_client_cm_channel(process.broker, &req.id, &fd);

	if (!rc)
		rc = broker_client_call(process.broker, &req, sizeof(req), &resp, sizeof(resp),
					NULL);
	if (rc) {
		log_info("verbs", "the broker will not tell of peers and ports: %s", strerror(-rc));
		return;
	}
	/* The end of the pipe may be over when it is read: another broker writes there then. */
	(void)!fcntl(fd, F_SETFL, O_NONBLOCK);
	process.watch_fd = fd;
	shard_watch(process.shard, fd, watch_ready);
}

int process_shard(struct shard **ret)
{
	static const struct shard_upcalls upcalls = {
		.cq_notify = cq_notify,
		.async_event = async_event,
	};
	uint8_t slot;
	int fd = -1, rc;

	pthread_mutex_lock(&process.lock);
	rc = broker_locked();
	if (!rc && !process.shard) {
		rc = broker_client_lease_slot(process.broker, &slot, &fd);
		if (rc) {
			log_err("verbs", "the broker leases no slot: %s",
				rc == -EDQUOT	? "you have as many as one user or process may have"
				: rc == -EUSERS ? "all 255 are taken"
						: errno_text(-rc));
		} else {
			rc = shard_create(&process.shard, fd, slot, &upcalls);
			if (rc) {
				process.shard = NULL;
				close(fd);
				log_err("verbs", "no shard on slot %u: %s", slot, errno_text(-rc));
			} else {
				watch_broker_locked();
			}
		}
	}
	*ret = process.shard;
	pthread_mutex_unlock(&process.lock);
	return rc;
}

struct shard *process_shard_if_any(void)
{
	struct shard *s;

	pthread_mutex_lock(&process.lock);
	s = process.shard;
	pthread_mutex_unlock(&process.lock);
	return s;
}

/* An adapter has acknowledged what a program received before the program sees it; here that may
 * wait for the next call, which exit() forgoes. Programs call that in handlers of signals, too:
 * then the lock may be the interrupted call's, which never goes on. */
__attribute__((destructor)) static void flush_at_exit(void)
{
	if (!process.shard || !shard_lock_within(process.shard, EXIT_PATIENCE_NS))
		return;
	shard_flush(process.shard);
	shard_unlock(process.shard);
}

int process_devices(struct broker_devices **ret)
{
	struct broker_client *broker;
	struct broker_devices *d;
	int rc = process_broker(&broker);

	if (rc)
		return rc;
	d = malloc(sizeof(*d));
	if (!d)
		return -ENOMEM;
	rc = broker_client_devices(broker, d);
	if (rc) {
		free(d);
		return rc;
	}
	*ret = d;
	return 0;
}

static struct broker_devices *recall_locked(void)
{
	struct broker_devices *d;

	if (!process.broker || process.watch_fd < 0 || !lately.table ||
	    lately.changes != atomic_load(&device_changes) || time_now_ns() > lately.until)
		return NULL;
	d = malloc(sizeof(*d));
	if (d)
		*d = *lately.table;
	return d;
}

int process_devices_lately(struct broker_devices **ret)
{
	const unsigned int changes = atomic_load(&device_changes);
	int rc;

	pthread_mutex_lock(&process.lock);
	*ret = recall_locked();
	pthread_mutex_unlock(&process.lock);
	if (*ret)
		return 0;
	rc = process_devices(ret);
	if (rc)
		return rc;
	pthread_mutex_lock(&process.lock);
	if (!lately.table)
		lately.table = malloc(sizeof(*lately.table));
	if (lately.table) {
		*lately.table = **ret;
		lately.until = time_now_ns() + LATELY_NS;
		lately.changes = changes;
	}
	pthread_mutex_unlock(&process.lock);
	return 0;
}

/* ---- for librdmacm ----------------------------------------------------------------------------
 */

int weft_private_call(const void *req, size_t req_len, void *resp, size_t resp_len)
{
	struct broker_client *broker;
	int rc = process_broker(&broker);

	return rc ? rc : broker_client_call(broker, req, req_len, resp, resp_len, NULL);
}

int weft_private_cm_channel(uint32_t *ret_channel, int *ret_fd)
{
	struct broker_client *broker;
	int rc = process_broker(&broker);

	return rc ? rc : broker_client_cm_channel(broker, ret_channel, ret_fd);
}

int weft_private_recover(void)
{
	struct broker_client *broker;
	int rc = process_broker(&broker);

	return rc ? rc : broker_client_recover(broker);
}

void weft_private_cm_event(const struct broker_cm_event *ev)
{
	struct broker_client *broker;

	if (process_broker(&broker) == 0)
		broker_client_event(broker, ev);
	/* The watch channel tells of it as well, sooner or later. */
	if (ev->type == BROKER_CM_EV_DISCONNECTED && ev->param.qpn && process.shard)
		qp_peer_died(process.shard, ev->param.qpn);
}

int weft_private_devices(bool lately_will_do, struct broker_devices **ret)
{
	return lately_will_do ? process_devices_lately(ret) : process_devices(ret);
}
