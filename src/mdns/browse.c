/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "mdns/browse.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/time.h"
#include "mdns/avahi.h"

/* Who is not told how long: all is heard of by then, and what has been heard of is resolved. */
#define ENOUGH_NS (5 * NSEC_PER_SEC)
/* One family's address has come: so long for the other's. */
#define OTHER_NS (500 * NSEC_PER_MSEC)

/* Linux has it so in every network namespace. */
#define LOOPBACK_IFINDEX 1

struct seek {
	struct avahi avahi;
	AvahiSimplePoll *poll;
	AvahiClient *client;
	bool lost;
	int error;	     /* the library's, of what was lost */
	unsigned browsing;   /* types of which more may be heard any moment */
	uint64_t changed_ns; /* something was heard */
	struct service {
		struct seek *of;
		char name[AVAHI_LABEL_MAX]; /* as it came */
		int ifindex;
		bool resolved;
		struct mdns_txt txt;
		struct mdns_found found;
	} services[MDNS_FOUND_MAX];
	size_t count;
	unsigned left_out;
};

/* --- what is heard ---------------------------------------------------------------------------- */

static bool has(const struct mdns_found *f, const char *address)
{
	for (unsigned i = 0; i < f->address_count; i++)
		if (strcmp(f->addresses[i], address) == 0)
			return true;
	return false;
}

static void add_address(struct service *s, int ifindex, const AvahiAddress *a)
{
	union {
		struct sockaddr any;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
	} sa = {0};
	struct mdns_found *f = &s->found;
	char *text = f->addresses[f->address_count], name[IF_NAMESIZE];
	bool v6 = a->proto == AVAHI_PROTO_INET6;

	if (f->address_count == MDNS_ADDRESSES_MAX)
		return;
	sa.any.sa_family = v6 ? AF_INET6 : AF_INET;
	if (v6)
		memcpy(&sa.v6.sin6_addr, a->data.ipv6.address, 16);
	else
		sa.v4.sin_addr.s_addr = a->data.ipv4.address;
	if (!mdns_address_usable(&sa.any, f->local))
		return;
	inet_ntop(sa.any.sa_family, v6 ? (void *)&sa.v6.sin6_addr : (void *)&sa.v4.sin_addr, text,
		  INET6_ADDRSTRLEN);
	if (v6 && IN6_IS_ADDR_LINKLOCAL(&sa.v6.sin6_addr) &&
	    if_indextoname((unsigned)ifindex, name))
		sprintf(text + strlen(text), "%%%s", name);
	if (!has(f, text))
		f->address_count++;
}

static void on_resolved(AvahiServiceResolver *r, AvahiIfIndex interface, AvahiProtocol protocol,
			AvahiResolverEvent event, const char *name, const char *type,
			const char *domain, const char *host, const AvahiAddress *address,
			uint16_t port, AvahiStringList *txt, AvahiLookupResultFlags flags,
			void *arg)
{
	struct service *s = arg;
	const struct avahi *a = &s->of->avahi;

	(void)r;
	(void)protocol;
	(void)name;
	(void)type;
	(void)domain;
	(void)flags;
	if (event != AVAHI_RESOLVER_FOUND)
		return;
	s->of->changed_ns = time_now_ns();
	if (!s->resolved) {
		s->found.port = port;
		mdns_plain(s->found.host, sizeof(s->found.host), host);
		for (; txt; txt = a->string_list_get_next(txt))
			mdns_txt_take(&s->txt, a->string_list_get_text(txt),
				      a->string_list_get_size(txt));
	}
	s->resolved = true;
	if (port == s->found.port)
		add_address(s, interface, address);
}

static struct service *find(struct seek *k, int interface, const char *name, const char *type)
{
	for (size_t i = 0; i < k->count; i++)
		if (k->services[i].ifindex == interface && k->services[i].found.type == type &&
		    strcmp(k->services[i].name, name) == 0)
			return &k->services[i];
	return NULL;
}

/* It is heard of by each protocol that it is told by, and resolved once for each, by that: avahi's
 * hosts tell of IPv4's addresses by IPv4 alone. */
