/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "broker/client.h"

#include <errno.h>
#include <pthread.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/list.h"
#include "base/log.h"
#include "base/time.h"
#include "base/uncancelled.h"
#include "broker/spawn.h"

#define OPEN_TRIES_NS  (10 * NSEC_PER_SEC) /* brokers that end or start just now */
#define REPLY_TIMEOUT  10		   /* seconds */
#define RETRY_PAUSE_NS (5 * NSEC_PER_MSEC)

struct broker_client {
	struct list link; /* of all */
	pthread_mutex_t lock;
	int fd; /* -1: lost, or we are a fork's child */
};

/*
 * A child of fork() must not hold the parent's connection open, or the broker would not see the
 * parent's end; and it must not speak on it. So it closes its copies; its calls fail with
 * -ENOTCONN, and it may open a connection of its own.
 */
static struct list clients = {&clients, &clients};
static pthread_mutex_t clients_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

static void fork_prepare(void)
{
	pthread_mutex_lock(&clients_lock);
}

static void fork_parent(void)
{
	pthread_mutex_unlock(&clients_lock);
}

static void fork_child(void)
{
	list_for_each(c, &clients, struct broker_client, link) {
		if (c->fd >= 0)
			close(c->fd);
		c->fd = -1;
		/* Another thread of the parent may have held it. */
		pthread_mutex_init(&c->lock, NULL);
	}
	pthread_mutex_init(&clients_lock, NULL);
}

static void watch_forks(void)
{
	pthread_atfork(fork_prepare, fork_parent, fork_child);
}

static int connect_once(void)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	socklen_t len = offsetof(struct sockaddr_un, sun_path) + 1 + strlen(BROKER_SOCKET_NAME);
	struct timeval timeout = {.tv_sec = REPLY_TIMEOUT};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	memcpy(a.sun_path + 1, BROKER_SOCKET_NAME, strlen(BROKER_SOCKET_NAME));
	if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout)) < 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout)) < 0 ||
	    connect(fd, (struct sockaddr *)&a, len) < 0) {
		int rc = -errno;

		close(fd);
		return rc;
	}
	return fd;
}

/* A broker of another user could hand out sockets that it reads too. */
static int check_owner(int fd, char *err, size_t err_len)
{
	struct ucred peer;
	socklen_t len = sizeof(peer);
	const struct passwd *pw;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0)
		return -errno;
	if (peer.uid == 0 || peer.uid == geteuid())
		return 0;
	pw = getpwuid(peer.uid);
	snprintf(err, err_len,
		 "the broker of this network namespace (pid %d) belongs to %s (uid %u), whom we do "
		 "not trust: end its programs, or work in a network namespace of your own",
		 peer.pid, pw ? pw->pw_name : "another user", peer.uid);
	return -EPERM;
}

/* Sends req and waits for the reply. -errno means that the connection is of no use any more. */
static int exchange(int fd, const void *req, size_t req_len, void *resp, size_t resp_len,
		    int *ret_fd)
{
	union {
		char room[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control;
	struct iovec iov = {resp, resp_len};
	struct msghdr m = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control),
	};
	const struct broker_msg *sent = req, *got = resp;
	struct cmsghdr *c;
	int came = -1;
	ssize_t n;

	while ((n = send(fd, req, req_len, MSG_NOSIGNAL)) < 0 && errno == EINTR)
		;
	if (n < 0)
		return -errno;
	while ((n = recvmsg(fd, &m, MSG_CMSG_CLOEXEC)) < 0 && errno == EINTR)
		;
	if (n < 0)
		return errno == EAGAIN ? -ETIMEDOUT : -errno;
	if (n == 0)
		return -ECONNRESET;
	c = CMSG_FIRSTHDR(&m);
	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
		memcpy(&came, CMSG_DATA(c), sizeof(came));
	if ((size_t)n < sizeof(*got) || got->type != sent->type ||
	    (got->error == 0 && ((size_t)n != resp_len || (m.msg_flags & MSG_TRUNC)))) {
		if (came >= 0)
			close(came);
		return -EPROTO;
	}
	memset((char *)resp + n, 0, resp_len - (size_t)n);
	if (ret_fd)
		*ret_fd = came;
	else if (came >= 0)
		close(came);
	return 0;
}

static int hello(int fd, char *err, size_t err_len)
{
	struct broker_hello req = {
		.msg.type = BROKER_HELLO,
		.version = BROKER_PROTO_VERSION,
		.pid = (uint32_t)getpid(),
	};
	struct broker_hello resp;
	int rc = exchange(fd, &req, sizeof(req), &resp, sizeof(resp), NULL);

	if (rc)
		return rc;
	if (resp.msg.error == -EPERM) {
		snprintf(err, err_len,
			 "the broker of this network namespace (pid %u) serves its own user only: "
			 "work in a network namespace of your own",
			 resp.pid);
		return -EPERM;
	}
	if (resp.msg.error || resp.version != BROKER_PROTO_VERSION) {
		snprintf(err, err_len,
			 "the broker of this network namespace (pid %u) is of another version of "
			 "weft (protocol %u, ours is %d): end the programs that use it",
			 resp.pid, resp.version, BROKER_PROTO_VERSION);
		return -EPROTO;
	}
	return 0;
}

