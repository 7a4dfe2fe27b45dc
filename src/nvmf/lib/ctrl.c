/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* A controller while it is there; open.c has its coming and going. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/heap.h" /* DEADLINE_NEVER */
#include "base/time.h"
#include "nvmf/lib/internal.h"

int ctrl_fail(struct weft_ctrl *c, int error, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(c->error, sizeof(c->error), fmt, ap);
	va_end(ap);
	return error;
}

/* --- what the host says ----------------------------------------------------------------------- */

static enum weft_ctrl_state state_of(const struct weft_ctrl *c, enum host_state s)
{
	switch (s) {
	case HOST_LIVE:
		return WEFT_CTRL_LIVE;
	case HOST_SHUTDOWN:
	case HOST_SHUTDOWN_WAIT:
		return WEFT_CTRL_CLOSING;
	case HOST_CLOSED:
		return WEFT_CTRL_CLOSED;
	case HOST_FAILED:
		return WEFT_CTRL_FAILED;
	default:
		return c->host.was_live ? WEFT_CTRL_RECONNECTING : WEFT_CTRL_CONNECTING;
	}
}

bool ctrl_ended_in_disorder(const struct weft_ctrl *c)
{
	const struct host_failure *f = &c->host.failure;

	return c->host.broken_off ||
	       (f->kind != HOST_FAIL_NONE &&
		(f->state == HOST_SHUTDOWN || f->state == HOST_SHUTDOWN_WAIT));
}

void ctrl_changed(void *arg, enum host_state host_from, enum host_state host_to, uint64_t now_ns)
{
	struct weft_ctrl *c = arg;
	enum weft_ctrl_state from = c->state, to = state_of(c, host_to);

	(void)host_from;
	(void)now_ns;
	if (host_to == HOST_WAITING || host_to == HOST_FAILED ||
	    (host_to == HOST_CLOSED && ctrl_ended_in_disorder(c)))
		failure_text(c, c->error, sizeof(c->error));
	if (from == to)
		return;
	c->state = to;
	if (ctrl_ended(c))
		c->ended_from = from; /* told when its requests are over, too */
	else if (c->state_fn)
		c->state_fn(c->state_arg, c, from, to);
}

void ctrl_over(void *arg, uint64_t now_ns)
{
	struct weft_ctrl *c = arg;

	(void)now_ns;
	if (c->state_fn)
		c->state_fn(c->state_arg, c, c->ended_from, c->state);
}

void ctrl_event(void *arg, uint32_t result)
{
	struct weft_ctrl *c = arg;

	if (c->event_fn)
		c->event_fn(c->event_arg, c, result);
}

/* --- turns ------------------------------------------------------------------------------------ */

static void carry_out(struct weft_ctrl *c, uint64_t now_ns)
{
	unsigned int todo = c->todo;

	c->todo = 0;
	if (todo & TODO_SHUTDOWN) {
		host_shutdown(&c->host, now_ns);
		return;
	}
	if (todo & TODO_START)
		host_start(&c->host, now_ns);
	if (todo & TODO_RESET)
		host_reset(&c->host, now_ns);
	/* It may have become impossible meanwhile, of which the state has told. */
	if (todo & TODO_AUTHENTICATE && host_authenticate(&c->host, now_ns))
		return;
}

bool ctrl_turn(struct weft_ctrl *c, uint64_t now_ns, bool sleepy)
{
	bool any = c->todo;

	if (ctrl_ended(c))
		return false;
	if (c->todo)
		carry_out(c, now_ns);
	any |= c->transport->ops->process(c->transport, now_ns, sleepy);
	if (now_ns >= host_next_deadline(&c->host)) {
		host_tick(&c->host, now_ns);
		any = true;
	}
	return any;
}

uint64_t ctrl_deadline(const struct weft_ctrl *c)
{
	uint64_t host_ns, transport_ns;

	if (ctrl_ended(c))
		return DEADLINE_NEVER;
	if (c->todo)
		return 0;
	host_ns = host_next_deadline(&c->host);
	transport_ns = c->transport->ops->next_deadline(c->transport);
	return min_of(host_ns, transport_ns);
}

/* --- going ------------------------------------------------------------------------------------ */

int weft_ctrl_shutdown(struct weft_ctrl *c)
{
	if (!ctrl_ended(c))
		c->todo |= TODO_SHUTDOWN;
	return 0;
}

int weft_ctrl_reset(struct weft_ctrl *c)
{
	if (c->state != WEFT_CTRL_LIVE)
		return -ENOTCONN;
	c->todo |= TODO_RESET;
	return 0;
}

int weft_ctrl_authenticate(struct weft_ctrl *c)
{
	if (c->state != WEFT_CTRL_LIVE)
		return -ENOTCONN;
	if (!c->host.config.key.len)
		return -EINVAL;
	if (c->host.auth.again || c->todo & TODO_AUTHENTICATE)
		return -EALREADY;
	c->todo |= TODO_AUTHENTICATE;
	return 0;
}

