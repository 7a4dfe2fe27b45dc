/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "broker/client.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/errno_text.h"
#include "base/list.h"
#include "base/log.h"
#include "base/time.h"
#include "base/uncancelled.h"
#include "broker/exchange.h"
#include "broker/greet.h"
#include "broker/journal.h"
#include "broker/name.h"
#include "broker/spawn.h"

#define OPEN_TRIES_NS (10 * NSEC_PER_SEC) /* brokers that end or start just now */
#define HEIR_TRIES_NS (5 * NSEC_PER_SEC)
/* What we start keeps the heir from starting, who needs a moment between two of ours. */
#define HEIR_PAUSE_NS (100 * NSEC_PER_MSEC)
/* Brokers that end one after the other: without a word as they start, as they take over what was of
 * the last, as they are asked. */
#define ENDS_MAX 4
/* Seconds in which a broker answers one that is there, which loses more than the answer when it
 * gives up: everything it has in that broker. */
#define REPLY_TIMEOUT  60
#define RETRY_PAUSE_NS (5 * NSEC_PER_MSEC)

struct broker_client {
	struct list link;     /* of all */
	pthread_mutex_t lock; /* one talks at a time; then the journal's */
	int fd;		      /* -1: lost */
	int knocking;	      /* the connection that is being made; -1: none */
	int bag[2];	      /* what keeps the sockets alive beyond the broker (bag.h); -1: none */
	bool forked;	      /* we are a fork's child, and it is the parent's */
	bool hasty;	      /* does not wait for others to start the next */
	bool told;	      /* the log, that there is no other */
	bool told_starved;    /* the log, that it has no descriptors left */
	pid_t broker;
	uid_t broker_uid;
	uint32_t generation;
	uint32_t files_max; /* the broker's descriptors */
	struct journal journal;
};

/*
 * A child of fork() must not hold the parent's connection open, or the broker would not see the
 * parent's end; and it must not speak on it. So it closes its copies; its calls fail with
 * -ENOTCONN, and it may open a connection of its own.
 */
static struct list clients = {&clients, &clients};
static pthread_mutex_t clients_lock = PTHREAD_MUTEX_INITIALIZER;

/* Not while another thread forks, whose child would keep what it does not find here. */
static void hang_up(int *fd)
{
	pthread_mutex_lock(&clients_lock);
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
	pthread_mutex_unlock(&clients_lock);
}

static void drop_bag(struct broker_client *c)
{
	for (int i = 0; i < 2; i++) {
		if (c->bag[i] >= 0)
			close(c->bag[i]);
		c->bag[i] = -1;
	}
}

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
		if (c->knocking >= 0)
			close(c->knocking);
		drop_bag(c);
		c->fd = c->knocking = -1;
		c->forked = true;
		/* Another thread of the parent may have held it. */
		pthread_mutex_init(&c->lock, NULL);
		journal_forget(&c->journal);
	}
	pthread_mutex_unlock(&clients_lock);
}

/* As early as can be: engine/shard.c says why. */
__attribute__((constructor)) static void watch_forks(void)
{
	pthread_atfork(fork_prepare, fork_parent, fork_child);
}

static int connect_once(struct broker_client *c)
{
	struct sockaddr_un a;
	socklen_t len = name_address(&a);
	int fd;

	pthread_mutex_lock(&clients_lock);
	fd = c->knocking = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	pthread_mutex_unlock(&clients_lock);
	if (fd < 0)
		return -errno;
	if (greet_set_timeout(fd, GREET_TIMEOUT) < 0 ||
	    connect(fd, (struct sockaddr *)&a, len) < 0) {
		int rc = -errno;

		hang_up(&c->knocking);
		return rc;
	}
	return fd;
}

/* The other end, too. The last broker's has served: this one has it, if it is the heir. */
static int take_bag(struct broker_client *c, int fd, int out)
{
	struct broker_msg req = {.type = BROKER_BAG}, resp;
	int in = -1, rc = 0;

	if (out >= 0)
		rc = exchange(fd, &req, sizeof(req), -1, &resp, sizeof(resp), NULL, &in);
	if (rc || in < 0) {
		if (out >= 0)
			close(out);
		return rc;
	}
	drop_bag(c);
	c->bag[0] = in;
	c->bag[1] = out;
	return 0;
}

static int hello(struct broker_client *c, int fd, char *err, size_t err_len)
{
	struct broker_hello resp;
	int bag, rc = greet(fd, &resp, &bag, err, err_len);

	if (rc)
		return rc;
	rc = take_bag(c, fd, bag);
	if (rc)
		return rc;
	c->broker = (pid_t)resp.pid;
	c->generation = resp.generation;
	c->files_max = resp.files_max;
	c->told_starved = false;
	return 0;
}

