/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "mdns/publish.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <limits.h>
#include <net/if.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/errno_text.h"
#include "base/heap.h" /* DEADLINE_NEVER */
#include "base/time.h"
#include "mdns/avahi.h"

/* A bus that is not there, an address that no interface has: looked for again so often. */
#define AGAIN_NS (5 * NSEC_PER_SEC)
/* What the daemon refuses, and names after so many that were taken. */
#define LATER_NS    (60 * NSEC_PER_SEC)
#define RENAMES_MAX 15
/* A daemon that hangs does not hold up the end. */
#define END_NS	 (2 * NSEC_PER_SEC)
#define SAID_MAX 32

struct said {
	enum log_level level;
	char text[512];
};

struct item {
	struct mdns_publisher *of;
	struct mdns_listener what;
	bool used, wanted;
	char name[MDNS_LABEL_MAX + 1]; /* changes where it is taken */
	AvahiEntryGroup *group;	       /* NULL: it is not published */
	bool collided, failed;	       /* the group; to be done away with */
	unsigned renames;
	uint64_t again_ns;
	bool told; /* that it cannot be */
};

struct mdns_publisher {
	pthread_t thread;
	struct avahi avahi;
	AvahiSimplePoll *poll;
	int said_fd;
	_Atomic bool stop;

	pthread_mutex_t lock; /* of what follows, and taken for a moment only */
	struct mdns_listener wanted[MDNS_LISTENERS_MAX];
	size_t wanted_count;
	bool changed;
	struct said said[SAID_MAX];
	unsigned said_first, said_count;

	/* The thread's. */
	AvahiClient *client;
	bool runs, lost; /* the daemon has its own names; it is gone */
	bool told;	 /* that there is none */
	uint64_t again_ns;
	struct item items[2 * MDNS_LISTENERS_MAX]; /* those that go, beside those that come */
};

/* --- what there is to say --------------------------------------------------------------------- */

/* What nobody takes for long is old: the first is left out. */
static void say(struct mdns_publisher *p, enum log_level level, const char *fmt, ...)
	printf_like(3, 4);

static void say(struct mdns_publisher *p, enum log_level level, const char *fmt, ...)
{
	struct said *s;
	va_list ap;

	pthread_mutex_lock(&p->lock);
	if (p->said_count == SAID_MAX) {
		p->said_first = (p->said_first + 1) % SAID_MAX;
		p->said_count--;
	}
	s = &p->said[(p->said_first + p->said_count++) % SAID_MAX];
	s->level = level;
	va_start(ap, fmt);
	vsnprintf(s->text, sizeof(s->text), fmt, ap);
	va_end(ap);
	pthread_mutex_unlock(&p->lock);
	(void)!write(p->said_fd, &(uint64_t){1}, sizeof(uint64_t));
}

int mdns_publisher_fd(const struct mdns_publisher *p)
{
	return p->said_fd;
}

bool mdns_publisher_says(struct mdns_publisher *p, enum log_level *ret_level, char *text,
			 size_t room)
{
	uint64_t count;
	bool any;

	(void)!read(p->said_fd, &count, sizeof(count));
	pthread_mutex_lock(&p->lock);
	any = p->said_count > 0;
	if (any) {
		*ret_level = p->said[p->said_first].level;
		snprintf(text, room, "%s", p->said[p->said_first].text);
		p->said_first = (p->said_first + 1) % SAID_MAX;
		p->said_count--;
	}
	pthread_mutex_unlock(&p->lock);
	return any;
}

/* --- what is wanted --------------------------------------------------------------------------- */

static bool same(const struct mdns_listener *a, const struct mdns_listener *b)
{
	return a->kind == b->kind && a->family == b->family && a->port == b->port &&
	       strcmp(a->address, b->address) == 0 && strcmp(a->nqn, b->nqn) == 0;
}

void mdns_publish(struct mdns_publisher *p, const struct mdns_listener *v, size_t count)
{
	pthread_mutex_lock(&p->lock);
	p->wanted_count = min_of(count, (size_t)MDNS_LISTENERS_MAX);
	for (size_t i = 0; i < p->wanted_count; i++)
		p->wanted[i] = v[i];
	p->changed = true;
	pthread_mutex_unlock(&p->lock);
	p->avahi.simple_poll_wakeup(p->poll);
}

