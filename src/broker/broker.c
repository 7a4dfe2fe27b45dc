/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "broker/broker.h"

#include <assert.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/errno_text.h"
#include "base/heap.h" /* DEADLINE_NEVER */
#include "base/list.h"
#include "base/log.h"
#include "base/time.h"
#include "broker/broker_priv.h"
#include "broker/mapper.h"
#include "broker/name.h"
#include "broker/neigh.h"
#include "broker/reflector.h"
#include "broker/spawn.h"
#include "port/pcap/pcap_port.h"
#include "port/udp/udp_port.h"
#include "wire/bth.h"
#include "wire/iwpm.h"

#define EVENTS	       32
#define BACKLOG	       128
#define FIRST_GRACE_MS 5000 /* for the first client, which must connect after it has started us */
#define LINGER_NS      (10 * NSEC_PER_SEC) /* for what the wire is owed yet, or may ask for again */
#define RX_BATCHES     16
/* Of each other user than the broker's own; fewer where there are few descriptors. */
#define USER_CLIENTS_MAX 1024

/* ---- what the connection manager is handed -------------------------------------------------- */

static uint32_t cm_random(void *ctx)
{
	uint32_t v;
	ssize_t got = getrandom(&v, sizeof(v), 0);

	(void)ctx;
	assert(got == sizeof(v));
	return v;
}

static void cm_send(void *ctx, const struct packet_tx *tx)
{
	struct broker *b = ctx;

	port_tx(b->port, tx, 1, NULL);
}

static bool cm_local_addr(void *ctx, const struct gid *addr, uint32_t scope,
			  struct cm_local_addr *ret)
{
	struct broker *b = ctx;
	const struct broker_device *d = devices_find(b->devices, addr, scope);

	if (!d)
		return false;
	*ret = (struct cm_local_addr){.ca_guid = be64toh(d->guid_be),
				      .ifindex = d->ifindex,
				      .path_mtu = path_mtu_of(d->mtu)};
	return true;
}

static int cm_neighbour(void *ctx, const struct flow *flow, bool probe)
{
	(void)ctx;
	return neigh_check(flow, probe);
}

static int watch(struct broker *b, int fd, void *tag)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.ptr = tag};

	return epoll_ctl(b->epfd, EPOLL_CTL_ADD, fd, &ev) < 0 ? -errno : 0;
}

static void close_mapper(struct broker *b)
{
	if (b->mapper_fd >= 0)
		close(b->mapper_fd);
	b->mapper_fd = -1;
}

static void cm_listen_by_tcp(void *ctx, uint32_t count)
{
	struct broker *b = ctx;
	int rc;

	if (!count) {
		close_mapper(b);
		return;
	}
	if (b->mapper_fd >= 0)
		return;
	b->mapper_fd = rc = mapper_open();
	if (rc >= 0)
		rc = watch(b, b->mapper_fd, &b->mapper_fd);
	if (rc < 0) {
		log_info("broker", "no port mapper at UDP port %d: %s%s", IWPM_PORT,
			 errno_text(-rc), rc == -EADDRINUSE ? " (iwpmd?)" : "");
		close_mapper(b);
	}
}

static const struct cm_service_ops cm_ops = {cm_random, cm_send, cm_local_addr, cm_neighbour,
					     cm_listen_by_tcp};

static bool cm_received(void *ctx, const struct packet_rx *rx)
{
	struct broker *b = ctx;

	return cm_service_rx(b->cm, rx, time_now_ns());
}

static void hear_refusals(struct broker *b)
{
	struct udp_refusal r;

	for (int i = 0; i < RX_BATCHES && udp_port_refusal(b->udp, &r); i++) {
		b->sight.broker->icmp++;
		cm_service_refused(b->cm, &r.to, r.quoted, r.len, time_now_ns());
	}
}

static void device_changed(void *ctx, uint32_t ifindex, enum broker_device_change change)
{
	struct broker *b = ctx;

	b->sight.broker->device_changes++;
	cm_service_device_changed(b->cm, ifindex, change, time_now_ns());
}

/* ---- start, loop, end ---------------------------------------------------------------------- */

static int take_signals(struct broker *b)
{
	sigset_t set;

	signal(SIGPIPE, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
		return -errno;
	b->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return b->signal_fd < 0 ? -errno : 0;
}

static int dup_cloexec(int fd)
{
	int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);

	return copy < 0 ? -errno : copy;
}