void ctrl_abandon(struct weft_ctrl *c)
{
	uint64_t now_ns = time_now_ns();

	c->group->depth++;
	c->group->now_ns = now_ns;
	if (!ctrl_ended(c))
		host_shutdown(&c->host, now_ns);
	/* Nor is its answer waited for. */
	if (!ctrl_ended(c))
		host_queue_lost(&c->host, 0, NULL, now_ns);
	c->group->depth--;
}

/* --- what it is ------------------------------------------------------------------------------- */

enum weft_ctrl_state weft_ctrl_state(const struct weft_ctrl *c)
{
	return c->state;
}

const char *weft_ctrl_state_name(enum weft_ctrl_state state)
{
	static const char *const names[] = {
		[WEFT_CTRL_CONNECTING] = "connecting",
		[WEFT_CTRL_LIVE] = "live",
		[WEFT_CTRL_RECONNECTING] = "reconnecting",
		[WEFT_CTRL_CLOSING] = "closing",
		[WEFT_CTRL_CLOSED] = "closed",
		[WEFT_CTRL_FAILED] = "failed",
	};

	return (unsigned int)state < ARRAY_SIZE(names) ? names[state] : "unknown";
}

const char *weft_ctrl_error(const struct weft_ctrl *c)
{
	return c->error;
}

int weft_ctrl_info(const struct weft_ctrl *c, struct weft_ctrl_info *ret, size_t size)
{
	const struct host *h = &c->host;
	struct transport_host_info t;
	struct weft_ctrl_info i = {
		.nsid = c->uri.nsid,
		.failure = failure_kind(&h->failure),
		.failure_status = h->failure.status,
		.cntlid = h->cntlid,
		.io_queues = h->io_queues,
		/* Of all that are granted alike; the last time, where it is not live. */
		.queue_entries = h->io_queues && h->was_live ? h->queues[1].limit + 1u : 0,
		.cap = h->cap,
		.vs = h->vs,
		.transfer_max = h->transfer_max,
		.capsule_max = h->capsule_max,
		.reconnects = h->reconnects,
		.authenticated = h->authenticated,
		.volatile_cache = h->id.vwc & NVME_VWC_PRESENT,
		.oncs = h->id.oncs,
	};

	c->transport->ops->info(c->transport, &t);
	snprintf(i.transport, sizeof(i.transport), "%s", c->uri.transport);
	snprintf(i.address, sizeof(i.address), "%s", c->uri.host);
	snprintf(i.port, sizeof(i.port), "%s", c->uri.port);
	snprintf(i.nqn, sizeof(i.nqn), "%.223s", c->nqn);
	snprintf(i.hostnqn, sizeof(i.hostnqn), "%.223s", c->hostnqn);
	snprintf(i.device, sizeof(i.device), "%s", t.device ? t.device : "");
	snprintf(i.keys, sizeof(i.keys), "%s", t.device && t.keys ? t.keys : "");
	memset(ret, 0, size);
	memcpy(ret, &i, min_of(size, sizeof(i)));
	return 0;
}

struct weft_queue *weft_ctrl_admin_queue(struct weft_ctrl *c)
{
	return &c->queue[0];
}

struct weft_queue *weft_ctrl_io_queue(struct weft_ctrl *c, unsigned int index)
{
	return index < c->queue_count - 1 ? &c->queue[1 + index] : NULL;
}

int weft_ctrl_register(struct weft_ctrl *c, void *addr, size_t len)
{
	struct memory *m;
	int err;

	if (!addr || !len)
		return ctrl_fail(c, -EINVAL, "no memory to register");
	m = malloc(sizeof(*m));
	if (!m)
		return ctrl_fail(c, -ENOMEM, "out of memory");
	err = c->transport->ops->add_memory(c->transport, addr, len);
	if (err) {
		free(m);
		return ctrl_fail(c, err, "%s", c->transport->ops->error(c->transport));
	}
	*m = (struct memory){.addr = addr, .len = len};
	list_push_tail(&c->memory, &m->link);
	return 0;
}

int weft_ctrl_unregister(struct weft_ctrl *c, void *addr)
{
	list_for_each(m, &c->memory, struct memory, link) {
		int err;

		if (m->addr != addr)
			continue;
		if (host_uses(&c->host, addr, m->len))
			return -EBUSY;
		err = c->transport->ops->remove_memory(c->transport, addr);
		if (!err) {
			list_remove(&m->link);
			free(m);
		}
		return err;
	}
	return -ENOENT;
}

void memory_free(struct weft_ctrl *c)
{
	for (struct list *at; (at = list_pop_head(&c->memory));)
		free(list_entry(at, struct memory, link));
}
