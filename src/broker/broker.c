/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "broker/broker.h"

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
#include "broker/devices.h"
#include "broker/leases.h"
#include "broker/proto.h"
#include "broker/spawn.h"

#define EVENTS	       32
#define BACKLOG	       128
#define FIRST_GRACE_MS 5000 /* for the first client, which must connect after it has started us */
/* Descriptors of a process that ends by a signal close in ascending order: with this one the name
 * is free only after the port is. */
#define LISTEN_FD_MIN 900
#define NAME_WAIT_NS  (5 * NSEC_PER_SEC)

struct client {
	struct list link;
	struct broker *broker;
	int fd;
	struct ucred peer;
	bool refused; /* another user's: it is told so, and no more */
	bool greeted;
	uint8_t slots[LEASE_SLOTS / 8]; /* leased to it */
};

struct broker {
	int epfd, listen_fd, signal_fd;
	struct devices *devices;
	struct leases leases;
	struct list clients;
	uint64_t idle_since, idle_exit_ns; /* DEADLINE_NEVER: not idle, or never */
	bool stop;
};

/* ---- a client's requests ------------------------------------------------------------------- */

static int reply(struct client *c, const void *msg, size_t len, int fd)
{
	union {
		char room[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = {0};
	struct iovec iov = {(void *)msg, len};
	struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};

	if (fd >= 0) {
		control.align.cmsg_level = SOL_SOCKET;
		control.align.cmsg_type = SCM_RIGHTS;
		control.align.cmsg_len = CMSG_LEN(sizeof(fd));
		memcpy(CMSG_DATA(&control.align), &fd, sizeof(fd));
		m.msg_control = &control;
		m.msg_controllen = sizeof(control);
	}
	/* A client that does not read its replies is not waited for. */
	return sendmsg(c->fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? -errno : 0;
}

static int answer_hello(struct client *c, const struct broker_hello *req, size_t len)
{
	struct broker_hello r = {
		.msg.type = BROKER_HELLO,
		.version = BROKER_PROTO_VERSION,
		.pid = (uint32_t)getpid(),
	};

	if (c->refused)
		r.msg.error = -EPERM;
	else if (len != sizeof(*req) || req->version != BROKER_PROTO_VERSION)
		r.msg.error = -EPROTO;
	else
		c->greeted = true;
	return reply(c, &r, sizeof(r), -1);
}

static int answer_lease(struct client *c)
{
	struct broker_slot r = {.msg.type = BROKER_LEASE_SLOT};
	struct broker *b = c->broker;
	int slot = leases_take(&b->leases, time_now_ns());

	if (slot < 0) {
		r.msg.error = slot;
		return reply(c, &r, sizeof(r), -1);
	}
	r.slot = (uint32_t)slot;
	c->slots[slot / 8] |= (uint8_t)(1u << slot % 8);
	log_debug("broker", "slot %d goes to pid %d", slot, c->peer.pid);
	return reply(c, &r, sizeof(r), b->leases.slot[slot].fd);
}

/* A negative result ends the connection. */
static int answer(struct client *c, const void *req, size_t len)
{
	struct broker_msg unknown;

	if (len < sizeof(unknown))
		return -EPROTO;
	memcpy(&unknown, req, sizeof(unknown));
	if (unknown.type == BROKER_HELLO)
		return answer_hello(c, req, len);
	if (!c->greeted)
		return -EPROTO;
	switch (unknown.type) {
	case BROKER_DEVICES:
		return reply(c, devices_table(c->broker->devices), sizeof(struct broker_devices),
			     -1);
	case BROKER_LEASE_SLOT:
		return answer_lease(c);
	default:
		unknown.error = -EOPNOTSUPP;
		return reply(c, &unknown, sizeof(unknown), -1);
	}
}

/* ---- clients come and go ------------------------------------------------------------------- */

static void client_gone(struct client *c)
{
	struct broker *b = c->broker;
	uint64_t now = time_now_ns();

	log_debug("broker", "pid %d has gone", c->peer.pid);
	for (unsigned i = 0; i < LEASE_SLOTS; i++)
		if (c->slots[i / 8] & 1u << i % 8)
			leases_release(&b->leases, i, now);
	list_remove(&c->link);
	close(c->fd); /* leaves the epoll set: there is no duplicate */
	free(c);
	if (list_empty(&b->clients))
		b->idle_since = now;
}

static void client_ready(struct client *c)
{
	_Alignas(max_align_t) uint8_t req[4096];
	ssize_t n = recv(c->fd, req, sizeof(req), MSG_DONTWAIT | MSG_TRUNC);
	int rc;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		client_gone(c);
		return;
	}
	rc = (size_t)n > sizeof(req) ? -EMSGSIZE : answer(c, req, (size_t)n);
	if (rc) {
		log_info("broker", "end of the talk with pid %d: %s", c->peer.pid, strerror(-rc));
		client_gone(c);
	}
}

static bool client_arrives(struct broker *b)
{
	struct epoll_event ev = {.events = EPOLLIN};
	int fd = accept4(b->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	socklen_t len = sizeof(struct ucred);
	struct client *c;

	if (fd < 0)
		return false;
	c = calloc(1, sizeof(*c));
	if (!c)
		goto fail;
	*c = (struct client){.broker = b, .fd = fd};
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &c->peer, &len) < 0)
		goto fail;
	/* A broker of root serves all, as a kernel does; a user's serves that user. */
	c->refused = geteuid() != 0 && c->peer.uid != geteuid();
	ev.data.ptr = c;
	if (epoll_ctl(b->epfd, EPOLL_CTL_ADD, fd, &ev) < 0)
		goto fail;
	list_push_tail(&b->clients, &c->link);
	b->idle_since = DEADLINE_NEVER;
	return true;
fail:
	log_warn("broker", "a client cannot be served: %s", strerror(errno));
	free(c);
	close(fd);
	return true;
}