/* What the broker before has left to this process, in whichever of its connections. */
static bool any_bag(const struct broker_client *own, int ret[2])
{
	const struct broker_client *from = own->bag[0] >= 0 ? own : NULL;

	pthread_mutex_lock(&clients_lock);
	list_for_each(c, &clients, struct broker_client, link)
		if (!from && c->bag[0] >= 0)
			from = c;
	for (int i = 0; i < 2; i++)
		ret[i] = from ? fcntl(from->bag[i], F_DUPFD_CLOEXEC, 0) : -1;
	pthread_mutex_unlock(&clients_lock);
	return ret[0] >= 0 && ret[1] >= 0;
}

/* Its sockets would be its user's own: where root's broker has served us, another of root's is
 * waited for. */
static bool may_start(const struct broker_client *c)
{
	return !c->broker || c->broker_uid == geteuid();
}

static int start(struct broker_client *c, char *err, size_t err_len)
{
	int bag[2], rc;

	if (!may_start(c)) {
		snprintf(err, err_len, "root's broker has ended, and only root can start another");
		return -ECONNREFUSED;
	}
	rc = broker_spawn(NULL, any_bag(c, bag) ? bag : NULL, NULL, err, err_len);
	for (int i = 0; i < 2; i++)
		if (bag[i] >= 0)
			close(bag[i]);
	return rc;
}

static bool has_ended(int rc)
{
	return rc == -ECONNRESET || rc == -EPIPE;
}

/* Ends with a connection (c->fd) to a broker that has greeted us, or with an error that no further
 * try would change. */
static int find_broker(struct broker_client *c, char *err, size_t err_len)
{
	const struct timespec pause = {.tv_nsec = RETRY_PAUSE_NS},
			      heir = {.tv_nsec = HEIR_PAUSE_NS};
	uint64_t begin = time_now_ns();
	struct ucred owner;
	int fd, rc, ends = 0;

	for (;;) {
		rc = fd = connect_once(c);
		if (fd >= 0) {
			rc = greet_owner(fd, &owner, err, err_len);
			if (rc == 0)
				rc = hello(c, fd, err, err_len);
			if (rc == 0)
				rc = greet_set_timeout(fd, REPLY_TIMEOUT);
			if (rc == 0) {
				c->broker_uid = owner.uid;
				c->fd = fd;
				c->knocking = -1;
				return 0;
			}
			hang_up(&c->knocking);
			if (!has_ended(rc))
				break;
		} else if (rc == -ECONNREFUSED) {
			rc = start(c, err, err_len);
			/* It may have been killed. */
			if (rc == -ECHILD && ++ends < ENDS_MAX)
				rc = 0;
			/* What a broker has left may be with others, who start the next. */
			if (rc && (rc != -EADDRINUSE || c->hasty ||
				   time_now_ns() - begin > HEIR_TRIES_NS))
				return rc;
			if (rc)
				nanosleep(&heir, NULL);
			*err = 0;
			continue;
		} else if (rc != -EAGAIN && rc != -EINTR) {
			break;
		}
		if (time_now_ns() - begin > OPEN_TRIES_NS) {
			rc = -ETIMEDOUT;
			break;
		}
		nanosleep(&pause, NULL);
	}
	if (!*err)
		snprintf(err, err_len, "no connection to the broker: %s", errno_text(-rc));
	return rc;
}

static int open_client(struct broker_client **ret, bool hasty, char *err, size_t err_len)
{
	struct broker_client *c = calloc(1, sizeof(*c));
	int rc, before;

	*err = 0;
	if (!c) {
		snprintf(err, err_len, "out of memory");
		return -ENOMEM;
	}
	c->fd = c->knocking = c->bag[0] = c->bag[1] = -1;
	c->hasty = hasty;
	pthread_mutex_init(&c->lock, NULL);
	journal_init(&c->journal);
	pthread_mutex_lock(&clients_lock);
	list_push_tail(&clients, &c->link);
	pthread_mutex_unlock(&clients_lock);
	before = uncancelled_begin(); /* whoever calls may hold a lock, too */
	rc = find_broker(c, err, err_len);
	uncancelled_end(before);
	if (rc) {
		broker_client_close(c);
		return rc;
	}
	*ret = c;
	return 0;
}

int broker_client_open(struct broker_client **ret, char *err, size_t err_len)
{
	return open_client(ret, false, err, err_len);
}

int broker_client_look(struct broker_client **ret, char *err, size_t err_len)
{
	return open_client(ret, true, err, err_len);
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
	drop_bag(c);
	journal_fini(&c->journal);
	pthread_mutex_destroy(&c->lock);
	free(c);
}

