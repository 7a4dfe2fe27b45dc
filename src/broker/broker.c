/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "broker/broker.h"

#include <assert.h>
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
#include <sys/un.h>
#include <unistd.h>

#include "base/heap.h" /* DEADLINE_NEVER */
#include "base/list.h"
#include "base/log.h"
#include "base/time.h"
#include "broker/cm_service.h"
#include "broker/devices.h"
#include "broker/fd_msg.h"
#include "broker/leases.h"
#include "broker/neigh.h"
#include "broker/proto.h"
#include "broker/reflector.h"
#include "broker/spawn.h"
#include "broker/stranger_fd.h"
#include "port/udp/udp_port.h"
#include "wire/bth.h"

#define EVENTS	       32
#define BACKLOG	       128
#define FIRST_GRACE_MS 5000 /* for the first client, which must connect after it has started us */
/* Descriptors of a process that ends by a signal close in ascending order: with this one the name
 * is free only after the port is. */
#define LISTEN_FD_MIN 900
#define LINGER_NS     (5 * NSEC_PER_SEC) /* for disconnects that the wire still owes an answer */
#define RX_BATCHES    16
#define CLIENT_SLOTS  16 /* that one process may have */
#define TICK_NS	      NSEC_PER_SEC
#define GREETING_NS   (5 * NSEC_PER_SEC) /* in which a client says HELLO */
/* Of each other user than the broker's own; fewer where there are few descriptors. */
#define USER_CLIENTS_MAX 1024
#define NAME_WAIT_NS	 (5 * NSEC_PER_SEC)
#define DEAF_NS		 (200 * NSEC_PER_MSEC) /* while there are no descriptors for who knocks */

struct client {
	struct list link;
	struct broker *broker;
	int fd;
	struct ucred peer;
	const char *refused; /* why it is not served: it is told so, and no more */
	bool greeted;
	uint64_t since;
	uint8_t slots[LEASE_SLOTS / 8]; /* leased to it */
	unsigned slot_count;
	struct cm_client *cm;
};

struct broker {
	int epfd, listen_fd, signal_fd;
	struct devices *devices;
	struct leases leases;
	struct udp_port *port; /* slot 0 */
	struct cm_service *cm;
	struct list clients;
	uint64_t idle_since, idle_exit_ns; /* DEADLINE_NEVER: not idle, or never */
	uint64_t tick_at;		   /* DEADLINE_NEVER: no clients */
	uint64_t deaf_until;		   /* nobody is let in; 0: everybody is */
	size_t clients_max, user_clients_max;
	bool stop;
};

/* ---- what the connection manager is handed -------------------------------------------------- */

static uint32_t cm_random(void *ctx)
{
	uint32_t v;
	ssize_t got = getrandom(&v, sizeof(v), 0);

	(void)ctx;
	assert(got == sizeof(v));
	return v;
}

