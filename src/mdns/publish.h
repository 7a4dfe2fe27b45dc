/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Has avahi-daemon publish what a target listens on, for as long as the publisher is there.
 *
 * Each call of the library waits for the daemon, which may hang: a thread of the publisher's makes
 * them all. It looks for a daemon for as long as there is none, and publishes anew to one that has
 * come back. What there is to say it leaves to its owner's loop.
 *
 * Each listener is a group of entries by itself, so that a name that others have costs that one
 * alone: it takes another, "NAME #2" and so on, and after some of these its time. One that listens
 * on an address alone is published on that address's interface, with a host's name that has no
 * other address; one on all addresses has the machine's own name.
 */
#ifndef WEFT_MDNS_PUBLISH_H
#define WEFT_MDNS_PUBLISH_H

#include "base/compiler.h"
#include "base/log.h"
#include "mdns/mdns.h"

struct mdns_listener {
	enum mdns_kind kind;
	int family;	  /* AF_INET, AF_INET6; AF_UNSPEC: both, on all addresses */
	char address[64]; /* as text; "": all of the family */
	uint16_t port;
	char nqn[MDNS_NQN_MAX + 1]; /* of the discovery subsystem */
};

#define MDNS_LISTENERS_MAX 64

struct mdns_publisher;

/* -errno, and why. */
int mdns_publisher_create(struct mdns_publisher **ret, char *why, size_t room) must_use;
/* From now on these, and no others; none: all are withdrawn. Does not wait. */
void mdns_publish(struct mdns_publisher *p, const struct mdns_listener *v, size_t count);
/* Readable when there is something to say. */
int mdns_publisher_fd(const struct mdns_publisher *p);
/* The next thing there is to say, where there is one. */
bool mdns_publisher_says(struct mdns_publisher *p, enum log_level *ret_level, char *text,
			 size_t room);
/* All are withdrawn: by a daemon that hangs, when it sees that the process has ended. NULL:
 * nothing. */
void mdns_publisher_destroy(struct mdns_publisher *p);

#endif