static void add_service(struct seek *k, int interface, const char *name, const char *type,
			const char *domain, bool local)
{
	static const AvahiProtocol families[] = {AVAHI_PROTO_INET, AVAHI_PROTO_INET6};
	struct service *s = find(k, interface, name, type);

	if (s) {
		s->found.local |= local;
		return;
	}
	if (k->count == MDNS_FOUND_MAX) {
		k->left_out++;
		return;
	}
	s = &k->services[k->count++];
	*s = (struct service){.of = k, .ifindex = interface};
	snprintf(s->name, sizeof(s->name), "%s", name);
	s->found.type = type;
	s->found.local = local;
	mdns_plain(s->found.name, sizeof(s->found.name), name);
	if (!if_indextoname((unsigned)interface, s->found.interface))
		s->found.interface[0] = '\0';
	for (unsigned i = 0; i < ARRAY_SIZE(families); i++)
		/* It goes with the client. Where there can be no more, it is not resolved. */
		(void)k->avahi.service_resolver_new(k->client, interface, families[i], name, type,
						    domain, families[i], 0, on_resolved, s);
}

static void on_browsed(AvahiServiceBrowser *b, AvahiIfIndex interface, AvahiProtocol protocol,
		       AvahiBrowserEvent event, const char *name, const char *type,
		       const char *domain, AvahiLookupResultFlags flags, void *arg)
{
	struct seek *k = arg;

	(void)b;
	(void)protocol;
	k->changed_ns = time_now_ns();
	switch (event) {
	case AVAHI_BROWSER_NEW:
		add_service(k, interface, name,
			    strcmp(type, MDNS_TYPE_UDP) == 0 ? MDNS_TYPE_UDP : MDNS_TYPE_TCP,
			    domain,
			    interface == LOOPBACK_IFINDEX || flags & AVAHI_LOOKUP_RESULT_LOCAL);
		break;
	case AVAHI_BROWSER_REMOVE: /* whether it is gone is seen when it is asked */
	case AVAHI_BROWSER_CACHE_EXHAUSTED:
		break;
	case AVAHI_BROWSER_ALL_FOR_NOW:
		k->browsing--;
		break;
	case AVAHI_BROWSER_FAILURE:
		k->browsing--;
		k->error = k->avahi.client_errno(k->client);
		k->lost = true;
		break;
	}
}

static void on_client(AvahiClient *client, AvahiClientState state, void *arg)
{
	struct seek *k = arg;

	if (state != AVAHI_CLIENT_FAILURE)
		return;
	k->error = k->avahi.client_errno(client);
	k->lost = true;
}

/* --- what comes of it ------------------------------------------------------------------------- */

static bool all_resolved(const struct seek *k)
{
	for (size_t i = 0; i < k->count; i++)
		if (!k->services[i].resolved)
			return false;
	return true;
}

/* When it has been long enough, as things are. */
static uint64_t end_of(const struct seek *k, uint64_t begun, unsigned seconds)
{
	if (seconds)
		return begun + seconds * NSEC_PER_SEC;
	if (k->browsing || !all_resolved(k))
		return begun + ENOUGH_NS;
	return k->count ? min_of(begun + ENOUGH_NS, k->changed_ns + OTHER_NS) : 0;
}

static void conclude(struct service *s)
{
	struct mdns_found *f = &s->found;

	memcpy(f->nqn, s->txt.nqn, sizeof(f->nqn));
	if (!s->resolved)
		f->fault = "nobody says where it is";
	else if (!mdns_kind_of(&s->txt, f->type, &f->kind))
		f->fault = "it is reached by what weft does not know";
	else if (s->txt.bad_nqn)
		f->fault = "its NQN is none";
	else if (!f->port)
		f->fault = "it has no port";
	else if (!f->address_count)
		f->fault = "it has no address that can be connected to";
}

static bool is_loopback(const char *address)
{
	return strncmp(address, "127.", 4) == 0 || strcmp(address, "::1") == 0;
}

