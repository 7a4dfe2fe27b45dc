// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#include "verbs/shard.h"

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
#include "port/pcap/pcap_file.h"
#include "port/pcap/pcap_port.h"
#include "port/udp/udp_port.h"
#include "verbs/channel.h"
#include "verbs/device_event.h"
#include "verbs/port_choice.h"
#include "verbs/private.h"
#include "verbs/process.h"
#include "verbs/qp.h"
#include "verbs/shared.h"
#include "verbs/stream.h"

/* Whoever else has the shard's lock is done with it in a fraction of this. */
#define EXIT_PATIENCE_NS (100 * NSEC_PER_MSEC)
/* Between tries to find another broker: twice as long each time. */
#define RECOVER_FIRST_NS (50 * NSEC_PER_MSEC)
#define RECOVER_MAX_S	 10

/* Lock order: this one before the connection's. */
static struct {
	pthread_mutex_t lock;
	struct shard *_Atomic shard[TRANSPORTS]; /* written under the lock */
	struct shard *watcher;			 /* of watch_fd: the first */
	int watch_fd;
} own = {.lock = PTHREAD_MUTEX_INITIALIZER, .watch_fd = -1};

/*
 * A child of fork() begins anew: its parent's shard is not its own (engine/ sees to its half, as
 * verbs/process.c to the connection's). What it inherited of objects it can only destroy.
 */
static void forked(void)
{
	pthread_mutex_init(&own.lock, NULL);
	event_pipes_forked();
	qp_forked();
	shared_forked();
	mcast_forked();
	device_events_forked();
	xrc_forked();
	for (size_t i = 0; i < TRANSPORTS; i++)
		own.shard[i] = NULL;
	if (own.watch_fd >= 0)
		close(own.watch_fd);
	own.watch_fd = -1;
}

static void watch_forks(void)
{
	pthread_atfork(NULL, NULL, forked);
}

/* ---- when the broker ends -------------------------------------------------------------------- */

static bool watch_ready(int fd);

/* In a thread of its own: the shard's is there for packets, which come and go as before. */
static void *recover(void *arg)
{
	struct broker_client *broker = arg;
	struct timespec pause = {.tv_nsec = RECOVER_FIRST_NS};

	while (broker_client_recover(broker, NULL)) {
		nanosleep(&pause, NULL);
		if (pause.tv_sec < RECOVER_MAX_S) {
			uint64_t ns = 2 * (uint64_t)(pause.tv_sec * NSEC_PER_SEC + pause.tv_nsec);

			pause = (struct timespec){(time_t)(ns / NSEC_PER_SEC),
						  (long)(ns % NSEC_PER_SEC)};
		}
	}
	pthread_mutex_lock(&own.lock);
	if (own.watch_fd >= 0)
		shard_watch(own.watcher, own.watch_fd, watch_ready);
	pthread_mutex_unlock(&own.lock);
	return NULL;
}

