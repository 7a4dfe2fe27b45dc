/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "cli/serve_transports.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/epoll.h>

#include "base/errno_text.h"
#include "base/heap.h" /* DEADLINE_NEVER */

const struct nvmf_transport *serve_transport_of(const struct nvme_uri *u)
{
	return transport_at(transport_index(u->transport));
}

void serve_transports_init(struct serve_transports *s, int epoll_fd)
{
	*s = (struct serve_transports){.epoll_fd = epoll_fd};
}

void serve_transports_join(struct serve_transports *first, struct serve_transports *s,
			   struct target_group *group, struct shares *shares)
{
	struct serve_transports *last = first;

	while (last->next)
		last = last->next;
	last->next = s;
	s->group = group;
	s->shares = shares;
}

/* Has the loop wake up for one. */
static int watch(const struct serve_transports *s, const struct transport_target *t)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.fd = t->ops->fd(t)};

	if (ev.data.fd < 0 || epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, ev.data.fd, &ev) == 0)
		return 0;
	return -errno;
}

static int create(struct serve_transports *s, unsigned int i, struct target_group *group,
		  struct shares *shares, struct transport_target *first, char *why, size_t room)
{
	struct transport_target *t;
	int error;

	if (s->of[i])
		return 0;
	error = transport_at(i)->target_create(group, shares, first, &t, why, room);
	if (error)
		return error;
	error = watch(s, t);
	if (error) {
		snprintf(why, room, "cannot set up waiting: %s", errno_text(-error));
		t->ops->destroy(t);
		return error;
	}
	atomic_store_explicit(&s->of[i], t, memory_order_release);
	return 0;
}

/* Where it fails, what there is already stays, for the next who tries. */
int serve_transports_listen(struct serve_transports *s, struct target *target,
			    struct shares *shares, const struct nvme_uri *u, char *why, size_t room)
{
	const unsigned int i = transport_index(u->transport);
	struct transport_target *t;
	int error = create(s, i, &target->group, shares, NULL, why, room);

	t = s->of[i];
	for (struct serve_transports *o = s->next; o && !error; o = o->next)
		error = create(o, i, o->group, o->shares, t, why, room);
	if (error && error != -EOPNOTSUPP) /* else the first thread serves it alone */
		return error;
	return t->ops->listen(t, u->host[0] ? u->host : NULL, u->port, why, room);
}

static struct transport_target *side(const struct serve_transports *s, unsigned int i)
{
	return atomic_load_explicit(&s->of[i], memory_order_acquire);
}

bool serve_transports_process(struct serve_transports *s, uint64_t now_ns, bool sleepy)
{
	bool any = false;

	for (unsigned int i = 0; i < TRANSPORTS; i++) {
		struct transport_target *t = side(s, i);

		if (t)
			any |= t->ops->process(t, now_ns, sleepy);
	}
	return any;
}

uint64_t serve_transports_next_deadline(const struct serve_transports *s)
{
	uint64_t deadline = DEADLINE_NEVER;

	for (unsigned int i = 0; i < TRANSPORTS; i++) {
		struct transport_target *t = side(s, i);

		if (t)
			deadline = min_of(deadline, t->ops->next_deadline(t));
	}
	return deadline;
}

void serve_transports_shutdown(struct serve_transports *s)
{
	for (unsigned int i = 0; i < TRANSPORTS; i++) {
		struct transport_target *t = side(s, i);

		if (t)
			t->ops->shutdown(t);
	}
}

bool serve_transports_idle(const struct serve_transports *s)
{
	for (unsigned int i = 0; i < TRANSPORTS; i++) {
		struct transport_target *t = side(s, i);

		if (t && !t->ops->idle(t))
			return false;
	}
	return true;
}

void serve_transports_destroy(struct serve_transports *s)
{
	for (unsigned int i = 0; i < TRANSPORTS; i++) {
		struct transport_target *t = side(s, i);

		if (t)
			t->ops->destroy(t);
	}
}
