/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "cli/control.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/heap.h" /* DEADLINE_NEVER */
#include "base/time.h"
#include "base/watched.h"
#include "base/wiped.h"

#define CLIENTS_MAX 8
#define CLIENT_NS   (5 * NSEC_PER_SEC) /* a connection in all */
#define PIECE	    65536	       /* read in one turn */
/* A request has at most a fifth of the time. */
#define REQUEST_REST 4

enum client_state { CLIENT_NONE, CLIENT_READING, CLIENT_WAITING, CLIENT_HELD, CLIENT_WRITING };

struct client {
	enum client_state state;
	int fd;
	pid_t pid;
	uint64_t came_ns, end_ns;
	char *text; /* the request, then the answer */
	size_t len, room, done;
};

struct control {
	struct control_socket socket;
	control_answer_fn *answer;
	void *ctx;
	int epoll_fd;
	bool full;	  /* nobody more is let in for now */
	uint64_t next_ns; /* when a request may be carried out again */
	struct client clients[CLIENTS_MAX];
};

const char *control_path(const struct control *c)
{
	return c->socket.path;
}

int control_fd(const struct control *c)
{
	return c->epoll_fd;
}

/* --- connections ------------------------------------------------------------------------------ */

/* The listener is looked at while there is a place. */
static void watch_listener(struct control *c, bool full)
{
	struct epoll_event ev = {.events = full ? 0 : EPOLLIN, .data.ptr = NULL};

	if (c->full != full)
		(void)epoll_ctl(c->epoll_fd, EPOLL_CTL_MOD, c->socket.fd, &ev);
	c->full = full;
}

static void set_state(struct control *c, struct client *k, enum client_state state)
{
	static const uint32_t events[] = {
		[CLIENT_READING] = EPOLLIN,
		[CLIENT_WAITING] = 0, /* but its end */
		[CLIENT_HELD] = 0,
		[CLIENT_WRITING] = EPOLLOUT,
	};
	struct epoll_event ev = {.events = events[state], .data.ptr = k};

	k->state = state;
	(void)epoll_ctl(c->epoll_fd, EPOLL_CTL_MOD, k->fd, &ev);
}

static void close_client(struct control *c, struct client *k)
{
	watched_close(c->epoll_fd, k->fd);
	wiped_free(k->text, k->room);
	*k = (struct client){0};
	watch_listener(c, false);
}

static struct client *free_place(struct control *c)
{
	for (size_t i = 0; i < CLIENTS_MAX; i++)
		if (c->clients[i].state == CLIENT_NONE)
			return &c->clients[i];
	return NULL;
}

static void accept_client(struct control *c, uint64_t now)
{
	struct client *k = free_place(c);
	struct epoll_event ev = {.events = EPOLLIN, .data.ptr = k};
	pid_t pid = 0;
	int fd;

	if (!k) {
		watch_listener(c, true);
		return;
	}
	fd = accept4(c->socket.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd < 0)
		return;
	if (!control_peer_is_ours(fd, &pid) ||
	    epoll_ctl(c->epoll_fd, EPOLL_CTL_ADD, fd, &ev) != 0) {
		close(fd);
		return;
	}
	*k = (struct client){.state = CLIENT_READING,
			     .fd = fd,
			     .pid = pid,
			     .came_ns = now,
			     .end_ns = now + CLIENT_NS};
}

/* --- requests --------------------------------------------------------------------------------- */

static bool make_room(struct client *k)
{
	size_t room = k->room ? 2 * k->room : PIECE / 8;
	char *more;

	if (k->len < k->room)
		return true;
	if (k->room > CONTROL_REQUEST_MAX)
		return false;
	more = wiped_grow(k->text, k->len, room);
	if (!more)
		return false;
	k->text = more;
	k->room = room;
	return true;
}

static void read_client(struct control *c, struct client *k)
{
	size_t taken = 0;

	while (taken < PIECE) {
		ssize_t n;
		char *end;

		if (!make_room(k)) {
			close_client(c, k);
			return;
		}
		n = recv(k->fd, k->text + k->len, k->room - k->len, 0);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (n <= 0) {
			close_client(c, k);
			return;
		}
		end = memchr(k->text + k->len, '\n', (size_t)n);
		k->len += (size_t)n;
		taken += (size_t)n;
		if (end) { /* there is nothing to be said behind it */
			k->len = (size_t)(end - k->text);
			k->end_ns = DEADLINE_NEVER; /* it is not the client that is slow */
			set_state(c, k, CLIENT_WAITING);
			return;
		}
	}
}