static void cm_send(void *ctx, const struct rnic_tx *tx)
{
	struct broker *b = ctx;

	udp_port_tx(b->port, tx, 1);
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

static const struct cm_service_ops cm_ops = {cm_random, cm_send, cm_local_addr, cm_neighbour};

static bool cm_received(void *ctx, const struct rnic_rx *rx)
{
	struct broker *b = ctx;

	return cm_service_rx(b->cm, rx, time_now_ns());
}

static void device_changed(void *ctx, uint32_t ifindex, enum broker_device_change change)
{
	struct broker *b = ctx;

	cm_service_device_changed(b->cm, ifindex, change, time_now_ns());
}

/* ---- a client's requests ------------------------------------------------------------------- */

static int reply(struct client *c, const void *msg, size_t len, int fd)
{
	/* A client that does not read its replies is not waited for. */
	return fd_msg_send(c->fd, msg, len, MSG_DONTWAIT, fd);
}

static int answer_hello(struct client *c, const struct broker_hello *req, size_t len)
{
	struct broker_hello r = {
		.msg.type = BROKER_HELLO,
		.version = BROKER_PROTO_VERSION,
		.pid = (uint32_t)getpid(),
		.generation = cm_service_generation(c->broker->cm),
	};
	int bag = -1;

	if (c->refused) {
		snprintf(r.why, sizeof(r.why), "%s", c->refused);
		r.msg.error = -EPERM;
		return reply(c, &r, sizeof(r), -1) ?: -EPERM;
	}
	if (len != sizeof(*req) || req->version != BROKER_PROTO_VERSION)
		r.msg.error = -EPROTO;
	else
		c->greeted = true;
	if (c->greeted && c->peer.uid == geteuid())
		bag = c->broker->leases.members.bag.out;
	return reply(c, &r, sizeof(r), bag);
}

static int answer_bag(struct client *c)
{
	struct broker_msg r = {.type = BROKER_BAG};
	int fd = c->broker->leases.members.bag.in;

	if (c->peer.uid != geteuid()) {
		r.error = -EPERM;
		fd = -1;
	}
	return reply(c, &r, sizeof(r), fd);
}

static int answer_lease(struct client *c)
{
	struct broker_slot r = {.msg.type = BROKER_LEASE_SLOT};
	struct broker *b = c->broker;
	int fd = -1, slot = -EDQUOT;

	if (c->slot_count < CLIENT_SLOTS)
		slot = leases_take(&b->leases, c->peer.uid, time_now_ns(), &fd);
	if (slot < 0) {
		log_warn("broker", "no slot for pid %d of user %u, which has %u: %s", c->peer.pid,
			 c->peer.uid, c->slot_count, strerror(-slot));
		r.msg.error = slot;
		return reply(c, &r, sizeof(r), -1);
	}
	r.slot = (uint32_t)slot;
	c->slot_count++;
	c->slots[slot / 8] |= (uint8_t)(1u << slot % 8);
	log_debug("broker", "slot %d goes to pid %d", slot, c->peer.pid);
	return reply(c, &r, sizeof(r), fd);
}

/* Takes fd over. */
static int answer_keep(struct client *c, const struct broker_slot *req, size_t len, int fd)
{
	struct broker_msg r = {.type = BROKER_KEEP_SLOT};

	if (len != sizeof(*req) || fd < 0)
		r.error = -EINVAL;
	else if (c->slot_count == CLIENT_SLOTS)
		r.error = -EDQUOT;
	else
		r.error = leases_keep(&c->broker->leases, req->slot, c->peer.uid, fd);
	if (r.error) {
		log_warn("broker", "pid %d cannot keep slot %u: %s", c->peer.pid,
			 len == sizeof(*req) ? req->slot : 0, strerror(-r.error));
		if (fd >= 0)
			stranger_close(fd);
	} else {
		c->slot_count++;
		c->slots[req->slot / 8] |= (uint8_t)(1u << req->slot % 8);
	}
	return reply(c, &r, sizeof(r), -1);
}

static int answer_resume_channel(struct client *c, const struct broker_cm_id *req, size_t len,
				 int fd)
{
	struct broker_msg r = {.type = BROKER_CM_RESUME_CHANNEL};

	r.error = len != sizeof(*req) || fd < 0 ? -EINVAL
						: cm_client_resume_channel(c->cm, req->id, fd);
	if (fd >= 0)
		stranger_close(fd);
	return reply(c, &r, sizeof(r), -1);
}

static int answer_group(struct client *c, const struct broker_group *req, size_t len)
{
	struct broker_msg r = {.type = BROKER_GROUP};

	if (len != sizeof(*req) || !gid_is_multicast(&req->group))
		r.error = -EINVAL;
	else if (req->slot >= LEASE_SLOTS || !(c->slots[req->slot / 8] & 1u << req->slot % 8))
		r.error = -EPERM;
	else
		r.error = leases_group(&c->broker->leases, req->slot, &req->group, req->ifindex,
				       req->join);
	return reply(c, &r, sizeof(r), -1);
}

static int answer_cm_channel(struct client *c)
{
	struct broker_cm_channel r = {.msg.type = BROKER_CM_CHANNEL};
	int fd = -1, rc;

	r.msg.error = cm_client_channel(c->cm, &r.channel, &fd);
	rc = reply(c, &r, sizeof(r), fd);
	if (fd >= 0)
		close(fd);
	return rc;
}

static int answer_cm(struct client *c, const void *req, size_t len)
{
	_Alignas(max_align_t) uint8_t r[BROKER_CM_REPLY_MAX];

	return reply(c, r, cm_client_request(c->cm, req, len, r, time_now_ns()), -1);
}

static int answer_unattached(struct client *c, const void *req, size_t len, uint32_t type)
{
	struct broker_msg unknown = {.type = type, .error = -EOPNOTSUPP};

	switch (type) {
	case BROKER_HELLO:
		return answer_hello(c, req, len);
	case BROKER_DEVICES:
		return reply(c, devices_table(c->broker->devices), sizeof(struct broker_devices),
			     -1);
	case BROKER_BAG:
		return answer_bag(c);
	case BROKER_LEASE_SLOT:
		return answer_lease(c);
	case BROKER_GROUP:
		return answer_group(c, req, len);
	case BROKER_CM_CHANNEL:
		return answer_cm_channel(c);
	default:
		if (type >= BROKER_CM_FIRST)
			return answer_cm(c, req, len);
		return reply(c, &unknown, sizeof(unknown), -1);
	}
}

/* Takes fd over, -1 if none came. A negative result ends the connection. */
static int answer(struct client *c, const void *req, size_t len, int fd)
{
	struct broker_msg msg = {0};

	if (len >= sizeof(msg))
		memcpy(&msg, req, sizeof(msg));
	if (len >= sizeof(msg) && c->greeted) {
		if (msg.type == BROKER_KEEP_SLOT)
			return answer_keep(c, req, len, fd);
		if (msg.type == BROKER_CM_RESUME_CHANNEL)
			return answer_resume_channel(c, req, len, fd);
	}
	if (fd >= 0)
		stranger_close(fd);
	if (len < sizeof(msg) || (!c->greeted && msg.type != BROKER_HELLO))
		return -EPROTO;
	return answer_unattached(c, req, len, msg.type);
}

/* ---- clients come and go ------------------------------------------------------------------- */

static void client_gone(struct client *c)
{
	struct broker *b = c->broker;
	uint64_t now = time_now_ns();

	log_debug("broker", "pid %d has gone", c->peer.pid);
	if (c->cm)
		cm_client_destroy(c->cm, now);
	for (unsigned i = 0; i < LEASE_SLOTS; i++)
		if (c->slots[i / 8] & 1u << i % 8)
			leases_release(&b->leases, i, now);
	list_remove(&c->link);
	/* Leaves the epoll set: there is no duplicate. */
	if (c->peer.uid == geteuid())
		close(c->fd);
	else
		stranger_hang_up(c->fd);
	free(c);
	if (list_empty(&b->clients)) {
		b->idle_since = now;
		b->tick_at = DEADLINE_NEVER;
	}
}

static void client_ready(struct client *c)
{
	_Alignas(max_align_t) uint8_t req[4096];
	int rc, fd;
	ssize_t n = fd_msg_recv(c->fd, req, sizeof(req), MSG_DONTWAIT | MSG_TRUNC, &fd);

	if (n == -EAGAIN || n == -EINTR)
		return;
	if (n <= 0) {
		if (fd >= 0) /* with no bytes at all */
			stranger_close(fd);
		client_gone(c);
		return;
	}
	if ((size_t)n > sizeof(req)) {
		rc = -EMSGSIZE;
		if (fd >= 0)
			stranger_close(fd);
	} else {
		rc = answer(c, req, (size_t)n, fd);
	}
	if (rc) {
		log_info("broker", "end of the talk with pid %d: %s", c->peer.pid, strerror(-rc));
		client_gone(c);
	}
}

/* Who cannot be let in stays at the door, which would wake us again and again. */
static void listen_again_at(struct broker *b, uint64_t at)
{
	struct epoll_event ev = {.events = at ? 0 : EPOLLIN, .data.ptr = &b->listen_fd};

	if (epoll_ctl(b->epfd, EPOLL_CTL_MOD, b->listen_fd, &ev) == 0)
		b->deaf_until = at;
}

/* Is the user one of ours, and not another namespace's that looks like nobody from here? */
static bool uid_is_known(uid_t uid)
{
	FILE *f = fopen("/proc/self/uid_map", "re");
	unsigned long first, outside, count;
	bool known = false;

	while (f && fscanf(f, "%lu %lu %lu", &first, &outside, &count) == 3)
		known |= uid >= first && uid - first < count;
	if (f)
		fclose(f);
	return known;
}

/* NULL, or why this one is not served. */
static const char *refusal(struct broker *b, const struct ucred *peer)
{
	uid_t own = geteuid();
	size_t all = 0, same = 0, others = 0;

	list_for_each(c, &b->clients, struct client, link) {
		all++;
		same += c->peer.uid == peer->uid;
		others += c->peer.uid != own;
	}
	if (all >= b->clients_max)
		return "it has as many clients as it can have";
	if (peer->uid == own)
		return NULL;
	/* A user's broker serves that user; one of root's serves all, as a kernel does, if it can
	 * keep them apart. */
	if (own != 0)
		return "it serves its own user only";
	if (strangers_hang())
		return "what others have sent it cannot be closed";
	if (!uid_is_known(peer->uid))
		return "you are a user of another user namespace";
	if (foreign_ready(&b->leases.foreign))
		return b->leases.foreign.why;
	if (others >= b->clients_max / 2)
		return "all its users but root have as many clients as they can have";
	return same >= b->user_clients_max ? "you have as many clients as one user may have" : NULL;
}

static bool client_arrives(struct broker *b)
{
	struct epoll_event ev = {.events = EPOLLIN};
	int fd = accept4(b->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	socklen_t len = sizeof(struct ucred);
	struct client *c;
	int rc = -ENOMEM;

	if (fd < 0) {
		if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)
			listen_again_at(b, time_now_ns() + DEAF_NS);
		return false;
	}
	c = calloc(1, sizeof(*c));
	if (!c)
		goto fail;
	*c = (struct client){.broker = b, .fd = fd, .since = time_now_ns()};
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &c->peer, &len) < 0) {
		rc = -errno;
		goto fail;
	}
	c->refused = refusal(b, &c->peer);
	ev.data.ptr = c;
	rc = cm_client_create(b->cm, c->peer.uid, &c->cm);
	if (rc == 0 && epoll_ctl(b->epfd, EPOLL_CTL_ADD, fd, &ev) < 0)
		rc = -errno;
	if (rc)
		goto fail;
	list_push_tail(&b->clients, &c->link);
	b->idle_since = DEADLINE_NEVER;
	if (b->tick_at == DEADLINE_NEVER)
		b->tick_at = c->since + TICK_NS;
	return true;
