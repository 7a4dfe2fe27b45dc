/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "broker/groups.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "port/udp/udp_socket.h"

struct decoy {
	struct list list;
	struct gid group;
	uint32_t users;
	int fd;
};

struct member {
	struct list list;
	struct gid group;
	uint32_t ifindex;
	unsigned slot;
	struct decoy *decoy; /* NULL: IPv6 needs none */
};

void groups_init(struct groups *g)
{
	list_init(&g->members);
	list_init(&g->decoys);
}

/* ---- decoys -------------------------------------------------------------------------------- */

static int decoy_get(struct groups *g, const struct gid *group, struct decoy **ret)
{
	struct decoy *d;

	list_for_each(old, &g->decoys, struct decoy, list)
		if (gid_equal(&old->group, group)) {
			old->users++;
			*ret = old;
			return 0;
		}
	d = malloc(sizeof(*d));
	if (!d)
		return -ENOMEM;
	*d = (struct decoy){.group = *group, .users = 1, .fd = udp_decoy_open(group)};
	if (d->fd < 0) {
		int rc = d->fd;

		free(d);
		return rc;
	}
	list_push_tail(&g->decoys, &d->list);
	*ret = d;
	return 0;
}

static void decoy_put(struct decoy *d)
{
	if (!d || --d->users)
		return;
	close(d->fd);
	list_remove(&d->list);
	free(d);
}

/* ---- members ------------------------------------------------------------------------------- */

int groups_join(struct groups *g, unsigned slot, int fd, const struct gid *group, uint32_t ifindex)
{
	struct member *m = malloc(sizeof(*m));
	struct decoy *decoy = NULL;
	int rc = m ? 0 : -ENOMEM;

	if (!rc && gid_is_ipv4(group))
		rc = decoy_get(g, group, &decoy);
	if (!rc)
		rc = udp_socket_group(fd, group, ifindex, true);
	if (rc) {
		decoy_put(decoy);
		free(m);
		return rc;
	}
	*m = (struct member){.group = *group, .ifindex = ifindex, .slot = slot, .decoy = decoy};
	list_push_tail(&g->members, &m->list);
	return 0;
}

static void leave(struct member *m, int fd)
{
	/* Of an interface that has gone the kernel has left it already. */
	(void)!udp_socket_group(fd, &m->group, m->ifindex, false);
	decoy_put(m->decoy);
	list_remove(&m->list);
	free(m);
}

int groups_leave(struct groups *g, unsigned slot, int fd, const struct gid *group, uint32_t ifindex)
{
	list_for_each(m, &g->members, struct member, list)
		if (m->slot == slot && m->ifindex == ifindex && gid_equal(&m->group, group)) {
			leave(m, fd);
			return 0;
		}
	return -EINVAL;
}

void groups_leave_all(struct groups *g, unsigned slot, int fd)
{
	list_for_each(m, &g->members, struct member, list)
		if (m->slot == slot)
			leave(m, fd);
}
