/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "cli/list_view.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/text.h"
#include "base/time.h"
#include "wire/cm_ip.h"

/* ---- processes --------------------------------------------------------------------------------
 */

bool view_is_connection(const struct broker_list_id *id)
{
	switch (id->state) {
	case BROKER_LIST_CONNECTING:
	case BROKER_LIST_REQUESTED:
	case BROKER_LIST_ACCEPTED:
	case BROKER_LIST_ESTABLISHED:
	case BROKER_LIST_DISCONNECTING:
	case BROKER_LIST_UNCONNECTED:
		return true;
	default:
		return false;
	}
}

/* All below are of one view, and qsort() takes no argument. */
static const struct broker_listing *sorted;
static const size_t *process_of; /* by a client's place in the listing */

static int by_pid(const void *a, const void *b)
{
	const struct broker_list_client *x = &sorted->clients[*(const size_t *)a];
	const struct broker_list_client *y = &sorted->clients[*(const size_t *)b];

	return x->pid != y->pid ? (x->pid > y->pid) - (x->pid < y->pid)
				: (x->nr > y->nr) - (x->nr < y->nr);
}

static int by_nr(const void *key, const void *of)
{
	const struct broker_list_client *c = of;
	uint64_t nr = *(const uint64_t *)key;

	return (nr > c->nr) - (nr < c->nr);
}

static size_t owner(const struct broker_list_id *id)
{
	const struct broker_list_client *c =
		bsearch(&id->client, sorted->clients, sorted->client_count, sizeof(*c), by_nr);

	return process_of[c - sorted->clients];
}

static int by_process(const void *a, const void *b)
{
	const struct broker_list_id *x = *(const struct broker_list_id *const *)a;
	const struct broker_list_id *y = *(const struct broker_list_id *const *)b;
	size_t of_x = owner(x), of_y = owner(y);
	bool listens = x->state == BROKER_LIST_LISTEN;

	if (of_x != of_y)
		return of_x < of_y ? -1 : 1;
	if (listens != (y->state == BROKER_LIST_LISTEN))
		return listens ? -1 : 1;
	return (x->id > y->id) - (x->id < y->id);
}

static void count_id(struct view *view, size_t i)
{
	const struct broker_list_id *id = view->ids[i];
	struct process *p = &view->v[owner(id)];

	if (!p->id_count++)
		p->ids = &view->ids[i];
	p->listeners += id->state == BROKER_LIST_LISTEN;
	p->connections += view_is_connection(id);
}

int view_arrange(struct view *view)
{
	const struct broker_listing *l = sorted = &view->l;
	size_t *order = calloc(l->client_count + 1, sizeof(*order));
	size_t *of = calloc(l->client_count + 1, sizeof(*of));

	view->v = calloc(l->client_count + 1, sizeof(*view->v));
	view->ids = calloc(l->id_count + 1, sizeof(*view->ids));
	if (!order || !of || !view->v || !view->ids) {
		free(order);
		free(of);
		return -ENOMEM;
	}
	for (size_t i = 0; i < l->client_count; i++)
		order[i] = i;
	qsort(order, l->client_count, sizeof(*order), by_pid);
	for (size_t i = 0; i < l->client_count; i++) {
		const struct broker_list_client *c = &l->clients[order[i]];
		struct process *p;

		if (!c->pid || !i || c->pid != l->clients[order[i - 1]].pid)
			view->count++;
		p = &view->v[view->count - 1];
		of[order[i]] = view->count - 1;
		p->pid = c->pid;
		p->uid = c->uid;
		p->age_ns = max_of(p->age_ns, c->age_ns);
		for (size_t k = 0; k < sizeof(p->slots); k++)
			p->slots[k] |= c->slots[k];
	}
	for (uint32_t i = 0; i < l->devices.count; i++) { /* the broker may be anybody's */
		text_tame(view->l.devices.dev[i].name);
		text_tame(view->l.devices.dev[i].ifname);
	}
	process_of = of;
	for (size_t i = 0; i < l->id_count; i++)
		view->ids[i] = &l->ids[i];
	qsort(view->ids, l->id_count, sizeof(*view->ids), by_process);
	for (size_t i = 0; i < l->id_count; i++)
		count_id(view, i);
	process_of = NULL;
	free(order);
	free(of);
	return 0;
}

void view_free(struct view *view)
{
	free(view->v);
	free(view->ids);
	broker_listing_free(&view->l);
}