fail:
	log_warn("broker", "a client cannot be served: %s", strerror(-rc));
	if (c && c->cm)
		cm_client_destroy(c->cm, time_now_ns());
	free(c);
	close(fd);
	return true;
}

static void tick(struct broker *b, uint64_t now)
{
	b->tick_at = now + TICK_NS;
	leases_tick(&b->leases);
	/* Who says nothing takes room from others. */
	list_for_each(c, &b->clients, struct client, link)
		if (!c->greeted && now - c->since > GREETING_NS)
			client_gone(c);
}

/* ---- start, loop, end ---------------------------------------------------------------------- */

static socklen_t own_name(struct sockaddr_un *a)
{
	*a = (struct sockaddr_un){.sun_family = AF_UNIX};
	memcpy(a->sun_path + 1, BROKER_SOCKET_NAME, strlen(BROKER_SOCKET_NAME));
	return offsetof(struct sockaddr_un, sun_path) + 1 + strlen(BROKER_SOCKET_NAME);
}

/* Whether another listens at the name, and who. */
static bool another_listens(struct ucred *ret)
{
	struct sockaddr_un a;
	socklen_t len = own_name(&a), cred_len = sizeof(*ret);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	bool yes = fd >= 0 && (connect(fd, (struct sockaddr *)&a, len) == 0 || errno == EAGAIN);

	*ret = (struct ucred){0};
	if (yes)
		(void)!getsockopt(fd, SOL_SOCKET, SO_PEERCRED, ret, &cred_len);
	if (fd >= 0)
		close(fd);
	return yes;
}