static void begin_recovery(void)
{
	struct broker_client *broker;
	sigset_t all, old;
	pthread_t thread;
	int rc = process_broker(&broker);

	if (rc)
		return;
	/* The application's signals are for its own threads. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	rc = pthread_create(&thread, NULL, recover, broker);
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
		process_device_changed();
		begin_recovery();
		return false;
	}
	if (ev.type == BROKER_CM_EV_PEER_DIED && own.shard[TRANSPORT_ROCE])
		qp_peer_died(own.shard[TRANSPORT_ROCE], ev.param.qpn);
	else if (ev.type == BROKER_CM_EV_DEVICE) {
		process_device_changed();
		device_changed(ev.id, (enum broker_device_change)ev.status);
	}
	return true;
}

/* Not to have it is a comfort less, and no reason to fail. */
static void watch_broker_locked(struct broker_client *broker, struct shard *watcher)
{
	struct broker_cm_id req = {.msg.type = BROKER_CM_WATCH};
	struct broker_msg resp;
	int fd, rc = broker_client_cm_channel(broker, &req.id, &fd);

	if (!rc)
		rc = broker_client_call(broker, &req, sizeof(req), &resp, sizeof(resp), NULL);
	if (rc) {
		log_info("verbs", "the broker will not tell of peers and ports: %s", strerror(-rc));
		return;
	}
	/* The end of the pipe may be over when it is read: another broker writes there then. */
	(void)!fcntl(fd, F_SETFL, O_NONBLOCK);
	own.watch_fd = fd;
	own.watcher = watcher;
	process_device_told();
	shard_watch(watcher, fd, watch_ready);
}

static const struct shard_upcalls upcalls = {
	.cq_notify = cq_notify,
	.async_event = async_event,
};

static int open_shard(struct shard **ret, struct broker_client *broker)
{
	const char *capture = secure_getenv("WEFT_PCAP");
	char err[256] = "";
	struct pcap_file *file = NULL;
	struct port *ports[PORT_CHOICE_MAX], *port;
	size_t n;
	uint8_t slot;
	int fd = -1, rc;

	/* Before there is a slot, which lasts as long as the process. */
	if (capture && *capture) {
		rc = pcap_file_open(&file, capture, err, sizeof(err));
		if (rc) {
			log_err("verbs", "no shard: %s", err);
			return rc;
		}
	}
	rc = broker_client_lease_slot(broker, &slot, &fd);
	if (rc) {
		log_err("verbs", "the broker leases no slot: %s",
			rc == -EDQUOT	? "you have as many as one user or process may have"
			: rc == -EUSERS ? "all 255 are taken"
					: errno_text(-rc));
		goto fail_file;
	}
	rc = udp_port_create(&port, fd);
	if (rc) {
		close(fd);
		goto fail;
	}
	if (file) {
		rc = pcap_port_write(&port, file, NULL, NULL);
		if (rc)
			goto fail_port;
		file = NULL; /* the port's */
	}
	n = port_choice(ports, port, broker, slot, capture);
	rc = shard_create(ret, ports, n, slot, &upcalls);
	if (!rc)
		return 0;
	while (n)
		port_destroy(ports[--n]);
	goto fail;
fail_port:
	port_destroy(port);
fail:
	log_err("verbs", "no shard on slot %u: %s", slot, errno_text(-rc));
fail_file:
	if (file)
		pcap_file_close(file);
	return rc;
}

int process_shard(enum face_transport kind, struct shard **ret)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct broker_client *broker;
	struct shard *s;
	int rc;

	pthread_once(&once, watch_forks);
	pthread_mutex_lock(&own.lock);
	rc = process_broker(&broker);
	if (!rc && !own.shard[kind]) {
		rc = kind == TRANSPORT_IWARP ? stream_shard_open(&s, &upcalls)
					     : open_shard(&s, broker);
		if (!rc) {
			own.shard[kind] = s;
			if (own.watch_fd < 0)
				watch_broker_locked(broker, s);
		}
	}
	*ret = own.shard[kind];
	pthread_mutex_unlock(&own.lock);
	return rc;
}

struct shard *process_shard_if_any(enum face_transport kind)
{
	return own.shard[kind];
}

/* An adapter has acknowledged what a program received before the program sees it; here that may
 * wait for the next call, which exit() forgoes. Programs call that in handlers of signals, too:
 * then the lock may be the interrupted call's, which never goes on. */
__attribute__((destructor)) static void flush_at_exit(void)
{
	for (size_t i = 0; i < TRANSPORTS; i++) {
		struct shard *s = own.shard[i];

		if (!s || !shard_lock_within(s, EXIT_PATIENCE_NS))
			continue;
		shard_flush(s);
		if (i == TRANSPORT_IWARP)
			stream_linger_at_exit(s);
		shard_unlock(s);
	}
}

/* ---- for librdmacm --------------------------------------------------------------------------- */

void weft_private_cm_event(const struct broker_cm_event *ev)
{
	struct broker_client *broker;

	if (process_broker(&broker) == 0)
		broker_client_event(broker, ev);
	/* The watch channel tells of it as well, sooner or later. */
	if (ev->type == BROKER_CM_EV_DISCONNECTED && ev->param.qpn && own.shard[TRANSPORT_ROCE])
		qp_peer_died(own.shard[TRANSPORT_ROCE], ev->param.qpn);
}