/* As many as there may be; and so many of them for clients that sockets and channels have room. */
static void share_descriptors(struct broker *b)
{
	struct rlimit r = {1024, 1024};

	if (getrlimit(RLIMIT_NOFILE, &r) == 0) {
		r.rlim_cur = r.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &r);
	}
	b->files_max = (uint32_t)min_of(r.rlim_max, (rlim_t)UINT32_MAX);
	snprintf(b->starved, sizeof(b->starved),
		 "it has no descriptors left (limit %u); when its programs have ended, start `weft "
		 "broker` with a higher one (`ulimit -n`)",
		 b->files_max);
	b->clients_max = (size_t)r.rlim_max / 4;
	b->user_clients_max = min_of(b->clients_max / 4, (size_t)USER_CLIENTS_MAX);
}

static int setup(struct broker *b, const struct broker_options *o, char *err, size_t err_len)
{
	bool heir;
	int rc = leases_init(&b->leases, o->bag_in, o->bag_out, &heir, err, err_len), fd;

	if (rc)
		return rc;
	rc = devices_open(&b->devices);
	if (rc) {
		snprintf(err, err_len, "cannot read the network interfaces: %s", errno_text(-rc));
		return rc;
	}
	fd = dup_cloexec(leases_fd(&b->leases, 0));
	rc = fd < 0 ? fd : udp_port_create(&b->udp, fd);
	b->port = rc ? NULL : b->udp;
	if (rc == 0 && o->capture) {
		rc = pcap_port_before(&b->port, o->capture, NULL, NULL, err, err_len);
		if (rc)
			return rc;
	}
	if (rc == 0)
		rc = broker_sight_take(&b->sight);
	if (rc == 0)
		rc = cm_service_create(&b->cm, &cm_ops, b);
	if (rc == 0)
		cm_service_count_in(b->cm, b->sight.cm);
	if (rc == 0)
		cm_service_begin(b->cm, b->leases.members.note, heir, time_now_ns());
	if (rc == 0 && (b->epfd = epoll_create1(EPOLL_CLOEXEC)) < 0)
		rc = -errno;
	if (rc == 0)
		rc = take_signals(b);
	if (rc == 0)
		rc = watch(b, b->port->fd, &b->port);
	if (rc == 0 && (rc = udp_port_hear_refusals(b->udp)) >= 0)
		rc = watch(b, rc, &b->cm);
	if (rc == 0)
		rc = watch(b, leases_reflector(&b->leases), &b->leases);
	if (rc == 0)
		rc = watch(b, b->listen_fd, &b->listen_fd);
	if (rc == 0)
		rc = watch(b, b->signal_fd, &b->signal_fd);
	if (rc == 0)
		rc = watch(b, devices_fd(b->devices), &b->devices);
	/* Last: from now on clients come. */
	if (rc == 0 && listen(b->listen_fd, BACKLOG) < 0)
		rc = -errno;
	if (rc)
		snprintf(err, err_len, "cannot start: %s", errno_text(-rc));
	return rc;
}

static void receive(struct broker *b)
{
	for (int i = 0; i < RX_BATCHES; i++) {
		int got = port_rx(b->port, time_now_ns(), cm_received, b);

		if (got < 0)
			log_err("broker", "slot 0: %s", strerror(-got));
		if (got <= 0)
			return;
	}
}

static void serve(struct broker *b, const struct epoll_event *ev)
{
	void *tag = ev->data.ptr;

	if (tag == &b->listen_fd)
		session_begin(b);
	else if (tag == &b->signal_fd)
		b->stop = true;
	else if (tag == &b->devices)
		(void)!devices_refresh(b->devices, &(struct device_watcher){device_changed, b});
	else if (tag == &b->port)
		receive(b);
	else if (tag == &b->cm)
		hear_refusals(b);
	else if (tag == &b->leases)
		reflector_serve(leases_reflector(&b->leases));
	else if (tag == &b->mapper_fd)
		mapper_serve(b->mapper_fd, b->cm);
	else
		session_ready(tag);
}