/*
 * 0 if the name is ours now; -EEXIST if another broker listens, who is other; or -errno. One that
 * has the name but does not listen is about to begin or to end.
 */
static int take_name(struct broker *b, struct ucred *other)
{
	struct timespec pause = {.tv_nsec = 5 * NSEC_PER_MSEC};
	uint64_t until = time_now_ns() + NAME_WAIT_NS;
	struct sockaddr_un a;
	socklen_t len = own_name(&a);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return -errno;
	b->listen_fd = fcntl(fd, F_DUPFD_CLOEXEC, LISTEN_FD_MIN);
	if (b->listen_fd < 0)
		b->listen_fd = fd; /* few descriptors allowed here */
	else
		close(fd);
	for (;;) {
		if (bind(b->listen_fd, (struct sockaddr *)&a, len) == 0)
			return 0;
		if (errno != EADDRINUSE)
			return -errno;
		if (another_listens(other))
			return -EEXIST;
		if (time_now_ns() > until)
			return -EADDRINUSE;
		nanosleep(&pause, NULL);
	}
}

static void explain_name(int rc, const struct ucred *other, char *err, size_t err_len)
{
	if (rc == -EEXIST)
		snprintf(err, err_len,
			 "a broker of user %u serves this network namespace already: pid %d%s",
			 other->uid, other->pid,
			 other->uid == 0 || other->uid == geteuid()
				 ? ""
				 : "; it does not serve you, end its programs or work in a network "
				   "namespace of your own");
	else
		snprintf(err, err_len, "cannot listen at @%s: %s", BROKER_SOCKET_NAME,
			 strerror(-rc));
}

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