/* Ends with a connection to a broker that has greeted us, or with an error that no further try
 * would change. */
static int find_broker(char *err, size_t err_len)
{
	struct timespec pause = {.tv_nsec = RETRY_PAUSE_NS};
	uint64_t until = time_now_ns() + OPEN_TRIES_NS;
	int fd, rc;

	for (;;) {
		rc = fd = connect_once();
		if (fd >= 0) {
			rc = check_owner(fd, err, err_len);
			if (rc == 0)
				rc = hello(fd, err, err_len);
			if (rc == 0)
				return fd;
			close(fd);
			/* It ended while we knocked. */
			if (rc != -ECONNRESET && rc != -EPIPE)
				break;
		} else if (rc == -ECONNREFUSED) {
			rc = broker_spawn(NULL, err, err_len);
			if (rc)
				return rc;
			continue;
		} else if (rc != -EAGAIN && rc != -EINTR) {
			break;
		}
		if (time_now_ns() > until) {
			rc = -ETIMEDOUT;
			break;
		}
		nanosleep(&pause, NULL);
	}
	if (!*err)
		snprintf(err, err_len, "no connection to the broker: %s", strerror(-rc));
	return rc;
}

int broker_client_open(struct broker_client **ret, char *err, size_t err_len)
{
	struct broker_client *c = calloc(1, sizeof(*c));
	int fd, before;

	*err = 0;
	if (!c) {
		snprintf(err, err_len, "out of memory");
		return -ENOMEM;
	}
	before = uncancelled_begin(); /* whoever calls may hold a lock, too */
	fd = find_broker(err, err_len);
	uncancelled_end(before);
	if (fd < 0) {
		free(c);
		return fd;
	}
	c->fd = fd;
	pthread_mutex_init(&c->lock, NULL);
	pthread_once(&fork_once, watch_forks);
	pthread_mutex_lock(&clients_lock);
	list_push_tail(&clients, &c->link);
	pthread_mutex_unlock(&clients_lock);
	*ret = c;
	return 0;
}

void broker_client_close(struct broker_client *c)
{
	if (!c)
		return;
	pthread_mutex_lock(&clients_lock);
	list_remove(&c->link);
	pthread_mutex_unlock(&clients_lock);
	if (c->fd >= 0)
		close(c->fd);
	pthread_mutex_destroy(&c->lock);
	free(c);
}

int broker_client_call(struct broker_client *c, const void *req, size_t req_len, void *resp,
		       size_t resp_len, int *ret_fd)
{
	int rc = -ENOTCONN, before;

	if (ret_fd)
		*ret_fd = -1;
	memset(resp, 0, resp_len);
	before = uncancelled_begin();
	pthread_mutex_lock(&c->lock);
	if (c->fd >= 0) {
		rc = exchange(c->fd, req, req_len, resp, resp_len, ret_fd);
		if (rc) {
			/* A reply that comes late must not answer the next request. */
			log_warn("broker", "lost the broker: %s", strerror(-rc));
			close(c->fd);
			c->fd = -1;
		}
	}
	pthread_mutex_unlock(&c->lock);
	uncancelled_end(before);
	return rc ? rc : ((const struct broker_msg *)resp)->error;
}

int broker_client_devices(struct broker_client *c, struct broker_devices *ret)
{
	struct broker_msg req = {.type = BROKER_DEVICES};

	return broker_client_call(c, &req, sizeof(req), ret, sizeof(*ret), NULL);
}

int broker_client_lease_slot(struct broker_client *c, uint8_t *ret_slot, int *ret_fd)
{
	struct broker_msg req = {.type = BROKER_LEASE_SLOT};
	struct broker_slot resp;
	int rc = broker_client_call(c, &req, sizeof(req), &resp, sizeof(resp), ret_fd);

	if (rc == 0 && *ret_fd < 0)
		rc = -EPROTO;
	*ret_slot = (uint8_t)resp.slot;
	return rc;
}

int broker_client_cm_channel(struct broker_client *c, uint32_t *ret_channel, int *ret_fd)
{
	struct broker_msg req = {.type = BROKER_CM_CHANNEL};
	struct broker_cm_channel resp;
	int rc = broker_client_call(c, &req, sizeof(req), &resp, sizeof(resp), ret_fd);

	if (rc == 0 && *ret_fd < 0)
		rc = -EPROTO;
	*ret_channel = resp.channel;
	return rc;
}