/* ---- start, loop, end ---------------------------------------------------------------------- */

static socklen_t own_name(struct sockaddr_un *a)
{
	*a = (struct sockaddr_un){.sun_family = AF_UNIX};
	memcpy(a->sun_path + 1, BROKER_SOCKET_NAME, strlen(BROKER_SOCKET_NAME));
	return offsetof(struct sockaddr_un, sun_path) + 1 + strlen(BROKER_SOCKET_NAME);
}

static bool another_listens(void)
{
	struct sockaddr_un a;
	socklen_t len = own_name(&a);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	bool yes = fd >= 0 && (connect(fd, (struct sockaddr *)&a, len) == 0 || errno == EAGAIN);

	if (fd >= 0)
		close(fd);
	return yes;
}

/*
 * 1 if the name is ours now, 0 if another broker listens, or -errno. One that has the name but
 * does not listen is about to begin or to end.
 */
static int take_name(struct broker *b)
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
			return 1;
		if (errno != EADDRINUSE)
			return -errno;
		if (another_listens())
			return 0;
		if (time_now_ns() > until)
			return -EADDRINUSE;
		nanosleep(&pause, NULL);
	}
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

static int watch(struct broker *b, int fd, void *tag)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.ptr = tag};

	return epoll_ctl(b->epfd, EPOLL_CTL_ADD, fd, &ev) < 0 ? -errno : 0;
}

static void raise_descriptor_limit(void)
{
	struct rlimit r;

	if (getrlimit(RLIMIT_NOFILE, &r) == 0) {
		r.rlim_cur = r.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &r);
	}
}

static int setup(struct broker *b, char *err, size_t err_len)
{
	int rc = leases_init(&b->leases, err, err_len);

	if (rc)
		return rc;
	rc = devices_open(&b->devices);
	if (rc) {
		snprintf(err, err_len, "cannot read the network interfaces: %s", strerror(-rc));
		return rc;
	}
	b->epfd = epoll_create1(EPOLL_CLOEXEC);
	rc = b->epfd < 0 ? -errno : take_signals(b);
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

static void serve(struct broker *b, const struct epoll_event *ev)
{
	void *tag = ev->data.ptr;

	if (tag == &b->listen_fd)
		client_arrives(b);
	else if (tag == &b->signal_fd)
		b->stop = true;
	else if (tag == &b->devices)
		(void)!devices_refresh(b->devices, NULL, NULL);
	else
		client_ready(tag);
}

static bool idle_too_long(struct broker *b, uint64_t now)
{
	if (b->idle_since == DEADLINE_NEVER || b->idle_exit_ns == DEADLINE_NEVER ||
	    now < b->idle_since + b->idle_exit_ns)
		return false;
	/* One that knocked just now is let in; one that knocks later finds the door shut and starts
	 * another broker. */
	return !client_arrives(b);
}

static int timeout_ms(const struct broker *b, uint64_t now)
{
	uint64_t at = DEADLINE_NEVER;

	if (b->idle_since != DEADLINE_NEVER && b->idle_exit_ns != DEADLINE_NEVER)
		at = b->idle_since + b->idle_exit_ns;
	if (at == DEADLINE_NEVER)
		return -1;
	return at <= now ? 0 : (int)min_of((at - now) / NSEC_PER_MSEC + 1, (uint64_t)60000);
}

static void loop(struct broker *b)
{
	struct epoll_event ev[EVENTS];

	while (!b->stop && !idle_too_long(b, time_now_ns())) {
		int n = epoll_wait(b->epfd, ev, EVENTS, timeout_ms(b, time_now_ns()));

		/* Each client is at most once in the array, so none is served after it is freed. */
		for (int i = 0; i < n; i++)
			serve(b, &ev[i]);
	}
}

static void teardown(struct broker *b)
{
	list_for_each(c, &b->clients, struct client, link)
		client_gone(c);
	devices_close(b->devices);
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
	int rc;

	*err = 0;
	if (!b)
		return -ENOMEM;
	b->epfd = b->listen_fd = b->signal_fd = -1;
	list_init(&b->clients);
	raise_descriptor_limit();
	rc = take_name(b);
	if (rc > 0) {
		rc = setup(b, err, err_len);
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
		if (rc)
			snprintf(err, err_len, "cannot listen at @%s: %s", BROKER_SOCKET_NAME,
				 strerror(-rc));
		else
			log_info("broker", "another broker serves this network namespace");
		if (o->ready_fd >= 0)
			broker_spawn_report(o->ready_fd, rc, err);
	}
	teardown(b);
	free(b);
	return rc;
}