static void want(struct mdns_publisher *p, const struct mdns_listener *l)
{
	char host[HOST_NAME_MAX + 1] = "";
	struct item *place = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(p->items); i++) {
		if (p->items[i].used && same(&p->items[i].what, l)) {
			p->items[i].wanted = true;
			return;
		}
		if (!p->items[i].used)
			place = &p->items[i];
	}
	*place = (struct item){.of = p, .what = *l, .used = true, .wanted = true};
	(void)gethostname(host, sizeof(host) - 1);
	mdns_name(place->name, host, l->kind, l->address, l->port);
}

static void withdraw(struct item *it)
{
	if (it->group)
		it->of->avahi.entry_group_free(it->group);
	it->group = NULL;
	it->collided = it->failed = false;
}

static void take_wanted(struct mdns_publisher *p)
{
	pthread_mutex_lock(&p->lock);
	if (p->changed) {
		for (size_t i = 0; i < ARRAY_SIZE(p->items); i++)
			p->items[i].wanted = false;
		for (size_t i = 0; i < p->wanted_count; i++)
			want(p, &p->wanted[i]);
	}
	p->changed = false;
	pthread_mutex_unlock(&p->lock);
	for (size_t i = 0; i < ARRAY_SIZE(p->items); i++)
		if (p->items[i].used && !p->items[i].wanted) {
			withdraw(&p->items[i]);
			p->items[i].used = false;
		}
}

/* --- listeners -------------------------------------------------------------------------------- */

static void on_group(AvahiEntryGroup *group, AvahiEntryGroupState state, void *arg)
{
	struct item *it = arg;

	(void)group;
	switch (state) {
	case AVAHI_ENTRY_GROUP_ESTABLISHED:
		it->told = false;
		say(it->of, LOG_LEVEL_INFO, "published by mDNS as \"%s\", %s port %u", it->name,
		    mdns_type(it->what.kind), it->what.port);
		break;
	case AVAHI_ENTRY_GROUP_COLLISION:
		it->collided = true;
		break;
	case AVAHI_ENTRY_GROUP_FAILURE:
		it->failed = true;
		break;
	case AVAHI_ENTRY_GROUP_UNCOMMITED:
	case AVAHI_ENTRY_GROUP_REGISTERING:
		break;
	}
}

static void cannot(struct item *it, uint64_t now, uint64_t again, const char *why)
{
	withdraw(it);
	it->again_ns = now + again;
	if (!it->told)
		say(it->of, LOG_LEVEL_WARN,
		    "\"%s\" is not published by mDNS: %s; it is tried again", it->name, why);
	it->told = true;
}

/* Another has the name. Somebody who takes each that there could be does not keep anybody busy. */
static void rename_item(struct item *it, uint64_t now)
{
	const struct avahi *a = &it->of->avahi;
	char *other = a->alternative_service_name(it->name);

	withdraw(it);
	if (++it->renames > RENAMES_MAX)
		it->again_ns = now + LATER_NS;
	if (!other)
		return;
	say(it->of, LOG_LEVEL_WARN, "mDNS: \"%s\" is another's name on the network; trying \"%s\"",
	    it->name, other);
	snprintf(it->name, sizeof(it->name), "%s", other);
	a->free(other);
}

static bool has_address(const struct ifaddrs *i, int family, const void *address)
{
	const void *have;

	if (!i->ifa_addr || i->ifa_addr->sa_family != family)
		return false;
	have = family == AF_INET
		       ? (const void *)&((const struct sockaddr_in *)i->ifa_addr)->sin_addr
		       : (const void *)&((const struct sockaddr_in6 *)i->ifa_addr)->sin6_addr;
	return memcmp(have, address, family == AF_INET ? 4 : 16) == 0;
}

/* Its address without a zone, which is not the network's business. */
static void bare_address(const struct mdns_listener *l, char text[sizeof(l->address)])
{
	snprintf(text, sizeof(l->address), "%.*s", (int)strcspn(l->address, "%"), l->address);
}

/* Several interfaces may have the same link-local address. */
static bool is_zone(const char *interface, const char *zone)
{
	return strcmp(interface, zone) == 0 ||
	       (zone[strspn(zone, "0123456789")] == '\0' &&
		if_nametoindex(interface) == strtoul(zone, NULL, 10));
}