/* ---- words ------------------------------------------------------------------------------------
 */

static const char *const states[BROKER_LIST_STATES] = {
	[BROKER_LIST_IDLE] = "IDLE",
	[BROKER_LIST_BOUND] = "BOUND",
	[BROKER_LIST_RESOLVING] = "RESOLVING",
	[BROKER_LIST_LISTEN] = "LISTEN",
	[BROKER_LIST_CONNECTING] = "CONNECTING",
	[BROKER_LIST_REQUESTED] = "REQUESTED",
	[BROKER_LIST_ACCEPTED] = "ACCEPTED",
	[BROKER_LIST_ESTABLISHED] = "ESTABLISHED",
	[BROKER_LIST_DISCONNECTING] = "DISCONNECTING",
	[BROKER_LIST_TIMEWAIT] = "TIMEWAIT",
	[BROKER_LIST_CLOSED] = "CLOSED",
	[BROKER_LIST_UNCONNECTED] = "UNCONNECTED",
	[BROKER_LIST_REMOVED] = "REMOVED",
};

const char *view_state(const struct broker_list_id *id)
{
	return states[id->state];
}

const char *view_service(const struct broker_list_id *id)
{
	switch (id->ps) {
	case CM_PS_TCP:
		return "tcp";
	case CM_PS_UDP:
		return "udp";
	case CM_PS_IB:
		return "ib";
	case CM_PS_IPOIB:
		return "ipoib";
	default:
		return "?";
	}
}

const struct broker_device *view_device(const struct broker_listing *l, uint32_t ifindex)
{
	for (uint32_t i = 0; ifindex && i < l->devices.count; i++)
		if (l->devices.dev[i].ifindex == ifindex)
			return &l->devices.dev[i];
	return NULL;
}

static bool is_any(const struct gid *g)
{
	static const struct gid none;

	return gid_equal(g, &none);
}

const char *view_address(char *buf, const struct broker_listing *l, const struct broker_list_id *id,
			 const struct gid *g)
{
	char text[INET6_ADDRSTRLEN];
	const struct broker_device *d = view_device(l, id->ifindex);
	bool link_local = g->raw[0] == 0xfe && (g->raw[1] & 0xc0) == 0x80;

	if (is_any(g))
		snprintf(buf, VIEW_ADDRESS_MAX, "%s",
			 id->families == BROKER_LIST_IPV4   ? "0.0.0.0"
			 : id->families == BROKER_LIST_IPV6 ? "::"
							    : "*");
	else if (gid_is_ipv4(g))
		snprintf(buf, VIEW_ADDRESS_MAX, "%s",
			 inet_ntop(AF_INET, g->raw + 12, text, sizeof(text)));
	else
		snprintf(buf, VIEW_ADDRESS_MAX, "%s%s%s",
			 inet_ntop(AF_INET6, g->raw, text, sizeof(text)),
			 link_local && d ? "%" : "", link_local && d ? d->ifname : "");
	return buf;
}

const char *view_place(char *buf, const struct broker_listing *l, const struct broker_list_id *id,
		       bool remote)
{
	const struct gid *g = remote ? &id->remote : &id->local;
	unsigned int port = remote ? id->remote_port : id->local_port;
	char address[VIEW_ADDRESS_MAX];
	const char *open = "", *close = "";

	if (!port) {
		snprintf(buf, VIEW_ADDRESS_MAX, "-");
		return buf;
	}
	view_address(address, l, id, g);
	if (strchr(address, ':')) {
		open = "[";
		close = "]";
	}
	snprintf(buf, VIEW_ADDRESS_MAX, "%s%.*s%s:%u%s%s", open, VIEW_ADDRESS_MAX - 24, address,
		 close, port, remote || id->ps == CM_PS_TCP ? "" : "/",
		 remote || id->ps == CM_PS_TCP ? "" : view_service(id));
	return buf;
}

const char *view_since(char buf[40], uint64_t age_ns, bool utc)
{
	struct timespec now;
	struct tm tm;
	time_t at;

	clock_gettime(CLOCK_REALTIME, &now);
	at = now.tv_sec - (time_t)(age_ns / NSEC_PER_SEC);
	if (utc ? !gmtime_r(&at, &tm) : !localtime_r(&at, &tm))
		tm = (struct tm){0};
	strftime(buf, 40, utc ? "%Y-%m-%dT%H:%M:%SZ" : "%Y-%m-%d %H:%M:%S", &tm);
	return buf;
}
