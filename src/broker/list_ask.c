/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "broker/list_ask.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/time.h"
#include "broker/exchange.h"
#include "broker/greet.h"
#include "broker/name.h"

#define TRIES_NS    (10 * NSEC_PER_SEC) /* brokers that end just now, or let nobody in */
#define ASK_NS	    (60 * NSEC_PER_SEC) /* for a broker that says little at a time */
#define PAUSE_NS    (5 * NSEC_PER_MSEC)
#define CLIENTS_MAX 1048576 /* more descriptors than a broker has */
#define IDS_MAX	    65536

/* ---- the connection ---------------------------------------------------------------------------
 */

static int connect_once(void)
{
	struct sockaddr_un a;
	socklen_t len = name_address(&a);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), rc;

	if (fd < 0)
		return -errno;
	rc = greet_set_timeout(fd, GREET_TIMEOUT);
	if (rc == 0 && connect(fd, (struct sockaddr *)&a, len) < 0)
		rc = -errno;
	if (rc)
		close(fd);
	return rc ?: fd;
}

/* Root may ask whomever's broker, which serves its own user only: as that user, then. */
static int connect_as(uid_t owner)
{
	int fd;

	if (seteuid(owner) < 0)
		return -errno;
	fd = connect_once();
	if (seteuid(0) < 0) {
		if (fd >= 0)
			close(fd);
		return -EPERM;
	}
	return fd;
}

/* A connection that has said HELLO, and whose broker's it is. */
static int knock(struct ucred *ret, char *err, size_t err_len)
{
	int fd = connect_once(), rc;
	struct broker_hello hello;
	socklen_t len = sizeof(*ret);
	uid_t owner;

	if (fd < 0)
		return fd;
	if (geteuid() == 0 && getsockopt(fd, SOL_SOCKET, SO_PEERCRED, ret, &len) == 0 && ret->uid) {
		owner = ret->uid;
		close(fd);
		fd = connect_as(owner);
		if (fd < 0)
			return fd;
		rc = getsockopt(fd, SOL_SOCKET, SO_PEERCRED, ret, &len) < 0 ? -errno : 0;
		if (rc == 0 && ret->uid != owner)
			rc = -ECONNRESET; /* another's by now */
	} else {
		rc = greet_owner(fd, ret, err, err_len);
	}
	if (rc == 0)
		rc = greet(fd, &hello, NULL, err, err_len);
	if (rc)
		close(fd);
	return rc ?: fd;
}

/* ---- what it says -----------------------------------------------------------------------------
 */

struct asking {
	int fd;
	uint64_t until;
	uint64_t pid_namespace;
};

static int ask(const struct asking *a, uint32_t type, uint64_t from, void *resp, size_t len)
{
	struct broker_list req = {.msg.type = type, .from = from};
	int rc;

	if (time_now_ns() > a->until)
		return -ETIMEDOUT;
	rc = exchange(a->fd, &req, sizeof(req), -1, resp, len, NULL, NULL);
	return rc ?: ((const struct broker_msg *)resp)->error;
}

/* Room for n more of that size behind count of them. */
static int make_room(void **v, size_t count, size_t n, size_t each, size_t most)
{
	void *more;

	if (n > BROKER_LIST_MAX || count + n > most)
		return -EPROTO;
	more = realloc(*v, (count + n + 1) * each);
	if (!more)
		return -ENOMEM;
	*v = more;
	return 0;
}

static int ask_clients(struct asking *a, struct broker_listing *l)
{
	struct broker_list_clients r;
	uint64_t from = 0, last = 0;
	int rc;

	do {
		rc = ask(a, BROKER_LIST_CLIENTS, from, &r, sizeof(r));
		if (rc == 0)
			rc = make_room((void **)&l->clients, l->client_count, r.count,
				       sizeof(r.v[0]), CLIENTS_MAX);
		if (rc)
			return rc;
		for (uint32_t i = 0; i < r.count; i++) {
			if (r.v[i].nr <= last)
				return -EPROTO;
			last = r.v[i].nr;
			l->clients[l->client_count++] = r.v[i];
		}
		l->age_ns = r.broker_age_ns;
		a->pid_namespace = r.pid_namespace;
		if (r.next && r.next <= from)
			return -EPROTO;
		from = r.next;
	} while (from);
	return 0;
}