/* The interface that has an address; -errno. */
static int interface_of(const struct mdns_listener *l)
{
	const char *zone = strchr(l->address, '%');
	char text[sizeof(l->address)];
	uint8_t address[16];
	struct ifaddrs *all;
	int index = -ENODEV;

	bare_address(l, text);
	if (inet_pton(l->family, text, address) != 1)
		return -EINVAL;
	if (getifaddrs(&all) != 0)
		return -errno;
	for (const struct ifaddrs *i = all; i && index < 0; i = i->ifa_next)
		if (has_address(i, l->family, address) && (!zone || is_zone(i->ifa_name, zone + 1)))
			index = (int)if_nametoindex(i->ifa_name);
	freeifaddrs(all);
	return index ? index : -ENODEV;
}

static AvahiProtocol protocol_of(int family)
{
	return family == AF_INET    ? AVAHI_PROTO_INET
	       : family == AF_INET6 ? AVAHI_PROTO_INET6
				    : AVAHI_PROTO_UNSPEC;
}

/* A host's name for the one address; a number of the library's. */
static int add_address(struct item *it, int interface, char *host, size_t room)
{
	const struct avahi *a = &it->of->avahi;
	const char *domain = a->client_get_domain_name(it->of->client);
	char label[MDNS_LABEL_MAX + 1], text[sizeof(it->what.address)];
	AvahiAddress address;

	bare_address(&it->what, text);
	if (!domain)
		return a->client_errno(it->of->client);
	if (!a->address_parse(text, protocol_of(it->what.family), &address))
		return AVAHI_ERR_INVALID_ADDRESS;
	mdns_host_label(label, it->what.kind, text, it->what.port);
	snprintf(host, room, "%s.%s", label, domain);
	return a->entry_group_add_address(it->group, interface, AVAHI_PROTO_UNSPEC,
					  AVAHI_PUBLISH_NO_REVERSE, host, &address);
}

/* 0, or a number of the library's. */
static int add_entries(struct item *it, int interface)
{
	const struct avahi *a = &it->of->avahi;
	const struct mdns_listener *l = &it->what;
	char p[16], nqn[MDNS_NQN_MAX + 8], host[AVAHI_DOMAIN_NAME_MAX] = "";
	AvahiStringList *txt;
	int error = 0;

	snprintf(p, sizeof(p), "p=%s", mdns_word(l->kind));
	snprintf(nqn, sizeof(nqn), "nqn=%s", l->nqn);
	if (*l->address)
		error = add_address(it, interface, host, sizeof(host));
	txt = error ? NULL : a->string_list_new(p, nqn, NULL);
	if (!txt)
		return error ? error : AVAHI_ERR_NO_MEMORY;
	error = a->entry_group_add_service_strlst(
		it->group, interface, *l->address ? AVAHI_PROTO_UNSPEC : protocol_of(l->family), 0,
		it->name, mdns_type(l->kind), NULL, *host ? host : NULL, l->port, txt);
	a->string_list_free(txt);
	return error ? error : a->entry_group_commit(it->group);
}

static void publish_item(struct item *it, uint64_t now)
{
	struct mdns_publisher *p = it->of;
	int interface = *it->what.address ? interface_of(&it->what) : AVAHI_IF_UNSPEC, error;

	if (*it->what.address && interface < 0) {
		cannot(it, now, AGAIN_NS, "no interface has the address");
		return;
	}
	it->group = p->avahi.entry_group_new(p->client, on_group, it);
	error = it->group ? add_entries(it, interface) : p->avahi.client_errno(p->client);
	if (error == AVAHI_ERR_COLLISION)
		rename_item(it, now);
	else if (error)
		cannot(it, now, LATER_NS, p->avahi.strerror(error));
}

/* When it wants to be looked at again. */
static uint64_t settle(struct item *it, uint64_t now)
{
	if (it->collided)
		rename_item(it, now);
	else if (it->failed)
		cannot(it, now, LATER_NS, "avahi-daemon has failed to");
	if (!it->group && now >= it->again_ns)
		publish_item(it, now);
	return it->group ? DEADLINE_NEVER : max_of(it->again_ns, now);
}

/* --- the daemon ------------------------------------------------------------------------------- */

static void on_client(AvahiClient *client, AvahiClientState state, void *arg)
{
	struct mdns_publisher *p = arg;

	(void)client;
	p->runs = state == AVAHI_CLIENT_S_RUNNING;
	if (state == AVAHI_CLIENT_FAILURE)
		p->lost = true;
}

