/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Who comes, who is let in, and what becomes of who goes. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/heap.h" /* DEADLINE_NEVER */
#include "base/log.h"
#include "base/time.h"
#include "broker/broker_priv.h"
#include "broker/fd_msg.h"
#include "broker/stranger_fd.h"

#define REFUSED_MAX 16 /* of one user */
#define TICK_NS	    NSEC_PER_SEC
#define GREETING_NS (5 * NSEC_PER_SEC)	  /* in which a client says HELLO */
#define DEAF_NS	    (200 * NSEC_PER_MSEC) /* while there are no descriptors for who knocks */

/* The descriptor that is given up to tell somebody that there are none. */
static void keep_spare(struct broker *b)
{
	if (b->spare_fd < 0)
		b->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static void hang_up(struct session *c)
{
	list_remove(&c->link);
	/* Leaves the epoll set: there is no duplicate. */
	if (c->peer.uid == geteuid())
		close(c->fd);
	else
		fd_msg_hang_up(c->fd);
	free(c);
}

void session_leave(struct session *c)
{
	cm_client_leave(c->cm);
	hang_up(c);
}

void session_end(struct session *c)
{
	struct broker *b = c->broker;
	uint64_t now = time_now_ns();

	log_debug("broker", "pid %d has gone", c->peer.pid);
	cm_client_destroy(c->cm, now);
	for (unsigned i = 0; i < LEASE_SLOTS; i++)
		if (c->slots[i / 8] & 1u << i % 8)
			leases_release(&b->leases, i, now);
	b->sight.broker->clients_gone++;
	hang_up(c);
	keep_spare(b);
	if (list_empty(&b->clients)) {
		b->idle_since = now;
		b->tick_at = DEADLINE_NEVER;
	}
}

void session_ready(struct session *c)
{
	_Alignas(max_align_t) uint8_t req[4096];
	int rc, fd;
	ssize_t n;

	memset(req, 0, sizeof(struct broker_msg)); /* whatever little comes */
	n = fd_msg_recv(c->fd, req, sizeof(req), MSG_DONTWAIT | MSG_TRUNC, &fd);
	if (n == -EAGAIN || n == -EINTR)
		return;
	if (n == -EMFILE && c->greeted) { /* it keeps what it has */
		rc = session_answer_starved(c, req);
	} else if (n <= 0) {
		if (fd >= 0) /* with no bytes at all */
			stranger_close(fd);
		session_end(c);
		return;
	} else if ((size_t)n > sizeof(req)) {
		rc = -EMSGSIZE;
		if (fd >= 0)
			stranger_close(fd);
	} else {
		rc = session_answer(c, req, (size_t)n, fd);
	}
	if (rc) {
		log_info("broker", "end of the talk with pid %d: %s", c->peer.pid, strerror(-rc));
		session_end(c);
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

	list_for_each(c, &b->clients, struct session, link) {
		if (c->refused)
			continue;
		all++;
		same += c->peer.uid == peer->uid;
		others += c->peer.uid != own;
	}
	if (all >= b->clients_max)
		return b->starved;
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

/* Has this user as many as wait to be told that they are not served? */
static bool refused_enough(const struct broker *b, uid_t uid)
{
	size_t n = 0;

	list_for_each(c, &b->clients, const struct session, link)
		n += c->refused && c->peer.uid == uid;
	return n >= REFUSED_MAX;
}

static int let_in(struct broker *b, bool *ret_starved)
{
	const int flags = SOCK_CLOEXEC | SOCK_NONBLOCK;
	int fd;

	*ret_starved = false;
	keep_spare(b);
	fd = accept4(b->listen_fd, NULL, NULL, flags);
	if (fd >= 0 || errno != EMFILE || b->spare_fd < 0)
		return fd;
	close(b->spare_fd);
	b->spare_fd = -1;
	*ret_starved = true;
	return accept4(b->listen_fd, NULL, NULL, flags);
}

bool session_begin(struct broker *b)
{
	struct epoll_event ev = {.events = EPOLLIN};
	bool starved;
	int fd = let_in(b, &starved);
	socklen_t len = sizeof(struct ucred);
	struct session *c;
	int rc = -ENOMEM;

	if (fd < 0) {
		if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)
			listen_again_at(b, time_now_ns() + DEAF_NS);
		return false;
	}
	c = calloc(1, sizeof(*c));
	if (!c)
		goto fail;
	*c = (struct session){.broker = b, .fd = fd, .since = time_now_ns()};
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &c->peer, &len) < 0) {
		rc = -errno;
		goto fail;
	}
	c->refused = starved ? b->starved : refusal(b, &c->peer);
	/* It tries again, until others of its user have been told. */
	if (c->refused && refused_enough(b, c->peer.uid)) {
		free(c);
		close(fd);
		return true;
	}
	ev.data.ptr = c;
	rc = cm_client_create(b->cm, c->peer.uid, &c->cm);
	if (rc == 0 && epoll_ctl(b->epfd, EPOLL_CTL_ADD, fd, &ev) < 0)
		rc = -errno;
	if (rc)
		goto fail;
	list_push_tail(&b->clients, &c->link);
	b->sight.broker->clients++;
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

void sessions_tick(struct broker *b, uint64_t now)
{
	if (b->deaf_until && b->deaf_until <= now)
		listen_again_at(b, 0);
	if (b->tick_at > now)
		return;
	b->tick_at = now + TICK_NS;
	leases_tick(&b->leases);
	/* Who says nothing takes room from others. */
	list_for_each(c, &b->clients, struct session, link)
		if (!c->greeted && now - c->since > GREETING_NS)
			session_end(c);
}