/* ---- when the broker ends -------------------------------------------------------------------- */

static void lose(struct broker_client *c, int why)
{
	log_warn("broker", "lost the broker (pid %d): %s", c->broker, strerror(-why));
	hang_up(&c->fd);
}

/* Another broker, and of it what we had of the last. */
static int reconnect(struct broker_client *c)
{
	struct journal_count n;
	char err[512] = "";
	int rc, ends = 0;

	do {
		rc = find_broker(c, err, sizeof(err));
		if (rc) {
			if (!c->told)
				log_warn("broker", "%s", err);
			c->told = true;
			return rc;
		}
		c->told = false;
		rc = journal_resume(&c->journal, c->fd, &n);
		if (rc)
			lose(c, rc);
	} while (has_ended(rc) && ++ends < ENDS_MAX);
	if (rc)
		return rc;
	log_warn("broker",
		 "another broker (pid %d) goes on: slots %u, event channels %u, identifiers %u, "
		 "lost %u",
		 c->broker, n.slots, n.channels, n.ids, n.lost);
	return 0;
}

/* Of what a killed broker had, a pipe may end before our connection, for kernels differ in the
 * order in which they close descriptors: only an answer says that it lives. */
static int ping(struct broker_client *c)
{
	struct broker_msg req = {.type = BROKER_INBOXES};
	struct broker_inboxes resp;

	return exchange(c->fd, &req, sizeof(req), -1, &resp, sizeof(resp), NULL, NULL);
}

int broker_client_recover(struct broker_client *c, uint32_t *ret_generation)
{
	int rc = 0, ended, before = uncancelled_begin();

	pthread_mutex_lock(&c->lock);
	if (c->forked)
		rc = -ENOTCONN;
	else if (c->fd >= 0 && (ended = ping(c)) != 0)
		lose(c, ended);
	if (!rc && c->fd < 0)
		rc = reconnect(c);
	if (ret_generation)
		*ret_generation = c->generation;
	pthread_mutex_unlock(&c->lock);
	uncancelled_end(before);
	return rc;
}

/* One request, if need be to the broker after this one: where the reply is lost, what it would have
 * told is lost, too, and the next broker knows nothing of it. */
static int talk(struct broker_client *c, const void *req, size_t req_len, int pass_fd, void *resp,
		size_t resp_len, struct broker_cm_saved *ret_saved, int *ret_fd)
{
	int rc = -ENOTCONN;

	for (int ends = 0; ends < ENDS_MAX && !c->forked; ends++) {
		if (c->fd < 0 && (rc = reconnect(c)) != 0)
			return rc;
		rc = exchange(c->fd, req, req_len, pass_fd, resp, resp_len, ret_saved, ret_fd);
		/* The answer is here, and only its descriptor has found no place with us. */
		if (rc == 0 || rc == -EMFILE)
			return rc;
		/* A reply that comes late must not answer the next request. */
		lose(c, rc);
		if (!has_ended(rc))
			break;
	}
	return rc;
}

/* Of all that the program hears, this tells how many it may have. */
static void tell_starved(struct broker_client *c)
{
	if (!c->told_starved)
		log_err("broker",
			"the broker (pid %d) has no descriptors left (limit %u); when its programs "
			"have ended, start `weft broker` with a higher one (`ulimit -n`)",
			c->broker, c->files_max);
	c->told_starved = true;
}

static int call(struct broker_client *c, const void *req, size_t req_len, int pass_fd, void *resp,
		size_t resp_len, int *ret_fd)
{
	const struct broker_msg *msg = req;
	struct broker_cm_saved saved;
	int rc, before;

	if (ret_fd)
		*ret_fd = -1;
	memset(resp, 0, resp_len);
	before = uncancelled_begin();
	pthread_mutex_lock(&c->lock);
	rc = talk(c, req, req_len, pass_fd, resp, resp_len, &saved, ret_fd);
	if (!rc)
		rc = ((const struct broker_msg *)resp)->error;
	if (rc == -ENFILE)
		tell_starved(c);
	if (!rc)
		journal_request(&c->journal, req, &saved);
	else if (msg->type == BROKER_CM_DESTROY_ID && rc != -EINVAL)
		journal_destroyed(&c->journal, ((const struct broker_cm_id *)req)->id, rc);
	pthread_mutex_unlock(&c->lock);
	uncancelled_end(before);
	return rc;
}

int broker_client_call(struct broker_client *c, const void *req, size_t req_len, void *resp,
		       size_t resp_len, int *ret_fd)
{
	return call(c, req, req_len, -1, resp, resp_len, ret_fd);
}

