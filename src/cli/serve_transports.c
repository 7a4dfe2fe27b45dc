/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "cli/serve_transports.h"

#include <errno.h>
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

/* Has the loop wake up for one. */
static int watch(const struct serve_transports *s, const struct transport_target *t)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.fd = t->ops->fd(t)};

	if (ev.data.fd < 0 || epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, ev.data.fd, &ev) == 0)
		return 0;
	return -errno;
}

int serve_transports_listen(struct serve_transports *s, struct target *target,
			    struct shares *shares, const struct nvme_uri *u, char *why, size_t room)
{
	struct transport_target **t = &s->of[transport_index(u->transport)];
	int error = 0;

	if (!*t) {
		error = serve_transport_of(u)->target_create(&target->group, shares, NULL, t, why,
							     room);
		if (error)
			return error;
		error = watch(s, *t);
		if (error) {
			snprintf(why, room, "cannot set up waiting: %s", errno_text(-error));
			(*t)->ops->destroy(*t);
			*t = NULL;
			return error;
		}
	}
	return (*t)->ops->listen(*t, u->host[0] ? u->host : NULL, u->port, why, room);
}

bool serve_transports_process(struct serve_transports *s, uint64_t now_ns, bool sleepy)
{
	bool any = false;

	for (unsigned int i = 0; i < TRANSPORTS; i++)
		if (s->of[i])
			any |= s->of[i]->ops->process(s->of[i], now_ns, sleepy);
	return any;
}

uint64_t serve_transports_next_deadline(const struct serve_transports *s)
{
	uint64_t deadline = DEADLINE_NEVER;

	for (unsigned int i = 0; i < TRANSPORTS; i++)
		if (s->of[i])
			deadline = min_of(deadline, s->of[i]->ops->next_deadline(s->of[i]));
	return deadline;
}

void serve_transports_shutdown(struct serve_transports *s)
{
	for (unsigned int i = 0; i < TRANSPORTS; i++)
		if (s->of[i])
			s->of[i]->ops->shutdown(s->of[i]);
}

bool serve_transports_idle(const struct serve_transports *s)
{
	for (unsigned int i = 0; i < TRANSPORTS; i++)
		if (s->of[i] && !s->of[i]->ops->idle(s->of[i]))
			return false;
	return true;
}

void serve_transports_destroy(struct serve_transports *s)
{
	for (unsigned int i = 0; i < TRANSPORTS; i++)
		if (s->of[i])
			s->of[i]->ops->destroy(s->of[i]);
}