static int watch(struct broker *b, int fd, void *tag)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.ptr = tag};

	return epoll_ctl(b->epfd, EPOLL_CTL_ADD, fd, &ev) < 0 ? -errno : 0;
}

/* As many as there may be; and so many of them for clients that sockets and channels have room. */
static void share_descriptors(struct broker *b)
{
	struct rlimit r = {1024, 1024};

	if (getrlimit(RLIMIT_NOFILE, &r) == 0) {
		r.rlim_cur = r.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &r);
	}
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
		snprintf(err, err_len, "cannot read the network interfaces: %s", strerror(-rc));
		return rc;
	}
	fd = dup_cloexec(leases_fd(&b->leases, 0));
	rc = fd < 0 ? fd : udp_port_create(&b->port, fd);
	if (rc == 0)
		rc = cm_service_create(&b->cm, &cm_ops, b);
	if (rc == 0)
		cm_service_begin(b->cm, b->leases.members.note, heir, time_now_ns());
	if (rc == 0 && (b->epfd = epoll_create1(EPOLL_CLOEXEC)) < 0)
		rc = -errno;
	if (rc == 0)
		rc = take_signals(b);
	if (rc == 0)
		rc = watch(b, udp_port_fd(b->port), &b->port);
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
		snprintf(err, err_len, "cannot start: %s", strerror(-rc));
	return rc;
}

static void receive(struct broker *b)
{
	for (int i = 0; i < RX_BATCHES; i++) {
		int got = udp_port_rx(b->port, time_now_ns(), cm_received, b);

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
		client_arrives(b);
	else if (tag == &b->signal_fd)
		b->stop = true;
	else if (tag == &b->devices)
		(void)!devices_refresh(b->devices, &(struct device_watcher){device_changed, b});
	else if (tag == &b->port)
		receive(b);
	else if (tag == &b->leases)
		reflector_serve(leases_reflector(&b->leases));
	else
		client_ready(tag);
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
	return !client_arrives(b);
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
		if (b->deaf_until && b->deaf_until <= now)
			listen_again_at(b, 0);
		if (b->tick_at <= now)
			tick(b, now);
		if (cm_service_next_deadline(b->cm) <= now)
			cm_service_tick(b->cm, now);
	}
}

static void teardown(struct broker *b)
{
	list_for_each(c, &b->clients, struct client, link)
		client_gone(c);
	if (b->cm)
		cm_service_destroy(b->cm);
	devices_close(b->devices);
	if (b->port)
		udp_port_destroy(b->port);
	/* The port before the name: whoever gets the name needs the port. */
	leases_fini(&b->leases);
	if (b->listen_fd >= 0)
		close(b->listen_fd);
	if (b->signal_fd >= 0)
		close(b->signal_fd);
	if (b->epfd >= 0)
		close(b->epfd);
}

int broker_run(const struct broker_options *o, char *err, size_t err_len)
{
	struct broker *b = calloc(1, sizeof(*b));
	struct ucred other;
	int rc;

	*err = 0;
	if (!b)
		return -ENOMEM;
	b->tick_at = DEADLINE_NEVER;
	b->epfd = b->listen_fd = b->signal_fd = -1;
	members_init(&b->leases.members);
	list_init(&b->clients);
	share_descriptors(b);
	rc = take_name(b, &other);
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
		bool fit = rc == -EEXIST && (other.uid == 0 || other.uid == geteuid());

		explain_name(rc, &other, err, err_len);
		if (o->ready_fd >= 0)
			broker_spawn_report(o->ready_fd, fit ? 0 : rc, err);
	}
	teardown(b);
	free(b);
	return rc;
}