/* When there will have been nothing to do for long enough, DEADLINE_NEVER while there is. */
static uint64_t idle_end(const struct broker *b)
{
	uint64_t wait = b->idle_exit_ns;

	if (b->idle_since == DEADLINE_NEVER || wait == DEADLINE_NEVER)
		return DEADLINE_NEVER;
	if (cm_service_busy(b->cm))
		wait = max_of(wait, (uint64_t)LINGER_NS);
	return b->idle_since + wait;
}

static bool idle_too_long(struct broker *b, uint64_t now)
{
	if (now < idle_end(b))
		return false;
	/* One that knocked just now is let in; one that knocks later finds the door shut and starts
	 * another broker. */
	return !session_begin(b);
}

static int timeout_ms(const struct broker *b, uint64_t now)
{
	uint64_t at = min_of(idle_end(b), cm_service_next_deadline(b->cm));

	at = min_of(at, b->tick_at);
	if (b->deaf_until)
		at = min_of(at, b->deaf_until);
	if (at == DEADLINE_NEVER)
		return -1;
	return at <= now ? 0 : (int)min_of((at - now) / NSEC_PER_MSEC + 1, (uint64_t)60000);
}

static void loop(struct broker *b)
{
	struct epoll_event ev[EVENTS];
	uint64_t now = time_now_ns();

	while (!b->stop && !idle_too_long(b, now)) {
		int n = epoll_wait(b->epfd, ev, EVENTS, timeout_ms(b, now));

		/* Each client is at most once in the array, so none is served after it is freed. */
		for (int i = 0; i < n; i++)
			serve(b, &ev[i]);
		now = time_now_ns();
		sessions_tick(b, now);
		if (cm_service_next_deadline(b->cm) <= now)
			cm_service_tick(b->cm, now);
	}
}

static void teardown(struct broker *b)
{
	/* Who is left here has not ended: we are told to, and the next broker gets what they have.
	 */
	leases_leave_inboxes(&b->leases);
	list_for_each(c, &b->clients, struct session, link)
		session_leave(c);
	if (b->cm)
		cm_service_destroy(b->cm);
	devices_close(b->devices);
	sysfs_fini(&b->sysfs);
	if (b->port)
		port_destroy(b->port);
	broker_sight_release(&b->sight);
	/* The port before the name: whoever gets the name needs the port. */
	leases_fini(&b->leases);
	if (b->listen_fd >= 0)
		close(b->listen_fd);
	if (b->signal_fd >= 0)
		close(b->signal_fd);
	close_mapper(b);
	if (b->epfd >= 0)
		close(b->epfd);
	if (b->spare_fd >= 0)
		close(b->spare_fd);
}

/* A library that leads its program's paths to the broker would lead ours to ourselves. */
static void leave_nodes(void)
{
	void (*off)(void) = (void (*)(void))(uintptr_t)dlsym(RTLD_DEFAULT, "weft_nodes_off");

	if (off)
		off();
}

int broker_run(const struct broker_options *o, char *err, size_t err_len)
{
	struct broker *b = calloc(1, sizeof(*b));
	struct ucred other;
	int rc;

	*err = 0;
	if (!b)
		return -ENOMEM;
	leave_nodes();
	b->since = time_now_ns();
	b->tick_at = DEADLINE_NEVER;
	b->epfd = b->listen_fd = b->signal_fd = b->mapper_fd = b->spare_fd = -1;
	members_init(&b->leases.members);
	sysfs_init(&b->sysfs);
	list_init(&b->clients);
	share_descriptors(b);
	rc = name_take(&b->listen_fd, &other);
	if (rc == 0) {
		rc = setup(b, o, err, err_len);
		if (o->ready_fd >= 0)
			broker_spawn_report(o->ready_fd, rc, err);
		if (rc == 0) {
			/* The first to come has some more time. */
			b->idle_exit_ns = o->idle_exit_ms < 0
						  ? DEADLINE_NEVER
						  : (uint64_t)o->idle_exit_ms * NSEC_PER_MSEC;
			b->idle_since = time_now_ns() + FIRST_GRACE_MS * NSEC_PER_MSEC;
			loop(b);
		}
	} else {
		/* Who wants a capture is not served by one that writes none. */
		bool fit = rc == -EEXIST && name_is_trusted(other.uid) && !o->capture;

		name_explain(rc, &other, err, err_len);
		if (o->ready_fd >= 0)
			broker_spawn_report(o->ready_fd, fit ? 0 : rc, err);
	}
	teardown(b);
	free(b);
	return rc;
}
