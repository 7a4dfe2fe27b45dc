/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Where the target listens, and where it could. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/errno_text.h"
#include "base/log.h"
#include "nvmf/rdma/target.h"
#include "nvmf/rdma/weft_cm.h"
#include "nvmf/transport/address.h"

/* Who finds no listener's device in such a time leaves the others for later. */
#define SLOW_NS (100 * NSEC_PER_MSEC)

/* An address has RDMA if an identifier bound to it finds a device; at a loopback address, which is
 * bound to none by itself, when it listens. */
static bool has_rdma(const struct sockaddr *sa)
{
	struct rdma_cm_id *id;
	bool found;

	if (rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP) != 0)
		return false;
	found = rdma_bind_addr(id, (struct sockaddr *)sa) == 0 &&
		(id->verbs || (rdma_listen(id, 1) == 0 && id->verbs));
	rdma_destroy_id(id);
	return found;
}

/*
 * rdma_cm calls a port unavailable, not in use, when one of the two that want it wants it on
 * every address.
 */
static bool port_is_taken(int error, const struct sockaddr *sa, bool wildcard)
{
	struct sockaddr_storage any_port = {0};

	if (error != EADDRNOTAVAIL || wildcard)
		return error == EADDRNOTAVAIL;
	if (sa->sa_family == AF_INET6) {
		memcpy(&any_port, sa, sizeof(struct sockaddr_in6));
		((struct sockaddr_in6 *)&any_port)->sin6_port = 0;
	} else {
		memcpy(&any_port, sa, sizeof(struct sockaddr_in));
		((struct sockaddr_in *)&any_port)->sin_port = 0;
	}
	return has_rdma((const struct sockaddr *)&any_port);
}

static int listen_error(int error, const struct rdma_listener *l, char *why, size_t room)
{
	const char *at = l->port.wildcard ? "" : l->port.traddr, *port = l->port.trsvcid;
	bool v6 = strchr(at, ':');

	if (error == EADDRINUSE)
		snprintf(why, room,
			 "port %s%s%s is in use; another target is running there, or choose a port "
			 "with --listen rdma://%s%s%s:PORT",
			 port, *at ? " of " : "", at, v6 ? "[" : "", at, v6 ? "]" : "");
	else if (error == ENODEV || error == EADDRNOTAVAIL)
		snprintf(why, room,
			 "no RDMA device has the address %s; `weft devices` shows those that there "
			 "are",
			 l->port.traddr);
	else
		snprintf(why, room, "cannot listen on %s port %s: %s", l->port.traddr, port,
			 errno_text(error));
	return -error;
}

/* Closed ones stay until nothing that came by them is left. */
static void free_closed(struct rdma_target *rt)
{
	list_for_each(l, &rt->listeners, struct rdma_listener, link)
		if (!l->id && !l->lost && !l->port.connections) {
			list_remove(&l->link);
			free(l);
		}
}

/* It is not to be. */
static void drop(struct rdma_listener *l)
{
	rdma_destroy_id(l->id);
	l->id = NULL;
}

/* 0, or an errno; its device may be one that cannot be used. */
static int open_listener(struct rdma_listener *l)
{
	struct sockaddr *sa = (struct sockaddr *)&l->address;
	int error, only_v6 = 1;

	if (rdma_create_id(l->rt->events, &l->id, l, RDMA_PS_TCP) != 0)
		return errno;
	if (sa->sa_family == AF_INET6) /* the two families have listeners of their own */
		(void)rdma_set_option(l->id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &only_v6,
				      sizeof(only_v6));
	weft_cm_on_any_transport(l->id);
	if (rdma_bind_addr(l->id, sa) == 0 && rdma_listen(l->id, 128) == 0)
		return 0;
	error = errno;
	drop(l);
	return error;
}

static bool has_device(struct rdma_listener *l)
{
	return !l->id->verbs || rdma_dev_get(l->rt, l->id->verbs);
}

/* Of a new one, whose address is set. */
static int begin(struct rdma_listener *l, char *why, size_t room)
{
	const struct sockaddr *sa = (const struct sockaddr *)&l->address;
	int error = open_listener(l);

	if (error && port_is_taken(error, sa, l->port.wildcard))
		error = EADDRINUSE;
	if (error)
		return listen_error(error, l, why, room);
	if (!has_device(l)) {
		drop(l);
		snprintf(why, room, "the RDMA device of %s cannot be used", l->port.traddr);
		return -ENODEV;
	}
	return 0;
}