static int by_nr(const void *key, const void *of)
{
	uint64_t nr = *(const uint64_t *)key;
	const struct broker_list_client *c = of;

	return nr < c->nr ? -1 : nr > c->nr;
}

static int ask_ids(struct asking *a, struct broker_listing *l)
{
	struct broker_list_ids r;
	uint64_t from = 0;
	int rc;

	do {
		rc = ask(a, BROKER_LIST_IDS, from, &r, sizeof(r));
		if (rc == 0)
			rc = make_room((void **)&l->ids, l->id_count, r.count, sizeof(r.v[0]),
				       IDS_MAX);
		if (rc)
			return rc;
		for (uint32_t i = 0; i < r.count; i++) {
			if (r.v[i].state >= BROKER_LIST_STATES)
				return -EPROTO;
			/* Its client may have come after we asked for these. */
			if (l->client_count && bsearch(&r.v[i].client, l->clients, l->client_count,
						       sizeof(l->clients[0]), by_nr))
				l->ids[l->id_count++] = r.v[i];
		}
		if (r.next && r.next <= from)
			return -EPROTO;
		from = r.next;
	} while (from);
	return 0;
}

static int ask_devices(const struct asking *a, struct broker_devices *ret)
{
	struct broker_msg req = {.type = BROKER_DEVICES};
	int rc = exchange(a->fd, &req, sizeof(req), -1, ret, sizeof(*ret), NULL, NULL);

	if (rc || ret->msg.error)
		return rc ?: ret->msg.error;
	for (uint32_t i = 0; i < ret->count && i < BROKER_MAX_DEVICES; i++) {
		ret->dev[i].name[sizeof(ret->dev[i].name) - 1] = 0;
		ret->dev[i].ifname[sizeof(ret->dev[i].ifname) - 1] = 0;
	}
	return ret->count > BROKER_MAX_DEVICES ? -EPROTO : 0;
}

/* Whether /proc shows the processes under the numbers of that PID namespace. */
static bool pids_are_ours(uint64_t pid_namespace)
{
	char self[32] = "";
	struct stat st;

	return pid_namespace && stat("/proc/self/ns/pid", &st) == 0 && st.st_ino == pid_namespace &&
	       readlink("/proc/self", self, sizeof(self) - 1) > 0 && atoi(self) == getpid();
}

static int ask_all(int fd, struct broker_listing *l)
{
	struct asking a = {.fd = fd, .until = time_now_ns() + ASK_NS};
	int rc = ask_clients(&a, l);

	if (rc == 0)
		rc = ask_ids(&a, l);
	if (rc == 0)
		rc = ask_devices(&a, &l->devices);
	l->pids_ours = pids_are_ours(a.pid_namespace);
	return rc;
}

static void explain(int rc, pid_t broker, char *err, size_t err_len)
{
	char pid[32] = "";

	if (*err)
		return;
	if (broker)
		snprintf(pid, sizeof(pid), " (pid %d)", broker);
	if (rc == -EOPNOTSUPP)
		snprintf(err, err_len,
			 "the broker of this network namespace%s is of an older weft and cannot "
			 "list its clients: it ends with the last program that uses it",
			 pid);
	else
		snprintf(err, err_len, "the broker of this network namespace%s cannot be asked: %s",
			 pid, strerror(-rc));
}

int broker_list(struct broker_listing *ret, char *err, size_t err_len)
{
	struct timespec pause = {.tv_nsec = PAUSE_NS};
	uint64_t until = time_now_ns() + TRIES_NS;

	*err = 0;
	for (;;) {
		struct ucred peer = {0};
		int fd, rc;

		*ret = (struct broker_listing){0};
		rc = fd = knock(&peer, err, err_len);
		if (fd >= 0) {
			ret->broker = peer.pid;
			ret->uid = peer.uid;
			rc = ask_all(fd, ret);
			close(fd);
		}
		if (rc == 0)
			return 0;
		broker_listing_free(ret);
		if (rc == -ECONNREFUSED)
			return -ENOENT;
		if ((rc != -ECONNRESET && rc != -EPIPE && rc != -EAGAIN && rc != -EINTR) ||
		    time_now_ns() > until) {
			explain(rc, peer.pid, err, err_len);
			return rc;
		}
		nanosleep(&pause, NULL);
	}
}

void broker_listing_free(struct broker_listing *l)
{
	free(l->clients);
	free(l->ids);
	l->clients = NULL;
	l->ids = NULL;
	l->client_count = l->id_count = 0;
}
