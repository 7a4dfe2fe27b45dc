/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "port/raw/own_addresses.h"

#include "base/uncancelled.h"
#include "port/hop/addresses.h"

void own_init(struct own_addresses *o, int fd)
{
	o->fd = fd;
	o->n = 0;
	o->read_at = 0;
}

static void add(void *ctx, const struct gid *g, uint32_t ifindex)
{
	struct own_addresses *o = ctx;

	if (o->n < OWN_MAX)
		o->v[o->n++] = (struct own_address){*g, ifindex};
}

static void read_all(struct own_addresses *o, uint64_t now)
{
	const int state = uncancelled_begin();

	o->n = 0;
	/* What it does not tell is looked for again soon. */
	(void)!addresses_each(o->fd, add, o);
	o->read_at = now;
	uncancelled_end(state);
}

static const struct own_address *find_on(const struct own_addresses *o, const struct gid *g,
					 uint32_t ifindex)
{
	for (size_t i = 0; i < o->n; i++)
		if (gid_equal(&o->v[i].gid, g) && (!ifindex || o->v[i].ifindex == ifindex))
			return &o->v[i];
	return NULL;
}

static bool find(const struct own_addresses *o, const struct gid *g, uint32_t *io_scope)
{
	const bool scoped = gid_is_link_local(g);
	const struct own_address *a = find_on(o, g, scoped ? *io_scope : 0);

	if (a && scoped)
		*io_scope = a->ifindex;
	return a;
}

bool own_has(const struct own_addresses *o, const struct gid *g, uint32_t ifindex)
{
	return find_on(o, g, ifindex);
}

static bool is_older_than(const struct own_addresses *o, uint64_t ns, uint64_t now)
{
	return !o->read_at || now >= o->read_at + ns;
}

bool own_find(struct own_addresses *o, const struct gid *g, uint32_t *io_scope, uint64_t now)
{
	if (is_older_than(o, OWN_KEEP_NS, now))
		read_all(o, now);
	if (find(o, g, io_scope))
		return true;
	if (!is_older_than(o, OWN_AGAIN_NS, now))
		return false;
	read_all(o, now);
	return find(o, g, io_scope);
}
