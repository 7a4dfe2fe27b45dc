/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "broker/port_space.h"

#include <assert.h>
#include <errno.h>

static bool is_wildcard(const struct port_bind *b)
{
	static const struct gid none;

	return gid_equal(&b->addr, &none);
}

static struct list *bucket_of(struct port_space *ps, uint16_t port)
{
	return &ps->bucket[port % PORT_SPACE_BUCKETS];
}

void port_space_init(struct port_space *ps)
{
	for (size_t i = 0; i < PORT_SPACE_BUCKETS; i++)
		list_init(&ps->bucket[i]);
}

static bool same_scope(uint32_t a, uint32_t b)
{
	return !a || !b || a == b;
}

static int conflict(const struct port_bind *a, const struct port_bind *b)
{
	if (a->port != b->port || (a->af_only && b->af_only && a->families != b->families))
		return 0;
	if (is_wildcard(a) || is_wildcard(b))
		return -EADDRNOTAVAIL;
	return gid_equal(&a->addr, &b->addr) && same_scope(a->scope, b->scope) ? -EADDRINUSE : 0;
}

static int may_hold(struct port_space *ps, const struct port_bind *b, bool reuse)
{
	list_for_each(other, bucket_of(ps, b->port), struct port_bind, list) {
		int rc = other == b || (reuse && other->reuse) ? 0 : conflict(b, other);

		if (rc)
			return rc;
	}
	return 0;
}

static bool is_free(struct port_space *ps, uint16_t port)
{
	list_for_each(other, bucket_of(ps, port), struct port_bind, list)
		if (other->port == port)
			return false;
	return true;
}

static uint16_t ephemeral_port(struct port_space *ps, uint32_t random)
{
	const uint32_t n = PORT_EPHEMERAL_LAST - PORT_EPHEMERAL_FIRST + 1;

	for (uint32_t i = 0; i < n; i++) {
		uint16_t port = (uint16_t)(PORT_EPHEMERAL_FIRST + (random % n + i) % n);

		if (is_free(ps, port))
			return port;
	}
	return 0;
}

int port_space_bind(struct port_space *ps, struct port_bind *b, uint32_t random)
{
	int rc;

	assert(b->families);
	b->listening = false;
	if (b->port == 0) {
		b->port = ephemeral_port(ps, random);
		if (b->port == 0)
			return -EADDRNOTAVAIL;
	} else {
		rc = may_hold(ps, b, b->reuse);
		if (rc)
			return rc;
	}
	list_push_tail(bucket_of(ps, b->port), &b->list);
	return 0;
}

int port_space_listen(struct port_space *ps, struct port_bind *b)
{
	int rc = b->reuse ? may_hold(ps, b, false) : 0;

	if (rc)
		return rc;
	b->listening = true;
	b->reuse = false;
	return 0;
}

struct port_bind *port_space_listener(struct port_space *ps, const struct gid *addr, uint16_t port)
{
	list_for_each(b, bucket_of(ps, port), struct port_bind, list)
		if (b->listening && b->port == port && port_bind_covers(b, addr, 0))
			return b;
	return NULL;
}

void port_space_release(struct port_bind *b)
{
	list_remove(&b->list);
}

bool port_bind_covers(const struct port_bind *b, const struct gid *addr, uint32_t scope)
{
	if (!(b->families & (gid_is_ipv4(addr) ? PORT_IPV4 : PORT_IPV6)))
		return false;
	return is_wildcard(b) || (gid_equal(&b->addr, addr) && same_scope(b->scope, scope));
}