static int listen_on(void *ctx, const struct sockaddr *sa, bool wildcard, const char *port,
		     char *why, size_t room)
{
	struct rdma_target *rt = ctx;
	struct rdma_listener *l;
	int error;

	free_closed(rt);
	l = malloc(sizeof(*l));
	if (!l) {
		snprintf(why, room, "%s", errno_text(ENOMEM));
		return -ENOMEM;
	}
	*l = (struct rdma_listener){.rt = rt};
	address_port(&l->port, &rdma_target_ops, sa, wildcard, port);
	memcpy(&l->address, sa,
	       sa->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
					 : sizeof(struct sockaddr_in));
	error = begin(l, why, room);
	if (error) {
		free(l);
		return error;
	}
	list_push_tail(&rt->listeners, &l->link);
	target_port_add(rt->group->target, &l->port);
	return 0;
}

void rdma_listeners_close(struct rdma_target *rt)
{
	rt->relisten_ns = DEADLINE_NEVER;
	list_for_each(l, &rt->listeners, struct rdma_listener, link) {
		if (!l->id && !l->lost)
			continue;
		target_port_remove(rt->group->target, &l->port);
		if (l->id)
			drop(l);
		l->lost = false;
	}
}

void rdma_listeners_free(struct rdma_target *rt)
{
	list_for_each(l, &rt->listeners, struct rdma_listener, link) {
		if (l->id)
			drop(l);
		free(l);
	}
}

void rdma_unlisten(struct transport_target *t, struct target_port *port)
{
	struct rdma_target *rt = rdma_target_of(t);
	struct rdma_listener *l = container_of(port, struct rdma_listener, port);

	target_port_remove(rt->group->target, port);
	if (l->id)
		drop(l);
	l->lost = false;
	list_for_each(q, &rt->queues, struct rdma_queue, link)
		if (q->tq.port == port)
			rdma_queue_fail(q, "its port is closed");
}

bool rdma_listener_lost(struct rdma_target *rt, const struct rdma_cm_id *id)
{
	list_for_each(l, &rt->listeners, struct rdma_listener, link) {
		if (l->id != id)
			continue;
		drop(l);
		l->lost = true;
		rt->relisten_ns = rt->now_ns + DEAF_NS;
		return true;
	}
	return false;
}

/* Where there is no broker each may take long: see deaf.h. */
void rdma_listen_again(struct rdma_target *rt)
{
	const uint64_t begun_ns = time_now_ns();
	uint64_t now_ns;

	rt->relisten_ns = DEADLINE_NEVER;
	list_for_each(l, &rt->listeners, struct rdma_listener, link) {
		if (!l->lost)
			continue;
		if (open_listener(l) == 0 && has_device(l)) {
			l->lost = false;
			log_warn("nvmf", "RDMA hosts are heard again at %s port %s", l->port.traddr,
				 l->port.trsvcid);
			continue;
		}
		if (l->id)
			drop(l);
		now_ns = time_now_ns();
		rt->relisten_ns = now_ns + max_of(DEAF_NS, DEAF_REST * (now_ns - begun_ns));
		if (now_ns - begun_ns > SLOW_NS) {
			/* The others, when this has been rested from. */
			list_remove(&l->link);
			list_push_tail(&rt->listeners, &l->link);
			break;
		}
	}
}

/* Hosts may come to any device: better to know now than then that one cannot be used. */
static void open_all_devices(struct rdma_target *rt)
{
	struct ibv_context **list = rdma_get_devices(NULL);

	for (int i = 0; list && list[i]; i++)
		(void)rdma_dev_get(rt, list[i]);
	if (list)
		rdma_free_devices(list);
}

int rdma_listen_on(struct transport_target *t, const char *address, const char *port, char *why,
		   size_t room)
{
	struct rdma_target *rt = rdma_target_of(t);
	int error = address_listen(address, port, listen_on, rt, why, room);

	if (!error && (!address || address_wildcard(address) != AF_UNSPEC))
		open_all_devices(rt);
	return error;
}

int rdma_addresses(int family, void (*show)(void *ctx, const char *address, bool loopback),
		   void *ctx)
{
	return address_each(family, has_rdma, show, ctx);
}