/* The groups of a client go with it. */
static void let_go(struct mdns_publisher *p)
{
	if (p->client)
		p->avahi.client_free(p->client);
	p->client = NULL;
	p->runs = p->lost = false;
	for (size_t i = 0; i < ARRAY_SIZE(p->items); i++) {
		p->items[i].group = NULL;
		p->items[i].collided = p->items[i].failed = false;
		p->items[i].again_ns = 0;
	}
}

static void tell_none(struct mdns_publisher *p, const char *why)
{
	if (!p->told)
		say(p, LOG_LEVEL_WARN,
		    "mDNS: avahi-daemon does not answer (%s); " AVAHI_START
		    ", and what is served is published then",
		    why);
	p->told = true;
}

static void look_for_daemon(struct mdns_publisher *p, uint64_t now)
{
	int error = 0;

	if (p->lost) {
		let_go(p);
		tell_none(p, p->avahi.strerror(AVAHI_ERR_DISCONNECTED));
	}
	if (p->client || now < p->again_ns)
		return;
	p->again_ns = now + AGAIN_NS;
	p->client = p->avahi.client_new(p->avahi.simple_poll_get(p->poll), AVAHI_CLIENT_NO_FAIL,
					on_client, p, &error);
	if (!p->client) {
		let_go(p);
		tell_none(p, p->avahi.strerror(error));
	} else if (!p->runs && !p->lost) {
		tell_none(p, p->avahi.strerror(AVAHI_ERR_NO_DAEMON));
	}
}

/* While the host's own name changes the daemon has nothing that refers to it. */
static uint64_t settle_all(struct mdns_publisher *p, uint64_t now)
{
	uint64_t deadline = DEADLINE_NEVER;

	for (size_t i = 0; i < ARRAY_SIZE(p->items); i++) {
		struct item *it = &p->items[i];

		if (!it->used)
			continue;
		if (!p->runs)
			withdraw(it);
		else
			deadline = min_of(deadline, settle(it, now));
	}
	return deadline;
}

static void *run(void *arg)
{
	struct mdns_publisher *p = arg;

	while (!p->stop) {
		uint64_t now = time_now_ns(), deadline;
		int ms = -1;

		take_wanted(p);
		look_for_daemon(p, now);
		if (p->runs)
			p->told = false;
		deadline = settle_all(p, now);
		if (!p->client || p->lost)
			deadline = p->lost ? now : p->again_ns;
		if (deadline != DEADLINE_NEVER)
			ms = deadline > now ? (int)((deadline - now) / NSEC_PER_MSEC) + 1 : 0;
		if (p->avahi.simple_poll_iterate(p->poll, ms) < 0)
			p->lost = true;
	}
	let_go(p);
	return NULL;
}

/* --- beginning and end ------------------------------------------------------------------------ */

static void free_publisher(struct mdns_publisher *p)
{
	if (p->poll)
		p->avahi.simple_poll_free(p->poll);
	if (p->said_fd >= 0)
		close(p->said_fd);
	free(p);
}

int mdns_publisher_create(struct mdns_publisher **ret, char *why, size_t room)
{
	struct mdns_publisher *p = calloc(1, sizeof(*p));
	int error;

	if (!p) {
		snprintf(why, room, "no memory");
		return -ENOMEM;
	}
	p->said_fd = -1;
	error = avahi_load(&p->avahi, why, room);
	if (error) {
		free_publisher(p);
		return error;
	}
	pthread_mutex_init(&p->lock, NULL);
	p->poll = p->avahi.simple_poll_new();
	p->said_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	error = !p->poll	 ? ENOMEM
		: p->said_fd < 0 ? errno
				 : pthread_create(&p->thread, NULL, run, p);
	if (error) {
		snprintf(why, room, "no thread can be had for it: %s", errno_text(error));
		free_publisher(p);
		return -error;
	}
	*ret = p;
	return 0;
}

void mdns_publisher_destroy(struct mdns_publisher *p)
{
	struct timespec end;

	if (!p)
		return;
	p->stop = true;
	p->avahi.simple_poll_wakeup(p->poll);
	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_sec += END_NS / NSEC_PER_SEC;
	if (pthread_timedjoin_np(p->thread, NULL, &end) == 0)
		free_publisher(p);
	else /* it waits for the daemon, and goes with the process */
		pthread_detach(p->thread);
}