/* Loopback's come last: another's is what others see. */
static void merge(struct mdns_found *f, const struct mdns_found *other)
{
	for (unsigned i = 0; i < other->address_count && f->address_count < MDNS_ADDRESSES_MAX;
	     i++) {
		if (has(f, other->addresses[i]))
			continue;
		if (f->address_count && is_loopback(f->addresses[0]) &&
		    !is_loopback(other->addresses[i])) {
			memmove(f->addresses[1], f->addresses[0],
				f->address_count * sizeof(f->addresses[0]));
			strcpy(f->addresses[0], other->addresses[i]);
			strcpy(f->interface, other->interface);
		} else {
			strcpy(f->addresses[f->address_count], other->addresses[i]);
		}
		f->address_count++;
	}
}

/* Whether b is what a is. */
static bool same(const struct mdns_found *a, const struct mdns_found *b)
{
	bool name = strcmp(a->name, b->name) == 0, shared = false;

	if (a->fault || b->fault)
		return a->type == b->type && name && a->local && b->local;
	if (a->kind != b->kind || a->port != b->port || strcmp(a->nqn, b->nqn) != 0)
		return false;
	for (unsigned i = 0; i < b->address_count; i++)
		shared |= has(a, b->addresses[i]);
	return shared || (a->local && b->local && name);
}

static int by_name(const void *a, const void *b)
{
	const struct mdns_found *x = a, *y = b;
	int order = strcmp(x->name, y->name);

	if (!order)
		order = strcmp(x->type, y->type);
	return order ? order : strcmp(x->interface, y->interface);
}

/* False: no memory. */
static bool take(struct seek *k, struct mdns_list *ret)
{
	struct mdns_found *v = calloc(k->count + 1, sizeof(*v));
	size_t n = 0, at;

	if (!v)
		return false;
	for (size_t i = 0; i < k->count; i++) {
		conclude(&k->services[i]);
		for (at = 0; at < n && !same(&v[at], &k->services[i].found);)
			at++;
		if (at == n) {
			v[n++] = k->services[i].found;
			continue;
		}
		if (v[at].fault && !k->services[i].found.fault)
			v[at] = k->services[i].found;
		else
			merge(&v[at], &k->services[i].found);
	}
	qsort(v, n, sizeof(*v), by_name);
	*ret = (struct mdns_list){.v = v, .count = n, .left_out = k->left_out};
	return true;
}

/* --- asking ----------------------------------------------------------------------------------- */

static bool begin(struct seek *k)
{
	static const char *const types[] = {MDNS_TYPE_TCP, MDNS_TYPE_UDP};

	k->poll = k->avahi.simple_poll_new();
	if (!k->poll) {
		k->error = AVAHI_ERR_NO_MEMORY;
		return false;
	}
	k->client =
		k->avahi.client_new(k->avahi.simple_poll_get(k->poll), 0, on_client, k, &k->error);
	if (!k->client || k->lost)
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		if (!k->avahi.service_browser_new(k->client, AVAHI_IF_UNSPEC, AVAHI_PROTO_UNSPEC,
						  types[i], NULL, 0, on_browsed, k)) {
			k->error = k->avahi.client_errno(k->client);
			return false;
		}
		k->browsing++;
	}
	return true;
}

static void listen_to(struct seek *k, unsigned seconds)
{
	const uint64_t begun = time_now_ns();

	while (!k->lost) {
		uint64_t now = time_now_ns(), end = end_of(k, begun, seconds);

		if (now >= end)
			return;
		if (k->avahi.simple_poll_iterate(k->poll, (int)((end - now) / NSEC_PER_MSEC) + 1) <
		    0)
			k->lost = true;
	}
}

static void end(struct seek *k)
{
	if (k->client)
		k->avahi.client_free(k->client);
	if (k->poll)
		k->avahi.simple_poll_free(k->poll);
	free(k);
}

int mdns_browse(unsigned seconds, struct mdns_list *ret, char *why, size_t room)
{
	struct seek *k = calloc(1, sizeof(*k));
	int error = k ? avahi_load(&k->avahi, why, room) : -ENOMEM;

	if (!k)
		snprintf(why, room, "no memory");
	if (error) {
		free(k);
		return error;
	}
	if (begin(k))
		listen_to(k, seconds);
	else
		k->lost = true;
	if (!k->lost && take(k, ret)) {
		end(k);
		return 0;
	}
	snprintf(why, room, "avahi-daemon does not answer (%s); " AVAHI_START,
		 k->avahi.strerror(k->error));
	end(k);
	return -ENOENT;
}