static void write_client(struct control *c, struct client *k)
{
	ssize_t n = send(k->fd, k->text + k->done, k->len - k->done, MSG_NOSIGNAL);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n > 0)
		k->done += (size_t)n;
	if (n <= 0 || k->done == k->len)
		close_client(c, k);
}

/* Who of those in a state came first. */
static struct client *oldest(struct control *c, enum client_state state)
{
	struct client *k = NULL;

	for (size_t i = 0; i < CLIENTS_MAX; i++)
		if (c->clients[i].state == state && (!k || c->clients[i].came_ns < k->came_ns))
			k = &c->clients[i];
	return k;
}

static void answer_client(struct control *c, struct client *k, uint64_t now)
{
	bool later = false;
	uint64_t begun, end;
	size_t len = 0;
	char *answer;

	begun = time_now_ns();
	answer = c->answer(c->ctx, k->pid, k->text, k->len, &len, &later);
	end = time_now_ns();
	c->next_ns = now + (end - begun) * (1 + REQUEST_REST);
	if (later) {
		set_state(c, k, CLIENT_HELD);
		return;
	}
	wiped_free(k->text, k->room);
	k->text = answer;
	k->len = k->room = len;
	k->done = 0;
	if (!answer) {
		close_client(c, k);
		return;
	}
	k->end_ns = now + (end - begun) + CLIENT_NS; /* to take it */
	set_state(c, k, CLIENT_WRITING);
	write_client(c, k);
}

/* One of those whose request is whole. */
static void answer_one(struct control *c, uint64_t now)
{
	struct client *k = now < c->next_ns ? NULL : oldest(c, CLIENT_WAITING);

	if (k)
		answer_client(c, k, now);
}

void control_resume(struct control *c, uint64_t now_ns)
{
	struct client *first = oldest(c, CLIENT_HELD);

	for (size_t i = 0; i < CLIENTS_MAX; i++) {
		struct client *k = &c->clients[i];

		if (k->state != CLIENT_HELD)
			continue;
		set_state(c, k, CLIENT_WAITING);
	}
	if (first)
		answer_client(c, first, now_ns);
}

static void on_event(struct control *c, struct client *k, uint32_t events, uint64_t now)
{
	if (!k)
		accept_client(c, now);
	else if (k->state == CLIENT_READING && events & (EPOLLIN | EPOLLHUP))
		read_client(c, k);
	else if (k->state == CLIENT_WRITING && events & EPOLLOUT)
		write_client(c, k);
	else if (events & (EPOLLHUP | EPOLLERR))
		close_client(c, k);
}

void control_process(struct control *c, uint64_t now_ns)
{
	struct epoll_event ev[CLIENTS_MAX + 1];
	int n = epoll_wait(c->epoll_fd, ev, CLIENTS_MAX + 1, 0);

	for (int i = 0; i < n; i++)
		on_event(c, ev[i].data.ptr, ev[i].events, now_ns);
	for (size_t i = 0; i < CLIENTS_MAX; i++)
		if (c->clients[i].state != CLIENT_NONE && now_ns >= c->clients[i].end_ns)
			close_client(c, &c->clients[i]);
	answer_one(c, now_ns);
}

uint64_t control_next_deadline(const struct control *c)
{
	uint64_t deadline = DEADLINE_NEVER;

	for (size_t i = 0; i < CLIENTS_MAX; i++) {
		const struct client *k = &c->clients[i];

		if (k->state != CLIENT_NONE)
			deadline = min_of(deadline, k->end_ns);
		if (k->state == CLIENT_WAITING)
			deadline = min_of(deadline, c->next_ns);
	}
	return deadline;
}

/* --- beginning and end ------------------------------------------------------------------------ */

int control_create(const struct control_socket *socket, control_answer_fn *answer, void *ctx,
		   struct control **ret)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.ptr = NULL};
	struct control *c = calloc(1, sizeof(*c));
	int error;

	if (!c)
		return -ENOMEM;
	c->socket = *socket;
	c->answer = answer;
	c->ctx = ctx;
	c->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (c->epoll_fd < 0 || epoll_ctl(c->epoll_fd, EPOLL_CTL_ADD, socket->fd, &ev) != 0) {
		error = -errno;
		if (c->epoll_fd >= 0)
			close(c->epoll_fd);
		free(c);
		return error;
	}
	*ret = c;
	return 0;
}

void control_destroy(struct control *c)
{
	if (!c)
		return;
	for (size_t i = 0; i < CLIENTS_MAX; i++)
		if (c->clients[i].state != CLIENT_NONE)
			close_client(c, &c->clients[i]);
	control_unlisten(&c->socket);
	close(c->epoll_fd);
	free(c);
}
