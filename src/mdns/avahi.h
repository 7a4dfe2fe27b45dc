/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * libavahi-client, loaded when it is first wanted: with it come D-Bus and a handful of libraries
 * more, of which no other command is to know. Its calls are the members of the table, by their
 * names without "avahi_". They wait for avahi-daemon's answers, for up to 25 seconds each.
 */
#ifndef WEFT_MDNS_AVAHI_H
#define WEFT_MDNS_AVAHI_H

#include <avahi-client/client.h>
#include <avahi-client/lookup.h>
#include <avahi-client/publish.h>
#include <avahi-common/alternative.h>
#include <avahi-common/domain.h>
#include <avahi-common/error.h>
#include <avahi-common/malloc.h>
#include <avahi-common/simple-watch.h>

#include "base/compiler.h"

#define AVAHI_CALLS(X)                    \
	X(simple_poll_new)                \
	X(simple_poll_free)               \
	X(simple_poll_get)                \
	X(simple_poll_iterate)            \
	X(simple_poll_wakeup)             \
	X(client_new)                     \
	X(client_free)                    \
	X(client_errno)                   \
	X(client_get_domain_name)         \
	X(entry_group_new)                \
	X(entry_group_free)               \
	X(entry_group_commit)             \
	X(entry_group_add_address)        \
	X(entry_group_add_service_strlst) \
	X(service_browser_new)            \
	X(service_browser_get_client)     \
	X(service_resolver_new)           \
	X(address_parse)                  \
	X(alternative_service_name)       \
	X(string_list_new)                \
	X(string_list_free)               \
	X(string_list_get_next)           \
	X(string_list_get_text)           \
	X(string_list_get_size)           \
	X(strerror)                       \
	X(free)

struct avahi {
#define MEMBER(name) __typeof__(&avahi_##name) name;
	AVAHI_CALLS(MEMBER)
#undef MEMBER
};

/* -ENOENT, -ENOSYS, and why. */
int avahi_load(struct avahi *ret, char *why, size_t room) must_use;

/* What is to be done where nothing answers by it; in a sentence behind what is missing. */
#define AVAHI_START "`systemctl start avahi-daemon` starts it"

#endif