void broker_client_event(struct broker_client *c, const struct broker_cm_event *ev)
{
	struct broker_cm_resume req = {.msg.type = BROKER_CM_RESUME, .saved = ev->saved};
	struct broker_msg resp;
	int before;

	journal_saved(&c->journal, &ev->saved);
	if (!ev->saved.len)
		return;
	before = uncancelled_begin();
	pthread_mutex_lock(&c->lock);
	if (ev->generation != c->generation && c->fd >= 0 &&
	    exchange(c->fd, &req, sizeof(req), -1, &resp, sizeof(resp), NULL, NULL))
		lose(c, -ECONNRESET);
	pthread_mutex_unlock(&c->lock);
	uncancelled_end(before);
}

int broker_client_devices(struct broker_client *c, struct broker_devices *ret)
{
	struct broker_msg req = {.type = BROKER_DEVICES};

	return broker_client_call(c, &req, sizeof(req), ret, sizeof(*ret), NULL);
}

/* A slot whose socket finds no place with us would be leased all the same. */
static int place_for_socket(void)
{
	int before = uncancelled_begin(), fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int rc = fd < 0 ? -errno : 0;

	if (fd >= 0)
		close(fd);
	uncancelled_end(before);
	return rc;
}

int broker_client_lease_slot(struct broker_client *c, uint8_t *ret_slot, int *ret_fd)
{
	struct broker_msg req = {.type = BROKER_LEASE_SLOT};
	struct broker_slot resp = {0};
	int rc = place_for_socket();

	*ret_fd = -1;
	if (rc == 0)
		rc = broker_client_call(c, &req, sizeof(req), &resp, sizeof(resp), ret_fd);
	if (rc == 0 && *ret_fd < 0)
		rc = -EPROTO;
	*ret_slot = (uint8_t)resp.slot;
	if (rc == 0)
		journal_slot(&c->journal, resp.slot, *ret_fd);
	return rc;
}

int broker_client_offer_inbox(struct broker_client *c, uint8_t slot, int fd)
{
	struct broker_slot req = {.msg.type = BROKER_OFFER_INBOX, .slot = slot};
	struct broker_msg resp;
	int rc = call(c, &req, sizeof(req), fd, &resp, sizeof(resp), NULL);

	if (rc == 0)
		journal_inbox(&c->journal, slot, fd);
	return rc;
}

int broker_client_find_inbox(struct broker_client *c, uint8_t slot, int *ret_fd)
{
	struct broker_slot req = {.msg.type = BROKER_FIND_INBOX, .slot = slot};
	struct broker_msg resp;
	int rc = broker_client_call(c, &req, sizeof(req), &resp, sizeof(resp), ret_fd);

	return rc == 0 && *ret_fd < 0 ? -EPROTO : rc;
}

int broker_client_inboxes(struct broker_client *c, struct broker_inboxes *ret)
{
	struct broker_msg req = {.type = BROKER_INBOXES};

	return broker_client_call(c, &req, sizeof(req), ret, sizeof(*ret), NULL);
}

int broker_client_cm_channel(struct broker_client *c, uint32_t *ret_channel, int *ret_fd)
{
	struct broker_msg req = {.type = BROKER_CM_CHANNEL};
	struct broker_cm_channel resp;
	int rc = broker_client_call(c, &req, sizeof(req), &resp, sizeof(resp), ret_fd);

	if (rc == -EMFILE && resp.msg.type == req.type && resp.channel) {
		struct broker_cm_id unused = {.msg.type = BROKER_CM_CLOSE_CHANNEL,
					      .id = resp.channel};
		struct broker_msg closed;

		(void)!broker_client_call(c, &unused, sizeof(unused), &closed, sizeof(closed),
					  NULL);
	}
	if (rc == 0 && *ret_fd < 0)
		rc = -EPROTO;
	*ret_channel = resp.channel;
	if (rc == 0)
		journal_channel(&c->journal, resp.channel, *ret_fd);
	return rc;
}

int broker_client_sysfs(struct broker_client *c, bool rocev1, struct broker_sysfs *ret)
{
	struct broker_sysfs_ask req = {.msg.type = BROKER_SYSFS, .rocev1 = rocev1};
	int rc = broker_client_call(c, &req, sizeof(req), ret, sizeof(*ret), NULL);

	ret->path[sizeof(ret->path) - 1] = 0;
	return rc ?: ret->path[0] == '/' ? 0 : -EPROTO;
}

int broker_client_leave(struct broker_client *c)
{
	int fd;

	pthread_mutex_lock(&clients_lock);
	fd = c->fd;
	c->fd = -1;
	pthread_mutex_unlock(&clients_lock);
	broker_client_close(c);
	return fd;
}
